//! Errors that several files of types make: what PostgreSQL says in the same place.

use crate::error::{SqlError, SqlState};
pub(crate) use crate::numeric::division_by_zero;
use crate::types::SqlType;

/// A text that is no value of a type.
#[cold]
pub(crate) fn invalid_text(sql_type: impl Into<SqlType>, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {}: \"{text}\"", sql_type.into().bare());
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

/// A text with a zero in it.
#[cold]
pub(crate) fn zero_in_text() -> SqlError {
    let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

/// A text that is no value of a type of dates and times.
#[cold]
pub(crate) fn invalid_moment(type_name: &str, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

/// A text that writes a number which its type cannot hold.
#[cold]
pub(crate) fn text_out_of_range(sql_type: impl Into<SqlType>, text: &str) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {}", sql_type.into().bare());
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// A number that a type cannot hold.
#[cold]
pub(crate) fn out_of_range(sql_type: impl Into<SqlType>) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", sql_type.into().bare()))
}

/// A number of floating point that became infinite.
#[cold]
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// A date or time outside of what can be kept.
#[cold]
pub(crate) fn moment_out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{type_name} out of range"))
}

/// A value of another kind than its type has: a defect of the caller.
#[cold]
pub(crate) fn mismatch(sql_type: impl Into<SqlType>) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("a value is not of type {}", sql_type.into()))
}
