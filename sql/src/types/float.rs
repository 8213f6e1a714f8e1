//! Numbers of floating point as text: the shortest that is read as the same number.

use std::fmt::Write as _;

use crate::error::{Result, SqlError, SqlState};
use crate::types::refusal::invalid_text;
use crate::types::{BaseType, SqlType};

/// Appends a number of double or of single precision: `0.1`, `1e+20`, `NaN`, `-Infinity`. It has all digits that tell
/// it apart from others, or so many beside 15, or 6, if that is less than 1.
pub fn write(value: f64, is_single: bool, extra_digits: i32, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let safe_digits = if is_single { 6 } else { 15 };
    let rounded = (extra_digits < 1).then(|| (safe_digits + extra_digits).max(1));
    let shown = match rounded {
        Some(digits) => format!("{value:.*e}", digits as usize - 1),
        None if is_single => format!("{:e}", value as f32),
        None => format!("{value:e}"),
    };
    let (mut mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    if rounded.is_some() && mantissa.contains('.') {
        mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    out.push_str(sign);
    let limit = rounded.unwrap_or(safe_digits);
    if !(-4..limit).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((whole, "")) => out.push_str(whole),
        Some((whole, fraction)) => {
            let _ = write!(out, "{whole}.{fraction}");
        }
        None => {
            out.push_str(&digits);
            (digits.len()..whole).for_each(|_| out.push('0'));
        }
    }
}

/// A text that writes a number beyond those of a type.
#[cold]
pub(crate) fn out_of_range(text: &str, base: BaseType) -> SqlError {
    let message = format!("\"{text}\" is out of range for type {}", SqlType::from(base));
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// The number that a text writes.
///
/// # Errors
/// 22P02 if it is not a number, 22003 if it is too large or too small.
pub fn parse(text: &str, is_single: bool) -> Result<f64> {
    let base = if is_single { BaseType::Float4 } else { BaseType::Float8 };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let unsigned = trimmed.trim_start_matches(['+', '-']);
    let has_digit = unsigned.bytes().any(|byte| byte.is_ascii_digit());
    let is_word = ["nan", "inf", "infinity"].iter().any(|word| word.eq_ignore_ascii_case(unsigned));
    if !has_digit && !is_word {
        return Err(invalid_text(base, text));
    }
    let value = if is_single { trimmed.parse::<f32>().map(f64::from) } else { trimmed.parse::<f64>() };
    let value = value.map_err(|_| invalid_text(base, text))?;
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if has_digit && (value.is_infinite() || (value == 0.0 && !is_zero)) {
        return Err(out_of_range(trimmed, base));
    }
    Ok(value)
}
