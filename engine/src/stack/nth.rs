//! Finds the row at an offset of a stack of several layers, by a search over keys.
//!
//! The total rank is monotone, though that of one layer is not, so the search asks the whole stack for the ranks of
//! pivots, and narrows.
//!
//! Layers that know the positions of their entries (runs) give pivots near where the row must be, preferably between
//! leaves, which need no leaf to be read. The nearer bound and the density of rows between the bounds give an estimate
//! (interpolation search, Perl, Itai and Avni 1978), and each pivot is put a little beyond it, so that it becomes the
//! other bound. Trees give keys from about their middle. In the end few entries are left, and a walk over all layers
//! counts them.
//!
//! Walks use it too: one that has stepped over many removed rows goes on at the row of its rank.
//!
//! Cost for rows whose keys are spread alike over the layers: some five ranks in the stack, the last of which read the
//! same leaves.

use smallvec::SmallVec;

use super::{Cut, Layer, LayerWalk, Merge, Row, Stack};
use crate::page::KeyBuffer;
use crate::tree::{GROUP, Side};

/// The number of entries between the bounds that are walked over instead of split once more.
const WALKED_MAX: i64 = 40;
/// A walk steps over at most so many removed rows before it jumps. Each jump doubles their number up to this, so that a
/// table of which each hundredth row is live costs little more than steps.
const DEAD_MAX: u32 = 4096;
/// After this many estimated pivots, those from the middle take over, which need no luck.
const ESTIMATES_MAX: usize = 8;

/// A key and its rank in the stack.
struct Bound {
    /// `None` at the ends.
    key: Option<KeyBuffer>,
    rows: u64,
    /// For each layer, the number of entries before it; in the lower bound, including one at the key itself.
    entries: SmallVec<[i64; 8]>,
}

/// A key to ask the stack for.
struct Pivot {
    key: KeyBuffer,
    /// Its place in the layer of that index.
    known: Option<(usize, Located)>,
}

impl Pivot {
    /// Its place in the layer of that index, if it is known.
    fn known_in(&self, layer: usize) -> Option<Located> {
        self.known.filter(|(known, _)| *known == layer).map(|(_, place)| place)
    }
}

/// Where a key is in each layer, in their order.
type Places = SmallVec<[Located; 4]>;

/// A search in progress: the offset of the row is at least that of the lower bound, and less than that of the upper.
struct Search<'s, 'a, L: Layer<'a>> {
    stack: &'s Stack<'a, L>,
    offset: u64,
    low: Bound,
    high: Bound,
    /// How many pivots came from positions.
    estimates: usize,
}

