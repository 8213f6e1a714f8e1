//! Sums of money: `money`, whole hundredths of a dollar, written as in the locale `C`: `-$1,234.56`.

use crate::error::Result;
use crate::numeric::{self, Numeric};
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::refusal::{invalid_text, out_of_range, text_out_of_range};

/// Appends a sum.
pub fn write(cents: i64, out: &mut String) {
    let length = cents.unsigned_abs();
    let dollars = (length / 100).to_string();
    out.push_str(if cents < 0 { "-$" } else { "$" });
    for (place, digit) in dollars.chars().enumerate() {
        if place > 0 && (dollars.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(&format!(".{:02}", length % 100));
}

/// The sum that a text writes.
///
/// # Errors
/// 22P02, and 22003 of too great a sum.
pub fn parse(text: &str) -> Result<Datum> {
    let too_great = || text_out_of_range(BaseType::Money, text);
    let (is_negative, mut rest) = sign_of(text);
    let mut value = 0_i64;
    let (mut has_point, mut after) = (false, 0);
    while let Some(first) = rest.chars().next() {
        match first {
            '0'..='9' if after < 2 => {
                // Below zero, where there is one number more.
                let digit = i64::from(first as u8 - b'0');
                value = value.checked_mul(10).and_then(|value| value.checked_sub(digit)).ok_or_else(too_great)?;
                after += i32::from(has_point);
            }
            '.' if !has_point => has_point = true,
            ',' => {}
            _ => break,
        }
        rest = &rest[1..];
    }
    let is_rounded = rest.starts_with(|next: char| ('5'..='9').contains(&next));
    for _ in after..2 {
        value = value.checked_mul(10).ok_or_else(too_great)?;
    }
    value = value.checked_sub(i64::from(is_rounded)).ok_or_else(too_great)?;
    let mut is_negative = is_negative;
    for last in rest.trim_start_matches(|c: char| c.is_ascii_digit()).chars() {
        match last {
            '-' => is_negative = true,
            ')' | '+' | '$' => {}
            blank if blank.is_ascii_whitespace() => {}
            _ => return Err(invalid_text(BaseType::Money, text)),
        }
    }
    let value = if is_negative { Some(value) } else { value.checked_neg() };
    value.map(Datum::Int).ok_or_else(too_great)
}

/// Whether a sum is below zero, and its digits.
fn sign_of(text: &str) -> (bool, &str) {
    fn without_sign(text: &str) -> &str {
        let text = text.trim_ascii_start();
        text.strip_prefix('$').unwrap_or(text).trim_ascii_start()
    }
    let text = without_sign(text);
    match text.strip_prefix(['-', '(']) {
        Some(rest) => (true, without_sign(rest)),
        None => (false, without_sign(text.strip_prefix('+').unwrap_or(text))),
    }
}

/// The sum of so many dollars.
///
/// # Errors
/// 22003.
pub fn of_int(dollars: i64) -> Result<Datum> {
    dollars.checked_mul(100).map(Datum::Int).ok_or_else(|| out_of_range(BaseType::Money))
}

/// The sum of an exact number of dollars.
///
/// # Errors
/// 22003.
pub fn of_numeric(dollars: &Numeric) -> Result<Datum> {
    let cents = numeric::round(dollars, 2)?;
    let cents = cents.small().ok_or_else(|| out_of_range(BaseType::Money))?;
    // Two digits after the point, which rounding leaves or adds.
    let missing = 10_i128.pow(2_u32.saturating_sub(cents.scale().into()));
    let units = cents.units().checked_mul(missing).and_then(|units| i64::try_from(units).ok());
    units.map(Datum::Int).ok_or_else(|| out_of_range(BaseType::Money))
}

/// The exact number of dollars.
pub fn to_numeric(cents: i64) -> Datum {
    Datum::Numeric(Numeric::new(cents.into(), 2))
}
