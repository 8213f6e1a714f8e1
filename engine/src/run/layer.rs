//! A run as a layer of a stack: questions by key and by position, and walks, of which each may lack a page.
//!
//! Costs: one page a level for a question, and one value if it lies out of line. For a key that the run does not have, in a leaf that is not in memory, mostly a filter
//! in place of the leaf. A walk keeps the pages on the way to its leaf, and passes from leaf to leaf over the
//! lowest page that both hang under.
//! Not here: where pages come from (`pages`).

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Run;
use super::columns::Inner;
use super::file::{Loaded, Place};
use super::filter::hash_of;
use super::format::ValueReference;
use super::pages::{Missing, ReadPages};
use crate::page::{KeyBuffer, PageRef, Record};
use crate::stack::{Layer, LayerWalk, Located};
use crate::tally::{Measures, Tally};
use crate::tree::Side;

/// A run, read through one reader's pages.
#[derive(Clone, Copy)]
pub struct RunLayer<'a> {
    pub(super) run: &'a Arc<Run>,
    pub(super) pages: &'a ReadPages<'a>,
}

/// An inner page on the way down, and which child the way went to.
#[derive(Clone, Copy)]
struct Step<'a> {
    place: Place,
    page: &'a Loaded,
    child: usize,
}

/// The way to a leaf.
#[derive(Clone)]
struct Way<'a> {
    steps: SmallVec<[Step<'a>; 5]>,
    place: Place,
    leaf: PageRef<'a>,
}

impl<'a> RunLayer<'a> {
    pub(crate) fn new(run: &'a Arc<Run>, pages: &'a ReadPages<'a>) -> RunLayer<'a> {
        RunLayer { run, pages }
    }

    pub(super) fn run(&self) -> &'a Arc<Run> {
        self.run
    }

    pub(super) fn pages(&self) -> &'a ReadPages<'a> {
        self.pages
    }

