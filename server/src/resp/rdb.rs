//! Values as `DUMP` and `RESTORE` carry them: the form of Redis's own files, so that they move between the two both
//! ways.
//!
//! ```text
//! kind (1) | value | version (2, little-endian) | CRC-64 of all before (8, little-endian)
//! ```
//!
//! Strings are written plain, or as integers of 1, 2 or 4 bytes; read also if they are compressed (LZF). Sorted sets
//! are written as `ZSET_2` (binary scores) and read also as `ZSET`, and as the packed forms of Redis 2.4 to 6.2
//! (ziplist) and of 7.0 (listpack).
//!
//! Invariants: no bytes panic, and what is read takes no more memory than a small multiple of the payload, but for
//! compressed strings, which are bounded. Not here: keys and deadlines.

use std::sync::OnceLock;

use crate::resp::number::{parse_f64, parse_i64};

/// The version that is written: that of Redis 7.0.
const VERSION_WRITTEN: u16 = 10;
/// The newest version that is read: that of Redis 7.2, whose strings and sorted sets are the same.
const VERSION_READ_MAX: u16 = 11;
const FOOTER_BYTES: usize = 10;

const STRING: u8 = 0;
const SORTED_SET: u8 = 3;
const SORTED_SET_BINARY: u8 = 5;
const SORTED_SET_ZIPLIST: u8 = 12;
const SORTED_SET_LISTPACK: u8 = 17;

/// Bytes of the longest string that is unpacked.
const STRING_BYTES_MAX: usize = 512 << 20;

/// What a payload holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The bytes of a string.
    String(Vec<u8>),
    /// Members and scores of a sorted set, in any order. No member twice, at least one.
    SortedSet(Vec<(Vec<u8>, f64)>),
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It was cut or changed on its way, or comes from a newer version.
    Footer,
    /// It holds what is not understood.
    Value,
    /// It holds a value of a type that is not here, in Redis's word for it.
    Absent(&'static str),
}

/// The payload of a string.
pub fn dump_string(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![STRING];
    write_string(&mut out, bytes);
    finish(out)
}

/// The payload of a sorted set, from its members one by one.
pub struct SortedSetDump {
    out: Vec<u8>,
}

impl SortedSetDump {
    /// Of a set with so many members.
    pub fn new(members: u64) -> SortedSetDump {
        let mut out = vec![SORTED_SET_BINARY];
        write_length(&mut out, members);
        SortedSetDump { out }
    }

    /// Adds a member.
    pub fn add(&mut self, member: &[u8], score: f64) {
        write_string(&mut self.out, member);
        self.out.extend_from_slice(&score.to_le_bytes());
    }

    /// The payload.
    pub fn finish(self) -> Vec<u8> {
        finish(self.out)
    }
}

fn finish(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&VERSION_WRITTEN.to_le_bytes());
    let checksum = crc64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// What a payload holds.
///
/// # Errors
/// [`Broken`] says whether it arrived as it was sent.
pub fn load(payload: &[u8]) -> Result<Value, Broken> {
    let body_bytes = payload.len().checked_sub(FOOTER_BYTES).ok_or(Broken::Footer)?;
    let (body, footer) = payload.split_at(body_bytes);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let checksum = u64::from_le_bytes(footer[2..].try_into().map_err(|_| Broken::Footer)?);
    if version > VERSION_READ_MAX || crc64(&payload[..body_bytes + 2]) != checksum {
        return Err(Broken::Footer);
    }
    read_value(body)
        .ok_or_else(|| body.first().and_then(|kind| absent_type(*kind)).map_or(Broken::Value, Broken::Absent))
}

/// The type of a value that Redis has and that is not here.
fn absent_type(kind: u8) -> Option<&'static str> {
    match kind {
        1 | 10 | 14 | 18 => Some("list"),
        2 | 11 | 20 => Some("set"),
        4 | 9 | 13 | 16 => Some("hash"),
        15 | 19 | 21 => Some("stream"),
        6 | 7 => Some("module's value"),
        _ => None,
    }
}

