//! Ranges of keys as callers write them.

use std::borrow::Cow;
use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::stack::Cut;

/// A range of keys. Made from `..`, `a..b`, `a..=b`, `a..`, `..b` or `..=b` over anything that is bytes, or from a
/// prefix.
///
/// ```
/// use quipu::Bounds;
/// let all = Bounds::from(..);
/// let some = Bounds::from("a".."b");
/// assert!(some.contains(b"abc") && !some.contains(b"b") && all.contains(b""));
/// assert!(Bounds::prefix(b"ab").contains(b"abc"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds<'a> {
    start: Bound<Cow<'a, [u8]>>,
    end: Bound<Cow<'a, [u8]>>,
}

impl<'a> Bounds<'a> {
    /// The range between two bounds.
    pub fn new(start: Bound<&'a [u8]>, end: Bound<&'a [u8]>) -> Self {
        Bounds { start: start.map(Cow::Borrowed), end: end.map(Cow::Borrowed) }
    }

    /// The range of all keys that start with `prefix`.
    pub fn prefix(prefix: &'a [u8]) -> Self {
        // The first key after all of them: the prefix without its trailing 0xFF bytes, the last byte one up.
        let end = match prefix.iter().rposition(|&byte| byte != 0xFF) {
            None => Bound::Unbounded,
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Bound::Excluded(Cow::Owned(end))
            }
        };
        Bounds { start: Bound::Included(Cow::Borrowed(prefix)), end }
    }

    /// The range between two cuts.
    pub(crate) fn between(start: Cut<'_>, end: Cut<'_>) -> Bounds<'static> {
        let own = |key: &[u8]| Cow::Owned(key.to_vec());
        let start = match start {
            Cut::Start => Bound::Unbounded,
            Cut::Before(key) => Bound::Included(own(key)),
            Cut::After(key) => Bound::Excluded(own(key)),
            Cut::End => unreachable!("no range begins after all keys"),
        };
        let end = match end {
            Cut::Start => unreachable!("no range ends before all keys"),
            Cut::Before(key) => Bound::Excluded(own(key)),
            Cut::After(key) => Bound::Included(own(key)),
            Cut::End => Bound::Unbounded,
        };
        Bounds { start, end }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after_start = match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => key >= &**start,
            Bound::Excluded(start) => key > &**start,
        };
        let before_end = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= &**end,
            Bound::Excluded(end) => key < &**end,
        };
        after_start && before_end
    }

    /// The same range, owning its bytes.
    pub fn into_owned(self) -> Bounds<'static> {
        let own = |bound: Bound<Cow<'a, [u8]>>| bound.map(|key| Cow::Owned(key.into_owned()));
        Bounds { start: own(self.start), end: own(self.end) }
    }

    pub(crate) fn start(&self) -> Cut<'_> {
        match &self.start {
            Bound::Unbounded => Cut::Start,
            Bound::Included(key) => Cut::Before(key),
            Bound::Excluded(key) => Cut::After(key),
        }
    }

    pub(crate) fn end(&self) -> Cut<'_> {
        match &self.end {
            Bound::Unbounded => Cut::End,
            Bound::Included(key) => Cut::After(key),
            Bound::Excluded(key) => Cut::Before(key),
        }
    }

    pub(crate) fn set_start_after(&mut self, key: &[u8]) {
        self.start = Bound::Excluded(Cow::Owned(key.to_vec()));
    }

    pub(crate) fn set_end_before(&mut self, key: &[u8]) {
        self.end = Bound::Excluded(Cow::Owned(key.to_vec()));
    }
}

impl RangeBounds<[u8]> for Bounds<'_> {
    fn start_bound(&self) -> Bound<&[u8]> {
        self.start.as_ref().map(|key| &**key)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(|key| &**key)
    }
}

impl From<RangeFull> for Bounds<'_> {
    fn from(_: RangeFull) -> Self {
        Bounds { start: Bound::Unbounded, end: Bound::Unbounded }
    }
}

macro_rules! bounds_from {
    ($($range:ident),*) => {$(
        impl<'a, K: AsRef<[u8]> + ?Sized> From<$range<&'a K>> for Bounds<'a> {
            fn from(range: $range<&'a K>) -> Self {
                Bounds::new(
                    range.start_bound().map(|key| (*key).as_ref()),
                    range.end_bound().map(|key| (*key).as_ref()),
                )
            }
        }

        impl From<$range<Vec<u8>>> for Bounds<'static> {
            fn from(range: $range<Vec<u8>>) -> Self {
                let (start, end) = (range.start_bound(), range.end_bound());
                Bounds::new(start.map(|key| &**key), end.map(|key| &**key)).into_owned()
            }
        }
    )*};
}

bounds_from!(Range, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);

impl<'a> From<&'a Range<Vec<u8>>> for Bounds<'a> {
    fn from(range: &'a Range<Vec<u8>>) -> Self {
        Bounds::new(Bound::Included(&range.start), Bound::Excluded(&range.end))
    }
}

impl<'a> From<(Bound<&'a [u8]>, Bound<&'a [u8]>)> for Bounds<'a> {
    fn from((start, end): (Bound<&'a [u8]>, Bound<&'a [u8]>)) -> Self {
        Bounds::new(start, end)
    }
}

impl<'a> From<&'a Bounds<'_>> for Bounds<'a> {
    fn from(bounds: &'a Bounds<'_>) -> Self {
        let borrow = |bound: &'a Bound<Cow<'_, [u8]>>| match bound {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => Bound::Included(Cow::Borrowed(&**key)),
            Bound::Excluded(key) => Bound::Excluded(Cow::Borrowed(&**key)),
        };
        Bounds { start: borrow(&bounds.start), end: borrow(&bounds.end) }
    }
}

impl Bounds<'static> {
    /// The part of this range from its start up to and including the single key of `last`; from its end if `reverse`.
    pub(crate) fn cut_at(self, last: &Bounds<'static>, reverse: bool) -> Bounds<'static> {
        if reverse {
            Bounds { start: last.start.clone(), end: self.end }
        } else {
            Bounds { start: self.start, end: last.end.clone() }
        }
    }
}
