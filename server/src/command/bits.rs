//! Bits of strings, the highest bit of the first byte first.
//!
//! Cost: a string is stored as one value, so changing a bit writes the string anew, where Redis changes it in place.
//! Not here: integers made of bits ([`super::bit_fields`]).

use super::string_ranges::{STRING_BYTES_MAX, change_string, part};
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, check_key, is_word, refusal};
use crate::keyspace::Change;
use crate::keyspace::value::{Entry, Form, Header, Kind};
use crate::resp::number::parse_i64;

const READ: Flags = Flags::READ;
const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("setbit", 4, WRITE, Group::Bitmap, setbit)
        .keys(1, 1, 1)
        .about("key offset value", "Sets a bit of a string, and answers what it was.", "2.2.0")
        .costs("O(log n + length)", "O(1)"),
    Spec::new("getbit", 3, READ.and(Flags::FAST), Group::Bitmap, getbit)
        .keys(1, 1, 1)
        .about("key offset", "A bit of a string.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("bitcount", -2, READ, Group::Bitmap, bitcount)
        .keys(1, 1, 1)
        .about("key [start end [BYTE | BIT]]", "How many bits of a string, or of a part of it, are set.", "2.6.0")
        .costs("O(log n + length)", "O(length)"),
    Spec::new("bitpos", -3, READ, Group::Bitmap, bitpos)
        .keys(1, 1, 1)
        .about(
            "key bit [start [end [BYTE | BIT]]]",
            "The position of the first bit of a string that is set, or of the first that is not.",
            "2.8.7",
        )
        .costs("O(log n + length)", "O(length)"),
    Spec::new("bitop", -4, WRITE, Group::Bitmap, bitop)
        .keys(2, -1, 1)
        .about(
            "AND | OR | XOR | NOT destkey key [key ...]",
            "Combines strings bit by bit, and puts what comes out at another key.",
            "2.6.0",
        )
        .costs("O(k (log n + length))", "O(k length)"),
];

const BAD_OFFSET: Refusal = refusal::text("ERR bit offset is not an integer or out of range");
const BAD_BIT: Refusal = refusal::text("ERR bit is not an integer or out of range");

/// A position of a bit; with `width`, `#3` is the fourth integer of that many bits.
pub(super) fn bit_offset(word: &[u8], width: Option<u32>) -> Result<u64, Refusal> {
    let (word, factor) = match (word, width) {
        ([b'#', rest @ ..], Some(width)) => (rest, i64::from(width)),
        _ => (word, 1),
    };
    let offset = parse_i64(word).and_then(|number| number.checked_mul(factor)).ok_or(BAD_OFFSET)?;
    u64::try_from(offset).ok().filter(|offset| offset / 8 < STRING_BYTES_MAX as u64).ok_or(BAD_OFFSET)
}

pub(super) fn bit_at(bytes: &[u8], offset: u64) -> u8 {
    bytes.get((offset / 8) as usize).map_or(0, |byte| byte >> (7 - offset % 8) & 1)
}

/// Writes a string with zeros behind it, up to the byte of this bit.
pub(super) fn grow(new: &mut Vec<u8>, old: &[u8], last_bit: u64) {
    let start = new.len();
    new.extend_from_slice(old);
    new.resize(start + old.len().max((last_bit / 8) as usize + 1), 0);
}

fn setbit(call: &mut Call<'_, '_>) -> Answer {
    let key = call.args[1];
    check_key(key)?;
    let offset = bit_offset(call.args[2], None)?;
    let bit = match parse_i64(call.args[3]) {
        Some(0) => 0,
        Some(1) => 1,
        _ => return Err(BAD_BIT),
    };
    let (reply, database) = (&mut *call.reply, call.session.database);
    let mut is_same = false;
    change_string(
        call.data,
        database,
        key,
        |_| Form::Changed,
        |old, new| {
            let bytes = old.unwrap_or_default();
            let before = bit_at(bytes, offset);
            reply.integer(i64::from(before));
            if before == bit && offset / 8 < bytes.len() as u64 {
                is_same = true;
                return Ok(Change::Keep);
            }
            let start = new.len();
            grow(new, bytes, offset);
            let mask = 0x80 >> (offset % 8);
            let byte = &mut new[start + (offset / 8) as usize];
            *byte = *byte & !mask | if bit == 1 { mask } else { 0 };
            Ok(Change::Put)
        },
    )?;
    if is_same {
        put_quietly(call, key, None)?;
    }
    Ok(())
}

