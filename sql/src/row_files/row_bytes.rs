//! A row as bytes, which are read by the process that has written them.
//!
//! Each value has a byte that tells what it is. Types of the elements of arrays, and types and names of the fields of
//! rows, stay in memory: the bytes have their places in [`Shapes`].
//!
//! Not here: values in columns of tables, whose bytes have an order (`types::packed`).

use std::sync::Arc;

use quipu_rows::{Date, Decimal, Timestamp, Uuid};

use crate::numeric::Numeric;
use crate::types::datum::{Array, Datum, Interval, Row};
use crate::types::range::{Lower, Range, Upper};
use crate::types::user::FieldNames;
use crate::types::{BaseType, SqlType};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const SMALL_NUMERIC: u8 = 5;
const NUMERIC_TEXT: u8 = 6;
const TEXT: u8 = 7;
const BYTES: u8 = 8;
const DATE: u8 = 9;
const TIMESTAMP: u8 = 10;
const INTERVAL: u8 = 11;
const UUID: u8 = 12;
const JSON: u8 = 13;
const ARRAY: u8 = 14;
const RANGE: u8 = 15;
const MULTIRANGE: u8 = 16;
const RECORD: u8 = 17;

const EMPTY: u8 = 0;
const BOUNDS: u8 = 1;
const NO_BOUND: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// What arrays and rows have in common with others of their types, which is kept in memory.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    elements: Vec<BaseType>,
    fields: Vec<(Vec<SqlType>, Option<FieldNames>)>,
}

impl Shapes {
    fn place_of_element(&mut self, element: BaseType) -> u32 {
        let known = self.elements.iter().position(|known| *known == element);
        known.unwrap_or_else(|| {
            self.elements.push(element);
            self.elements.len() - 1
        }) as u32
    }

    fn place_of_fields(&mut self, row: &Row) -> u32 {
        let is_same = |(types, names): &(Vec<SqlType>, Option<FieldNames>)| {
            types.iter().eq(row.iter().map(|(sql_type, _)| sql_type)) && *names == row.names
        };
        self.fields.iter().position(is_same).unwrap_or_else(|| {
            self.fields.push((row.iter().map(|(sql_type, _)| *sql_type).collect(), row.names.clone()));
            self.fields.len() - 1
        }) as u32
    }

    /// Appends a row.
    pub(super) fn append_row(&mut self, row: &[Datum], out: &mut Vec<u8>) {
        append_length(row.len(), out);
        row.iter().for_each(|value| self.append(value, out));
    }

    fn append(&mut self, value: &Datum, out: &mut Vec<u8>) {
        match value {
            Datum::Null => out.push(NULL),
            Datum::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
            Datum::Int(value) => append_kind(INT, value.to_le_bytes(), out),
            Datum::Float(value) => append_kind(FLOAT, value.to_bits().to_le_bytes(), out),
            Datum::Numeric(Numeric::Small(value)) => {
                append_kind(SMALL_NUMERIC, value.units().to_le_bytes(), out);
                out.push(value.scale());
            }
            Datum::Numeric(value) => append_bytes(NUMERIC_TEXT, value.to_string().as_bytes(), out),
            Datum::Text(text) => append_bytes(TEXT, text.as_bytes(), out),
            Datum::Json(text) => append_bytes(JSON, text.as_bytes(), out),
            Datum::Bytes(bytes) => append_bytes(BYTES, bytes, out),
            Datum::Date(value) => append_kind(DATE, value.days().to_le_bytes(), out),
            Datum::Timestamp(value) => append_kind(TIMESTAMP, value.microseconds().to_le_bytes(), out),
            Datum::Uuid(value) => append_kind(UUID, *value.as_bytes(), out),
            Datum::Interval(value) => {
                append_kind(INTERVAL, value.months.to_le_bytes(), out);
                out.extend(value.days.to_le_bytes());
                out.extend(value.microseconds.to_le_bytes());
            }
            Datum::Array(array) => {
                append_kind(ARRAY, self.place_of_element(array.element).to_le_bytes(), out);
                append_length(array.dimensions.len(), out);
                array.dimensions.iter().for_each(|&length| append_length(length, out));
                append_length(array.elements.len(), out);
                array.elements.iter().for_each(|element| self.append(element, out));
            }
            Datum::Range(range) => {
                out.push(RANGE);
                self.append_range(range, out);
            }
            Datum::Multirange(ranges) => {
                out.push(MULTIRANGE);
                append_length(ranges.len(), out);
                ranges.iter().for_each(|range| self.append_range(range, out));
            }
            Datum::Record(row) => {
                append_kind(RECORD, self.place_of_fields(row).to_le_bytes(), out);
                row.iter().for_each(|(_, value)| self.append(value, out));
            }
        }
    }

