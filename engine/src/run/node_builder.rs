//! Builds an inner page of a run: collects children, and knows at each step how many bytes they take.
//!
//! Cost: one copy of each separator and its items; running sums tell whether one more child fits.
//! Not here: when a node is written (`writer`).

use super::node::{COLUMN_BYTES, FILTER_BYTES, HEADER_BYTES, KIND, SHORT, SLACK_BYTES, WIDE, WIDTH_MAX, packed_bytes};
use crate::page::{PREFIX_MAX, common_prefix_len, head_of, padded};

/// An inner page under construction.
pub(super) struct NodeBuilder {
    level: usize,
    columns: usize,
    filters: Vec<Filter>,
    /// `columns` items for each child.
    items: Vec<u64>,
    /// Separators, concatenated, each followed by the bytes that may lengthen it.
    separators: Vec<u8>,
    bounds: Vec<Bounds>,
    /// The least and the greatest item of each column, as signed numbers.
    ranges: Vec<(i64, i64)>,
    shared_len: usize,
    /// Bytes of the separators at their shortest.
    shortest_bytes: usize,
    /// The longest of the separators, and the shortest of the keys that they may be lengthened to.
    separator_len_max: usize,
    whole_len_min: usize,
}

/// A filter that ends before child `until`, and before byte `end` of all filters of the node.
struct Filter {
    until: u32,
    end: u32,
    checksum: u32,
}

/// Where a separator and the bytes that may lengthen it stand.
#[derive(Clone, Copy)]
struct Bounds {
    start: usize,
    end: usize,
    whole_end: usize,
}

/// A separator: the shortest possible one, and the key whose start it is. Any length between the two separates the same
/// keys.
#[derive(Clone, Copy)]
pub(super) struct Separator<'k> {
    key: &'k [u8],
    len: usize,
}

impl<'k> Separator<'k> {
    /// The first `len` bytes of `key`, which may be lengthened by a few more.
    pub(crate) fn new(key: &'k [u8], len: usize) -> Separator<'k> {
        Separator { key: &key[..key.len().min(len + HEAD_LEN)], len }
    }

    /// The separator as owned values: bytes and length.
    pub(crate) fn to_owned(self) -> (Vec<u8>, usize) {
        (self.key.to_vec(), self.len)
    }

    fn shortest(&self) -> &'k [u8] {
        &self.key[..self.len]
    }
}

/// Bytes of a head.
const HEAD_LEN: usize = 4;

impl NodeBuilder {
    pub(crate) fn new(level: usize, columns: usize) -> NodeBuilder {
        let mut ranges = vec![(i64::MAX, i64::MIN); columns];
        ranges[columns - 1] = (0, i64::from(u32::MAX));
        NodeBuilder {
            level,
            columns,
            filters: Vec::new(),
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

    /// The number of children so far.
    pub(crate) fn count(&self) -> usize {
        self.items.len() / self.columns
    }

    /// Item `position` of a column.
    pub(crate) fn item(&self, column: usize, position: usize) -> u64 {
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
    pub(crate) fn push(&mut self, separator: Option<Separator<'_>>, items: &[u64]) {
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

    /// Ends a filter at byte `end` of all filters. It covers all children that no filter covers yet. Does nothing and
    /// returns false if a node cannot have that many.
    pub(super) fn push_filter(&mut self, end: usize, checksum: u32) -> bool {
        let (count, end) = (u32::try_from(self.count()), u32::try_from(end));
        let has_room = self.filters.len() < usize::from(u16::MAX);
        match (count, end) {
            (Ok(until), Ok(end)) if has_room => self.filters.push(Filter { until, end, checksum }),
            _ => return false,
        }
        true
    }

    /// Whether all rests can have the length of a head, under a prefix of `prefix_len`.
    fn is_short(prefix_len: usize, separator_len_max: usize, whole_len_min: usize) -> bool {
        separator_len_max <= prefix_len + HEAD_LEN && whole_len_min >= prefix_len + HEAD_LEN
    }

    /// Whether a page of `page_bytes` has room for one more child with this separator and items of at most `items`.
    pub(crate) fn fits(&self, separator: Separator<'_>, items: &[u64], page_bytes: usize) -> bool {
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
        let filters = FILTER_BYTES * self.filters.len();
        HEADER_BYTES + padded(prefix_len) + filters + COLUMN_BYTES * self.columns + 4 * (count - 1)
    }

    /// Writes the page to the end of `out`, which is empty, and begins another one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let count = self.count();
        let separators = count - 1;
        // A page of one separator would have all of it as prefix, which is fine: nothing is ever added.
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
        out.extend_from_slice(&[self.level as u8, self.columns as u8]);
        out.extend_from_slice(&(self.filters.len() as u16).to_le_bytes());
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&(rests_at as u32).to_le_bytes());
        out.extend_from_slice(&self.first_separator()[..prefix_len]);
        out.resize(HEADER_BYTES + padded(prefix_len), 0);
        for filter in &self.filters {
            [filter.until, filter.end, filter.checksum].iter().for_each(|field| out.extend(field.to_le_bytes()));
        }
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

/// The number of bits for numbers from `least` to `greatest`, counted from `least`.
fn width_of(least: i64, greatest: i64) -> u32 {
    let span = greatest.wrapping_sub(least) as u64;
    let width = u64::BITS - span.leading_zeros();
    if width > WIDTH_MAX { 64 } else { width }
}

/// Appends numbers of `width` bits each, from the lowest bit of each byte up.
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
