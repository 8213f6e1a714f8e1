//! Questions of a stack to a layer. Trees answer at once; a layer on disk may miss a page.

use std::convert::Infallible;
use std::ops::Range;

use smallvec::SmallVec;

use super::Located;
use crate::page::KeyBuffer;
use crate::tally::Tally;
use crate::tree::{self, Side, View, Walk};

/// The answer of a stack whose layers are all in memory.
#[inline(always)]
pub(crate) fn infallible<T>(answer: Result<T, Infallible>) -> T {
    let Ok(answer) = answer;
    answer
}

/// Passes each answer to `each`. Evaluates all of them before it returns a fault, so that all missing pages are noted
/// together.
#[inline(always)]
pub(crate) fn ask_all<T, F>(answers: impl Iterator<Item = Result<T, F>>, mut each: impl FnMut(T)) -> Result<(), F> {
    let mut asked = Ok(());
    for answer in answers {
        match answer {
            Ok(answer) => each(answer),
            Err(fault) => asked = Err(fault),
        }
    }
    asked
}

/// The first answer that one of `layers` has.
#[inline(always)]
pub(crate) fn first_of<'l, L: 'l, T, F>(
    mut layers: impl Iterator<Item = &'l L>,
    ask: impl Fn(&L) -> Result<Option<T>, F>,
) -> Result<Option<T>, F> {
    layers.find_map(|layer| ask(layer).transpose()).transpose()
}

/// An ordered set of entries that knows the tally of everything before a key.
pub trait Layer<'a>: Copy {
    /// A place in the layer.
    type Walk: LayerWalk<'a, Fault = Self::Fault>;
    /// The fault of a missing page, for layers that may miss one.
    type Fault;
    /// What a stack of such layers remembers of its last key.
    type Asked: Default;

    /// Whether nothing lies below, so that every entry is a live row.
    fn is_bottom(&self) -> bool;
    /// The tally of all entries.
    fn total(&self) -> Tally;
    /// The entry of `key`: `None` if there is none, `Some(None)` if it is a tombstone.
    fn get(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, Self::Fault>;
    /// The answer of `ask` for `key` in the newest of `layers` that has an entry of it; `asked` is what their stack
    /// remembers. Layers known to have none may be skipped.
    #[inline(always)]
    fn newest<T>(
        layers: &[Self],
        _asked: &Self::Asked,
        _key: &[u8],
        ask: impl Fn(&Self) -> Result<Option<T>, Self::Fault>,
    ) -> Result<Option<T>, Self::Fault> {
        first_of(layers.iter(), ask)
    }
    /// Whether the entry of `key` is live; `None` if there is none.
    fn is_live(&self, key: &[u8]) -> Result<Option<bool>, Self::Fault>;
    /// The tally of the entries before `key`.
    fn tally_before(&self, key: &[u8], side: Side) -> Result<Tally, Self::Fault>;
    /// The rows of the entries before `key`.
    fn rows_before(&self, key: &[u8], side: Side) -> Result<i64, Self::Fault>;
    /// The rows of the entries between two cuts, the first not after the second.
    fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> Result<i64, Self::Fault>;
    /// The entry at `offset` of a bottom layer.
    fn nth(&self, offset: u64) -> Result<Self::Walk, Self::Fault>;
    /// The number of entries, for a layer that knows the positions of its entries.
    fn entries(&self) -> Option<i64> {
        None
    }
    /// A key near `position` that splits the entries at positions `within`, and where it is, for a layer that knows
    /// positions. `position` is one of them. Prefers a key that is known without reading entries: then there is at
    /// least one on either side; otherwise it is that of the entry at `position`.
    fn pivot_near(&self, _position: i64, _within: Range<i64>) -> Result<(KeyBuffer, Located), Self::Fault> {
        unreachable!("the layer knows no positions")
    }
    /// Where `key` is.
    fn locate(&self, key: &[u8]) -> Result<Located, Self::Fault> {
        Located::of_rows(self, key)
    }
    /// [`Layer::locate`] for at most [`GROUP`](tree::GROUP) keys. `located` gets each place with the index of its key,
    /// in order.
    fn locate_group(&self, keys: &[&[u8]], located: impl FnMut(usize, Result<Located, Self::Fault>));
    /// A key between two others with about as many entries on either side, and about how many; `None` if no entry lies
    /// between. For a layer that knows no positions.
    fn pivot(&self, _low: Option<&[u8]>, _high: Option<&[u8]>) -> Result<Option<(KeyBuffer, u64)>, Self::Fault> {
        unreachable!("the layer knows positions")
    }
    /// The first entry that is not before `key`; the first of all for `None`.
    fn seek(&self, key: Option<(&[u8], Side)>) -> Result<Self::Walk, Self::Fault>;
    /// The place after all entries.
    fn end(&self) -> Result<Self::Walk, Self::Fault>;
}

