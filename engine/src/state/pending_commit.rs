//! Commits that are visible and not yet durable.

use crate::error::Result;
use crate::log::{Log, Lsn};
use crate::options::Durability;
use crate::state::shared::Shared;

/// Visible commits: that of a latched write, and all before it. They are durable once [`PendingCommit::wait`] returns.
#[must_use = "the commit is durable only after `wait`"]
pub struct PendingCommit<'db> {
    db: &'db Shared,
    /// Where the log ends after them; `None` if there is no log.
    lsn: Option<Lsn>,
}

/// A place in the order of commits, which outlives the handle that told it: of [`PendingCommit::position`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitPosition(Option<Lsn>);

impl PendingCommit<'_> {
    /// The commits up to a place that this database has told.
    pub(crate) fn at(db: &Shared, position: CommitPosition) -> PendingCommit<'_> {
        PendingCommit { db, lsn: position.0 }
    }

    /// The place of the last of them.
    pub fn position(&self) -> CommitPosition {
        CommitPosition(self.lsn)
    }

    /// All commits up to this end of the log.
    pub(crate) fn up_to(db: &Shared, lsn: Lsn) -> PendingCommit<'_> {
        PendingCommit { db, lsn: Some(lsn) }
    }

    /// All commits up to now.
    pub(crate) fn all(db: &Shared) -> PendingCommit<'_> {
        PendingCommit { db, lsn: db.log.as_ref().map(Log::end_lsn) }
    }

    /// Whether [`PendingCommit::wait`] would return at once.
    #[inline]
    pub fn is_durable(&self, durability: Durability) -> bool {
        match (durability, self.lsn, &self.db.log) {
            (Durability::Sync, Some(lsn), Some(log)) => lsn <= log.durable_lsn(),
            _ => true,
        }
    }

    /// Waits until the commits have this durability, together with other waiting commits.
    pub fn wait(&self, durability: Durability) -> Result<()> {
        if self.is_durable(durability) {
            return Ok(());
        }
        self.lsn.map_or(Ok(()), |lsn| self.db.wait(lsn, durability))
    }
}
