//! Bits of strings, the highest bit of the first byte first.
//!
//! Cost: a string is stored as one value, so changing a bit writes the string anew, where Redis changes it in place.

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
    Spec::new("bitfield", -2, WRITE, Group::Bitmap, bitfield)
        .keys(1, 1, 1)
        .about(
            "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | INCRBY encoding offset increment ...]",
            "Reads and writes integers of any width within a string.",
            "3.2.0",
        )
        .costs("O(log n + length)", "O(1) for each integer"),
    Spec::new("bitfield_ro", -2, READ.and(Flags::FAST), Group::Bitmap, bitfield_ro)
        .keys(1, 1, 1)
        .about("key [GET encoding offset ...]", "Reads integers of any width within a string.", "6.0.0")
        .costs("O(log n)", "O(1) for each integer"),
];

const BAD_OFFSET: Refusal = refusal::text("ERR bit offset is not an integer or out of range");
const BAD_BIT: Refusal = refusal::text("ERR bit is not an integer or out of range");

/// A position of a bit; with `width`, `#3` is the fourth integer of that many bits.
fn bit_offset(word: &[u8], width: Option<u32>) -> Result<u64, Refusal> {
    let (word, factor) = match (word, width) {
        ([b'#', rest @ ..], Some(width)) => (rest, i64::from(width)),
        _ => (word, 1),
    };
    let offset = parse_i64(word).and_then(|number| number.checked_mul(factor)).ok_or(BAD_OFFSET)?;
    u64::try_from(offset).ok().filter(|offset| offset / 8 < STRING_BYTES_MAX as u64).ok_or(BAD_OFFSET)
}

fn bit_at(bytes: &[u8], offset: u64) -> u8 {
    bytes.get((offset / 8) as usize).map_or(0, |byte| byte >> (7 - offset % 8) & 1)
}

/// Writes a string with zeros behind it, up to the byte of this bit.
fn grow(new: &mut Vec<u8>, old: &[u8], last_bit: u64) {
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
        note_raw(call, key)?;
    }
    Ok(())
}

/// Notes that a string was to be changed in place, though it stayed the same: `OBJECT ENCODING` tells, and nobody else.
fn note_raw(call: &mut Call<'_, '_>, key: &[u8]) -> Answer {
    call.data.restate(call.session.database, key, |header| Header { form: Form::Changed, ..header })?;
    Ok(())
}

/// What stands at the key that is the first argument. Counted as a hit or a miss.
fn lookup<'a>(call: &'a Call<'_, '_>) -> Result<Option<&'a [u8]>, Refusal> {
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
        call.data.put_string(database, target, Header { form: Form::Changed, ..Header::string(None) }, &result)?;
    }
    call.reply.integer(length as i64);
    Ok(())
}

/// The kind of an integer within a string.
#[derive(Clone, Copy)]
struct Encoding {
    is_signed: bool,
    width: u32,
}

impl Encoding {
    fn read(word: &[u8]) -> Result<Encoding, Refusal> {
        const BAD: Refusal = refusal::text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (is_signed, width) = match word {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => return Err(BAD),
        };
        let most = if is_signed { 64 } else { 63 };
        match parse_i64(width) {
            Some(width) if (1..=most).contains(&width) => Ok(Encoding { is_signed, width: width as u32 }),
            _ => Err(BAD),
        }
    }

