//! Reads a page: fields, search, records. Every function here trusts the page (see [`super::check`]).

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::marker::PhantomData;

use smallvec::SmallVec;

use super::{HEADER_BYTES, KIND_LEAF, field, flag, head_of, padded, record};
use crate::tally::{Measures, Tally};

/// A buffer for one key.
pub type KeyBuffer = SmallVec<[u8; 64]>;

/// A page to read.
#[derive(Clone, Copy)]
pub(crate) struct PageRef<'a> {
    start: *const u8,
    lifetime: PhantomData<&'a [u8]>,
}

/// One record, decoded.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) flags: u8,
    /// Bytes of the key after the prefix; zero if the key is out of line.
    pub(crate) rest_len: usize,
    /// Explicit weights.
    pub(crate) weights: &'a [u8],
    /// The key after prefix and head, or the handle of an out-of-line key.
    pub(crate) tail: &'a [u8],
    /// The value, or the handle of an out-of-line value.
    pub(crate) value: &'a [u8],
    /// Bytes of the whole record.
    pub(crate) len: usize,
}

/// How far heads alone bring a search: to the first position whose head is not below that of the key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Aim {
    pub(super) position: usize,
    /// Whether the head there equals that of the key, so that only whole keys can decide.
    pub(super) open: bool,
}

