//! Types of columns that nobody has declared, from what their fields look like.
//!
//! [`Evidence`] gathers what all fields of a column look like, and [`Evidence::data_type`] decides so that writing the
//! values loses nothing: `007` and `1.` are no numbers here, though some would read them as such, and `4.7.2013` is no
//! date. A column that has more than one kind of field is text, or JSON if it comes from JSON lines.

use quipu_rows::{DataType, Value};

/// What the fields of a column look like, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    bool: bool,
    /// The least and the greatest integer.
    ints: Option<(i128, i128)>,
    float: bool,
    date: bool,
    timestamp: bool,
    text: bool,
    /// What only JSON has, or no type of numbers can hold.
    nested: bool,
    from_json: bool,
}

/// Integers up to this size are exact as floats.
const FLOAT_EXACT: i128 = 1 << 53;

impl Evidence {
    /// Looks at a field of a CSV file.
    pub(crate) fn see_text(&mut self, text: &str) {
        if self.text {
            // A column of a CSV file stays text, whatever comes.
        } else if text == "true" || text == "false" {
            self.bool = true;
        } else if is_json_number(text) {
            self.see_number(text);
        } else {
            self.see_words(text);
        }
    }

    /// Looks at a member of a JSON object, as its text.
    pub(crate) fn see_json(&mut self, json: &str) {
        self.from_json = true;
        match json.as_bytes().first() {
            Some(b't' | b'f') => self.bool = true,
            Some(b'"') => match serde_json::from_str::<String>(json) {
                Ok(text) => self.see_words(&text),
                Err(_) => self.nested = true,
            },
            Some(b'-' | b'0'..=b'9') => self.see_number(json),
            Some(b'n') => {}
            _ => self.nested = true,
        }
    }

    /// A text that is no number.
    fn see_words(&mut self, text: &str) {
        let is_kept = |data_type: DataType| {
            data_type.parse_text(text).is_ok_and(|value: Value<'_>| data_type.to_text(&value) == text)
        };
        if text.as_bytes().first().is_some_and(u8::is_ascii_digit) && is_kept(DataType::Date) {
            self.date = true;
        } else if text.as_bytes().first().is_some_and(u8::is_ascii_digit) && is_kept(DataType::Timestamp) {
            self.timestamp = true;
        } else {
            self.text = true;
        }
    }

    fn see_number(&mut self, text: &str) {
        match text.parse::<i128>() {
            // `-0` would come back as `0`.
            Ok(int) if text != "-0" => {
                let (least, most) = self.ints.unwrap_or((int, int));
                self.ints = Some((least.min(int), most.max(int)));
            }
            _ if text == "-0" || text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => self.nested = true,
            _ if text.parse().is_ok_and(f64::is_finite) => self.float = true,
            _ => self.nested = true,
        }
    }

    /// The narrowest type that holds all of it.
    pub(crate) fn data_type(&self) -> DataType {
        let mixed = if self.from_json { DataType::Json } else { DataType::TEXT };
        let kinds = [self.bool, self.ints.is_some() || self.float, self.date, self.timestamp, self.text];
        if self.nested || kinds.iter().filter(|&&is_there| is_there).count() > 1 {
            return if self.are_all_texts() { DataType::TEXT } else { mixed };
        }
        match self.ints {
            Some((least, most)) if self.float => {
                if least >= -FLOAT_EXACT && most <= FLOAT_EXACT {
                    DataType::F64
                } else {
                    mixed
                }
            }
            Some((least, most)) if i64::try_from(least).is_ok() && i64::try_from(most).is_ok() => DataType::I64,
            Some((least, most)) if u64::try_from(least).is_ok() && u64::try_from(most).is_ok() => DataType::U64,
            Some(_) => mixed,
            None if self.float => DataType::F64,
            None if self.bool => DataType::Bool,
            None if self.date => DataType::Date,
            None if self.timestamp => DataType::Timestamp,
            None => DataType::TEXT,
        }
    }

    /// Whether all fields are strings in JSON as well.
    fn are_all_texts(&self) -> bool {
        !self.nested && !self.bool && self.ints.is_none() && !self.float
    }
}

/// Whether a text is a number by the grammar of JSON, which has one form for each integer.
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

