//! Arithmetic of exact numbers, with as many digits after the point as PostgreSQL gives a result.

use std::sync::Arc;

use num_bigint::{BigInt, Sign};
use quipu_rows::Decimal;

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::large::{Large, divide_rounded as divide_large, power_of_ten as large_power_of_ten};
use crate::numeric::wide::{divide_rounded, multiply};
use crate::numeric::{Numeric, SCALE_MAX, WHOLE_DIGITS_MAX, division_by_zero};

/// The digits that a quotient or a root has at least.
pub(super) const DIGITS_MIN: i32 = 16;
/// The most digits after the point that a function chooses by itself.
pub(super) const CHOSEN_SCALE_MAX: i32 = 1_000;
/// The most digits before the point that a rounding is asked for: no number has so many.
const ROUNDING_MAX: i32 = WHOLE_DIGITS_MAX as i32 + 1;

/// `10^exponent`, for exponents up to 38.
fn power_of_ten(exponent: u8) -> u128 {
    10u128.pow(exponent.into())
}

fn signed(is_negative: bool, magnitude: u128, scale: u8) -> Option<Numeric> {
    let units = i128::try_from(magnitude).ok()?;
    Decimal::new(if is_negative { -units } else { units }, scale).map(Numeric::Small)
}

/// Infinity of a sign, which is not zero.
pub(super) fn infinite(sign: i64) -> Numeric {
    Numeric::Infinite { is_negative: sign < 0 }
}

/// What a rounding does with the digits that it drops.
#[derive(Clone, Copy, PartialEq)]
enum Drop {
    /// Half and more away from zero, less than half towards it.
    Half,
    /// Towards zero.
    Cut,
}

/// The number with so many digits after the point, rounded half away from zero. Negative scales round before the point.
///
/// # Errors
/// 22003 if it overflows.
pub fn round(number: &Numeric, scale: i32) -> Result<Numeric> {
    with_scale(number, scale.clamp(-ROUNDING_MAX, SCALE_MAX as i32), Drop::Half)
}

/// The number with so many digits after the point, cut.
///
/// # Errors
/// 22003 if it overflows.
pub fn truncate(number: &Numeric, scale: i32) -> Result<Numeric> {
    with_scale(number, scale.clamp(-ROUNDING_MAX, SCALE_MAX as i32), Drop::Cut)
}

/// The number with so many digits after the point as a declaration asks for, rounded half away from zero.
///
/// # Errors
/// 22003 if it overflows.
pub(crate) fn at_scale(number: &Numeric, scale: i32) -> Result<Numeric> {
    with_scale(number, scale, Drop::Half)
}

fn with_scale(number: &Numeric, scale: i32, drop: Drop) -> Result<Numeric> {
    if let Numeric::Small(small) = number
        && let Some(rounded) = small_with_scale(*small, scale, drop)
    {
        return Ok(rounded);
    }
    let Some(large) = number.large() else { return Ok(number.clone()) };
    let kept = scale.max(0) as u32;
    if scale >= large.scale as i32 {
        return large.rounded(kept).finish();
    }
    if scale < 0 && large.exponent() + 1 < -scale {
        // Less than a tenth of what it is rounded to.
        return Ok(Numeric::from(0));
    }
    let divisor = large_power_of_ten((large.scale as i32 - scale) as u32);
    let quotient = match drop {
        Drop::Half => divide_large(&large.units, &divisor),
        Drop::Cut => &large.units / divisor,
    };
    Large { units: quotient * large_power_of_ten(-scale.min(0) as u32), scale: kept }.finish()
}

fn small_with_scale(number: Decimal, scale: i32, drop: Drop) -> Option<Numeric> {
    if scale >= i32::from(number.scale()) {
        return number.rescale(u8::try_from(scale).ok()?).map(Numeric::Small);
    }
    let kept = scale.max(0) as u8;
    let dropped = i32::from(number.scale()) - scale;
    let Some(dropped) = u8::try_from(dropped).ok().filter(|dropped| *dropped <= 38) else {
        return Decimal::new(0, kept).map(Numeric::Small);
    };
    let (divisor, magnitude) = (power_of_ten(dropped), number.units().unsigned_abs());
    let (quotient, rest) = (magnitude / divisor, magnitude % divisor);
    let quotient = if drop == Drop::Half && rest >= divisor - rest { quotient + 1 } else { quotient };
    let zeros = power_of_ten(u8::try_from(-scale.min(0)).ok()?);
    signed(number.units() < 0, u128::checked_mul(quotient, zeros)?, kept)
}

/// Whether a number is less than ten to the power of so many digits, apart from its sign.
pub(crate) fn has_digits_before(number: &Numeric, digits: i32) -> bool {
    match number {
        Numeric::Small(small) => {
            let magnitude = small.units().unsigned_abs();
            let place = magnitude.checked_ilog10().map(|place| place as i32 - i32::from(small.scale()));
            place.is_none_or(|place| place < digits)
        }
        Numeric::Large(large) => number.is_zero() || large.exponent() < digits,
        _ => false,
    }
}

