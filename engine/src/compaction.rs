//! Compaction: runs of a table become one, weights add, and what is dead goes.
//!
//! Which runs: neighbours of about the same size once there are [`FAN_IN`] of them (size-tiered, as in Bigtable and Cassandra), so that a row is written once more each time the
//! table grows by that factor; and all runs of a table once there is more in them that is dead than [`DEAD_PERCENT_MAX`]. How much that is need not be estimated: the
//! weights of a live key sum to one row, so all entries but the rows are overwritten ones and tombstones. Once nothing was flushed for a while, the few that are left become one or two.
//!
//! A merge of large runs takes minutes, in which flushes leave many small ones. So now and then it stops for those: a merge within the merge, of what is much less.
//!
//! Invariants:
//! 1. The run that a compaction makes weighs what the runs did that it was made from: the law.
//! 2. Runs change in the turn to write runs only; a compaction takes that when its run is complete. Flushes meanwhile have put runs above, none in between.
//! 3. Memory: [`PINNED_WINDOWS`] of each run, and a cache of [`CACHE_BYTES`]; of a merge within another, windows a quarter as large.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::described;
use crate::db::{Progress, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::failures::{FailedMerges, Task, unpanicked};
use crate::options::RunIndex;
use crate::page::KeyBuffer;
use crate::pieces::{Piece, pieces};
use crate::run::{PageCache, Part, Run, RunFile, RunWriter};
use crate::snapshot::{Declaration, Runs, TableId, TableVersion, total_of};
use crate::source::{Source, Window, WindowRows};
use crate::sync::atomic::Ordering;
use crate::tally::Tally;

/// So many neighbours of about the same size become one. Twice as many leave twice as many runs to be read, by gets, scans, and the writes that ask whether a key is live, and write little more than half
/// as much (`docs/benchmarks.md`).
const FAN_IN: usize = 4;
/// Runs whose sizes differ by no more than this factor are of about the same size.
const SAME_SIZE: u64 = 4;
/// Entries beside the live rows, in percent of these, at which everything is merged.
const DEAD_PERCENT_MAX: i64 = 25;
/// At rest all runs become one if those above the lowest have this part of its bytes; else those above it.
const AT_REST_SHARE: u64 = 8;
/// Bytes of each run that are read at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// After so many windows of all runs the pages read so far are let go of.
const PINNED_WINDOWS: u64 = 4;
/// A run has so many files at most, but for those that merges leave as they are.
const FILES_MAX: u64 = 256;
/// A file of less than this part of what one is to have is written anew with its neighbours.
const KEPT_SHARE: u64 = 8;
/// Bytes of inner pages that are likely to be needed again.
const CACHE_BYTES: u64 = 1 << 20;
/// A merge within another is of this part of its bytes at most.
const WITHIN_SHARE: u64 = 4;
/// Bytes of a run that the innermost of many merges reads at a time.
const WINDOW_BYTES_MIN: u64 = 64 << 10;

/// Which files a merge leaves as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    WhatNeedNotChange,
    /// All rows are to be written anew.
    Nothing,
}

/// What a choice of runs goes by.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    entries: i64,
    rows: i64,
}

/// A merge that is going on.
struct Ongoing<'o> {
    merged: &'o [Arc<Run>],
    /// That in the midst of which it began.
    around: Option<&'o Ongoing<'o>>,
}

impl Ongoing<'_> {
    /// Whether it has this run, or one around it has.
    fn has(&self, run: &Arc<Run>) -> bool {
        self.merged.iter().any(|merged| Arc::ptr_eq(merged, run)) || self.around.is_some_and(|around| around.has(run))
    }

    /// Bytes of each run that it reads at a time.
    fn window_bytes(&self) -> u64 {
        self.around.map_or(WINDOW_BYTES, |around| (around.window_bytes() / WITHIN_SHARE).max(WINDOW_BYTES_MIN))
    }
}

