//! Values as bytes: the binary formats of PostgreSQL's protocol. All numbers are big-endian.

use std::borrow::Cow;
use std::sync::Arc;

use quipu_rows::{Date, Decimal, Timestamp, Uuid};

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{self, Numeric};
use crate::types::cast::fit;
use crate::types::datum::{Array, Datum, Interval, Row};
use crate::types::interval::DAY;
use crate::types::moment::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use crate::types::range::Range;
use crate::types::refusal::{mismatch, moment_out_of_range, zero_in_text};
use crate::types::text_encoding::TextEncoding;
use crate::types::user::Composite;
use crate::types::zoned_time::ZonedTime;
use crate::types::{BaseType, RangeKind, SqlType, bits, json, moment, network, range_text, range_values, text, tid};

/// Zones are less far from UTC, in seconds.
const OFFSET_END: i64 = 16 * 3600;

#[cold]
fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, what)
}

#[cold]
fn too_short() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// What is left of bytes that are read.
struct Reader<'b> {
    rest: &'b [u8],
    /// That of texts.
    encoding: TextEncoding,
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(too_short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(invalid("incorrect binary data format")) }
    }

    /// Another value, which has so many of the bytes.
    fn part(&mut self, count: usize) -> Result<Reader<'b>> {
        Ok(Reader { rest: self.bytes(count)?, encoding: self.encoding })
    }

    fn text(&mut self) -> Result<Cow<'b, str>> {
        let text = self.encoding.decode(self.rest)?;
        if text.contains('\0') {
            return Err(zero_in_text());
        }
        self.rest = &[];
        Ok(text)
    }
}

/// The value of a type that bytes are, with texts in this encoding.
///
/// # Errors
/// 22P03 if they are malformed, 22021 for what is no text, and those of values that do not fit their type.
pub fn read(bytes: &[u8], sql_type: SqlType, encoding: TextEncoding) -> Result<Datum> {
    read_all(Reader { rest: bytes, encoding }, sql_type)
}

fn read_all(mut reader: Reader<'_>, sql_type: SqlType) -> Result<Datum> {
    let value = if sql_type.is_array { read_array(&mut reader, sql_type)? } else { read_one(&mut reader, sql_type)? };
    reader.end()?;
    fit(value, sql_type, false)
}

