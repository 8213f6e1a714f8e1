//! Exact decimal numbers of up to 38 digits: an integer and the number of its digits after the point.
//!
//! Invariants:
//! 1. The units have at most 38 digits, and the scale is at most 38.
//! 2. `1.0` and `1.00` are equal, and neither is greater; they are written differently.
//!
//! A crate for decimals would be `rust_decimal`, whose 96 bits hold 28 digits. Columns of Arrow and PostgreSQL have 38,
//! and all that is needed here is exact: to compare, add, subtract and multiply integers of 128 bits. It serves as the
//! reference in tests.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use quipu::{Error, ErrorKind};

/// The most digits of a decimal.
pub const DIGITS_MAX: u8 = 38;

/// A decimal number: `units / 10^scale`.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    units: i128,
    scale: u8,
}

/// `10^exponent`, for exponents up to 38.
const fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(exponent as u32)
}

impl Decimal {
    /// The number `units / 10^scale`; none if it has more than 38 digits, or more than 38 after the point.
    ///
    /// ```
    /// use quipu_rows::Decimal;
    ///
    /// assert_eq!(Decimal::new(1250, 2).unwrap().to_string(), "12.50");
    /// assert!(Decimal::new(i128::MAX, 0).is_none());
    /// ```
    pub const fn new(units: i128, scale: u8) -> Option<Decimal> {
        if scale > DIGITS_MAX || units.unsigned_abs() >= power_of_ten(DIGITS_MAX).unsigned_abs() {
            return None;
        }
        Some(Decimal { units, scale })
    }

    /// The number without its point.
    pub const fn units(self) -> i128 {
        self.units
    }

    /// How many digits stand after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// The number that `text` writes: digits, with or without a sign, a point, and an exponent. None if it is no number
    /// or has more than 38 digits, zeros before the others apart.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            None => (text, 0),
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        };
        let (is_negative, digits) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut units = 0i128;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            units = units.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
        }
        if is_negative {
            units = -units;
        }
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if scale >= 0 {
            return Decimal::new(units, u8::try_from(scale).ok()?);
        }
        let zeros = u8::try_from(-scale).ok().filter(|&zeros| zeros <= DIGITS_MAX)?;
        Decimal::new(units.checked_mul(power_of_ten(zeros))?, 0)
    }

    /// The same number with so many digits after the point; none if that would lose digits or need more than 38.
    pub fn rescale(self, scale: u8) -> Option<Decimal> {
        if scale > DIGITS_MAX {
            return None;
        }
        if scale >= self.scale {
            return Decimal::new(self.units.checked_mul(power_of_ten(scale - self.scale))?, scale);
        }
        let divisor = power_of_ten(self.scale - scale);
        (self.units % divisor == 0).then_some(Decimal { units: self.units / divisor, scale })
    }

    /// Whether it has at most so many digits.
    pub fn fits(self, precision: u8) -> bool {
        precision >= DIGITS_MAX || self.units.unsigned_abs() < power_of_ten(precision).unsigned_abs()
    }

    /// The sum; none if it needs more than 38 digits.
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.rescale(scale)?, other.rescale(scale)?);
        Decimal::new(a.units.checked_add(b.units)?, scale)
    }

    /// The difference; none if it needs more than 38 digits.
    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        self.checked_add(Decimal { units: -other.units, scale: other.scale })
    }

    /// The product; none if it needs more than 38 digits.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        Decimal::new(self.units.checked_mul(other.units)?, self.scale.checked_add(other.scale)?)
    }

    /// The quotient with six digits after the point, or as many as the longer of the two has, rounded half away from
    /// zero; none for a division by zero, and if it needs more than 38 digits on the way.
    pub fn checked_div(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale).max(6);
        // units / other.units with the points moved by scale + other.scale - self.scale digits.
        let moved = self.units.checked_mul(power_of_ten(scale + other.scale - self.scale))?;
        let quotient = moved.checked_div(other.units)?;
        let rest = (moved % other.units).unsigned_abs();
        let is_up = rest >= other.units.unsigned_abs() - rest;
        let step = if (moved < 0) == (other.units < 0) { 1 } else { -1 };
        Decimal::new(if is_up { quotient + step } else { quotient }, scale)
    }

    /// What is left of a division whose quotient is cut to an integer; it has the sign of `self`. None for a division
    /// by zero, and if it needs more than 38 digits on the way.
    pub fn checked_rem(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.rescale(scale)?, other.rescale(scale)?);
        Decimal::new(a.units.checked_rem(b.units)?, scale)
    }

    /// The nearest number of double precision.
    pub fn to_f64(self) -> f64 {
        // Through the text, which is rounded once; digits beyond 2^53 would round twice in a division.
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The digits before the point, and those after it as units of 10^-38; both have the sign of the number.
    fn split(self) -> (i128, i128) {
        let divisor = power_of_ten(self.scale);
        (self.units / divisor, self.units % divisor * power_of_ten(DIGITS_MAX - self.scale))
    }
}

/// As [`Decimal::parse`]; [`Invalid`](ErrorKind::Invalid) for what it does not take.
///
/// ```
/// use quipu_rows::Decimal;
///
/// let price: Decimal = "12.50".parse()?;
/// assert_eq!((price.units(), price.scale()), (1250, 2));
/// assert!("12,50".parse::<Decimal>().is_err());
/// # Ok::<(), quipu::Error>(())
/// ```
impl FromStr for Decimal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Decimal, Error> {
        let what = || Error::new(ErrorKind::Invalid, format!("{text:?} is not a decimal number, such as 12.50"));
        Decimal::parse(text).ok_or_else(what)
    }
}

