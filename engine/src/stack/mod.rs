//! Layers, newest first, read as one: **reads merge, positions add**.
//!
//! Invariants:
//! 1. The newest entry of a key decides its value.
//! 2. Over all layers, the weights of a key sum to what its row weighs if it is live, and to zero if not.
//! 3. Hence `tally(range)` is the sum over layers of `tally_before(end) - tally_before(start)`: exact, one descent for
//!    each layer and bound.
//!
//! A layer may miss a page ([`Layer::Fault`]): every answer passes that on, and asking again once the page is there
//! succeeds. Not here: who made the layers, and where they lie (`state/versions`).

mod layer;
mod merge;
mod nth;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

pub use layer::{Layer, LayerWalk};
pub(crate) use layer::{ask_all, first_of, infallible};
pub(crate) use merge::Merge;
pub use nth::Located;

use crate::page::KeyBuffer;
use crate::tally::{Measures, Tally};
use crate::tree::{self, GROUP, Side, View};

/// A cut between keys: every key is on one side. A start bound cuts before the first key inside, an end bound before
/// the first key outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut<'k> {
    /// Before all keys.
    Start,
    /// Before this key.
    Before(&'k [u8]),
    /// After this key.
    After(&'k [u8]),
    /// After all keys.
    End,
}

impl<'k> Cut<'k> {
    /// The key and its side of the cut, unless the cut is at an end.
    pub(crate) fn key(&self) -> Option<(&'k [u8], Side)> {
        match *self {
            Cut::Before(key) => Some((key, Side::Below)),
            Cut::After(key) => Some((key, Side::Through)),
            Cut::Start | Cut::End => None,
        }
    }

    /// The first key that is not before the cut; `None` at the ends.
    pub(crate) fn first_key(&self) -> Option<KeyBuffer> {
        let (key, side) = self.key()?;
        let mut first = KeyBuffer::from_slice(key);
        if side == Side::Through {
            first.push(0);
        }
        Some(first)
    }

    /// Whether `key` lies after the cut.
    #[inline]
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        match *self {
            Cut::Start => true,
            Cut::Before(cut) => key >= cut,
            Cut::After(cut) => key > cut,
            Cut::End => false,
        }
    }

    /// Whether no key can lie between `self` and `end`.
    pub(crate) fn is_at_or_past(&self, end: &Cut<'_>) -> bool {
        match (self, end) {
            (Cut::End, _) | (_, Cut::Start) => true,
            (Cut::Start, _) | (_, Cut::End) => false,
            (Cut::Before(a), Cut::Before(b)) | (Cut::After(a), Cut::After(b)) => a >= b,
            (Cut::Before(a), Cut::After(b)) => a > b,
            (Cut::After(a), Cut::Before(b)) => a >= b,
        }
    }
}

/// A version of a table: its layers, newest first.
pub struct Stack<'a, L: Layer<'a> = View<'a>> {
    layers: SmallVec<[L; 4]>,
    measures: Measures,
    asked: L::Asked,
    lifetime: std::marker::PhantomData<&'a ()>,
}

/// A live row that was found by position.
pub(crate) struct Row<'a> {
    pub(crate) key: KeyBuffer,
    pub(crate) value: &'a [u8],
}

