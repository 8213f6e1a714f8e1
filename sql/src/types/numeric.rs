//! Arithmetic of exact numbers, with as many digits after the point as PostgreSQL gives a result.
//!
//! A number has at most 38 digits. Where PostgreSQL's result has more, digits after the point are rounded away; if that
//! does not help, the result is out of range.

use quipu_rows::Decimal;

use crate::error::{Result, SqlError, SqlState};
use crate::types::refusal::{division_by_zero, too_many_digits};

/// The most digits.
const DIGITS_MAX: u8 = 38;
/// The digits that a quotient or a root has at least.
const DIGITS_MIN: i32 = 16;
/// The first number of more than 38 digits.
const LIMIT: u128 = 10u128.pow(38);

/// `10^exponent`, for exponents up to 38.
fn power_of_ten(exponent: u8) -> u128 {
    10u128.pow(u32::from(exponent.min(DIGITS_MAX)))
}

fn decimal(is_negative: bool, magnitude: u128, scale: u8) -> Option<Decimal> {
    let units = i128::try_from(magnitude).ok()?;
    Decimal::new(if is_negative { -units } else { units }, scale)
}

/// The product of two numbers of 128 bits: its upper and its lower half.
fn multiply(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let (low, middle, other) = (a_low * b_low, a_high * b_low, a_low * b_high);
    let carry = (low >> 64) + (middle & LOW) + (other & LOW);
    let high = a_high * b_high + (middle >> 64) + (other >> 64) + (carry >> 64);
    (high, (carry << 64) | (low & LOW))
}