/// The runs to merge next, by their places in `runs`, which are newest first.
fn choose(runs: &[Size]) -> Option<Range<usize>> {
    if runs.len() < 2 {
        return None;
    }
    let (entries, rows) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.entries, sum.1 + run.rows));
    if (entries - rows) * 100 > rows.max(1) * DEAD_PERCENT_MAX {
        return Some(0..runs.len());
    }
    choose_alike(runs)
}

/// As [`choose`], by sizes alone.
fn choose_alike(runs: &[Size]) -> Option<Range<usize>> {
    (0..runs.len()).find_map(|first| {
        let (mut smallest, mut largest) = (u64::MAX, 0);
        let alike = runs[first..].iter().take_while(|run| {
            smallest = smallest.min(run.bytes);
            largest = largest.max(run.bytes);
            largest <= smallest.saturating_mul(SAME_SIZE)
        });
        let count = alike.count();
        (count >= FAN_IN).then(|| first..first + count)
    })
}

/// As [`choose`], of a table to which nothing was flushed for a while: few runs are read sooner than many.
fn choose_at_rest(runs: &[Size]) -> Option<Range<usize>> {
    let (bottom, upper) = runs.split_last()?;
    let bytes: u64 = upper.iter().map(|run| run.bytes).sum();
    if !upper.is_empty() && bytes >= bottom.bytes / AT_REST_SHARE {
        return Some(0..runs.len());
    }
    (upper.len() > 1).then_some(0..upper.len())
}

/// As [`choose`], or [`choose_at_rest`] too, among neighbours of which `is_left_alone` says none: those above the first such run, and if there is nothing to
/// merge there, those below the last.
fn choose_but(runs: &[Arc<Run>], is_at_rest: bool, is_left_alone: impl Fn(&Arc<Run>) -> bool) -> Option<Range<usize>> {
    let sizes: Vec<Size> = runs.iter().map(|run| size_of(run)).collect();
    let Some(first) = runs.iter().position(&is_left_alone) else {
        let at_rest = || if is_at_rest { choose_at_rest(&sizes) } else { None };
        return choose(&sizes).or_else(at_rest);
    };
    let last = runs.iter().rposition(is_left_alone)?;
    let below = || choose_alike(&sizes[last + 1..]).map(|chosen| chosen.start + last + 1..chosen.end + last + 1);
    let at_rest = || (is_at_rest && first > 1).then_some(0..first);
    choose_alike(&sizes[..first]).or_else(below).or_else(at_rest)
}

impl Shared {
    /// Merges runs of one table that call for it, or, where nothing was flushed for a while, that may as well be merged. Returns whether there were any. What
    /// cannot be merged is noted among the failures, and left alone for a while.
    pub(crate) fn compact_if_due(&self, is_at_rest: bool) -> bool {
        let mut failed = self.compacting.lock();
        let jobs = self.checkpoints.last_number();
        let versions = Arc::clone(&self.versions.read());
        for table in versions.tables.iter().flatten() {
            let Some(chosen) = choose_but(&table.runs, is_at_rest, |run| failed.has(run, jobs)) else { continue };
            let id = table.declaration.id;
            let merged = self.merge_noting(&mut failed, &table.declaration, &table.runs, chosen);
            if merged.is_ok() || self.stopping.load(Ordering::Relaxed) {
                return merged.is_ok();
            }
            self.failures.note(Task::Merge, Some(id), merged.as_ref().copied());
        }
        false
    }

    /// Merges runs at `chosen`, and notes among those that have `failed` whether that worked.
    fn merge_noting(
        &self,
        failed: &mut FailedMerges,
        declaration: &Declaration,
        runs: &Runs,
        chosen: Range<usize>,
    ) -> Result<()> {
        let merged = unpanicked(|| {
            self.merge_runs(declaration, runs, chosen.clone(), Keeps::WhatNeedNotChange, None, &mut |_| ())
        });
        // Closing ends merges too, which says nothing about their runs.
        if !self.stopping.load(Ordering::Relaxed) {
            failed.note(&runs[chosen], merged.is_ok(), self.checkpoints.last_number());
        }
        merged
    }

