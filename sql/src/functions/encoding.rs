//! Bytes as texts, and numbers as digits of other bases.

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, bytes, int, text};
use crate::types::datum::Datum;
use crate::types::refusal::zero_in_text;
use crate::types::text::{parse_bytea, parse_hex, write_hex};
use crate::types::text_encoding::TextEncoding;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The digest of bytes, as hexadecimal digits.
fn md5(bytes: &[u8]) -> Datum {
    let mut digits = String::new();
    write_hex(&Md5::digest(bytes), &mut digits);
    Datum::text(digits)
}

fn digest<D: Digest>(bytes: &[u8]) -> Datum {
    Datum::Bytes(D::digest(bytes).to_vec().into())
}

/// The place of an index among so many.
fn place(index: i64, count: usize) -> Result<usize> {
    let at = usize::try_from(index).ok().filter(|at| *at < count);
    let last = count as i64 - 1;
    at.ok_or_else(|| {
        let what = format!("index {index} out of valid range, 0..{last}");
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, what)
    })
}

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("md5(text) text", |_, v| Ok(md5(text(v, 0)?.as_bytes())));
    definitions.add("md5(bytea) text", |_, v| Ok(md5(bytes(v, 0)?)));
    definitions.add("sha224(bytea) bytea", |_, v| Ok(digest::<Sha224>(bytes(v, 0)?)));
    definitions.add("sha256(bytea) bytea", |_, v| Ok(digest::<Sha256>(bytes(v, 0)?)));
    definitions.add("sha384(bytea) bytea", |_, v| Ok(digest::<Sha384>(bytes(v, 0)?)));
    definitions.add("sha512(bytea) bytea", |_, v| Ok(digest::<Sha512>(bytes(v, 0)?)));
    definitions.add("bit_count(bytea) int8", |_, v| {
        Ok(Datum::Int(bytes(v, 0)?.iter().map(|byte| i64::from(byte.count_ones())).sum()))
    });
    definitions.add("set_byte(bytea,int4,int4) bytea", |_, v| {
        let mut changed = bytes(v, 0)?.to_vec();
        let at = place(int(v, 1)?, changed.len())?;
        changed[at] = (int(v, 2)? & 0xff) as u8;
        Ok(Datum::Bytes(changed.into()))
    });
    definitions.add("get_bit(bytea,int8) int4", |_, v| {
        let (bytes, index) = (bytes(v, 0)?, int(v, 1)?);
        let at = place(index, bytes.len() * 8)?;
        Ok(Datum::Int((bytes[at / 8] >> (at % 8) & 1).into()))
    });
    definitions.add("set_bit(bytea,int8,int4) bytea", |_, v| {
        let mut changed = bytes(v, 0)?.to_vec();
        let at = place(int(v, 1)?, changed.len() * 8)?;
        match int(v, 2)? {
            0 => changed[at / 8] &= !(1 << (at % 8)),
            1 => changed[at / 8] |= 1 << (at % 8),
            _ => return Err(invalid("new bit must be 0 or 1")),
        }
        Ok(Datum::Bytes(changed.into()))
    });
    definitions.add("encode(bytea,text) text", |_, v| {
        let bytes = bytes(v, 0)?;
        let mut result = String::new();
        match text(v, 1)?.to_ascii_lowercase().as_str() {
            "hex" => write_hex(bytes, &mut result),
            "base64" => write_base64(bytes, &mut result),
            "escape" => write_escaped(bytes, &mut result),
            name => return Err(invalid(format!("unrecognized encoding: \"{name}\""))),
        }
        Ok(Datum::text(result))
    });
    definitions.add("decode(text,text) bytea", |_, v| {
        let written = text(v, 0)?;
        let bytes = match text(v, 1)?.to_ascii_lowercase().as_str() {
            "hex" => parse_hex(written)?,
            "base64" => parse_base64(written)?,
            "escape" => parse_bytea(written)?,
            name => return Err(invalid(format!("unrecognized encoding: \"{name}\""))),
        };
        Ok(Datum::Bytes(bytes.into()))
    });
    definitions.add("to_hex(int4) text", |_, v| Ok(Datum::text(format!("{:x}", int(v, 0)? as i32))));
    definitions.add("to_hex(int8) text", |_, v| Ok(Datum::text(format!("{:x}", int(v, 0)?))));
    definitions.add("get_byte(bytea,int4) int4", |_, v| {
        let bytes = bytes(v, 0)?;
        Ok(Datum::Int(bytes[place(int(v, 1)?, bytes.len())?].into()))
    });
    definitions.add("hashtext(text) int4", |_, v| Ok(Datum::Int((hash_of(text(v, 0)?.as_bytes()) as i32).into())));
    definitions.add("convert_from(bytea,name) text", |_, v| {
        let written = encoding_named(text(v, 1)?, "source")?.decode(bytes(v, 0)?)?;
        if written.contains('\0') {
            return Err(zero_in_text());
        }
        Ok(Datum::text(written))
    });
    definitions.add("convert_to(text,name) bytea", |_, v| {
        let encoded = encoding_named(text(v, 1)?, "destination")?.encode(text(v, 0)?)?;
        Ok(Datum::Bytes((&*encoded).into()))
    });
    definitions.add("convert(bytea,name,name) bytea", |_, v| {
        let (source, target) = (encoding_named(text(v, 1)?, "source")?, encoding_named(text(v, 2)?, "destination")?);
        let encoded = target.encode(&source.decode(bytes(v, 0)?)?)?.into_owned();
        Ok(Datum::Bytes(encoded.into()))
    });
    definitions.add("length(bytea,name) int4", |_, v| {
        let written = encoding_named(text(v, 1)?, "source")?.decode(bytes(v, 0)?)?;
        Ok(Datum::Int(written.chars().count() as i64))
    });
}

