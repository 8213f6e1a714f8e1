//! The removal of a range of keys from all layers of a table together.
//!
//! Trees lose the range in place, runs by excisions (`run/excision.rs`). So no layer has a weight left for any key of
//! it, and none needs a tombstone.
//!
//! Invariants:
//! 1. What a removal comes to is found out before anything is changed: after that it cannot miss a page.
//! 2. A job that writes a run of the table from what it saw when it began gets the ranges that were removed since, and
//!    takes them out of that run before the run becomes a layer.
//! 3. Nothing is left of a run, or the run has gone, but for one that stays while it is the only one and the table is
//!    not empty: so a tree in memory that is not the bottom always has a run below it.
//!
//! Cost: of each run the pages at the ends of the range; of each tree what [`Tree::remove_range`] says. Not here: which
//! calls remove ranges (`write`, replay), and which runs are written meanwhile (`maintenance`).

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::cache::{Missing, ReadPages};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::probe::excised;
use crate::read::table_stack::{Stopped, stack_over};
use crate::read::unresolved;
use crate::run::Run;
use crate::stack::{Cut, ask_all};
use crate::state::key_ranges::KeyRanges;
use crate::state::versions::Runs;
use crate::state::writer::{Epochs, TableTrees};
use crate::tree::Tree;

/// With so many excisions more in a run, a range must have twice as many rows to become another one. So the number of
/// excisions grows with the logarithm of what was in the run.
const EXCISIONS_STEP: usize = 64;

/// What the removal of a range comes to.
pub(crate) enum Planned {
    /// Nothing: it has no live row.
    Nothing,
    /// It has few rows, and runs have entries there: each row takes a tombstone.
    OneByOne,
    /// All layers lose the range.
    Range(Removal),
}

/// A range that all layers will lose.
pub(crate) struct Removal {
    /// Its first key, and the first key after it; `None` where the table ends.
    pub(crate) low: Option<KeyBuffer>,
    pub(crate) high: Option<KeyBuffer>,
    /// The number of its live rows.
    pub(crate) rows: u64,
    /// The runs without it; `None` if they stay as they are.
    runs: Option<Remaining>,
}

impl Removal {
    /// Whether it is the whole table that goes.
    pub(crate) fn is_of_all(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    /// Whether runs lose entries.
    pub(crate) fn changes_runs(&self) -> bool {
        self.runs.is_some()
    }
}

/// What a range leaves of runs.
struct Remaining {
    /// Those that have an entry.
    runs: Runs,
    /// If there are none, one that has nothing left.
    emptied: Option<Arc<Run>>,
}

impl TableTrees {
    /// Finds out what the removal of a range comes to. Over runs that have entries there, one of fewer than `rows_min`
    /// rows is left to tombstones.
    ///
    /// # Errors
    /// If pages are missing, all of which have been noted; and if the runs are not lawful.
    pub(crate) fn plan_removal(
        &self,
        bounds: &Bounds<'_>,
        rows_min: u64,
        pages: &ReadPages<'_>,
    ) -> std::result::Result<Planned, Stopped> {
        let (start, end) = (bounds.start(), bounds.end());
        if start.is_at_or_past(&end) {
            return Ok(Planned::Nothing);
        }
        let (low, high) = (start.first_key(), end.first_key());
        let rows = self.live_rows(start, end, pages);
        let remaining = self.without(low.as_deref(), high.as_deref(), pages);
        let (rows, runs) = (rows?, remaining?);
        if rows == 0 {
            return Ok(Planned::Nothing);
        }
        let changed = self.runs.iter().zip(&runs).filter(|(old, new)| !Arc::ptr_eq(old, new));
        let min_of = |(run, _): (&Arc<Run>, _)| {
            rows_min.saturating_mul(1 << (run.excisions() / EXCISIONS_STEP).min(u64::BITS as usize - 1))
        };
        let Some(rows_min) = changed.map(min_of).max() else {
            return Ok(Planned::Range(Removal { low, high, rows, runs: None }));
        };
        if rows < rows_min {
            return Ok(Planned::OneByOne);
        }
        Ok(Planned::Range(Removal { low, high, rows, runs: Some(self.remaining(runs)?) }))
    }

