//! Values as text: what PostgreSQL's clients write and read.

use std::fmt::Write as _;
use std::sync::Arc;

use quipu_rows::Uuid;

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{Numeric, Wrong};
use crate::types::cast::fit;
use crate::types::datum::{Array, Datum};
use crate::types::environment::Environment;
use crate::types::refusal::{invalid_text, mismatch, text_out_of_range, zero_in_text};
use crate::types::user::UserType;
use crate::types::zoned_time::ZonedTime;
use crate::types::{
    BaseType, SqlType, array, bits, float, interval, json, moment, moment_text, money, network, range_text,
    range_values, tid,
};

/// The most bytes of a `name`: those of a table or a column, whose names are not cut.
pub const NAME_BYTES_MAX: usize = 128;

/// The most bytes of a text that a function or a cast makes.
pub(crate) const BYTES_MAX: usize = 1 << 28;

/// Fails with [`PROGRAM_LIMIT_EXCEEDED`](SqlState::PROGRAM_LIMIT_EXCEEDED) if a text gets longer than one may be. What
/// quotes a text may double it, so one that is quoted again and again would soon take all memory.
pub(crate) fn check_length(bytes: usize) -> Result<()> {
    match bytes <= BYTES_MAX {
        true => Ok(()),
        false => Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")),
    }
}

/// The value of a type that a text writes, fitted to what the type declares in parentheses.
///
/// # Errors
/// 22P02, 22007 and 22008 if it writes none; 22003 and 22001 if it does not fit; 22021 if there is a zero in it.
pub fn parse(text: &str, sql_type: SqlType, environment: &dyn Environment) -> Result<Datum> {
    if text.contains('\0') {
        return Err(zero_in_text());
    }
    if sql_type.is_vector() {
        let element = |text: &str| parse(text, sql_type.element(), environment);
        let elements = text.split_ascii_whitespace().map(element).collect::<Result<_>>()?;
        return Ok(Datum::Array(Arc::new(Array::new(sql_type.base, elements))));
    }
    if sql_type.is_array {
        return array::parse(text, sql_type.element(), environment);
    }
    let base = sql_type.base;
    let value = match base {
        BaseType::Unknown | BaseType::Void | BaseType::Text | BaseType::Varchar | BaseType::CaselessText => {
            Datum::text(text)
        }
        BaseType::Char => Datum::text(text),
        BaseType::SingleChar => Datum::text(shown_byte(single_byte(text))),
        BaseType::Name => Datum::text(name(text)),
        BaseType::Bool => Datum::Bool(parse_bool(text).ok_or_else(|| invalid_text(base, text))?),
        BaseType::Int2 => parse_int(text, base, i16::MIN.into(), i16::MAX.into())?,
        BaseType::Int4 => parse_int(text, base, i32::MIN.into(), i32::MAX.into())?,
        BaseType::Int8 => parse_int(text, base, i64::MIN, i64::MAX)?,
        BaseType::Tid => tid::parse(text)?,
        BaseType::Xid => parse_int(text, base, 0, u32::MAX.into())?,
        BaseType::Oid => parse_oid(text)?,
        base if base.is_oid() => parse_object(text, base, environment)?,
        BaseType::Float4 => Datum::Float(float::parse(text, true)?),
        BaseType::Float8 => Datum::Float(float::parse(text, false)?),
        BaseType::Numeric => Datum::Numeric(parse_numeric(text)?),
        BaseType::Bytea => Datum::Bytes(parse_bytea(text)?.into()),
        BaseType::Date => Datum::Date(moment_text::parse_date(text, environment)?),
        BaseType::Time => Datum::Int(moment_text::parse_time(text, environment)?),
        BaseType::TimeTz => Datum::Int(moment_text::parse_timetz(text, environment)?.to_int()),
        BaseType::Timestamp => Datum::Timestamp(moment_text::parse_timestamp(text, environment)?),
        BaseType::TimestampTz => Datum::Timestamp(moment_text::parse_timestamptz(text, environment)?),
        BaseType::Interval => {
            let with_unit = sql_type.with_unit(text);
            Datum::Interval(interval::parse(with_unit.as_deref().unwrap_or(text), environment.interval_style())?)
        }
        BaseType::Bit | BaseType::VarBit => bits::parse(text)?,
        BaseType::Money => money::parse(text)?,
        BaseType::Uuid => Datum::Uuid(parse_uuid(text)?),
        base if base.is_network() => network::parse(text, base)?,
        BaseType::Json => {
            json::check(text)?;
            Datum::Json(Arc::from(text))
        }
        BaseType::Jsonb => Datum::Json(json::normalise(text)?.into()),
        BaseType::Range(kind) => range_values::datum(range_text::parse(text, kind, environment)?),
        BaseType::Multirange(kind) => range_text::parse_several(text, kind, environment)?,
        BaseType::Enum(user) => parse_label(text, user)?,
        BaseType::Composite(user) if let Some(composite) = user.composite() => {
            array::parse_record(text, composite, environment)?
        }
        BaseType::Domain(_) => return parse(text, sql_type.without_domain(), environment),
        _ => {
            let message = match base {
                BaseType::Record => "input of anonymous composite types is not implemented".to_owned(),
                _ => format!("cannot accept a value of type {sql_type}"),
            };
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    };
    fit(value, sql_type, false)
}

/// Appends a value of a type; nothing for NULL.
///
/// # Errors
/// Those of a value that is not of the type, and of the catalogue.
pub fn write(value: &Datum, sql_type: SqlType, environment: &dyn Environment, out: &mut String) -> Result<()> {
    let sql_type = sql_type.without_domain();
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Int(value) if sql_type.base == BaseType::Tid => tid::write(*value, out),
        Datum::Int(value) => write_int(*value, sql_type.base, environment, out),
        Datum::Float(value) => match sql_type.base {
            BaseType::Enum(user) => out.push_str(label_of(*value, user)?),
            base => float::write(*value, base == BaseType::Float4, environment.float_digits(), out),
        },
        Datum::Numeric(value) => {
            let _ = write!(out, "{value}");
        }
        Datum::Text(text) => {
            out.push_str(text);
            if let (BaseType::Char, Some(length)) = (sql_type.base, sql_type.length()) {
                let missing = (length as usize).saturating_sub(text.chars().count());
                out.extend(std::iter::repeat_n(' ', missing));
            }
        }
        Datum::Bytes(bytes) if sql_type.base.is_network() => {
            if !network::write(bytes, sql_type.base, out) {
                return Err(mismatch(sql_type));
            }
        }
        Datum::Bytes(bytes) if environment.escapes_bytes() => write_with_escapes(bytes, out),
        Datum::Bytes(bytes) => {
            out.push_str("\\x");
            write_hex(bytes, out);
        }
        Datum::Date(date) => moment::write_date(*date, environment.date_style(), out),
        Datum::Timestamp(moment) => {
            let zone = (sql_type.base == BaseType::TimestampTz).then(|| environment.time_zone());
            moment::write_timestamp(*moment, zone, environment.date_style(), out);
        }
        Datum::Interval(value) => interval::write(*value, environment.interval_style(), out),
        Datum::Uuid(value) => {
            let _ = write!(out, "{value}");
        }
        // A column keeps the text without white space.
        Datum::Json(text) if sql_type.base == BaseType::Jsonb => match json::shown(text) {
            Ok(normal) => out.push_str(&normal),
            Err(_) => out.push_str(text),
        },
        Datum::Json(text) => out.push_str(text),
        Datum::Array(values) if sql_type.is_vector() => {
            for (place, value) in values.elements.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { " " });
                write(value, sql_type.element(), environment, out)?;
            }
        }
        Datum::Array(values) => {
            let element = SqlType { base: values.element, ..sql_type.element() };
            let element = if values.element == sql_type.base { element } else { element.bare() };
            array::write(values, element, environment, out)?;
        }
        Datum::Range(range) => {
            let kind = sql_type.base.range_kind().ok_or_else(|| mismatch(sql_type))?;
            range_text::write(range, kind, environment, out)?;
        }
        Datum::Multirange(ranges) => {
            let kind = sql_type.base.range_kind().ok_or_else(|| mismatch(sql_type))?;
            range_text::write_several(ranges, kind, environment, out)?;
        }
        Datum::Record(fields) => array::write_record(fields, environment, out)?,
    }
    Ok(())
}

