//! The database as callers see it: its handle, its catalog, and ways to read and write it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::declaration::Declaration;
use crate::catalog::record;
use crate::error::{Error, ErrorKind, Result};
use crate::io;
use crate::latched::Latched;
use crate::log::Room;
use crate::maintenance::checkpoint_and_flush::{CheckpointInfo, Flusher};
use crate::options::{Durability, TableOptions};
use crate::state::pending_commit::{CommitPosition, PendingCommit};
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::table_handle::Table;
use crate::table::WriteBatch;
use crate::transactions::isolation::Isolation;
use crate::transactions::transaction::Transaction;
use crate::write::create_table::check_name;

/// An open database. A cheap handle: clones refer to the same database, which closes with the last of its handles,
/// tables and snapshots.
///
/// It belongs to the process that opened it. In one that was forked from that, whatever reads or writes is refused, and
/// dropping it releases memory and touches no file.
///
/// ```
/// # fn main() -> quipu::Result<()> {
/// use quipu::{Db, Options, ReadableTable, WritableTable};
/// # let options = Options::without_files();
/// let db = Db::open("/data/shop", options)?;
/// let orders = db.ensure_table("orders")?;
/// db.write(|tx| {
///     let orders = tx.table(&orders)?;
///     for number in 0..1000u32 {
///         orders.insert(number.to_be_bytes(), "open")?;
///     }
///     assert_eq!(orders.count(&250u32.to_be_bytes()..&750u32.to_be_bytes())?, 500);
///     Ok(())
/// })?;
/// assert_eq!(orders.rank(500u32.to_be_bytes())?, 500);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
    pub(crate) _handle: Arc<Handle>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("dir", &self.shared.files.dir()).finish_non_exhaustive()
    }
}

/// Stops the background threads when the last `Db` is dropped.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        self.shared.background.stop();
    }
}

impl Db {
    /// The table called `name`. If there is none, creates one that counts only rows.
    ///
    /// A name that is mistyped makes a table: see [`Db::table`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the name is empty or longer than 256 bytes, and those of a commit.
    pub fn ensure_table(&self, name: &str) -> Result<Table> {
        match self.open_table(name)? {
            Some(table) => Ok(table),
            None => match self.create_table(name, TableOptions::default()) {
                Err(error) if error.kind() == ErrorKind::Exists => {
                    self.open_table(name)?.ok_or_else(|| missing_table(name))
                }
                result => result,
            },
        }
    }

