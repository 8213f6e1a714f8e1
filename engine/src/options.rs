//! How a database is opened, and how a table is declared.

use std::fmt;
use std::sync::Arc;

use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::index_pages::IndexPages;
use crate::io::{Disk, RealDisk, sim::SimDisk};
use crate::log::LogOptions;
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::tally::Measures;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once it is on stable storage: survives power loss. Concurrent commits share one fsync.
    #[default]
    Sync,
    /// Once the operating system has it: survives a killed process, not a power loss.
    Os,
    /// At once: what survives is a prefix of the commits.
    None,
}

/// How to open a database.
#[derive(Clone)]
pub struct Options {
    /// Create the directory and the database if there is none. Default: true.
    pub create: bool,
    /// Open without writing anything; a damaged log is read up to the damage. Default: false.
    pub read_only: bool,
    /// Durability of commits that do not say. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Bytes of a page in memory: a power of two, 256 to 32768. Default: 4096.
    pub page_bytes: usize,
    /// Bytes that pages and long values may take in memory. Default: 64 GiB of address space, used as data comes.
    pub memory_bytes: u64,
    /// Bytes that tables may take in memory before rows are written into runs, from which pages are read as they are needed. Writers are slowed as it fills, and
    /// wait when it is full. Tables that are declared resident do not count. 0: all tables stay in memory. Default: 1 GiB.
    pub memtable_bytes: u64,
    /// Bytes of pages of runs that are kept in memory, for all tables together. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Bytes a second that merging runs in the background may write; 0: as many as it can. Default: 0.
    pub compaction_bytes_per_second: u64,
    /// The longest key. Default and maximum: 64 KiB.
    pub key_bytes_max: usize,
    /// The longest value. Default and maximum: 1 GiB.
    pub value_bytes_max: usize,
    /// Keys and values of one transaction, in bytes. Default: 4 GiB.
    pub transaction_bytes_max: u64,
    /// Bytes of a log file: a multiple of 4096. Default: 16 MiB.
    pub log_segment_bytes: usize,
    /// Log since the last checkpoint after which the next one starts, in bytes; it bounds the time of a restart. 0: only on request.
    /// Default: 256 MiB.
    pub checkpoint_log_bytes: u64,
    /// Bytes of a page in a file. Default: 4096.
    pub run_page_bytes: usize,
    /// Bytes of the files that merging runs writes, about: a run of more is several files. Default: 256 MiB.
    pub run_file_bytes: u64,
    /// Whether a thread prepares memory and log files ahead of need and starts checkpoints. Default: true.
    pub background: bool,
    /// Where the files are. Default: the file system.
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

/// Pages that memory for tables must have room for, at least: fewer are a run each time somebody writes.
const MEMTABLE_PAGES_MIN: usize = 64;

impl Options {
    /// A database without files, for examples and tests: it is gone with its last handle.
    pub fn in_memory() -> Self {
        Options {
            disk: Arc::new(SimDisk::new()),
            log_segment_bytes: 1 << 20,
            background: false,
            memory_bytes: 1 << 30,
            // There is no disk to go to.
            memtable_bytes: 0,
            ..Options::default()
        }
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
        if self.key_bytes_max > 64 << 10 || self.value_bytes_max > 1 << 30 {
            return invalid("keys can have 64 KiB and values 1 GiB at most".into());
        }
        if !self.log_segment_bytes.is_multiple_of(4096)
            || self.log_segment_bytes < 8192
            || self.log_segment_bytes > 1 << 30
        {
            return invalid("`log_segment_bytes` must be a multiple of 4096, from 8 KiB to 1 GiB".into());
        }
        let memtable_bytes_min = (MEMTABLE_PAGES_MIN * self.page_bytes) as u64;
        if self.memtable_bytes > 0 && self.memtable_bytes < memtable_bytes_min {
            return invalid(format!("`memtable_bytes` must be {memtable_bytes_min} or more, or 0 for no limit"));
        }
        if self.memory_bytes < 1 << 20 {
            return invalid("`memory_bytes` must be 1 MiB or more".into());
        }
        Ok(())
    }
}

/// How the leaves of a table's runs are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunIndex {
    /// By nodes over nodes, which are read as they are needed.
    #[default]
    Tree,
    /// By one node over all leaves of a run, which is read whole, checked whole, and takes its room in the cache: what a tree is compared with, and may be put in its place where
    /// all indexes fit into the cache.
    Flat,
}

/// How a table is declared. It does not change later, but for the index, which [`Table::rewrite`](crate::Table::rewrite) can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// What is measured beside rows.
    pub measures: Measures,
    /// Whether all rows stay in memory, whatever [`Options::memtable_bytes`] says. Default: false.
    pub resident: bool,
    /// Whether a put or a removal is taken without asking whether its key is live, where that would mean reading a page of a run: see
    /// [`Write`](crate::Write). Counts then ask for what was not asked yet, and [`count_bounds`](crate::Read::count_bounds) answers without. Default: false.
    pub blind: bool,
    /// How the leaves of its runs are found. Default: [`RunIndex::Tree`].
    pub index: RunIndex,
    /// How its bottom run, which has most of what a large table has, is stored on disk. Default: [`Compression::None`].
    pub compression: Compression,
    /// How the runs above are, which are young and merged soon. Default: [`Compression::None`].
    pub upper_compression: Compression,
    /// Whether inner pages of its runs are in memory before they are asked for, and stay there. Default: [`IndexPages::AsNeeded`].
    pub index_pages: IndexPages,
    /// A note of the application's own that is kept with the table, such as a schema: at most 1 MiB.
    pub annotation: Vec<u8>,
}

impl TableOptions {
    /// How a run is to be stored.
    pub(crate) fn compression_of(&self, is_bottom: bool) -> Compression {
        if is_bottom { self.compression } else { self.upper_compression }
    }
}
