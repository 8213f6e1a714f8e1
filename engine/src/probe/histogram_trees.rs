//! The contents of trees in memory between keys, for a histogram of a table that has them as layers.
//!
//! A tree knows the tally before any key, so it never makes a result inexact. It gives a histogram borders: keys
//! between which there is so little that buckets can be laid along them.
//!
//! Cost: a descent of each tree for what is before a key; for a border, two more and those of its pivot. No page of a
//! run.

use super::histogram_tiles::Keys;
use crate::page::KeyBuffer;
use crate::stack::Stack;
use crate::tally::Measures;
use crate::tree::{Side, View};

/// Trees of one version, newest first.
pub(crate) struct Trees<'a> {
    trees: Vec<View<'a>>,
    measures: Measures,
}

/// What trees hold: a sum of weights, so either number may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Net {
    pub(crate) rows: i64,
    /// Bytes of keys and values, if the table measures them.
    pub(crate) bytes: i64,
}

impl std::ops::Sub for Net {
    type Output = Net;

    fn sub(self, other: Net) -> Net {
        Net { rows: self.rows - other.rows, bytes: self.bytes - other.bytes }
    }
}

impl<'a> Trees<'a> {
    pub(crate) fn new(stack: &Stack<'a>) -> Trees<'a> {
        let trees = stack.layers().iter().filter(|tree| tree.entries() > 0);
        Trees { trees: trees.copied().collect(), measures: *stack.measures() }
    }

    /// What is before `key`; the total for `None`.
    pub(crate) fn before(&self, key: Option<&[u8]>) -> Net {
        let before = |tree: &View<'a>| match key {
            None => (tree.total().rows, tree.total().bytes),
            Some(key) if !self.measures.bytes => (tree.rows_before(key, Side::Below), 0),
            Some(key) => {
                let tally = tree.tally_before(key, Side::Below);
                (tally.rows, tally.bytes)
            }
        };
        self.trees
            .iter()
            .map(before)
            .fold(Net::default(), |sum, (rows, bytes)| Net { rows: sum.rows + rows, bytes: sum.bytes + bytes })
    }

    /// Keys within `keys`, ascending, that cut them into parts with at most `most` in each, or with no entry after
    /// their first key.
    pub(super) fn borders(&self, keys: &Keys, most: Net) -> Vec<KeyBuffer> {
        let mut borders = Vec::new();
        let (low, high) = (Some(&*keys.start), keys.end.as_deref());
        self.cut((low, self.before(low)), (high, self.before(high)), most, &mut borders);
        borders
    }

    /// Adds borders between two keys, each given with what is before it.
    fn cut(&self, low: (Option<&[u8]>, Net), high: (Option<&[u8]>, Net), most: Net, borders: &mut Vec<KeyBuffer>) {
        let net = high.1 - low.1;
        if net.rows <= most.rows && net.bytes <= most.bytes {
            return;
        }
        let pivots = self.trees.iter().filter_map(|tree| tree.pivot(low.0, high.0));
        let Some((pivot, _)) = pivots.max_by_key(|(_, entries)| *entries) else { return };
        let middle = (Some(&*pivot), self.before(Some(&pivot)));
        self.cut(low, middle, most, borders);
        borders.push(pivot.clone());
        self.cut(middle, high, most, borders);
    }
}