    fn type_of(fields: &[&str]) -> DataType {
        let mut evidence = Evidence::default();
        fields.iter().for_each(|field| evidence.see_text(field));
        evidence.data_type()
    }

    fn type_of_json(fields: &[&str]) -> DataType {
        let mut evidence = Evidence::default();
        fields.iter().for_each(|field| evidence.see_json(field));
        evidence.data_type()
    }

    #[test]
    fn a_column_is_as_narrow_as_its_fields_allow() {
        assert_eq!(type_of(&[]), DataType::TEXT);
        assert_eq!(type_of(&["1", "-2", "9223372036854775807"]), DataType::I64);
        assert_eq!(type_of(&["1", "18446744073709551615"]), DataType::U64);
        assert_eq!(type_of(&["-1", "18446744073709551615"]), DataType::TEXT);
        assert_eq!(type_of(&["1", "2.5", "-1e9"]), DataType::F64);
        assert_eq!(type_of(&["true", "false"]), DataType::Bool);
        assert_eq!(type_of(&["1", "true"]), DataType::TEXT);
        assert_eq!(type_of(&["1", "x"]), DataType::TEXT);
        assert_eq!(type_of(&["2013-07-04", "1999-12-31"]), DataType::Date);
        assert_eq!(type_of(&["2013-07-04T05:15:00Z"]), DataType::Timestamp);
        assert_eq!(type_of(&["2013-07-04", "2013-07-04T05:15:00Z"]), DataType::TEXT);
        assert_eq!(type_of(&["9007199254740993", "0.5"]), DataType::TEXT, "a float would lose the last digit");
    }

    #[test]
    fn what_would_be_written_otherwise_is_text() {
        for field in [
            "007",
            "+1",
            "1.",
            ".5",
            "-0",
            "123456789012345678901",
            "1e999",
            "inf",
            "NaN",
            "0x10",
            "1_000",
            " 1",
            "2013-7-4",
            "2013-07-04 05:15",
            "2013-02-30",
        ] {
            assert_eq!(type_of(&[field]), DataType::TEXT, "{field}");
        }
    }

    #[test]
    fn json_lines_keep_their_own_types() {
        assert_eq!(type_of_json(&["\"1\"", "\"2\""]), DataType::TEXT);
        assert_eq!(type_of_json(&["\"2013-07-04\"", "\"later\""]), DataType::TEXT);
        assert_eq!(type_of_json(&["1", "null", "2"]), DataType::I64);
        assert_eq!(type_of_json(&["1", "2.5"]), DataType::F64);
        assert_eq!(type_of_json(&["1", "\"x\""]), DataType::Json);
        assert_eq!(type_of_json(&["[1]", "null"]), DataType::Json);
        assert_eq!(type_of_json(&["123456789012345678901"]), DataType::Json);
    }

    #[test]
    fn random_fields_lose_nothing() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut numbers = 0;
        for _ in 0..200_000 {
            let field: String = (0..random.random_range(1..8))
                .map(|_| char::from(b"0123456789-+.eE x"[random.random_range(0..17)]))
                .collect();
            let data_type = type_of(&[&field]);
            let value = data_type.parse_text(&field).unwrap();
            let written = data_type.to_text(&value);
            match data_type {
                DataType::F64 => {
                    numbers += 1;
                    assert_eq!(type_of(&[&written]), DataType::F64, "{field} is written {written}");
                    assert_eq!(data_type.parse_text(&written).unwrap(), value, "{field} is written {written}");
                }
                _ => assert_eq!(written, field),
            }
        }
        assert!(numbers > 1_000, "only {numbers} floats");
    }
}
