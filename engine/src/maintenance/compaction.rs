//! Compaction: merges runs of a table into one; weights add up, dead entries go.
//!
//! A merge of large runs takes minutes, in which flushes leave many small ones. So now and then it pauses to merge
//! those, which are much smaller: a merge within the merge.
//!
//! Invariants:
//! 1. The run that a compaction writes weighs what the merged runs did: the law.
//! 2. Which runs there are changes only in the turn to write runs; a compaction takes it when its run is complete.
//!    Meanwhile flushes have put runs above, none in between. The removal of ranges may have left less of the runs that
//!    are merged, or nothing: their result loses these ranges too, and is given up if none of the runs is there.
//! 3. Memory: [`PINNED_WINDOWS`] of each run, and a cache of [`CACHE_BYTES`]; a merge within another uses windows a
//!    quarter as large.
//!
//! Not here: which runs are merged (`merge_choice`), which of their files stay unchanged (`merge_pieces`), and which
//! keys are left out (`next_entry` in `stack/merge.rs`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::{Declaration, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::checkpoint_and_flush::{Flusher, described};
use crate::maintenance::layers::{LayerChanges, has_been_emptied};
use crate::maintenance::merge_choice::{Size, choose_alike, choose_but, size_of};
use crate::maintenance::merge_pieces::{Piece, pieces};
use crate::maintenance::parts_writer::{FILES_MAX, PartsWriter};
use crate::maintenance::preload_tables::preload_runs;
use crate::maintenance::removal_manifest::RemovalManifest;
use crate::options::{Options, RunLayout};
use crate::probe::excised;
use crate::progress::Progress;
use crate::read::table_stack::{Source, WalkWindow, WindowRows};
use crate::run::Run;
use crate::state::failures::{FailedMerges, Task, unpanicked};
use crate::state::publish::table_of;
use crate::state::run_files::{KeptFiles, RunFiles};
use crate::state::shared::Shared;
use crate::state::threads::Background;
use crate::state::versions::{Runs, TableVersion, total_of};
use crate::state::writer::TableTrees;
use crate::sync::Mutex;

/// Bytes read from each run at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// Pages read so far are released after this many windows of all runs.
const PINNED_WINDOWS: u64 = 4;
/// A file smaller than this part of the target size is rewritten with its neighbours.
const KEPT_SHARE: u64 = 8;
/// Bytes of inner pages that are likely to be needed again.
const CACHE_BYTES: u64 = 1 << 20;
/// A merge within another has at most this part of its bytes.
const WITHIN_SHARE: u64 = 4;
/// Bytes that the innermost of many nested merges reads from a run at a time.
const WINDOW_BYTES_MIN: u64 = 64 << 10;

/// Which files a merge keeps as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    WhatNeedNotChange,
    /// None: all rows are rewritten.
    Nothing,
}

/// A merge in progress.
struct Ongoing<'o> {
    merged: &'o [Arc<Run>],
    /// The merge that paused for this one.
    around: Option<&'o Ongoing<'o>>,
}

impl Ongoing<'_> {
    /// Whether it, or a merge around it, has this run.
    fn has(&self, run: &Arc<Run>) -> bool {
        self.merged.iter().any(|merged| merged.is_same(run)) || self.around.is_some_and(|around| around.has(run))
    }

    /// Bytes it reads from each run at a time.
    fn window_bytes(&self) -> u64 {
        self.around.map_or(WINDOW_BYTES, |around| (around.window_bytes() / WITHIN_SHARE).max(WINDOW_BYTES_MIN))
    }
}

/// The runs whose files an error is about. The others can be merged without them.
fn blamed(error: &Error, runs: &[Arc<Run>]) -> Vec<Arc<Run>> {
    let is_named = |run: &&Arc<Run>| described(run).parts.iter().any(|part| error.is_about(&part.name));
    runs.iter().filter(is_named).cloned().collect()
}

/// What merging runs needs.
#[derive(Clone, Copy)]
pub(crate) struct Merger<'s> {
    /// The turn to merge runs, and the merges that failed.
    turn: &'s Mutex<FailedMerges>,
    layers: LayerChanges<'s>,
    removals: RemovalManifest<'s>,
    files: &'s Arc<RunFiles>,
    options: &'s Options,
    background: &'s Background,
}

