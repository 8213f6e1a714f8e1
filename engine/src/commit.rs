//! Commits: validate, log, apply, publish, and wait for the durability that was asked for.
//!
//! Invariants:
//! 1. Everything that can fail (limits, conflicts, memory, the log) comes before the first change to a tree.
//! 2. A record is in the log before its changes are in a tree, and in both in the order of sequence numbers.
//! 3. Readers see all of a commit or nothing of it.
//!
//! A commit of few entries is applied in place under the latch. A larger one first protects the published version as a snapshot would,
//! applies with copy-on-write while readers go on, and takes the latch only to publish.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::bounds::Bounds;
use crate::db::Shared;
use crate::decision::{Decision, old_of};
use crate::error::{Error, ErrorKind, Result};
use crate::log::Lsn;
use crate::options::Durability;
use crate::page::KeyBuffer;
use crate::record::{self, State};
use crate::run::{Missing, ReadPages};
use crate::snapshot::{TableId, Versions, failed_half_way};
use crate::source::{Stopped, in_memory, stack_in_memory};
use crate::stack::Cut;
use crate::sync::atomic::Ordering;
use crate::table::{Table, Write};
use crate::tally::Tally;
use crate::transaction::{Transaction, merge_layer, merge_layer_but};
use crate::tree::{Tree, Walk, When, Written};
use crate::unresolved;
use crate::writer::{Protection, TableTrees, Turn, Writer, next_epoch};

/// Entries up to which a commit is applied under the latch: some 20 us.
const IN_PLACE_MAX: u64 = 64;

impl Shared {
    /// One write as a commit of its own.
    pub(crate) fn write_one(
        self: &Arc<Self>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        when: When,
        durability: Durability,
    ) -> Result<Written> {
        self.check_row(key, value)?;
        self.see_to_memory()?;
        let mut pages = None;
        loop {
            if let Some(written) = self.try_write_one(id, key, value, when, durability, &mut pages)? {
                return Ok(written);
            }
            // Nobody waits for a file in the writer's turn.
            pages.iter().try_for_each(ReadPages::load)?;
        }
    }

