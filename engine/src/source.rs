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
use crate::run::{Estimate, Limits, Missing, PageCache, ReadCost, ReadPages, Run, RunLayer, charge_together};
use crate::stack::{Cut, Merge, Stack, resident};
use crate::tally::Measures;
use crate::tree::{Arena, View};
use crate::unresolved;

/// A version of a table as its readers see it.
pub(crate) type TableStack<'a> = Stack<'a, Mixed<'a>>;
/// A walk over it.
pub(crate) type TableMerge<'a> = Merge<'a, Mixed<'a>>;

/// How much a walk asks for at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) rows: WindowRows,
    /// Bytes of each run, as they are in memory.
    pub(crate) bytes: u64,
    /// A walk lets go of all pages that it has seen once they have so many bytes.
    pub(crate) pinned_bytes: u64,
}

/// Entries of all runs together that a walk asks for at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowRows {
    /// As many as the window's bytes have.
    Any,
    /// At first so many, then as many as in all windows before together, up to [`WINDOW_ROWS_MAX`].
    Growing(u64),
    /// So many steps will be made and no more: what is left of them, and more where that was not enough again and again, as of steps over what is erased.
    Known(u64),
}

impl WindowRows {
    /// What the window after `steps` steps is to have, `times` as many as the first if they grow; none if that goes by bytes.
    fn asked(self, steps: u64, times: u64) -> Option<u64> {
        let rows = match self {
            WindowRows::Any => return None,
            WindowRows::Growing(first) => first * times,
            WindowRows::Known(rows) => rows.saturating_sub(steps).max(times),
        };
        (rows <= WINDOW_ROWS_MAX).then_some(rows)
    }
}

/// Entries of all runs together that a scan asks for at first.
const SCAN_ROWS_FIRST: u64 = 64;
/// A window that is to have more entries than this goes by its bytes alone.
const WINDOW_ROWS_MAX: u64 = 4096;
/// Bytes of each run that a scan asks for at a time, at most and, however many runs there are, at least.
const SCAN_BYTES: u64 = 2 << 20;
const SCAN_BYTES_MIN: u64 = 64 << 10;
/// Bytes that all runs together have of a window, and after which a scan lets go.
const SCAN_PINNED_BYTES: u64 = 8 << 20;

/// Why a step did not get to its end.
pub(crate) enum Stopped {
    /// A page of a run is not in memory: it has been noted, and the step can be taken again once it is.
    Missing,
    Failed(Error),
}

impl Stopped {
    /// The error of a step that had all pages it needs.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Stopped::Failed(error) => error,
            Stopped::Missing => unreachable!("no page is asked for"),
        }
    }
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
    /// Pages and long values that were looked at; once for each question that looked at it. Inner pages and filters that stay with their file once they
    /// were read count no more.
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
    /// Which of them has entries whose weights are not known, if there is one.
    unresolved: Option<Unresolved<'a>>,
    /// Below them, newest first.
    runs: &'a [Arc<Run>],
    cache: &'a PageCache,
    measures: Measures,
    /// Where costs add up, if somebody asks.
    cost: Option<&'a Cell<Cost>>,
}

/// Where the unresolved entries of a blind table are.
#[derive(Clone, Copy)]
pub(crate) struct Unresolved<'a> {
    /// The place of their tree.
    pub(crate) place: usize,
    /// Where a tree with their weights can be made.
    pub(crate) arena: &'a Arc<Arena>,
}