    fn least(self) -> i128 {
        if self.is_signed { -(1 << (self.width - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        if self.is_signed { (1 << (self.width - 1)) - 1 } else { (1 << self.width) - 1 }
    }

    /// The number that its lowest bits are.
    fn wrap(self, number: i128) -> i128 {
        let bits = number & ((1 << self.width) - 1);
        if bits > self.most() { bits - (1 << self.width) } else { bits }
    }

    fn get(self, bytes: &[u8], offset: u64) -> i128 {
        let bits = (0..u64::from(self.width)).fold(0, |bits, bit| bits << 1 | i128::from(bit_at(bytes, offset + bit)));
        self.wrap(bits)
    }

    fn set(self, bytes: &mut [u8], offset: u64, number: i128) {
        for bit in 0..self.width {
            let place = offset + u64::from(bit);
            let mask = 0x80 >> (place % 8);
            let byte = &mut bytes[(place / 8) as usize];
            let is_set = number >> (self.width - 1 - bit) & 1 == 1;
            *byte = *byte & !mask | if is_set { mask } else { 0 };
        }
    }
}

/// What becomes of a number that its encoding cannot hold.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    /// The number that is written; none if it cannot be held.
    fn settle(self, encoding: Encoding, number: i128, is_set: bool) -> Option<i128> {
        if (encoding.least()..=encoding.most()).contains(&number) {
            return Some(number);
        }
        // As Redis has it: a number so low that its distance from the highest overflows counts as too high.
        if is_set && matches!(self, Overflow::Saturate) && encoding.most() - number > i128::from(i64::MAX) {
            return Some(encoding.most());
        }
        match self {
            Overflow::Wrap => Some(encoding.wrap(number)),
            Overflow::Saturate => Some(number.clamp(encoding.least(), encoding.most())),
            Overflow::Fail => None,
        }
    }
}

enum Deed {
    Get,
    Set(i64),
    Add(i64),
}

/// One integer to read or write.
struct Operation {
    deed: Deed,
    encoding: Encoding,
    offset: u64,
    overflow: Overflow,
}

/// The operations that a command names.
fn operations(call: &Call<'_, '_>) -> Result<Vec<Operation>, Refusal> {
    let (mut operations, mut overflow, mut place) = (Vec::new(), Overflow::Wrap, 2);
    while let Some(&word) = call.args.get(place) {
        let left = call.args.len() - place - 1;
        let words = if is_word(word, "get") && left >= 2 {
            2
        } else if (is_word(word, "set") || is_word(word, "incrby")) && left >= 3 {
            3
        } else if is_word(word, "overflow") && left >= 1 {
            let kind = call.args[place + 1];
            overflow = if is_word(kind, "wrap") {
                Overflow::Wrap
            } else if is_word(kind, "sat") {
                Overflow::Saturate
            } else if is_word(kind, "fail") {
                Overflow::Fail
            } else {
                return Err(refusal::text("ERR Invalid OVERFLOW type specified"));
            };
            place += 2;
            continue;
        } else {
            return Err(refusal::SYNTAX);
        };
        let encoding = Encoding::read(call.args[place + 1])?;
        let offset = bit_offset(call.args[place + 2], Some(encoding.width))?;
        let deed = match words {
            2 => Deed::Get,
            _ if is_word(word, "set") => Deed::Set(call.integer(place + 3)?),
            _ => Deed::Add(call.integer(place + 3)?),
        };
        operations.push(Operation { deed, encoding, offset, overflow });
        place += 1 + words;
    }
    Ok(operations)
}

fn bitfield_ro(call: &mut Call<'_, '_>) -> Answer {
    let operations = operations(call)?;
    read_fields(call, &operations)
}

/// Answers operations that read.
fn read_fields(call: &mut Call<'_, '_>, operations: &[Operation]) -> Answer {
    let writes = operations.iter().any(|operation| !matches!(operation.deed, Deed::Get));
    if writes {
        return Err(refusal::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let numbers: Vec<i128> = {
        let bytes = lookup(call)?.unwrap_or_default();
        operations.iter().map(|operation| operation.encoding.get(bytes, operation.offset)).collect()
    };
    call.reply.array(numbers.len());
    numbers.into_iter().for_each(|number| call.reply.integer(number as i64));
    Ok(())
}

fn bitfield(call: &mut Call<'_, '_>) -> Answer {
    let key = call.args[1];
    check_key(key)?;
    let operations = operations(call)?;
    let last_written = operations
        .iter()
        .filter(|operation| !matches!(operation.deed, Deed::Get))
        .map(|operation| operation.offset + u64::from(operation.encoding.width) - 1)
        .max();
    let Some(last_written) = last_written else { return read_fields(call, &operations) };
    let (reply, database) = (&mut *call.reply, call.session.database);
    let mut is_same = false;
    change_string(
        call.data,
        database,
        key,
        |_| Form::Changed,
        |old, new| {
            let old = old.unwrap_or_default();
            let start = new.len();
            grow(new, old, last_written);
            reply.array(operations.len());
            for Operation { deed, encoding, offset, overflow } in &operations {
                let bytes = &mut new[start..];
                let before = encoding.get(bytes, *offset);
                let (wanted, is_set) = match deed {
                    Deed::Get => {
                        reply.integer(before as i64);
                        continue;
                    }
                    // What is below zero is past the highest for an unsigned integer.
                    Deed::Set(number) if !encoding.is_signed => (i128::from(*number as u64), true),
                    Deed::Set(number) => (i128::from(*number), true),
                    Deed::Add(increment) => (before + i128::from(*increment), false),
                };
                match overflow.settle(*encoding, wanted, is_set) {
                    Some(number) => {
                        encoding.set(bytes, *offset, number);
                        reply.integer(if is_set { before } else { number } as i64);
                    }
                    None => reply.null(),
                }
            }
            is_same = &new[start..] == old;
            Ok(if is_same { Change::Keep } else { Change::Put })
        },
    )?;
    if is_same {
        note_raw(call, key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Encoding, count_bits, find_bit};

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

    #[test]
    fn integers_of_every_width_come_back() {
        for width in 1..=64 {
            for is_signed in [false, true] {
                if width == 64 && !is_signed {
                    continue;
                }
                let encoding = Encoding { is_signed, width };
                for number in [encoding.least(), encoding.most(), encoding.wrap(0x5A5A_1234_5678_9ABC)] {
                    for offset in 0..9 {
                        let mut bytes = [0xA5; 12];
                        encoding.set(&mut bytes, offset, number);
                        assert_eq!(encoding.get(&bytes, offset), number, "{width} {offset}");
                        for place in (0..offset).chain(offset + u64::from(width)..96) {
                            assert_eq!(super::bit_at(&bytes, place), super::bit_at(&[0xA5; 12], place));
                        }
                    }
                }
            }
        }
    }
}
