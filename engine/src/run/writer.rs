//! Writes a run: rows come in key order, full pages go to the file, from the leaves up.
//!
//! Invariant: a leaf or a node, after the filters over its leaves, is written as soon as the next entry is known not to
//! fit, before anything that belongs to the next one. So the file is the tree in post-order.
//!
//! Cost: one page for each level in memory, the filters of one node, eight bytes for each key of one filter, and
//! buffers of 256 KiB and 32 KiB. A row is copied three times (into the collected page, into the built one, into the
//! buffer); the declared measures are computed once. Filters take some 35 ns a row. Not here: syncing the directory and
//! removing a failed file (the caller's task).

use std::path::Path;

use super::RunInfo;
use super::columns::Columns;
use super::filter_builder::PendingFilters;
use super::format::{
    FOOTER_BYTES, Footer, Header, PACKED_VALUE_BYTES_MAX, Pointer, Sums, VALUE_REFERENCE_BYTES, ValueReference,
    version_written,
};
use super::leaf_builder::{LeafEntry, PendingLeaf};
use super::node_builder::{NodeBuilder, Separator};
use super::output::Output;
use crate::compression::{Compression, Packer};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{AlignedBuffer, Disk};
use crate::options::RunLayout;
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, common_prefix_len, record};
use crate::tally::{Measures, Tally};

/// Longer keys are refused, so that the 32 bits of a unit's length suffice for two of them.
const KEY_BYTES_MAX: usize = 1 << 30;

/// How to write a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunOptions {
    /// Pages are filled up to this size: 256 to 32,768.
    pub(crate) page_bytes: usize,
    /// What is measured besides rows.
    pub(crate) measures: Measures,
    /// Stands in the header, to detect swapped files.
    pub(crate) table_id: u32,
    /// Stands in the header, to detect an older run of the table; for example a checkpoint's number.
    pub(crate) run_id: u64,
    /// Whether nothing lies below the run, so that every entry is a live row.
    pub(crate) is_bottom: bool,
    /// How leaves are found.
    pub(crate) layout: RunLayout,
    /// Whether there are filters, which recognise most absent keys without reading a leaf.
    pub(crate) has_filters: bool,
    /// How leaves and long values are stored.
    pub(crate) compression: Compression,
    /// Whether it will be read soon, at random: then the operating system, whose cache the writes bypass, should fetch
    /// it.
    pub(crate) is_read_soon: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            page_bytes: 8192,
            measures: Measures::ROWS,
            table_id: 0,
            run_id: 0,
            is_bottom: true,
            layout: RunLayout::Tree,
            has_filters: true,
            compression: Compression::None,
            is_read_soon: false,
        }
    }
}

/// Makes a run of entries in ascending order of their keys.
pub(crate) struct RunWriter {
    options: RunOptions,
    output: Output,
    leaf: PendingLeaf,
    /// The filters over the leaves of the lowest node that is not written yet.
    filters: Option<PendingFilters>,
    packer: Option<Packer>,
    /// How many bytes packing has saved.
    saved_bytes: u64,
    /// The inner levels, from the bottom.
    levels: Vec<Level>,
    /// The sums of all entries pushed, and of those in written leaves.
    total: Sums,
    before: Sums,
    scratch: AlignedBuffer,
    node_bytes: Vec<u8>,
}

struct Level {
    node: NodeBuilder,
    /// The separator before the next child; `None` before the first of the level.
    separator: Option<(Vec<u8>, usize)>,
    /// The pointer to the last child.
    last: Pointer,
    /// The sums before the first child of the node.
    before: Sums,
}

