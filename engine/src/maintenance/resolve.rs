//! Resolves blind writes: looks up many of their keys at once, in order, in the background.

use std::collections::BTreeMap;

use crate::bounds::Bounds;
use crate::cache::ReadPages;
use crate::catalog::declaration::TableId;
use crate::error::{Error, Result};
use crate::maintenance::layers::LayerChanges;
use crate::page::KeyBuffer;
use crate::read::many_keys::ManyKeys;
use crate::read::table_stack::stack_over;
use crate::read::unresolved;
use crate::stack::Cut;
use crate::state::ending::Readers;
use crate::state::failures::{Task, unpanicked};
use crate::state::logged::check_memory;
use crate::state::publish::table_of;
use crate::state::shared::Shared;
use crate::state::versions::Runs;
use crate::state::writer::{Epochs, TableTrees, Turn};
use crate::tally::Tally;
use crate::tree::Version;

/// The number of unresolved entries at which a table is resolved in the background.
pub(crate) const DUE_ENTRIES: u64 = 1 << 16;
/// The most entries resolved in one turn: a few hundred microseconds.
const IN_TURN: usize = 256;

impl TableTrees {
    /// Moves the entries of these keys, if they are still there, into the newest tree. `below` is what lies below each.
    fn move_resolved(&mut self, keys: &[KeyBuffer], below: &[Tally], epochs: Epochs) -> Result<()> {
        let Some(mut tree) = self.unresolved.take() else { return Ok(()) };
        let top = &mut self.layers[0];
        for tree in [&mut *tree, &mut *top] {
            epochs.open(tree);
        }
        let moved = keys.iter().zip(below).try_for_each(|(key, below)| {
            let Some(found) = tree.view().get(key) else { return Ok(()) };
            top.write_over(key, found.value(), |existing| Some(existing.map_or(*below, |existing| existing.below)))?;
            unresolved::take_out(&mut tree, key)
        });
        self.keep_unresolved(tree, epochs);
        moved
    }
}

/// What resolving needs.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'s> {
    layers: LayerChanges<'s>,
}

impl<'s> Resolver<'s> {
    pub(crate) fn of(shared: &'s Shared) -> Resolver<'s> {
        Resolver { layers: LayerChanges::of(shared) }
    }

    /// Resolves the unresolved entries of a range, batch by batch. Returns how many were looked up. No answer changes.
    pub(crate) fn resolve(&self, id: TableId, bounds: &Bounds<'_>) -> Result<u64> {
        let LayerChanges { arena, cache, .. } = self.layers;
        let mut last: Option<KeyBuffer> = None;
        let mut resolved = 0;
        loop {
            let snapshot = self.layers.snapshot();
            let Ok(version) = snapshot.versions.table(id) else { return Ok(resolved) };
            let Some(unresolved) = version.unresolved else { return Ok(resolved) };
            let start = last.as_ref().map_or(bounds.start(), |last| Cut::After(last));
            let keys = unresolved::keys(unresolved.view(arena), start, bounds.end());
            if keys.is_empty() {
                return Ok(resolved);
            }
            let runs = version.runs.clone();
            let below = {
                let pages = ReadPages::new(cache);
                let measures = version.declaration.options.measures;
                let stack = stack_over(version.views(arena), &runs, &pages, measures);
                let mut below = ManyKeys::contributions(&keys);
                pages.answer(|| below.ask(&stack))?;
                below.into_answers()
            };
            // Nothing is copied for a snapshot that has ended.
            drop(snapshot);
            let mut are_same_runs = true;
            for (keys, below) in keys.chunks(IN_TURN).zip(below.chunks(IN_TURN)) {
                are_same_runs = are_same_runs && self.move_resolved(id, keys, below, &runs)?;
            }
            if are_same_runs {
                resolved += keys.len() as u64;
                last = keys.into_iter().next_back();
            }
        }
    }

    /// Moves entries into the newest tree if the table still has these runs, in which `below` was looked up. Returns
    /// whether it has.
    fn move_resolved(&self, id: TableId, keys: &[KeyBuffer], below: &[Tally], runs: &Runs) -> Result<bool> {
        let mut turn = self.layers.turn()?;
        let writer = &mut *turn;
        let Ok(trees) = table_of(writer, id) else { return Ok(true) };
        if !trees.runs.are(runs) {
            return Ok(false);
        }
        let Some(tree) = &trees.unresolved else { return Ok(true) };
        let bytes_of = |key: &KeyBuffer| {
            let found = tree.view().get(key)?;
            Some((key.len() + found.value().map_or(0, <[u8]>::len)) as u64)
        };
        let bytes = keys.iter().filter_map(bytes_of).sum();
        let entries = keys.len() as u64;
        let pages = trees.layers[0].room_for(entries, bytes) + tree.room_for(entries, 0);
        let LayerChanges { arena, registry, .. } = self.layers;
        check_memory(registry, writer, || arena.check_room_to_remove(pages))?;
        self.layers.change(writer, id, Readers::GoOn, |trees, epochs| trees.move_resolved(keys, below, epochs))?;
        Ok(true)
    }

    /// Resolves all entries of the wanted tables, and makes their writers look up their keys until
    /// [`end_resolving`]. In the turn to write runs.
    ///
    /// Returns the tables for which that failed, each with its error: they cannot be written to a run.
    pub(super) fn begin_resolving(&self, is_wanted: impl Fn(&TableTrees) -> bool) -> Result<BTreeMap<TableId, Error>> {
        let mut ids = Vec::new();
        let mut turn = self.layers.turn()?;
        for trees in
            turn.tables.iter_mut().flatten().filter(|trees| trees.declaration.options.blind_writes && is_wanted(trees))
        {
            trees.is_resolving = true;
            ids.push(trees.declaration.id);
        }
        drop(turn);
        Ok(ids.into_iter().filter_map(|id| Some((id, self.resolve(id, &Bounds::from(..)).err()?))).collect())
    }

    /// Resolves the tables with many unresolved entries. Failures are recorded; the next flush tries again.
    pub(super) fn resolve_due(&self) {
        let LayerChanges { versions, arena, health, .. } = self.layers;
        let due: Vec<TableId> = {
            let versions = versions.read();
            let tables = versions.tables.iter().flatten();
            let is_due = |tree: &Version| tree.view(arena).entries() >= DUE_ENTRIES;
            tables
                .filter(|table| table.unresolved.as_ref().is_some_and(is_due))
                .map(|table| table.declaration.id)
                .collect()
        };
        for id in due {
            let resolved = unpanicked(|| self.resolve(id, &Bounds::from(..)));
            health.failures.note(Task::Resolve, Some(id), resolved.as_ref().map(|_| ()));
        }
    }
}

/// Lets writers be blind again.
pub(super) fn end_resolving(turn: &mut Turn<'_>) {
    turn.tables.iter_mut().flatten().for_each(|trees| trees.is_resolving = false);
}