    /// Merges all runs of a table into one.
    pub(crate) fn compact(&self, id: TableId, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.refuse_in_own_turn()?;
        let mut failed = self.compacting.lock();
        let version = self.versions.read().table(id)?.clone();
        if version.runs.len() < 2 {
            return Ok(());
        }
        self.merge_all(&mut failed, &version, Keeps::WhatNeedNotChange, progress)
    }

    fn merge_all(
        &self,
        failed: &mut FailedMerges,
        table: &TableVersion,
        keeps: Keeps,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let stage = match keeps {
            Keeps::WhatNeedNotChange => "merging runs",
            Keeps::Nothing => "rewriting",
        };
        let total = table.runs.iter().map(|run| run.info().total.entries as u64).sum();
        let mut report = |done| progress(Progress { stage, done, total });
        self.merge_runs(&table.declaration, &table.runs, 0..table.runs.len(), keeps, None, &mut report)?;
        failed.note(&table.runs, true, self.checkpoints.last_number());
        self.failures.note(Task::Merge, Some(table.declaration.id), Ok(()));
        Ok(())
    }

    /// Writes all rows of a table into one new run, of the newest format and with the index that the table is declared to have from now on.
    pub(crate) fn rewrite(
        self: &Arc<Self>,
        id: TableId,
        index: RunIndex,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.refuse_in_own_turn()?;
        let mut failed = self.compacting.lock();
        self.declare_index(id, index)?;
        self.write_anew(id, progress)?;
        let version = self.versions.read().table(id)?.clone();
        if version.runs.is_empty() {
            return Ok(());
        }
        self.merge_all(&mut failed, &version, Keeps::Nothing, progress)
    }

    /// Puts one run in the place of those at `chosen`. Tells now and then how many entries it has written.
    fn merge_runs(
        &self,
        declaration: &Declaration,
        runs: &Runs,
        chosen: Range<usize>,
        keeps: Keeps,
        around: Option<&Ongoing<'_>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let is_bottom = chosen.end == runs.len();
        let merged = &runs[chosen];
        let mut parts = PartsWriter::new(self, declaration, merged, is_bottom);
        let merge = Ongoing { merged, around };
        let result = self.merge_into(&mut parts, &merge, keeps, progress).and_then(|()| parts.finish());
        let result = match result {
            Ok(run) => self.replace_runs(declaration.id, merged, run.clone(), &parts.written).map(|is_replaced| {
                if is_replaced {
                    self.preload_runs(declaration, &[run], merged);
                }
            }),
            Err(error) => {
                parts.written.iter().for_each(|name| drop(self.options.disk.remove(&self.dir.join(name))));
                Err(error)
            }
        };
        parts.written.iter().for_each(|name| self.checkpoints.end_run(name));
        result
    }

    /// Names the run in the manifest in the place of those that it was merged from, and puts it there. Returns whether the table is still there.
    fn replace_runs(&self, id: TableId, merged: &[Arc<Run>], run: Arc<Run>, written: &[String]) -> Result<bool> {
        let _turn = self.checkpoints.turn();
        let disk = &*self.options.disk;
        let last = self.checkpoints.last().manifest.clone();
        let current = self.versions.read().table(id).map(|table| table.runs.clone());
        let mut manifest = last.clone();
        let entry = manifest.tables.iter_mut().find(|entry| entry.id == id);
        // Flushes have put runs above since; the table may have been dropped.
        let place = current.as_ref().ok().and_then(|runs| runs.iter().position(|run| Arc::ptr_eq(run, &merged[0])));
        let (Ok(current), Some(place), Some(entry)) = (current, place, entry) else {
            return self.remove_replaced(&last).map(|()| false);
        };
        let runs = [&current[..place], &[run], &current[place + merged.len()..]].concat();
        entry.runs = runs.iter().map(|run| described(run)).collect();
        manifest.checkpoint = self.checkpoints.last_number();
        if let Err(error) = manifest.write(disk, &self.dir) {
            let written: Vec<PathBuf> = written.iter().map(|name| self.dir.join(name)).collect();
            self.give_up(&last, written.iter().map(|path| &**path));
            return Err(error);
        }
        self.checkpoints.last().manifest = manifest.clone();
        self.replace_layers(id, 0, Runs::new(runs))?;
        self.remove_replaced(&manifest).map(|()| true)
    }

