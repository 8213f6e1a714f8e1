//! Statements on their own: they run as the single writer, so that they never conflict.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use quipu::{Durability, Error, ErrorKind};
use quipu_rows::RowTransaction;

use crate::error::Result;
use crate::execute::context::Locker;
use crate::limits::Limits;
use crate::locks::Got;
use crate::locks::mode::LockMode;
use crate::locks::table::{LockName, Owner};
use crate::plan::query::LockWait;
use crate::session::Session;
use crate::session::commits::HeldLocks;
use crate::session::open_transaction::{begin_again, name_of};
use crate::session::shared::Shared;
use crate::types::datum::Datum;

/// Takes locks for a statement that writes on its own, in the writer's turn, where nothing is waited for.
struct LockerOfWriter<'l> {
    shared: &'l Shared,
    owner: Owner,
    held: &'l RefCell<HeldLocks>,
    is_alone: bool,
    /// The lock that another session has.
    taken: RefCell<Option<(LockName, LockMode)>>,
    limits: &'l Limits,
}

impl LockerOfWriter<'_> {
    fn take(&self, name: LockName, mode: LockMode, wait: LockWait) -> Result<()> {
        let wait = if wait == LockWait::Wait { LockWait::SkipLocked } else { wait };
        match self.shared.locks.take(self.owner, &name, mode, wait, self.limits, None)? {
            Got::Before => {}
            Got::Now | Got::Waited => self.held.borrow_mut().push(name, mode),
            Got::Skipped => {
                *self.taken.borrow_mut() = Some((name, mode));
                return Err(begin_again());
            }
        }
        Ok(())
    }
}

impl Locker for LockerOfWriter<'_> {
    fn lock(&self, table: &str, key: &[Datum], wait: LockWait, is_shared: bool) -> Result<bool> {
        if !self.is_alone {
            self.take(name_of(table, key), LockMode::of_row(is_shared), wait)?;
        }
        Ok(true)
    }

    fn lock_table(&self, table: &str, mode: LockMode) -> Result<()> {
        if self.is_alone { Ok(()) } else { self.take(LockName::of_table(table), mode, LockWait::Wait) }
    }

    fn is_alone(&self) -> bool {
        self.is_alone
    }
}

/// What is done in the writer's turn.
type AloneFn<'w, R> = dyn FnMut(&RowTransaction<'_>, &dyn Locker) -> Result<Alone<R>> + 'w;

/// What a statement on its own came to.
pub(super) enum Alone<R> {
    /// It is done.
    Done(R),
    /// What it was bound over has changed.
    BindAgain,
}

impl Session {
    /// How far a commit must be safe: as the database says, or, if `synchronous_commit` is off, with the system.
    pub(super) fn durability(&self) -> Option<Durability> {
        match self.identity.settings.get("synchronous_commit") {
            Some("off") => Some(Durability::Os),
            _ => None,
        }
    }

    /// Runs `work` as the single writer, again after each lock that it has to wait for.
    pub(super) fn alone<R>(
        &self,
        limits: &Limits,
        mut work: impl FnMut(&RowTransaction<'_>, &dyn Locker) -> Result<Alone<R>>,
    ) -> Result<Alone<R>> {
        let held = RefCell::default();
        let result = self.try_alone(limits, &held, &mut work);
        self.shared.locks.release(self.owner, held.into_inner().into_names());
        result
    }

    fn try_alone<R>(&self, limits: &Limits, held: &RefCell<HeldLocks>, work: &mut AloneFn<'_, R>) -> Result<Alone<R>> {
        let shared = &*self.shared;
        loop {
            let mut failure = None;
            let mut taken = None;
            let mut given = Vec::new();
            let sequences = shared.catalogues.sequences();
            let mut closure = |transaction: &RowTransaction<'_>| {
                self.seen.note(self.shared.database.db());
                let is_alone = shared.locks.is_free();
                let locker =
                    LockerOfWriter { shared, owner: self.owner, held, is_alone, taken: RefCell::default(), limits };
                let done = work(transaction, &locker);
                given = sequences.take_given();
                done.map_err(|error| {
                    taken = locker.taken.take();
                    failure = Some(error);
                    Error::new(ErrorKind::Invalid, "the statement has failed")
                })
            };
            shared.commits.writers.fetch_add(1, Ordering::SeqCst);
            let result = match self.durability() {
                Some(durability) => shared.database.write_with(durability, &mut closure),
                None => shared.database.write(&mut closure),
            };
            if result.is_ok() {
                shared.commits.note(&held.borrow());
            }
            shared.commits.writers.fetch_sub(1, Ordering::SeqCst);
            match (result, failure, taken) {
                (Ok(done), ..) => return Ok(done),
                (Err(_), Some(_), Some((name, mode))) => {
                    let timeout = self.identity.settings.lock_timeout();
                    shared.locks.take(self.owner, &name, mode, LockWait::Wait, limits, timeout)?;
                    held.borrow_mut().push(name, mode);
                }
                (Err(_), Some(failure), None) => {
                    // The statement has failed already. What is not noted is given out again.
                    let _ = sequences.keep(&given);
                    return Err(failure);
                }
                (Err(error), None, _) => return Err(error.into()),
            }
        }
    }
}
