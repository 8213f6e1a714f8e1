//! Columns: what type one has, how a field of a file becomes a value of it, and how the value is written again.
//!
//! A column has one type for all its rows, because the order of keys depends on it. [`Evidence`] gathers what the fields of a
//! column look like over the whole file, and [`Evidence::column_type`] decides such that writing the values loses nothing:
//! `007`, `1.` and `12345678901234567890` are no numbers here, though some would read them as such.

use std::fmt;

use quipu::tuple::Element;
use serde_json::Value as Json;

use crate::words;

/// The type of a column. Any value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// A number of double precision.
    Float,
    /// UTF-8.
    Text,
    /// Any JSON, kept as its compact text: for columns of JSON lines whose values are nested or of several types.
    Json,
}

/// The names of the types, as they stand in `--types` and in a table's schema.
const TYPE_NAMES: [(ColumnType, &str); 5] = [
    (ColumnType::Bool, "bool"),
    (ColumnType::Int, "int"),
    (ColumnType::Float, "float"),
    (ColumnType::Text, "text"),
    (ColumnType::Json, "json"),
];

impl ColumnType {
    /// The type of that name.
    pub(crate) fn parse(name: &str) -> Option<ColumnType> {
        TYPE_NAMES.iter().find(|(_, known)| *known == name).map(|(column_type, _)| *column_type)
    }

    /// The names that [`parse`](ColumnType::parse) knows.
    pub(crate) fn names() -> String {
        TYPE_NAMES.map(|(_, name)| name).join(", ")
    }

    /// The value that `text` stands for, not missing.
    ///
    /// # Errors
    ///
    /// What is wrong with it, to be put behind the field and its place.
    pub(crate) fn parse_text(self, text: &str) -> Result<Element<'_>, String> {
        let wrong = || format!("{text:?} is not of type {self}");
        match self {
            ColumnType::Bool => text.parse().map(Element::Bool).map_err(|_| wrong()),
            ColumnType::Int => text.parse().map(Element::Int).map_err(|_| wrong()),
            ColumnType::Float => text.parse().map(Element::Float).map_err(|_| wrong()),
            ColumnType::Text => Ok(Element::from(text)),
            ColumnType::Json => match serde_json::from_str::<Json>(text) {
                Ok(json) => Ok(Element::Text(json.to_string().into())),
                Err(error) => Err(format!("{text:?} is not JSON: {error}")),
            },
        }
    }

    /// The value that a field of a JSON line stands for; `null` is missing.
    ///
    /// # Errors
    ///
    /// What is wrong with it, to be put behind the field and its place.
    pub(crate) fn parse_json(self, json: &Json) -> Result<Element<'_>, String> {
        let wrong = || format!("{json} is not of type {self}");
        Ok(match (self, json) {
            (_, Json::Null) => Element::Null,
            (ColumnType::Json, json) => Element::Text(json.to_string().into()),
            (ColumnType::Bool, Json::Bool(value)) => Element::Bool(*value),
            (ColumnType::Int, Json::Number(number)) => Element::Int(number.as_i64().ok_or_else(wrong)?),
            (ColumnType::Float, Json::Number(number)) => Element::Float(number.as_f64().ok_or_else(wrong)?),
            // JSON has no infinities; an export writes them as text.
            (ColumnType::Float, Json::String(text)) => Element::Float(text.parse().map_err(|_| wrong())?),
            (ColumnType::Text, Json::String(text)) => Element::from(text.as_str()),
            _ => return Err(wrong()),
        })
    }

    /// `element` as JSON, such that [`parse_json`](ColumnType::parse_json) gives it back.
    pub(crate) fn to_json(self, element: &Element<'_>) -> Json {
        match (self, element) {
            (ColumnType::Json, Element::Text(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Json::from(text.as_ref()))
            }
            _ => element_json(element),
        }
    }
}

/// A value as JSON, whatever its column: infinities and NaN as text, bytes as text with `\xHH` escapes.
pub(crate) fn element_json(element: &Element<'_>) -> Json {
    match element {
        Element::Null => Json::Null,
        Element::Bool(value) => Json::from(*value),
        Element::Int(value) => Json::from(*value),
        Element::Float(value) if value.is_finite() => Json::from(*value),
        Element::Float(_) | Element::Text(_) | Element::Bytes(_) => Json::from(element_text(element)),
    }
}

/// A value as the text of a CSV field or of a cell: missing is empty.
pub(crate) fn element_text(element: &Element<'_>) -> String {
    match element {
        Element::Null => String::new(),
        Element::Bool(value) => value.to_string(),
        Element::Int(value) => value.to_string(),
        // The shortest text that reads back as the same float, and never as an int: `2.0`, `1e300`.
        Element::Float(value) => format!("{value:?}"),
        Element::Text(text) => text.to_string(),
        Element::Bytes(bytes) => words::escape(bytes),
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TYPE_NAMES.iter().find(|(column_type, _)| column_type == self).map_or("?", |(_, name)| name);
        f.write_str(name)
    }
}

/// What the fields of one column have looked like so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    bool: bool,
    int: bool,
    /// An integer that a float could not hold exactly.
    wide_int: bool,
    float: bool,
    text: bool,
    /// A list or an object.
    nested: bool,
    /// Whether the fields were JSON, so that text is text and not a number in quotes.
    from_json: bool,
}

/// The first integer that is not sure to come back from a float.
const FLOAT_EXACT: u64 = 1 << 53;

