//! The columns of an inner page: for each child, the sums of all entries before it and its place.
//!
//! ```text
//! rows, further measures | entries, erased (not in a bottom run) | offset / 8, length / 8, crc32c
//! ```

use super::format::{Pointer, Sums};
use super::node::{FilterPart, NodeRef};
use crate::page::{KeyBuffer, UNIT_ALIGNMENT_BYTES};
use crate::tally::{Measures, Tally};

/// The unit of offsets and lengths, in bytes.
const UNIT: u64 = UNIT_ALIGNMENT_BYTES as u64;

/// The columns of the inner pages of a run.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    measures: Measures,
    is_bottom: bool,
}

impl Columns {
    pub(crate) fn new(measures: Measures, is_bottom: bool) -> Columns {
        Columns { measures, is_bottom }
    }

    pub(crate) fn count(&self) -> usize {
        self.pointer_at() + 3
    }

    fn pointer_at(&self) -> usize {
        self.measures.len() + if self.is_bottom { 0 } else { 2 }
    }

    /// Where child `position` of a checked node is.
    #[inline]
    pub(crate) fn offset(&self, node: &NodeRef<'_>, position: usize) -> u64 {
        node.item(self.pointer_at(), position).wrapping_mul(UNIT)
    }

    /// Rows of all entries of the file before child `position` of a checked node.
    #[inline]
    pub(crate) fn rows_before(&self, node: &NodeRef<'_>, position: usize) -> i64 {
        // The first measure is rows.
        node.item(0, position) as i64
    }

    /// The column of the entries before each child. In a bottom run every entry is a row.
    fn entries_at(&self) -> usize {
        if self.is_bottom { 0 } else { self.measures.len() }
    }

    /// Entries of the file before child `position` of a checked node.
    #[inline]
    pub(crate) fn entries_before(&self, node: &NodeRef<'_>, position: usize) -> i64 {
        node.item(self.entries_at(), position) as i64
    }

    /// Fetches what [`Columns::offset`] reads into the processor's cache.
    #[inline]
    pub(super) fn prefetch_offset(&self, node: &NodeRef<'_>, position: usize) {
        node.prefetch_item(self.pointer_at(), position);
    }

    /// The items of a child.
    pub(crate) fn items(&self, pointer: &Pointer, before: &Sums) -> Vec<u64> {
        let mut items: Vec<u64> =
            (0..self.measures.len()).map(|index| before.tally.measure(&self.measures, index) as u64).collect();
        if !self.is_bottom {
            items.extend([before.entries as u64, before.erased as u64]);
        }
        items.extend([pointer.offset / UNIT, u64::from(pointer.length) / UNIT, u64::from(pointer.checksum)]);
        items
    }
}

/// The level above the parts of a run: an inner page with the parts as children.
pub(crate) struct Top {
    /// For each part, a key above all keys before it and at or below its own; empty for the first.
    pub(crate) lows: Vec<KeyBuffer>,
    /// The sums of all entries before it.
    pub(crate) before: Vec<Sums>,
    pub(crate) level: usize,
}

impl Top {
    /// The part that `key` belongs to.
    pub(super) fn part_of(&self, key: &[u8]) -> usize {
        self.lows[1..].partition_point(|low| **low <= *key)
    }
}

/// An inner page of a run.
pub(crate) enum Inner<'p> {
    Node(NodeRef<'p>, Columns),
    Top(&'p Top),
}

impl Inner<'_> {
    /// The number of children.
    pub(crate) fn count(&self) -> usize {
        match self {
            Inner::Node(node, _) => node.count(),
            Inner::Top(top) => top.lows.len(),
        }
    }

    pub(crate) fn level(&self) -> usize {
        match self {
            Inner::Node(node, _) => node.level(),
            Inner::Top(top) => top.level,
        }
    }

    /// The child that `key` belongs to.
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        match self {
            Inner::Node(node, _) => node.child_of(key),
            Inner::Top(top) => top.part_of(key),
        }
    }

    /// The key that separates child `position`, which is not the first, from the one before.
    pub(crate) fn separator(&self, position: usize) -> KeyBuffer {
        match self {
            Inner::Node(node, _) => node.separator(position),
            Inner::Top(top) => top.lows[position].clone(),
        }
    }

    /// The sums of all entries before child `position`, from the start of the file; at the top, of the run.
    pub(crate) fn before(&self, position: usize) -> Sums {
        let tally_of = |measures: &Measures, item: &dyn Fn(usize) -> i64| {
            let mut tally = Tally::ZERO;
            (0..measures.len()).for_each(|index| tally.add_measure(measures, index, item(index)));
            tally
        };
        match self {
            Inner::Node(node, columns) => {
                let tally = tally_of(&columns.measures, &|index| node.item(index, position) as i64);
                if columns.is_bottom {
                    return Sums::of_rows(tally);
                }
                let at = columns.measures.len();
                let (entries, erased) = (node.item(at, position) as i64, node.item(at + 1, position) as i64);
                Sums { entries, erased, tally }
            }
            Inner::Top(top) => top.before[position],
        }
    }

    /// The child with the entry that has `entries` entries before it.
    pub(crate) fn child_at(&self, entries: i64) -> usize {
        let through = match self {
            Inner::Node(node, columns) => node.items_before(columns.entries_at(), |before| before as i64 <= entries),
            Inner::Top(top) => top.before.partition_point(|before| before.entries <= entries),
        };
        through.saturating_sub(1)
    }

    /// The filter over child `position`.
    pub(crate) fn filter_of(&self, position: usize) -> Option<FilterPart> {
        match self {
            Inner::Top(_) => None,
            Inner::Node(node, _) => node.filter_of(position),
        }
    }

    /// All filters over children.
    pub(crate) fn filters(&self) -> impl Iterator<Item = FilterPart> {
        let node = match self {
            Inner::Top(_) => None,
            Inner::Node(node, _) => Some(*node),
        };
        node.into_iter().flat_map(|node| (0..node.filters()).map(move |number| node.filter(number)))
    }

    /// The bytes of all filters, which end where the page begins.
    pub(crate) fn filter_bytes(&self) -> u32 {
        match self {
            Inner::Top(_) => 0,
            Inner::Node(node, _) => node.filter_bytes(),
        }
    }

    /// Where in the page the checksum of child `position` stands.
    #[cfg(test)]
    pub(crate) fn checksum_at(&self, position: usize) -> Option<usize> {
        match self {
            Inner::Top(_) => None,
            Inner::Node(node, _) => Some(node.checksum_at(position)),
        }
    }

    /// Where in the page the checksum of filter `number` stands.
    #[cfg(test)]
    pub(crate) fn filter_checksum_at(&self, number: usize) -> usize {
        match self {
            Inner::Top(_) => unreachable!("it has no filters"),
            Inner::Node(node, _) => node.filter_checksum_at(number),
        }
    }

    /// Where child `position` is; `None` if the items give no valid place.
    pub(crate) fn pointer(&self, position: usize) -> Option<Pointer> {
        match self {
            Inner::Node(node, columns) => {
                let at = columns.pointer_at();
                let length = node.item(at + 1, position).checked_mul(UNIT)?;
                Some(Pointer {
                    offset: node.item(at, position).checked_mul(UNIT)?,
                    length: u32::try_from(length).ok()?,
                    checksum: u32::try_from(node.item(at + 2, position)).ok()?,
                })
            }
            Inner::Top(_) => None,
        }
    }
}
