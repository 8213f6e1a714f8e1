//! The trees and runs of a table, and changes of them that change no answer.
//!
//! These are: freezing, merging, and replacing trees by the runs they were written to.
//!
//! Invariants:
//! 1. Which frozen trees and runs a table has changes only in the turn to write runs
//!    ([`RunFiles::turn`]); but the removal of a range takes it out of
//!    all of them, and may leave nothing of a run (`state/layer_removal`). All other writes go to the newest tree.
//! 2. What a version no longer has stays for the snapshots that have it: trees until those end, runs as long as
//!    anything holds them.
//!
//! Not here: writing runs (`checkpoint_and_flush`, `compaction`).

use std::sync::Arc;
use std::time::Duration;

use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::{Declaration, TableId};
use crate::error::Result;
use crate::options::{RunLayout, TableOptions};
use crate::probe::excised;
use crate::read::table_stack::Stopped;
use crate::run::Run;
use crate::state::ending::{Readers, change_layers};
use crate::state::health::Health;
use crate::state::latch::Latch;
use crate::state::publish::table_of;
use crate::state::registry::Registry;
use crate::state::run_files::RunFiles;
use crate::state::shared::Shared;
use crate::state::snapshot::BorrowedSnapshot;
use crate::state::versions::Runs;
use crate::state::writer::{Epochs, TableTrees, Turn, Writer, WriterLock};
use crate::tree::{Arena, Tree, merge_layer};

/// How long the background thread waits for the writer's turn to free memory: it has other work meanwhile.
const TURN_WAIT: Duration = Duration::from_millis(2);

/// What changes of the layers of tables need.
#[derive(Clone, Copy)]
pub(crate) struct LayerChanges<'s> {
    pub(super) writer: &'s WriterLock,
    pub(super) health: &'s Health,
    pub(super) versions: &'s Latch,
    pub(super) registry: &'s Registry,
    pub(super) arena: &'s Arc<Arena>,
    pub(super) cache: &'s PageCache,
}

impl<'s> LayerChanges<'s> {
    pub(crate) fn of(shared: &'s Shared) -> LayerChanges<'s> {
        let Shared { writer, health, versions, registry, arena, cache, .. } = shared;
        LayerChanges { writer, health, versions, registry, arena, cache }
    }

    /// Waits for the writer's turn.
    ///
    /// # Errors
    /// Those of [`WriterLock::turn`].
    pub(super) fn turn(&self) -> Result<Turn<'s>> {
        self.writer.turn(self.health)
    }

