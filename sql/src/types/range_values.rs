//! Ranges and multiranges as their types keep them.
//!
//! Of types whose values are counted (integers, days), a range has its lower bound and not its upper one, whatever it
//! was written as: `[1,3]` is `[1,4)`.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::Datum;
use crate::types::range::{Lower, Range, Upper, joined};
use crate::types::refusal::{mismatch, out_of_range};
use crate::types::{BaseType, RangeKind, moment};

/// The value after one, of a type whose values are counted.
fn next(kind: RangeKind, value: &Datum) -> Result<Option<Datum>> {
    Ok(match (kind, value) {
        (RangeKind::Int4 | RangeKind::Int8, Datum::Int(value)) => {
            let most = if kind == RangeKind::Int4 { i32::MAX.into() } else { i64::MAX };
            Some(Datum::Int(
                value.checked_add(1).filter(|next| *next <= most).ok_or_else(|| out_of_range(kind.element()))?,
            ))
        }
        (RangeKind::Date, Datum::Date(date)) if date.is_finite() => {
            Some(Datum::Date(moment::date(i64::from(date.days()) + 1)?))
        }
        _ => None,
    })
}

/// The range from one bound to another.
///
/// # Errors
/// 22000 if the lower bound comes after the upper one; 22003 and 22008 for a value after the greatest one.
pub fn make(kind: RangeKind, lower: Lower<Datum>, upper: Upper<Datum>) -> Result<Range<Datum>> {
    if let (Some((begin, _)), Some((end, _))) = (lower.parts(), upper.parts())
        && begin > end
    {
        let what = "range lower bound must be less than or equal to range upper bound";
        return Err(SqlError::new(SqlState::DATA_EXCEPTION, what));
    }
    let Range::Bounds(mut lower, mut upper) = Range::of(lower, upper) else { return Ok(Range::Empty) };
    if let Lower::At { value, is_exclusive: true } = &lower
        && let Some(value) = next(kind, value)?
    {
        lower = Lower::At { value, is_exclusive: false };
    }
    if let Upper::At { value, is_inclusive: true } = &upper
        && let Some(value) = next(kind, value)?
    {
        upper = Upper::At { value, is_inclusive: false };
    }
    Ok(Range::of(lower, upper))
}

/// The value of a range.
pub fn datum(range: Range<Datum>) -> Datum {
    Datum::Range(Arc::new(range))
}

/// The multirange of all values of some ranges.
pub fn multirange(ranges: Vec<Range<Datum>>) -> Datum {
    Datum::Multirange(joined(ranges).into())
}

/// The ranges of a range or of a multirange.
///
/// # Errors
/// A value of another type.
pub fn members(value: &Datum) -> Result<&[Range<Datum>]> {
    match value {
        Datum::Range(range) if **range == Range::Empty => Ok(&[]),
        Datum::Range(range) => Ok(std::slice::from_ref(range)),
        Datum::Multirange(ranges) => Ok(ranges),
        _ => Err(mismatch(BaseType::AnyRange)),
    }
}
