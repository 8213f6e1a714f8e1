//! Statistics of a database, for people and for dashboards: see [`Db::stats`]. What work on the files reports:
//! [`CheckpointInfo`], [`Preloaded`], and failures of background work, [`Failure`].

use crate::catalog::declaration::Declaration;
use crate::db::Db;
use crate::log::Log;
use crate::state::shared::Shared;
use crate::state::snapshot::LatchedRead;
use crate::state::versions::{Runs, TableVersion, Versions};
use crate::tally::Tally;
use crate::write::latched_write::LatchedWrite;

pub use crate::cache::Preloaded;
pub use crate::maintenance::checkpoint_and_flush::CheckpointInfo;
pub use crate::state::failures::{Failure, Task};

/// Statistics of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Its description, as given when it was created.
    pub comment: String,
    /// Rows and declared measures.
    pub tally: Tally,
    /// Layers in memory.
    pub layers: usize,
    /// Runs below them: files whose pages are read when needed.
    pub runs: usize,
    /// Bytes of these files.
    pub run_bytes: u64,
    /// Ranges of keys that were taken out of runs as a whole and are still in their files, each counted in every file.
    pub excisions: usize,
    /// Entries of the files in these ranges.
    pub excised: u64,
    /// Entries of a blind table whose keys have not been looked up yet. The tally does not include them.
    pub unresolved: u64,
    /// Sequence number of the last commit that changed it.
    pub sequence: u64,
}

/// Statistics of the whole database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tables by name.
    pub tables: Vec<TableStats>,
    /// Bytes of pages in use.
    pub page_bytes: u64,
    /// Bytes of long keys and values.
    pub long_bytes: u64,
    /// The limit of memory, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes that rows may take before they are written to runs; 0 if all stay in memory.
    pub memtable_bytes_max: u64,
    /// Bytes in the cache of pages of runs.
    pub cache_bytes: u64,
    /// The limit of the cache, in bytes.
    pub cache_bytes_max: u64,
    /// Cached bytes that stay as long as their run does: inner pages and filters that were read, at most a quarter of
    /// the limit, and those of tables that pin them ([`InnerPages::Pinned`](crate::InnerPages)), at most half.
    pub pinned_bytes: u64,
    /// Bytes of such pages that readers hold now, whether or not the cache still has them, without readers of few.
    pub lent_bytes: u64,
    /// Pages and long values of runs that readers have found in the cache since the database was opened, without those
    /// that stay.
    pub cache_hits: u64,
    /// Pages and long values of runs that they had to read from a file.
    pub cache_misses: u64,
    /// The last commit.
    pub sequence: u64,
    /// The last commit in the last checkpoint.
    pub checkpoint_sequence: u64,
    /// Number of the last checkpoint; 0 if there was none.
    pub checkpoint: u64,
    /// Why the last checkpoint failed, if it did.
    pub checkpoint_failure: Option<String>,
    /// Background work whose last attempt failed.
    pub failures: Vec<Failure>,
    /// Whether an earlier write or fsync failed, so that nothing more is acknowledged until the database is reopened.
    pub poisoned: bool,
    /// Log files in use.
    pub log_segments: u64,
    /// Bytes in them.
    pub log_bytes: u64,
    /// Log since the last checkpoint, in bytes: what a restart replays.
    pub log_tail_bytes: u64,
    /// Number of distinct versions that snapshots hold.
    pub snapshots: usize,
}

impl Stats {
    /// Bytes of memory that rows take: pages and long values.
    pub fn memory_bytes(&self) -> u64 {
        self.page_bytes + self.long_bytes
    }
}

impl Db {
    /// Bytes of memory that rows take now: [`Stats::memory_bytes`] alone. Costs nothing and waits for no thread.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.shared.arena.bytes_used()
    }

    /// Statistics as of now. Costs a few microseconds and waits for nothing but the latch.
    pub fn stats(&self) -> Stats {
        let versions = self.shared.versions.read().clone();
        Stats::of_versions(&self.shared, &versions)
    }
}

impl LatchedRead<'_> {
    /// [`Db::stats`], for a caller that already holds the latch.
    pub fn stats(&self) -> Stats {
        Stats::of_versions(self.shared, &self.versions)
    }
}

impl LatchedWrite<'_> {
    /// [`Db::stats`], including what this latched write has written.
    pub fn stats(&self) -> Stats {
        let trees = self.turn.tables.iter().flatten();
        let tables = trees.map(|trees| TableStats {
            layers: trees.layers.len(),
            unresolved: trees.unresolved.as_ref().map_or(0, |tree| tree.entries()),
            sequence: trees.sequence,
            ..TableStats::new(&trees.declaration, trees.total(), &trees.runs)
        });
        Stats::new(self.db, &self.versions, tables.collect())
    }
}

impl TableStats {
    /// Statistics of a table with these runs.
    fn new(declaration: &Declaration, tally: Tally, runs: &Runs) -> TableStats {
        let run_bytes = runs.iter().map(|run| run.info().bytes).sum();
        let excised = runs.iter().map(|run| run.erased_entries()).sum::<i64>() as u64;
        TableStats {
            name: declaration.name.clone(),
            comment: declaration.options.comment.clone(),
            tally,
            runs: runs.len(),
            run_bytes,
            excisions: runs.iter().map(|run| run.excisions()).sum(),
            excised,
            ..TableStats::default()
        }
    }
}

impl Stats {
    fn of_versions(shared: &Shared, versions: &Versions) -> Stats {
        let tables = versions.tables.iter().flatten();
        let stats_of = |table: &TableVersion| {
            let unresolved = table.unresolved.as_ref();
            TableStats {
                layers: table.layers.len(),
                unresolved: unresolved.map_or(0, |tree| tree.view(&shared.arena).entries()),
                sequence: table.sequence,
                ..TableStats::new(&table.declaration, table.total(&shared.arena), &table.runs)
            }
        };
        Stats::new(shared, versions, tables.map(stats_of).collect())
    }

    fn new(shared: &Shared, versions: &Versions, mut tables: Vec<TableStats>) -> Stats {
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let last = shared.files.last();
        let segments = shared.log.as_ref().map(Log::segments);
        let cache = shared.cache.stats();
        Stats {
            tables,
            page_bytes: shared.arena.page_bytes_used(),
            long_bytes: shared.arena.blob_bytes_used(),
            memory_bytes_max: shared.options.memory_bytes,
            memtable_bytes_max: shared.memory.bytes_max(),
            cache_bytes: cache.bytes,
            cache_bytes_max: cache.bytes_max,
            pinned_bytes: cache.pinned_bytes,
            lent_bytes: cache.lent_bytes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            sequence: versions.sequence,
            checkpoint_sequence: last.manifest.sequence,
            checkpoint: last.manifest.checkpoint,
            checkpoint_failure: last.failure.clone(),
            failures: shared.health.failures.all(|id| Some(versions.table(id).ok()?.declaration.name.as_str())),
            poisoned: shared.health.has_failed() || shared.log.as_ref().is_some_and(Log::is_poisoned),
            log_segments: segments.map_or(0, |segments| segments.segment_count as u64),
            log_bytes: segments.map_or(0, |segments| segments.segment_bytes),
            log_tail_bytes: shared.log.as_ref().map_or(0, |log| log.end_lsn().0 - last.manifest.log_position),
            snapshots: shared.registry.live().len(),
        }
    }
}
