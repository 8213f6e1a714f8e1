//! Commits that are made, and wait to be durable.

use crate::db::Shared;
use crate::error::Result;
use crate::log::{Log, Lsn};
use crate::options::Durability;

/// Commits that are visible to all: that of an edit, and all before it. They are durable when [`Committed::wait`] returns.
#[must_use = "the commit is durable only after `wait`"]
pub struct Committed<'db> {
    db: &'db Shared,
    /// Where the log ends with them; `None` if there is no log.
    lsn: Option<Lsn>,
}

impl Committed<'_> {
    /// All commits up to where the log ends with one.
    pub(crate) fn up_to(db: &Shared, lsn: Lsn) -> Committed<'_> {
        Committed { db, lsn: Some(lsn) }
    }

    /// All commits up to now.
    pub(crate) fn all(db: &Shared) -> Committed<'_> {
        Committed { db, lsn: db.log.as_ref().map(Log::end_lsn) }
    }

    /// Whether [`Committed::wait`] would return at once.
    #[inline]
    pub fn is_durable(&self, durability: Durability) -> bool {
        match (durability, self.lsn, &self.db.log) {
            (Durability::Sync, Some(lsn), Some(log)) => lsn <= log.durable_lsn(),
            _ => true,
        }
    }

    /// Waits until the commits are as durable as asked, together with others that wait.
    pub fn wait(&self, durability: Durability) -> Result<()> {
        if self.is_durable(durability) {
            return Ok(());
        }
        self.lsn.map_or(Ok(()), |lsn| self.db.wait(lsn, durability))
    }
}
