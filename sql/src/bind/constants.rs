//! Calls of constants, which are computed once, and comparisons with them.

use crate::functions::{Call, Environment, Volatility};
use crate::plan::expression::{Callee, Expr};
use crate::types::cast::{CastContext, cast};
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// A call. Of NULL for a strict function it is NULL, and the other arguments are not looked at. What is computed of
/// numbers and times that are constants is computed here.
pub(super) fn called(call: Call, arguments: Vec<Expr>, environment: &dyn Environment) -> Expr {
    let is_null = |argument: &Expr| matches!(argument, Expr::Constant(Datum::Null));
    if call.function.is_strict && arguments.iter().any(is_null) {
        return Expr::Constant(Datum::Null);
    }
    let is_plain = |sql_type: &SqlType| {
        use BaseType::{Bool, Date, Interval, Timestamp};
        let is_moment = matches!(sql_type.base, Bool | Date | Timestamp | Interval);
        !sql_type.is_array && (sql_type.base.is_number() || is_moment)
    };
    let constant = |argument: &Expr| match argument {
        Expr::Constant(value) => Some(value.clone()),
        _ => None,
    };
    let is_fixed = call.function.volatility == Volatility::Immutable
        && is_plain(&call.returns)
        && call.arguments.iter().all(is_plain);
    // An error is left to the moment when the value is asked for, which may never come.
    let value = match is_fixed.then(|| arguments.iter().map(constant).collect::<Option<Vec<Datum>>>()).flatten() {
        Some(values) => call.run(environment, &values).ok(),
        None => None,
    };
    value.map_or_else(|| Expr::Call { call: Callee(call), arguments }, Expr::Constant)
}

/// A day that is compared with the beginning of another is compared as a day, without a conversion of each row.
pub(super) fn as_days(sides: [Expr; 2], environment: &dyn Environment) -> [Expr; 2] {
    let (day, moment) = (SqlType::from(BaseType::Date), SqlType::from(BaseType::Timestamp));
    let day_of = |value: &Datum| {
        let convert = |value: Datum, from, to| cast(value, from, to, CastContext::Explicit, environment).ok();
        let of_day = convert(value.clone(), moment, day)?;
        (convert(of_day.clone(), day, moment)? == *value).then_some(Expr::Constant(of_day))
    };
    match sides {
        [Expr::Cast { value, from, to, .. }, Expr::Constant(at)]
            if (from, to) == (day, moment)
                && let Some(of_day) = day_of(&at) =>
        {
            [*value, of_day]
        }
        [Expr::Constant(at), Expr::Cast { value, from, to, .. }]
            if (from, to) == (day, moment)
                && let Some(of_day) = day_of(&at) =>
        {
            [of_day, *value]
        }
        sides => sides,
    }
}
