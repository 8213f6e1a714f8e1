//! The order-preserving encoding of tuples: the encoded bytes sort as the values do.
//!
//! A key of several columns is one byte string to the trees below. Encoded here, those strings sort element by element,
//! a tuple that is the beginning of another sorts before it, and `decode` returns the original.
//! `docs/internals/format-tuple.md` describes the format; the idea is the FoundationDB tuple layer's.
//!
//! Invariants:
//! 1. `encode(a).cmp(&encode(b))` is `a.cmp(&b)` for all tuples, where [`Element`]'s order is null, bool, int, float,
//!    text, bytes, UUID, and within a kind the order of the values (`-0.0` is `0.0`; NaN is one value, after `+inf`).
//! 2. `decode(encode(t)) == t`, and `encode(decode(b)) == b` whenever `decode` accepts `b`: each tuple has one
//!    encoding.
//! 3. `decode` and `element_at` never panic on any bytes.
//!
//! Cost: one pass over the bytes. Text and bytes without a zero byte are borrowed; skipping allocates nothing.
//!
//! Elements in descending order, and the elements of a tuple as bytes, are in `part`.
//!
//! Not here: names and declared types of columns (the crate `quipu-rows`), and comparing an int with a float by value.
//! Each kind has its own tags, so every int sorts before every float; to mix the two in one column, store all as
//! floats, like `quipu import` does.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

mod part;
#[cfg(test)]
mod tests;

pub use part::{Part, Parts, encode_descending_into, parts};

mod tag {
    /// Ends a text or a byte string; inside one it is followed by [`ESCAPE`].
    pub(super) const TERMINATOR: u8 = 0x00;
    /// What follows a zero byte that is part of the value. No tag is as great, so `"a"` sorts before `"a\0"`.
    pub(super) const ESCAPE: u8 = 0xff;

    pub(super) const NULL: u8 = 0x01;
    pub(super) const FALSE: u8 = 0x02;
    pub(super) const TRUE: u8 = 0x03;
    /// The integer zero; `INT_ZERO + n` opens a positive integer of `n` bytes, `INT_ZERO - n` a negative one.
    pub(super) const INT_ZERO: u8 = 0x14;
    pub(super) const INT_MIN: u8 = INT_ZERO - 8;
    pub(super) const INT_MAX: u8 = INT_ZERO + 8;
    /// Integers whose magnitude takes 9 to 16 bytes; how many, the next byte says.
    pub(super) const WIDE_INT_NEGATIVE: u8 = INT_MIN - 1;
    pub(super) const WIDE_INT_POSITIVE: u8 = INT_MAX + 1;
    pub(super) const FLOAT: u8 = 0x21;
    pub(super) const TEXT: u8 = 0x30;
    pub(super) const BYTES: u8 = 0x31;
    pub(super) const UUID: u8 = 0x32;

    const _: () = assert!(TRUE < WIDE_INT_NEGATIVE && WIDE_INT_POSITIVE < FLOAT && FLOAT < TEXT && TEXT < BYTES);
    // Complemented, as tags of descending elements, they are above all of these and below the escape.
    const _: () = assert!(BYTES < UUID && UUID < !UUID && !NULL < ESCAPE);
}