fn read_one(reader: &mut Reader<'_>, sql_type: SqlType) -> Result<Datum> {
    Ok(match sql_type.base {
        BaseType::Bool => Datum::Bool(reader.array::<1>()?[0] != 0),
        BaseType::SingleChar => Datum::text(text::shown_byte(reader.array::<1>()?[0])),
        BaseType::Int2 => Datum::Int(reader.i16()?.into()),
        BaseType::Int4 => Datum::Int(reader.i32()?.into()),
        BaseType::Int8 => Datum::Int(reader.i64()?),
        BaseType::Xid => Datum::Int(reader.u32()?.into()),
        BaseType::Tid => tid::of_parts(reader.u32()?, u16::from_be_bytes(reader.array()?))?,
        base if base.is_oid() => Datum::Int(reader.u32()?.into()),
        BaseType::Enum(user) => text::parse_label(&reader.text()?, user)?,
        BaseType::Domain(_) => read_one(reader, sql_type.without_domain())?,
        BaseType::Float4 => Datum::Float(f32::from_be_bytes(reader.array()?).into()),
        BaseType::Float8 => Datum::Float(f64::from_be_bytes(reader.array()?)),
        BaseType::Numeric => Datum::Numeric(read_numeric(reader)?),
        BaseType::Bytea => Datum::Bytes(Arc::from(reader.bytes(reader.rest.len())?)),
        base if base.is_network() => network::read_binary(reader.bytes(reader.rest.len())?, base)?,
        BaseType::Date => {
            // The infinite ones are the ends of the numbers, from wherever days are counted.
            Datum::Date(match reader.i32()? {
                i32::MAX => Date::INFINITY,
                i32::MIN => Date::NEG_INFINITY,
                days => moment::date(i64::from(days) + EPOCH_DAYS)?,
            })
        }
        BaseType::Time => {
            let time = reader.i64()?;
            if !(0..=DAY).contains(&time) {
                return Err(moment_out_of_range("time"));
            }
            Datum::Int(time)
        }
        BaseType::TimeTz => {
            let (time, offset) = (reader.i64()?, -i64::from(reader.i32()?));
            if !(0..=DAY).contains(&time) {
                return Err(moment_out_of_range("time"));
            }
            if offset.abs() >= OFFSET_END {
                let what = "time zone displacement out of range";
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what));
            }
            Datum::Int(ZonedTime { time, offset }.to_int())
        }
        BaseType::Timestamp | BaseType::TimestampTz => Datum::Timestamp(match reader.i64()? {
            i64::MAX => Timestamp::INFINITY,
            i64::MIN => Timestamp::NEG_INFINITY,
            since => moment::timestamp(since.saturating_add(EPOCH_MICROSECONDS))?,
        }),
        BaseType::Interval => {
            let microseconds = reader.i64()?;
            let days = reader.i32()?;
            Datum::Interval(Interval::new(reader.i32()?, days, microseconds))
        }
        BaseType::Money => Datum::Int(reader.i64()?),
        BaseType::Bit | BaseType::VarBit => {
            let count = usize::try_from(reader.i32()?).map_err(|_| invalid("invalid length in external bit string"))?;
            let bytes = reader.bytes(reader.rest.len())?;
            bits::of_bytes(count, bytes).ok_or_else(|| invalid("incorrect binary data format"))?
        }
        BaseType::Uuid => Datum::Uuid(Uuid::from_bytes(reader.array()?)),
        BaseType::Json => {
            let text = reader.text()?;
            json::check(&text)?;
            Datum::Json(Arc::from(text))
        }
        BaseType::Jsonb => {
            let [version] = reader.array()?;
            if version != 1 {
                let message = format!("unsupported jsonb version number {version}");
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
            }
            Datum::Json(json::normalise(&reader.text()?)?.into())
        }
        BaseType::Range(kind) => range_values::datum(read_range(reader, kind)?),
        BaseType::Multirange(kind) => {
            let count = reader.u32()?;
            let mut ranges = Vec::new();
            for _ in 0..count {
                let length = reader.u32()? as usize;
                let mut part = reader.part(length)?;
                ranges.push(read_range(&mut part, kind)?);
                part.end()?;
            }
            range_values::multirange(ranges)
        }
        BaseType::Record => read_record(reader)?,
        BaseType::Composite(user) if let Some(composite) = user.composite() => read_composite(reader, composite)?,
        BaseType::Name => Datum::text(crate::types::text::name(&reader.text()?)),
        _ => Datum::text(reader.text()?),
    })
}

fn read_numeric(reader: &mut Reader<'_>) -> Result<Numeric> {
    let (count, weight) = (reader.i16()? as u16, reader.i16()?);
    let (sign, scale) = (reader.i16()? as u16, reader.i16()?);
    let is_negative = match sign {
        0x0000 => false,
        0x4000 => true,
        0xC000 => return Ok(Numeric::NotANumber),
        0xD000 | 0xF000 => return Ok(Numeric::Infinite { is_negative: sign == 0xF000 }),
        _ => return Err(invalid("invalid sign in external \"numeric\" value")),
    };
    let scale = u32::try_from(scale).map_err(|_| invalid("invalid scale in external \"numeric\" value"))?;
    let digits = (0..count).map(|_| reader.i16()).collect::<Result<Vec<i16>>>()?;
    if digits.iter().any(|digit| !(0..10_000).contains(digit)) {
        return Err(invalid("invalid digit in external \"numeric\" value"));
    }
    if let Some(small) = read_small(is_negative, weight.into(), &digits, scale) {
        return Ok(Numeric::Small(small));
    }
    numeric::read_digits(is_negative, weight, &digits, scale).ok_or_else(numeric::overflow)
}