/// The text of a value.
///
/// # Errors
/// Those of [`write()`].
pub fn to_string(value: &Datum, sql_type: SqlType, environment: &dyn Environment) -> Result<String> {
    let mut text = String::new();
    write(value, sql_type, environment, &mut text)?;
    Ok(text)
}

fn write_int(value: i64, base: BaseType, environment: &dyn Environment, out: &mut String) {
    if base == BaseType::Money {
        return money::write(value, out);
    }
    if base == BaseType::Time {
        return moment::write_time(value, out);
    }
    if base == BaseType::TimeTz {
        return moment::write_timetz(ZonedTime::of_int(value), out);
    }
    if base.is_oid() && base != BaseType::Oid {
        if value == 0 {
            return out.push_str(none_of(base));
        }
        let number = u32::try_from(value).ok();
        if let Some(name) = number.and_then(|number| environment.object_name(base, number)) {
            return out.push_str(&name);
        }
    }
    let _ = write!(out, "{value}");
}

/// The characters that a text of `length` characters lacks, to be `width` long. A width of `format!` will not do where
/// a client chooses it: beyond 65,535 it panics.
pub(crate) fn filling(length: usize, width: usize, character: char) -> impl Iterator<Item = char> {
    std::iter::repeat_n(character, width.saturating_sub(length))
}

/// Appends bytes as characters where they are printable ASCII, and as octal digits elsewhere.
fn write_with_escapes(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
}

/// Appends bytes as pairs of digits.
pub(crate) fn write_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)].into());
        out.push(DIGITS[usize::from(byte & 15)].into());
    }
}

