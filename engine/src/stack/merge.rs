//! Walks over a stack: the live rows of all layers in key order, in one direction.
//!
//! A walk may be told to stop after so many removed rows in a row. Then [`Stack::jump`] (`nth`) finds the next live one
//! by its rank: a queue whose front was removed costs a scan O(log n), not a step for each row that once stood there.
//!
//! Invariant: a walk that misses a page loses nothing. Each layer's walk moves on only when the next row is requested,
//! and remembers that it has.

use smallvec::SmallVec;

use super::{Cut, Layer, LayerWalk, Stack, ask_all};
use crate::page::KeyBuffer;
use crate::tally::Tally;

/// A walk over the live rows of a stack.
pub(crate) struct Merge<'a, L: Layer<'a>> {
    arms: SmallVec<[Arm<'a, L>; 4]>,
    reverse: bool,
    /// Removed rows since the last live one, and after how many the walk stops.
    dead: u32,
    dead_max: u32,
    lifetime: std::marker::PhantomData<&'a ()>,
}

/// The sum of a key's entries in some layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged<'a> {
    /// The newest value; `None` for a tombstone.
    pub(crate) value: Option<&'a [u8]>,
    /// Their total weight: the tally of the key, minus what lies below them.
    pub(crate) weight: Tally,
}

/// The walk of one layer with the key it is at.
struct Arm<'a, L: Layer<'a>> {
    walk: L::Walk,
    key: KeyBuffer,
    /// Whether the entry here has been returned, so that the walk must move on.
    is_told: bool,
}

