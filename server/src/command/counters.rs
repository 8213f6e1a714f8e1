//! Numbers in strings.

use super::string_ranges::change_string;
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, Run, check_key, refusal};
use crate::keyspace::Change;
use crate::keyspace::value::{Entry, Form, Header, Kind};
use crate::resp::number::{self, SumError, add_long_double};

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);

/// Bytes of the longest integer as text.
const DIGITS_MAX: usize = 20;

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("incr", 2, WRITE, Group::String, incr)
        .keys(1, 1, 1)
        .about("key", "Adds one to the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)")
        .many(&[(2, incr_many)]),
    Spec::new("decr", 2, WRITE, Group::String, decr)
        .keys(1, 1, 1)
        .about("key", "Takes one from the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("incrby", 3, WRITE, Group::String, incrby)
        .keys(1, 1, 1)
        .about("key increment", "Adds to the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("decrby", 3, WRITE, Group::String, decrby)
        .keys(1, 1, 1)
        .about("key decrement", "Takes from the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("incrbyfloat", 3, WRITE, Group::String, incrbyfloat)
        .keys(1, 1, 1)
        .about("key increment", "Adds to the decimal number at a key, which starts from 0.", "2.6.0")
        .costs("O(log n)", "O(1)"),
];

/// A sum past the limits of an integer.
const OVERFLOW: Refusal = refusal::text("ERR increment or decrement would overflow");

fn incr(call: &mut Call<'_, '_>) -> Answer {
    add(call, 1)
}

fn decr(call: &mut Call<'_, '_>) -> Answer {
    add(call, -1)
}

fn incrby(call: &mut Call<'_, '_>) -> Answer {
    add(call, call.integer(2)?)
}

fn decrby(call: &mut Call<'_, '_>) -> Answer {
    let decrement = call.integer(2)?;
    add(call, decrement.checked_neg().ok_or(refusal::text("ERR decrement would overflow"))?)
}

/// The sum of the integer at a key and an increment; what stands there is written anew.
#[inline]
fn sum(entry: Option<Entry<'_>>, increment: i64, new: &mut Vec<u8>) -> Result<i64, Refusal> {
    let (deadline_ms, number) = match entry {
        None => (None, 0),
        Some(entry) if entry.header.kind != Kind::String => return Err(refusal::WRONG_TYPE),
        Some(entry) => (entry.header.deadline_ms, number::parse_i64(entry.body).ok_or(refusal::NOT_INTEGER)?),
    };
    let sum = number.checked_add(increment).ok_or(OVERFLOW)?;
    Header::string(deadline_ms).encode(new);
    number::write_i64(new, sum);
    Ok(sum)
}

fn add(call: &mut Call<'_, '_>, increment: i64) -> Answer {
    check_key(call.args[1])?;
    let mut result = Ok(0);
    call.data.change(call.session.database, call.args[1], |entry, new| {
        result = sum(entry, increment, new);
        if result.is_ok() { Change::Put } else { Change::Keep }
    })?;
    call.reply.integer(result?);
    Ok(())
}

/// A run of `INCR key`.
fn incr_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    run.reserve(&keys, keys.len() * DIGITS_MAX)?;
    let reply = &mut *run.reply;
    run.data.change_many(run.database, &keys, |_, entry, new| match sum(entry, 1, new) {
        Ok(sum) => {
            reply.integer(sum);
            Change::Put
        }
        Err(refused) => {
            reply.error(refused.reply_text().as_bytes());
            Change::Keep
        }
    })?;
    Ok(())
}

fn incrbyfloat(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let (reply, increment) = (&mut *call.reply, call.args[2]);
    change_string(
        call.data,
        call.session.database,
        call.args[1],
        |_| Form::Text,
        |old, new| {
            let sum = add_long_double(old.unwrap_or(b"0"), increment).map_err(|error| match error {
                SumError::NotFinite => refusal::text("ERR increment would produce NaN or Infinity"),
                SumError::NotANumber | SumError::IncrementNotANumber => refusal::NOT_FLOAT,
            })?;
            reply.bulk(sum.as_bytes());
            new.extend_from_slice(sum.as_bytes());
            Ok(Change::Put)
        },
    )
}