impl<'s> Merger<'s> {
    pub(crate) fn of(shared: &'s Shared) -> Merger<'s> {
        let Shared { merging, files, options, background, .. } = shared;
        let (layers, removals) = (LayerChanges::of(shared), RemovalManifest::of(shared));
        Merger { turn: merging, layers, removals, files, options, background }
    }

    /// Merges runs of the first table that needs it, or, at rest, that would gain from it. Returns whether it merged
    /// any. Failures are recorded, and their runs left alone for a while.
    pub(crate) fn merge_if_due(&self, is_at_rest: bool) -> bool {
        let mut failed = self.turn.lock();
        let jobs = self.files.last_number();
        let versions = Arc::clone(&self.layers.versions.read());
        for table in versions.tables.iter().flatten() {
            let id = table.declaration.id;
            let named = unpanicked(|| self.removals.name(id));
            if !matches!(named, Ok(false)) {
                self.layers.health.failures.note(Task::Merge, Some(id), named.as_ref().map(|_| ()));
            }
            let Some(chosen) = choose_but(&table.runs, is_at_rest, |run| failed.has(run, jobs)) else { continue };
            let merged = self.merge_noting(&mut failed, &table.declaration, &table.runs, chosen);
            if merged.is_ok() || self.background.is_stopping() {
                return merged.is_ok();
            }
            self.layers.health.failures.note(Task::Merge, Some(id), merged.as_ref().copied());
        }
        false
    }

    /// Merges runs at `chosen`, and records the outcome in `failed`.
    fn merge_noting(
        &self,
        failed: &mut FailedMerges,
        declaration: &Arc<Declaration>,
        runs: &Runs,
        chosen: Range<usize>,
    ) -> Result<()> {
        let merged = unpanicked(|| {
            self.merge_runs(declaration, runs, chosen.clone(), Keeps::WhatNeedNotChange, None, &mut |_| ()).map(|_| ())
        });
        // Closing the database also ends merges, which says nothing about their runs.
        if !self.background.is_stopping() {
            let blamed = merged.as_ref().err().map(|error| blamed(error, &runs[chosen.clone()])).unwrap_or_default();
            let concerned = if blamed.is_empty() { &runs[chosen] } else { &blamed[..] };
            failed.note(concerned, merged.is_ok(), self.files.last_number());
        }
        merged
    }

    /// Merges all runs of a table into one, from which nothing is excised.
    pub(crate) fn merge_table(&self, id: TableId, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.layers.writer.refuse_in_own_turn()?;
        let mut failed = self.turn.lock();
        let needs = |runs: &[Arc<Run>]| runs.len() > 1 || runs.iter().any(|run| run.excisions() > 0);
        self.merge_all(&mut failed, id, needs, Keeps::WhatNeedNotChange, progress)?;
        self.removals.name(id).map(|_| ())
    }

    /// Merges the runs of a table into one, as long as they need it.
    fn merge_all(
        &self,
        failed: &mut FailedMerges,
        id: TableId,
        needs: impl Fn(&[Arc<Run>]) -> bool,
        keeps: Keeps,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        loop {
            let table = self.layers.versions.read().table(id)?.clone();
            if !needs(&table.runs) || self.merge_all_of(failed, &table, keeps, progress)? {
                return Ok(());
            }
        }
    }

    fn merge_all_of(
        &self,
        failed: &mut FailedMerges,
        table: &TableVersion,
        keeps: Keeps,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<bool> {
        let stage = match keeps {
            Keeps::WhatNeedNotChange => "merging runs",
            Keeps::Nothing => "rewriting",
        };
        let total = table.runs.iter().map(|run| run.info().total.entries as u64).sum();
        let mut report = |done| progress(Progress { stage, done, total });
        let is_merged =
            self.merge_runs(&table.declaration, &table.runs, 0..table.runs.len(), keeps, None, &mut report)?;
        failed.note(&table.runs, true, self.files.last_number());
        self.layers.health.failures.note(Task::Merge, Some(table.declaration.id), Ok(()));
        Ok(is_merged)
    }

    /// Rewrites all rows of a table into one new run, in the newest format and with the index that the table is now
    /// declared to have.
    pub(crate) fn rewrite(
        &self,
        flusher: &Flusher<'_>,
        id: TableId,
        layout: RunLayout,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.layers.writer.refuse_in_own_turn()?;
        let mut failed = self.turn.lock();
        self.layers.declare_layout(id, layout)?;
        flusher.write_anew(id, progress)?;
        self.merge_all(&mut failed, id, |runs| !runs.is_empty(), Keeps::Nothing, progress)
    }

    /// Replaces the runs at `chosen` by one. Reports now and then how many entries it has written. Returns whether it
    /// has replaced them: if they have changed before it began, or nothing is left of them after it, it has not.
    fn merge_runs(
        &self,
        declaration: &Arc<Declaration>,
        runs: &Runs,
        chosen: Range<usize>,
        keeps: Keeps,
        around: Option<&Ongoing<'_>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        let is_bottom = chosen.end == runs.len();
        let merged = &runs[chosen];
        let Some(mut job) = self.begin_merge(declaration.id, merged)? else { return Ok(false) };
        let file_bytes = self.options.run_file_bytes.max(bytes_of(merged) / FILES_MAX);
        let mut parts = PartsWriter::new(self.files, self.options.run_page_bytes, declaration, is_bottom, file_bytes);
        let merge = Ongoing { merged, around };
        let result = self.merge_into(&mut parts, &merge, keeps, progress).and_then(|()| parts.finish(total_of(merged)));
        let replaced = match result {
            Ok(run) => self.replace_runs(&mut job, merged, &run, &mut parts),
            Err(error) => {
                parts.remove_files();
                Err(error)
            }
        };
        parts.end();
        let Some(run) = replaced? else { return Ok(false) };
        preload_runs(self.layers.cache, declaration, &[run], merged);
        Ok(true)
    }

    /// Begins a merge of runs of a table; `None` if the table does not have them any more.
    fn begin_merge(&self, id: TableId, merged: &[Arc<Run>]) -> Result<Option<Job<'s>>> {
        let mut turn = self.layers.turn()?;
        let Ok(trees) = table_of(&mut turn, id) else { return Ok(None) };
        let is_there = |run: &Arc<Run>| trees.runs.iter().any(|other| Arc::ptr_eq(run, other));
        if !merged.iter().all(is_there) {
            return Ok(None);
        }
        let names = merged.iter().flat_map(|run| run.files()).map(|file| file.name()).collect();
        let kept = Some(self.files.keep_files(names));
        Ok(Some(Job { layers: self.layers, table: id, number: trees.jobs.begin(), kept }))
    }

    /// Replaces merged runs by their result, in the manifest and in the table. Returns what the result is then; `None`
    /// if the runs are not there any more. Removes the files written, unless a manifest may name them.
    fn replace_runs(
        &self,
        job: &mut Job<'_>,
        merged: &[Arc<Run>],
        run: &Arc<Run>,
        parts: &mut PartsWriter,
    ) -> Result<Option<Arc<Run>>> {
        let _turn = self.files.turn();
        let plan = |trees: &TableTrees, pages: &ReadPages<'_>| {
            let removed = trees.jobs.removed_since(job.number);
            let left = excised(run, removed.iter(), pages)?;
            Ok(replaced(&trees.runs, merged, run, &left)?.map(|runs| (runs, left)))
        };
        // Both manifests name the same rows, so it does not matter which of them an opening finds.
        let manifest = match self.removals.manifest_with(job.table, &plan) {
            Ok(Some(manifest)) => manifest,
            not => {
                parts.remove_files();
                job.kept = None;
                // All rows were removed meanwhile, or the table was dropped; no job could remove the files until now.
                not.map(|_| ())?;
                let last = self.files.last().manifest.clone();
                self.files.remove_replaced(&last, self.layers.versions)?;
                return Ok(None);
            }
        };
        self.files.replace_manifest(manifest.clone(), parts.written()).map_err(|(error, _)| error)?;
        let installed = self.layers.change_runs(job.table, plan, |trees, _| trees.jobs.end(job.number));
        // If that fails, the table is not what the manifest says it is.
        let installed = installed.map_err(|error| self.layers.health.fail(error))?;
        job.kept = None;
        self.files.remove_replaced(&manifest, self.layers.versions)?;
        Ok(installed)
    }

