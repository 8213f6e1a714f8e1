//! Ranges of encoded keys, and where NULL begins and ends in them.

use std::cmp::Ordering;
use std::ops::Bound;

use quipu::{Bounds, tuple};

use crate::encoding::key_shape::KeyShape;
use crate::value::Value;

/// A range of encoded keys that owns its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) start: Bound<Vec<u8>>,
    pub(crate) end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range between two bounds, which another range has told.
    pub fn new(start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> KeyRange {
        KeyRange { start, end }
    }

    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange::new(Bound::Unbounded, Bound::Unbounded)
    }

    /// The range as the engine takes it.
    pub fn bounds(&self) -> Bounds<'_> {
        Bounds::new(self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }

    /// What lies in both.
    pub fn intersection(self, other: KeyRange) -> KeyRange {
        // An end at a key is placed beside it: 0 before, 1 after.
        fn place(bound: &Bound<Vec<u8>>, [included, excluded]: [u8; 2]) -> Option<(&[u8], u8)> {
            match bound {
                Bound::Unbounded => None,
                Bound::Included(key) => Some((key, included)),
                Bound::Excluded(key) => Some((key, excluded)),
            }
        }
        fn start(bound: &Bound<Vec<u8>>) -> Option<(&[u8], u8)> {
            place(bound, [0, 1])
        }
        fn end(bound: &Bound<Vec<u8>>) -> Option<(&[u8], u8)> {
            place(bound, [1, 0])
        }
        let first = if start(&self.start) >= start(&other.start) { self.start } else { other.start };
        let last = match (end(&self.end), end(&other.end)) {
            (Some(a), Some(b)) if a <= b => self.end,
            (Some(_), None) => self.end,
            _ => other.end,
        };
        match (start(&first), end(&last)) {
            // The engine takes no range that ends before it starts.
            (Some((key, _)), Some(last)) if start(&first) > Some(last) => {
                let key = key.to_vec();
                KeyRange::new(Bound::Included(key.clone()), Bound::Excluded(key))
            }
            _ => KeyRange::new(first, last),
        }
    }

    /// What of the range lies after this key of it, or before it; none if its ends say that nothing does.
    pub(crate) fn beyond(&self, key: &[u8], is_before: bool) -> Option<KeyRange> {
        let key = Bound::Excluded(key.to_vec());
        let (start, end) = if is_before { (self.start.clone(), key) } else { (key, self.end.clone()) };
        match (&start, &end) {
            // The engine takes no range between two ends that both leave out one key.
            (Bound::Included(low), Bound::Excluded(high))
            | (Bound::Excluded(low), Bound::Included(high))
            | (Bound::Excluded(low), Bound::Excluded(high))
                if low >= high =>
            {
                None
            }
            _ => Some(KeyRange::new(start, end)),
        }
    }

    /// All keys that begin with these bytes, which end where an element does.
    pub(crate) fn beginning_with(key: Vec<u8>) -> KeyRange {
        let end = after(key.clone());
        KeyRange { start: Bound::Included(key), end: Bound::Excluded(end) }
    }
}

/// An end of a range as values say it: before all keys that begin with these bytes, or after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidEnd {
    pub(crate) key: Vec<u8>,
    pub(crate) is_after: bool,
}

/// A range whose ends are said in values. The bytes of its ends are elements, so that columns can be told apart; with
/// what comes [`after`] them they would not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaidRange {
    pub(crate) start: Option<SaidEnd>,
    pub(crate) end: Option<SaidEnd>,
}

impl SaidEnd {
    fn cmp(&self, other: &SaidEnd) -> Ordering {
        let bytes = |end: &SaidEnd| end.is_after.then_some(AFTER_ALL);
        self.key.iter().copied().chain(bytes(self)).cmp(other.key.iter().copied().chain(bytes(other)))
    }

    fn into_bytes(self) -> Vec<u8> {
        if self.is_after { after(self.key) } else { self.key }
    }
}

impl SaidRange {
    /// What lies in both.
    pub(crate) fn and(self, other: SaidRange) -> SaidRange {
        let of_two = |one: Option<SaidEnd>, other: Option<SaidEnd>, wanted: Ordering| match (one, other) {
            (Some(one), Some(other)) => Some(if one.cmp(&other) == wanted { one } else { other }),
            (one, other) => one.or(other),
        };
        SaidRange {
            start: of_two(self.start, other.start, Ordering::Greater),
            end: of_two(self.end, other.end, Ordering::Less),
        }
    }

    /// The range without the keys that have NULL in its column: the first one in which its two ends differ. An end that
    /// names NULL there keeps them; and unless `also_unbounded`, so does a range that has no value there at all.
    pub(crate) fn without_nulls(mut self, shape: &KeyShape, also_unbounded: bool) -> SaidRange {
        fn bytes(end: &Option<SaidEnd>) -> &[u8] {
            end.as_ref().map_or(&[], |end| &end.key)
        }
        if !shape.nullable.contains(&true) {
            return self;
        }
        let (start, end) = (bytes(&self.start), bytes(&self.end));
        let (mut column, mut size) = (0, 0);
        for (start, end) in tuple::parts(start).zip(tuple::parts(end)) {
            if start.bytes() != end.bytes() {
                break;
            }
            column += 1;
            size += start.bytes().len();
        }
        let Some(key_column) = shape.columns.get(column) else { return self };
        if !shape.nullable.get(column).is_some_and(|&is_nullable| is_nullable) {
            return self;
        }
        let mut null = start[..size].to_vec();
        key_column.encode(&Value::Null, &mut null);
        // NULLs stand at one end. What the other end has in the column decides, if it has anything there.
        let (near, far) = if key_column.is_descending { (&self.end, start) } else { (&self.start, end) };
        let holds_nulls =
            near.as_ref().is_none_or(|near| near.key.len() == size && near.is_after == key_column.is_descending);
        let is_left_out = if far.len() == size { also_unbounded } else { !far.starts_with(&null) };
        if holds_nulls && is_left_out {
            if key_column.is_descending {
                self.end = Some(SaidEnd { key: null, is_after: false });
            } else {
                self.start = Some(SaidEnd { key: null, is_after: true });
            }
        }
        self
    }

    /// The keys that this means.
    pub(crate) fn into_keys(self) -> KeyRange {
        match (self.start, self.end) {
            // The engine takes no range that ends before it starts.
            (Some(start), Some(end)) if start.cmp(&end).is_gt() => {
                KeyRange::new(Bound::Included(end.key.clone()), Bound::Excluded(end.key))
            }
            (start, end) => KeyRange {
                start: start.map_or(Bound::Unbounded, |start| Bound::Included(start.into_bytes())),
                end: end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.into_bytes())),
            },
        }
    }
}

/// What stands after the values of the first columns in an end after all keys that begin with them: no element begins
/// with this byte.
const AFTER_ALL: u8 = 0xff;

/// What comes after all keys that begin with `key`.
pub(crate) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(AFTER_ALL);
    key
}
