//! One version of a table, to read: its trees and runs, newest first, and where pages of runs come from.
//!
//! Invariants:
//! 1. A question is asked until all pages for its answer are there: no page of a run is waited for inside a tree, and no answer is of two versions.
//! 2. What a question has seen is pinned until it is answered, and no longer; a scan lets go of what it has passed, a window at a time.
//!
//! Not here: who keeps the version from changing (a latch, a snapshot, the writer's turn).

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Result;
use crate::mixed::Mixed;
use crate::page::KeyBuffer;
use crate::run::{Limits, Missing, PageCache, ReadPages, Run, RunLayer, charge};
use crate::stack::{Cut, Merge, Stack};
use crate::tally::Measures;
use crate::tree::View;

/// A version of a table as its readers see it.
pub(crate) type TableStack<'a> = Stack<'a, Mixed<'a>>;

/// Bytes of each run behind its first leaf that a scan asks for at a time: none at first, then so many, each time twice the bytes of the time before, and no more
/// than these.
const WINDOW_BYTES_SECOND: u64 = 32 << 10;
const WINDOW_BYTES_MAX: u64 = 2 << 20;

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
    /// The cost of both, of the same runs.
    fn and(&self, other: &Cost) -> Cost {
        Cost {
            runs: self.runs,
            pages: self.pages + other.pages,
            pages_read: self.pages_read + other.pages_read,
            rounds: self.rounds + other.rounds,
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

    /// Adds what a reader has seen to the cost.
    fn count(&self, pages: &ReadPages<'_>) {
        let Some(cost) = self.cost else { return };
        let seen = pages.cost();
        let seen = Cost { runs: self.runs.len(), pages: seen.pages, pages_read: seen.pages_read, rounds: seen.rounds };
        cost.set(cost.get().and(&seen));
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
        let pages = ReadPages::new(self.cache);
        let stack = stack_over(self.trees.iter().copied(), self.runs, &pages, self.measures);
        let answer = pages.answer(|| question(&stack));
        self.count(&pages);
        answer
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
        // The last key visited, from which the next window goes on.
        let mut last: Option<KeyBuffer> = None;
        let mut window_bytes = 0;
        loop {
            let (start, end) = match &last {
                None => (start, end),
                Some(last) if reverse => (start, Cut::Before(last)),
                Some(last) => (Cut::After(last), end),
            };
            if start.is_at_or_past(&end) {
                return Ok(());
            }
            match self.scan_window(start, end, reverse, window_bytes, &mut visit)? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(key) => last = Some(key),
            }
            window_bytes = (2 * window_bytes).clamp(WINDOW_BYTES_SECOND, WINDOW_BYTES_MAX);
        }
    }

    /// Scans as far as the pages reach that are asked for together, and at least one row. Gives the last key visited, unless the scan has ended.
    fn scan_window(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        window_bytes: u64,
        visit: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<ControlFlow<(), KeyBuffer>> {
        let pages = ReadPages::new(self.cache);
        let window = self.scan_pages(&pages, start, end, reverse, window_bytes, visit);
        self.count(&pages);
        window
    }

    /// [`Source::scan_window`] with pages of `pages`.
    fn scan_pages(
        &self,
        pages: &ReadPages<'_>,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        window_bytes: u64,
        visit: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<ControlFlow<(), KeyBuffer>> {
        let runs: SmallVec<[RunLayer<'_>; 4]> = self.runs.iter().map(|run| RunLayer::new(run, pages)).collect();
        let limits = Limits { rows: None, bytes: Some(window_bytes) };
        pages.answer(|| charge(&runs, start, end, limits, reverse))?;
        let stack = stack_over(self.trees.iter().copied(), self.runs, pages, self.measures);
        let begin = || if reverse { Merge::before(&stack, end) } else { Merge::from(&stack, start) };
        let mut merge = pages.answer(begin)?;
        let mut key = KeyBuffer::new();
        let inside = |key: &[u8]| if reverse { start.is_before(key) } else { !end.is_before(key) };
        let mut is_last = false;
        loop {
            match merge.next_within(&mut key, inside) {
                Ok(None) => return Ok(ControlFlow::Break(())),
                Ok(Some(value)) => {
                    if !visit(&key, value) {
                        return Ok(ControlFlow::Break(()));
                    }
                    if is_last {
                        return Ok(ControlFlow::Continue(key));
                    }
                }
                Err(Missing) => {
                    // The pages of this window end here. One row more, to go on behind.
                    pages.load()?;
                    is_last = true;
                }
            }
        }
    }
}
