//! A record on its way into the log, then into the trees, then to the disk.

use crate::error::{Error, Result};
use crate::log::{Lsn, Stock};
use crate::options::Durability;
use crate::state::shared::Shared;
use crate::state::writer::{Protection, Writer};
use crate::sync::atomic::Ordering;

impl Shared {
    /// Fails if memory has no room for a commit, even after freeing what ended snapshots held back.
    #[inline]
    pub(crate) fn check_room(&self, writer: &mut Writer, pages: u64, grows: bool) -> Result<()> {
        let check = || if grows { self.arena.check_room_for(pages) } else { self.arena.check_room_to_remove(pages) };
        check().or_else(|_| {
            writer.reclaim_all(&self.registry);
            check()
        })
    }

    /// Protects the published version from changes in place, as a snapshot would.
    pub(crate) fn protect(&self) -> Protection<'_> {
        Protection::of(&self.versions, &self.registry)
    }

    /// Appends the writer's record to the log as that of the next commit.
    #[inline]
    pub(crate) fn append_record(&self, writer: &mut Writer) -> Result<Lsn> {
        self.append_record_from(Stock::BesideKept, writer)
    }

    /// The same with the space of `stock`.
    #[inline]
    pub(crate) fn append_record_from(&self, stock: Stock, writer: &mut Writer) -> Result<Lsn> {
        self.log()?.append_from(stock, writer.sequence + 1, &[&writer.record])
    }

    /// Starts a commit whose record `append` logs: it becomes the last commit.
    #[inline]
    pub(crate) fn log_commit(
        &self,
        writer: &mut Writer,
        append: impl FnOnce(&mut Writer) -> Result<Lsn>,
    ) -> Result<Logged<'_>> {
        let lsn = append(writer)?;
        writer.sequence += 1;
        let logged = Logged { shared: self, lsn };
        if lsn.0 >= self.keeper_wakes_at.load(Ordering::Relaxed) {
            self.wake_keeper_for_log(lsn);
        }
        Ok(logged)
    }

    /// Waits until a commit has this durability.
    #[inline]
    pub(crate) fn wait(&self, lsn: Lsn, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.log()?.sync(lsn),
            // The log stores a record where a killed process cannot lose it before `append` returns.
            Durability::Os | Durability::None => Ok(()),
        }
    }

    /// Marks the database failed: a logged change could not be applied, so memory no longer matches the log.
    #[cold]
    pub(crate) fn broken(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::SeqCst);
        error.context("a logged commit could not be applied; reopen the database to recover it from the log")
    }
}

/// A record that is in the log and not yet in the trees. If it is dropped before it is applied, by an error or a panic,
/// nothing more is written until the database is reopened: memory does not match the log.
#[must_use]
pub(crate) struct Logged<'s> {
    shared: &'s Shared,
    lsn: Lsn,
}

impl Logged<'_> {
    /// Notes that the record is applied and published. Returns where the log ends after it.
    #[inline]
    pub(crate) fn applied(self) -> Lsn {
        let lsn = self.lsn;
        std::mem::forget(self);
        lsn
    }
}

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        self.shared.failed.store(true, Ordering::SeqCst);
    }
}
