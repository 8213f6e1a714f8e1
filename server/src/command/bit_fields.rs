//! `BITFIELD`: reads and writes integers of any width within strings.
//!
//! As in Redis, a string that was made longer for numbers of which none could be written stays longer, and clients that
//! watch it are not told.

use std::collections::BTreeMap;

use super::bits::{bit_at, bit_offset};
use super::call::string_or_empty;
use super::{Call, CommandResult, Handler, Refusal, check_key, is_word, refusal};
use crate::keyspace::StoredString;
use crate::keyspace::value::Form;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("bitfield", bitfield), Handler::new("bitfield_ro", bitfield_ro)];

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
    fn fit(self, encoding: Encoding, number: i128, is_set: bool) -> Option<i128> {
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

fn bitfield_ro(call: &mut Call<'_, '_>) -> CommandResult {
    let operations = operations(call)?;
    read_fields(call, &operations)
}

/// Answers operations that read.
fn read_fields(call: &mut Call<'_, '_>, operations: &[Operation]) -> CommandResult {
    let writes = operations.iter().any(|operation| !matches!(operation.deed, Deed::Get));
    if writes {
        return Err(refusal::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let numbers: Vec<i128> = {
        let string = call.string(call.args[1])?.unwrap_or(StoredString::Whole(b""));
        let mut numbers = Vec::with_capacity(operations.len());
        for Operation { encoding, offset, .. } in operations {
            let mut bytes = Vec::with_capacity(FIELD_BYTES_MAX as usize);
            string.copy(offset / 8, offset / 8 + FIELD_BYTES_MAX, &mut bytes)?;
            numbers.push(encoding.get(&bytes, offset % 8));
        }
        numbers
    };
    call.reply.array(numbers.len());
    numbers.into_iter().for_each(|number| call.reply.integer(number as i64));
    Ok(())
}

fn bitfield(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.args[1];
    check_key(key)?;
    let operations = operations(call)?;
    let last_written = operations
        .iter()
        .filter(|operation| !matches!(operation.deed, Deed::Get))
        .map(|operation| operation.offset + u64::from(operation.encoding.width) - 1)
        .max();
    let Some(last_written) = last_written else { return read_fields(call, &operations) };
    let database = call.session.database;
    let (length, mut fields) = {
        let string = string_or_empty(call.data, database, key)?;
        (string.len(), Fields::read(&string, &operations)?)
    };
    let has_grown = last_written / 8 >= length;
    let is_changed = write_fields(&operations, &mut fields, has_grown, call.reply);
    // As Redis has it: a string only grows if no number could be written, and no watcher is told.
    let mut parts = fields.changed();
    if has_grown || parts.is_empty() {
        parts.push((if has_grown { last_written / 8 + 1 } else { 0 }, Vec::new()));
    }
    for (place, bytes) in parts {
        call.data.overlay(database, key, place, &bytes, Form::Changed, !is_changed)?;
    }
    Ok(())
}

/// Bytes in which a number lies, at most.
const FIELD_BYTES_MAX: u64 = 9;

/// The bytes of a string in which numbers lie.
struct Fields {
    /// By their positions, each with whether it was changed.
    bytes: BTreeMap<u64, (u8, bool)>,
}

impl Fields {
    fn read(string: &StoredString<'_>, operations: &[Operation]) -> Result<Fields, Refusal> {
        let mut bytes = BTreeMap::new();
        for Operation { encoding, offset, .. } in operations {
            let (first, last) = (offset / 8, (offset + u64::from(encoding.width) - 1) / 8);
            bytes.extend((first..=last).map(|place| (place, (0, false))));
            let mut place = first;
            string.visit(first, last + 1, |part| {
                for byte in part {
                    bytes.insert(place, (*byte, false));
                    place += 1;
                }
                true
            })?;
        }
        Ok(Fields { bytes })
    }

    fn get(&self, encoding: Encoding, offset: u64) -> i128 {
        encoding.get(&self.around(encoding, offset), offset % 8)
    }

    fn around(&self, encoding: Encoding, offset: u64) -> Vec<u8> {
        let range = offset / 8..=(offset + u64::from(encoding.width) - 1) / 8;
        self.bytes.range(range).map(|(_, (byte, _))| *byte).collect()
    }

    fn set(&mut self, encoding: Encoding, offset: u64, number: i128) {
        let mut bytes = self.around(encoding, offset);
        encoding.set(&mut bytes, offset % 8, number);
        for (place, byte) in (offset / 8..).zip(bytes) {
            self.bytes.insert(place, (byte, true));
        }
    }

    /// Runs of bytes that were changed, each with the position of the first.
    fn changed(&self) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (&place, &(byte, _)) in self.bytes.iter().filter(|(_, (_, is_changed))| *is_changed) {
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == place => run.push(byte),
                _ => runs.push((place, vec![byte])),
            }
        }
        runs
    }
}

/// Does operations, and answers them. Returns whether a number was written that is another, or is in a string that has
/// grown.
fn write_fields(operations: &[Operation], fields: &mut Fields, has_grown: bool, reply: &mut Reply) -> bool {
    let mut is_changed = false;
    reply.array(operations.len());
    for Operation { deed, encoding, offset, overflow } in operations {
        let before = fields.get(*encoding, *offset);
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
        match overflow.fit(*encoding, wanted, is_set) {
            Some(number) => {
                fields.set(*encoding, *offset, number);
                is_changed |= has_grown || number != before;
                reply.integer(if is_set { before } else { number } as i64);
            }
            None => reply.null(),
        }
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::{Encoding, bit_at};

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
                            assert_eq!(bit_at(&bytes, place), bit_at(&[0xA5; 12], place));
                        }
                    }
                }
            }
        }
    }
}
