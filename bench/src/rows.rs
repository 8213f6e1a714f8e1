//! The rows that every store gets: the same bytes in the same order, made on the fly by mixing a counter.
//!
//! Keys are a bijection of the row's number, so they are unique and uniform over all 4- or 8-byte strings without an
//! array of them in memory (which would compete with the store for the CPU's caches). The k-th row depends on the seed
//! and `k` only. [`Rows::ascending`] makes rows in the order of their keys instead, [`Rows::rewrites`] new values for
//! keys that are there.

/// The longest key a workload may ask for, in bytes.
pub const KEY_BYTES_MAX: usize = 32;
/// The longest value a workload may ask for, in bytes.
pub const VALUE_BYTES_MAX: usize = 1024;

/// A sequence of rows with unique keys, in random order unless it says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    seed: u64,
    first: u64,
    count: u64,
    key_bytes: usize,
    value_bytes: usize,
    order: Order,
}

/// The order in which keys come.
#[derive(Clone, Copy, Debug)]
enum Order {
    Random,
    /// Each key lies at random in its own stretch of the key space, of this length.
    Ascending {
        stretch: u64,
    },
    /// Keys drawn at random, with repetition, from so many rows of the sequence.
    Drawn {
        first: u64,
        count: u64,
    },
}

impl Rows {
    /// Rows 0 to `count` of the sequence that `seed` starts. Keys are 4 bytes, or 8 to 32.
    ///
    /// # Panics
    /// If a size is out of range.
    pub fn new(seed: u64, count: u64, key_bytes: usize, value_bytes: usize) -> Self {
        assert!(key_bytes == 4 || (8..=KEY_BYTES_MAX).contains(&key_bytes), "keys of {key_bytes} bytes");
        assert!(value_bytes <= VALUE_BYTES_MAX, "values of {value_bytes} bytes");
        Rows { seed, first: 0, count, key_bytes, value_bytes, order: Order::Random }
    }

    /// `count` rows in ascending order of their 8-byte keys, which are spread over the whole key space. No rows follow
    /// them.
    ///
    /// # Panics
    /// If a size is out of range.
    pub fn ascending(seed: u64, count: u64, value_bytes: usize) -> Self {
        let order = Order::Ascending { stretch: u64::MAX / count.max(1) };
        Rows { order, ..Rows::new(seed, count, 8, value_bytes) }
    }

    /// The `count` rows of the sequence from number `first` on, counted from this part's start. May reach past its end.
    pub fn part(&self, first: u64, count: u64) -> Self {
        Rows { first: self.first + first, count, ..*self }
    }

    /// As many rows again, that follow these.
    pub fn next_part(&self) -> Self {
        self.part(self.count, self.count)
    }

    /// `count` rows that rewrite these: each has the key of one of them, drawn at random, and a value of its own. These
    /// must be in random order.
    pub fn rewrites(&self, count: u64) -> Self {
        let order = Order::Drawn { first: self.first, count: self.count };
        Rows { first: self.first + self.count, count, order, ..*self }
    }

    /// The number of the row that row `number` rewrites, among those that [`Rows::rewrites`] was called on; `number`
    /// itself of other rows.
    pub fn rewritten(&self, number: u64) -> u64 {
        match self.order {
            Order::Drawn { first, .. } => self.drawn_in_sequence(self.first + number) - first,
            Order::Random | Order::Ascending { .. } => number,
        }
    }

    /// The row of the sequence whose key row `number` of the sequence has.
    #[inline]
    fn drawn_in_sequence(&self, number: u64) -> u64 {
        match self.order {
            Order::Drawn { first, count } => first + Draw::new(mix64(number ^ self.seed)).below(count),
            Order::Random | Order::Ascending { .. } => number,
        }
    }

    /// How many rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Length of each key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Length of each value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The key of row `number` of this part.
    pub fn key(&self, number: u64) -> Key {
        self.key_in_sequence(self.first + number)
    }

    /// The key of row `number` of the whole sequence.
    #[inline]
    fn key_in_sequence(&self, number: u64) -> Key {
        match self.order {
            Order::Random => Key::mixed(self.seed, number, self.key_bytes),
            Order::Ascending { stretch } => {
                let place = Draw::new(mix64(number ^ self.seed)).below(stretch);
                Key::at(number * stretch + place, self.key_bytes)
            }
            Order::Drawn { .. } => Key::mixed(self.seed, self.drawn_in_sequence(number), self.key_bytes),
        }
    }

    /// Walks over the rows.
    pub fn cursor(&self) -> RowCursor {
        RowCursor { rows: *self, done: 0, key: self.key_in_sequence(self.first), value: [0; VALUE_BYTES_MAX] }
    }

    /// The range of keys from a random one that holds about `rows` of `total` uniform keys, both bounds as long as a
    /// key.
    pub fn range_of(&self, draw: &mut Draw, rows: u64, total: u64) -> (Key, Key) {
        let width =
            (u128::from(u64::MAX) * u128::from(rows) / u128::from(total.max(1))).min(u128::from(u64::MAX)) as u64;
        let start = draw.below((u64::MAX - width).max(1));
        (Key::at(start, self.key_bytes), Key::at(start.saturating_add(width), self.key_bytes))
    }
}

