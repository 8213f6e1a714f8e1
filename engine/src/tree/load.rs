//! Building a bottom tree from rows in key order, bottom-up: how a checkpoint comes back into memory.

use super::{PageId, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::page::{
    Builder, KIND_INNER, KIND_LEAF, KeyBuffer, NewRecord, array_bytes, common_prefix_len, padded, prefix_max, record,
};
use crate::tally::Tally;

/// Leaves are filled to this part of a page, in percent, so that the first inserts after a restart do not split every one of them.
const FILL_PERCENT: usize = 90;

/// Collects rows in ascending order and builds pages of them. O(levels) memory beside the pages.
pub(crate) struct Loader {
    tree: Tree,
    /// Rows of the leaf that is being collected: bytes of keys and values, and their ends.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    leaf_bytes: usize,
    last_key: KeyBuffer,
    levels: Vec<Vec<Child>>,
}

struct Row {
    key_end: usize,
    value_end: usize,
    flags: u8,
    key_handle: u64,
}

struct Child {
    id: PageId,
    separator: KeyBuffer,
    tally: Tally,
    bytes: usize,
}

impl Loader {
    /// Loads into `tree`, an empty bottom tree.
    pub(crate) fn new(tree: Tree) -> Loader {
        debug_assert!(tree.entries == 0 && tree.bottom);
        Loader {
            tree,
            bytes: Vec::new(),
            rows: Vec::new(),
            leaf_bytes: 0,
            last_key: KeyBuffer::new(),
            levels: Vec::new(),
        }
    }

    /// Appends a row, whose key is above all before.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.tree.entries > 0 && *key <= *self.last_key {
            return Err(Error::new(ErrorKind::Corrupt, "rows are not in ascending order of their keys"));
        }
        let mut row = Row { key_end: 0, value_end: 0, flags: record::FRESH, key_handle: 0 };
        let handle: [u8; record::HANDLE_BYTES];
        if key.len() > self.tree.inline_key_max() {
            row.key_handle = self.tree.new_blob(key)?.handle();
            row.flags |= record::KEY_OUT;
        }
        let stored = if value.len() > self.tree.inline_value_max() {
            handle = self.tree.new_blob(value)?.handle().to_le_bytes();
            row.flags |= record::VALUE_OUT;
            &handle[..]
        } else {
            value
        };
        let new = NewRecord { flags: row.flags, key, key_handle: 0, weights: &[], value: stored };
        let row_bytes = new.len(KIND_LEAF, 0) + array_bytes(KIND_LEAF, 0);
        let room = self.tree.arena.page_bytes() * FILL_PERCENT / 100 - crate::page::HEADER_BYTES;
        if self.leaf_bytes + row_bytes > room && !self.rows.is_empty() {
            self.finish_leaf(key)?;
        }
        self.bytes.extend_from_slice(key);
        row.key_end = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        row.value_end = self.bytes.len();
        self.rows.push(row);
        self.leaf_bytes += row_bytes;
        self.tree.entries += 1;
        self.tree.total += self.tree.measures.of_row(key, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Writes the collected leaf; `next` is the first key of the one that follows.
    fn finish_leaf(&mut self, next: &[u8]) -> Result<()> {
        self.tree.check_room()?;
        let id = self.tree.new_page(KIND_LEAF, 0);
        let first = &self.bytes[..self.rows[0].key_end];
        let mut prefix_len = 0;
        if self.rows.len() > 1 {
            prefix_len = common_prefix_len(first, &self.last_key).min(prefix_max(self.tree.arena.page_bytes()));
        }
        // Planned without a prefix. One that saves less than it takes, because keys lie out of line or are short, might not fit.
        let mut start = 0;
        let saved: usize = self
            .rows
            .iter()
            .map(|row| {
                let key = &self.bytes[std::mem::replace(&mut start, row.value_end)..row.key_end];
                let new = NewRecord { flags: row.flags, key, key_handle: 0, weights: &[], value: &[] };
                new.len(KIND_LEAF, 0) - new.len(KIND_LEAF, prefix_len)
            })
            .sum();
        if saved < padded(prefix_len) {
            prefix_len = 0;
        }
        let mut builder = Builder::new(self.tree.page_mut(id), &first[..prefix_len], self.rows.len());
        let mut start = 0;
        for row in &self.rows {
            builder.push_new(&NewRecord {
                flags: row.flags,
                key: &self.bytes[start..row.key_end],
                key_handle: row.key_handle,
                weights: &[],
                value: &self.bytes[row.key_end..row.value_end],
            });
            start = row.value_end;
        }
        let page = builder.finish();
        let tally = self.tree.page_tally(&page);
        let mut separator = KeyBuffer::new();
        if !next.is_empty() {
            let shared = common_prefix_len(&self.last_key, next);
            separator.extend_from_slice(&next[..shared + 1]);
        }
        self.rows.clear();
        self.bytes.clear();
        self.leaf_bytes = 0;
        self.add_child(0, id, tally, separator)
    }

    /// Adds a finished page to the level above; `next_separator` belongs to the page after it.
    fn add_child(&mut self, level: usize, id: PageId, tally: Tally, next_separator: KeyBuffer) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        // The separator of a page is known when the page before it is finished: it waits in an entry without a page.
        let arrays = array_bytes(KIND_INNER, self.tree.arrays());
        let waiting = self.levels[level].last_mut().filter(|child| child.id == super::NO_PAGE);
        match waiting {
            Some(child) => {
                child.id = id;
                child.tally = tally;
            }
            None => {
                self.levels[level].push(Child { id, separator: KeyBuffer::new(), tally, bytes: arrays + 2 });
            }
        }
        if next_separator.is_empty() {
            return Ok(());
        }
        let flags = if next_separator.len() > self.tree.inline_key_max() { record::KEY_OUT } else { 0 };
        let new = NewRecord { flags, key: &next_separator, key_handle: 0, weights: &[], value: &[] };
        let bytes = new.len(KIND_INNER, 0) + arrays;
        let used: usize = self.levels[level].iter().map(|child| child.bytes).sum();
        let room = self.tree.arena.page_bytes() * FILL_PERCENT / 100 - crate::page::HEADER_BYTES;
        if used + bytes > room && self.levels[level].len() > 1 {
            self.finish_inner(level, next_separator.clone())?;
        }
        self.levels[level].push(Child { id: super::NO_PAGE, separator: next_separator, tally: Tally::ZERO, bytes });
        Ok(())
    }

    /// Writes the collected inner page of `level`.
    fn finish_inner(&mut self, level: usize, next_separator: KeyBuffer) -> Result<()> {
        self.tree.check_room()?;
        let children = std::mem::take(&mut self.levels[level]);
        let id = self.tree.new_page(KIND_INNER, level + 1);
        // Minus infinity is the first key of the first page of the level only.
        let open_low = children[0].separator.is_empty();
        let skip = usize::from(open_low);
        let mut prefix_len = 0;
        if children.len() > skip + 1 {
            let last = &children[children.len() - 1].separator;
            prefix_len =
                common_prefix_len(&children[skip].separator, last).min(prefix_max(self.tree.arena.page_bytes()));
        }
        let saved: usize = children[skip..]
            .iter()
            .map(|child| {
                let flags = if child.separator.len() > self.tree.inline_key_max() { record::KEY_OUT } else { 0 };
                let new = NewRecord { flags, key: &child.separator, key_handle: 0, weights: &[], value: &[] };
                new.len(KIND_INNER, 0) - new.len(KIND_INNER, prefix_len)
            })
            .sum();
        if saved < padded(prefix_len) {
            prefix_len = 0;
        }
        let prefix = KeyBuffer::from_slice(&children[children.len() - 1].separator[..prefix_len]);
        let mut builder = Builder::new(self.tree.page_mut(id), &prefix, children.len());
        let mut total = Tally::ZERO;
        for (number, child) in children.iter().enumerate() {
            let mut new = NewRecord { flags: 0, key: &child.separator, key_handle: 0, weights: &[], value: &[] };
            if child.separator.len() > self.tree.inline_key_max() {
                new.key_handle = self.tree.new_blob(&child.separator)?.handle();
                new.flags = record::KEY_OUT;
            }
            let tallies: Vec<i64> =
                (0..self.tree.arrays()).map(|measure| child.tally.measure(&self.tree.measures, measure)).collect();
            builder.push_child(&new, open_low && number == 0, child.id, &tallies);
            total += child.tally;
        }
        builder.finish();
        self.add_child(level + 1, id, total, next_separator)
    }

    /// The tree with everything that was pushed.
    pub(crate) fn finish(mut self) -> Result<Tree> {
        if self.tree.entries == 0 {
            return Ok(self.tree);
        }
        self.finish_leaf(&[])?;
        let mut level = 0;
        while level + 1 < self.levels.len() || self.levels[level].len() > 1 {
            if !self.levels[level].is_empty() {
                self.finish_inner(level, KeyBuffer::new())?;
            }
            level += 1;
        }
        self.tree.root = self.levels[level][0].id;
        self.tree.height = level + 1;
        Ok(self.tree)
    }
}
