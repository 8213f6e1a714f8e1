//! Ranges: values between two bounds, and sets of such that touch no other, multiranges.
//!
//! Of types whose values are counted (integers, days), a range has its lower bound and not its upper one, whatever it
//! was written as: `[1,3]` is `[1,4)`. A range without values is `empty`, which has no bounds.
//!
//! The order of ranges is that of PostgreSQL: the empty one, then by the lower bounds, then by the upper ones.

use std::cmp::Ordering;

use crate::error::{Result, SqlError, SqlState};

/// A range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range<T> {
    /// Without values.
    Empty,
    /// From one bound to another.
    Bounds(Lower<T>, Upper<T>),
}

/// Where a range begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lower<T> {
    /// Before all values.
    Infinite,
    /// With a value, or after it.
    At {
        /// The value.
        value: T,
        /// Whether the range is without the value.
        is_exclusive: bool,
    },
}

/// Where a range ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Upper<T> {
    /// With a value, or before it.
    At {
        /// The value.
        value: T,
        /// Whether the range has the value.
        is_inclusive: bool,
    },
    /// After all values.
    Infinite,
}

impl<T: Ord + Clone> Lower<T> {
    /// From a value on; none for the lack of a bound.
    pub fn new(value: Option<T>, is_inclusive: bool) -> Lower<T> {
        value.map_or(Lower::Infinite, |value| Lower::At { value, is_exclusive: !is_inclusive })
    }

    /// The value, and whether the range has it.
    pub fn parts(&self) -> Option<(&T, bool)> {
        match self {
            Lower::Infinite => None,
            Lower::At { value, is_exclusive } => Some((value, !is_exclusive)),
        }
    }

    /// The end of what lies before.
    fn before(&self) -> Option<Upper<T>> {
        self.parts().map(|(value, is_inclusive)| Upper::At { value: value.clone(), is_inclusive: !is_inclusive })
    }
}

impl<T: Ord + Clone> Upper<T> {
    /// Up to a value; none for the lack of a bound.
    pub fn new(value: Option<T>, is_inclusive: bool) -> Upper<T> {
        value.map_or(Upper::Infinite, |value| Upper::At { value, is_inclusive })
    }

    /// The value, and whether the range has it.
    pub fn parts(&self) -> Option<(&T, bool)> {
        match self {
            Upper::Infinite => None,
            Upper::At { value, is_inclusive } => Some((value, *is_inclusive)),
        }
    }

    /// The beginning of what lies after.
    fn after(&self) -> Option<Lower<T>> {
        self.parts().map(|(value, is_inclusive)| Lower::At { value: value.clone(), is_exclusive: is_inclusive })
    }

    /// Whether it ends before a range begins.
    fn is_before(&self, lower: &Lower<T>) -> bool {
        match (self.parts(), lower.parts()) {
            (Some((end, has_end)), Some((begin, has_begin))) => match end.cmp(begin) {
                Ordering::Less => true,
                Ordering::Equal => !(has_end && has_begin),
                Ordering::Greater => false,
            },
            _ => false,
        }
    }

    /// Whether a range begins where it ends: all values lie in one of the two, and no value in both.
    fn touches(&self, lower: &Lower<T>) -> bool {
        match (self.parts(), lower.parts()) {
            (Some((end, has_end)), Some((begin, has_begin))) => end == begin && has_end != has_begin,
            _ => false,
        }
    }
}

impl<T: Ord + Clone> Range<T> {
    /// The range between two bounds, which has no values if the first lies after the second.
    pub fn of(lower: Lower<T>, upper: Upper<T>) -> Range<T> {
        if upper.is_before(&lower) { Range::Empty } else { Range::Bounds(lower, upper) }
    }

    /// The bounds; none of the empty range.
    pub fn bounds(&self) -> Option<(&Lower<T>, &Upper<T>)> {
        match self {
            Range::Empty => None,
            Range::Bounds(lower, upper) => Some((lower, upper)),
        }
    }

