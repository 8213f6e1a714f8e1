//! Exact numbers, as `numeric` has them: up to 131,072 digits before the point and 16,383 after it, `NaN` and infinity.
//!
//! | file | what it is |
//! |---|---|
//! | `large` | numbers that do not fit 128 bits |
//! | `arithmetic` | sums, products, quotients, roundings, with PostgreSQL's digits after the point |
//! | `wide` | products and quotients of 256 bits |
//! | `logarithm` | roots, powers, exponentials and logarithms |
//! | `written` | numbers of text, as text, and in PostgreSQL's digits to the base of 10,000 |
//!
//! Invariants:
//! 1. What fits a [`Decimal`], at most 38 digits of which all may follow the point, is one: [`Numeric::Small`]. All
//!    arithmetic of such numbers whose result fits as well stays in 128 bits.
//! 2. `1.0` and `1.00` are equal, have the same hash, and are written differently.
//! 3. `NaN` equals itself, and is greater than all else, as in PostgreSQL.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::{BigInt, Sign};
use quipu_rows::Decimal;

use crate::error::{SqlError, SqlState};

mod arithmetic;
mod large;
mod logarithm;
#[cfg(test)]
mod tests;
mod wide;
mod written;

pub use arithmetic::{
    absolute, add, ceiling, factorial, floor, greatest_divisor, least_multiple, negate, of_float_cast, product,
    quotient, remainder, round, sign, subtract, trim, truncate, whole_quotient,
};
pub(crate) use arithmetic::{at_scale, floor_at, has_digits_before};
pub use large::Large;
pub(crate) use logarithm::square_root_of_same_scale;
pub use logarithm::{exponential, logarithm, natural, power, square_root};
pub use written::Wrong;
pub(crate) use written::{read_digits, scientific, write_digits};

/// The most digits before the point.
const WHOLE_DIGITS_MAX: u32 = 131_072;
/// The most digits after it.
const SCALE_MAX: u32 = 16_383;

/// An exact number, `NaN`, or infinity.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// A number of at most 38 digits.
    Small(Decimal),
    /// A number of more.
    Large(Arc<Large>),
    /// Infinity: greater than all numbers, or less.
    Infinite {
        /// Whether it is less.
        is_negative: bool,
    },
    /// `NaN`
    NotANumber,
}

impl Numeric {
    /// Zero.
    pub const ZERO: Numeric = Numeric::of_small(0);
    /// One.
    pub const ONE: Numeric = Numeric::of_small(1);

    const fn of_small(units: i64) -> Numeric {
        match Decimal::new(units as i128, 0) {
            Some(decimal) => Numeric::Small(decimal),
            None => Numeric::NotANumber,
        }
    }

    /// The number `units / 10^scale`.
    pub fn new(units: i128, scale: u8) -> Numeric {
        match Decimal::new(units, scale) {
            Some(decimal) => Numeric::Small(decimal),
            None => Numeric::Large(Arc::new(Large { units: units.into(), scale: scale.into() })),
        }
    }

    /// Whether it is a number: neither `NaN` nor infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self, Numeric::Small(_) | Numeric::Large(_))
    }

    /// Whether it is `NaN`.
    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::NotANumber)
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0 && !self.is_nan()
    }

    /// -1 of what is less than zero, 1 of what is greater, and 0 of zero and `NaN`.
    pub fn signum(&self) -> i64 {
        match self {
            Numeric::Small(decimal) => decimal.units().signum() as i64,
            Numeric::Large(large) => match large.units.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            Numeric::Infinite { is_negative } => 1 - 2 * i64::from(*is_negative),
            Numeric::NotANumber => 0,
        }
    }

    /// How many digits follow the point; none of `NaN` and infinity.
    pub fn scale(&self) -> Option<u32> {
        match self {
            Numeric::Small(decimal) => Some(decimal.scale().into()),
            Numeric::Large(large) => Some(large.scale),
            _ => None,
        }
    }

    /// The number, if it has at most 38 digits.
    pub fn small(&self) -> Option<Decimal> {
        match self {
            Numeric::Small(decimal) => Some(*decimal),
            _ => None,
        }
    }

    /// The number, if it is whole and fits 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        let whole = self.small()?.rescale(0)?;
        i64::try_from(whole.units()).ok()
    }

    /// The nearest number of double precision, which is infinite if it is beyond all of them.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::Small(decimal) => decimal.to_f64(),
            Numeric::Large(_) => self.to_string().parse().unwrap_or(f64::NAN),
            Numeric::Infinite { is_negative: false } => f64::INFINITY,
            Numeric::Infinite { is_negative: true } => f64::NEG_INFINITY,
            Numeric::NotANumber => f64::NAN,
        }
    }

    /// The bytes that it takes beside its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Numeric::Large(large) => size_of::<Large>() + (large.units.bits() / 8) as usize,
            _ => 0,
        }
    }

    /// Where it stands among `-Infinity`, numbers, `Infinity` and `NaN`.
    fn class(&self) -> u8 {
        match self {
            Numeric::Infinite { is_negative: true } => 0,
            Numeric::Small(_) | Numeric::Large(_) => 1,
            Numeric::Infinite { is_negative: false } => 2,
            Numeric::NotANumber => 3,
        }
    }

    /// The number with all its digits; none of `NaN` and infinity.
    fn large(&self) -> Option<Large> {
        match self {
            Numeric::Small(decimal) => {
                Some(Large { units: BigInt::from(decimal.units()), scale: decimal.scale().into() })
            }
            Numeric::Large(large) => Some(Large::clone(large)),
            _ => None,
        }
    }
}

impl From<Decimal> for Numeric {
    fn from(decimal: Decimal) -> Numeric {
        Numeric::Small(decimal)
    }
}

impl From<i64> for Numeric {
    fn from(whole: i64) -> Numeric {
        Numeric::Small(Decimal::from(whole))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Numeric::Small(a), Numeric::Small(b)) = (self, other) {
            return a.cmp(b);
        }
        match (self.large(), other.large()) {
            (Some(a), Some(b)) => self.signum().cmp(&other.signum()).then_with(|| a.compare(&b)),
            _ => self.class().cmp(&other.class()),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

/// Whole numbers of 64 bits hash as such, and others as the float that is nearest: they may be compared with those.
impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let trimmed = arithmetic::trim(self);
        match trimmed.as_i64() {
            Some(whole) => whole.hash(state),
            None => hash_float(trimmed.to_f64(), state),
        }
    }
}

/// Floats that are whole numbers of 64 bits hash as these do.
pub(crate) fn hash_float(float: f64, state: &mut impl Hasher) {
    if float.fract() == 0.0 && float.abs() < 9e18 {
        (float as i64).hash(state);
    } else if float.is_nan() {
        state.write_u8(1);
    } else {
        float.to_bits().hash(state);
    }
}

/// A number of more digits than `numeric` has.
#[cold]
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// A division by zero.
#[cold]
pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
