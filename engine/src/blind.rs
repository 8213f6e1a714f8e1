//! Blind tables: writes that do not ask whether their key is live, and asking for many of them at once, later.
//!
//! A put or a removal of a key that has no entry in memory, in a table that has runs, is logged as one of unknown weight and laid over the table
//! ([`unresolved`]). Resolving moves such entries, in order and many at a time, into the newest tree, with the weights that follow from what lies below. No
//! answer changes, so it is no commit; the log keeps what it has, and replay lays it over the table again.
//!
//! Invariants:
//! 1. Entries are unresolved only over runs. What a run is written from is all resolved: meanwhile writes ask, as in any other table.
//! 2. What lies below was looked up outside of the writer's turn, so it counts in it only if the runs are still the same, and for keys that are still unresolved.
//!
//! Cost: a blind write is a look into the trees and one descent. Resolving is a look-up a key, whose pages are read together and in their order, and two descents.
//!
//! Not here: the tree of these entries and answers that are exact in spite of it (`unresolved`, `source`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bounds::Bounds;
use crate::commit::{dropped, publish, publish_unresolved};
use crate::db::Shared;
use crate::error::{Error, Result};
use crate::failures::{Task, unpanicked};
use crate::layers::{republish, table_of};
use crate::options::Durability;
use crate::page::KeyBuffer;
use crate::record;
use crate::run::ReadPages;
use crate::snapshot::{Runs, Snapshot, TableId};
use crate::source::stack_over;
use crate::stack::Cut;
use crate::tally::Tally;
use crate::tree::{Version, When, Written};
use crate::unresolved;
use crate::writer::{TableTrees, Turn, next_epoch};

/// The keeper resolves a table once it has so many entries that are not.
const DUE_ENTRIES: u64 = 1 << 16;
/// So many entries are resolved in one turn: a few hundred microseconds.
const IN_TURN: usize = 256;

impl TableTrees {
    /// What a write comes to that need not ask what lies below, as its key is unresolved already or may become so; `None` if it has to ask, or finds its key in memory.
    // Out of line, as the next: they are called from the way of every write, which is short.
    #[inline(never)]
    pub(crate) fn unasked(&self, key: &[u8], value: Option<&[u8]>, when: When) -> Option<Written> {
        if let Some(is_live) = self.unresolved_at(key) {
            return Some(match (when.allows(is_live), is_live, value) {
                (false, _, _) | (true, false, None) => Written::Nothing,
                (true, false, Some(_)) => Written::Inserted,
                (true, true, Some(_)) => Written::Replaced,
                (true, true, None) => Written::Removed,
            });
        }
        let is_taken = self.declaration.options.blind && !self.is_settling && !self.runs.is_empty();
        let has_to_know = value.is_some() && when != When::Always;
        if !is_taken || has_to_know || self.views().any(|view| view.get(key).is_some()) {
            return None;
        }
        Some(if value.is_some() { Written::Replaced } else { Written::Removed })
    }

    /// Whether a key with an unresolved entry is live; `None` if there is no such entry.
    #[inline]
    pub(crate) fn unresolved_at(&self, key: &[u8]) -> Option<bool> {
        let found = self.unresolved.as_ref()?.view().get(key)?;
        Some(found.value().is_some())
    }

    /// Lays an entry over the table. Room for it has been reserved.
    pub(crate) fn write_unresolved(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        (epoch, protected): (u64, u64),
    ) -> Result<()> {
        let arena = self.layers[0].arena();
        let tree = self.unresolved.get_or_insert_with(|| Box::new(unresolved::new_tree(arena)));
        tree.set_epochs(epoch, protected);
        tree.set_room_reserved(true);
        unresolved::write(tree, key, value)
    }

    /// Moves the entries of these keys, those that are still there, into the newest tree, over what lies below.
    fn move_resolved(&mut self, keys: &[KeyBuffer], below: &[Tally], (epoch, protected): (u64, u64)) -> Result<()> {
        let Some(mut tree) = self.unresolved.take() else { return Ok(()) };
        let top = &mut self.layers[0];
        for tree in [&mut *tree, &mut *top] {
            tree.set_epochs(epoch, protected);
            tree.set_room_reserved(true);
        }
        let moved = keys.iter().zip(below).try_for_each(|(key, below)| {
            let Some(found) = tree.view().get(key) else { return Ok(()) };
            top.write_over(key, found.value(), |existing| Some(existing.map_or(*below, |existing| existing.below)))?;
            unresolved::take_out(&mut tree, key)
        });
        if tree.entries() > 0 {
            self.unresolved = Some(tree);
        } else {
            // Snapshots may still look at it.
            self.merged.push((epoch, *tree));
        }
        moved
    }
}

