//! Values as JSON, and back: as they stand in JSON lines.
//!
//! Numbers of JSON are read from their text, so no digit is lost on the way. What JSON has no form for is a string:
//! decimals (which others would read as floats), infinities and NaN, bytes, dates, moments, UUIDs.

use serde::de::IgnoredAny;

use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;

/// Looks whether a text is JSON.
///
/// # Errors
/// That it is not, and where.
pub(crate) fn check(text: &str) -> Result<(), String> {
    serde_json::from_str::<IgnoredAny>(text)
        .map(|_| ())
        .map_err(|error| format!("{} is not JSON: {error}", Value::from(text)))
}

/// The JSON without white space between its tokens; all else stays as it was written: digits, escapes, the order of
/// members, members of the same name.
fn compact(text: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let mut is_kept = |c: char| {
        match (in_string, c) {
            (true, _) if is_escaped => is_escaped = false,
            (true, '\\') => is_escaped = true,
            (_, '"') => in_string = !in_string,
            _ => {}
        }
        in_string || !matches!(c, ' ' | '\n' | '\r' | '\t')
    };
    text.chars().filter(|&c| is_kept(c)).collect()
}

impl DataType {
    /// The value of this type that a JSON text stands for; `null` is NULL.
    ///
    /// # Errors
    /// What is wrong with it, for a message that names the column before it.
    pub fn parse_json(self, json: &str) -> Result<Value<'static>, String> {
        let json = json.trim_matches([' ', '\n', '\r', '\t']);
        if json == "null" {
            return Ok(Value::Null);
        }
        if self == DataType::Json {
            check(json)?;
            return Ok(Value::Json(json.to_owned().into()));
        }
        let wrong = || format!("{json} is not of type {self}");
        if json.starts_with('"') {
            let text: String = serde_json::from_str(json).map_err(|error| format!("{json} is not JSON: {error}"))?;
            return match self {
                DataType::Text(_) => Ok(Value::from(text)),
                // Of floats, only what has no number in JSON.
                DataType::F32 | DataType::F64 => match self.parse_text(&text) {
                    Ok(Value::Float(float)) if !float.is_finite() => Ok(Value::Float(float)),
                    _ => Err(wrong()),
                },
                DataType::Decimal { .. } | DataType::Numeric => self.parse_text(&text).map(Value::into_owned),
                DataType::Bytes | DataType::KeyedBytes | DataType::Date | DataType::Timestamp | DataType::Uuid => {
                    self.parse_text(&text).map(Value::into_owned)
                }
                _ => Err(wrong()),
            };
        }
        let is_number = json.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match self {
            DataType::Bool if json == "true" || json == "false" => Ok(Value::Bool(json == "true")),
            DataType::F32 | DataType::F64 | DataType::Numeric if is_number => {
                self.parse_text(json).map(Value::into_owned)
            }
            DataType::Decimal { .. } if is_number => {
                self.accept(Value::Decimal(Decimal::parse(json).ok_or_else(wrong)?))
            }
            _ if is_number && self.int_range().is_some() => self.parse_text(json).map(Value::into_owned),
            _ => Err(wrong()),
        }
    }

    /// Appends a value of this type as JSON on one line, so that [`parse_json`](DataType::parse_json) gives it back. Of
    /// a `json` value that has line breaks, white space goes.
    pub fn write_json(self, value: &Value<'_>, json: &mut String) {
        match value {
            Value::Null => json.push_str("null"),
            Value::Json(text) if text.contains(['\n', '\r']) => json.push_str(&compact(text)),
            Value::Bool(_) | Value::Int(_) | Value::Json(_) => json.push_str(&self.to_text(value)),
            Value::Float(float) if float.is_finite() => json.push_str(&self.to_text(value)),
            _ => json.push_str(&serde_json::Value::from(self.to_text(value)).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let decimal = DataType::Decimal { precision: 38, scale: 2 };
        for (data_type, jsons) in [
            (DataType::Bool, &["true", "false", "null"][..]),
            (DataType::I64, &["-9223372036854775808"]),
            (DataType::U64, &["18446744073709551615"]),
            (DataType::F64, &["2.0", "1e300", "\"-inf\"", "\"NaN\""]),
            (DataType::F32, &["0.1"]),
            (decimal, &["\"123456789012345678901234567890.12\""]),
            (DataType::Numeric, &["\"1234567890123456789012345678901234567890.00\"", "\"NaN\"", "null"]),
            (DataType::TEXT, &["\"a \\\"b\\\"\\n\"", "\"true\"", "\"\""]),
            (DataType::Bytes, &["\"\\\\x00ff\""]),
            (DataType::Date, &["\"2013-07-04\""]),
            (DataType::Timestamp, &["\"2013-07-04T05:15:00Z\""]),
            (DataType::Uuid, &["\"67e55044-10b1-426f-9247-bb680e5fe0c8\""]),
            (DataType::Json, &[r#"{"b":[1,2.50],"b":"\u00e9 é"}"#, "7"]),
        ] {
            for json in jsons {
                let value = data_type.parse_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
                let mut written = String::new();
                data_type.write_json(&value, &mut written);
                assert_eq!(written, *json, "{data_type}");
            }
        }
        let from_number = decimal.parse_json("123456789012345678901234567890.12").unwrap();
        assert_eq!(from_number, decimal.parse_text("123456789012345678901234567890.12").unwrap(), "no digit is lost");
    }

    #[test]
    fn json_of_another_type_is_refused() {
        for (data_type, json) in [
            ("i64", "1.5"),
            ("i64", "\"1\""),
            ("i64", "true"),
            ("f64", "\"1.5\""),
            ("text", "1"),
            ("text", "[]"),
            ("bool", "0"),
            ("date", "20130704"),
            ("json", "{"),
            ("text", "\"\\ud800\""),
        ] {
            assert!(DataType::parse(data_type).unwrap().parse_json(json).is_err(), "{data_type} {json}");
        }
    }

    #[test]
    fn white_space_goes_only_between_tokens() {
        let text = " { \"a bé\" : [ 1 , 2 ] ,\n\"c\\\" d\": null } ";
        assert_eq!(compact(text), "{\"a bé\":[1,2],\"c\\\" d\":null}");
        let mut written = String::new();
        DataType::Json.write_json(&Value::Json(text.into()), &mut written);
        assert_eq!(written, compact(text), "a value stands on one line");
        let deep = "[".repeat(100_000);
        assert!(check(&deep).is_err(), "it has an end before the stack has");
    }
}
