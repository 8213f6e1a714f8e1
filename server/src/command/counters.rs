//! Adds to numbers that are stored as strings.

use super::{Call, CommandResult, Handler, Refusal, Run, check_key, refusal};
use crate::keyspace::Change;
use crate::keyspace::value::{Body, Entry, Form, Header};
use crate::resp::number::{self, SumError, add_long_double};

/// Bytes of the longest integer as text.
const DIGITS_MAX: usize = 20;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("incr", incr).many(&[(2, incr_many)]),
    Handler::new("decr", decr),
    Handler::new("incrby", incrby),
    Handler::new("decrby", decrby),
    Handler::new("incrbyfloat", incrbyfloat),
];

/// A sum past the limits of an integer.
const OVERFLOW: Refusal = refusal::text("ERR increment or decrement would overflow");

fn incr(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, 1)
}

fn decr(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, -1)
}

fn incrby(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, call.integer(2)?)
}

fn decrby(call: &mut Call<'_, '_>) -> CommandResult {
    let decrement = call.integer(2)?;
    add(call, decrement.checked_neg().ok_or(refusal::text("ERR decrement would overflow"))?)
}

/// The sum of the integer at a key and an increment; the new value is written.
#[inline]
fn sum(entry: Option<Entry<'_>>, increment: i64, new: &mut Vec<u8>) -> Result<i64, Refusal> {
    let (deadline_ms, number) = match entry {
        None => (None, 0),
        Some(entry) if !entry.is_string() => return Err(refusal::WRONG_TYPE),
        Some(entry) => (entry.header.deadline_ms, number::parse_i64(entry.whole()).ok_or(refusal::NOT_INTEGER)?),
    };
    let sum = number.checked_add(increment).ok_or(OVERFLOW)?;
    Header::string(deadline_ms).encode(new);
    number::write_i64(new, sum);
    Ok(sum)
}

fn add(call: &mut Call<'_, '_>, increment: i64) -> CommandResult {
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
fn incr_many(run: &mut Run<'_, '_>) -> CommandResult {
    let keys = run.column(1);
    run.reserve(&keys, keys.len() * DIGITS_MAX)?;
    let reply = &mut *run.reply;
    run.data.change_many(run.database, &keys, |_, entry, new| match sum(entry, 1, new) {
        Ok(sum) => {
            reply.integer(sum);
            Change::Put
        }
        Err(refused) => {
            reply.error(refused.reply_bytes());
            Change::Keep
        }
    })?;
    Ok(())
}

fn incrbyfloat(call: &mut Call<'_, '_>) -> CommandResult {
    check_key(call.args[1])?;
    let (reply, increment) = (&mut *call.reply, call.args[2]);
    let mut refused = Ok(());
    call.data.change(call.session.database, call.args[1], |entry, new| {
        let sum = match entry {
            Some(entry) if !entry.is_string() => Err(refusal::WRONG_TYPE),
            Some(Entry { body: Body::Pieces(_), .. }) => Err(refusal::NOT_FLOAT),
            _ => {
                let old = entry.map_or(&b"0"[..], |entry| entry.whole());
                add_long_double(old, increment).map_err(|error| match error {
                    SumError::NotFinite => refusal::text("ERR increment would produce NaN or Infinity"),
                    SumError::NotANumber | SumError::IncrementNotANumber => refusal::NOT_FLOAT,
                })
            }
        };
        match sum {
            Ok(sum) => {
                reply.bulk(sum.as_bytes());
                let deadline_ms = entry.and_then(|entry| entry.header.deadline_ms);
                Header { form: Form::Text, ..Header::string(deadline_ms) }.encode(new);
                new.extend_from_slice(sum.as_bytes());
                Change::Put
            }
            Err(refusal) => {
                refused = Err(refusal);
                Change::Keep
            }
        }
    })?;
    refused
}
