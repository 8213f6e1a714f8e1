//! A run: an immutable file that is a static counted B+-tree. The page for its bytes is `docs/format-run.md`.
//!
//! A [`RunWriter`] makes one of rows in key order; a [`Run`] answers from it.
//!
//! Invariants:
//! 1. Every byte of the file lies under a checksum, and no byte is believed before its checksum holds: that of a unit stands in
//!    the pointer to it, that of a filter in its node, that of a value in the reference to it, those of header and footer in themselves.
//! 2. The file is header, tree in post-order, footer, without holes: an inner page stands right behind the last of its
//!    subtrees (a lowest one behind the filters over its leaves, and these behind the leaves), a leaf right behind the long values of its rows. So whatever a damaged or forged file says, a walk ends.
//! 3. The tally in a pointer is that of all rows before its subtree, from the file's start: one number gives a prefix, and the
//!    difference of neighbours gives a subtree.
//! 4. A leaf has weights in its records exactly where measures could not be told from its bytes: where a value lies out of line
//!    and more than rows is measured. So no question for a tally reads a long value.
//! 5. A filter knows every key of its leaves, those of tombstones too. So no `get` of a run misses an entry, whatever is read for it.
//! 6. A leaf or a long value may be stored packed. Its checksum is that of the stored bytes, so damage is noticed before anything is unpacked; what comes out is checked like any other, and
//!    whoever reads never sees that it was packed.
//! 7. An open run never changes; it is safe to share between threads.
//!
//! Costs: writing keeps one page a level in memory and a buffer of 256 KiB. Opening reads header and footer. A question looks at
//! one unit a level, of about [`RunOptions::page_bytes`], and a long value one extent more; `get` of an absent key at a filter of about that size in place of a leaf. A scan reads the file once, 1 MiB at
//! a time, two threads ahead of itself, without an allocation a row.
//!
//! Not here: which runs make up a database (`manifest`).

mod charge;
mod check;
mod columns;
mod fetch;
mod file;
mod filter;
mod format;
mod histogram;
mod kept;
mod lacking;
mod layer;
mod measures;
mod node;
mod node_builder;
mod output;
mod packed;
mod pages;
mod parts;
mod passing;
mod pending;
mod pending_filters;
mod read_ahead;
mod resident;
#[cfg(test)]
mod rewrite;
mod salvage;
mod scan;
mod seen;
mod shape;
mod tiles;
mod trees;
mod window;
mod writer;

#[cfg(test)]
mod charge_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod fetch_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod histogram_tests;
#[cfg(test)]
mod kept_tests;
#[cfg(test)]
mod lacking_tests;
#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod resident_tests;
#[cfg(test)]
mod tests;

pub(crate) use charge::{Limits, charge, charge_together, plan};
pub(crate) use check::{check_bytes, check_leaf_bytes};
pub(crate) use file::RunFile;
pub(crate) use format::{Index, Sums};
pub(crate) use histogram::histogram;
pub use histogram::{Bucket, Estimate, Histogram, Resolution};
pub(crate) use lacking::{Lacking, lacking};
pub use layer::RunLayer;
pub(crate) use packed::packed_unit;
pub use pages::Missing;
pub(crate) use pages::{PageCache, ReadCost, ReadPages};
pub(crate) use parts::{Part, Run};
pub use resident::Preloaded;
pub(crate) use salvage::Lost;
pub use shape::RunShape;
pub(crate) use writer::{RunOptions, RunWriter};

use crate::compression::Compression;
use crate::tally::Measures;

/// What a run is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunInfo {
    /// The table that the rows belong to, as the writer said.
    pub(crate) table_id: u32,
    /// Tells this run from others of the table, as the writer said.
    pub(crate) run_id: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Version of the format.
    pub(crate) version: u32,
    /// Whether nothing lies below, so that every entry is a live row.
    pub(crate) is_bottom: bool,
    /// How leaves are found.
    pub(crate) index: Index,
    /// The sums of all entries.
    pub(crate) total: Sums,
    pub(crate) measures: Measures,
    /// The size that pages were filled to.
    pub(crate) page_bytes: usize,
    /// Pages from the root to a leaf; zero if there are no entries.
    pub(crate) levels: usize,
    /// How leaves and long values are stored.
    pub(crate) compression: Compression,
    /// How many bytes longer the file would be if none of them were packed.
    pub(crate) saved_bytes: u64,
}

impl RunInfo {
    /// Whether every entry is a live row that nothing lies below.
    pub(crate) fn has_live_rows_only(&self) -> bool {
        self.is_bottom || self.total.fresh() == self.total.entries && self.total.erased == 0
    }
}
