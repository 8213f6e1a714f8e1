//! Values of one type as those of another: which casts there are, where they happen by themselves, and what they do.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{self, Numeric};
use crate::types::datum::{Array, Datum, Interval, Row};
use crate::types::environment::Environment;
use crate::types::interval::DAY;
use crate::types::json::{self, Json};
use crate::types::moment::{self, from_clock, to_clock};
use crate::types::network::{self, Network};
use crate::types::refusal::{mismatch, out_of_range, overflow};
use crate::types::user::Composite;
use crate::types::zoned_time::ZonedTime;
use crate::types::{BaseType, SqlType, bits, money, range_values, rounded, text, tid};

/// Where a cast happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// By itself, in an expression.
    Implicit,
    /// By itself, when a value is stored in a column.
    Assignment,
    /// Where it is written: `CAST(a AS b)`, `a::b`.
    Explicit,
}

/// Whether values of a type can become those of another in a context.
pub fn can_cast(from: SqlType, to: SqlType, context: CastContext) -> bool {
    if from.bare() == to.bare() || from == SqlType::UNKNOWN {
        return true;
    }
    if to.base == BaseType::AnyNonArray {
        return !from.is_array;
    }
    if to.base == BaseType::AnyEnum {
        return matches!(from.base, BaseType::Enum(_)) && !from.is_array;
    }
    if to.base == BaseType::AnyRange {
        return matches!(from.base, BaseType::Range(_)) && !from.is_array;
    }
    if to.base == BaseType::AnyMultirange {
        return matches!(from.base, BaseType::Multirange(_)) && !from.is_array;
    }
    if to.base == BaseType::Any || (to.base == BaseType::AnyElement && (from.is_array || !to.is_array)) {
        return true;
    }
    match (from.is_array, to.is_array) {
        (true, true) => can_cast(from.element(), to.element(), context),
        (false, false) => least_context(from.base, to.base).is_some_and(|least| least <= context),
        (true, false) => is_string(to.base) && context >= CastContext::Assignment,
        (false, true) => is_string(from.base) && context == CastContext::Explicit,
    }
}

/// Whether it is of the category of strings.
fn is_string(base: BaseType) -> bool {
    use BaseType::{CaselessText, Char, Name, Text, Varchar};
    matches!(base, Text | Varchar | Char | Name | CaselessText)
}

/// The first context in which a cast between two different types is there.
fn least_context(from: BaseType, to: BaseType) -> Option<CastContext> {
    use BaseType::{
        Bit, Bool, CaselessText, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Json, Jsonb,
        MacAddr, MacAddr8, Money, Name, Numeric, Oid, RegClass, SingleChar, Text, Time, TimeTz, Timestamp, TimestampTz,
        VarBit, Varchar,
    };
    use CastContext::{Assignment, Explicit, Implicit};
    let size = |base| [Int2, Int4, Int8, Numeric, Float4, Float8].iter().position(|known| *known == base);
    if let (Some(from), Some(to)) = (size(from), size(to)) {
        return Some(if from < to { Implicit } else { Assignment });
    }
    Some(match (from, to) {
        (Int2 | Int4 | Int8, to) if to.is_oid() => Implicit,
        (Oid, to) if to.is_oid() => Implicit,
        (from, Oid) if from.is_oid() => Implicit,
        (from, Int4 | Int8) if from.is_oid() => Assignment,
        (Int4, Bool) | (Bool, Int4) | (Int4, SingleChar) | (SingleChar, Int4) => Explicit,
        (Text | Varchar, RegClass) => Implicit,
        (Text, Varchar | Char | Name) | (Varchar, Text | Char | Name) | (Char, Text | Varchar | Name) => Implicit,
        (Name, Text) | (CaselessText, Text | Varchar | Char) | (SingleChar, Text) => Implicit,
        (Text | Varchar | Char, SingleChar) => Assignment,
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) | (Time, Interval | TimeTz) => Implicit,
        (TimestampTz, TimeTz) | (TimeTz, Time) => Assignment,
        (Timestamp | TimestampTz, Date | Time) | (TimestampTz, Timestamp) | (Interval, Time) => Assignment,
        (Bit, VarBit) | (VarBit, Bit) | (MacAddr, MacAddr8) | (MacAddr8, MacAddr) => Implicit,
        (Int4 | Int8, Bit) | (Bit, Int4 | Int8) => Explicit,
        (Int4 | Int8 | Numeric, Money) | (Money, Numeric) => Assignment,
        (Json, Jsonb) | (Jsonb, Json) | (Inet, Cidr) => Assignment,
        (Cidr, Inet) => Implicit,
        (Jsonb, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric) => Explicit,
        (BaseType::Range(from), BaseType::Multirange(to)) if from == to => Explicit,
        // Of a domain, the binder casts from and to the type that it is made of.
        (BaseType::Domain(_), _) | (_, BaseType::Domain(_)) => return None,
        (BaseType::Void, to) if is_string(to) => Explicit,
        (BaseType::Composite(_), BaseType::Record) => Implicit,
        // The fields may have no such casts.
        (BaseType::Record | BaseType::Composite(_), BaseType::Composite(_)) => Assignment,
        (BaseType::Void, _) | (_, BaseType::Void | BaseType::Unknown | BaseType::Record) => return None,
        (_, to) if is_string(to) => Assignment,
        (from, _) if is_string(from) => Explicit,
        _ => return None,
    })
}

