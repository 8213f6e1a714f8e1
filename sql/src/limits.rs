//! Limits of a statement: its client cancels it, or its time is over.
//!
//! Not here: the memory that it takes, which `execute::context` counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Result, SqlError, SqlState};
use crate::row_files::TemporaryFiles;

/// Cancels what a session runs, from another thread.
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    is_cancelled: Arc<AtomicBool>,
    is_ended: Arc<AtomicBool>,
}

impl Canceller {
    /// Asks the running statement to end with an error.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Asks the running statement to end, since its session does.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.cancel();
    }

    /// Whether the running statement is to end.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Forgets what was asked before a statement begins.
    pub fn clear(&self) {
        self.is_cancelled.store(false, Ordering::Relaxed);
    }
}

/// When a statement is stopped.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Whether it is cancelled.
    pub canceller: Canceller,
    /// When its time is over.
    pub deadline: Option<Instant>,
    /// How many bytes of rows it may keep.
    pub memory: usize,
    /// Where rows beyond that go; nowhere if there is no database to put files beside.
    pub temporary_files: Option<TemporaryFiles>,
    /// How many bytes the temporary files of its session may have.
    pub file_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        let (deadline, temporary_files, file_bytes) = (None, None, None);
        Limits { canceller: Canceller::default(), deadline, memory: 256 << 20, temporary_files, file_bytes }
    }
}

impl Limits {
    /// # Errors
    /// [`QUERY_CANCELED`](SqlState::QUERY_CANCELED) if the statement is cancelled or out of time,
    /// [`ADMIN_SHUTDOWN`](SqlState::ADMIN_SHUTDOWN) if its session ends.
    pub fn check(&self) -> Result<()> {
        if self.canceller.is_cancelled() {
            if self.canceller.is_ended.load(Ordering::Relaxed) {
                let what = "terminating connection due to administrator command";
                return Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, what));
            }
            return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
        }
        if self.deadline.is_some_and(|deadline| crate::clock::moment() >= deadline) {
            return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"));
        }
        Ok(())
    }
}
