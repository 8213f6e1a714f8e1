//! Values of all types as JSON: `to_json` and its like.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::types::date_style::DateStyle;
use crate::types::datum::{Array, Datum, Row};
use crate::types::{BaseType, SqlType, json, moment, text};

/// Appends a value as JSON.
///
/// # Errors
/// Those of its text.
pub(crate) fn write(value: &Datum, sql_type: SqlType, environment: &dyn Environment, out: &mut String) -> Result<()> {
    match value {
        Datum::Null => out.push_str("null"),
        Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Datum::Int(_) if sql_type.base.is_number() => text::write(value, sql_type, environment, out)?,
        Datum::Numeric(number) if number.is_finite() => text::write(value, sql_type, environment, out)?,
        Datum::Float(number) if number.is_finite() && sql_type.base.is_number() => {
            text::write(value, sql_type, environment, out)?
        }
        Datum::Json(text) if sql_type.base == BaseType::Jsonb => out.push_str(&json::shown(text)?),
        Datum::Json(text) => out.push_str(text),
        Datum::Array(array) => write_array(array, (&array.dimensions, &array.elements), ",", environment, out)?,
        Datum::Record(fields) => write_row(fields, ",", environment, out)?,
        Datum::Date(date) => {
            out.push('"');
            moment::write_date(*date, DateStyle::JSON, out);
            out.push('"');
        }
        Datum::Timestamp(instant) => {
            let zone = (sql_type.base == BaseType::TimestampTz).then(|| environment.time_zone());
            out.push('"');
            moment::write_timestamp(*instant, zone, DateStyle::JSON, out);
            out.push('"');
        }
        value => {
            let written = text::to_string(value, sql_type, environment)?;
            json::write_string(&written, out);
        }
    }
    Ok(())
}

/// Appends a value, with a line for each one in it.
///
/// # Errors
/// Those of writing a value.
pub(crate) fn write_in_lines(
    value: &Datum,
    sql_type: SqlType,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    match value {
        Datum::Array(array) => write_array(array, (&array.dimensions, &array.elements), ",\n ", environment, out),
        Datum::Record(fields) => write_row(fields, ",\n ", environment, out),
        value => write(value, sql_type, environment, out),
    }
}

fn write_row(fields: &Row, between: &str, environment: &dyn Environment, out: &mut String) -> Result<()> {
    out.push('{');
    for (index, (sql_type, value)) in fields.iter().enumerate() {
        out.push_str(if index > 0 { between } else { "" });
        match fields.names.as_ref().and_then(|names| names.get(index)) {
            Some(name) => json::write_string(name, out),
            None => json::write_string(&format!("f{}", index + 1), out),
        }
        out.push(':');
        write(value, *sql_type, environment, out)?;
    }
    out.push('}');
    Ok(())
}

fn write_array(
    array: &Array,
    (dimensions, elements): (&[usize], &[Datum]),
    between: &str,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    out.push('[');
    let inner = dimensions.get(1..).unwrap_or_default();
    let size = inner.iter().product::<usize>().max(1);
    for (index, part) in elements.chunks(size).enumerate() {
        out.push_str(if index > 0 { between } else { "" });
        match (inner, part) {
            ([], [value]) => write(value, array.element.into(), environment, out)?,
            _ => write_array(array, (inner, part), ",", environment, out)?,
        }
    }
    out.push(']');
    Ok(())
}

/// Appends the name of a member: a value that is neither NULL nor nested.
///
/// # Errors
/// 22023 of others.
pub(crate) fn write_name(
    value: &Datum,
    sql_type: SqlType,
    place: usize,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    let refuse = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match value {
        Datum::Null => refuse(format!("argument {place} cannot be null")),
        Datum::Json(_) | Datum::Array(_) | Datum::Record(_) => {
            refuse("key value must be scalar, not array, composite, or json".to_owned())
        }
        Datum::Bool(value) => {
            json::write_string(&value.to_string(), out);
            Ok(())
        }
        Datum::Date(_) | Datum::Timestamp(_) => write(value, sql_type, environment, out),
        value => {
            let written = text::to_string(value, sql_type, environment)?;
            json::write_string(&written, out);
            Ok(())
        }
    }
}
