//! Tables: maintenance calls, and reads and writes outside of transactions.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::cache::{Missing, PageFaults, ReadPages};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::maintenance::compaction::Merger;
use crate::maintenance::layers::LayerChanges;
use crate::maintenance::resolve::Resolver;
use crate::options::{Durability, RunLayout};
use crate::progress::Progress;
use crate::read::entry::Entry;
use crate::read::reader::{Fill, Reader};
use crate::read::table_stack::{Source, TableStack, of_trees, stack_in_memory};
use crate::state::snapshot::Snapshot;
use crate::state::table_handle::Table;
use crate::transactions::table_transaction::TableTransaction;
use crate::tree::{When, Written};
use crate::write::writable::{WritableTable, exists, missing};

impl Table {
    /// Freezes the layer of rows written so far, under a new one that takes later writes. No answer changes.
    /// [`Table::thaw`] merges layers, and so does a restart.
    #[doc(hidden)]
    pub fn freeze(&self) -> Result<()> {
        LayerChanges::of(&self.shared).freeze(&self.shared.files, self.id())
    }

    /// Merges all frozen layers into one. No answer changes.
    #[doc(hidden)]
    pub fn thaw(&self) -> Result<()> {
        LayerChanges::of(&self.shared).thaw(&self.shared.files, self.id())
    }

    /// Writes the rows in memory to a run on disk, whose pages are then read when needed. This happens by itself as
    /// memory fills ([`Options::memtable_bytes`](crate::Options)). No answer changes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table is declared to stay in memory, and errors of the disk: then nothing is
    /// changed.
    pub fn flush(&self) -> Result<()> {
        if self.options().in_memory {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("table {:?} is declared to stay in memory", self.name()),
            ));
        }
        Flusher::of(&self.shared).flush(self.id()).map(|_| ())
    }

    /// Merges all runs of the table into one, so that it has no more files and no more bytes than its rows need. Runs
    /// are merged by themselves when there are many. No answer changes.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the last [`Db`](crate::Db) goes meanwhile, and what the disk says: then nothing is
    /// changed.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&mut |_| ())
    }

    /// Like [`Table::compact`], reporting to `progress`.
    ///
    /// # Errors
    /// Those of [`Table::compact`].
    pub fn compact_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        Merger::of(&self.shared).merge_table(self.id(), progress)
    }

    /// Rewrites all rows of the table into one new run, even if there is only one, so that none is left in an older
    /// format or in another layout. Later runs have this layout too; older handles still return the old
    /// [options](Table::options). A table in memory stays there, and gets a new image. No answer changes.
    ///
    /// # Errors
    /// As [`Table::compact`], but the layout may be declared already: no row is lost, and the runs may be those of
    /// before.
    pub fn rewrite(&self, layout: RunLayout, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        Merger::of(&self.shared).rewrite(&Flusher::of(&self.shared), self.id(), layout, progress)
    }

    /// Looks up whether the keys of unresolved writes to a [`blind`](crate::TableOptions::blind_writes) table were
    /// live, in a range. Later counts of the range need not do so, and bounds of them are exact. Returns how many keys
    /// were looked up. This happens by itself when there are many, and before they are written to a run. No answer
    /// changes.
    ///
    /// # Errors
    /// Those of reading a page of a run; [`ErrorKind::Full`] if there is no memory to move the entries. What was
    /// resolved before the error stays so.
    pub fn resolve_blind_writes<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        Resolver::of(&self.shared).resolve(self.id(), &bounds.into())
    }

    /// Adds a key to what is loaded for a latched read or write that will look it up in this table: so all pages on the
    /// way to it are there at its next attempt.
    pub fn expect_key(&self, key: impl AsRef<[u8]>, faults: &mut PageFaults) {
        faults.add_key(self.id(), key.as_ref());
    }

    /// Whether the table has rows in runs: only then a latched read or write may lack a page of it.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`](crate::ErrorKind::Missing) if the table was dropped.
    pub fn has_runs(&self) -> Result<bool> {
        Ok(!self.shared.versions.read().table(self.id())?.runs.is_empty())
    }

    fn write_one(&self, key: &[u8], value: Option<&[u8]>, when: When) -> Result<Written> {
        self.shared.write_one(self.id(), key, value, when, self.durability())
    }

    /// Runs `work` on this table as the single writer, and commits what it did.
    fn write_in_turn<T>(&self, work: impl FnOnce(&TableTransaction<'_>) -> Result<T>) -> Result<T> {
        self.shared.write(self.durability(), |transaction| work(&transaction.table(self)?))
    }

    fn durability(&self) -> Durability {
        self.shared.durability.get()
    }
}

