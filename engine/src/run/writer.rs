//! Writing a run: rows come in key order, pages leave for the file as they fill, from the leaves up.
//!
//! Invariant: a page is written as soon as it is known that the next entry does not fit, before anything that belongs to the next one.
//! So the file is the tree in post-order.
//!
//! Costs: one page a level in memory, and buffers of 1 MiB and 32 KiB. A row is copied three times (into the collected page, into the
//! built one, into the buffer); the declared measures are computed once.
//! Not here: syncing the directory and removing a file that failed (the caller's).

use std::path::Path;

use super::RunInfo;
use super::format::{FOOTER_BYTES, Footer, Header, Pointer, VALUE_REFERENCE_BYTES, ValueReference};
use super::output::Output;
use super::pending::{Entry, PendingPage};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{AlignedBuffer, Disk};
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, common_prefix_len};
use crate::tally::{Measures, Tally};

/// Longer keys are refused, so that a unit's length, which has 32 bits, holds two of them.
const KEY_BYTES_MAX: usize = 1 << 30;

/// How a run is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunOptions {
    /// Pages are filled up to this size: 256 to 32,768.
    pub(crate) page_bytes: usize,
    /// What is measured beside rows.
    pub(crate) measures: Measures,
    /// Stands in the header, to tell swapped files apart.
    pub(crate) table_id: u32,
    /// Stands in the header, to tell an older run of the table apart; a checkpoint's number, say.
    pub(crate) run_id: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { page_bytes: 8192, measures: Measures::ROWS, table_id: 0, run_id: 0 }
    }
}

/// Makes a run of rows in ascending order of their keys.
pub(crate) struct RunWriter {
    options: RunOptions,
    output: Output,
    leaf: PendingPage,
    /// The inner levels, from the bottom.
    levels: Vec<Level>,
    /// The tally of all rows pushed, and of those in leaves that are written.
    total: Tally,
    before: Tally,
    scratch: AlignedBuffer,
}

struct Level {
    page: PendingPage,
    /// The separator of the child to come; none for the first of the level, whose key is minus infinity.
    separator: Option<Vec<u8>>,
}

impl RunWriter {
    /// Begins the file at `path`, which must not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a page size out of bounds; what the disk says. After an error here or later the caller removes
    /// the file; nothing reads it in any case, as the footer comes last.
    pub(crate) fn create(disk: &dyn Disk, path: &Path, options: RunOptions) -> Result<RunWriter> {
        let page_bytes = options.page_bytes;
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            let limits = format!("{PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}");
            return Err(Error::new(ErrorKind::Invalid, format!("a run has pages of {limits} bytes, not {page_bytes}")));
        }
        let mut output = Output::create(disk, path)?;
        let header = Header { table_id: options.table_id, run_id: options.run_id };
        output.write(&header.encode(), 0)?;
        Ok(RunWriter {
            options,
            output,
            leaf: PendingPage::new(0, page_bytes, options.measures),
            levels: Vec::new(),
            total: Tally::ZERO,
            before: Tally::ZERO,
            scratch: AlignedBuffer::new(PAGE_BYTES_MAX),
        })
    }

    /// Appends a row, whose key is above all before.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is not, or longer than 1 GiB; what the disk says.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.leaf.len() > 0 && key <= self.leaf.last_key() {
            return Err(Error::new(ErrorKind::Invalid, "rows of a run come in strictly ascending order of their keys"));
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a key of {} bytes; the longest in a run has {KEY_BYTES_MAX}", key.len()),
            ));
        }
        let value_is_out = value.len() > PendingPage::inline_max(self.options.page_bytes);
        let stored_len = if value_is_out { VALUE_REFERENCE_BYTES } else { value.len() };
        if self.leaf.len() > 0 && !self.leaf.fits(key, stored_len, value_is_out) {
            self.finish_leaf(Some(key))?;
        }
        let tally = self.options.measures.of_row(key, value);
        self.total += tally;
        if value_is_out {
            let reference = self.write_value(value)?.encode();
            self.leaf.push(Some(key), &Entry::Row { value: &reference, value_is_out, tally });
        } else {
            self.leaf.push(Some(key), &Entry::Row { value, value_is_out, tally });
        }
        Ok(())
    }

    fn write_value(&mut self, value: &[u8]) -> Result<ValueReference> {
        let offset = self.output.position();
        let checksum = self.output.write(value, 0)?;
        let checksum = self.output.align(checksum)?;
        Ok(ValueReference { offset, length: value.len() as u64, checksum })
    }

    /// Writes the collected leaf; `next` is the first key of the one that follows.
    fn finish_leaf(&mut self, next: Option<&[u8]>) -> Result<()> {
        // The shortest key above all of this leaf and not above the next one.
        let next_separator = next.map(|next| &next[..common_prefix_len(self.leaf.last_key(), next) + 1]);
        let pointer = self.leaf.write(&mut self.scratch, &mut self.output)?;
        let before = std::mem::replace(&mut self.before, self.total);
        self.add_child(0, pointer, before, next_separator)
    }

    /// Adds a written page to the inner level `level`, counted from the bottom; `next_separator` belongs to the page after it.
    fn add_child(
        &mut self,
        level: usize,
        pointer: Pointer,
        before: Tally,
        next_separator: Option<&[u8]>,
    ) -> Result<()> {
        if self.levels.len() == level {
            let RunOptions { page_bytes, measures, .. } = self.options;
            let page = PendingPage::new(level + 1, page_bytes, measures);
            self.levels.push(Level { page, separator: None });
        }
        let Level { page, separator } = &mut self.levels[level];
        page.push(separator.take().as_deref(), &Entry::Child { pointer, before });
        let Some(next_separator) = next_separator else {
            return Ok(());
        };
        // Two children at least, or levels would not end.
        if page.len() > 1 && !page.fits(next_separator, 0, false) {
            self.finish_inner(level, Some(next_separator))?;
        }
        self.levels[level].separator = Some(next_separator.to_vec());
        Ok(())
    }

    /// Writes the collected page of the inner level `level`. The separator before it already waits in the level above.
    fn finish_inner(&mut self, level: usize, next_separator: Option<&[u8]>) -> Result<()> {
        let page = &mut self.levels[level].page;
        let before = page.tally_before();
        let pointer = page.write(&mut self.scratch, &mut self.output)?;
        self.add_child(level + 1, pointer, before, next_separator)
    }

    /// Writes what is left, and the footer, and makes the file durable. The directory is the caller's to sync.
    pub(crate) fn finish(mut self) -> Result<RunInfo> {
        let mut root = Pointer::default();
        let mut height = 0;
        if self.leaf.len() > 0 {
            self.finish_leaf(None)?;
            let mut level = 0;
            while level + 1 < self.levels.len() || self.levels[level].page.len() > 1 {
                self.finish_inner(level, None)?;
                level += 1;
            }
            root = self.levels[level].page.first_child();
            height = level + 1;
        }
        let RunOptions { page_bytes, measures, table_id, run_id } = self.options;
        let bytes = self.output.position() + FOOTER_BYTES as u64;
        let footer = Footer { page_bytes, file_bytes: bytes, root, levels: height, measures, total: self.total };
        self.output.write(&footer.encode(), 0)?;
        let written = self.output.finish()?;
        debug_assert_eq!(written, bytes);
        Ok(RunInfo {
            table_id,
            run_id,
            bytes,
            rows: self.total.rows as u64,
            total: self.total,
            measures,
            page_bytes,
            levels: height,
        })
    }
}
