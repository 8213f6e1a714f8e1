//! The types of columns without a declared type, from what their fields look like.
//!
//! [`Evidence`] gathers what all fields of a column look like, and [`Evidence::data_type`] decides so that the values
//! are those of the file: `007` and `1.` are no numbers here, though some would read them as such, nor is a number of
//! more digits than a float keeps, and `4.7.2013` is no date. What may be written in more than one way, as `2.50`,
//! `True` and `2013-07-04 05:15:00+02:00`, keeps its value and is written in one. A column that has more than one kind
//! of field is text, or JSON if it comes from JSON lines.

use quipu_rows::{DataType, Date, Timestamp};

/// What the fields of a column look like, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    bool: bool,
    /// The least and the greatest integer.
    ints: Option<(i128, i128)>,
    float: bool,
    /// `1e16`, which is a float beside other floats, and else may be a code.
    bare_exponent: bool,
    /// A number that no float is.
    inexact: bool,
    date: bool,
    /// Moments with an offset from UTC, and without.
    zoned: bool,
    unzoned: bool,
    /// A moment to the nanosecond, which no timestamp is.
    nanoseconds: bool,
    text: bool,
    /// What only JSON has, or no type of numbers can hold.
    nested: bool,
    from_json: bool,
    /// Fields of a CSV file before one that makes the column text.
    before: u64,
    /// That field, and where it stands.
    odd: Option<(String, String)>,
}

/// Fields after which one that makes a column text is told.
const BEFORE_MIN: u64 = 5;
/// Letters of that field that are shown.
const SHOWN_MAX: usize = 40;

/// Integers up to this size are exact as floats.
const FLOAT_EXACT: i128 = 1 << 53;
/// Numbers of so many digits, and of a moderate size, are exact as floats, which write them as they were.
const FLOAT_DIGITS: usize = 15;

impl Evidence {
    /// Looks at a field of a CSV file; `place` says where it stands.
    pub(crate) fn see_text(&mut self, text: &str, place: impl FnOnce() -> String) {
        if self.text {
            // A column of a CSV file stays text, whatever comes.
            return;
        }
        self.see_field(text);
        if self.text {
            self.keep_odd(text, place);
        } else {
            self.before += 1;
        }
    }

    /// Makes the column one of text, since this field is not of its notation.
    pub(crate) fn refuse(&mut self, text: &str, place: impl FnOnce() -> String) {
        if !self.text {
            self.text = true;
            self.keep_odd(text, place);
        }
    }