const SIGN: u64 = 1 << 63;
/// The bits that every NaN is stored as, before the sign is flipped.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// One value of a tuple.
///
/// Comparison, equality and hash follow the encoded order, so `Float(-0.0) == Float(0.0)` and `Float(NAN) ==
/// Float(NAN)`.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// A missing value; sorts before all others.
    Null,
    /// `false`, then `true`.
    Bool(bool),
    /// A signed integer.
    Int(i128),
    /// A number of double precision: `-inf` first, `+inf` next to last, NaN last.
    Float(f64),
    /// UTF-8, in the order of its bytes (which is that of its code points).
    Text(Cow<'a, str>),
    /// Any bytes, in their order.
    Bytes(Cow<'a, [u8]>),
    /// Sixteen bytes, in their order.
    Uuid([u8; 16]),
}

impl Element<'_> {
    /// The same value, owning its bytes.
    pub fn into_owned(self) -> Element<'static> {
        match self {
            Element::Null => Element::Null,
            Element::Bool(value) => Element::Bool(value),
            Element::Int(value) => Element::Int(value),
            Element::Float(value) => Element::Float(value),
            Element::Text(text) => Element::Text(Cow::Owned(text.into_owned())),
            Element::Bytes(bytes) => Element::Bytes(Cow::Owned(bytes.into_owned())),
            Element::Uuid(uuid) => Element::Uuid(uuid),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Element::Null => 0,
            Element::Bool(_) => 1,
            Element::Int(_) => 2,
            Element::Float(_) => 3,
            Element::Text(_) => 4,
            Element::Bytes(_) => 5,
            Element::Uuid(_) => 6,
        }
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Bool(a), Element::Bool(b)) => a.cmp(b),
            (Element::Int(a), Element::Int(b)) => a.cmp(b),
            (Element::Float(a), Element::Float(b)) => match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                (a_is_nan, b_is_nan) => a_is_nan.cmp(&b_is_nan),
            },
            (Element::Text(a), Element::Text(b)) => a.cmp(b),
            (Element::Bytes(a), Element::Bytes(b)) => a.cmp(b),
            (Element::Uuid(a), Element::Uuid(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

impl Hash for Element<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
        match self {
            Element::Null => {}
            Element::Bool(value) => value.hash(state),
            Element::Int(value) => value.hash(state),
            Element::Float(value) => sortable_bits(*value).hash(state),
            Element::Text(text) => text.hash(state),
            Element::Bytes(bytes) => bytes.hash(state),
            Element::Uuid(uuid) => uuid.hash(state),
        }
    }
}

/// `null`, `true`, `-7`, `2.0`, `"text"` with escapes as in Rust, `x"00ff"`, `u"00ff..."`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Null => f.write_str("null"),
            Element::Bool(value) => write!(f, "{value}"),
            Element::Int(value) => write!(f, "{value}"),
            Element::Float(value) => write!(f, "{value:?}"),
            Element::Text(text) => write!(f, "{text:?}"),
            Element::Bytes(bytes) => write_hex(f, "x", bytes),
            Element::Uuid(uuid) => write_hex(f, "u", uuid),
        }
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8]) -> fmt::Result {
    write!(f, "{prefix}\"")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str("\"")
}

impl From<bool> for Element<'_> {
    fn from(value: bool) -> Self {
        Element::Bool(value)
    }
}

impl From<i64> for Element<'_> {
    fn from(value: i64) -> Self {
        Element::Int(value.into())
    }
}

impl From<f64> for Element<'_> {
    fn from(value: f64) -> Self {
        Element::Float(value)
    }
}

impl<'a> From<&'a str> for Element<'a> {
    fn from(text: &'a str) -> Self {
        Element::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [u8]> for Element<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Element::Bytes(Cow::Borrowed(bytes))
    }
}