impl From<i64> for Decimal {
    fn from(whole: i64) -> Decimal {
        Decimal { units: whole.into(), scale: 0 }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.split().cmp(&other.split())
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

/// All digits after the point, as many as the scale says: `12.50`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let (magnitude, divisor) = (self.units.unsigned_abs(), power_of_ten(self.scale).unsigned_abs());
        write!(f, "{sign}{}", magnitude / divisor)?;
        if self.scale > 0 {
            write!(f, ".{:0width$}", magnitude % divisor, width = usize::from(self.scale))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rust_decimal::Decimal as Reference;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text:?}"))
    }

    #[test]
    fn texts_are_read_and_written_exactly() {
        for text in ["0", "0.00", "-0.05", "12.50", "99999999999999999999999999999999999999", "0.00000000000000000001"]
        {
            assert_eq!(decimal(text).to_string(), text);
        }
        for (text, written) in [("+1", "1"), (".5", "0.5"), ("5.", "5"), ("1.5e3", "1500"), ("1.25E-3", "0.00125")] {
            assert_eq!(decimal(text).to_string(), written);
        }
        for text in ["", "-", ".", "1.2.3", "1e", "e5", "1_000", "0x10", "NaN", "1e40", "1e-39", " 1", "--1", "１"] {
            assert_eq!(Decimal::parse(text).map(|found| found.to_string()), None, "{text:?}");
        }
        assert!(Decimal::parse("100000000000000000000000000000000000000").is_none(), "39 digits");
        assert!(Decimal::parse("0.000000000000000000000000000000000000001").is_none(), "39 digits after the point");
    }

    #[test]
    fn numbers_are_rescaled_only_without_loss() {
        assert_eq!(decimal("1.50").rescale(1).unwrap().to_string(), "1.5");
        assert_eq!(decimal("1.5").rescale(3).unwrap().to_string(), "1.500");
        assert!(decimal("1.55").rescale(1).is_none());
        assert!(decimal("1").rescale(39).is_none());
        assert!(decimal("10").rescale(37).is_none(), "39 digits");
        assert!(decimal("99.9").fits(3) && !decimal("99.9").fits(2) && decimal("-99.9").fits(3));
    }

    #[test]
    fn numbers_of_all_scales_compare_by_value() {
        let ascending = [
            "-99999999999999999999999999999999999999",
            "-1.5",
            "-1.49999999999999999999999999999999999999",
            "-0.1",
            "0",
            "0.00000000000000000000000000000000000001",
            "0.1",
            "0.10000000000000000000000000000000000001",
            "1",
            "99999999999999999999999999999999999999",
        ];
        for (a, first) in ascending.iter().enumerate() {
            for (b, second) in ascending.iter().enumerate() {
                let expected = if first.len() > 39 || second.len() > 39 { continue } else { a.cmp(&b) };
                assert_eq!(decimal(first).cmp(&decimal(second)), expected, "{first} and {second}");
            }
        }
        assert_eq!(decimal("1.0"), decimal("1.00"));
        assert_eq!(decimal("-0"), decimal("0.000"));
    }

    #[test]
    fn arithmetic_is_that_of_the_reference() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut drawn = || {
            let (units, scale) = (random.random::<i64>() >> random.random_range(0..63), random.random_range(0..10));
            let own = Decimal::new(units.into(), scale).unwrap();
            (own, Reference::new(units, scale.into()))
        };
        for _ in 0..20_000 {
            let ((a, a_reference), (b, b_reference)) = (drawn(), drawn());
            assert_eq!(a.to_string(), a_reference.to_string());
            assert_eq!(a.cmp(&b), a_reference.cmp(&b_reference), "{a} and {b}");
            let same = |own: Option<Decimal>, reference: Option<Reference>, what: &str| {
                let Some(reference) = reference else { return };
                let own = own.unwrap_or_else(|| panic!("{a} {what} {b} is {reference}")).to_string();
                assert_eq!(own.parse::<Reference>().map(|own| own == reference), Ok(true), "{a} {what} {b} is {own}");
            };
            same(a.checked_add(b), a_reference.checked_add(b_reference), "+");
            same(a.checked_sub(b), a_reference.checked_sub(b_reference), "-");
            // Products of more than 28 digits are rounded there.
            if a.units.unsigned_abs() < 1 << 40 && b.units.unsigned_abs() < 1 << 40 {
                same(a.checked_mul(b), a_reference.checked_mul(b_reference), "*");
                same(a.checked_rem(b), a_reference.checked_rem(b_reference), "%");
                if let (Some(own), Some(reference)) = (a.checked_div(b), a_reference.checked_div(b_reference)) {
                    let off = (own.to_f64() - reference.to_string().parse::<f64>().unwrap()).abs();
                    assert!(off <= 0.6 * 10f64.powi(-i32::from(own.scale)) + own.to_f64().abs() * 1e-15, "{a} / {b}");
                }
            }
        }
        assert!(decimal("1").checked_div(decimal("0")).is_none());
        assert_eq!(decimal("1").checked_div(decimal("3")).unwrap().to_string(), "0.333333");
        assert_eq!(decimal("-2").checked_div(decimal("3")).unwrap().to_string(), "-0.666667");
        assert_eq!(decimal("0.0000005").checked_div(decimal("1")).unwrap().to_string(), "0.0000005");
    }
}
