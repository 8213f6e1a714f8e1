//! Columns that would do as a key where those that were named do not.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Records whose key others have, of which columns are compared.
const COMPARED: usize = 100_000;

/// Looks for columns that tell records apart which have one key. Records are given twice, in the same order: the first
/// time by [`Keys::see`], then by [`Keys::compare`].
///
/// Cost: twelve bytes or so for each key, and eight for each column of the records that are compared.
#[derive(Default)]
pub(crate) struct Keys {
    hasher: RandomState,
    /// How many records have a key, by its hash.
    seen: HashMap<u64, u32>,
    /// Of records that share a key: hashes of the key and of each column.
    compared: Vec<(u64, Vec<u64>)>,
}

impl Keys {
    fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    /// Notes the key of a record.
    pub(crate) fn see(&mut self, key: &str) {
        let hash = self.hash(key);
        *self.seen.entry(hash).or_default() += 1;
    }

    /// Notes the fields of a record if others have its key; else they are not asked for. Returns whether there is room
    /// for more.
    pub(crate) fn compare<'f>(&mut self, key: &str, fields: impl Iterator<Item = Cow<'f, str>>) -> bool {
        let hash = self.hash(key);
        if self.seen.get(&hash).is_some_and(|records| *records > 1) {
            let fields = fields.map(|field| self.hash(&field)).collect();
            self.compared.push((hash, fields));
        }
        self.compared.len() < COMPARED
    }

    /// The places of columns, of those that `may_be` in a key, that tell all compared records apart beside the columns
    /// of the key: few, but not always the fewest. None if no columns do.
    pub(crate) fn columns_that_do(&self, may_be: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let columns = self.compared.first()?.1.len();
        let mut groups: Vec<u64> = self.compared.iter().map(|(key, _)| *key).collect();
        let mut chosen = Vec::new();
        let mut told_apart = count(&groups);
        while told_apart < groups.len() {
            let with = |column: usize| {
                let pairs = groups.iter().zip(&self.compared);
                pairs.map(|(group, (_, fields))| self.hasher.hash_one((group, fields[column]))).collect::<Vec<u64>>()
            };
            let candidates = (0..columns).filter(|column| may_be(*column) && !chosen.contains(column));
            let apart = candidates.map(|column| (count(&with(column)), column));
            let best = apart.max_by_key(|(apart, column)| (*apart, columns - column));
            let (apart, column) = best.filter(|(apart, _)| *apart > told_apart)?;
            (groups, told_apart) = (with(column), apart);
            chosen.push(column);
        }
        chosen.sort_unstable();
        Some(chosen)
    }
}

/// How many different ones there are.
fn count(hashes: &[u64]) -> usize {
    hashes.iter().collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns_that_do(records: &[[&str; 4]]) -> Option<Vec<usize>> {
        let mut keys = Keys::default();
        records.iter().for_each(|record| keys.see(record[0]));
        records.iter().for_each(|record| {
            keys.compare(record[0], record.iter().map(|field| Cow::from(*field)));
        });
        keys.columns_that_do(|column| column > 0)
    }

    #[test]
    fn the_columns_found_tell_all_records_apart() {
        let records = [["a", "1", "x", "p"], ["a", "1", "y", "p"], ["b", "2", "x", "q"], ["a", "2", "x", "p"]];
        assert_eq!(columns_that_do(&records), Some(vec![1, 2]));
        assert_eq!(columns_that_do(&records[..2]), Some(vec![2]));
        let alike = [["a", "1", "x", "p"], ["a", "1", "x", "p"]];
        assert_eq!(columns_that_do(&alike), None, "equal in all columns");
        assert_eq!(columns_that_do(&records[2..]), None, "no two have one key");
    }
}