    /// Goes on from `place`, which `steps` lead to, down to a leaf, by what `child` says of each inner page.
    fn descend(
        &self,
        mut steps: SmallVec<[Step<'a>; 5]>,
        mut place: Place,
        child: impl Fn(&Place, &Inner<'_>) -> usize,
    ) -> Result<Way<'a>, Missing> {
        loop {
            let page = self.pages.page(self.run, &place)?;
            if place.level == 0 {
                return Ok(Way { steps, place, leaf: page.leaf() });
            }
            let inner = self.run.inner(&place, page);
            let position = child(&place, &inner);
            steps.push(Step { place, page, child: position });
            place = self.run.child(&place, &inner, position);
        }
    }

    /// The way from the root; `None` if there are no entries.
    fn way(&self, child: impl Fn(&Place, &Inner<'_>) -> usize) -> Result<Option<Way<'a>>, Missing> {
        self.run.root().map(|root| self.descend(SmallVec::new(), root, child)).transpose()
    }

    /// The way to where `key` belongs, and how many entries of the leaf are before the cut there.
    fn find(&self, key: &[u8], side: Side) -> Result<Option<(Way<'a>, usize)>, Missing> {
        let Some(way) = self.way(|_, page| page.child_of(key))? else { return Ok(None) };
        let (position, found) = way.leaf.search::<true>(key);
        Ok(Some((way, position + usize::from(found && side == Side::Through))))
    }

    /// The entry of `key`, and the place of its leaf.
    fn entry(&self, key: &[u8]) -> Result<Option<(Place, Record<'a>)>, Missing> {
        let Some((place, leaf)) = self.leaf_that_may_have(key)? else { return Ok(None) };
        let (position, found) = leaf.search::<true>(key);
        Ok(found.then(|| (place, leaf.leaf_record(position))))
    }

    /// The leaf that has `key` if any has; none if it is told without that leaf that none has.
    fn leaf_that_may_have(&self, key: &[u8]) -> Result<Option<(Place, PageRef<'a>)>, Missing> {
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

    /// Whether the filter over child `child`, a leaf, of the inner page at `place` says that `key` is not there.
    ///
    /// A filter takes a hundredth of its leaves, so it is likelier to be at hand than they are, and to be in the processor's cache.
    fn is_surely_absent(&self, place: &Place, inner: &Inner<'a>, child: usize, key: &[u8]) -> Result<bool, Missing> {
        // The top has no filters.
        if place.is_top() {
            return Ok(false);
        }
        let file = self.run.file(place);
        let Some(pointer) = file.filter_of(place, inner, child) else { return Ok(false) };
        let filter = match self.pages.filter_if_here(file, &pointer) {
            Some(filter) => filter,
            // Of the bottom run most keys are there: reading it spares nothing if the leaf is at hand.
            None if self.is_bottom()
                && self.pages.page_if_here(self.run, &self.run.child(place, inner, child)).is_some() =>
            {
                return Ok(false);
            }
            None => self.pages.filter(file, &pointer)?,
        };
        Ok(!filter.may_have(hash_of(key)))
    }

    /// The walk at the entry with `entries` before it, of which there are more.
    fn at_entry(&self, entries: i64) -> Result<RunWalk<'a>, Missing> {
        let way = self.way(|place, page| self.run.child_at(place, page, entries))?;
        let place = way.as_ref().map_or(Spot::End, |way| Spot::Entry((entries - way.place.before.entries) as usize));
        Ok(RunWalk { layer: *self, way, spot: place })
    }

    /// The key of the entry at a position.
    pub(crate) fn key_at(&self, position: i64) -> Result<KeyBuffer, Missing> {
        Ok(self.at_entry(position)?.key())
    }

    /// Rows of the first `end` entries of a leaf.
    pub(super) fn leaf_rows(&self, leaf: &PageRef<'_>, end: usize) -> i64 {
        if self.run.info().is_bottom {
            return end as i64;
        }
        (0..end).map(|position| leaf.leaf_record(position).rows()).sum()
    }

    /// The value of an entry of the leaf at `place`, `None` of a tombstone.
    pub(super) fn value(&self, place: &Place, entry: &Record<'a>) -> Result<Option<&'a [u8]>, Missing> {
        self.value_from(place, entry, |reference| {
            let file = self.run.file(place);
            match self.pages.passed_value(file, place.pointer.offset, reference) {
                Some(value) => Ok(value),
                None => self.pages.value(file, reference),
            }
        })
    }

    /// As [`RunLayer::value`]; a long one is read for this reader alone.
    pub(super) fn value_in_passing(&self, place: &Place, entry: &Record<'a>) -> Result<Option<&'a [u8]>, Missing> {
        self.value_from(place, entry, |reference| self.pages.value_in_passing(self.run.file(place), reference))
    }

    fn value_from(
        &self,
        place: &Place,
        entry: &Record<'a>,
        ask: impl FnOnce(&ValueReference) -> Result<&'a [u8], Missing>,
    ) -> Result<Option<&'a [u8]>, Missing> {
        if entry.is_tombstone() {
            return Ok(None);
        }
        if !entry.value_is_out() {
            return Ok(Some(entry.value));
        }
        // One that leads astray leads to bytes whose checksum is another, or to none: reading them says so.
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
        let Some((place, entry)) = self.entry(key)? else { return Ok(None) };
        self.value(&place, &entry).map(Some)
    }

    fn is_live(&self, key: &[u8]) -> Result<Option<bool>, Missing> {
        Ok(self.entry(key)?.map(|(_, entry)| !entry.is_tombstone()))
    }

    fn tally_before(&self, key: &[u8], side: Side) -> Result<Tally, Missing> {
        let Some((way, end)) = self.find(key, side)? else { return Ok(Tally::ZERO) };
        let measures = &self.run.info().measures;
        let before = way.place.before.tally;
        if measures.only_rows() {
            return Ok(before + Tally { rows: self.leaf_rows(&way.leaf, end), ..Tally::ZERO });
        }
        let weight_of = |position| weight_of(&way.leaf.leaf_record(position), measures, || way.leaf.key(position));
        Ok((0..end).fold(before, |sum, position| sum + weight_of(position)))
    }

    fn rows_before(&self, key: &[u8], side: Side) -> Result<i64, Missing> {
        let Some((way, end)) = self.find(key, side)? else { return Ok(0) };
        Ok(way.place.before.tally.rows + self.leaf_rows(&way.leaf, end))
    }

    fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> Result<i64, Missing> {
        // Both are asked before either is missed, so that one round brings the pages of both.
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
                let (leaf, entry) = (page.leaf(), (position - before.entries) as usize);
                let rows = before.tally.rows + self.leaf_rows(&leaf, entry);
                return Ok((leaf.key(entry), Located { rows, entries: position, is_found: true }));
            }
            let inner = self.run.inner(&place, page);
            let child = self.run.child_at(&place, &inner, position);
            place = self.run.child(&place, &inner, child);
            let before = place.before;
            // The separator before the leaf, if that parts them too.
            if place.level == 0 && child > 0 && within.start < before.entries && before.entries < within.end {
                let place = Located { rows: before.tally.rows, entries: before.entries, is_found: false };
                return Ok((inner.separator(child), place));
            }
        }
    }

    fn locate(&self, key: &[u8]) -> Result<Located, Missing> {
        let Some(way) = self.way(|_, page| page.child_of(key))? else {
            return Ok(Located { rows: 0, entries: 0, is_found: false });
        };
        let (position, is_found) = way.leaf.search::<true>(key);
        let before = way.place.before;
        let rows = before.tally.rows + self.leaf_rows(&way.leaf, position);
        Ok(Located { rows, entries: before.entries + position as i64, is_found })
    }

    fn seek(&self, key: Option<(&[u8], Side)>) -> Result<RunWalk<'a>, Missing> {
        let Some((key, side)) = key else {
            let way = self.way(|_, _| 0)?;
            let spot = if way.is_some() { Spot::Entry(0) } else { Spot::End };
            return Ok(RunWalk { layer: *self, way, spot });
        };
        let Some((way, position)) = self.find(key, side)? else { return self.end() };
        let is_past = position == way.leaf.count();
        let mut walk = RunWalk { layer: *self, way: Some(way), spot: Spot::Entry(position - usize::from(is_past)) };
        if is_past {
            walk.next()?;
        }
        Ok(walk)
    }

    fn end(&self) -> Result<RunWalk<'a>, Missing> {
        Ok(RunWalk { layer: *self, way: self.way(|_, page| page.count() - 1)?, spot: Spot::End })
    }
}

