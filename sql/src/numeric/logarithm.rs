//! Roots, powers, exponentials and logarithms of exact numbers, with PostgreSQL's digits after the point.
//!
//! How many digits a result has is chosen as PostgreSQL chooses it, by estimates of where its first digit stands. The
//! series are summed in binary fixed point, with more bits than those digits need.

use num_bigint::{BigInt, Sign};

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::arithmetic::{CHOSEN_SCALE_MAX, DIGITS_MIN, infinite, truncate};
use crate::numeric::large::{Large, divide_rounded, power_of_ten};
use crate::numeric::{Numeric, division_by_zero, overflow};

/// The bits of a decimal digit, and a little more.
const BITS_A_DIGIT: f64 = 3.322;
/// Bits that only take up the errors of sums and products.
const SPARE_BITS: u64 = 64;
/// The exponents from which on an exponential overflows, or is zero.
const EXPONENT_LIMIT: f64 = 6_000.0;
/// The greatest place of a first digit to the base of 10,000 on the way to a power.
const WEIGHT_MAX: i32 = i16::MAX as i32;

#[cold]
fn no_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

/// The digits after the point of a result whose first digit stands at this place.
fn chosen_scale(exponent: i32, least: u32) -> u32 {
    (DIGITS_MIN - exponent).max(least as i32).clamp(0, CHOSEN_SCALE_MAX) as u32
}

/// The square root.
///
/// # Errors
/// 2201F of a negative number.
pub fn square_root(number: &Numeric) -> Result<Numeric> {
    if number.signum() < 0 {
        return Err(no_power("cannot take square root of a negative number"));
    }
    let Some(large) = number.large() else { return Ok(number.clone()) };
    let exponent = (large.leading().0 + 1) * 2 - 1;
    root_at(&large, chosen_scale(exponent, large.scale)).finish()
}

/// The square root with as many digits after the point as the number has.
///
/// # Errors
/// 2201F of a negative number.
pub(crate) fn square_root_of_same_scale(number: &Numeric) -> Result<Numeric> {
    match number.large() {
        Some(large) if large.units.sign() != Sign::Minus => root_at(&large, large.scale).finish(),
        _ => square_root(number),
    }
}

fn root_at(number: &Large, scale: u32) -> Large {
    let square = number.units_at(2 * scale).magnitude().clone();
    let root = square.sqrt();
    // Half more than the root is its square, and a quarter.
    let is_up = square - &root * &root > root;
    Large { units: BigInt::from(root) + i32::from(is_up), scale }
}

/// A number in fixed point of so many bits.
fn fixed(number: &Large, bits: u64) -> BigInt {
    (&number.units << bits) / power_of_ten(number.scale)
}

/// A number in fixed point of so many bits, with so many digits after the point.
fn of_fixed(fixed: &BigInt, bits: u64, scale: u32) -> Large {
    Large { units: divide_rounded(&(fixed * power_of_ten(scale)), &(BigInt::from(1) << bits)), scale }
}

fn bits_of(digits: u32) -> u64 {
    (f64::from(digits) * BITS_A_DIGIT) as u64 + SPARE_BITS
}

/// e to the power of a number, with so many digits after the point.
fn exponential_at(number: &Large, scale: u32) -> Result<Large> {
    let nearest = float(number);
    if nearest.abs() >= EXPONENT_LIMIT {
        return if nearest > 0.0 { Err(overflow()) } else { Ok(Large { units: BigInt::ZERO, scale }) };
    }
    let whole_digits = (nearest * std::f64::consts::LOG10_E).max(0.0) as u32 + 1;
    let bits = bits_of(scale + whole_digits);
    let exponent = fixed(number, bits);
    // The series is that of a number below 1/256; each squaring doubles the error.
    let halvings = (exponent.bits() + 8).saturating_sub(bits);
    let reduced = exponent >> halvings;
    let mut term = BigInt::from(1) << bits;
    let mut sum = term.clone();
    for place in 1u32.. {
        term = ((term * &reduced) >> bits) / place;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = (&sum * &sum) >> bits;
    }
    Ok(of_fixed(&sum, bits, scale))
}

/// The sum of `1 / ((2k + 1) n^(2k + 1))`, in fixed point.
fn inverse_area_tangent(number: u32, bits: u64) -> BigInt {
    let mut power = (BigInt::from(1) << bits) / number;
    let mut sum = power.clone();
    for place in 1u32.. {
        power /= number * number;
        if power.sign() == Sign::NoSign {
            break;
        }
        sum += &power / (2 * place + 1);
    }
    sum
}

