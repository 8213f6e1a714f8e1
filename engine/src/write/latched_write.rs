//! Latched writes: many writes, made in place one after the other, that commit as one.
//!
//! Invariants:
//! 1. A latched write holds the writer's turn and the latch: no reader sees a part of it, and it reads what it
//!    has written.
//! 2. Everything that can fail (limits, memory, space in the log) comes before each change to a tree. What was changed
//!    is committed, whatever follows.
//! 3. The record of all changes is in the log before the latch is given back.
//! 4. Nothing waits for a file. Where a page of a run is missing, a question or a write fails with a page fault before
//!    it changes anything; the page is noted.
//!
//! While a latched write lives, its thread must not use the database otherwise: it would wait for itself.
//!
//! Cost: nothing is copied and there is no private layer, so a write costs what it costs in the bare tree, and its
//! bytes in the log; a savepoint costs a copy of what each write replaces. Readers wait: keep it well under a
//! millisecond. [`Db::write`] is for the rest.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::bounds::Bounds;
use crate::cache::{Missing, PageFaults, ReadPages};
use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Lsn, Room};
use crate::read::entry::Key;
use crate::read::readable::ReadableTable;
use crate::read::table_stack::{Stopped, page_fault};
use crate::state::ending::publish_tables;
use crate::state::latch::Latched;
use crate::state::layer_removal::{Planned, Removal};
use crate::state::logged::Logged;
use crate::state::pending_commit::PendingCommit;
use crate::state::publish::{dropped, republish, table_of};
use crate::state::shared::Shared;
use crate::state::snapshot::LendingView;
use crate::state::table_handle::Table;
use crate::state::versions::failed_half_way;
use crate::state::writer::{Epochs, Turn};
use crate::tree::{self, GROUP, Place, When, Written};
use crate::write::decision::Decision;
use crate::write::latched_savepoint::Changes;
use crate::write::removal_commit::{ROWS_MIN_WHEN_FULL, let_go_of};

/// The space in the log that a latched write reserves at a time, in bytes.
pub(crate) const LOG_STEP_BYTES: usize = 64 << 10;

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

/// A lack of space on the disk, as a write met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What the disk says.
    pub reason: String,
    /// Bytes that the log was to take; 0 if they are not known.
    pub bytes: usize,
}

impl Lack {
    /// The lack that an error tells of, when `bytes` were to be written; none if it is not for lack of space on the
    /// disk.
    pub fn of(error: &Error, bytes: usize) -> Option<Lack> {
        error.is_full_disk().then(|| Lack { reason: error.to_string(), bytes })
    }
}

/// What is known of a row before it is written.
enum Known<'p> {
    Nothing,
    /// Its place in the only tree.
    Place(&'p mut Place),
    /// Its value below the newest tree, if it is live there.
    Below(Option<&'p [u8]>),
}

/// What lies at many keys below the newest tree, looked up together.
struct Below {
    bytes: Vec<u8>,
    values: Vec<ValueBelow>,
}

#[derive(Clone, Copy)]
enum ValueBelow {
    Dead,
    /// Where in the bytes it begins and ends.
    Live(usize, usize),
    /// It is long: it is looked up again.
    Long,
}

impl Below {
    /// The longest value that is copied.
    const COPIED_BYTES_MAX: usize = 1 << 10;

    fn set(&mut self, number: usize, value: Option<&[u8]>) {
        self.values[number] = match value {
            None => ValueBelow::Dead,
            Some(value) if value.len() > Below::COPIED_BYTES_MAX => ValueBelow::Long,
            Some(value) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(value);
                ValueBelow::Live(start, self.bytes.len())
            }
        };
    }

    fn known(&self, number: usize) -> Known<'_> {
        match self.values[number] {
            ValueBelow::Dead => Known::Below(None),
            ValueBelow::Live(start, end) => Known::Below(Some(&self.bytes[start..end])),
            ValueBelow::Long => Known::Nothing,
        }
    }
}

