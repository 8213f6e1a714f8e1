//! Numbers by patterns: `to_char(1234.5, 'FM9,999.00')`, `to_number`.
//!
//! What a pattern writes is what PostgreSQL's writes, place by place: see [`Writer`].

use super::number_patterns::{Key, Part, Pattern, SignPlace};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{self, Numeric};
use crate::types::BaseType;
use crate::types::cast::int_of_numeric;
use crate::types::refusal::invalid_text;

/// The suffix of an ordinal number.
///
/// # Errors
/// 22P02 of infinity and `NaN`.
fn ordinal(number: &[char], is_upper: bool) -> Result<&'static str> {
    if !number.last().is_some_and(char::is_ascii_digit) {
        let what = format!("\"{}\" is not a number", number.iter().collect::<String>());
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what));
    }
    let is_teen = number.len() > 1 && number[number.len() - 2] == '1';
    let pair = match number.last() {
        Some('1') if !is_teen => ("st", "ST"),
        Some('2') if !is_teen => ("nd", "ND"),
        Some('3') if !is_teen => ("rd", "RD"),
        _ => ("th", "TH"),
    };
    Ok(if is_upper { pair.1 } else { pair.0 })
}

/// A number in Roman digits.
fn roman(number: Option<i64>) -> String {
    let Some(mut rest) = number.filter(|number| (1..=3_999).contains(number)) else { return "#".repeat(15) };
    let digits = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut written = String::new();
    for (value, digit) in digits {
        while rest >= value {
            written.push_str(digit);
            rest -= value;
        }
    }
    written
}

/// A number with the point moved to the right by so many digits.
fn power_of_ten(digits: usize) -> Result<Numeric> {
    numeric::power(&10.into(), &(digits as i64).into()).and_then(|power| numeric::round(&power, 0))
}

/// Stands for an exponent where the number is infinite or NaN: as many places as a number has, and one for the sign.
fn no_exponent(pattern: &Pattern) -> String {
    format!(" {}.{}", "#".repeat(pattern.before), "#".repeat(pattern.after + 4))
}

/// The number by a pattern.
///
/// # Errors
/// 42601 of a pattern that makes no sense, 22003, 22P02 of a number that has no ordinal.
pub(crate) fn write(number: &Numeric, pattern: &str) -> Result<String> {
    let mut pattern = Pattern::parse(pattern)?;
    if pattern.is_roman {
        let number = int_of_numeric(number, BaseType::Int4)?.as_int();
        return Writer::of_roman(&pattern, roman(number)).written();
    }
    if pattern.is_scientific {
        if !number.is_finite() {
            return Ok(no_exponent(&pattern));
        }
        let sign = if number.signum() < 0 { "" } else { " " };
        return Ok(format!("{sign}{}", numeric::scientific(number, pattern.after as u32)));
    }
    let moved = match pattern.has_shift {
        false => None,
        true => Some(numeric::product(number, &power_of_ten(pattern.shift)?)?),
    };
    pattern.before += pattern.shift;
    let rounded = numeric::round(moved.as_ref().unwrap_or(number), pattern.after as i32)?;
    Writer::of_text(&pattern, &rounded.to_string()).written()
}

/// The float by a pattern.
///
/// # Errors
/// 42601 of a pattern that makes no sense.
pub(crate) fn write_float(number: f64, is_single: bool, pattern: &str) -> Result<String> {
    let mut pattern = Pattern::parse(pattern)?;
    if pattern.is_roman {
        let number = number.is_finite().then(|| number.round_ties_even() as i64);
        return Writer::of_roman(&pattern, roman(number)).written();
    }
    if pattern.is_scientific {
        if !number.is_finite() {
            return Ok(no_exponent(&pattern));
        }
        let shown = format!("{number:.*e}", pattern.after.min(FLOAT_DIGITS_MAX));
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let (exponent_sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
        let sign = if number.is_sign_negative() { "" } else { " " };
        return Ok(format!("{sign}{mantissa}e{exponent_sign}{exponent:0>2}"));
    }
    let factor = 10_f64.powi(pattern.shift as i32);
    let moved = match (pattern.has_shift, is_single) {
        (false, _) => number,
        (true, false) => number * factor,
        (true, true) => f64::from(number as f32 * factor as f32),
    };
    pattern.before += pattern.shift;
    // No more digits than the type has.
    let digits = if is_single { f32::DIGITS } else { f64::DIGITS } as usize;
    let whole = float_text(moved.abs(), 0).len();
    pattern.after = pattern.after.min(digits.saturating_sub(whole));
    Writer::of_text(&pattern, &float_text(moved, pattern.after)).written()
}

/// The most digits after the point that a float is written with.
const FLOAT_DIGITS_MAX: usize = 65_535;

/// A float with so many digits after the point.
fn float_text(number: f64, digits: usize) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number.is_infinite() => if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        number => format!("{number:.digits$}"),
    }
}

