//! Changes a page in place: insert, remove, replace, compact.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{
    HEADER_BYTES, HOLE_BYTES_MIN, KIND_INNER, KIND_LEAF, PAGE_BYTES_MAX, PREFIX_MAX, PageRef, array_bytes, field, flag,
    head_of, padded, record,
};

/// Item sizes of the arrays of a leaf: head, slot.
const LEAF_SIZES: [usize; 2] = [4, 2];

/// A page to change.
pub(crate) struct PageMut<'a> {
    page: PageRef<'a>,
    start: *mut u8,
    page_bytes: usize,
}

/// The page has no room for the record: split it, or move entries to a sibling.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageFull;

/// A record to write.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'r> {
    /// State, `KEY_OUT` and `VALUE_OUT`; the width bits are set while writing.
    pub(crate) flags: u8,
    /// The whole key, even if it is out of line.
    pub(crate) key: &'r [u8],
    /// The handle of an out-of-line key.
    pub(crate) key_handle: u64,
    /// Explicit weights, as many bytes as the page's records have.
    pub(crate) weights: &'r [u8],
    /// The value or its handle; empty in an inner page.
    pub(crate) value: &'r [u8],
}

impl NewRecord<'_> {
    /// Bytes of the record in a page of this kind whose prefix has `prefix_len` bytes.
    #[inline(always)]
    pub(crate) fn len(&self, kind: u8, prefix_len: usize) -> usize {
        let value_len = if kind == KIND_LEAF { 1 + usize::from(self.value.len() > 255) } else { 0 };
        let rest_len = self.key.len() - prefix_len;
        let key_bytes = if self.flags & record::KEY_OUT != 0 {
            record::HANDLE_BYTES
        } else {
            1 + usize::from(rest_len > 255) + rest_len.saturating_sub(4)
        };
        1 + key_bytes + value_len + self.weights.len() + self.value.len()
    }
}

impl<'a> std::ops::Deref for PageMut<'a> {
    type Target = PageRef<'a>;
    #[inline(always)]
    fn deref(&self) -> &PageRef<'a> {
        &self.page
    }
}

impl<'a> PageMut<'a> {
    /// A page of `page_bytes` at `start`.
    ///
    /// # Safety
    /// As for [`PageRef::new`], for writing, and no other code reads or writes the page while `'a` lasts. Before
    /// [`PageMut::init`] the content may be anything, and nothing but `init` may be called.
    #[inline(always)]
    pub(crate) unsafe fn new(start: *mut u8, page_bytes: usize) -> Self {
        // SAFETY: promised by the caller.
        PageMut { page: unsafe { PageRef::new(start) }, start, page_bytes }
    }

    #[inline(always)]
    fn set_byte(&mut self, at: usize, value: u8) {
        debug_assert!(at < HEADER_BYTES);
        // SAFETY: in the header.
        unsafe { *self.start.add(at) = value }
    }

    #[inline(always)]
    fn set_short(&mut self, at: usize, value: usize) {
        debug_assert!(at < HEADER_BYTES && value <= usize::from(u16::MAX));
        // SAFETY: in the header, at an even offset.
        unsafe { self.start.add(at).cast::<u16>().write((value as u16).to_le()) }
    }

