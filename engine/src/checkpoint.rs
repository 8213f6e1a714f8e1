//! Writing runs: checkpoints of all tables, after which the log before them is recycled, and flushes of one table whose rows have grown too large for memory.
//!
//! A table in memory is written whole, as an image that is read back when the database opens. One that has runs below its trees has these frozen and written to
//! one more run.
//!
//! Invariants:
//! 1. The manifest names only runs that are complete and synced, and log positions and commits that are synced.
//! 2. Until the new manifest is in place, everything that the old one needs stays: a crash at any step leaves one of the two.
//! 3. A table that has not changed since it was last written keeps its runs.
//! 4. No number is used twice while the database is open: the runs of a job that failed at its very end may be named by the manifest on disk.
//! 5. The runs of a job weigh what they were written from: the law, checked each time.
//!
//! Locks are taken in the order: the turn to write runs, the writer's turn, what is known of the last manifest; the last one never during I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::db::{Progress, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;
use crate::log::{Log, Lsn};
use crate::manifest::{Manifest, ManifestPart, ManifestRun, ManifestTable};
use crate::options::RunIndex;
use crate::page::KeyBuffer;
use crate::run::{Index, Part, Run, RunOptions, RunWriter};
use crate::snapshot::{Declaration, Runs, Snapshot, TableId, TableVersion, total_of};
use crate::stack::{Cut, Merge, Stack, resident};
use crate::sync::{Mutex, MutexGuard};
use crate::tally::Tally;
use crate::tree::View;
use crate::writer::TableTrees;

/// Jobs that write the manifest, one at a time.
pub(crate) struct Checkpoints {
    turn: Mutex<()>,
    last: Mutex<LastManifest>,
}

/// What is known of the last manifest.
pub(crate) struct LastManifest {
    pub(crate) manifest: Manifest,
    /// Why the last job failed, if it did.
    pub(crate) failure: Option<String>,
    /// Where the log ended when a checkpoint that was due failed; 0 if the last one did not.
    tried_at: Lsn,
    /// The number of the last job.
    number: u64,
    /// Runs that are being written, which no manifest names yet.
    writing: BTreeSet<String>,
    /// Runs that are being copied, and how many times.
    kept: BTreeMap<String, usize>,
}

/// The runs of a manifest, which stay until this is dropped, whatever replaces them. What was replaced by then goes with the next job.
pub(crate) struct KeptRuns<'c> {
    checkpoints: &'c Checkpoints,
    pub(crate) manifest: Manifest,
}

impl Drop for KeptRuns<'_> {
    fn drop(&mut self) {
        let mut last = self.checkpoints.last();
        for name in self.manifest.files() {
            if let Some(times) = last.kept.get_mut(name) {
                *times -= 1;
            }
        }
        last.kept.retain(|_, times| *times > 0);
    }
}

impl LastManifest {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl Checkpoints {
    pub(crate) fn new(manifest: Manifest) -> Self {
        let number = manifest.checkpoint;
        let (failure, tried_at) = (None, Lsn(0));
        let last =
            LastManifest { manifest, failure, tried_at, number, writing: BTreeSet::new(), kept: BTreeMap::new() };
        Checkpoints { turn: Mutex::default(), last: Mutex::new(last) }
    }

    /// Waits for the turn to write runs.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Whether somebody has that turn.
    pub(crate) fn is_taken(&self) -> bool {
        self.turn.is_taken()
    }

    /// Does not wait for a job that is being done.
    pub(crate) fn last(&self) -> MutexGuard<'_, LastManifest> {
        self.last.lock()
    }

    /// The name of a run to be written, which nobody removes meanwhile.
    pub(crate) fn begin_run(&self, table: TableId) -> (String, u64) {
        let mut last = self.last();
        let number = last.next_number();
        let name = run_name(number, table);
        last.writing.insert(name.clone());
        (name, number)
    }

