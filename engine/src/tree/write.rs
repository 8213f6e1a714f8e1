//! Writing single entries: descend, change the leaf, add the weight to every level above.

use super::{Blob, NO_PAGE, NO_STRUCTURE, Path, Retired, Step, Tail, Thing, Tree, Walk, view};
use crate::error::Result;
use crate::page::{KIND_LEAF, KeyBuffer, NewRecord, PageFull, PageRef, common_prefix_len, record};
use crate::tally::Tally;
use smallvec::SmallVec;

/// Which keys a write may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Any.
    Always,
    /// Only a key that is not in the tree.
    Absent,
    /// Only a key that is in the tree.
    Present,
}

impl When {
    /// Whether this allows a write of a key, given whether that exists.
    #[inline(always)]
    pub(crate) fn allows(self, is_there: bool) -> bool {
        match self {
            When::Always => true,
            When::Absent => !is_there,
            When::Present => is_there,
        }
    }
}

/// What a layer over others already has at a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Existing {
    /// Whether the entry is a value and no tombstone.
    pub(crate) live: bool,
    /// What the layers below contribute at the key, according to the entry's weight.
    pub(crate) below: Tally,
}

/// What a write did to a bottom tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The key was absent and is now present.
    Inserted,
    /// The key was present and has a new value.
    Replaced,
    /// The key was present and is gone.
    Removed,
    /// Nothing, as `When` demanded or because the key to remove was absent.
    Nothing,
}

/// The explicit weights of a record, as bytes.
pub(super) type WeightBytes = SmallVec<[u8; 24]>;