/// The encoding of a tuple.
///
/// ```
/// use quipu::tuple::{self, Element};
///
/// let seventh = tuple::encode(&[Element::from("JFK"), Element::from(7)]);
/// let eighth = tuple::encode(&[Element::from("JFK"), Element::from(8)]);
/// assert!(seventh < eighth);
/// assert_eq!(tuple::decode(&seventh)?, [Element::from("JFK"), Element::from(7)]);
/// # Ok::<(), quipu::Error>(())
/// ```
pub fn encode(elements: &[Element<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(elements.len() * 9);
    encode_into(elements, &mut bytes);
    bytes
}

/// Appends the encoding of `elements` to `bytes`. The encoding of a tuple is the concatenation of those of its parts.
pub fn encode_into(elements: &[Element<'_>], bytes: &mut Vec<u8>) {
    for element in elements {
        match element {
            Element::Null => bytes.push(tag::NULL),
            Element::Bool(value) => bytes.push(if *value { tag::TRUE } else { tag::FALSE }),
            Element::Int(value) => encode_int(*value, bytes),
            Element::Float(value) => {
                bytes.push(tag::FLOAT);
                bytes.extend_from_slice(&sortable_bits(*value).to_be_bytes());
            }
            Element::Text(text) => encode_string(tag::TEXT, text.as_bytes(), bytes),
            Element::Bytes(value) => encode_string(tag::BYTES, value, bytes),
            Element::Uuid(uuid) => {
                bytes.push(tag::UUID);
                bytes.extend_from_slice(uuid);
            }
        }
    }
}

/// The range of keys that begin with all of `elements`, including the tuple itself, and no others.
///
/// A prefix of the bytes is not enough: the encoding of `("a")` also begins that of `("a\0")`.
///
/// ```
/// use quipu::tuple::{self, Element};
///
/// let jfk = tuple::range(&[Element::from("JFK")]);
/// assert!(jfk.contains(&tuple::encode(&[Element::from("JFK"), Element::from(7)])));
/// assert!(!jfk.contains(&tuple::encode(&[Element::from("JFK\0")])));
/// ```
pub fn range(elements: &[Element<'_>]) -> Range<Vec<u8>> {
    let start = encode(elements);
    let mut end = start.clone();
    end.push(tag::ESCAPE);
    start..end
}

/// The elements of an encoded tuple.
///
/// # Errors
///
/// `Invalid` if `bytes` are not exactly what [`encode`] writes for some tuple; the message has the offset.
pub fn decode(bytes: &[u8]) -> Result<Vec<Element<'_>>> {
    let mut reader = Reader { bytes, position: 0 };
    let mut elements = Vec::new();
    while let Some(element) = reader.next()? {
        elements.push(element);
    }
    Ok(elements)
}

/// The element at `index` (from 0) of an encoded tuple. Skips those before it.
///
/// `None` if there are fewer, or if the bytes up to that element are not a tuple's. Earlier elements are skipped by
/// their length alone, so only `decode` finds out whether each is well formed.
pub fn element_at(bytes: &[u8], index: usize) -> Option<Element<'_>> {
    let mut reader = Reader { bytes, position: 0 };
    for _ in 0..index {
        reader.skip()?;
    }
    reader.next().ok().flatten()
}

/// The bits of a float, transformed so that they sort as floats do.
fn sortable_bits(value: f64) -> u64 {
    let bits = if value.is_nan() {
        NAN_BITS
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

#[inline]
fn encode_int(value: i128, bytes: &mut Vec<u8>) {
    let magnitude = value.unsigned_abs();
    let Ok(magnitude) = u64::try_from(magnitude) else { return encode_wide_int(value, bytes) };
    let size = (8 - magnitude.leading_zeros() / 8) as u8;
    let (opening, stored) =
        if value < 0 { (tag::INT_ZERO - size, !magnitude) } else { (tag::INT_ZERO + size, magnitude) };
    bytes.push(opening);
    bytes.extend_from_slice(&stored.to_be_bytes()[8 - usize::from(size)..]);
}

#[cold]
fn encode_wide_int(value: i128, bytes: &mut Vec<u8>) {
    let magnitude = value.unsigned_abs();
    let size = (16 - magnitude.leading_zeros() / 8) as u8;
    let (opening, size_stored, stored) = match value < 0 {
        true => (tag::WIDE_INT_NEGATIVE, !size, !magnitude),
        false => (tag::WIDE_INT_POSITIVE, size, magnitude),
    };
    bytes.extend_from_slice(&[opening, size_stored]);
    bytes.extend_from_slice(&stored.to_be_bytes()[16 - usize::from(size)..]);
}

fn encode_string(opening: u8, value: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(opening);
    let mut parts = value.split(|&byte| byte == tag::TERMINATOR);
    bytes.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        bytes.extend_from_slice(&[tag::TERMINATOR, tag::ESCAPE]);
        bytes.extend_from_slice(part);
    }
    bytes.push(tag::TERMINATOR);
}

/// Walks an encoded tuple; `position` is always the offset of a tag or the end.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<Element<'a>>> {
        let start = self.position;
        let wrong = |what: &str| Error::new(ErrorKind::Invalid, format!("not a tuple: {what} at byte {start}"));
        let Some(&opening) = self.bytes.get(start) else { return Ok(None) };
        self.skip().ok_or_else(|| wrong("an unknown tag or an element cut short"))?;
        let body = &self.bytes[start + 1..self.position];
        let element = match opening {
            tag::NULL => Element::Null,
            tag::FALSE => Element::Bool(false),
            tag::TRUE => Element::Bool(true),
            tag::INT_MIN..=tag::INT_MAX => Element::Int(
                decode_int(opening >= tag::INT_ZERO, body).ok_or_else(|| wrong("an integer longer than it need be"))?,
            ),
            tag::WIDE_INT_NEGATIVE | tag::WIDE_INT_POSITIVE => Element::Int(
                decode_int(opening >= tag::INT_ZERO, &body[1..])
                    .ok_or_else(|| wrong("an integer longer than it need be, or past 128 bits,"))?,
            ),
            tag::FLOAT => Element::Float(decode_float(body).ok_or_else(|| wrong("a negative zero or an unusual NaN"))?),
            tag::TEXT => Element::Text(match unescape(body) {
                Cow::Borrowed(text) => {
                    Cow::Borrowed(std::str::from_utf8(text).map_err(|_| wrong("text that is not UTF-8"))?)
                }
                Cow::Owned(text) => Cow::Owned(String::from_utf8(text).map_err(|_| wrong("text that is not UTF-8"))?),
            }),
            tag::BYTES => Element::Bytes(unescape(body)),
            _ => Element::Uuid(body.try_into().map_err(|_| wrong("a UUID of another length"))?),
        };
        Ok(Some(element))
    }

    /// Skips one element; `None`, and no step, if there is none, its end is missing or its tag is unknown.
    #[inline]
    fn skip(&mut self) -> Option<()> {
        self.position += size_of_first(&self.bytes[self.position..])?;
        Some(())
    }
}

