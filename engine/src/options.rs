//! Options of databases and of tables.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::inner_pages::InnerPages;
use crate::io::{Disk, RealDisk, sim::SimDisk};
use crate::log::LogOptions;
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::tally::Measures;

/// The most that [`Options::key_bytes_max`] can be.
pub(crate) const KEY_BYTES_MOST: usize = 64 << 10;
/// The most that [`Options::value_bytes_max`] can be.
pub(crate) const VALUE_BYTES_MOST: usize = 1 << 30;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once it is on stable storage: survives power loss. Concurrent commits share one fsync.
    #[default]
    Sync,
    /// Once the operating system has it: survives a killed process, not a power loss.
    Os,
    /// At once: a prefix of the commits survives.
    None,
}

/// A durability that may be changed while others read it.
#[derive(Debug)]
pub(crate) struct SharedDurability(AtomicU8);

impl SharedDurability {
    pub(crate) fn new(durability: Durability) -> SharedDurability {
        SharedDurability(AtomicU8::new(durability as u8))
    }

    #[inline]
    pub(crate) fn get(&self) -> Durability {
        match self.0.load(Ordering::Relaxed) {
            0 => Durability::Sync,
            1 => Durability::Os,
            _ => Durability::None,
        }
    }

    pub(crate) fn set(&self, durability: Durability) {
        self.0.store(durability as u8, Ordering::Relaxed);
    }
}

/// How to open a database.
#[derive(Clone)]
pub struct Options {
    /// Create the directory and the database if there is none. Default: true.
    pub create: bool,
    /// Open without writing anything, beside other processes that do the same; a damaged log is read up to the damage.
    /// Default: false.
    pub read_only: bool,
    /// Durability of commits that do not choose their own. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Bytes of a page in memory: a power of two, 256 to 32768. Default: 4096.
    pub page_bytes: usize,
    /// The most bytes that pages and long values take in memory. A commit may exceed this by 1,024 pages, so that rows
    /// can be removed at the limit, and opening a database may exceed it by half. Default: 64 GiB of address space,
    /// used as data comes.
    pub memory_bytes: u64,
    /// Bytes that tables may take in memory before rows are written to runs, whose pages are read when needed. Writers
    /// are slowed as it fills, and wait when it is full. Tables that are declared to stay in memory do not count, and
    /// what they leave of [`Options::memory_bytes`] is a limit too. 0: all tables stay in memory. Default: 1 GiB.
    pub memtable_bytes: u64,
    /// Bytes of pages of runs that are kept in memory, for all tables together. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Bytes a second that background merges may write; 0: no limit. Default: 0.
    pub compaction_bytes_per_second: u64,
    /// The longest key. Default and maximum: 64 KiB.
    pub key_bytes_max: usize,
    /// The longest value. Default and maximum: 1 GiB.
    pub value_bytes_max: usize,
    /// The most bytes of keys and values in one transaction. Default: 4 GiB.
    pub transaction_bytes_max: u64,
    /// Bytes of a log file: a multiple of 4096. The first files of a database are shorter, from 1 MiB on. Default: 16
    /// MiB.
    pub log_segment_bytes: usize,
    /// Bytes of log since the last checkpoint that start the next one, which bounds the time of a restart. 0:
    /// checkpoints on request only. Default: 256 MiB.
    pub checkpoint_log_bytes: u64,
    /// Bytes of a page in a file. Default: 4096.
    pub run_page_bytes: usize,
    /// Approximate size of the files that merges write, in bytes: a larger run has several files. Default: 256 MiB.
    pub run_file_bytes: u64,
    /// The fewest rows of a range that [`remove_range`](crate::WritableTable::remove_range) takes out of runs as a
    /// whole, at the cost of the pages at its ends. In a smaller one each row takes a tombstone; so do more where runs
    /// have lost many ranges that are not merged away yet. Default: 256.
    pub excised_rows_min: u64,
    /// Whether threads work in the background: they prepare memory and log files ahead of need, write rows into runs as
    /// memory fills, take checkpoints, and merge runs. Default: true.
    pub background: bool,
    /// The disk that holds the files. Default: the file system.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            read_only: false,
            durability: Durability::default(),
            page_bytes: 4096,
            memory_bytes: 64 << 30,
            memtable_bytes: 1 << 30,
            cache_bytes: 256 << 20,
            compaction_bytes_per_second: 0,
            key_bytes_max: 64 << 10,
            value_bytes_max: 1 << 30,
            transaction_bytes_max: 4 << 30,
            log_segment_bytes: LogOptions::DEFAULT_SEGMENT_BYTES,
            checkpoint_log_bytes: 256 << 20,
            run_page_bytes: 4096,
            run_file_bytes: 256 << 20,
            excised_rows_min: 256,
            background: true,
            disk: Arc::new(RealDisk),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("read_only", &self.read_only)
            .field("durability", &self.durability)
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

/// The least memory for tables, in pages: less would make a run of almost every write.
const MEMTABLE_PAGES_MIN: usize = 64;

impl Options {
    /// A database without files, for examples and tests: it is gone with its last handle.
    pub fn without_files() -> Self {
        Options {
            disk: Arc::new(SimDisk::new()),
            log_segment_bytes: 1 << 20,
            background: false,
            memory_bytes: 1 << 30,
            // There is no disk to write to.
            memtable_bytes: 0,
            ..Options::default()
        }
    }