impl Reader for Table {
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        // From a snapshot, not under the latch: the work may be long, and its closure may write to the table.
        let snapshot = Snapshot::take(&self.shared);
        work(&self.shared.source(snapshot.versions.table(self.id())?))
    }

    #[inline]
    fn ask<R>(&self, mut question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>) -> Result<R> {
        // Under the latch: commits in place wait for the answer, which takes one descent or one batch of them.
        let pages;
        {
            let versions = self.shared.versions.read();
            let version = versions.table(self.id())?;
            if version.runs.is_empty() {
                let measures = version.declaration.options.measures;
                return Ok(of_trees(question(&stack_in_memory(version.views(&self.shared.arena), measures))));
            }
            pages = ReadPages::new(&self.shared.cache);
            if let Ok(answer) = question(&version.stack(&self.shared.arena, &pages)) {
                return Ok(answer);
            }
        }
        // No thread waits for a file under the latch.
        pages.load()?;
        let snapshot = Snapshot::take_briefly(&self.shared);
        let stack = snapshot.versions.table(self.id())?.stack(&self.shared.arena, &pages);
        pages.answer(|| question(&stack))
    }

    #[inline]
    fn ask_exact<R>(
        &self,
        bounds: &Bounds<'_>,
        question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>,
    ) -> Result<R> {
        if !self.options().blind_writes {
            return self.ask(question);
        }
        self.read_from(|source| source.exact(bounds.start(), bounds.end(), |source| source.ask(question)))
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self.snapshot_unchecked())
    }
}

impl WritableTable for Table {
    fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        match self.write_one(key.as_ref(), Some(value.as_ref()), When::Absent)? {
            Written::Nothing => Err(exists()),
            _ => Ok(()),
        }
    }

    fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(key.as_ref(), Some(value.as_ref()), When::Always).map(|_| ())
    }

    fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        match self.write_one(key.as_ref(), Some(value.as_ref()), When::Present)? {
            Written::Nothing => Err(missing()),
            _ => Ok(()),
        }
    }

    fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.write_one(key.as_ref(), None, When::Present)? == Written::Removed)
    }

    fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(key.as_ref(), None, When::Always).map(|_| ())
    }

    fn remove_range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        self.shared.remove_range(self, &bounds.into(), self.durability())
    }

    fn pop_first(&self) -> Result<Option<Entry>> {
        self.write_in_turn(|table| table.pop_first())
    }

    fn pop_last(&self) -> Result<Option<Entry>> {
        self.write_in_turn(|table| table.pop_last())
    }

    fn update(&self, key: impl AsRef<[u8]>, change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        self.write_in_turn(|table| table.update(key, change))
    }

    fn retain<'b>(&self, bounds: impl Into<Bounds<'b>>, keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        self.write_in_turn(|table| table.retain(bounds, keep))
    }
}

/// Writes to apply as one commit, without reading.
#[derive(Default, Debug)]
pub struct WriteBatch {
    /// Those that are written to, in the order of their first writes; one may stand here twice.
    tables: Vec<Table>,
    writes: Vec<BatchedWrite>,
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
}

/// The key of a write, and its value; none of a removal.
pub(crate) type BatchedRow<'b> = (&'b [u8], Option<&'b [u8]>);

/// A write of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchedWrite {
    /// Its number among the tables.
    table: usize,
    /// Where in the bytes the key begins and ends.
    key: (usize, usize),
    /// Where the value ends, which begins after the key; none of a removal.
    value_end: Option<usize>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// Adds a put of a row, whether or not the key exists.
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(table, key.as_ref(), Some(value.as_ref()));
    }

    /// Adds the removal of a row, whether or not the key exists.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) {
        self.push(table, key.as_ref(), None);
    }

    fn push(&mut self, table: &Table, key: &[u8], value: Option<&[u8]>) {
        if !self.tables.last().is_some_and(|last| is_same(last, table)) {
            self.tables.push(table.clone());
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_end = value.map(|_| self.bytes.len());
        self.writes.push(BatchedWrite { table: self.tables.len() - 1, key: (start, key_end), value_end });
    }

    /// The writes to one table after the other, in order: of each its key and value.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Table, Vec<BatchedRow<'_>>)> {
        self.writes.chunk_by(|a, b| a.table == b.table).map(|group| {
            let row = |write: &BatchedWrite| {
                let (start, end) = write.key;
                (&self.bytes[start..end], write.value_end.map(|value_end| &self.bytes[end..value_end]))
            };
            (&self.tables[group[0].table], group.iter().map(row).collect())
        })
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// Whether two handles are of one table. Ids are of one database: a table of another one may have the same.
fn is_same(one: &Table, other: &Table) -> bool {
    one.id() == other.id() && Arc::ptr_eq(&one.shared, &other.shared)
}