impl Tree {
    /// Puts `value` at `key` of a bottom tree, if `when` allows. Returns what happened and how the tally changed.
    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], when: When) -> Result<(Written, Tally)> {
        debug_assert!(self.bottom);
        let mut place = self.locate(key)?;
        if when.allows(place.found) { self.put_at(&mut place, key, value) } else { Ok((Written::Nothing, Tally::ZERO)) }
    }

    /// Removes `key` from a bottom tree. Returns whether it existed, and how the tally changed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(Written, Tally)> {
        debug_assert!(self.bottom);
        if self.root == NO_PAGE {
            return Ok((Written::Nothing, Tally::ZERO));
        }
        let mut place = self.locate(key)?;
        if !place.found {
            return Ok((Written::Nothing, Tally::ZERO));
        }
        Ok((Written::Removed, self.remove_at(&mut place, key)?))
    }

    /// Writes an entry of a layer above others: `None` is a tombstone. `below` gets what the layer has at the key, and
    /// returns what the layers below contribute there (zero if the key is dead there), or `None` to change nothing. The
    /// weight of the entry is that of its row, minus that contribution. Returns how the tally of the layer changed, or
    /// `None` if nothing did.
    #[inline]
    pub(crate) fn write_over(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        below: impl FnOnce(Option<Existing>) -> Option<Tally>,
    ) -> Result<Option<Tally>> {
        debug_assert!(!self.bottom);
        self.ensure_root()?;
        let mut path = Path::new();
        let (position, found) = self.descend_to_tail(key, &mut path).unwrap_or_else(|| self.descend(key, &mut path));
        let (mut old, mut existing) = (Tally::ZERO, None);
        if found {
            let record = self.leaf(&path).leaf_record(position);
            old = record.explicit_weight(&self.measures);
            let live = !record.is_tombstone();
            let row = if live { self.measures.of_row(key, view::value_of(&record)) } else { Tally::ZERO };
            existing = Some(Existing { live, below: row - old });
        }
        let Some(below) = below(existing) else { return Ok(None) };
        let weight = value.map_or(Tally::ZERO, |value| self.measures.of_row(key, value)) - below;
        let change = weight - old;
        debug_assert!((-1..=1).contains(&weight.rows), "a weight is -1, 0 or 1 rows");
        let state = match (value, weight.rows) {
            (Some(_), 1) => record::FRESH,
            (Some(_), _) => record::OVER,
            (None, -1) => record::TOMBSTONE,
            // Dead here and dead below: nothing to say.
            (None, _) => {
                if found {
                    self.erase_at(&mut path, position, key, change)?;
                }
                return Ok(Some(change));
            }
        };
        let weights = self.weight_bytes_of(&weight);
        if found {
            self.replace_at(&mut path, position, key, state, &weights, value, change)?;
        } else {
            self.insert_at(&mut path, position, key, state, &weights, value.unwrap_or(&[]), change)?;
            self.note_tail(&path);
        }
        Ok(Some(change))
    }

    /// Whether a write of `key` goes after the last key, as the one before did. If not, that may still be so.
    #[inline]
    pub(crate) fn goes_on_at_tail(&self, key: &[u8]) -> bool {
        let Tail { path, structure } = &self.tail;
        // Copying for a snapshot moves pages without changing their structure.
        *structure == self.structure && self.protected == 0 && self.leaf(path).is_behind_last(key)
    }

    /// Takes the way to the last leaf if the key belongs after its last entry, and this is known without a descent.
    #[inline(always)]
    fn descend_to_tail(&mut self, key: &[u8], path: &mut Path) -> Option<(usize, bool)> {
        if !self.goes_on_at_tail(key) {
            self.tail.structure = NO_STRUCTURE;
            return None;
        }
        path.steps[..self.height].copy_from_slice(&self.tail.path.steps[..self.height]);
        let position = self.leaf(path).count();
        path.steps[self.height - 1].position = position as u16;
        Some((position, false))
    }

    /// Remembers the path of an insertion if it went after the last key.
    #[inline(always)]
    fn note_tail(&mut self, path: &Path) {
        if self.tail.structure == self.structure {
            return;
        }
        let is_last = |step: &Step| self.page(step.page).count() == step.position as usize + 1;
        if path.steps[..self.height].iter().rev().all(is_last) {
            self.tail.path.steps[..self.height].copy_from_slice(&path.steps[..self.height]);
            self.tail.structure = self.structure;
        }
    }

    /// Sets what the layers below contribute at `key`, of which this layer has an entry, to `below`, whatever was
    /// assumed when the entry was written. Removes a tombstone over nothing.
    pub(crate) fn reweigh(&mut self, key: &[u8], below: Tally) -> Result<()> {
        debug_assert!(!self.bottom && self.root != NO_PAGE);
        let mut path = Path::new();
        let (position, found) = self.descend(key, &mut path);
        debug_assert!(found, "the entry was written before");
        let record = self.leaf(&path).leaf_record(position);
        let is_live = !record.is_tombstone();
        let row = if is_live { self.measures.of_row(key, view::value_of(&record)) } else { Tally::ZERO };
        let weight = row - below;
        let change = weight - record.explicit_weight(&self.measures);
        if change == Tally::ZERO {
            return Ok(());
        }
        let state = match (is_live, weight.rows) {
            (true, 1) => record::FRESH,
            (true, _) => record::OVER,
            (false, -1) => record::TOMBSTONE,
            (false, _) => return self.erase_at(&mut path, position, key, change),
        };
        self.own(&mut path, self.height)?;
        let old = self.leaf(&path).leaf_record(position);
        // The record is rewritten in place: its length stays.
        let value: SmallVec<[u8; 128]> = SmallVec::from_slice(old.value);
        let weights = self.weight_bytes_of(&weight);
        let flags = state | old.flags & (record::KEY_OUT | record::VALUE_OUT);
        let mut new = NewRecord { flags, key, key_handle: 0, weights: &weights, value: &value };
        if old.key_is_out() {
            new.key_handle = u64::from_le_bytes(old.tail.try_into().expect("a handle has eight bytes"));
        }
        let replaced = self.page_mut(path.steps[self.height - 1].page).replace_leaf(position, &new);
        debug_assert_eq!(replaced, Ok(()));
        self.add_to_path(&path, change);
        Ok(())
    }

    fn weight_bytes_of(&self, weight: &Tally) -> WeightBytes {
        let mut bytes = WeightBytes::new();
        for index in 1..self.measures.len() {
            bytes.extend_from_slice(&weight.measure(&self.measures, index).to_le_bytes());
        }
        bytes
    }

    pub(super) fn ensure_root(&mut self) -> Result<()> {
        if self.root == NO_PAGE {
            self.check_room()?;
            self.root = self.new_page(KIND_LEAF, 0);
            self.height = 1;
        }
        Ok(())
    }

    /// Descends to the leaf that `key` belongs to, and finds it there.
    #[inline(always)]
    pub(super) fn descend(&self, key: &[u8], path: &mut Path) -> (usize, bool) {
        self.descend_to_leaf(key, path);
        self.find_in_leaf(key, path)
    }

    /// Finds `key` in the leaf of a path.
    #[inline(always)]
    pub(super) fn find_in_leaf(&self, key: &[u8], path: &mut Path) -> (usize, bool) {
        let leaf = self.leaf(path);
        leaf.prefetch_hole();
        let (position, found) = leaf.search::<true>(key);
        path.steps[self.height - 1].position = position as u16;
        (position, found)
    }

    /// Descends to the leaf that `key` belongs to, and starts to fetch it into the cache.
    #[inline(always)]
    pub(super) fn descend_to_leaf(&self, key: &[u8], path: &mut Path) {
        let mut id = self.root;
        for level in 0..self.height - 1 {
            let page = self.page(id);
            let position = page.child_position(key);
            path.steps[level] = Step { page: id, position: position as u16, rows_at: page.rows_at(position) };
            id = page.child(position);
            if level + 2 == self.height {
                PageRef::prefetch_at(self.arena.address(id), view::PREFETCH_LINES);
            }
        }
        path.steps[self.height - 1] = Step::new(id, 0);
    }

    #[inline(always)]
    pub(super) fn leaf<'p>(&self, path: &Path) -> PageRef<'p> {
        self.page(path.steps[self.height - 1].page)
    }

    /// Copies pages of the path that a snapshot can see, down to `levels`, so that they may be changed.
    #[inline(always)]
    pub(super) fn own(&mut self, path: &mut Path, levels: usize) -> Result<()> {
        if self.protected == 0 {
            return Ok(());
        }
        self.own_copying(path, levels)
    }

    #[inline(never)]
    fn own_copying(&mut self, path: &mut Path, levels: usize) -> Result<()> {
        self.check_room()?;
        self.tail.structure = NO_STRUCTURE;
        for level in 0..levels {
            let old = path.steps[level].page;
            let birth = self.page(old).epoch();
            if birth > self.protected {
                continue;
            }
            let new = self.arena.allocate();
            // SAFETY: two different pages of the arena, no other pointer to the new one is known.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.arena.address(old),
                    self.arena.address(new),
                    self.arena.page_bytes(),
                );
            }
            self.page_mut(new).set_epoch(self.epoch);
            self.retired.push(Retired { what: Thing::Page(old), birth, death: self.epoch });
            path.steps[level].page = new;
            if level == 0 {
                self.root = new;
            } else {
                let parent = path.steps[level - 1];
                self.page_mut(parent.page).set_child(parent.position as usize, new);
            }
        }
        Ok(())
    }

    /// Adds `change` to every level of the path above the leaf, and to the total.
    #[inline(always)]
    pub(super) fn add_to_path(&mut self, path: &Path, change: Tally) {
        if self.rows_only {
            self.total.rows += change.rows;
            if change.rows != 0 {
                for level in 0..self.height - 1 {
                    // SAFETY: a path has HEIGHT_MAX steps, and the tree's height is no more.
                    let step = unsafe { path.steps.get_unchecked(level) };
                    debug_assert_eq!(step.rows_at, self.page(step.page).rows_at(step.position as usize));
                    // SAFETY: `descend` found the child's rows there, and nothing has moved them since; the page is
                    // owned.
                    unsafe { self.arena.add_at(step.page, step.rows_at as usize, change.rows) };
                }
            }
            return;
        }
        self.total += change;
        if !self.counted {
            return;
        }
        for index in 0..self.measures.len() {
            let amount = change.measure(&self.measures, index);
            if amount != 0 {
                for step in &path.steps[..self.height - 1] {
                    self.page_mut(step.page).add_tally(index, step.position as usize, amount);
                }
            }
        }
    }

    /// Inserts at the place that `descend` found.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "an entry taken apart, on the hottest path")]
    pub(super) fn insert_at(
        &mut self,
        path: &mut Path,
        mut position: usize,
        key: &[u8],
        state: u8,
        weights: &[u8],
        value: &[u8],
        change: Tally,
    ) -> Result<()> {
        let mut new = NewRecord { flags: state, key, key_handle: 0, weights, value };
        let value_handle;
        if key.len() > self.inline_key_max() {
            self.check_room()?;
            new.key_handle = self.new_blob(key)?.handle();
            new.flags |= record::KEY_OUT;
        }
        if value.len() > self.inline_value_max() {
            match self.check_room().and_then(|()| self.new_blob(value)) {
                Ok(blob) => value_handle = blob.handle().to_le_bytes(),
                Err(error) => {
                    self.abandon_key(&new);
                    return Err(error);
                }
            }
            new.value = &value_handle;
            new.flags |= record::VALUE_OUT;
            if let Err(error) = self.place_new(path, &mut position, &new) {
                self.abandon_key(&new);
                // SAFETY: made above, and no record names it.
                self.drop_blob(unsafe { Blob::from_handle(u64::from_le_bytes(value_handle)) });
                return Err(error);
            }
        } else if let Err(error) = self.place_new(path, &mut position, &new) {
            self.abandon_key(&new);
            return Err(error);
        }
        self.entries += 1;
        self.add_to_path(path, change);
        Ok(())
    }

    fn abandon_key(&mut self, new: &NewRecord<'_>) {
        if new.flags & record::KEY_OUT != 0 {
            // SAFETY: made by the caller, and no record names it.
            self.drop_blob(unsafe { Blob::from_handle(new.key_handle) });
        }
    }

    /// Finds room for a new record and puts it there. Afterwards `path` leads to it.
    #[inline(always)]
    fn place_new(&mut self, path: &mut Path, position: &mut usize, new: &NewRecord<'_>) -> Result<()> {
        self.own(path, self.height)?;
        let mut leaf = self.page_mut(path.steps[self.height - 1].page);
        if leaf.has_prefix_of(new.key) && leaf.insert_leaf(*position, new) == Ok(()) {
            return Ok(());
        }
        self.place_new_slowly(path, position, new)
    }

    #[inline(never)]
    fn place_new_slowly(&mut self, path: &mut Path, position: &mut usize, new: &NewRecord<'_>) -> Result<()> {
        for attempt in 1.. {
            // Making room may have changed the path: own it again (free where it is owned).
            self.check_room()?;
            self.own(path, self.height)?;
            let level = self.height - 1;
            let mut leaf = self.page_mut(path.steps[level].page);
            let shared = common_prefix_len(leaf.prefix(), new.key);
            if shared < leaf.prefix_len() && !self.shorten_prefix(path, level, shared) {
                self.make_room(path, level, attempt)?;
            } else {
                leaf = self.page_mut(path.steps[level].page);
                if leaf.insert_leaf(*position, new) == Ok(()) {
                    return Ok(());
                }
                self.make_room(path, level, attempt)?;
            }
            (*position, _) = self.descend(new.key, path);
        }
        unreachable!("a page of one entry has room for another")
    }

    /// Replaces the record at the place that `descend` found, by a value or a tombstone.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "an entry taken apart, on the hottest path")]
    pub(super) fn replace_at(
        &mut self,
        path: &mut Path,
        position: usize,
        key: &[u8],
        state: u8,
        weights: &[u8],
        value: Option<&[u8]>,
        change: Tally,
    ) -> Result<()> {
        self.own(path, self.height)?;
        let value = value.unwrap_or(&[]);
        let old = self.leaf(path).leaf_record(position);
        let mut new = NewRecord { flags: state | old.flags & record::KEY_OUT, key, key_handle: 0, weights, value };
        if old.key_is_out() {
            new.key_handle = u64::from_le_bytes(old.tail.try_into().expect("a handle has eight bytes"));
        }
        let value_handle;
        if value.len() > self.inline_value_max() {
            self.check_room()?;
            let blob = self.new_blob(value)?;
            value_handle = blob.handle().to_le_bytes();
            new.flags |= record::VALUE_OUT;
            new.value = &value_handle;
        }
        let old_blob = old.value_is_out().then(|| {
            // SAFETY: a record of the current version, in memory.
            unsafe { Blob::from_handle(view::blob_handle(&old)) }
        });
        let mut leaf = self.page_mut(path.steps[self.height - 1].page);
        if leaf.replace_leaf(position, &new).is_err()
            && let Err(error) = self.replace_slowly(path, position, &new)
        {
            if new.flags & record::VALUE_OUT != 0 {
                // SAFETY: made above, and no record names it.
                let blob = unsafe { Blob::from_handle(u64::from_le_bytes(new.value.try_into().expect("a handle"))) };
                self.drop_blob(blob);
            }
            return Err(error);
        }
        if let Some(blob) = old_blob {
            self.drop_blob(blob);
        }
        self.add_to_path(path, change);
        Ok(())
    }

    /// Replaces a record by one for which its page is too full: splits first. If that fails, readers see no change.
    #[inline(never)]
    fn replace_slowly(&mut self, path: &mut Path, mut position: usize, new: &NewRecord<'_>) -> Result<()> {
        for attempt in 1.. {
            self.check_room()?;
            self.own(path, self.height)?;
            let level = self.height - 1;
            if self.page_mut(path.steps[level].page).replace_leaf(position, new) != Err(PageFull) {
                return Ok(());
            }
            self.make_room(path, level, attempt)?;
            (position, _) = self.descend(new.key, path);
        }
        unreachable!("a page of one entry has room for another")
    }

    /// Removes the record at the place that `descend` found.
    pub(super) fn erase_at(&mut self, path: &mut Path, position: usize, key: &[u8], change: Tally) -> Result<()> {
        self.own(path, self.height)?;
        let leaf_id = path.steps[self.height - 1].page;
        let old = self.page(leaf_id).leaf_record(position);
        self.drop_record_blobs(&old);
        self.page_mut(leaf_id).remove_leaf(position);
        self.entries -= 1;
        self.add_to_path(path, change);
        self.rebalance_after_removal(path, key);
        Ok(())
    }

    /// Removes every entry from `low` (inclusive; from the start if `None`) to `high` (exclusive). Returns how the
    /// tally changed, and how many entries were removed. In a tree that is not the bottom, whatever lies below must
    /// lose the same range.
    pub(crate) fn remove_range(&mut self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<(Tally, u64)> {
        let (mut change, mut removed) = (Tally::ZERO, 0);
        if low.is_none() && high.is_none() {
            let before = (-self.total, self.entries);
            self.clear();
            return Ok(before);
        }
        let mut from = KeyBuffer::from_slice(low.unwrap_or(&[]));
        while self.root != NO_PAGE {
            let mut path = Path::new();
            let (start, _) = self.descend(&from, &mut path);
            let leaf = self.leaf(&path);
            let end = high.map_or(leaf.count(), |high| {
                let (position, _) = leaf.search::<true>(high);
                position
            });
            if start >= end {
                // Nothing of the range is in this leaf: the next entry decides.
                let walk = Walk::seek(self.view(), &from, view::Side::Below);
                if !walk.valid() || high.is_some_and(|high| *walk.key() >= *high) {
                    break;
                }
                from = walk.key();
                continue;
            }
            let last = end == leaf.count();
            let through = leaf.key(end - 1);
            let weight = -self.view().leaf_tally(&leaf, start, end);
            self.own(&mut path, self.height)?;
            let id = path.steps[self.height - 1].page;
            for position in (start..end).rev() {
                let old = self.page(id).leaf_record(position);
                self.drop_record_blobs(&old);
                self.page_mut(id).remove_leaf(position);
            }
            self.entries -= (end - start) as u64;
            removed += (end - start) as u64;
            change += weight;
            self.add_to_path(&path, weight);
            self.rebalance_after_removal(&path, &through);
            if !last {
                break;
            }
            from = through;
        }
        Ok((change, removed))
    }
}

impl Path {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Path { steps: [Step::default(); super::HEIGHT_MAX] }
    }
}
