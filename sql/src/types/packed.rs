//! Intervals, arrays and ranges as columns of rows hold them: bytes, which say what kinds of values they have within.
//!
//! ```text
//! interval     length u128, with its sign turned | months i32 | days i32
//! array        (kind u8 | value)*, 0 | count of dimensions u8 | length of each u32
//! range        0 of the empty one, or 1 | lower bound | upper bound
//! lower bound  0 of none, or 1 | value | 0 if the range has the value, 1 if it has not
//! upper bound  0 | value | 0 if the range has not the value, 1 if it has; or 1 of none
//! multirange   range*, 0
//! row          (kind u8 | value)*, 0
//! ```
//!
//! All numbers are big-endian. A NULL within an array has the kind 255. Texts and bytes end with two zeros; a zero
//! within is followed by 255. Values of bounds are integers, days and moments with their signs turned, or exact
//! numbers as in arrays. So ranges sort by their bytes, but those of exact numbers.
//!
//! Keys have no columns of intervals, arrays and ranges of exact numbers: values that are equal may have other bytes
//! (`{1.0}` and `{1.00}`).

use std::sync::Arc;

use quipu_rows::{Date, Decimal, Timestamp, Uuid};

use crate::numeric::Numeric;
use crate::types::datum::{Array, Datum, Interval, Row};
use crate::types::range::{Lower, Range, Upper};
use crate::types::user::Composite;
use crate::types::{BaseType, RangeKind, SqlType};

const END: u8 = 0;
const BOOL: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const NUMERIC: u8 = 4;
const TEXT: u8 = 5;
const BYTES: u8 = 6;
const DATE: u8 = 7;
const TIMESTAMP: u8 = 8;
const INTERVAL: u8 = 9;
const UUID: u8 = 10;
const JSON: u8 = 11;
const RANGE: u8 = 12;
const MULTIRANGE: u8 = 13;
const ARRAY: u8 = 14;
const ROW: u8 = 15;
const LARGE_NUMERIC: u8 = 16;
const NULL: u8 = 255;

const SIGN: u128 = 1 << 127;

/// The bytes of an interval.
pub fn of_interval(interval: Interval) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    write_interval(interval, &mut out);
    out
}

fn write_interval(interval: Interval, out: &mut Vec<u8>) {
    out.extend((interval.length() as u128 ^ SIGN).to_be_bytes());
    out.extend(interval.months.to_be_bytes());
    out.extend(interval.days.to_be_bytes());
}

/// The bytes of an array; none if it has values that no column can hold.
pub fn of_array(array: &Array) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_array(array, &mut out)?;
    Some(out)
}

fn write_array(array: &Array, out: &mut Vec<u8>) -> Option<()> {
    array.elements.iter().try_for_each(|element| write(element, out))?;
    out.push(END);
    out.push(u8::try_from(array.dimensions.len()).ok()?);
    for &length in &array.dimensions {
        out.extend(u32::try_from(length).ok()?.to_be_bytes());
    }
    Some(())
}

/// The bytes of a row; none if it has values that no column can hold.
pub fn of_row(row: &Row) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_row(row, &mut out)?;
    Some(out)
}

fn write_row(row: &Row, out: &mut Vec<u8>) -> Option<()> {
    row.iter().try_for_each(|(_, value)| write(value, out))?;
    out.push(END);
    Some(())
}