impl<'a, L: Layer<'a>> Stack<'a, L> {
    /// A stack of `layers`, newest first.
    pub(crate) fn new(layers: SmallVec<[L; 4]>, measures: Measures) -> Self {
        Stack { layers, measures, asked: L::Asked::default(), lifetime: std::marker::PhantomData }
    }

    pub(crate) fn layers(&self) -> &[L] {
        &self.layers
    }

    pub(crate) fn measures(&self) -> &Measures {
        &self.measures
    }

    /// The only layer, if there is just one and it is a bottom layer. Then the short paths apply.
    #[inline]
    pub(crate) fn single(&self) -> Option<&L> {
        match &self.layers[..] {
            [layer] if layer.is_bottom() => Some(layer),
            _ => None,
        }
    }

    /// The value of `key`, if it is live.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>, L::Fault> {
        Ok(L::newest(&self.layers, &self.asked, key, |layer| layer.get(key))?.flatten())
    }

    /// Whether `key` is live. Reads no value that is stored apart from its key.
    pub(crate) fn is_live(&self, key: &[u8]) -> Result<bool, L::Fault> {
        Ok(L::newest(&self.layers, &self.asked, key, |layer| layer.is_live(key))?.unwrap_or(false))
    }

    /// What `key` adds to the tally: zero if it is dead.
    pub(crate) fn contribution(&self, key: &[u8]) -> Result<Tally, L::Fault> {
        if self.measures.only_rows() {
            return Ok(Tally { rows: i64::from(self.is_live(key)?), ..Tally::ZERO });
        }
        Ok(self.get(key)?.map_or(Tally::ZERO, |value| self.measures.of_row(key, value)))
    }

    /// The tally of everything.
    pub(crate) fn total(&self) -> Tally {
        self.layers.iter().map(L::total).sum()
    }

    /// The tally of everything before the cut.
    pub(crate) fn tally_before(&self, cut: Cut<'_>) -> Result<Tally, L::Fault> {
        let Some((key, side)) = cut.key() else {
            return Ok(if cut == Cut::Start { Tally::ZERO } else { self.total() });
        };
        self.sum(Tally::ZERO, |layer| layer.tally_before(key, side))
    }

    /// The sum of an answer over all layers.
    #[inline(always)]
    fn sum<T: std::ops::AddAssign>(&self, zero: T, ask: impl Fn(&L) -> Result<T, L::Fault>) -> Result<T, L::Fault> {
        let mut sum = zero;
        ask_all(self.layers.iter().map(ask), |part| sum += part)?;
        Ok(sum)
    }

    /// Live rows before the cut.
    #[inline]
    pub(crate) fn rows_before(&self, cut: Cut<'_>) -> Result<u64, L::Fault> {
        let Some((key, side)) = cut.key() else {
            return Ok(if cut == Cut::Start { 0 } else { self.total().rows as u64 });
        };
        Ok(self.sum(0, |layer| layer.rows_before(key, side))? as u64)
    }

    /// The tally between two cuts.
    pub(crate) fn tally(&self, start: Cut<'_>, end: Cut<'_>) -> Result<Tally, L::Fault> {
        if start.is_at_or_past(&end) {
            return Ok(Tally::ZERO);
        }
        let (end, start) = (self.tally_before(end), self.tally_before(start));
        Ok(end? - start?)
    }

    /// Live rows between two cuts.
    pub(crate) fn count(&self, start: Cut<'_>, end: Cut<'_>) -> Result<u64, L::Fault> {
        if start.is_at_or_past(&end) {
            return Ok(0);
        }
        let (Some(start_key), Some(end_key)) = (start.key(), end.key()) else {
            return Ok(self.rows_before(end)? - self.rows_before(start)?);
        };
        Ok(self.sum(0, |layer| layer.rows_between(start_key, end_key))? as u64)
    }

    /// The live row with `offset` live rows before it, or `None` past the end.
    pub(crate) fn nth(&self, offset: u64) -> Result<Option<Row<'a>>, L::Fault> {
        if offset >= self.total().rows as u64 {
            return Ok(None);
        }
        if let Some(layer) = self.single() {
            let walk = layer.nth(offset)?;
            return Ok(walk.value()?.map(|value| Row { key: walk.key(), value }));
        }
        self.nth_of_many(offset)
    }

    /// Calls `visit` with the live rows between two cuts, ascending or descending, until it returns false. `jumps`: all
    /// weights are known, so that removed rows need not be stepped over.
    pub(crate) fn scan(
        &self,
        (start, end): (Cut<'_>, Cut<'_>),
        reverse: bool,
        jumps: bool,
        mut visit: impl FnMut(&[u8], &'a [u8]) -> bool,
    ) -> Result<(), L::Fault> {
        if start.is_at_or_past(&end) {
            return Ok(());
        }
        let merge = if reverse { Merge::before(self, end)? } else { Merge::from(self, start)? };
        let mut merge = merge.stopping_after(if jumps { DEAD_FIRST } else { u32::MAX });
        let mut key = KeyBuffer::new();
        let inside = |key: &[u8]| if reverse { start.is_before(key) } else { !end.is_before(key) };
        loop {
            match merge.next_within(&mut key, inside)? {
                Some(value) if visit(&key, value) => {}
                None if merge.has_stopped() => {
                    let Some(rest) = self.jump(&merge, &key, (start, end))? else { return Ok(()) };
                    merge = rest;
                }
                _ => return Ok(()),
            }
        }
    }
}

