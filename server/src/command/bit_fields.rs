//! Integers of any width within strings: `BITFIELD`.
//!
//! As Redis has it, a string that is made longer for numbers of which none could be written is longer all the same, and those who watch it are not told.

use super::bits::{bit_at, bit_offset, grow, lookup, put_quietly};
use super::string_ranges::change_string;
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, check_key, is_word, refusal};
use crate::keyspace::Change;
use crate::keyspace::value::Form;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;

const READ: Flags = Flags::READ;
const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
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
    // As Redis has it: a string only grows if no number could be written, and nobody is told.
    let mut quiet = None;
    change_string(
        call.data,
        database,
        key,
        |_| Form::Changed,
        |old, new| {
            let old = old.unwrap_or_default();
            let start = new.len();
            grow(new, old, last_written);
            let has_grown = new.len() - start > old.len();
            let is_changed = write_fields(&operations, &mut new[start..], has_grown, reply);
            if is_changed {
                return Ok(Change::Put);
            }
            quiet = Some(new[start..].to_vec());
            Ok(Change::Keep)
        },
    )?;
    match quiet {
        Some(body) => put_quietly(call, key, Some(body)),
        None => Ok(()),
    }
}

/// Does operations on a string that is long enough, and answers them. Returns whether a number was written that is another, or is in a string that has grown.
fn write_fields(operations: &[Operation], bytes: &mut [u8], has_grown: bool, reply: &mut Reply) -> bool {
    let mut is_changed = false;
    reply.array(operations.len());
    for Operation { deed, encoding, offset, overflow } in operations {
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