/// What is written so far of a number.
struct Writer<'p> {
    pattern: &'p Pattern,
    out: String,
    /// The digits with their point, without a sign, and the place of the next.
    number: Vec<char>,
    at: usize,
    /// The place of the pattern's next digit or point.
    place: usize,
    /// The last place, as it is counted for what follows the number.
    last_place: i64,
    /// How many places before the number are blank.
    blanks: usize,
    /// The last digit that is shown where nothing is filled.
    last_relevant: Option<usize>,
    is_negative: bool,
    is_sign_written: bool,
    has_brackets: bool,
    sign: Option<SignPlace>,
    /// Whether a digit has been written.
    is_in_number: bool,
}

impl<'p> Writer<'p> {
    fn of_text(pattern: &'p Pattern, text: &str) -> Writer<'p> {
        let digits = text.trim_start_matches('-');
        let whole = digits.find('.').unwrap_or(digits.len());
        let number: Vec<char> = if whole > pattern.before {
            format!("{}.{}", "#".repeat(pattern.before), "#".repeat(pattern.after)).chars().collect()
        } else {
            digits.chars().collect()
        };
        let is_negative = digits.len() < text.len();
        let has_own_place = pattern.has_plus || pattern.has_minus;
        let is_sign_written = match has_own_place {
            true => pattern.has_minus,
            false => !is_negative && pattern.is_tight && pattern.sign.is_none(),
        };
        let is_at_end = pattern.sign == Some(SignPlace::Before) && pattern.before == pattern.before_sign;
        let blanks = pattern.before.saturating_sub(whole);
        let last_place = (pattern.after + pattern.before) as i64 - i64::from(is_sign_written || blanks > 0);
        let mut writer = Writer {
            pattern,
            out: String::new(),
            number,
            at: 0,
            place: 0,
            last_place,
            blanks,
            last_relevant: None,
            is_negative,
            is_sign_written,
            has_brackets: pattern.has_brackets && (is_negative || !pattern.is_tight),
            sign: if is_at_end && !has_own_place { Some(SignPlace::After) } else { pattern.sign },
            is_in_number: false,
        };
        writer.last_relevant = writer.last_relevant();
        writer
    }

    /// Roman digits are no number of the pattern.
    fn of_roman(pattern: &'p Pattern, digits: String) -> Writer<'p> {
        let number = if pattern.is_tight { digits } else { format!("{digits:>15}") };
        Writer {
            pattern,
            out: String::new(),
            number: number.chars().collect(),
            at: 0,
            place: 0,
            last_place: 0,
            blanks: 0,
            last_relevant: None,
            is_negative: false,
            is_sign_written: true,
            has_brackets: false,
            sign: None,
            is_in_number: false,
        }
    }

    /// Of a number after whose point nothing is filled: the last digit that is not zero, or the point, or what a `0`
    /// asks for.
    fn last_relevant(&self) -> Option<usize> {
        if !self.pattern.is_tight || !self.pattern.has_point {
            return None;
        }
        let point = self.number.iter().position(|c| *c == '.')?;
        let last = self.number.iter().rposition(|c| *c != '0').unwrap_or(point).max(point);
        let asked = self.pattern.zero_end.checked_sub(self.blanks).filter(|asked| *asked > 0);
        Some(asked.map_or(last, |asked| last.max(asked.min(self.number.len() - 1))))
    }

    fn written(mut self) -> Result<String> {
        for part in &self.pattern.parts {
            match *part {
                Part::Text(c) => self.out.push(c),
                Part::Key { key, is_upper } => self.key(key, is_upper)?,
            }
        }
        // Digits beyond those of the number end what is written.
        let end = self.out.find('\0').unwrap_or(self.out.len());
        self.out.truncate(end);
        Ok(self.out)
    }

    fn key(&mut self, key: Key, is_upper: bool) -> Result<()> {
        match key {
            Key::Nine | Key::Zero | Key::Point if self.pattern.is_roman => {}
            Key::Nine | Key::Zero | Key::Point => {
                self.write_sign();
                self.digit_or_point(key == Key::Zero);
                self.place += 1;
            }
            Key::Comma if self.is_in_number => self.out.push(','),
            Key::Comma => self.blank(),
            Key::Currency => self.out.push(' '),
            Key::SignHere => self.out.push(if self.is_negative { '-' } else { '+' }),
            Key::Minus if self.is_negative => self.out.push('-'),
            Key::Plus if !self.is_negative => self.out.push('+'),
            Key::Minus | Key::Plus => self.blank(),
            Key::Ordinal => {
                let is_over = self.number.first() == Some(&'#');
                if !self.pattern.is_roman && !is_over && !self.is_negative && !self.pattern.has_point {
                    self.out.push_str(ordinal(&self.number, is_upper)?);
                }
            }
            Key::Roman => {
                let digits: String = self.number.iter().collect();
                self.out.push_str(&if is_upper { digits } else { digits.to_lowercase() });
            }
            Key::Sign | Key::Brackets | Key::Exponent | Key::Shift | Key::Tight | Key::Blank | Key::Nothing => {}
        }
        Ok(())
    }

    fn blank(&mut self) {
        if !self.pattern.is_tight {
            self.out.push(' ');
        }
    }

    /// Whether the point is the last of what is shown.
    fn ends_at_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number[last] == '.')
    }

