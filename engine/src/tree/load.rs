//! Builds a bottom tree from rows in key order, bottom-up, as when a checkpoint is read into memory.
//!
//! The tree has about as many leaves as the rows were in before, at most: what fits one page with a prefix is put into
//! one, and pages are filled up where memory is short.

use super::{PageId, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::page::{
    Builder, HEADER_BYTES, KIND_INNER, KIND_LEAF, KeyBuffer, NewRecord, array_bytes, common_prefix_len, padded,
    prefix_max, record,
};
use crate::tally::Tally;

/// How far pages are filled, in percent, so that the first inserts after a restart do not split every one of them;
/// wholly once half of the memory is in use.
const FILL_PERCENT: usize = 90;

/// Collects rows in ascending order and builds pages of them. O(levels) memory besides the pages.
pub(crate) struct Loader {
    tree: Tree,
    /// Rows of the leaf that is being collected: bytes of keys and values, and their ends.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    plan: Plan,
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
}

/// The exact size of a page.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Arrays and records without a prefix.
    plain_bytes: usize,
    /// How many bytes at the start of all keys are the same.
    shared_len: usize,
    /// The longest possible prefix, and the bytes it saves in records.
    prefix_len: usize,
    saved_bytes: usize,
}

impl Plan {
    /// The prefix that the page gets: none if it saves less than it takes, as where keys lie out of line or are short.
    fn chosen_len(&self) -> usize {
        if self.saved_bytes < padded(self.prefix_len) { 0 } else { self.prefix_len }
    }

    fn page_bytes(&self) -> usize {
        let gain = self.saved_bytes.saturating_sub(padded(self.prefix_len));
        HEADER_BYTES + self.plain_bytes - gain
    }
}

/// The bytes that a prefix saves in the record of a key.
fn saved_bytes(kind: u8, flags: u8, key: &[u8], prefix_len: usize) -> usize {
    let new = NewRecord { flags, key, key_handle: 0, weights: &[], value: &[] };
    new.len(kind, 0) - new.len(kind, prefix_len)
}

impl Loader {
    /// Starts loading into `tree`, an empty bottom tree.
    pub(crate) fn new(tree: Tree) -> Loader {
        debug_assert!(tree.entries == 0 && tree.bottom);
        Loader {
            tree,
            bytes: Vec::new(),
            rows: Vec::new(),
            plan: Plan::default(),
            last_key: KeyBuffer::new(),
            levels: Vec::new(),
        }
    }