    /// Keeps the runs that the last manifest names. Asked in the turn to write runs, in which they are all there.
    fn keep(&self) -> KeptRuns<'_> {
        let mut last = self.last();
        let manifest = last.manifest.clone();
        for name in manifest.files() {
            *last.kept.entry(name.clone()).or_default() += 1;
        }
        drop(last);
        KeptRuns { checkpoints: self, manifest }
    }

    /// The number of the last job.
    pub(crate) fn last_number(&self) -> u64 {
        self.last().number
    }

    /// The run is named by the manifest, or given up.
    pub(crate) fn end_run(&self, name: &str) {
        self.last().writing.remove(name);
    }
}

/// What a checkpoint did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its number.
    pub number: u64,
    /// The last commit in it.
    pub sequence: u64,
    /// Tables written; those that had not changed kept their files.
    pub tables_written: usize,
    /// Entries written: rows of tables in memory, and what was written to others since they were last flushed.
    pub rows_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// The name of a run of a table.
pub(crate) fn run_name(number: u64, table: TableId) -> String {
    format!("run-{number:010}-{table:06}.quipu")
}

/// Whether a file is a run, by its name.
pub(crate) fn is_run_name(name: &str) -> bool {
    name.starts_with("run-") && name.ends_with(".quipu")
}

/// What is to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// All tables, so that the log before can go.
    Checkpoint,
    /// What one table has in memory, so that the memory can go.
    Flush(TableId),
    /// What one table has in memory, though it may not have changed: an image of all its rows if it is in memory, what a flush writes if it is on disk.
    Anew(TableId),
}

/// What a job is of: see [`Shared::freeze_for`].
struct Frozen {
    snapshot: Snapshot,
    /// The end of the log in it.
    lsn: Lsn,
    /// The tables whose lower trees are frozen, to be a run: the newest tree, above, takes writes by now.
    on_disk: BTreeSet<TableId>,
    /// The tables that are left out, as what blind writes to them have not asked cannot be known now, and why.
    unsettled: BTreeMap<TableId, Error>,
}

/// A table whose trees are to be a run.
struct Flushed {
    /// How many trees, the lowest of the table, the run holds.
    trees: usize,
    runs: Runs,
}

