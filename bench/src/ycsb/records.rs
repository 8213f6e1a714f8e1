//! Records: keys as YCSB makes them, values that can be known again, and how many there are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::rows::{Draw, mix64};

/// Length of a key: `user` and the 20 digits of a 64-bit number.
pub(crate) const KEY_BYTES: usize = 24;

/// The key of record `number`. Numbers are mixed (YCSB: `insertorder=hashed`), one to one, so neighbours in time are
/// not neighbours in the order of keys.
pub(crate) fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user00000000000000000000";
    let mut left = mix64(number);
    for digit in key[4..].iter_mut().rev() {
        *digit += (left % 10) as u8;
        left /= 10;
    }
    key
}

/// Bytes from which values are cut. Random: a store that compresses gains nothing.
const NOISE_BYTES: usize = 1 << 16;

/// Makes values of one length, and knows them again.
#[derive(Clone)]
pub(crate) struct Values {
    noise: Vec<u8>,
    value: Vec<u8>,
}

impl Values {
    /// Values of that length, which has room for two numbers: at least 16.
    pub(crate) fn new(value_bytes: usize) -> Self {
        let mut draw = Draw::new(0);
        let noise = (0..NOISE_BYTES + value_bytes).map(|_| draw.below(256) as u8).collect();
        Values { noise, value: vec![0; value_bytes] }
    }

    /// A value for record `number`: its number, its version, and noise that follows from both.
    pub(crate) fn make(&mut self, number: u64, version: u64) -> &[u8] {
        let start = mix64(number ^ version.rotate_left(32)) as usize % NOISE_BYTES;
        let Values { noise, value } = self;
        let end = start + value.len();
        value.copy_from_slice(&noise[start..end]);
        value[..8].copy_from_slice(&number.to_le_bytes());
        value[8..16].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// Whether a value that was read is one of record `number`.
    pub(crate) fn is_of(&self, number: u64, value: &[u8]) -> bool {
        self.has_length(value) && value[..8] == number.to_le_bytes()
    }

    /// Whether a value that was read is one of any record.
    pub(crate) fn has_length(&self, value: &[u8]) -> bool {
        value.len() == self.value.len()
    }
}

/// The sum of all bytes, eight at a time: every byte is read, and equal answers of stores have equal sums.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    tail.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// How many records there are. Numbers are handed out in order, but threads finish out of order: a record counts when
/// all before it are in too.
#[derive(Default)]
pub(crate) struct Population {
    next: AtomicU64,
    all_below: AtomicU64,
    /// Those above `all_below` that are in already.
    early: Mutex<BTreeSet<u64>>,
}

impl Population {
    /// The number for a record that will be inserted.
    pub(crate) fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The record is in.
    pub(crate) fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(number);
        let mut all_below = self.all_below.load(Ordering::Relaxed);
        while early.remove(&all_below) {
            all_below += 1;
        }
        // A thread that reads the count may ask for the record.
        self.all_below.store(all_below, Ordering::Release);
    }

    /// All records below this number are in.
    pub(crate) fn count(&self) -> u64 {
        self.all_below.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_scattered() {
        let keys: BTreeSet<[u8; KEY_BYTES]> = (0..10_000).map(key_of).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.starts_with(b"user") && key[4..].iter().all(u8::is_ascii_digit)));
        let in_order = (0..1_000).filter(|number| key_of(*number) < key_of(number + 1)).count();
        assert!((400..600).contains(&in_order), "{in_order}");
    }

    #[test]
    fn a_value_is_known_again() {
        for value_bytes in [16, 21, 1000] {
            let mut values = Values::new(value_bytes);
            let first = values.make(7, 0).to_vec();
            assert!(values.is_of(7, &first) && !values.is_of(8, &first) && !values.is_of(7, &first[1..]));
            assert_eq!(values.make(7, 0), first, "values follow from number and version");
            let second = values.make(7, 1).to_vec();
            assert!(first != second && digest(&first) != digest(&second));
        }
    }

    #[test]
    fn a_digest_reads_every_byte() {
        let bytes: Vec<u8> = (0..21).collect();
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert_ne!(digest(&other), digest(&bytes), "byte {place}");
        }
    }

    #[test]
    fn a_record_counts_when_all_before_it_are_in() {
        let population = Population::default();
        assert_eq!([population.reserve(), population.reserve(), population.reserve()], [0, 1, 2]);
        for (finished, count) in [(2, 0), (0, 1), (1, 3)] {
            population.acknowledge(finished);
            assert_eq!(population.count(), count);
        }
    }
}
