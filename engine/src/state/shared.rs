//! What all handles of one open database share.
//!
//! It holds the state and hands it out: the writer's turn, the log, the arena. The layers above change the database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::io::Lock;
use crate::io::process::Process;
use crate::log::{Log, Lsn};
use crate::options::{KEY_BYTES_MOST, Options, VALUE_BYTES_MOST};
use crate::read::table_stack::Source;
use crate::run::PageCache;
use crate::state::attachments::Attachments;
use crate::state::failures::{FailedMerges, Failures};
use crate::state::latch::Latch;
use crate::state::registry::Registry;
use crate::state::run_files::Checkpoints;
use crate::state::threads::Threads;
use crate::state::versions::{TableVersion, Versions, failed_half_way};
use crate::state::writer::{TableTrees, Turn, Writer, thread_number};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{FairMutex, Mutex};
use crate::tree::{Arena, Tree};

/// State shared by all handles of one open database.
pub struct Shared {
    /// That has opened it: no other one uses it.
    pub(crate) process: Process,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) arena: Arc<Arena>,
    /// Cached pages of the runs of all tables.
    pub(crate) cache: PageCache,
    /// The published version, under the latch.
    pub(crate) versions: Latch,
    pub(crate) registry: Registry,
    pub(crate) writer: FairMutex<Writer>,
    /// The number of the thread that has the writer's turn; 0 if none.
    pub(crate) writer_thread: AtomicU64,
    /// `None` if open read-only.
    pub(crate) log: Option<Log>,
    pub(crate) database_id: u64,
    /// A logged commit could not be applied. Set in the writer's turn.
    pub(crate) failed: AtomicBool,
    pub(crate) checkpoints: Checkpoints,
    /// The turn to merge runs, and the merges that failed.
    pub(crate) compacting: Mutex<FailedMerges>,
    /// Failures of background work.
    pub(crate) failures: Failures,
    /// What layers above keep with the database.
    pub(crate) attachments: Attachments,
    /// The database is closing: long background work must stop.
    pub(crate) stopping: AtomicBool,
    /// Whether memory for tables is short, so that writers make room before they write.
    pub(crate) is_short: AtomicBool,
    /// [`Options::memtable_bytes`], which can be changed.
    memtable_bytes: AtomicU64,
    pub(crate) keeper: Mutex<Option<Threads>>,
    /// The position in the log from which the next commit wakes the keeper.
    pub(crate) keeper_wakes_at: AtomicU64,
    /// Damage that a read-only open found in the log.
    pub(crate) damage: Option<String>,
    /// Held while the database is open.
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
            withdrawn: None,
        };
        let memtable_bytes = options.memtable_bytes.min(options.memory_bytes);
        let process = Process::current();
        Shared {
            process,
            dir: dir.to_path_buf(),
            cache: PageCache::new(options.cache_bytes),
            options,
            arena,
            versions: Latch::new(versions, process),
            registry: Registry::default(),
            writer: FairMutex::new(Writer::new(tables, sequence)),
            writer_thread: AtomicU64::new(0),
            log,
            database_id,
            failed: AtomicBool::new(false),
            checkpoints,
            compacting: Mutex::default(),
            failures: Failures::default(),
            attachments: Attachments::default(),
            stopping: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            memtable_bytes: AtomicU64::new(memtable_bytes),
            keeper: Mutex::new(None),
            keeper_wakes_at: AtomicU64::new(0),
            damage,
            _lock: lock,
        }
    }

    /// Bytes that rows may take before they are written to runs; 0 if all stay in memory.
    #[inline]
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Changes [`Shared::memtable_bytes`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if that is less than a few pages.
    pub(crate) fn set_memtable_bytes(&self, bytes: u64) -> Result<()> {
        self.options.check_memtable(bytes)?;
        self.memtable_bytes.store(bytes.min(self.options.memory_bytes), Ordering::Relaxed);
        self.keeper_wakes_at.store(0, Ordering::Relaxed);
        if bytes > 0 {
            self.note_memory();
        }
        self.has_woken_keeper();
        Ok(())
    }

    /// A version of a table, to read from.
    #[inline]
    pub(crate) fn source<'a>(&'a self, version: &'a TableVersion) -> Source<'a> {
        version.source(&self.arena, &self.cache)
    }

    /// Waits for the writer's turn.
    ///
    /// # Errors
    /// Those of [`Shared::refuse_in_own_turn`]; [`ErrorKind::ReadOnly`]; [`ErrorKind::Poisoned`] if memory does not
    /// match the log.
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

    /// Fails where a wait for other threads would be for ever: if this thread has the writer's turn, and in another
    /// process. Returns the thread's number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    #[inline]
    pub(crate) fn refuse_in_own_turn(&self) -> Result<u64> {
        self.process.check()?;
        let number = thread_number();
        if self.writer_thread.load(Ordering::Relaxed) == number {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a write inside the closure of `Db::write` must go through its transaction: this one would wait for itself",
            ));
        }
        Ok(number)
    }

    /// Fails if memory no longer matches the log.
    #[inline]
    pub(crate) fn check_failed(&self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(failed_half_way());
        }
        Ok(())
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
        let (what, len, max, most) = if key.len() > self.options.key_bytes_max {
            ("key", key.len(), self.options.key_bytes_max, KEY_BYTES_MOST)
        } else {
            ("value", value.map_or(0, <[u8]>::len), self.options.value_bytes_max, VALUE_BYTES_MOST)
        };
        let raise = if max < most { format!(", or raise `{what}_bytes_max`, up to {most}") } else { String::new() };
        Error::new(
            ErrorKind::Invalid,
            format!("a {what} of {len} bytes is over the limit of {max} bytes; shorten it{raise}"),
        )
    }

    /// Wakes the keeper if the log has grown by half a segment, or by half of what starts a checkpoint: it creates the
    /// next file or takes a checkpoint.
    #[cold]
    pub(crate) fn wake_keeper_for_log(&self, lsn: Lsn) {
        let half = self.log.as_ref().map_or(0, Log::last_segment_bytes) / 2;
        let mut step = match self.options.checkpoint_log_bytes {
            0 => half,
            bytes => half.min(bytes / 2),
        };
        if self.memtable_bytes() > 0 {
            step = step.min(self.memtable_bytes() / 16);
            self.note_memory();
        }
        self.keeper_wakes_at.store(lsn.0 + step, Ordering::Relaxed);
        self.has_woken_keeper();
    }

    /// Checks how much memory is in use, and has writers make room if it is much. Called in the writer's turn, now and
    /// then.
    pub(crate) fn note_memory(&self) {
        let used = self.arena.bytes_used();
        if used > self.memtable_bytes() / 4 * 3 {
            self.is_short.store(true, Ordering::Relaxed);
        }
    }

    /// Wakes the keeper. Returns whether there is one.
    pub(crate) fn has_woken_keeper(&self) -> bool {
        self.keeper.lock().as_ref().map(Threads::wake).is_some()
    }

    pub(crate) fn wake_keeper(&self) {
        // Only snapshots that held something back are worth a wake-up; commits wake the keeper as log and memory grow.
        if self.registry.newest() == 0 && self.registry.take_held_back() {
            self.has_woken_keeper();
        }
    }

    /// Frees what ended snapshots held back, in the writer's turn.
    pub(crate) fn reclaim_if_idle(&self) {
        if let Ok(mut turn) = self.writer() {
            turn.reclaim_all(&self.registry);
        }
    }
}
