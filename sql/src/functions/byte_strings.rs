//! Bytes as texts are: trimmed, overlaid, compared with patterns; and values as the protocol sends them.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, bytes, int};
use crate::functions::patterns::{fits_like, with_backslash};
use crate::types::BaseType;
use crate::types::binary;
use crate::types::datum::Datum;
use crate::types::refusal::mismatch;
use crate::types::text_encoding::TextEncoding;

/// Functions that give the bytes of a value in the binary form of the protocol, and its type.
const SENDS: [(&str, &str); 14] = [
    ("boolsend", "bool"),
    ("byteasend", "bytea"),
    ("date_send", "date"),
    ("float4send", "float4"),
    ("float8send", "float8"),
    ("int2send", "int2"),
    ("int4send", "int4"),
    ("int8send", "int8"),
    ("interval_send", "interval"),
    ("numeric_send", "numeric"),
    ("textsend", "text"),
    ("timestamp_send", "timestamp"),
    ("timestamptz_send", "timestamptz"),
    ("uuid_send", "uuid"),
];

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("btrim(bytea,bytea) bytea", |_, v| trimmed(v, true, true));
    definitions.add("ltrim(bytea,bytea) bytea", |_, v| trimmed(v, true, false));
    definitions.add("rtrim(bytea,bytea) bytea", |_, v| trimmed(v, false, true));
    definitions.add("overlay(bytea,bytea,int4) bytea", |_, v| overlaid(v));
    definitions.add("overlay(bytea,bytea,int4,int4) bytea", |_, v| overlaid(v));
    definitions.add("~~(bytea,bytea) bool", |_, v| fits(v).map(Datum::Bool));
    definitions.add("!~~(bytea,bytea) bool", |_, v| fits(v).map(|fits| Datum::Bool(!fits)));
    definitions.add("like(bytea,bytea) bool", |_, v| fits(v).map(Datum::Bool));
    definitions.add("notlike(bytea,bytea) bool", |_, v| fits(v).map(|fits| Datum::Bool(!fits)));
    definitions.add("like_escape(bytea,bytea) bytea", |_, v| {
        let pattern = with_backslash(&as_text(bytes(v, 0)?), &as_text(bytes(v, 1)?))?;
        Ok(Datum::Bytes(pattern.chars().map(|c| c as u8).collect()))
    });
    for (name, of) in SENDS {
        definitions.add(format!("{name}({of}) bytea").leak(), |_, v| sent(v)).typed();
    }
}

/// The bytes of the one value in a record.
fn sent(values: &[Datum]) -> Result<Datum> {
    let [Datum::Record(fields)] = values else { return Err(mismatch(BaseType::Record)) };
    let [(sql_type, value)] = &fields[..] else { return Err(mismatch(BaseType::Record)) };
    let mut bytes = Vec::new();
    binary::write(value, *sql_type, TextEncoding::UTF8, &mut bytes)?;
    Ok(Datum::Bytes(bytes.into()))
}

/// One character for each byte.
fn as_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn fits(values: &[Datum]) -> Result<bool> {
    fits_like(&as_text(bytes(values, 0)?), &as_text(bytes(values, 1)?))
}

fn trimmed(values: &[Datum], at_start: bool, at_end: bool) -> Result<Datum> {
    let (mut whole, set) = (bytes(values, 0)?, bytes(values, 1)?);
    while let [first, rest @ ..] = whole
        && at_start
        && set.contains(first)
    {
        whole = rest;
    }
    while let [rest @ .., last] = whole
        && at_end
        && set.contains(last)
    {
        whole = rest;
    }
    Ok(Datum::Bytes(whole.into()))
}

fn overlaid(values: &[Datum]) -> Result<Datum> {
    let (whole, new, start) = (bytes(values, 0)?, bytes(values, 1)?, int(values, 2)?);
    let length = if values.len() > 3 { int(values, 3)? } else { new.len() as i64 };
    if start <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let place = |at: i64| usize::try_from(at).unwrap_or(0).min(whole.len());
    let (before, after) = (&whole[..place(start - 1)], &whole[place(start - 1 + length)..]);
    Ok(Datum::Bytes([before, new, after].concat().into()))
}
