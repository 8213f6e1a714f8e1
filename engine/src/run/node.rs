//! An inner page of a run: separators, and for each child where it is and the sums of all entries before it, in columns of as few bits as they need.
//!
//! ```text
//! | header 16 | prefix, padded to 8 | columns, 16 each | heads u32[n - 1] | ends u16|u32 [n - 1] | packed columns | rests | zeros |
//! ```
//!
//! Invariants (checked by [`NodeRef::new`]):
//! 1. `n` children, at least one, and `n - 1` separators between them, strictly ascending. A key belongs to the child whose number is that of the
//!    separators not above it.
//! 2. A separator is the prefix and its rest. `heads[i]` is the first four bytes of the rest, as in `page`. If `SHORT` is set all rests have four bytes and
//!    there is nothing more of them; else `ends[i]` says where the rest ends among the rests, which stand one behind the other.
//! 3. Item `i` of a column is its base plus the `i`-th number of `width` bits, modulo 2^64. The last column, of checksums, has the base 0 and 32 bits.
//!
//! Costs: a search is one over heads, and of equal heads one over rests; an item of a column is one read of eight bytes. Of a bottom run that counts rows only, with
//! pages of 8 KiB and short separators, a child takes some 14 bytes.
//! Not here: what columns mean (`columns`), when a node is written (`writer`).

use super::format::{u32_at, u64_at};
use crate::page::{KeyBuffer, PREFIX_MAX, common_prefix_len, head_of, padded};

/// The first byte; a leaf has another one (`page`).
pub(super) const KIND: u8 = 3;
/// All rests have four bytes: they are their heads.
const SHORT: u8 = 1;
/// Ends have four bytes, not two.
const WIDE: u8 = 2;

const HEADER_BYTES: usize = 16;
const PREFIX_LEN_AT: usize = 2;
const LEVEL_AT: usize = 4;
const COLUMNS_AT: usize = 5;
const RESERVED_AT: usize = 6;
const COUNT_AT: usize = 8;
const RESTS_AT: usize = 12;

const COLUMN_BYTES: usize = 16;
const COLUMN_DATA_AT: usize = 8;
const COLUMN_WIDTH_AT: usize = 12;
/// Reading an item reads eight bytes from where it begins.
const SLACK_BYTES: usize = 8;
/// Numbers of more bits are not read at once unless they have all 64.
const WIDTH_MAX: u32 = 56;
/// Bits of an item of the last column.
const CHECKSUM_BITS: u32 = 32;

/// An inner page whose bytes have been checked.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    bytes: &'a [u8],
    count: usize,
    prefix_len: usize,
    columns_at: usize,
    heads_at: usize,
    ends_at: usize,
    rests_at: usize,
    flags: u8,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

