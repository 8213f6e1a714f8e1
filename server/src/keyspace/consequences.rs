//! Consequences of a change of a key: its elements, pieces and deadline are updated, and clients that watch it are
//! notified.

use std::collections::BTreeSet;
use std::sync::Arc;

use quipu::{Bounds, Result};

use super::key_change::{PiecesTie, Ties};
use super::pieces::{owner_row, string_row};
use super::removals::Removal;
use super::{Data, Touched};

impl Data<'_> {
    /// Does what follows from a change, and tells clients that watch the key.
    pub(super) fn follow(&mut self, database: usize, key: &[u8], before: Ties, after: Ties) -> Result<()> {
        self.follow_quietly(database, key, before, after)?;
        self.touch(database, key);
        Ok(())
    }

    /// Does what follows from a change: drops the elements of what is gone, keeps the order of deadlines.
    pub(super) fn follow_quietly(&mut self, database: usize, key: &[u8], before: Ties, after: Ties) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        if before.collection != after.collection
            && let Some(id) = before.collection
        {
            self.drop_elements(database, id)?;
        }
        if before.pieces != after.pieces {
            self.follow_pieces(database, key, before.pieces, after.pieces)?;
        }
        match after.collection {
            Some(id) if before.collection != Some(id) => {
                self.latched_write()?.put(&tables.owners, key, &owner_row(0, id))?;
            }
            None if before.collection.is_some() && after.pieces.is_none() => {
                self.latched_write()?.remove(&tables.owners, key)?;
            }
            _ => {}
        }
        if before.deadline_ms != after.deadline_ms {
            self.pending.deadlines_changed = true;
            if let Some(deadline_ms) = before.deadline_ms {
                self.latched_write()?.remove(&tables.expires, &deadline_key(deadline_ms, key))?;
            }
            if let Some(deadline_ms) = after.deadline_ms {
                self.pending.note_deadline(deadline_ms);
                self.latched_write()?.put(&tables.expires, &deadline_key(deadline_ms, key), &[])?;
            }
        }
        Ok(())
    }

    /// Does what follows at a key that has, or had, a string in pieces.
    fn follow_pieces(
        &mut self,
        database: usize,
        key: &[u8],
        before: Option<PiecesTie>,
        after: Option<PiecesTie>,
    ) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        let old = match before {
            Some(_) => Some(self.id_of_string(database, key)?),
            None => None,
        };
        let id = match after {
            Some(PiecesTie { fresh: None, .. }) => old,
            Some(PiecesTie { fresh, .. }) => fresh,
            None => None,
        };
        match (after, id) {
            (Some(PiecesTie { length, .. }), Some(id)) => {
                if before.map(|tie| tie.length) != Some(length) || old != Some(id) {
                    self.latched_write()?.put(&tables.owners, key, &string_row(length, id))?;
                }
            }
            _ => {
                self.latched_write()?.remove(&tables.owners, key)?;
            }
        }
        if old != id {
            if let Some(id) = id {
                let keyspace = self.keyspace();
                let row = Removal::of(keyspace.number_of(database), id).row();
                self.latched_write()?.remove(&keyspace.removals_table, &row)?;
            }
            if let Some(old) = old {
                self.drop_elements(database, old)?;
            }
        }
        Ok(())
    }

    /// Tells clients that watch a key that it has changed, once the command is kept, and counts the change. Changes of
    /// a collection's elements are to be told too.
    pub fn touch(&mut self, database: usize, key: &[u8]) {
        self.note_changes(1);
        if self.has_watchers() {
            self.pending.touch(database, key);
        }
    }

    /// Tells clients that watch a live key of the database.
    pub(super) fn touch_all(&mut self, database: usize) -> Result<()> {
        for key in self.watched_keys(database, &Bounds::from(..))? {
            self.pending.touch(database, &key);
        }
        Ok(())
    }

    /// The live keys of a range that clients watch.
    pub(super) fn watched_keys(&mut self, database: usize, bounds: &Bounds<'_>) -> Result<BTreeSet<Box<[u8]>>> {
        let Some(state) = self.state() else { return Ok(BTreeSet::new()) };
        let is_inside = |(watched, key): &&(usize, Box<[u8]>)| *watched == database && bounds.contains(key);
        let mut keys: BTreeSet<Box<[u8]>> =
            state.watched.keys().filter(is_inside).map(|(_, key)| key.clone()).collect();
        let mut failure = Ok(());
        keys.retain(|key| match self.entry(database, key) {
            Ok(entry) => entry.is_some(),
            Err(error) => {
                failure = Err(error);
                false
            }
        });
        failure.map(|()| keys)
    }

    pub(super) fn has_watchers(&mut self) -> bool {
        self.state().is_some_and(|state| !state.watched.is_empty())
    }

    pub(super) fn note_changes(&self, changes: u64) {
        self.pending.note_changes(changes);
    }

    /// Watches a key: `touched` is set when it changes from now on.
    pub fn watch(&mut self, database: usize, key: &[u8], touched: &Touched) {
        self.with_state(|state| {
            let watchers = state.watched.entry((database, Box::from(key))).or_default();
            // One client may name a key many times.
            if watchers.last().is_some_and(|watcher| Arc::ptr_eq(watcher, touched)) {
                return;
            }
            // Those of clients that have gone or given up.
            watchers.retain(|watcher| Arc::strong_count(watcher) > 1);
            watchers.push(touched.clone());
        });
    }
}

/// The key that a row of the table of deadlines names.
pub(super) fn key_of_deadline(row: &[u8]) -> Option<&[u8]> {
    row.get(size_of::<u64>()..)
}

/// The key of a deadline: in the order in which keys expire.
pub(super) fn deadline_key(deadline_ms: u64, key: &[u8]) -> Vec<u8> {
    [&deadline_ms.to_be_bytes()[..], key].concat()
}
