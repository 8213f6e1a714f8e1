//! Reads one version of a counted tree: descents for keys, ranks and offsets.

use super::arena::{Arena, NO_PAGE, PageId};
use super::batch;
use super::walk::Walk;
use crate::page::{Blob, HEADER_BYTES, KeyBuffer, PageRef, Record, padded};
use crate::tally::{Measures, Tally};

/// Levels that a tree of 32-bit page ids can have.
pub(crate) const HEIGHT_MAX: usize = 32;

/// Cache lines of a page to fetch as soon as its id is known, if its size is unknown: a binary search over the heads
/// then waits for one miss instead of four that depend on each other.
pub(super) const PREFETCH_LINES: usize = 24;

/// Bytes of each entry of a leaf in its two arrays.
pub(super) const HEAD_BYTES: usize = 4;
const SLOT_BYTES: usize = 2;

/// One version of a tree, to read. Its holder keeps that version from changing: by a latch, or by a registered
/// snapshot.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) arena: &'a Arena,
    pub(super) root: PageId,
    pub(super) height: usize,
    pub(super) measures: Measures,
    pub(super) bottom: bool,
    pub(super) total: Tally,
    pub(super) entries: u64,
    pub(super) blob_bytes: u64,
}

/// An entry of a layer: a value, or a tombstone.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) record: Record<'a>,
}

impl<'a> Found<'a> {
    /// The value, or `None` for a tombstone.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        if self.record.is_tombstone() {
            return None;
        }
        Some(value_of(&self.record))
    }
}

/// The leaf that a key belongs to.
pub(crate) struct Aimed<'a> {
    leaf: PageRef<'a>,
}

impl<'a> Aimed<'a> {
    /// The entry of `key`, the key that was aimed at.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Found<'a>> {
        let (position, found) = self.leaf.search::<true>(key);
        found.then(|| Found { record: self.leaf.leaf_record(position) })
    }
}

/// The value of a record, wherever it lies.
#[inline(always)]
pub(crate) fn value_of<'a>(record: &Record<'a>) -> &'a [u8] {
    if record.value_is_out() { out_value(record) } else { record.value }
}

#[cold]
fn out_value<'a>(record: &Record<'a>) -> &'a [u8] {
    // SAFETY: a record in memory that says its value is out of line holds the handle of a blob that lives as long as
    // the page's content.
    unsafe { Blob::from_handle(blob_handle(record)).bytes() }
}

pub(super) fn blob_handle(record: &Record<'_>) -> u64 {
    u64::from_le_bytes(record.value.try_into().expect("a handle has eight bytes"))
}