/// The natural logarithm of a positive number, with so many digits after the point.
fn natural_at(number: &Large, scale: u32) -> Large {
    let bits = bits_of(scale);
    let divisor = power_of_ten(number.scale);
    // number = mantissa * 2^exponent, with a mantissa from 2/3 to 4/3.
    let mut exponent = number.units.bits() as i64 - divisor.bits() as i64;
    let moved = bits as i64 - exponent;
    let mut mantissa = match moved {
        0.. => (&number.units << moved) / divisor,
        _ => (&number.units >> -moved) / divisor,
    };
    let one = BigInt::from(1) << bits;
    if &mantissa * 3 > &one * 4 {
        mantissa >>= 1;
        exponent += 1;
    } else if &mantissa * 3 < &one * 2 {
        mantissa <<= 1;
        exponent -= 1;
    }
    let tangent = ((&mantissa - &one) << bits) / (mantissa + one);
    let square = (&tangent * &tangent) >> bits;
    let (mut power, mut sum) = (tangent.clone(), tangent);
    for place in 1u32.. {
        power = (&power * &square) >> bits;
        let term = &power / (2 * place + 1);
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += term;
    }
    let mut logarithm = sum * 2;
    if exponent != 0 {
        let parts = [(18, 26), (-2, 4_801), (8, 8_749)];
        let two: BigInt = parts.iter().map(|(count, number)| inverse_area_tangent(*number, bits) * *count).sum();
        logarithm += two * exponent;
    }
    of_fixed(&logarithm, bits, scale)
}

/// The nearest number of double precision, infinite beyond all of them.
fn float(number: &Large) -> f64 {
    let (first, exponent) = number.approximate();
    first * 10f64.powi(exponent)
}

/// The place of the first digit of the natural logarithm of a positive number, by and large.
fn logarithm_exponent(number: &Large) -> i32 {
    let tenth = Large { units: BigInt::from(1), scale: 1 };
    let one = Large { units: BigInt::from(1), scale: 0 };
    let scale = number.scale.max(1);
    let distance = number.units_at(scale) - one.units_at(scale);
    if distance.magnitude() > tenth.units_at(scale).magnitude() {
        let (first, exponent) = number.approximate();
        let logarithm = first.ln() + f64::from(exponent) * std::f64::consts::LN_10;
        return logarithm.abs().log10() as i32;
    }
    let (weight, first) = Large { units: distance, scale }.leading();
    if first == 0 { 0 } else { weight * 4 + first.ilog10() as i32 }
}

fn refuse_logarithm(number: &Numeric) -> Result<()> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    match number.signum() {
        _ if number.is_nan() => Ok(()),
        -1 => refuse("cannot take logarithm of a negative number"),
        0 => refuse("cannot take logarithm of zero"),
        _ => Ok(()),
    }
}

/// e to the power of a number.
///
/// # Errors
/// 22003 if it overflows.
pub fn exponential(number: &Numeric) -> Result<Numeric> {
    let Some(large) = number.large() else {
        return Ok(if number.signum() < 0 { Numeric::ZERO } else { number.clone() });
    };
    let exponent = (float(&large) * std::f64::consts::LOG10_E).clamp(-2_000.0, 2_000.0) as i32;
    exponential_at(&large, chosen_scale(exponent, large.scale))?.finish()
}

/// The natural logarithm.
///
/// # Errors
/// 2201E of zero and of negative numbers.
pub fn natural(number: &Numeric) -> Result<Numeric> {
    refuse_logarithm(number)?;
    let Some(large) = number.large() else { return Ok(number.clone()) };
    natural_at(&large, chosen_scale(logarithm_exponent(&large), large.scale)).finish()
}

/// The logarithm to a base.
///
/// # Errors
/// 2201E of zero and of negative numbers, 22012 to the base 1.
pub fn logarithm(base: &Numeric, number: &Numeric) -> Result<Numeric> {
    if base.is_nan() || number.is_nan() {
        return Ok(Numeric::NotANumber);
    }
    let negative = [base, number].into_iter().find(|number| number.signum() < 0);
    refuse_logarithm(negative.unwrap_or(base))?;
    refuse_logarithm(number)?;
    let (Some(base_large), Some(large)) = (base.large(), number.large()) else {
        return Ok(match (base.is_finite(), number.is_finite()) {
            (false, false) => Numeric::NotANumber,
            (false, true) => Numeric::ZERO,
            _ => infinite(1),
        });
    };
    let (base_exponent, exponent) = (logarithm_exponent(&base_large), logarithm_exponent(&large));
    let result_exponent = exponent - base_exponent;
    let scale = chosen_scale(result_exponent, large.scale.max(base_large.scale));
    let digits = |of: i32| (scale as i32 + result_exponent - of + 8).max(0) as u32;
    let divisor = natural_at(&base_large, digits(base_exponent));
    if divisor.units.sign() == Sign::NoSign {
        return Err(division_by_zero());
    }
    natural_at(&large, digits(exponent)).quotient(&divisor, scale).finish()
}