    /// In the midst of a merge, merges runs that are much smaller if they call for it: of its table those above, which flushes have left meanwhile. Returns whether there were any.
    fn merge_within(&self, merge: &Ongoing<'_>) -> Result<bool> {
        let versions = Arc::clone(&self.versions.read());
        for table in versions.tables.iter().flatten() {
            let above = table.runs.iter().take_while(|run| !merge.has(run));
            let sizes: Vec<Size> = above.map(|run| size_of(run)).collect();
            let is_much_smaller = |chosen: &Range<usize>| {
                sizes[chosen.clone()].iter().map(|run| run.bytes).sum::<u64>() <= bytes_of(merge.merged) / WITHIN_SHARE
            };
            if let Some(chosen) = choose_alike(&sizes).filter(is_much_smaller) {
                let (declaration, keeps) = (&table.declaration, Keeps::WhatNeedNotChange);
                self.merge_runs(declaration, &table.runs, chosen, keeps, Some(merge), &mut |_| ())?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what all entries of the merge's runs come to, where it is not there already.
    fn merge_into(
        &self,
        parts: &mut PartsWriter<'_>,
        ongoing: &Ongoing<'_>,
        keeps: Keeps,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let runs = ongoing.merged;
        let measures = parts.declaration.options.measures;
        let kept_bytes_min = match keeps {
            Keeps::WhatNeedNotChange => parts.file_bytes / KEPT_SHARE,
            Keeps::Nothing => u64::MAX,
        };
        // What is read once need not be kept.
        let cache = PageCache::new(CACHE_BYTES);
        let window_bytes = ongoing.window_bytes();
        let pinned_bytes = PINNED_WINDOWS * window_bytes * runs.len() as u64;
        let window = Window { rows: WindowRows::Any, bytes: window_bytes, pinned_bytes };
        let rate = self.options.compaction_bytes_per_second;
        let (mut bytes, mut entries) = (0, 0);
        // One that failed is tried again when this one is done.
        let mut looks_within = self.options.background;
        for piece in pieces(runs, parts.is_bottom, kept_bytes_min, &cache)? {
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
                    if self.stopping.load(Ordering::Relaxed) {
                        return Err(Error::new(ErrorKind::Busy, "the database is being closed").into());
                    }
                    if rate > 0 {
                        #[expect(
                            clippy::disallowed_methods,
                            reason = "a rate is bytes in a time, and nobody tells when that is over"
                        )]
                        std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64));
                    }
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
}

/// Writes a run as files of about the same size, beside some that are there.
struct PartsWriter<'s> {
    shared: &'s Shared,
    declaration: &'s Declaration,
    is_bottom: bool,
    /// After so many bytes a file ends.
    file_bytes: u64,
    /// What the run is to weigh.
    expected: Tally,
    writer: Option<(RunWriter, KeyBuffer, PathBuf)>,
    parts: Vec<Part>,
    /// The names of the files written.
    written: Vec<String>,
}

