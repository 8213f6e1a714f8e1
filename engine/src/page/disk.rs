//! A page in a file: a unit of a page without holes, followed by the keys too long for it.
//!
//! ```text
//! | header 32 | prefix, padded | arrays | records, the last entry's first | long keys, in order | zeros to a multiple of 8 |
//! '------------------------ page_bytes -------------------------------'
//!   inner:  tallies i64[n] x measures | offsets u64[n] | length u32, crc32c u32 [n] | page_bytes u32[n] | heads | slots
//! ```
//!
//! Invariants, besides those of the module above:
//! 1. Nothing is left over: no gap, no garbage, records and long keys in order without space between, and zeros
//!    elsewhere.
//! 2. The header's fields that serve changes in memory are zero. In a bottom layer all entries are live rows
//!    ([`record::FRESH`]); in a layer above others entries have states, a tombstone has no value, and if more than rows
//!    is measured each has its weight.
//!
//! Inner pages are those of version 1 of runs; today only leaves are written.
//!
//! Cost: [`checked_page`] is one pass without allocation, a few nanoseconds for each entry. Not here: files, checksums,
//! what pointers and tallies must be (`run`).

use std::cmp::Ordering;
use std::ptr::NonNull;

use super::frames::{self, FrameClass};
use super::{
    HEADER_BYTES, KIND_LEAF, PAGE_BYTES_MAX, PREFIX_MAX, PageMut, PageRef, array_bytes, field, flag, head_of, padded,
    record,
};

/// The most measures there can be.
pub(crate) const MEASURES_MAX: usize = 4;
/// Units begin at multiples of this in a file and in memory, and their lengths are multiples of it.
pub(crate) const UNIT_ALIGNMENT_BYTES: usize = 8;

/// Memory for one unit, aligned as units must be: a frame, or words of the heap where there is no frame for it.
pub(crate) struct UnitBuffer {
    start: NonNull<u8>,
    bytes: u32,
    /// The class of the frame; none of words.
    class: Option<FrameClass>,
}

const _: () = assert!(size_of::<UnitBuffer>() == 16);

// SAFETY: a buffer is memory that its owner alone uses.
unsafe impl Send for UnitBuffer {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for UnitBuffer {}

impl UnitBuffer {
    /// Memory of `unit_bytes`, a multiple of [`UNIT_ALIGNMENT_BYTES`]. What is in it may be left from other units.
    pub(crate) fn new(unit_bytes: usize) -> UnitBuffer {
        assert!(unit_bytes.is_multiple_of(UNIT_ALIGNMENT_BYTES));
        let bytes = u32::try_from(unit_bytes).expect("lengths of units have 32 bits");
        if let Some((start, class)) = frames::take(unit_bytes) {
            return UnitBuffer { start, bytes, class: Some(class) };
        }
        let words: Box<[u64]> = vec![0; unit_bytes / UNIT_ALIGNMENT_BYTES].into_boxed_slice();
        UnitBuffer { start: NonNull::from(Box::leak(words)).cast(), bytes, class: None }
    }

    /// A copy of `unit`, whose length is such a multiple.
    pub(crate) fn copy_of(unit: &[u8]) -> UnitBuffer {
        let mut buffer = UnitBuffer::new(unit.len());
        buffer.as_mut_slice().copy_from_slice(unit);
        buffer
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: so many initialized bytes, borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes as usize) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes as usize) }
    }
}

impl Drop for UnitBuffer {
    fn drop(&mut self) {
        match self.class {
            // SAFETY: taken in `new`, and given back once.
            Some(class) => unsafe { frames::give(self.start, class) },
            None => {
                let words = self.bytes as usize / UNIT_ALIGNMENT_BYTES;
                let words = NonNull::slice_from_raw_parts(self.start.cast::<u64>(), words);
                // SAFETY: leaked in `new`, with this length.
                drop(unsafe { Box::from_raw(words.as_ptr()) });
            }
        }
    }
}

/// A unit that has passed [`checked_page`], with its memory.
pub(crate) struct Unit {
    buffer: UnitBuffer,
}

impl Unit {
    /// Checks the unit in `buffer`, like [`checked_page`].
    pub(crate) fn new(buffer: UnitBuffer, is_bottom: bool) -> Result<Unit, String> {
        checked_page(buffer.as_slice(), is_bottom)?;
        Ok(Unit { buffer })
    }

