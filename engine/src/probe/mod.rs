//! Questions to runs whose pages may be missing: a run as a layer, look-ups of many keys, the pages that a range will
//! need, histograms, the run without ranges of keys; and the check of a run, which asks it everything.
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
