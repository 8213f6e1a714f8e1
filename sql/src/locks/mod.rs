//! Locks of rows and tables: an UPDATE, a DELETE or a SELECT FOR UPDATE of a row that another open transaction has
//! changed waits until that one has ended, in the order of asking. So does a statement that changes the definition of
//! a table which another one has written. Reading takes no lock.
//!
//! The engine below needs no locks: its transactions are optimistic. They keep sessions from conflicts which their
//! clients would have to answer by running a transaction again: `docs/internals/decisions/0016`.

pub mod mode;
pub mod table;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Result, SqlError, SqlState};
use crate::limits::Limits;
use crate::locks::mode::LockMode;
use crate::locks::table::{Asked, LockEntry, LockName, LockTable, Owner};
use crate::plan::query::LockWait;

/// The name of the table that advisory locks are keys of; names of tables have no colon at their head.
pub(crate) const ADVISORY: &str = ":advisory";
/// The name of the table that schemas, and names of relations and types in them, are keys of.
pub(crate) const NAMES: &str = ":names";

/// How often a waiting session looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// The locks of all sessions of a database.
#[derive(Default)]
pub struct Locks {
    table: Mutex<LockTable>,
    changed: Condvar,
    /// How many keys are locked: read without the mutex.
    count: AtomicUsize,
    owners: AtomicU64,
}

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// At once.
    Now,
    /// It was there already.
    Before,
    /// After a wait: what the statement has read may have changed.
    Waited,
    /// Not at all, and the row is to be left out.
    Skipped,
}

impl Locks {
    /// A new owner.
    pub fn new_owner(&self) -> Owner {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives new owners greater numbers than this one.
    pub fn number_after(&self, owner: Owner) {
        self.owners.fetch_max(owner.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether no key is locked.
    pub fn is_free(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// How many keys are locked.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether no key is locked.
    pub fn is_empty(&self) -> bool {
        self.is_free()
    }

    /// All locks that an owner has or waits for.
    pub fn all(&self) -> Vec<LockEntry> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// Takes a lock.
    ///
    /// # Errors
    /// [`DEADLOCK_DETECTED`](SqlState::DEADLOCK_DETECTED), [`LOCK_NOT_AVAILABLE`](SqlState::LOCK_NOT_AVAILABLE) without
    /// a wait or after `timeout`, and that the statement was cancelled.
    pub fn take(
        &self,
        owner: Owner,
        name: &LockName,
        mode: LockMode,
        wait: LockWait,
        limits: &Limits,
        timeout: Option<Duration>,
    ) -> Result<Got> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = table.ask(owner, name, mode, wait == LockWait::Wait);
        self.count.store(table.len(), Ordering::Release);
        match asked {
            Asked::Given => return Ok(Got::Now),
            Asked::Had => return Ok(Got::Before),
            Asked::Taken if wait == LockWait::SkipLocked => return Ok(Got::Skipped),
            Asked::Taken => {
                let row = if name.is_table() { "" } else { "row in " };
                let what = format!("could not obtain lock on {row}relation \"{}\"", name.table);
                return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, what));
            }
            Asked::Deadlock => {
                self.changed.notify_all();
                let row = if name.is_table() { "" } else { "a row of " };
                let what = format!("The transaction waits for {row}\"{}\" and is waited for.", name.table);
                return Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(what));
            }
            Asked::Queued => {}
        }
        let began = crate::clock::moment();
        while table.is_waiting(owner) {
            (table, _) = self.changed.wait_timeout(table, LOOK).unwrap_or_else(PoisonError::into_inner);
            let stopped = match limits.check() {
                Err(error) => Some(error),
                Ok(()) if timeout.is_some_and(|timeout| began.elapsed() >= timeout) => {
                    let what = "canceling statement due to lock timeout";
                    Some(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, what))
                }
                Ok(()) => None,
            };
            if let Some(error) = stopped.filter(|_| table.is_waiting(owner)) {
                table.stop_waiting(owner);
                self.count.store(table.len(), Ordering::Release);
                self.changed.notify_all();
                return Err(error);
            }
        }
        table.stop_waiting(owner);
        Ok(Got::Waited)
    }

    /// Keeps a lock in this mode alone, so that others can have it in more modes.
    pub fn reduce(&self, owner: Owner, name: &LockName, mode: LockMode) {
        let given = self.table.lock().unwrap_or_else(PoisonError::into_inner).reduce(owner, name, mode);
        if !given.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Gives back locks.
    pub fn release(&self, owner: Owner, names: impl IntoIterator<Item = LockName>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_given = false;
        for name in names {
            is_given |= !table.release(owner, &name).is_empty();
        }
        self.count.store(table.len(), Ordering::Release);
        drop(table);
        if is_given {
            self.changed.notify_all();
        }
    }
}
