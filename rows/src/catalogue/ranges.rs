//! Sets of whole numbers that mostly follow each other.

use std::collections::BTreeMap;

/// The most ranges that are kept apart: some 3 MB. More than an integer of 16 bits can have.
const RANGES_MAX: usize = 1 << 16;

/// A set of numbers, as ranges: by the first of each, its last.
///
/// A set of too many ranges becomes one range, so it may have numbers that were not added.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<i128, i128>);

impl Ranges {
    /// The last number of the range that has this one; none if the set does not have it.
    pub(crate) fn last_from(&self, number: i128) -> Option<i128> {
        let (_, &last) = self.0.range(..=number).next_back()?;
        (last >= number).then_some(last)
    }

    /// The greatest number.
    pub(crate) fn last(&self) -> Option<i128> {
        self.0.last_key_value().map(|(_, &last)| last)
    }

    /// Adds a number. Returns whether it is new.
    pub(crate) fn add(&mut self, number: i128) -> bool {
        let before = self.0.range(..=number).next_back().map(|(&first, &last)| (first, last));
        if before.is_some_and(|(_, last)| last >= number) {
            return false;
        }
        // The range after it, if it begins there.
        let last = number.checked_add(1).and_then(|next| self.0.remove(&next)).unwrap_or(number);
        match before {
            Some((first, before)) if before.checked_add(1) == Some(number) => self.0.insert(first, last),
            _ => self.0.insert(number, last),
        };
        if self.0.len() > RANGES_MAX
            && let (Some((&first, _)), Some(last)) = (self.0.first_key_value(), self.last())
        {
            self.0 = BTreeMap::from([(first, last)]);
        }
        true
    }

    /// Removes a number.
    pub(crate) fn remove(&mut self, number: i128) {
        let Some((&first, &last)) = self.0.range(..=number).next_back().filter(|(_, last)| **last >= number) else {
            return;
        };
        self.0.remove(&first);
        if first < number {
            self.0.insert(first, number - 1);
        }
        if number < last {
            self.0.insert(number + 1, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{RANGES_MAX, Ranges};

    #[test]
    fn numbers_added_and_removed_in_any_order_are_those_of_a_set() {
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = i128::from(state >> 58) - 32;
            if state >> 57 & 1 == 0 {
                assert_eq!(ranges.add(number), set.insert(number));
            } else {
                ranges.remove(number);
                set.remove(&number);
            }
            assert_eq!(ranges.last(), set.last().copied());
            let last = (number..).take_while(|number| set.contains(number)).last();
            assert_eq!(ranges.last_from(number), last);
            let gaps = set.iter().filter(|number| !set.contains(&(*number - 1))).count();
            assert_eq!(ranges.0.len(), gaps);
        }
    }

    #[test]
    fn too_many_ranges_become_one() {
        let mut ranges = Ranges::default();
        for number in 0..=RANGES_MAX as i128 {
            ranges.add(-2 * number);
        }
        assert_eq!((ranges.0.len(), ranges.last()), (1, Some(0)));
        assert_eq!(ranges.last_from(-1), Some(0));
    }
}
