//! One version of a table, to read: its trees and runs, newest first, and where pages of runs come from.
//!
//! Invariants:
//! 1. A question is asked until all pages for its answer are there: no page of a run is waited for inside a tree, and no answer is of two versions.
//! 2. What a question has seen is pinned until it is answered, and no longer; a scan lets go of what it has passed, a window at a time.
//!
//! Not here: who keeps the version from changing (a latch, a snapshot, the writer's turn).

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::mixed::Mixed;
use crate::page::KeyBuffer;
use crate::run::{Limits, Missing, PageCache, ReadCost, ReadPages, Run, RunLayer, charge};
use crate::stack::{Cut, Merge, Stack};
use crate::tally::Measures;
use crate::tree::View;

/// A version of a table as its readers see it.
pub(crate) type TableStack<'a> = Stack<'a, Mixed<'a>>;
/// A walk over it.
pub(crate) type TableMerge<'a> = Merge<'a, Mixed<'a>>;

/// How much a walk asks for at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Entries of each run, of the first window; each has twice as many as the one before, up to [`WINDOW_ROWS_MAX`]. `None`: as many as `bytes` has.
    pub(crate) rows: Option<u64>,
    /// Bytes of each run, as they are in memory.
    pub(crate) bytes: u64,
    /// A walk lets go of all pages that it has seen once they have so many bytes.
    pub(crate) pinned_bytes: u64,
}

/// Entries of all runs together that a scan asks for at first, and the fewest of one of them.
const SCAN_ROWS_FIRST: u64 = 64;
const SCAN_ROWS_MIN: u64 = 8;
/// A window that is to have more entries than this goes by its bytes alone.
const WINDOW_ROWS_MAX: u64 = 4096;
const SCAN_BYTES: u64 = 2 << 20;
const SCAN_PINNED_BYTES: u64 = 8 << 20;

/// Why a step did not get to its end.
pub(crate) enum Stopped {
    /// A page of a run is not in memory: it has been noted, and the step can be taken again once it is.
    Missing,
    Failed(Error),
}

impl From<Missing> for Stopped {
    fn from(_: Missing) -> Stopped {
        Stopped::Missing
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(error)
    }
}

/// What answers have cost in pages of runs: see [`Read::explain`](crate::Read::explain). All that is in memory costs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Runs of the table.
    pub runs: usize,
    /// Pages and long values that were looked at; once for each question that looked at it.
    pub pages: u64,
    /// Those of them that were not in the cache, and were read from a file.
    pub pages_read: u64,
    /// How often the reader had to wait for files: each time for all pages that it knew it needed.
    pub rounds: u64,
}

impl Cost {
    /// The cost of both; of the runs of this.
    fn and(&self, other: &Cost) -> Cost {
        Cost {
            runs: self.runs,
            pages: self.pages + other.pages,
            pages_read: self.pages_read + other.pages_read,
            rounds: self.rounds + other.rounds,
        }
    }
}

/// What one reader has seen, which is added to a cost in the end, if somebody asks for that.
struct CountedPages<'c> {
    pages: ReadPages<'c>,
    cost: Option<&'c Cell<Cost>>,
}

impl<'c> std::ops::Deref for CountedPages<'c> {
    type Target = ReadPages<'c>;

    fn deref(&self) -> &ReadPages<'c> {
        &self.pages
    }
}

impl Drop for CountedPages<'_> {
    fn drop(&mut self) {
        if let Some(cost) = self.cost {
            let ReadCost { pages, pages_read, rounds } = self.pages.cost();
            cost.set(cost.get().and(&Cost { pages, pages_read, rounds, runs: 0 }));
        }
    }
}

/// One version of a table.
pub struct Source<'a> {
    /// Newest first.
    trees: SmallVec<[View<'a>; 2]>,
    /// Below them, newest first.
    runs: &'a [Arc<Run>],
    cache: &'a PageCache,
    measures: Measures,
    /// Where costs add up, if somebody asks.
    cost: Option<&'a Cell<Cost>>,
}

/// Makes a stack of trees over runs, whose pages come from `pages`.
pub(crate) fn stack_over<'a>(
    trees: impl IntoIterator<Item = View<'a>>,
    runs: &'a [Arc<Run>],
    pages: &'a ReadPages<'a>,
    measures: Measures,
) -> TableStack<'a> {
    let runs = runs.iter().map(|run| Mixed::Run(RunLayer::new(run, pages)));
    Stack::new(trees.into_iter().map(Mixed::Memory).chain(runs).collect(), measures)
}

/// Makes a stack of trees alone.
#[inline]
pub(crate) fn stack_in_memory<'a>(trees: impl IntoIterator<Item = View<'a>>, measures: Measures) -> TableStack<'a> {
    Stack::new(trees.into_iter().map(Mixed::Memory).collect(), measures)
}

/// The answer of a stack of trees alone.
#[inline(always)]
pub(crate) fn in_memory<T>(answer: Result<T, Missing>) -> T {
    answer.unwrap_or_else(|Missing| unreachable!("trees in memory lack no page"))
}

