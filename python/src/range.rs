//! Ranges of encoded keys as Python holds them: opaque, and picklable.

use std::ops::{Bound, RangeBounds};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quipu_rows::KeyRange;

use crate::error::{invalid, raised};

/// A range of the keys of a table or an index.
#[pyclass(frozen, module = "quipu._quipu")]
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) keys: KeyRange,
}

/// An end of a range: none, or a key and whether it is in the range.
type Edge<'py> = Option<(pyo3::Bound<'py, PyBytes>, bool)>;

/// The two ends of a range.
pub(crate) fn ends(keys: &KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bounds = keys.bounds();
    (bounds.start_bound().map(<[u8]>::to_vec), bounds.end_bound().map(<[u8]>::to_vec))
}

pub(crate) fn all() -> KeyRange {
    KeyRange::new(Bound::Unbounded, Bound::Unbounded)
}

/// What lies in both.
pub(crate) fn intersection(a: &KeyRange, b: &KeyRange) -> KeyRange {
    let ((a_start, a_end), (b_start, b_end)) = (ends(a), ends(b));
    // An end at a key is placed beside it: 0 before, 1 after.
    let start = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key.clone(), 0)),
        Bound::Excluded(key) => Some((key.clone(), 1)),
    };
    let end = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key.clone(), 1)),
        Bound::Excluded(key) => Some((key.clone(), 0)),
    };
    let first = if start(&a_start) >= start(&b_start) { a_start } else { b_start };
    let last = match (end(&a_end), end(&b_end)) {
        (Some(a), Some(b)) if a <= b => a_end,
        (Some(_), None) => a_end,
        _ => b_end,
    };
    // The engine takes no range that ends before it starts.
    match (start(&first), end(&last)) {
        (Some(from), Some(to)) if from > to => KeyRange::new(first.clone(), nothing_after(first)),
        _ => KeyRange::new(first, last),
    }
}

/// The end of the empty range with this start.
fn nothing_after(start: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match start {
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
        Bound::Unbounded => Bound::Unbounded,
    }
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
        Ok(Range { keys: KeyRange::new(bound(start), bound(end)) })
    }

    /// What lies in this range and in another one.
    fn intersection(&self, other: &Range) -> Range {
        Range { keys: intersection(&self.keys, &other.keys) }
    }

    /// Whether it has no ends.
    fn is_all(&self) -> bool {
        self.keys == all()
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
