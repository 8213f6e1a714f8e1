//! The end of every change to tables: log, apply, publish, free, wait.
//!
//! Single writes, batches, range removals, blind writes, transactions and catalog changes end in [`Shared::commit`].
//! An ingest, whose rows are in a run already, ends in [`Shared::commit_runs`]; changes of layers and runs, which no
//! reader notices, in [`change_layers`]. A latched write applies before it logs, and shares the steps.
//!
//! Invariants:
//! 1. A record is in the log before its changes are in a tree, and in both in the order of sequence numbers.
//! 2. Readers see all of a change or nothing of it.
//! 3. After a failure between logging and the end, nothing is published and no page is freed: the published version
//!    may contain the page.
//!
//! Not here: the checks that can fail (`transactions/conflicts`, `write/`, `state/logged`). They come before.

use std::sync::Arc;

use crate::catalog::declaration::TableId;
use crate::error::Result;
use crate::log::{Lsn, Room};
use crate::options::Durability;
use crate::state::latch::Latch;
use crate::state::publish::{publish, republish, table_of};
use crate::state::registry::Registry;
use crate::state::shared::Shared;
use crate::state::versions::{Runs, Versions};
use crate::state::writer::{Epochs, Protection, TableTrees, Turn, Writer};

/// What readers do while the trees change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// They wait at the latch: trees change in place. For changes of some 20 us.
    Wait,
    /// They read on in the published version, which is protected like a snapshot: changed pages are copied.
    GoOn,
}

impl Shared {
    /// Commits what `apply` does to the rows of these tables. `append` logs the record. Publishes the change, frees
    /// what no reader sees any more, gives back the turn, and waits for the disk as `durability` says.
    ///
    /// # Errors
    /// The error of `append`: nothing has happened. After any other error the commit is in the log. If it could not be
    /// applied, nothing more is written until the database is reopened; if the log could not be synced, the commit is
    /// visible all the same.
    #[inline(always)]
    pub(crate) fn commit(
        &self,
        mut turn: Turn<'_>,
        (tables, readers, durability): (&[TableId], Readers, Durability),
        append: impl FnOnce(&mut Writer) -> Result<Lsn>,
        apply: impl FnOnce(&mut Writer, Epochs) -> Result<()>,
    ) -> Result<()> {
        let writer = &mut *turn;
        let logged = self.log_commit(writer, append)?;
        let applied = match readers {
            Readers::Wait => {
                let mut versions = self.versions.write();
                let epochs = Epochs::next(&mut writer.epoch, &self.registry, &versions);
                let applied = apply(writer, epochs);
                match &applied {
                    Ok(()) => publish_tables(Arc::make_mut(&mut versions), writer, tables, epochs),
                    Err(_) => versions.tear(),
                }
                applied
            }
            Readers::GoOn => {
                let protection = Protection::of(&self.versions, &self.registry);
                let epochs = Epochs::next(&mut writer.epoch, &self.registry, &protection);
                apply(writer, epochs).map(|()| {
                    publish_tables(Arc::make_mut(&mut self.versions.write()), writer, tables, epochs);
                })
            }
        };
        applied.map_err(|error| self.health.broken(error))?;
        let lsn = logged.applied();
        for table in tables {
            writer.reclaim(&self.registry, *table);
        }
        drop(turn);
        self.wait(lsn, durability)
    }

    /// Commits a change to the catalog. The writer's record already describes it, and goes into this room of the log.
    /// `change` cannot fail.
    ///
    /// # Errors
    /// Those of [`Shared::commit`].
    pub(crate) fn commit_catalog(
        &self,
        mut turn: Turn<'_>,
        room: Room,
        change: impl FnOnce(&mut Writer, &mut Versions, Epochs),
    ) -> Result<()> {
        let lsn = self.commit_catalog_in_turn(&mut turn, room, change)?;
        drop(turn);
        self.wait(lsn, self.durability.get())
    }

