//! Values of key columns as elements of tuples, and back.
//!
//! Invariants:
//! 1. Keys sort as their values do: column by column, NULL first in ascending columns and last in descending ones.
//! 2. A value comes back from its element, but for text that sorts without case and accents, for numbers of any size
//!    and for bytes that sort by a part of them, of which the key has a sort key. A row keeps such values in its value.
//!
//! | type | element |
//! |---|---|
//! | bool, uuid | the same |
//! | integers; date (days), timestamp (microseconds), decimal (units) | int |
//! | f32, f64 | float |
//! | text, json | text |
//! | bytes; text(unicode), numeric, bytes(keyed): its sort key | bytes |
//!
//! Not here: the bytes of an element ([`quipu::tuple`]), and sort keys (`value/collation`, `value/number`,
//! `value/keyed_bytes`).

use quipu::tuple::{self, Element, Part};
use quipu::{Error, ErrorKind, Result};
use uuid::Uuid;

use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::time::{Date, Timestamp};
use crate::value::{Value, collation, keyed_bytes, number};

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    pub(crate) data_type: DataType,
    pub(crate) is_descending: bool,
}

impl KeyColumn {
    /// Appends a value, which the column's type has accepted.
    #[inline]
    pub(crate) fn encode(self, value: &Value<'_>, key: &mut Vec<u8>) {
        let element = match value {
            Value::Null => Element::Null,
            Value::Bool(value) => Element::Bool(*value),
            Value::Int(value) => Element::Int(*value),
            Value::Float(value) => Element::Float(*value),
            Value::Decimal(decimal) => Element::Int(decimal.units()),
            Value::Text(text) if self.data_type.is_collated() => Element::Bytes(collation::sort_key(text).into()),
            Value::Numeric(number) => Element::Bytes(number::sort_key(number).into()),
            Value::Text(text) | Value::Json(text) => Element::from(&**text),
            Value::Bytes(bytes) if self.data_type == DataType::KeyedBytes => {
                Element::from(keyed_bytes::sort_key(bytes))
            }
            Value::Bytes(bytes) => Element::from(&**bytes),
            Value::Date(date) => Element::Int(date.days().into()),
            Value::Timestamp(moment) => Element::Int(moment.microseconds().into()),
            Value::Uuid(uuid) => Element::Uuid(uuid.into_bytes()),
        };
        if self.is_descending {
            tuple::encode_descending_into(&element, key);
        } else {
            tuple::encode_into(std::slice::from_ref(&element), key);
        }
    }

    /// The value of an element.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if it is no element of this column; also for one that has a sort key, which has
    /// to be read elsewhere.
    #[inline]
    pub(crate) fn decode<'a>(self, part: Part<'a>) -> Result<Value<'a>> {
        let found = part.element().ok().and_then(|element| value_of(self.data_type, element));
        match found {
            Some(value) if part.is_descending() == self.is_descending => Ok(value),
            _ => Err(self.corrupt(part)),
        }
    }

    #[cold]
    fn corrupt(self, part: Part<'_>) -> Error {
        let bytes: String = part.bytes().iter().take(40).map(|byte| format!("{byte:02x}")).collect();
        let direction = if self.is_descending { " descending" } else { "" };
        let what =
            format!("the element {bytes} of a key is not of type {}{direction}: run `quipu check`", self.data_type);
        Error::new(ErrorKind::Corrupt, what)
    }
}

