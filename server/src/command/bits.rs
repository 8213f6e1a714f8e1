//! Reads, writes and counts bits of strings. The highest bit of a byte is the first.
//!
//! Cost: a change of a bit rewrites a string of up to 64 KiB, and one piece of a longer string.
//! Not here: integers made of bits ([`super::bit_fields`]), strings combined ([`super::bit_operations`]).

use super::call::string_or_empty;
use super::string_ranges::{STRING_BYTES_MAX, part};
use super::{Call, CommandResult, Handler, Refusal, check_key, is_word, refusal};
use crate::keyspace::StoredString;
use crate::keyspace::value::Form;
use crate::resp::number::parse_i64;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("setbit", setbit),
    Handler::new("getbit", getbit),
    Handler::new("bitcount", bitcount),
    Handler::new("bitpos", bitpos),
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

fn setbit(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.args[1];
    check_key(key)?;
    let offset = bit_offset(call.args[2], None)?;
    let bit = match parse_i64(call.args[3]) {
        Some(0) => 0,
        Some(1) => 1,
        _ => return Err(BAD_BIT),
    };
    let (place, mask) = (offset / 8, 0x80 >> (offset % 8));
    let (length, byte) = {
        let string = string_or_empty(call.data, call.session.database, key)?;
        (string.len(), string.byte(place)?)
    };
    let before = u8::from(byte & mask != 0);
    let byte = byte & !mask | if bit == 1 { mask } else { 0 };
    // Watchers are not told of a string that stays the same.
    let is_same = before == bit && place < length;
    call.data.overlay(call.session.database, key, place, &[byte], Form::Changed, is_same)?;
    call.reply.integer(i64::from(before));
    Ok(())
}

fn getbit(call: &mut Call<'_, '_>) -> CommandResult {
    let offset = bit_offset(call.args[2], None)?;
    let byte = call.string(call.args[1])?.map_or(Ok(0), |string| string.byte(offset / 8))?;
    call.reply.integer(i64::from(byte >> (7 - offset % 8) & 1));
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
fn bits_of(start: i64, end: i64, length: u64, is_bit: bool) -> Option<(u64, u64)> {
    if is_bit {
        part(start, end, length * 8)
    } else {
        part(start, end, length).map(|(start, end)| (start * 8, end * 8 + 7))
    }
}

/// Bytes that are looked through in the time of one row of a long answer.
const BYTES_A_ROW: u64 = 500;

fn bitcount(call: &mut Call<'_, '_>) -> CommandResult {
    let count = match call.string(call.args[1])? {
        None => 0,
        Some(string) => {
            let part = match call.args.len() {
                2 => bits_of(0, -1, string.len(), false),
                4 | 5 => {
                    let (start, end) = (call.integer(2)?, call.integer(3)?);
                    // What is surely empty is not looked at further.
                    if start < 0 && end < 0 && start > end {
                        None
                    } else {
                        let is_bit = call.args.get(4).map_or(Ok(false), |word| unit_is_bit(word))?;
                        bits_of(start, end, string.len(), is_bit)
                    }
                }
                _ => return Err(refusal::SYNTAX),
            };
            let mut count = 0;
            if let Some((first, last)) = part {
                call.expect_rows((last - first) / 8 / BYTES_A_ROW)?;
                visit_bits(&string, first, last, |_, bytes, first, last| {
                    count += count_bits(bytes, first, last);
                    true
                })?;
            }
            count
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Calls `visit` with bytes of a string, the position of their first bit, and the first and the last of their bits that
/// lie from one position through another; in order, until it says false.
fn visit_bits(
    string: &StoredString<'_>,
    first: u64,
    last: u64,
    mut visit: impl FnMut(u64, &[u8], u64, u64) -> bool,
) -> Result<(), Refusal> {
    let mut base = first / 8 * 8;
    string.visit(first / 8, last / 8 + 1, |bytes| {
        let end = base + bytes.len() as u64 * 8;
        let goes_on = visit(base, bytes, first.max(base) - base, last.min(end - 1) - base);
        base = end;
        goes_on
    })?;
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

fn bitpos(call: &mut Call<'_, '_>) -> CommandResult {
    let bit = match call.integer(2)? {
        0 => 0,
        1 => 1,
        _ => return Err(refusal::text("ERR The bit argument must be 1 or 0.")),
    };
    let position = match call.string(call.args[1])? {
        // A string without end, of zeros.
        None => -i64::from(bit),
        Some(string) => {
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
            match position_part(start, end, string.len(), is_bit) {
                None => -1,
                Some((first, last)) => {
                    call.expect_rows((last - first) / 8 / BYTES_A_ROW)?;
                    let mut found = None;
                    visit_bits(&string, first, last, |base, bytes, first, last| {
                        found = find_bit(bytes, bit, first, last).map(|position| base + position);
                        found.is_none()
                    })?;
                    match found {
                        Some(position) => position as i64,
                        // Without an end, zeros follow the string.
                        None if bit == 0 && call.args.len() <= 4 => string.len() as i64 * 8,
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
fn position_part(start: i64, end: i64, length: u64, is_bit: bool) -> Option<(u64, u64)> {
    let positions = length as i64 * if is_bit { 8 } else { 1 };
    let from_start = |position: i64| if position < 0 { (positions + position).max(0) } else { position };
    bits_of(from_start(start), from_start(end), length, is_bit)
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
