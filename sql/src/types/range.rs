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

    /// Whether it ends before another one begins.
    fn is_before(&self, other: &Range<T>) -> bool {
        are_before(std::slice::from_ref(self), std::slice::from_ref(other))
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

/// The last of some ranges that begins where another one does, or before.
fn last_up_to<'r, T: Ord + Clone>(ranges: &'r [Range<T>], other: &Range<T>) -> Option<&'r Range<T>> {
    let begin = other.bounds()?.0;
    let begins_up_to = |range: &Range<T>| range.bounds().is_some_and(|(lower, _)| lower <= begin);
    ranges[..ranges.partition_point(begins_up_to)].last()
}

/// Whether some ranges have all values of others.
pub fn contain<T: Ord + Clone>(ranges: &[Range<T>], others: &[Range<T>]) -> bool {
    others
        .iter()
        .all(|other| *other == Range::Empty || last_up_to(ranges, other).is_some_and(|range| range.contains(other)))
}

/// Whether some ranges have a value.
pub fn have<T: Ord + Clone>(ranges: &[Range<T>], value: &T) -> bool {
    let alone = Range::Bounds(Lower::new(Some(value.clone()), true), Upper::new(Some(value.clone()), true));
    last_up_to(ranges, &alone).is_some_and(|range| range.has(value))
}

/// The values that each two have which lie beside each other, in order.
fn common<T: Ord + Clone>(mut a: &[Range<T>], mut b: &[Range<T>]) -> impl Iterator<Item = Range<T>> {
    std::iter::from_fn(move || {
        let (Some((first, rest)), Some((other, others))) = (a.split_first(), b.split_first()) else { return None };
        let common = first.intersection(other);
        // The one that ends later may have values in common with the next one, too.
        let is_first_over = first.bounds().map(|(_, upper)| upper) <= other.bounds().map(|(_, upper)| upper);
        if is_first_over {
            a = rest
        } else {
            b = others
        }
        Some(common)
    })
}

/// Whether ranges have values in common.
pub fn overlap<T: Ord + Clone>(a: &[Range<T>], b: &[Range<T>]) -> bool {
    common(a, b).any(|both| both != Range::Empty)
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
    common(a, b).filter(|both| *both != Range::Empty).collect()
}

/// The values that others do not have.
pub fn difference<T: Ord + Clone>(ranges: &[Range<T>], others: &[Range<T>]) -> Vec<Range<T>> {
    let (mut left, mut others) = (Vec::with_capacity(ranges.len()), others);
    for range in ranges {
        others = &others[others.iter().take_while(|other| other.is_before(range)).count()..];
        // What is left of the range after those that were taken from it.
        let mut rest = Some(range.clone());
        for other in others {
            let Some(whole) = rest.take_if(|whole| !whole.is_before(other)) else { break };
            let mut parts = whole.without(other);
            rest = parts.pop();
            left.append(&mut parts);
        }
        left.extend(rest);
    }
    left
}

#[cfg(test)]
mod tests {
    use quipu_testing::seeds::seeds;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Bounds stand at even numbers up to this; odd numbers are the values between them.
    const LAST: i32 = 16;

    fn random_ranges(random: &mut StdRng) -> Vec<Range<i32>> {
        let bound = |random: &mut StdRng| {
            let value = 2 * random.random_range(0..=LAST / 2);
            (random.random_range(0..8) > 0).then_some(value)
        };
        let range = |random: &mut StdRng| {
            let (a, b) = (bound(random), bound(random));
            let (lower, upper) = if a.is_some() && b.is_some() { (a.min(b), a.max(b)) } else { (a, b) };
            Range::of(Lower::new(lower, random.random()), Upper::new(upper, random.random()))
        };
        let count = random.random_range(0..5);
        joined((0..count).map(|_| range(random)).collect())
    }

    fn values(ranges: &[Range<i32>]) -> Vec<bool> {
        (-1..=LAST + 1).map(|value| ranges.iter().any(|range| range.has(&value))).collect()
    }

    #[test]
    fn sets_of_ranges_are_sets_of_their_values() {
        for seed in seeds(2_000) {
            let mut random = StdRng::seed_from_u64(seed);
            let (a, b) = (random_ranges(&mut random), random_ranges(&mut random));
            let (of_a, of_b) = (values(&a), values(&b));
            let both = |of: fn(bool, bool) -> bool| of_a.iter().zip(&of_b).map(|(a, b)| of(*a, *b)).collect::<Vec<_>>();
            assert_eq!(values(&intersection(&a, &b)), both(|a, b| a && b), "seed {seed}");
            assert_eq!(values(&difference(&a, &b)), both(|a, b| a && !b), "seed {seed}");
            assert_eq!(overlap(&a, &b), both(|a, b| a && b).contains(&true), "seed {seed}");
            assert_eq!(contain(&a, &b), !both(|a, b| b && !a).contains(&true), "seed {seed}");
            for (value, is_in) in (-1..).zip(&of_a) {
                assert_eq!(have(&a, &value), *is_in, "seed {seed}, {value}");
            }
            let parts = difference(&a, &b);
            assert_eq!(joined(parts.clone()), parts, "seed {seed}: in order, and none touches another");
        }
    }

    /// A client may send multiranges of as many parts as fit a message.
    #[test]
    fn large_sets_take_one_pass() {
        let part = |from: i32| Range::of(Lower::new(Some(from), true), Upper::new(Some(from + 1), false));
        let even: Vec<_> = (0..200_000).map(|at| part(4 * at)).collect();
        let odd: Vec<_> = (0..200_000).map(|at| part(4 * at + 2)).collect();
        assert!(!overlap(&even, &odd) && !contain(&even, &odd) && contain(&even, &even));
        assert!(intersection(&even, &odd).is_empty());
        assert_eq!(difference(&even, &odd), even);
    }
}
