//! Functions of enums, which ask the type of their arguments, whatever these are.

use std::sync::Arc;

use crate::error::Result;
use crate::functions::definition::{Definitions, typed};
use crate::types::datum::{Array, Datum};
use crate::types::user::UserType;
use crate::types::{BaseType, SqlType};

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("enum_first(anyenum) anyenum", |_, v| Ok(values(v)?.first().cloned().unwrap_or(Datum::Null)));
    definitions.add("enum_last(anyenum) anyenum", |_, v| Ok(values(v)?.last().cloned().unwrap_or(Datum::Null)));
    definitions.add("enum_range(anyenum) anyarray", |_, v| range(v));
    definitions.add("enum_range(anyenum,anyenum) anyarray", |_, v| range(v));
    for name in ["enum_first", "enum_last", "enum_range"] {
        definitions.functions.iter_mut().filter(|function| function.name == name).for_each(|function| {
            function.typed().lenient().stable();
        });
    }
}

/// The enum of the first argument.
fn of_argument(fields: &[(SqlType, Datum)]) -> Option<UserType> {
    match fields.first()?.0.base {
        BaseType::Enum(user) => Some(user),
        _ => None,
    }
}

/// All values of an enum, in their order.
fn values(arguments: &[Datum]) -> Result<Vec<Datum>> {
    let labels = of_argument(typed(arguments)?).map_or(&[][..], |user| user.labels());
    Ok(labels.iter().map(|label| Datum::Float(label.order)).collect())
}

/// The values of an enum from one on and up to another; NULL stands for the first and the last one.
fn range(arguments: &[Datum]) -> Result<Datum> {
    let fields = typed(arguments)?;
    let Some(user) = of_argument(fields) else { return Ok(Datum::Null) };
    let mut found = values(arguments)?;
    if let [(_, first), (_, last)] = fields {
        found.retain(|value| (first.is_null() || value >= first) && (last.is_null() || value <= last));
    }
    Ok(Datum::Array(Arc::new(Array::new(BaseType::Enum(user), found))))
}