/// Writes in place: see [`Latched::write`](crate::latched::Latched::write).
pub struct LatchedWrite<'db> {
    pub(crate) db: &'db Arc<Shared>,
    pub(crate) turn: Turn<'db>,
    /// The latch. Readers wait.
    pub(crate) versions: Latched<'db>,
    pub(super) epochs: Epochs,
    /// What its questions and writes have seen of runs, and what they lack.
    pages: ReadPages<'db>,
    /// Bytes reserved in the log: with [`Room::Kept`] also where only what frees space may go.
    log_room_bytes: usize,
    /// The group of entries being written: its table, where its count goes, and the count.
    pub(super) group: Option<(TableId, usize, u64)>,
    /// Tables that have changed.
    pub(super) changed: SmallVec<[TableId; 4]>,
    /// Tables whose changes were taken back: they have the same entries, in other pages perhaps.
    pub(super) taken_back: SmallVec<[TableId; 4]>,
    /// The ranges that were removed.
    pub(super) removed: Vec<(TableId, Removal)>,
    /// What was changed since the savepoint.
    pub(super) changes: Changes,
    /// The new value that an update's closure writes.
    value: Vec<u8>,
    places: Option<Box<[Place; GROUP]>>,
    /// Whether the write under way serves to free space.
    is_to_free: bool,
    /// The last lack of space that it met.
    lack: Option<Lack>,
    /// Whether a table has come to as many unresolved entries as are resolved in the background.
    pub(super) is_resolving_due: bool,
    committed: bool,
}