impl<'s> PartsWriter<'s> {
    fn new(shared: &'s Shared, declaration: &'s Declaration, merged: &[Arc<Run>], is_bottom: bool) -> PartsWriter<'s> {
        let bytes = bytes_of(merged);
        PartsWriter {
            shared,
            declaration,
            is_bottom,
            file_bytes: shared.options.run_file_bytes.max(bytes / FILES_MAX),
            expected: total_of(merged),
            writer: None,
            parts: Vec::new(),
            written: Vec::new(),
        }
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>, weight: Tally) -> Result<()> {
        if self.writer.as_ref().is_some_and(|(writer, ..)| writer.bytes() >= self.file_bytes) {
            self.end_file()?;
        }
        if self.writer.is_none() {
            self.begin_file(key)?;
        }
        self.writer.as_mut().map_or(Ok(()), |(writer, ..)| writer.push_entry(key, value, weight))
    }

    fn keep(&mut self, part: Part) -> Result<()> {
        self.end_file()?;
        self.parts.push(part);
        Ok(())
    }

    fn begin_file(&mut self, low: &[u8]) -> Result<()> {
        let shared = self.shared;
        let (name, number) = shared.checkpoints.begin_run(self.declaration.id);
        let path = shared.dir.join(&name);
        self.written.push(name);
        let options = shared.run_options(self.declaration, number, self.is_bottom);
        let writer = RunWriter::create(&*shared.options.disk, &path, options)?;
        self.writer = Some((writer, KeyBuffer::from_slice(low), path));
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((writer, low, path)) = self.writer.take() else { return Ok(()) };
        writer.finish()?;
        let file = RunFile::open(&*self.shared.options.disk, &path)?;
        self.parts.push(Part { low, file: Arc::new(file) });
        Ok(())
    }

    /// The run, which is on stable storage then.
    fn finish(&mut self) -> Result<Arc<Run>> {
        if self.parts.is_empty() && self.writer.is_none() {
            // Below a table on disk there is a run, be it an empty one.
            self.begin_file(&[])?;
        }
        self.end_file()?;
        let run = Run::of_parts(&self.parts, self.is_bottom);
        let (shared, dir) = (self.shared, &self.shared.dir);
        shared.check_law(self.declaration, self.expected, run.info().total.tally)?;
        shared.options.disk.sync_dir(dir).map_err(|error| Error::io("cannot sync directory", dir, error))?;
        Ok(Arc::new(run))
    }
}

/// Bytes of the files of all these runs.
fn bytes_of(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.info().bytes).sum()
}

