//! Values as text and as JSON, and back.
//!
//! What a column's type allows reads back as the same value after it is written, but for a missing value as text, which
//! is empty.

use quipu::tuple::Element;
use serde_json::Value as Json;

use crate::old::column::ColumnType;

impl ColumnType {
    /// The value that `text` stands for. A missing value has no text: callers know by their own mark.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, for a message that names the column before it.
    pub fn parse_text(self, text: &str) -> Result<Element<'_>, String> {
        let wrong = || format!("{text:?} is not of type {self}");
        match self {
            ColumnType::Bool => text.parse().map(Element::Bool).map_err(|_| wrong()),
            ColumnType::Int => text.parse::<i64>().map(Element::from).map_err(|_| wrong()),
            ColumnType::Float => text.parse().map(Element::Float).map_err(|_| wrong()),
            ColumnType::Text => Ok(Element::from(text)),
            ColumnType::Json => match serde_json::from_str::<Json>(text) {
                Ok(json) => Ok(Element::Text(json.to_string().into())),
                Err(error) => Err(format!("{text:?} is not JSON: {error}")),
            },
        }
    }

    /// The value that a JSON value stands for; `null` is a missing one.
    ///
    /// # Errors
    ///
    /// What is wrong with the JSON, for a message that names the column before it.
    pub fn parse_json(self, json: &Json) -> Result<Element<'_>, String> {
        let wrong = || format!("{json} is not of type {self}");
        Ok(match (self, json) {
            (_, Json::Null) => Element::Null,
            (ColumnType::Json, json) => Element::Text(json.to_string().into()),
            (ColumnType::Bool, Json::Bool(value)) => Element::Bool(*value),
            (ColumnType::Int, Json::Number(number)) => Element::Int(number.as_i64().ok_or_else(wrong)?.into()),
            (ColumnType::Float, Json::Number(number)) => Element::Float(number.as_f64().ok_or_else(wrong)?),
            // JSON has no infinities; an export writes them as text.
            (ColumnType::Float, Json::String(text)) => Element::Float(text.parse().map_err(|_| wrong())?),
            (ColumnType::Text, Json::String(text)) => Element::from(text.as_str()),
            _ => return Err(wrong()),
        })
    }

    /// A value of this type as JSON, so that [`parse_json`](ColumnType::parse_json) gives it back.
    pub fn to_json(self, element: &Element<'_>) -> Json {
        match (self, element) {
            (ColumnType::Json, Element::Text(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Json::from(text.as_ref()))
            }
            _ => element_json(element),
        }
    }
}

/// A value as JSON, whatever its column: infinities and NaN as text, bytes as text with `\xHH` escapes.
pub fn element_json(element: &Element<'_>) -> Json {
    match element {
        Element::Null => Json::Null,
        Element::Bool(value) => Json::from(*value),
        Element::Int(value) => Json::from(*value as i64),
        Element::Float(value) if value.is_finite() => Json::from(*value),
        Element::Float(_) | Element::Text(_) | Element::Bytes(_) | Element::Uuid(_) => {
            Json::from(element_text(element))
        }
    }
}

/// A value as the text of a CSV field or of a cell: missing is empty.
pub fn element_text(element: &Element<'_>) -> String {
    match element {
        Element::Null => String::new(),
        Element::Bool(value) => value.to_string(),
        Element::Int(value) => value.to_string(),
        // The shortest text that reads back as the same float, and never as an int: `2.0`, `1e300`.
        Element::Float(value) => format!("{value:?}"),
        Element::Text(text) => text.to_string(),
        Element::Bytes(bytes) => escape(bytes),
        Element::Uuid(uuid) => escape(uuid),
    }
}

/// Bytes as text on one line: what is UTF-8 and printable as it is, all else escaped as `\n`, `\r`, `\t`,
/// `\\` and `\xHH`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                control if control.is_control() => {
                    control.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
                }
                other => text.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_text_and_json() {
        let values = [
            (ColumnType::Bool, Element::Bool(true)),
            (ColumnType::Int, Element::Int(i64::MIN.into())),
            (ColumnType::Float, Element::Float(2.0)),
            (ColumnType::Float, Element::Float(0.1 + 0.2)),
            (ColumnType::Float, Element::Float(f64::NEG_INFINITY)),
            (ColumnType::Float, Element::Float(f64::NAN)),
            (ColumnType::Text, Element::from("a \"b\"\n")),
            (ColumnType::Json, Element::from(r#"{"b":[1,2.5,null],"a":"x"}"#)),
        ];
        for (column_type, value) in values {
            assert_eq!(column_type.parse_text(&element_text(&value)), Ok(value.clone()));
            assert_eq!(column_type.parse_json(&column_type.to_json(&value)), Ok(value));
        }
    }

    #[test]
    fn a_field_of_another_type_is_named() {
        assert_eq!(ColumnType::Int.parse_text("x"), Err(r#""x" is not of type int"#.to_owned()));
        assert_eq!(ColumnType::Int.parse_json(&Json::from(1.5)), Err("1.5 is not of type int".to_owned()));
    }
}