/// The quotient and the rest of a number of 256 bits; none if the quotient has more than 128.
fn divide(high: u128, low: u128, divisor: u128) -> Option<(u128, u128)> {
    if high >= divisor {
        return None;
    }
    if high == 0 {
        return Some((low / divisor, low % divisor));
    }
    let (mut rest, mut quotient) = (high, 0u128);
    for bit in (0..128).rev() {
        let is_over = rest >> 127 == 1;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if is_over || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    Some((quotient, rest))
}

/// The quotient of a number of 256 bits, rounded half away from zero; none if it has more than 38 digits.
fn divide_rounded(high: u128, low: u128, divisor: u128) -> Option<u128> {
    let (quotient, rest) = divide(high, low, divisor)?;
    let quotient = if rest >= divisor - rest { quotient.checked_add(1)? } else { quotient };
    (quotient < LIMIT).then_some(quotient)
}

/// The number with so many digits after the point, rounded half away from zero. Negative scales round before the point.
///
/// # Errors
/// 22003 if it has more than 38 digits.
pub fn round(number: Decimal, scale: i32) -> Result<Decimal> {
    if scale >= i32::from(number.scale()) {
        let scale = u8::try_from(scale).unwrap_or(u8::MAX);
        return number.rescale(scale).ok_or_else(too_many_digits);
    }
    cut(number, scale, |quotient, rest, divisor| if rest >= divisor - rest { quotient + 1 } else { quotient })
}

/// The number with so many digits after the point, cut.
///
/// # Errors
/// 22003 if it has more than 38 digits.
pub fn truncate(number: Decimal, scale: i32) -> Result<Decimal> {
    if scale >= i32::from(number.scale()) {
        return round(number, scale);
    }
    cut(number, scale, |quotient, _, _| quotient)
}

fn cut(number: Decimal, scale: i32, choose: impl Fn(u128, u128, u128) -> u128) -> Result<Decimal> {
    let dropped = i32::from(number.scale()) - scale;
    let kept = u8::try_from(scale.max(0)).unwrap_or(0);
    if dropped > i32::from(DIGITS_MAX) {
        return Decimal::new(0, kept).ok_or_else(too_many_digits);
    }
    let divisor = power_of_ten(dropped as u8);
    let magnitude = number.units().unsigned_abs();
    let quotient = choose(magnitude / divisor, magnitude % divisor, divisor);
    let zeros = power_of_ten(u8::try_from(-scale.min(0)).unwrap_or(DIGITS_MAX));
    let magnitude = quotient.checked_mul(zeros).ok_or_else(too_many_digits)?;
    decimal(number.units() < 0, magnitude, kept).ok_or_else(too_many_digits)
}

/// The greatest whole number that is not greater.
///
/// # Errors
/// 22003 if it has more than 38 digits.
pub fn floor(number: Decimal) -> Result<Decimal> {
    let whole = truncate(number, 0)?;
    if whole > number { subtract(whole, Decimal::from(1)) } else { Ok(whole) }
}

/// The least whole number that is not less.
///
/// # Errors
/// 22003 if it has more than 38 digits.
pub fn ceiling(number: Decimal) -> Result<Decimal> {
    let whole = truncate(number, 0)?;
    if whole < number { add(whole, Decimal::from(1)) } else { Ok(whole) }
}

/// The sum.
///
/// # Errors
/// 22003 if it has more than 38 digits before the point.
pub fn add(a: Decimal, b: Decimal) -> Result<Decimal> {
    if let Some(sum) = a.checked_add(b) {
        return Ok(sum);
    }
    let mut scale = i32::from(a.scale().max(b.scale()));
    while scale > 0 {
        scale -= 1;
        let fitted = |number: Decimal| match scale < i32::from(number.scale()) {
            true => round(number, scale).ok(),
            false => number.rescale(scale as u8),
        };
        if let (Some(a), Some(b)) = (fitted(a), fitted(b))
            && let Some(sum) = a.checked_add(b)
        {
            return Ok(sum);
        }
    }
    Err(too_many_digits())
}

/// The same number with the other sign.
pub fn negate(number: Decimal) -> Decimal {
    Decimal::new(-number.units(), number.scale()).unwrap_or(number)
}

/// The difference.
///
/// # Errors
/// 22003 if it has more than 38 digits before the point.
pub fn subtract(a: Decimal, b: Decimal) -> Result<Decimal> {
    add(a, negate(b))
}

/// The product, with as many digits after the point as both have together.
///
/// # Errors
/// 22003 if it has more than 38 digits before the point.
pub fn product(a: Decimal, b: Decimal) -> Result<Decimal> {
    if let Some(product) = a.checked_mul(b) {
        return Ok(product);
    }
    let (high, low) = multiply(a.units().unsigned_abs(), b.units().unsigned_abs());
    let is_negative = (a.units() < 0) != (b.units() < 0);
    let scale = a.scale() + b.scale();
    for dropped in scale.saturating_sub(DIGITS_MAX)..=scale.min(DIGITS_MAX) {
        if let Some(magnitude) = divide_rounded(high, low, power_of_ten(dropped)) {
            return decimal(is_negative, magnitude, scale - dropped).ok_or_else(too_many_digits);
        }
    }
    Err(too_many_digits())
}

/// The place of the first of the digits to the base of 10,000, and that digit.
fn leading(number: Decimal) -> (i32, u128) {
    let magnitude = number.units().unsigned_abs();
    if magnitude == 0 {
        return (0, 0);
    }
    let weight = (magnitude.ilog10() as i32 - i32::from(number.scale())).div_euclid(4);
    let exponent = weight * 4 + i32::from(number.scale());
    let digit = match exponent {
        0.. => magnitude / power_of_ten(exponent as u8),
        _ => magnitude * power_of_ten(-exponent as u8),
    };
    (weight, digit)
}

/// The quotient: it has at least 16 digits that count, and no fewer after the point than both numbers.
///
/// # Errors
/// 22012 for a division by zero, 22003 if it has more than 38 digits before the point.
pub fn quotient(a: Decimal, b: Decimal) -> Result<Decimal> {
    if b.units() == 0 {
        return Err(division_by_zero());
    }
    let ((weight, first), (other_weight, other_first)) = (leading(a), leading(b));
    let weight = weight - other_weight - i32::from(first <= other_first);
    let scale = (DIGITS_MIN - weight * 4).max(a.scale().into()).max(b.scale().into());
    let (a_magnitude, b_magnitude) = (a.units().unsigned_abs(), b.units().unsigned_abs());
    let is_negative = (a.units() < 0) != (b.units() < 0);
    for scale in (0..=scale.min(DIGITS_MAX.into())).rev() {
        let moved = scale + i32::from(b.scale()) - i32::from(a.scale());
        let magnitude = match moved {
            0..=38 => {
                let (high, low) = multiply(a_magnitude, power_of_ten(moved as u8));
                divide_rounded(high, low, b_magnitude)
            }
            39.. => {
                // In two steps, of which the first leaves a rest.
                let (high, low) = multiply(a_magnitude, power_of_ten(DIGITS_MAX));
                divide(high, low, b_magnitude).and_then(|(quotient, rest)| {
                    let factor = power_of_ten((moved - 38) as u8);
                    let (high, low) = multiply(rest, factor);
                    let tail = divide_rounded(high, low, b_magnitude)?;
                    quotient.checked_mul(factor)?.checked_add(tail).filter(|sum| *sum < LIMIT)
                })
            }
            _ => b_magnitude
                .checked_mul(power_of_ten(-moved as u8))
                .and_then(|divisor| divide_rounded(0, a_magnitude, divisor))
                .or(Some(0)),
        };
        if let Some(quotient) = magnitude.and_then(|magnitude| decimal(is_negative, magnitude, scale as u8)) {
            return Ok(quotient);
        }
    }
    Err(too_many_digits())
}

/// What a division to a whole number leaves, with the sign of `a`.
///
/// # Errors
/// 22012 for a division by zero, 22003 if more than 38 digits are needed on the way.
pub fn remainder(a: Decimal, b: Decimal) -> Result<Decimal> {
    if b.units() == 0 {
        return Err(division_by_zero());
    }
    if let Some(rest) = a.checked_rem(b) {
        return Ok(rest);
    }
    subtract(a, product(truncate(quotient(a, b)?, 0)?, b)?)
}

/// The square root.
///
/// # Errors
/// 2201F of a negative number.
pub fn square_root(number: Decimal) -> Result<Decimal> {
    if number.units() < 0 {
        let message = "cannot take square root of a negative number";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message));
    }
    let (weight, _) = leading(number);
    let root_weight = (weight + 1) * 2 - 1;
    let scale = (DIGITS_MIN - root_weight).max(number.scale().into()).clamp(0, DIGITS_MAX.into());
    let moved = 2 * scale - i32::from(number.scale());
    let whole = u8::try_from(moved).ok().filter(|moved| *moved <= DIGITS_MAX).map(power_of_ten);
    match whole.and_then(|factor| number.units().unsigned_abs().checked_mul(factor)) {
        Some(square) => {
            let root = square.isqrt();
            // Half more than the root is its square, and a quarter.
            let root = if square - root * root > root { root + 1 } else { root };
            decimal(false, root, scale as u8).ok_or_else(too_many_digits)
        }
        None => match fine_root(number, scale) {
            Some(root) => decimal(false, root, scale as u8).ok_or_else(too_many_digits),
            None => of_float(number.to_f64().sqrt(), scale),
        },
    }
}