/// Which entries are before a bound: those below the key, or also the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Entries with smaller keys.
    Below,
    /// Entries with smaller keys or this one.
    Through,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn page(&self, id: PageId) -> PageRef<'a> {
        // SAFETY: every page reachable from the root of a version is initialised and unchanged while the version is
        // held, see `View`.
        unsafe { self.arena.page(id) }
    }

    /// Estimates where the arrays of a leaf begin from the inner page above it: a leaf's prefix is that of the page
    /// above, and mostly a byte or two more.
    #[inline(always)]
    fn leaf_arrays(above: &PageRef<'_>) -> usize {
        HEADER_BYTES + padded(above.prefix_len() + 1)
    }

    /// How many lines of a leaf to fetch for its header and `each` bytes of every entry, by the page above it.
    #[inline(always)]
    pub(super) fn leaf_lines(&self, above: &PageRef<'_>, position: usize, each: usize) -> usize {
        if !self.bottom || above.measures() == 0 {
            return PREFETCH_LINES;
        }
        // In a bottom layer every entry is a row.
        let entries = above.tallies(0)[position] as usize;
        ((Self::leaf_arrays(above) + each * entries) / 64 + 1).min(PREFETCH_LINES)
    }

    /// Fetches what locates entry `entry` of a leaf, at `position` of the inner page `above` it: header, head and slot.
    #[inline(always)]
    pub(super) fn prefetch_entry(&self, above: &PageRef<'_>, position: usize, leaf: PageId, entry: usize) {
        let start = self.arena.address(leaf);
        let heads = Self::leaf_arrays(above);
        let slots = heads + HEAD_BYTES * above.tallies(0)[position] as usize;
        for at in [0, heads + HEAD_BYTES * entry, slots + SLOT_BYTES * entry] {
            PageRef::prefetch_at(start.wrapping_add(at), 1);
        }
    }

    /// The child at `position` of `page`, which is `level` levels above the leaves. Starts to fetch what a search of it
    /// reads.
    #[inline(always)]
    fn fetch_child(&self, page: &PageRef<'a>, position: usize, level: usize) -> PageRef<'a> {
        let child = self.page(page.child(position));
        if level == 1 {
            PageRef::prefetch_at(child.start(), self.leaf_lines(page, position, HEAD_BYTES + SLOT_BYTES));
        } else {
            child.prefetch_heads();
        }
        child
    }

    /// The tally of all entries.
    pub(crate) fn total(&self) -> Tally {
        self.total
    }

    /// The number of entries, including tombstones.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether nothing lies below this layer, so that every entry is live.
    pub(crate) fn is_bottom(&self) -> bool {
        self.bottom
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.arena.page_bytes()
    }

    /// An upper estimate of the bytes of memory that it takes.
    pub(crate) fn bytes_estimate(&self) -> u64 {
        self.page_bytes_estimate() + self.blob_bytes
    }

    /// An upper estimate of the bytes of the pages: that of the leaves follows from the fan-out of the levels above,
    /// without reading them.
    pub(crate) fn page_bytes_estimate(&self) -> u64 {
        if self.root == NO_PAGE {
            return 0;
        }
        let mut pages = 1u64;
        let mut page = self.page(self.root);
        for _ in 1..self.height {
            pages = pages.saturating_mul(page.count() as u64);
            page = self.page(page.child(page.count() / 2));
        }
        pages.min(self.entries.max(1)) * self.arena.page_bytes() as u64
    }

    #[cfg(test)]
    pub(crate) fn measures(&self) -> &Measures {
        &self.measures
    }

    /// The leaf that `key` belongs to.
    #[inline(always)]
    fn leaf_of(&self, key: &[u8]) -> PageRef<'a> {
        let mut page = self.page(self.root);
        for level in (1..self.height).rev() {
            let position = page.child_position(key);
            page = self.fetch_child(&page, position, level);
        }
        page
    }

    /// The entry of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Found<'a>> {
        self.aim(key)?.get(key)
    }

    /// The first half of [`View::get`]: finds the leaf of `key` and starts to fetch it, which takes some 100 ns that
    /// the caller may use. `None` if the tree is empty.
    #[inline]
    pub(crate) fn aim(&self, key: &[u8]) -> Option<Aimed<'a>> {
        (self.root != NO_PAGE).then(|| Aimed { leaf: self.leaf_of(key) })
    }

    /// Whether the leaf of `key` is the same page here as in `other`, another version of this tree: then nothing was
    /// written there between the two. Pages that are compared are all that is read.
    pub(crate) fn shares_leaf_of(&self, other: &View<'a>, key: &[u8]) -> bool {
        let (mut id, mut other_id) = (self.root, other.root);
        if self.height != other.height {
            return false;
        }
        for _ in 1..self.height {
            if id == other_id {
                return true;
            }
            let (page, other_page) = (self.page(id), self.page(other_id));
            id = page.child(page.child_position(key));
            other_id = other_page.child(other_page.child_position(key));
        }
        id == other_id
    }

    /// The last key, if there is one.
    pub(crate) fn last_key(&self) -> Option<KeyBuffer> {
        let walk = super::Walk::last(*self);
        walk.valid().then(|| walk.key())
    }

    /// The weight of one entry.
    pub(crate) fn weight_of(&self, key: &[u8], record: &Record<'_>) -> Tally {
        if self.bottom { self.measures.of_row(key, value_of(record)) } else { record.explicit_weight(&self.measures) }
    }

    /// Rows of the entries of `leaf` before `position`.
    #[inline]
    pub(super) fn leaf_rows_before(&self, leaf: &PageRef<'_>, position: usize) -> i64 {
        if self.bottom {
            return position as i64;
        }
        (0..position).map(|position| leaf.leaf_record(position).rows()).sum()
    }

    /// The tally of the entries of `leaf` in `from..to`.
    pub(super) fn leaf_tally(&self, leaf: &PageRef<'_>, from: usize, to: usize) -> Tally {
        if self.measures.only_rows() {
            let rows = self.leaf_rows_before(leaf, to) - self.leaf_rows_before(leaf, from);
            return Tally { rows, ..Tally::ZERO };
        }
        let mut tally = Tally::ZERO;
        let mut key = KeyBuffer::new();
        for position in from..to {
            let record = leaf.leaf_record(position);
            if self.bottom {
                key.clear();
                leaf.record_key_into(&record, position, &mut key);
                tally += self.measures.of_row(&key, value_of(&record));
            } else {
                tally += record.explicit_weight(&self.measures);
            }
        }
        tally
    }

    /// Rows of all entries before `key`.
    #[inline]
    pub(crate) fn rows_before(&self, key: &[u8], side: Side) -> i64 {
        if self.root == NO_PAGE {
            return 0;
        }
        let mut rows = 0i64;
        let mut below = self.total.rows;
        let mut page = self.page(self.root);
        for level in (1..self.height).rev() {
            let position = page.child_position(key);
            let child = self.fetch_child(&page, position, level);
            rows = rows.wrapping_add(page.rows_before(position, below));
            below = page.tallies(0)[position];
            page = child;
        }
        let (position, found) = page.search::<true>(key);
        let position = position + usize::from(found && side == Side::Through);
        rows + self.leaf_rows_before(&page, position)
    }

    /// Rows of all entries between two cuts, the first not after the second. Takes about as long as one `rows_before`:
    /// the descents are interleaved.
    #[inline]
    pub(crate) fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> i64 {
        if self.root == NO_PAGE { 0 } else { batch::rows_between(self, [start, end]) }
    }

    /// The tally of all entries before `key`: `prefix` in the design. Reads one page of each level.
    pub(crate) fn tally_before(&self, key: &[u8], side: Side) -> Tally {
        if self.measures.only_rows() {
            return Tally { rows: self.rows_before(key, side), ..Tally::ZERO };
        }
        if self.root == NO_PAGE {
            return Tally::ZERO;
        }
        let mut tally = Tally::ZERO;
        let mut page = self.page(self.root);
        for _ in 1..self.height {
            let position = page.child_position(key);
            let child = page.child(position);
            PageRef::prefetch_at(self.arena.address(child), PREFETCH_LINES);
            tally += page.tally_before(position, &self.measures);
            page = self.page(child);
        }
        let (position, found) = page.search::<true>(key);
        let position = position + usize::from(found && side == Side::Through);
        tally + self.leaf_tally(&page, 0, position)
    }

    /// Where entry number `offset` of a bottom layer stands. `offset` is below the rows of the tree.
    #[inline]
    pub(crate) fn nth(&self, offset: u64) -> Walk<'a> {
        debug_assert!(self.bottom && offset < self.entries);
        let mut walk = Walk::new(*self);
        let mut left = offset as i64;
        let mut id = self.root;
        for level in 0..self.height - 1 {
            let page = self.page(id);
            let (position, rows) = child_at_offset(page.tallies(0), left);
            left -= rows;
            walk.steps[level] = Step::new(id, position);
            id = page.child(position);
            if level + 2 == self.height {
                self.prefetch_entry(&page, position, id, left as usize);
            }
        }
        walk.steps[self.height - 1] = Step::new(id, left as usize);
        walk.valid = true;
        walk
    }

    /// A key strictly between `low` and `high` (where given) with about as many entries on either side, and about how
    /// many entries that is; `None` if there is no entry in between.
    pub(crate) fn pivot(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Option<(KeyBuffer, u64)> {
        let mut from = match low {
            None => Walk::first(*self),
            Some(key) => Walk::seek(*self, key, Side::Through),
        };
        let to = match high {
            None => Walk::end(*self),
            Some(key) => Walk::seek(*self, key, Side::Below),
        };
        if !from.valid || (to.valid && !from.is_before(&to)) {
            return None;
        }
        // The first level at which the two paths diverge, and the distance there: in entries on the leaf level, in
        // subtrees above it.
        for level in 0..self.height {
            let start = from.steps[level];
            let page = self.page(start.page);
            let end = if to.valid && to.steps[level].page == start.page {
                to.steps[level].position as usize
            } else {
                page.count()
            };
            let distance = end - start.position as usize;
            let leaf = level + 1 == self.height;
            if distance >= 2 || leaf {
                let middle = start.position as usize + distance / 2;
                let weight = (self.height - 1 - level) as u32;
                let about = (distance as u64) << (6 * weight.min(9));
                if !leaf {
                    let key = page.key(middle);
                    // A separator is no entry, but it lies in between, and its rank can be asked all the same.
                    if low.is_none_or(|low| *key > *low) && high.is_none_or(|high| *key < *high) {
                        return Some((key, about));
                    }
                    continue;
                }
                if middle >= page.count() {
                    return Some((from.key(), 1));
                }
                return Some((page.key(middle), about.max(1)));
            }
            if to.valid && to.steps[level].page == start.page && to.steps[level].position == start.position {
                continue;
            }
            if distance == 1 && to.valid && to.steps[level].page == start.page {
                // Neighbouring subtrees: the border between them, if the range includes something of the left one.
                let key = page.key(start.position as usize + 1);
                if low.is_none_or(|low| *key > *low) && high.is_none_or(|high| *key < *high) {
                    return Some((key, 2 << (6 * (self.height - 1 - level).min(9))));
                }
            }
        }
        from.leave_ended_leaf();
        Some((from.key(), 1))
    }
}

/// The child that holds row number `offset` of the page, and the rows of the children before it.
#[inline(always)]
pub(super) fn child_at_offset(rows: &[i64], offset: i64) -> (usize, i64) {
    let mut before = 0i64;
    let last = rows.len() - 1;
    let mut position = 0;
    // Eight at a time: sums of chunks have no dependency on the comparison inside them.
    while position + 8 <= last {
        let chunk: i64 = rows[position..position + 8].iter().sum();
        if before + chunk > offset {
            break;
        }
        before += chunk;
        position += 8;
    }
    while position < last && before + rows[position] <= offset {
        before += rows[position];
        position += 1;
    }
    (position, before)
}

/// One level of a descent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) page: PageId,
    pub(crate) position: u16,
    /// In an inner page on the path of a write: where in the page the rows of the child stand.
    pub(super) rows_at: u16,
}

impl Step {
    #[inline(always)]
    pub(super) fn new(page: PageId, position: usize) -> Self {
        // A page has at most 32 KiB, and an entry at least six bytes.
        Step { page, position: position as u16, rows_at: 0 }
    }
}