/// Puts a string that was to be changed in place. Nobody who watches it is told: it is the same, or Redis does not tell either.
pub(super) fn put_quietly(call: &mut Call<'_, '_>, key: &[u8], body: Option<Vec<u8>>) -> Answer {
    call.data.put_quietly(call.session.database, key, |entry, new| {
        let header = entry.map_or(Header::string(None), |entry| entry.header);
        Header { form: Form::Changed, ..header }.encode(new);
        new.extend_from_slice(body.as_deref().or(entry.map(|entry| entry.body)).unwrap_or_default());
    })?;
    Ok(())
}

/// The string at the key that is the first argument. Counted as a hit or a miss.
pub(super) fn lookup<'a>(call: &'a Call<'_, '_>) -> Result<Option<&'a [u8]>, Refusal> {
    call.string(call.args[1])
}

fn getbit(call: &mut Call<'_, '_>) -> Answer {
    let offset = bit_offset(call.args[2], None)?;
    let bit = lookup(call)?.map_or(0, |bytes| bit_at(bytes, offset));
    call.reply.integer(i64::from(bit));
    Ok(())
}

/// Whether positions are those of bits.
fn unit_is_bit(word: &[u8]) -> Result<bool, Refusal> {
    if is_word(word, "bit") {
        Ok(true)
    } else if is_word(word, "byte") {
        Ok(false)
    } else {
        Err(refusal::SYNTAX)
    }
}

/// The first bit and the last of a part of a string of `length` bytes.
fn bits_of(start: i64, end: i64, length: usize, is_bit: bool) -> Option<(u64, u64)> {
    let length = length as u64;
    if is_bit {
        part(start, end, length * 8)
    } else {
        part(start, end, length).map(|(start, end)| (start * 8, end * 8 + 7))
    }
}

/// Bytes that are looked through in the time of one row of a long answer.
const BYTES_A_ROW: u64 = 500;

