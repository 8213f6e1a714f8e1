//! Commits: validate, log, apply, publish, and wait for the requested durability.
//!
//! Invariants:
//! 1. Everything that can fail (limits, conflicts, memory, the log) comes before the first change to a tree.
//! 2. A record is in the log before its changes are in a tree, and in both in the order of sequence numbers.
//! 3. Readers see all of a commit or nothing of it.
//!
//! A small commit is applied in place under the latch. A larger one first protects the published version like a
//! snapshot, applies with copy-on-write while readers go on, and takes the latch only to publish.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::bounds::Bounds;
use crate::cache::{Missing, ReadPages};
use crate::catalog::declaration::TableId;
use crate::catalog::record::{self, EntryState};
use crate::error::{Error, ErrorKind, Result};
use crate::log::Room;
use crate::maintenance::memory::make_room;
use crate::maintenance::resolve::Resolver;
use crate::options::Durability;
use crate::page::KeyBuffer;
use crate::read::table_stack::Stopped;
use crate::read::unresolved;
use crate::state::ending::Readers;
use crate::state::publish::{dropped, table_of};
use crate::state::shared::Shared;
use crate::state::writer::{Epochs, TableTrees, Turn, Writer};
use crate::tally::Tally;
use crate::transactions::private_table::PrivateTable;
use crate::transactions::transaction::Transaction;
use crate::transactions::unresolved_keys::UnresolvedKeys;
use crate::tree::{Tree, Walk, When, Written};
use crate::tree::{merge_layer, merge_layer_but};
use crate::write::decision::{Decision, old_of};

/// The most entries a commit applies in place, under the latch: some 20 us.
const IN_PLACE_MAX: u64 = 64;

impl Shared {
    /// Commits one write.
    pub(crate) fn write_one(
        self: &Arc<Self>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        when: When,
        durability: Durability,
    ) -> Result<Written> {
        self.check_row(key, value)?;
        make_room(self)?;
        let mut pages = None;
        loop {
            if let Some(written) = self.try_write_one(id, key, value, when, durability, &mut pages)? {
                return Ok(written);
            }
            // No thread waits for a file in the writer's turn.
            pages.iter().try_for_each(ReadPages::load)?;
        }
    }

    /// `None` if a page that the decision needs is not in memory: `pages` knows which.
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
        if trees.declaration.options.blind_writes
            && trees.single().is_none()
            && let Some(written) = trees.blind_outcome(key, value, when)
        {
            if written != Written::Nothing {
                self.write_blind(turn, id, key, value, durability)?;
            }
            return Ok(Some(written));
        }
        // One descent serves the decision and the write: in the writer's turn nothing moves in between.
        let mut place = None;
        let mut staged = None;
        if let Some(bottom) = trees.single() {
            let aimed = place.insert(bottom.aim(key)?);
            // While the leaf comes from memory, build the record for the case that the key is absent.
            let guess = if when == When::Present { None } else { Decision::of(&measures, key, None, value) };
            if let Some(guess) = guess {
                guess.record_alone(&mut writer.record, id, key, value, &measures);
                staged = self.log()?.stage(sequence, &writer.record).map(|staged| (staged, guess));
            }
            bottom.settle(aimed, key);
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
        let append = |writer: &mut Writer| match staged {
            Some((staged, guess)) if guess == decision => staged.append(),
            other => {
                drop(other);
                decision.record_alone(&mut writer.record, id, key, value, &measures);
                self.append_record(writer, if value.is_some() { Room::Common } else { Room::Rows })
            }
        };
        self.commit(turn, (&[id], Readers::Wait, durability), append, |writer, epochs| {
            let top = &mut table_of(writer, id)?.layers[0];
            epochs.open(top);
            decision.apply(top, place.as_mut(), key, value)
        })?;
        Ok(Some(decision.written()))
    }

