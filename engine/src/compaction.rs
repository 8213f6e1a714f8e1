//! Compaction: runs of a table become one, weights add, and what is dead goes.
//!
//! Which runs: neighbours of about the same size once there are [`FAN_IN`] of them (size-tiered, as in Bigtable and Cassandra), so that a row is written once more each time the
//! table grows by that factor; and all runs of a table once there is more in them that is dead than [`DEAD_PERCENT_MAX`]. How much that is need not be estimated: the
//! weights of a live key sum to one row, so all entries but the rows are overwritten ones and tombstones.
//!
//! Invariants:
//! 1. The run that a compaction writes weighs what the runs did that it was written from: the law.
//! 2. Runs change in the turn to write runs only; a compaction takes that when its run is complete. Flushes meanwhile have put runs above, none in between.
//! 3. Memory: [`PINNED_WINDOWS`] of each run, and a cache of [`CACHE_BYTES`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::run::{PageCache, Run, RunWriter};
use crate::snapshot::{Declaration, Runs, TableId, total_of};
use crate::source::{Source, Window};
use crate::stack::Cut;
use crate::sync::atomic::Ordering;
use crate::tally::Measures;

/// So many neighbours of about the same size become one.
const FAN_IN: usize = 8;
/// Runs whose sizes differ by no more than this factor are of about the same size.
const SAME_SIZE: u64 = 4;
/// Entries beside the live rows, in percent of these, at which everything is merged.
const DEAD_PERCENT_MAX: i64 = 25;
/// Bytes of each run that are read at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// After so many windows of all runs the pages read so far are let go of.
const PINNED_WINDOWS: u64 = 4;
/// Bytes of inner pages that are likely to be needed again.
const CACHE_BYTES: u64 = 1 << 20;

/// What a choice of runs goes by.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    entries: i64,
    rows: i64,
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

impl Shared {
    /// Merges runs of one table that call for it. Returns whether there were any.
    pub(crate) fn compact_if_due(&self) -> Result<bool> {
        let _turn = self.compacting.lock();
        let versions = Arc::clone(&self.versions.read());
        for table in versions.tables.iter().flatten() {
            let sizes: Vec<Size> = table.runs.iter().map(|run| size_of(run)).collect();
            if let Some(chosen) = choose(&sizes) {
                let (declaration, runs) = (table.declaration.clone(), table.runs.clone());
                drop(versions);
                self.merge_runs(&declaration, &runs, chosen)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges all runs of a table into one.
    pub(crate) fn compact(&self, id: TableId) -> Result<()> {
        self.refuse_in_own_turn()?;
        let _turn = self.compacting.lock();
        let version = self.versions.read().table(id)?.clone();
        if version.runs.len() < 2 {
            return Ok(());
        }
        self.merge_runs(&version.declaration, &version.runs, 0..version.runs.len())
    }

    /// Puts one run in the place of those at `chosen`.
    fn merge_runs(&self, declaration: &Declaration, runs: &Runs, chosen: Range<usize>) -> Result<()> {
        let is_bottom = chosen.end == runs.len();
        let merged = &runs[chosen];
        let (name, number) = self.checkpoints.begin_run(declaration.id);
        let path = self.dir.join(&name);
        let disk = &*self.options.disk;
        let result = (|| {
            let mut writer = RunWriter::create(disk, &path, self.run_options(declaration, number, is_bottom))?;
            self.merge_into(&mut writer, merged, declaration.options.measures)?;
            let info = writer.finish()?;
            self.check_law(declaration, total_of(merged), info.total.tally)?;
            disk.sync_dir(&self.dir).map_err(|error| Error::io("cannot sync directory", &self.dir, error))?;
            let run = Run::open(disk, &path)?;
            run.preload();
            Ok(Arc::new(run))
        })();
        let result = match result {
            Ok(run) => self.replace_runs(declaration.id, merged, run.clone()).map(|is_replaced| {
                if is_replaced {
                    self.preload_runs(declaration, &[run], merged);
                }
            }),
            Err(error) => {
                let _ = disk.remove(&path);
                Err(error)
            }
        };
        self.checkpoints.end_run(&name);
        result
    }

    /// Names the run in the manifest in the place of those that it was merged from, and puts it there. Returns whether the table is still there.
    fn replace_runs(&self, id: TableId, merged: &[Arc<Run>], run: Arc<Run>) -> Result<bool> {
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
        entry.runs = runs.iter().map(|run| run.name()).collect();
        manifest.checkpoint = self.checkpoints.last_number();
        if let Err(error) = manifest.write(disk, &self.dir) {
            self.give_up(&last, std::iter::once(&*self.dir.join(runs[place].name())));
            return Err(error);
        }
        self.checkpoints.last().manifest = manifest.clone();
        self.replace_layers(id, 0, Runs::new(runs))?;
        self.remove_replaced(&manifest).map(|()| true)
    }

    /// Writes what all entries of `runs`, newest first, come to.
    fn merge_into(&self, writer: &mut RunWriter, runs: &[Arc<Run>], measures: Measures) -> Result<()> {
        // What is read once need not be kept.
        let cache = PageCache::new(CACHE_BYTES);
        let window =
            Window { rows: None, bytes: WINDOW_BYTES, pinned_bytes: PINNED_WINDOWS * WINDOW_BYTES * runs.len() as u64 };
        let rate = self.options.compaction_bytes_per_second;
        let mut bytes = 0;
        Source::new([], runs, &cache, measures).walk(Cut::Start, Cut::End, false, window, |merge, key| {
            let Some(entry) = merge.next_entry(key)? else { return Ok(false) };
            writer.push_entry(key, entry.value, entry.weight)?;
            bytes += (key.len() + entry.value.map_or(0, <[u8]>::len)) as u64;
            if bytes > WINDOW_BYTES {
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
            }
            Ok(true)
        })
    }
}

fn size_of(run: &Run) -> Size {
    let info = run.info();
    Size { bytes: info.bytes, entries: info.total.entries, rows: info.total.tally.rows }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(written <= 32 * 1000 * 4, "{written} bytes for {}", 32 * 1000);
        assert!(most <= 4 * FAN_IN, "{most} runs");
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

    #[test]
    fn neighbours_of_about_the_same_size_are_merged() {
        assert_eq!(choose(&of_bytes(&[5; 8])), Some(0..8));
        assert_eq!(choose(&of_bytes(&[5; 7])), None);
        assert_eq!(choose(&of_bytes(&[1, 5, 6, 5, 6, 7, 19, 5, 6, 800])), Some(1..9));
    }
}
