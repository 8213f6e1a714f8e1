//! The health of an open database: whether it can still be written to, and which of its background work failed.
//!
//! Not here: a log that cannot be written or synced any more (`log/writer`, `poison`).

use crate::error::{Error, Result};
use crate::state::failures::Failures;
use crate::state::versions::failed_half_way;
use crate::sync::atomic::{AtomicBool, Ordering};

/// How a database fares.
#[derive(Default)]
pub(crate) struct Health {
    /// Memory no longer matches the log or the manifest. Set in the writer's turn, or in that to write runs.
    failed: AtomicBool,
    /// Failures of background work.
    pub(crate) failures: Failures,
}

impl Health {
    /// Fails if memory no longer matches the log.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed() {
            return Err(failed_half_way());
        }
        Ok(())
    }

    /// Whether memory no longer matches the log: nothing is written until the database is reopened.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Marks the database failed: a change was left half done. Returns the error that says why.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::SeqCst);
        error
    }

    /// Marks the database failed, because of this error: a logged change could not be applied.
    #[cold]
    pub(crate) fn broken(&self, error: Error) -> Error {
        self.fail(error.context("a logged commit could not be applied; reopen the database to recover it from the log"))
    }
}
