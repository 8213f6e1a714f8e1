//! The longest common subsequence of two strings, by the table of the lengths for all pairs of their prefixes (Wagner
//! and Fischer, 1974).
//!
//! There may be several; the one found, and how it is cut into matches, is the one of Redis.
//!
//! Cost: a cell of four bytes, and some nanoseconds, for each pair of prefixes.

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
    lengths: Vec<u32>,
}

impl<'s> Table<'s> {
    /// Of two strings whose lengths, multiplied, are a reasonable number of cells.
    pub fn of(first: &'s [u8], second: &'s [u8]) -> Table<'s> {
        let width = second.len() + 1;
        let mut lengths = vec![0u32; (first.len() + 1) * width];
        for (row, byte) in first.iter().enumerate() {
            let (above, below) = lengths[row * width..][..2 * width].split_at_mut(width);
            for (column, other) in second.iter().enumerate() {
                below[column + 1] =
                    if byte == other { above[column] + 1 } else { above[column + 1].max(below[column]) };
            }
        }
        Table { first, second, lengths }
    }

    /// The length for prefixes of so many bytes.
    fn at(&self, first: usize, second: usize) -> u32 {
        self.lengths[first * (self.second.len() + 1) + second]
    }

    /// How long the subsequence is.
    pub fn length(&self) -> usize {
        self.at(self.first.len(), self.second.len()) as usize
    }

    /// Calls `visit` with the positions of each byte of the subsequence, from the last on.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let (mut first, mut second) = (self.first.len(), self.second.len());
        while first > 0 && second > 0 {
            if self.first[first - 1] == self.second[second - 1] {
                (first, second) = (first - 1, second - 1);
                visit(first, second);
            } else if self.at(first - 1, second) > self.at(first, second - 1) {
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
}