    /// The removal of a range that the log says, whatever its size; `None` if the range has not so many rows.
    ///
    /// # Errors
    /// Those of [`TableTrees::plan_removal`].
    pub(crate) fn plan_logged_removal(
        &self,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        rows: u64,
        pages: &ReadPages<'_>,
    ) -> std::result::Result<Option<Removal>, Stopped> {
        let (start, end) = (low.map_or(Cut::Start, Cut::Before), high.map_or(Cut::End, Cut::Before));
        // What lies below unresolved entries is not looked up for this.
        let has_unresolved =
            self.unresolved.as_ref().is_some_and(|tree| unresolved::count(tree.view(), start, end) != (0, 0));
        let found = if has_unresolved { Ok(rows) } else { self.live_rows(start, end, pages) };
        let runs = self.without(low, high, pages);
        let (found, runs) = (found?, runs?);
        if found != rows {
            return Ok(None);
        }
        let has_changed = self.runs.iter().zip(&runs).any(|(old, new)| !Arc::ptr_eq(old, new));
        let runs = if has_changed { Some(self.remaining(runs)?) } else { None };
        Ok(Some(Removal { runs, ..TableTrees::plan_removal_from_memory((low, high), rows) }))
    }

    /// The removal of a range that the runs have lost already.
    pub(crate) fn plan_removal_from_memory((low, high): (Option<&[u8]>, Option<&[u8]>), rows: u64) -> Removal {
        let key = |key: Option<&[u8]>| key.map(KeyBuffer::from_slice);
        Removal { low: key(low), high: key(high), rows, runs: None }
    }

    /// The live rows between two cuts. Looks up what lies below unresolved entries there, of which there should be few.
    fn live_rows(&self, start: Cut<'_>, end: Cut<'_>, pages: &ReadPages<'_>) -> std::result::Result<u64, Missing> {
        let counted = stack_over(self.views(), &self.runs, pages, self.declaration.options.measures);
        let rows = counted.count(start, end);
        let Some(tree) = &self.unresolved else { return rows };
        let (mut more, mut last) = (0i64, None::<KeyBuffer>);
        loop {
            let start = last.as_ref().map_or(start, |last| Cut::After(last));
            let mut keys = unresolved::keys(tree.view(), start, end);
            for (key, below) in keys.iter().zip(counted.contributions(&keys)?) {
                let is_live = tree.view().get(key).is_some_and(|found| found.value().is_some());
                more += i64::from(is_live) - below.rows;
            }
            last = keys.pop();
            if last.is_none() {
                return rows.map(|rows| rows.wrapping_add_signed(more));
            }
        }
    }

    /// What is left of each run without a range.
    fn without(
        &self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        pages: &ReadPages<'_>,
    ) -> std::result::Result<Vec<Arc<Run>>, Missing> {
        let mut runs = Vec::with_capacity(self.runs.len());
        let range = (low.unwrap_or_default(), high);
        let left = self.runs.iter().map(|run| excised(run, std::iter::once(range), pages));
        ask_all(left, |run| runs.push(run))?;
        Ok(runs)
    }

    /// The runs of the table once these are left of them.
    fn remaining(&self, runs: Vec<Arc<Run>>) -> Result<Remaining> {
        let emptied = runs.last().cloned();
        // A run that was written without an entry stays.
        let has_gone = |(old, new): &(&Arc<Run>, Arc<Run>)| new.info().total.entries == 0 && !Arc::ptr_eq(old, new);
        let runs: Vec<Arc<Run>> = self.runs.iter().zip(runs).filter(|run| !has_gone(run)).map(|(_, run)| run).collect();
        Ok(Remaining { emptied: emptied.filter(|_| runs.is_empty()), runs: Runs::stacked(runs)? })
    }

    /// Takes the range out of all layers. Room for it has been reserved. The caller then notes it for the jobs of the
    /// table, and resets what may be empty: see [`Jobs::note`] and [`TableTrees::reset_if_empty`].
    pub(crate) fn remove(&mut self, removal: &Removal, epochs: Epochs) -> Result<()> {
        let (low, high) = (removal.low.as_deref(), removal.high.as_deref());
        for tree in self.layers.iter_mut().chain(self.unresolved.as_deref_mut()) {
            epochs.open(tree);
            tree.remove_range(low, high)?;
        }
        if let Some(tree) = self.unresolved.take_if(|tree| tree.entries() == 0) {
            // Snapshots may still read it.
            self.merged.push((epochs.epoch, *tree));
        }
        if let Some(Remaining { runs, emptied }) = &removal.runs {
            self.runs = emptied.as_ref().map_or_else(|| runs.clone(), |emptied| Runs::new(vec![emptied.clone()]));
        }
        Ok(())
    }