/// The truth value that a text writes: `true`, `f`, `yes`, `off`, `1`.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let word = text.trim_matches(|c: char| c.is_ascii_whitespace()).to_ascii_lowercase();
    let begins = |whole: &str| !word.is_empty() && whole.starts_with(&word);
    if begins("true") || begins("yes") || word == "on" || word == "1" {
        return Some(true);
    }
    (begins("false") || begins("no") || word == "off" || word == "of" || word == "0").then_some(false)
}

fn parse_int(text: &str, base: BaseType, least: i64, greatest: i64) -> Result<Datum> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_text(base, text));
    }
    let value = trimmed.parse::<i64>().ok().filter(|value| (least..=greatest).contains(value));
    value.map(Datum::Int).ok_or_else(|| text_out_of_range(base, text))
}

fn parse_oid(text: &str) -> Result<Datum> {
    match parse_int(text, BaseType::Oid, i32::MIN.into(), u32::MAX.into())? {
        // A negative one is the same bits without a sign.
        Datum::Int(value) => Ok(Datum::Int((value as u32).into())),
        value => Ok(value),
    }
}

/// How the number 0 is written, which no object has. A minus sign is an operator.
fn none_of(base: BaseType) -> &'static str {
    if matches!(base, BaseType::RegOper | BaseType::RegOperator) { "0" } else { "-" }
}

fn parse_object(text: &str, base: BaseType, environment: &dyn Environment) -> Result<Datum> {
    if text == none_of(base) {
        return Ok(Datum::Int(0));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_oid(text);
    }
    environment.object_number(base, text).map(|number| Datum::Int(number.into()))
}

/// The value of an enum that a label is.
///
/// # Errors
/// 22P02 if the enum has no such label.
pub(crate) fn parse_label(text: &str, user: UserType) -> Result<Datum> {
    user.order_of(text).map(Datum::Float).ok_or_else(|| {
        let message = format!("invalid input value for enum {}: \"{text}\"", user.shown);
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })
}

/// The label of a value of an enum.
///
/// # Errors
/// 22P03 if the enum has no such value, as other faces than SQL may have written it.
pub(crate) fn label_of(value: f64, user: UserType) -> Result<&'static str> {
    user.label_at(value).ok_or_else(|| {
        let message = format!("invalid internal value for enum {}: {value}", user.shown);
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    })
}

fn parse_numeric(text: &str) -> Result<Numeric> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    Numeric::parse(trimmed).map_err(|wrong| match wrong {
        Wrong::Text => invalid_text(BaseType::Numeric, text),
        Wrong::Range => crate::numeric::overflow(),
    })
}

/// Braces may stand around it, and a hyphen after each four digits.
fn parse_uuid(text: &str) -> Result<Uuid> {
    let invalid = || invalid_text(BaseType::Uuid, text);
    let within = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}')).ok_or_else(invalid)?;
    let mut digits = String::with_capacity(32);
    let mut may_be_hyphen = false;
    for character in within.chars() {
        if character == '-' && may_be_hyphen {
            may_be_hyphen = false;
            continue;
        }
        if !character.is_ascii_hexdigit() || digits.len() == 32 {
            return Err(invalid());
        }
        digits.push(character);
        may_be_hyphen = digits.len().is_multiple_of(4) && digits.len() < 32;
    }
    Uuid::parse_str(&digits).map_err(|_| invalid())
}

/// The byte that a `"char"` is: the first one, or the one whose number `\101` writes; 0 of no text.
pub(crate) fn single_byte(text: &str) -> u8 {
    match *text.as_bytes() {
        [b'\\', a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
            ((u32::from(a - b'0') << 6) + (u32::from(b - b'0') << 3) + u32::from(c - b'0')) as u8
        }
        [first, ..] => first,
        [] => 0,
    }
}

/// The text of a `"char"`: its character, or `\377` of a byte beyond ASCII.
pub(crate) fn shown_byte(byte: u8) -> String {
    match byte {
        0 => String::new(),
        byte if byte.is_ascii() => char::from(byte).to_string(),
        byte => format!("\\{byte:03o}"),
    }
}

/// The text cut to what a `name` holds.
pub(crate) fn name(text: &str) -> &str {
    let mut end = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The bytes that pairs of hexadecimal digits write; blanks may stand between the pairs.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for c in text.chars() {
        if high.is_none() && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(invalid("invalid hexadecimal data: odd number of digits".to_owned()));
    }
    Ok(bytes)
}

/// The bytes that a text writes: `\x` and pairs of digits, or characters with `\\` and `\ooo` among them.
pub(crate) fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return parse_hex(digits);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(invalid_text(BaseType::Bytea, text)),
        }
    }
    Ok(bytes)
}

/// The text of a value of some type of texts.
pub(crate) fn text_of(value: &Datum, sql_type: SqlType) -> Result<&str> {
    value.as_text().ok_or_else(|| mismatch(sql_type))
}