    pub(crate) fn page(&self) -> PageRef<'_> {
        // SAFETY: `new` has checked these bytes, and nothing has changed them since.
        unsafe { PageRef::new(self.buffer.as_slice().as_ptr()) }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// An empty leaf for a file in all of `target`, whose length is exactly what the coming entries need.
pub(crate) fn new_leaf(target: &mut [u8], weight_bytes: usize) -> PageMut<'_> {
    let page_bytes = target.len();
    assert!((HEADER_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes));
    assert_eq!(target.as_ptr().align_offset(UNIT_ALIGNMENT_BYTES), 0);
    // SAFETY: the bytes are borrowed exclusively for as long as the page, aligned, and initialised as a page by the
    // next call.
    let mut page = unsafe { PageMut::new(target.as_mut_ptr(), page_bytes) };
    page.init(KIND_LEAF, 0, 0, weight_bytes, 0);
    page.set_flags(flag::ON_DISK);
    page.set_stored_page_bytes();
    page
}

/// One record, decoded from its bytes.
struct FoundRecord<'a> {
    is_out: bool,
    rest_len: usize,
    tail: &'a [u8],
    value_len: usize,
}

/// The leaf at the start of `unit`, if the whole unit is sound, or what is wrong with it.
pub(crate) fn checked_page(unit: &[u8], is_bottom: bool) -> Result<PageRef<'_>, String> {
    let (page, page_bytes) = page_of(unit)?;
    let weight_bytes = page.weight_bytes();
    let states = if is_bottom { 0 } else { record::STATE };
    let known = states | record::WIDE_KEY | record::WIDE_VALUE | record::KEY_OUT | record::VALUE_OUT;
    let mut record_end = page_bytes;
    let mut long_keys_end = page_bytes;
    let mut previous: Option<(u32, FoundRecord<'_>)> = None;
    for position in 0..page.count() {
        let at = page.slot(position);
        let bytes =
            unit.get(at..record_end).ok_or_else(|| format!("entry {position} lies at {at}, not below {record_end}"))?;
        let (flags, found) = parse(bytes, weight_bytes)
            .ok_or_else(|| format!("entry {position} at {at} does not end at {record_end}"))?;
        record_end = at;
        let state = flags & record::STATE;
        let is_state = state < record::TOMBSTONE || state == record::TOMBSTONE && found.value_len == 0;
        if flags & !known != 0 || !is_state || found.is_out && flags & record::WIDE_KEY != 0 {
            return Err(format!("entry {position} has flags {flags:#x}"));
        }
        let head = page.head(position);
        if found.is_out {
            long_keys_end = check_long_key(unit, &page, position, found.tail, long_keys_end)?;
        } else if found.rest_len < 4 && head << (8 * found.rest_len) != 0 {
            return Err(format!("the head of entry {position} is longer than its key"));
        }
        if let Some((previous_head, previous)) = &previous
            && !is_above(&page, position, (head, &found), (*previous_head, previous))
        {
            return Err(format!("the key of entry {position} is not above the one before"));
        }
        previous = Some((head, found));
    }
    if record_end != page.heap_start() {
        return Err(format!("records start at {record_end}, the heap at {}", page.heap_start()));
    }
    if long_keys_end.next_multiple_of(UNIT_ALIGNMENT_BYTES) != unit.len()
        || unit[long_keys_end..].iter().any(|&byte| byte != 0)
    {
        return Err(format!("long keys end at {long_keys_end} of {}", unit.len()));
    }
    Ok(page)
}

/// The page that `unit` starts with and its bytes, if what comes before its records is sound.
#[inline]
fn page_of(unit: &[u8]) -> Result<(PageRef<'_>, usize), String> {
    if unit.len() < HEADER_BYTES {
        return Err(format!("a unit of {} bytes", unit.len()));
    }
    let stored = unit[field::PAGE_BYTES..field::RESERVED].try_into().expect("two bytes");
    let page_bytes = usize::from(u16::from_le_bytes(stored));
    if !(HEADER_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes) || page_bytes > unit.len() {
        return Err(format!("a page of {page_bytes} bytes in a unit of {}", unit.len()));
    }
    if unit.as_ptr().align_offset(UNIT_ALIGNMENT_BYTES) != 0 {
        return Err("not aligned".into());
    }
    // SAFETY: only header fields are read until the rest has been checked; they lie in the unit.
    let page = unsafe { PageRef::new(unit.as_ptr()) };
    check_header(unit, &page, page_bytes)?;
    Ok((page, page_bytes))
}