    /// All tables as of now.
    pub(super) fn snapshot(&self) -> BorrowedSnapshot<'s> {
        BorrowedSnapshot::take(self.versions, self.registry, self.writer.process())
    }

    /// Frees what ended snapshots held back, if the writer's turn comes soon. Returns whether it is to be tried again.
    pub(super) fn reclaim_soon(&self) -> bool {
        match self.writer.turn_within(TURN_WAIT, self.health) {
            Ok(Some(mut turn)) => {
                turn.reclaim_all(self.registry);
                false
            }
            turn => turn.is_ok(),
        }
    }

    /// Puts a new, empty layer over those of the table.
    pub(crate) fn freeze(&self, files: &RunFiles, id: TableId) -> Result<()> {
        self.writer.refuse_in_own_turn()?;
        let _writing = files.turn();
        self.freeze_in(&mut self.turn()?, id)
    }

    /// Like [`LayerChanges::freeze`], in the writer's turn.
    pub(super) fn freeze_in(&self, turn: &mut Turn<'_>, id: TableId) -> Result<()> {
        self.change(turn, id, Readers::Wait, |trees, _| {
            trees.layers.insert(0, Tree::new(self.arena.clone(), trees.declaration.options.measures, false));
            Ok(())
        })
    }

    /// See [`change_layers`].
    pub(super) fn change(
        &self,
        writer: &mut Writer,
        id: TableId,
        readers: Readers,
        change: impl FnOnce(&mut TableTrees, Epochs) -> Result<()>,
    ) -> Result<()> {
        change_layers((self.versions, self.registry), writer, id, readers, change)
    }

    /// Merges all trees of the table into the lowest.
    pub(crate) fn thaw(&self, files: &RunFiles, id: TableId) -> Result<()> {
        self.writer.refuse_in_own_turn()?;
        let _writing = files.turn();
        let mut turn = self.turn()?;
        let writer = &mut *turn;
        let trees = table_of(writer, id)?;
        // A merge that stopped half way would leave weights that no longer fit what lies below them.
        let upper = &trees.layers[..trees.layers.len() - 1];
        let pages = upper
            .iter()
            .map(|layer| layer.room_for(layer.entries(), layer.entries() * 16 + layer.page_bytes_estimate()));
        self.arena.check_room_for(pages.sum())?;
        self.change(writer, id, Readers::GoOn, |trees, epochs| {
            while trees.layers.len() > 1 {
                let under = trees.layers.len() - 1;
                let (upper, lower) = trees.layers.split_at_mut(under);
                epochs.open(&mut lower[0]);
                merge_layer(&mut lower[0], &upper[under - 1])?;
                // Snapshots and readers may still use the layer: it ends with them.
                let layer = trees.layers.remove(under - 1);
                trees.merged.push((epochs.epoch, layer));
            }
            Ok(())
        })
    }

    /// Puts a run below a table in place of its `frozen` lowest trees, from which it was written, if they had entries.
    /// The run loses the ranges that were removed since they were frozen. Does nothing to a dropped table. Returns what
    /// is left of the run.
    pub(super) fn install_flushed(
        &self,
        id: TableId,
        frozen: usize,
        run: Option<&Arc<Run>>,
    ) -> Result<Option<Arc<Run>>> {
        self.change_runs(
            id,
            |trees, pages| {
                let removed = trees.jobs.removed_since_freeze();
                let left = run.map(|run| excised(run, removed.iter(), pages)).transpose()?;
                let has_gone = left.as_ref().zip(run).is_some_and(|(left, run)| has_been_emptied(left, run));
                let keeps = !has_gone || trees.runs.is_empty();
                let runs = left.iter().filter(|_| keeps).chain(trees.runs.iter()).cloned().collect();
                Ok(Some((Runs::stacked(runs)?, left)))
            },
            |trees, epochs| {
                let kept = trees.layers.len() - frozen;
                trees.merged.extend(trees.layers.drain(kept..).map(|layer| (epochs.epoch, layer)));
                trees.jobs.end_flush();
            },
        )
        .map(Option::flatten)
    }

    /// Gives a table the runs that `plan` makes of its runs, and then does `change`, in one turn. If `plan` lacks a
    /// page, it is loaded outside of the turn, and `plan` asked again. Returns what comes with the runs; `None` if
    /// there are none, or if the table was dropped.
    ///
    /// # Errors
    /// Those of `plan`, and those of reading a page of a run.
    pub(super) fn change_runs<T>(
        &self,
        id: TableId,
        plan: impl Fn(&TableTrees, &ReadPages<'_>) -> std::result::Result<Option<(Runs, T)>, Stopped>,
        change: impl FnOnce(&mut TableTrees, Epochs),
    ) -> Result<Option<T>> {
        let pages = ReadPages::new(self.cache);
        loop {
            let mut turn = self.turn()?;
            let Ok(trees) = table_of(&mut turn, id) else { return Ok(None) };
            match plan(trees, &pages) {
                Ok(None) => return Ok(None),
                Ok(Some((runs, result))) => {
                    self.change(&mut turn, id, Readers::Wait, |trees, epochs| {
                        trees.runs = runs;
                        change(trees, epochs);
                        let sequence = trees.sequence;
                        trees.reset_if_empty(epochs, sequence);
                        Ok(())
                    })?;
                    return Ok(Some(result));
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Missing) => {
                    drop(turn);
                    pages.load()?;
                }
            }
        }
    }

    /// Declares how the leaves of a table's runs will be found. The next job that writes the manifest records it.
    pub(super) fn declare_layout(&self, id: TableId, layout: RunLayout) -> Result<()> {
        let mut turn = self.turn()?;
        let trees = table_of(&mut turn, id)?;
        let Declaration { id, name, options } = &*trees.declaration;
        if options.layout == layout {
            return Ok(());
        }
        let options = TableOptions { layout, ..options.clone() };
        trees.declaration = Arc::new(Declaration { id: *id, name: name.clone(), options });
        let mut versions = self.versions.write();
        if let Some(Some(table)) = Arc::make_mut(&mut versions).tables.get_mut(trees.declaration.id as usize) {
            table.declaration = trees.declaration.clone();
        }
        Ok(())
    }
}

/// Whether excisions have left nothing of a run that had entries.
pub(super) fn has_been_emptied(left: &Arc<Run>, run: &Arc<Run>) -> bool {
    left.info().total.entries == 0 && !Arc::ptr_eq(left, run)
}