/// Makes a stack of trees over runs, whose pages come from `pages`. Trees without entries, as after a flush, are left out: so the bottom run may be alone, and tell positions by itself.
pub(crate) fn stack_over<'a>(
    trees: impl IntoIterator<Item = View<'a>>,
    runs: &'a [Arc<Run>],
    pages: &'a ReadPages<'a>,
    measures: Measures,
) -> TableStack<'a> {
    let runs = runs.iter().map(|run| Mixed::Run(RunLayer::new(run, pages)));
    let trees = trees.into_iter().filter(|tree| tree.entries() > 0).map(Mixed::Memory);
    Stack::new(trees.chain(runs).collect(), measures)
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
        Source { trees: trees.into_iter().collect(), unresolved: None, runs, cache, measures, cost: None }
    }

    /// As [`Source::new`], where the weights of one of the trees are not known.
    pub(crate) fn with_unresolved(self, unresolved: Option<Unresolved<'a>>) -> Source<'a> {
        Source { unresolved, ..self }
    }

    /// Lends the same version to `work`, with all weights of a range known: all that can be asked of that range is exact.
    ///
    /// Costs a look-up for each entry of the range whose weight is not known, in a transaction for each of the table, in sorted batches, and memory for them; nothing if
    /// there are none. Without the entries outside of the range, the version is one that there might have been: the stack is lawful.
    ///
    /// # Errors
    /// As reading a page of a run, and [`ErrorKind::Full`](crate::ErrorKind::Full) if there is no memory for the entries.
    pub(crate) fn exact<R>(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        work: impl FnOnce(&Source<'_>) -> Result<R>,
    ) -> Result<R> {
        let Some(Unresolved { place, arena }) = self.unresolved else { return work(self) };
        let below = self.with_trees(&self.trees[place + 1..]);
        // What a transaction wrote outside of the range weighs what it does over all entries there, and positions count what is before the range.
        let (start, end) = if place > 0 { (Cut::Start, Cut::End) } else { (start, end) };
        let layer =
            unresolved::resolved(self.trees[place], (start, end), (arena, self.measures), |keys| -> Result<_> {
                below.ask(|stack| unresolved::contributions(stack, keys))
            })?;
        let mut trees: SmallVec<[View<'_>; 2]> = self.trees.iter().copied().collect();
        trees[place] = layer.view();
        work(&self.with_trees(&trees))
    }

    /// At least and at most how many live rows there are between two cuts, without a look at what lies below entries whose weights are not known.
    ///
    /// # Errors
    /// As reading a page of a run.
    pub(crate) fn count_bounds(&self, start: Cut<'_>, end: Cut<'_>) -> Result<Estimate> {
        let Some(Unresolved { place, .. }) = self.unresolved else {
            let rows = self.ask(|stack| stack.count(start, end))?;
            return Ok(Estimate { low: rows, high: rows });
        };
        if start.is_at_or_past(&end) {
            return Ok(Estimate::default());
        }
        let (puts, removals) = unresolved::count(self.trees[place], start, end);
        let below = self.with_trees(&self.trees[place + 1..]).ask(|stack| stack.count(start, end))?;
        // Whatever lies below, what was put is live.
        let (low, high) = (below.saturating_sub(removals).max(puts), below + puts);
        let above: Stack<'_, View<'_>> = Stack::new(self.trees[..place].iter().copied().collect(), self.measures);
        let above = resident(above.tally(start, end)).rows;
        Ok(Estimate { low: low.saturating_add_signed(above), high: high.saturating_add_signed(above) })
    }

    /// The same runs under other trees, whose weights are known.
    fn with_trees<'t>(&'t self, trees: &[View<'t>]) -> Source<'t> {
        let trees = trees.iter().copied();
        Source { cost: self.cost, ..Source::new(trees, self.runs, self.cache, self.measures) }
    }

    /// Lends the same version to `work`, and gives with its answer what that has cost.
    pub(crate) fn with_cost<R>(&self, work: impl FnOnce(Source<'_>) -> Result<R>) -> (Result<R>, Cost) {
        let cost = Cell::new(Cost { runs: self.runs.len(), ..Cost::default() });
        let trees = self.trees.iter().copied();
        let counted = Source {
            cost: Some(&cost),
            unresolved: self.unresolved,
            ..Source::new(trees, self.runs, self.cache, self.measures)
        };
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
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.scan_rows(WindowRows::Growing(SCAN_ROWS_FIRST), start, end, reverse, visit)
    }

    /// As [`Source::scan`], for who will take `rows` rows and no more.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn scan_first(
        &self,
        rows: u64,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.scan_rows(WindowRows::Known(rows), start, end, reverse, visit)
    }

    fn scan_rows(
        &self,
        rows: WindowRows,
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
        let bytes = (SCAN_PINNED_BYTES / self.runs.len() as u64).clamp(SCAN_BYTES_MIN, SCAN_BYTES);
        let window = Window { rows, bytes, pinned_bytes: SCAN_PINNED_BYTES };
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
        let (mut steps, mut times) = (0, 1);
        let mut next: Option<Next> = None;
        loop {
            let (start, end) = match (&next, reverse) {
                (None, _) => (start, end),
                (Some(Next::Behind(key)), false) => (Cut::After(key), end),
                (Some(Next::Behind(key)), true) => (start, Cut::Before(key)),
                (Some(Next::At(key)), false) => (Cut::Before(key), end),
                (Some(Next::At(key)), true) => (start, Cut::After(key)),
            };
            if start.is_at_or_past(&end) {
                return Ok(());
            }
            let pages = self.pages();
            let runs: SmallVec<[RunLayer<'_>; 4]> = self.runs.iter().map(|run| RunLayer::new(run, &pages)).collect();
            let ask_ahead = |start: Cut<'_>, end: Cut<'_>, rows: Option<u64>| {
                let limits = Limits { rows, bytes: Some(window.bytes), keeps_values: false, bytes_are_unpacked: true };
                pages.answer(|| charge_together(&runs, start, end, limits, reverse))?;
                // A step may look farther than was asked for.
                pages.load_rest()
            };
            ask_ahead(start, end, window.rows.asked(steps, times))?;
            let stack = stack_over(self.trees.iter().copied(), self.runs, &pages, self.measures);
            let begin = || if reverse { Merge::before(&stack, end) } else { Merge::from(&stack, start) };
            let mut merge = pages.answer(begin)?;
            // The last key that a step ended at, and one that a step which did not end came to.
            let (mut told, mut key) = (KeyBuffer::new(), KeyBuffer::new());
            let mut has_told = false;
            next = loop {
                match step(&mut merge, &mut key) {
                    Ok(false) => return Ok(()),
                    Ok(true) => {
                        std::mem::swap(&mut told, &mut key);
                        key.clear();
                        has_told = true;
                        steps += 1;
                    }
                    Err(Stopped::Failed(error)) => return Err(error),
                    Err(Stopped::Missing) => {
                        if pages.bytes() >= window.pinned_bytes {
                            // What was passed is let go of: go on with other pages.
                            let is_new = !matches!(&next, Some(Next::At(begun)) if *begun == key);
                            if !key.is_empty() && is_new {
                                break Some(Next::At(key));
                            } else if has_told && key.is_empty() {
                                break Some(Next::Behind(told));
                            }
                        }
                        let reached = if key.is_empty() { &told } else { &key };
                        let (start, end) = match (reached.is_empty(), reverse) {
                            (true, _) => (start, end),
                            (false, false) => (Cut::Before(reached), end),
                            (false, true) => (start, Cut::After(reached)),
                        };
                        ask_ahead(start, end, window.rows.asked(steps, times))?;
                        times = (2 * times).min(WINDOW_ROWS_MAX);
                    }
                }
            };
        }
    }
}

/// Where a walk goes on with other pages.
enum Next {
    /// Behind a key, which it has told.
    Behind(KeyBuffer),
    /// At a key, which it has not.
    At(KeyBuffer),
}
