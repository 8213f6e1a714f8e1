//! A run as a layer of a stack: questions by key and by position, and walks; each may miss a page.
//!
//! Cost: one page on each level for a question, and one value if it lies out of line. For an absent key whose leaf is
//! not in memory, mostly a filter instead of the leaf. A walk keeps the pages on the path to its leaf, and passes from
//! leaf to leaf through their lowest common page. Of a run with excisions, a search among those of a file comes on top,
//! and a walk that steps over one descends anew. Not here: where pages come from (`page_cache`).

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::{Missing, ReadPages};
use crate::page::{KeyBuffer, PageRef, Record};
use crate::run::Run;
use crate::run::columns::Inner;
use crate::run::excision::{Left, Prefix};
use crate::run::filter::hash_of;
use crate::run::format::{Sums, ValueReference};
use crate::run::loaded::Loaded;
use crate::run::place::UnitPlace;
use crate::run::weight::weight_of;
use crate::stack::{Layer, LayerWalk, Located};
use crate::tally::Tally;
use crate::tree::Side;

/// A run, read through one reader's pages.
#[derive(Clone, Copy)]
pub struct RunLayer<'a> {
    pub(crate) run: &'a Arc<Run>,
    pub(crate) pages: &'a ReadPages<'a>,
}

/// An inner page on the way down, and the child the path went to.
#[derive(Clone, Copy)]
struct Step<'a> {
    place: UnitPlace,
    page: &'a Loaded,
    child: usize,
}

/// The path to a leaf.
#[derive(Clone)]
struct Way<'a> {
    steps: SmallVec<[Step<'a>; 5]>,
    place: UnitPlace,
    leaf: PageRef<'a>,
    /// The entries of the leaf among which a walk need not look for excisions.
    window: Range<usize>,
}

impl<'a> RunLayer<'a> {
    pub(crate) fn new(run: &'a Arc<Run>, pages: &'a ReadPages<'a>) -> RunLayer<'a> {
        RunLayer { run, pages }
    }

    pub(crate) fn run(&self) -> &'a Arc<Run> {
        self.run
    }

    pub(crate) fn pages(&self) -> &'a ReadPages<'a> {
        self.pages
    }

