//! Questions to runs whose pages may be missing: a run as a layer, look-ups of many keys, the pages that a range will
//! need, histograms, the run without ranges of keys; and the check of a run, which asks it everything.
//!
//! | file | what it is |
//! |---|---|
//! | `layer` | a run as a layer of a table: by key, by position, walks |
//! | `lookup`, `absent_keys` | many keys in one run; many runs that lack one key |
//! | `charge` | the pages that a range will need, requested before it is read |
//! | `histogram`, `histogram_tiles`, `histogram_trees` | histograms, from inner pages |
//! | `without_ranges` | a run without the ranges that were removed |
//! | `check` | every page, filter, count, key and value |
//! | `from_bytes`, `rewrite` | for tests: a run out of bytes; a run in the newest format |
//!
//! Not here: the bytes of runs (`run`), and where their pages are kept (`cache`).

mod absent_keys;
mod charge;
mod check;
#[cfg(any(test, feature = "fuzz"))]
mod from_bytes;
mod histogram;
mod histogram_tiles;
mod histogram_trees;
mod layer;
mod lookup;
#[cfg(test)]
mod rewrite;
mod without_ranges;

#[cfg(test)]
mod absent_keys_tests;
#[cfg(test)]
mod charge_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod histogram_tests;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod without_ranges_tests;

pub(crate) use absent_keys::{Lacking, lacking};
pub(crate) use charge::{Limits, charge, charge_together, plan};
#[cfg(feature = "fuzz")]
pub(crate) use from_bytes::packed_unit;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use from_bytes::{check_bytes, check_leaf_bytes};
pub(crate) use histogram::histogram;
pub use histogram::{Bucket, CountInterval, Histogram, Resolution};
pub use layer::RunLayer;
pub(crate) use without_ranges::excised;