    /// The least of [`Options::memtable_bytes`] but 0.
    pub(crate) fn memtable_bytes_min(&self) -> u64 {
        (MEMTABLE_PAGES_MIN * self.page_bytes) as u64
    }

    /// Fails if so little memory for tables would make a run of almost every write.
    pub(crate) fn check_memtable(&self, memtable_bytes: u64) -> Result<()> {
        let min = self.memtable_bytes_min();
        if memtable_bytes > 0 && memtable_bytes < min {
            let message = format!("`memtable_bytes` must be {min} or more, or 0 for no limit");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Fails if a field is out of its limits.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        let pages = |bytes: usize| bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes);
        if !pages(self.page_bytes) || !pages(self.run_page_bytes) {
            return invalid(format!(
                "`page_bytes` and `run_page_bytes` must be powers of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}"
            ));
        }
        if self.key_bytes_max > KEY_BYTES_MOST || self.value_bytes_max > VALUE_BYTES_MOST {
            return invalid("keys can have 64 KiB and values 1 GiB at most".into());
        }
        if !self.log_segment_bytes.is_multiple_of(4096)
            || self.log_segment_bytes < 8192
            || self.log_segment_bytes > 1 << 30
        {
            return invalid("`log_segment_bytes` must be a multiple of 4096, from 8 KiB to 1 GiB".into());
        }
        self.check_memtable(self.memtable_bytes)?;
        if self.memory_bytes < 1 << 20 {
            return invalid("`memory_bytes` must be 1 MiB or more".into());
        }
        Ok(())
    }
}

/// How the leaves of a table's runs are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunLayout {
    /// By a tree of nodes, which are read when needed.
    #[default]
    Tree,
    /// By one node over all leaves of a run, which is read, checked and cached as a whole. Serves as a baseline for the
    /// tree, and may replace it where all indexes fit the cache.
    Flat,
}

/// How a table is declared. It does not change later, but for the layout, which
/// [`Table::rewrite`](crate::Table::rewrite) can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// What is measured besides rows.
    pub measures: Measures,
    /// Whether all rows stay in memory, whatever [`Options::memtable_bytes`] says. Default: false.
    pub in_memory: bool,
    /// Whether puts and removals skip the look-up of their key where that would read a page of a run: see
    /// [`WritableTable`](crate::WritableTable). Counts then do the missing look-ups, and
    /// [`count_interval`](crate::ReadableTable::count_interval) answers without. Default: false.
    pub blind_writes: bool,
    /// How the leaves of its runs are found. Default: [`RunLayout::Tree`].
    pub layout: RunLayout,
    /// How its bottom run, which has most of a large table, is stored on disk. Default: [`Compression::None`].
    pub compression: Compression,
    /// How the upper runs, which are young and merged soon, are stored. Default: [`Compression::None`].
    pub upper_compression: Compression,
    /// Whether inner pages of its runs are read into memory ahead of need, and stay there. Default:
    /// [`InnerPages::AsNeeded`].
    pub inner_pages: InnerPages,
    /// Data of the application that is kept with the table, such as a schema: at most 1 MiB.
    pub metadata: Vec<u8>,
    /// A description of the table for people: at most 1 MiB. Default: none.
    pub comment: String,
}

impl TableOptions {
    /// How to store a run.
    pub(crate) fn compression_of(&self, is_bottom: bool) -> Compression {
        if is_bottom { self.compression } else { self.upper_compression }
    }
}
