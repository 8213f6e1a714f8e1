//! The elements of a tuple as bytes, one after the other, and elements that sort in descending order.
//!
//! A descending element is the complement of an ascending one, so it sorts the other way round, and its tag tells its
//! direction. Strings end with two bytes before they are complemented: no element may be the beginning of another, or
//! the shorter of the two would come first in both directions.

use super::{Element, Reader, encode_into, size_of_first, tag};
use crate::error::{Error, ErrorKind, Result};

/// What ends a string in a descending element, complemented. The first of them may be an escape instead.
const END: [u8; 2] = [!tag::TERMINATOR, !tag::NULL];
const ESCAPED: u8 = !tag::ESCAPE;

/// Appends an element that sorts before all that are less: nulls come last.
///
/// ```
/// use quipu::tuple::{self, Element};
///
/// let key = |people: i64| {
///     let mut key = Vec::new();
///     tuple::encode_descending_into(&Element::from(people), &mut key);
///     key
/// };
/// assert!(key(428_000) < key(35_000));
/// ```
pub fn encode_descending_into(element: &Element<'_>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    encode_into(std::slice::from_ref(element), bytes);
    if matches!(element, Element::Text(_) | Element::Bytes(_)) {
        bytes.push(!END[1]);
    }
    bytes[start..].iter_mut().for_each(|byte| *byte = !*byte);
}

/// The elements of an encoded tuple, ascending and descending ones, as their bytes. Ends at the first that is cut short
/// or has an unknown tag: see [`Parts::rest`].
pub fn parts(bytes: &[u8]) -> Parts<'_> {
    Parts { rest: bytes }
}

/// An iterator over the elements of a tuple, made by [`parts`].
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The bytes after the elements that were taken; if the iterator has ended, empty unless they are no element.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    #[inline]
    fn next(&mut self) -> Option<Part<'a>> {
        let size = match self.rest.first()? {
            0..=0x7f => size_of_first(self.rest)?,
            _ => size_of_first_descending(self.rest)?,
        };
        let (bytes, rest) = self.rest.split_at(size);
        self.rest = rest;
        Some(Part { bytes })
    }
}

/// One element of a tuple as its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// The bytes, tag included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it sorts in descending order.
    pub fn is_descending(&self) -> bool {
        self.bytes[0] > 0x7f
    }

    /// The value.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the bytes are not what is written for some value.
    #[inline]
    pub fn element(&self) -> Result<Element<'a>> {
        // The common case: an integer, whose shortest form has no leading zero.
        if let [opening @ (tag::INT_MIN..=tag::INT_MAX), magnitude @ ..] = self.bytes {
            let is_negative = *opening < tag::INT_ZERO;
            let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
            if magnitude.first() != Some(&wide[0]) {
                wide[8 - magnitude.len()..].copy_from_slice(magnitude);
                let stored = u64::from_be_bytes(wide);
                let int = if is_negative { -i128::from(!stored) } else { i128::from(stored) };
                return Ok(Element::Int(int));
            }
        }
        self.any_element()
    }

    fn any_element(&self) -> Result<Element<'a>> {
        if !self.is_descending() {
            let element = Reader { bytes: self.bytes, position: 0 }.next()?;
            return element.ok_or_else(|| Error::new(ErrorKind::Invalid, "not a tuple: there is no element"));
        }
        let mut ascending: smallvec::SmallVec<[u8; 64]> = self.bytes.iter().map(|byte| !byte).collect();
        if matches!(ascending[0], tag::TEXT | tag::BYTES) {
            ascending.pop();
        }
        let element = Reader { bytes: &ascending, position: 0 }.next()?;
        let element = element.ok_or_else(|| Error::new(ErrorKind::Invalid, "not a tuple: there is no element"))?;
        Ok(element.into_owned())
    }
}

/// [`size_of_first`] of a descending element.
fn size_of_first_descending(bytes: &[u8]) -> Option<usize> {
    let opening = !*bytes.first()?;
    if matches!(opening, tag::TEXT | tag::BYTES) {
        let mut end = 1;
        loop {
            end += bytes[end..].iter().position(|&byte| byte == END[0])? + 2;
            match *bytes.get(end - 1)? {
                second if second == END[1] => return Some(end),
                ESCAPED => {}
                _ => return None,
            }
        }
    }
    // The size of any other follows from its first two bytes.
    let size = match (opening, bytes.get(1)) {
        (tag::WIDE_INT_POSITIVE, Some(second)) => super::wide_int_size(!second)?,
        (tag::WIDE_INT_NEGATIVE, Some(second)) => super::wide_int_size(*second)?,
        (tag::WIDE_INT_POSITIVE | tag::WIDE_INT_NEGATIVE, None) => return None,
        _ => super::fixed_size(opening)?,
    };
    (size <= bytes.len()).then_some(size)
}