    /// Whether the next digit is a zero before the point that is not shown.
    fn is_idle_zero(&self) -> bool {
        let starts_with_zero = self.at == 0 && self.number.first() == Some(&'0');
        !self.has_zeros() && starts_with_zero && self.pattern.after > 0
    }

    fn has_zeros(&self) -> bool {
        self.pattern.zero_start.is_some()
    }

    /// The sign, before the first digit.
    fn write_sign(&mut self) {
        let begins = self.place >= self.blanks || self.pattern.zero_start == Some(self.place);
        if self.is_sign_written || !begins || self.is_idle_zero() && !self.ends_at_point() {
            return;
        }
        match (self.sign, self.is_negative) {
            (Some(SignPlace::After), _) => return,
            (Some(SignPlace::Before), is_negative) => self.out.push(if is_negative { '-' } else { '+' }),
            (None, is_negative) if self.has_brackets => self.out.push(if is_negative { '<' } else { ' ' }),
            (None, true) => self.out.push('-'),
            (None, false) => self.blank(),
        }
        self.is_sign_written = true;
    }

    fn digit_or_point(&mut self, is_zero: bool) {
        let zeros_begun = self.pattern.zero_start.is_some_and(|start| start <= self.place);
        if self.place < self.blanks {
            if zeros_begun {
                self.out.push('0');
                self.is_in_number = true;
            } else {
                self.blank();
            }
        } else {
            let next = self.number.get(self.at).copied();
            let is_beyond = self.last_relevant.is_some_and(|last| self.at > last);
            if next == Some('.') {
                if !self.ends_at_point() || self.pattern.is_tight {
                    self.out.push('.');
                }
            } else if is_beyond && !is_zero {
                // A zero at the end that nothing asks for.
            } else if self.is_idle_zero() {
                if !self.pattern.is_tight {
                    self.out.push(' ');
                } else if self.ends_at_point() {
                    self.out.push('0');
                }
            } else {
                self.out.push(next.unwrap_or('\0'));
                self.is_in_number = true;
            }
            self.at += usize::from(next.is_some());
        }
        self.end_of_number();
    }

    /// The sign after the last digit, or the bracket.
    fn end_of_number(&mut self) {
        let counted = self.last_place + i64::from(self.blanks > 0) + i64::from(self.pattern.has_point);
        let end = if self.last_relevant == Some(self.at) { self.place as i64 } else { counted };
        if self.place as i64 + 1 != end {
            return;
        }
        if self.is_sign_written && self.has_brackets {
            self.out.push(if self.is_negative { '>' } else { ' ' });
        } else if self.sign == Some(SignPlace::After) {
            self.out.push(if self.is_negative { '-' } else { '+' });
        }
    }
}

/// The number that a text writes by a pattern: its digits, its point and its sign; all else is passed over.
///
/// # Errors
/// 22P02 if there is no digit, 0A000 of a pattern of Roman digits or with an exponent.
pub(crate) fn read(text: &str, pattern: &str) -> Result<Numeric> {
    let parsed = Pattern::parse(pattern)?;
    if parsed.is_roman || parsed.is_scientific {
        let what = if parsed.is_roman { "RN" } else { "EEEE" };
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("\"{what}\" not supported for input")));
    }
    let (before, after) = (parsed.before + parsed.shift, parsed.after);
    let mut digits = String::new();
    let mut is_negative = false;
    let (mut whole, mut fraction, mut has_point) = (0, 0, false);
    for c in text.chars() {
        match c {
            '-' | '<' => is_negative = true,
            '.' if !has_point && after > 0 => {
                has_point = true;
                digits.push('.');
            }
            '.' => break,
            c if c.is_ascii_digit() && has_point && fraction < after => {
                fraction += 1;
                digits.push(c);
            }
            c if c.is_ascii_digit() && !has_point && whole < before => {
                whole += 1;
                digits.push(c);
            }
            _ => {}
        }
    }
    let value = Numeric::parse(digits.trim_end_matches('.')).map_err(|_| invalid_text(BaseType::Numeric, text))?;
    let value = if is_negative { numeric::negate(&value) } else { value };
    match parsed.shift {
        0 => Ok(value),
        shift => numeric::quotient(&value, &power_of_ten(shift)?),
    }
}
