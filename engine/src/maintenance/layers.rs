//! The trees and runs of a table, and changes of them that change no answer.
//!
//! These are: freezing, merging, and replacing trees by the runs they were written to.
//!
//! Invariants:
//! 1. Frozen trees and runs change only in the turn to write runs
//!    ([`Checkpoints::turn`](crate::state::run_files::Checkpoints::turn)). Writers change the newest tree only.
//! 2. What a version no longer has stays for the snapshots that have it: trees until those end, runs as long as
//!    anything holds them.
//!
//! Not here: writing runs (`checkpoint_and_flush`, `compaction`).

use std::sync::Arc;

use crate::catalog::declaration::{Declaration, TableId};
use crate::error::Result;
use crate::options::{RunLayout, TableOptions};
use crate::state::ending::Readers;
use crate::state::publish::table_of;
use crate::state::shared::Shared;
use crate::state::versions::Runs;
use crate::state::writer::Turn;
use crate::tree::Tree;
use crate::tree::merge_layer;

impl Shared {
    /// Puts a new, empty layer over those of the table.
    pub(crate) fn freeze(&self, id: TableId) -> Result<()> {
        self.refuse_in_own_turn()?;
        let _writing = self.checkpoints.turn();
        let mut turn = self.writer()?;
        self.freeze_in(&mut turn, id)
    }

    /// Like [`Shared::freeze`], in the writer's turn.
    pub(crate) fn freeze_in(&self, turn: &mut Turn<'_>, id: TableId) -> Result<()> {
        self.change_layers(turn, id, Readers::Wait, |trees, _| {
            trees.layers.insert(0, Tree::new(self.arena.clone(), trees.declaration.options.measures, false));
            Ok(())
        })
    }

    /// Merges all trees of the table into the lowest.
    pub(crate) fn thaw(&self, id: TableId) -> Result<()> {
        self.refuse_in_own_turn()?;
        let _writing = self.checkpoints.turn();
        let mut turn = self.writer()?;
        let writer = &mut *turn;
        let trees = table_of(writer, id)?;
        // A merge that stopped half way would leave weights that no longer fit what lies below them.
        let upper = &trees.layers[..trees.layers.len() - 1];
        let pages = upper
            .iter()
            .map(|layer| layer.room_for(layer.entries(), layer.entries() * 16 + layer.page_bytes_estimate()));
        self.arena.check_room_for(pages.sum())?;
        self.change_layers(writer, id, Readers::GoOn, |trees, epochs| {
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

    /// Puts `runs` below a table, in place of its runs and of its `frozen` lowest trees, which they contain. Does
    /// nothing to a dropped table.
    pub(crate) fn replace_layers(&self, id: TableId, frozen: usize, runs: Runs) -> Result<()> {
        let mut turn = self.writer()?;
        if table_of(&mut turn, id).is_err() {
            return Ok(());
        }
        self.change_layers(&mut turn, id, Readers::Wait, |trees, epochs| {
            let kept = trees.layers.len() - frozen;
            trees.merged.extend(trees.layers.drain(kept..).map(|layer| (epochs.epoch, layer)));
            trees.runs = runs;
            Ok(())
        })
    }

    /// Declares how the leaves of a table's runs will be found. The next job that writes the manifest records it.
    pub(crate) fn declare_layout(&self, id: TableId, layout: RunLayout) -> Result<()> {
        let mut turn = self.writer()?;
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
