//! Memory of tables: when it is short, the largest table goes to disk, and writers wait.
//!
//! If flushes come faster than runs can be merged, writers are slowed too (`many_runs`). Half of
//! [`Options::memtable_bytes`] is for rows being written, the other half for rows on their way to a run. Above three
//! quarters writers are slowed, more the fuller it is; at the limit they wait.
//!
//! Invariant: no writer waits where waiting does not help. What tables that stay in memory, transactions and snapshots
//! hold is not flushed.

use std::time::Duration;

use crate::catalog::declaration::TableId;
use crate::error::Result;
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::maintenance::layers::LayerChanges;
use crate::maintenance::many_runs::slowed_by_runs;
use crate::options::Options;
use crate::state::failures::{Task, unpanicked};
use crate::state::memtable_limit::MemtableLimit;
use crate::state::run_files::RunFiles;
use crate::state::shared::Shared;
use crate::state::threads::Background;
use crate::sync::sleep;

/// How long a waiting writer sleeps before it checks again.
const WAIT: Duration = Duration::from_millis(2);
/// The longest delay of a writer for memory.
const SLOWED_MAX: Duration = Duration::from_millis(1);
/// A table is worth a run of its own if it has at least this part of the limit.
const WORTH_A_RUN: u64 = 16;

/// Called before a write: waits, or is slowed, if memory is short.
#[inline]
pub(crate) fn make_room(shared: &Shared) -> Result<()> {
    if shared.memory.is_short() { MemoryRelief::of(shared).wait() } else { Ok(()) }
}

/// What relieving memory needs.
pub(super) struct MemoryRelief<'s> {
    flusher: Flusher<'s>,
    layers: LayerChanges<'s>,
    files: &'s RunFiles,
    memory: &'s MemtableLimit,
    background: &'s Background,
    options: &'s Options,
    is_read_only: bool,
}

impl<'s> MemoryRelief<'s> {
    pub(super) fn of(shared: &'s Shared) -> MemoryRelief<'s> {
        let Shared { log, files, memory, background, options, .. } = shared;
        let (flusher, layers) = (Flusher::of(shared), LayerChanges::of(shared));
        MemoryRelief { flusher, layers, files, memory, background, options, is_read_only: log.is_none() }
    }

    /// Bytes of memory that rows take, without those of tables that stay in memory, and the most that they may take: 0
    /// for no limit, else no more than those tables leave of all memory.
    fn flushable_bytes(&self) -> (u64, u64) {
        let LayerChanges { arena, versions, .. } = self.layers;
        let used = arena.bytes_used();
        let versions = versions.read();
        let staying = versions.tables.iter().flatten().filter(|table| table.declaration.options.in_memory);
        let staying: u64 = staying.map(|table| table.bytes_estimate(arena)).sum();
        let limit = match self.memory.bytes_max() {
            0 => 0,
            bytes => {
                bytes.min(self.options.memory_bytes.saturating_sub(staying)).max(self.options.memtable_bytes_min())
            }
        };
        (used.saturating_sub(staying), limit)
    }

    /// How long a writer must wait because a thread has many runs to merge.
    fn slowed_by_runs(&self) -> Option<Duration> {
        slowed_by_runs(self.layers.versions, self.options.background)
    }

    /// The table to flush next, if memory requires it. Tables in `failed`, whose flush has just failed, are left out.
    fn next_to_flush(&self, failed: &[TableId]) -> Option<TableId> {
        if self.memory.bytes_max() == 0 || self.is_read_only {
            return None;
        }
        let (used, limit) = self.flushable_bytes();
        if used <= limit / 2 {
            return None;
        }
        let LayerChanges { arena, versions, .. } = self.layers;
        let versions = versions.read();
        let flushable = versions.tables.iter().flatten().filter(|table| !table.declaration.options.in_memory);
        let flushable = flushable.filter(|table| !failed.contains(&table.declaration.id));
        let (bytes, id) = flushable.map(|table| (table.bytes_estimate(arena), table.declaration.id)).max()?;
        (bytes >= limit / WORTH_A_RUN).then_some(id)
    }

    /// Flushes while memory requires it. A table that cannot be flushed is recorded among the failures, and the others
    /// are flushed.
    ///
    /// # Errors
    /// The first failure, if nothing was flushed.
    pub(super) fn flush_due(&self) -> Result<()> {
        let (mut failed, mut has_flushed, mut first) = (Vec::new(), false, None);
        while let Some(id) = self.next_to_flush(&failed) {
            let flushed = unpanicked(|| self.flusher.flush(id));
            self.layers.health.failures.note(Task::Flush, Some(id), flushed.as_ref().map(|_| ()));
            match flushed {
                Ok(_) => has_flushed = true,
                Err(error) => {
                    failed.push(id);
                    first = first.or(Some(error));
                }
            }
            self.layers.reclaim_soon();
        }
        first.filter(|_| !has_flushed).map_or(Ok(()), Err)
    }

    /// Waits until a writer may write.
    #[cold]
    fn wait(&self) -> Result<()> {
        self.layers.writer.refuse_in_own_turn()?;
        if self.memory.bytes_max() == 0 && self.slowed_by_runs().is_none() {
            self.memory.set_short(false);
            return Ok(());
        }
        loop {
            let (used, limit) = self.flushable_bytes();
            let slow = limit / 4 * 3;
            if used <= slow || self.next_to_flush(&[]).is_none() && !self.files.is_turn_taken() {
                let Some(slowed) = self.slowed_by_runs() else {
                    self.memory.set_short(false);
                    return Ok(());
                };
                sleep(slowed);
                return Ok(());
            }
            if !self.background.wake() {
                self.flush_due()?;
                continue;
            }
            if used < limit {
                let part = (used - slow) as f64 / (limit - slow) as f64;
                sleep(SLOWED_MAX.mul_f64(part));
                return Ok(());
            }
            if let Some(failure) = self.layers.health.failures.of_task(Task::Flush) {
                return Err(failure.context("memory for tables is full, and rows cannot be written to disk"));
            }
            sleep(WAIT);
        }
    }
}
