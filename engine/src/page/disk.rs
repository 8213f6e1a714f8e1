//! A page in a file: a unit of a page without holes and, behind it, the keys too long for it.
//!
//! ```text
//! | header 32 | prefix, padded | arrays | records, the last entry's first | long keys, in order | zeros to a multiple of 8 |
//! '------------------------ page_bytes -------------------------------'
//!   inner:  tallies i64[n] x measures | offsets u64[n] | length u32, crc32c u32 [n] | page_bytes u32[n] | heads | slots
//! ```
//!
//! Invariants, beside those of the module above:
//! 1. Nothing is left over: no gap, no garbage, records and long keys in order one behind the other, zeros where nothing is said.
//! 2. The header's fields that serve changes in memory are zero. Of a bottom layer all entries are live rows ([`record::FRESH`]); of a layer over others entries
//!    have states, a tombstone has no value, and if more than rows is measured each has its weight.
//!
//! Inner pages are those of version 1 of runs; today only leaves are written.
//!
//! Costs: [`checked_page`] is one pass without allocation, a few nanoseconds an entry.
//! Not here: files, checksums, what pointers and tallies must be (`run`).

use std::cmp::Ordering;

use super::{
    HEADER_BYTES, KIND_INNER, KIND_LEAF, PAGE_BYTES_MAX, PREFIX_MAX, PageMut, PageRef, array_bytes, field, flag,
    head_of, padded, record,
};

/// Arrays of eight bytes an item that an inner page in a file has beside those of its measures.
pub(crate) const POINTER_ARRAYS: usize = 2;
/// The most measures there can be.
pub(crate) const MEASURES_MAX: usize = 4;
/// Units begin at multiples of this in a file and in memory, and are multiples of it long.
pub(crate) const UNIT_ALIGNMENT_BYTES: usize = 8;

/// Zeroed memory for one unit, aligned as units must be.
pub(crate) struct UnitBuffer {
    words: Box<[u64]>,
}

impl UnitBuffer {
    /// `unit_bytes` zeros, a multiple of [`UNIT_ALIGNMENT_BYTES`].
    pub(crate) fn new(unit_bytes: usize) -> UnitBuffer {
        assert!(unit_bytes.is_multiple_of(UNIT_ALIGNMENT_BYTES));
        UnitBuffer { words: vec![0; unit_bytes / UNIT_ALIGNMENT_BYTES].into_boxed_slice() }
    }

    /// A copy of `unit`, of a length as above.
    pub(crate) fn copy_of(unit: &[u8]) -> UnitBuffer {
        let (words, rest) = unit.as_chunks::<UNIT_ALIGNMENT_BYTES>();
        assert!(rest.is_empty());
        UnitBuffer { words: words.iter().map(|word| u64::from_ne_bytes(*word)).collect() }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: any `u64` is eight initialized bytes, borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let bytes = self.words.len() * 8;
        // SAFETY: as above, and any eight bytes are a `u64`; the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), bytes) }
    }
}

/// A unit that has passed [`checked_page`], with its memory.
pub(crate) struct Unit {
    buffer: UnitBuffer,
}

impl Unit {
    /// Checks the unit in `buffer`, as [`checked_page`].
    pub(crate) fn new(buffer: UnitBuffer, page_bytes: Option<usize>, is_bottom: bool) -> Result<Unit, String> {
        checked_page(buffer.as_slice(), page_bytes, is_bottom)?;
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

/// An empty page for a file, all of `target`: whose bytes are exactly what the entries to come need.
pub(crate) fn new_page(target: &mut [u8], kind: u8, level: usize, arrays: usize, weight_bytes: usize) -> PageMut<'_> {
    let page_bytes = target.len();
    assert!((HEADER_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes));
    assert_eq!(target.as_ptr().align_offset(UNIT_ALIGNMENT_BYTES), 0);
    // SAFETY: the bytes are borrowed exclusively for as long as the page, aligned, and initialised as a page by the next call.
    let mut page = unsafe { PageMut::new(target.as_mut_ptr(), page_bytes) };
    page.init(kind, level, arrays, weight_bytes, 0);
    page.set_flags(flag::ON_DISK);
    page.set_stored_page_bytes();
    page
}

/// One record, as its bytes give it.
struct FoundRecord<'a> {
    is_out: bool,
    rest_len: usize,
    tail: &'a [u8],
    value_len: usize,
}