impl Shared {
    /// Whether the log has grown by more than the options allow, since the last checkpoint or the last attempt at one.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let (Some(log), bytes) = (&self.log, self.options.checkpoint_log_bytes) else { return false };
        let last = self.checkpoints.last();
        let since = last.manifest.log_position.max(last.tried_at.0);
        bytes > 0 && log.end_lsn().0 - since > bytes
    }

    /// Notes how a checkpoint ended that was due.
    pub(crate) fn note_checkpoint(&self, is_taken: bool) {
        let end = self.log.as_ref().map_or(Lsn(0), Log::end_lsn);
        self.checkpoints.last().tried_at = if is_taken { Lsn(0) } else { end };
    }

    /// Writes a checkpoint. One at a time; commits go on meanwhile.
    pub(crate) fn checkpoint(self: &Arc<Self>, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        self.write_runs(Job::Checkpoint, progress)
    }

    /// Writes a checkpoint, whose runs stay as long as the value does.
    pub(crate) fn checkpoint_to_keep(self: &Arc<Self>, progress: &mut dyn FnMut(Progress)) -> Result<KeptRuns<'_>> {
        self.refuse_in_own_turn()?;
        let _turn = self.checkpoints.turn();
        self.write_runs_in_turn(Job::Checkpoint, progress)?;
        Ok(self.checkpoints.keep())
    }

    /// Writes what a table has in memory to a run below, whose pages are then read as they are needed.
    pub(crate) fn flush(self: &Arc<Self>, id: TableId) -> Result<CheckpointInfo> {
        self.write_runs(Job::Flush(id), &mut |_| ())
    }

    /// Writes what a table has in memory, whether it has changed or not: an image of a table in memory, one more run of a table on disk.
    pub(crate) fn write_anew(self: &Arc<Self>, id: TableId, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.write_runs(Job::Anew(id), progress).map(|_| ())
    }

    fn write_runs(self: &Arc<Self>, job: Job, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        // Whoever has the writer's turn would wait here for a job that waits for that turn.
        self.refuse_in_own_turn()?;
        let _turn = self.checkpoints.turn();
        self.write_runs_in_turn(job, progress)
    }

    fn write_runs_in_turn(self: &Arc<Self>, job: Job, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        let last = self.checkpoints.last().manifest.clone();
        let mut written = Vec::new();
        let result = self.write_runs_after(&last, job, &mut written, progress);
        for (name, _) in &written {
            self.checkpoints.end_run(name);
        }
        self.checkpoints.last().failure = result.as_ref().err().map(ToString::to_string);
        result
    }

    fn write_runs_after(
        self: &Arc<Self>,
        last: &Manifest,
        job: Job,
        written: &mut Vec<(String, PathBuf)>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<CheckpointInfo> {
        let log = self.log()?;
        let disk = &*self.options.disk;
        let Frozen { snapshot, lsn, on_disk, mut unsettled } = self.freeze_for(job)?;
        log.sync(lsn)?;
        let sequence = snapshot.versions.sequence;
        let mut info = CheckpointInfo { sequence, ..Default::default() };
        let mut flushed = Vec::new();
        let mut tables = Vec::new();
        let mut are_all_written = true;
        let result = (|| {
            let work: u64 = snapshot.versions.tables.iter().flatten().map(|table| self.entries_in_memory(table)).sum();
            let mut done = 0;
            for table in snapshot.versions.tables.iter().flatten() {
                let id = table.declaration.id;
                let known = last.tables.iter().find(|entry| entry.id == id);
                let mut entry = known.cloned().unwrap_or_else(|| undescribed(&table.declaration));
                entry.has_flat_index = table.declaration.options.index == RunIndex::Flat;
                let is_asked_for = job == Job::Flush(id) || job == Job::Anew(id);
                let is_wanted = (job == Job::Checkpoint || is_asked_for) && !unsettled.contains_key(&id);
                if is_wanted && (known.is_none() || table.sequence > entry.sequence || is_asked_for) {
                    let mut report = |entries| {
                        progress(Progress { stage: "writing the checkpoint", done: done + entries, total: work });
                    };
                    entry.is_on_disk = on_disk.contains(&id);
                    let run = self.write_run(table, entry.is_on_disk, written, &mut report)?;
                    if let Some(run) = &run {
                        info.bytes_written += run.info().bytes;
                        info.tables_written += 1;
                        info.rows_written += run.info().total.entries as u64;
                    }
                    let runs: Vec<_> = run.into_iter().chain(table.runs.iter().cloned()).collect();
                    entry.runs = runs.iter().map(|run| described(run)).collect();
                    entry.total = total_of(&runs);
                    if entry.is_on_disk {
                        flushed.push((id, Flushed { trees: table.layers.len() - 1, runs: Runs::new(runs) }));
                    }
                }
                if is_wanted {
                    entry.sequence = sequence;
                }
                are_all_written &= table.sequence <= entry.sequence;
                done += self.entries_in_memory(table);
                tables.push(entry);
            }
            disk.sync_dir(&self.dir).map_err(|error| Error::io("cannot sync directory", &self.dir, error))
        })();
        info.number = self.checkpoints.last().next_number();
        let next_table_id = snapshot.versions.tables.len() as u32;
        drop(snapshot);
        // So does a flush of the only table that had anything in memory alone; a checkpoint that had to leave a table out does not.
        let (log_position, log_sequence) =
            if are_all_written { (lsn.0, sequence) } else { (last.log_position, last.sequence) };
        let manifest = Manifest {
            database_id: self.database_id,
            checkpoint: info.number,
            sequence: log_sequence,
            log_position,
            next_table_id,
            catalog_sequence: sequence,
            tables,
        };
        if let Err(error) = result.and_then(|()| manifest.write(disk, &self.dir)) {
            self.give_up(last, written.iter().map(|(_, path)| &**path));
            return Err(error);
        }
        // From here on the new manifest counts, also if what the old one needed cannot be removed.
        let orphans = self.install(&manifest, flushed);
        let taken = |error: Error| {
            error.context(format!("checkpoint {} is taken, but what it replaces is still there", info.number))
        };
        orphans.map_err(taken)?;
        if are_all_written {
            log.release_before(lsn).map_err(taken)?;
        }
        // The rest is written: one table that cannot be does not keep the others from it.
        match unsettled.pop_first() {
            None => Ok(info),
            Some((_, error)) => Err(error),
        }
    }

    /// Takes the snapshot that a job is of, in the writer's turn, in which it, the end of the log and new trees over those to be written belong together.
    fn freeze_for(self: &Arc<Self>, job: Job) -> Result<Frozen> {
        let is_asked_for = |trees: &TableTrees| match job {
            Job::Checkpoint => !trees.runs.is_empty(),
            Job::Flush(id) => id == trees.declaration.id,
            Job::Anew(id) => id == trees.declaration.id && !trees.runs.is_empty(),
        };
        let unsettled = self.begin_settling(is_asked_for);
        let mut turn = self.writer()?;
        self.end_settling(&mut turn);
        let unsettled = unsettled?;
        let is_asked_for = |trees: &TableTrees| is_asked_for(trees) && !unsettled.contains_key(&trees.declaration.id);
        let on_disk = turn.tables.iter().flatten().filter(|trees| is_asked_for(trees));
        let on_disk = on_disk.map(|trees| trees.declaration.id).collect();
        let to_freeze = |trees: &&TableTrees| {
            // An upper tree without entries can take the writes as it is.
            is_asked_for(trees) && (trees.layers[0].is_bottom() || trees.layers[0].entries() > 0)
        };
        let trees = turn.tables.iter().flatten().filter(to_freeze);
        let ids: Vec<TableId> = trees.map(|trees| trees.declaration.id).collect();
        for id in ids {
            self.freeze_in(&mut turn, id)?;
        }
        Ok(Frozen { snapshot: Snapshot::take(self), lsn: self.log()?.end_lsn(), on_disk, unsettled })
    }

    fn entries_in_memory(&self, table: &TableVersion) -> u64 {
        table.views(&self.arena).map(|view| view.entries()).sum()
    }

    /// Writes the trees of a table to a run, an image that is read back whole or one whose pages are read as they are needed; none if they hold nothing.
    fn write_run(
        &self,
        table: &TableVersion,
        is_on_disk: bool,
        written: &mut Vec<(String, PathBuf)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<Arc<Run>>> {
        // On disk the newest tree takes the writes by now.
        let views = table.views(&self.arena).skip(usize::from(is_on_disk));
        let views: SmallVec<[View<'_>; 4]> = views.filter(|view| view.entries() > 0).collect();
        let expected: Tally = views.iter().map(View::total).sum();
        let is_bottom = table.runs.is_empty();
        let is_nothing = match (is_on_disk, is_bottom) {
            (false, _) => expected.rows == 0,
            // Below a table on disk there is a bottom run, be it an empty one.
            (true, true) => false,
            (true, false) => views.is_empty(),
        };
        if is_nothing {
            return Ok(None);
        }
        let measures = table.declaration.options.measures;
        let (name, number) = self.checkpoints.begin_run(table.declaration.id);
        let path = self.dir.join(&name);
        written.push((name, path.clone()));
        let disk = &*self.options.disk;
        let mut options = self.run_options(&table.declaration, number, is_bottom);
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
            resident(stack.scan(Cut::Start, Cut::End, false, |key, value| {
                result = writer.push(key, value);
                count();
                result.is_ok()
            }));
            result?;
        } else {
            let mut merge = resident(Merge::from(&stack, Cut::Start));
            let mut key = KeyBuffer::new();
            while let Some(entry) = resident(merge.next_entry(&mut key, |_| true)) {
                writer.push_entry(&key, entry.value, entry.weight)?;
                count();
            }
        }
        let info = writer.finish()?;
        self.check_law(&table.declaration, expected, info.total.tally)?;
        Ok(Some(Arc::new(Run::open(disk, &path)?)))
    }

    /// How a run of a table is to be.
    pub(crate) fn run_options(&self, declaration: &Declaration, number: u64, is_bottom: bool) -> RunOptions {
        RunOptions {
            page_bytes: self.options.run_page_bytes,
            measures: declaration.options.measures,
            table_id: declaration.id,
            run_id: number,
            is_bottom,
            index: match declaration.options.index {
                RunIndex::Tree => Index::Tree,
                RunIndex::Flat => Index::Flat,
            },
            compression: declaration.options.compression_of(is_bottom),
            is_read_soon: true,
            ..RunOptions::default()
        }
    }

    /// Fails if a run does not weigh what it was written from.
    pub(crate) fn check_law(&self, declaration: &Declaration, expected: Tally, written: Tally) -> Result<()> {
        if written == expected {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "table {:?} tallies {expected:?}, and what was written of it {written:?}: nothing was changed; run `quipu check`",
                declaration.name
            ),
        ))
    }

    /// Removes what a job has written that failed.
    pub(crate) fn give_up<'p>(&self, last: &Manifest, written: impl Iterator<Item = &'p Path>) {
        let disk = &*self.options.disk;
        // The manifest in place may be the new one, if it was the sync behind the renaming that failed: then both sets of runs stay until the next job.
        if Manifest::read(disk, &self.dir).is_ok_and(|found| found.as_ref() == Some(last)) {
            written.for_each(|path| drop(disk.remove(path)));
        }
    }

    /// The manifest is in place: tables take on the runs that it names, and what it names no longer is removed.
    fn install(&self, manifest: &Manifest, flushed: Vec<(TableId, Flushed)>) -> Result<()> {
        self.checkpoints.last().manifest = manifest.clone();
        for (id, Flushed { trees, runs }) in flushed {
            let newest = runs[..1].to_vec();
            self.replace_layers(id, trees, runs)?;
            // Not under the latch, as this reads.
            let declaration = self.versions.read().table(id).map(|table| table.declaration.clone());
            if let Ok(declaration) = declaration {
                self.preload_runs(&declaration, &newest, &[]);
            }
        }
        self.note_runs();
        if let Some(keeper) = &*self.keeper.lock() {
            keeper.wake_compactor();
        }
        self.remove_replaced(manifest)
    }

    /// Removes runs that the manifest does not name and nobody is writing or copying. Who reads them still has them open.
    pub(crate) fn remove_replaced(&self, manifest: &Manifest) -> Result<()> {
        let in_use = || {
            let last = self.checkpoints.last();
            last.writing.iter().chain(last.kept.keys()).cloned().collect()
        };
        remove_orphans(&*self.options.disk, &self.dir, manifest, in_use)
    }
}

