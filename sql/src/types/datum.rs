//! A value while a statement runs.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use quipu_rows::{Date, Timestamp, Uuid, Value};

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{Numeric, hash_float};
use crate::types::range::Range;
use crate::types::user::FieldNames;
use crate::types::{BaseType, SqlType, json, packed};

/// A value while a statement runs. Its type is known from where it stands; texts of all types are one variant.
///
/// Cloning costs no more than a count of references.
#[derive(Clone, Debug)]
pub enum Datum {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer, a number of an object, or a time of day in microseconds.
    Int(i64),
    /// A number of double or of single precision, which is exact here.
    Float(f64),
    /// An exact number.
    Numeric(Numeric),
    /// Text of any type. Of `char(n)`, without the blanks at its end.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A day.
    Date(Date),
    /// A moment: in UTC for `timestamptz`, on the clock of a place that is not told for `timestamp`.
    Timestamp(Timestamp),
    /// A length of time.
    Interval(Interval),
    /// A UUID.
    Uuid(Uuid),
    /// JSON as its text.
    Json(Arc<str>),
    /// An array.
    Array(Arc<Array>),
    /// A range.
    Range(Arc<Range<Datum>>),
    /// Ranges in order, of which no two have values in common or touch each other, and none is empty.
    Multirange(Arc<[Range<Datum>]>),
    /// A row.
    Record(Arc<Row>),
}

/// A row: the types of its values, and these.
#[derive(Clone, Debug)]
pub struct Row {
    /// The values with their types.
    pub fields: Vec<(SqlType, Datum)>,
    /// The names of the fields, if they have names other than `f1`, `f2` and so on.
    pub names: Option<FieldNames>,
}

impl Deref for Row {
    type Target = [(SqlType, Datum)];

    fn deref(&self) -> &[(SqlType, Datum)] {
        &self.fields
    }
}

/// A length of time, of which a month and a day have no fixed length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub microseconds: i64,
}

/// An array: elements of one type, in the order of the last dimension first.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of the elements.
    pub element: BaseType,
    /// The length of each dimension, all of which begin at 1; empty for an array without elements.
    pub dimensions: Vec<usize>,
    /// The elements.
    pub elements: Vec<Datum>,
}

impl Array {
    /// An array of one dimension, or without elements.
    pub fn new(element: BaseType, elements: Vec<Datum>) -> Array {
        let dimensions = if elements.is_empty() { Vec::new() } else { vec![elements.len()] };
        Array { element, dimensions, elements }
    }

    /// The array of what ARRAY(SELECT ...) and `array_agg` find: of arrays, one of a dimension more.
    ///
    /// # Errors
    /// 22004 and 2202E if one of the arrays is NULL, has no elements, or has another shape than the first; 54000 if
    /// there are too many dimensions.
    pub fn collected(element: BaseType, values: Vec<Datum>, are_arrays: bool) -> Result<Array> {
        if !are_arrays || values.is_empty() {
            return Ok(Array::new(element, values));
        }
        let refuse = |state: SqlState, message: &str| Err(SqlError::new(state, message));
        let mut dimensions = vec![values.len()];
        let mut elements = Vec::new();
        for (place, value) in values.into_iter().enumerate() {
            let Datum::Array(array) = value else {
                return refuse(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays");
            };
            if place == 0 {
                dimensions.extend(&array.dimensions);
            }
            if array.elements.is_empty() {
                return refuse(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot accumulate empty arrays");
            }
            if array.dimensions != dimensions[1..] {
                let message = "cannot accumulate arrays of different dimensionality";
                return refuse(SqlState::ARRAY_SUBSCRIPT_ERROR, message);
            }
            elements.extend_from_slice(&array.elements);
        }
        refuse_dimensions(dimensions.len())?;
        Ok(Array { element, dimensions, elements })
    }
}

/// The most dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

/// Refuses an array of too many dimensions.
pub(crate) fn refuse_dimensions(count: usize) -> Result<()> {
    if count <= DIMENSIONS_MAX {
        return Ok(());
    }
    let what = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what))
}

impl Datum {
    /// Text.
    pub fn text(text: impl AsRef<str>) -> Datum {
        Datum::Text(Arc::from(text.as_ref()))
    }

