//! Intervals, arrays, ranges and rows as columns hold them: [bytes that tell their sort key](keyed_bytes), by which
//! keys and indexes compare them as SQL does.
//!
//! The sort key, whose parts end before those of any longer value:
//!
//! ```text
//! interval     length u128, with its sign turned
//! array        (kind u8 | value)*, 0 | count of dimensions u8 | length of each u32
//! range        0 of the empty one, or 1 | lower bound | upper bound
//! lower bound  0 of none, or 1 | kind u8 | value | 0 if the range has the value, 1 if it has not
//! upper bound  0 | kind u8 | value | 0 if the range has not the value, 1 if it has; or 1 of none
//! multirange   range*, 0
//! row          (kind u8 | value)*, 255
//! ```
//!
//! All numbers are big-endian, and have their signs turned. Texts, bytes and sort keys of exact numbers end with two
//! zeros; a zero within is followed by 255. A NULL has the kind 255 in an array and 254 in a row, which ends after its
//! last value that is not NULL: so attributes that a type gets later are NULL in rows that were there before, and
//! NULL is the greatest.
//!
//! The rest has what the sort key does not tell, in the same order:
//!
//! ```text
//! exact number  digits after the point u8 | units as LEB128, the sign in the last bit; or 255 | text, two zeros
//! float         the sign of a zero u8; nothing of others
//! interval      months i32 | days i32
//! ```
//!
//! Values with JSON within have no order here, and no key has them.

use std::sync::Arc;

use quipu_rows::{Date, Decimal, Timestamp, Uuid, keyed_bytes};

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
const NULL_IN_ROW: u8 = 254;
const NULL: u8 = 255;
const END_OF_ROW: u8 = 255;

/// In the rest of an exact number, where others have their digits after the point: a text follows.
const AS_TEXT: u8 = 255;

const SIGN: u128 = 1 << 127;

/// The bytes of a value; none of one that no column can hold, or that is not held so.
pub fn pack(value: &Datum) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    match value {
        Datum::Interval(interval) => writer.interval(*interval),
        Datum::Array(array) => writer.array(array)?,
        Datum::Range(range) => writer.range(range)?,
        Datum::Multirange(ranges) => writer.ranges(ranges)?,
        Datum::Record(row) => writer.row(row)?,
        _ => return None,
    }
    Some(keyed_bytes::join(&writer.key, &writer.rest))
}

#[derive(Default)]
struct Writer {
    key: Vec<u8>,
    rest: Vec<u8>,
}

impl Writer {
    fn value(&mut self, value: &Datum) -> Option<()> {
        match value {
            Datum::Null => self.key.push(NULL),
            Datum::Bool(value) => self.key.extend([BOOL, u8::from(*value)]),
            Datum::Int(value) => self.number(INT, (value ^ i64::MIN).to_be_bytes()),
            Datum::Float(value) => self.float(*value),
            Datum::Numeric(value) => self.numeric(value),
            Datum::Text(text) => self.bytes(TEXT, text.as_bytes()),
            Datum::Json(text) => self.bytes(JSON, text.as_bytes()),
            Datum::Bytes(bytes) => self.bytes(BYTES, bytes),
            Datum::Date(value) => self.number(DATE, (value.days() ^ i32::MIN).to_be_bytes()),
            Datum::Timestamp(value) => self.number(TIMESTAMP, (value.microseconds() ^ i64::MIN).to_be_bytes()),
            Datum::Uuid(value) => self.number(UUID, *value.as_bytes()),
            Datum::Interval(value) => {
                self.key.push(INTERVAL);
                self.interval(*value);
            }
            Datum::Range(range) => {
                self.key.push(RANGE);
                self.range(range)?;
            }
            Datum::Multirange(ranges) => {
                self.key.push(MULTIRANGE);
                self.ranges(ranges)?;
            }
            Datum::Array(array) => {
                self.key.push(ARRAY);
                self.array(array)?;
            }
            Datum::Record(row) => {
                self.key.push(ROW);
                self.row(row)?;
            }
        }
        Some(())
    }

    fn number<const N: usize>(&mut self, kind: u8, bytes: [u8; N]) {
        self.key.push(kind);
        self.key.extend(bytes);
    }

