//! The database: its shared state, its handle, its catalog.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{CheckpointInfo, Checkpoints};
use crate::committed::Committed;
use crate::error::{Error, ErrorKind, Result};
use crate::failures::{FailedMerges, Failures};
use crate::io::Lock;
use crate::keeper::Keeper;
use crate::latch::Latch;
use crate::log::{Log, Lsn};
use crate::options::{Durability, Options, TableOptions};
use crate::record;
use crate::run::PageCache;
use crate::snapshot::{Declaration, Registry, Runs, Snapshot, TableId, TableVersion, Versions};
use crate::source::Source;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::table::{Table, WriteBatch};
use crate::transaction::Transaction;
use crate::tree::{Arena, Tree};
use crate::writer::{TableTrees, Turn, Writer, next_epoch, thread_number};

/// Bytes of the longest table name and of the longest annotation.
const NAME_BYTES_MAX: usize = 256;
const ANNOTATION_BYTES_MAX: usize = 1 << 20;
pub(crate) const TABLES_MAX: usize = 1 << 20;

/// How far opening, checking or a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in a word or two.
    pub stage: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What all handles of one open database share.
pub struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) arena: Arc<Arena>,
    /// Pages of runs, of all tables.
    pub(crate) cache: PageCache,
    /// The published version, under the latch.
    pub(crate) versions: Latch,
    pub(crate) registry: Registry,
    pub(crate) writer: Mutex<Writer>,
    /// The thread whose turn it is to write, as a number; 0 if none.
    pub(crate) writer_thread: AtomicU64,
    /// `None` if open read-only.
    pub(crate) log: Option<Log>,
    pub(crate) database_id: u64,
    /// A logged commit could not be applied. Set in the writer's turn.
    pub(crate) failed: AtomicBool,
    pub(crate) checkpoints: Checkpoints,
    /// The turn to merge runs, and which merges have failed.
    pub(crate) compacting: Mutex<FailedMerges>,
    /// What background work could not do.
    pub(crate) failures: Failures,
    /// The database is being closed: long work in the background is to end.
    pub(crate) stopping: AtomicBool,
    /// Whether memory for tables is short, so that writers see to it before they write.
    pub(crate) is_short: AtomicBool,
    pub(crate) keeper: Mutex<Option<Keeper>>,
    /// The position in the log from which the next commit wakes the keeper.
    pub(crate) keeper_wakes_at: AtomicU64,
    /// What a read-only open met in the log.
    pub(crate) damage: Option<String>,
    /// Held as long as the database is open.
    _lock: Option<Box<dyn Lock>>,
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "the parts that opening has put together, once")]
    pub(crate) fn new(
        dir: &Path,
        options: Options,
        arena: Arc<Arena>,
        tables: Vec<Option<TableTrees>>,
        sequence: u64,
        log: Option<Log>,
        database_id: u64,
        checkpoints: Checkpoints,
        damage: Option<String>,
        lock: Option<Box<dyn Lock>>,
    ) -> Shared {
        let versions = Versions {
            tables: tables
                .iter()
                .map(|trees| {
                    trees.as_ref().map(|trees| TableVersion {
                        declaration: trees.declaration.clone(),
                        layers: trees.layers.iter().map(Tree::version).collect(),
                        unresolved: trees.unresolved.as_ref().map(|tree| tree.version()),
                        runs: trees.runs.clone(),
                        sequence: trees.sequence,
                    })
                })
                .collect(),
            epoch: 1,
            sequence,
            is_torn: false,
        };
        Shared {
            dir: dir.to_path_buf(),
            cache: PageCache::new(options.cache_bytes),
            options,
            arena,
            versions: Latch::new(versions),
            registry: Registry::default(),
            writer: Mutex::new(Writer::new(tables, sequence)),
            writer_thread: AtomicU64::new(0),
            log,
            database_id,
            failed: AtomicBool::new(false),
            checkpoints,
            compacting: Mutex::default(),
            failures: Failures::default(),
            stopping: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            keeper: Mutex::new(None),
            keeper_wakes_at: AtomicU64::new(0),
            damage,
            _lock: lock,
        }
    }

    /// A version of a table, to read.
    #[inline]
    pub(crate) fn source<'a>(&'a self, version: &'a TableVersion) -> Source<'a> {
        version.source(&self.arena, &self.cache)
    }

    /// Waits for the writer's turn.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if this thread has it already, which would wait for ever; [`ErrorKind::ReadOnly`]; [`ErrorKind::Poisoned`] if what is in memory is
    /// not what the log says.
    #[inline]
    pub(crate) fn writer(&self) -> Result<Turn<'_>> {
        if self.log.is_none() {
            return Err(Error::new(ErrorKind::ReadOnly, "the database is open read-only; open it for writing"));
        }
        let number = self.refuse_in_own_turn()?;
        let turn = Turn::new(self.writer.lock(), &self.writer_thread, number);
        self.check_failed()?;
        Ok(turn)
    }

    /// Fails if it is this thread's turn to write. Returns the thread's number.
    #[inline]
    pub(crate) fn refuse_in_own_turn(&self) -> Result<u64> {
        let number = thread_number();
        if self.writer_thread.load(Ordering::Relaxed) == number {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a write inside the closure of `Db::write` must go through its transaction: this one would wait for itself",
            ));
        }
        Ok(number)
    }

    #[inline]
    pub(crate) fn log(&self) -> Result<&Log> {
        self.log.as_ref().ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the database is open read-only"))
    }

    /// Fails if a key or a value is too long.
    #[inline]
    pub(crate) fn check_row(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if key.len() > self.options.key_bytes_max
            || value.is_some_and(|value| value.len() > self.options.value_bytes_max)
        {
            return Err(self.too_long(key, value));
        }
        Ok(())
    }

    #[cold]
    fn too_long(&self, key: &[u8], value: Option<&[u8]>) -> Error {
        let (what, len, max) = if key.len() > self.options.key_bytes_max {
            ("key", key.len(), self.options.key_bytes_max)
        } else {
            ("value", value.map_or(0, <[u8]>::len), self.options.value_bytes_max)
        };
        Error::new(
            ErrorKind::Invalid,
            format!(
                "a {what} of {len} bytes is over the limit of {max}; shorten it, or raise `{what}_bytes_max` up to its maximum"
            ),
        )
    }

    /// Fails if the table is of another database.
    #[inline]
    pub(crate) fn check_owner(&self, table: &Table) -> Result<()> {
        if std::ptr::eq(self, &*table.shared) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, format!("table {:?} belongs to another open database", table.name())))
    }

    /// The log has grown by a segment, or by half of what a checkpoint waits for: the keeper has a file to make ready, or a checkpoint to take.
    #[cold]
    pub(crate) fn wake_keeper_for_log(&self, lsn: Lsn) {
        let segment = self.options.log_segment_bytes as u64;
        let mut step = match self.options.checkpoint_log_bytes {
            0 => segment,
            bytes => segment.min(bytes / 2),
        };
        if self.options.memtable_bytes > 0 {
            step = step.min(self.options.memtable_bytes / 16);
            self.note_memory();
        }
        self.keeper_wakes_at.store(lsn.0 + step, Ordering::Relaxed);
        self.has_woken_keeper();
    }

    /// Wakes the keeper, if there is one.
    pub(crate) fn has_woken_keeper(&self) -> bool {
        self.keeper.lock().as_ref().map(Keeper::wake).is_some()
    }

    pub(crate) fn wake_keeper(&self) {
        // Only snapshots that held something back are worth a wake-up; commits wake it as the log and memory grow.
        if self.registry.newest() == 0 && self.registry.take_held_back() {
            self.has_woken_keeper();
        }
    }

    /// Frees what ended snapshots held back, if the writer is idle.
    pub(crate) fn reclaim_if_idle(&self) {
        if let Ok(mut turn) = self.writer() {
            turn.reclaim_all(&self.registry);
        }
    }
}

