//! Numbers of more than 38 digits: a whole number of any size and the count of its digits after the point.

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint, Sign};
use quipu_rows::Decimal;

use crate::error::Result;
use crate::numeric::{Numeric, SCALE_MAX, WHOLE_DIGITS_MAX, overflow};

/// `units / 10^scale`
#[derive(Clone, Debug)]
pub struct Large {
    pub(super) units: BigInt,
    pub(super) scale: u32,
}

/// `10^exponent`
pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The quotient, rounded half away from zero.
pub(super) fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let magnitude = (dividend.magnitude() * 2u32 + divisor.magnitude()) / (divisor.magnitude() * 2u32);
    let is_negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    BigInt::from_biguint(if is_negative { Sign::Minus } else { Sign::Plus }, magnitude)
}

/// How many digits a number has; none of zero.
fn digits(magnitude: &BigUint) -> u32 {
    if magnitude.bits() == 0 {
        return 0;
    }
    let least = ((magnitude.bits() - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    // Of 2^n, `least` or one more digits; the product may be off by one where it is nearly whole.
    let mut found = least.saturating_sub(1).max(1);
    let mut limit = BigUint::from(10u32).pow(found);
    while limit <= *magnitude {
        limit *= 10u32;
        found += 1;
    }
    found
}

impl Large {
    /// Zero, or the place of the first digit: 0 of 7.5, 2 of 750, -3 of 0.0075.
    pub(super) fn exponent(&self) -> i32 {
        match digits(self.units.magnitude()) {
            0 => 0,
            digits => digits as i32 - 1 - self.scale as i32,
        }
    }

    /// The number as such.
    ///
    /// # Errors
    /// 22003 if it has more digits than `numeric` has.
    pub(super) fn finish(self) -> Result<Numeric> {
        if self.scale > SCALE_MAX {
            return Err(overflow());
        }
        let small = u8::try_from(self.scale).ok().zip(i128::try_from(&self.units).ok());
        if let Some(small) = small.and_then(|(scale, units)| Decimal::new(units, scale)) {
            return Ok(Numeric::Small(small));
        }
        // 3 bits a digit, so that numbers of usual sizes are not counted.
        let is_short = self.units.bits() < u64::from(WHOLE_DIGITS_MAX) * 3;
        if !is_short && self.exponent() >= WHOLE_DIGITS_MAX as i32 {
            return Err(overflow());
        }
        Ok(Numeric::Large(Arc::new(self)))
    }

    /// The units that it has with so many digits after the point, rounded half away from zero.
    pub(super) fn units_at(&self, scale: u32) -> BigInt {
        match scale.cmp(&self.scale) {
            Ordering::Equal => self.units.clone(),
            Ordering::Greater => &self.units * power_of_ten(scale - self.scale),
            Ordering::Less => divide_rounded(&self.units, &power_of_ten(self.scale - scale)),
        }
    }

    /// The same number with so many digits after the point, rounded half away from zero.
    pub(super) fn rounded(&self, scale: u32) -> Large {
        Large { units: self.units_at(scale), scale }
    }

    pub(super) fn compare(&self, other: &Large) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.units_at(scale).cmp(&other.units_at(scale))
    }

    pub(super) fn product(&self, other: &Large) -> Large {
        Large { units: &self.units * &other.units, scale: self.scale + other.scale }
    }

    /// The quotient with so many digits after the point, rounded half away from zero.
    pub(super) fn quotient(&self, other: &Large, scale: u32) -> Large {
        let moved = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let power = power_of_ten(moved.unsigned_abs() as u32);
        let units = match moved {
            0.. => divide_rounded(&(&self.units * power), &other.units),
            _ => divide_rounded(&self.units, &(&other.units * power)),
        };
        Large { units, scale }
    }

    /// The place of the first of the digits to the base of 10,000, and that digit.
    pub(super) fn leading(&self) -> (i32, u128) {
        if self.units.sign() == Sign::NoSign {
            return (0, 0);
        }
        let weight = self.exponent().div_euclid(4);
        let exponent = weight * 4 + self.scale as i32;
        let power = power_of_ten(exponent.unsigned_abs());
        let digit = if exponent >= 0 {
            self.units.magnitude() / power.magnitude()
        } else {
            (&self.units * power).magnitude().clone()
        };
        (weight, u128::try_from(digit).unwrap_or(0))
    }

    /// The nearest number of double precision to its first digits, times ten to the number beside it.
    pub(super) fn approximate(&self) -> (f64, i32) {
        let dropped = self.units.bits().saturating_sub(64) as f64 * std::f64::consts::LOG10_2;
        let dropped = dropped as u32;
        let first = &self.units / power_of_ten(dropped);
        let first = i128::try_from(&first).unwrap_or(i128::MAX) as f64;
        (first, dropped as i32 - self.scale as i32)
    }
}