impl<'a> Source<'a> {
    #[inline]
    pub(crate) fn new(
        trees: impl IntoIterator<Item = View<'a>>,
        runs: &'a [Arc<Run>],
        cache: &'a PageCache,
        measures: Measures,
    ) -> Source<'a> {
        Source { trees: trees.into_iter().collect(), runs, cache, measures, cost: None }
    }

    /// Lends the same version to `work`, and gives with its answer what that has cost.
    pub(crate) fn with_cost<R>(&self, work: impl FnOnce(Source<'_>) -> Result<R>) -> (Result<R>, Cost) {
        let cost = Cell::new(Cost { runs: self.runs.len(), ..Cost::default() });
        let trees = self.trees.iter().copied();
        let counted = Source { cost: Some(&cost), ..Source::new(trees, self.runs, self.cache, self.measures) };
        let answer = work(counted);
        if let Some(around) = self.cost {
            around.set(around.get().and(&cost.get()));
        }
        (answer, cost.get())
    }

    /// What it has cost so far, if that is counted.
    pub(crate) fn cost(&self) -> Cost {
        self.cost.map(Cell::get).unwrap_or_default()
    }

    /// A reader of the pages of this version.
    fn pages(&self) -> CountedPages<'_> {
        CountedPages { pages: ReadPages::new(self.cache), cost: self.cost }
    }

    /// The stack, if all of it is in memory.
    #[inline]
    pub(crate) fn trees(&self) -> Option<Stack<'a, View<'a>>> {
        self.runs.is_empty().then(|| Stack::new(self.trees.iter().copied().collect(), self.measures))
    }

    /// Puts a question until all pages for its answer are there.
    ///
    /// # Errors
    /// As reading a page of a run.
    #[inline]
    pub(crate) fn ask<R>(&self, mut question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>) -> Result<R> {
        if self.runs.is_empty() {
            return Ok(in_memory(question(&stack_in_memory(self.trees.iter().copied(), self.measures))));
        }
        let pages = self.pages();
        let stack = stack_over(self.trees.iter().copied(), self.runs, &pages, self.measures);
        pages.answer(|| question(&stack))
    }

    /// Calls `visit` with the live rows between two cuts, ascending or descending, until it says no.
    ///
    /// # Errors
    /// As reading a page of a run.
    pub(crate) fn scan(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if self.runs.is_empty() {
            let stack = stack_in_memory(self.trees.iter().copied(), self.measures);
            in_memory(stack.scan(start, end, reverse, visit));
            return Ok(());
        }
        let rows = (SCAN_ROWS_FIRST / self.runs.len() as u64).max(SCAN_ROWS_MIN);
        let window = Window { rows: Some(rows), bytes: SCAN_BYTES, pinned_bytes: SCAN_PINNED_BYTES };
        let inside = |key: &[u8]| if reverse { start.is_before(key) } else { !end.is_before(key) };
        self.walk(start, end, reverse, window, |merge, key| {
            let row = merge.next_within(key, inside)?;
            Ok(row.is_some_and(|value| visit(key, value)))
        })
    }

    /// Walks between two cuts, with the pages of a window asked for together. `step` moves the merge on by one, to a key that it writes into its buffer, and says whether to
    /// go on.
    ///
    /// # Errors
    /// Those of `step`, and as reading a page of a run.
    pub(crate) fn walk(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        window: Window,
        mut step: impl for<'m> FnMut(&mut TableMerge<'m>, &mut KeyBuffer) -> std::result::Result<bool, Stopped>,
    ) -> Result<()> {
        let mut rows = window.rows;
        let mut last: Option<KeyBuffer> = None;
        loop {
            let (start, end) = match &last {
                None => (start, end),
                Some(last) if reverse => (start, Cut::Before(last)),
                Some(last) => (Cut::After(last), end),
            };
            if start.is_at_or_past(&end) {
                return Ok(());
            }
            let pages = self.pages();
            let runs: SmallVec<[RunLayer<'_>; 4]> = self.runs.iter().map(|run| RunLayer::new(run, &pages)).collect();
            let ask_ahead = |start: Cut<'_>, end: Cut<'_>, rows: Option<u64>| {
                let limits = Limits { rows, bytes: Some(window.bytes), keeps_values: false, bytes_are_unpacked: true };
                pages.answer(|| charge(&runs, start, end, limits, reverse))
            };
            ask_ahead(start, end, rows)?;
            let stack = stack_over(self.trees.iter().copied(), self.runs, &pages, self.measures);
            let begin = || if reverse { Merge::before(&stack, end) } else { Merge::from(&stack, start) };
            let mut merge = pages.answer(begin)?;
            let mut key = KeyBuffer::new();
            let (mut has_moved, mut is_last) = (false, false);
            loop {
                match step(&mut merge, &mut key) {
                    Ok(false) => return Ok(()),
                    Ok(true) if is_last => break,
                    Ok(true) => has_moved = true,
                    Err(Stopped::Failed(error)) => return Err(error),
                    Err(Stopped::Missing) if has_moved && pages.bytes() >= window.pinned_bytes => {
                        // One step more, to go on behind it with other pages.
                        pages.load()?;
                        is_last = true;
                    }
                    Err(Stopped::Missing) => {
                        rows = rows.map(|rows| 2 * rows).filter(|rows| *rows <= WINDOW_ROWS_MAX);
                        // The buffer has the last key or the one after it.
                        let (start, end) = match (has_moved, reverse) {
                            (false, _) => (start, end),
                            (true, false) => (Cut::Before(&key), end),
                            (true, true) => (start, Cut::After(&key)),
                        };
                        ask_ahead(start, end, rows)?;
                    }
                }
            }
            last = Some(key);
        }
    }
}