    /// `None` if a page for the decision is not in memory: then `pages` knows which.
    #[inline]
    fn try_write_one<'s>(
        self: &'s Arc<Self>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        when: When,
        durability: Durability,
        pages: &mut Option<ReadPages<'s>>,
    ) -> Result<Option<Written>> {
        let mut turn = self.writer()?;
        let writer = &mut *turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        let measures = trees.declaration.options.measures;
        let sequence = writer.sequence + 1;
        // One descent serves the decision and the write: in the writer's turn nothing moves in between.
        let mut place = None;
        let mut staged = None;
        if let Some(bottom) = trees.single() {
            let aimed = place.insert(bottom.aim(key)?);
            // While the leaf comes from memory, the record is put together as it will be if the key is absent.
            let guess = if when == When::Present { None } else { Decision::of(&measures, key, None, value) };
            if let Some(guess) = guess {
                guess.record_alone(&mut writer.record, id, key, value, &measures);
                staged = self.log()?.stage(sequence, &writer.record).map(|staged| (staged, guess));
            }
            bottom.settle(aimed, key);
        } else if trees.declaration.options.blind
            && let Some(written) = trees.unasked(key, value, when)
        {
            if written != Written::Nothing {
                drop(staged);
                self.write_unasked(turn, id, key, value, durability)?;
            }
            return Ok(Some(written));
        }
        let decision = {
            let old = match &place {
                Some(place) => place.found.then(|| trees.layers[0].value_at(place)),
                None => {
                    let pages = pages.get_or_insert_with(|| ReadPages::new(&self.cache));
                    match old_of(&trees.stack(pages), key) {
                        Ok(old) => old,
                        Err(Missing) => return Ok(None),
                    }
                }
            };
            if when.allows(old.is_some()) { Decision::of(&measures, key, old, value) } else { None }
        };
        let Some(decision) = decision else { return Ok(Some(Written::Nothing)) };
        let pages = trees.layers[0].room_for(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.check_room(writer, pages, value.is_some())?;
        let logged = match staged {
            Some((staged, guess)) if guess == decision => self.append_with(|| staged.append())?,
            other => {
                drop(other);
                decision.record_alone(&mut writer.record, id, key, value, &measures);
                self.append(sequence, &writer.record)?
            }
        };
        writer.sequence = sequence;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;

        let mut versions = self.versions.write();
        let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &versions);
        let top = &mut trees.layers[0];
        top.set_epochs(epoch, protected);
        top.set_room_reserved(true);
        let applied = decision.apply(top, place.as_mut(), key, value);
        let applied = applied.map_err(|error| self.broken(error));
        match &applied {
            Ok(_) => publish(Arc::make_mut(&mut versions), trees, epoch, sequence),
            Err(_) => versions.tear(),
        }
        drop(versions);
        applied?;
        let lsn = logged.applied();
        writer.reclaim(&self.registry, id);
        drop(turn);
        self.wait(lsn, durability)?;
        Ok(Some(decision.written()))
    }

    /// Removes a range as a commit of its own.
    pub(crate) fn remove_range(
        self: &Arc<Self>,
        table: &Table,
        bounds: &Bounds<'_>,
        durability: Durability,
    ) -> Result<u64> {
        self.see_to_memory()?;
        let mut turn = self.writer()?;
        let writer = &mut *turn;
        let id = table.id();
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        if trees.single().is_none() {
            drop(turn);
            let remove = || self.write(durability, |transaction| transaction.table(table)?.remove_range(bounds));
            return match remove() {
                // Over runs each row takes a tombstone. What the table has in memory makes room for them if it goes to a run.
                Err(error) if error.kind() == ErrorKind::Full && !table.options().resident => {
                    self.flush(id)?;
                    self.reclaim_if_idle();
                    remove()
                }
                removed => removed,
            };
        }
        let rows = {
            let stack = stack_in_memory(trees.views(), trees.declaration.options.measures);
            in_memory(stack.count(bounds.start(), bounds.end()))
        };
        if rows == 0 {
            return Ok(0);
        }
        // Only the pages at the ends of the range are copied.
        let pages = trees.layers[0].room_for(1, 0);
        self.check_room(writer, pages, false)?;
        let (low, high) = (key_at(bounds.start()), key_at(bounds.end()));
        let sequence = writer.sequence + 1;
        writer.record.clear();
        record::put_remove_range(&mut writer.record, id, low.as_deref(), high.as_deref(), rows);
        let logged = self.append(sequence, &writer.record)?;
        writer.sequence = sequence;
        let protection = self.protect();
        let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &protection);
        let trees = writer.tables[id as usize].as_mut().ok_or_else(dropped)?;
        let top = &mut trees.layers[0];
        top.set_epochs(epoch, protected);
        top.set_room_reserved(true);
        let applied = top.remove_range(low.as_deref(), high.as_deref()).map_err(|error| self.broken(error));
        if applied.is_ok() {
            let mut versions = self.versions.write();
            publish(Arc::make_mut(&mut versions), trees, epoch, sequence);
        }
        // No page is given back after a failure: what is published may have it.
        applied?;
        let lsn = logged.applied();
        drop(protection);
        writer.reclaim(&self.registry, id);
        drop(turn);
        self.wait(lsn, durability)?;
        Ok(rows)
    }

    /// Runs a closure as the single writer and commits what it did.
    pub(crate) fn write<T>(
        self: &Arc<Self>,
        durability: Durability,
        work: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<T> {
        self.see_to_memory()?;
        let mut turn = self.writer()?;
        let transaction = Transaction::single_writer(self);
        let result = work(&transaction)?;
        let (parts, _) = transaction.into_parts()?;
        let layers = parts.into_iter().filter_map(|(table, layer)| Some((table.id, layer?))).collect();
        let lsn = self.commit_layers(&mut turn, layers)?;
        drop(turn);
        if let Some(lsn) = lsn {
            self.wait(lsn, durability)?;
        }
        Ok(result)
    }

    /// Validates and commits an optimistic transaction.
    pub(crate) fn commit_transaction(self: &Arc<Self>, transaction: Transaction, durability: Durability) -> Result<()> {
        let (mut parts, snapshot) = transaction.into_parts()?;
        let Some(mut snapshot) = snapshot else {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction of a `Db::write` closure commits when it returns",
            ));
        };
        if parts.iter().all(|(_, layer)| layer.is_none()) {
            // It read one snapshot and changed nothing: it ran when that was taken.
            return Ok(());
        }
        self.see_to_memory()?;
        // Counts are compared in the writer's turn: better that little is left to resolve in it.
        for (table, _) in parts.iter().filter(|(table, _)| table.declaration.options.blind && table.has_counted()) {
            self.resolve(table.id, &Bounds::from(..))?;
        }
        let pages = ReadPages::new(&self.cache);
        loop {
            let mut turn = self.writer()?;
            match self.validate(&parts, &snapshot, &turn, &pages) {
                Ok(rebased) => {
                    drop(snapshot);
                    let layers = parts.into_iter().zip(rebased);
                    let layers =
                        layers.filter_map(|((table, layer), rebased)| Some((table.id, rebased.or(layer)?))).collect();
                    let lsn = self.commit_layers(&mut turn, layers)?;
                    drop(turn);
                    return lsn.map_or(Ok(()), |lsn| self.wait(lsn, durability));
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Missing) => {
                    // Nobody waits for a file in the writer's turn.
                    drop(turn);
                    pages.load_rest()?;
                    self.advance(&mut parts, &mut snapshot)?;
                }
            }
        }
    }

    /// Logs, applies and publishes layers over the current version, which they are relative to.
    fn commit_layers(
        self: &Arc<Self>,
        turn: &mut Turn<'_>,
        layers: SmallVec<[(TableId, Tree); 1]>,
    ) -> Result<Option<Lsn>> {
        let writer = &mut **turn;
        let entries: u64 = layers.iter().map(|(_, layer)| layer.entries()).sum();
        if entries == 0 {
            return Ok(None);
        }
        let mut pages = 0;
        let mut grows = false;
        for (id, layer) in &layers {
            let trees = writer.tables.get(*id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
            grows |= layer.view().total().rows >= 0;
            if !adoptable(trees, layer) {
                pages += trees.layers[0].room_for(layer.entries(), layer.entries() * 16 + layer.page_bytes_estimate());
            }
        }
        self.check_room(writer, pages, grows)?;
        writer.record.clear();
        for (id, layer) in &layers {
            encode_layer(&mut writer.record, *id, layer);
        }
        let sequence = writer.sequence + 1;
        let logged = self.append(sequence, &writer.record)?;
        writer.sequence = sequence;
        if writer.record.capacity() > 1 << 20 {
            writer.record = Vec::new();
        }

        let in_place = entries <= IN_PLACE_MAX
            || layers
                .iter()
                .all(|(id, layer)| writer.tables[*id as usize].as_ref().is_some_and(|trees| adoptable(trees, layer)));
        let ids: SmallVec<[TableId; 4]> = layers.iter().map(|(id, _)| *id).collect();
        let applied = if in_place {
            let mut versions = self.versions.write();
            let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &versions);
            let published = Arc::make_mut(&mut versions);
            let mut applied = Ok(());
            for (id, layer) in layers {
                let Some(trees) = writer.tables[id as usize].as_mut() else { continue };
                applied = applied.and_then(|()| trees.apply(layer, epoch, protected));
                publish(published, trees, epoch, sequence);
                publish_unresolved(published, trees);
            }
            if applied.is_err() {
                versions.tear();
            }
            applied
        } else {
            let protection = self.protect();
            let (epoch, protected) = next_epoch(&mut writer.epoch, &self.registry, &protection);
            let mut applied = Ok(());
            for (id, layer) in layers {
                let Some(trees) = writer.tables[id as usize].as_mut() else { continue };
                applied = applied.and_then(|()| trees.apply(layer, epoch, protected));
            }
            // What is published stays as it was if a layer could not be applied.
            if applied.is_ok() {
                let mut versions = self.versions.write();
                let published = Arc::make_mut(&mut versions);
                for id in &ids {
                    if let Some(trees) = writer.tables[*id as usize].as_mut() {
                        publish(published, trees, epoch, sequence);
                        publish_unresolved(published, trees);
                    }
                }
            }
            drop(protection);
            applied
        };
        // No page is given back after a failure: what is published may have it.
        applied.map_err(|error| self.broken(error))?;
        let lsn = logged.applied();
        for id in ids {
            writer.reclaim(&self.registry, id);
        }
        Ok(Some(lsn))
    }

    /// Fails if there is no memory for a commit, also after freeing what ended snapshots held back.
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

    /// Hands a record to the log.
    #[inline]
    pub(crate) fn append(&self, sequence: u64, record: &[u8]) -> Result<Logged<'_>> {
        self.append_with(|| self.log()?.append(sequence, &[record]))
    }

    #[inline]
    fn append_with(&self, append: impl FnOnce() -> Result<Lsn>) -> Result<Logged<'_>> {
        let lsn = append()?;
        let logged = Logged { shared: self, lsn };
        if lsn.0 >= self.keeper_wakes_at.load(Ordering::Relaxed) {
            self.wake_keeper_for_log(lsn);
        }
        Ok(logged)
    }

    /// Fails if what is in memory is no longer what the log says.
    #[inline]
    pub(crate) fn check_failed(&self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(failed_half_way());
        }
        Ok(())
    }

    /// Logs one change to the catalog. The caller holds the writer's turn and applies it afterwards.
    pub(crate) fn append_record(&self, writer: &mut Writer) -> Result<Logged<'_>> {
        let sequence = writer.sequence + 1;
        let logged = self.append(sequence, &writer.record)?;
        writer.sequence = sequence;
        Ok(logged)
    }

    /// Waits until a commit is as durable as asked.
    #[inline]
    pub(crate) fn wait(&self, lsn: Lsn, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.log()?.sync(lsn),
            // The log stores a record where a killed process cannot lose it before `append` returns.
            Durability::Os | Durability::None => Ok(()),
        }
    }

    /// A change that had been logged could not be applied: what is in memory is no longer what the log says.
    #[cold]
    pub(crate) fn broken(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::SeqCst);
        error.context("a logged commit could not be applied; reopen the database to recover it from the log")
    }
}

