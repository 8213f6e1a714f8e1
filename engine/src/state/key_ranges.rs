//! A set of ranges of keys.
//!
//! Invariant: the ranges ascend, and do not overlap or touch.

use crate::page::KeyBuffer;

/// Ranges of keys: of each its first key, and the first key after it unless it has no end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRanges(Vec<(KeyBuffer, Option<KeyBuffer>)>);

impl KeyRanges {
    /// Adds the keys from `start` on, before `end` if there is one.
    pub(crate) fn add(&mut self, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        let ends_before = |range: &(KeyBuffer, Option<KeyBuffer>)| range.1.as_ref().is_some_and(|end| **end < *start);
        let first = self.0.partition_point(ends_before);
        let last = self.0.partition_point(|range| end.is_none_or(|end| *range.0 <= *end));
        let mut added = (KeyBuffer::from_slice(start), end.map(KeyBuffer::from_slice));
        for (start, end) in self.0.drain(first..last.max(first)) {
            added.0 = added.0.min(start);
            added.1 = added.1.zip(end).map(|(a, b)| a.max(b));
        }
        self.0.insert(first, added);
    }

    /// The ranges in order: the first key of each, and the first key after it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.iter().map(|(start, end)| (&**start, end.as_deref()))
    }

    /// Whether `key` is in one of them.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let after = self.0.partition_point(|(start, _)| **start <= *key);
        after.checked_sub(1).is_some_and(|last| self.0[last].1.as_ref().is_none_or(|end| *key < **end))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn a_set_of_ranges_has_the_keys_that_were_added() {
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut ranges, mut is_in) = (KeyRanges::default(), [false; 256]);
            for _ in 0..rng.random_range(0..12) {
                let start: u8 = rng.random();
                let end = rng.random_bool(0.9).then(|| start.saturating_add(rng.random_range(0..40)));
                ranges.add(&[start], end.as_ref().map(std::slice::from_ref));
                is_in[usize::from(start)..end.map_or(256, usize::from)].fill(true);
                for key in 0..=255u8 {
                    assert_eq!(ranges.has(&[key]), is_in[usize::from(key)], "SEED={seed}, key {key}");
                }
                let bounds: Vec<_> = ranges.iter().collect();
                assert!(bounds.windows(2).all(|pair| pair[0].1.is_some_and(|end| end < pair[1].0)));
            }
        }
    }
}