impl<'a, L: Layer<'a>> Merge<'a, L> {
    /// The rows after `cut`, ascending.
    pub(crate) fn from(stack: &Stack<'a, L>, cut: Cut<'_>) -> Result<Self, L::Fault> {
        let seek = |layer: &L| if cut == Cut::End { layer.end() } else { layer.seek(cut.key()) };
        Merge::of(stack, false, seek)
    }

    /// The rows before `cut`, descending.
    pub(crate) fn before(stack: &Stack<'a, L>, cut: Cut<'_>) -> Result<Self, L::Fault> {
        let seek = |layer: &L| {
            let mut walk = match cut.key() {
                Some(key) => layer.seek(Some(key))?,
                None if cut == Cut::Start => layer.seek(None)?,
                None => layer.end()?,
            };
            walk.prev()?;
            Ok(walk)
        };
        Merge::of(stack, true, seek)
    }

    /// Walks from where `seek` finds each layer's place.
    fn of(
        stack: &Stack<'a, L>,
        reverse: bool,
        seek: impl Fn(&L) -> Result<L::Walk, L::Fault>,
    ) -> Result<Self, L::Fault> {
        let mut arms = SmallVec::new();
        ask_all(stack.layers().iter().map(seek), |walk| arms.push(Arm::new(walk)))?;
        Ok(Merge { arms, reverse, dead: 0, dead_max: u32::MAX, lifetime: std::marker::PhantomData })
    }

    /// Lets [`Merge::next_within`] stop after so many removed rows.
    pub(crate) fn stopping_after(self, dead_max: u32) -> Self {
        Merge { dead_max, ..self }
    }

    /// After how many removed rows in a row it stops.
    pub(crate) fn dead_max(&self) -> u32 {
        self.dead_max
    }

    /// Whether it descends.
    pub(super) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Whether it stopped so.
    pub(crate) fn has_stopped(&self) -> bool {
        self.dead >= self.dead_max
    }

    /// Notes a row. Returns whether to stop.
    #[inline(always)]
    fn pass(&mut self, is_live: bool) -> bool {
        self.dead = if is_live { 0 } else { self.dead + 1 };
        is_live || self.has_stopped()
    }

    /// The next live row, if its key is `inside`: replaces `key`, and returns the value. `None` at the end, and at the
    /// first key that is not inside, whether live or dead, without reading its value; and where it
    /// [has stopped](Merge::has_stopped), after the removed row whose key is `key` then.
    #[inline]
    pub(crate) fn next_within(
        &mut self,
        key: &mut KeyBuffer,
        inside: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<&'a [u8]>, L::Fault> {
        if self.arms.len() == 1 {
            // One layer: no comparison.
            loop {
                let arm = &mut self.arms[0];
                arm.step(self.reverse)?;
                if !arm.walk.valid() {
                    return Ok(None);
                }
                key.clear();
                arm.walk.key_into(key);
                if !inside(key) {
                    return Ok(None);
                }
                let value = arm.walk.value()?;
                arm.is_told = true;
                if self.pass(value.is_some()) {
                    return Ok(value);
                }
            }
        }
        self.next_of_many(key, inside)
    }

    fn next_of_many(
        &mut self,
        key: &mut KeyBuffer,
        inside: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<&'a [u8]>, L::Fault> {
        loop {
            let Some(nearest) = self.nearest()?.filter(|&nearest| inside(&self.arms[nearest].key)) else {
                return Ok(None);
            };
            let value = self.arms[nearest].walk.value()?;
            self.tell(nearest, key);
            if self.pass(value.is_some()) {
                return Ok(value);
            }
        }
    }

    /// The next entry, if its key is `inside`: the sum of the entries of all layers at its key, including tombstones.
    /// Its key replaces `key`; `None` at the end, and at the first key that is not inside. Skips keys that these layers
    /// both insert and remove.
    pub(crate) fn next_entry(
        &mut self,
        key: &mut KeyBuffer,
        inside: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Merged<'a>>, L::Fault> {
        loop {
            let Some(nearest) = self.nearest()?.filter(|&nearest| inside(&self.arms[nearest].key)) else {
                return Ok(None);
            };
            let newest = &self.arms[nearest];
            let value = newest.walk.value()?;
            let at_key = self.arms[nearest..].iter().filter(|arm| arm.walk.valid() && arm.key == newest.key);
            let weight = at_key.map(|arm| arm.walk.weight(&arm.key)).sum();
            self.tell(nearest, key);
            if value.is_some() || weight != Tally::ZERO {
                return Ok(Some(Merged { value, weight }));
            }
        }
    }

    /// Skips `rows` live rows, which must exist. Reads no value that is stored apart from its key.
    pub(crate) fn skip(&mut self, rows: u64) -> Result<(), L::Fault> {
        let mut key = KeyBuffer::new();
        let mut left = rows;
        while left > 0 {
            let Some(nearest) = self.nearest()? else { return Ok(()) };
            left -= u64::from(self.arms[nearest].walk.is_live());
            self.tell(nearest, &mut key);
        }
        Ok(())
    }

    /// The first of the arms at the nearest key; `None` at the end. Layers are newest first, so among equal keys the
    /// first arm decides.
    #[inline(always)]
    fn nearest(&mut self) -> Result<Option<usize>, L::Fault> {
        let told = self.arms.iter_mut().filter(|arm| arm.is_told);
        ask_all(told.map(|arm| arm.step(self.reverse).map(|()| arm.load())), |()| ())?;
        let mut nearest: Option<usize> = None;
        for (number, arm) in self.arms.iter().enumerate() {
            if !arm.walk.valid() {
                continue;
            }
            let nearer = nearest.is_none_or(|nearest| {
                let other = &self.arms[nearest].key;
                if self.reverse { arm.key > *other } else { arm.key < *other }
            });
            if nearer {
                nearest = Some(number);
            }
        }
        Ok(nearest)
    }

    /// Returns the key of an arm. All arms at that key move on when the next one is requested.
    #[inline(always)]
    fn tell(&mut self, number: usize, key: &mut KeyBuffer) {
        key.clear();
        key.extend_from_slice(&self.arms[number].key);
        for arm in &mut self.arms {
            arm.is_told = arm.walk.valid() && arm.key == *key;
        }
    }
}

impl<'a, L: Layer<'a>> Arm<'a, L> {
    fn new(walk: L::Walk) -> Self {
        let mut arm = Arm { walk, key: KeyBuffer::new(), is_told: false };
        arm.load();
        arm
    }

    /// Moves on if the entry here has been returned.
    #[inline(always)]
    fn step(&mut self, reverse: bool) -> Result<(), L::Fault> {
        if self.is_told {
            if reverse {
                self.walk.prev()?
            } else {
                self.walk.next()?
            }
            self.is_told = false;
        }
        Ok(())
    }

    fn load(&mut self) {
        self.key.clear();
        if self.walk.valid() {
            self.walk.key_into(&mut self.key);
        }
    }
}