    fn contains(&self, other: &Range<T>) -> bool {
        match (self.bounds(), other.bounds()) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some((lower, upper)), Some((begin, end))) => lower <= begin && end <= upper,
        }
    }

    fn has(&self, value: &T) -> bool {
        let has = |lower: &Lower<T>, upper: &Upper<T>| {
            let begins = lower.parts().is_none_or(|(begin, has_it)| begin < value || has_it && begin == value);
            begins && upper.parts().is_none_or(|(end, has_it)| value < end || has_it && end == value)
        };
        self.bounds().is_some_and(|(lower, upper)| has(lower, upper))
    }

    /// The values that two have.
    pub fn intersection(&self, other: &Range<T>) -> Range<T> {
        match (self.bounds(), other.bounds()) {
            (Some((a, b)), Some((c, d))) => Range::of(a.max(c).clone(), b.min(d).clone()),
            _ => Range::Empty,
        }
    }

    fn overlaps(&self, other: &Range<T>) -> bool {
        self.intersection(other) != Range::Empty
    }

    /// The parts of it that another does not have, in order.
    fn without(&self, other: &Range<T>) -> Vec<Range<T>> {
        let (Some((lower, upper)), Some((begin, end))) = (self.bounds(), other.bounds()) else {
            return vec![self.clone()];
        };
        if !self.overlaps(other) {
            return vec![self.clone()];
        }
        let first = begin.before().filter(|_| lower < begin).map(|before| Range::of(lower.clone(), before));
        let last = end.after().filter(|_| end < upper).map(|after| Range::of(after, upper.clone()));
        first.into_iter().chain(last).filter(|part| *part != Range::Empty).collect()
    }

    /// The least range with all values of two.
    pub fn merged(&self, other: &Range<T>) -> Range<T> {
        match (self.bounds(), other.bounds()) {
            (None, _) => other.clone(),
            (_, None) => self.clone(),
            (Some((a, b)), Some((c, d))) => Range::Bounds(a.min(c).clone(), b.max(d).clone()),
        }
    }

    /// All values of two ranges.
    ///
    /// # Errors
    /// 22000 if values lie between them.
    pub fn union(&self, other: &Range<T>) -> Result<Range<T>> {
        let is_one = self == &Range::Empty || other == &Range::Empty || self.overlaps(other);
        if !is_one && !are_adjacent(std::slice::from_ref(self), std::slice::from_ref(other)) {
            let what = "result of range union would not be contiguous";
            return Err(SqlError::new(SqlState::DATA_EXCEPTION, what));
        }
        Ok(self.merged(other))
    }

    /// The values of one range that another does not have.
    ///
    /// # Errors
    /// 22000 if they lie on both sides of it.
    pub fn difference(&self, other: &Range<T>) -> Result<Range<T>> {
        match &self.without(other)[..] {
            [] => Ok(Range::Empty),
            [one] => Ok(one.clone()),
            _ => {
                let what = "result of range difference would not be contiguous";
                Err(SqlError::new(SqlState::DATA_EXCEPTION, what))
            }
        }
    }
}

// Below, ranges stand in order and do not touch each other: those of a multirange, a range alone, or none of an empty
// range.

/// All values of some ranges.
pub fn joined<T: Ord + Clone>(mut ranges: Vec<Range<T>>) -> Vec<Range<T>> {
    ranges.retain(|range| *range != Range::Empty);
    ranges.sort_unstable();
    let mut joined: Vec<Range<T>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last().map(|last| last.union(&range)) {
            Some(Ok(both)) => {
                joined.pop();
                joined.push(both);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Where the first begins and the last ends.
pub fn ends<T: Ord + Clone>(ranges: &[Range<T>]) -> Option<(&Lower<T>, &Upper<T>)> {
    match ranges {
        [first, .., last] => Some((first.bounds()?.0, last.bounds()?.1)),
        [one] => one.bounds(),
        [] => None,
    }
}

/// Whether some ranges have all values of others.
pub fn contain<T: Ord + Clone>(ranges: &[Range<T>], others: &[Range<T>]) -> bool {
    others.iter().all(|other| ranges.iter().any(|range| range.contains(other)))
}

/// Whether some ranges have a value.
pub fn have<T: Ord + Clone>(ranges: &[Range<T>], value: &T) -> bool {
    ranges.iter().any(|range| range.has(value))
}

/// Whether ranges have values in common.
pub fn overlap<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    a.iter().any(|range| b.iter().any(|other| range.overlaps(other)))
}

/// Whether some end before others begin.
pub fn are_before<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    matches!((ends(a), ends(b)), (Some((_, upper)), Some((lower, _))) if upper.is_before(lower))
}

/// Whether some end not after others.
pub fn end_within<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    matches!((ends(a), ends(b)), (Some((_, upper)), Some((_, other))) if upper <= other)
}

/// Whether some begin not before others.
pub fn begin_within<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    matches!((ends(a), ends(b)), (Some((lower, _)), Some((other, _))) if lower >= other)
}

/// Whether some begin where others end.
pub fn are_adjacent<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    match (ends(a), ends(b)) {
        (Some((lower, upper)), Some((begin, end))) => upper.touches(begin) || end.touches(lower),
        _ => false,
    }
}

/// The values that both have.
pub fn intersection<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> Vec<Range<T>> {
    a.iter().flat_map(|range| b.iter().map(|other| range.intersection(other))).collect()
}

/// The values that others do not have.
pub fn difference<T: Ord + Clone>(ranges: &[Range<T>], others: &[Range<T>]) -> Vec<Range<T>> {
    let without = |left: Vec<Range<T>>, other: &Range<T>| left.iter().flat_map(|range| range.without(other)).collect();
    others.iter().fold(ranges.to_vec(), without)
}