fn read_value(body: &[u8]) -> Option<Value> {
    let mut input = Input { bytes: body };
    let members = match input.byte()? {
        STRING => return Some(Value::String(input.string()?)),
        SORTED_SET => read_members(&mut input, |input| input.text_score())?,
        SORTED_SET_BINARY => read_members(&mut input, |input| Some(f64::from_le_bytes(input.array()?)))?,
        SORTED_SET_ZIPLIST => pair_up(read_ziplist(&input.string()?)?)?,
        SORTED_SET_LISTPACK => pair_up(read_listpack(&input.string()?)?)?,
        _ => return None,
    };
    let mut names: Vec<&[u8]> = members.iter().map(|(member, _)| &**member).collect();
    names.sort_unstable();
    let is_whole = !members.is_empty()
        && names.windows(2).all(|pair| pair[0] != pair[1])
        && members.iter().all(|(_, score)| !score.is_nan());
    is_whole.then_some(Value::SortedSet(members))
}

fn read_members(input: &mut Input<'_>, read_score: fn(&mut Input<'_>) -> Option<f64>) -> Option<Vec<(Vec<u8>, f64)>> {
    let rows = input.length()?;
    let mut members = Vec::new();
    for _ in 0..rows {
        members.push((input.string()?, read_score(input)?));
    }
    Some(members)
}

/// An element of a packed list.
enum Packed<'b> {
    Text(&'b [u8]),
    Integer(i64),
}

/// Members and scores that follow one another.
fn pair_up(elements: Vec<Packed<'_>>) -> Option<Vec<(Vec<u8>, f64)>> {
    let pairs = elements.chunks(2).map(|pair| {
        let [member, score] = pair else { return None };
        let member = match member {
            Packed::Text(text) => text.to_vec(),
            Packed::Integer(number) => number.to_string().into_bytes(),
        };
        let score = match score {
            Packed::Text(text) => parse_f64(text)?,
            Packed::Integer(number) => *number as f64,
        };
        Some((member, score))
    });
    pairs.collect()
}

/// The elements of a listpack: total bytes (4), elements (2), then each with its length after it, so that it can be
/// read backwards.
fn read_listpack(bytes: &[u8]) -> Option<Vec<Packed<'_>>> {
    let mut input = Input { bytes };
    if u32::from_le_bytes(input.array()?) as usize != bytes.len() {
        return None;
    }
    input.take(2)?;
    let mut elements = Vec::new();
    loop {
        let before = input.bytes.len();
        let first = input.byte()?;
        let element = match first {
            0xFF => break,
            0x00..=0x7F => Packed::Integer(i64::from(first)),
            0x80..=0xBF => Packed::Text(input.take(usize::from(first & 0x3F))?),
            0xC0..=0xDF => {
                let number = i16::from(first & 0x1F) << 8 | i16::from(input.byte()?);
                // Thirteen bits with a sign.
                Packed::Integer(i64::from(number << 3 >> 3))
            }
            0xE0..=0xEF => {
                let len = usize::from(first & 0x0F) << 8 | usize::from(input.byte()?);
                Packed::Text(input.take(len)?)
            }
            0xF0 => {
                let len = u32::from_le_bytes(input.array()?) as usize;
                Packed::Text(input.take(len)?)
            }
            0xF1 => Packed::Integer(input.small_integer(2)?),
            0xF2 => Packed::Integer(input.small_integer(3)?),
            0xF3 => Packed::Integer(input.small_integer(4)?),
            0xF4 => Packed::Integer(input.small_integer(8)?),
            0xF5..=0xFE => return None,
        };
        elements.push(element);
        let len = before - input.bytes.len();
        input.take(match len {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        })?;
    }
    input.bytes.is_empty().then_some(elements)
}

/// The elements of a ziplist: total bytes (4), place of the last (4), elements (2), then each after the length of the
/// one before it.
fn read_ziplist(bytes: &[u8]) -> Option<Vec<Packed<'_>>> {
    let mut input = Input { bytes };
    if u32::from_le_bytes(input.array()?) as usize != bytes.len() {
        return None;
    }
    input.take(6)?;
    let mut elements = Vec::new();
    loop {
        match input.byte()? {
            0xFF => break,
            0xFE => input.take(4).map(|_| ())?,
            _ => {}
        }
        let first = input.byte()?;
        elements.push(match first {
            0x00..=0x3F => Packed::Text(input.take(usize::from(first))?),
            0x40..=0x7F => {
                let len = usize::from(first & 0x3F) << 8 | usize::from(input.byte()?);
                Packed::Text(input.take(len)?)
            }
            0x80 => {
                let len = u32::from_be_bytes(input.array()?) as usize;
                Packed::Text(input.take(len)?)
            }
            0xC0 => Packed::Integer(input.small_integer(2)?),
            0xD0 => Packed::Integer(input.small_integer(4)?),
            0xE0 => Packed::Integer(input.small_integer(8)?),
            0xF0 => Packed::Integer(input.small_integer(3)?),
            0xFE => Packed::Integer(input.small_integer(1)?),
            0xF1..=0xFD => Packed::Integer(i64::from(first) - 0xF1),
            _ => return None,
        });
    }
    input.bytes.is_empty().then_some(elements)
}