/// What the manifest says of a run.
pub(crate) fn described(run: &Run) -> ManifestRun {
    let part =
        |part: Part| ManifestPart { name: part.file.name(), identity: part.file.identity(), low: part.low.to_vec() };
    ManifestRun { parts: run.parts().map(part).collect() }
}

/// The entry of a table that no manifest has named yet: nothing is in runs.
pub(crate) fn undescribed(declaration: &Declaration) -> ManifestTable {
    ManifestTable {
        id: declaration.id,
        name: declaration.name.clone(),
        measures: declaration.options.measures,
        annotation: declaration.options.annotation.clone(),
        is_resident: declaration.options.resident,
        is_blind: declaration.options.blind,
        has_flat_index: declaration.options.index == RunIndex::Flat,
        compression: declaration.options.compression,
        upper_compression: declaration.options.upper_compression,
        index_pages: declaration.options.index_pages,
        is_on_disk: false,
        sequence: 0,
        runs: Vec::new(),
        total: Tally::ZERO,
    }
}

/// Removes the runs that the manifest does not name, but for those that are `in_use`. That is asked once the directory has been listed: a run is in use
/// before its file is made, so a file that is listed and not in use is nobody's.
pub(crate) fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    in_use: impl FnOnce() -> BTreeSet<String>,
) -> Result<()> {
    let named: BTreeSet<&str> = manifest.files().map(|name| &**name).collect();
    let names = disk.list(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    let in_use = in_use();
    for name in names {
        let is_orphan = is_run_name(&name) && !named.contains(&*name) && !in_use.contains(&name);
        if is_orphan || name == "MANIFEST.new" {
            let path = dir.join(&name);
            match disk.remove(&path) {
                // A merge that failed meanwhile has removed what it had written.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io("cannot remove", &path, error))?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
