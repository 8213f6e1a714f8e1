//! `BITOP`: combines strings bit by bit.
//!
//! The result of long strings is made beside the loop, from a snapshot, and is put at its key if the strings are still
//! the same then.

use super::call::string_or_empty;
use super::{Call, CommandResult, Handler, Refusal, TRIES_MAX, check_key, is_word, refusal};
use crate::keyspace::value::{Entry, Form, Header};
use crate::keyspace::{Data, Keyspace, Staged, Stager};
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("bitop", bitop)];

/// Bytes of the result that are put together at a time.
const SLICE_BYTES: u64 = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn read(word: &[u8]) -> Result<Operation, Refusal> {
        let all = [("and", Self::And), ("or", Self::Or), ("xor", Self::Xor), ("not", Self::Not)];
        let found = all.into_iter().find(|(name, _)| is_word(word, name));
        found.map(|(_, operation)| operation).ok_or(refusal::SYNTAX)
    }

    /// Combines bytes with those of another string, which may be fewer: zeros follow them.
    fn combine(self, bytes: &mut [u8], other: &[u8]) {
        let (both, alone) = bytes.split_at_mut(other.len().min(bytes.len()));
        let pairs = both.iter_mut().zip(other);
        match self {
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                alone.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Operation::Not => {}
        }
    }
}

fn bitop(call: &mut Call<'_, '_>) -> CommandResult {
    let operation = Operation::read(call.args[1])?;
    let (target, sources) = (call.args[2], &call.args[3..]);
    check_key(target)?;
    if operation == Operation::Not && sources.len() != 1 {
        return Err(refusal::text("ERR BITOP NOT must be called with a single source key."));
    }
    let database = call.session.database;
    let mut prepared = None;
    if call.data.is_beside() {
        for _ in 0..TRIES_MAX {
            let combined = combine_beside(call.data.keyspace(), operation, database, sources)?;
            call.data.begin_writing(clock::now_ms())?;
            let is_same = read_values(call.data, database, sources)? == combined.values;
            if is_same && combined.staged.as_ref().is_none_or(|staged| call.data.may_use(database, staged)) {
                prepared = combined.staged;
                break;
            }
            call.data.stop_writing()?;
        }
        call.data.begin_writing(clock::now_ms())?;
    }
    let (length, sum) = lengths(call.data, database, sources)?;
    call.expect_bytes(sum)?;
    let header = Header { form: Form::Changed, ..Header::string(None) };
    if let Some(mut staged) = prepared {
        call.data.change(database, target, |_, new| staged.write(header, new))?;
    } else if length == 0 {
        call.data.remove(database, target)?;
    } else if !call.data.keyspace().cuts(length as usize) {
        let bytes = combine(call.data, operation, database, sources, 0, length)?;
        call.data.put_string(database, target, header, &bytes)?;
    } else {
        let (mut stager, mut place) = (Stager::new(call.data.keyspace(), database), 0);
        while place < length {
            let end = length.min(place + SLICE_BYTES);
            let bytes = combine(call.data, operation, database, sources, place, end)?;
            stager.push(Some(&mut *call.data), &bytes)?;
            place = end;
        }
        let mut staged = stager.finish(Some(&mut *call.data))?;
        call.data.change(database, target, |_, new| staged.write(header, new))?;
    }
    call.reply.integer(length as i64);
    Ok(())
}

/// The length of what comes out, and of all strings together.
fn lengths(data: &Data<'_>, database: usize, keys: &[&[u8]]) -> Result<(u64, u64), Refusal> {
    let (mut longest, mut sum) = (0, 0);
    for key in keys {
        if let Some(entry) = data.entry(database, key)? {
            if !entry.is_string() {
                return Err(refusal::WRONG_TYPE);
            }
            longest = longest.max(entry.length());
            sum += entry.length();
        }
    }
    Ok((longest, sum))
}

/// The strings' bytes from one position up to another, combined.
fn combine(
    data: &Data<'_>,
    operation: Operation,
    database: usize,
    keys: &[&[u8]],
    start: u64,
    end: u64,
) -> Result<Vec<u8>, Refusal> {
    let (mut result, mut other) = (Vec::with_capacity((end - start) as usize), Vec::new());
    for (number, key) in keys.iter().enumerate() {
        let string = string_or_empty(data, database, key)?;
        if number == 0 {
            string.copy(start, end, &mut result)?;
            result.resize((end - start) as usize, 0);
        } else {
            other.clear();
            string.copy(start, end, &mut other)?;
            operation.combine(&mut result, &other);
        }
    }
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(result)
}

/// What strings are at some moment, and what comes out of them if it is long.
struct Combined {
    values: Vec<Option<Vec<u8>>>,
    staged: Option<Staged>,
}

/// What stands at keys: the bytes of short strings, and what long ones come to.
fn read_values(data: &Data<'_>, database: usize, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let read = |key: &&[u8]| {
        let mut value = Vec::new();
        Ok(data.entry(database, key)?.map(|entry| {
            Entry { header: Header::new(entry.header.kind), ..entry }.encode(&mut value);
            value
        }))
    };
    keys.iter().map(read).collect()
}

fn combine_beside(
    keyspace: &Keyspace,
    operation: Operation,
    database: usize,
    keys: &[&[u8]],
) -> Result<Combined, Refusal> {
    let snapshot = keyspace.snapshot();
    let data = Data::patiently_at(keyspace, &snapshot, clock::now_ms());
    let values = read_values(&data, database, keys)?;
    let (length, _) = lengths(&data, database, keys)?;
    if !keyspace.cuts(length as usize) {
        return Ok(Combined { values, staged: None });
    }
    let (mut stager, mut place) = (Stager::new(keyspace, database), 0);
    while place < length {
        let end = length.min(place + SLICE_BYTES);
        stager.push(None, &combine(&data, operation, database, keys, place, end)?)?;
        place = end;
    }
    Ok(Combined { values, staged: Some(stager.finish(None)?) })
}
