//! An open transaction of a session, and what takes locks for it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use quipu::{ErrorKind, Savepoint};
use quipu_rows::{Isolation, RowTransaction};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Locker;
use crate::identity::settings::{LocalSettings, Settings};
use crate::limits::Limits;
use crate::locks::Got;
use crate::locks::mode::LockMode;
use crate::locks::table::{LockName, Owner};
use crate::plan::query::LockWait;
use crate::session::commits::HeldLocks;
use crate::session::shared::Shared;
use crate::types::datum::Datum;

/// The transaction of a session.
pub(super) struct OpenTransaction {
    pub(super) transaction: Box<RowTransaction<'static>>,
    /// Whether it was begun by a statement, and ends at Sync.
    pub(super) is_implicit: bool,
    pub(super) has_failed: bool,
    pub(super) is_read_only: bool,
    /// The locks that it has.
    pub(super) held: RefCell<HeldLocks>,
    pub(super) savepoints: Vec<Marked>,
    /// Whether a statement has asked for rows, or changed some.
    pub(super) has_asked: bool,
    /// Whether it may have changed rows or definitions.
    pub(super) has_written: Cell<bool>,
    /// How many commits there were when it was last at the present.
    pub(super) seen: u64,
    /// The parameters before it, to which ROLLBACK comes back.
    pub(super) settings_before: Arc<Settings>,
    /// The parameters that it has set for itself alone.
    pub(super) local_settings: LocalSettings,
}

/// What ROLLBACK TO SAVEPOINT comes back to.
pub(super) struct Marked {
    pub(super) name: String,
    pub(super) savepoint: Savepoint,
    /// The parameters.
    pub(super) settings: Arc<Settings>,
    /// The parameters that the transaction had set for itself alone.
    pub(super) local_settings: LocalSettings,
    /// How many advisory locks the session had taken so far.
    pub(super) advisory: u64,
    /// How much it had to say.
    pub(super) said: usize,
}

/// Takes locks for a transaction that stays open.
pub(super) struct LockerOfTransaction<'l> {
    pub(super) shared: &'l Shared,
    pub(super) owner: Owner,
    pub(super) held: &'l RefCell<HeldLocks>,
    pub(super) seen: u64,
    pub(super) limits: &'l Limits,
    pub(super) timeout: Option<Duration>,
}

pub(super) fn begin_again() -> SqlError {
    SqlError::new(SqlState::BEGIN_AGAIN, "the statement must begin again")
}

pub(super) fn name_of(table: &str, key: &[Datum]) -> LockName {
    LockName { table: table.into(), key: key.to_vec() }
}

impl LockerOfTransaction<'_> {
    /// Locks a table, unless the transaction has done so.
    pub(super) fn take_table(&self, table: &str, mode: LockMode, wait: LockWait) -> Result<()> {
        if self.held.borrow().has_table(table, mode) {
            return Ok(());
        }
        self.take(LockName::of_table(table), mode, wait).map(drop)
    }

    fn take(&self, name: LockName, mode: LockMode, wait: LockWait) -> Result<bool> {
        let got = self.shared.locks.take(self.owner, &name, mode, wait, self.limits, self.timeout)?;
        match got {
            Got::Before => return Ok(true),
            Got::Skipped => return Ok(false),
            Got::Now | Got::Waited => {}
        }
        let is_stale = got == Got::Waited || self.shared.commits.may_have_changed(&name, self.seen);
        self.held.borrow_mut().push(name, mode);
        if is_stale { Err(begin_again()) } else { Ok(true) }
    }
}

impl Locker for LockerOfTransaction<'_> {
    fn lock(&self, table: &str, key: &[Datum], wait: LockWait, is_shared: bool) -> Result<bool> {
        self.take(name_of(table, key), LockMode::of_row(is_shared), wait)
    }

    fn lock_table(&self, table: &str, mode: LockMode) -> Result<()> {
        self.take_table(table, mode, LockWait::Wait)
    }

    fn is_alone(&self) -> bool {
        false
    }
}

impl OpenTransaction {
    /// SET TRANSACTION SNAPSHOT: it reads what another transaction has exported.
    ///
    /// # Errors
    /// As PostgreSQL's: it must be the first thing that a transaction does, whose level keeps its snapshot.
    pub(super) fn import_snapshot(&mut self, name: &str, shared: &Shared) -> Result<()> {
        if self.has_begun() {
            let what = "SET TRANSACTION SNAPSHOT must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        }
        let level = self.transaction.isolation();
        if level == Isolation::ReadCommitted {
            let what = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let snapshot = shared.snapshots.find(name)?;
        *self.transaction = shared.database.begin_at(&snapshot, level)?;
        // Any row may have changed since. Its first statement does not move it.
        (self.seen, self.has_asked) = (0, true);
        Ok(())
    }

    /// Whether it has done something that its level and its snapshot have to do with.
    pub(super) fn has_begun(&self) -> bool {
        self.has_asked || !self.held.borrow().is_empty() || !self.savepoints.is_empty() || self.has_written.get()
    }

    /// Whether a statement that begins now sees what a snapshot that is taken now sees.
    pub(super) fn sees_the_present(&self) -> bool {
        self.transaction.isolation() == Isolation::ReadCommitted && !self.has_written.get()
    }

    /// Whether all that it will read is what it reads now.
    pub(super) fn reads_one_moment(&self) -> bool {
        self.transaction.isolation() != Isolation::ReadCommitted && self.is_read_only
    }

    pub(super) fn move_to_the_present(&mut self, shared: &Shared) -> Result<()> {
        let seen = shared.commits.now();
        match self.transaction.refresh() {
            // It relies on definitions that have changed, but has done nothing by them.
            Err(error) if error.kind() == ErrorKind::Conflict && self.sees_the_present() => {
                *self.transaction = shared.database.begin_with(self.transaction.isolation());
                for marked in &mut self.savepoints {
                    marked.savepoint = self.transaction.savepoint();
                }
            }
            result => result?,
        }
        self.seen = seen;
        Ok(())
    }

    pub(super) fn place_of(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|marked| marked.name == name);
        at.ok_or_else(|| SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }
}