impl RunWriter {
    /// Begins the file at `path`, which must not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a page size out of bounds; errors of the disk. After an error here or later the
    /// caller removes the file; until then nothing can read it, since the footer comes last.
    pub(crate) fn create(disk: &dyn Disk, path: &Path, options: RunOptions) -> Result<RunWriter> {
        let page_bytes = options.page_bytes;
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            let limits = format!("{PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}");
            return Err(Error::new(ErrorKind::Invalid, format!("a run has pages of {limits} bytes, not {page_bytes}")));
        }
        let mut output = Output::create(disk, path, options.is_read_soon)?;
        let header = Header { version: version_written(), table_id: options.table_id, run_id: options.run_id };
        output.write(&header.encode(), 0)?;
        Ok(RunWriter {
            options,
            output,
            leaf: PendingLeaf::new(page_bytes, options.measures, options.is_bottom),
            filters: options.has_filters.then(|| PendingFilters::new(page_bytes)),
            packer: Packer::new(options.compression),
            saved_bytes: 0,
            levels: Vec::new(),
            total: Sums::default(),
            before: Sums::default(),
            scratch: AlignedBuffer::new(PAGE_BYTES_MAX),
            node_bytes: Vec::new(),
        })
    }

    /// Bytes of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.output.position()
    }

    /// Appends a live row with nothing below. Its key must be above all before.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the key is not above them, or longer than 1 GiB; errors of the disk.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let weight = self.options.measures.of_row(key, value);
        self.push_entry(key, Some(value), weight)
    }

    /// Appends an entry whose weight is relative to the layers below; without a value it is a tombstone. A bottom run
    /// takes rows only.
    ///
    /// # Errors
    /// Those of [`RunWriter::push`].
    pub(crate) fn push_entry(&mut self, key: &[u8], value: Option<&[u8]>, weight: Tally) -> Result<()> {
        let state = match (value, weight.rows) {
            (Some(_), 1) => record::FRESH,
            (Some(_), 0) if !self.options.is_bottom => record::OVER,
            (None, -1) if !self.options.is_bottom => record::TOMBSTONE,
            _ => {
                let kind = if self.options.is_bottom { "a bottom run" } else { "a run" };
                let what = format!("{kind} has no entry that weighs {} rows", weight.rows);
                return Err(Error::new(ErrorKind::Invalid, what));
            }
        };
        let value = value.unwrap_or(&[]);
        if self.leaf.len() > 0 && key <= self.leaf.last_key() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "entries of a run come in strictly ascending order of their keys",
            ));
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a key of {} bytes; the longest in a run has {KEY_BYTES_MAX}", key.len()),
            ));
        }
        let value_is_out = value.len() > PendingLeaf::inline_max(self.options.page_bytes);
        let stored_len = if value_is_out { VALUE_REFERENCE_BYTES } else { value.len() };
        if self.leaf.len() > 0 && !self.leaf.fits(key, stored_len, value_is_out) {
            self.finish_leaf(Some(key))?;
        }
        self.total.add(state == record::TOMBSTONE, weight);
        if let Some(filters) = &mut self.filters {
            filters.add(key);
        }
        if value_is_out {
            let reference = self.write_value(value)?.encode();
            self.leaf.push(key, &LeafEntry { state, value: &reference, value_is_out, weight });
        } else {
            self.leaf.push(key, &LeafEntry { state, value, value_is_out, weight });
        }
        Ok(())
    }

    fn write_value(&mut self, value: &[u8]) -> Result<ValueReference> {
        let (offset, length) = (self.output.position(), value.len() as u64);
        let packer = self.packer.as_mut().filter(|_| value.len() <= PACKED_VALUE_BYTES_MAX);
        let packed = packer.and_then(|packer| packer.pack(value, 0));
        let checksum = self.output.write(packed.unwrap_or(value), 0)?;
        let checksum = self.output.align(checksum)?;
        let packed_bytes = packed.map_or(0, |block| block.len() as u32);
        let reference = ValueReference { offset, length, packed_bytes, checksum };
        self.saved_bytes += reference.saved_bytes();
        Ok(reference)
    }

    /// Writes the collected leaf; `next` is the first key of the following one.
    fn finish_leaf(&mut self, next: Option<&[u8]>) -> Result<()> {
        // The shortest key above all of this leaf and not above the next one.
        let next_separator = next.map(|next| Separator::new(next, common_prefix_len(self.leaf.last_key(), next) + 1));
        let (pointer, saved_bytes) = self.leaf.write(&mut self.scratch, self.packer.as_mut(), &mut self.output)?;
        self.saved_bytes += saved_bytes;
        let before = std::mem::replace(&mut self.before, self.total);
        self.add_child(0, pointer, before, next_separator)
    }

    /// Adds a written page to the inner level `level`, counted from the bottom; `next_separator` belongs to the page
    /// after it.
    fn add_child(
        &mut self,
        level: usize,
        pointer: Pointer,
        before: Sums,
        next_separator: Option<Separator<'_>>,
    ) -> Result<()> {
        let RunOptions { page_bytes, measures, is_bottom, layout, .. } = self.options;
        let columns = Columns::new(measures, is_bottom);
        if self.levels.len() == level {
            let node = NodeBuilder::new(level + 1, columns.count());
            self.levels.push(Level { node, separator: None, last: Pointer::default(), before });
        }
        let next_items = columns.items(
            // What is known of the next child: what stands before it. It may begin later and be longer, which makes the
            // page a little larger than planned.
            &Pointer { offset: self.output.position(), length: page_bytes as u32, checksum: u32::MAX },
            &self.before,
        );
        let Level { node, separator, last, before: first } = &mut self.levels[level];
        if node.count() == 0 {
            *first = before;
            *separator = None;
        }
        let before_it = separator.take();
        let before_it = before_it.as_ref().map(|(key, len)| Separator::new(key, *len));
        node.push(before_it, &columns.items(&pointer, &before));
        *last = pointer;
        if level == 0
            && let Some(filters) = &mut self.filters
        {
            filters.end_leaf(node);
        }
        let Some(next_separator) = next_separator else {
            return Ok(());
        };
        // At least two children, or levels would not end.
        let is_full = || node.count() > 1 && !node.fits(next_separator, &next_items, page_bytes);
        if layout == RunLayout::Tree && is_full() {
            self.finish_inner(level, Some(next_separator))?;
        }
        self.levels[level].separator = Some(next_separator.to_owned());
        Ok(())
    }

    /// Writes the collected page of the inner level `level`.
    fn finish_inner(&mut self, level: usize, next_separator: Option<Separator<'_>>) -> Result<()> {
        let Level { node, before, .. } = &mut self.levels[level];
        let before = *before;
        if level == 0
            && let Some(filters) = &mut self.filters
        {
            filters.end_node(node, &mut self.output)?;
        }
        self.node_bytes.clear();
        node.finish(&mut self.node_bytes);
        let offset = self.output.position();
        let checksum = self.output.write(&self.node_bytes, 0)?;
        let length = self.node_bytes.len() as u32;
        self.add_child(level + 1, Pointer { offset, length, checksum }, before, next_separator)
    }

    /// Writes the rest and the footer, and makes the file durable. The caller syncs the directory.
    pub(crate) fn finish(mut self) -> Result<RunInfo> {
        let mut root = Pointer::default();
        let mut height = 0;
        if self.leaf.len() > 0 {
            self.finish_leaf(None)?;
            let mut level = 0;
            while level + 1 < self.levels.len() || self.levels[level].node.count() > 1 {
                self.finish_inner(level, None)?;
                level += 1;
            }
            root = self.levels[level].last;
            height = level + 1;
        }
        let RunOptions { page_bytes, measures, table_id, run_id, is_bottom, layout, compression, .. } = self.options;
        let bytes = self.output.position() + FOOTER_BYTES as u64;
        let footer = Footer {
            page_bytes,
            file_bytes: bytes,
            root,
            levels: height,
            measures,
            total: self.total,
            is_bottom,
            layout,
            compression,
            saved_bytes: self.saved_bytes,
        };
        self.output.write(&footer.encode(), 0)?;
        let written = self.output.finish()?;
        debug_assert_eq!(written, bytes);
        Ok(RunInfo {
            table_id,
            run_id,
            bytes,
            version: version_written(),
            is_bottom,
            layout,
            total: self.total,
            measures,
            page_bytes,
            levels: height,
            compression,
            saved_bytes: self.saved_bytes,
        })
    }
}
