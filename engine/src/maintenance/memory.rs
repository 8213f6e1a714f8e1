//! Memory of tables: when it is short, the largest table goes to disk, and writers wait.
//!
//! If flushes come faster than runs can be merged, writers are slowed too. Half of
//! [`Options::memtable_bytes`](crate::Options) is for rows being written, the other half for rows on their way to a
//! run. Above three quarters writers are slowed, more the fuller it is; at the limit they wait.
//!
//! Invariant: no writer waits where waiting does not help. What tables that stay in memory, transactions and snapshots
//! hold is not flushed.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::declaration::TableId;
use crate::error::Result;
use crate::state::failures::{Task, unpanicked};
use crate::state::shared::Shared;
use crate::state::versions::TableVersion;
use crate::sync::atomic::Ordering;
use crate::sync::sleep;

/// How long a waiting writer sleeps before it checks again.
const WAIT: Duration = Duration::from_millis(2);
/// The longest delay of a writer for memory.
const SLOWED_MAX: Duration = Duration::from_millis(1);
/// A table with more runs is slow to read: writers are delayed, the longest at twice as many. Merges that keep up leave
/// at most half as many.
const RUNS_MAX: usize = 24;
/// The longest delay of a writer for merges.
const SLOWED_BY_RUNS_MAX: Duration = Duration::from_millis(10);
/// A table is worth a run of its own if it has at least this part of the limit.
const WORTH_A_RUN: u64 = 16;

impl Shared {
    /// Bytes of memory that rows take, without those of tables that stay in memory, and the most that they may take: 0
    /// for no limit, else no more than those tables leave of all memory.
    fn flushable_bytes(&self) -> (u64, u64) {
        let used = self.arena.bytes_used();
        let versions = self.versions.read();
        let resident = versions.tables.iter().flatten().filter(|table| table.declaration.options.in_memory);
        let resident: u64 = resident.map(|table| self.bytes_of(table)).sum();
        let limit = match self.memtable_bytes() {
            0 => 0,
            bytes => {
                bytes.min(self.options.memory_bytes.saturating_sub(resident)).max(self.options.memtable_bytes_min())
            }
        };
        (used.saturating_sub(resident), limit)
    }

    /// An estimate of the bytes of a table's trees.
    pub(super) fn bytes_of(&self, table: &TableVersion) -> u64 {
        table.views_to_read(&self.arena).map(|view| view.bytes_estimate()).sum()
    }

    /// Checks the number of runs after one was added, and slows writers if there are many.
    pub(crate) fn note_runs(&self) {
        if self.slowed_by_runs().is_some() {
            self.is_short.store(true, Ordering::Relaxed);
        }
    }

    /// How long a writer must wait because a thread has many runs to merge.
    fn slowed_by_runs(&self) -> Option<Duration> {
        let versions = self.versions.read();
        let most = versions.tables.iter().flatten().map(|table| table.runs.len()).max()?;
        slowed_by(most).filter(|_| self.options.background)
    }

    /// The table to flush next, if memory requires it. Tables in `failed`, whose flush has just failed, are left out.
    pub(crate) fn flush_is_due(&self, failed: &[TableId]) -> Option<TableId> {
        if self.memtable_bytes() == 0 || self.log.is_none() {
            return None;
        }
        let (used, limit) = self.flushable_bytes();
        if used <= limit / 2 {
            return None;
        }
        let versions = self.versions.read();
        let flushable = versions.tables.iter().flatten().filter(|table| !table.declaration.options.in_memory);
        let flushable = flushable.filter(|table| !failed.contains(&table.declaration.id));
        let (bytes, id) = flushable.map(|table| (self.bytes_of(table), table.declaration.id)).max()?;
        (bytes >= limit / WORTH_A_RUN).then_some(id)
    }