/// A key, of at most [`KEY_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl Key {
    fn mixed(seed: u64, number: u64, len: usize) -> Self {
        if len == 4 {
            let mixed = mix32((number as u32).wrapping_add(seed as u32) ^ (seed >> 32) as u32);
            return Key::at(u64::from(mixed) << 32, 4);
        }
        let mut key = Key::at(mix64(number.wrapping_add(seed)), len);
        // Eight bytes are unique already; what follows only makes longer keys long.
        let mut tail = mix64(number ^ seed.rotate_left(32));
        for chunk in key.bytes[8..len].chunks_mut(8) {
            chunk.copy_from_slice(&tail.to_be_bytes()[..chunk.len()]);
            tail = mix64(tail);
        }
        key
    }

    /// The key that stands at `position` of the key space, the whole of which is 2^64 long.
    fn at(position: u64, len: usize) -> Self {
        let mut bytes = [0; KEY_BYTES_MAX];
        let head = len.min(8);
        bytes[..head].copy_from_slice(&position.to_be_bytes()[..head]);
        Key { bytes, len: len as u8 }
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Walks over [`Rows`], lending one row at a time.
pub struct RowCursor {
    rows: Rows,
    done: u64,
    key: Key,
    value: [u8; VALUE_BYTES_MAX],
}

impl RowCursor {
    /// The next row's key and value.
    #[inline]
    pub fn advance(&mut self) -> Option<(&[u8], &[u8])> {
        if self.done == self.rows.count {
            return None;
        }
        let number = self.rows.first + self.done;
        self.done += 1;
        self.key = self.rows.key_in_sequence(number);
        // Random words: nothing a compressing store could gain from.
        let mut word = number ^ self.rows.seed;
        for chunk in self.value[..self.rows.value_bytes].chunks_mut(8) {
            word = mix64(word);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        Some((&self.key, &self.value[..self.rows.value_bytes]))
    }

    /// How many rows were lent.
    pub fn done(&self) -> u64 {
        self.done
    }
}

/// Eight bytes that stand for some bytes: what a reader sums up, so that answers can be compared and no read is
/// optimised away.
#[inline]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The stream that `seed` starts.
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    /// A number below `bound`, which must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix64(self.0)) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to but not 1, one of 2^53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

/// A bijection of 64-bit numbers (the finaliser of splitmix64).
#[inline]
pub(crate) fn mix64(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A bijection of 32-bit numbers (C. Wellons' hash prospector).
#[inline]
fn mix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
    x = (x ^ (x >> 15)).wrapping_mul(0xd35a_2d97);
    x ^ (x >> 15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_unique_and_parts_continue_one_another() {
        for key_bytes in [4, 8, 16] {
            let rows = Rows::new(7, 5000, key_bytes, 20);
            let mut seen = BTreeSet::new();
            for part in [rows, rows.next_part()] {
                let mut cursor = part.cursor();
                while let Some((key, value)) = cursor.advance() {
                    assert_eq!((key.len(), value.len()), (key_bytes, 20));
                    assert!(seen.insert(key.to_vec()), "a key came twice");
                }
            }
            assert_eq!(seen.len(), 10_000);
            assert!(seen.contains(&rows.next_part().key(0)[..]));
        }
    }

    #[test]
    fn ascending_keys_ascend_over_the_whole_key_space() {
        for count in [1, 2, 1000] {
            let rows = Rows::ascending(7, count, 8);
            let mut keys = Vec::new();
            for part in [rows.part(0, count / 3), rows.part(count / 3, count - count / 3)] {
                let mut cursor = part.cursor();
                while let Some((key, _)) = cursor.advance() {
                    keys.push(key.to_vec());
                }
            }
            assert_eq!(keys.len() as u64, count);
            assert!(keys.is_sorted_by(|one, next| one < next));
            assert_eq!(keys[keys.len() - 1], rows.key(count - 1)[..]);
        }
        let (first, last) = (Rows::ascending(7, 1000, 8).key(0), Rows::ascending(7, 1000, 8).key(999));
        assert!(first[0] == 0 && last[0] == 0xff && last[..] < [0xff; 8][..]);
    }

    #[test]
    fn rewrites_have_old_keys_and_new_values() {
        let rows = Rows::new(7, 500, 16, 100).part(100, 300);
        let rewrites = rows.rewrites(3000);
        let mut old = rows.cursor();
        let mut values = BTreeSet::new();
        while let Some((_, value)) = old.advance() {
            values.insert(value.to_vec());
        }
        let mut numbers = BTreeSet::new();
        for part in [rewrites.part(0, 1000), rewrites.part(1000, 2000)] {
            let mut cursor = part.cursor();
            for number in 0..part.count() {
                let (key, value) = cursor.advance().unwrap();
                assert_eq!(key, &rows.key(part.rewritten(number))[..]);
                assert!(values.insert(value.to_vec()), "a value came twice");
                numbers.insert(part.rewritten(number));
            }
        }
        assert!(numbers.len() > 290 && numbers.last() < Some(&300), "{}", numbers.len());
    }

    #[test]
    fn a_range_holds_about_as_many_rows_as_asked() {
        let rows = Rows::new(1, 100_000, 8, 8);
        let keys: BTreeSet<Vec<u8>> = (0..rows.count()).map(|number| rows.key(number).to_vec()).collect();
        let (from, to) = rows.range_of(&mut Draw::new(3), 10_000, rows.count());
        let count = keys.range(from.to_vec()..to.to_vec()).count();
        assert!((9_500..10_500).contains(&count), "{count}");
    }
}