/// The page that `unit` starts with, if the whole unit is sound; else what is wrong with it. In version 1 of runs `page_bytes` stands elsewhere; `None`: it stands in
/// the page.
pub(crate) fn checked_page(unit: &[u8], page_bytes: Option<usize>, is_bottom: bool) -> Result<PageRef<'_>, String> {
    if unit.len() < HEADER_BYTES {
        return Err(format!("a unit of {} bytes", unit.len()));
    }
    let stored = unit[field::PAGE_BYTES..field::RESERVED].try_into().expect("two bytes");
    let stored = usize::from(u16::from_le_bytes(stored));
    if page_bytes.is_some() && stored != 0 {
        return Err("a field that is zero in version 1 is not".into());
    }
    let page_bytes = page_bytes.unwrap_or(stored);
    if !(HEADER_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes) || page_bytes > unit.len() {
        return Err(format!("a page of {page_bytes} bytes in a unit of {}", unit.len()));
    }
    if unit.as_ptr().align_offset(UNIT_ALIGNMENT_BYTES) != 0 {
        return Err("not aligned".into());
    }
    // SAFETY: only header fields are read until the rest has been checked; they lie in the unit.
    let page = unsafe { PageRef::new(unit.as_ptr()) };
    check_header(unit, &page, page_bytes)?;
    let leaf = page.is_leaf();
    let weight_bytes = page.weight_bytes();
    let (count, prefix_len) = (page.count(), page.prefix_len());
    let open_low = page.open_low();
    let known = if leaf {
        let states = if is_bottom { 0 } else { record::STATE };
        states | record::WIDE_KEY | record::WIDE_VALUE | record::KEY_OUT | record::VALUE_OUT
    } else {
        record::WIDE_KEY | record::KEY_OUT
    };
    let mut record_end = page_bytes;
    let mut long_keys_end = page_bytes;
    let mut previous: Option<(u32, FoundRecord<'_>)> = None;
    for position in 0..count {
        let at = page.slot(position);
        let bytes =
            unit.get(at..record_end).ok_or_else(|| format!("entry {position} lies at {at}, not below {record_end}"))?;
        let (flags, found) = parse(bytes, leaf, weight_bytes)
            .ok_or_else(|| format!("entry {position} at {at} does not end at {record_end}"))?;
        record_end = at;
        let state = flags & record::STATE;
        let is_state = state < record::TOMBSTONE || state == record::TOMBSTONE && found.value_len == 0;
        if flags & !known != 0 || !is_state || found.is_out && flags & record::WIDE_KEY != 0 {
            return Err(format!("entry {position} has flags {flags:#x}"));
        }
        let head = page.head(position);
        if position == 0 && open_low {
            if head != 0 || bytes != [0, 0] {
                return Err("the entry for minus infinity has a key".into());
            }
            continue;
        }
        if found.is_out {
            let handle = found.tail.try_into().expect("a handle has eight bytes");
            let handle = u64::from_le_bytes(handle);
            let (offset, len) = ((handle & 0xffff_ffff) as usize, (handle >> 32) as usize);
            if offset != long_keys_end || len < prefix_len || unit.len() - offset < len {
                return Err(format!("the long key of entry {position} is not behind the one before"));
            }
            long_keys_end += len;
            let key = &unit[offset..long_keys_end];
            if !key.starts_with(page.prefix()) || head_of(&key[prefix_len..]) != head {
                return Err(format!("the long key of entry {position} is not what its head says"));
            }
        } else if found.rest_len < 4 && head << (8 * found.rest_len) != 0 {
            return Err(format!("the head of entry {position} is longer than its key"));
        }
        if let Some((previous_head, previous)) = &previous {
            // The cases in which whole keys are needed are rare, and by now both are known to be sound.
            let order = previous_head.cmp(&head).then_with(|| {
                if previous.is_out || found.is_out {
                    page.key(position - 1).cmp(&page.key(position))
                } else if previous.rest_len < 4 || found.rest_len < 4 {
                    previous.rest_len.cmp(&found.rest_len)
                } else {
                    previous.tail.cmp(found.tail)
                }
            });
            if order != Ordering::Less {
                return Err(format!("the key of entry {position} is not above the one before"));
            }
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

/// Checks the header, and that prefix and arrays end where the heap starts.
fn check_header(unit: &[u8], page: &PageRef<'_>, page_bytes: usize) -> Result<(), String> {
    let kind = page.kind();
    let flags = page.flags();
    let known = if kind == KIND_INNER { flag::ON_DISK | flag::OPEN_LOW } else { flag::ON_DISK };
    if kind != KIND_LEAF && kind != KIND_INNER || flags & flag::ON_DISK == 0 || flags & !known != 0 {
        return Err(format!("kind {kind} with flags {flags:#x}"));
    }
    if unit[field::GARBAGE..field::LEVEL].iter().any(|&byte| byte != 0)
        || unit[field::EPOCH..field::PAGE_BYTES].iter().any(|&byte| byte != 0)
        || unit[field::RESERVED..HEADER_BYTES].iter().any(|&byte| byte != 0)
    {
        return Err("a field that is zero in a file is not".into());
    }
    let (arrays, weight_bytes) = (page.measures(), page.weight_bytes());
    let sound = if kind == KIND_LEAF {
        arrays == 0 && weight_bytes <= 8 * (MEASURES_MAX - 1) && weight_bytes.is_multiple_of(8)
    } else {
        weight_bytes == 0 && (1 + POINTER_ARRAYS..=MEASURES_MAX + POINTER_ARRAYS).contains(&arrays)
    };
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
fn parse(bytes: &[u8], leaf: bool, weight_bytes: usize) -> Option<(u8, FoundRecord<'_>)> {
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
    let mut value_len = 0;
    if leaf {
        value_len = usize::from(*bytes.get(at)?);
        at += 1;
        if flags & record::WIDE_VALUE != 0 {
            value_len |= usize::from(*bytes.get(at)?) << 8;
            at += 1;
        }
        at += weight_bytes;
    }
    let tail = bytes.get(at..at + tail_len)?;
    (at + tail_len + value_len == bytes.len()).then_some((flags, FoundRecord { is_out, rest_len, tail, value_len }))
}