    /// Appends a row. Its key must be above all before.
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
        let mut plan = self.plan_with(&new);
        if plan.page_bytes() > self.room() && !self.rows.is_empty() {
            self.finish_leaf(key)?;
            plan = self.plan_with(&new);
        }
        self.plan = plan;
        self.bytes.extend_from_slice(key);
        row.key_end = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        row.value_end = self.bytes.len();
        self.rows.push(row);
        self.tree.entries += 1;
        self.tree.total += self.tree.measures.of_row(key, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Bytes up to which pages are filled.
    fn room(&self) -> usize {
        let page_bytes = self.tree.arena.page_bytes();
        if self.tree.arena.is_half_full() { page_bytes } else { page_bytes * FILL_PERCENT / 100 }
    }

    /// Keys of the collected rows, with the flags of their records.
    fn keys(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut start = 0;
        self.rows
            .iter()
            .map(move |row| (row.flags, &self.bytes[std::mem::replace(&mut start, row.value_end)..row.key_end]))
    }

    /// The plan of the leaf with one more row. O(1) except where the shared prefix becomes shorter.
    fn plan_with(&self, new: &NewRecord<'_>) -> Plan {
        let plain_bytes = self.plan.plain_bytes + new.len(KIND_LEAF, 0) + array_bytes(KIND_LEAF, 0);
        let Some(first) = self.rows.first() else {
            // A page of one entry has no prefix.
            return Plan { plain_bytes, shared_len: new.key.len(), ..Plan::default() };
        };
        let shared_len = common_prefix_len(&self.bytes[..first.key_end.min(self.plan.shared_len)], new.key);
        let prefix_len = shared_len.min(prefix_max(self.tree.arena.page_bytes()));
        let mut saved = saved_bytes(KIND_LEAF, new.flags, new.key, prefix_len);
        if prefix_len == self.plan.prefix_len {
            saved += self.plan.saved_bytes;
        } else {
            saved += self.keys().map(|(flags, key)| saved_bytes(KIND_LEAF, flags, key, prefix_len)).sum::<usize>();
        }
        Plan { plain_bytes, shared_len, prefix_len, saved_bytes: saved }
    }

    /// Writes the collected leaf; `next` is the first key of the following one.
    fn finish_leaf(&mut self, next: &[u8]) -> Result<()> {
        self.tree.check_room()?;
        let id = self.tree.new_page(KIND_LEAF, 0);
        let prefix = &self.bytes[..self.plan.chosen_len()];
        let mut builder = Builder::new(self.tree.page_mut(id), prefix, self.rows.len());
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
        self.plan = Plan::default();
        self.add_child(0, id, tally, separator)
    }

    /// Adds a finished page to the level above; `next_separator` belongs to the page after it.
    fn add_child(&mut self, level: usize, id: PageId, tally: Tally, next_separator: KeyBuffer) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        // The separator of a page is known when the page before it is finished: it waits in an entry without a page.
        let waiting = self.levels[level].last_mut().filter(|child| child.id == super::NO_PAGE);
        match waiting {
            Some(child) => {
                child.id = id;
                child.tally = tally;
            }
            None => {
                self.levels[level].push(Child { id, separator: KeyBuffer::new(), tally });
            }
        }
        if next_separator.is_empty() {
            return Ok(());
        }
        self.levels[level].push(Child { id: super::NO_PAGE, separator: next_separator, tally: Tally::ZERO });
        if self.plan_inner(&self.levels[level]).page_bytes() > self.room() && self.levels[level].len() > 2 {
            let next = self.levels[level].pop().expect("more than two");
            self.finish_inner(level, next.separator.clone())?;
            self.levels[level].push(next);
        }
        Ok(())
    }

    /// The plan of an inner page of these children.
    fn plan_inner(&self, children: &[Child]) -> Plan {
        // Minus infinity is the first key of the first page of the level only.
        let skip = usize::from(children[0].separator.is_empty());
        let flags = |child: &Child| self.separator_flags(&child.separator);
        let mut plan = Plan::default();
        if let ([first, .., last], true) = (&children[skip..], children.len() > skip + 1) {
            plan.shared_len = common_prefix_len(&first.separator, &last.separator);
            plan.prefix_len = plan.shared_len.min(prefix_max(self.tree.arena.page_bytes()));
        }
        for child in children {
            let key = &child.separator;
            let new = NewRecord { flags: flags(child), key, key_handle: 0, weights: &[], value: &[] };
            plan.plain_bytes += new.len(KIND_INNER, 0) + array_bytes(KIND_INNER, self.tree.arrays());
        }
        let saved = |child: &Child| saved_bytes(KIND_INNER, flags(child), &child.separator, plan.prefix_len);
        plan.saved_bytes = children[skip..].iter().map(saved).sum();
        plan
    }

    fn separator_flags(&self, separator: &[u8]) -> u8 {
        if separator.len() > self.tree.inline_key_max() { record::KEY_OUT } else { 0 }
    }

    /// Writes the collected inner page of `level`.
    fn finish_inner(&mut self, level: usize, next_separator: KeyBuffer) -> Result<()> {
        self.tree.check_room()?;
        let children = std::mem::take(&mut self.levels[level]);
        let id = self.tree.new_page(KIND_INNER, level + 1);
        let open_low = children[0].separator.is_empty();
        let prefix_len = self.plan_inner(&children).chosen_len();
        let prefix = &children[children.len() - 1].separator[..prefix_len];
        let mut builder = Builder::new(self.tree.page_mut(id), prefix, children.len());
        let mut total = Tally::ZERO;
        for (number, child) in children.iter().enumerate() {
            let flags = self.separator_flags(&child.separator);
            let mut new = NewRecord { flags, key: &child.separator, key_handle: 0, weights: &[], value: &[] };
            if flags & record::KEY_OUT != 0 {
                new.key_handle = self.tree.new_blob(&child.separator)?.handle();
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