/// How many removed rows a scan steps over before it looks for the next live one by its rank: at first. Tests jump
/// early, so that all of them do.
pub(crate) const DEAD_FIRST: u32 = if cfg!(test) { 2 } else { 64 };

/// Interleaved questions, for layers in memory.
impl<'a> Stack<'a> {
    /// Looks up many keys, with interleaved descents. `found` gets the value of each, in order, or `None`.
    pub(crate) fn get_many(&self, keys: &[impl AsRef<[u8]>], mut found: impl FnMut(usize, Option<&'a [u8]>)) {
        if let Some(view) = self.single() {
            return tree::get_many(view, keys, |number, entry| found(number, entry.and_then(|entry| entry.value())));
        }
        for (chunk, keys) in keys.chunks(GROUP).enumerate() {
            let mut values: [Option<&[u8]>; GROUP] = [None; GROUP];
            // The indexes of the keys that no layer so far has an entry of.
            let mut numbers: SmallVec<[usize; GROUP]> = (0..keys.len()).collect();
            let mut asked: SmallVec<[&[u8]; GROUP]> = keys.iter().map(AsRef::as_ref).collect();
            for layer in &self.layers {
                let mut left = 0;
                tree::get_many(layer, &asked.clone(), |place, entry| match entry {
                    Some(entry) => values[numbers[place]] = entry.value(),
                    None => {
                        numbers[left] = numbers[place];
                        asked[left] = asked[place];
                        left += 1;
                    }
                });
                numbers.truncate(left);
                asked.truncate(left);
            }
            (0..keys.len()).for_each(|number| found(chunk * GROUP + number, values[number]));
        }
    }

    /// Counts the live rows before many cuts, with interleaved descents. Each comes with a mark of the caller's, which
    /// `counted` gets with its answer.
    pub(crate) fn rows_before_many<'k, M>(
        &self,
        cuts: impl IntoIterator<Item = (M, Cut<'k>)>,
        mut counted: impl FnMut(M, u64),
    ) {
        let at_end = |is_start| if is_start { 0 } else { self.total().rows };
        let ask = |keys: &[(&[u8], Side)]| {
            let mut rows = [0i64; GROUP];
            for layer in &self.layers {
                tree::rows_before_many(layer, keys, |number, before| rows[number] += before);
            }
            rows
        };
        ask_in_groups(cuts.into_iter(), at_end, ask, |mark, rows| counted(mark, rows as u64));
    }
}

/// Asks about many cuts, a group of keys at a time. `at_end` answers for a cut before all keys (true) and for one
/// after all, `ask` for a group of others; `answered` gets each answer with the mark of its cut.
#[inline]
pub(crate) fn ask_in_groups<'k, M, A>(
    mut cuts: impl Iterator<Item = (M, Cut<'k>)>,
    at_end: impl Fn(bool) -> A,
    ask: impl Fn(&[(&'k [u8], Side)]) -> [A; GROUP],
    mut answered: impl FnMut(M, A),
) {
    let mut marks: SmallVec<[M; GROUP]> = SmallVec::new();
    let mut keys: SmallVec<[(&[u8], Side); GROUP]> = SmallVec::new();
    loop {
        for (mark, cut) in cuts.by_ref() {
            let Some(key) = cut.key() else {
                answered(mark, at_end(cut == Cut::Start));
                continue;
            };
            marks.push(mark);
            keys.push(key);
            if keys.len() == GROUP {
                break;
            }
        }
        if keys.is_empty() {
            return;
        }
        let answers = ask(&keys);
        keys.clear();
        marks.drain(..).zip(answers).for_each(|(mark, answer)| answered(mark, answer));
    }
}