    fn append_range(&mut self, range: &Range<Datum>, out: &mut Vec<u8>) {
        let Some((lower, upper)) = range.bounds() else { return out.push(EMPTY) };
        out.push(BOUNDS);
        for bound in [lower.parts(), upper.parts()] {
            match bound {
                None => out.push(NO_BOUND),
                Some((value, is_inclusive)) => {
                    out.push(if is_inclusive { CLOSED } else { OPEN });
                    self.append(value, out);
                }
            }
        }
    }

    /// Takes the bytes of a row off. `None` if they are no row's.
    pub(super) fn read_row(&self, bytes: &mut &[u8]) -> Option<Vec<Datum>> {
        let length = read_length(bytes)?;
        self.read_values(length, bytes)
    }

    fn read_values(&self, count: usize, bytes: &mut &[u8]) -> Option<Vec<Datum>> {
        // Each value has a byte at least.
        let mut values = Vec::with_capacity(count.min(bytes.len()));
        for _ in 0..count {
            values.push(self.read(bytes)?);
        }
        Some(values)
    }

    fn read(&self, bytes: &mut &[u8]) -> Option<Datum> {
        let [kind] = take(bytes)?;
        Some(match kind {
            NULL => Datum::Null,
            FALSE => Datum::Bool(false),
            TRUE => Datum::Bool(true),
            INT => Datum::Int(i64::from_le_bytes(take(bytes)?)),
            FLOAT => Datum::Float(f64::from_bits(u64::from_le_bytes(take(bytes)?))),
            SMALL_NUMERIC => {
                let units = i128::from_le_bytes(take(bytes)?);
                let [scale] = take(bytes)?;
                Datum::Numeric(Numeric::Small(Decimal::new(units, scale)?))
            }
            NUMERIC_TEXT => Datum::Numeric(Numeric::parse(read_text(bytes)?).ok()?),
            TEXT => Datum::Text(Arc::from(read_text(bytes)?)),
            JSON => Datum::Json(Arc::from(read_text(bytes)?)),
            BYTES => Datum::Bytes(Arc::from(read_bytes(bytes)?)),
            DATE => Datum::Date(Date::from_days(i32::from_le_bytes(take(bytes)?))?),
            TIMESTAMP => Datum::Timestamp(Timestamp::from_microseconds(i64::from_le_bytes(take(bytes)?))?),
            UUID => Datum::Uuid(Uuid::from_bytes(take(bytes)?)),
            INTERVAL => Datum::Interval(Interval {
                months: i32::from_le_bytes(take(bytes)?),
                days: i32::from_le_bytes(take(bytes)?),
                microseconds: i64::from_le_bytes(take(bytes)?),
            }),
            ARRAY => {
                let element = *self.elements.get(u32::from_le_bytes(take(bytes)?) as usize)?;
                let count = read_length(bytes)?;
                let dimensions = (0..count).map(|_| read_length(bytes)).collect::<Option<_>>()?;
                let count = read_length(bytes)?;
                let elements = self.read_values(count, bytes)?;
                Datum::Array(Arc::new(Array { element, dimensions, elements }))
            }
            RANGE => Datum::Range(Arc::new(self.read_range(bytes)?)),
            MULTIRANGE => {
                let count = read_length(bytes)?;
                Datum::Multirange((0..count).map(|_| self.read_range(bytes)).collect::<Option<_>>()?)
            }
            RECORD => {
                let (types, names) = self.fields.get(u32::from_le_bytes(take(bytes)?) as usize)?;
                let values = self.read_values(types.len(), bytes)?;
                let fields = types.iter().copied().zip(values).collect();
                Datum::Record(Arc::new(Row { fields, names: names.clone() }))
            }
            _ => return None,
        })
    }

