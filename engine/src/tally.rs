//! The tally: what a counted tree knows of every range. Tallies form an abelian group.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tuple::{self, Element};

/// The tally of a range: the number of live rows, and the totals of the measures that the table declares.
///
/// A measure that the table does not declare is zero. The signed weight of one entry of a layer has the same type.
/// Tallies of layers add up, and those of ranges subtract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Live rows.
    pub rows: i64,
    /// Bytes of keys and values of live rows.
    pub bytes: i64,
    /// Wrapping sum of a 64-bit hash of every live row; equal sets of rows have equal sums whatever their layout.
    pub hash: u64,
    /// Sum of the declared number over live rows, modulo 2^64: exact wherever the true sum fits an `i64`.
    pub sum: i64,
}

impl Tally {
    /// Nothing.
    pub const ZERO: Tally = Tally { rows: 0, bytes: 0, hash: 0, sum: 0 };

    /// One row and nothing else.
    pub(crate) const ONE_ROW: Tally = Tally { rows: 1, bytes: 0, hash: 0, sum: 0 };

    /// The `index`-th declared measure, in the order of the arrays of an inner page.
    #[inline]
    pub(crate) fn measure(&self, measures: &Measures, index: usize) -> i64 {
        match measures.kind(index) {
            Kind::Rows => self.rows,
            Kind::Bytes => self.bytes,
            Kind::Hash => self.hash as i64,
            Kind::Sum => self.sum,
        }
    }

    /// Adds `amount` to the `index`-th declared measure.
    #[inline]
    pub(crate) fn add_measure(&mut self, measures: &Measures, index: usize, amount: i64) {
        match measures.kind(index) {
            Kind::Rows => self.rows = self.rows.wrapping_add(amount),
            Kind::Bytes => self.bytes = self.bytes.wrapping_add(amount),
            Kind::Hash => self.hash = self.hash.wrapping_add(amount as u64),
            Kind::Sum => self.sum = self.sum.wrapping_add(amount),
        }
    }
}

impl Add for Tally {
    type Output = Tally;
    #[inline]
    fn add(self, other: Tally) -> Tally {
        Tally {
            rows: self.rows.wrapping_add(other.rows),
            bytes: self.bytes.wrapping_add(other.bytes),
            hash: self.hash.wrapping_add(other.hash),
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::ZERO, |sum, tally| sum + tally)
    }
}

impl Neg for Tally {
    type Output = Tally;
    #[inline]
    fn neg(self) -> Tally {
        Tally {
            rows: self.rows.wrapping_neg(),
            bytes: self.bytes.wrapping_neg(),
            hash: self.hash.wrapping_neg(),
            sum: self.sum.wrapping_neg(),
        }
    }
}

impl Sub for Tally {
    type Output = Tally;
    #[inline]
    fn sub(self, other: Tally) -> Tally {
        self + -other
    }
}

impl AddAssign for Tally {
    #[inline]
    fn add_assign(&mut self, other: Tally) {
        *self = *self + other;
    }
}

impl SubAssign for Tally {
    #[inline]
    fn sub_assign(&mut self, other: Tally) {
        *self = *self - other;
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Rows,
    Bytes,
    Hash,
    Sum,
}

/// The number in a row that a table sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SumField {
    /// A big-endian `i64` at this byte of the value. A value too short counts as 0.
    BigEndian {
        /// Offset in the value, in bytes.
        at: u32,
    },
    /// A little-endian `i64` at this byte of the value. A value too short counts as 0.
    LittleEndian {
        /// Offset in the value, in bytes.
        at: u32,
    },
    /// The integer at this place (from 0) of a value in the tuple encoding ([`mod@tuple`]), modulo 2^64. Any other
    /// element counts as 0.
    Element {
        /// Place in the tuple.
        at: u32,
    },
}

impl SumField {
    /// The number in `value`.
    pub fn extract(&self, value: &[u8]) -> i64 {
        let fixed = |at: u32| {
            let at = at as usize;
            value.get(at..at.checked_add(8)?).map(|bytes| <[u8; 8]>::try_from(bytes).expect("eight bytes"))
        };
        match *self {
            SumField::BigEndian { at } => fixed(at).map_or(0, i64::from_be_bytes),
            SumField::LittleEndian { at } => fixed(at).map_or(0, i64::from_le_bytes),
            SumField::Element { at } => match tuple::element_at(value, at as usize) {
                Some(Element::Int(number)) => number as i64,
                _ => 0,
            },
        }
    }
}

/// What a table measures besides rows. Each declared measure costs one more array in every inner page, and one more
/// addition for each level on every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Measures {
    /// Bytes of keys and values.
    pub bytes: bool,
    /// A wrapping sum of hashes of rows, which shows whether two ranges hold the same rows.
    pub hash: bool,
    /// Seeds the hashes. A client that chooses rows and knows the seed can make different ranges sum alike: where that
    /// matters, give a random one that stays secret. Hashes of two tables compare only if their seeds are equal.
    pub hash_seed: u64,
    /// The sum of a number in the value.
    pub sum: Option<SumField>,
}

impl Measures {
    /// Rows only.
    pub const ROWS: Measures = Measures { bytes: false, hash: false, hash_seed: 0, sum: None };

    /// Whether only rows are measured.
    #[inline]
    pub(crate) fn only_rows(&self) -> bool {
        !self.bytes && !self.hash && self.sum.is_none()
    }

    /// The number of measures, including rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        1 + usize::from(self.bytes) + usize::from(self.hash) + usize::from(self.sum.is_some())
    }

    #[inline]
    fn kind(&self, index: usize) -> Kind {
        if index == 0 {
            return Kind::Rows;
        }
        let mut rest = index - 1;
        if self.bytes {
            if rest == 0 {
                return Kind::Bytes;
            }
            rest -= 1;
        }
        if self.hash {
            if rest == 0 {
                return Kind::Hash;
            }
            rest -= 1;
        }
        debug_assert!(rest == 0 && self.sum.is_some());
        Kind::Sum
    }

    /// What one live row adds to the tally: the sum over a scan equals what the tree has counted.
    #[inline]
    pub fn of_row(&self, key: &[u8], value: &[u8]) -> Tally {
        if self.only_rows() {
            return Tally::ONE_ROW;
        }
        Tally {
            rows: 1,
            bytes: if self.bytes { (key.len() + value.len()) as i64 } else { 0 },
            hash: if self.hash { hash_row(self.hash_seed, key, value) } else { 0 },
            sum: self.sum.map_or(0, |field| field.extract(value)),
        }
    }
}

/// The hash of one row: the value's hash seeded with the key's, and that with the table's seed.
fn hash_row(seed: u64, key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, seed.wrapping_add(key.len() as u64)))
}
