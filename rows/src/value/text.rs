//! Values as text, and back: as they stand in CSV files, in shells and in messages.
//!
//! What a type allows reads back as the same value after it is written. NULL has no text: callers know by their own
//! mark.

use std::borrow::Cow;

use uuid::Uuid;

use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::time::{Date, Timestamp};
use crate::value::{json, number};

impl DataType {
    /// The value of this type that `text` stands for. Exact: a text that a value of the type would not keep is refused,
    /// but for floats, which are rounded to the nearest.
    ///
    /// # Errors
    /// What is wrong with the text, for a message that names the column before it.
    pub fn parse_text(self, text: &str) -> Result<Value<'_>, String> {
        let wrong = || format!("{text:?} is not of type {self}");
        let value = match self {
            // As Rust, Python and SQL write them.
            DataType::Bool => match text {
                "true" | "True" | "TRUE" => Value::Bool(true),
                "false" | "False" | "FALSE" => Value::Bool(false),
                _ => return Err(wrong()),
            },
            DataType::F64 => Value::Float(parse_float(text).ok_or_else(wrong)?),
            // Read as what it is, not by way of double precision, which would round twice.
            DataType::F32 => {
                let finite = parse_float(text).ok_or_else(wrong)?.is_finite();
                let single: f32 = text.parse().map_err(|_| wrong())?;
                if finite && single.is_infinite() {
                    return Err(format!("{text} is out of the range of f32"));
                }
                Value::Float(single.into())
            }
            DataType::Decimal { .. } => return self.accept(Value::Decimal(Decimal::parse(text).ok_or_else(wrong)?)),
            DataType::Numeric => Value::Numeric(number::canonical(text).ok_or_else(wrong)?),
            DataType::Text(_) => Value::from(text),
            DataType::Bytes | DataType::KeyedBytes => {
                let bytes = parse_bytes(text).ok_or_else(|| {
                    format!("{text:?} is not of type bytes: write \\x and then two hexadecimal digits for each")
                })?;
                return self.accept(Value::from(bytes));
            }
            DataType::Date => Value::Date(Date::parse(text).ok_or_else(|| format!("{} as 2013-07-04", wrong()))?),
            DataType::Timestamp => {
                let moment = Timestamp::parse(text);
                Value::Timestamp(moment.ok_or_else(|| format!("{} as 2013-07-04T05:15:00Z", wrong()))?)
            }
            DataType::Uuid => Value::Uuid(Uuid::try_parse(text).map_err(|_| wrong())?),
            DataType::Json => {
                json::check(text)?;
                Value::Json(text.into())
            }
            _ => {
                let int = parse_int(text).ok_or_else(wrong)?;
                return self.accept(Value::Int(int));
            }
        };
        Ok(value)
    }
}

/// An integer; of a text like `9e99999999` nothing is computed.
fn parse_int(text: &str) -> Option<i128> {
    text.parse().ok()
}

/// A float by Rust's grammar, whose `inf` and `NaN` are the only words; a number too large for a float is refused.
fn parse_float(text: &str) -> Option<f64> {
    let float: f64 = text.parse().ok()?;
    let is_word = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_alphabetic());
    (float.is_finite() || is_word).then_some(float)
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

/// A value as text; NULL is the empty text. A float of single precision shows as one only by
/// [`DataType::to_text`](DataType::to_text).
pub fn text_of<'v>(value: &'v Value<'_>) -> Cow<'v, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        Value::Int(value) => Cow::Owned(value.to_string()),
        // The shortest text that reads back as the same float, and never as an integer: `2.0`, `1e300`.
        Value::Float(value) => Cow::Owned(format!("{value:?}")),
        Value::Decimal(value) => Cow::Owned(value.to_string()),
        Value::Text(text) | Value::Numeric(text) | Value::Json(text) => Cow::Borrowed(text),
        Value::Bytes(bytes) => {
            let mut text = String::with_capacity(2 + bytes.len() * 2);
            text.push_str("\\x");
            for byte in &**bytes {
                for digit in [byte >> 4, byte & 15] {
                    text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
                }
            }
            Cow::Owned(text)
        }
        Value::Date(date) => Cow::Owned(date.to_string()),
        Value::Timestamp(moment) => Cow::Owned(moment.to_string()),
        Value::Uuid(uuid) => Cow::Owned(uuid.to_string()),
    }
}