    /// Within a merge, merges due runs that are much smaller; in its own table those above it, which flushes have left
    /// meanwhile. Returns whether there were any.
    fn merge_within(&self, merge: &Ongoing<'_>) -> Result<bool> {
        let versions = Arc::clone(&self.layers.versions.read());
        for table in versions.tables.iter().flatten() {
            let above = table.runs.iter().take_while(|run| !merge.has(run));
            let sizes: Vec<Size> = above.map(|run| size_of(run)).collect();
            let is_much_smaller = |chosen: &Range<usize>| {
                sizes[chosen.clone()].iter().map(|run| run.bytes).sum::<u64>() <= bytes_of(merge.merged) / WITHIN_SHARE
            };
            if let Some(chosen) = choose_alike(&sizes).filter(is_much_smaller) {
                let (declaration, keeps) = (&table.declaration, Keeps::WhatNeedNotChange);
                self.merge_runs(declaration, &table.runs, chosen, keeps, Some(merge), &mut |_| ())?;
                // If these were not merged, there may be others now.
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the result of merging all entries of the runs, except for files that are kept.
    fn merge_into(
        &self,
        parts: &mut PartsWriter,
        ongoing: &Ongoing<'_>,
        keeps: Keeps,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let runs = ongoing.merged;
        let measures = parts.declaration().options.measures;
        let kept_bytes_min = match keeps {
            Keeps::WhatNeedNotChange => parts.file_bytes() / KEPT_SHARE,
            Keeps::Nothing => u64::MAX,
        };
        // Pages that are read once need not be kept.
        let cache = PageCache::new(CACHE_BYTES);
        let window_bytes = ongoing.window_bytes();
        let lent_bytes = PINNED_WINDOWS * window_bytes * runs.len() as u64;
        let window = WalkWindow { rows: WindowRows::Any, bytes: window_bytes, lent_bytes };
        let (mut bytes, mut entries) = (0, 0);
        // A merge within that failed is tried again after this one.
        let mut looks_within = self.options.background;
        for piece in pieces(runs, parts.is_bottom(), kept_bytes_min, &cache)? {
            let gap = match piece {
                Piece::Kept(part) => {
                    entries += part.file.info().total.entries as u64;
                    parts.keep(part)?;
                    continue;
                }
                Piece::Merged(gap) => gap,
            };
            Source::new([], runs, &cache, measures).walk(gap.start(), gap.end(), false, window, |merge, key| {
                let inside = |key: &[u8]| !gap.end().is_before(key);
                let Some(entry) = merge.next_entry(key, inside)? else { return Ok(false) };
                parts.push(key, entry.value, entry.weight)?;
                bytes += (key.len() + entry.value.map_or(0, <[u8]>::len)) as u64;
                entries += 1;
                if bytes > WINDOW_BYTES {
                    progress(entries);
                    self.pause_merge(bytes)?;
                    bytes = 0;
                    while looks_within {
                        match self.merge_within(ongoing) {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(_) => looks_within = false,
                        }
                    }
                }
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// Waits for as long as the options want after `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the database is being closed.
    fn pause_merge(&self, bytes: u64) -> Result<()> {
        if self.background.is_stopping() {
            return Err(Error::new(ErrorKind::Busy, "the database is being closed"));
        }
        let rate = self.options.compaction_bytes_per_second;
        if rate > 0 {
            #[expect(
                clippy::disallowed_methods,
                reason = "a rate is bytes in a time, and nobody tells when that is over"
            )]
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64));
        }
        Ok(())
    }
}

/// A merge that is told of removed ranges, until it is dropped.
struct Job<'s> {
    layers: LayerChanges<'s>,
    table: TableId,
    number: u64,
    /// The files of the merged runs: some become part of the result, though all their rows may be removed meanwhile and
    /// no table have them.
    kept: Option<KeptFiles<'s>>,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // If there is no turn, nothing is removed either.
        if let Ok(mut turn) = self.layers.turn()
            && let Ok(trees) = table_of(&mut turn, self.table)
        {
            trees.jobs.end(self.number);
        }
    }
}

/// The list of runs with the result of a merge in place of those of the merged runs that are there. `left` is what
/// excisions have left of the result. `None` if none of the merged runs is there.
fn replaced(current: &[Arc<Run>], merged: &[Arc<Run>], run: &Arc<Run>, left: &Arc<Run>) -> Result<Option<Runs>> {
    let is_merged = |run: &Arc<Run>| merged.iter().any(|merged| merged.is_same(run));
    let Some(first) = current.iter().position(is_merged) else { return Ok(None) };
    let after = first + current[first..].iter().take_while(|run| is_merged(run)).count();
    let has_others = first > 0 || after < current.len();
    let result = (!has_been_emptied(left, run) || !has_others).then(|| left.clone());
    let runs = [&current[..first], result.as_slice(), &current[after..]].concat();
    Runs::stacked(runs).map(Some)
}

/// The size of the files of all these runs, in bytes.
fn bytes_of(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.info().bytes).sum()
}

#[cfg(test)]
mod tests;
