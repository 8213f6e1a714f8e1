//! The state that all handles of one open database share.
//!
//! It holds the state and hands it out: the writer's turn, the log, the arena. The layers above change the database;
//! what of it they need stands in the fields of a type of theirs, such as `Flusher`.

use std::sync::Arc;

use crate::cache::PageCache;
use crate::error::{Error, ErrorKind, Result};
use crate::io::Lock;
use crate::io::process::Process;
use crate::log::{Log, Lsn};
use crate::options::{KEY_BYTES_MOST, Options, SharedDurability, VALUE_BYTES_MOST};
use crate::read::table_stack::Source;
use crate::state::attachments::Attachments;
use crate::state::failures::FailedMerges;
use crate::state::health::Health;
use crate::state::latch::Latch;
use crate::state::memtable_limit::MemtableLimit;
use crate::state::registry::Registry;
use crate::state::run_files::RunFiles;
use crate::state::threads::Background;
use crate::state::versions::{TableVersion, Versions};
use crate::state::writer::{TableTrees, Turn, Writer, WriterLock};
use crate::sync::Mutex;
use crate::tree::{Arena, Tree};

/// State shared by all handles of one open database.
pub struct Shared {
    /// That has opened it: no other one uses it.
    pub(crate) process: Process,
    pub(crate) options: Options,
    /// That of commits that do not choose their own.
    pub(crate) durability: SharedDurability,
    pub(crate) arena: Arc<Arena>,
    /// Cached pages of the runs of all tables.
    pub(crate) cache: PageCache,
    /// The published version, under the latch.
    pub(crate) versions: Latch,
    pub(crate) registry: Registry,
    pub(crate) writer: WriterLock,
    /// `None` if open read-only.
    pub(crate) log: Option<Log>,
    pub(crate) database_id: u64,
    pub(crate) health: Health,
    pub(crate) files: Arc<RunFiles>,
    /// The turn to merge runs, and the merges that failed.
    pub(crate) merging: Mutex<FailedMerges>,
    pub(crate) memory: MemtableLimit,
    pub(crate) background: Background,
    /// What layers above keep with the database.
    pub(crate) attachments: Attachments,
    /// Damage that a read-only open found in the log.
    pub(crate) damage: Option<String>,
    /// Held while the database is open.
    _lock: Option<Box<dyn Lock>>,
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "the parts that opening has put together, once")]
    pub(crate) fn new(
        options: Options,
        arena: Arc<Arena>,
        tables: Vec<Option<TableTrees>>,
        sequence: u64,
        log: Option<Log>,
        database_id: u64,
        files: RunFiles,
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
            cache: PageCache::new(options.cache_bytes),
            durability: SharedDurability::new(options.durability),
            options,
            arena,
            versions: Latch::new(versions, process),
            registry: Registry::default(),
            writer: WriterLock::new(Writer::new(tables, sequence), process, log.is_none()),
            log,
            database_id,
            health: Health::default(),
            files: Arc::new(files),
            merging: Mutex::default(),
            memory: MemtableLimit::new(memtable_bytes),
            background: Background::default(),
            attachments: Attachments::default(),
            damage,
            _lock: lock,
        }
    }

    /// Changes [`Options::memtable_bytes`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if that is less than a few pages.
    pub(crate) fn set_memtable_bytes(&self, bytes: u64) -> Result<()> {
        self.options.check_memtable(bytes)?;
        self.memory.set_bytes_max(bytes.min(self.options.memory_bytes));
        self.background.wake_at(Lsn(0));
        if bytes > 0 {
            self.memory.note(&self.arena);
        }
        self.background.wake();
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
    /// Those of [`WriterLock::turn`].
    #[inline]
    pub(crate) fn writer(&self) -> Result<Turn<'_>> {
        self.writer.turn(&self.health)
    }

    #[inline]
    pub(crate) fn log(&self) -> Result<&Log> {
        writable(self.log.as_ref())
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

    /// A record of so many bytes is likely to come: the background thread makes the log's files for it meanwhile.
    #[cold]
    pub(crate) fn expect_record(&self, bytes: u64) {
        if let Some(log) = &self.log {
            log.expect_record(bytes.try_into().unwrap_or(usize::MAX));
            self.background.wake();
        }
    }

    /// Wakes the background thread, which makes the log's next file or takes a checkpoint; and once more when the log
    /// has grown by a part of a segment, or by half of what starts a checkpoint.
    #[cold]
    pub(crate) fn wake_background_for_log(&self, lsn: Lsn) {
        let part = self.log.as_ref().map_or(0, Log::prepare_step_bytes);
        let mut step = match self.options.checkpoint_log_bytes {
            0 => part,
            bytes => part.min(bytes / 2),
        };
        if self.memory.bytes_max() > 0 {
            step = step.min(self.memory.bytes_max() / 16);
            self.memory.note(&self.arena);
        }
        self.background.wake_at(Lsn(lsn.0 + step));
        self.background.wake();
    }
}

/// The log of a database that is open for writing.
///
/// # Errors
/// [`ErrorKind::ReadOnly`].
#[inline]
pub(crate) fn writable(log: Option<&Log>) -> Result<&Log> {
    log.ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the database is open read-only"))
}