impl DataType {
    /// A value of this type as text; NULL is the empty text.
    pub fn to_text<'v>(self, value: &'v Value<'_>) -> Cow<'v, str> {
        match (self, value) {
            (DataType::F32, Value::Float(float)) => Cow::Owned(format!("{:?}", *float as f32)),
            _ => text_of(value),
        }
    }
}

/// So many of something that has a plain plural: `1 column`, `2 columns`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let decimal = DataType::Decimal { precision: 10, scale: 2 };
        for (data_type, texts) in [
            (DataType::Bool, &["true", "false"][..]),
            (DataType::I64, &["-9223372036854775808", "9223372036854775807", "0"]),
            (DataType::U64, &["18446744073709551615"]),
            (DataType::F64, &["2.0", "1e300", "-inf", "NaN", "0.30000000000000004", "-0.0"]),
            (DataType::F32, &["0.1", "3.4028235e38", "1e-45", "inf"]),
            (decimal, &["12.50", "-99999999.99"]),
            (DataType::Numeric, &["0.10", "-123456789012345678901234567890123456789012345.6", "NaN", "-Infinity"]),
            (DataType::TEXT, &["", "a \"b\"\n", "é"]),
            (DataType::Bytes, &["\\x", "\\x00ff7f"]),
            (DataType::KeyedBytes, &["\\x00", "\\x01ff7f"]),
            (DataType::Date, &["2013-07-04"]),
            (DataType::Timestamp, &["2013-07-04T05:15:00.5Z"]),
            (DataType::Uuid, &["67e55044-10b1-426f-9247-bb680e5fe0c8"]),
            (DataType::Json, &[r#"{"b":[1,2.50,null],"a":"x y","a":12345678901234567890123}"#]),
        ] {
            for text in texts {
                let value = data_type.parse_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
                assert_eq!(data_type.to_text(&value), *text, "{data_type}");
                assert_eq!(data_type.accept(value.clone()), Ok(value));
            }
        }
    }

    #[test]
    fn truth_is_read_as_other_programs_write_it() {
        for (text, value) in [("True", true), ("TRUE", true), ("False", false), ("FALSE", false)] {
            assert_eq!(DataType::Bool.parse_text(text), Ok(Value::Bool(value)), "{text}");
        }
        for text in ["tRUE", "T", "1", ""] {
            assert!(DataType::Bool.parse_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_that_would_change_are_refused() {
        for (data_type, text, reason) in [
            ("i64", "x", "\"x\" is not of type i64"),
            ("i64", "1.0", "\"1.0\" is not of type i64"),
            ("i8", "128", "128 is out of the range of i8, -128 to 127"),
            ("u8", "-1", "-1 is out of the range of u8, 0 to 255"),
            ("f64", "1e999", "\"1e999\" is not of type f64"),
            ("f32", "1e39", "1e39 is out of the range of f32"),
            ("decimal(4,2)", "1.234", "1.234 does not fit decimal(4,2)"),
            ("numeric", "1,5", "\"1,5\" is not of type numeric"),
            ("numeric", "1e999999", "\"1e999999\" is not of type numeric"),
            ("bool", "yes", "\"yes\" is not of type bool"),
            ("bytes", "00", "two hexadecimal digits"),
            ("bytes", "\\x0", "two hexadecimal digits"),
            ("bytes", "\\xé0", "two hexadecimal digits"),
            ("date", "04.07.2013", "is not of type date as 2013-07-04"),
            ("timestamp", "noon", "is not of type timestamp as"),
            ("uuid", "67e55044", "is not of type uuid"),
            ("json", "{a:1}", "is not JSON"),
        ] {
            let error = DataType::parse(data_type).unwrap().parse_text(text).unwrap_err();
            assert!(error.contains(reason), "{data_type}: {error}");
        }
    }
}
