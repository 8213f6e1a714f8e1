//! Values and their types: what a column holds, how it is written as text and as JSON, and how texts sort.
//!
//! | file | what it is |
//! |---|---|
//! | `data_type` | the types, and their names |
//! | `decimal`, `time`, `time_arithmetic` | exact decimals; dates and moments |
//! | `accept` | whether a value fits a type, and what it becomes there |
//! | `text`, `json` | values as text and as JSON, and back |
//! | `number` | decimal numbers of any size, as texts |
//! | `collation` | the order of texts that ignores case and accents |
//! | `keyed_bytes` | bytes that tell by which part of them they sort |

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use smallvec::SmallVec;
use uuid::Uuid;

pub(crate) mod accept;
pub(crate) mod collation;
pub(crate) mod data_type;
pub(crate) mod decimal;
pub(crate) mod json;
pub mod keyed_bytes;
pub(crate) mod number;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod text;
pub(crate) mod time;
mod time_arithmetic;

use data_type::{Collation, DataType};
use decimal::Decimal;
use time::{Date, Timestamp};

/// A value of a column, borrowed or owned.
///
/// There is one variant for all integers and one for both kinds of floats: the column's [`DataType`] says how large
/// they may be. Equality and order are those of keys: values of one variant compare by what they are (`-0.0` is `0.0`,
/// and all NaN are one value, after `+inf`), those of different variants by the variant, NULL first.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of any type.
    Int(i128),
    /// A number of double precision, or of single precision, which is exact here.
    Float(f64),
    /// An exact decimal number.
    Decimal(Decimal),
    /// A decimal number of any size, as its text: `12.50`, `NaN`, `-Infinity`.
    Numeric(Cow<'a, str>),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A day.
    Date(Date),
    /// A moment in UTC.
    Timestamp(Timestamp),
    /// A UUID.
    Uuid(Uuid),
    /// JSON, as its text.
    Json(Cow<'a, str>),
}

/// The values of all columns of a row, in the order of the schema.
pub(crate) type Values<'v> = SmallVec<[Value<'v>; 16]>;

impl<'a> Value<'a> {
    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The same value, owning its bytes.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Float(value) => Value::Float(value),
            Value::Decimal(value) => Value::Decimal(value),
            Value::Numeric(text) => Value::Numeric(Cow::Owned(text.into_owned())),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Date(value) => Value::Date(value),
            Value::Timestamp(value) => Value::Timestamp(value),
            Value::Uuid(value) => Value::Uuid(value),
            Value::Json(text) => Value::Json(Cow::Owned(text.into_owned())),
        }
    }

    /// The same value, borrowing from this one.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(*value),
            Value::Int(value) => Value::Int(*value),
            Value::Float(value) => Value::Float(*value),
            Value::Decimal(value) => Value::Decimal(*value),
            Value::Numeric(text) => Value::Numeric(Cow::Borrowed(text)),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Value::Date(value) => Value::Date(*value),
            Value::Timestamp(value) => Value::Timestamp(*value),
            Value::Uuid(value) => Value::Uuid(*value),
            Value::Json(text) => Value::Json(Cow::Borrowed(text)),
        }
    }

    /// What it is, for messages: the variant's name as users know it.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Decimal(_) => "a decimal",
            Value::Numeric(_) => "a number of any size",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Date(_) => "a date",
            Value::Timestamp(_) => "a timestamp",
            Value::Uuid(_) => "a UUID",
            Value::Json(_) => "JSON",
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Decimal(_) => 4,
            Value::Text(_) => 5,
            Value::Bytes(_) => 6,
            Value::Date(_) => 7,
            Value::Timestamp(_) => 8,
            Value::Uuid(_) => 9,
            Value::Json(_) => 10,
            Value::Numeric(_) => 11,
        }
    }
}

/// The order of floats in keys: `-0.0` is `0.0`, and NaN comes last.
pub(crate) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => compare_floats(*a, *b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Numeric(a), Value::Numeric(b)) => number::compare(a, b),
            (Value::Text(a), Value::Text(b)) | (Value::Json(a), Value::Json(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value<'_> {}

/// As messages show it: text and JSON in quotes, NULL in capitals, all else as its text.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Characters of a text that a message shows.
        const SHOWN_CHARS: usize = 60;
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Text(text) | Value::Json(text) => match text.char_indices().nth(SHOWN_CHARS) {
                Some((end, _)) => write!(f, "{:?}...", &text[..end]),
                None => write!(f, "{text:?}"),
            },
            Value::Bytes(bytes) if bytes.len() > SHOWN_CHARS => {
                write!(f, "{}...", text::text_of(&Value::from(&bytes[..SHOWN_CHARS])))
            }
            other => f.write_str(&text::text_of(other)),
        }
    }
}

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Value<'_> {
            fn from(value: $int) -> Self {
                Value::Int(value.into())
            }
        }
    )*};
}

from_int!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! from_same {
    ($($variant:ident($from:ty)),*) => {$(
        impl From<$from> for Value<'_> {
            fn from(value: $from) -> Self {
                Value::$variant(value.into())
            }
        }
    )*};
}

from_same!(Bool(bool), Float(f32), Float(f64), Decimal(Decimal), Text(String), Bytes(Vec<u8>), Date(Date));
from_same!(Timestamp(Timestamp), Uuid(Uuid));

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl DataType {
    /// Whether two values are equal where a column of this type decides: a key that has one has the other as well.
    pub fn is_same_in_key(self, a: &Value<'_>, b: &Value<'_>) -> bool {
        same_in_key(self, a, b)
    }
}

/// Whether two values are equal where a column's collation decides: a key that holds one would hold the other.
pub(crate) fn same_in_key(data_type: DataType, a: &Value<'_>, b: &Value<'_>) -> bool {
    match (data_type, a, b) {
        (DataType::Text(Collation::Unicode), Value::Text(a), Value::Text(b)) => {
            collation::compare(a, b) == Ordering::Equal
        }
        _ => a == b,
    }
}
