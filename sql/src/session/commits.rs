//! Commits of sessions: which rows they may have changed, by the locks that they had.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::locks::mode::LockMode;
use crate::locks::table::LockName;

/// Groups of keys of which the last commit is known.
const GROUPS: usize = 4_096;

/// Which commits of sessions there were.
pub struct Commits {
    count: AtomicU64,
    /// The last one that has changed rows without locks.
    without_locks: AtomicU64,
    /// The last one that has had a lock of a group of keys.
    by_group: Box<[AtomicU64]>,
    /// Statements that write on their own at the moment.
    pub(super) writers: AtomicUsize,
}

impl Default for Commits {
    fn default() -> Commits {
        let by_group = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
        Commits { count: AtomicU64::new(0), without_locks: AtomicU64::new(0), by_group, writers: AtomicUsize::new(0) }
    }
}

fn group(name: &LockName) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() as usize % GROUPS
}

impl Commits {
    pub(super) fn now(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Notes a commit that has had these locks, which others may take only after this.
    pub(super) fn note(&self, held: &HeldLocks) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if held.is_empty() {
            self.without_locks.fetch_max(number, Ordering::SeqCst);
        }
        // What has changed rows has not changed what their table is.
        let tables = held.tables.iter().filter(|(_, mode)| mode.is_strong()).map(|(name, _)| name);
        for name in held.keys.iter().chain(tables) {
            self.by_group[group(name)].fetch_max(number, Ordering::SeqCst);
        }
    }

    /// Notes that what a table is has changed, outside of a transaction.
    pub(super) fn note_table(&self, name: &LockName) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.by_group[group(name)].fetch_max(number, Ordering::SeqCst);
    }

    /// Whether a row, or what a table is, may have changed since a transaction was at the present, after `seen`
    /// commits.
    pub(super) fn may_have_changed(&self, name: &LockName, seen: u64) -> bool {
        self.writers.load(Ordering::SeqCst) > 0
            || self.without_locks.load(Ordering::SeqCst) > seen
            || self.by_group[group(name)].load(Ordering::SeqCst) > seen
    }
}

/// The locks of a transaction.
#[derive(Default)]
pub(super) struct HeldLocks {
    /// Of keys.
    pub(super) keys: Vec<LockName>,
    /// Of tables; of one there may be several.
    pub(super) tables: Vec<(LockName, LockMode)>,
}

impl HeldLocks {
    pub(super) fn push(&mut self, name: LockName, mode: LockMode) {
        if name.is_table() {
            self.tables.push((name, mode));
        } else {
            self.keys.push(name);
        }
    }

    pub(super) fn has_table(&self, table: &str, mode: LockMode) -> bool {
        self.tables.iter().any(|(name, own)| *name.table == *table && own.covers(mode))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tables.is_empty()
    }

    pub(super) fn into_names(self) -> impl Iterator<Item = LockName> {
        self.keys.into_iter().chain(self.tables.into_iter().map(|(name, _)| name))
    }
}
