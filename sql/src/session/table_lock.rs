//! The lock of a table that a session has outside of a transaction.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::limits::Limits;
use crate::locks::mode::LockMode;
use crate::locks::table::{LockName, Owner};
use crate::plan::query::LockWait;
use crate::session::shared::Shared;

/// A lock of a table that a session has outside of a transaction.
pub(super) struct TableLock {
    shared: Arc<Shared>,
    owner: Owner,
    name: LockName,
}

impl Drop for TableLock {
    /// Lets others write, who see what was done, also by a build that has failed.
    fn drop(&mut self) {
        self.shared.commits.note_table(&self.name);
        self.shared.locks.release(self.owner, [self.name.clone()]);
    }
}

/// How long is waited for a lock.
pub(super) struct Patience {
    pub(super) limits: Limits,
    pub(super) timeout: Option<Duration>,
}

impl TableLock {
    /// Takes the lock of a table, by its name in rows; none if it may not wait, and others have it.
    pub(super) fn take(
        shared: &Arc<Shared>,
        owner: Owner,
        table: &str,
        mode: LockMode,
        wait: LockWait,
        patience: &Patience,
    ) -> Result<Option<TableLock>> {
        let name = LockName::of_table(table);
        let got = shared.locks.take(owner, &name, mode, wait, &patience.limits, patience.timeout)?;
        let has_it = got != crate::locks::Got::Skipped;
        Ok(has_it.then(|| TableLock { shared: Arc::clone(shared), owner, name }))
    }

    /// Waits until it has the lock in this mode, too.
    pub(super) fn raise(&self, mode: LockMode, patience: &Patience) -> Result<()> {
        let locks = &self.shared.locks;
        locks.take(self.owner, &self.name, mode, LockWait::Wait, &patience.limits, patience.timeout).map(drop)
    }

    /// Lets others write, who see what was done.
    pub(super) fn reduce(&self, mode: LockMode) {
        self.shared.commits.note_table(&self.name);
        self.shared.locks.reduce(self.owner, &self.name, mode);
    }
}