/// The greatest whole number that is not greater.
///
/// # Errors
/// 22003 if it overflows.
pub fn floor(number: &Numeric) -> Result<Numeric> {
    floor_at(number, 0)
}

/// The greatest number with so many digits after the point that is not greater.
///
/// # Errors
/// 22003 if it overflows.
pub(crate) fn floor_at(number: &Numeric, scale: u8) -> Result<Numeric> {
    let cut = truncate(number, scale.into())?;
    if cut > *number { subtract(&cut, &Numeric::new(1, scale)) } else { Ok(cut) }
}

/// The least whole number that is not less.
///
/// # Errors
/// 22003 if it overflows.
pub fn ceiling(number: &Numeric) -> Result<Numeric> {
    let whole = truncate(number, 0)?;
    if whole < *number { add(&whole, &Numeric::ONE) } else { Ok(whole) }
}

/// The sum.
///
/// # Errors
/// 22003 if it overflows.
pub fn add(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if let (Numeric::Small(a), Numeric::Small(b)) = (a, b)
        && let Some(sum) = Decimal::checked_add(*a, *b)
    {
        return Ok(Numeric::Small(sum));
    }
    let (Some(first), Some(second)) = (a.large(), b.large()) else {
        return Ok(match (a.is_nan() || b.is_nan(), a.is_finite(), b.is_finite()) {
            (true, ..) => Numeric::NotANumber,
            (_, false, false) if a.signum() != b.signum() => Numeric::NotANumber,
            (_, false, _) => a.clone(),
            _ => b.clone(),
        });
    };
    let scale = first.scale.max(second.scale);
    Large { units: first.units_at(scale) + second.units_at(scale), scale }.finish()
}

/// The same number with the other sign.
pub fn negate(number: &Numeric) -> Numeric {
    match number {
        Numeric::Small(small) => Decimal::new(-small.units(), small.scale()).unwrap_or(*small).into(),
        Numeric::Large(large) => Numeric::Large(Arc::new(Large { units: -&large.units, scale: large.scale })),
        Numeric::Infinite { is_negative } => Numeric::Infinite { is_negative: !is_negative },
        Numeric::NotANumber => Numeric::NotANumber,
    }
}

/// The same number without a sign.
pub fn absolute(number: &Numeric) -> Numeric {
    if number.signum() < 0 { negate(number) } else { number.clone() }
}

/// -1, 0, 1, or `NaN` of `NaN`.
pub fn sign(number: &Numeric) -> Numeric {
    if number.is_nan() { Numeric::NotANumber } else { number.signum().into() }
}

/// The difference.
///
/// # Errors
/// 22003 if it overflows.
pub fn subtract(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    add(a, &negate(b))
}