    /// Makes this an empty page.
    pub(crate) fn init(&mut self, kind: u8, level: usize, measures: usize, weight_bytes: usize, epoch: u64) {
        // SAFETY: the header lies in the page.
        unsafe { std::ptr::write_bytes(self.start, 0, HEADER_BYTES) };
        self.set_byte(field::KIND, kind);
        self.set_byte(field::LEVEL, level as u8);
        self.set_byte(field::MEASURES, measures as u8);
        self.set_byte(field::WEIGHT_BYTES, weight_bytes as u8);
        self.set_short(field::HEAP_START, self.page_bytes);
        self.set_epoch(epoch);
    }

    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        // SAFETY: in the header, at a multiple of eight.
        unsafe { self.start.add(field::EPOCH).cast::<u64>().write(epoch.to_le()) }
    }

    /// Stores the size of the page in it, as pages in files do.
    pub(crate) fn set_stored_page_bytes(&mut self) {
        self.set_short(field::PAGE_BYTES, self.page_bytes);
    }

    pub(crate) fn set_flags(&mut self, flags: u8) {
        self.set_byte(field::FLAGS, flags);
    }

    pub(crate) fn set_count(&mut self, count: usize) {
        self.set_short(field::COUNT, count);
    }

    /// Sets the prefix of an empty page.
    pub(crate) fn set_prefix(&mut self, prefix: &[u8]) {
        assert!(
            self.count() == 0 && prefix.len() <= PREFIX_MAX && self.page_bytes >= HEADER_BYTES + padded(prefix.len())
        );
        self.set_short(field::PREFIX_LEN, prefix.len());
        // SAFETY: the page holds the padded prefix, checked above.
        unsafe {
            let at = self.start.add(HEADER_BYTES);
            std::ptr::write_bytes(at, 0, padded(prefix.len()));
            std::ptr::copy_nonoverlapping(prefix.as_ptr(), at, prefix.len());
        }
    }

    /// Records where an insert went, so that a split can distinguish ascending and descending runs from random inserts.
    #[inline(always)]
    fn note_insert(&mut self, position: usize) {
        let hint = self.hint();
        let sequential = position == hint || position == hint + 1;
        self.set_short(field::HINT, position);
        self.set_byte(field::RUN, if sequential { self.run().saturating_add(1) } else { 0 });
    }

    /// Writes `new` at `at`, where `len` bytes are free.
    #[inline(always)]
    fn write_record(&mut self, kind: u8, at: usize, new: &NewRecord<'_>, len: usize) {
        debug_assert_eq!(new.weights.len(), if kind == KIND_LEAF { self.weight_bytes() } else { 0 });
        let rest = &new.key[self.prefix_len()..];
        // SAFETY: `len` bytes from `at` are free, and the writes below are exactly those that `NewRecord::len` counted.
        unsafe {
            let start = self.start.add(at);
            let mut flags = new.flags;
            let mut next = start.add(1);
            if flags & record::KEY_OUT == 0 {
                *next = rest.len() as u8;
                next = next.add(1);
                if rest.len() > 255 {
                    flags |= record::WIDE_KEY;
                    *next = (rest.len() >> 8) as u8;
                    next = next.add(1);
                }
            }
            if kind == KIND_LEAF {
                *next = new.value.len() as u8;
                next = next.add(1);
                if new.value.len() > 255 {
                    flags |= record::WIDE_VALUE;
                    *next = (new.value.len() >> 8) as u8;
                    next = next.add(1);
                }
            }
            *start = flags;
            std::ptr::copy_nonoverlapping(new.weights.as_ptr(), next, new.weights.len());
            next = next.add(new.weights.len());
            if flags & record::KEY_OUT != 0 {
                next.cast::<u64>().write_unaligned(new.key_handle.to_le());
                next = next.add(record::HANDLE_BYTES);
            } else if rest.len() > 4 {
                std::ptr::copy_nonoverlapping(rest.as_ptr().add(4), next, rest.len() - 4);
                next = next.add(rest.len() - 4);
            }
            std::ptr::copy_nonoverlapping(new.value.as_ptr(), next, new.value.len());
            debug_assert_eq!(next.add(new.value.len()).offset_from_unsigned(start), len);
        }
    }

    /// Opens a gap of `added` items at `position` in each of the arrays, whose items have `sizes` bytes.
    #[inline(always)]
    fn open_gap(&mut self, sizes: &[usize], position: usize, added: usize) {
        let count = self.count();
        let before: usize = sizes.iter().sum();
        let (mut old, mut new) = (self.arrays() + before * count, self.arrays() + before * (count + added));
        for &size in sizes.iter().rev() {
            old -= size * count;
            new -= size * (count + added);
            // SAFETY: both ends lie in the arrays, which grow into the gap that the caller has checked. Arrays move to
            // higher addresses, so the last array moves first, and of each the part after the position.
            unsafe {
                let (old, new) = (self.start.add(old), self.start.add(new));
                std::ptr::copy(old.add(size * position), new.add(size * (position + added)), size * (count - position));
                if old != new {
                    std::ptr::copy(old, new, size * position);
                }
            }
        }
        self.set_count(count + added);
    }

    /// Closes the gap that the removed entries of `gone` leave.
    #[inline(always)]
    fn close_gap(&mut self, sizes: &[usize], gone: Range<usize>) {
        let count = self.count();
        let (mut old, mut new) = (self.arrays(), self.arrays());
        for &size in sizes {
            // SAFETY: as in `open_gap`, to lower addresses, first array first.
            unsafe {
                let (from, to) = (self.start.add(old), self.start.add(new));
                if from != to {
                    std::ptr::copy(from, to, size * gone.start);
                }
                std::ptr::copy(from.add(size * gone.end), to.add(size * gone.start), size * (count - gone.end));
            }
            old += size * count;
            new += size * (count - gone.len());
        }
        self.set_count(count - gone.len());
    }

    #[inline(always)]
    fn set_head(&mut self, position: usize, head: u32) {
        // SAFETY: `position` is below the count; the array is aligned to four bytes.
        unsafe { self.start.add(self.heads_at()).cast::<u32>().add(position).write(head) }
    }

    #[inline(always)]
    fn set_slot(&mut self, position: usize, at: usize) {
        // SAFETY: as above, two bytes.
        unsafe { self.start.add(self.slots_at()).cast::<u16>().add(position).write(at as u16) }
    }

    /// Takes `len` bytes of the heap for a record and returns where they are. Leaves `arrays` bytes of the gap for the
    /// arrays.
    #[inline(always)]
    fn allocate(&mut self, len: usize, arrays: usize) -> Result<usize, PageFull> {
        let (gap, hole) = (self.gap(), self.hole());
        if hole != 0 && gap >= arrays {
            // Records of one page tend to have one length: then holes of removals or splits are filled without moving
            // anything.
            let (next, hole_len) = self.read_hole(hole);
            if hole_len == len {
                self.set_short(field::HOLE, next);
                self.set_short(field::GARBAGE, self.garbage() - len);
                return Ok(hole);
            }
        }
        if gap < len + arrays {
            if gap + self.garbage() < len + arrays {
                return Err(PageFull);
            }
            // Garbage then becomes gap, and the two together are enough.
            self.compact();
        }
        let at = self.heap_start() - len;
        self.set_short(field::HEAP_START, at);
        Ok(at)
    }

    /// Inserts into a leaf. The key starts with the page's prefix and belongs at `position`.
    #[inline(always)]
    pub(crate) fn insert_leaf(&mut self, position: usize, new: &NewRecord<'_>) -> Result<(), PageFull> {
        let len = new.len(KIND_LEAF, self.prefix_len());
        let at = self.allocate(len, array_bytes(KIND_LEAF, 0))?;
        self.write_record(KIND_LEAF, at, new, len);
        self.open_gap(&LEAF_SIZES, position, 1);
        self.set_head(position, head_of(&new.key[self.prefix_len()..]));
        self.set_slot(position, at);
        self.note_insert(position);
        Ok(())
    }

    /// Replaces the record at `position` of a leaf by one for the same key.
    #[inline(always)]
    pub(crate) fn replace_leaf(&mut self, position: usize, new: &NewRecord<'_>) -> Result<(), PageFull> {
        let old = self.slot(position);
        let old_len = self.leaf_record(position).len;
        let len = new.len(KIND_LEAF, self.prefix_len());
        if len == old_len {
            // In place: a record of the same length overwrites the old one.
            self.write_record(KIND_LEAF, old, new, len);
            return Ok(());
        }
        // The entry keeps its place in the arrays, so the record can use all free bytes and those of the old one.
        if self.gap() + self.garbage() + old_len < len {
            return Err(PageFull);
        }
        self.free_record(old, old_len);
        if self.gap() < len {
            // `compact` would copy the record of the freed slot: take the entry out and put it back. The gap then has
            // what was counted above.
            let head = self.head(position);
            self.close_gap(&LEAF_SIZES, position..position + 1);
            self.compact();
            self.open_gap(&LEAF_SIZES, position, 1);
            self.set_head(position, head);
        }
        let at = self.allocate(len, 0)?;
        self.write_record(KIND_LEAF, at, new, len);
        self.set_slot(position, at);
        Ok(())
    }

    /// Copies the record of inserts in a row from `other`.
    pub(crate) fn copy_insert_run(&mut self, other: &PageRef<'_>) {
        self.set_short(field::HINT, other.hint());
        self.set_byte(field::RUN, other.run());
    }

    /// Frees `len` bytes of the heap from `at` on.
    #[inline(always)]
    fn free_record(&mut self, at: usize, len: usize) {
        if at == self.heap_start() {
            self.set_short(field::HEAP_START, at + len);
            return;
        }
        self.set_short(field::GARBAGE, self.garbage() + len);
        if len >= HOLE_BYTES_MIN {
            let next = self.hole();
            // SAFETY: the hole lies in the page and has four bytes.
            unsafe {
                let hole = self.start.add(at).cast::<[u16; 2]>();
                hole.write_unaligned([(next as u16).to_le(), (len as u16).to_le()]);
            }
            self.set_short(field::HOLE, at);
        }
    }

    /// Removes the entry at `position` of a leaf.
    pub(crate) fn remove_leaf(&mut self, position: usize) {
        let len = self.leaf_record(position).len;
        self.free_record(self.slot(position), len);
        self.close_gap(&LEAF_SIZES, position..position + 1);
        self.set_byte(field::RUN, 0);
    }

    /// Moves the entries of `moved`, the first or the last of this leaf, to `other`, its neighbour on that side, which
    /// has the same prefix and room for them. `lens` are the lengths of their records.
    pub(crate) fn move_entries(&mut self, moved: Range<usize>, lens: &[u16], other: &mut PageMut<'_>) {
        debug_assert!(self.is_leaf() && moved.len() == lens.len() && self.prefix() == other.prefix());
        let bytes: usize = lens.iter().map(|&len| usize::from(len)).sum();
        let needed = bytes + moved.len() * array_bytes(KIND_LEAF, 0);
        if other.gap() < needed {
            other.compact();
        }
        assert!(other.gap() >= needed, "a page was given more than it has room for");
        // Before the records are written: the arrays and the heap may meet.
        let position = if moved.start == 0 { other.count() } else { 0 };
        other.open_gap(&LEAF_SIZES, position, moved.len());
        let heap_end = other.heap_start();
        let mut to = heap_end - bytes;
        other.set_short(field::HEAP_START, to);
        for (number, &len) in lens.iter().enumerate() {
            let (from, len) = (self.slot(moved.start + number), usize::from(len));
            other.set_head(position + number, self.head(moved.start + number));
            other.set_slot(position + number, to);
            // SAFETY: a record of this page to a place in the other's heap. Short ones are copied in one piece, with
            // what follows them: in this page there are as many bytes, and in the other the next record comes over it,
            // or the end of what was made free is far enough.
            unsafe {
                let (from, to_start) = (self.start.add(from), other.start.add(to));
                if len <= 16 && to + 16 <= heap_end && from.offset_from_unsigned(self.start) + 16 <= self.page_bytes {
                    to_start.cast::<[u8; 16]>().write_unaligned(from.cast::<[u8; 16]>().read_unaligned());
                } else {
                    std::ptr::copy_nonoverlapping(from, to_start, len);
                }
            }
            to += len;
            self.free_record(from, len);
        }
        self.close_gap(&LEAF_SIZES, moved);
        self.set_byte(field::RUN, 0);
        other.set_byte(field::RUN, 0);
    }

    /// Inserts an entry for `child`, with the tallies set to zero, into an inner page.
    pub(crate) fn insert_inner(&mut self, position: usize, new: &NewRecord<'_>, child: u32) -> Result<(), PageFull> {
        let len = new.len(KIND_INNER, self.prefix_len());
        let sizes = self.inner_sizes();
        let sizes = &sizes[..self.measures() + 3];
        let at = self.allocate(len, array_bytes(KIND_INNER, self.measures()))?;
        self.write_record(KIND_INNER, at, new, len);
        self.open_gap(sizes, position, 1);
        self.set_head(position, head_of(&new.key[self.prefix_len()..]));
        self.set_slot(position, at);
        self.set_child(position, child);
        for measure in 0..self.measures() {
            self.set_tally(measure, position, 0);
        }
        self.note_insert(position);
        Ok(())
    }

    /// Removes the entry at `position` of an inner page. If it is the first, the next takes its place, whatever its
    /// key.
    pub(crate) fn remove_inner(&mut self, position: usize) {
        let len = self.inner_record(position).len;
        self.free_record(self.slot(position), len);
        let sizes = self.inner_sizes();
        let sizes = &sizes[..self.measures() + 3];
        self.close_gap(sizes, position..position + 1);
    }

    /// Item sizes of the arrays of an inner page: at most four measures, then child, head, slot.
    fn inner_sizes(&self) -> [usize; 7] {
        let mut sizes = [8; 7];
        let measures = self.measures();
        sizes[measures..measures + 3].copy_from_slice(&[4, 4, 2]);
        sizes
    }

    /// Sets the child at `position` of an inner page.
    pub(crate) fn set_child(&mut self, position: usize, child: u32) {
        debug_assert!(position < self.count());
        let at = self.arrays() + 8 * self.measures() * self.count() + 4 * position;
        // SAFETY: the array of children lies there.
        unsafe { self.start.add(at).cast::<u32>().write(child) }
    }

    /// Sets the `index`-th measure of the child at `position`.
    pub(crate) fn set_tally(&mut self, index: usize, position: usize, amount: i64) {
        debug_assert!(position < self.count());
        let at = self.arrays() + 8 * (index * self.count() + position);
        // SAFETY: the array of that measure lies there.
        unsafe { self.start.add(at).cast::<i64>().write(amount) }
    }

    /// Adds to the `index`-th measure of the child at `position`.
    #[inline(always)]
    pub(crate) fn add_tally(&mut self, index: usize, position: usize, amount: i64) {
        debug_assert!(position < self.count());
        let at = self.arrays() + 8 * (index * self.count() + position);
        // SAFETY: as above.
        unsafe {
            let at = self.start.add(at).cast::<i64>();
            at.write(at.read().wrapping_add(amount));
        }
    }

    /// Closes the holes in the heap.
    #[inline(never)]
    pub(crate) fn compact(&mut self) {
        let mut scratch = [MaybeUninit::<u8>::uninit(); PAGE_BYTES_MAX];
        let heap_start = self.heap_start();
        let heap_len = self.page_bytes - heap_start;
        // SAFETY: the heap lies in the page, which is no longer than the scratch space.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(heap_start), scratch.as_mut_ptr().cast(), heap_len);
        }
        let mut to = self.page_bytes;
        for position in 0..self.count() {
            let at = self.slot(position);
            // Lengths are read from the page: records move up, so those not yet copied may be overwritten. Hence from
            // the scratch copy. SAFETY: a copy of the heap, shifted so that its offsets are those of the page; only the
            // record is read through it.
            let len = unsafe { self.record_len_in(scratch.as_ptr().cast::<u8>(), at - heap_start) };
            to -= len;
            // SAFETY: `to` stays above the arrays since the records together are shorter than the heap was.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    scratch.as_ptr().cast::<u8>().add(at - heap_start),
                    self.start.add(to),
                    len,
                );
            }
            self.set_slot(position, to);
        }
        self.set_short(field::HEAP_START, to);
        self.set_short(field::GARBAGE, 0);
        self.set_short(field::HOLE, 0);
    }

    /// Bytes of the record at `at` of `heap`.
    ///
    /// # Safety
    /// A record of this page's kind stands there.
    unsafe fn record_len_in(&self, heap: *const u8, at: usize) -> usize {
        // SAFETY: promised by the caller.
        let byte = |offset: usize| usize::from(unsafe { *heap.add(at + offset) });
        let flags = byte(0) as u8;
        let mut len = 1;
        let mut tail_len = record::HANDLE_BYTES;
        if flags & record::KEY_OUT == 0 {
            let mut rest_len = byte(len);
            len += 1;
            if flags & record::WIDE_KEY != 0 {
                rest_len |= byte(len) << 8;
                len += 1;
            }
            tail_len = rest_len.saturating_sub(4);
        }
        if self.is_leaf() {
            let mut value_len = byte(len);
            len += 1;
            if flags & record::WIDE_VALUE != 0 {
                value_len |= byte(len) << 8;
                len += 1;
            }
            len += value_len + self.weight_bytes();
        }
        len + tail_len
    }

    /// Appends an entry to a page under construction, whose final count has been set: see [`super::Builder`].
    pub(crate) fn place(&mut self, position: usize, new: &NewRecord<'_>, open_low: bool) {
        let kind = self.kind();
        if open_low {
            let len = 2;
            let at = self.heap_start() - len;
            // SAFETY: the builder has counted two bytes for this record: flags zero, key length zero.
            unsafe { std::ptr::write_bytes(self.start.add(at), 0, len) };
            self.set_short(field::HEAP_START, at);
            self.set_head(position, 0);
            self.set_slot(position, at);
            return;
        }
        let len = new.len(kind, self.prefix_len());
        assert!(self.gap() >= len, "a page under construction was planned too small");
        let at = self.heap_start() - len;
        self.write_record(kind, at, new, len);
        self.set_short(field::HEAP_START, at);
        self.set_head(position, head_of(&new.key[self.prefix_len()..]));
        self.set_slot(position, at);
    }

    /// Like `place`, for entries of `other` from `from` on, whose records have the lengths `lens`; its prefix is the
    /// same.
    pub(crate) fn place_copies(&mut self, position: usize, other: &PageRef<'_>, from: usize, lens: &[u16]) {
        let total: usize = lens.iter().map(|&len| usize::from(len)).sum();
        assert!(self.gap() >= total, "a page under construction was planned too small");
        let (heads, slots) = (self.heads_at(), self.slots_at());
        let (other_slots, mut at) = (other.slots_at(), self.heap_start());
        // SAFETY: positions from `position` on are below the final count, which has been set; the records of the other
        // page have the lengths given, and together fit the gap.
        unsafe {
            let heads = self.start.add(heads).cast::<u32>().add(position);
            let slots = self.start.add(slots).cast::<u16>().add(position);
            std::ptr::copy_nonoverlapping(
                other.start().add(other.heads_at()).cast::<u32>().add(from),
                heads,
                lens.len(),
            );
            let other_slots = other.start().add(other_slots).cast::<u16>().add(from);
            for (number, &len) in lens.iter().enumerate() {
                let len = usize::from(len);
                at -= len;
                let record = other.start().add(usize::from(*other_slots.add(number)));
                std::ptr::copy_nonoverlapping(record, self.start.add(at), len);
                *slots.add(number) = at as u16;
            }
        }
        self.set_short(field::HEAP_START, at);
    }

    pub(crate) fn set_open_low(&mut self) {
        let flags = self.flags() | flag::OPEN_LOW;
        self.set_flags(flags);
    }
}