    fn keep_odd(&mut self, text: &str, place: impl FnOnce() -> String) {
        if self.before >= BEFORE_MIN {
            let shown = match text.char_indices().nth(SHOWN_MAX) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text.to_owned(),
            };
            self.odd = Some((shown, place()));
        }
    }

    fn see_field(&mut self, text: &str) {
        if matches!(text, "true" | "false" | "True" | "False" | "TRUE" | "FALSE") {
            self.bool = true;
        } else if is_json_number(text) {
            match exponent_of(text) {
                Some(exponent) if is_of_code(text, exponent) => self.text = true,
                Some(exponent) if is_bare(text, exponent) => self.bare_exponent |= self.see_number(text),
                _ => self.float |= self.see_number(text),
            }
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
            Some(b'-' | b'0'..=b'9') => self.float |= self.see_number(json),
            Some(b'n') => {}
            _ => self.nested = true,
        }
    }

    /// A text that is not a number.
    fn see_words(&mut self, text: &str) {
        let may_be_time = text.as_bytes().first().is_some_and(|&byte| byte.is_ascii_digit() || byte == b'-');
        if !may_be_time {
            self.text = true;
        } else if Date::parse(text).is_some() {
            self.date = true;
        } else if Timestamp::parse(text).is_some() {
            let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
            let is_zoned = time.contains(['Z', 'z', '+', '-']);
            self.zoned |= is_zoned;
            self.unzoned |= !is_zoned;
        } else {
            self.nanoseconds |= is_of_nanoseconds(text);
            self.text = true;
        }
    }

    /// A number. `true` if it is a float.
    fn see_number(&mut self, text: &str) -> bool {
        match text.parse::<i128>() {
            // `-0` would come back as `0`.
            Ok(int) if text != "-0" => {
                let (least, most) = self.ints.unwrap_or((int, int));
                self.ints = Some((least.min(int), most.max(int)));
            }
            _ if text == "-0" || text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => self.nested = true,
            _ if is_kept_by_float(text) => return true,
            _ => (self.nested, self.inexact) = (true, true),
        }
        false
    }

    /// The narrowest type that holds all of it.
    pub(crate) fn data_type(&self) -> DataType {
        let mixed = if self.from_json { DataType::Json } else { DataType::TEXT };
        let numbers = self.ints.is_some() || self.float || self.bare_exponent;
        let kinds = [self.bool, numbers, self.date, self.zoned, self.unzoned, self.text];
        if self.nested || kinds.iter().filter(|&&is_there| is_there).count() > 1 {
            return if self.are_all_texts() { DataType::TEXT } else { mixed };
        }
        if self.bare_exponent && !self.float {
            return mixed;
        }
        match self.ints {
            Some(_) if self.float && !self.ints_are_floats() => mixed,
            Some(_) if self.float => DataType::F64,
            Some((least, most)) if i64::try_from(least).is_ok() && i64::try_from(most).is_ok() => DataType::I64,
            Some((least, most)) if u64::try_from(least).is_ok() && u64::try_from(most).is_ok() => DataType::U64,
            Some(_) => mixed,
            None if self.float => DataType::F64,
            None if self.bool => DataType::Bool,
            None if self.date => DataType::Date,
            None if self.zoned || self.unzoned => DataType::Timestamp,
            None => DataType::TEXT,
        }
    }

    /// Whether it has numbers with a point before their fraction.
    pub(crate) fn has_fractions(&self) -> bool {
        self.float
    }

    /// Whether all fields are strings in JSON as well.
    fn are_all_texts(&self) -> bool {
        !self.nested && !self.bool && self.ints.is_none() && !self.float && !self.bare_exponent
    }

    /// Whether each integer is exact as a float.
    fn ints_are_floats(&self) -> bool {
        self.ints.is_none_or(|(least, most)| least >= -FLOAT_EXACT && most <= FLOAT_EXACT)
    }

    /// Why a column of this name is of no narrower type, if a person would expect one, and what to do about it.
    pub(crate) fn note(&self, name: &str) -> Option<String> {
        let data_type = self.data_type();
        if !matches!(data_type, DataType::Text(_) | DataType::Json) {
            return None;
        }
        let has_numbers = self.ints.is_some() || self.float || self.bare_exponent || self.inexact;
        let has_times = self.date || self.zoned || self.unzoned;
        let why = match (has_numbers, has_times) {
            _ if self.nanoseconds => "it has times to the nanosecond, and a timestamp is to the microsecond".to_owned(),
            _ if self.text => self.oddity(has_numbers, has_times)?,
            _ if self.bool => return None,
            (true, false) if self.inexact || self.float && !self.ints_are_floats() => {
                format!("it has numbers that f64 cannot hold exactly; `--types {name}=f64` rounds them")
            }
            (true, false) if self.bare_exponent && !self.float => {
                format!("its fields like 1e5 may be codes; `--types {name}=f64` makes numbers of them")
            }
            (false, true) if self.zoned && self.unzoned => {
                let how = format!("`--types {name}=timestamp` takes these as UTC");
                format!("it has times with an offset from UTC and without; {how}")
            }
            (false, true) if self.date => format!("it has days and times; `--types {name}=timestamp` takes both"),
            _ => return None,
        };
        Some(format!("column {name} is {data_type}: {why}"))
    }

    /// What the field says that made the column text, after fields of one other kind.
    fn oddity(&self, has_numbers: bool, has_times: bool) -> Option<String> {
        let (field, place) = self.odd.as_ref()?;
        let kind = match (has_numbers, has_times, self.bool) {
            (true, false, false) => "a number",
            (false, true, false) => "a date or a time",
            (false, false, true) => "true or false",
            _ => return None,
        };
        let before = self.before;
        Some(format!("{field:?} in {place} is not {kind}, as the {before} fields before it are"))
    }
}

/// What stands after the `e` of a number.
fn exponent_of(number: &str) -> Option<&str> {
    number.split_once(['e', 'E']).map(|(_, exponent)| exponent)
}

/// Whether a number without a point has an exponent as no program writes it: `32E0134`, `1E5`.
fn is_of_code(number: &str, exponent: &str) -> bool {
    is_bare(number, exponent) && (number.contains('E') || exponent.starts_with('0'))
}

/// Whether a number has an exponent, and neither a point nor the sign of its exponent.
fn is_bare(number: &str, exponent: &str) -> bool {
    !number.contains('.') && !exponent.starts_with(['+', '-'])
}

/// Whether a number that has a point or an exponent is the same number after it was read as a float and written again.
fn is_kept_by_float(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if exponent_of(text).is_none() && digits <= FLOAT_DIGITS {
        return true;
    }
    let written = match text.parse::<f64>() {
        Ok(float) if float.is_finite() => format!("{float:?}"),
        _ => return false,
    };
    significant(text).is_some_and(|number| Some(number) == significant(&written))
}

/// The sign of a number, its digits without zeros at either end, and the power of ten that stands before them; none if
/// that is beyond all measure.
fn significant(number: &str) -> Option<(bool, String, i64)> {
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let led = digits.trim_start_matches('0');
    let exponent = exponent.parse::<i32>().ok()?;
    let power = i64::from(exponent) + whole.len() as i64 - (digits.len() - led.len()) as i64;
    let digits = led.trim_end_matches('0').to_owned();
    let power = if digits.is_empty() { 0 } else { power };
    Some((is_negative, digits, power))
}

/// Whether a text is a moment of which only more than six digits of its second's fraction make no timestamp.
fn is_of_nanoseconds(text: &str) -> bool {
    let Some((before, fraction)) = text.split_once('.') else { return false };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits > 6 && Timestamp::parse(&format!("{before}.{}{}", &fraction[..6], &fraction[digits..])).is_some()
}

/// Whether a text is a number by the grammar of JSON, which has one form for each integer.
pub(crate) fn is_json_number(text: &str) -> bool {
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
mod tests;