/// The bytes that the element at the front takes; `None` if there is none, its end is missing or its tag is unknown.
#[inline]
fn size_of_first(bytes: &[u8]) -> Option<usize> {
    let size = match *bytes.first()? {
        tag::TEXT | tag::BYTES => {
            let mut end = 1;
            loop {
                end += bytes[end..].iter().position(|&byte| byte == tag::TERMINATOR)? + 1;
                if bytes.get(end) != Some(&tag::ESCAPE) {
                    break end;
                }
                end += 1;
            }
        }
        tag::WIDE_INT_POSITIVE => wide_int_size(*bytes.get(1)?)?,
        tag::WIDE_INT_NEGATIVE => wide_int_size(!*bytes.get(1)?)?,
        opening => fixed_size(opening)?,
    };
    (size <= bytes.len()).then_some(size)
}

/// The size of an element whose tag tells it.
#[inline]
fn fixed_size(opening: u8) -> Option<usize> {
    Some(match opening {
        tag::NULL | tag::FALSE | tag::TRUE => 1,
        tag::INT_MIN..=tag::INT_MAX => 1 + usize::from(opening.abs_diff(tag::INT_ZERO)),
        tag::FLOAT => 9,
        tag::UUID => 17,
        _ => return None,
    })
}

fn wide_int_size(magnitude_bytes: u8) -> Option<usize> {
    matches!(magnitude_bytes, 9..=16).then_some(2 + usize::from(magnitude_bytes))
}

fn decode_int(positive: bool, stored: &[u8]) -> Option<i128> {
    let mut wide = if positive { [0; 16] } else { [0xff; 16] };
    wide[16 - stored.len()..].copy_from_slice(stored);
    let magnitude = if positive { u128::from_be_bytes(wide) } else { !u128::from_be_bytes(wide) };
    let shortest = 16 - magnitude.leading_zeros() as usize / 8;
    if stored.len() != shortest {
        return None;
    }
    if positive { i128::try_from(magnitude).ok() } else { 0i128.checked_sub_unsigned(magnitude) }
}

fn decode_float(stored: &[u8]) -> Option<f64> {
    let sorted = u64::from_be_bytes(stored.try_into().ok()?);
    let bits = if sorted & SIGN == 0 { !sorted } else { sorted & !SIGN };
    let value = f64::from_bits(bits);
    (sortable_bits(value) == sorted).then_some(value)
}

/// The value of a string's body: `body` without its terminator, and each `00 ff` as `00`.
fn unescape(body: &[u8]) -> Cow<'_, [u8]> {
    let body = &body[..body.len() - 1];
    if !body.contains(&tag::TERMINATOR) {
        return Cow::Borrowed(body);
    }
    let mut value = Vec::with_capacity(body.len());
    let mut escaped = false;
    for &byte in body {
        if !escaped {
            value.push(byte);
        }
        escaped = !escaped && byte == tag::TERMINATOR;
    }
    Cow::Owned(value)
}