impl Shared {
    /// Commits a write of unknown weight.
    #[inline(never)]
    pub(crate) fn write_unasked(
        self: &Arc<Self>,
        mut turn: Turn<'_>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let writer = &mut *turn;
        let trees = writer.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let tree = trees.unresolved.as_deref().unwrap_or(&trees.layers[0]);
        let pages = tree.room_for(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.check_room(writer, pages, value.is_some())?;
        writer.record.clear();
        record::put_entries_header(&mut writer.record, id, 1);
        record::put_blind_entry(&mut writer.record, key, value);
        let sequence = writer.sequence + 1;
        let logged = self.append(sequence, &writer.record)?;
        writer.sequence = sequence;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        let applied = {
            let mut versions = self.versions.write();
            let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &versions);
            let applied = trees.write_unresolved(key, value, (epoch, protected));
            let published = Arc::make_mut(&mut versions);
            publish(published, trees, epoch, sequence);
            publish_unresolved(published, trees);
            if applied.is_err() {
                versions.tear();
            }
            applied.map_err(|error| self.broken(error))
        };
        applied?;
        let lsn = logged.applied();
        let entries = trees.unresolved.as_ref().map_or(0, |tree| tree.entries());
        writer.reclaim_unresolved(&self.registry, id);
        drop(turn);
        if entries > 0 && entries.is_multiple_of(DUE_ENTRIES) {
            self.has_woken_keeper();
        }
        self.wait(lsn, durability)
    }

    /// Resolves what is unresolved in a range, batch by batch. Returns how many entries were looked up. No answer changes.
    pub(crate) fn resolve(self: &Arc<Self>, id: TableId, bounds: &Bounds<'_>) -> Result<u64> {
        let mut last: Option<KeyBuffer> = None;
        let mut resolved = 0;
        loop {
            let snapshot = Snapshot::take_briefly(self);
            let Ok(version) = snapshot.versions.table(id) else { return Ok(resolved) };
            let Some(unresolved) = version.unresolved else { return Ok(resolved) };
            let start = last.as_ref().map_or(bounds.start(), |last| Cut::After(last));
            let keys = unresolved::keys(unresolved.view(&self.arena), start, bounds.end());
            if keys.is_empty() {
                return Ok(resolved);
            }
            let runs = version.runs.clone();
            let below = {
                let pages = ReadPages::new(&self.cache);
                let measures = version.declaration.options.measures;
                let stack = stack_over(version.views(&self.arena), &runs, &pages, measures);
                pages.answer(|| unresolved::contributions(&stack, &keys))?
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

    /// Moves entries into the newest tree if the table still has these runs, from which it is known what lies below. Returns whether it has.
    fn move_resolved(&self, id: TableId, keys: &[KeyBuffer], below: &[Tally], runs: &Runs) -> Result<bool> {
        let mut turn = self.writer()?;
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
        self.check_room(writer, pages, false)?;
        let protection = self.protect();
        let epochs = next_epoch(&mut writer.epoch, &self.registry, &protection);
        let moved = match table_of(writer, id) {
            Ok(trees) => {
                let moved = trees.move_resolved(keys, below, epochs);
                republish(Arc::make_mut(&mut self.versions.write()), trees, epochs.0);
                moved
            }
            Err(error) => Err(error),
        };
        drop(protection);
        if let Ok(trees) = table_of(writer, id) {
            trees.reclaim(&self.registry.live());
            self.registry.note_held_back();
        }
        moved.map(|()| true)
    }

    /// Resolves all of the tables that are wanted, and has their writers ask until [`Shared::end_settling`]. In the turn to write runs.
    ///
    /// Returns the tables of which that failed, with the error of each: nothing of them can be written to a run.
    pub(crate) fn begin_settling(
        self: &Arc<Self>,
        is_wanted: impl Fn(&TableTrees) -> bool,
    ) -> Result<BTreeMap<TableId, Error>> {
        let mut ids = Vec::new();
        let mut turn = self.writer()?;
        for trees in
            turn.tables.iter_mut().flatten().filter(|trees| trees.declaration.options.blind && is_wanted(trees))
        {
            trees.is_settling = true;
            ids.push(trees.declaration.id);
        }
        drop(turn);
        Ok(ids.into_iter().filter_map(|id| Some((id, self.resolve(id, &Bounds::from(..)).err()?))).collect())
    }

    /// Writers need not ask any more.
    pub(crate) fn end_settling(&self, turn: &mut Turn<'_>) {
        turn.tables.iter_mut().flatten().for_each(|trees| trees.is_settling = false);
    }

    /// Resolves the tables that have much to resolve. What fails is noted among the failures; the next flush tries again.
    pub(crate) fn resolve_due(self: &Arc<Self>) {
        let due: Vec<TableId> = {
            let versions = self.versions.read();
            let tables = versions.tables.iter().flatten();
            let is_due = |tree: &Version| tree.view(&self.arena).entries() >= DUE_ENTRIES;
            tables
                .filter(|table| table.unresolved.as_ref().is_some_and(is_due))
                .map(|table| table.declaration.id)
                .collect()
        };
        for id in due {
            let resolved = unpanicked(|| self.resolve(id, &Bounds::from(..)));
            self.failures.note(Task::Resolve, Some(id), resolved.as_ref().map(|_| ()));
        }
    }
}