impl Record<'_> {
    #[inline(always)]
    pub(crate) fn state(&self) -> u8 {
        self.flags & record::STATE
    }

    #[inline(always)]
    pub(crate) fn is_tombstone(&self) -> bool {
        self.state() == record::TOMBSTONE
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> i64 {
        1 - i64::from(self.state())
    }

    #[inline(always)]
    pub(crate) fn value_is_out(&self) -> bool {
        self.flags & record::VALUE_OUT != 0
    }

    #[inline(always)]
    pub(crate) fn key_is_out(&self) -> bool {
        self.flags & record::KEY_OUT != 0
    }

    /// The weight stored in the record, for a layer with explicit weights.
    pub(crate) fn explicit_weight(&self, measures: &Measures) -> Tally {
        let mut tally = Tally { rows: self.rows(), ..Tally::ZERO };
        for (index, bytes) in self.weights.chunks_exact(8).enumerate() {
            tally.add_measure(measures, index + 1, i64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        }
        tally
    }
}

impl<'a> PageRef<'a> {
    /// A page at `start`.
    ///
    /// # Safety
    /// `start` points at a whole page that satisfies the invariants of this module, is aligned to 8 bytes, and is
    /// neither freed nor changed while `'a` lasts.
    #[inline(always)]
    pub(crate) unsafe fn new(start: *const u8) -> Self {
        PageRef { start, lifetime: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        // SAFETY: `at` is a header field; the page is at least HEADER_BYTES long.
        unsafe { *self.start.add(at) }
    }

    #[inline(always)]
    fn short(&self, at: usize) -> usize {
        // SAFETY: as above, two bytes at an even offset.
        usize::from(u16::from_le(unsafe { self.start.add(at).cast::<u16>().read() }))
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> u8 {
        self.byte(field::KIND)
    }

    #[inline(always)]
    pub(crate) fn is_leaf(&self) -> bool {
        self.kind() == KIND_LEAF
    }

    #[inline(always)]
    pub(crate) fn level(&self) -> usize {
        usize::from(self.byte(field::LEVEL))
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> u8 {
        self.byte(field::FLAGS)
    }

    #[inline(always)]
    pub(crate) fn open_low(&self) -> bool {
        self.flags() & flag::OPEN_LOW != 0
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.short(field::COUNT)
    }

    #[inline(always)]
    pub(crate) fn prefix_len(&self) -> usize {
        self.short(field::PREFIX_LEN)
    }

    #[inline(always)]
    pub(crate) fn heap_start(&self) -> usize {
        self.short(field::HEAP_START)
    }

    #[inline(always)]
    pub(crate) fn garbage(&self) -> usize {
        self.short(field::GARBAGE)
    }

    /// The hole that was made last; 0 if there is none.
    #[inline(always)]
    pub(crate) fn hole(&self) -> usize {
        self.short(field::HOLE)
    }

    /// For the hole at `at`: the hole made before it, and its length.
    #[inline(always)]
    pub(crate) fn read_hole(&self, at: usize) -> (usize, usize) {
        // SAFETY: holes have four bytes and lie in the page, by invariant 3.
        let [next, len] = unsafe { self.start.add(at).cast::<[u16; 2]>().read_unaligned() };
        (usize::from(u16::from_le(next)), usize::from(u16::from_le(len)))
    }

    /// The size of a page in a file.
    pub(crate) fn stored_page_bytes(&self) -> usize {
        self.short(field::PAGE_BYTES)
    }

    #[inline(always)]
    pub(crate) fn hint(&self) -> usize {
        self.short(field::HINT)
    }

    #[inline(always)]
    pub(crate) fn run(&self) -> u8 {
        self.byte(field::RUN)
    }

    #[inline(always)]
    pub(crate) fn measures(&self) -> usize {
        usize::from(self.byte(field::MEASURES))
    }

    #[inline(always)]
    pub(crate) fn weight_bytes(&self) -> usize {
        usize::from(self.byte(field::WEIGHT_BYTES))
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        // SAFETY: eight bytes of the header at a multiple of eight.
        u64::from_le(unsafe { self.start.add(field::EPOCH).cast::<u64>().read() })
    }

    #[inline(always)]
    pub(crate) fn prefix(&self) -> &'a [u8] {
        // SAFETY: the prefix follows the header, by the layout.
        unsafe { std::slice::from_raw_parts(self.start.add(HEADER_BYTES), self.prefix_len()) }
    }

    /// Where the arrays start.
    #[inline(always)]
    pub(crate) fn arrays(&self) -> usize {
        HEADER_BYTES + padded(self.prefix_len())
    }

    #[inline(always)]
    pub(crate) fn heads_at(&self) -> usize {
        if self.is_leaf() { self.arrays() } else { self.arrays() + self.count() * (8 * self.measures() + 4) }
    }

    #[inline(always)]
    pub(crate) fn slots_at(&self) -> usize {
        self.heads_at() + 4 * self.count()
    }

    /// Where the arrays end.
    #[inline(always)]
    pub(crate) fn arrays_end(&self) -> usize {
        self.slots_at() + 2 * self.count()
    }

    /// Bytes between arrays and heap.
    #[inline(always)]
    pub(crate) fn gap(&self) -> usize {
        self.heap_start() - self.arrays_end()
    }

    /// Bytes that entries take in a page of `page_bytes`, without garbage.
    #[inline]
    pub(crate) fn used(&self, page_bytes: usize) -> usize {
        page_bytes - self.gap() - self.garbage()
    }

    #[inline(always)]
    fn heads(&self) -> *const u32 {
        // SAFETY: the array lies in the page.
        unsafe { self.start.add(self.heads_at()).cast() }
    }

    #[inline(always)]
    pub(crate) fn head(&self, position: usize) -> u32 {
        debug_assert!(position < self.count());
        // SAFETY: `position` is below the count.
        unsafe { self.heads().add(position).read() }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, position: usize) -> usize {
        debug_assert!(position < self.count());
        // SAFETY: `position` is below the count; slots are aligned to two bytes since all before is.
        usize::from(unsafe { self.start.add(self.slots_at()).cast::<u16>().add(position).read() })
    }

    /// The child at `position` of an inner page in memory.
    #[inline(always)]
    pub(crate) fn child(&self, position: usize) -> u32 {
        debug_assert!(!self.is_leaf() && position < self.count());
        let at = self.arrays() + 8 * self.measures() * self.count() + 4 * position;
        // SAFETY: the array of children lies there, aligned to four bytes.
        unsafe { self.start.add(at).cast::<u32>().read() }
    }

    /// Where in an inner page the rows of the child at `position` stand.
    #[inline(always)]
    pub(crate) fn rows_at(&self, position: usize) -> u16 {
        (self.arrays() + 8 * position) as u16
    }

    /// The array of the `index`-th measure of an inner page.
    #[inline(always)]
    pub(crate) fn tallies(&self, index: usize) -> &'a [i64] {
        debug_assert!(!self.is_leaf() && index < self.measures());
        // SAFETY: the array lies there; `arrays()` is a multiple of eight.
        unsafe {
            std::slice::from_raw_parts(self.start.add(self.arrays() + 8 * index * self.count()).cast(), self.count())
        }
    }

    /// The tally of the child at `position`.
    pub(crate) fn child_tally(&self, position: usize, measures: &Measures) -> Tally {
        let mut tally = Tally::ZERO;
        for index in 0..self.measures() {
            tally.add_measure(measures, index, self.tallies(index)[position]);
        }
        tally
    }

    /// The tally of the children before `position`.
    #[inline]
    pub(crate) fn tally_before(&self, position: usize, measures: &Measures) -> Tally {
        let mut tally = Tally::ZERO;
        for index in 0..self.measures() {
            let sum = self.tallies(index)[..position].iter().fold(0i64, |sum, &part| sum.wrapping_add(part));
            tally.add_measure(measures, index, sum);
        }
        tally
    }

    /// Rows of the children in `from..to`.
    #[inline(always)]
    pub(crate) fn rows_between(&self, from: usize, to: usize) -> i64 {
        self.tallies(0)[from..to].iter().fold(0i64, |sum, &part| sum.wrapping_add(part))
    }

    /// Rows of the children before `position`, in a page whose children have `total` rows: sums the shorter side.
    #[inline(always)]
    pub(crate) fn rows_before(&self, position: usize, total: i64) -> i64 {
        if 2 * position <= self.count() {
            self.rows_between(0, position)
        } else {
            total.wrapping_sub(self.rows_between(position, self.count()))
        }
    }

    /// The record at `position`.
    #[inline(always)]
    pub(crate) fn record(&self, position: usize) -> Record<'a> {
        if self.is_leaf() { self.leaf_record(position) } else { self.inner_record(position) }
    }

    #[inline(always)]
    pub(crate) fn leaf_record(&self, position: usize) -> Record<'a> {
        self.parse_record::<true>(self.slot(position))
    }

    #[inline(always)]
    pub(crate) fn inner_record(&self, position: usize) -> Record<'a> {
        self.parse_record::<false>(self.slot(position))
    }

    #[inline(always)]
    fn parse_record<const LEAF: bool>(&self, at: usize) -> Record<'a> {
        // SAFETY: a slot points at a record that lies in the page with all the lengths it states, by invariant 3.
        unsafe {
            let start = self.start.add(at);
            let flags = *start;
            let mut next = start.add(1);
            let mut rest_len = 0;
            if flags & record::KEY_OUT == 0 {
                rest_len = usize::from(*next);
                next = next.add(1);
                if flags & record::WIDE_KEY != 0 {
                    rest_len |= usize::from(*next) << 8;
                    next = next.add(1);
                }
            }
            let mut value_len = 0;
            if LEAF {
                value_len = usize::from(*next);
                next = next.add(1);
                if flags & record::WIDE_VALUE != 0 {
                    value_len |= usize::from(*next) << 8;
                    next = next.add(1);
                }
            }
            let weight_bytes = if LEAF { self.weight_bytes() } else { 0 };
            let weights = std::slice::from_raw_parts(next, weight_bytes);
            next = next.add(weight_bytes);
            let tail_len = if flags & record::KEY_OUT != 0 { record::HANDLE_BYTES } else { rest_len.saturating_sub(4) };
            let tail = std::slice::from_raw_parts(next, tail_len);
            next = next.add(tail_len);
            let value = std::slice::from_raw_parts(next, value_len);
            let len = next.add(value_len).offset_from_unsigned(start);
            Record { flags, rest_len, weights, tail, value, len }
        }
    }

    /// The whole key that the handle of an out-of-line key names.
    #[cold]
    pub(crate) fn out_key(&self, handle: &[u8]) -> &'a [u8] {
        let handle = u64::from_le_bytes(handle.try_into().expect("a handle has eight bytes"));
        if self.flags() & flag::ON_DISK != 0 {
            // On disk: offset from the page's start and length, 32 bits each, after the page in the same unit.
            let (offset, len) = ((handle & 0xffff_ffff) as usize, (handle >> 32) as usize);
            // SAFETY: `check` has verified that the unit holds these bytes.
            unsafe { std::slice::from_raw_parts(self.start.add(offset), len) }
        } else {
            // SAFETY: in memory the handle is a `Blob` that lives at least as long as the page's content.
            unsafe { super::Blob::from_handle(handle).bytes() }
        }
    }

    /// Compares the key at `position`, whose head equals that of `rest`, with `rest` (a key without the prefix).
    #[inline]
    fn compare_equal_heads<const LEAF: bool>(&self, position: usize, rest: &[u8]) -> Ordering {
        let found = self.parse_record::<LEAF>(self.slot(position));
        if found.key_is_out() {
            return self.out_key(found.tail)[self.prefix_len()..].cmp(rest);
        }
        if found.rest_len < 4 || rest.len() < 4 {
            // The heads are equal and one key ends within its head, so it is a prefix of the other.
            return found.rest_len.cmp(&rest.len());
        }
        found.tail.cmp(&rest[4..])
    }

    /// The first position whose head is not below `head`, from `from` on.
    #[inline(always)]
    fn head_lower_bound(&self, from: usize, head: u32) -> usize {
        let heads = self.heads();
        let mut base = from;
        let mut len = self.count() - from;
        if len == 0 {
            return from;
        }
        // Branch-free: the comparison becomes a conditional move, so that no misprediction stalls the descent.
        while len > 1 {
            let half = len / 2;
            // SAFETY: base + half - 1 < count.
            let below = unsafe { heads.add(base + half - 1).read() } < head;
            base = select_unpredictable(below, base + half, base);
            len -= half;
        }
        // SAFETY: base < count.
        base + usize::from(unsafe { heads.add(base).read() } < head)
    }

    /// Applies the prefix to `key`: `Ok(rest)` if the key has the prefix, otherwise the position it belongs to.
    #[inline(always)]
    fn strip_prefix<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], usize> {
        let prefix_len = self.prefix_len();
        if prefix_len == 0 {
            return Ok(key);
        }
        let prefix = self.prefix();
        if key.len() >= prefix_len && key[..prefix_len] == *prefix {
            return Ok(&key[prefix_len..]);
        }
        Err(if key < prefix { 0 } else { self.count() })
    }

    /// Whether `key` starts with the page's prefix.
    #[inline(always)]
    pub(crate) fn has_prefix_of(&self, key: &[u8]) -> bool {
        self.strip_prefix(key).is_ok()
    }

    /// Where `key` is, or would be: the first position whose key is not below it, and whether that is the key.
    #[inline(always)]
    pub(crate) fn search<const LEAF: bool>(&self, key: &[u8]) -> (usize, bool) {
        self.settle::<LEAF>(self.aim::<LEAF>(key), key)
    }

    /// The first half of a search, as far as heads decide.
    #[inline(always)]
    pub(crate) fn aim<const LEAF: bool>(&self, key: &[u8]) -> Aim {
        match self.strip_prefix(key) {
            Ok(rest) => {
                let head = head_of(rest);
                let position = self.head_lower_bound(0, head);
                Aim { position, open: position < self.count() && self.head(position) == head }
            }
            Err(position) => Aim { position: self.past_open_low::<LEAF>(position), open: false },
        }
    }

    /// The second half of a search for the same key: compares whole keys if the search is still open.
    #[inline(always)]
    pub(crate) fn settle<const LEAF: bool>(&self, aim: Aim, key: &[u8]) -> (usize, bool) {
        let Aim { position, open } = aim;
        if !open {
            return (position, false);
        }
        let rest = &key[self.prefix_len()..];
        let (mut low, mut high) = (position, position + 1);
        // One entry with this head is the common case; a run of them is searched by whole keys.
        let head = self.head(position);
        let count = self.count();
        if high < count && self.head(high) == head {
            high = if head == u32::MAX { count } else { self.head_lower_bound(high, head + 1) };
            if high == count {
                // Ascending writes go after the last entry.
                match self.compare_equal_heads::<LEAF>(high - 1, rest) {
                    Ordering::Less => return (high, false),
                    Ordering::Equal => return (high - 1, true),
                    Ordering::Greater => high -= 1,
                }
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                match self.compare_equal_heads::<LEAF>(middle, rest) {
                    Ordering::Less => low = middle,
                    Ordering::Equal => return (middle, true),
                    Ordering::Greater => high = middle,
                }
            }
        }
        if !LEAF && low == 0 && self.open_low() {
            return (low + 1, false);
        }
        match self.compare_equal_heads::<LEAF>(low, rest) {
            Ordering::Less => (low + 1, false),
            Ordering::Equal => (low, true),
            Ordering::Greater => (low, false),
        }
    }

    /// Whether the leaf has keys and `key` is above all of them.
    #[inline]
    pub(crate) fn is_behind_last(&self, key: &[u8]) -> bool {
        let Some(last) = self.count().checked_sub(1) else { return false };
        match self.strip_prefix(key) {
            Ok(rest) => match head_of(rest).cmp(&self.head(last)) {
                Ordering::Equal => self.compare_equal_heads::<true>(last, rest) == Ordering::Less,
                compared => compared == Ordering::Greater,
            },
            Err(position) => position > 0,
        }
    }

    /// Minus infinity is below every key, even below one that lacks the prefix.
    #[inline(always)]
    fn past_open_low<const LEAF: bool>(&self, position: usize) -> usize {
        if !LEAF && position == 0 && self.open_low() { 1.min(self.count()) } else { position }
    }

    /// The position of the child that `key` belongs to.
    #[inline(always)]
    pub(crate) fn child_position(&self, key: &[u8]) -> usize {
        let (position, found) = self.search::<false>(key);
        select_unpredictable(found, position, position.saturating_sub(1))
    }

    /// Appends the key at `position` to `key`.
    pub(crate) fn key_into(&self, position: usize, key: &mut KeyBuffer) {
        let found = self.record(position);
        self.record_key_into(&found, position, key);
    }

    /// Appends the key of `found`, the record at `position`, to `key`.
    #[inline]
    pub(crate) fn record_key_into(&self, found: &Record<'_>, position: usize, key: &mut KeyBuffer) {
        if found.key_is_out() {
            key.extend_from_slice(self.out_key(found.tail));
            return;
        }
        if position == 0 && !self.is_leaf() && self.open_low() {
            return;
        }
        let prefix_len = self.prefix_len();
        let head = self.head(position).to_be_bytes();
        let len = prefix_len + found.rest_len;
        key.reserve(len);
        // SAFETY: the buffer has room for `len` more bytes, and exactly those are written: the prefix, up to four bytes
        // of the head, the tail.
        unsafe {
            let to = key.as_mut_ptr().add(key.len());
            std::ptr::copy_nonoverlapping(self.start.add(HEADER_BYTES), to, prefix_len);
            let to = to.add(prefix_len);
            if found.rest_len >= 4 {
                to.cast::<[u8; 4]>().write(head);
                std::ptr::copy_nonoverlapping(found.tail.as_ptr(), to.add(4), found.tail.len());
            } else {
                std::ptr::copy_nonoverlapping(head.as_ptr(), to, found.rest_len);
            }
            key.set_len(key.len() + len);
        }
    }

    /// The key at `position` in a buffer of its own.
    pub(crate) fn key(&self, position: usize) -> KeyBuffer {
        let mut key = KeyBuffer::new();
        self.key_into(position, &mut key);
        key
    }
}
