//! A table: its handle, and reading and writing it outside of transactions.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::db::{Progress, Shared};
use crate::entry::Key;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Durability, RunIndex, TableOptions};
use crate::range::Fill;
use crate::read::Read;
use crate::run::{Missing, ReadPages};
use crate::snapshot::{Declaration, HeldTable, Snapshot, TableId};
use crate::source::{Source, TableStack, in_memory, stack_in_memory};
use crate::tree::{When, Written};

/// Writing rows. Over a [`Table`] each call is a commit of its own; in a transaction it is private until that commits.
pub trait Write: Read {
    /// Puts a row with a new key.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the key is live; nothing is changed then.
    fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Puts a row, whether there is one with the key or not.
    fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Puts a new value at a live key.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the key is dead; nothing is changed then.
    fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Removes a row. Returns whether there was one; of a [`blind`](TableOptions::blind) table, outside of transactions, whether there may have been one: it does not ask.
    fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool>;

    /// Removes all rows of a range. Returns how many there were.
    fn remove_range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64>;
}

/// A table of a database. A cheap handle: clones are the same table.
///
/// Reads see the last commit; each write is a commit with the database's durability. Group writes into [`Db::write`](crate::Db::write) where they belong together.
#[derive(Clone)]
pub struct Table {
    pub(crate) shared: Arc<Shared>,
    pub(crate) declaration: Arc<Declaration>,
}

impl Table {
    pub(crate) fn id(&self) -> TableId {
        self.declaration.id
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// How it was declared.
    pub fn options(&self) -> &TableOptions {
        &self.declaration.options
    }

    /// The application's note that was given when the table was created.
    pub fn annotation(&self) -> &[u8] {
        &self.declaration.options.annotation
    }

    /// Turns the rows written so far into a frozen layer, under a new one that takes the writes from now on. No answer changes. Layers are merged by
    /// [`Table::thaw`], and by a restart.
    #[doc(hidden)]
    pub fn freeze(&self) -> Result<()> {
        self.shared.freeze(self.id())
    }

    /// Merges all frozen layers into one. No answer changes.
    #[doc(hidden)]
    pub fn thaw(&self) -> Result<()> {
        self.shared.thaw(self.id())
    }

    /// Writes the rows that are in memory to a run on disk, below those written from now on, of which pages are read as they are needed. This happens by itself as memory
    /// fills ([`Options::memtable_bytes`](crate::Options)). No answer changes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table is declared resident, and what the disk says: then nothing is changed.
    pub fn flush(&self) -> Result<()> {
        if self.options().resident {
            return Err(Error::new(ErrorKind::Invalid, format!("table {:?} is declared resident", self.name())));
        }
        self.shared.flush(self.id()).map(|_| ())
    }

    /// Merges all runs of the table into one, so that it has no more files and no more bytes than its rows need. Runs are merged by themselves as they become many.
    /// No answer changes.
    ///
    /// # Errors
    /// What the disk says: then nothing is changed.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&mut |_| ())
    }

    /// As [`Table::compact`], and tells how far it is.
    ///
    /// # Errors
    /// As [`Table::compact`].
    pub fn compact_with(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.compact(self.id(), progress)
    }

    /// Writes all rows of the table into one new run, also where there is only one, so that none is left of an older format or with another index. Runs that are written
    /// later have this index too; handles from before still tell the [options](Table::options) of before. A table that is in memory stays there, and has a new image. No answer changes.
    ///
    /// # Errors
    /// What the disk says: then no row is lost, and the runs may be those of before.
    pub fn rewrite(&self, index: RunIndex, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.rewrite(self.id(), index, progress)
    }

    /// Asks for what the writes to a [`blind`](TableOptions::blind) table have not asked, of the keys of a range: whether they were live. So counts of the range need not ask
    /// for it, and bounds of them are exact. Returns how many keys these were. It happens by itself as they become many, and before they are written to a run. No
    /// answer changes.
    ///
    /// # Errors
    /// As reading a page of a run; [`ErrorKind::Full`] if there is no memory to move the entries. What was resolved by then stays so.
    pub fn resolve<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        self.shared.resolve(self.id(), &bounds.into())
    }

    fn write_one(&self, key: &[u8], value: Option<&[u8]>, when: When) -> Result<Written> {
        self.shared.write_one(self.id(), key, value, when, self.durability())
    }

    fn durability(&self) -> Durability {
        self.shared.options.durability
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Read for Table {
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        // From a snapshot and not under the latch: the work may be long, and a closure in it may write to the table.
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
                return Ok(in_memory(question(&stack_in_memory(version.views(&self.shared.arena), measures))));
            }
            pages = ReadPages::new(&self.shared.cache);
            if let Ok(answer) = question(&version.stack(&self.shared.arena, &pages)) {
                return Ok(answer);
            }
        }
        // Nobody waits under the latch for a file.
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
        if !self.options().blind {
            return self.ask(question);
        }
        self.read_from(|source| source.exact(bounds.start(), bounds.end(), |source| source.ask(question)))
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(HeldTable { snapshot: Snapshot::take(&self.shared), table: self.clone() })
    }
}

/// The error of an insert that met a live key.
#[cold]
pub(crate) fn exists() -> Error {
    Error::new(ErrorKind::Exists, "the key exists; use `put` to overwrite it or `replace` to insist that it exists")
}

/// The error of a replace that met no live key.
#[cold]
pub(crate) fn missing() -> Error {
    Error::new(ErrorKind::Missing, "there is no row with this key; use `insert` or `put`")
}

impl Write for Table {
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

    fn remove_range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        self.shared.remove_range(self, &bounds.into(), self.durability())
    }
}

/// Writes to be applied as one commit, without reading.
#[derive(Default, Debug)]
pub struct WriteBatch {
    pub(crate) writes: Vec<(Table, Key, Option<Vec<u8>>)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// Will put a row, whether there is one with the key or not.
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.writes.push((table.clone(), key.as_ref().into(), Some(value.as_ref().to_vec())));
    }

    /// Will remove a row, if there is one with the key.
    pub fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) {
        self.writes.push((table.clone(), key.as_ref().into(), None));
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