    /// Sets the trees that have entries aside and puts empty ones in their place, for a caller that may want them back.
    /// They come to the end of those that only snapshots read: those of the layers in their order, then that of
    /// unresolved entries.
    pub(crate) fn set_aside(&mut self, epochs: Epochs) {
        for tree in self.layers.iter_mut().filter(|tree| tree.entries() > 0) {
            let empty = Tree::new(tree.arena().clone(), *tree.measures(), tree.is_bottom());
            self.merged.push((epochs.epoch, std::mem::replace(tree, empty)));
        }
        self.merged.extend(self.unresolved.take().map(|tree| (epochs.epoch, *tree)));
    }

    /// Frees what only a tree that was set aside has. What snapshots read of it stays until these end.
    pub(crate) fn give_up_aside(&mut self, at: usize, epochs: Epochs) {
        let tree = &mut self.merged[at].1;
        epochs.open(tree);
        tree.clear();
        if tree.retired() == 0 {
            self.merged.remove(at);
        }
    }

    /// Makes a table one empty tree in memory if nothing is left of it in memory and in runs, and no job writes what it
    /// had in memory. It became so in commit `sequence`, or was already.
    pub(crate) fn reset_if_empty(&mut self, epochs: Epochs, sequence: u64) {
        let is_emptied = !self.runs.is_empty()
            && self.runs.iter().all(|run| run.info().total.entries == 0)
            && self.runs.iter().any(|run| run.excisions() > 0);
        let is_in_use = self.jobs.flush.is_some() || self.unresolved.is_some();
        if !is_emptied || is_in_use || self.layers.iter().any(|tree| tree.entries() > 0) {
            return;
        }
        let bottom = Tree::new(self.layers[0].arena().clone(), self.declaration.options.measures, true);
        self.merged.extend(self.layers.drain(..).map(|layer| (epochs.epoch, layer)));
        self.layers.push(bottom);
        self.runs = Runs::default();
        self.emptied_sequence = sequence;
    }

    /// Pages that the removal of a range may take.
    pub(crate) fn room_to_remove(&self) -> u64 {
        // Only the pages at the ends of the range are copied.
        self.layers.iter().chain(self.unresolved.as_deref()).map(|tree| tree.room_for(1, 0)).sum()
    }
}

/// Jobs that write runs of a table, and the ranges that were removed since each began.
#[derive(Default)]
pub(crate) struct Jobs {
    last: u64,
    noted: Vec<(u64, KeyRanges)>,
    /// The one that writes frozen trees of the table.
    flush: Option<u64>,
}

impl Jobs {
    /// Begins a job that writes a run of the table as it is now.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.noted.push((self.last, KeyRanges::default()));
        self.last
    }

    /// Like [`Jobs::begin`], for the one job that writes the frozen trees.
    pub(crate) fn begin_flush(&mut self) {
        self.end_flush();
        self.flush = Some(self.begin());
    }

    /// The ranges removed since a job began.
    pub(crate) fn removed_since(&self, job: u64) -> KeyRanges {
        let noted = self.noted.iter().find(|(number, _)| *number == job);
        noted.map(|(_, ranges)| ranges.clone()).unwrap_or_default()
    }

    /// The ranges removed since the trees were frozen.
    pub(crate) fn removed_since_freeze(&self) -> KeyRanges {
        self.flush.map(|job| self.removed_since(job)).unwrap_or_default()
    }

    /// Ends a job, if it has not ended.
    pub(crate) fn end(&mut self, job: u64) {
        self.noted.retain(|(number, _)| *number != job);
    }

    /// Ends the job that writes the frozen trees, if there is one.
    pub(crate) fn end_flush(&mut self) {
        if let Some(job) = self.flush.take() {
            self.end(job);
        }
    }

    /// Notes that a range was removed, for all jobs.
    pub(crate) fn note(&mut self, low: Option<&[u8]>, high: Option<&[u8]>) {
        self.noted.iter_mut().for_each(|(_, ranges)| ranges.add(low.unwrap_or_default(), high));
    }
}
