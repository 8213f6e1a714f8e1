//! Writes runs: checkpoints of all tables, and flushes of one table to free memory.
//!
//! After a checkpoint the log before it is recycled. A table in memory is written whole, as an image that is read back
//! when the database opens. For a table on disk, the trees above its runs are frozen and written to one more run.
//!
//! Invariants:
//! 1. The manifest names only runs that are complete and synced, and log positions and commits that are synced.
//! 2. Until the new manifest is in place, everything that the old one needs stays: a crash at any step leaves one of
//!    the two.
//! 3. A table that has not changed since it was last written keeps its runs.
//! 4. No number is used twice while the database is open: the manifest on disk may name the runs of a job that failed
//!    at its very end.
//! 5. The runs of a job weigh what they were written from: the law, checked each time.
//! 6. Ranges that are removed from a table while its trees are written are taken out of the run before it becomes a
//!    layer. The manifest names the run as it was written: replay removes these ranges again.
//!
//! Locks are taken in this order: the turn to write runs, the writer's turn, the last manifest. The last one is never
//! held during I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::catalog::declaration::{Declaration, TableId};
use crate::catalog::manifest::{LastIngest, Manifest, ManifestPart, ManifestRun, ManifestTable};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Log, Lsn};
use crate::maintenance::layers::LayerChanges;
use crate::maintenance::many_runs::note_runs;
use crate::maintenance::parts_writer::{check_law, run_options};
use crate::maintenance::preload_tables::preload_runs;
use crate::maintenance::resolve::{Resolver, end_resolving};
use crate::options::Options;
use crate::page::KeyBuffer;
use crate::progress::Progress;
use crate::run::{Part, Run, RunWriter};
use crate::stack::{Cut, Merge, Stack, infallible};
use crate::state::memtable_limit::MemtableLimit;
use crate::state::run_files::{KeptRuns, RunFiles};
use crate::state::shared::{Shared, writable};
use crate::state::snapshot::BorrowedSnapshot;
use crate::state::threads::Background;
use crate::state::versions::{TableVersion, total_of};
use crate::state::writer::TableTrees;
use crate::tally::Tally;
use crate::tree::View;

/// What a checkpoint did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its number.
    pub number: u64,
    /// Sequence number of the last commit it contains.
    pub sequence: u64,
    /// Number of tables written. Tables that had not changed kept their files.
    pub tables_written: usize,
    /// Entries written: the rows of tables in memory, and for tables on disk the changes since their last flush.
    pub rows_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// All tables, so that the log before can be recycled.
    Checkpoint,
    /// What one table has in memory, to free the memory.
    Flush(TableId),
    /// What one table has in memory, even if it has not changed: an image of all its rows if it is in memory, what a
    /// flush writes if it is on disk.
    Anew(TableId),
}

/// What a job writes: see [`Flusher::freeze_for`].
struct Frozen<'s> {
    snapshot: BorrowedSnapshot<'s>,
    /// The end of the log in the snapshot.
    lsn: Lsn,
    /// The tables whose lower trees are frozen, to become a run. The newest tree, above, takes the writes meanwhile.
    on_disk: BTreeSet<TableId>,
    /// The tables that are left out because their blind writes could not be resolved, each with the error.
    left_out: BTreeMap<TableId, Error>,
}

/// A table whose trees become a run.
struct Flushed {
    /// How many trees, counted from the lowest of the table, the run holds.
    trees: usize,
    /// `None` if they had no entry.
    run: Option<Arc<Run>>,
}

/// What a job has written so far.
#[derive(Default)]
struct Output {
    info: CheckpointInfo,
    /// The names and paths of new files.
    written: Vec<(String, PathBuf)>,
    flushed: Vec<(TableId, Flushed)>,
    /// What the next manifest says of the tables.
    tables: Vec<ManifestTable>,
    /// Whether a table has commits that only the log has.
    leaves_out: bool,
}

/// What writing runs needs.
#[derive(Clone, Copy)]
pub(crate) struct Flusher<'s> {
    log: Option<&'s Log>,
    layers: LayerChanges<'s>,
    resolver: Resolver<'s>,
    files: &'s RunFiles,
    options: &'s Options,
    database_id: u64,
    memory: &'s MemtableLimit,
    background: &'s Background,
}

impl<'s> Flusher<'s> {
    pub(crate) fn of(shared: &'s Shared) -> Flusher<'s> {
        let Shared { log, files, options, database_id, memory, background, .. } = shared;
        let (layers, resolver) = (LayerChanges::of(shared), Resolver::of(shared));
        let (log, database_id) = (log.as_ref(), *database_id);
        Flusher { log, layers, resolver, files, options, database_id, memory, background }
    }

    /// Whether the log has grown by more than the options allow since the last checkpoint or the last attempt.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let (Some(log), bytes) = (self.log, self.options.checkpoint_log_bytes) else { return false };
        let last = self.files.last();
        let since = last.manifest.log_position.max(last.tried_at.0);
        bytes > 0 && log.end_lsn().0 - since > bytes
    }

