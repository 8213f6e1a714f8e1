//! The queue of removals: elements and pieces that no key has any more, and those of strings that no key has yet.
//!
//! The table `removals` names their ids, so that what was under way when the server ended is removed after the next
//! start. The order of work is in memory.
//!
//! The table is the only thing that says so: it is written with the keys, and taken back with them. The queue may name
//! more, and names everything that may be there: each string that was made, whether or not it got a key, and each
//! collection or string that a command has kept from a key.
//!
//! Invariants:
//! 1. Every id that has elements and no key has a row in that table.
//! 2. No id that a key has has a row in that table, and what has no row is not removed, whatever the queue says.
//! 3. An id is above all that rows there name when it is given.
//!
//! Not here: the removing itself (`dropping.rs`).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tables::DATABASES;
use super::value::{CollectionId, ID_BYTES};

/// Elements to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    /// The number of the tables.
    pub(super) number: usize,
    pub(super) id: CollectionId,
}

impl Removal {
    pub(super) fn of(number: usize, id: CollectionId) -> Removal {
        Removal { number, id }
    }

    /// The key of its row, whose value is empty.
    pub(super) fn row(self) -> [u8; 1 + ID_BYTES] {
        let mut key = [self.number as u8; 1 + ID_BYTES];
        key[1..].copy_from_slice(&self.id.bytes());
        key
    }

    pub(super) fn from_row(key: &[u8]) -> Option<Removal> {
        let (&number, id) = key.split_first()?;
        let number = usize::from(number);
        let id = CollectionId::from_bytes(id)?;
        (number < DATABASES).then_some(Removal { number, id })
    }
}

/// What waits to be removed.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<VecDeque<Removal>>);

impl Removals {
    pub(super) fn queue(&self) -> MutexGuard<'_, VecDeque<Removal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it removed, if its row is there by then.
    pub(super) fn push(&self, removal: Removal) {
        self.queue().push_back(removal);
    }
}