    /// All NaN are one, and greater than all numbers.
    fn float(&mut self, value: f64) {
        let bits = match value {
            value if value.is_nan() => f64::NAN.to_bits() & !(1 << 63),
            value if value == 0.0 => {
                self.rest.push(u8::from(value.is_sign_negative()));
                0
            }
            value => value.to_bits(),
        };
        let sorted = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        self.number(FLOAT, sorted.to_be_bytes());
    }

    fn numeric(&mut self, value: &Numeric) {
        let text = value.to_string();
        let mut sort_key = Vec::with_capacity(8 + text.len() / 2);
        keyed_bytes::append_number(&text, &mut sort_key);
        self.bytes(NUMERIC, &sort_key);
        match value {
            Numeric::Small(small) => {
                self.rest.push(small.scale());
                let units = small.units();
                let mut left = (units << 1 ^ units >> 127) as u128;
                while left >= 0x80 {
                    self.rest.push(left as u8 | 0x80);
                    left >>= 7;
                }
                self.rest.push(left as u8);
            }
            _ => {
                self.rest.push(AS_TEXT);
                append_escaped(text.as_bytes(), &mut self.rest);
            }
        }
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.key.push(kind);
        append_escaped(bytes, &mut self.key);
    }

    fn interval(&mut self, interval: Interval) {
        self.key.extend((interval.length() as u128 ^ SIGN).to_be_bytes());
        self.rest.extend(interval.months.to_be_bytes());
        self.rest.extend(interval.days.to_be_bytes());
    }

    fn array(&mut self, array: &Array) -> Option<()> {
        array.elements.iter().try_for_each(|element| self.value(element))?;
        self.key.push(END);
        self.key.push(u8::try_from(array.dimensions.len()).ok()?);
        for &length in &array.dimensions {
            self.key.extend(u32::try_from(length).ok()?.to_be_bytes());
        }
        Some(())
    }

    fn row(&mut self, row: &Row) -> Option<()> {
        let values: Vec<&Datum> = row.iter().map(|(_, value)| value).collect();
        let count = values.iter().rposition(|value| !value.is_null()).map_or(0, |last| last + 1);
        for value in &values[..count] {
            match value {
                Datum::Null => self.key.push(NULL_IN_ROW),
                value => self.value(value)?,
            }
        }
        self.key.push(END_OF_ROW);
        Some(())
    }

    fn ranges(&mut self, ranges: &[Range<Datum>]) -> Option<()> {
        ranges.iter().try_for_each(|range| self.range(range))?;
        self.key.push(END);
        Some(())
    }

    fn range(&mut self, range: &Range<Datum>) -> Option<()> {
        let Some((lower, upper)) = range.bounds() else {
            self.key.push(0);
            return Some(());
        };
        self.key.push(1);
        match lower.parts() {
            None => self.key.push(0),
            Some((value, has_it)) => {
                self.key.push(1);
                self.value(value)?;
                self.key.push(u8::from(!has_it));
            }
        }
        match upper.parts() {
            None => self.key.push(1),
            Some((value, has_it)) => {
                self.key.push(0);
                self.value(value)?;
                self.key.push(u8::from(has_it));
            }
        }
        Some(())
    }
}

fn append_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(255);
        }
    }
    out.extend([0, 0]);
}

/// The value of a type that has these bytes; none if no value has.
pub fn unpack(bytes: &[u8], sql_type: SqlType) -> Option<Datum> {
    let (key, rest) = keyed_bytes::split(bytes)?;
    let mut reader = Reader { key, rest };
    let sql_type = sql_type.without_domain();
    let value = match sql_type.base {
        element if sql_type.is_array => reader.array(element)?,
        BaseType::Interval => Datum::Interval(reader.interval()?),
        BaseType::Range(kind) => Datum::Range(Arc::new(reader.range(kind)?)),
        BaseType::Multirange(kind) => reader.ranges(kind)?,
        BaseType::Composite(user) => reader.row(user.composite()?)?,
        _ => return None,
    };
    (reader.key.is_empty() && reader.rest.is_empty()).then_some(value)
}

struct Reader<'b> {
    key: &'b [u8],
    rest: &'b [u8],
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