impl<'a> NodeRef<'a> {
    /// The page that `bytes` are, with so many columns; else what is wrong with them.
    pub(super) fn new(bytes: &'a [u8], columns: usize) -> Result<NodeRef<'a>, String> {
        if bytes.len() < HEADER_BYTES + SLACK_BYTES || bytes[0] != KIND {
            return Err("not an inner page".into());
        }
        let node = NodeRef::unchecked(bytes);
        if node.flags & !(SHORT | WIDE) != 0 || node.flags == SHORT | WIDE || u16_at(bytes, RESERVED_AT) != 0 {
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
        let zeros = &bytes[HEADER_BYTES + node.prefix_len..node.columns_at];
        if zeros.iter().any(|&byte| byte != 0) {
            return Err("the prefix is not followed by zeros".into());
        }
        node.check_columns(columns)?;
        node.check_separators()?;
        Ok(node)
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
                return Err(format!("column {column} goes on behind its end"));
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
    pub(super) fn unchecked(bytes: &'a [u8]) -> NodeRef<'a> {
        let (count, prefix_len) = (u32_at(bytes, COUNT_AT) as usize, u16_at(bytes, PREFIX_LEN_AT));
        let columns_at = HEADER_BYTES + padded(prefix_len);
        let heads_at = columns_at + COLUMN_BYTES * usize::from(bytes[COLUMNS_AT]);
        NodeRef {
            bytes,
            count,
            prefix_len,
            columns_at,
            heads_at,
            ends_at: heads_at + 4 * count.saturating_sub(1),
            rests_at: u32_at(bytes, RESTS_AT) as usize,
            flags: bytes[1],
        }
    }

    /// Children.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn level(&self) -> usize {
        usize::from(self.bytes[LEVEL_AT])
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

    /// The rest of a separator, of a page whose rests are there.
    fn rest(&self, position: usize) -> &'a [u8] {
        let start = if position == 0 { 0 } else { self.end(position - 1) };
        &self.bytes[self.rests_at + start..self.rests_at + self.end(position)]
    }

    fn prefix(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.prefix_len]
    }

    /// The separator before child `position`, which is not the first.
    pub(super) fn separator(&self, position: usize) -> KeyBuffer {
        let mut key = KeyBuffer::from_slice(self.prefix());
        if self.flags & SHORT != 0 {
            key.extend_from_slice(&self.head(position - 1).to_be_bytes());
        } else {
            key.extend_from_slice(self.rest(position - 1));
        }
        key
    }

    /// The child that `key` belongs to: how many separators are not above it.
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        let prefix = self.prefix();
        if !key.starts_with(prefix) {
            return if key < prefix { 0 } else { self.separators() };
        }
        let rest = &key[self.prefix_len..];
        let head = head_of(rest);
        let below = partition(0, self.separators(), |position| self.head(position) < head);
        if below == self.separators() || self.head(below) != head {
            return below;
        }
        if self.flags & SHORT != 0 {
            // A shorter key is below the separator that it is the start of.
            return below + usize::from(rest.len() >= 4);
        }
        let through = partition(below, self.separators(), |position| self.head(position) <= head);
        partition(below, through, |position| self.rest(position) <= rest)
    }

    /// Item `position` of a column.
    #[inline]
    pub(super) fn item(&self, column: usize, position: usize) -> u64 {
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
    pub(super) fn checksum_at(&self, position: usize) -> usize {
        let at = self.columns_at + COLUMN_BYTES * (usize::from(self.bytes[COLUMNS_AT]) - 1);
        u32_at(self.bytes, at + COLUMN_DATA_AT) as usize + 4 * position
    }

    /// What stands in the page, part by part: how many bytes, and what they are. For pages of documentation.
    #[cfg(test)]
    pub(super) fn parts(&self, columns: &[&str]) -> Vec<(usize, String)> {
        let (count, separators) = (self.count, self.separators());
        let mut parts = vec![
            (1, "kind: a node".to_owned()),
            (1, format!("flags {:#x}", self.flags)),
            (2, format!("prefix of {} bytes", self.prefix_len)),
            (1, format!("level {}", self.level())),
            (1, format!("{} columns", columns.len())),
            (2, "reserved".to_owned()),
            (4, format!("{count} children")),
            (4, format!("rests from {:#x}", self.rests_at)),
            (padded(self.prefix_len), "prefix, padded".to_owned()),
        ];
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

    /// How many items of a column satisfy `before`, all at its start.
    pub(super) fn items_before(&self, column: usize, before: impl Fn(u64) -> bool) -> usize {
        partition(0, self.count, |position| before(self.item(column, position)))
    }
}

fn partition(mut low: usize, mut high: usize, before: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// An inner page under construction: children are collected, and the bytes they will take are known at each step.
pub(super) struct NodeBuilder {
    level: usize,
    columns: usize,
    /// `columns` items a child.
    items: Vec<u64>,
    /// Separators one behind the other, each with what may follow.
    separators: Vec<u8>,
    bounds: Vec<Bounds>,
    /// Of each column the least and the greatest item, as the signed numbers that they are.
    ranges: Vec<(i64, i64)>,
    shared_len: usize,
    /// Bytes of the separators, none lengthened.
    shortest_bytes: usize,
    /// The longest of the separators, and the shortest of the keys that they may be lengthened to.
    separator_len_max: usize,
    whole_len_min: usize,
}

/// Where a separator and what may follow it stand.
#[derive(Clone, Copy)]
struct Bounds {
    start: usize,
    end: usize,
    whole_end: usize,
}

/// A separator: the shortest there can be, and the key that it is the start of. Any length between the two parts the same keys.
#[derive(Clone, Copy)]
pub(super) struct Separator<'k> {
    key: &'k [u8],
    len: usize,
}

impl<'k> Separator<'k> {
    /// The first `len` bytes of `key`, or more of them.
    pub(super) fn new(key: &'k [u8], len: usize) -> Separator<'k> {
        Separator { key: &key[..key.len().min(len + HEAD_LEN)], len }
    }

    /// All that there is to know of it, as bytes and a length.
    pub(super) fn to_owned(self) -> (Vec<u8>, usize) {
        (self.key.to_vec(), self.len)
    }

    fn shortest(&self) -> &'k [u8] {
        &self.key[..self.len]
    }
}

/// Bytes of a head.
const HEAD_LEN: usize = 4;

impl NodeBuilder {
    pub(super) fn new(level: usize, columns: usize) -> NodeBuilder {
        let mut ranges = vec![(i64::MAX, i64::MIN); columns];
        ranges[columns - 1] = (0, i64::from(u32::MAX));
        NodeBuilder {
            level,
            columns,
            items: Vec::new(),
            separators: Vec::new(),
            bounds: Vec::new(),
            ranges,
            shared_len: 0,
            shortest_bytes: 0,
            separator_len_max: 0,
            whole_len_min: usize::MAX,
        }
    }

    /// Children so far.
    pub(super) fn count(&self) -> usize {
        self.items.len() / self.columns
    }

    /// Item `position` of a column.
    pub(super) fn item(&self, column: usize, position: usize) -> u64 {
        self.items[position * self.columns + column]
    }

    fn first_separator(&self) -> &[u8] {
        self.bounds.first().map_or(&[], |bounds| &self.separators[..bounds.end])
    }

    fn shared_with(&self, separator: &[u8]) -> usize {
        match self.bounds.is_empty() {
            true => separator.len(),
            false => common_prefix_len(&self.first_separator()[..self.shared_len], separator),
        }
    }

    /// Appends a child, with the separator before it unless it is the first.
    pub(super) fn push(&mut self, separator: Option<Separator<'_>>, items: &[u64]) {
        assert_eq!(items.len(), self.columns);
        assert_eq!(separator.is_none(), self.items.is_empty(), "separators stand between children");
        if let Some(separator) = separator {
            self.shared_len = self.shared_with(separator.shortest());
            self.shortest_bytes += separator.len;
            self.separator_len_max = self.separator_len_max.max(separator.len);
            self.whole_len_min = self.whole_len_min.min(separator.key.len());
            let start = self.separators.len();
            self.separators.extend_from_slice(separator.key);
            self.bounds.push(Bounds { start, end: start + separator.len, whole_end: self.separators.len() });
        }
        self.items.extend_from_slice(items);
        for (range, &item) in self.ranges.iter_mut().zip(items) {
            *range = (range.0.min(item as i64), range.1.max(item as i64));
        }
    }

    /// Whether all rests can have the length of a head, under a prefix of `prefix_len`.
    fn is_short(prefix_len: usize, separator_len_max: usize, whole_len_min: usize) -> bool {
        separator_len_max <= prefix_len + HEAD_LEN && whole_len_min >= prefix_len + HEAD_LEN
    }

    /// Whether a page of `page_bytes` has room for one more child with this separator, whatever its items are up to `items`.
    pub(super) fn fits(&self, separator: Separator<'_>, items: &[u64], page_bytes: usize) -> bool {
        let count = self.count() + 1;
        let prefix_len = self.shared_with(separator.shortest()).min(PREFIX_MAX);
        let separator_len_max = self.separator_len_max.max(separator.len);
        let is_short = Self::is_short(prefix_len, separator_len_max, self.whole_len_min.min(separator.key.len()));
        let packed: usize = self
            .ranges
            .iter()
            .zip(items)
            .map(|(range, &item)| packed_bytes(count, width_of(range.0.min(item as i64), range.1.max(item as i64))))
            .sum();
        let separators = count - 1;
        let separator_bytes =
            if is_short { 0 } else { self.shortest_bytes + separator.len - separators * prefix_len + 4 * separators };
        self.fixed_bytes(prefix_len, count) + packed + separator_bytes + SLACK_BYTES <= page_bytes
    }

    fn fixed_bytes(&self, prefix_len: usize, count: usize) -> usize {
        HEADER_BYTES + padded(prefix_len) + COLUMN_BYTES * self.columns + 4 * (count - 1)
    }

    /// Writes the page to the end of `out`, which is empty, and begins another one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let count = self.count();
        let separators = count - 1;
        // A page of one separator would have all of it as prefix, and that is well: nothing is ever added.
        let prefix_len = if separators == 0 { 0 } else { self.shared_len.min(PREFIX_MAX) };
        let is_short = separators > 0 && Self::is_short(prefix_len, self.separator_len_max, self.whole_len_min);
        let rests = |number: usize| {
            let Bounds { start, end, whole_end } = self.bounds[number];
            let start = start + prefix_len;
            let end = if is_short { (start + HEAD_LEN).min(whole_end) } else { end };
            &self.separators[start..end]
        };
        let is_wide = !is_short && self.shortest_bytes - separators * prefix_len > usize::from(u16::MAX);
        let widths: Vec<u32> = self.ranges.iter().map(|range| width_of(range.0, range.1)).collect();
        let end_bytes = if is_short {
            0
        } else if is_wide {
            4
        } else {
            2
        };
        let mut data_at = self.fixed_bytes(prefix_len, count) + end_bytes * separators;
        let rests_at = data_at + widths.iter().map(|&width| packed_bytes(count, width)).sum::<usize>();
        out.extend_from_slice(&[KIND, (u8::from(is_short) * SHORT) | (u8::from(is_wide) * WIDE)]);
        out.extend_from_slice(&(prefix_len as u16).to_le_bytes());
        out.extend_from_slice(&[self.level as u8, self.columns as u8, 0, 0]);
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&(rests_at as u32).to_le_bytes());
        out.extend_from_slice(&self.first_separator()[..prefix_len]);
        out.resize(HEADER_BYTES + padded(prefix_len), 0);
        for (range, &width) in self.ranges.iter().zip(&widths) {
            out.extend_from_slice(&range.0.to_le_bytes());
            out.extend_from_slice(&(data_at as u32).to_le_bytes());
            out.extend_from_slice(&[width as u8, 0, 0, 0]);
            data_at += packed_bytes(count, width);
        }
        for number in 0..separators {
            out.extend_from_slice(&head_of(rests(number)).to_le_bytes());
        }
        let mut end = 0;
        for number in 0..separators {
            end += rests(number).len();
            out.extend_from_slice(&(end as u32).to_le_bytes()[..end_bytes]);
        }
        for (column, (range, &width)) in self.ranges.iter().zip(&widths).enumerate() {
            pack(out, width, (0..count).map(|child| self.item(column, child).wrapping_sub(range.0 as u64)));
        }
        debug_assert_eq!(out.len(), rests_at);
        if !is_short {
            (0..separators).for_each(|number| out.extend_from_slice(rests(number)));
        }
        out.resize((out.len() + SLACK_BYTES).next_multiple_of(8), 0);
        *self = NodeBuilder::new(self.level, self.columns);
    }
}

/// Bits for numbers from `least` to `greatest`, counted from `least`.
fn width_of(least: i64, greatest: i64) -> u32 {
    let span = greatest.wrapping_sub(least) as u64;
    let width = u64::BITS - span.leading_zeros();
    if width > WIDTH_MAX { 64 } else { width }
}

/// Appends numbers of `width` bits each, from the lowest bit of each byte on.
fn pack(out: &mut Vec<u8>, width: u32, numbers: impl Iterator<Item = u64>) {
    let (mut word, mut bits) = (0u128, 0);
    for number in numbers {
        word |= u128::from(number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(word as u8);
            word >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(word as u8);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a node gives back what was put in, in both forms, finds the child of any key, and its checker refuses every changed byte that matters.
    //! Method: random separators and items at several shapes against vectors; all single-byte changes.
    //! Replay: SEED=... cargo test -p quipu run::node

    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    fn random_node(rng: &mut StdRng) -> (Vec<Vec<u8>>, Vec<Vec<u64>>, Vec<u8>) {
        let columns = rng.random_range(1..6);
        let count = rng.random_range(1..60);
        let shape = rng.random_range(0..4);
        let mut separators = BTreeSet::new();
        while separators.len() < count - 1 {
            let number: u32 = rng.random();
            separators.insert(match shape {
                0 => number.to_be_bytes().to_vec(),
                1 => format!("customer/{number:010}").into_bytes(),
                2 => vec![[0, 1, b'a', 255][rng.random_range(0..4)]; rng.random_range(0..30)],
                _ => [vec![b'x'; rng.random_range(0..2000)], number.to_be_bytes().to_vec()].concat(),
            });
        }
        let separators: Vec<Vec<u8>> = separators.into_iter().collect();
        let mut widths: Vec<u32> = (0..columns).map(|_| rng.random_range(0..65)).collect();
        widths[columns - 1] = CHECKSUM_BITS;
        let mut builder = NodeBuilder::new(2, columns);
        let mut items = Vec::new();
        for child in 0..count {
            let row: Vec<u64> =
                widths.iter().map(|&width| if width == 0 { 7 } else { rng.random::<u64>() >> (64 - width) }).collect();
            // Each may be lengthened by what lies below the next one.
            let whole = |before: usize| [&separators[before][..], &[0; 9]].concat();
            let next_is_above = |before: usize| separators.get(before + 1).is_none_or(|next| *next > whole(before));
            match child.checked_sub(1) {
                None => builder.push(None, &row),
                Some(before) => {
                    let key = if next_is_above(before) { whole(before) } else { separators[before].clone() };
                    builder.push(Some(Separator::new(&key, separators[before].len())), &row);
                }
            }
            items.push(row);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        (separators, items, bytes)
    }

    #[test]
    fn equals_vectors() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..400 {
            let (separators, items, bytes) = random_node(&mut rng);
            let columns = items[0].len();
            let node = NodeRef::new(&bytes, columns).unwrap();
            assert_eq!((node.count(), node.level()), (items.len(), 2));
            for (child, row) in items.iter().enumerate() {
                let found: Vec<u64> = (0..columns).map(|column| node.item(column, child)).collect();
                assert_eq!(found, *row);
            }
            // Those of the page may be longer, and part the same keys: all but those between the two.
            let stored: Vec<Vec<u8>> = (1..items.len()).map(|child| node.separator(child).to_vec()).collect();
            for (separator, stored) in separators.iter().zip(&stored) {
                assert!(stored.starts_with(separator) && stored[separator.len()..].iter().all(|&byte| byte == 0));
            }
            let separators = stored;
            let mut asked: Vec<Vec<u8>> = separators.clone();
            asked.extend(separators.iter().map(|key| [&key[..], &[0]].concat()));
            asked.extend(separators.iter().filter(|key| !key.is_empty()).map(|key| key[..key.len() - 1].to_vec()));
            asked.extend([vec![], vec![255; 40]]);
            for key in asked {
                assert_eq!(node.child_of(&key), separators.iter().filter(|separator| **separator <= key).count());
            }
        }
    }

    #[test]
    fn fits_what_it_says_fits() {
        let mut rng = StdRng::seed_from_u64(2);
        for page_bytes in [256, 1024, 8192] {
            let mut builder = NodeBuilder::new(1, 4);
            let mut offset = 0u64;
            for number in 0u32..3000 {
                offset += rng.random_range(1..1000);
                let items = [offset, u64::from(number) * 100, 8192, u64::from(rng.random::<u32>())];
                let separator = format!("order/{number:06}");
                let separator = Separator::new(separator.as_bytes(), separator.len());
                if builder.count() > 1 && !builder.fits(separator, &items, page_bytes) {
                    let mut bytes = Vec::new();
                    builder.finish(&mut bytes);
                    assert!(bytes.len() <= page_bytes, "{} of {page_bytes}", bytes.len());
                    NodeRef::new(&bytes, 4).unwrap();
                }
                builder.push((builder.count() > 0).then_some(separator), &items);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_harmless() {
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..30 {
            let (_, items, mut bytes) = random_node(&mut rng);
            for at in 0..bytes.len().min(600) {
                let before = bytes[at];
                bytes[at] ^= 1 << rng.random_range(0..8);
                // Whatever is accepted can be read: checksums find the rest.
                if let Ok(node) = NodeRef::new(&bytes, items[0].len()) {
                    for child in 0..node.count() {
                        (0..items[0].len()).for_each(|column| _ = node.item(column, child));
                        assert!(child == 0 || node.child_of(&node.separator(child)) == child);
                    }
                }
                bytes[at] = before;
            }
            for cut in 0..bytes.len().min(200) {
                assert!(NodeRef::new(&bytes[..bytes.len() - 1 - cut], items[0].len()).is_err());
            }
        }
    }
}
