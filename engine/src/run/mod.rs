//! A run: an immutable file that is a static counted B+-tree. `docs/internals/format-run.md` describes its bytes.
//!
//! A [`RunWriter`] makes one from rows in key order; a [`Run`] answers from it.
//!
//! | file | what it is |
//! |---|---|
//! | `writer`, `leaf_builder`, `node_builder`, `filter_builder` | writing a run, a leaf, an inner page, filters |
//! | `output`, `window` | writing and reading a file from front to back |
//! | `format`, `measures`, `place`, `weight`, `packed` | bytes: header, footer and pointers; parts of pages |
//! | `file`, `loaded` | an open file, whose pages are checked before use; a page that was |
//! | `node`, `columns`, `descent` | inner pages, and ways down through them |
//! | `filter` | whether a leaf can have a key |
//! | `parts`, `excision` | a run in several files; ranges that were erased from one |
//! | `kept_pages`, `pinned_pages` | pages that stay with their file: once read, or on request |
//! | `scan`, `read_ahead` | one walk over a whole file, for opening, the checker and salvage |
//! | `shape`, `salvage` | figures of a run; what can be read of a damaged one |
//!
//! Invariants:
//! 1. Every byte of the file is under a checksum, and none is used before its checksum holds: that of a unit stands in
//!    the pointer to it, that of a filter in its node, that of a value in the reference to it, those of header and
//!    footer in themselves.
//! 2. The file is header, tree in post-order, footer, without holes: an inner page follows the last of its subtrees (a
//!    lowest one follows the filters over its leaves, and these follow the leaves), a leaf follows the long values of
//!    its rows. So a walk ends, even in a damaged or forged file.
//! 3. The tally in a pointer is that of all rows before its subtree, from the file's start: one number gives a prefix,
//!    and the difference of neighbours gives a subtree.
//! 4. A leaf has weights in its records exactly where its bytes do not determine the measures: where a value lies out
//!    of line and more than rows is measured. So no question for a tally reads a long value.
//! 5. A filter knows every key of its leaves, including those of tombstones. So no `get` of a run misses an entry.
//! 6. A leaf or a long value may be stored packed. Its checksum is that of the stored bytes, so damage is noticed
//!    before anything is unpacked; the result is checked like any other, and readers never see that it was packed.
//! 7. An open run never changes; it is safe to share between threads. One from which ranges are excised is another run
//!    over the same open files: see `excision`.
//!
//! Cost: writing keeps one page for each level in memory and a buffer of 256 KiB. Opening reads header and footer. A
//! question reads one unit on each level, of about [`RunOptions::page_bytes`], and one more extent for a long value;
//! `get` of an absent key reads a filter of about that size instead of a leaf. A scan reads the file once, 1 MiB at a
//! time, two threads ahead of itself, without an allocation for each row.
//!
//! Not here: which runs make up a database (`manifest`).

pub(crate) mod columns;
pub(crate) mod descent;
pub(crate) mod excision;
pub(crate) mod file;
pub(crate) mod filter;
mod filter_builder;
pub(crate) mod format;
mod kept_pages;
mod leaf_builder;
pub(crate) mod loaded;
mod measures;
pub(crate) mod node;
mod node_builder;
mod output;
pub(crate) mod packed;
pub(crate) mod parts;
pub(crate) mod pinned_pages;
pub(crate) mod place;
mod read_ahead;
mod salvage;
pub(crate) mod scan;
#[cfg(any(test, feature = "bench"))]
mod shape;
pub(crate) mod weight;
mod window;
mod writer;

#[cfg(test)]
mod node_tests;

pub(crate) use excision::{Excision, Excisions, Prefix};
pub(crate) use file::RunFile;
pub(crate) use format::Sums;
#[cfg(test)]
pub(crate) use format::made_up;
pub(crate) use parts::{Part, Run};
pub(crate) use salvage::Lost;
#[cfg(feature = "bench")]
pub use shape::RunShape;
pub(crate) use writer::{RunOptions, RunWriter};

use crate::compression::Compression;
use crate::options::RunLayout;
use crate::tally::Measures;

/// The properties of a run, or of a file of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunInfo {
    /// The table that the rows belong to, as given to the writer.
    pub(crate) table_id: u32,
    /// Distinguishes this run from others of the table, as given to the writer.
    pub(crate) run_id: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Version of the format.
    pub(crate) version: u32,
    /// Whether nothing lies below, so that every entry is a live row.
    pub(crate) is_bottom: bool,
    /// How leaves are found.
    pub(crate) layout: RunLayout,
    /// The sums of all entries; of a run, of those that excisions have left.
    pub(crate) total: Sums,
    pub(crate) measures: Measures,
    /// The target size of pages.
    pub(crate) page_bytes: usize,
    /// Pages from the root to a leaf; zero if there are no entries.
    pub(crate) levels: usize,
    /// How leaves and long values are stored.
    pub(crate) compression: Compression,
    /// How many bytes longer the file would be if none of them were packed.
    pub(crate) saved_bytes: u64,
}

impl RunInfo {
    /// Whether every entry is a live row with nothing below.
    pub(crate) fn has_live_rows_only(&self) -> bool {
        self.is_bottom || self.total.fresh() == self.total.entries && self.total.erased == 0
    }
}