/// The hash of PostgreSQL's hash indexes: Bob Jenkins's `lookup3` of 2006, with a seed of its own.
fn hash_of(bytes: &[u8]) -> u32 {
    let start = 0x9e37_79b9_u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |part: &[u8]| part.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    let (whole, rest) = bytes.as_chunks::<12>();
    for part in whole {
        a = a.wrapping_add(word(&part[..4]));
        b = b.wrapping_add(word(&part[4..8]));
        c = c.wrapping_add(word(&part[8..]));
        for turns in [[4, 6, 8], [16, 19, 4]] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turns[0]);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(turns[1]);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(turns[2]);
            b = b.wrapping_add(a);
        }
    }
    a = a.wrapping_add(word(&rest[..rest.len().min(4)]));
    b = b.wrapping_add(word(rest.get(4..rest.len().min(8)).unwrap_or_default()));
    // The lowest byte of the third word is left to the length.
    c = c.wrapping_add(word(rest.get(8..).unwrap_or_default()) << 8);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// The encoding of a name; errors say what it was to be.
fn encoding_named(name: &str, part: &str) -> Result<TextEncoding> {
    TextEncoding::of_name(name).ok_or_else(|| invalid(format!("invalid {part} encoding name \"{name}\"")))
}

/// Appends base 64 in lines of 76 characters.
fn write_base64(bytes: &[u8], out: &mut String) {
    for (line, chunk) in bytes.chunks(57).enumerate() {
        if line > 0 {
            out.push('\n');
        }
        for three in chunk.chunks(3) {
            let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
            let group = at(0) << 16 | at(1) << 8 | at(2);
            for index in 0..4 {
                let digit = ALPHABET[(group >> (18 - 6 * index) & 63) as usize];
                out.push(if index <= three.len() { digit.into() } else { '=' });
            }
        }
    }
}

fn parse_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut group, mut count, mut padding) = (0u32, 0, 0);
    for c in text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let digit = match ALPHABET.iter().position(|known| char::from(*known) == c) {
            Some(digit) if padding == 0 => digit as u32,
            None if c == '=' && count >= 2 => {
                padding += 1;
                0
            }
            None if c == '=' => return Err(invalid("unexpected \"=\" while decoding base64 sequence")),
            _ => return Err(invalid(format!("invalid symbol \"{c}\" found while decoding base64 sequence"))),
        };
        group = group << 6 | digit;
        count += 1;
        if count == 4 {
            bytes.extend(&group.to_be_bytes()[1..4 - padding]);
            (group, count) = (0, 0);
        }
    }
    if count != 0 {
        return Err(invalid("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(bytes)
}

fn write_escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0 | 128.. => {
                out.push('\\');
                [6, 3, 0].iter().for_each(|shift| out.push(char::from(b'0' + (byte >> shift & 7))));
            }
            byte => out.push((*byte).into()),
        }
    }
}