    fn read_range(&self, bytes: &mut &[u8]) -> Option<Range<Datum>> {
        let [kind] = take(bytes)?;
        match kind {
            EMPTY => Some(Range::Empty),
            BOUNDS => {
                let (lower, has_lower) = self.read_bound(bytes)?;
                let (upper, has_upper) = self.read_bound(bytes)?;
                Some(Range::Bounds(Lower::new(lower, has_lower), Upper::new(upper, has_upper)))
            }
            _ => None,
        }
    }

    fn read_bound(&self, bytes: &mut &[u8]) -> Option<(Option<Datum>, bool)> {
        let [kind] = take(bytes)?;
        match kind {
            NO_BOUND => Some((None, false)),
            OPEN | CLOSED => Some((Some(self.read(bytes)?), kind == CLOSED)),
            _ => None,
        }
    }
}

fn append_kind<const N: usize>(kind: u8, bytes: [u8; N], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(bytes);
}

fn append_length(length: usize, out: &mut Vec<u8>) {
    out.extend((length as u32).to_le_bytes());
}

fn append_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    append_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(take(bytes)?) as usize)
}

fn read_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = read_length(bytes)?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn read_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(read_bytes(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Datum {
        Datum::Numeric(Numeric::parse(text).unwrap())
    }

    fn row_of_every_kind() -> Vec<Datum> {
        let range = |low, high| Range::Bounds(Lower::new(low, true), Upper::new(high, false));
        let record = |names: Option<FieldNames>| {
            let fields = vec![(SqlType::TEXT, Datum::text("a")), (BaseType::Int4.into(), Datum::Null)];
            Datum::Record(Arc::new(Row { fields, names }))
        };
        let matrix =
            Array { element: BaseType::Int4, dimensions: vec![2, 1], elements: vec![Datum::Int(1), Datum::Null] };
        vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Int(i64::MIN),
            Datum::Float(-0.0),
            Datum::Float(-f64::NAN),
            numeric("-12.3400"),
            numeric("12345678901234567890123456789012345678901234567890.10"),
            numeric("NaN"),
            numeric("-Infinity"),
            Datum::text("a\0\u{e9}"),
            Datum::text(""),
            Datum::Bytes([0, 255].as_slice().into()),
            Datum::Date(Date::parse("2024-02-29").unwrap()),
            Datum::Timestamp(Timestamp::parse("0001-01-01T00:00:00.000001").unwrap()),
            Datum::Interval(Interval { months: -1, days: 40, microseconds: i64::MAX }),
            Datum::Uuid(Uuid::from_u128(7)),
            Datum::Json("{\"a\": 1.0}".into()),
            Datum::Array(Arc::new(Array::new(BaseType::Text, vec![]))),
            Datum::Array(Arc::new(matrix)),
            Datum::Array(Arc::new(Array::new(BaseType::Text, vec![Datum::text("x")]))),
            Datum::Range(Arc::new(Range::Empty)),
            Datum::Range(Arc::new(range(None, Some(Datum::Int(3))))),
            Datum::Multirange([range(Some(Datum::Int(1)), Some(Datum::Int(2)))].into()),
            record(None),
            record(Some([Arc::from("x"), Arc::from("y")].into())),
        ]
    }

    /// What equal values may differ in, too: digits, signs of zeros, months for days.
    fn written(row: &[Datum]) -> String {
        format!("{row:?}")
    }

    #[test]
    fn values_of_every_kind_are_read_as_they_were() {
        let (mut shapes, mut bytes) = (Shapes::default(), Vec::new());
        let row = row_of_every_kind();
        shapes.append_row(&row, &mut bytes);
        shapes.append_row(&[], &mut bytes);
        shapes.append_row(&row, &mut bytes);
        assert_eq!((shapes.elements.len(), shapes.fields.len()), (2, 2));
        let mut left = &bytes[..];
        for wanted in [&row[..], &[], &row[..]] {
            assert_eq!(written(&shapes.read_row(&mut left).unwrap()), written(wanted));
        }
        assert!(left.is_empty());
    }

    #[test]
    fn bytes_that_are_cut_or_damaged_are_no_row_or_another_one() {
        let (mut shapes, mut bytes) = (Shapes::default(), Vec::new());
        shapes.append_row(&row_of_every_kind(), &mut bytes);
        for end in 0..bytes.len() {
            assert!(shapes.read_row(&mut &bytes[..end]).is_none(), "the first {end} bytes");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0xff;
            // It ends, and takes no more memory than there are bytes.
            let _ = shapes.read_row(&mut &damaged[..]);
        }
    }
}
