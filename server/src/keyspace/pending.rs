//! What a command does beside the tables: done when the command is kept, and forgotten when it is taken back.
//!
//! Not here: taking back what it wrote into tables, which the engine does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::removals::Removal;
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
    /// Long strings that were given to keys.
    used: Vec<Removal>,
    /// Databases that were swapped.
    swapped: Option<(usize, usize)>,
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
            used: Vec::new(),
            swapped: None,
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
            && self.used.is_empty()
            && self.swapped.is_none()
    }

    /// Notes a deadline that a key gets.
    pub(super) fn note_deadline(&mut self, deadline_ms: u64) {
        self.earliest_deadline_ms = self.earliest_deadline_ms.min(deadline_ms);
    }

    pub(super) fn remove_later(&mut self, removal: Removal) {
        self.removals.push(removal);
    }

    pub(super) fn note_used(&mut self, used: Removal) {
        self.used.push(used);
    }

    pub(super) fn note_swap(&mut self, a: usize, b: usize) {
        self.swapped = Some((a, b));
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
    pub(super) fn settle_pending(&mut self) {
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
        self.pending.used.clear();
        self.pending.swapped = None;
    }

    /// Forgets it: the command is taken back.
    pub(super) fn forget_pending(&mut self) {
        let Pending { deadlines_changed, earliest_deadline_ms, used, swapped, .. } = std::mem::take(&mut self.pending);
        (self.pending.deadlines_changed, self.pending.earliest_deadline_ms) = (deadlines_changed, earliest_deadline_ms);
        let keyspace: &Keyspace = self.keyspace();
        // Those that were made for this command have no key any more, and have their rows again.
        used.into_iter().for_each(|used| keyspace.removals.push(used));
        if let Some((a, b)) = swapped {
            keyspace.swap_order(a, b);
        }
    }
}