/// The units of a root with more digits than half of those that a number has: the root with as many as that, and the
/// other digits by one step of Newton's method, which doubles them.
fn fine_root(number: Decimal, scale: i32) -> Option<u128> {
    let units = number.units().unsigned_abs();
    let (short, square) = (0..scale).rev().find_map(|short| {
        let moved = u8::try_from(2 * short - i32::from(number.scale())).ok().filter(|moved| *moved <= DIGITS_MAX)?;
        Some((short, units.checked_mul(power_of_ten(moved))?))
    })?;
    let root = square.isqrt();
    let factor = power_of_ten(u8::try_from(scale - short).ok().filter(|more| *more <= 18)?);
    let rest = (square - root * root).checked_mul(factor)?;
    root.checked_mul(factor)?.checked_add(rest.checked_add(root)?.checked_div(2 * root)?)
}

/// The number of double precision nearest to 17 digits, with so many digits after the point.
///
/// # Errors
/// 22003 if it has more than 38 digits before the point, or is no number.
pub fn of_float(value: f64, scale: i32) -> Result<Decimal> {
    let text = format!("{value:.16e}");
    let number = of_scientific(&text).ok_or_else(too_many_digits)?;
    round(number, scale.clamp(0, DIGITS_MAX.into())).or(Ok(number))
}

