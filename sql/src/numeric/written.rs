//! Exact numbers read from text and written as text, and PostgreSQL's digits to the base of 10,000.

use std::fmt;

use num_bigint::BigInt;
use quipu_rows::Decimal;

use crate::numeric::large::{Large, power_of_ten};
use crate::numeric::{Numeric, WHOLE_DIGITS_MAX};

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does not write a number.
    Text,
    /// It writes one of more digits than `numeric` has.
    Range,
}

impl Numeric {
    /// The number that a text writes, without blanks around it: digits with a point and an exponent, `NaN`, `Infinity`.
    ///
    /// # Errors
    /// Why the text is no number.
    pub fn parse(text: &str) -> Result<Numeric, Wrong> {
        match Decimal::parse(text) {
            Some(decimal) => Ok(Numeric::Small(decimal)),
            None => parse_other(text),
        }
    }
}

fn parse_other(text: &str) -> Result<Numeric, Wrong> {
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if ["inf", "infinity"].iter().any(|word| word.eq_ignore_ascii_case(unsigned)) {
        return Ok(Numeric::Infinite { is_negative });
    }
    if text.eq_ignore_ascii_case("nan") {
        return Ok(Numeric::NotANumber);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        None => (unsigned, 0),
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = whole.bytes().chain(fraction.bytes()).peekable();
    if digits.peek().is_none() || !digits.all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Text);
    }
    let scale = fraction.len() as i64 - exponent;
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    // Before a power of ten is made of it.
    let is_too_great = !significant.is_empty() && significant.len() as i64 - scale > i64::from(WHOLE_DIGITS_MAX);
    if is_too_great || scale > i64::from(crate::numeric::SCALE_MAX) {
        return Err(Wrong::Range);
    }
    let units = BigInt::parse_bytes(significant.as_bytes(), 10).unwrap_or(BigInt::ZERO);
    let units = if scale < 0 && !significant.is_empty() { units * power_of_ten(-scale as u32) } else { units };
    let units = if is_negative { -units } else { units };
    Large { units, scale: scale.max(0) as u32 }.finish().map_err(|_| Wrong::Range)
}

fn parse_exponent(text: &str) -> Result<i64, Wrong> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Text);
    }
    text.parse::<i32>()
        .ok()
        .filter(|exponent| exponent.unsigned_abs() < i32::MAX as u32 / 2)
        .map(i64::from)
        .ok_or(Wrong::Range)
}

/// All digits after the point, as many as the scale says: `12.50`.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let large = match self {
            Numeric::Small(decimal) => return decimal.fmt(f),
            Numeric::Infinite { is_negative } => {
                return f.write_str(if *is_negative { "-Infinity" } else { "Infinity" });
            }
            Numeric::NotANumber => return f.write_str("NaN"),
            Numeric::Large(large) => large,
        };
        let scale = large.scale as usize;
        let digits = format!("{:0>width$}", large.units.magnitude().to_string(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.signum() < 0 { "-" } else { "" };
        write!(f, "{sign}{whole}{}{fraction}", if scale == 0 { "" } else { "." })
    }
}

/// The number as `d.ddde+xx`, with so many digits after the point, without a plus before it.
pub(crate) fn scientific(number: &Numeric, digits: u32) -> String {
    let Some(large) = number.large() else { return number.to_string() };
    let exponent = large.exponent();
    let moved = Large { scale: 0, units: large.units };
    // The point stands after the first digit.
    let first = large.scale as i32 + exponent;
    let power = power_of_ten(first.unsigned_abs());
    let mantissa = match first {
        0.. => moved.quotient(&Large { units: power, scale: 0 }, digits),
        _ => Large { units: moved.units * power, scale: 0 }.rounded(digits),
    };
    let mantissa = mantissa.finish().map_or_else(|_| String::new(), |mantissa| mantissa.to_string());
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// The digits to the base of 10,000 of a number, from the one at a place on, without zeros at either end: the place of
/// the first, and all. Zero has no digits.
pub(crate) fn write_digits(number: &Numeric) -> (i16, Vec<i16>) {
    let text = number.to_string();
    let text = text.trim_start_matches('-');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = whole.len().next_multiple_of(4) - whole.len();
    let digits: Vec<u8> = std::iter::repeat_n(b'0', missing).chain(whole.bytes()).chain(fraction.bytes()).collect();
    let group = |group: &[u8]| {
        let padded = group.iter().map(|byte| i16::from(byte - b'0')).chain(std::iter::repeat(0)).take(4);
        padded.fold(0, |number, digit| number * 10 + digit)
    };
    let groups: Vec<i16> = digits.chunks(4).map(group).collect();
    let first = groups.iter().take_while(|group| **group == 0).count();
    let last = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    if first >= last {
        return (0, Vec::new());
    }
    let weight = whole.len().div_ceil(4) as i32 - 1 - first as i32;
    (weight as i16, groups[first..last].to_vec())
}

/// The number that has these digits to the base of 10,000, of which the first stands at a place, and so many decimal
/// digits after the point; more are cut. None if it has more digits than `numeric` has.
pub(crate) fn read_digits(is_negative: bool, weight: i16, digits: &[i16], scale: u32) -> Option<Numeric> {
    let mut text = String::with_capacity(digits.len() * 4 + 8);
    for digit in digits {
        text.push_str(&format!("{digit:04}"));
    }
    let units = BigInt::parse_bytes(text.as_bytes(), 10).unwrap_or(BigInt::ZERO);
    // The exponent of the last decimal digit that is there.
    let last = (i64::from(weight) - digits.len() as i64 + 1) * 4;
    let moved = last + i64::from(scale);
    let power = power_of_ten(moved.unsigned_abs().min(1 << 20) as u32);
    let units = if moved >= 0 { units * power } else { units / power };
    Large { units: if is_negative { -units } else { units }, scale }.finish().ok()
}
