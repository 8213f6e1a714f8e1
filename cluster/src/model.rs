//! Tables in plain maps, with a disk that can lose what was not synced: for simulations.
//!
//! Commits are numbered. A crash undoes the last ones, down to any number that is not below the last synced one, so
//! what is left is a prefix of the commits, as with the engine.
//!
//! Cost: tallies and positions look at each row of their range.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use quipu::{Error, ErrorKind, Measures, Result, Tally};

use crate::tables::{RoomFor, Table, Tables};

/// A change of one row, as it is taken back.
#[derive(Clone, Debug)]
struct Undo {
    table: Table,
    key: Vec<u8>,
    old: Option<Vec<u8>>,
}

/// Tables in memory. See the module.
#[derive(Clone, Debug, Default)]
pub struct ModelTables {
    tables: [BTreeMap<Vec<u8>, Vec<u8>>; 5],
    hash_seed: u64,
    /// What takes back each commit that is not synced, the oldest first.
    unsynced: VecDeque<Vec<Undo>>,
    open: Vec<Undo>,
    commits: u64,
    /// Whether the disk is full: there is space for what frees some, and for nothing else.
    pub is_full: bool,
}

impl ModelTables {
    /// Empty tables, whose hashes have this seed.
    pub fn new(hash_seed: u64) -> ModelTables {
        ModelTables { hash_seed, ..ModelTables::default() }
    }

    /// Ends the turn. Returns the number of commits so far.
    pub fn commit(&mut self) -> u64 {
        if !self.open.is_empty() {
            self.unsynced.push_back(std::mem::take(&mut self.open));
            self.commits += 1;
        }
        self.commits
    }

    /// Notes that all commits up to this number are on stable storage.
    pub fn synced(&mut self, commits: u64) {
        while self.commits - self.unsynced.len() as u64 != commits && self.commits >= commits {
            if self.unsynced.pop_front().is_none() {
                break;
            }
        }
    }

    /// Commits that a crash could take back.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Loses the last `lost` commits, and what no commit has.
    pub fn crash(&mut self, lost: usize) {
        self.commit();
        for _ in 0..lost {
            let Some(undo) = self.unsynced.pop_back() else { break };
            self.commits -= 1;
            for Undo { table, key, old } in undo.into_iter().rev() {
                match old {
                    Some(value) => self.tables[table as usize].insert(key, value),
                    None => self.tables[table as usize].remove(&key),
                };
            }
        }
        self.unsynced.clear();
    }

    /// The rows of a table.
    pub fn rows(&self, table: Table) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.tables[table as usize]
    }

    fn range(&self, table: Table, start: &[u8], end: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        let (start, end) = (start.min(end), end);
        self.tables[table as usize].range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
    }
}

impl Tables for ModelTables {
    fn get_with<R>(&self, table: Table, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.tables[table as usize].get(key).map(Vec::as_slice)))
    }

    fn has_room(&mut self, what: RoomFor, _: usize) -> Result<bool> {
        Ok(!self.is_full || what == RoomFor::Removal)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        if self.is_full && !table.frees(value) {
            return Err(Error::new(ErrorKind::Full, format!("{table:?} grows on a full disk")));
        }
        let old = self.tables[table as usize].insert(key.to_vec(), value.to_vec());
        self.open.push(Undo { table, key: key.to_vec(), old });
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        if let Some(old) = self.tables[table as usize].remove(key) {
            self.open.push(Undo { table, key: key.to_vec(), old: Some(old) });
        }
        Ok(())
    }

    fn tally(&self, table: Table, start: &[u8], end: &[u8]) -> Result<Tally> {
        let measures = Measures { bytes: true, hash: true, hash_seed: self.hash_seed, ..Measures::ROWS };
        Ok(self.range(table, start, end).map(|(key, value)| measures.of_row(key, value)).sum())
    }

    fn nth(&self, table: Table, start: &[u8], end: &[u8], offset: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.range(table, start, end).nth(offset as usize).map(|(key, _)| key.clone()))
    }

    fn scan(
        &self,
        table: Table,
        start: &[u8],
        end: &[u8],
        rows: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        for (key, value) in self.range(table, start, end).take(rows) {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn row_hash(&self, key: &[u8], value: &[u8]) -> u64 {
        Measures { hash: true, hash_seed: self.hash_seed, ..Measures::ROWS }.of_row(key, value).hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_takes_back_the_last_commits_and_no_synced_one() {
        let mut tables = ModelTables::new(1);
        let mut states = vec![tables.rows(Table::Facts).clone()];
        for number in 0..10u8 {
            tables.put(Table::Facts, &[number % 3], &[number]).unwrap();
            if number % 4 == 3 {
                tables.remove(Table::Facts, &[0]).unwrap();
            }
            assert_eq!(tables.commit(), u64::from(number) + 1);
            states.push(tables.rows(Table::Facts).clone());
        }
        tables.synced(6);
        assert_eq!(tables.unsynced(), 4);
        for lost in 0..=5 {
            let mut crashed = tables.clone();
            crashed.put(Table::Facts, b"open", b"").unwrap();
            crashed.commit();
            crashed.crash(lost + 1);
            assert_eq!(crashed.rows(Table::Facts), &states[(10 - lost).max(6)]);
        }
    }
}