/// What becomes of a row, given its value: an action, and the new value of a put.
type Decide<'d, 'v> = dyn FnMut(Option<&[u8]>) -> (Action, &'v [u8]) + 'd;

impl<'db> LatchedWrite<'db> {
    /// See [`Latched::write_at_once`](crate::latched::Latched::write_at_once).
    pub(crate) fn begin(db: &'db Arc<Shared>, room: Room) -> Result<LatchedWrite<'db>> {
        let mut turn = db.writer()?;
        let log = db.log()?;
        let log_room_bytes = match room {
            Room::Common => log.check_kept().and_then(|()| log.reserve(LOG_STEP_BYTES, Room::Common))?,
            // A full disk is not asked before there is something to write.
            Room::Kept | Room::Rows => 0,
        };
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
            pages: ReadPages::without_waiting(&db.cache),
            log_room_bytes,
            group: None,
            changed: SmallVec::new(),
            taken_back: SmallVec::new(),
            removed: Vec::new(),
            changes: Changes::default(),
            value: Vec::new(),
            places: None,
            is_to_free: false,
            lack: None,
            is_resolving_due: false,
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
        self.reserve_log(bytes + writes * record::ENTRY_BYTES_MAX, Room::Common)?;
        let writer = &mut *self.turn;
        let trees = writer.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let pages = trees.layers[0].room_for(writes as u64, bytes as u64);
        db.check_room(writer, pages, true)
    }

    /// Why the disk had no space for the last write that was refused for that; none if none was.
    pub fn lack(&self) -> Option<&Lack> {
        self.lack.as_ref()
    }

    /// Like [`LatchedWrite::reserve`], for what frees space: removals, and [`LatchedWrite::put_to_free`].
    ///
    /// # Errors
    /// [`ErrorKind::Full`](crate::ErrorKind::Full), with nothing done.
    pub fn reserve_to_free(&mut self, table: &Table, writes: usize, bytes: usize) -> Result<()> {
        table.check_owner(self.db)?;
        self.reserve_log(bytes + writes * record::ENTRY_BYTES_MAX, Room::Kept)?;
        let trees = self.turn.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let pages = trees.layers[0].room_for(writes as u64, bytes as u64);
        self.db.check_room(&mut self.turn, pages, false)
    }

    /// A table as this latched write has left it.
    pub fn table(&self, table: &Table) -> Result<LendingView<'_>> {
        table.check_owner(self.db)?;
        let trees = self.turn.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        Ok(LendingView::latched(trees.source(&self.db.cache), &trees.declaration, &self.pages))
    }

    /// Whether a question or a write may lack a page: whether a table has runs.
    pub fn may_fault(&self) -> bool {
        self.turn.tables.iter().flatten().any(|trees| !trees.runs.is_empty())
    }

    /// Whether a question or a write lacked a page, of those that [`LatchedWrite::take_faults`] has not taken.
    #[inline]
    pub fn has_faults(&self) -> bool {
        self.pages.is_missing_any()
    }

    /// Moves the pages that were missing to `faults`.
    pub fn take_faults(&self, faults: &mut PageFaults) {
        faults.take_from(&self.pages);
    }

    /// Lends pages that were loaded to the questions and writes from here on.
    pub fn lend(&self, faults: &PageFaults) {
        faults.lend_to(&self.pages);
    }

    /// Bytes of the pages of runs that it holds: all that its questions and writes have seen.
    pub fn held_bytes(&self) -> u64 {
        self.pages.bytes()
    }

    /// Lets go of the pages that its questions and writes have seen.
    pub fn release(&mut self) {
        self.pages = ReadPages::without_waiting(&self.db.cache);
    }

    /// Puts a row, whether or not the key exists. Returns whether the key is new; for a
    /// [`blind`](crate::TableOptions::blind_writes) table, whether it is known to be.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, Some(value), When::Always)? == Written::Inserted)
    }

    /// Like [`LatchedWrite::put`], for a row that serves to free space, as one that says that another was removed. On a
    /// full disk it goes where removals go: keep it small, since the log has room for some megabytes of all that.
    pub fn put_to_free(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        self.is_to_free = true;
        let written = self.write(table, key, Some(value), When::Always);
        self.is_to_free = false;
        Ok(written? == Written::Inserted)
    }

    /// Puts a row if its key is new, and leaves a live key as it is. Returns whether the key was new.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, Some(value), When::Absent)? == Written::Inserted)
    }

    /// Removes a row. Returns whether there was one; for a blind table, whether there may have been.
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
        let (mut change, mut buffer) = (Some(change), Some(&mut value));
        let result = self.write_row(table.id(), key, Known::Nothing, &mut |old| {
            let (change, buffer) = change.take().zip(buffer.take()).expect("a row is decided once");
            buffer.clear();
            (change(old, buffer), buffer)
        });
        self.value = value;
        result.map(|_| ())
    }

    /// Does [`LatchedWrite::update`] for many rows, in order. Descents are interleaved, so that they wait for memory
    /// together. `change` also gets the index of the key.
    ///
    /// # Errors
    /// Those of an update, with the index of the key that failed: the rows before it are written, that row and those
    /// after it are not. A page fault comes before all, and all missing pages are noted.
    pub fn update_many(
        &mut self,
        table: &Table,
        keys: &[impl AsRef<[u8]>],
        mut change: impl FnMut(usize, Option<&[u8]>, &mut Vec<u8>) -> Action,
    ) -> std::result::Result<(), (usize, Error)> {
        table.check_owner(self.db).map_err(|error| (0, error))?;
        let id = table.id();
        let below = self.values_below(id, keys).map_err(|error| (0, error))?;
        let mut value = std::mem::take(&mut self.value);
        let mut places = self.places.take().unwrap_or_else(|| Box::new(std::array::from_fn(|_| Place::new())));
        let mut result = Ok(());
        'chunks: for (chunk, keys) in keys.chunks(GROUP).enumerate() {
            // A few keys gain nothing, and pages copied for a snapshot move.
            let together = keys.len() > 1 && self.epochs.protected == 0 && self.locate_many(id, keys, &mut places);
            for (number, key) in keys.iter().enumerate() {
                let known = match &below {
                    Some(below) => below.known(chunk * GROUP + number),
                    None if together => Known::Place(&mut places[number]),
                    None => Known::Nothing,
                };
                let mut buffer = Some(&mut value);
                let written = self.write_row(id, key.as_ref(), known, &mut |old| {
                    let buffer = buffer.take().expect("a row is decided once");
                    buffer.clear();
                    (change(chunk * GROUP + number, old, buffer), buffer)
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

    /// Looks up many keys of a table of several layers; `None` if it has just one tree.
    fn values_below(&self, id: TableId, keys: &[impl AsRef<[u8]>]) -> Result<Option<Below>> {
        let trees = self.turn.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        if trees.is_single() {
            return Ok(None);
        }
        let mut below = Below { bytes: Vec::new(), values: vec![ValueBelow::Dead; keys.len()] };
        // An entry that goes from the newest tree was over nothing: so below those that are there now, all is dead.
        let mut is_newest = vec![false; keys.len()];
        for view in trees.newest_views() {
            tree::get_many(&view, keys, |number, found| is_newest[number] |= found.is_some());
        }
        let (numbers, left): (Vec<usize>, Vec<&[u8]>) =
            keys.iter().map(AsRef::as_ref).enumerate().filter(|(number, _)| !is_newest[*number]).unzip();
        let values = trees.stack_below_newest(&self.pages).get_many(&left).map_err(|Missing| page_fault())?;
        numbers.into_iter().zip(values).for_each(|(number, value)| below.set(number, value));
        Ok(Some(below))
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
        if let Some(written) = self.write_blind(table.id(), key, value, when)? {
            return Ok(written);
        }
        self.write_row(table.id(), key, Known::Nothing, &mut |old| match (when.allows(old.is_some()), value) {
            (false, _) => (Action::Keep, &[]),
            (true, None) => (Action::Remove, &[]),
            (true, Some(value)) => (Action::Put, value),
        })
    }

    /// Decides one write by the existing row, records it and makes it. `change` is asked once; it is no type parameter,
    /// since all of this would be compiled again for each caller.
    fn write_row<'v>(
        &mut self,
        id: TableId,
        key: &[u8],
        known: Known<'_>,
        change: &mut Decide<'_, 'v>,
    ) -> Result<Written> {
        self.versions.set_changing(true);
        let written = self.write_row_in_place(id, key, known, change);
        self.versions.set_changing(false);
        written
    }

    #[inline]
    fn write_row_in_place<'v>(
        &mut self,
        id: TableId,
        key: &[u8],
        known: Known<'_>,
        change: &mut Decide<'_, 'v>,
    ) -> Result<Written> {
        let db = self.db;
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        let measures = trees.declaration.options.measures;
        db.check_row(key, None)?;
        let mut own_place = None;
        let (mut place, below) = match (trees.single(), known) {
            (Some(bottom), Known::Place(place)) => {
                bottom.locate_again(place, key)?;
                (Some(place), None)
            }
            (Some(bottom), _) => (Some(own_place.insert(bottom.locate(key)?)), None),
            (None, Known::Below(value)) => (None, Some(value)),
            (None, _) => (None, None),
        };
        let (value, decision) = {
            let old = match (&place, below) {
                (Some(place), _) => place.found.then(|| trees.layers[0].value_at(place)),
                (None, Some(below)) => trees.newest_in_memory(key).unwrap_or(below),
                (None, None) => trees.stack(&self.pages).get(key).map_err(|Missing| page_fault())?,
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
        let top = &mut trees.layers[0];
        self.epochs.open(top);
        let pages = top.room_for(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.begin_entry(id, key, value, pages)?;
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        if trees.unresolved_at(key).is_some() {
            // What lies below it is as unknown as before.
            self.lay_over(id, key, value)?;
            return Ok(decision.written());
        }
        decision.record(&mut writer.record, key, value, &measures);
        decision.apply(&mut trees.layers[0], place.take(), key, value).map_err(|error| db.health.broken(error))?;
        Ok(decision.written())
    }

    /// Makes room for an entry that may need so many pages, and notes for the savepoint what it replaces.
    #[inline]
    pub(super) fn begin_entry(&mut self, id: TableId, key: &[u8], value: Option<&[u8]>, mut pages: u64) -> Result<()> {
        let db = self.db;
        let writer = &mut *self.turn;
        if self.changes.is_set() {
            let trees = writer.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
            self.changes.note(trees, key);
            pages += self.changes.room_pages(db.options.page_bytes);
        }
        let room = match value {
            None => Room::Rows,
            Some(_) if self.is_to_free => Room::Kept,
            Some(_) => Room::Common,
        };
        db.check_room(writer, pages, room == Room::Common)?;
        self.begin_entries(id, key.len() + value.map_or(0, <[u8]>::len), room)
    }

    /// Makes room in the log for an entry, and starts a group of entries of the table unless one is open.
    #[inline]
    fn begin_entries(&mut self, id: TableId, bytes: usize, room: Room) -> Result<()> {
        self.reserve_log(bytes + record::ENTRY_BYTES_MAX, room)?;
        match &mut self.group {
            Some((table, _, count)) if *table == id => *count += 1,
            _ => {
                self.end_entries();
                let at = record::put_open_entries_header(&mut self.turn.record, id);
                self.group = Some((id, at, 1));
                note_changed(&mut self.changed, id);
            }
        }
        Ok(())
    }

    #[inline]
    fn reserve_log(&mut self, bytes: usize, room: Room) -> Result<()> {
        let needed = self.turn.record.len() + bytes + 64;
        if needed > self.log_room_bytes { self.reserve_more(needed, room) } else { Ok(()) }
    }

    #[cold]
    fn reserve_more(&mut self, needed: usize, room: Room) -> Result<()> {
        let log = self.db.log()?;
        self.log_room_bytes = match log.reserve(needed + LOG_STEP_BYTES, room) {
            // There may be space for this much, and no more.
            Err(error) if error.kind() == ErrorKind::Full => log.reserve(needed, room).inspect_err(|error| {
                if room == Room::Common {
                    self.lack = Lack::of(error, needed);
                }
            })?,
            reserved => reserved?,
        };
        Ok(())
    }

    fn end_entries(&mut self) {
        if let Some((_, at, count)) = self.group.take() {
            record::set_entry_count(&mut self.turn.record, at, count);
        }
    }

    /// Removes all rows of a range. Returns how many there were. One step for each leaf in memory; of runs it takes the
    /// pages at the ends of the range, unless it has few rows there: then a write for each.
    pub fn remove_range<'b>(&mut self, table: &Table, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        table.check_owner(self.db)?;
        let (db, id, bounds) = (self.db, table.id(), bounds.into());
        let plan = |latched: &Self, rows_min| {
            let trees = latched.turn.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
            trees.plan_removal(&bounds, rows_min, &latched.pages).map_err(|stopped| match stopped {
                Stopped::Missing => page_fault(),
                Stopped::Failed(error) => error,
            })
        };
        let mut planned = plan(self, db.options.excised_rows_min)?;
        if matches!(planned, Planned::OneByOne) {
            match self.remove_one_by_one(table, &bounds) {
                Err(error) if error.kind() == ErrorKind::Full => planned = plan(self, ROWS_MIN_WHEN_FULL)?,
                removed => return removed,
            }
        }
        let removal = match planned {
            Planned::Range(removal) => removal,
            Planned::Nothing | Planned::OneByOne => return Ok(0),
        };
        let trees = self.turn.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let (low, high) = (removal.low.as_deref(), removal.high.as_deref());
        let pages = trees.room_to_remove();
        if self.changes.is_set() && !removal.is_of_all() {
            self.changes.note_range(trees, &removal);
        }
        self.reserve_log(low.map_or(0, <[u8]>::len) + high.map_or(0, <[u8]>::len) + 64, Room::Kept)?;
        let writer = &mut *self.turn;
        db.check_room(writer, pages + self.changes.room_pages(db.options.page_bytes), false)?;
        self.end_entries();
        note_changed(&mut self.changed, id);
        let writer = &mut *self.turn;
        record::put_remove_range(&mut writer.record, id, low, high, removal.rows);
        self.versions.set_changing(true);
        let removed = table_of(writer, id).and_then(|trees| {
            if self.changes.is_set() && removal.is_of_all() {
                self.changes.note_all(trees, &removal, self.epochs);
            }
            trees.remove(&removal, self.epochs)
        });
        removed.map_err(|error| db.health.broken(error))?;
        self.versions.set_changing(false);
        let rows = removal.rows;
        self.removed.push((id, removal));
        Ok(rows)
    }

    /// Removes the rows of a range, each of which takes a tombstone. All that can fail comes before the first: memory
    /// and the log have room for all, and so has what is noted for a savepoint; what lies below is looked up for all.
    fn remove_one_by_one(&mut self, table: &Table, bounds: &Bounds<'_>) -> Result<u64> {
        let mut keys = Vec::new();
        let (mut key_bytes, mut value_bytes) = (0, 0);
        self.table(table)?.for_each(bounds, |key, value| {
            keys.push(Key::from(key));
            key_bytes += key.len();
            value_bytes += value.len();
            true
        })?;
        self.reserve_log(key_bytes + keys.len() * record::ENTRY_BYTES_MAX, Room::Rows)?;
        let trees = self.turn.tables.get(table.id() as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let mut pages = trees.layers[0].room_for(keys.len() as u64, key_bytes as u64);
        if self.changes.is_set() {
            pages += self.changes.room_pages_for(keys.len(), key_bytes + value_bytes, self.db.options.page_bytes);
        }
        self.db.check_room(&mut self.turn, pages, false)?;
        self.update_many(table, &keys, |_, _, _| Action::Remove).map_err(|(_, error)| error)?;
        Ok(keys.len() as u64)
    }

    /// Makes the changes visible as one commit. To make durable what it read and wrote, wait for the result.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned) if the log failed meanwhile; then reopen the database.
    pub fn commit(mut self) -> Result<PendingCommit<'db>> {
        let (db, is_resolving_due) = (self.db, self.is_resolving_due);
        let finished = self.finish();
        drop(self);
        if is_resolving_due {
            db.background.wake();
        }
        // Without a change, what it has read may still be on its way to the disk.
        Ok(match finished? {
            Some(lsn) => PendingCommit::up_to(db, lsn),
            None => PendingCommit::all(db),
        })
    }

    fn finish(&mut self) -> Result<Option<Lsn>> {
        self.committed = true;
        let db = self.db;
        db.process.check()?;
        // Not needed any more, whether the changes stay or cannot be used any more.
        self.forget_changes();
        if self.versions.is_changing() || db.health.has_failed() {
            // Pages are half changed, and no record says what they should become.
            let failed = db.health.fail(failed_half_way());
            self.versions.tear();
            return Err(failed);
        }
        let writer = &mut *self.turn;
        for id in self.taken_back.iter().filter(|id| !self.changed.contains(id)) {
            if let Some(Some(trees)) = writer.tables.get_mut(*id as usize) {
                republish(Arc::make_mut(&mut self.versions), trees, self.epochs.epoch);
            }
            writer.reclaim(&db.registry, *id);
        }
        if self.changed.is_empty() {
            return Ok(None);
        }
        self.end_entries();
        let writer = &mut *self.turn;
        // Its space was reserved. If this fails all the same, the trees have changed and the log has not.
        let appended = db.log_commit(writer, |writer| db.append_record(writer, Room::Kept));
        let appended = appended.map_err(|error| db.health.broken(error)).map(Logged::applied);
        if appended.is_err() {
            writer.sequence += 1;
        }
        writer.shrink_record();
        self.end_removals();
        let writer = &mut *self.turn;
        publish_tables(Arc::make_mut(&mut self.versions), writer, &self.changed, self.epochs);
        for id in &self.changed {
            writer.reclaim(&db.registry, *id);
        }
        appended.map(Some)
    }
}

impl LatchedWrite<'_> {
    /// Does what follows the removal of ranges once no savepoint can take them back.
    fn end_removals(&mut self) {
        let writer = &mut *self.turn;
        let sequence = writer.sequence;
        for (id, removal) in self.removed.drain(..) {
            let Some(Some(trees)) = writer.tables.get_mut(id as usize) else { continue };
            trees.jobs.note(removal.low.as_deref(), removal.high.as_deref());
            trees.reset_if_empty(self.epochs, sequence);
            if let Ok(before) = self.versions.table(id) {
                let_go_of(&self.db.cache, &self.db.background, &before.runs, &trees.runs);
            }
        }
    }
}

fn note_changed(changed: &mut SmallVec<[TableId; 4]>, id: TableId) {
    if !changed.contains(&id) {
        changed.push(id);
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
