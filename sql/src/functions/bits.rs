//! Functions and operators of strings of bits.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Body, Definitions, int, text};
use crate::types::datum::Datum;

pub(crate) fn define(definitions: &mut Definitions) {
    operators(definitions);
    counts(definitions);
    parts(definitions);
}

/// What two strings of the same length make bit by bit.
fn both(values: &[Datum], name: &str, make: fn(u8, u8) -> u8) -> Result<Datum> {
    let (a, b) = (text(values, 0)?, text(values, 1)?);
    if a.len() != b.len() {
        let what = format!("cannot {name} bit strings of different sizes");
        return Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, what));
    }
    let made = a.bytes().zip(b.bytes()).map(|(a, b)| char::from(b'0' + (make(a, b) & 1)));
    Ok(Datum::text(made.collect::<String>()))
}

/// Bits that are moved to the left, or to the right by a negative number; zeros come in at the other end.
fn moved(bits: &str, by: i64) -> Datum {
    let count = (by.unsigned_abs() as usize).min(bits.len());
    let zeros = "0".repeat(count);
    Datum::text(if by >= 0 { bits[count..].to_owned() + &zeros } else { zeros + &bits[..bits.len() - count] })
}

fn operators(definitions: &mut Definitions) {
    definitions.add("&(bit,bit) bit", |_, v| both(v, "AND", |a, b| a & b));
    definitions.add("|(bit,bit) bit", |_, v| both(v, "OR", |a, b| a | b));
    definitions.add("#(bit,bit) bit", |_, v| both(v, "XOR", |a, b| a ^ b));
    definitions.add("~(bit) bit", |_, v| {
        let turned = text(v, 0)?.chars().map(|bit| if bit == '0' { '1' } else { '0' });
        Ok(Datum::text(turned.collect::<String>()))
    });
    definitions.add("<<(bit,int4) bit", |_, v| Ok(moved(text(v, 0)?, int(v, 1)?)));
    definitions.add(">>(bit,int4) bit", |_, v| Ok(moved(text(v, 0)?, -int(v, 1)?)));
    definitions.add("||(varbit,varbit) varbit", |_, v| Ok(Datum::text([text(v, 0)?, text(v, 1)?].concat())));
}

fn counts(definitions: &mut Definitions) {
    definitions.each(&["length(bit) int4", "bit_length(bit) int4"], |_, v| Ok(Datum::Int(text(v, 0)?.len() as i64)));
    definitions.add("octet_length(bit) int4", |_, v| Ok(Datum::Int(text(v, 0)?.len().div_ceil(8) as i64)));
    definitions.add("bit_count(bit) int8", |_, v| {
        Ok(Datum::Int(text(v, 0)?.bytes().filter(|bit| *bit == b'1').count() as i64))
    });
    definitions.add("position(bit,bit) int4", |_, v| {
        Ok(Datum::Int(text(v, 0)?.find(text(v, 1)?).map_or(0, |place| place as i64 + 1)))
    });
}

/// The place of a bit, counted from 0.
fn place(bits: &str, place: i64) -> Result<usize> {
    usize::try_from(place).ok().filter(|place| *place < bits.len()).ok_or_else(|| {
        let what = format!("bit index {place} out of valid range (0..{})", bits.len() as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, what)
    })
}

/// The places of the bits from one on, counted from 1; of a length, or up to the end.
fn span(bits: &str, start: i64, length: Option<i64>) -> Result<std::ops::Range<usize>> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let within = |place: i64| place.clamp(0, bits.len() as i64) as usize;
    let end = length.map_or(bits.len(), |length| within((start - 1).saturating_add(length)));
    Ok(within(start - 1).min(end)..end)
}

fn parts(definitions: &mut Definitions) {
    definitions.add("get_bit(bit,int4) int4", |_, v| {
        let bits = text(v, 0)?;
        Ok(Datum::Int((bits.as_bytes()[place(bits, int(v, 1)?)?] - b'0').into()))
    });
    definitions.add("set_bit(bit,int4,int4) bit", |_, v| {
        let (bits, new) = (text(v, 0)?, int(v, 2)?);
        let at = place(bits, int(v, 1)?)?;
        if !matches!(new, 0 | 1) {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1"));
        }
        Ok(Datum::text(format!("{}{new}{}", &bits[..at], &bits[at + 1..])))
    });
    let substring: Body = |_, v| {
        let bits = text(v, 0)?;
        let length = if v.len() > 2 { Some(int(v, 2)?) } else { None };
        Ok(Datum::text(&bits[span(bits, int(v, 1)?, length)?]))
    };
    definitions.each(&["substring(bit,int4) bit", "substring(bit,int4,int4) bit"], substring);
    let overlay: Body = |_, v| {
        let (bits, new, start) = (text(v, 0)?, text(v, 1)?, int(v, 2)?);
        let length = if v.len() > 3 { int(v, 3)? } else { new.len() as i64 };
        if start <= 0 {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        let before = &bits[span(bits, 1, Some(start - 1))?];
        let after = &bits[span(bits, start.saturating_add(length), None)?];
        Ok(Datum::text([before, new, after].concat()))
    };
    definitions.each(&["overlay(bit,bit,int4) bit", "overlay(bit,bit,int4,int4) bit"], overlay);
}
