//! Values as clients write and read them. The formats are those of `quipu_sql::types`; here is what stands in for them.

use quipu_sql::functions::Environment;
use quipu_sql::{BaseType, Datum, Result, SqlError, SqlState, SqlType};

/// Writes a value that is not NULL as text.
pub(super) fn write_text(datum: &Datum, _sql_type: SqlType, _environment: &dyn Environment, text: &mut String) {
    use std::fmt::Write;
    // Writing to a string does not fail.
    let _ = match datum {
        Datum::Bool(value) => write!(text, "{}", if *value { "t" } else { "f" }),
        Datum::Int(value) => write!(text, "{value}"),
        Datum::Float(value) => write!(text, "{value}"),
        Datum::Text(value) | Datum::Json(value) => write!(text, "{value}"),
        other => write!(text, "{other:?}"),
    };
}

/// Writes a value that is not NULL in its binary form.
pub(super) fn write_binary(datum: &Datum, sql_type: SqlType, bytes: &mut Vec<u8>) -> Result<()> {
    match (datum, sql_type.base) {
        (Datum::Bool(value), _) => bytes.push(u8::from(*value)),
        (Datum::Int(value), BaseType::Int2) => bytes.extend_from_slice(&(*value as i16).to_be_bytes()),
        (Datum::Int(value), BaseType::Int8) => bytes.extend_from_slice(&value.to_be_bytes()),
        (Datum::Int(value), _) => bytes.extend_from_slice(&(*value as i32).to_be_bytes()),
        (Datum::Float(value), BaseType::Float4) => bytes.extend_from_slice(&(*value as f32).to_be_bytes()),
        (Datum::Float(value), _) => bytes.extend_from_slice(&value.to_be_bytes()),
        (Datum::Text(value), _) => bytes.extend_from_slice(value.as_bytes()),
        _ => return Err(unsupported(sql_type)),
    }
    Ok(())
}

/// Reads a value from text.
pub(super) fn read_text(text: &str, sql_type: SqlType, _environment: &dyn Environment) -> Result<Datum> {
    let malformed = || {
        let what = format!("invalid input syntax for type {sql_type}: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    };
    Ok(match sql_type.base {
        BaseType::Bool => match text {
            "t" | "true" | "1" => Datum::Bool(true),
            "f" | "false" | "0" => Datum::Bool(false),
            _ => return Err(malformed()),
        },
        BaseType::Int2 | BaseType::Int4 | BaseType::Int8 => Datum::Int(text.parse().map_err(|_| malformed())?),
        BaseType::Float4 | BaseType::Float8 => Datum::Float(text.parse().map_err(|_| malformed())?),
        base if base.is_text() => Datum::text(text),
        _ => return Err(unsupported(sql_type)),
    })
}

/// Reads a value from its binary form.
pub(super) fn read_binary(bytes: &[u8], sql_type: SqlType) -> Result<Datum> {
    let malformed =
        || SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("incorrect binary data for type {sql_type}"));
    let integer = |bytes: &[u8]| match *bytes {
        [a, b] => Ok(i64::from(i16::from_be_bytes([a, b]))),
        [a, b, c, d] => Ok(i64::from(i32::from_be_bytes([a, b, c, d]))),
        _ => bytes.try_into().map(i64::from_be_bytes).map_err(|_| malformed()),
    };
    Ok(match sql_type.base {
        BaseType::Bool => Datum::Bool(bytes == [1]),
        BaseType::Int2 | BaseType::Int4 | BaseType::Int8 => Datum::Int(integer(bytes)?),
        BaseType::Float8 => Datum::Float(f64::from_be_bytes(bytes.try_into().map_err(|_| malformed())?)),
        base if base.is_text() => Datum::text(text_of(bytes)?),
        _ => return Err(unsupported(sql_type)),
    })
}

/// Bytes of a parameter as text.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(|| {
        let text = "invalid byte sequence for encoding \"UTF8\" in a parameter";
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, text)
    })
}

fn unsupported(sql_type: SqlType) -> SqlError {
    SqlError::unsupported(format!("values of type {sql_type} are not sent yet"), "Cast it to text.")
}