/// What an entry weighs. Weights stand in the entry unless they can be told from its key and the value that stands in it too.
pub(super) fn weight_of<K: std::ops::Deref<Target = [u8]>>(
    entry: &Record<'_>,
    measures: &Measures,
    key: impl FnOnce() -> K,
) -> Tally {
    if entry.weights.is_empty() && !measures.only_rows() {
        measures.of_row(&key(), entry.value)
    } else {
        entry.explicit_weight(measures)
    }
}

/// A place in a run.
pub struct RunWalk<'a> {
    layer: RunLayer<'a>,
    /// `None` if there are no entries. Past an end, the way to the entry there.
    way: Option<Way<'a>>,
    spot: Spot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    /// At this entry of the leaf.
    Entry(usize),
    /// Before the first entry of all.
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

    /// The way to the leaf after this one, or before it; `None` if this is the last.
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
            Spot::Start => self.spot = Spot::Entry(0),
            Spot::Entry(position) if position + 1 < way.leaf.count() => self.spot = Spot::Entry(position + 1),
            Spot::Entry(_) => match self.neighbour(way, true)? {
                None => self.spot = Spot::End,
                next => (self.way, self.spot) = (next, Spot::Entry(0)),
            },
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Missing> {
        let Some(way) = &self.way else { return Ok(()) };
        match self.spot {
            Spot::Start => {}
            Spot::End => self.spot = Spot::Entry(way.leaf.count() - 1),
            Spot::Entry(position) if position > 0 => self.spot = Spot::Entry(position - 1),
            Spot::Entry(_) => match self.neighbour(way, false)? {
                None => self.spot = Spot::Start,
                Some(before) => {
                    self.spot = Spot::Entry(before.leaf.count() - 1);
                    self.way = Some(before);
                }
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