impl Evidence {
    /// Takes in a field of a CSV file that is not missing.
    pub(crate) fn see_text(&mut self, text: &str) {
        if self.text {
            // A column of a CSV file stays text, whatever comes.
        } else if text == "true" || text == "false" {
            self.bool = true;
        } else if !is_json_number(text) {
            self.text = true;
        } else if let Ok(value) = text.parse::<i64>() {
            // `-0` would come back as `0`.
            self.text |= text == "-0";
            self.see_int(value);
        } else if text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            self.text = true;
        } else if text.parse().is_ok_and(f64::is_finite) {
            self.float = true;
        } else {
            self.text = true;
        }
    }

    /// Takes in a field of a JSON line.
    pub(crate) fn see_json(&mut self, json: &Json) {
        self.from_json = true;
        match json {
            Json::Null => {}
            Json::Bool(_) => self.bool = true,
            Json::Number(number) => match number.as_i64() {
                Some(value) => self.see_int(value),
                // Past 64 bits and a sign.
                None if number.is_u64() => self.nested = true,
                None => self.float = true,
            },
            Json::String(_) => self.text = true,
            Json::Array(_) | Json::Object(_) => self.nested = true,
        }
    }

    fn see_int(&mut self, value: i64) {
        self.int = true;
        self.wide_int |= value.unsigned_abs() > FLOAT_EXACT;
    }

    /// The narrowest type that all fields seen fit; text if there were none.
    pub(crate) fn column_type(&self) -> ColumnType {
        let mixed = if self.from_json { ColumnType::Json } else { ColumnType::Text };
        let number = self.int || self.float;
        match (self.bool, number, self.text) {
            _ if self.nested => mixed,
            (false, false, _) => ColumnType::Text,
            (true, false, false) => ColumnType::Bool,
            (false, true, false) if !self.float => ColumnType::Int,
            (false, true, false) if !self.wide_int => ColumnType::Float,
            _ => mixed,
        }
    }
}

/// Whether `text` is a number by the grammar of JSON: no plus, no leading zeros, digits on both sides of a point.
fn is_json_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn type_of(fields: &[&str]) -> ColumnType {
        let mut evidence = Evidence::default();
        fields.iter().for_each(|field| evidence.see_text(field));
        evidence.column_type()
    }

    fn type_of_json(fields: &str) -> ColumnType {
        let mut evidence = Evidence::default();
        let fields: Json = serde_json::from_str(fields).unwrap();
        fields.as_array().unwrap().iter().for_each(|field| evidence.see_json(field));
        evidence.column_type()
    }

    #[test]
    fn a_column_is_as_narrow_as_its_fields_allow() {
        assert_eq!(type_of(&[]), ColumnType::Text);
        assert_eq!(type_of(&["1", "-2", "9223372036854775807"]), ColumnType::Int);
        assert_eq!(type_of(&["1", "2.5", "-1e9"]), ColumnType::Float);
        assert_eq!(type_of(&["true", "false"]), ColumnType::Bool);
        assert_eq!(type_of(&["1", "true"]), ColumnType::Text);
        assert_eq!(type_of(&["1", "x"]), ColumnType::Text);
        assert_eq!(type_of(&["9007199254740993", "0.5"]), ColumnType::Text, "a float would lose the last digit");
    }

    #[test]
    fn a_number_that_would_be_written_otherwise_is_text() {
        for field in
            ["007", "+1", "1.", ".5", "-0", "12345678901234567890", "1e999", "inf", "NaN", "0x10", "1_000", " 1"]
        {
            assert_eq!(type_of(&[field]), ColumnType::Text, "{field}");
        }
    }

    #[test]
    fn json_lines_keep_their_own_types() {
        assert_eq!(type_of_json(r#"["1", "2"]"#), ColumnType::Text);
        assert_eq!(type_of_json("[1, null, 2]"), ColumnType::Int);
        assert_eq!(type_of_json("[1, 2.5]"), ColumnType::Float);
        assert_eq!(type_of_json(r#"[1, "x"]"#), ColumnType::Json);
        assert_eq!(type_of_json("[[1], null]"), ColumnType::Json);
        assert_eq!(type_of_json("[18446744073709551615]"), ColumnType::Json);
    }

    #[test]
    fn values_come_back_from_text_and_json() {
        let values = [
            (ColumnType::Bool, Element::Bool(true)),
            (ColumnType::Int, Element::Int(i64::MIN)),
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
    fn random_fields_lose_nothing() {
        let seed = std::env::var("QUIPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("QUIPU_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut numbers = 0;
        for _ in 0..200_000 {
            let field: String = (0..rng.random_range(1..8))
                .map(|_| char::from(b"0123456789-+.eE x"[rng.random_range(0..17)]))
                .collect();
            let column_type = type_of(&[&field]);
            let value = column_type.parse_text(&field).unwrap();
            let written = element_text(&value);
            match column_type {
                ColumnType::Float => {
                    numbers += 1;
                    assert_eq!(type_of(&[&written]), ColumnType::Float, "{field} is written {written}");
                    assert_eq!(column_type.parse_text(&written).unwrap(), value, "{field} is written {written}");
                }
                _ => assert_eq!(written, field),
            }
        }
        assert!(numbers > 1_000, "only {numbers} floats");
    }

    #[test]
    fn a_field_of_another_type_is_named() {
        assert_eq!(ColumnType::Int.parse_text("x"), Err(r#""x" is not of type int"#.to_owned()));
        assert_eq!(ColumnType::Int.parse_json(&Json::from(1.5)), Err("1.5 is not of type int".to_owned()));
    }
}