/// A record that is in the log, and not yet in the trees. If it is dropped before it is applied, by an error or a panic in between, nothing more is written
/// until the database was reopened: what is in memory is not what the log says.
#[must_use]
pub(crate) struct Logged<'s> {
    shared: &'s Shared,
    lsn: Lsn,
}

impl Logged<'_> {
    /// The record is applied and published. Returns where the log ends with it.
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

#[cold]
pub(crate) fn dropped() -> Error {
    Error::new(ErrorKind::Missing, "the table has been dropped")
}

/// The first key that is not before the cut: `None` at the ends.
pub(crate) fn key_at(cut: Cut<'_>) -> Option<KeyBuffer> {
    match cut {
        Cut::Start | Cut::End => None,
        Cut::Before(key) => Some(KeyBuffer::from_slice(key)),
        Cut::After(key) => {
            let mut key = KeyBuffer::from_slice(key);
            key.push(0);
            Some(key)
        }
    }
}

/// Whether a layer can take the place of an empty table as it is.
fn adoptable(trees: &TableTrees, layer: &Tree) -> bool {
    matches!(&trees.layers[..], [bottom] if bottom.is_bottom() && bottom.entries() == 0)
        && layer.measures().only_rows()
        && layer.view().total().rows == layer.entries() as i64
}