/// The product, with as many digits after the point as both have together.
///
/// # Errors
/// 22003 if it overflows.
pub fn product(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if let (Numeric::Small(a), Numeric::Small(b)) = (a, b)
        && let Some(product) = Decimal::checked_mul(*a, *b)
    {
        return Ok(Numeric::Small(product));
    }
    let (Some(first), Some(second)) = (a.large(), b.large()) else {
        return Ok(match a.signum() * b.signum() {
            0 => Numeric::NotANumber,
            sign => infinite(sign),
        });
    };
    let product = first.product(&second);
    product.rounded(product.scale.min(SCALE_MAX)).finish()
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

/// The digits after the point of a quotient of numbers whose first digits to the base of 10,000 are these.
fn quotient_scale(a: (i32, u128), b: (i32, u128), scales: u32) -> u32 {
    let weight = a.0 - b.0 - i32::from(a.1 <= b.1);
    (DIGITS_MIN - weight * 4).max(scales as i32).clamp(0, CHOSEN_SCALE_MAX) as u32
}

/// The quotient: it has at least 16 digits that count, and no fewer after the point than both numbers.
///
/// # Errors
/// 22012 for a division by zero, 22003 if it overflows.
pub fn quotient(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if b.is_zero() && !a.is_nan() {
        return Err(division_by_zero());
    }
    if let (Numeric::Small(a), Numeric::Small(b)) = (a, b)
        && let Some(quotient) = small_quotient(*a, *b)
    {
        return Ok(quotient);
    }
    let (Some(first), Some(second)) = (a.large(), b.large()) else { return Ok(quotient_of_special(a, b)) };
    let scale = quotient_scale(first.leading(), second.leading(), first.scale.max(second.scale));
    first.quotient(&second, scale).finish()
}

fn quotient_of_special(a: &Numeric, b: &Numeric) -> Numeric {
    match (a.is_nan() || b.is_nan(), a.is_finite(), b.is_finite()) {
        (true, ..) | (_, false, false) => Numeric::NotANumber,
        (_, false, true) => infinite(a.signum() * b.signum()),
        _ => Numeric::ZERO,
    }
}

/// None if more than 38 digits are needed.
fn small_quotient(a: Decimal, b: Decimal) -> Option<Numeric> {
    let scale = quotient_scale(leading(a), leading(b), a.scale().max(b.scale()).into());
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    let moved = u8::try_from(i32::from(scale) + i32::from(b.scale()) - i32::from(a.scale())).ok()?;
    let (high, low) = multiply(a.units().unsigned_abs(), 10u128.checked_pow(moved.into())?);
    let magnitude = divide_rounded(high, low, b.units().unsigned_abs())?;
    signed((a.units() < 0) != (b.units() < 0), magnitude, scale)
}

/// What a division to a whole number leaves, with the sign of `a`.
///
/// # Errors
/// 22012 for a division by zero.
pub fn remainder(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if b.is_zero() && !a.is_nan() {
        return Err(division_by_zero());
    }
    if let (Numeric::Small(a), Numeric::Small(b)) = (a, b)
        && let Some(rest) = a.checked_rem(*b)
    {
        return Ok(Numeric::Small(rest));
    }
    let (Some(first), Some(second)) = (a.large(), b.large()) else {
        let is_whole = a.is_finite() && !b.is_nan();
        return Ok(if is_whole { a.clone() } else { Numeric::NotANumber });
    };
    let scale = first.scale.max(second.scale);
    Large { units: first.units_at(scale) % second.units_at(scale), scale }.finish()
}

/// The quotient, cut to a whole number.
///
/// # Errors
/// 22012 for a division by zero, 22003 if it overflows.
pub fn whole_quotient(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if b.is_zero() && !a.is_nan() {
        return Err(division_by_zero());
    }
    let (Some(first), Some(second)) = (a.large(), b.large()) else { return Ok(quotient_of_special(a, b)) };
    let scale = first.scale.max(second.scale);
    Large { units: first.units_at(scale) / second.units_at(scale), scale: 0 }.finish()
}

/// The same number without zeros at its end after the point.
pub fn trim(number: &Numeric) -> Numeric {
    match number {
        Numeric::Small(small) => {
            let (mut units, mut scale) = (small.units(), small.scale());
            while scale > 0 && units % 10 == 0 {
                units /= 10;
                scale -= 1;
            }
            Decimal::new(units, scale).unwrap_or(*small).into()
        }
        Numeric::Large(large) => {
            let digits = large.units.magnitude().to_string();
            let zeros = digits.len() - digits.trim_end_matches('0').len();
            let dropped = if number.is_zero() { large.scale } else { large.scale.min(zeros as u32) };
            let units = &large.units / large_power_of_ten(dropped);
            // It has no more digits than before.
            Large { units, scale: large.scale - dropped }.finish().unwrap_or_else(|_| number.clone())
        }
        special => special.clone(),
    }
}

/// The greatest number that divides both to whole numbers.
///
/// # Errors
/// 22003 if it overflows.
pub fn greatest_divisor(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    let (Some(first), Some(second)) = (a.large(), b.large()) else { return Ok(Numeric::NotANumber) };
    let scale = first.scale.max(second.scale);
    let divisor = divisor_of(first.units_at(scale), second.units_at(scale));
    Large { units: divisor.magnitude().clone().into(), scale }.finish()
}

fn divisor_of(mut one: BigInt, mut other: BigInt) -> BigInt {
    while other.sign() != Sign::NoSign {
        let rest = &one % &other;
        (one, other) = (other, rest);
    }
    one
}

/// The least number that both divide to whole numbers.
///
/// # Errors
/// 22003 if it overflows.
pub fn least_multiple(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    let (Some(first), Some(second)) = (a.large(), b.large()) else { return Ok(Numeric::NotANumber) };
    let scale = first.scale.max(second.scale);
    if a.is_zero() || b.is_zero() {
        return Large { units: BigInt::ZERO, scale }.finish();
    }
    let (one, other) = (first.units_at(scale), second.units_at(scale));
    let multiple = &one / divisor_of(one.clone(), other.clone()) * other;
    Large { units: multiple.magnitude().clone().into(), scale }.finish()
}

/// The product of all whole numbers from 1 up to this.
///
/// # Errors
/// 22003 of a negative number, and if it overflows.
pub fn factorial(count: i64) -> Result<Numeric> {
    if count < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    // The factorial of a greater number has more than 131,072 digits.
    if count > 32_177 {
        return Err(crate::numeric::overflow());
    }
    let product = (2..=count).fold(BigInt::from(1), |product, factor| product * factor);
    Large { units: product, scale: 0 }.finish()
}

/// The exact number that a cast of a float makes: 15 digits of double, 6 of single precision.
pub fn of_float_cast(value: f64, is_single: bool) -> Numeric {
    if value.is_nan() {
        return Numeric::NotANumber;
    }
    if value.is_infinite() {
        return Numeric::Infinite { is_negative: value < 0.0 };
    }
    let text = if is_single { format!("{:.5e}", value as f32) } else { format!("{value:.14e}") };
    // All floats have less than 400 digits on either side of the point.
    trim(&Numeric::parse(&text).unwrap_or(Numeric::NotANumber))
}
