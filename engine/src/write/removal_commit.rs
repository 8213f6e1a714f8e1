//! Commits the removal of a range: of many rows as a whole, of few over runs one by one.
//!
//! What it comes to is asked in the writer's turn; if a page of a run is missing, the turn is left, the page is loaded,
//! and all is asked again: no thread waits for a file in the turn. Not here: what a removal is (`state/layer_removal`).

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::{ErrorKind, Result};
use crate::log::Room;
use crate::maintenance::memory::make_room;
use crate::maintenance::resolve::Resolver;
use crate::options::Durability;
use crate::read::table_stack::Stopped;
use crate::run::Run;
use crate::state::ending::Readers;
use crate::state::layer_removal::{Planned, Removal};
use crate::state::publish::table_of;
use crate::state::shared::Shared;
use crate::state::table_handle::Table;
use crate::state::threads::Background;
use crate::state::versions::Runs;
use crate::state::writer::Turn;
use crate::write::writable::WritableTable;

/// The fewest rows of a range that is taken out as a whole after memory had no room for a tombstone for each.
pub(super) const ROWS_MIN_WHEN_FULL: u64 = 0;

impl Shared {
    /// Commits the removal of a range.
    pub(crate) fn remove_range(
        self: &Arc<Self>,
        table: &Table,
        bounds: &Bounds<'_>,
        durability: Durability,
    ) -> Result<u64> {
        make_room(self)?;
        if table.options().blind_writes {
            // What lies below the rest of them is asked in the turn.
            self.writer.refuse_in_own_turn()?;
            Resolver::of(self).resolve(table.id(), bounds)?;
        }
        let pages = ReadPages::new(&self.cache);
        let mut rows_min = self.options.excised_rows_min;
        loop {
            let mut turn = self.writer()?;
            let trees = table_of(&mut turn, table.id())?;
            match trees.plan_removal(bounds, rows_min, &pages) {
                Ok(Planned::Nothing) => return Ok(0),
                Ok(Planned::Range(removal)) => return self.commit_removal(turn, table.id(), removal, durability),
                Ok(Planned::OneByOne) => {
                    drop(turn);
                    match self.remove_one_by_one(table, bounds, durability) {
                        Err(error) if error.kind() == ErrorKind::Full && rows_min > ROWS_MIN_WHEN_FULL => {
                            rows_min = ROWS_MIN_WHEN_FULL;
                        }
                        removed => return removed,
                    }
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Missing) => {
                    drop(turn);
                    pages.load()?;
                }
            }
        }
    }

    fn commit_removal(&self, mut turn: Turn<'_>, id: TableId, removal: Removal, durability: Durability) -> Result<u64> {
        let writer = &mut *turn;
        let pages = table_of(writer, id)?.room_to_remove();
        self.check_room(writer, pages, false)?;
        let rows = removal.rows;
        writer.record.clear();
        record::put_remove_range(&mut writer.record, id, removal.low.as_deref(), removal.high.as_deref(), rows);
        let mut replaced = None;
        let committed = self.commit(
            turn,
            (&[id], Readers::GoOn, durability),
            |writer| self.append_record(writer, Room::Kept),
            |writer, epochs| {
                let sequence = writer.sequence;
                let trees = table_of(writer, id)?;
                let before = trees.runs.clone();
                trees.remove(&removal, epochs)?;
                trees.jobs.note(removal.low.as_deref(), removal.high.as_deref());
                trees.reset_if_empty(epochs, sequence);
                replaced = Some((before, trees.runs.clone()));
                Ok(())
            },
        );
        if let Some((before, runs)) = replaced {
            let_go_of(&self.cache, &self.background, &before, &runs);
        }
        committed.map(|()| rows)
    }

    /// Removes the rows of a range, each of which takes a tombstone. Fails if memory has no room for these.
    fn remove_one_by_one(self: &Arc<Self>, table: &Table, bounds: &Bounds<'_>, durability: Durability) -> Result<u64> {
        self.write(durability, |transaction| transaction.table(table)?.remove_range(bounds))
    }
}

/// After a removal: lets go of what files of `before` hold in memory that are not among those of `runs`, and wakes the
/// compactor, for which there may be something to do. Does nothing if the runs are the same.
pub(super) fn let_go_of(cache: &PageCache, background: &Background, before: &Runs, runs: &Runs) {
    if before.are(runs) {
        return;
    }
    let files = |runs: &[Arc<Run>]| runs.iter().flat_map(|run| run.files()).cloned().collect::<Vec<_>>();
    let stay = files(runs);
    for file in files(before).iter().filter(|file| !stay.iter().any(|other| other.is_same(file))) {
        file.release();
    }
    cache.fit();
    background.wake_compactor();
}