    /// Runs a closure as the only writer and commits its writes.
    pub(crate) fn write<T>(
        self: &Arc<Self>,
        durability: Durability,
        work: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<T> {
        make_room(self)?;
        self.write_at_once(durability, work)
    }

    /// [`Shared::write`], also while memory is short.
    pub(crate) fn write_at_once<T>(
        self: &Arc<Self>,
        durability: Durability,
        work: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let turn = self.writer()?;
        let transaction = Transaction::single_writer(self);
        let result = work(&transaction)?;
        self.end_write(turn, transaction, durability)?;
        Ok(result)
    }

    /// Commits what a closure has written as the only writer.
    fn end_write(self: &Arc<Self>, mut turn: Turn<'_>, transaction: Transaction, durability: Durability) -> Result<()> {
        for (declaration, room) in transaction.created() {
            self.create_in_turn(&mut turn, &declaration, room)?;
        }
        let is_blind = |id| matches!(turn.tables.get(id as usize), Some(Some(trees)) if trees.is_taking_blind());
        let (parts, _) = transaction.into_parts(&is_blind)?;
        let layers = parts.into_iter().filter_map(|(table, layer)| TableWrites::of(table, layer)).collect();
        self.commit_layers(turn, layers, durability)
    }

    /// Validates and commits an optimistic transaction.
    pub(crate) fn commit_transaction(self: &Arc<Self>, transaction: Transaction, durability: Durability) -> Result<()> {
        let (mut parts, snapshot) = transaction.into_parts(&|_| true)?;
        let Some(mut snapshot) = snapshot else {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction of a `Db::write` closure commits when it returns",
            ));
        };
        if parts.iter().all(|(_, layer)| layer.is_none()) {
            // It read one snapshot and changed nothing: it is serial at the moment of the snapshot.
            return Ok(());
        }
        make_room(self)?;
        // Counts are compared in the writer's turn, so leave little to resolve there.
        for (table, _) in
            parts.iter().filter(|(table, _)| table.declaration.options.blind_writes && table.has_counted())
        {
            Resolver::of(self).resolve(table.id, &Bounds::from(..))?;
        }
        let pages = ReadPages::new(&self.cache);
        loop {
            let turn = self.writer()?;
            match self.validate(&parts, &snapshot, &turn, &pages) {
                Ok(rebased) => {
                    drop(snapshot);
                    let layers = parts.into_iter().zip(rebased);
                    let layers = layers
                        .filter_map(|((table, layer), rebased)| TableWrites::of(table, rebased.or(layer)))
                        .collect();
                    return self.commit_layers(turn, layers, durability);
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Missing) => {
                    // No thread waits for a file in the writer's turn.
                    drop(turn);
                    pages.load_rest()?;
                    self.advance(&mut parts, &mut snapshot)?;
                }
            }
        }
    }

    /// Commits layers over the current version. Their weights are relative to it.
    fn commit_layers(
        self: &Arc<Self>,
        mut turn: Turn<'_>,
        mut layers: SmallVec<[TableWrites; 1]>,
        durability: Durability,
    ) -> Result<()> {
        let writer = &mut *turn;
        for TableWrites { id, layer, unresolved_keys, .. } in &mut layers {
            if !unresolved_keys.is_empty() {
                let trees = writer.tables.get(*id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
                *unresolved_keys = trees.weigh_known(layer, unresolved_keys)?;
            }
        }
        let entries: u64 = layers.iter().map(|writes| writes.layer.entries()).sum();
        if entries == 0 {
            return Ok(());
        }
        let (mut pages, mut long_bytes) = (0, 0);
        let (mut grows, mut is_adopted) = (false, true);
        let only_frees = layers.iter().all(|writes| writes.is_to_free);
        writer.record.clear();
        for TableWrites { id, layer, unresolved_keys, is_to_free } in &layers {
            let trees = writer.tables.get(*id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
            grows |= !is_to_free && layer.view().total().rows >= 0;
            let long_bytes_here = encode_layer(&mut writer.record, *id, layer, unresolved_keys);
            if !adoptable(trees, layer) {
                is_adopted = false;
                let bytes = layer.entries() * 16 + layer.page_bytes_estimate();
                pages += trees.layers[0].room_for(layer.entries(), bytes);
                if !unresolved_keys.is_empty() {
                    pages += trees.room_for_unresolved(layer.entries(), bytes);
                }
                // Long values are copied, and the layer keeps them until it is applied.
                long_bytes += long_bytes_here;
            }
        }
        let long_pages = long_bytes.div_ceil(self.arena.page_bytes() as u64);
        self.check_room(writer, pages + long_pages, grows)?;
        let readers = if entries <= IN_PLACE_MAX || is_adopted { Readers::Wait } else { Readers::GoOn };
        let tables: SmallVec<[TableId; 4]> = layers.iter().map(|writes| writes.id).collect();
        let room = match (grows, only_frees) {
            (true, _) => Room::Common,
            (false, true) => Room::Kept,
            (false, false) => Room::Rows,
        };
        let append = |writer: &mut Writer| {
            let lsn = self.append_record(writer, room)?;
            writer.shrink_record();
            Ok(lsn)
        };
        let mut more = SmallVec::<[Range<u64>; 1]>::new();
        self.commit(turn, (&tables, readers, durability), append, |writer, epochs| {
            layers.into_iter().try_for_each(|TableWrites { id, layer, unresolved_keys, .. }| {
                let trees = table_of(writer, id)?;
                let before = trees.unresolved_entries();
                trees.apply(layer, &unresolved_keys, epochs)?;
                more.push(before..trees.unresolved_entries());
                Ok(())
            })
        })?;
        more.iter().for_each(|more| self.note_unresolved(more));
        Ok(())
    }
}

/// What a commit writes to a table.
struct TableWrites {
    id: TableId,
    layer: Tree,
    /// The keys of the layer whose weights are not known, nor will be.
    unresolved_keys: UnresolvedKeys,
    /// Whether they serve to free space.
    is_to_free: bool,
}

impl TableWrites {
    fn of(table: PrivateTable, layer: Option<Tree>) -> Option<TableWrites> {
        let PrivateTable { id, unresolved_keys, frees_from, .. } = table;
        Some(TableWrites {
            id,
            layer: layer?,
            unresolved_keys: unresolved_keys.into_inner(),
            is_to_free: frees_from.get().is_some(),
        })
    }
}

/// Whether a layer can replace an empty table as it is.
fn adoptable(trees: &TableTrees, layer: &Tree) -> bool {
    matches!(&trees.layers[..], [bottom] if bottom.is_bottom() && bottom.entries() == 0)
        && layer.measures().only_rows()
        && layer.view().total().rows == layer.entries() as i64
}

/// Writes the entries of a layer into a record, those of `unresolved_keys` with unknown weights. Returns the bytes that
/// lie out of line.
fn encode_layer(out: &mut Vec<u8>, id: TableId, layer: &Tree, unresolved_keys: &UnresolvedKeys) -> u64 {
    let view = layer.view();
    let mut long_bytes = 0;
    let measures = *layer.measures();
    out.reserve(layer.page_bytes_estimate() as usize);
    record::put_entries_header(out, id, layer.entries());
    let mut walk = Walk::first(view);
    let mut key = KeyBuffer::new();
    let mut is_unresolved = unresolved_keys.in_step();
    while walk.valid() {
        let found = walk.record();
        key.clear();
        walk.key_into(&mut key);
        let value = walk.value();
        long_bytes += layer.long_bytes(key.len(), value.map_or(0, <[u8]>::len));
        if is_unresolved(&key) {
            record::put_blind_entry(out, &key, value);
            walk.next();
            continue;
        }
        let weight = if measures.only_rows() { Tally::ZERO } else { view.weight_of(&key, &found) };
        let state = match (value, found.rows()) {
            (Some(_), 1) => EntryState::Fresh,
            (Some(_), _) => EntryState::Over,
            (None, _) => EntryState::Tombstone,
        };
        record::put_entry(out, state, &key, value, &weight, &measures);
        walk.next();
    }
    long_bytes
}

impl TableTrees {
    /// Merges a layer of writes into the newest layer, but lays the entries of `unresolved_keys` over the table.
    fn apply(&mut self, layer: Tree, unresolved_keys: &UnresolvedKeys, epochs: Epochs) -> Result<()> {
        let adopt = adoptable(self, &layer);
        epochs.open(&mut self.layers[0]);
        if adopt {
            self.layers[0].adopt(layer);
            return Ok(());
        }
        if self.unresolved.is_none() && unresolved_keys.is_empty() {
            return merge_layer(&mut self.layers[0], &layer);
        }
        let arena = self.layers[0].arena();
        let unresolved = &mut **self.unresolved.get_or_insert_with(|| Box::new(unresolved::new_tree(arena)));
        epochs.open(unresolved);
        let mut is_unresolved = unresolved_keys.in_step();
        // What lies below the entry of an unresolved key is as unknown as before.
        merge_layer_but(&mut self.layers[0], &layer, |key, value| {
            let is_unresolved = is_unresolved(key) || unresolved.view().get(key).is_some();
            if is_unresolved {
                unresolved::write(unresolved, key, value)?;
            }
            Ok(is_unresolved)
        })
    }
}
