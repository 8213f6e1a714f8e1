//! Latched writes: many writes, made in place one after the other, that commit as one.
//!
//! Invariants:
//! 1. A latched write holds the writer's turn and the latch: nobody sees a part of it, and it reads what it has
//!    written.
//! 2. Everything that can fail (limits, memory, space in the log) comes before each change to a tree. What was changed
//!    is committed, whatever follows.
//! 3. The record of all changes is in the log before the latch is given back.
//!
//! While a latched write lives, its thread must not use the database otherwise: it would wait for itself.
//!
//! Cost: nothing is copied and there is no private layer, so a write costs what it costs in the bare tree, and its
//! bytes in the log. In return there is no rollback, and readers wait: keep it well under a millisecond. [`Db::write`]
//! is for the rest.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::read::entry::Key;
use crate::read::readable::ReadableTable;
use crate::run::ReadPages;
use crate::state::ending::publish_tables;
use crate::state::handle::Table;
use crate::state::latch::Latched;
use crate::state::logged::Logged;
use crate::state::pending_commit::PendingCommit;
use crate::state::publish::dropped;
use crate::state::shared::Shared;
use crate::state::snapshot::TableView;
use crate::state::versions::failed_half_way;
use crate::state::writer::{Epochs, Turn};
use crate::sync::atomic::Ordering;
use crate::tree::{GROUP, Place, Tree, When, Written};
use crate::write::commit::key_at;
use crate::write::decision::Decision;

/// The space in the log that a latched write reserves at a time, in bytes.
const LOG_STEP_BYTES: usize = 64 << 10;

/// What an update does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leaves the row, or its absence, as it is.
    Keep,
    /// Puts the value that the closure wrote.
    Put,
    /// Removes the row if there is one.
    Remove,
}

/// Writes in place: see [`Db::latched_write`](crate::Db::latched_write).
pub struct LatchedWrite<'db> {
    pub(crate) db: &'db Arc<Shared>,
    pub(crate) turn: Turn<'db>,
    /// The latch. Readers wait.
    pub(crate) versions: Latched<'db>,
    epochs: Epochs,
    /// Bytes reserved in the log.
    log_room_bytes: usize,
    /// The group of entries being written: its table, where its count goes, and the count.
    group: Option<(TableId, usize, u64)>,
    /// Tables that have changed.
    changed: smallvec::SmallVec<[TableId; 4]>,
    /// The new value that an update's closure writes.
    value: Vec<u8>,
    places: Option<Box<[Place; GROUP]>>,
    committed: bool,
}

impl<'db> LatchedWrite<'db> {
    /// See [`Db::latched_write`](crate::Db::latched_write).
    pub(crate) fn begin(db: &'db Arc<Shared>) -> Result<LatchedWrite<'db>> {
        db.see_to_memory()?;
        let mut turn = db.writer()?;
        let log_room_bytes = db.log()?.reserve(LOG_STEP_BYTES)?;
        let mut versions = db.versions.write();
        versions.set_changing(false);
        // Under the latch: no snapshot is taken from here on.
        let epochs = Epochs::next(&mut turn.epoch, &db.registry, &versions);
        turn.record.clear();
        Ok(LatchedWrite {
            db,
            turn,
            versions,
            epochs,
            log_room_bytes,
            group: None,
            changed: smallvec::SmallVec::new(),
            value: Vec::new(),
            places: None,
            committed: false,
        })
    }

    /// Reserves room for the next `writes`, whose keys and values have `bytes` in total, so that memory and the log do
    /// not run out: the writes succeed or fail as one. Meanwhile, others may write only through latched writes.
    ///
    /// # Errors
    /// [`ErrorKind::Full`](crate::ErrorKind::Full), with nothing done.
    pub fn reserve(&mut self, table: &Table, writes: usize, bytes: usize) -> Result<()> {
        table.check_owner(self.db)?;
        let db = self.db;
        self.reserve_log(bytes + writes * record::ENTRY_BYTES_MAX)?;
        let writer = &mut *self.turn;
        let trees = writer.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let pages = trees.layers[0].room_for(writes as u64, bytes as u64);
        db.check_room(writer, pages, true)
    }

    /// A table as this latched write has left it.
    pub fn table(&self, table: &Table) -> Result<TableView<'_>> {
        table.check_owner(self.db)?;
        let trees = self.turn.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        Ok(TableView::new(trees.source(&self.db.cache), &trees.declaration))
    }

