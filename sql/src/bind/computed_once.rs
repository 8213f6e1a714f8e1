//! Expressions that compare one value more than once: CASE, NULLIF and BETWEEN.

use sqlparser::ast::{self, FunctionArg};

use crate::bind::call::without_row_functions;
use crate::bind::expression::truth;
use crate::bind::{Binder, Bound};
use crate::error::Result;
use crate::functions::resolve_operator;
use crate::plan::expression::{Comparison, Expr};
use crate::types::SqlType;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;

/// Parts of a value of BETWEEN above which it is computed once.
const BETWEEN_PARTS_MAX: usize = 32;

/// `CASE`, whose operand, if there is one, is computed once.
pub(super) fn case(
    binder: &mut Binder<'_>,
    operand: Option<&ast::Expr>,
    conditions: &[ast::CaseWhen],
    otherwise: Option<&ast::Expr>,
) -> Result<Bound> {
    without_row_functions(binder, "set-returning functions are not allowed in CASE", |binder| match operand {
        Some(operand) => {
            let operand = binder.expr(operand)?;
            once(binder, operand, |binder, operand| case_of(binder, Some(&operand), conditions, otherwise))
        }
        None => case_of(binder, None, conditions, otherwise),
    })
}

fn case_of(
    binder: &mut Binder<'_>,
    operand: Option<&Bound>,
    conditions: &[ast::CaseWhen],
    otherwise: Option<&ast::Expr>,
) -> Result<Bound> {
    // The type is found from ELSE on.
    let (mut tests, mut results) = (Vec::new(), Vec::new());
    results.push(match otherwise {
        Some(otherwise) => binder.expr(otherwise)?,
        None => Bound { expr: Expr::Constant(Datum::Null), sql_type: SqlType::UNKNOWN },
    });
    for when in conditions {
        let condition = binder.expr(&when.condition)?;
        tests.push(match operand {
            Some(operand) => binder.compare(Comparison::Equal, operand.clone(), condition)?.expr,
            None => binder.condition(condition, "CASE/WHEN")?,
        });
        results.push(binder.expr(&when.result)?);
    }
    let (results, sql_type) = binder.in_common(results, "CASE")?;
    let mut results = results.into_iter();
    let otherwise = Box::new(results.next().unwrap_or(Expr::Constant(Datum::Null)));
    let branches = tests.into_iter().zip(results).collect();
    Ok(Bound { expr: Expr::Case { branches, otherwise }, sql_type })
}

/// `NULLIF(a, b)`: NULL if `a` equals `b`, else `a`.
pub(super) fn null_if(binder: &mut Binder<'_>, a: Bound, b: &FunctionArg) -> Result<Bound> {
    once(binder, a, |binder, a| {
        let Some(b) = binder.arguments(std::slice::from_ref(b))?.pop() else { return Ok(a) };
        // The first value has the type in which the operator takes it.
        let taken = resolve_operator("=", Some(a.sql_type), b.sql_type)?.arguments[0];
        let is_same = binder.compare(Comparison::Equal, a.clone(), b)?;
        let a = match a.sql_type.bare() == taken.bare() {
            true => binder.text_if_unknown(a)?,
            false => Bound { expr: binder.coerce(a, taken, CastContext::Implicit)?, sql_type: taken },
        };
        let null = Expr::Constant(Datum::Null);
        let expr = Expr::Case { branches: vec![(is_same.expr, null)], otherwise: Box::new(a.expr) };
        Ok(Bound { expr, sql_type: a.sql_type })
    })
}

/// `value BETWEEN low AND high`: two conditions, which find a range of an index.
pub(super) fn between(
    binder: &mut Binder<'_>,
    value: &ast::Expr,
    is_negated: bool,
    low: &ast::Expr,
    high: &ast::Expr,
) -> Result<Bound> {
    let value = binder.expr(value)?;
    let bind = |binder: &mut Binder<'_>, value: Bound| {
        let (low, high) = (binder.expr(low)?, binder.expr(high)?);
        let at_least = binder.compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let at_most = binder.compare(Comparison::LessOrEqual, value, high)?;
        let within = Expr::And(vec![at_least.expr, at_most.expr]);
        Ok(truth(if is_negated { Expr::Not(Box::new(within)) } else { within }))
    };
    if value.expr.has_more_parts(BETWEEN_PARTS_MAX) { once(binder, value, bind) } else { bind(binder, value) }
}

/// Binds an expression in which a value stands more than once, so that it is computed once all the same.
fn once<'b>(
    binder: &mut Binder<'b>,
    value: Bound,
    bind: impl FnOnce(&mut Binder<'b>, Bound) -> Result<Bound>,
) -> Result<Bound> {
    // Rows are compared by their values.
    if value.expr.is_read() || matches!(value.expr, Expr::Record(..)) {
        return bind(binder, value);
    }
    let place = binder.known;
    binder.known += 1;
    let within = bind(binder, Bound { expr: Expr::Known(place), sql_type: value.sql_type });
    binder.known -= 1;
    let Bound { expr: within, sql_type } = within?;
    Ok(Bound { expr: Expr::Once { place, value: Box::new(value.expr), within: Box::new(within) }, sql_type })
}