fn write(element: &Datum, out: &mut Vec<u8>) -> Option<()> {
    match element {
        Datum::Null => out.push(NULL),
        Datum::Bool(value) => out.extend([BOOL, u8::from(*value)]),
        Datum::Int(value) => write_number(INT, value.to_be_bytes(), out),
        Datum::Float(value) => write_number(FLOAT, value.to_bits().to_be_bytes(), out),
        Datum::Numeric(Numeric::Small(value)) => {
            write_number(NUMERIC, value.units().to_be_bytes(), out);
            out.push(value.scale());
        }
        Datum::Numeric(value) => write_bytes(LARGE_NUMERIC, value.to_string().as_bytes(), out),
        Datum::Text(text) => write_bytes(TEXT, text.as_bytes(), out),
        Datum::Json(text) => write_bytes(JSON, text.as_bytes(), out),
        Datum::Bytes(bytes) => write_bytes(BYTES, bytes, out),
        Datum::Date(value) => write_number(DATE, value.days().to_be_bytes(), out),
        Datum::Timestamp(value) => write_number(TIMESTAMP, value.microseconds().to_be_bytes(), out),
        Datum::Interval(value) => {
            out.push(INTERVAL);
            write_interval(*value, out);
        }
        Datum::Uuid(value) => write_number(UUID, *value.as_bytes(), out),
        Datum::Range(range) => {
            out.push(RANGE);
            write_range(range, out)?;
        }
        Datum::Multirange(ranges) => {
            out.push(MULTIRANGE);
            write_ranges(ranges, out)?;
        }
        Datum::Array(array) => {
            out.push(ARRAY);
            write_array(array, out)?;
        }
        Datum::Record(row) => {
            out.push(ROW);
            write_row(row, out)?;
        }
    }
    Some(())
}

/// The bytes of a range; none if it has values that no column can hold.
pub fn of_range(range: &Range<Datum>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(22);
    write_range(range, &mut out)?;
    Some(out)
}

/// The bytes of a multirange; none if it has values that no column can hold.
pub fn of_ranges(ranges: &[Range<Datum>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_ranges(ranges, &mut out)?;
    Some(out)
}

fn write_ranges(ranges: &[Range<Datum>], out: &mut Vec<u8>) -> Option<()> {
    ranges.iter().try_for_each(|range| write_range(range, out))?;
    out.push(END);
    Some(())
}

fn write_range(range: &Range<Datum>, out: &mut Vec<u8>) -> Option<()> {
    let Some((lower, upper)) = range.bounds() else {
        out.push(0);
        return Some(());
    };
    out.push(1);
    match lower.parts() {
        None => out.push(0),
        Some((value, has_it)) => {
            out.push(1);
            write_bound(value, out)?;
            out.push(u8::from(!has_it));
        }
    }
    match upper.parts() {
        None => out.push(1),
        Some((value, has_it)) => {
            out.push(0);
            write_bound(value, out)?;
            out.push(u8::from(has_it));
        }
    }
    Some(())
}

fn write_bound(value: &Datum, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Datum::Int(value) => out.extend((value ^ i64::MIN).to_be_bytes()),
        Datum::Date(value) => out.extend((value.days() ^ i32::MIN).to_be_bytes()),
        Datum::Timestamp(value) => out.extend((value.microseconds() ^ i64::MIN).to_be_bytes()),
        number @ Datum::Numeric(_) => write(number, out)?,
        _ => return None,
    }
    Some(())
}

fn write_number<const N: usize>(kind: u8, bytes: [u8; N], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(bytes);
}

fn write_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(255);
        }
    }
    out.extend([0, 0]);
}

/// The interval that has these bytes; none if no interval has.
pub fn to_interval(bytes: &[u8]) -> Option<Datum> {
    let mut reader = Reader { rest: bytes };
    reader.interval().filter(|_| reader.rest.is_empty()).map(Datum::Interval)
}

/// The range that has these bytes; none if no range has.
pub fn to_range(bytes: &[u8], kind: RangeKind) -> Option<Datum> {
    let mut reader = Reader { rest: bytes };
    reader.range(kind).filter(|_| reader.rest.is_empty()).map(|range| Datum::Range(Arc::new(range)))
}

/// The multirange that has these bytes; none if no multirange has.
pub fn to_multirange(bytes: &[u8], kind: RangeKind) -> Option<Datum> {
    let mut reader = Reader { rest: bytes };
    reader.ranges(kind).filter(|_| reader.rest.is_empty())
}

/// The array of elements of this type that has these bytes; none if no array has.
pub fn to_array(bytes: &[u8], element: BaseType) -> Option<Datum> {
    let mut reader = Reader { rest: bytes };
    reader.array(element).filter(|_| reader.rest.is_empty())
}