fn bitcount(call: &mut Call<'_, '_>) -> Answer {
    let count = match lookup(call)? {
        None => 0,
        Some(bytes) => {
            let part = match call.args.len() {
                2 => bits_of(0, -1, bytes.len(), false),
                4 | 5 => {
                    let (start, end) = (call.integer(2)?, call.integer(3)?);
                    // What is surely empty is not looked at further.
                    if start < 0 && end < 0 && start > end {
                        None
                    } else {
                        let is_bit = call.args.get(4).map_or(Ok(false), |word| unit_is_bit(word))?;
                        bits_of(start, end, bytes.len(), is_bit)
                    }
                }
                _ => return Err(refusal::SYNTAX),
            };
            part.map_or(Ok(0), |(first, last)| {
                call.expect_rows((last - first) / 8 / BYTES_A_ROW)?;
                Ok::<_, Refusal>(count_bits(bytes, first, last))
            })?
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// The bits of a byte, the `index`-th, that lie from one position through another.
fn mask_of(index: usize, first: u64, last: u64) -> u8 {
    let start = first.saturating_sub(index as u64 * 8).min(8) as u32;
    let behind = (index as u64 * 8 + 7).saturating_sub(last).min(8) as u32;
    (0xFFu32 >> start & 0xFFu32 << behind) as u8
}

fn count_bits(bytes: &[u8], first: u64, last: u64) -> u64 {
    let (low, high) = ((first / 8) as usize, (last / 8) as usize);
    let edge = |index: usize| u64::from((bytes[index] & mask_of(index, first, last)).count_ones());
    if low == high {
        return edge(low);
    }
    let (words, rest) = bytes[low + 1..high].as_chunks::<8>();
    let inside: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    let inside = inside + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    edge(low) + inside + edge(high)
}

/// The first position from `first` through `last` that has the bit.
fn find_bit(bytes: &[u8], bit: u8, first: u64, last: u64) -> Option<u64> {
    let (low, high) = ((first / 8) as usize, (last / 8) as usize);
    let flip = if bit == 1 { 0 } else { 0xFF };
    let within = |index: usize| {
        let byte = (bytes[index] ^ flip) & mask_of(index, first, last);
        (byte != 0).then(|| index as u64 * 8 + u64::from(byte.leading_zeros()))
    };
    if let Some(found) = within(low) {
        return Some(found);
    }
    // Eight bytes at a time, as far as none of them has it.
    let mut index = low + 1;
    let nothing = [flip; 8];
    while index + 8 <= high && bytes[index..index + 8] == nothing {
        index += 8;
    }
    (index..=high).find_map(within)
}

fn bitpos(call: &mut Call<'_, '_>) -> Answer {
    let bit = match call.integer(2)? {
        0 => 0,
        1 => 1,
        _ => return Err(refusal::text("ERR The bit argument must be 1 or 0.")),
    };
    let position = match lookup(call)? {
        // A string without end, of zeros.
        None => -i64::from(bit),
        Some(bytes) => {
            let mut is_bit = false;
            let (mut start, mut end) = (0, -1);
            if call.args.len() > 6 {
                return Err(refusal::SYNTAX);
            }
            if call.args.len() > 3 {
                start = call.integer(3)?;
            }
            if let Some(unit) = call.args.get(5) {
                is_bit = unit_is_bit(unit)?;
            }
            if call.args.len() > 4 {
                end = call.integer(4)?;
            }
            match position_part(start, end, bytes.len(), is_bit) {
                None => -1,
                Some((first, last)) => {
                    call.expect_rows((last - first) / 8 / BYTES_A_ROW)?;
                    match find_bit(bytes, bit, first, last) {
                        Some(position) => position as i64,
                        // Without an end, zeros follow the string.
                        None if bit == 0 && call.args.len() <= 4 => bytes.len() as i64 * 8,
                        None => -1,
                    }
                }
            }
        }
    };
    call.reply.integer(position);
    Ok(())
}

/// [`bits_of`] as `BITPOS` has it: positions from the end that are out of order are those of the first.
fn position_part(start: i64, end: i64, length: usize, is_bit: bool) -> Option<(u64, u64)> {
    let positions = length as i64 * if is_bit { 8 } else { 1 };
    let from_start = |position: i64| if position < 0 { (positions + position).max(0) } else { position };
    bits_of(from_start(start), from_start(end), length, is_bit)
}

fn bitop(call: &mut Call<'_, '_>) -> Answer {
    let operation = call.args[1];
    let combine: fn(u8, u8) -> u8 = if is_word(operation, "and") {
        |one, other| one & other
    } else if is_word(operation, "or") {
        |one, other| one | other
    } else if is_word(operation, "xor") {
        |one, other| one ^ other
    } else if is_word(operation, "not") {
        |one, _| !one
    } else {
        return Err(refusal::SYNTAX);
    };
    let (target, sources) = (call.args[2], &call.args[3..]);
    check_key(target)?;
    if is_word(operation, "not") && sources.len() != 1 {
        return Err(refusal::text("ERR BITOP NOT must be called with a single source key."));
    }
    let database = call.session.database;
    let mut strings = Vec::with_capacity(sources.len());
    for key in sources {
        strings.push(match call.data.entry(database, key)? {
            None => &[][..],
            Some(Entry { header: Header { kind: Kind::String, .. }, body }) => body,
            Some(_) => return Err(refusal::WRONG_TYPE),
        });
    }
    let length = strings.iter().map(|string| string.len()).max().unwrap_or(0);
    let mut result = strings[0].to_vec();
    result.resize(length, 0);
    if is_word(operation, "not") {
        result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    for string in &strings[1..] {
        let (both, alone) = result.split_at_mut(string.len());
        both.iter_mut().zip(*string).for_each(|(byte, other)| *byte = combine(*byte, *other));
        alone.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    if result.is_empty() {
        call.data.remove(database, target)?;
    } else {
        call.data.put_entry(database, target, Header { form: Form::Changed, ..Header::string(None) }, &result)?;
    }
    call.reply.integer(length as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{count_bits, find_bit};

    #[test]
    fn bits_are_counted_and_found_as_one_by_one() {
        let bytes: Vec<u8> = (0..40u8).map(|number| if number < 30 { 0 } else { number.wrapping_mul(37) }).collect();
        let bit_at = |place: u64| bytes[(place / 8) as usize] >> (7 - place % 8) & 1;
        for first in 0..320 {
            for last in first..320 {
                let count = (first..=last).filter(|place| bit_at(*place) == 1).count() as u64;
                assert_eq!(count_bits(&bytes, first, last), count, "{first} {last}");
                for bit in [0, 1] {
                    let found = (first..=last).find(|place| bit_at(*place) == bit);
                    assert_eq!(find_bit(&bytes, bit, first, last), found, "{bit} {first} {last}");
                }
            }
        }
    }
}
