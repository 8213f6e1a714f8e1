//! Effects of a command outside of the tables: done when the command is kept, and forgotten when it is taken back.
//!
//! Invariant: until the command is kept, nothing here has an effect that outlasts it, but for the order of databases,
//! which its own next words go by: that is put back. So a command that is taken back and tried again, or not, has done
//! nothing. What a client's session keeps is no part of this (`state::session::Standing`).
//!
//! Not here: taking back what it wrote into tables, which the engine does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::removals::Removal;
use super::value::CollectionId;
use super::{Data, Keyspace};

/// What the command under way has done beside the tables.
#[derive(Debug)]
pub(super) struct Pending {
    hits: Cell<u64>,
    misses: Cell<u64>,
    changes: Cell<u64>,
    expired: Cell<u64>,
    /// Keys whose watchers are to be told, by database.
    touched: Vec<(usize, Box<[u8]>)>,
    /// What is to be removed later: its row is in the table of removals.
    removals: Vec<Removal>,
    /// Databases that were emptied, by the numbers of their tables, each with the last id that was given before.
    ended: Vec<(usize, CollectionId)>,
    /// Databases that were swapped, in order.
    swapped: Vec<(usize, usize)>,
    /// Whether what expires next may have changed. Of all commands of the hold.
    pub(super) deadlines_changed: bool,
    /// The earliest deadline that was set. Of all commands of the hold.
    pub(super) earliest_deadline_ms: u64,
}

impl Default for Pending {
    fn default() -> Self {
        Pending {
            hits: Cell::new(0),
            misses: Cell::new(0),
            changes: Cell::new(0),
            expired: Cell::new(0),
            touched: Vec::new(),
            removals: Vec::new(),
            ended: Vec::new(),
            swapped: Vec::new(),
            deadlines_changed: false,
            earliest_deadline_ms: u64::MAX,
        }
    }
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl Pending {
    /// Whether nothing is to be done.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.hits.get() | self.misses.get() | self.changes.get() | self.expired.get() == 0
            && self.touched.is_empty()
            && self.removals.is_empty()
            && self.ended.is_empty()
            && self.swapped.is_empty()
    }

    /// Notes a deadline that a key gets.
    pub(super) fn note_deadline(&mut self, deadline_ms: u64) {
        self.earliest_deadline_ms = self.earliest_deadline_ms.min(deadline_ms);
    }

    pub(super) fn remove_later(&mut self, removal: Removal) {
        self.removals.push(removal);
    }

    pub(super) fn note_ended(&mut self, number: usize, last: CollectionId) {
        self.ended.push((number, last));
    }

    pub(super) fn note_swap(&mut self, a: usize, b: usize) {
        self.swapped.push((a, b));
    }

    pub(super) fn note_expired(&self) {
        add(&self.expired, 1);
    }

    pub(super) fn note_changes(&self, changes: u64) {
        add(&self.changes, changes);
    }

    pub(super) fn touch(&mut self, database: usize, key: &[u8]) {
        self.touched.push((database, key.into()));
    }
}

impl Data<'_> {
    /// Counts a lookup that found a key or not.
    #[inline]
    pub fn note_lookup(&self, found: bool) {
        add(if found { &self.pending.hits } else { &self.pending.misses }, 1);
    }

    /// Counts many.
    #[inline]
    pub fn note_lookups(&self, hits: u64, misses: u64) {
        add(&self.pending.hits, hits);
        add(&self.pending.misses, misses);
    }

    /// Changes since the start, those of the command under way included.
    pub fn changes(&self) -> u64 {
        self.keyspace().counters.changes.load(Ordering::Relaxed) + self.pending.changes.get()
    }

    /// Does what the command under way has left to do.
    pub(super) fn finish_pending(&mut self) {
        let counters = &self.keyspace().counters;
        for (counter, more) in [
            (&counters.hits, &self.pending.hits),
            (&counters.misses, &self.pending.misses),
            (&counters.changes, &self.pending.changes),
            (&counters.expired, &self.pending.expired),
        ] {
            let more = more.replace(0);
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
        for (database, key) in std::mem::take(&mut self.pending.touched) {
            let watchers = self.state().and_then(|state| state.watched.remove(&(database, key)));
            watchers.into_iter().flatten().for_each(|touched| touched.store(true, Ordering::Release));
        }
        let keyspace: &Keyspace = self.keyspace();
        self.pending.removals.drain(..).for_each(|removal| keyspace.removals.push(removal));
        self.pending.ended.drain(..).for_each(|(number, last)| keyspace.end_ids(number, last));
        self.pending.swapped.clear();
    }

    /// Forgets it: the command is taken back.
    pub(super) fn forget_pending(&mut self) {
        let Pending { deadlines_changed, earliest_deadline_ms, swapped, .. } = std::mem::take(&mut self.pending);
        (self.pending.deadlines_changed, self.pending.earliest_deadline_ms) = (deadlines_changed, earliest_deadline_ms);
        let keyspace: &Keyspace = self.keyspace();
        for (a, b) in swapped.into_iter().rev() {
            keyspace.swap_order(a, b);
        }
    }
}