/// A value of one type as one of another.
///
/// # Errors
/// 42846 if there is no such cast; 22003, 22001, 22P02 and others if there is no such value.
pub fn cast(
    value: Datum,
    from: SqlType,
    to: SqlType,
    context: CastContext,
    environment: &dyn Environment,
) -> Result<Datum> {
    let takes_all = matches!(to.base, BaseType::Any | BaseType::AnyElement | BaseType::AnyNonArray | BaseType::AnyEnum);
    if value.is_null() || takes_all {
        return Ok(value);
    }
    let is_explicit = context == CastContext::Explicit;
    if from.bare() == to.bare() {
        return fit(value, to, is_explicit);
    }
    if from == SqlType::UNKNOWN {
        let value = text::parse(text::text_of(&value, from)?, without_length(to, is_explicit), environment)?;
        return fit(value, to, is_explicit);
    }
    if let (Datum::Int(key), BaseType::Tid, BaseType::Int2 | BaseType::Int4 | BaseType::Int8) =
        (&value, to.base, from.base)
    {
        return tid::of_key(*key);
    }
    if !can_cast(from, to, context) {
        return Err(SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}")));
    }
    if let (true, true, Datum::Array(array)) = (from.is_array, to.is_array, &value) {
        let convert = |element: &Datum| cast(element.clone(), from.element(), to.element(), context, environment);
        let elements = array.elements.iter().map(convert).collect::<Result<_>>()?;
        let dimensions = array.dimensions.clone();
        return Ok(Datum::Array(Arc::new(Array { element: to.base, dimensions, elements })));
    }
    if let (Datum::Int(value), BaseType::Int4 | BaseType::Int8, BaseType::Bit) = (&value, from.base, to.base) {
        // The last bits of a number, whereas a cast of bits keeps the first ones.
        return Ok(bits::of_int(*value, to.length().unwrap_or(1) as usize));
    }
    if let (Datum::Record(row), false, false) = (&value, from.is_array, to.is_array)
        && matches!(to.base, BaseType::Composite(_) | BaseType::Record)
    {
        return cast_row(row, from, to, context, environment);
    }
    if from.is_array || to.is_array {
        return by_text(&value, from, to, is_explicit, environment);
    }
    match convert(&value, from.base, to.base, environment)? {
        Some(value) => fit(value, to, is_explicit),
        None => by_text(&value, from, to, is_explicit, environment),
    }
}

/// A row as one of a composite type, field by field.
fn cast_row(
    row: &Arc<Row>,
    from: SqlType,
    to: SqlType,
    context: CastContext,
    environment: &dyn Environment,
) -> Result<Datum> {
    let Some(composite) = to.base.composite() else { return Ok(Datum::Record(Arc::clone(row))) };
    refuse_count(row.len(), from, to, composite)?;
    let mut fields = Vec::with_capacity(row.len());
    for ((from, value), to) in row.iter().zip(&composite.types) {
        fields.push((*to, cast(value.clone(), *from, *to, context, environment)?));
    }
    Ok(Datum::Record(Arc::new(Row { fields, names: Some(Arc::clone(&composite.names)) })))
}

/// Fails if a row has not as many fields as a composite type has attributes.
///
/// # Errors
/// 42846.
pub(crate) fn refuse_count(count: usize, from: SqlType, to: SqlType, composite: &Composite) -> Result<()> {
    if count == composite.types.len() {
        return Ok(());
    }
    let word = if count < composite.types.len() { "few" } else { "many" };
    Err(SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))
        .with_detail(format!("Input has too {word} columns.")))
}

/// An explicit cast cuts what is too long, so that it must be read whole first.
fn without_length(to: SqlType, is_explicit: bool) -> SqlType {
    if is_explicit && (to.base.is_text() || to.base.is_bits()) { to.bare() } else { to }
}