/// The number, if it has at most 38 digits.
fn read_small(is_negative: bool, weight: i32, digits: &[i16], scale: u32) -> Option<Decimal> {
    let scale = u8::try_from(scale).ok()?;
    let mut units = 0i128;
    // Digit by digit to the base of ten, until as many as the scale says stand after the point.
    let mut exponent = weight * 4 + 3;
    for digit in digits {
        for divisor in [1000, 100, 10, 1] {
            if exponent >= -i32::from(scale) {
                units = units.checked_mul(10)?.checked_add(i128::from(digit / divisor % 10))?;
            }
            exponent -= 1;
        }
    }
    while exponent >= -i32::from(scale) && units != 0 {
        units = units.checked_mul(10)?;
        exponent -= 1;
    }
    Decimal::new(if is_negative { -units } else { units }, scale)
}

fn write_numeric(number: &Numeric, out: &mut Vec<u8>) {
    let mut header = |count: u16, weight: i16, sign: u16, scale: u16| {
        [count, weight as u16, sign, scale].iter().for_each(|word| out.extend(word.to_be_bytes()));
    };
    let negative = if number.signum() < 0 { 0x4000u16 } else { 0 };
    match number {
        Numeric::NotANumber => header(0, 0, 0xC000, 0),
        // PostgreSQL sends a scale of 32 with these.
        Numeric::Infinite { is_negative } => header(0, 0, if *is_negative { 0xF000 } else { 0xD000 }, 32),
        Numeric::Small(small) => {
            let (weight, digits) = small_digits(*small);
            header(digits.len() as u16, weight, negative, small.scale().into());
            digits.iter().rev().for_each(|digit| out.extend(digit.to_be_bytes()));
        }
        Numeric::Large(_) => {
            let (weight, digits) = numeric::write_digits(number);
            header(digits.len() as u16, weight, negative, number.scale().unwrap_or(0) as u16);
            digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
        }
    }
}

/// The place of the first of the digits to the base of 10,000, and all of them from the last to the first.
fn small_digits(number: Decimal) -> (i16, Vec<u16>) {
    let scale = i32::from(number.scale());
    let mut magnitude = number.units().unsigned_abs();
    // Groups of four digits from the point on to both sides, from the last to the first.
    let groups_after = (scale + 3) / 4;
    let missing = (groups_after * 4 - scale) as u32;
    let mut digits: Vec<u16> = Vec::new();
    if missing > 0 {
        let kept = 10u128.pow(4 - missing);
        digits.push((magnitude % kept * 10u128.pow(missing)) as u16);
        magnitude /= kept;
    }
    while magnitude > 0 {
        digits.push((magnitude % 10_000) as u16);
        magnitude /= 10_000;
    }
    let mut weight = digits.len() as i32 - groups_after - 1;
    while digits.last() == Some(&0) {
        digits.pop();
        weight -= 1;
    }
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    (if digits.is_empty() { 0 } else { weight as i16 }, digits)
}

/// A length and so many bytes of a value, or -1 for NULL.
fn read_part(reader: &mut Reader<'_>, sql_type: SqlType) -> Result<Datum> {
    match reader.i32()? {
        -1 => Ok(Datum::Null),
        length => {
            let length = usize::try_from(length).map_err(|_| invalid("incorrect binary data format"))?;
            read_all(reader.part(length)?, sql_type)
        }
    }
}

