//! Keys by which joins, groups and DISTINCT find rows.
//!
//! The values of all keys, or of all rows, stand in one list, so that none costs an allocation of its own.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::types::datum::Datum;

/// Rows of one width.
#[derive(Default)]
pub(super) struct FlatRows {
    values: Vec<Datum>,
    width: usize,
    count: usize,
}

impl FlatRows {
    /// No rows, and how many values each will have.
    pub(super) fn of_width(width: usize) -> FlatRows {
        FlatRows { values: Vec::new(), width, count: 0 }
    }

    /// Adds a row. Returns its place, one after that of the last.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Datum>) -> usize {
        self.values.extend(row);
        self.count += 1;
        debug_assert_eq!(self.values.len(), self.count * self.width, "a row has another width");
        self.count - 1
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The row at a place.
    pub(super) fn row(&self, at: usize) -> &[Datum] {
        &self.values[at * self.width..][..self.width]
    }

    /// All rows in their order. None are left.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Vec<Datum>> + use<> {
        let FlatRows { values, width, count } = std::mem::replace(self, FlatRows::of_width(self.width));
        let mut values = values.into_iter();
        (0..count).map(move |_| values.by_ref().take(width).collect())
    }
}

/// Different keys of one width, in the order in which they came.
#[derive(Default)]
pub(super) struct KeyTable {
    keys: FlatRows,
    /// The hash and the place of each.
    places: HashTable<(u64, usize)>,
    hasher: RandomState,
}

impl KeyTable {
    /// No keys, and how many values each will have.
    pub(super) fn of_width(width: usize) -> KeyTable {
        KeyTable { keys: FlatRows::of_width(width), ..KeyTable::default() }
    }

    /// The place of a key, if it is there.
    pub(super) fn find(&self, key: &[Datum]) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let is_it = |&(known, at): &(u64, usize)| known == hash && self.keys.row(at) == key;
        self.places.find(hash, is_it).map(|&(_, at)| at)
    }

    /// Adds a key that is not there. Returns its place, one after that of the last.
    pub(super) fn add(&mut self, key: impl IntoIterator<Item = Datum>) -> usize {
        let at = self.keys.push(key);
        let hash = self.hasher.hash_one(self.keys.row(at));
        self.places.insert_unique(hash, (hash, at), |&(hash, _)| hash);
        at
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key at a place.
    pub(super) fn key(&self, at: usize) -> &[Datum] {
        self.keys.row(at)
    }

    /// All keys in their order. None are left.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Vec<Datum>> + use<> {
        self.places = HashTable::new();
        self.keys.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_at_their_places_until_they_are_taken_out() {
        for width in 0..4 {
            let key = |number: i64| (0..width).map(move |place| Datum::Int(number >> place)).collect::<Vec<_>>();
            let mut table = KeyTable::of_width(width);
            let count = if width == 0 { 1 } else { 1000 };
            for number in 0..count {
                assert_eq!(table.find(&key(number)), None);
                assert_eq!(table.add(key(number)), number as usize);
            }
            for number in 0..count {
                assert_eq!(table.find(&key(number)), Some(number as usize));
                assert_eq!(table.key(number as usize), key(number));
            }
            assert_eq!(table.len(), count as usize);
            assert!(table.drain().eq((0..count).map(key)));
            assert_eq!((table.len(), table.find(&key(0))), (0, None));
        }
    }

    #[test]
    fn equal_values_of_other_kinds_are_one_key() {
        let mut table = KeyTable::of_width(2);
        table.add([Datum::Int(3), Datum::Null]);
        assert_eq!(table.find(&[Datum::Float(3.0), Datum::Null]), Some(0));
        assert_eq!(table.find(&[Datum::Float(3.5), Datum::Null]), None);
    }
}