    /// Puts a row, whether or not the key exists. Returns whether the key is new.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, Some(value), When::Always)? == Written::Inserted)
    }

    /// Puts a row if its key is new, and leaves a live key as it is. Returns whether the key was new.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, Some(value), When::Absent)? == Written::Inserted)
    }

    /// Removes a row. Returns whether there was one.
    pub fn remove(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, None, When::Present)? == Written::Removed)
    }

    /// Reads a row and rewrites it in one descent. `change` gets the old value and an empty buffer for the new one.
    pub fn update(
        &mut self,
        table: &Table,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Action,
    ) -> Result<()> {
        table.check_owner(self.db)?;
        let mut value = std::mem::take(&mut self.value);
        let result = self.write_row(table.id(), key, None, |old| {
            value.clear();
            (change(old, &mut value), &value)
        });
        self.value = value;
        result.map(|_| ())
    }

    /// Does [`LatchedWrite::update`] for many rows, in order. Descents are interleaved, so that they wait for memory
    /// together. `change` also gets the index of the key.
    ///
    /// # Errors
    /// Those of an update, with the index of the key that failed: the rows before it are written, that row and those
    /// after it are not.
    pub fn update_many(
        &mut self,
        table: &Table,
        keys: &[impl AsRef<[u8]>],
        mut change: impl FnMut(usize, Option<&[u8]>, &mut Vec<u8>) -> Action,
    ) -> std::result::Result<(), (usize, Error)> {
        table.check_owner(self.db).map_err(|error| (0, error))?;
        let id = table.id();
        let mut value = std::mem::take(&mut self.value);
        let mut places = self.places.take().unwrap_or_else(|| Box::new(std::array::from_fn(|_| Place::new())));
        let mut result = Ok(());
        'chunks: for (chunk, keys) in keys.chunks(GROUP).enumerate() {
            // A few keys gain nothing, and pages copied for a snapshot move.
            let together = keys.len() > 1 && self.epochs.protected == 0 && self.locate_many(id, keys, &mut places);
            for (number, key) in keys.iter().enumerate() {
                let place = together.then(|| &mut places[number]);
                let written = self.write_row(id, key.as_ref(), place, |old| {
                    value.clear();
                    (change(chunk * GROUP + number, old, &mut value), &value)
                });
                if let Err(error) = written {
                    result = Err((chunk * GROUP + number, error));
                    break 'chunks;
                }
            }
        }
        self.value = value;
        self.places = Some(places);
        result
    }

    /// Finds the places of the keys in the only tree of the table. Returns whether it did.
    fn locate_many(&mut self, id: TableId, keys: &[impl AsRef<[u8]>], places: &mut [Place; GROUP]) -> bool {
        match self.turn.tables.get_mut(id as usize) {
            Some(Some(trees)) => trees.single().is_some_and(|bottom| bottom.locate_many(keys, places).is_ok()),
            _ => false,
        }
    }

    fn write(&mut self, table: &Table, key: &[u8], value: Option<&[u8]>, when: When) -> Result<Written> {
        table.check_owner(self.db)?;
        self.write_row(table.id(), key, None, |old| match (when.allows(old.is_some()), value) {
            (false, _) => (Action::Keep, &[]),
            (true, None) => (Action::Remove, &[]),
            (true, Some(value)) => (Action::Put, value),
        })
    }

    /// Decides one write by the existing row, records it and makes it.
    #[inline]
    fn write_row<'v>(
        &mut self,
        id: TableId,
        key: &[u8],
        place: Option<&mut Place>,
        change: impl FnOnce(Option<&[u8]>) -> (Action, &'v [u8]),
    ) -> Result<Written> {
        self.versions.set_changing(true);
        let written = self.write_row_in_place(id, key, place, change);
        self.versions.set_changing(false);
        written
    }

    #[inline]
    fn write_row_in_place<'v>(
        &mut self,
        id: TableId,
        key: &[u8],
        place: Option<&mut Place>,
        change: impl FnOnce(Option<&[u8]>) -> (Action, &'v [u8]),
    ) -> Result<Written> {
        let db = self.db;
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        let measures = trees.declaration.options.measures;
        db.check_row(key, None)?;
        let mut own_place = None;
        let mut place = match (trees.single(), place) {
            (Some(bottom), Some(place)) => {
                bottom.locate_again(place, key)?;
                Some(place)
            }
            (Some(bottom), None) => Some(own_place.insert(bottom.locate(key)?)),
            (None, _) => None,
        };
        let pages;
        let (value, decision) = {
            let old = match &place {
                Some(place) if place.found => Some(trees.layers[0].value_at(place)),
                Some(_) => None,
                None => {
                    pages = ReadPages::new(&db.cache);
                    let stack = trees.stack(&pages);
                    pages.answer(|| stack.get(key))?
                }
            };
            // A panic of the caller's closure leaves the pages whole.
            self.versions.set_changing(false);
            let (action, value) = change(old);
            self.versions.set_changing(true);
            let value = match action {
                Action::Keep => return Ok(Written::Nothing),
                Action::Put => Some(value),
                Action::Remove => None,
            };
            (value, Decision::of(&measures, key, old, value))
        };
        let Some(decision) = decision else { return Ok(Written::Nothing) };
        db.check_row(key, value)?;
        let bytes = key.len() + value.map_or(0, <[u8]>::len);
        let top = &mut trees.layers[0];
        self.epochs.open(top);
        let pages = top.room_for(1, bytes as u64);
        db.check_room(writer, pages, value.is_some())?;
        self.begin_entries(id, bytes)?;
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        if trees.unresolved_at(key).is_some() {
            // What lies below it is as unknown as before.
            record::put_blind_entry(&mut writer.record, key, value);
            trees.write_unresolved(key, value, self.epochs).map_err(|error| db.broken(error))?;
            return Ok(decision.written());
        }
        decision.record(&mut writer.record, key, value, &measures);
        decision.apply(&mut trees.layers[0], place.take(), key, value).map_err(|error| db.broken(error))?;
        Ok(decision.written())
    }

    /// Makes room in the log for an entry, and starts a group of entries of the table unless one is open.
    #[inline]
    fn begin_entries(&mut self, id: TableId, bytes: usize) -> Result<()> {
        self.reserve_log(bytes + record::ENTRY_BYTES_MAX)?;
        match &mut self.group {
            Some((table, _, count)) if *table == id => *count += 1,
            _ => {
                self.end_entries();
                let at = record::put_open_entries_header(&mut self.turn.record, id);
                self.group = Some((id, at, 1));
                self.note_changed(id);
            }
        }
        Ok(())
    }

    #[inline]
    fn reserve_log(&mut self, bytes: usize) -> Result<()> {
        let needed = self.turn.record.len() + bytes + 64;
        if needed > self.log_room_bytes {
            self.log_room_bytes = self.db.log()?.reserve(needed + LOG_STEP_BYTES)?;
        }
        Ok(())
    }

    fn end_entries(&mut self) {
        if let Some((_, at, count)) = self.group.take() {
            record::set_entry_count(&mut self.turn.record, at, count);
        }
    }

    fn note_changed(&mut self, id: TableId) {
        if !self.changed.contains(&id) {
            self.changed.push(id);
        }
    }

    /// Removes all rows of a range. Returns how many there were. One step for each leaf.
    pub fn remove_range<'b>(&mut self, table: &Table, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        let bounds = bounds.into();
        let id = table.id();
        let (low, high) = (key_at(bounds.start()), key_at(bounds.end()));
        let (rows, layered) = {
            let view = self.table(table)?;
            let mut keys = None;
            if !view.is_single() {
                let keys = keys.insert(Vec::new());
                view.for_each(&bounds, |key, _| {
                    keys.push(Key::from(key));
                    true
                })?;
            }
            (view.count(&bounds)?, keys)
        };
        if rows == 0 {
            return Ok(0);
        }
        if let Some(keys) = layered {
            // Layers below cannot change: each row gets a tombstone.
            for key in keys {
                self.write_row(id, &key, None, |_| (Action::Remove, &[]))?;
            }
            return Ok(rows);
        }
        let db = self.db;
        self.reserve_log(low.as_ref().map_or(0, |key| key.len()) + high.as_ref().map_or(0, |key| key.len()) + 64)?;
        let writer = &mut *self.turn;
        let pages = writer.tables[id as usize].as_ref().ok_or_else(dropped)?.layers[0].room_for(1, 0);
        db.check_room(writer, pages, false)?;
        self.end_entries();
        self.note_changed(id);
        let writer = &mut *self.turn;
        record::put_remove_range(&mut writer.record, id, low.as_deref(), high.as_deref(), rows);
        let top: &mut Tree = &mut writer.tables[id as usize].as_mut().ok_or_else(dropped)?.layers[0];
        self.epochs.open(top);
        self.versions.set_changing(true);
        top.remove_range(low.as_deref(), high.as_deref()).map_err(|error| db.broken(error))?;
        self.versions.set_changing(false);
        Ok(rows)
    }

    /// Makes the changes visible as one commit. To make durable what it read and wrote, wait for the result.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned) if the log failed meanwhile; then reopen the database.
    pub fn commit(mut self) -> Result<PendingCommit<'db>> {
        // Without a change, what it has read may still be on its way to the disk.
        Ok(match self.finish()? {
            Some(lsn) => PendingCommit::up_to(self.db, lsn),
            None => PendingCommit::all(self.db),
        })
    }

    fn finish(&mut self) -> Result<Option<Lsn>> {
        self.committed = true;
        let db = self.db;
        if self.versions.is_changing() || db.check_failed().is_err() {
            // Pages are half changed, and no record says what they should become.
            db.failed.store(true, Ordering::SeqCst);
            self.versions.tear();
            return Err(failed_half_way());
        }
        if self.changed.is_empty() {
            return Ok(None);
        }
        self.end_entries();
        let writer = &mut *self.turn;
        // Its space was reserved. If this fails all the same, the trees have changed and the log has not.
        let appended = db.log_commit(writer, |writer| db.append_record(writer));
        let appended = appended.map_err(|error| db.broken(error)).map(Logged::applied);
        if appended.is_err() {
            writer.sequence += 1;
        }
        writer.shrink_record();
        publish_tables(Arc::make_mut(&mut self.versions), writer, &self.changed, self.epochs);
        for id in &self.changed {
            writer.reclaim(&db.registry, *id);
        }
        appended.map(Some)
    }
}

impl Drop for LatchedWrite<'_> {
    fn drop(&mut self) {
        if !self.committed {
            // The changes are in the trees: they become durable with the next durable commit. If this fails, the log is
            // poisoned and says so from now on.
            let _ = self.finish();
        }
    }
}
