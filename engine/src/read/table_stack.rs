//! One version of a table, to read: its trees and runs, newest first, and where their pages come from.
//!
//! Invariants:
//! 1. A question is asked until all pages for its answer are there: nothing inside a tree waits for a page of a run,
//!    and no answer mixes two versions.
//! 2. What a question has seen is pinned until it is answered, and no longer; a scan releases what it has passed, a
//!    window at a time.
//! 3. Under the latch no question waits: it ends with [`ErrorKind::PageFault`] where a page is missing, which its
//!    reader has noted. What it has seen stays pinned in that reader.
//!
//! Not here: what keeps the version from changing (a latch, a snapshot, the writer's turn), and loading what was noted
//! under the latch (`page_faults`).

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::{Missing, PageCache, ReadCost, ReadPages};
use crate::error::{Error, ErrorKind, Result};
use crate::page::KeyBuffer;
use crate::probe::{CountInterval, Limits, RunLayer, charge_together};
use crate::read::many_keys::ManyKeys;
use crate::read::table_layer::Mixed;
use crate::read::unresolved;
use crate::run::Run;
use crate::stack::{Cut, DEAD_FIRST, Merge, Stack, infallible};
use crate::tally::{Measures, Tally};
use crate::tree::{Tree, View};

/// A version of a table as its readers see it.
pub(crate) type TableStack<'a> = Stack<'a, Mixed<'a>>;
/// A walk over it.
pub(crate) type TableMerge<'a> = Merge<'a, Mixed<'a>>;

/// How much a walk requests at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkWindow {
    pub(crate) rows: WindowRows,
    /// Bytes of each run, measured in memory.
    pub(crate) bytes: u64,
    /// A walk releases all pages that it has seen once they have this many bytes.
    pub(crate) lent_bytes: u64,
}

/// How many entries, over all runs, a walk requests at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowRows {
    /// As many as the window's bytes contain.
    Any,
    /// This many at first, then as many as in all windows before together, up to [`WINDOW_ROWS_MAX`].
    Growing(u64),
    /// The walk will make this many steps and no more: requests what is left of them, and more if that was repeatedly
    /// not enough, as when it steps over removed entries.
    Known(u64),
}

impl WindowRows {
    /// The number of entries to request after `steps` steps, `times` as many as the first if windows grow; `None` if
    /// bytes decide.
    fn asked(self, steps: u64, times: u64) -> Option<u64> {
        let rows = match self {
            WindowRows::Any => return None,
            WindowRows::Growing(first) => first * times,
            WindowRows::Known(rows) => rows.saturating_sub(steps).max(times),
        };
        (rows <= WINDOW_ROWS_MAX).then_some(rows)
    }
}

/// Entries of all runs together that a scan requests at first.
const SCAN_ROWS_FIRST: u64 = 64;
/// A window with more entries than this is limited by its bytes alone.
const WINDOW_ROWS_MAX: u64 = 4096;
/// Bytes of each run that a scan requests at a time: at most, and at least, however many runs there are.
const SCAN_BYTES: u64 = 2 << 20;
const SCAN_BYTES_MIN: u64 = 64 << 10;
/// Bytes of a window over all runs together, after which a scan releases them.
const SCAN_PINNED_BYTES: u64 = 8 << 20;

/// Why a step did not finish.
pub(crate) enum Stopped {
    /// A page of a run is not in memory: it has been noted, and the step can be repeated once it is.
    Missing,
    Failed(Error),
}

impl Stopped {
    /// The error of a step that had all pages it needed.
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

/// What answers have cost in pages of runs: see [`ReadableTable::with_cost`](crate::ReadableTable::with_cost). Data in
/// memory costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Runs of the table.
    pub runs: usize,
    /// Pages and long values used, counted once for each question. Inner pages and filters that stay with their file
    /// once they were read do not count again.
    pub pages: u64,
    /// Those of them that were not in the cache, and were read from a file.
    pub pages_read: u64,
    /// How often the reader had to wait for files, each time for all pages that it knew it needed.
    pub rounds: u64,
}

