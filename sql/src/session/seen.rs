//! Commits of other sessions that statements have seen, which an answer waits for.

use std::cell::Cell;

use quipu::latched::CommitPosition;
use quipu::{Db, Durability};

use crate::error::Result;

/// The last commit that statements may have seen.
#[derive(Default)]
pub(super) struct Seen(Cell<CommitPosition>);

impl Seen {
    /// Notes that statements have seen all that is committed now.
    pub(super) fn note(&self, db: &Db) {
        self.0.set(db.pending_commits().position());
    }

    /// Waits until what they have seen has this durability: at once if a commit of the session's own has come after
    /// that.
    ///
    /// # Errors
    /// Those of a sync.
    pub(super) fn wait(&self, db: &Db, durability: Durability) -> Result<()> {
        Ok(db.commits_up_to(self.0.get()).wait(durability)?)
    }
}