/// A power.
///
/// # Errors
/// 2201F of zero to a negative power and of a negative number to a broken one; 22003 if it overflows.
pub fn power(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    let (base_sign, sign) = (base.signum(), exponent.signum());
    let has_nan = base.is_nan() || exponent.is_nan();
    if !has_nan && base_sign == 0 && sign < 0 {
        return Err(no_power("zero raised to a negative power is undefined"));
    }
    let is_whole = has_nan || truncate(exponent, 0)? == *exponent;
    if base_sign < 0 && !is_whole {
        return Err(no_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let (Some(large), Some(exponent_large)) = (base.large(), exponent.large()) else {
        return Ok(power_of_special(base, exponent));
    };
    if let Some(count) = exponent.as_i64().and_then(|count| i32::try_from(count).ok()) {
        return whole_power(&large, count)?.finish();
    }
    if base_sign == 0 {
        return Ok(Numeric::new(0, DIGITS_MIN as u8));
    }
    let is_odd = is_whole && exponent_large.units_at(0).bit(0);
    let magnitude = Large { units: large.units.magnitude().clone().into(), scale: large.scale };
    let power = broken_power(&magnitude, &exponent_large)?;
    Large { units: if base_sign < 0 && is_odd { -power.units } else { power.units }, ..power }.finish()
}

/// A power of which one number is infinite or `NaN`.
fn power_of_special(base: &Numeric, exponent: &Numeric) -> Numeric {
    let one = Numeric::ONE;
    if *base == one || exponent.is_zero() {
        return one;
    }
    if base.is_nan() || exponent.is_nan() {
        return Numeric::NotANumber;
    }
    let (sign, is_positive) = (base.signum(), exponent.signum() > 0);
    if sign == 0 {
        return Numeric::ZERO;
    }
    if !exponent.is_finite() {
        let magnitude = crate::numeric::arithmetic::absolute(base);
        return match magnitude.cmp(&one) {
            std::cmp::Ordering::Equal => one,
            order if order.is_gt() == is_positive => infinite(1),
            _ => Numeric::ZERO,
        };
    }
    let is_odd = exponent.large().is_some_and(|exponent| exponent.units_at(0).bit(0));
    match is_positive {
        false => Numeric::ZERO,
        true => infinite(if sign < 0 && is_odd { -1 } else { 1 }),
    }
}

/// The power of a positive number by way of its logarithm.
fn broken_power(base: &Large, exponent: &Large) -> Result<Large> {
    let place = logarithm_exponent(base);
    let product = |digits: i32| {
        let digits = digits.max(0) as u32;
        natural_at(base, digits).product(exponent).rounded(digits)
    };
    let estimate = float(&product(8 - place));
    if estimate.abs() > EXPONENT_LIMIT * 1.003_333 {
        let scale = CHOSEN_SCALE_MAX as u32;
        return if estimate > 0.0 { Err(overflow()) } else { Ok(Large { units: BigInt::ZERO, scale }) };
    }
    let result_place = (estimate * std::f64::consts::LOG10_E) as i32;
    let scale = chosen_scale(result_place, base.scale.max(exponent.scale));
    let digits = (scale as i32 + result_place).max(0);
    exponential_at(&product(digits - place + 8), scale)
}

/// The power of a whole number, by squares.
fn whole_power(base: &Large, exponent: i32) -> Result<Large> {
    let scale = DIGITS_MIN.max(base.scale as i32).min(CHOSEN_SCALE_MAX) as u32;
    let one = Large { units: BigInt::from(1), scale: 0 };
    let zero = Large { units: BigInt::ZERO, scale };
    match exponent {
        0 => return Ok(one.rounded(scale)),
        1 => return Ok(base.rounded(scale)),
        2 => return Ok(base.product(base).rounded(scale)),
        _ if base.units.sign() == Sign::NoSign => return Ok(zero),
        -1 => return Ok(one.quotient(base, scale)),
        _ => {}
    }
    let (first, moved) = base.approximate();
    let place = f64::from(exponent) * (first.abs().log10() + f64::from(moved));
    if place > f64::from(3 * WEIGHT_MAX * 4) {
        return Err(overflow());
    }
    if place + 1.0 < -f64::from(scale) {
        return Ok(zero);
    }
    let digits = 1 + scale as i32 + place as i32 + f64::from(exponent).abs().ln() as i32 + 8;
    let weight = |number: &Large| number.leading().0;
    let product = |a: &Large, b: &Large| {
        let kept = (digits - (weight(a) + weight(b)) * 4).min((a.scale + b.scale) as i32).max(0) as u32;
        a.product(b).rounded(kept)
    };
    let (mut square, mut power) = (base.clone(), one.clone());
    let mut rest = exponent.unsigned_abs();
    loop {
        if rest & 1 == 1 {
            power = product(&power, &square);
        }
        rest >>= 1;
        if rest == 0 {
            break;
        }
        square = product(&square, &square);
        if weight(&square) > WEIGHT_MAX || weight(&power) > WEIGHT_MAX {
            return if exponent > 0 { Err(overflow()) } else { Ok(zero) };
        }
    }
    Ok(if exponent < 0 { one.quotient(&power, scale) } else { power.rounded(scale) })
}
