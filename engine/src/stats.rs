//! What a database is made of, for people and for dashboards.

use crate::db::Db;
use crate::stack::resident;
use crate::tally::Tally;

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Rows and declared measures.
    pub tally: Tally,
    /// Layers in memory.
    pub layers: usize,
    /// The last commit that changed it.
    pub sequence: u64,
}

/// The whole database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tables by name.
    pub tables: Vec<TableStats>,
    /// Bytes of pages in use.
    pub page_bytes: u64,
    /// Bytes of long keys and values.
    pub long_bytes: u64,
    /// Bytes that memory is limited to.
    pub memory_bytes_max: u64,
    /// The last commit.
    pub sequence: u64,
    /// The last commit in the last checkpoint.
    pub checkpoint_sequence: u64,
    /// Number of the last checkpoint; 0 if there was none.
    pub checkpoint: u64,
    /// Why the last checkpoint failed, if it did.
    pub checkpoint_failure: Option<String>,
    /// Whether an earlier write or fsync failed, so that nothing more is acknowledged before the database is reopened.
    pub poisoned: bool,
    /// Log files in use.
    pub log_segments: u64,
    /// Bytes in them.
    pub log_bytes: u64,
    /// Log since the last checkpoint, in bytes: what a restart replays.
    pub log_tail_bytes: u64,
    /// Different versions that snapshots look at.
    pub snapshots: usize,
}

impl Stats {
    /// Bytes of memory that rows take, pages and long values.
    pub fn memory_bytes(&self) -> u64 {
        self.page_bytes + self.long_bytes
    }
}

impl Db {
    /// What the database is made of now. Costs a few microseconds and waits for nothing but the latch.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let versions = shared.versions.read().clone();
        let mut tables: Vec<TableStats> = versions
            .tables
            .iter()
            .flatten()
            .map(|table| {
                let stack = table.stack(&shared.arena);
                TableStats {
                    name: table.declaration.name.clone(),
                    tally: resident(stack.tally(crate::stack::Cut::Start, crate::stack::Cut::End)),
                    layers: table.layers.len(),
                    sequence: table.sequence,
                }
            })
            .collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let checkpoints = shared.checkpoints.last();
        let segments = shared.log.as_ref().map(crate::log::Log::segments);
        Stats {
            tables,
            page_bytes: shared.arena.page_bytes_used(),
            long_bytes: shared.arena.blob_bytes_used(),
            memory_bytes_max: shared.options.memory_bytes,
            sequence: versions.sequence,
            checkpoint_sequence: checkpoints.manifest.sequence,
            checkpoint: checkpoints.manifest.checkpoint,
            checkpoint_failure: checkpoints.failure.clone(),
            poisoned: shared.failed.load(crate::sync::atomic::Ordering::Relaxed)
                || shared.log.as_ref().is_some_and(crate::log::Log::is_poisoned),
            log_segments: segments.map_or(0, |segments| segments.segment_count as u64),
            log_bytes: segments.map_or(0, |segments| segments.segment_bytes),
            log_tail_bytes: shared.log.as_ref().map_or(0, |log| log.end_lsn().0 - checkpoints.manifest.log_position),
            snapshots: shared.registry.live().len(),
        }
    }
}
