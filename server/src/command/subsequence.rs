//! The longest common subsequence of two strings, by the lengths for all pairs of their prefixes (Wagner and Fischer,
//! 1974). Of these only one row is kept at a time, and of each pair a bit: from which neighbour its length is.
//!
//! There may be several; the one found, and how it is cut into matches, is the one of Redis.
//!
//! Cost: a bit, and some nanoseconds, for each pair of bytes; four bytes for each byte of the shorter string.

use std::ops::RangeInclusive;

/// A run of bytes that stands in both strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its positions in the first string.
    pub first: RangeInclusive<usize>,
    /// Its positions in the second.
    pub second: RangeInclusive<usize>,
}

impl Match {
    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.first.end() - self.first.start() + 1
    }
}

/// The table of two strings.
pub struct Table<'s> {
    first: &'s [u8],
    second: &'s [u8],
    length: usize,
    /// A bit for each pair of bytes, those of the shorter string beside each other: whether the way back goes to the
    /// byte before in the longer string. Without meaning where the bytes are equal.
    back_in_longer: Vec<u64>,
}

impl<'s> Table<'s> {
    /// Of two strings whose lengths, multiplied, are a reasonable number of pairs.
    pub fn of(first: &'s [u8], second: &'s [u8]) -> Table<'s> {
        let is_first_longer = first.len() > second.len();
        let (longer, shorter) = if is_first_longer { (first, second) } else { (second, first) };
        let mut back_in_longer = vec![0_u64; (longer.len() * shorter.len()).div_ceil(64)];
        let mut lengths = vec![0_u32; shorter.len() + 1];
        let mut pair = 0;
        for byte in longer {
            // The lengths for the prefix of the longer string that ends before `byte`, and for the one that ends there.
            let (mut diagonal, mut left) = (0, 0);
            for (other, length) in shorter.iter().zip(&mut lengths[1..]) {
                let above = *length;
                // Where neither is longer, the way back goes to the byte before in the second string.
                let is_back = if is_first_longer { above > left } else { above >= left };
                back_in_longer[pair / 64] |= u64::from(is_back) << (pair % 64);
                pair += 1;
                left = if byte == other { diagonal + 1 } else { above.max(left) };
                diagonal = above;
                *length = left;
            }
        }
        let length = lengths.last().map_or(0, |length| *length as usize);
        Table { first, second, length, back_in_longer }
    }

    /// Whether the way back, from prefixes of so many bytes that end with different ones, goes on in the first string.
    fn is_back_in_first(&self, first: usize, second: usize) -> bool {
        let is_first_longer = self.first.len() > self.second.len();
        let pair = match is_first_longer {
            true => (first - 1) * self.second.len() + second - 1,
            false => (second - 1) * self.first.len() + first - 1,
        };
        let is_back_in_longer = self.back_in_longer[pair / 64] >> (pair % 64) & 1 == 1;
        is_back_in_longer == is_first_longer
    }

    /// How long the subsequence is.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Calls `visit` with the positions of each byte of the subsequence, from the last on.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let (mut first, mut second) = (self.first.len(), self.second.len());
        while first > 0 && second > 0 {
            if self.first[first - 1] == self.second[second - 1] {
                (first, second) = (first - 1, second - 1);
                visit(first, second);
            } else if self.is_back_in_first(first, second) {
                first -= 1;
            } else {
                second -= 1;
            }
        }
    }

    /// The subsequence.
    pub fn subsequence(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length());
        self.walk(|first, _| bytes.push(self.first[first]));
        bytes.reverse();
        bytes
    }

    /// Where it stands in both strings, from the last match on.
    pub fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.walk(|first, second| match matches.last_mut() {
            Some(last) if *last.first.start() == first + 1 && *last.second.start() == second + 1 => {
                *last = Match { first: first..=*last.first.end(), second: second..=*last.second.end() };
            }
            _ => matches.push(Match { first: first..=first, second: second..=second }),
        });
        matches
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::{Match, Table};

    #[test]
    fn the_example_of_redis() {
        let table = Table::of(b"ohmytext", b"mynewtext");
        assert_eq!((table.length(), table.subsequence()), (6, b"mytext".to_vec()));
        let expected = [Match { first: 4..=7, second: 5..=8 }, Match { first: 2..=3, second: 0..=1 }];
        assert_eq!(table.matches(), expected);
    }

    #[test]
    fn strings_with_nothing_in_common() {
        for (first, second) in [(&b""[..], &b""[..]), (b"", b"abc"), (b"abc", b""), (b"abc", b"xyz")] {
            let table = Table::of(first, second);
            assert_eq!((table.length(), table.subsequence(), table.matches()), (0, vec![], vec![]));
        }
    }

    /// The positions of the subsequence's bytes from the last on, by all lengths at once, as Redis finds them.
    fn by_all_lengths(first: &[u8], second: &[u8]) -> Vec<(usize, usize)> {
        let mut lengths = vec![vec![0; second.len() + 1]; first.len() + 1];
        for (row, byte) in first.iter().enumerate() {
            for (column, other) in second.iter().enumerate() {
                lengths[row + 1][column + 1] = match byte == other {
                    true => lengths[row][column] + 1,
                    false => lengths[row][column + 1].max(lengths[row + 1][column]),
                };
            }
        }
        let (mut row, mut column, mut positions) = (first.len(), second.len(), Vec::new());
        while row > 0 && column > 0 {
            if first[row - 1] == second[column - 1] {
                (row, column) = (row - 1, column - 1);
                positions.push((row, column));
            } else if lengths[row - 1][column] > lengths[row][column - 1] {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        positions
    }

    #[test]
    fn the_subsequence_is_the_one_that_all_lengths_show() {
        let mut random = StdRng::seed_from_u64(1);
        for letters in [1, 2, 3, 26] {
            for _ in 0..300 {
                let mut draw = || -> Vec<u8> {
                    let length = random.random_range(0..70);
                    (0..length).map(|_| b'a' + random.random_range(0..letters)).collect()
                };
                let (first, second) = (draw(), draw());
                let table = Table::of(&first, &second);
                let expected = by_all_lengths(&first, &second);
                let mut found = Vec::new();
                table.walk(|first, second| found.push((first, second)));
                assert_eq!(found, expected, "{first:?} {second:?}");
                assert_eq!(table.length(), expected.len());
            }
        }
    }

    /// Two strings of ten thousand bytes, whose lengths for all pairs would take 400 MB.
    #[test]
    fn a_pair_of_bytes_takes_a_bit() {
        let (first, second) = (vec![b'a'; 10_000], vec![b'b'; 10_000]);
        let table = Table::of(&first, &second);
        assert!(table.back_in_longer.capacity() * 8 <= first.len() * second.len() / 8 + 64);
        assert_eq!(table.length(), 0);
    }
}