/// The number that `1.5e-7` writes; what is smaller than 38 digits after the point is zero.
fn of_scientific(text: &str) -> Option<Decimal> {
    if let Some(number) = Decimal::parse(text) {
        return Some(number);
    }
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if exponent >= 0 {
        return None;
    }
    let mantissa = Decimal::parse(mantissa)?;
    let number = round(mantissa, i32::from(DIGITS_MAX) + exponent).ok()?;
    let scale = i32::from(number.scale()) - exponent;
    match u8::try_from(scale).ok().filter(|scale| *scale <= DIGITS_MAX) {
        Some(scale) => Decimal::new(number.units(), scale),
        None => Decimal::new(0, 0),
    }
}

/// The exact number that a cast of a float makes: 15 digits of double, 6 of single precision.
///
/// # Errors
/// 22003 if it has more than 38 digits, or is no number.
pub fn of_float_cast(value: f64, is_single: bool) -> Result<Decimal> {
    if !value.is_finite() {
        let mut text = String::new();
        crate::types::float::write(value, is_single, &mut text);
        let message = format!("cannot convert {text} to numeric");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let text = if is_single { format!("{:.5e}", value as f32) } else { format!("{value:.14e}") };
    let number = of_scientific(&text).ok_or_else(too_many_digits)?;
    Ok(trim(number))
}

/// The same number without zeros at its end after the point.
pub fn trim(number: Decimal) -> Decimal {
    let (mut units, mut scale) = (number.units(), number.scale());
    while scale > 0 && units % 10 == 0 {
        units /= 10;
        scale -= 1;
    }
    Decimal::new(units, scale).unwrap_or(number)
}

/// The digits after the point of the result of a function of floats: 16 digits that count.
fn scale_of(result: f64, least: u8) -> i32 {
    let weight = if result == 0.0 { 0 } else { result.abs().log10().trunc() as i32 };
    (DIGITS_MIN - weight).max(least.into()).clamp(0, DIGITS_MAX.into())
}

/// A power. Those of whole exponents are exact as far as digits allow; others have the digits of double precision.
///
/// # Errors
/// 2201F of zero to a negative power and of a negative number to a broken one; 22003.
pub fn power(base: Decimal, exponent: Decimal) -> Result<Decimal> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message));
    let is_whole = truncate(exponent, 0)? == exponent;
    if base.units() == 0 && exponent.units() < 0 {
        return refuse("zero raised to a negative power is undefined");
    }
    if base.units() < 0 && !is_whole {
        return refuse("a negative number raised to a non-integer power yields a complex result");
    }
    let result = base.to_f64().powf(exponent.to_f64());
    if !result.is_finite() {
        return Err(too_many_digits());
    }
    let scale = scale_of(result, base.scale().max(exponent.scale()));
    let count = truncate(exponent, 0)?.to_f64();
    if is_whole && count.abs() <= 2000.0 {
        let mut product_so_far = Some(Decimal::from(1));
        for _ in 0..count.abs() as u32 {
            product_so_far = product_so_far.and_then(|so_far| product(so_far, trim(base)).ok());
        }
        if let Some(whole) = product_so_far {
            let whole = if count < 0.0 { quotient(Decimal::from(1), whole)? } else { whole };
            return round(whole, scale).or(Ok(whole));
        }
    }
    of_float(result, scale)
}

/// A function of double precision, with 16 digits that count.
///
/// # Errors
/// 22003 if the result has more than 38 digits before the point.
pub fn by_float(number: Decimal, function: impl Fn(f64) -> f64) -> Result<Decimal> {
    let result = function(number.to_f64());
    if !result.is_finite() {
        return Err(too_many_digits());
    }
    of_float(result, scale_of(result, number.scale()))
}