    /// A row whose fields have no names of their own.
    pub fn record(fields: Vec<(SqlType, Datum)>) -> Datum {
        Datum::Record(Arc::new(Row { fields, names: None }))
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Whether it is true: neither false nor NULL.
    pub fn is_true(&self) -> bool {
        matches!(self, Datum::Bool(true))
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int(int) => Some(*int),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Datum::Text(text) | Datum::Json(text) => Some(text),
            _ => None,
        }
    }

    /// The value that a column of rows has.
    pub fn of_value(value: Value<'_>) -> Datum {
        match value {
            Value::Null => Datum::Null,
            Value::Bool(value) => Datum::Bool(value),
            // Of `u64`, whose type is `numeric` here.
            Value::Int(int) => i64::try_from(int).map_or_else(|_| Datum::Numeric(Numeric::new(int, 0)), Datum::Int),
            Value::Float(value) => Datum::Float(value),
            Value::Decimal(value) => Datum::Numeric(value.into()),
            Value::Numeric(text) => Numeric::parse(&text).map_or(Datum::Null, Datum::Numeric),
            Value::Text(text) => Datum::Text(Arc::from(text)),
            Value::Bytes(bytes) => Datum::Bytes(Arc::from(bytes)),
            Value::Date(value) => Datum::Date(value),
            Value::Timestamp(value) => Datum::Timestamp(value),
            Value::Uuid(value) => Datum::Uuid(value),
            Value::Json(text) => Datum::Json(Arc::from(text)),
        }
    }

    /// The value that a column of rows has, of a column of this type.
    ///
    /// # Errors
    /// XX001 if it has bytes that are no value of the type.
    pub fn of_column(value: Value<'_>, sql_type: SqlType) -> Result<Datum> {
        let read = match (value, sql_type.without_domain().base) {
            (Value::Bytes(bytes), _) if sql_type.is_packed() => packed::unpack(&bytes, sql_type),
            (Value::Int(int), BaseType::Numeric) => Some(Datum::Numeric(Numeric::new(int, 0))),
            (Value::Numeric(text), _) => Numeric::parse(&text).ok().map(Datum::Numeric),
            (value, _) => return Ok(Datum::of_value(value)),
        };
        read.ok_or_else(|| {
            SqlError::new(SqlState::DATA_CORRUPTED, format!("a column of type {sql_type} has another value"))
        })
    }

    /// The value for a column of rows; none of what no column can hold.
    pub fn to_value(&self) -> Option<Value<'_>> {
        Some(match self {
            Datum::Null => Value::Null,
            Datum::Bool(value) => Value::Bool(*value),
            Datum::Int(value) => Value::Int((*value).into()),
            Datum::Float(value) => Value::Float(*value),
            Datum::Numeric(Numeric::Small(value)) => Value::Decimal(*value),
            Datum::Numeric(value) => Value::Numeric(Cow::Owned(value.to_string())),
            Datum::Text(text) => Value::Text(Cow::Borrowed(text)),
            Datum::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Datum::Date(value) => Value::Date(*value),
            Datum::Timestamp(value) => Value::Timestamp(*value),
            Datum::Uuid(value) => Value::Uuid(*value),
            Datum::Json(text) => Value::Json(Cow::Borrowed(text)),
            packed @ (Datum::Interval(_)
            | Datum::Array(_)
            | Datum::Range(_)
            | Datum::Multirange(_)
            | Datum::Record(_)) => Value::Bytes(Cow::Owned(packed::pack(packed)?)),
        })
    }
}

impl Interval {
    /// Its length where a month has 30 days and a day 24 hours: what comparisons go by.
    pub fn length(self) -> i128 {
        const DAY: i128 = 86_400_000_000;
        i128::from(self.months) * 30 * DAY + i128::from(self.days) * DAY + i128::from(self.microseconds)
    }
}

