//! Plans what a range of runs costs, and requests all its pages before the first read (precharge: YDB).
//!
//! Both note the missing pages, as far as the present pages lead. The caller loads them and repeats: see
//! [`ReadPages::answer`](crate::cache::ReadPages::answer).
//!
//! Invariants:
//! 1. While the place of a cut is unknown, bounds of it are known: the entries before and in the lowest page known on
//!    the path to it. So each page is *sure* to be needed, or *may* be needed, or is not.
//! 2. An inner page is requested if it may be needed; a leaf if it is sure to be needed, or if it may be and the range
//!    ends in it.
//! 3. Of a run with excisions, places and entries are those of what is left. A cut within an excision, or at an end of
//!    the run, is known without a page; what lies next to it is found by its position.
//! 4. Bounds only get closer. So after `k` rounds all pages of the upper `k` inner levels that may be needed are there,
//!    and are not requested again.
//!
//! Cost: a charge takes as many rounds as the run has levels, one more if the contents of the first leaf decide which
//! others are needed, and one more for long values. It reads what the walk reads, and in addition at most: one leaf, in
//! which the range ends, if a limit of rows is reached just before it; and on each inner level as many pages as hold
//! the entries of its first one, and one for the entry past the end. Each round goes once over the children in range of
//! all inner pages that are there. Not here: loading (`page_cache`); which layers of a stack are runs.

use std::iter::Sum;
use std::ops::Range;

use super::layer::RunLayer;
use crate::cache::Missing;
use crate::cache::Passed;
use crate::page::PageRef;
use crate::run::excision::Left;
use crate::run::format::Sums;
use crate::run::place::{Extent, UnitPlace};
use crate::stack::{Cut, ask_all};
use crate::tree::Side;

/// How far a charge goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Entries of each run, as if it were alone; in a bottom run these are its rows. A scan of a stack for this many
    /// rows passes fewer of each run if several have some, and more if entries are erased or overwritten: then it may
    /// miss a page, and is charged again from there.
    pub(crate) rows: Option<u64>,
    /// Bytes of each run's file from the end of the first leaf, which does not count, to the start of the last one or
    /// its long values: leaves, long values, and the few inner pages between. So the last leaf may end beyond the
    /// limit.
    pub(crate) bytes: Option<u64>,
    /// Whether long values are cached, for a caller that returns to them. A scan that passes them once does not need
    /// it, and caching would cost several times what reading a value does.
    pub(crate) keeps_values: bool,
    /// Whether `bytes` counts pages and values unpacked, by the average of the run: for a caller with a limit of
    /// memory.
    pub(crate) bytes_are_unpacked: bool,
}

/// The contents and the cost of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangePlan {
    /// Entries, including tombstones.
    pub(crate) entries: u64,
    /// The sum of their weights: over all layers of a stack, its live rows.
    pub(crate) rows: i64,
    /// Leaves with an entry of the range.
    pub(crate) leaves: u64,
    /// Bytes of these leaves in the file.
    pub(crate) leaf_bytes: u64,
    /// Bytes of all long values of these leaves.
    pub(crate) value_bytes: u64,
}

impl Sum for RangePlan {
    fn sum<I: Iterator<Item = RangePlan>>(plans: I) -> RangePlan {
        plans.fold(RangePlan::default(), |sum, plan| RangePlan {
            entries: sum.entries + plan.entries,
            rows: sum.rows + plan.rows,
            leaves: sum.leaves + plan.leaves,
            leaf_bytes: sum.leaf_bytes + plan.leaf_bytes,
            value_bytes: sum.value_bytes + plan.value_bytes,
        })
    }
}