fn escaped(from: &mut &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let zero = from.iter().position(|&byte| byte == 0)?;
        out.extend_from_slice(&from[..zero]);
        *from = &from[zero + 1..];
        match take(from)? {
            [0] => return Some(out),
            [255] => out.push(0),
            _ => return None,
        }
    }
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        take(&mut self.key)
    }

    /// The value of this kind, of an element, a bound or an attribute.
    fn value(&mut self, kind: u8, of: SqlType) -> Option<Datum> {
        Some(match kind {
            BOOL => Datum::Bool(self.flag()?),
            INT => Datum::Int(i64::from_be_bytes(self.take()?) ^ i64::MIN),
            FLOAT => Datum::Float(self.float()?),
            NUMERIC => Datum::Numeric(self.numeric()?),
            TEXT => Datum::Text(String::from_utf8(escaped(&mut self.key)?).ok()?.into()),
            JSON => Datum::Json(String::from_utf8(escaped(&mut self.key)?).ok()?.into()),
            BYTES => Datum::Bytes(escaped(&mut self.key)?.into()),
            DATE => Datum::Date(Date::from_days(i32::from_be_bytes(self.take()?) ^ i32::MIN)?),
            TIMESTAMP => Datum::Timestamp(Timestamp::from_microseconds(i64::from_be_bytes(self.take()?) ^ i64::MIN)?),
            INTERVAL => Datum::Interval(self.interval()?),
            UUID => Datum::Uuid(Uuid::from_bytes(self.take()?)),
            RANGE => Datum::Range(Arc::new(self.range(of.base.range_kind()?)?)),
            MULTIRANGE => self.ranges(of.base.range_kind()?)?,
            ARRAY => self.array(of.base)?,
            ROW => self.row(of.base.composite()?)?,
            _ => return None,
        })
    }

    fn float(&mut self) -> Option<f64> {
        let sorted = u64::from_be_bytes(self.take()?);
        let bits = if sorted >> 63 == 1 { sorted & !(1 << 63) } else { !sorted };
        match f64::from_bits(bits) {
            0.0 => match take(&mut self.rest)? {
                [0] => Some(0.0),
                [1] => Some(-0.0),
                _ => None,
            },
            value => Some(value),
        }
    }

    fn numeric(&mut self) -> Option<Numeric> {
        // The sort key is passed over.
        escaped(&mut self.key)?;
        let [scale] = take(&mut self.rest)?;
        if scale == AS_TEXT {
            let text = String::from_utf8(escaped(&mut self.rest)?).ok()?;
            return Numeric::parse(&text).ok().filter(|number| number.small().is_none());
        }
        let mut units = 0_u128;
        for place in (0..128).step_by(7) {
            let [byte] = take(&mut self.rest)?;
            units |= u128::from(byte & 0x7f) << place;
            if byte & 0x80 == 0 {
                let signed = (units >> 1) as i128 ^ -((units & 1) as i128);
                return Some(Decimal::new(signed, scale)?.into());
            }
        }
        None
    }

    fn array(&mut self, element: BaseType) -> Option<Datum> {
        let mut elements = Vec::new();
        loop {
            match self.take()? {
                [END] => break,
                [NULL] => elements.push(Datum::Null),
                [kind] => elements.push(self.value(kind, element.into())?),
            }
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

    fn row(&mut self, composite: &Composite) -> Option<Datum> {
        let mut fields = Vec::with_capacity(composite.types.len());
        let mut types = composite.types.iter().copied();
        loop {
            match self.take()? {
                [END_OF_ROW] => break,
                [NULL_IN_ROW] => fields.push((types.next()?, Datum::Null)),
                [kind] => {
                    let own = types.next()?;
                    fields.push((own, self.value(kind, own)?));
                }
            }
        }
        fields.extend(types.map(|own| (own, Datum::Null)));
        Some(Datum::Record(Arc::new(Row { fields, names: Some(Arc::clone(&composite.names)) })))
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
        let [own] = self.take()?;
        let wanted = match kind {
            RangeKind::Int4 | RangeKind::Int8 => INT,
            RangeKind::Date => DATE,
            RangeKind::Timestamp | RangeKind::TimestampTz => TIMESTAMP,
            RangeKind::Numeric => NUMERIC,
        };
        if own == wanted { self.value(own, kind.element().into()) } else { None }
    }

    fn interval(&mut self) -> Option<Interval> {
        let length = (u128::from_be_bytes(self.take()?) ^ SIGN) as i128;
        let (months, days) = (i32::from_be_bytes(take(&mut self.rest)?), i32::from_be_bytes(take(&mut self.rest)?));
        let rest = length.checked_sub(Interval { months, days, microseconds: 0 }.length())?;
        Some(Interval { months, days, microseconds: i64::try_from(rest).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn array_of(element: BaseType) -> SqlType {
        SqlType { is_array: true, ..element.into() }
    }

    fn numeric(text: &str) -> Datum {
        Datum::Numeric(Numeric::parse(text).unwrap())
    }

    /// What equal values may differ in, too: digits, signs of zeros, months for days.
    fn written(value: &Datum) -> String {
        format!("{value:?}")
    }

    #[test]
    fn what_is_packed_is_read_again() {
        let intervals = [(0, 0, 0), (1, -2, 3), (-14, 5, i64::MIN), (i32::MAX, i32::MIN, i64::MAX)];
        let intervals = intervals.map(|(months, days, microseconds)| Interval { months, days, microseconds });
        for interval in intervals {
            let bytes = pack(&Datum::Interval(interval)).unwrap();
            let Some(Datum::Interval(read)) = unpack(&bytes, BaseType::Interval.into()) else { panic!("{interval:?}") };
            assert_eq!((read.months, read.days), (interval.months, interval.days));
        }
        let elements = [
            vec![],
            vec![Datum::Int(-1), Datum::Null, Datum::Int(i64::MAX)],
            vec![Datum::text(""), Datum::text("a\0b"), Datum::text("NULL")],
            vec![Datum::Bytes([0, 0, 255, 0].as_slice().into()), Datum::Bool(true)],
            vec![Datum::Float(f64::NAN), Datum::Float(-0.5), Datum::Float(-0.0), Datum::Float(0.0)],
            vec![numeric("-1.50"), numeric("170141183460469231731687303715884105727"), numeric("0.00")],
            vec![numeric("NaN"), numeric("-12345678901234567890123456789012345678901234567890.5")],
            vec![Datum::Date(Date::parse("2024-02-29").unwrap()), Datum::Interval(intervals[1])],
            vec![Datum::Timestamp(Timestamp::parse("2024-02-29T01:02:03.4").unwrap()), Datum::Json("{}".into())],
        ];
        for elements in elements {
            let array = Datum::Array(Arc::new(Array::new(BaseType::Text, elements)));
            let bytes = pack(&array).unwrap();
            let read = unpack(&bytes, array_of(BaseType::Text)).unwrap();
            assert_eq!(written(&read), written(&array));
            for end in 0..bytes.len() {
                assert_eq!(unpack(&bytes[..end], array_of(BaseType::Text)), None, "the first {end} bytes of {bytes:?}");
            }
        }
    }

    #[test]
    fn dimensions_must_fit() {
        let elements = (0..6).map(Datum::Int).collect();
        let array = Datum::Array(Arc::new(Array { element: BaseType::Int4, dimensions: vec![2, 3], elements }));
        let mut bytes = pack(&array).unwrap();
        assert_eq!(unpack(&bytes, array_of(BaseType::Int4)), Some(array));
        *bytes.last_mut().unwrap() = 4;
        assert_eq!(unpack(&bytes, array_of(BaseType::Int4)), None);
    }

    /// A value of a kind; near others, so that many are equal in part.
    fn drawn(kind: u8, random: &mut StdRng) -> Datum {
        let texts = ["", "a", "a\0", "a\0\0", "ab", "b", "\u{e9}"];
        let numbers = ["0", "0.00", "-0.5", "1", "1.0", "1.00", "10", "-1.05", "NaN", "Infinity", "-Infinity", "1e40"];
        let floats = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
        let small = random.random_range(-2..3);
        match kind {
            BOOL => Datum::Bool(random.random()),
            INT => Datum::Int([small, i64::MAX, i64::MIN, 256][random.random_range(0..4)]),
            FLOAT => Datum::Float(floats[random.random_range(0..floats.len())]),
            NUMERIC => numeric(numbers[random.random_range(0..numbers.len())]),
            TEXT => Datum::text(texts[random.random_range(0..texts.len())]),
            BYTES => Datum::Bytes(texts[random.random_range(0..texts.len())].as_bytes().into()),
            DATE => Datum::Date(Date::from_days(small as i32).unwrap()),
            TIMESTAMP => Datum::Timestamp(Timestamp::from_microseconds(small * 1_000_000_007).unwrap()),
            UUID => Datum::Uuid(Uuid::from_u128(small as u128)),
            _ => Datum::Interval(Interval {
                months: random.random_range(-1..2),
                days: random.random_range(-31..31),
                microseconds: small * 43_200_000_000,
            }),
        }
    }

    #[test]
    fn sort_keys_compare_as_values_do() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let kinds = [BOOL, INT, FLOAT, NUMERIC, TEXT, BYTES, DATE, TIMESTAMP, UUID, INTERVAL];
        let bounds = [(RangeKind::Int8, INT), (RangeKind::Numeric, NUMERIC), (RangeKind::Date, DATE)];
        let compare = |values: &[Datum], sql_type: Option<SqlType>| {
            let packed: Vec<Vec<u8>> = values.iter().map(|value| pack(value).unwrap()).collect();
            let keys: Vec<&[u8]> = packed.iter().map(|bytes| keyed_bytes::split(bytes).unwrap().0).collect();
            for (a, a_key) in values.iter().zip(&keys) {
                for (b, b_key) in values.iter().zip(&keys) {
                    assert_eq!(a_key.cmp(b_key), a.cmp(b), "{a:?} and {b:?}");
                }
            }
            for (value, bytes) in values.iter().zip(&packed).filter(|_| sql_type.is_some()) {
                assert_eq!(unpack(bytes, sql_type.unwrap()).map(|read| written(&read)), Some(written(value)));
            }
        };
        for kind in kinds {
            for _ in 0..20 {
                let element = |random: &mut StdRng| {
                    if random.random_range(0..6) == 0 { Datum::Null } else { drawn(kind, random) }
                };
                let elements = |random: &mut StdRng, most: usize| -> Vec<Datum> {
                    let count = random.random_range(0..=most);
                    (0..count).map(|_| element(random)).collect()
                };
                let arrays: Vec<Datum> = (0..30)
                    .map(|_| {
                        let mut array = Array::new(BaseType::Text, elements(&mut random, 4));
                        if array.elements.len() == 4 && random.random() {
                            array.dimensions = vec![2, 2];
                        }
                        Datum::Array(Arc::new(array))
                    })
                    .collect();
                compare(&arrays, None);
                // Rows of one type have as many values.
                let rows: Vec<Datum> = (0..30)
                    .map(|_| {
                        let mut values = elements(&mut random, 3);
                        values.resize(3, Datum::Null);
                        let fields = values.into_iter().map(|value| (SqlType::TEXT, value)).collect();
                        Datum::Record(Arc::new(Row { fields, names: None }))
                    })
                    .collect();
                compare(&rows, None);
            }
        }
        let intervals: Vec<Datum> = (0..200).map(|_| drawn(INTERVAL, &mut random)).collect();
        compare(&intervals, Some(BaseType::Interval.into()));
        for (range_kind, kind) in bounds {
            let range = |random: &mut StdRng| {
                let mut ends = [drawn(kind, random), drawn(kind, random)];
                ends.sort();
                let [low, high] = ends;
                let lower = match random.random_range(0..4) {
                    0 => Lower::Infinite,
                    _ => Lower::At { value: low, is_exclusive: random.random() },
                };
                let upper = match random.random_range(0..4) {
                    0 => Upper::Infinite,
                    _ => Upper::At { value: high, is_inclusive: random.random() },
                };
                if random.random_range(0..8) == 0 { Range::Empty } else { Range::Bounds(lower, upper) }
            };
            let ranges: Vec<Datum> = (0..200).map(|_| Datum::Range(Arc::new(range(&mut random)))).collect();
            compare(&ranges, Some(BaseType::Range(range_kind).into()));
            let multiranges: Vec<Datum> = (0..200)
                .map(|_| {
                    let count = random.random_range(0..3);
                    let ranges = (0..count).map(|_| range(&mut random)).filter(|range| *range != Range::Empty);
                    Datum::Multirange(ranges.collect::<Vec<_>>().into())
                })
                .collect();
            compare(&multiranges, Some(BaseType::Multirange(range_kind).into()));
        }
    }
}