    /// The table called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if there is none: [`Db::ensure_table`] creates it.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.open_table(name)?.ok_or_else(|| missing_table(name))
    }

    /// The table called `name`, if there is one.
    pub fn open_table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let versions = self.shared.versions.read();
        versions.check()?;
        Ok(versions.by_name(name).map(|table| self.table_of(table.declaration.clone())))
    }

    fn table_of(&self, declaration: Arc<Declaration>) -> Table {
        Table { shared: self.shared.clone(), declaration }
    }

    /// Creates a table.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is a table of that name.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.shared.create_table(name, options, Room::Common)
    }

    /// Drops the table called `name` with all its rows. Returns whether there was one. Earlier snapshots still see it.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        let shared = &self.shared;
        let mut turn = shared.writer()?;
        let writer = &mut *turn;
        let Some(id) = writer
            .tables
            .iter()
            .flatten()
            .find(|trees| trees.declaration.name == name)
            .map(|trees| trees.declaration.id)
        else {
            return Ok(false);
        };
        writer.record.clear();
        record::put_drop_table(&mut writer.record, id);
        shared.commit_catalog(turn, Room::Kept, |writer, published, epochs| {
            published.tables[id as usize] = None;
            if let Some(trees) = writer.tables[id as usize].take() {
                writer.dropped.push((epochs.epoch, trees));
            }
        })?;
        Ok(true)
    }

    /// All tables, by name.
    pub fn tables(&self) -> Vec<Table> {
        let versions = self.shared.versions.read();
        let by_name: BTreeMap<&str, _> =
            versions.tables.iter().flatten().map(|table| (&*table.declaration.name, &table.declaration)).collect();
        by_name.into_values().map(|declaration| self.table_of(declaration.clone())).collect()
    }

    /// The database under its latch, for servers: reads of what is now, and writes in place.
    pub fn latched(&self) -> Latched<'_> {
        Latched { db: self }
    }

    /// All tables at this moment. O(1), whatever their size.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.shared)
    }

    /// Runs `work` as the single writer and commits what it did. Its reads and writes never conflict. If it fails,
    /// everything it did is rolled back and its error returned. Other writers wait meanwhile, readers do not.
    pub fn write<T>(&self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.shared.write(self.shared.durability.get(), work)
    }

    /// Like [`Db::write`], with this durability.
    pub fn write_with<T>(&self, durability: Durability, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.shared.write(durability, work)
    }

    /// Like [`Db::write_with`], and begins on a full disk too, where memory cannot be freed by writing rows out: there
    /// it can read, remove rows, and put those that serve to free space
    /// ([`write_to_free`](crate::TableTransaction::write_to_free)).
    ///
    /// # Errors
    /// Those of [`Db::write_with`]; [`ErrorKind::Full`] if it makes the database grow and there is no space.
    pub fn write_to_free<T>(&self, durability: Durability, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.shared.write_at_once(durability, work)
    }

    /// Begins an optimistic transaction, for work that waits for something. Others write meanwhile; if one of their
    /// commits changes what this transaction has read, its own commit fails with [`ErrorKind::Conflict`].
    pub fn begin(&self) -> Transaction {
        self.begin_with(Isolation::Serializable)
    }

    /// Like [`Db::begin`], with this isolation.
    pub fn begin_with(&self, isolation: Isolation) -> Transaction {
        Transaction::optimistic(&self.shared, isolation)
    }

    /// Like [`Db::begin_with`], at a snapshot: the transaction reads what was there then, and its commit fails if what
    /// it has read has changed since.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the snapshot is of another database.
    pub fn begin_at(&self, snapshot: &Snapshot, isolation: Isolation) -> Result<Transaction> {
        if !Arc::ptr_eq(&self.shared, &snapshot.shared) {
            return Err(Error::new(ErrorKind::Invalid, "the snapshot is of another database"));
        }
        Ok(Transaction::at(snapshot, isolation))
    }

    /// Runs `work` in an optimistic transaction and commits it. After a conflict it is run again, `attempts` times in
    /// all, and then as the single writer, which meets no conflict. So it succeeds in the end, however much others
    /// write.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let stock = db.ensure_table("stock")?;
    /// stock.put("apples", "3")?;
    /// let is_sold = db.retry(3, |transaction| {
    ///     let stock = transaction.table(&stock)?;
    ///     Ok(stock.get("apples")?.is_some() && stock.remove("apples")?)
    /// })?;
    /// assert!(is_sold);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work` but [`ErrorKind::Conflict`], and those of a commit.
    pub fn retry<T>(&self, attempts: u32, mut work: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        for _ in 0..attempts {
            let transaction = self.begin();
            match work(&transaction).and_then(|result| transaction.commit().map(|_| result)) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                result => return result,
            }
        }
        self.write(work)
    }

    /// Applies a batch as one commit.
    pub fn apply(&self, batch: WriteBatch) -> Result<()> {
        self.apply_with(self.shared.durability.get(), batch)
    }

    /// Like [`Db::apply`], with this durability.
    pub fn apply_with(&self, durability: Durability, batch: WriteBatch) -> Result<()> {
        use crate::write::writable::WritableTable;
        self.shared.write(durability, |transaction| {
            // Ids are of one database: a table of another one may have the same.
            for (table, rows) in batch.groups() {
                let table = transaction.table(table)?;
                // The leaves of many keys are fetched together, so that the writes find them in the cache.
                let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| *key).collect();
                table.warm(&keys)?;
                for (key, value) in rows {
                    match value {
                        Some(value) => table.put(key, value)?,
                        None => table.delete(key)?,
                    }
                }
            }
            Ok(())
        })
    }

    /// Changes [`Options::memtable_bytes`](crate::Options::memtable_bytes) until the database is closed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if that is less than 64 pages and not 0.
    pub fn set_memtable_bytes(&self, bytes: u64) -> Result<()> {
        self.shared.set_memtable_bytes(bytes)
    }

    /// Bytes of pages of runs that may be kept in memory.
    pub fn cache_bytes_max(&self) -> u64 {
        self.shared.cache.bytes_max()
    }

    /// Changes [`Options::cache_bytes`](crate::Options::cache_bytes) until the database is closed. Inner pages that
    /// were kept or pinned in a larger cache stay until their files are replaced.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.shared.cache.resize(bytes);
    }

    /// The durability of commits that do not choose their own.
    pub fn durability(&self) -> Durability {
        self.shared.durability.get()
    }

    /// Changes [`Options::durability`](crate::Options::durability), for commits from now on.
    pub fn set_durability(&self, durability: Durability) {
        self.shared.durability.set(durability);
    }

    /// Writes an image of all tables. A restart then reads only that image and the log from here on. Writes go on
    /// meanwhile.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        Flusher::of(&self.shared).checkpoint(&mut |_| ())
    }

    /// All commits so far, to wait for.
    pub fn pending_commits(&self) -> PendingCommit<'_> {
        PendingCommit::all(&self.shared)
    }

    /// The commits up to a place that [`PendingCommit::position`] has told, to wait for.
    pub fn commits_up_to(&self, position: CommitPosition) -> PendingCommit<'_> {
        PendingCommit::at(&self.shared, position)
    }

    /// Returns when every commit so far is on stable storage.
    pub fn sync(&self) -> Result<()> {
        self.shared.process.check()?;
        let log = self.shared.log()?;
        log.sync(log.end_lsn())
    }

    /// Syncs the log and releases the database, which closes when the last handle, table and snapshot is gone. Dropping
    /// it does the same, but ignores errors.
    ///
    /// # Errors
    /// Those of a sync. In a process that was forked from that of the database, [`ErrorKind::Invalid`]: its memory is
    /// released there, and nothing else.
    pub fn close(self) -> Result<()> {
        self.shared.process.check()?;
        if self.shared.log.is_some() { self.sync() } else { Ok(()) }
    }

    /// A file for what does not fit into memory while something is computed: sorted parts of rows, for instance. It is
    /// in the directory of the database and has no name there, so its bytes are gone as soon as it is dropped, or the
    /// process ends. They count for nothing that the database tells of itself.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`], and those of the disk.
    pub fn temporary_file(&self) -> Result<Box<dyn io::File>> {
        self.shared.process.check()?;
        self.shared.log()?;
        self.shared.files.temporary()
    }

    /// The value of type `T` that a layer above keeps with this open database, the same for all its handles. `make`
    /// makes it the first time; it must not use the database. The value must not hold a handle of the database, which
    /// would never close then.
    pub fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.shared.attachments.get(make)
    }

    /// The damage that a read-only open found in the log: see [`Options::read_only`](crate::Options::read_only).
    pub fn damage(&self) -> Option<&str> {
        self.shared.damage.as_deref()
    }
}

#[cold]
pub(crate) fn missing_table(name: &str) -> Error {
    Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))
}

#[cfg(feature = "shuttle")]
impl Db {
    /// Does one round of the background threads' work, for tests that choose interleavings.
    #[doc(hidden)]
    pub fn do_due_work(&self, is_at_rest: bool) {
        crate::maintenance::background::do_round(&self.shared);
        crate::maintenance::compaction::Merger::of(&self.shared).merge_if_due(is_at_rest);
    }
}
