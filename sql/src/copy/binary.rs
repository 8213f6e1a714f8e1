//! The binary format: a header, rows of a count and fields with their lengths, and an end.

use std::borrow::Cow;

use crate::copy::Field;
use crate::error::{Result, SqlError, SqlState};

/// What each file begins with: so a transfer that changes bytes is found.
pub(super) const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// Bytes of signature, flags and the length of what may follow them.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Flags that a reader must know, of which there is none.
const CRITICAL: u32 = 0xffff_0000;
/// Rows have a number before their fields, as before PostgreSQL 12.
const HAS_OIDS: u32 = 1 << 16;

fn malformed(text: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, text)
}

/// What the next bytes are.
pub(super) enum Part<'b> {
    /// More must come.
    Lacking,
    /// A row, of so many bytes.
    Row(Vec<Field<'b>>, usize),
    /// The end, of so many bytes.
    End(usize),
}

/// How many bytes the header has; none if it has not come whole.
pub(super) fn header(bytes: &[u8]) -> Result<Option<usize>> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(malformed("COPY file signature not recognized"));
    }
    let Some(rest) = bytes.get(SIGNATURE.len()..HEADER_BYTES) else { return Ok(None) };
    let number = |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let flags = number(0);
    if flags & HAS_OIDS != 0 {
        return Err(malformed("invalid COPY file header (WITH OIDS)"));
    }
    if flags & CRITICAL != 0 {
        return Err(malformed("unrecognized critical flags in COPY file header"));
    }
    let length = i32::from_be_bytes(number(4).to_be_bytes());
    let Ok(length) = usize::try_from(length) else {
        return Err(malformed("invalid COPY file header (wrong length)"));
    };
    let end = HEADER_BYTES + length;
    Ok((bytes.len() >= end).then_some(end))
}

/// The next row, of so many columns.
pub(super) fn row(bytes: &[u8], columns: usize) -> Result<Part<'_>> {
    let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(Part::Lacking) };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Part::End(2));
    }
    if usize::try_from(count) != Ok(columns) {
        return Err(malformed(format!("row field count is {count}, expected {columns}")));
    }
    let mut fields = Vec::with_capacity(columns);
    for _ in 0..columns {
        let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(Part::Lacking) };
        rest = after;
        match i32::from_be_bytes(*length) {
            -1 => fields.push(None),
            length => {
                let length = usize::try_from(length).map_err(|_| malformed("invalid field size"))?;
                let Some((value, after)) = rest.split_at_checked(length) else { return Ok(Part::Lacking) };
                fields.push(Some(Cow::Borrowed(value)));
                rest = after;
            }
        }
    }
    Ok(Part::Row(fields, bytes.len() - rest.len()))
}

/// Writes a header.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(&SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Writes how many fields follow.
pub(super) fn write_count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&i16::try_from(count).unwrap_or(i16::MAX).to_be_bytes());
}

/// Writes a value.
pub(super) fn write(value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
    let too_long = |_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value of more than 2 GiB cannot be sent");
    let length = value.map_or(Ok(-1), |value| i32::try_from(value.len()).map_err(too_long))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Writes the end.
pub(super) fn write_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes());
}