/// Searches that go on together; `None` where there is nothing to find, a fault where a page is missing.
type Searches<'s, 'a, L> = SmallVec<[Result<Option<Search<'s, 'a, L>>, <L as Layer<'a>>::Fault>; GROUP]>;

impl<'a, L: Layer<'a>> Stack<'a, L> {
    /// `nth` for several layers that have more than `offset` rows.
    pub(super) fn nth_of_many(&self, offset: u64) -> Result<Option<Row<'a>>, L::Fault> {
        if self.has_bottom_tree()
            && let Some((bottom, upper)) = self.layers().split_last()
        {
            return self.nth_over_bottom(upper, bottom, offset);
        }
        let mut search = Search::new(self, offset);
        while let Some(pivot) = search.pivot()? {
            let locate = |(number, layer): (usize, &L)| match pivot.known_in(number) {
                Some(place) => Ok(place),
                None => layer.locate(&pivot.key),
            };
            let mut places = Places::new();
            super::ask_all(self.layers().iter().enumerate().map(locate), |place| places.push(place))?;
            search.narrow(pivot.key, &places);
        }
        search.finish()
    }

    /// [`Stack::nth`] for many offsets, whose searches wait for memory together. `found` gets each row with the index
    /// of its offset, in order.
    pub(crate) fn nth_many(&self, offsets: &[u64], mut found: impl FnMut(usize, Result<Option<Row<'a>>, L::Fault>)) {
        let rows = self.total().rows as u64;
        for (chunk, offsets) in offsets.chunks(GROUP).enumerate() {
            let mut found = |number: usize, row| found(chunk * GROUP + number, row);
            if self.single().is_some() || self.has_bottom_tree() {
                offsets.iter().enumerate().for_each(|(number, offset)| found(number, self.nth(*offset)));
                continue;
            }
            let search = |offset: &u64| Ok((*offset < rows).then(|| Search::new(self, *offset)));
            self.search_together(offsets.iter().map(search).collect(), found);
        }
    }

    /// Whether the lowest layer is a tree with live rows only.
    fn has_bottom_tree(&self) -> bool {
        self.layers().last().is_some_and(|bottom| bottom.is_bottom() && bottom.entries().is_none())
    }

    /// The places of at most [`GROUP`] pivots, layer by layer.
    fn locate_together(&self, pivots: &[Pivot]) -> SmallVec<[Result<Places, L::Fault>; GROUP]> {
        let mut found: SmallVec<[Result<Places, L::Fault>; GROUP]> = pivots.iter().map(|_| Ok(Places::new())).collect();
        for (number, layer) in self.layers().iter().enumerate() {
            let mut add = |index: usize, place| match (place, &mut found[index]) {
                (Ok(place), Ok(places)) => places.push(place),
                (Err(fault), found) => *found = Err(fault),
                (Ok(_), Err(_)) => {}
            };
            let (mut asked, mut keys) = (SmallVec::<[usize; GROUP]>::new(), SmallVec::<[&[u8]; GROUP]>::new());
            for (index, pivot) in pivots.iter().enumerate() {
                match pivot.known_in(number) {
                    Some(place) => add(index, Ok(place)),
                    None => {
                        asked.push(index);
                        keys.push(&pivot.key);
                    }
                }
            }
            layer.locate_group(&keys, |place, located| add(asked[place], located));
        }
        found
    }

    /// Narrows at most [`GROUP`] searches, each by one pivot in turn. `found` gets the row of each with its index, in
    /// order: `None` where there is no search.
    fn search_together(
        &self,
        mut searches: Searches<'_, 'a, L>,
        mut found: impl FnMut(usize, Result<Option<Row<'a>>, L::Fault>),
    ) {
        let mut open: SmallVec<[usize; GROUP]> = (0..searches.len()).collect();
        loop {
            let mut pivots: SmallVec<[Pivot; GROUP]> = SmallVec::new();
            open.retain(|number| {
                let Ok(Some(search)) = &mut searches[*number] else { return false };
                match search.pivot() {
                    Ok(Some(pivot)) => pivots.push(pivot),
                    Ok(None) => return false,
                    Err(fault) => {
                        searches[*number] = Err(fault);
                        return false;
                    }
                }
                true
            });
            if open.is_empty() {
                break;
            }
            let places = self.locate_together(&pivots);
            for ((number, pivot), places) in open.iter().zip(pivots).zip(places) {
                match (&mut searches[*number], places) {
                    (Ok(Some(search)), Ok(places)) => search.narrow(pivot.key, &places),
                    (search, Err(fault)) => *search = Err(fault),
                    _ => {}
                }
            }
        }
        for (number, search) in searches.into_iter().enumerate() {
            found(number, search.and_then(|search| search.map_or(Ok(None), Search::finish)));
        }
    }

    /// `nth` for trees. Pivots come from the layer above the bottom with the most entries left between the bounds,
    /// until only the bottom has any there: then it answers alone. So a transaction that has written little pays
    /// little, however large the table is.
    fn nth_over_bottom(&self, upper: &[L], bottom: &L, offset: u64) -> Result<Option<Row<'a>>, L::Fault> {
        // At most `offset` rows are before `low`, and more are before `high`.
        let mut low: Option<KeyBuffer> = None;
        let mut high: Option<KeyBuffer> = None;
        loop {
            let mut best: Option<(KeyBuffer, u64)> = None;
            for layer in upper {
                if let Some(pivot) = layer.pivot(low.as_deref(), high.as_deref())?
                    && best.as_ref().is_none_or(|best| pivot.1 > best.1)
                {
                    best = Some(pivot);
                }
            }
            let Some((pivot, _)) = best else { break };
            if self.rows_before(Cut::Before(&pivot))? <= offset {
                low = Some(pivot);
            } else {
                high = Some(pivot);
            }
        }
        // Between `low` and `high` only the bottom has entries; `low` itself may belong to any layer.
        let mut passed = 0;
        let mut start = Cut::Start;
        if let Some(low) = &low {
            passed = self.rows_before(Cut::Before(low))?;
            start = Cut::After(low);
            if let Some(value) = self.get(low)? {
                if passed == offset {
                    return Ok(Some(Row { key: low.clone(), value }));
                }
                passed += 1;
            }
        }
        let before = match start.key() {
            None => 0,
            Some((key, side)) => bottom.rows_before(key, side)? as u64,
        };
        let walk = bottom.nth(before + (offset - passed))?;
        Ok(walk.value()?.map(|value| Row { key: walk.key(), value }))
    }

    /// The rest of a walk between two cuts that has stopped after the removed row `key`: from the next live row on, or
    /// `None` if there is none. It stops after twice as many removed rows. All weights must be known.
    ///
    /// Cost: three ranks and the row at an offset.
    pub(crate) fn jump(
        &self,
        stopped: &Merge<'a, L>,
        key: &[u8],
        (start, end): (Cut<'_>, Cut<'_>),
    ) -> Result<Option<Merge<'a, L>>, L::Fault> {
        let reverse = stopped.is_reverse();
        let passed = if reverse { Cut::Before(key) } else { Cut::After(key) };
        let rows = self.rows_before(passed)?;
        let bound = self.rows_before(if reverse { start } else { end })?;
        let is_at_end = if reverse { rows <= bound } else { rows >= bound };
        if is_at_end {
            return Ok(None);
        }
        let Some(row) = self.nth(if reverse { rows - 1 } else { rows })? else { return Ok(None) };
        let merge =
            if reverse { Merge::before(self, Cut::After(&row.key)) } else { Merge::from(self, Cut::Before(&row.key)) };
        let dead_max = (2 * stopped.dead_max()).min(DEAD_MAX);
        merge.map(|merge| Some(merge.stopping_after(dead_max)))
    }
}