/// What is left to read.
struct Input<'b> {
    bytes: &'b [u8],
}

impl<'b> Input<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    /// A little-endian integer of up to eight bytes with a sign.
    fn small_integer(&mut self, len: usize) -> Option<i64> {
        let taken = self.take(len)?;
        let mut bytes = [if taken.last()? & 0x80 == 0 { 0 } else { 0xFF }; 8];
        bytes[..len].copy_from_slice(taken);
        Some(i64::from_le_bytes(bytes))
    }

    /// A length.
    fn length(&mut self) -> Option<u64> {
        let first = self.byte()?;
        match first {
            0x00..=0x3F => Some(u64::from(first)),
            0x40..=0x7F => Some(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            0x80 => Some(u64::from(u32::from_be_bytes(self.array()?))),
            0x81 => Some(u64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let packed = match self.bytes.first()? {
            0xC0 => Some(1),
            0xC1 => Some(2),
            0xC2 => Some(4),
            0xC3 => None,
            _ => {
                let len = usize::try_from(self.length()?).ok()?;
                return self.take(len).map(<[u8]>::to_vec);
            }
        };
        self.byte()?;
        if let Some(len) = packed {
            return Some(self.small_integer(len)?.to_string().into_bytes());
        }
        let packed_len = usize::try_from(self.length()?).ok()?;
        let len = usize::try_from(self.length()?).ok()?;
        unpack(self.take(packed_len)?, len)
    }

    /// A score as text after its length, three lengths standing for what is no number.
    fn text_score(&mut self) -> Option<f64> {
        match self.byte()? {
            0xFF => Some(f64::NEG_INFINITY),
            0xFE => Some(f64::INFINITY),
            0xFD => None,
            len => parse_f64(self.take(usize::from(len))?),
        }
    }
}

/// Unpacks what LZF has packed: pieces of plain bytes, and references to what was unpacked before.
fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // No reference is for more than 264 bytes, and it takes two.
    if len > STRING_BYTES_MAX || len / 132 > packed.len() {
        return None;
    }
    let mut input = Input { bytes: packed };
    let mut out = Vec::with_capacity(len);
    while !input.bytes.is_empty() {
        let control = usize::from(input.byte()?);
        if control < 32 {
            out.extend_from_slice(input.take(control + 1)?);
        } else {
            let mut repeated = control >> 5;
            if repeated == 7 {
                repeated += usize::from(input.byte()?);
            }
            let distance = ((control & 31) << 8 | usize::from(input.byte()?)) + 1;
            let start = out.len().checked_sub(distance)?;
            // It may reach into what it makes itself.
            for place in start..start + repeated + 2 {
                out.push(out[place]);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

fn write_length(out: &mut Vec<u8>, len: u64) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        0x4000..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8]) {
    // No integer of four bytes has more digits.
    let number = if bytes.len() <= 11 { parse_i64(bytes) } else { None };
    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        let (mark, len) = match number {
            -0x80..0x80 => (0xC0, 1),
            -0x8000..0x8000 => (0xC1, 2),
            _ => (0xC2, 4),
        };
        out.push(mark);
        out.extend_from_slice(&number.to_le_bytes()[..len]);
        return;
    }
    write_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The CRC that Redis uses: polynomial 0xAD93D23594C935A9 (Jones), bits reflected, nothing inverted.
fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95AC_9329_AC4B_C9B5;
    static TABLE: OnceLock<[u64; 256]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(byte as u64, |crc, _| if crc & 1 == 1 { crc >> 1 ^ REFLECTED } else { crc >> 1 })
        })
    });
    bytes.iter().fold(0, |crc, byte| table[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
#[path = "rdb_tests.rs"]
mod tests;
