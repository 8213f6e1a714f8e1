//! An inner page of a run: separators, and each child's place and preceding sums in packed columns.
//!
//! The columns have as few bits as they need, and the sums are those of all entries before the child.
//!
//! ```text
//! | header 16 | prefix, padded to 8 | filters, 12 each | columns, 16 each | heads u32[n - 1] | ends u16|u32 [n - 1] | packed columns | rests | zeros |
//! ```
//!
//! Invariants (checked by [`NodeRef::new`]):
//! 1. `n` children, at least one, and `n - 1` separators between them, strictly ascending. A key belongs to the child
//!    whose index is the number of separators at or below the key.
//! 2. A separator is the prefix and its rest. `heads[i]` is the first four bytes of the rest, as in `page`. If `SHORT`
//!    is set, all rests have four bytes and nothing more of them is stored; else `ends[i]` says where the rest ends
//!    among the rests, which are concatenated.
//! 3. A filter covers the children from the end of the one before to its own end, at least one; children after the last
//!    filter have none. Only a node over leaves has filters. The length of each is a multiple of eight, possibly zero;
//!    all are concatenated, and end where the node begins.
//! 4. Item `i` of a column is its base plus the `i`-th number of `width` bits, modulo 2^64. The last column, of
//!    checksums, has the base 0 and 32 bits.
//!
//! Cost: a search is one over heads, and one over rests if heads are equal; an item of a column is one read of eight
//! bytes. In a bottom run that counts rows only, with pages of 8 KiB and short separators, a child takes some 14 bytes.
//! Not here: how it is made (`node_builder`), what columns mean (`columns`).

use std::ops::Range;

use super::format::{u32_at, u64_at};
use crate::page::{KeyBuffer, PREFIX_MAX, PageRef, head_of, padded};

/// The first byte; a leaf has another one (`page`).
pub(crate) const KIND: u8 = 3;
/// All rests have four bytes: they are their heads.
pub(super) const SHORT: u8 = 1;
/// Ends have four bytes, not two.
pub(super) const WIDE: u8 = 2;

pub(crate) const HEADER_BYTES: usize = 16;
const PREFIX_LEN_AT: usize = 2;
const LEVEL_AT: usize = 4;
const COLUMNS_AT: usize = 5;
const FILTERS_AT: usize = 6;
const COUNT_AT: usize = 8;
const RESTS_AT: usize = 12;

pub(super) const FILTER_BYTES: usize = 12;
const FILTER_END_AT: usize = 4;
const FILTER_CHECKSUM_AT: usize = 8;

pub(super) const COLUMN_BYTES: usize = 16;
const COLUMN_DATA_AT: usize = 8;
const COLUMN_WIDTH_AT: usize = 12;
/// Reading an item reads eight bytes from where it begins.
pub(super) const SLACK_BYTES: usize = 8;
/// Numbers of more bits cannot be read at once, except those of 64.
pub(super) const WIDTH_MAX: u32 = 56;
/// Bits of an item of the last column.
pub(super) const CHECKSUM_BITS: u32 = 32;

/// An inner page whose bytes have been checked.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    bytes: &'a [u8],
    count: usize,
    prefix_len: usize,
    filters: usize,
    columns_at: usize,
    heads_at: usize,
    ends_at: usize,
    rests_at: usize,
    flags: u8,
}

/// A filter: the children it covers, its place among the bytes of all filters of the node, and its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterPart {
    pub(crate) children: Range<usize>,
    pub(crate) bytes: Range<u32>,
    pub(crate) checksum: u32,
}

/// A search in progress: the child is one from `low` to `high`.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    low: usize,
    high: usize,
    /// The head of the key; `None` if the prefix has decided the child.
    head: Option<u32>,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