impl<'s, 'a, L: Layer<'a>> Search<'s, 'a, L> {
    fn new(stack: &'s Stack<'a, L>, offset: u64) -> Self {
        let (layers, rows) = (stack.layers(), stack.total().rows as u64);
        let entries = layers.iter().map(|layer| layer.entries().unwrap_or(0)).collect();
        let low = Bound { key: None, rows: 0, entries: layers.iter().map(|_| 0).collect() };
        Search { stack, offset, low, high: Bound { key: None, rows, entries }, estimates: 0 }
    }

    /// The key to ask for next; `None` once a walk is shorter.
    fn pivot(&mut self) -> Result<Option<Pivot>, L::Fault> {
        let left = self.high.entries.iter().zip(&self.low.entries).map(|(high, low)| high - low);
        if left.clone().sum::<i64>() > WALKED_MAX
            && let Some((number, left)) = left.enumerate().max_by_key(|(_, left)| *left)
        {
            let position = self.low.entries[number] + self.estimate(left, self.estimates);
            self.estimates += 1;
            let within = self.low.entries[number]..self.high.entries[number];
            let (key, place) = self.stack.layers()[number].pivot_near(position, within)?;
            return Ok(Some(Pivot { key, known: Some((number, place)) }));
        }
        // Trees do not know the positions of their entries.
        let mut best: Option<(KeyBuffer, u64)> = None;
        for layer in self.stack.layers().iter().filter(|layer| layer.entries().is_none()) {
            if let Some(pivot) = layer.pivot(self.low.key.as_deref(), self.high.key.as_deref())?
                && best.as_ref().is_none_or(|best| pivot.1 > best.1)
            {
                best = Some(pivot);
            }
        }
        Ok(best.filter(|(_, about)| *about > WALKED_MAX as u64).map(|(key, _)| Pivot { key, known: None }))
    }

    /// Which of the `left` entries of a layer between the bounds to take.
    fn estimate(&self, left: i64, step: usize) -> i64 {
        let span = (self.high.rows - self.low.rows) as f64;
        if step >= ESTIMATES_MAX || span <= 0.0 {
            return left / 2;
        }
        let left_f = left as f64;
        let (behind, ahead) = ((self.offset - self.low.rows) as f64, (self.high.rows - self.offset) as f64);
        let place = left_f * (behind + 0.5) / span;
        // The likely error of the estimate: chance decides how many entries of other layers are before the pivot.
        let doubt = 1.5 * behind.min(ahead).sqrt() * left_f / span + 2.0;
        let place = if behind < ahead { place + doubt } else { place - doubt };
        (place as i64).clamp(0, left - 1)
    }

    /// Replaces a bound by a pivot.
    fn narrow(&mut self, key: KeyBuffer, places: &Places) {
        let rows = places.iter().map(|place| place.rows).sum::<i64>() as u64;
        if rows <= self.offset {
            let through = places.iter().map(|place| place.entries + i64::from(place.is_found)).collect();
            self.low = Bound { key: Some(key), rows, entries: through };
        } else {
            let below = places.iter().map(|place| place.entries).collect();
            self.high = Bound { key: Some(key), rows, entries: below };
        }
    }

    /// Walks to the row from the lower bound.
    fn finish(self) -> Result<Option<Row<'a>>, L::Fault> {
        let start = self.low.key.as_ref().map_or(Cut::Start, |key| Cut::Before(key));
        let mut merge = Merge::from(self.stack, start)?;
        merge.skip(self.offset - self.low.rows)?;
        let mut key = KeyBuffer::new();
        Ok(merge.next_within(&mut key, |_| true)?.map(|value| Row { key, value }))
    }
}

/// Where a key is in a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Rows of the entries before it.
    pub(crate) rows: i64,
    /// Entries before it, if the layer knows the positions of its entries.
    pub(crate) entries: i64,
    /// Whether the layer has an entry of it.
    pub(crate) is_found: bool,
}

impl Located {
    /// The place in a layer that knows no positions.
    pub(super) fn of_rows<'a, L: Layer<'a>>(layer: &L, key: &[u8]) -> Result<Located, L::Fault> {
        Ok(Located { rows: layer.rows_before(key, Side::Below)?, entries: 0, is_found: false })
    }
}
