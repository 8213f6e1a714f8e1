//! Checks a page byte by byte, so that code that trusts its bytes may read it.

use super::{
    HEADER_BYTES, HOLE_BYTES_MIN, KIND_INNER, KIND_LEAF, MEASURES_MAX, PAGE_BYTES_MAX, PREFIX_MAX, PageRef,
    array_bytes, flag, padded, record,
};

/// Names the first broken invariant of the page at the start of `unit`. A unit on disk may go on after the page with
/// long keys; then `page_bytes` is the heap's end that [`check_unit`] was given.
pub(crate) fn check(unit: &[u8]) -> Result<(), String> {
    check_unit(unit, unit.len())
}

/// Like [`check`], for a unit whose page is its first `page_bytes` bytes.
pub(crate) fn check_unit(unit: &[u8], page_bytes: usize) -> Result<(), String> {
    if !(HEADER_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes) || unit.len() < page_bytes {
        return Err(format!("a page of {page_bytes} bytes"));
    }
    if unit.as_ptr().align_offset(8) != 0 {
        return Err("not aligned".into());
    }
    // SAFETY: only header fields are read until the rest has been checked; they lie in the unit.
    let page = unsafe { PageRef::new(unit.as_ptr()) };
    check_header(&page, page_bytes)?;
    check_heap(unit, &page, page_bytes)?;
    check_order(&page)
}

/// Checks the header, and that the arrays end below the heap.
fn check_header(page: &PageRef<'_>, page_bytes: usize) -> Result<(), String> {
    let kind = page.kind();
    if kind != KIND_LEAF && kind != KIND_INNER {
        return Err(format!("unknown kind {kind}"));
    }
    if page.flags() & !(flag::OPEN_LOW | flag::ON_DISK) != 0 {
        return Err(format!("unknown flags {:#x}", page.flags()));
    }
    let measures = page.measures();
    if measures > MEASURES_MAX || kind == KIND_LEAF && measures != 0 {
        return Err(format!("{measures} measures"));
    }
    let weight_bytes = page.weight_bytes();
    if weight_bytes > 24 || !weight_bytes.is_multiple_of(8) || kind == KIND_INNER && weight_bytes != 0 {
        return Err(format!("weights of {weight_bytes} bytes"));
    }
    let (count, prefix_len) = (page.count(), page.prefix_len());
    if prefix_len > PREFIX_MAX {
        return Err(format!("a prefix of {prefix_len} bytes"));
    }
    let arrays_end = HEADER_BYTES + padded(prefix_len) + count * array_bytes(kind, measures);
    let heap_start = page.heap_start();
    if arrays_end > heap_start || heap_start > page_bytes {
        return Err(format!(
            "{count} entries end at {arrays_end}, and the heap starts at {heap_start} of {page_bytes}"
        ));
    }
    if kind == KIND_INNER && count == 0 {
        return Err("an inner page without children".into());
    }
    Ok(())
}

/// Checks that the heap holds all records, holes, and nothing else.
fn check_heap(unit: &[u8], page: &PageRef<'_>, page_bytes: usize) -> Result<(), String> {
    let (count, heap_start) = (page.count(), page.heap_start());
    let mut spans = Vec::with_capacity(count);
    for position in 0..count {
        let at = page.slot(position);
        if at < heap_start || at >= page_bytes {
            return Err(format!("entry {position} lies at {at}, outside of the heap"));
        }
        let len = record_len(&unit[..page_bytes], at, page.kind(), page.weight_bytes())
            .ok_or_else(|| format!("entry {position} at {at} does not end in the page"))?;
        spans.push((at, len));
        check_record(unit, page, position, at)?;
    }
    spans.sort_unstable();
    if let Some(pair) = spans.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err(format!("entries overlap at {}", pair[1].0));
    }
    let used: usize = spans.iter().map(|span| span.1).sum();
    check_holes(page, page_bytes, spans)?;
    if used + page.garbage() != page_bytes - heap_start {
        return Err(format!(
            "{used} bytes of records and {} of garbage in a heap of {}",
            page.garbage(),
            page_bytes - heap_start
        ));
    }
    Ok(())
}

/// Checks that keys ascend.
fn check_order(page: &PageRef<'_>) -> Result<(), String> {
    let mut previous = None;
    for position in 0..page.count() {
        if position == 0 && page.kind() == KIND_INNER && page.open_low() {
            continue;
        }
        let key = page.key(position);
        if previous.as_ref().is_some_and(|previous| *previous >= key) {
            return Err(format!("the key of entry {position} is not above the one before"));
        }
        previous = Some(key);
    }
    Ok(())
}