/// Checks a key after the page, which is to start at `start`. Returns where it ends.
fn check_long_key(
    unit: &[u8],
    page: &PageRef<'_>,
    position: usize,
    handle: &[u8],
    start: usize,
) -> Result<usize, String> {
    let handle = u64::from_le_bytes(handle.try_into().expect("a handle has eight bytes"));
    let (offset, len) = ((handle & 0xffff_ffff) as usize, (handle >> 32) as usize);
    if offset != start || len < page.prefix_len() || unit.len() - offset < len {
        return Err(format!("the long key of entry {position} does not follow the one before"));
    }
    let key = &unit[offset..offset + len];
    if !key.starts_with(page.prefix()) || head_of(&key[page.prefix_len()..]) != page.head(position) {
        return Err(format!("the long key of entry {position} is not what its head says"));
    }
    Ok(offset + len)
}

/// Whether the key at `position` is above the one before; of both, the head and the record, which are sound.
#[inline(always)]
fn is_above(
    page: &PageRef<'_>,
    position: usize,
    (head, found): (u32, &FoundRecord<'_>),
    (previous_head, previous): (u32, &FoundRecord<'_>),
) -> bool {
    // The cases in which whole keys are needed are rare.
    let order = previous_head.cmp(&head).then_with(|| {
        if previous.is_out || found.is_out {
            page.key(position - 1).cmp(&page.key(position))
        } else if previous.rest_len < 4 || found.rest_len < 4 {
            previous.rest_len.cmp(&found.rest_len)
        } else {
            previous.tail.cmp(found.tail)
        }
    });
    order == Ordering::Less
}

/// Checks the header, and that prefix and arrays end where the heap starts.
fn check_header(unit: &[u8], page: &PageRef<'_>, page_bytes: usize) -> Result<(), String> {
    let kind = page.kind();
    let flags = page.flags();
    if kind != KIND_LEAF || flags != flag::ON_DISK {
        return Err(format!("kind {kind} with flags {flags:#x}"));
    }
    if unit[field::GARBAGE..field::LEVEL].iter().any(|&byte| byte != 0)
        || unit[field::EPOCH..field::PAGE_BYTES].iter().any(|&byte| byte != 0)
        || unit[field::RESERVED..HEADER_BYTES].iter().any(|&byte| byte != 0)
    {
        return Err("a field that is zero in a file is not".into());
    }
    let (arrays, weight_bytes) = (page.measures(), page.weight_bytes());
    let sound = arrays == 0 && weight_bytes <= 8 * (MEASURES_MAX - 1) && weight_bytes.is_multiple_of(8);
    if !sound {
        return Err(format!("kind {kind} with {arrays} arrays and weights of {weight_bytes} bytes"));
    }
    let (count, prefix_len) = (page.count(), page.prefix_len());
    if count == 0 || prefix_len > PREFIX_MAX {
        return Err(format!("{count} entries and a prefix of {prefix_len} bytes"));
    }
    let arrays_start = HEADER_BYTES + padded(prefix_len);
    let arrays_end = arrays_start + count * array_bytes(kind, arrays);
    let heap_start = page.heap_start();
    if arrays_end != heap_start || heap_start > page_bytes {
        return Err(format!(
            "{count} entries end at {arrays_end}, and the heap starts at {heap_start} of {page_bytes}"
        ));
    }
    if unit[HEADER_BYTES + prefix_len..arrays_start].iter().any(|&byte| byte != 0) {
        return Err("the prefix is not followed by zeros".into());
    }
    Ok(())
}

/// The flags and the key of a record that takes all of `bytes`.
#[inline(always)]
fn parse(bytes: &[u8], weight_bytes: usize) -> Option<(u8, FoundRecord<'_>)> {
    let flags = *bytes.first()?;
    let is_out = flags & record::KEY_OUT != 0;
    let mut at = 1;
    let mut rest_len = 0;
    let mut tail_len = record::HANDLE_BYTES;
    if !is_out {
        rest_len = usize::from(*bytes.get(at)?);
        at += 1;
        if flags & record::WIDE_KEY != 0 {
            rest_len |= usize::from(*bytes.get(at)?) << 8;
            at += 1;
        }
        tail_len = rest_len.saturating_sub(4);
    }
    let mut value_len = usize::from(*bytes.get(at)?);
    at += 1;
    if flags & record::WIDE_VALUE != 0 {
        value_len |= usize::from(*bytes.get(at)?) << 8;
        at += 1;
    }
    at += weight_bytes;
    let tail = bytes.get(at..at + tail_len)?;
    (at + tail_len + value_len == bytes.len()).then_some((flags, FoundRecord { is_out, rest_len, tail, value_len }))
}