/// The order of two values of one type, neither of which is NULL within; NULL comes last, as ascending columns have it.
/// Texts compare by their bytes. Equal numbers of different kinds are equal.
impl Ord for Datum {
    fn cmp(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Null, Datum::Null) => Ordering::Equal,
            (Datum::Null, _) => Ordering::Greater,
            (_, Datum::Null) => Ordering::Less,
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
            (Datum::Float(a), Datum::Float(b)) => compare_floats(*a, *b),
            (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
            (Datum::Int(a), Datum::Numeric(b)) => Numeric::from(*a).cmp(b),
            (Datum::Numeric(a), Datum::Int(b)) => a.cmp(&Numeric::from(*b)),
            (Datum::Int(a), Datum::Float(b)) => compare_floats(*a as f64, *b),
            (Datum::Float(a), Datum::Int(b)) => compare_floats(*a, *b as f64),
            (Datum::Numeric(a), Datum::Float(b)) => compare_floats(a.to_f64(), *b),
            (Datum::Float(a), Datum::Numeric(b)) => compare_floats(*a, b.to_f64()),
            (Datum::Json(a), Datum::Json(b)) => json::compare(a, b),
            (Datum::Text(a) | Datum::Json(a), Datum::Text(b) | Datum::Json(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
            (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
            (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
            (Datum::Interval(a), Datum::Interval(b)) => a.length().cmp(&b.length()),
            (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            (Datum::Array(a), Datum::Array(b)) => {
                let shape = |array: &Array| (array.dimensions.len(), array.dimensions.clone());
                a.elements.cmp(&b.elements).then_with(|| shape(a).cmp(&shape(b)))
            }
            (Datum::Range(a), Datum::Range(b)) => a.cmp(b),
            (Datum::Multirange(a), Datum::Multirange(b)) => a.cmp(b),
            (Datum::Record(a), Datum::Record(b)) => {
                a.iter().map(|(_, value)| value).cmp(b.iter().map(|(_, value)| value))
            }
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl Datum {
    fn kind(&self) -> u8 {
        match self {
            Datum::Null => 0,
            Datum::Bool(_) => 1,
            Datum::Int(_) => 2,
            Datum::Float(_) => 3,
            Datum::Numeric(_) => 4,
            Datum::Text(_) => 5,
            Datum::Bytes(_) => 6,
            Datum::Date(_) => 7,
            Datum::Timestamp(_) => 8,
            Datum::Interval(_) => 9,
            Datum::Uuid(_) => 10,
            Datum::Json(_) => 11,
            Datum::Array(_) => 12,
            Datum::Record(_) => 13,
            Datum::Range(_) => 14,
            Datum::Multirange(_) => 15,
        }
    }
}

/// Floats as PostgreSQL orders them: all NaN are equal, and greater than all numbers.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl Datum {
    /// Whether both are of one kind whose order has no exceptions, such as that of NULL or of the parts of rows.
    pub fn sorts_beside(&self, other: &Datum) -> bool {
        matches!(
            (self, other),
            (Datum::Int(_), Datum::Int(_))
                | (Datum::Numeric(_), Datum::Numeric(_))
                | (Datum::Text(_), Datum::Text(_))
                | (Datum::Bytes(_), Datum::Bytes(_))
                | (Datum::Date(_), Datum::Date(_))
                | (Datum::Timestamp(_), Datum::Timestamp(_))
                | (Datum::Uuid(_), Datum::Uuid(_))
        )
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Datum) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => a == b,
            (Datum::Text(a), Datum::Text(b)) => a == b,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Datum {}

/// Values that are equal have the same hash, numbers of different kinds among them.
impl Hash for Datum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Datum::Null => state.write_u8(0),
            Datum::Bool(value) => value.hash(state),
            Datum::Int(value) => value.hash(state),
            Datum::Float(value) => hash_float(*value, state),
            Datum::Numeric(value) => value.hash(state),
            Datum::Text(text) => text.hash(state),
            Datum::Json(text) => json::hash(text, state),
            Datum::Bytes(bytes) => bytes.hash(state),
            Datum::Date(value) => value.hash(state),
            Datum::Timestamp(value) => value.hash(state),
            Datum::Interval(value) => value.length().hash(state),
            Datum::Uuid(value) => value.hash(state),
            Datum::Array(array) => array.elements.hash(state),
            Datum::Range(range) => range.hash(state),
            Datum::Multirange(ranges) => ranges.hash(state),
            Datum::Record(values) => values.iter().for_each(|(_, value)| value.hash(state)),
        }
    }
}