/// An open database. A cheap handle: clones are the same database, which closes with the last of its handles, tables and snapshots.
///
/// ```
/// # fn main() -> quipu::Result<()> {
/// use quipu::{Db, Options, Read, Write};
/// # let options = Options::in_memory();
/// let db = Db::open("/data/shop", options)?;
/// let orders = db.table("orders")?;
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
        f.debug_struct("Db").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

/// Stops the keeper when the last `Db` goes.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let keeper = self.shared.keeper.lock().take();
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        self.shared.stopping.store(false, Ordering::SeqCst);
    }
}

impl Db {
    /// The table called `name`; created, counting only rows, if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the name is empty or longer than 256 bytes, and the errors of a commit.
    pub fn table(&self, name: &str) -> Result<Table> {
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

    /// The table called `name`, if there is one.
    pub fn open_table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let versions = self.shared.versions.read();
        Ok(versions.by_name(name).map(|table| self.table_of(table.declaration.clone())))
    }

    fn table_of(&self, declaration: Arc<Declaration>) -> Table {
        Table { shared: self.shared.clone(), declaration }
    }

    /// Creates a table.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is one of that name.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        check_name(name)?;
        if options.annotation.len() > ANNOTATION_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "an annotation of {} bytes is over the limit of {ANNOTATION_BYTES_MAX}",
                    options.annotation.len()
                ),
            ));
        }
        let shared = &self.shared;
        let mut turn = shared.writer()?;
        let writer = &mut *turn;
        if writer.tables.iter().flatten().any(|trees| trees.declaration.name == name) {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("a table {name:?} exists; open it or choose another name"),
            ));
        }
        if writer.tables.len() >= TABLES_MAX {
            return Err(Error::new(ErrorKind::Invalid, format!("a database can have {TABLES_MAX} tables in its life")));
        }
        let id = writer.tables.len() as TableId;
        writer.record.clear();
        record::put_create_table(&mut writer.record, id, name, &options);
        let logged = shared.append_record(writer)?;
        let declaration = Arc::new(Declaration { id, name: name.to_owned(), options });
        let tree = Tree::new(shared.arena.clone(), declaration.options.measures, true);
        let trees = TableTrees::new(declaration.clone(), tree, writer.sequence);
        {
            let mut versions = shared.versions.write();
            let published = Arc::make_mut(&mut versions);
            published.sequence = writer.sequence;
            published.tables.push(Some(TableVersion {
                declaration: declaration.clone(),
                layers: trees.layers.iter().map(Tree::version).collect(),
                unresolved: None,
                runs: Runs::default(),
                sequence: writer.sequence,
            }));
        }
        writer.tables.push(Some(trees));
        let lsn = logged.applied();
        drop(turn);
        shared.wait(lsn, shared.options.durability)?;
        Ok(self.table_of(declaration))
    }

    /// Drops the table called `name` with all its rows. Returns whether there was one. Snapshots taken before still see it.
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
        let logged = shared.append_record(writer)?;
        let epoch = {
            let mut versions = shared.versions.write();
            let (epoch, _) = next_epoch(&mut writer.epoch, &shared.registry, &versions);
            let published = Arc::make_mut(&mut versions);
            published.tables[id as usize] = None;
            published.epoch = epoch;
            published.sequence = writer.sequence;
            epoch
        };
        if let Some(trees) = writer.tables[id as usize].take() {
            writer.dropped.push((epoch, trees));
        }
        let lsn = logged.applied();
        writer.reclaim_all(&shared.registry);
        shared.registry.note_held_back();
        drop(turn);
        shared.wait(lsn, shared.options.durability)?;
        Ok(true)
    }

    /// All tables, by name.
    pub fn tables(&self) -> Vec<Table> {
        let versions = self.shared.versions.read();
        let by_name: BTreeMap<&str, _> =
            versions.tables.iter().flatten().map(|table| (&*table.declaration.name, &table.declaration)).collect();
        by_name.into_values().map(|declaration| self.table_of(declaration.clone())).collect()
    }

    /// All tables at this moment. O(1), whatever their size.
    pub fn read(&self) -> Snapshot {
        Snapshot::take(&self.shared)
    }

    /// Runs `work` as the single writer and commits what it did; its reads and writes conflict with nothing. If it fails, everything it did is rolled back and its
    /// error returned. Other writers wait meanwhile, readers do not.
    pub fn write<T>(&self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.shared.write(self.shared.options.durability, work)
    }

    /// As [`Db::write`], with this durability.
    pub fn write_with<T>(&self, durability: Durability, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.shared.write(durability, work)
    }

    /// Begins an optimistic transaction: for work that waits on someone. Others go on meanwhile; if a commit of theirs changes what this one has read, its own
    /// commit fails with [`ErrorKind::Conflict`].
    pub fn begin(&self) -> Transaction {
        Transaction::optimistic(&self.shared)
    }

    /// Applies a batch as one commit.
    pub fn apply(&self, batch: WriteBatch) -> Result<()> {
        self.apply_with(self.shared.options.durability, batch)
    }

    /// As [`Db::apply`], with this durability.
    pub fn apply_with(&self, durability: Durability, batch: WriteBatch) -> Result<()> {
        use crate::table::Write;
        self.shared.write(durability, |transaction| {
            // Ids are of one database: a table of another one may have the same.
            for group in batch.writes.chunk_by(|a, b| a.0.id() == b.0.id() && Arc::ptr_eq(&a.0.shared, &b.0.shared)) {
                let table = transaction.table(&group[0].0)?;
                // The leaves of many keys are fetched together, so that the writes find them in the cache.
                let keys: Vec<&[u8]> = group.iter().map(|(_, key, _)| &**key).collect();
                table.warm(&keys)?;
                for (_, key, value) in group {
                    match value {
                        Some(value) => table.put(key, value)?,
                        None => {
                            table.remove(key)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Writes an image of all tables, after which a restart reads that and the log from here on only. Writes go on meanwhile.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        self.shared.checkpoint(&mut |_| ())
    }

    /// All commits so far, to be waited for.
    pub fn commits(&self) -> Committed<'_> {
        Committed::all(&self.shared)
    }

    /// Returns when every commit so far is on stable storage.
    pub fn sync(&self) -> Result<()> {
        let log = self.shared.log()?;
        log.sync(log.end_lsn())
    }

    /// Syncs the log and lets go of the database, which closes when the last handle, table and snapshot is gone. Dropping does the same and keeps quiet about errors.
    pub fn close(self) -> Result<()> {
        if self.shared.log.is_some() { self.sync() } else { Ok(()) }
    }

    /// What a lenient open met in the log, if it was damaged: see [`Options::read_only`].
    pub fn damage(&self) -> Option<&str> {
        self.shared.damage.as_deref()
    }
}

#[cold]
pub(crate) fn missing_table(name: &str) -> Error {
    Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("a table name has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len()),
        ));
    }
    Ok(())
}
