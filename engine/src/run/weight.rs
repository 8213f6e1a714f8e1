//! The weight of an entry of a leaf.

use crate::page::Record;
use crate::tally::{Measures, Tally};

/// The weight of an entry. It stands in the entry unless it follows from the entry's key and inline value.
pub(crate) fn weight_of<K: std::ops::Deref<Target = [u8]>>(
    entry: &Record<'_>,
    measures: &Measures,
    key: impl FnOnce() -> K,
) -> Tally {
    if entry.weights.is_empty() && !measures.only_rows() {
        measures.of_row(&key(), entry.value)
    } else {
        entry.explicit_weight(measures)
    }
}