    /// Records how a due checkpoint ended.
    pub(super) fn note_checkpoint(&self, is_taken: bool) {
        let end = self.log.map_or(Lsn(0), Log::end_lsn);
        self.files.last().tried_at = if is_taken { Lsn(0) } else { end };
    }

    /// Writes a checkpoint. One at a time; commits go on meanwhile.
    pub(crate) fn checkpoint(&self, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        self.write_runs(Job::Checkpoint, progress)
    }

    /// Writes a checkpoint and keeps its runs until the returned value is dropped.
    pub(crate) fn checkpoint_to_keep(&self, progress: &mut dyn FnMut(Progress)) -> Result<KeptRuns<'s>> {
        self.layers.writer.refuse_in_own_turn()?;
        let _turn = self.files.turn();
        self.write_runs_in_turn(Job::Checkpoint, progress)?;
        Ok(self.files.keep())
    }

    /// Writes what a table has in memory to a run below. Its pages are then read when they are needed.
    pub(crate) fn flush(&self, id: TableId) -> Result<CheckpointInfo> {
        self.write_runs(Job::Flush(id), &mut |_| ())
    }

    /// Like [`Flusher::flush`], in the turn to write runs.
    pub(crate) fn flush_in_turn(&self, id: TableId) -> Result<CheckpointInfo> {
        self.write_runs_in_turn(Job::Flush(id), &mut |_| ())
    }

    /// Writes what a table has in memory, whether or not it has changed: an image of a table in memory, one more run of
    /// a table on disk.
    pub(crate) fn write_anew(&self, id: TableId, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.write_runs(Job::Anew(id), progress).map(|_| ())
    }

    fn write_runs(&self, job: Job, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        // A thread with the writer's turn would wait here for a job that waits for that turn.
        self.layers.writer.refuse_in_own_turn()?;
        let _turn = self.files.turn();
        let written = self.write_runs_in_turn(job, progress);
        let lacks_space = written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
        if lacks_space && job == Job::Checkpoint && self.give_up_spares()? {
            return self.write_runs_in_turn(job, progress);
        }
        written
    }

    /// Removes the files that the log keeps ready, if a checkpoint fits into their space: it shortens the log, from
    /// which they can be made again. Returns whether it did. In the writer's turn, since a writer may have reserved
    /// them for changes that it has made already.
    fn give_up_spares(&self) -> Result<bool> {
        let _turn = self.layers.turn()?;
        let log = writable(self.log)?;
        let versions = self.layers.versions.read();
        let bytes: u64 = versions.tables.iter().flatten().map(|table| table.bytes_estimate(self.layers.arena)).sum();
        drop(versions);
        Ok(bytes < log.segments().spare_bytes && log.give_up_spares()?)
    }

    fn write_runs_in_turn(&self, job: Job, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        let last = self.files.last().manifest.clone();
        let mut output = Output::default();
        let result = self.write_runs_after(&last, job, &mut output, progress);
        self.end_flushes();
        for (name, _) in &output.written {
            self.files.end_run(name);
        }
        self.files.last().failure = result.as_ref().err().map(ToString::to_string);
        result
    }

    /// Frozen trees are written no more: from here on no removed range is noted for them.
    fn end_flushes(&self) {
        // If there is no turn, nothing is removed either.
        if let Ok(mut turn) = self.layers.turn() {
            turn.tables.iter_mut().flatten().for_each(|trees| trees.jobs.end_flush());
        }
    }

    fn write_runs_after(
        &self,
        last: &Manifest,
        job: Job,
        output: &mut Output,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<CheckpointInfo> {
        let log = writable(self.log)?;
        let frozen = self.freeze_for(job)?;
        log.sync(frozen.lsn)?;
        let result = self.write_tables(last, job, &frozen, output, progress);
        let number = self.files.last().next_number();
        let Frozen { snapshot, lsn, mut left_out, .. } = frozen;
        let (sequence, next_table_id) = (snapshot.versions.sequence, snapshot.versions.tables.len() as u32);
        drop(snapshot);
        self.background.wake_to_reclaim(self.layers.registry);
        // A flush also moves them if no other table had anything only in memory; a checkpoint that had to leave out a
        // table does not.
        let (log_position, log_sequence) =
            if output.leaves_out { (last.log_position, last.sequence) } else { (lsn.0, sequence) };
        let manifest = Manifest {
            database_id: self.database_id,
            checkpoint: number,
            sequence: log_sequence,
            log_position,
            next_table_id,
            catalog_sequence: sequence,
            tables: std::mem::take(&mut output.tables),
        };
        if let Err(error) = result.and_then(|()| manifest.write(self.files.disk(), self.files.dir())) {
            let is_last = self.files.give_up(last, output.written.iter().map(|(_, path)| &**path));
            // What is logged from here on would be of tables that the next opening may find otherwise.
            return Err(if is_last { error } else { self.layers.health.fail(error) });
        }
        // From here on the new manifest counts, also if what the old one needed cannot be removed.
        let orphans = self.install(&manifest, std::mem::take(&mut output.flushed));
        let taken =
            |error: Error| error.context(format!("checkpoint {number} is taken, but what it replaces is still there"));
        orphans.map_err(taken)?;
        if !output.leaves_out {
            log.release_before(lsn).map_err(taken)?;
        }
        // The rest is written: a table that cannot be written does not stop the others.
        match left_out.pop_first() {
            None => Ok(CheckpointInfo { number, sequence, ..output.info }),
            Some((_, error)) => Err(error),
        }
    }

    /// Writes the runs of a job, and says of each table what the next manifest is to say.
    fn write_tables(
        &self,
        last: &Manifest,
        job: Job,
        frozen: &Frozen<'_>,
        output: &mut Output,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let tables = || frozen.snapshot.versions.tables.iter().flatten();
        let total = tables().map(|table| self.entries_in_memory(table)).sum();
        let mut done = 0;
        for table in tables() {
            let mut report =
                |entries| progress(Progress { stage: "writing the checkpoint", done: done + entries, total });
            let entry = self.write_table(last, job, frozen, table, output, &mut report)?;
            output.leaves_out |= table.sequence > entry.sequence;
            output.tables.push(entry);
            done += self.entries_in_memory(table);
        }
        self.files.sync_dir()
    }

    /// Writes a run of a table if the job calls for one, and returns the table's entry in the next manifest.
    fn write_table(
        &self,
        last: &Manifest,
        job: Job,
        frozen: &Frozen<'_>,
        table: &TableVersion,
        output: &mut Output,
        report: &mut dyn FnMut(u64),
    ) -> Result<ManifestTable> {
        let id = table.declaration.id;
        let known = last.tables.iter().find(|entry| entry.id() == id);
        let mut entry = known.cloned().unwrap_or_else(|| undescribed(&table.declaration));
        entry.declaration = table.declaration.clone();
        let is_asked_for = job == Job::Flush(id) || job == Job::Anew(id);
        if !(job == Job::Checkpoint || is_asked_for) || frozen.left_out.contains_key(&id) {
            return Ok(entry);
        }
        if known.is_none() || table.sequence > entry.sequence || is_asked_for {
            entry.is_on_disk = frozen.on_disk.contains(&id);
            let run = self.write_run(table, entry.is_on_disk, &mut output.written, report)?;
            if let Some(run) = &run {
                output.info.bytes_written += run.info().bytes;
                output.info.tables_written += 1;
                output.info.rows_written += run.info().total.entries as u64;
            }
            let runs: Vec<_> = run.iter().chain(table.runs.iter()).cloned().collect();
            entry.runs = runs.iter().map(|run| described(run)).collect();
            entry.total = total_of(&runs);
            if entry.is_on_disk {
                output.flushed.push((id, Flushed { trees: table.layers.len() - 1, run }));
            } else {
                // It may have had runs before, of which nothing was left.
                entry.ingested = LastIngest::default();
            }
        }
        entry.sequence = frozen.snapshot.versions.sequence;
        entry.excised = entry.sequence;
        Ok(entry)
    }

    /// Takes the snapshot that a job is of, in the writer's turn, in which it, the end of the log and new trees over
    /// those to be written belong together.
    fn freeze_for(&self, job: Job) -> Result<Frozen<'s>> {
        let is_asked_for = |trees: &TableTrees| match job {
            Job::Checkpoint => !trees.runs.is_empty(),
            Job::Flush(id) => id == trees.declaration.id,
            Job::Anew(id) => id == trees.declaration.id && !trees.runs.is_empty(),
        };
        let left_out = self.resolver.begin_resolving(is_asked_for);
        let mut turn = self.layers.turn()?;
        end_resolving(&mut turn);
        let left_out = left_out?;
        let is_asked_for = |trees: &TableTrees| is_asked_for(trees) && !left_out.contains_key(&trees.declaration.id);
        let on_disk = turn.tables.iter().flatten().filter(|trees| is_asked_for(trees));
        let on_disk = on_disk.map(|trees| trees.declaration.id).collect();
        let to_freeze = |trees: &&TableTrees| {
            // An upper tree without entries can take the writes as it is.
            is_asked_for(trees) && (trees.layers[0].is_bottom() || trees.layers[0].entries() > 0)
        };
        let trees = turn.tables.iter().flatten().filter(to_freeze);
        let ids: Vec<TableId> = trees.map(|trees| trees.declaration.id).collect();
        for id in ids {
            self.layers.freeze_in(&mut turn, id)?;
        }
        for trees in turn.tables.iter_mut().flatten().filter(|trees| is_asked_for(trees)) {
            trees.jobs.begin_flush();
        }
        Ok(Frozen { snapshot: self.layers.snapshot(), lsn: writable(self.log)?.end_lsn(), on_disk, left_out })
    }

    fn entries_in_memory(&self, table: &TableVersion) -> u64 {
        table.views(self.layers.arena).map(|view| view.entries()).sum()
    }

    /// Writes the trees of a table to a run: an image that is read back whole, or a run whose pages are read when
    /// needed. Writes none if the trees hold nothing.
    fn write_run(
        &self,
        table: &TableVersion,
        is_on_disk: bool,
        written: &mut Vec<(String, PathBuf)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<Arc<Run>>> {
        // On disk the newest tree already takes the writes.
        let views = table.views(self.layers.arena).skip(usize::from(is_on_disk));
        let views: SmallVec<[View<'_>; 4]> = views.filter(|view| view.entries() > 0).collect();
        let expected: Tally = views.iter().map(View::total).sum();
        let is_bottom = table.runs.is_empty();
        let is_nothing = match (is_on_disk, is_bottom) {
            (false, _) => expected.rows == 0,
            // A table on disk always has a bottom run, even an empty one.
            (true, true) => false,
            (true, false) => views.is_empty(),
        };
        if is_nothing {
            return Ok(None);
        }
        let measures = table.declaration.options.measures;
        let (name, number) = self.files.begin_run(table.declaration.id);
        let path = self.files.dir().join(&name);
        written.push((name, path.clone()));
        let disk = self.files.disk();
        let mut options = run_options(self.options.run_page_bytes, &table.declaration, number, is_bottom);
        (options.has_filters, options.is_read_soon) = (is_on_disk, is_on_disk);
        let mut writer = RunWriter::create(disk, &path, options)?;
        let mut entries = 0u64;
        let mut count = || {
            entries += 1;
            if entries.is_multiple_of(4096) {
                progress(entries);
            }
        };
        let stack: Stack<'_, View<'_>> = Stack::new(views, measures);
        if stack.single().is_some() {
            let mut result = Ok(());
            infallible(stack.scan((Cut::Start, Cut::End), false, false, |key, value| {
                result = writer.push(key, value);
                count();
                result.is_ok()
            }));
            result?;
        } else {
            let mut merge = infallible(Merge::from(&stack, Cut::Start));
            let mut key = KeyBuffer::new();
            while let Some(entry) = infallible(merge.next_entry(&mut key, |_| true)) {
                writer.push_entry(&key, entry.value, entry.weight)?;
                count();
            }
        }
        let info = writer.finish()?;
        check_law(&table.declaration, expected, info.total.tally)?;
        Ok(Some(Arc::new(Run::open(disk, &path)?)))
    }

    /// After the manifest is in place: gives tables the runs that it names, and removes what it no longer names.
    fn install(&self, manifest: &Manifest, flushed: Vec<(TableId, Flushed)>) -> Result<()> {
        self.files.last().manifest = manifest.clone();
        for (id, Flushed { trees, run }) in flushed {
            let installed = self.layers.install_flushed(id, trees, run.as_ref());
            // If that fails, the table is not what the manifest says it is.
            let installed = installed.map_err(|error| self.layers.health.fail(error))?;
            // Not under the latch, since this reads.
            let declaration = self.layers.versions.read().table(id).map(|table| table.declaration.clone());
            if let Ok(declaration) = declaration {
                preload_runs(self.layers.cache, &declaration, installed.as_slice(), &[]);
            }
        }
        note_runs(self.layers.versions, self.memory, self.options.background);
        self.background.wake_compactor();
        self.files.remove_replaced(manifest, self.layers.versions)
    }
}

/// How the manifest describes a run.
pub(crate) fn described(run: &Run) -> ManifestRun {
    let part = |part: Part| ManifestPart {
        name: part.file.name(),
        identity: part.file.identity(),
        low: part.low.to_vec(),
        excisions: part.file.excisions().map_or_else(Vec::new, |excisions| excisions.as_slice().to_vec()),
    };
    ManifestRun { parts: run.parts().map(part).collect() }
}

/// The entry of a table that no manifest has named yet: it has no runs.
pub(crate) fn undescribed(declaration: &Arc<Declaration>) -> ManifestTable {
    ManifestTable {
        declaration: declaration.clone(),
        is_on_disk: false,
        sequence: 0,
        ingested: LastIngest::default(),
        excised: 0,
        runs: Vec::new(),
        total: Tally::ZERO,
    }
}

#[cfg(test)]
mod tests;