impl<'a> NodeRef<'a> {
    /// The page in `bytes`, with this many columns, or what is wrong with it.
    pub(crate) fn new(bytes: &'a [u8], columns: usize) -> Result<NodeRef<'a>, String> {
        if bytes.len() < HEADER_BYTES + SLACK_BYTES || bytes[0] != KIND {
            return Err("not an inner page".into());
        }
        let node = NodeRef::unchecked(bytes);
        if node.flags & !(SHORT | WIDE) != 0 || node.flags == SHORT | WIDE {
            return Err(format!("flags {:#x}", node.flags));
        }
        if usize::from(bytes[COLUMNS_AT]) != columns {
            return Err(format!("{} columns, not {columns}", bytes[COLUMNS_AT]));
        }
        if node.count == 0 || node.prefix_len > PREFIX_MAX {
            return Err(format!("{} children and a prefix of {} bytes", node.count, node.prefix_len));
        }
        if node.rests_at + SLACK_BYTES > bytes.len() || node.ends_at + node.ends_bytes() > node.rests_at {
            return Err(format!("the separators of {} children do not fit {} bytes", node.count, bytes.len()));
        }
        let zeros = &bytes[HEADER_BYTES + node.prefix_len..node.filters_at()];
        if zeros.iter().any(|&byte| byte != 0) {
            return Err("the prefix is not followed by zeros".into());
        }
        node.check_filters()?;
        node.check_columns(columns)?;
        node.check_separators()?;
        Ok(node)
    }

    fn check_filters(&self) -> Result<(), String> {
        if self.filters > 0 && self.level() != 1 {
            return Err(format!("{} filters in a page of level {}", self.filters, self.level()));
        }
        for number in 0..self.filters {
            let FilterPart { children, bytes, .. } = self.filter(number);
            let is_some = children.start < children.end && children.end <= self.count;
            if !is_some || bytes.start > bytes.end || !bytes.end.is_multiple_of(8) {
                return Err(format!("filter {number} is of children {children:?} and has bytes {bytes:?}"));
            }
        }
        Ok(())
    }

    fn check_columns(&self, columns: usize) -> Result<(), String> {
        let mut end = self.ends_at + self.ends_bytes();
        for column in 0..columns {
            let at = self.columns_at + COLUMN_BYTES * column;
            let (data_at, width) = (u32_at(self.bytes, at + COLUMN_DATA_AT) as usize, self.width(column));
            if width > WIDTH_MAX && width != 64 || self.bytes[at + COLUMN_WIDTH_AT + 1..at + COLUMN_BYTES] != [0; 3] {
                return Err(format!("column {column} has numbers of {width} bits"));
            }
            if data_at != end {
                return Err(format!("column {column} begins at {data_at}, not at {end}"));
            }
            end += packed_bytes(self.count, width);
            if end > self.rests_at {
                return Err(format!("column {column} does not end before the separators"));
            }
            if column + 1 == columns && (width, u64_at(self.bytes, at)) != (CHECKSUM_BITS, 0) {
                return Err("checksums have not 32 bits".into());
            }
            let spare_bits = 8 * packed_bytes(self.count, width) - self.count * width as usize;
            if spare_bits > 0 && self.bytes[end - 1] >> (8 - spare_bits) != 0 {
                return Err(format!("column {column} goes on past its end"));
            }
        }
        if end != self.rests_at {
            return Err("something stands between columns and separators".into());
        }
        Ok(())
    }

    fn check_separators(&self) -> Result<(), String> {
        let mut end = 0;
        for position in 0..self.separators() {
            let rest_end = self.end(position);
            if self.flags & SHORT == 0 {
                if rest_end < end || self.rests_at + rest_end + SLACK_BYTES > self.bytes.len() {
                    return Err(format!("separator {position} does not end in the page"));
                }
                let rest = &self.bytes[self.rests_at + end..self.rests_at + rest_end];
                if head_of(rest) != self.head(position) {
                    return Err(format!("the head of separator {position} is not that of its key"));
                }
            }
            end = rest_end;
            if position > 0 && self.compare_rests(position - 1, position) != std::cmp::Ordering::Less {
                return Err(format!("separator {position} is not above the one before"));
            }
        }
        let used = self.rests_at + if self.flags & SHORT != 0 { 0 } else { end };
        if (used + SLACK_BYTES).next_multiple_of(8) != self.bytes.len()
            || self.bytes[used..].iter().any(|&byte| byte != 0)
        {
            return Err(format!("the page ends at {used} of {}", self.bytes.len()));
        }
        Ok(())
    }

    fn compare_rests(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let heads = self.head(a).cmp(&self.head(b));
        if self.flags & SHORT != 0 { heads } else { heads.then_with(|| self.rest(a).cmp(self.rest(b))) }
    }

    /// A page that has been checked before.
    pub(crate) fn unchecked(bytes: &'a [u8]) -> NodeRef<'a> {
        let (count, prefix_len) = (u32_at(bytes, COUNT_AT) as usize, u16_at(bytes, PREFIX_LEN_AT));
        let filters = u16_at(bytes, FILTERS_AT);
        let columns_at = HEADER_BYTES + padded(prefix_len) + FILTER_BYTES * filters;
        let heads_at = columns_at + COLUMN_BYTES * usize::from(bytes[COLUMNS_AT]);
        NodeRef {
            bytes,
            count,
            prefix_len,
            filters,
            columns_at,
            heads_at,
            ends_at: heads_at + 4 * count.saturating_sub(1),
            rests_at: u32_at(bytes, RESTS_AT) as usize,
            flags: bytes[1],
        }
    }

    /// The number of children.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn level(&self) -> usize {
        usize::from(self.bytes[LEVEL_AT])
    }

    /// The number of filters over its children.
    pub(crate) fn filters(&self) -> usize {
        self.filters
    }

    fn filters_at(&self) -> usize {
        HEADER_BYTES + padded(self.prefix_len)
    }

    /// Filter `number`.
    pub(crate) fn filter(&self, number: usize) -> FilterPart {
        let at = self.filters_at() + FILTER_BYTES * number;
        // Where the one before ends.
        let start = |field: usize| if number == 0 { 0 } else { u32_at(self.bytes, at - FILTER_BYTES + field) };
        FilterPart {
            children: start(0) as usize..self.filter_until(number),
            bytes: start(FILTER_END_AT)..u32_at(self.bytes, at + FILTER_END_AT),
            checksum: u32_at(self.bytes, at + FILTER_CHECKSUM_AT),
        }
    }

    fn filter_until(&self, number: usize) -> usize {
        u32_at(self.bytes, self.filters_at() + FILTER_BYTES * number) as usize
    }

    /// The filter over a child.
    pub(crate) fn filter_of(&self, position: usize) -> Option<FilterPart> {
        let number = partition(0, self.filters, |number| self.filter_until(number) <= position);
        (number < self.filters).then(|| self.filter(number))
    }

    /// Bytes of all filters, which end where the node begins.
    pub(crate) fn filter_bytes(&self) -> u32 {
        self.filters.checked_sub(1).map_or(0, |last| self.filter(last).bytes.end)
    }

    fn separators(&self) -> usize {
        self.count - 1
    }

    fn ends_bytes(&self) -> usize {
        let each = if self.flags & SHORT != 0 {
            0
        } else if self.flags & WIDE != 0 {
            4
        } else {
            2
        };
        each * self.separators()
    }

    fn width(&self, column: usize) -> u32 {
        u32::from(self.bytes[self.columns_at + COLUMN_BYTES * column + COLUMN_WIDTH_AT])
    }

    #[inline]
    fn head(&self, position: usize) -> u32 {
        u32_at(self.bytes, self.heads_at + 4 * position)
    }

    /// Where the rest of a separator ends among the rests.
    fn end(&self, position: usize) -> usize {
        if self.flags & SHORT != 0 {
            0
        } else if self.flags & WIDE != 0 {
            u32_at(self.bytes, self.ends_at + 4 * position) as usize
        } else {
            u16_at(self.bytes, self.ends_at + 2 * position)
        }
    }

    /// The rest of a separator, in a page that stores rests.
    fn rest(&self, position: usize) -> &'a [u8] {
        let start = if position == 0 { 0 } else { self.end(position - 1) };
        &self.bytes[self.rests_at + start..self.rests_at + self.end(position)]
    }

