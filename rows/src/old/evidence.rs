//! Types of columns that nobody has declared, from what their fields look like.
//!
//! [`Evidence`] gathers what all fields of a column look like, and [`Evidence::column_type`] decides so that writing
//! the values loses nothing: `007`, `1.` and `12345678901234567890` are no numbers here, though some would read them as
//! such.

use serde_json::Value as Json;

use crate::old::column::ColumnType;

/// What the fields of one column have looked like so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
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
    pub fn see_text(&mut self, text: &str) {
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
    pub fn see_json(&mut self, json: &Json) {
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
    pub fn column_type(&self) -> ColumnType {
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
    use crate::old::notation::element_text;

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
}