/// Writes the entries of a layer into a record.
fn encode_layer(out: &mut Vec<u8>, id: TableId, layer: &Tree) {
    let view = layer.view();
    let measures = *layer.measures();
    out.reserve(layer.page_bytes_estimate() as usize);
    record::put_entries_header(out, id, layer.entries());
    let mut walk = Walk::first(view);
    let mut key = KeyBuffer::new();
    while walk.valid() {
        let found = walk.record();
        key.clear();
        walk.key_into(&mut key);
        let value = walk.value();
        let weight = if measures.only_rows() { Tally::ZERO } else { view.weight_of(&key, &found) };
        let state = match (value, found.rows()) {
            (Some(_), 1) => State::Fresh,
            (Some(_), _) => State::Over,
            (None, _) => State::Tombstone,
        };
        record::put_entry(out, state, &key, value, &weight, &measures);
        walk.next();
    }
}

/// Puts the current version of a table where readers find it. Under the latch.
pub(crate) fn publish(versions: &mut Versions, trees: &mut TableTrees, epoch: u64, sequence: u64) {
    trees.sequence = sequence;
    versions.epoch = epoch;
    versions.sequence = sequence;
    if let Some(Some(table)) = versions.tables.get_mut(trees.declaration.id as usize) {
        table.sequence = sequence;
        if let ([version], [tree]) = (&mut table.layers[..], &trees.layers[..]) {
            *version = tree.version();
        } else {
            table.layers = trees.layers.iter().map(Tree::version).collect();
        }
    }
}

/// Puts the unresolved entries of a table where readers find them. Under the latch, with [`publish`].
pub(crate) fn publish_unresolved(versions: &mut Versions, trees: &TableTrees) {
    if let Some(Some(table)) = versions.tables.get_mut(trees.declaration.id as usize) {
        table.unresolved = trees.unresolved.as_ref().map(|tree| tree.version());
    }
}

impl TableTrees {
    /// Merges a layer of writes into the newest layer.
    fn apply(&mut self, layer: Tree, epoch: u64, protected: u64) -> Result<()> {
        let adopt = adoptable(self, &layer);
        let top = &mut self.layers[0];
        top.set_epochs(epoch, protected);
        top.set_room_reserved(true);
        if adopt {
            top.adopt(layer);
            return Ok(());
        }
        let Some(unresolved) = &mut self.unresolved else { return merge_layer(top, &layer) };
        unresolved.set_epochs(epoch, protected);
        unresolved.set_room_reserved(true);
        // What lies below the entry of an unresolved key is as unknown as before.
        merge_layer_but(top, &layer, |key, value| {
            let is_unresolved = unresolved.view().get(key).is_some();
            if is_unresolved {
                unresolved::write(unresolved, key, value)?;
            }
            Ok(is_unresolved)
        })
    }
}