impl Cost {
    /// The cost of both, with the number of runs of `self`.
    fn and(&self, other: &Cost) -> Cost {
        Cost {
            runs: self.runs,
            pages: self.pages + other.pages,
            pages_read: self.pages_read + other.pages_read,
            rounds: self.rounds + other.rounds,
        }
    }
}

/// The pages one reader has seen. Added to a cost in the end, if one is kept.
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
    /// The index of the tree of unresolved entries, whose weights are unknown, in a table of blind writes.
    unresolved: Option<usize>,
    /// The runs below them, newest first.
    runs: &'a [Arc<Run>],
    cache: &'a PageCache,
    measures: Measures,
    /// Whether weights are known but for those of `unresolved`, so that scans may look for live rows by their ranks.
    counts: bool,
    /// Where a scan notes that it has met many removed rows.
    dead_met: Option<&'a Cell<bool>>,
    /// Where costs add up, if they are counted.
    cost: Option<&'a Cell<Cost>>,
    /// Under the latch: the reader of all questions, none of which may wait.
    latched: Option<&'a ReadPages<'a>>,
}

/// The error of a question under the latch that lacks a page.
#[cold]
pub(crate) fn page_fault() -> Error {
    Error::new(
        ErrorKind::PageFault,
        "a page of a run is not in memory, and no thread waits for a file under the latch: end the latched read or write, \
         load its page faults, and ask again",
    )
}

/// Makes a stack of trees over runs, whose pages come from `pages`. Leaves out trees without entries, as after a flush:
/// so the bottom run may be alone, and answer positions by itself.
#[inline(never)]
pub(crate) fn stack_over_views<'a>(
    trees: &[View<'a>],
    runs: &'a [Arc<Run>],
    pages: &'a ReadPages<'a>,
    measures: Measures,
) -> TableStack<'a> {
    let runs = runs.iter().map(|run| Mixed::Run(RunLayer::new(run, pages)));
    let trees = trees.iter().copied().filter(|tree| tree.entries() > 0).map(Mixed::Memory);
    Stack::new(trees.chain(runs).collect(), measures)
}

/// Like [`stack_over_views`], of the trees that an iterator gives.
pub(crate) fn stack_over<'a>(
    trees: impl IntoIterator<Item = View<'a>>,
    runs: &'a [Arc<Run>],
    pages: &'a ReadPages<'a>,
    measures: Measures,
) -> TableStack<'a> {
    stack_over_views(&trees.into_iter().collect::<SmallVec<[View<'a>; 4]>>(), runs, pages, measures)
}

/// Makes a stack of trees only.
#[inline]
pub(crate) fn stack_in_memory<'a>(trees: impl IntoIterator<Item = View<'a>>, measures: Measures) -> TableStack<'a> {
    Stack::new(trees.into_iter().map(Mixed::Memory).collect(), measures)
}