fn size_of(run: &Run) -> Size {
    let info = run.info();
    Size { bytes: info.bytes, entries: info.total.entries, rows: info.total.tally.rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::io::sim::SimDisk;
    use crate::options::{Options, TableOptions};
    use crate::read::Read;
    use crate::run::Index;
    use crate::table::{Table, Write};

    fn of_bytes(bytes: &[u64]) -> Vec<Size> {
        bytes.iter().map(|&bytes| Size { bytes, entries: 100, rows: 100 }).collect()
    }

    /// Loads a table of many times the size of a flush, and counts what is written and how many runs there are.
    #[test]
    fn a_load_of_new_rows_is_written_few_times_into_few_runs() {
        let (mut runs, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..1000 {
            runs.insert(0, Size { bytes: 32, entries: 1, rows: 1 });
            while let Some(chosen) = choose(&runs) {
                let sum = runs[chosen.clone()].iter().fold((0, 0), |sum, run| (sum.0 + run.bytes, sum.1 + run.entries));
                written += sum.0;
                runs.splice(chosen, [Size { bytes: sum.0, entries: sum.1, rows: sum.1 }]);
            }
            most = most.max(runs.len());
        }
        assert!(written <= 32 * 1000 * 9 / 2, "{written} bytes for {}", 32 * 1000);
        assert!(most <= 3 * FAN_IN, "{most} runs");
    }

    /// Flushes in the midst of a merge, and looks how many runs there are meanwhile.
    #[test]
    fn small_runs_do_not_wait_for_the_end_of_a_large_merge() {
        for background in [true, false] {
            let disk = SimDisk::new();
            let options =
                Options { disk: Arc::new(disk), memtable_bytes: 64 << 20, background, ..Options::in_memory() };
            let db = Db::open("/db", options.clone()).unwrap();
            let table = db.table("t").unwrap();
            let rows = 12_000u32;
            for half in 0..2 {
                (half..rows).step_by(2).for_each(|key| table.put(key.to_be_bytes(), [7; 1000]).unwrap());
                table.flush().unwrap();
            }
            let runs = || table.shared.versions.read().table(table.id()).unwrap().runs.len();
            let (mut flushes, mut most) = (0, 0);
            let mut report = |_| {
                for _ in 0..3 {
                    let keys = (0..rows).skip(flushes).step_by(1000);
                    keys.for_each(|key| table.put(key.to_be_bytes(), [8]).unwrap());
                    table.flush().unwrap();
                    flushes += 1;
                }
                most = most.max(runs());
            };
            table.shared.compact(table.id(), &mut report).unwrap();
            assert!(flushes > 30);
            // The two that are being merged, and of each tier above fewer than become one, three that have just come.
            let expected = if background { 5..=2 + 2 * FAN_IN + 3 } else { 30..=flushes + 2 };
            assert!(expected.contains(&most), "{most} runs while {flushes} came");
            for key in 0..rows {
                let is_new = key as usize % 1000 < flushes;
                assert_eq!(
                    table.get(key.to_be_bytes()).unwrap().unwrap().len(),
                    if is_new { 1 } else { 1000 },
                    "{key}"
                );
            }
            assert_eq!(table.count(..).unwrap(), u64::from(rows));
            drop(table);
            db.close().unwrap();
            let report = crate::check("/db", &options, &mut |_| ()).unwrap();
            assert_eq!(report.faults, Vec::<String>::new());
        }
    }

    #[test]
    fn what_is_dead_is_merged_away() {
        let upper = Size { bytes: 20, entries: 30, rows: 0 };
        let bottom = Size { bytes: 100, entries: 100, rows: 100 };
        assert_eq!(choose(&[upper, bottom]), Some(0..2));
        assert_eq!(choose(&[Size { entries: 20, ..upper }, bottom]), None);
        assert_eq!(choose(&[Size { rows: -100, entries: 100, ..upper }, bottom]), Some(0..2));
        assert_eq!(choose(&[upper]), None);
    }

    /// The indexes of a table's runs, newest first.
    fn indexes(table: &Table) -> Vec<Index> {
        let versions = table.shared.versions.read();
        let runs = &versions.table(table.id()).unwrap().runs;
        runs.iter().map(|run| run.info().index).collect()
    }

    fn put(table: &Table, keys: Range<u32>) {
        keys.for_each(|key| table.put(key.to_be_bytes(), [7; 40]).unwrap());
    }

    #[test]
    fn runs_have_the_index_that_the_table_is_declared_to_have_until_a_rewrite_changes_it() {
        let disk = SimDisk::new();
        let options = Options { disk: Arc::new(disk), memtable_bytes: 1 << 20, ..Options::in_memory() };
        let open = || Db::open("/db", options.clone()).unwrap();
        let db = open();
        let flat = TableOptions { index: RunIndex::Flat, ..TableOptions::default() };
        let table = db.create_table("t", flat.clone()).unwrap();
        put(&table, 0..3000);
        table.flush().unwrap();
        put(&table, 2000..5000);
        db.checkpoint().unwrap();
        assert_eq!(indexes(&table), [Index::Flat; 2]);
        drop(table);
        db.close().unwrap();
        let db = open();
        let table = db.table("t").unwrap();
        assert_eq!(*table.options(), flat);
        put(&table, 0..10);
        table.flush().unwrap();
        table.compact().unwrap();
        assert_eq!(indexes(&table), [Index::Flat]);
        let mut reports = Vec::new();
        table.rewrite(RunIndex::Tree, &mut |progress| reports.push(progress)).unwrap();
        assert_eq!(indexes(&table), [Index::Tree]);
        assert_eq!(db.table("t").unwrap().options().index, RunIndex::Tree);
        put(&table, 4000..6000);
        table.flush().unwrap();
        assert_eq!((indexes(&table), table.len().unwrap()), (vec![Index::Tree; 2], 6000));
        drop(table);
        db.close().unwrap();
        assert_eq!(open().table("t").unwrap().options().index, RunIndex::Tree);
    }

    #[test]
    fn a_rewrite_leaves_a_table_in_memory_there() {
        let disk = SimDisk::new();
        let options = Options { disk: Arc::new(disk), memtable_bytes: 1 << 20, ..Options::in_memory() };
        let db = Db::open("/db", options.clone()).unwrap();
        let table = db.table("t").unwrap();
        put(&table, 0..3000);
        db.checkpoint().unwrap();
        let checkpoint = db.stats().checkpoint;
        table.rewrite(RunIndex::Flat, &mut |_| ()).unwrap();
        assert!(indexes(&table).is_empty() && db.stats().checkpoint > checkpoint);
        drop(table);
        db.close().unwrap();
        let db = Db::open("/db", options).unwrap();
        let table = db.table("t").unwrap();
        assert_eq!((table.len().unwrap(), table.options().index), (3000, RunIndex::Flat));
        table.flush().unwrap();
        assert_eq!(indexes(&table), [Index::Flat]);
    }

    #[test]
    fn at_rest_one_run_is_left_or_two() {
        assert_eq!(choose_at_rest(&of_bytes(&[5, 5, 5])), Some(0..3));
        assert_eq!(choose_at_rest(&of_bytes(&[5, 5, 1000])), Some(0..2));
        assert_eq!(choose_at_rest(&of_bytes(&[10, 1000])), None);
        assert_eq!(choose_at_rest(&of_bytes(&[200, 1000])), Some(0..2));
        assert_eq!(choose_at_rest(&of_bytes(&[5])), None);
        assert_eq!(choose_at_rest(&[]), None);
    }

    /// Runs that flushes and merges leave are fetched as they are written; images of tables in memory, which are read once from front to back, are not.
    #[test]
    fn runs_of_tables_on_disk_are_fetched_and_images_are_not() {
        for memtable_bytes in [0, 64 << 20] {
            let disk = SimDisk::new();
            let options = Options {
                disk: Arc::new(disk.clone()),
                durability: crate::Durability::Os,
                memtable_bytes,
                ..Options::default()
            };
            let db = Db::open("/db", options).unwrap();
            let table = db.table("t").unwrap();
            for half in 0..2 {
                (half..2000u32).step_by(2).for_each(|key| table.put(key.to_be_bytes(), [7; 100]).unwrap());
                if memtable_bytes > 0 {
                    table.flush().unwrap();
                } else {
                    db.checkpoint().unwrap();
                }
            }
            table.compact().unwrap();
            let names = disk.file_names();
            let mut runs = names.iter().filter(|name| name.to_string_lossy().contains("/run-")).peekable();
            assert!(runs.peek().is_some());
            for run in runs {
                let fetched: u64 = disk.read_soon(run).iter().map(|bytes| bytes.end - bytes.start).sum();
                let bytes = disk.read_file(run).unwrap().len() as u64;
                assert_eq!(fetched, if memtable_bytes > 0 { bytes } else { 0 }, "{}", run.display());
            }
        }
    }

    #[test]
    fn neighbours_of_about_the_same_size_are_merged() {
        assert_eq!(choose(&of_bytes(&[5; 4])), Some(0..4));
        assert_eq!(choose(&of_bytes(&[5; 3])), None);
        assert_eq!(choose(&of_bytes(&[1, 5, 6, 5, 6, 7, 19, 5, 6, 800])), Some(1..9));
    }
}
