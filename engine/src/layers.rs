//! Which trees and runs a table consists of, and how that changes without a change of any answer: freezing, merging, and runs in the place of what they were
//! written from.
//!
//! Invariants:
//! 1. Frozen trees change only in the turn to write runs ([`Checkpoints::turn`](crate::checkpoint::Checkpoints::turn)), and so do runs. Writers see to the newest
//!    tree alone.
//! 2. What a version no longer has stays for the snapshots that have it: trees until those end, runs as long as somebody holds them.
//!
//! Not here: writing runs (`checkpoint`, `compaction`).

use std::sync::Arc;

use crate::commit::{dropped, publish};
use crate::db::Shared;
use crate::error::Result;
use crate::options::{RunIndex, TableOptions};
use crate::snapshot::{Declaration, Runs, TableId, Versions};
use crate::transaction::merge_layer;
use crate::tree::Tree;
use crate::writer::{TableTrees, Turn, Writer, next_epoch};

impl Shared {
    /// Puts a new, empty layer over those of the table.
    pub(crate) fn freeze(&self, id: TableId) -> Result<()> {
        self.refuse_in_own_turn()?;
        let _writing = self.checkpoints.turn();
        let mut turn = self.writer()?;
        self.freeze_in(&mut turn, id)
    }

    /// As [`Shared::freeze`], in the writer's turn.
    pub(crate) fn freeze_in(&self, turn: &mut Turn<'_>, id: TableId) -> Result<()> {
        let writer = &mut **turn;
        let mut versions = self.versions.write();
        let (epoch, _) = next_epoch(&mut writer.epoch, &self.registry, &versions);
        let trees = table_of(writer, id)?;
        trees.layers.insert(0, Tree::new(self.arena.clone(), trees.declaration.options.measures, false));
        republish(Arc::make_mut(&mut versions), trees, epoch);
        Ok(())
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
        let protection = self.protect();
        let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &protection);
        let trees = table_of(writer, id)?;
        let mut merged = Ok(());
        while trees.layers.len() > 1 && merged.is_ok() {
            let under = trees.layers.len() - 1;
            let (upper, lower) = trees.layers.split_at_mut(under);
            lower[0].set_epochs(epoch, protected);
            lower[0].set_room_reserved(true);
            merged = merge_layer(&mut lower[0], &upper[under - 1]);
            if merged.is_ok() {
                // Snapshots and readers may still look at the layer: it ends with them.
                let layer = trees.layers.remove(under - 1);
                trees.merged.push((epoch, layer));
            }
        }
        republish(Arc::make_mut(&mut self.versions.write()), trees, epoch);
        drop(protection);
        trees.reclaim(&self.registry.live());
        self.registry.note_held_back();
        merged
    }

    /// Puts `runs` below a table in the place of those that it has and of its `frozen` lowest trees, which they hold. A table that was dropped stays so.
    pub(crate) fn replace_layers(&self, id: TableId, frozen: usize, runs: Runs) -> Result<()> {
        let mut turn = self.writer()?;
        let writer = &mut *turn;
        let mut versions = self.versions.write();
        let (epoch, _) = next_epoch(&mut writer.epoch, &self.registry, &versions);
        let Ok(trees) = table_of(writer, id) else { return Ok(()) };
        let kept = trees.layers.len() - frozen;
        trees.merged.extend(trees.layers.drain(kept..).map(|layer| (epoch, layer)));
        trees.runs = runs;
        republish(Arc::make_mut(&mut versions), trees, epoch);
        drop(versions);
        trees.reclaim(&self.registry.live());
        self.registry.note_held_back();
        Ok(())
    }

    /// Declares how the leaves of runs of a table will be found. The manifest says so with the next job that writes it.
    pub(crate) fn declare_index(&self, id: TableId, index: RunIndex) -> Result<()> {
        let mut turn = self.writer()?;
        let trees = table_of(&mut turn, id)?;
        let Declaration { id, name, options } = &*trees.declaration;
        if options.index == index {
            return Ok(());
        }
        let options = TableOptions { index, ..options.clone() };
        trees.declaration = Arc::new(Declaration { id: *id, name: name.clone(), options });
        let mut versions = self.versions.write();
        if let Some(Some(table)) = Arc::make_mut(&mut versions).tables.get_mut(trees.declaration.id as usize) {
            table.declaration = trees.declaration.clone();
        }
        Ok(())
    }
}

pub(crate) fn table_of(writer: &mut Writer, id: TableId) -> Result<&mut TableTrees> {
    writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)
}

/// Publishes other layers that hold the same rows: the last commit stays the last.
pub(crate) fn republish(versions: &mut Versions, trees: &mut TableTrees, epoch: u64) {
    let (changed, last) = (trees.sequence, versions.sequence);
    publish(versions, trees, epoch, changed);
    versions.sequence = last;
    if let Some(Some(table)) = versions.tables.get_mut(trees.declaration.id as usize) {
        table.layers = trees.layers.iter().map(Tree::version).collect();
        table.unresolved = trees.unresolved.as_ref().map(|tree| tree.version());
        table.runs = trees.runs.clone();
    }
}
