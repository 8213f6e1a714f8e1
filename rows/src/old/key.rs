//! Composite keys: the ranges of all keys that begin alike.
//!
//! A key is the tuple of its columns' values, so the keys that share their first columns stand together, in the order
//! of the columns after them. A range of keys is found by what the keys begin with; nothing here depends on a schema.

use std::ops::Bound;

use quipu::tuple::{self, Element};
use quipu::{Bounds, Error, ErrorKind, Result};

/// A range of encoded keys that owns its ends.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The range as the engine takes it.
pub fn bounds((start, end): &KeyRange) -> Bounds<'_> {
    Bounds::new(start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))
}

/// All keys whose first columns have these values.
///
/// ```
/// use quipu::tuple::{self, Element};
/// use quipu_rows::old::keys_with;
/// use std::ops::RangeBounds;
///
/// let (start, end) = keys_with(&[Element::from("JFK")]);
/// let key = tuple::encode(&[Element::from("JFK"), Element::Int(7)]);
/// assert!((start, end).contains(&key));
/// ```
pub fn keys_with(values: &[Element<'_>]) -> KeyRange {
    let range = tuple::range(values);
    (Bound::Included(range.start), Bound::Excluded(range.end))
}

/// All keys whose first columns have these values, the last of them text that may go on: `("JF")` covers `("JFK", 7)`.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if the last value is not text.
pub fn keys_with_text(values: &[Element<'_>]) -> Result<KeyRange> {
    if !matches!(values.last(), Some(Element::Text(_))) {
        return Err(Error::new(ErrorKind::Invalid, "only text can be continued, and this column is not of type text"));
    }
    let mut prefix = tuple::encode(values);
    // Without its terminator, the encoding of a text is what the encodings of all its continuations begin with.
    prefix.pop();
    Ok(keys_with_prefix(prefix))
}

/// All keys that begin with these bytes.
pub fn keys_with_prefix(prefix: Vec<u8>) -> KeyRange {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return (Bound::Included(prefix), Bound::Excluded(end));
        }
    }
    (Bound::Included(prefix), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;

    #[test]
    fn keys_that_begin_alike_lie_in_one_range() {
        let key = |text: &str| tuple::encode(&[Element::from(text), Element::Int(7)]);
        let whole = keys_with(&[Element::from("JF")]);
        let begun = keys_with_text(&[Element::from("JF")]).unwrap();
        for (text, in_whole, in_begun) in [
            ("JF", true, true),
            ("JFK", false, true),
            ("JF\0", false, true),
            ("JE", false, false),
            ("JG", false, false),
        ] {
            assert_eq!(whole.contains(&key(text)), in_whole, "{text:?}");
            assert_eq!(begun.contains(&key(text)), in_begun, "{text:?}");
        }
    }

    #[test]
    fn only_text_can_be_continued() {
        assert_eq!(keys_with_text(&[Element::Int(7)]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(keys_with_text(&[]).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_prefix_of_the_highest_bytes_has_no_end() {
        assert_eq!(keys_with_prefix(vec![0xff, 0xff]).1, Bound::Unbounded);
        assert_eq!(keys_with_prefix(vec![1, 0xff]).1, Bound::Excluded(vec![2]));
        assert_eq!(keys_with_prefix(Vec::new()), (Bound::Included(Vec::new()), Bound::Unbounded));
    }
}
