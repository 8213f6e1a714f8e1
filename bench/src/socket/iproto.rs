//! IPROTO, the protocol of Tarantool: a length, a header map and a body map in MessagePack.
//!
//! Rows are tuples `[unsigned, string of 8 bytes]` of the space [`SPACE`], whose primary key is the first field.

use crate::store::Result;

/// The space's number.
pub(crate) const SPACE: u64 = 512;
/// What the server sends first, in bytes.
pub(crate) const GREETING_BYTES: usize = 128;

// Keys of the header.
const REQUEST_TYPE: u64 = 0x00;
const SYNC: u64 = 0x01;
// Keys of the body.
const SPACE_ID: u64 = 0x10;
const INDEX_ID: u64 = 0x11;
const LIMIT: u64 = 0x12;
const OFFSET: u64 = 0x13;
const ITERATOR: u64 = 0x14;
const KEY: u64 = 0x20;
const TUPLE: u64 = 0x21;
const DATA: u64 = 0x30;
const ERROR: u64 = 0x31;
// Kinds of requests.
const SELECT: u64 = 1;
const INSERT: u64 = 2;
const REPLACE: u64 = 3;
const DELETE: u64 = 5;
// Iterators.
const EQUAL: u64 = 0;
const ALL: u64 = 2;

/// Appends an insert. `sync` comes back with the answer.
pub(crate) fn insert(out: &mut Vec<u8>, sync: usize, key: u64, value: &[u8]) {
    write_row(out, INSERT, sync, key, value);
}

/// Appends a replace.
pub(crate) fn replace(out: &mut Vec<u8>, sync: usize, key: u64, value: &[u8]) {
    write_row(out, REPLACE, sync, key, value);
}

fn write_row(out: &mut Vec<u8>, kind: u64, sync: usize, key: u64, value: &[u8]) {
    request(out, kind, sync, |out| {
        map(out, 2);
        field(out, SPACE_ID, SPACE);
        uint(out, TUPLE);
        tuple(out, key, value);
    });
}

/// Appends a delete.
pub(crate) fn delete(out: &mut Vec<u8>, sync: usize, key: u64) {
    request(out, DELETE, sync, |out| {
        map(out, 3);
        field(out, SPACE_ID, SPACE);
        field(out, INDEX_ID, 0);
        uint(out, KEY);
        array(out, 1);
        uint(out, key);
    });
}

/// Appends a select of one row by its key.
pub(crate) fn select(out: &mut Vec<u8>, sync: usize, key: u64) {
    select_one(out, sync, EQUAL, 0, Some(key));
}

/// Appends a select of the row number `offset`.
pub(crate) fn select_offset(out: &mut Vec<u8>, sync: usize, offset: u64) {
    select_one(out, sync, ALL, offset, None);
}

fn select_one(out: &mut Vec<u8>, sync: usize, iterator: u64, offset: u64, key: Option<u64>) {
    request(out, SELECT, sync, |out| {
        map(out, 6);
        field(out, SPACE_ID, SPACE);
        field(out, INDEX_ID, 0);
        field(out, LIMIT, 1);
        field(out, OFFSET, offset);
        field(out, ITERATOR, iterator);
        uint(out, KEY);
        array(out, key.iter().len() as u8);
        if let Some(key) = key {
            uint(out, key);
        }
    });
}

/// Appends a row as it stands in requests and in answers.
///
/// # Panics
/// If the value is longer than 31 bytes.
pub(crate) fn tuple(out: &mut Vec<u8>, key: u64, value: &[u8]) {
    assert!(value.len() < 32, "a value of {} bytes", value.len());
    array(out, 2);
    uint(out, key);
    out.push(0xa0 | value.len() as u8);
    out.extend_from_slice(value);
}

fn request(out: &mut Vec<u8>, kind: u64, sync: usize, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0xce, 0, 0, 0, 0]);
    map(out, 2);
    field(out, REQUEST_TYPE, kind);
    field(out, SYNC, sync as u64);
    body(out);
    let bytes = (out.len() - start - 5) as u32;
    out[start + 1..start + 5].copy_from_slice(&bytes.to_be_bytes());
}

/// The length of the first answer in `received`; `None` if it has not arrived as a whole.
pub(crate) fn answer_bytes(received: &[u8]) -> Result<Option<usize>> {
    let Some((head, rest)) = received.split_at_checked(5) else { return Ok(None) };
    let Some((0xce, length)) = head.split_first() else {
        return Err(format!("byte {:#x} begins no answer", head[0]).into());
    };
    let bytes = length.iter().fold(0, |sum: usize, byte| sum << 8 | usize::from(*byte));
    Ok(if rest.len() >= bytes { Some(5 + bytes) } else { None })
}

/// Which request a whole answer belongs to, and the tuples in it.
///
/// # Errors
/// The server's error.
pub(crate) fn payload(answer: &[u8]) -> Result<(usize, &[u8])> {
    let mut rest = answer.get(5..).unwrap_or_default();
    let (mut code, mut sync) = (0, 0);
    for _ in 0..read_head(&mut rest)?.1 {
        match read_uint(&mut rest)? {
            REQUEST_TYPE => code = read_uint(&mut rest)?,
            SYNC => sync = read_uint(&mut rest)?,
            _ => skip(&mut rest)?,
        }
    }
    let mut tuples: &[u8] = &[];
    let fields = if rest.is_empty() { 0 } else { read_head(&mut rest)?.1 };
    for _ in 0..fields {
        let key = read_uint(&mut rest)?;
        let value = rest;
        skip(&mut rest)?;
        let value = &value[..value.len() - rest.len()];
        let inside = || -> Result<&[u8]> {
            let mut inside = value;
            read_head(&mut inside)?;
            Ok(inside)
        };
        match key {
            DATA => tuples = inside()?,
            ERROR => return Err(String::from_utf8_lossy(inside()?).into()),
            _ => {}
        }
    }
    if code != 0 {
        return Err(format!("error {code:#x} with no text").into());
    }
    Ok((sync as usize, tuples))
}