/// The value that an element is in a column of this type.
fn value_of(data_type: DataType, element: Element<'_>) -> Option<Value<'_>> {
    Some(match (data_type, element) {
        (_, Element::Null) => Value::Null,
        (DataType::Bool, Element::Bool(value)) => Value::Bool(value),
        (DataType::F64, Element::Float(value)) => Value::Float(value),
        (DataType::F32, Element::Float(value)) => {
            if f64::from(value as f32).to_bits() != value.to_bits() && !value.is_nan() {
                return None;
            }
            Value::Float(value)
        }
        (DataType::Decimal { precision, scale }, Element::Int(units)) => {
            Value::Decimal(Decimal::new(units, scale).filter(|decimal| decimal.fits(precision))?)
        }
        (DataType::Date, Element::Int(days)) => Value::Date(Date::from_days(days.try_into().ok()?)?),
        (DataType::Timestamp, Element::Int(microseconds)) => {
            Value::Timestamp(Timestamp::from_microseconds(microseconds.try_into().ok()?)?)
        }
        (data_type, Element::Int(int)) => {
            let (min, max) = data_type.int_range()?;
            Value::Int(Some(int).filter(|int| (min..=max).contains(int))?)
        }
        (data_type @ DataType::Text(_), Element::Text(text)) if !data_type.is_collated() => Value::Text(text),
        (DataType::Json, Element::Text(text)) => Value::Json(text),
        (DataType::Bytes, Element::Bytes(bytes)) => Value::Bytes(bytes),
        (DataType::Uuid, Element::Uuid(uuid)) => Value::Uuid(Uuid::from_bytes(uuid)),
        _ => return None,
    })
}

/// The key of these values, as many as there are columns or fewer.
pub(crate) fn encode<'l, 'v: 'l>(
    columns: &[KeyColumn],
    values: impl IntoIterator<Item = &'l Value<'v>>,
    key: &mut Vec<u8>,
) {
    for (column, value) in columns.iter().zip(values) {
        column.encode(value, key);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::value::sample::{TYPES, random_value};

    fn encoded(column: KeyColumn, value: &Value<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        column.encode(value, &mut key);
        key
    }

    #[test]
    fn keys_sort_as_their_values_and_give_them_back() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for data_type in TYPES {
            for is_descending in [false, true] {
                let column = KeyColumn { data_type, is_descending };
                let values: Vec<Value<'_>> = (0..200).map(|_| random_value(data_type, &mut random)).collect();
                let keys: Vec<Vec<u8>> = values.iter().map(|value| encoded(column, value)).collect();
                for (a, a_key) in values.iter().zip(&keys) {
                    let mut parts = tuple::parts(a_key);
                    let part = parts.next().unwrap();
                    assert!(parts.rest().is_empty());
                    match column.decode(part) {
                        Ok(found) => assert_eq!(found, *a, "{data_type}"),
                        Err(error) => assert!(data_type.has_sort_key(), "{data_type}: {error}"),
                    }
                    for (b, b_key) in values.iter().zip(&keys) {
                        let order = match (a, b) {
                            (Value::Text(a), Value::Text(b)) if data_type.is_collated() => collation::compare(a, b),
                            (Value::Bytes(a), Value::Bytes(b)) if data_type == DataType::KeyedBytes => {
                                keyed_bytes::sort_key(a).cmp(keyed_bytes::sort_key(b))
                            }
                            _ => a.cmp(b),
                        };
                        let order = if is_descending { order.reverse() } else { order };
                        assert_eq!(a_key.cmp(b_key), order, "{data_type}: {a} and {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn elements_of_other_types_are_corrupt() {
        let all = TYPES.map(|data_type| KeyColumn { data_type, is_descending: false });
        for (data_type, element) in [
            (DataType::I8, Element::Int(128)),
            (DataType::U8, Element::Int(-1)),
            (DataType::F32, Element::Float(0.1)),
            (DataType::Decimal { precision: 3, scale: 1 }, Element::Int(1000)),
            (DataType::Date, Element::Int(i128::MAX)),
            (DataType::TEXT, Element::Bytes(b"a".as_slice().into())),
            (DataType::Bytes, Element::from("a")),
        ] {
            let key = tuple::encode(&[element]);
            let part = tuple::parts(&key).next().unwrap();
            let column = KeyColumn { data_type, is_descending: false };
            assert_eq!(column.decode(part).unwrap_err().kind(), ErrorKind::Corrupt);
            let descending = KeyColumn { is_descending: true, ..column };
            assert_eq!(descending.decode(part).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        let null = tuple::encode(&[Element::Null]);
        for column in all {
            assert!(column.decode(tuple::parts(&null).next().unwrap()).unwrap().is_null());
        }
    }
}