/// The row of a composite type that has these bytes; none if no row has.
pub fn to_row(bytes: &[u8], composite: &Composite) -> Option<Datum> {
    let mut reader = Reader { rest: bytes };
    reader.row(composite).filter(|_| reader.rest.is_empty())
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// The next element; `Some(None)` at the end.
    fn element(&mut self, of: SqlType) -> Option<Option<Datum>> {
        let [kind] = self.take()?;
        Some(Some(match kind {
            END => return Some(None),
            NULL => Datum::Null,
            BOOL => Datum::Bool(self.take::<1>()?[0] != 0),
            INT => Datum::Int(i64::from_be_bytes(self.take()?)),
            FLOAT => Datum::Float(f64::from_bits(u64::from_be_bytes(self.take()?))),
            NUMERIC => {
                let units = i128::from_be_bytes(self.take()?);
                Datum::Numeric(Decimal::new(units, self.take::<1>()?[0])?.into())
            }
            LARGE_NUMERIC => {
                let text = String::from_utf8(self.bytes()?).ok()?;
                Datum::Numeric(Numeric::parse(&text).ok().filter(|number| number.small().is_none())?)
            }
            TEXT => Datum::Text(String::from_utf8(self.bytes()?).ok()?.into()),
            JSON => Datum::Json(String::from_utf8(self.bytes()?).ok()?.into()),
            BYTES => Datum::Bytes(self.bytes()?.into()),
            DATE => Datum::Date(Date::from_days(i32::from_be_bytes(self.take()?))?),
            TIMESTAMP => Datum::Timestamp(Timestamp::from_microseconds(i64::from_be_bytes(self.take()?))?),
            INTERVAL => Datum::Interval(self.interval()?),
            UUID => Datum::Uuid(Uuid::from_bytes(self.take()?)),
            RANGE => Datum::Range(Arc::new(self.range(of.base.range_kind()?)?)),
            MULTIRANGE => self.ranges(of.base.range_kind()?)?,
            ARRAY => self.array(of.base)?,
            ROW => self.row(of.base.composite()?)?,
            _ => return None,
        }))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let zero = self.rest.iter().position(|&byte| byte == 0)?;
            out.extend_from_slice(&self.rest[..zero]);
            self.rest = &self.rest[zero + 1..];
            match self.take()? {
                [0] => return Some(out),
                [255] => out.push(0),
                _ => return None,
            }
        }
    }

    fn array(&mut self, element: BaseType) -> Option<Datum> {
        let mut elements = Vec::new();
        while let Some(value) = self.element(element.into())? {
            elements.push(value);
        }
        let count = self.take::<1>()?[0];
        let lengths = (0..count).map(|_| self.take().map(|bytes| u32::from_be_bytes(bytes) as usize));
        let dimensions: Vec<usize> = lengths.collect::<Option<_>>()?;
        let fits = match &dimensions[..] {
            [] => elements.is_empty(),
            lengths => lengths.iter().try_fold(1_usize, |all, length| all.checked_mul(*length)) == Some(elements.len()),
        };
        fits.then(|| Datum::Array(Arc::new(Array { element, dimensions, elements })))
    }

    /// Attributes that were added after the row was written are NULL.
    fn row(&mut self, composite: &Composite) -> Option<Datum> {
        let mut fields = Vec::with_capacity(composite.types.len());
        let mut types = composite.types.iter();
        loop {
            let next = types.next();
            match self.element(next.copied().unwrap_or(SqlType::UNKNOWN))? {
                Some(value) => fields.push((*next?, value)),
                None => {
                    fields.extend(next.into_iter().chain(types).map(|missing| (*missing, Datum::Null)));
                    let names = Some(Arc::clone(&composite.names));
                    return Some(Datum::Record(Arc::new(Row { fields, names })));
                }
            }
        }
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn range(&mut self, kind: RangeKind) -> Option<Range<Datum>> {
        if !self.flag()? {
            return Some(Range::Empty);
        }
        let lower = match self.flag()? {
            false => Lower::Infinite,
            true => Lower::At { value: self.bound(kind)?, is_exclusive: self.flag()? },
        };
        let upper = match self.flag()? {
            true => Upper::Infinite,
            false => Upper::At { value: self.bound(kind)?, is_inclusive: self.flag()? },
        };
        Some(Range::Bounds(lower, upper))
    }

    fn ranges(&mut self, kind: RangeKind) -> Option<Datum> {
        let mut ranges = Vec::new();
        loop {
            match self.range(kind)? {
                Range::Empty => return Some(Datum::Multirange(ranges.into())),
                range => ranges.push(range),
            }
        }
    }

    fn bound(&mut self, kind: RangeKind) -> Option<Datum> {
        Some(match kind {
            RangeKind::Int4 | RangeKind::Int8 => Datum::Int(i64::from_be_bytes(self.take()?) ^ i64::MIN),
            RangeKind::Date => Datum::Date(Date::from_days(i32::from_be_bytes(self.take()?) ^ i32::MIN)?),
            RangeKind::Timestamp | RangeKind::TimestampTz => {
                Datum::Timestamp(Timestamp::from_microseconds(i64::from_be_bytes(self.take()?) ^ i64::MIN)?)
            }
            RangeKind::Numeric => match self.element(BaseType::Numeric.into())?? {
                number @ Datum::Numeric(_) => number,
                _ => return None,
            },
        })
    }

    fn interval(&mut self) -> Option<Interval> {
        let length = (u128::from_be_bytes(self.take()?) ^ SIGN) as i128;
        let (months, days) = (i32::from_be_bytes(self.take()?), i32::from_be_bytes(self.take()?));
        let rest = length.checked_sub(Interval { months, days, microseconds: 0 }.length())?;
        Some(Interval { months, days, microseconds: i64::try_from(rest).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_again() {
        let intervals = [(0, 0, 0), (1, -2, 3), (-14, 5, i64::MIN), (i32::MAX, i32::MIN, i64::MAX)];
        let intervals = intervals.map(|(months, days, microseconds)| Interval { months, days, microseconds });
        for interval in intervals {
            let Some(Datum::Interval(read)) = to_interval(&of_interval(interval)) else { panic!("{interval:?}") };
            assert_eq!(read, interval);
        }
        let numeric = |text| Datum::Numeric(Numeric::parse(text).unwrap());
        let elements = [
            vec![],
            vec![Datum::Int(-1), Datum::Null, Datum::Int(i64::MAX)],
            vec![Datum::text(""), Datum::text("a\0b"), Datum::text("NULL")],
            vec![Datum::Bytes([0, 0, 255, 0].as_slice().into()), Datum::Bool(true)],
            vec![Datum::Float(f64::NAN), Datum::Float(-0.5), numeric("-1.50")],
            vec![numeric("NaN"), numeric("-12345678901234567890123456789012345678901234567890.5")],
            vec![Datum::Date(Date::parse("2024-02-29").unwrap()), Datum::Interval(intervals[1])],
            vec![Datum::Timestamp(Timestamp::parse("2024-02-29T01:02:03.4").unwrap()), Datum::Json("{}".into())],
        ];
        for elements in elements {
            let array = Array::new(BaseType::Text, elements);
            let bytes = of_array(&array).unwrap();
            assert_eq!(to_array(&bytes, BaseType::Text), Some(Datum::Array(Arc::new(array))));
            for end in 0..bytes.len() {
                assert_eq!(to_array(&bytes[..end], BaseType::Text), None, "the first {end} bytes of {bytes:?}");
            }
        }
    }

    #[test]
    fn dimensions_must_fit() {
        let elements = (0..6).map(Datum::Int).collect();
        let array = Array { element: BaseType::Int4, dimensions: vec![2, 3], elements };
        let mut bytes = of_array(&array).unwrap();
        assert_eq!(to_array(&bytes, BaseType::Int4), Some(Datum::Array(Arc::new(array))));
        *bytes.last_mut().unwrap() = 4;
        assert_eq!(to_array(&bytes, BaseType::Int4), None);
    }
}