/// The cast by what a value is written as.
fn by_text(
    value: &Datum,
    from: SqlType,
    to: SqlType,
    is_explicit: bool,
    environment: &dyn Environment,
) -> Result<Datum> {
    let written = match value {
        // As a cast, a truth value is its word.
        Datum::Bool(value) if is_string(to.base) => value.to_string(),
        // Blanks at the end of `char(n)` are not part of the text.
        Datum::Text(text) => text.to_string(),
        value => text::to_string(value, from, environment)?,
    };
    let value = text::parse(&written, without_length(to, is_explicit), environment)?;
    fit(value, to, is_explicit)
}

/// The whole numbers of a type.
fn range_of(base: BaseType) -> (i64, i64) {
    match base {
        BaseType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        BaseType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        base if base.is_oid() => (0, u32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// An integer of a type, or 22003.
pub(crate) fn checked_int(value: i64, base: BaseType) -> Result<Datum> {
    let (least, greatest) = range_of(base);
    if !(least..=greatest).contains(&value) {
        return Err(if base.is_oid() { out_of_range(BaseType::Oid) } else { out_of_range(base) });
    }
    Ok(Datum::Int(value))
}

/// The integer nearest to a float; of two, the even one.
pub(crate) fn int_of_float(value: f64, base: BaseType) -> Result<Datum> {
    let rounded = value.round_ties_even();
    // 2^63, which is no i64, is the first float beyond.
    if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        return Err(out_of_range(base));
    }
    checked_int(rounded as i64, base)
}

/// A float of single precision, or 22003.
pub(crate) fn single(value: f64) -> Result<Datum> {
    let single = value as f32;
    if single.is_infinite() && value.is_finite() {
        return Err(overflow());
    }
    if single == 0.0 && value != 0.0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(Datum::Float(single.into()))
}

/// The integer nearest to an exact number; of two, the one further from zero.
pub(crate) fn int_of_numeric(value: &Numeric, base: BaseType) -> Result<Datum> {
    if !value.is_finite() {
        let what = if value.is_nan() { "NaN" } else { "infinity" };
        let message = format!("cannot convert {what} to {}", SqlType::from(base));
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    checked_int(numeric::round(value, 0)?.as_i64().ok_or_else(|| out_of_range(base))?, base)
}

/// The conversions that go by no text; none if the pair is not one of them.
fn convert(value: &Datum, from: BaseType, to: BaseType, environment: &dyn Environment) -> Result<Option<Datum>> {
    use BaseType::{
        Bit, Bool, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, Json, Jsonb, MacAddr, MacAddr8, Money,
        Name, Numeric, Oid, SingleChar, Time, TimeTz, Timestamp, TimestampTz,
    };
    Ok(Some(match (value, from, to) {
        (Datum::Int(value), SingleChar | Int4, Bool) => Datum::Bool(*value != 0),
        (Datum::Int(value), Int4, SingleChar) => {
            let byte = i8::try_from(*value).map_err(|_| out_of_range(SingleChar))?;
            Datum::text(text::shown_byte(byte as u8))
        }
        (Datum::Int(value), Int4, Oid) => Datum::Int((*value as u32).into()),
        (Datum::Int(value), from, Int4) if from.is_oid() => Datum::Int((*value as i32).into()),
        (Datum::Int(value), Int4 | Int8, Money) => money::of_int(*value)?,
        (Datum::Int(value), Money, Numeric) => money::to_numeric(*value),
        (Datum::Numeric(value), Numeric, Money) => money::of_numeric(value)?,
        (Datum::Text(text), Bit, Int4 | Int8) => bits::to_int(text, to)?,
        (Datum::Text(_), from, to) if from.is_bits() && to.is_bits() => value.clone(),
        (Datum::Bytes(bytes), MacAddr, MacAddr8) => Datum::Bytes(network::mac8_of_mac(bytes).into()),
        (Datum::Bytes(bytes), MacAddr8, MacAddr) => match bytes[..] {
            [a, b, c, 0xff, 0xfe, d, e, f] => Datum::Bytes([a, b, c, d, e, f].as_slice().into()),
            _ => {
                let what = "macaddr8 data out of range to convert to macaddr";
                let hint = "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for \
                            example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.";
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what).with_hint(hint));
            }
        },
        (Datum::Int(value), from, to) if from.is_number() || from.is_oid() => match to {
            Int2 | Int4 | Int8 => checked_int(*value, to)?,
            to if to.is_oid() => checked_int(*value, to)?,
            Float4 => Datum::Float((*value as f32).into()),
            Float8 => Datum::Float(*value as f64),
            Numeric => Datum::Numeric((*value).into()),
            _ => return Ok(None),
        },
        (Datum::Float(value), _, Int2 | Int4 | Int8) => int_of_float(*value, to)?,
        (Datum::Float(value), _, Float4) => single(*value)?,
        (Datum::Float(value), _, Float8) => Datum::Float(*value),
        (Datum::Float(value), from, Numeric) => Datum::Numeric(numeric::of_float_cast(*value, from == Float4)),
        (Datum::Numeric(value), _, Int2 | Int4 | Int8) => int_of_numeric(value, to)?,
        (Datum::Numeric(value), _, Float4 | Float8) => float_of_numeric(value, to)?,
        (Datum::Bool(value), Bool, Int4) => Datum::Int((*value).into()),
        (Datum::Text(text), SingleChar, Int4) => Datum::Int((text::single_byte(text) as i8).into()),
        (Datum::Text(text), from, Name) if is_string(from) => Datum::text(text::name(text)),
        (Datum::Text(text), _, Char) => Datum::Text(Arc::clone(text)),
        (Datum::Text(_), from, to) if is_string(from) && is_string(to) => value.clone(),
        (Datum::Date(date), _, Timestamp) => Datum::Timestamp(moment::midnight_of(*date)?),
        (Datum::Date(date), _, TimestampTz) => {
            Datum::Timestamp(from_clock(environment.time_zone(), moment::midnight_of(*date)?)?)
        }
        (Datum::Timestamp(clock), Timestamp, TimestampTz) => {
            Datum::Timestamp(from_clock(environment.time_zone(), *clock)?)
        }
        (Datum::Timestamp(moment), from, Timestamp | Date | Time) => {
            let clock = if from == TimestampTz { to_clock(environment.time_zone(), *moment)? } else { *moment };
            match to {
                Timestamp => Datum::Timestamp(clock),
                Date => Datum::Date(clock.date()),
                _ if !clock.is_finite() => Datum::Null,
                _ => Datum::Int(clock.microseconds().rem_euclid(DAY)),
            }
        }
        (Datum::Timestamp(moment), TimestampTz, TimeTz) if !moment.is_finite() => Datum::Null,
        (Datum::Timestamp(moment), TimestampTz, TimeTz) => {
            let zone = environment.time_zone();
            let time = to_clock(zone, *moment)?.microseconds().rem_euclid(DAY);
            Datum::Int(ZonedTime { time, offset: moment::offset_at(zone, *moment) }.to_int())
        }
        (Datum::Int(time), Time, TimeTz) => {
            let zone = environment.time_zone();
            let today = to_clock(zone, environment.transaction_time())?.microseconds().div_euclid(DAY) * DAY;
            let moment = from_clock(zone, moment::timestamp(today + time)?)?;
            Datum::Int(ZonedTime { time: *time, offset: moment::offset_at(zone, moment) }.to_int())
        }
        (Datum::Int(time), TimeTz, Time) => Datum::Int(ZonedTime::of_int(*time).time),
        (Datum::Int(value), Time, BaseType::Interval) => Datum::Interval(Interval::new(0, 0, *value)),
        (Datum::Interval(value), _, Time) => Datum::Int(value.microseconds.rem_euclid(DAY)),
        (Datum::Bytes(_), Cidr, Inet) => value.clone(),
        (Datum::Bytes(bytes), Inet, Cidr) => {
            Network::of_bytes(bytes).ok_or_else(|| mismatch(Inet))?.network().to_datum()
        }
        // Unlike what clients are sent, with the prefix of an address of one host.
        (Datum::Bytes(bytes), Inet, to) if is_string(to) => {
            Datum::text(Network::of_bytes(bytes).ok_or_else(|| mismatch(Inet))?.whole())
        }
        (Datum::Range(range), BaseType::Range(_), BaseType::Multirange(_)) => {
            range_values::multirange(vec![(**range).clone()])
        }
        (Datum::Json(text), Jsonb, Json) => Datum::Json(json::shown(text)?.into()),
        (Datum::Json(text), Json, Jsonb) => Datum::Json(json::normalise(text)?.into()),
        (Datum::Json(text), Jsonb, to) if to.is_number() || to == Bool => of_json(text, to, environment)?,
        _ => return Ok(None),
    }))
}

/// The truth value or the number that a value of `jsonb` is.
fn of_json(text: &str, to: BaseType, environment: &dyn Environment) -> Result<Datum> {
    let value = json::parse(text)?;
    match &value {
        Json::Bool(value) if to == BaseType::Bool => Ok(Datum::Bool(*value)),
        Json::Number(number) if to.is_number() => {
            let number = text::parse(number, BaseType::Numeric.into(), environment)?;
            cast(number, BaseType::Numeric.into(), to.into(), CastContext::Explicit, environment)
        }
        value => {
            let kind = match value.type_name() {
                "number" => "numeric",
                kind => kind,
            };
            let message = format!("cannot cast jsonb {kind} to type {}", SqlType::from(to));
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// The value as a type keeps it that declares something in parentheses: digits are rounded; text that is too long is
/// cut by an explicit cast, and refused otherwise unless blanks are all that is too much.
///
/// # Errors
/// 22001 and 22003.
pub fn fit(value: Datum, to: SqlType, is_explicit: bool) -> Result<Datum> {
    match (&value, to.base) {
        (Datum::Array(array), base) if to.is_array && to.modifier >= 0 => {
            let fitted = |element: &Datum| fit(element.clone(), to.element(), is_explicit);
            let elements = array.elements.iter().map(fitted).collect::<Result<_>>()?;
            let dimensions = array.dimensions.clone();
            Ok(Datum::Array(Arc::new(Array { element: base, dimensions, elements })))
        }
        (Datum::Numeric(number), BaseType::Numeric) => match to.precision_and_scale() {
            Some((precision, scale)) => fit_numeric(number, precision, scale),
            None => Ok(value),
        },
        (Datum::Text(bits), base) if base.is_bits() => match to.length() {
            Some(length) => bits::fit(bits, to, length as usize, is_explicit),
            None => Ok(value),
        },
        (Datum::Int(_) | Datum::Timestamp(_) | Datum::Interval(_), _) if to.modifier >= 0 => rounded::fit(value, to),
        (Datum::Text(text), BaseType::Varchar) => match to.length() {
            Some(length) => fit_text(text, length as usize, to, is_explicit),
            None => Ok(value),
        },
        (Datum::Text(text), BaseType::Char) => {
            let fitted = match to.length() {
                Some(length) => fit_text(text, length as usize, to, is_explicit)?,
                None => value.clone(),
            };
            let text = fitted.as_text().unwrap_or_default();
            let trimmed = text.trim_end_matches(' ');
            Ok(if trimmed.len() == text.len() { fitted } else { Datum::text(trimmed) })
        }
        _ => Ok(value),
    }
}

fn fit_text(text: &Arc<str>, length: usize, to: SqlType, is_explicit: bool) -> Result<Datum> {
    let Some((end, _)) = text.char_indices().nth(length) else { return Ok(Datum::Text(Arc::clone(text))) };
    if !is_explicit && !text[end..].bytes().all(|byte| byte == b' ') {
        let message = format!("value too long for type {to}");
        return Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message));
    }
    Ok(Datum::text(&text[..end]))
}

fn fit_numeric(number: &Numeric, precision: u16, scale: i16) -> Result<Datum> {
    let field = format_args!("A field with precision {precision}, scale {scale}");
    let refuse = |detail: String| {
        Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail))
    };
    if number.is_nan() {
        return Ok(Datum::Numeric(number.clone()));
    }
    if !number.is_finite() {
        return refuse(format!("{field} cannot hold an infinite value."));
    }
    let fitted = numeric::at_scale(number, scale.into())?;
    let digits = i32::from(precision) - i32::from(scale);
    if numeric::has_digits_before(&fitted, digits) {
        return Ok(Datum::Numeric(fitted));
    }
    let bound = if digits == 0 { "1".to_owned() } else { format!("10^{digits}") };
    refuse(format!("{field} must round to an absolute value less than {bound}."))
}

/// The float nearest to an exact number.
fn float_of_numeric(value: &Numeric, to: BaseType) -> Result<Datum> {
    let float = value.to_f64();
    if value.is_finite() && (float.is_infinite() || float == 0.0 && !value.is_zero()) {
        return Err(crate::types::float::out_of_range(&value.to_string(), to));
    }
    if to == BaseType::Float4 { single(float) } else { Ok(Datum::Float(float)) }
}

/// The value of a number as a float.
pub(crate) fn to_float(value: &Datum) -> Result<f64> {
    match value {
        Datum::Int(value) => Ok(*value as f64),
        Datum::Float(value) => Ok(*value),
        Datum::Numeric(value) => Ok(value.to_f64()),
        _ => Err(mismatch(BaseType::Float8)),
    }
}