fn read_array(reader: &mut Reader<'_>, sql_type: SqlType) -> Result<Datum> {
    let count = reader.i32()?;
    let _has_nulls = reader.i32()?;
    if !(0..=6).contains(&count) {
        return Err(invalid("invalid number of dimensions"));
    }
    let element = reader.u32()?;
    if element != sql_type.element().oid() {
        let message = format!("wrong element type: {element} instead of {}", sql_type.element().oid());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut dimensions = Vec::new();
    let mut total = 1usize;
    for _ in 0..count {
        let length = usize::try_from(reader.i32()?).map_err(|_| invalid("invalid length of a dimension"))?;
        if reader.i32()? != 1 && length > 0 {
            return Err(SqlError::unsupported("arrays that do not begin at 1 are not supported", "Let it begin at 1."));
        }
        total = total.checked_mul(length).ok_or_else(|| invalid("invalid length of a dimension"))?;
        dimensions.push(length);
    }
    if count == 0 || total == 0 {
        return Ok(Datum::Array(Arc::new(Array::new(sql_type.base, Vec::new()))));
    }
    // Each element has at least the four bytes of its length.
    if total > reader.rest.len() / 4 {
        return Err(too_short());
    }
    let elements = (0..total).map(|_| read_part(reader, sql_type.element())).collect::<Result<_>>()?;
    Ok(Datum::Array(Arc::new(Array { element: sql_type.base, dimensions, elements })))
}

fn read_range(reader: &mut Reader<'_>, kind: RangeKind) -> Result<Range<Datum>> {
    let [flags] = reader.array()?;
    range_text::of_flags(flags, kind, || match read_part(reader, kind.element().into())? {
        Datum::Null => Err(invalid("incorrect binary data format")),
        value => Ok(value),
    })
}

fn write_range(range: &Range<Datum>, kind: RangeKind, encoding: TextEncoding, out: &mut Vec<u8>) -> Result<()> {
    let (flags, mut values) = range_text::flags(range);
    out.push(flags);
    values.try_for_each(|value| write_part(value, kind.element().into(), encoding, out))
}

/// A row whose values must be of the types of the attributes.
fn read_composite(reader: &mut Reader<'_>, composite: &Composite) -> Result<Datum> {
    let count = reader.i32()?;
    let wanted = composite.types.len();
    if usize::try_from(count) != Ok(wanted) {
        let what = format!("wrong number of columns: {count}, expected {wanted}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    let mut fields = Vec::with_capacity(wanted);
    for (place, sql_type) in composite.types.iter().enumerate() {
        let number = reader.u32()?;
        if number != sql_type.oid() {
            let what = format!(
                "binary data has type {number} instead of expected {} in record column {}",
                sql_type.oid(),
                place + 1
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
        }
        fields.push((*sql_type, read_part(reader, *sql_type)?));
    }
    Ok(Datum::Record(Arc::new(Row { fields, names: Some(Arc::clone(&composite.names)) })))
}

fn read_record(reader: &mut Reader<'_>) -> Result<Datum> {
    let count = reader.i32()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let number = reader.u32()?;
        let sql_type = SqlType::of_oid(number).ok_or_else(|| invalid("unknown type in a record"))?;
        fields.push((sql_type, read_part(reader, sql_type)?));
    }
    Ok(Datum::record(fields))
}

/// Appends the bytes of a value of a type, with texts in this encoding; nothing for NULL.
///
/// # Errors
/// A value that is not of the type, or has a letter that the encoding lacks.
pub fn write(value: &Datum, sql_type: SqlType, encoding: TextEncoding, out: &mut Vec<u8>) -> Result<()> {
    let sql_type = sql_type.without_domain();
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push((*value).into()),
        Datum::Int(value) => match sql_type.base {
            BaseType::Int2 => out.extend((*value as i16).to_be_bytes()),
            BaseType::Int4 => out.extend((*value as i32).to_be_bytes()),
            BaseType::Xid => out.extend((*value as u32).to_be_bytes()),
            BaseType::Tid => {
                let (block, place) = tid::parts(*value);
                out.extend(block.to_be_bytes());
                out.extend(place.to_be_bytes());
            }
            base if base.is_oid() => out.extend((*value as u32).to_be_bytes()),
            BaseType::Int8 | BaseType::Time | BaseType::Money => out.extend(value.to_be_bytes()),
            BaseType::TimeTz => {
                let ZonedTime { time, offset } = ZonedTime::of_int(*value);
                out.extend(time.to_be_bytes());
                out.extend((-offset as i32).to_be_bytes());
            }
            _ => return Err(mismatch(sql_type)),
        },
        Datum::Float(value) if sql_type.base == BaseType::Float4 => out.extend((*value as f32).to_be_bytes()),
        Datum::Float(value) => match sql_type.base {
            BaseType::Enum(user) => out.extend(&*encoding.encode(text::label_of(*value, user)?)?),
            _ => out.extend(value.to_be_bytes()),
        },
        Datum::Numeric(number) => write_numeric(number, out),
        Datum::Text(text) if sql_type.base.is_bits() => {
            out.extend((text.len() as i32).to_be_bytes());
            out.extend(bits::to_bytes(text));
        }
        Datum::Text(text) if sql_type.base == BaseType::SingleChar => out.push(text::single_byte(text)),
        Datum::Text(text) => {
            out.extend(&*encoding.encode(text)?);
            if let (BaseType::Char, Some(length)) = (sql_type.base, sql_type.length()) {
                let missing = (length as usize).saturating_sub(text.chars().count());
                out.extend(std::iter::repeat_n(b' ', missing));
            }
        }
        Datum::Bytes(bytes) if sql_type.base.is_network() => {
            if !network::write_binary(bytes, sql_type.base, out) {
                return Err(mismatch(sql_type));
            }
        }
        Datum::Bytes(bytes) => out.extend(bytes.iter()),
        Datum::Date(date) => {
            let epoch = if date.is_finite() { EPOCH_DAYS as i32 } else { 0 };
            out.extend((date.days() - epoch).to_be_bytes());
        }
        Datum::Timestamp(moment) => {
            let epoch = if moment.is_finite() { EPOCH_MICROSECONDS } else { 0 };
            out.extend((moment.microseconds() - epoch).to_be_bytes());
        }
        Datum::Interval(interval) => {
            out.extend(interval.microseconds.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        Datum::Uuid(uuid) => out.extend(uuid.as_bytes()),
        Datum::Json(text) => {
            if sql_type.base == BaseType::Jsonb {
                out.push(1);
                out.extend(&*encoding.encode(&json::shown(text)?)?);
            } else {
                out.extend(&*encoding.encode(text)?);
            }
        }
        Datum::Array(array) => write_array(array, sql_type, encoding, out)?,
        Datum::Range(range) => {
            let kind = sql_type.base.range_kind().ok_or_else(|| mismatch(sql_type))?;
            write_range(range, kind, encoding, out)?;
        }
        Datum::Multirange(ranges) => {
            let kind = sql_type.base.range_kind().ok_or_else(|| mismatch(sql_type))?;
            out.extend((ranges.len() as i32).to_be_bytes());
            ranges.iter().try_for_each(|range| write_sized(out, |out| write_range(range, kind, encoding, out)))?;
        }
        Datum::Record(fields) => {
            out.extend((fields.len() as i32).to_be_bytes());
            for (sql_type, value) in fields.iter() {
                out.extend(sql_type.oid().to_be_bytes());
                write_part(value, *sql_type, encoding, out)?;
            }
        }
    }
    Ok(())
}

fn write_part(value: &Datum, sql_type: SqlType, encoding: TextEncoding, out: &mut Vec<u8>) -> Result<()> {
    if value.is_null() {
        out.extend((-1i32).to_be_bytes());
        return Ok(());
    }
    write_sized(out, |out| write(value, sql_type, encoding, out))
}

/// Appends the count of bytes that are written, and these.
fn write_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let at = out.len();
    out.extend([0; 4]);
    write(out)?;
    let length = i32::try_from(out.len() - at - 4)
        .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value has more than 2 GB"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_array(array: &Array, sql_type: SqlType, encoding: TextEncoding, out: &mut Vec<u8>) -> Result<()> {
    let element = SqlType { base: array.element, ..sql_type.element() };
    let has_nulls = array.elements.iter().any(Datum::is_null);
    out.extend((array.dimensions.len() as i32).to_be_bytes());
    out.extend(i32::from(has_nulls).to_be_bytes());
    out.extend(element.oid().to_be_bytes());
    for length in &array.dimensions {
        out.extend((*length as i32).to_be_bytes());
        out.extend(1i32.to_be_bytes());
    }
    array.elements.iter().try_for_each(|value| write_part(value, element, encoding, out))
}