    /// Flushes while memory requires it. A table that cannot be flushed is recorded among the failures, and the others
    /// are flushed.
    ///
    /// # Errors
    /// The first failure, if nothing was flushed.
    pub(crate) fn flush_due(self: &Arc<Self>) -> Result<()> {
        let (mut failed, mut has_flushed, mut first) = (Vec::new(), false, None);
        while let Some(id) = self.flush_is_due(&failed) {
            let flushed = unpanicked(|| self.flush(id));
            self.failures.note(Task::Flush, Some(id), flushed.as_ref().map(|_| ()));
            match flushed {
                Ok(_) => has_flushed = true,
                Err(error) => {
                    failed.push(id);
                    first = first.or(Some(error));
                }
            }
            self.reclaim_if_idle();
        }
        first.filter(|_| !has_flushed).map_or(Ok(()), Err)
    }

    /// Called before a write: waits, or is slowed, if memory is short.
    #[inline]
    pub(crate) fn see_to_memory(self: &Arc<Self>) -> Result<()> {
        if self.is_short.load(Ordering::Relaxed) { self.wait_for_memory() } else { Ok(()) }
    }

    #[cold]
    fn wait_for_memory(self: &Arc<Self>) -> Result<()> {
        self.refuse_in_own_turn()?;
        if self.memtable_bytes() == 0 && self.slowed_by_runs().is_none() {
            self.is_short.store(false, Ordering::Relaxed);
            return Ok(());
        }
        loop {
            let (used, limit) = self.flushable_bytes();
            let slow = limit / 4 * 3;
            if used <= slow || self.flush_is_due(&[]).is_none() && !self.checkpoints.is_taken() {
                let Some(slowed) = self.slowed_by_runs() else {
                    self.is_short.store(false, Ordering::Relaxed);
                    return Ok(());
                };
                sleep(slowed);
                return Ok(());
            }
            if !self.has_woken_keeper() {
                self.flush_due()?;
                continue;
            }
            if used < limit {
                let part = (used - slow) as f64 / (limit - slow) as f64;
                sleep(SLOWED_MAX.mul_f64(part));
                return Ok(());
            }
            if let Some(failure) = self.failures.of_task(Task::Flush) {
                return Err(failure.context("memory for tables is full, and rows cannot be written to disk"));
            }
            sleep(WAIT);
        }
    }
}

/// How long a writer is slowed by a table with this many runs.
fn slowed_by(runs: usize) -> Option<Duration> {
    let part = runs.checked_sub(RUNS_MAX).filter(|&more| more > 0)? as f64 / RUNS_MAX as f64;
    Some(SLOWED_BY_RUNS_MAX.mul_f64(part.min(1.0).powi(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::io::sim::SimDisk;
    use crate::options::Options;
    use crate::read::readable::ReadableTable;
    use crate::write::writable::WritableTable;

    #[test]
    fn more_runs_slow_writers_more() {
        assert_eq!((slowed_by(0), slowed_by(RUNS_MAX)), (None, None));
        let delays: Vec<Duration> = (RUNS_MAX + 1..3 * RUNS_MAX).filter_map(slowed_by).collect();
        assert!(delays.len() == 2 * RUNS_MAX - 1 && delays.is_sorted() && delays[0] < Duration::from_micros(20));
        assert_eq!(delays.last(), Some(&SLOWED_BY_RUNS_MAX));
    }

    #[test]
    fn writers_are_slowed_until_runs_are_merged_if_anyone_merges_them() {
        for background in [true, false] {
            let options = Options { disk: Arc::new(SimDisk::new()), background, ..Options::in_memory() };
            let db = Db::open("/db", Options { memtable_bytes: 1 << 20, ..options }).unwrap();
            let table = db.table("t").unwrap();
            let shared = &table.shared;
            let merging = shared.compacting.lock();
            for key in 0..RUNS_MAX as u32 + 3 {
                table.put(key.to_be_bytes(), b"value").unwrap();
                table.flush().unwrap();
            }
            assert_eq!(shared.slowed_by_runs(), slowed_by(RUNS_MAX + 3).filter(|_| background));
            assert_eq!(shared.is_short.load(Ordering::Relaxed), background);
            table.put(b"slowed", b"value").unwrap();
            drop(merging);
            table.compact().unwrap();
            assert_eq!(shared.slowed_by_runs(), None);
            table.put(b"not slowed", b"value").unwrap();
            assert!(!shared.is_short.load(Ordering::Relaxed));
            assert_eq!(table.len().unwrap(), RUNS_MAX as u64 + 5);
        }
    }
}