/// The sum of [`RunLayer::plan`] over `runs`, in as many rounds as the highest run takes.
pub(crate) fn plan(runs: &[RunLayer<'_>], start: Cut<'_>, end: Cut<'_>) -> Result<RangePlan, Missing> {
    let mut plans = Vec::new();
    ask_all(runs.iter().map(|run| run.plan(start, end)), |plan| plans.push(plan))?;
    Ok(plans.into_iter().sum())
}

/// [`RunLayer::charge`] of all `runs`, in as many rounds as the highest run takes.
pub(crate) fn charge(
    runs: &[RunLayer<'_>],
    start: Cut<'_>,
    end: Cut<'_>,
    limits: Limits,
    reverse: bool,
) -> Result<(), Missing> {
    ask_all(runs.iter().map(|run| run.charge(start, end, limits, reverse)), |()| ())
}

/// Like [`charge`], with limits of rows for all `runs` together: each gets a share by its entries, and a margin for
/// chance.
///
/// A walk that comes to more rows of one run misses a page, and is charged again from there.
pub(crate) fn charge_together(
    runs: &[RunLayer<'_>],
    start: Cut<'_>,
    end: Cut<'_>,
    limits: Limits,
    reverse: bool,
) -> Result<(), Missing> {
    let entries_of = |run: &RunLayer<'_>| run.run.info().total.entries;
    let all: i64 = runs.iter().map(entries_of).sum();
    let charge_share = |run: &RunLayer<'_>| {
        let rows = limits.rows.map(|rows| {
            let expected = rows as f64 * entries_of(run) as f64 / all as f64;
            // At most all rows, which is the share of a single run.
            rows.min((expected + expected.sqrt()).ceil() as u64 + 1)
        });
        run.charge(start, end, Limits { rows, ..limits }, reverse)
    };
    ask_all(runs.iter().map(charge_share), |()| ())
}

/// Where a cut is, as far as the present pages tell.
struct Edge {
    /// Where the lowest page known on the path to it lies, and whether it is a leaf.
    extent: Extent,
    is_leaf: bool,
    /// The least and the most entries before the cut.
    low: i64,
    high: i64,
    /// Rows before the cut, if `low` equals `high`.
    rows: i64,
    /// Whether all pages on the path are there, as far as it was followed.
    ready: Result<(), Missing>,
}

/// Ranges of entries and of bytes of the file. A page is in the part if it has some of both.
#[derive(Clone)]
struct ChargedPart {
    entries: Range<i64>,
    bytes: Range<u64>,
}

impl ChargedPart {
    fn of_entries(entries: Range<i64>) -> ChargedPart {
        ChargedPart { entries, bytes: 0..u64::MAX }
    }

    fn within(&self, entries: Range<i64>) -> ChargedPart {
        let entries = self.entries.start.max(entries.start)..self.entries.end.min(entries.end);
        ChargedPart { entries, bytes: self.bytes.clone() }
    }

    fn meets(&self, extent: &Extent) -> bool {
        let is_any_left = extent.before.entries < extent.until.entries;
        let is_after_start = extent.until.entries > self.entries.start && extent.end > self.bytes.start;
        is_any_left && is_after_start && !self.ends_before(extent)
    }

    /// Whether neither what lies there nor anything after it is in the part.
    fn ends_before(&self, extent: &Extent) -> bool {
        extent.before.entries >= self.entries.end || extent.start >= self.bytes.end
    }
}

/// Which inner pages and which leaves to visit.
struct Reach {
    inner: ChargedPart,
    leaves: ChargedPart,
}

impl Limits {
    /// The parts that a walk from `near` is sure to need, and may need, within the limits.
    fn parts(&self, near: &Edge, reverse: bool) -> (ChargedPart, ChargedPart) {
        let rows = self.rows.and_then(|rows| i64::try_from(rows).ok()).unwrap_or(i64::MAX);
        let bytes = self.bytes.unwrap_or(u64::MAX);
        let Edge { extent: Extent { start: floor, end, .. }, is_leaf, .. } = *near;
        // The first leaf does not count. While only a page above it is known, it may be the first or the last below
        // that page.
        let part = |cut: i64, leaf: u64| match reverse {
            false => ChargedPart { entries: i64::MIN..cut.saturating_add(rows), bytes: 0..leaf.saturating_add(bytes) },
            true => {
                ChargedPart { entries: cut.saturating_sub(rows)..i64::MAX, bytes: leaf.saturating_sub(bytes)..u64::MAX }
            }
        };
        if reverse {
            (part(near.high, if is_leaf { floor } else { end }), part(near.low, floor))
        } else {
            (part(near.low, if is_leaf { end } else { floor }), part(near.high, end))
        }
    }
}

impl RunLayer<'_> {
    /// What lies between two cuts, exactly. Reads the inner pages over it and, for each cut at a key, the leaf there,
    /// in as many rounds as the run has levels.
    pub(crate) fn plan(&self, start: Cut<'_>, end: Cut<'_>) -> Result<RangePlan, Missing> {
        let Some(root) = self.run.root().filter(|_| !start.is_at_or_past(&end)) else {
            return Ok(RangePlan::default());
        };
        let from = self.edge(root, start, false, |_, is_known| !is_known);
        let to = self.edge(root, end, true, |_, is_known| !is_known);
        let reach = Reach {
            inner: ChargedPart::of_entries(from.low..to.high),
            leaves: ChargedPart::of_entries(from.high..to.low),
        };
        let mut plan = RangePlan::default();
        let ready = self.visit(&root, &reach, &mut |leaf| {
            plan.leaves += 1;
            plan.leaf_bytes += u64::from(leaf.pointer.length);
            plan.value_bytes += leaf.pointer.offset - leaf.floor;
            Ok(())
        });
        from.ready.and(to.ready).and(ready)?;
        if from.low == to.low {
            return Ok(RangePlan::default());
        }
        Ok(RangePlan { entries: (to.low - from.low) as u64, rows: to.rows - from.rows, ..plan })
    }

    /// Requests all pages that a walk between the cuts, in either direction, reads until it reaches a limit: those on
    /// the path to its first entry, those of its entries, their long values, and, if the range ends before the limits,
    /// that of the entry past it, without its value. Once this succeeds, such a walk misses no page.
    ///
    /// Requests nothing if the limit is no rows, or no key can be between the cuts.
    pub(crate) fn charge(&self, start: Cut<'_>, end: Cut<'_>, limits: Limits, reverse: bool) -> Result<(), Missing> {
        let Some(root) = self.run.root().filter(|_| !start.is_at_or_past(&end) && limits.rows != Some(0)) else {
            return Ok(());
        };
        let limits = Limits { bytes: limits.bytes.map(|bytes| self.file_bytes(bytes, &limits)), ..limits };
        let (near, far) = if reverse { (end, start) } else { (start, end) };
        let near = self.edge(root, near, reverse, |_, _| true);
        let (sure, maybe) = limits.parts(&near, reverse);
        let far = self.edge(root, far, !reverse, |extent, is_known| !is_known && maybe.meets(extent));
        let (from, to) = if reverse { (&far, &near) } else { (&near, &far) };
        // A walk reads an entry past the range to see that it has ended. A backward walk also begins at one, since it
        // seeks the end.
        let past = i64::from(reverse);
        let reach = Reach {
            inner: maybe.within(from.low - past..to.high + 1),
            leaves: sure.within(from.high - past..to.low + 1),
        };
        let values = sure.within(from.high..to.low).entries;
        let ready = self.visit(&root, &reach, &mut |leaf| self.charge_leaf(leaf, &values, limits.keeps_values));
        near.ready.and(far.ready).and(ready)
    }

    /// Converts a limit of bytes to bytes of the file.
    fn file_bytes(&self, bytes: u64, limits: &Limits) -> u64 {
        let info = self.run.info();
        if !limits.bytes_are_unpacked || info.saved_bytes == 0 {
            return bytes;
        }
        let unpacked_bytes = u128::from(info.bytes) + u128::from(info.saved_bytes);
        (u128::from(bytes) * u128::from(info.bytes) / unpacked_bytes) as u64
    }

    /// Requests a leaf, and the long values of its entries that are among `values`.
    fn charge_leaf(&self, place: &UnitPlace, values: &Range<i64>, keeps_values: bool) -> Result<(), Missing> {
        let leaf = self.pages.page(self.run, place)?.leaf();
        if place.floor == place.pointer.offset {
            return Ok(());
        }
        let keeps_values = keeps_values || self.pages.is_continued();
        let extent = self.run.extent(place);
        let entries = extent.before.entries.max(values.start)..extent.until.entries.min(values.end);
        let positions = entries.map(|entry| self.run.position_in(place, entry));
        if !keeps_values && let Some(ready) = self.pass_values(place, &leaf, positions.clone()) {
            return ready;
        }
        let values = positions.map(|position| {
            let entry = leaf.leaf_record(position);
            if keeps_values { self.value(place, &entry) } else { self.value_in_passing(place, &entry) }
        });
        ask_all(values, |_| ())
    }

    /// Requests the long values of these entries in one piece; `None` if some are packed or have a bad reference, so
    /// that each must be requested on its own.
    fn pass_values(
        &self,
        place: &UnitPlace,
        leaf: &PageRef<'_>,
        positions: impl Iterator<Item = usize>,
    ) -> Option<Result<(), Missing>> {
        let file = self.run.file(place);
        let mut lacking: Option<Passed> = None;
        for position in positions {
            let entry = leaf.leaf_record(position);
            if !entry.value_is_out() {
                continue;
            }
            let reference =
                file.reference_within(place, entry.value).filter(|reference| reference.packed_bytes == 0)?;
            let (offset, end) = (reference.offset, reference.end()?);
            if self.pages.passes(file, place.pointer.offset, &(offset..end)) {
                continue;
            }
            let values = lacking.get_or_insert(Passed { leaf: place.pointer.offset, offset, end, count: 0 });
            values.offset = values.offset.min(offset);
            values.end = values.end.max(end);
            values.count += 1;
        }
        Some(lacking.map_or(Ok(()), |values| Err(self.pages.pass(file, values))))
    }

    /// What is left before a cut, if that is known without a page.
    fn known_before(&self, cut: Cut<'_>) -> Option<Sums> {
        let Some((key, side)) = cut.key() else {
            return Some(if cut == Cut::Start { Sums::default() } else { self.run.info().total });
        };
        match self.left_at(key, side) {
            Left::Known(left) => Some(left.sums),
            Left::Less(_) => None,
        }
    }

    /// Descends to a cut as far as the pages on the path are in reach and present; `reached` also gets whether it is
    /// known without them. Of the entries next to a cut that is known, the path leads to the one before it if
    /// `reverse`.
    fn edge(&self, root: UnitPlace, cut: Cut<'_>, reverse: bool, reached: impl Fn(&Extent, bool) -> bool) -> Edge {
        let known = self.known_before(cut);
        let sought = if known.is_some() { None } else { cut.key() };
        let last = self.run.info().total.entries - 1;
        let beside = known.map_or(0, |known| (known.entries - i64::from(reverse)).max(0));
        let (mut place, mut extent) = (root, self.run.extent(&root));
        let ready = loop {
            if beside > last || !reached(&extent, known.is_some()) {
                break Ok(());
            }
            let page = match self.pages.page(self.run, &place) {
                Ok(page) => page,
                Err(missing) => break Err(missing),
            };
            if place.level == 0 {
                let Some((key, side)) = sought else { break Ok(()) };
                let leaf = page.leaf();
                let (position, found) = leaf.search::<true>(key);
                let position = position + usize::from(found && side == Side::Through);
                let entries = self.run.entries_before(&place, position);
                let rows = place.before.tally.rows + self.leaf_rows(&leaf, position);
                let rows = self.run.rows_left(&place, position, rows);
                return Edge { extent, is_leaf: true, low: entries, high: entries, rows, ready: Ok(()) };
            }
            let inner = self.run.inner(&place, page);
            let child = match sought {
                Some((key, _)) => inner.child_of(key),
                None => self.run.child_at(&place, &inner, beside),
            };
            place = self.run.child(&place, &inner, child);
            extent = self.run.extent(&place);
        };
        let (low, high) = known.map_or((extent.before, extent.until), |known| (known, known));
        let is_leaf = place.level == 0;
        Edge { extent, is_leaf, low: low.entries, high: high.entries, rows: low.tally.rows, ready }
    }

    /// Calls `visit` with each leaf in reach that the present inner pages lead to, and requests the missing inner
    /// pages.
    fn visit(
        &self,
        place: &UnitPlace,
        reach: &Reach,
        visit: &mut dyn FnMut(&UnitPlace) -> Result<(), Missing>,
    ) -> Result<(), Missing> {
        let extent = self.run.extent(place);
        if place.level == 0 {
            return if reach.leaves.meets(&extent) { visit(place) } else { Ok(()) };
        }
        if !reach.inner.meets(&extent) {
            return Ok(());
        }
        let page = self.run.inner(place, self.pages.page(self.run, place)?);
        let first = self.run.child_at(place, &page, reach.inner.entries.start.max(extent.before.entries));
        let children = (first..page.count()).map(|position| self.run.child(place, &page, position));
        let children = children.take_while(|child| !reach.inner.ends_before(&self.run.extent(child)));
        ask_all(children.map(|child| self.visit(&child, reach, visit)), |()| ())
    }
}
