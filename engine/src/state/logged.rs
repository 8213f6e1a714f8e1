//! A record on its way into the log, then into the trees, then to the disk.

use crate::error::Result;
use crate::log::{Lsn, Room};
use crate::options::Durability;
use crate::state::registry::Registry;
use crate::state::shared::Shared;
use crate::state::versions::failed_half_way;
use crate::state::writer::Writer;

impl Shared {
    /// Fails if memory has no room for a commit, even after freeing what ended snapshots held back, or if the commit
    /// makes the database grow and the disk is full.
    #[inline]
    pub(crate) fn check_room(&self, writer: &mut Writer, pages: u64, grows: bool) -> Result<()> {
        if grows && let Some(log) = &self.log {
            log.check_kept()?;
        }
        check_memory(&self.registry, writer, || {
            if grows { self.arena.check_room_for(pages) } else { self.arena.check_room_to_remove(pages) }
        })
    }

    /// Appends the writer's record to the log as that of the next commit.
    #[inline]
    pub(crate) fn append_record(&self, writer: &mut Writer, room: Room) -> Result<Lsn> {
        self.log()?.append(writer.sequence + 1, &[&writer.record], room)
    }

    /// Starts a commit whose record `append` logs: it becomes the last commit.
    #[inline]
    pub(crate) fn log_commit(
        &self,
        writer: &mut Writer,
        append: impl FnOnce(&mut Writer) -> Result<Lsn>,
    ) -> Result<Logged<'_>> {
        // The turn may have been taken before a fork.
        self.process.check()?;
        let lsn = append(writer)?;
        writer.sequence += 1;
        let logged = Logged { shared: self, lsn };
        if self.background.is_due_at(lsn) {
            self.wake_background_for_log(lsn);
        }
        Ok(logged)
    }

    /// Waits until a commit has this durability.
    #[inline]
    pub(crate) fn wait(&self, lsn: Lsn, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => {
                self.process.check()?;
                self.log()?.sync(lsn)
            }
            // The log stores a record where a killed process cannot lose it before `append` returns.
            Durability::Os | Durability::None => Ok(()),
        }
    }
}

/// Fails if there is no such room in memory, even after freeing what ended snapshots held back.
#[inline]
pub(crate) fn check_memory(registry: &Registry, writer: &mut Writer, check: impl Fn() -> Result<()>) -> Result<()> {
    check().or_else(|_| {
        writer.reclaim_all(registry);
        check()
    })
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
        drop(self.shared.health.fail(failed_half_way()));
    }
}