// MessagePack.

fn map(out: &mut Vec<u8>, fields: u8) {
    out.push(0x80 | fields);
}

fn array(out: &mut Vec<u8>, values: u8) {
    out.push(0x90 | values);
}

fn field(out: &mut Vec<u8>, key: u64, value: u64) {
    uint(out, key);
    uint(out, value);
}

/// In the fewest bytes.
fn uint(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => out.push(number as u8),
        0x80..0x100 => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..0x1_0000 => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// What the size of a value's head counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sized {
    /// The value is the size itself.
    Number,
    /// Bytes that follow.
    Bytes,
    /// Values that follow.
    Values,
    /// Pairs of values that follow.
    Pairs,
}

/// Reads the first byte of a value and its size.
fn read_head(rest: &mut &[u8]) -> Result<(Sized, u64)> {
    let kind = read_number(rest, 1)?;
    let (sized, size_bytes) = match kind {
        0x00..=0x7f => return Ok((Sized::Number, kind)),
        0x80..=0x8f => return Ok((Sized::Pairs, kind & 0x0f)),
        0x90..=0x9f => return Ok((Sized::Values, kind & 0x0f)),
        0xa0..=0xbf => return Ok((Sized::Bytes, kind & 0x1f)),
        0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => return Ok((Sized::Bytes, 0)),
        0xca | 0xd2 => return Ok((Sized::Bytes, 4)),
        0xcb | 0xd3 => return Ok((Sized::Bytes, 8)),
        0xd0 => return Ok((Sized::Bytes, 1)),
        0xd1 => return Ok((Sized::Bytes, 2)),
        0xcc..=0xcf => (Sized::Number, 1 << (kind - 0xcc)),
        0xc4..=0xc6 => (Sized::Bytes, 1 << (kind - 0xc4)),
        0xd9..=0xdb => (Sized::Bytes, 1 << (kind - 0xd9)),
        0xdc | 0xdd => (Sized::Values, 2 << (kind - 0xdc)),
        0xde | 0xdf => (Sized::Pairs, 2 << (kind - 0xde)),
        _ => return Err(format!("byte {kind:#x} begins no value that is expected here").into()),
    };
    Ok((sized, read_number(rest, size_bytes)?))
}

fn read_number(rest: &mut &[u8], bytes: usize) -> Result<u64> {
    let (number, after) = rest.split_at_checked(bytes).ok_or("an answer ends inside a value")?;
    *rest = after;
    Ok(number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn read_uint(rest: &mut &[u8]) -> Result<u64> {
    match read_head(rest)? {
        (Sized::Number, number) => Ok(number),
        (other, _) => Err(format!("{other:?} where a number should be").into()),
    }
}

fn skip(rest: &mut &[u8]) -> Result<()> {
    let mut values = 1;
    while values > 0 {
        let (sized, size) = read_head(rest)?;
        values -= 1;
        match sized {
            Sized::Number => {}
            Sized::Bytes => *rest = rest.get(size as usize..).ok_or("an answer ends inside a value")?,
            Sized::Values => values += size,
            Sized::Pairs => values += 2 * size,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_length_and_two_maps() {
        let mut out = Vec::new();
        insert(&mut out, 3, 300, b"12345678");
        let body = [0x82, 0x10, 0xcd, 0x02, 0x00, 0x21, 0x92, 0xcd, 0x01, 0x2c, 0xa8];
        let expected = [&[0xce, 0, 0, 0, 24, 0x82, 0x00, 0x02, 0x01, 0x03][..], &body, b"12345678"].concat();
        assert_eq!(out, expected);
        assert_eq!(answer_bytes(&out).unwrap(), Some(out.len()));
        assert_eq!(answer_bytes(&out[..out.len() - 1]).unwrap(), None);
    }

    #[test]
    fn numbers_take_the_fewest_bytes_and_come_back() {
        for number in [0, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut out = Vec::new();
            uint(&mut out, number);
            let mut rest = &out[..];
            assert_eq!(read_uint(&mut rest).unwrap(), number);
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn an_answer_tells_its_request_and_its_tuples_or_the_error() {
        let mut row = Vec::new();
        tuple(&mut row, 7, b"12345678");
        let header = [0x83, 0x00, 0xce, 0, 0, 0, 0, 0x01, 0xcf, 0, 0, 0, 0, 0, 0, 0, 9, 0x05, 0xce, 0, 0, 0, 80];
        let answer = [&[0xce, 0, 0, 0, 0][..], &header, &[0x81, 0x30, 0xdd, 0, 0, 0, 1], &row].concat();
        assert_eq!(payload(&answer).unwrap(), (9, &row[..]));

        let failed = [0x82, 0x00, 0xcd, 0x80, 0x03, 0x01, 0x05, 0x82, 0x52, 0x80, 0x31, 0xa2, b'n', b'o'];
        let answer = [&[0xce, 0, 0, 0, 14][..], &failed].concat();
        assert_eq!(payload(&answer).unwrap_err().to_string(), "no");
        for length in 6..answer.len() {
            assert!(payload(&answer[..length]).is_err());
        }
    }
}