/// The answer of a stack of trees only.
#[inline(always)]
pub(crate) fn of_trees<T>(answer: Result<T, Missing>) -> T {
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
        Source {
            trees: trees.into_iter().collect(),
            unresolved: None,
            runs,
            cache,
            measures,
            counts: true,
            dead_met: None,
            cost: None,
            latched: None,
        }
    }

    /// The same version, whose scans step over each removed row: some weights are guesses, or not to be relied on.
    pub(crate) fn stepping(self) -> Source<'a> {
        Source { counts: false, ..self }
    }

    /// The same version. `dead_met` is set when a scan has met many removed rows.
    pub(crate) fn noting_dead(self, dead_met: &'a Cell<bool>) -> Source<'a> {
        Source { dead_met: Some(dead_met), ..self }
    }

    /// Whether scans may look for live rows by their ranks.
    fn jumps(&self) -> bool {
        self.counts && self.unresolved.is_none()
    }

    /// Like [`Source::new`], where one of the trees has unknown weights.
    pub(crate) fn with_unresolved(self, unresolved: Option<usize>) -> Source<'a> {
        Source { unresolved, ..self }
    }

    /// The same version under the latch: all questions look through `pages`, and none waits.
    pub(crate) fn latched(self, pages: &'a ReadPages<'a>) -> Source<'a> {
        Source { latched: Some(pages), ..self }
    }

    /// The value of `key`, lent from where it lies, read through `pages`.
    ///
    /// # Errors
    /// Those of [`Source::ask`].
    pub(crate) fn get_through(&self, pages: &'a ReadPages<'a>, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let stack = stack_over_views(&self.trees, self.runs, pages, self.measures);
        match self.latched {
            Some(_) => stack.get(key).map_err(|Missing| page_fault()),
            None => pages.answer(|| stack.get(key)),
        }
    }

    /// Lends the same version to `work`, with all weights in a range known: all answers about that range are exact.
    ///
    /// Costs a look-up for each entry of the range with an unknown weight (in a transaction, of the whole table), in
    /// sorted batches, and memory for them; nothing if there are none. Without the entries outside of the range, the
    /// version is one that might have existed: the stack is lawful.
    ///
    /// # Errors
    /// Those of reading a page of a run, and [`ErrorKind::Full`](crate::ErrorKind::Full) if there is no address space
    /// for the entries.
    pub(crate) fn exact<R>(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        work: impl FnOnce(&Source<'_>) -> Result<R>,
    ) -> Result<R> {
        match self.resolved(start, end)? {
            None => work(self),
            Some((place, layer)) => {
                let mut trees: SmallVec<[View<'_>; 2]> = self.trees.iter().copied().collect();
                trees[place] = layer.view();
                work(&self.with_trees(&trees))
            }
        }
    }

    /// The tree with unknown weights, by its index, with all weights in a range known.
    #[inline(never)]
    fn resolved(&self, start: Cut<'_>, end: Cut<'_>) -> Result<Option<(usize, Tree)>> {
        let Some(place) = self.unresolved else { return Ok(None) };
        let below = self.with_trees(&self.trees[place + 1..]);
        // A transaction's writes outside of the range have weights relative to all entries there, and positions count
        // what is before the range.
        let (start, end) = if place > 0 { (Cut::Start, Cut::End) } else { (start, end) };
        let layer = unresolved::resolved(self.trees[place], (start, end), self.measures, |keys| -> Result<_> {
            below.contributions(keys)
        })?;
        Ok(Some((place, layer)))
    }

    /// Bounds of the number of live rows between two cuts, without looking below entries with unknown weights.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub(crate) fn count_interval(&self, start: Cut<'_>, end: Cut<'_>) -> Result<CountInterval> {
        let Some(place) = self.unresolved else {
            let rows = self.ask(|stack| stack.count(start, end))?;
            return Ok(CountInterval { low: rows, high: rows });
        };
        if start.is_at_or_past(&end) {
            return Ok(CountInterval::default());
        }
        let (puts, removals) = unresolved::count(self.trees[place], start, end);
        let below = self.with_trees(&self.trees[place + 1..]).ask(|stack| stack.count(start, end))?;
        // Whatever lies below, a put key is live.
        let (low, high) = (below.saturating_sub(removals).max(puts), below + puts);
        let above: Stack<'_, View<'_>> = Stack::new(self.trees[..place].iter().copied().collect(), self.measures);
        let above = infallible(above.tally(start, end)).rows;
        Ok(CountInterval { low: low.saturating_add_signed(above), high: high.saturating_add_signed(above) })
    }

    /// The same runs under other trees, whose weights are known.
    fn with_trees<'t>(&'t self, trees: &[View<'t>]) -> Source<'t> {
        let trees = trees.iter().copied();
        Source { cost: self.cost, latched: self.latched, ..Source::new(trees, self.runs, self.cache, self.measures) }
    }

    /// Lends the same version to `work`, and returns its answer and its cost.
    pub(crate) fn with_cost<R>(&self, work: impl FnOnce(Source<'_>) -> Result<R>) -> (Result<R>, Cost) {
        let cost = Cell::new(Cost { runs: self.runs.len(), ..Cost::default() });
        let trees = self.trees.iter().copied();
        let counted = Source {
            cost: Some(&cost),
            unresolved: self.unresolved,
            counts: self.counts,
            dead_met: self.dead_met,
            latched: self.latched,
            ..Source::new(trees, self.runs, self.cache, self.measures)
        };
        let answer = work(counted);
        if let Some(around) = self.cost {
            around.set(around.get().and(&cost.get()));
        }
        (answer, cost.get())
    }

    /// The cost so far, if it is counted.
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

    /// Asks a question until all pages for its answer are there.
    ///
    /// # Errors
    /// Those of reading a page of a run; [`ErrorKind::PageFault`] under the latch.
    #[inline]
    pub(crate) fn ask<R>(&self, mut question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>) -> Result<R> {
        if self.runs.is_empty() {
            return Ok(of_trees(question(&stack_in_memory(self.trees.iter().copied(), self.measures))));
        }
        if let Some(pages) = self.latched {
            let stack = stack_over_views(&self.trees, self.runs, pages, self.measures);
            return question(&stack).map_err(|Missing| page_fault());
        }
        let pages = self.pages();
        let stack = stack_over_views(&self.trees, self.runs, &pages, self.measures);
        pages.answer(|| question(&stack))
    }

    /// What each of these keys adds to the tally: zero if it is dead.
    ///
    /// # Errors
    /// Those of [`Source::ask`].
    pub(crate) fn contributions(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Tally>> {
        let mut contributions = ManyKeys::contributions(keys);
        self.ask(|stack| contributions.ask(stack))?;
        Ok(contributions.into_answers())
    }

    /// Calls `visit` with the live rows between two cuts, ascending or descending, until it returns false.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub(crate) fn scan(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.scan_rows(WindowRows::Growing(SCAN_ROWS_FIRST), start, end, reverse, &mut visit)
    }

    /// Like [`Source::scan`], for a caller that takes `rows` rows and no more.
    ///
    /// # Errors
    /// Those of [`Source::scan`].
    pub(crate) fn scan_first(
        &self,
        rows: u64,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.scan_rows(WindowRows::Known(rows), start, end, reverse, &mut visit)
    }

    /// Its callback is no type parameter: this and what it calls would be compiled again for each caller.
    fn scan_rows(
        &self,
        rows: WindowRows,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if self.runs.is_empty() {
            let stack = stack_in_memory(self.trees.iter().copied(), self.measures);
            of_trees(stack.scan((start, end), reverse, self.jumps(), visit));
            return Ok(());
        }
        let bytes = (SCAN_PINNED_BYTES / self.runs.len() as u64).clamp(SCAN_BYTES_MIN, SCAN_BYTES);
        let window = WalkWindow { rows, bytes, lent_bytes: SCAN_PINNED_BYTES };
        let inside = |key: &[u8]| if reverse { start.is_before(key) } else { !end.is_before(key) };
        self.walk(start, end, reverse, window, |merge, key| {
            let row = merge.next_within(key, inside)?;
            Ok(row.is_some_and(|value| visit(key, value)))
        })
    }

    /// Walks between two cuts, requesting the pages of a window together. `step` moves the merge on by one, writes the
    /// new key into its buffer, and returns whether to go on.
    ///
    /// # Errors
    /// Those of `step`, and those of reading a page of a run.
    pub(crate) fn walk(
        &self,
        start: Cut<'_>,
        end: Cut<'_>,
        reverse: bool,
        window: WalkWindow,
        mut step: impl for<'m> FnMut(&mut TableMerge<'m>, &mut KeyBuffer) -> std::result::Result<bool, Stopped>,
    ) -> Result<()> {
        let (mut steps, mut times) = (0, 1);
        let mut dead_max = if self.jumps() || self.dead_met.is_some() { DEAD_FIRST } else { u32::MAX };
        let mut next: Option<Next> = None;
        // Each attempt under the latch begins anew: it asks for as many rows as it has passed.
        let times_of = |steps: u64, times: u64| match (self.latched, window.rows) {
            (Some(_), WindowRows::Growing(first)) => times.max(steps / first),
            _ => times,
        };
        loop {
            let (start, end) = next.as_ref().map_or((start, end), |next| next.rest_of(start, end, reverse));
            if start.is_at_or_past(&end) {
                return Ok(());
            }
            let own;
            let pages: &ReadPages<'_> = match self.latched {
                Some(pages) => pages,
                None => {
                    own = self.pages();
                    &own
                }
            };
            let runs: SmallVec<[RunLayer<'_>; 4]> = self.runs.iter().map(|run| RunLayer::new(run, pages)).collect();
            let ask_ahead = |start: Cut<'_>, end: Cut<'_>, rows: Option<u64>| {
                let limits = Limits { rows, bytes: Some(window.bytes), keeps_values: false, bytes_are_unpacked: true };
                if self.latched.is_some() {
                    // What is missing is noted.
                    let _ = charge_together(&runs, start, end, limits, reverse);
                    return Err(page_fault());
                }
                pages.answer(|| charge_together(&runs, start, end, limits, reverse))?;
                // A step may look farther than was requested.
                pages.load_rest()
            };
            let stack = stack_over_views(&self.trees, self.runs, pages, self.measures);
            let begin = || if reverse { Merge::before(&stack, end) } else { Merge::from(&stack, start) };
            let mut merge = match begin() {
                Ok(merge) => merge,
                Err(Missing) => {
                    ask_ahead(start, end, window.rows.asked(steps, times))?;
                    pages.answer(begin)?
                }
            };
            merge = merge.stopping_after(dead_max);
            // The last key that a step ended at, and one that an unfinished step came to.
            let (mut told, mut key) = (KeyBuffer::new(), KeyBuffer::new());
            let mut has_told = false;
            next = loop {
                match step(&mut merge, &mut key) {
                    Ok(false) if merge.has_stopped() => {
                        self.dead_met.inspect(|dead_met| dead_met.set(true));
                        if !self.jumps() {
                            dead_max = u32::MAX;
                            merge = merge.stopping_after(dead_max);
                            continue;
                        }
                        std::mem::swap(&mut told, &mut key);
                        key.clear();
                        has_told = true;
                        let jump = || stack.jump(&merge, &told, (start, end));
                        let rest = match self.latched {
                            Some(_) => jump().map_err(|Missing| page_fault())?,
                            None => pages.answer(jump)?,
                        };
                        let Some(rest) = rest else { return Ok(()) };
                        merge = rest;
                        dead_max = merge.dead_max();
                    }
                    Ok(false) => return Ok(()),
                    Ok(true) => {
                        std::mem::swap(&mut told, &mut key);
                        key.clear();
                        has_told = true;
                        steps += 1;
                    }
                    Err(Stopped::Failed(error)) => return Err(error),
                    Err(Stopped::Missing) => {
                        if pages.bytes() >= window.lent_bytes {
                            // What was passed is released: go on with other pages.
                            let is_new = !matches!(&next, Some(Next::At(begun)) if *begun == key);
                            if !key.is_empty() && is_new {
                                break Some(Next::At(key));
                            } else if has_told && key.is_empty() {
                                break Some(Next::After(told));
                            }
                        }
                        let reached = if key.is_empty() { &told } else { &key };
                        let (start, end) =
                            if reached.is_empty() { (start, end) } else { rest_at(reached, start, end, reverse) };
                        ask_ahead(start, end, window.rows.asked(steps, times_of(steps, times)))?;
                        times = (2 * times).min(WINDOW_ROWS_MAX);
                    }
                }
            };
        }
    }
}

/// Where a walk goes on with other pages.
enum Next {
    /// After a key that was visited.
    After(KeyBuffer),
    /// At a key that was not visited.
    At(KeyBuffer),
}

impl Next {
    /// What is left of a walk between two cuts.
    fn rest_of<'c>(&'c self, start: Cut<'c>, end: Cut<'c>, reverse: bool) -> (Cut<'c>, Cut<'c>) {
        match self {
            Next::After(key) if reverse => (start, Cut::Before(key)),
            Next::After(key) => (Cut::After(key), end),
            Next::At(key) => rest_at(key, start, end, reverse),
        }
    }
}

/// What is left of a walk between two cuts from a key on, which belongs to it.
fn rest_at<'c>(key: &'c [u8], start: Cut<'c>, end: Cut<'c>, reverse: bool) -> (Cut<'c>, Cut<'c>) {
    if reverse { (start, Cut::After(key)) } else { (Cut::Before(key), end) }
}