    /// Descends from `place`, which `steps` lead to, to a leaf. `child` chooses the child of each inner page.
    fn descend(
        &self,
        mut steps: SmallVec<[Step<'a>; 5]>,
        mut place: UnitPlace,
        child: impl Fn(&UnitPlace, &Inner<'_>) -> usize,
    ) -> Result<Way<'a>, Missing> {
        loop {
            let page = self.pages.page(self.run, &place)?;
            if place.level == 0 {
                let leaf = page.leaf();
                return Ok(Way { steps, place, leaf, window: 0..leaf.count() });
            }
            let inner = self.run.inner(&place, page);
            let position = child(&place, &inner);
            steps.push(Step { place, page, child: position });
            place = self.run.child(&place, &inner, position);
        }
    }

    /// The path from the root; `None` if there are no entries.
    fn way(&self, child: impl Fn(&UnitPlace, &Inner<'_>) -> usize) -> Result<Option<Way<'a>>, Missing> {
        self.run.root().map(|root| self.descend(SmallVec::new(), root, child)).transpose()
    }

    /// The path to where `key` belongs, and how many entries of the leaf are before the cut there.
    fn find(&self, key: &[u8], side: Side) -> Result<Option<(Way<'a>, usize)>, Missing> {
        let Some(way) = self.way(|_, page| page.child_of(key))? else { return Ok(None) };
        let (position, found) = way.leaf.search::<true>(key);
        Ok(Some((way, position + usize::from(found && side == Side::Through))))
    }

    /// What is left of the run before a cut, as far as excisions tell: all of it, or what to take off from the sums
    /// that places and leaves have.
    #[inline]
    pub(crate) fn left_at(&self, key: &[u8], side: Side) -> Left {
        if self.run.has_excisions() { self.run.left_at(key, side) } else { Left::Less(Prefix::default()) }
    }

    /// The entry of `key`, and the place of its leaf.
    fn entry(&self, key: &[u8]) -> Result<Option<(UnitPlace, Record<'a>)>, Missing> {
        if self.run.file_of(key).is_excised(key) {
            return Ok(None);
        }
        let Some((place, leaf)) = self.leaf_that_may_have(key)? else { return Ok(None) };
        let (position, found) = leaf.search::<true>(key);
        Ok(found.then(|| (place, leaf.leaf_record(position))))
    }

    /// Like [`RunLayer::entry`], without the place.
    pub(crate) fn record(&self, key: &[u8]) -> Result<Option<Record<'a>>, Missing> {
        Ok(self.entry(key)?.map(|(_, record)| record))
    }

    /// The leaf that has `key` if any has; `None` if it is known without that leaf that none has.
    fn leaf_that_may_have(&self, key: &[u8]) -> Result<Option<(UnitPlace, PageRef<'a>)>, Missing> {
        let Some(mut place) = self.run.root() else { return Ok(None) };
        loop {
            let page = self.pages.page(self.run, &place)?;
            if place.level == 0 {
                return Ok(Some((place, page.leaf())));
            }
            let inner = self.run.inner(&place, page);
            let child = inner.child_of(key);
            if place.level == 1 && self.is_surely_absent(&place, &inner, child, key)? {
                return Ok(None);
            }
            place = self.run.child(&place, &inner, child);
        }
    }

    /// Whether the filter over child `child`, a leaf, of the inner page at `place` says that `key` is absent.
    ///
    /// A filter takes a hundredth of its leaves' bytes, so it is likelier than they are to be in memory and in the
    /// processor's cache.
    fn is_surely_absent(
        &self,
        place: &UnitPlace,
        inner: &Inner<'a>,
        child: usize,
        key: &[u8],
    ) -> Result<bool, Missing> {
        // The top has no filters.
        if place.is_top() {
            return Ok(false);
        }
        let file = self.run.file(place);
        let Some(pointer) = file.filter_of(place, inner, child) else { return Ok(false) };
        let filter = match self.pages.filter_if_here(file, &pointer) {
            Some(filter) => filter,
            // Most keys are in the bottom run: reading the filter saves nothing if the leaf is in memory.
            None if self.is_bottom()
                && self.pages.page_if_here(self.run, &self.run.child(place, inner, child)).is_some() =>
            {
                return Ok(false);
            }
            None => self.pages.filter(file, &pointer)?,
        };
        Ok(!filter.may_have(hash_of(key)))
    }

    /// The walk at the entry with `entries` entries before it, which exists.
    fn at_entry(&self, entries: i64) -> Result<RunWalk<'a>, Missing> {
        let Some(way) = self.way(|place, page| self.run.child_at(place, page, entries))? else {
            return Ok(RunWalk { layer: *self, way: None, spot: Spot::End });
        };
        let position = self.run.position_in(&way.place, entries);
        Ok(self.at_position(way, position))
    }

    /// The walk at an entry of a leaf that is left.
    fn at_position(&self, mut way: Way<'a>, position: usize) -> RunWalk<'a> {
        if self.run.has_excisions() {
            way.window = self.run.window(&way.place, &(0..way.leaf.count()), position);
        }
        RunWalk { layer: *self, way: Some(way), spot: Spot::Entry(position) }
    }

    /// Like [`RunLayer::at_entry`], or past all entries.
    fn at_entry_or_end(&self, entries: i64) -> Result<RunWalk<'a>, Missing> {
        if entries < self.run.info().total.entries { self.at_entry(entries) } else { self.end() }
    }

    /// The key of the entry at a position.
    pub(crate) fn key_at(&self, position: i64) -> Result<KeyBuffer, Missing> {
        Ok(self.at_entry(position)?.key())
    }

    /// Rows of the first `end` entries of a leaf, erased ones too.
    #[inline]
    pub(super) fn leaf_rows(&self, leaf: &PageRef<'_>, end: usize) -> i64 {
        if self.run.leaves_have_live_rows_only() {
            return end as i64;
        }
        (0..end).map(|position| leaf.leaf_record(position).rows()).sum()
    }

    /// The value of an entry of the leaf at `place`; `None` for a tombstone.
    pub(crate) fn value(&self, place: &UnitPlace, entry: &Record<'a>) -> Result<Option<&'a [u8]>, Missing> {
        self.value_from(place, entry, |reference| {
            let file = self.run.file(place);
            match self.pages.passed_value(file, place.pointer.offset, reference) {
                Some(value) => Ok(value),
                None => self.pages.value(file, reference),
            }
        })
    }

    /// Like [`RunLayer::value`], but a long value is read for this reader alone.
    pub(crate) fn value_in_passing(&self, place: &UnitPlace, entry: &Record<'a>) -> Result<Option<&'a [u8]>, Missing> {
        self.value_from(place, entry, |reference| self.pages.value_in_passing(self.run.file(place), reference))
    }

    fn value_from(
        &self,
        place: &UnitPlace,
        entry: &Record<'a>,
        ask: impl FnOnce(&ValueReference) -> Result<&'a [u8], Missing>,
    ) -> Result<Option<&'a [u8]>, Missing> {
        if entry.is_tombstone() {
            return Ok(None);
        }
        if !entry.value_is_out() {
            return Ok(Some(entry.value));
        }
        // A bad reference leads to bytes with another checksum, or to none: reading them gives the error.
        let reference = self.run.file(place).reference_within(place, entry.value);
        ask(&reference.unwrap_or(ValueReference::ASTRAY)).map(Some)
    }
}

impl<'a> Layer<'a> for RunLayer<'a> {
    type Walk = RunWalk<'a>;
    type Fault = Missing;
    type Asked = ();

    fn is_bottom(&self) -> bool {
        self.run.info().is_bottom
    }

    fn total(&self) -> Tally {
        self.run.info().total.tally
    }

    fn get(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, Missing> {
        match self.get_shortly(key) {
            Some(None) => return Ok(None),
            Some(Some(entry)) if entry.is_tombstone() => return Ok(Some(None)),
            Some(Some(entry)) if !entry.value_is_out() => return Ok(Some(Some(entry.value))),
            _ => {}
        }
        let Some((place, entry)) = self.entry(key)? else { return Ok(None) };
        self.value(&place, &entry).map(Some)
    }

    fn is_live(&self, key: &[u8]) -> Result<Option<bool>, Missing> {
        let entry = match self.get_shortly(key) {
            Some(entry) => entry,
            None => self.record(key)?,
        };
        Ok(entry.map(|entry| !entry.is_tombstone()))
    }

    fn tally_before(&self, key: &[u8], side: Side) -> Result<Tally, Missing> {
        let erased = match self.left_at(key, side) {
            Left::Known(left) => return Ok(left.sums.tally),
            Left::Less(erased) => erased.sums.tally,
        };
        let Some((way, end)) = self.find(key, side)? else { return Ok(Tally::ZERO) };
        let measures = &self.run.info().measures;
        let before = way.place.before.tally - erased;
        if measures.only_rows() {
            return Ok(before + Tally { rows: self.leaf_rows(&way.leaf, end), ..Tally::ZERO });
        }
        let weight_of = |position| weight_of(&way.leaf.leaf_record(position), measures, || way.leaf.key(position));
        Ok((0..end).fold(before, |sum, position| sum + weight_of(position)))
    }

    fn rows_before(&self, key: &[u8], side: Side) -> Result<i64, Missing> {
        let erased = match self.left_at(key, side) {
            Left::Known(left) => return Ok(left.sums.tally.rows),
            Left::Less(erased) => erased.sums.tally.rows,
        };
        let Some((way, end)) = self.find(key, side)? else { return Ok(0) };
        Ok(way.place.before.tally.rows + self.leaf_rows(&way.leaf, end) - erased)
    }

    fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> Result<i64, Missing> {
        // Both are asked before either is reported missing, so that one round brings the pages of both.
        let (before_start, before_end) = (self.rows_before(start.0, start.1), self.rows_before(end.0, end.1));
        Ok(before_end? - before_start?)
    }

    fn nth(&self, offset: u64) -> Result<RunWalk<'a>, Missing> {
        debug_assert!(self.is_bottom());
        if offset >= self.run.info().total.entries as u64 {
            return self.end();
        }
        self.at_entry(offset as i64)
    }

    fn entries(&self) -> Option<i64> {
        Some(self.run.info().total.entries)
    }

    fn pivot_near(&self, position: i64, within: Range<i64>) -> Result<(KeyBuffer, Located), Missing> {
        let Some(mut place) = self.run.root() else { unreachable!("the run has an entry there") };
        loop {
            let page = self.pages.page(self.run, &place)?;
            let before = place.before;
            if place.level == 0 {
                let (leaf, entry) = (page.leaf(), self.run.position_in(&place, position));
                let rows = before.tally.rows + self.leaf_rows(&leaf, entry);
                let rows = self.run.rows_left(&place, entry, rows);
                return Ok((leaf.key(entry), Located { rows, entries: position, is_found: true }));
            }
            let inner = self.run.inner(&place, page);
            let child = self.run.child_at(&place, &inner, position);
            place = self.run.child(&place, &inner, child);
            let before = self.run.extent(&place).before;
            // The separator before the leaf, if that separates them too.
            if place.level == 0 && child > 0 && within.start < before.entries && before.entries < within.end {
                let place = Located { rows: before.tally.rows, entries: before.entries, is_found: false };
                return Ok((inner.separator(child), place));
            }
        }
    }

    fn locate(&self, key: &[u8]) -> Result<Located, Missing> {
        // An excision knows what is before its end, and not whether there is an entry.
        let left = self.left_at(key, Side::Below);
        if let Left::Known(Prefix { sums, .. }) = left
            && self.run.file_of(key).is_excised(key)
        {
            return Ok(Located { rows: sums.tally.rows, entries: sums.entries, is_found: false });
        }
        let Some(way) = self.way(|_, page| page.child_of(key))? else {
            return Ok(Located { rows: 0, entries: 0, is_found: false });
        };
        let (position, is_found) = way.leaf.search::<true>(key);
        let before = way.place.before;
        let rows = before.tally.rows + self.leaf_rows(&way.leaf, position);
        let tally = Tally { rows, ..Tally::ZERO };
        let sums = Sums { entries: before.entries + position as i64, tally, ..Sums::default() };
        let left = left.of(Prefix { sums, bytes: 0 }).sums;
        Ok(Located { rows: left.tally.rows, entries: left.entries, is_found })
    }

    fn locate_group(&self, keys: &[&[u8]], located: impl FnMut(usize, Result<Located, Missing>)) {
        self.locate_together(keys, located);
    }

    fn seek(&self, key: Option<(&[u8], Side)>) -> Result<RunWalk<'a>, Missing> {
        let Some((key, side)) = key else { return self.at_entry(0) };
        let found = match self.left_at(key, side) {
            Left::Known(left) => return self.at_entry_or_end(left.sums.entries),
            Left::Less(_) => self.find(key, side)?,
        };
        let Some((way, position)) = found else { return self.end() };
        if self.run.has_excisions() {
            let entries = self.run.entries_before(&way.place, position);
            let is_in_leaf = position < way.leaf.count() && self.run.position_in(&way.place, entries) == position;
            return if is_in_leaf { Ok(self.at_position(way, position)) } else { self.at_entry_or_end(entries) };
        }
        let is_past = position == way.leaf.count();
        let mut walk = RunWalk { layer: *self, way: Some(way), spot: Spot::Entry(position - usize::from(is_past)) };
        if is_past {
            walk.next()?;
        }
        Ok(walk)
    }

