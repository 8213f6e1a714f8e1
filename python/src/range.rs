//! Ranges of encoded keys as Python holds them: opaque, and picklable.
//!
//! Not here: the values of their ends (`value`).

use std::ops::{Bound, RangeBounds};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quipu_rows::{KeyRange, Span};

use crate::error::{invalid, raised};

/// A range of the keys of a table or an index.
#[pyclass(frozen, module = "quipu._quipu")]
#[derive(Clone)]
pub(crate) struct Range {
    /// What was said of it, by which a further end, or a quantile, knows what is NULL.
    pub(crate) said: Span<'static>,
    /// The keys that this means.
    pub(crate) keys: KeyRange,
}

impl Range {
    pub(crate) fn all() -> Range {
        Range { said: Span::all(), keys: KeyRange::all() }
    }

    /// A part of a range that another question has told: all rows in it, NULL or not.
    pub(crate) fn told(keys: KeyRange) -> Range {
        Range { said: Span::from(&keys), keys }
    }
}

/// An end of a range: none, or a key and whether it is in the range.
type Edge<'py> = Option<(pyo3::Bound<'py, PyBytes>, bool)>;

/// The two ends of a range.
pub(crate) fn ends(keys: &KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bounds = keys.bounds();
    (bounds.start_bound().map(<[u8]>::to_vec), bounds.end_bound().map(<[u8]>::to_vec))
}

#[pymethods]
impl Range {
    #[new]
    fn new(py: Python<'_>, start: Option<(Vec<u8>, bool)>, end: Option<(Vec<u8>, bool)>) -> PyResult<Range> {
        let bound = |end: Option<(Vec<u8>, bool)>| match end {
            None => Bound::Unbounded,
            Some((key, true)) => Bound::Included(key),
            Some((key, false)) => Bound::Excluded(key),
        };
        if let (Some((start, _)), Some((end, _))) = (&start, &end)
            && start > end
        {
            return Err(raised(py, &invalid("a range ends before it starts")));
        }
        Ok(Range::told(KeyRange::new(bound(start), bound(end))))
    }

    /// Whether it has no ends.
    fn is_all(&self) -> bool {
        self.keys == KeyRange::all()
    }

    /// The two ends, each as the bytes of a key and whether that is in the range.
    fn ends<'py>(&self, py: Python<'py>) -> (Edge<'py>, Edge<'py>) {
        let (start, end) = ends(&self.keys);
        let shown = |bound: Bound<Vec<u8>>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((PyBytes::new(py, &key), true)),
            Bound::Excluded(key) => Some((PyBytes::new(py, &key), false)),
        };
        (shown(start), shown(end))
    }

    fn __eq__(&self, other: &Range) -> bool {
        self.keys == other.keys
    }
}