    fn prefix(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.prefix_len]
    }

    /// The separator before child `position`, which is not the first.
    pub(crate) fn separator(&self, position: usize) -> KeyBuffer {
        let mut key = KeyBuffer::from_slice(self.prefix());
        if self.flags & SHORT != 0 {
            key.extend_from_slice(&self.head(position - 1).to_be_bytes());
        } else {
            key.extend_from_slice(self.rest(position - 1));
        }
        key
    }

    /// The child that `key` belongs to: the number of separators at or below it.
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        let mut search = self.search(key);
        if let Some(head) = search.head {
            search.low = partition(search.low, search.high, |position| self.head(position) < head);
        }
        self.found(&search, key)
    }

    /// Begins a search for the child that `key` belongs to.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Search {
        let prefix = self.prefix();
        if !key.starts_with(prefix) {
            let child = if key < prefix { 0 } else { self.separators() };
            return Search { low: child, high: child, head: None };
        }
        Search { low: 0, high: self.separators(), head: Some(head_of(&key[self.prefix_len..])) }
    }

    /// Halves a search; false if it was over.
    #[inline]
    pub(crate) fn narrow(&self, search: &mut Search) -> bool {
        let Search { low, high, head: Some(head) } = *search else { return false };
        if low < high {
            (search.low, search.high) = halve(low, high, |position| self.head(position) < head);
        }
        low < high
    }

    /// Fetches what the next step of a search reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, search: &Search) {
        let middle = middle(search.low, search.high);
        PageRef::prefetch_at(self.bytes.as_ptr().wrapping_add(self.heads_at + 4 * middle), 1);
    }

    /// The result of a finished search for `key`.
    #[inline]
    pub(crate) fn found(&self, search: &Search, key: &[u8]) -> usize {
        let below = search.low;
        let Some(head) = search.head else { return below };
        if below == self.separators() || self.head(below) != head {
            return below;
        }
        let rest = &key[self.prefix_len..];
        if self.flags & SHORT != 0 {
            // A key that is a proper start of the separator is below it.
            return below + usize::from(rest.len() >= 4);
        }
        let through = partition(below, self.separators(), |position| self.head(position) <= head);
        partition(below, through, |position| self.rest(position) <= rest)
    }

    /// Fetches an item of a column into the processor's cache.
    #[inline]
    pub(super) fn prefetch_item(&self, column: usize, position: usize) {
        let at = self.columns_at + COLUMN_BYTES * column;
        let data_at = u32_at(self.bytes, at + COLUMN_DATA_AT) as usize;
        let bit = position * usize::from(self.bytes[at + COLUMN_WIDTH_AT]);
        PageRef::prefetch_at(self.bytes.as_ptr().wrapping_add(data_at + bit / 8), 1);
    }

    /// Item `position` of a column.
    #[inline]
    pub(crate) fn item(&self, column: usize, position: usize) -> u64 {
        let at = self.columns_at + COLUMN_BYTES * column;
        let (base, data_at) = (u64_at(self.bytes, at), u32_at(self.bytes, at + COLUMN_DATA_AT) as usize);
        let width = u32::from(self.bytes[at + COLUMN_WIDTH_AT]);
        if width == 0 {
            return base;
        }
        let bit = position * width as usize;
        let word = u64_at(self.bytes, data_at + bit / 8);
        base.wrapping_add(word >> (bit % 8) & (u64::MAX >> (64 - width)))
    }

    /// Where the item of the last column stands in the page: for tests that forge pages.
    #[cfg(test)]
    pub(crate) fn checksum_at(&self, position: usize) -> usize {
        let at = self.columns_at + COLUMN_BYTES * (usize::from(self.bytes[COLUMNS_AT]) - 1);
        u32_at(self.bytes, at + COLUMN_DATA_AT) as usize + 4 * position
    }

    /// Where the checksum of a filter stands in the page: for tests that forge filters.
    #[cfg(test)]
    pub(crate) fn filter_checksum_at(&self, number: usize) -> usize {
        self.filters_at() + FILTER_BYTES * number + FILTER_CHECKSUM_AT
    }

    /// The parts of the page: their bytes and their meaning. For pages of documentation.
    #[cfg(test)]
    pub(crate) fn parts(&self, columns: &[&str]) -> Vec<(usize, String)> {
        let (count, separators) = (self.count, self.separators());
        let mut parts = vec![
            (1, "kind: a node".to_owned()),
            (1, format!("flags {:#x}", self.flags)),
            (2, format!("prefix of {} bytes", self.prefix_len)),
            (1, format!("level {}", self.level())),
            (1, format!("{} columns", columns.len())),
            (2, format!("filters: {}", self.filters)),
            (4, format!("{count} children")),
            (4, format!("rests from {:#x}", self.rests_at)),
            (padded(self.prefix_len), "prefix, padded".to_owned()),
        ];
        for number in 0..self.filters {
            let FilterPart { children, bytes, .. } = self.filter(number);
            let what = format!("filter before child {}: ends at byte {}, crc32c", children.end, bytes.end);
            parts.push((FILTER_BYTES, what));
        }
        for (column, name) in columns.iter().enumerate() {
            parts.push((COLUMN_BYTES, format!("{name}: base, place, {} bits", self.width(column))));
        }
        parts.push((4 * separators, "heads, as native numbers".to_owned()));
        parts.push((self.ends_bytes(), "ends".to_owned()));
        for (column, name) in columns.iter().enumerate() {
            parts.push((packed_bytes(count, self.width(column)), (*name).to_owned()));
        }
        if self.flags & SHORT == 0 {
            parts.extend((0..separators).map(|number| {
                let rest = self.rest(number);
                (rest.len(), format!("rest of \"{}\"", self.separator(number + 1).escape_ascii()))
            }));
        }
        let used: usize = parts.iter().map(|part| part.0).sum();
        parts.push((self.bytes.len() - used, "zeros".to_owned()));
        parts
    }

    /// How many items of a column satisfy `before`. All of them stand at its start.
    pub(super) fn items_before(&self, column: usize, before: impl Fn(u64) -> bool) -> usize {
        partition(0, self.count, |position| before(self.item(column, position)))
    }
}

fn partition(mut low: usize, mut high: usize, before: impl Fn(usize) -> bool) -> usize {
    while low < high {
        (low, high) = halve(low, high, &before);
    }
    low
}

/// A step of a binary search.
#[inline(always)]
fn halve(low: usize, high: usize, before: impl Fn(usize) -> bool) -> (usize, usize) {
    let middle = middle(low, high);
    if before(middle) { (middle + 1, high) } else { (low, middle) }
}

/// Where the next step looks.
#[inline(always)]
fn middle(low: usize, high: usize) -> usize {
    low + (high - low) / 2
}

/// Bytes of `count` numbers of `width` bits.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}