    fn end(&self) -> Result<RunWalk<'a>, Missing> {
        // The last leaf may have nothing left.
        let way = if self.run.has_excisions() { None } else { self.way(|_, page| page.count() - 1)? };
        Ok(RunWalk { layer: *self, way, spot: Spot::End })
    }
}

/// A place in a run.
pub struct RunWalk<'a> {
    layer: RunLayer<'a>,
    /// `None` if there are no entries, and past the end of a run with excisions. Past any other end, the path to the
    /// entry there.
    way: Option<Way<'a>>,
    spot: Spot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    /// At this entry of the leaf.
    Entry(usize),
    /// Before the first entry of the run.
    Start,
    /// After the last one.
    End,
}

impl<'a> RunWalk<'a> {
    fn entry(&self) -> Option<(&Way<'a>, usize)> {
        match (&self.way, self.spot) {
            (Some(way), Spot::Entry(position)) => Some((way, position)),
            _ => None,
        }
    }

    /// The path to the next or the previous leaf; `None` if there is none.
    fn neighbour(&self, way: &Way<'a>, forward: bool) -> Result<Option<Way<'a>>, Missing> {
        let can_turn = |step: &Step<'a>| {
            if forward { step.child + 1 < self.layer.run.inner(&step.place, step.page).count() } else { step.child > 0 }
        };
        let Some(turn) = way.steps.iter().rposition(can_turn) else { return Ok(None) };
        let mut steps: SmallVec<[Step<'a>; 5]> = SmallVec::from_slice(&way.steps[..=turn]);
        let step = &mut steps[turn];
        step.child = if forward { step.child + 1 } else { step.child - 1 };
        let place = self.layer.run.child(&step.place, &self.layer.run.inner(&step.place, step.page), step.child);
        self.layer.descend(steps, place, |_, page| if forward { 0 } else { page.count() - 1 }).map(Some)
    }

    /// Moves on from the entry at `position`, at an end of the window of `way`: to the next leaf, or over excisions.
    fn leave(&self, way: &Way<'a>, position: usize, forward: bool) -> Result<Option<RunWalk<'a>>, Missing> {
        let layer = self.layer;
        if !layer.run.has_excisions() {
            let Some(way) = self.neighbour(way, forward)? else { return Ok(None) };
            let spot = Spot::Entry(if forward { 0 } else { way.leaf.count() - 1 });
            return Ok(Some(RunWalk { layer, way: Some(way), spot }));
        }
        let entries = layer.run.entries_before(&way.place, position) + if forward { 1 } else { -1 };
        if entries < 0 || entries >= layer.run.info().total.entries {
            return Ok(None);
        }
        // Where only the leaf ends, the path to the next one is short.
        let is_beside = layer.run.is_left_beside(&way.place, position, forward);
        let is_at_end = if forward { position + 1 == way.leaf.count() } else { position == 0 };
        if is_beside && is_at_end {
            let Some(way) = self.neighbour(way, forward)? else { return Ok(None) };
            let position = if forward { 0 } else { way.leaf.count() - 1 };
            return Ok(Some(layer.at_position(way, position)));
        }
        layer.at_entry(entries).map(Some)
    }
}

impl<'a> LayerWalk<'a> for RunWalk<'a> {
    type Fault = Missing;

    fn valid(&self) -> bool {
        self.entry().is_some()
    }

    fn next(&mut self) -> Result<(), Missing> {
        let Some(way) = &self.way else { return Ok(()) };
        match self.spot {
            Spot::End => {}
            Spot::Start => self.spot = Spot::Entry(way.window.start),
            Spot::Entry(position) if position + 1 < way.window.end => self.spot = Spot::Entry(position + 1),
            Spot::Entry(position) => match self.leave(way, position, true)? {
                None => {
                    self.spot = Spot::End;
                    // There may be no entry left at the end of the path.
                    self.way = self.way.take().filter(|_| !self.layer.run.has_excisions());
                }
                Some(next) => *self = next,
            },
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Missing> {
        let Some(way) = &self.way else {
            let last = self.layer.run.info().total.entries - 1;
            if last >= 0 {
                *self = self.layer.at_entry(last)?;
            }
            return Ok(());
        };
        match self.spot {
            Spot::Start => {}
            Spot::End => self.spot = Spot::Entry(way.window.end - 1),
            Spot::Entry(position) if position > way.window.start => self.spot = Spot::Entry(position - 1),
            Spot::Entry(position) => match self.leave(way, position, false)? {
                None => self.spot = Spot::Start,
                Some(before) => *self = before,
            },
        }
        Ok(())
    }

    fn key_into(&self, key: &mut KeyBuffer) {
        if let Some((way, position)) = self.entry() {
            way.leaf.key_into(position, key);
        }
    }

    fn is_live(&self) -> bool {
        self.entry().is_some_and(|(way, position)| !way.leaf.leaf_record(position).is_tombstone())
    }

    fn value(&self) -> Result<Option<&'a [u8]>, Missing> {
        match self.entry() {
            Some((way, position)) => self.layer.value(&way.place, &way.leaf.leaf_record(position)),
            None => Ok(None),
        }
    }

    fn weight(&self, key: &[u8]) -> Tally {
        let measures = &self.layer.run.info().measures;
        self.entry().map_or(Tally::ZERO, |(way, position)| weight_of(&way.leaf.leaf_record(position), measures, || key))
    }
}