/// Checks that holes lie in the heap outside the `records`, which are sound.
fn check_holes(page: &PageRef<'_>, page_bytes: usize, mut records: Vec<(usize, usize)>) -> Result<(), String> {
    let mut hole = page.hole();
    let mut left = page.garbage() / HOLE_BYTES_MIN;
    while hole != 0 {
        if left == 0 || hole < page.heap_start() || hole + HOLE_BYTES_MIN > page_bytes {
            return Err(format!("a hole at {hole}"));
        }
        let (next, len) = page.read_hole(hole);
        if len < HOLE_BYTES_MIN || hole + len > page_bytes {
            return Err(format!("a hole of {len} bytes at {hole}"));
        }
        records.push((hole, len));
        left -= 1;
        hole = next;
    }
    records.sort_unstable();
    match records.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        Some(pair) => Err(format!("a hole lies over what is at {}", pair[1].0)),
        None => Ok(()),
    }
}

/// Bytes of the record at `at`, if it ends in the page.
fn record_len(page: &[u8], at: usize, kind: u8, weight_bytes: usize) -> Option<usize> {
    let byte = |offset: usize| page.get(at + offset).map(|&byte| usize::from(byte));
    let flags = byte(0)? as u8;
    let mut len = 1;
    let mut tail_len = record::HANDLE_BYTES;
    if flags & record::KEY_OUT == 0 {
        let mut rest_len = byte(len)?;
        len += 1;
        if flags & record::WIDE_KEY != 0 {
            rest_len |= byte(len)? << 8;
            len += 1;
        }
        tail_len = rest_len.saturating_sub(4);
    }
    if kind == KIND_LEAF {
        let mut value_len = byte(len)?;
        len += 1;
        if flags & record::WIDE_VALUE != 0 {
            value_len |= byte(len)? << 8;
            len += 1;
        }
        len += value_len + weight_bytes;
    }
    len += tail_len;
    (at + len <= page.len()).then_some(len)
}

/// Checks what the lengths do not show. The record lies in the page.
fn check_record(unit: &[u8], page: &PageRef<'_>, position: usize, at: usize) -> Result<(), String> {
    let flags = unit[at];
    let leaf = page.is_leaf();
    let known = record::STATE | record::WIDE_KEY | record::WIDE_VALUE | record::KEY_OUT | record::VALUE_OUT;
    let inner_known = record::WIDE_KEY | record::KEY_OUT;
    if flags & !(if leaf { known } else { inner_known }) != 0 || flags & record::STATE > record::TOMBSTONE {
        return Err(format!("entry {position} has unknown flags {flags:#x}"));
    }
    if flags & record::KEY_OUT != 0 {
        if page.flags() & flag::ON_DISK == 0 {
            return Ok(());
        }
        // The handle follows the lengths and weights; find it like the reader does. `record_len` has shown it to be in
        // the page.
        let mut handle_at = at + 1;
        if leaf {
            handle_at += 1 + usize::from(flags & record::WIDE_VALUE != 0) + page.weight_bytes();
        }
        let handle = unit[handle_at..handle_at + record::HANDLE_BYTES].try_into().expect("eight bytes");
        let handle = u64::from_le_bytes(handle);
        let (offset, len) = ((handle & 0xffff_ffff) as usize, (handle >> 32) as usize);
        if offset.checked_add(len).is_none_or(|end| end > unit.len()) || len < page.prefix_len() {
            return Err(format!("the long key of entry {position} does not lie in the unit"));
        }
        let key = &unit[offset..offset + len];
        if !key.starts_with(page.prefix()) || super::head_of(&key[page.prefix_len()..]) != page.head(position) {
            return Err(format!("the long key of entry {position} is not what its head says"));
        }
        return Ok(());
    }
    let found = page.record(position);
    if found.rest_len < 4 {
        let head = page.head(position).to_be_bytes();
        if head[found.rest_len..].iter().any(|&byte| byte != 0) {
            return Err(format!("the head of entry {position} is longer than its key"));
        }
    }
    if leaf && found.value_is_out() && page.flags() & flag::ON_DISK == 0 && found.value.len() != record::HANDLE_BYTES {
        return Err(format!("entry {position} has a handle of {} bytes", found.value.len()));
    }
    Ok(())
}