/// A place in a layer, at an entry or past an end.
pub trait LayerWalk<'a> {
    /// The fault of the layer. A walk that fails stays where it is.
    type Fault;

    /// Whether there is an entry here.
    fn valid(&self) -> bool;
    /// Moves to the next entry.
    fn next(&mut self) -> Result<(), Self::Fault>;
    /// Moves to the previous entry; from past the end to the last.
    fn prev(&mut self) -> Result<(), Self::Fault>;
    /// Appends the key here.
    fn key_into(&self, key: &mut KeyBuffer);
    /// The key here.
    fn key(&self) -> KeyBuffer {
        let mut key = KeyBuffer::new();
        self.key_into(&mut key);
        key
    }
    /// Whether the entry here is a value, not a tombstone.
    fn is_live(&self) -> bool;
    /// The value here; `None` for a tombstone.
    fn value(&self) -> Result<Option<&'a [u8]>, Self::Fault>;
    /// The weight of the entry here, whose key is `key`.
    fn weight(&self, key: &[u8]) -> Tally;
}

impl<'a> Layer<'a> for View<'a> {
    type Walk = Walk<'a>;
    type Fault = Infallible;
    type Asked = ();

    fn is_bottom(&self) -> bool {
        View::is_bottom(self)
    }

    fn total(&self) -> Tally {
        View::total(self)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, Infallible> {
        Ok(View::get(self, key).map(|found| found.value()))
    }

    #[inline]
    fn is_live(&self, key: &[u8]) -> Result<Option<bool>, Infallible> {
        Ok(View::get(self, key).map(|found| !found.record.is_tombstone()))
    }

    #[inline]
    fn tally_before(&self, key: &[u8], side: Side) -> Result<Tally, Infallible> {
        Ok(View::tally_before(self, key, side))
    }

    #[inline]
    fn rows_before(&self, key: &[u8], side: Side) -> Result<i64, Infallible> {
        Ok(View::rows_before(self, key, side))
    }

    #[inline]
    fn rows_between(&self, start: (&[u8], Side), end: (&[u8], Side)) -> Result<i64, Infallible> {
        Ok(View::rows_between(self, start, end))
    }

    #[inline]
    fn nth(&self, offset: u64) -> Result<Walk<'a>, Infallible> {
        Ok(View::nth(self, offset))
    }

    fn locate_group(&self, keys: &[&[u8]], mut located: impl FnMut(usize, Result<Located, Infallible>)) {
        let cuts: SmallVec<[(&[u8], Side); tree::GROUP]> = keys.iter().map(|key| (*key, Side::Below)).collect();
        tree::rows_before_many(self, &cuts, |number, rows| {
            located(number, Ok(Located { rows, ..Located::default() }));
        });
    }

    fn pivot(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<Option<(KeyBuffer, u64)>, Infallible> {
        Ok(View::pivot(self, low, high))
    }

    fn seek(&self, key: Option<(&[u8], Side)>) -> Result<Walk<'a>, Infallible> {
        Ok(match key {
            None => Walk::first(*self),
            Some((key, side)) => Walk::seek(*self, key, side),
        })
    }

    fn end(&self) -> Result<Walk<'a>, Infallible> {
        Ok(Walk::end(*self))
    }
}

impl<'a> LayerWalk<'a> for Walk<'a> {
    type Fault = Infallible;

    #[inline]
    fn valid(&self) -> bool {
        Walk::valid(self)
    }

    #[inline]
    fn next(&mut self) -> Result<(), Infallible> {
        Walk::next(self);
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Infallible> {
        Walk::prev(self);
        Ok(())
    }

    #[inline]
    fn key_into(&self, key: &mut KeyBuffer) {
        Walk::key_into(self, key);
    }

    fn is_live(&self) -> bool {
        !Walk::record(self).is_tombstone()
    }

    #[inline]
    fn value(&self) -> Result<Option<&'a [u8]>, Infallible> {
        Ok(Walk::value(self))
    }

    fn weight(&self, key: &[u8]) -> Tally {
        Walk::weight(self, key)
    }
}