    /// [`Shared::commit_catalog`], without the end of the turn. Returns where the log ends, to wait for.
    ///
    /// # Errors
    /// Those of the log: nothing has happened.
    pub(crate) fn commit_catalog_in_turn(
        &self,
        turn: &mut Turn<'_>,
        room: Room,
        change: impl FnOnce(&mut Writer, &mut Versions, Epochs),
    ) -> Result<Lsn> {
        if room == Room::Common {
            self.log()?.check_kept()?;
        }
        let writer = &mut **turn;
        let logged = self.log_commit(writer, |writer| self.append_record(writer, room))?;
        {
            let mut versions = self.versions.write();
            let epochs = Epochs::next(&mut writer.epoch, &self.registry, &versions);
            let published = Arc::make_mut(&mut versions);
            published.epoch = epochs.epoch;
            published.sequence = writer.sequence;
            change(writer, published, epochs);
        }
        let lsn = logged.applied();
        writer.reclaim_all(&self.registry);
        self.registry.note_held_back();
        Ok(lsn)
    }

    /// Commits rows that lie in `runs`, the table's runs from here on. `append` logs the record. Returns where the log
    /// ends after it.
    ///
    /// # Errors
    /// [`Missing`](crate::ErrorKind::Missing) if the table was dropped, and the error of `append`: nothing has
    /// happened.
    pub(crate) fn commit_runs(
        &self,
        mut turn: Turn<'_>,
        id: TableId,
        runs: Runs,
        append: impl FnOnce(&mut Writer) -> Result<Lsn>,
    ) -> Result<Lsn> {
        let writer = &mut *turn;
        table_of(writer, id)?;
        let logged = self.log_commit(writer, append)?;
        {
            let mut versions = self.versions.write();
            let epochs = Epochs::next(&mut writer.epoch, &self.registry, &versions);
            let sequence = writer.sequence;
            let trees = table_of(writer, id)?;
            (trees.runs, trees.sequence) = (runs, sequence);
            let published = Arc::make_mut(&mut versions);
            republish(published, trees, epochs.epoch);
            published.sequence = sequence;
        }
        let lsn = logged.applied();
        writer.reclaim(&self.registry, id);
        Ok(lsn)
    }
}

/// Changes which layers a table has, or where its entries lie in them. No answer changes. The work of `change` is
/// published even if it stopped half way, since it leaves the layers whole.
///
/// # Errors
/// [`Missing`](crate::ErrorKind::Missing) if the table was dropped, and those of `change`.
pub(crate) fn change_layers(
    (versions, registry): (&Latch, &Registry),
    writer: &mut Writer,
    id: TableId,
    readers: Readers,
    change: impl FnOnce(&mut TableTrees, Epochs) -> Result<()>,
) -> Result<()> {
    table_of(writer, id)?;
    let changed = match readers {
        Readers::Wait => {
            let mut versions = versions.write();
            let epochs = Epochs::next(&mut writer.epoch, registry, &versions);
            let trees = table_of(writer, id)?;
            let changed = change(trees, epochs);
            republish(Arc::make_mut(&mut versions), trees, epochs.epoch);
            changed
        }
        Readers::GoOn => {
            let protection = Protection::of(versions, registry);
            let epochs = Epochs::next(&mut writer.epoch, registry, &protection);
            let trees = table_of(writer, id)?;
            let changed = change(trees, epochs);
            republish(Arc::make_mut(&mut versions.write()), trees, epochs.epoch);
            changed
        }
    };
    table_of(writer, id)?.reclaim(&registry.live());
    registry.note_held_back();
    changed
}

/// Publishes what a commit made of these tables. Under the latch.
#[inline]
pub(crate) fn publish_tables(versions: &mut Versions, writer: &mut Writer, tables: &[TableId], epochs: Epochs) {
    for table in tables {
        if let Some(Some(trees)) = writer.tables.get_mut(*table as usize) {
            publish(versions, trees, epochs.epoch, writer.sequence);
        }
    }
}
