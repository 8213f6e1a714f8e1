//! Reads, overwrites and appends to parts of strings, and tells what two strings have in common.
//!
//! Cost: a change rewrites a string of up to 64 KiB, and only the affected pieces of a longer one.

use super::subsequence::{self, Table};
use super::{Call, CommandResult, EntityCall, Handler, Refusal, check_key, entity_handler, is_word, refusal};
use crate::entities::Entities;
use crate::keyspace::value::{Form, Header, Kind};
use crate::keyspace::{PreparedString, StoredString};
use crate::resp::reply::Reply;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("append", append),
    entity_handler!("strlen", strlen),
    Handler::new("getrange", getrange),
    Handler::new("substr", getrange),
    Handler::new("setrange", setrange),
    Handler::new("lcs", lcs),
];

/// Bytes of the longest string.
pub const STRING_BYTES_MAX: usize = 512 << 20;

const TOO_LONG: Refusal = refusal::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

fn append(call: &mut Call<'_, '_>) -> CommandResult {
    check_key(call.args[1])?;
    let (key, part, database) = (call.args[1], call.args[2], call.session.database);
    let prepared = prepare_overlay(call, None, part)?;
    let (form, length) = match call.data.entry(database, key)? {
        None => (Form::Content, 0),
        Some(entry) if entry.is_string() => (Form::Changed, entry.length()),
        Some(_) => return Err(refusal::WRONG_TYPE),
    };
    let sum = length + part.len() as u64;
    if sum > STRING_BYTES_MAX as u64 {
        return Err(TOO_LONG);
    }
    put_overlay(call, prepared, length, part, form)?;
    call.reply.integer(sum as i64);
    Ok(())
}

/// Makes the string that is the first argument with a long part written over, beside the loop.
fn prepare_overlay(
    call: &mut Call<'_, '_>,
    offset: Option<u64>,
    part: &[u8],
) -> Result<Option<PreparedString>, Refusal> {
    call.expect_bytes(part.len() as u64)?;
    if !call.data.is_beside() {
        return Ok(None);
    }
    let (place, bytes_max) = ((call.session.database, call.args[1]), STRING_BYTES_MAX as u64);
    call.prepare(place.1, |keyspace, now_ms| keyspace.prepare_overlay(place, offset, part, bytes_max, now_ms))
}

/// Writes over a part of the string that is the first argument, which may have been made before.
fn put_overlay(
    call: &mut Call<'_, '_>,
    prepared: Option<PreparedString>,
    offset: u64,
    part: &[u8],
    form: Form,
) -> CommandResult {
    let (key, database) = (call.args[1], call.session.database);
    let entry = call.data.entry(database, key)?;
    let header = Header { form, ..Header::string(entry.and_then(|entry| entry.header.deadline_ms)) };
    match prepared.and_then(|prepared| prepared.staged_for(call.data, database, entry.as_ref())) {
        Some(mut staged) => {
            call.data.change(database, key, |_, new| staged.write(header, new))?;
        }
        None => call.data.overlay(database, key, offset, part, form, false)?,
    }
    Ok(())
}

fn setrange(call: &mut Call<'_, '_>) -> CommandResult {
    check_key(call.args[1])?;
    let offset = u64::try_from(call.integer(2)?).map_err(|_| refusal::text("ERR offset is out of range"))?;
    let (key, part, database) = (call.args[1], call.args[3], call.session.database);
    let prepared = prepare_overlay(call, Some(offset), part)?;
    let length = match call.data.entry(database, key)? {
        None => 0,
        Some(entry) if entry.is_string() => entry.length(),
        Some(_) => return Err(refusal::WRONG_TYPE),
    };
    if part.is_empty() {
        call.reply.integer(length as i64);
        return Ok(());
    }
    let end = offset.saturating_add(part.len() as u64);
    if end > STRING_BYTES_MAX as u64 {
        return Err(TOO_LONG);
    }
    put_overlay(call, prepared, offset, part, Form::Changed)?;
    call.reply.integer(length.max(end) as i64);
    Ok(())
}

fn strlen<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let length = match call.entities.find(call.args[1])? {
        None => 0,
        Some(found) if found.kind == Kind::String => found.bytes,
        Some(_) => return Err(refusal::WRONG_TYPE),
    };
    call.reply.integer(length as i64);
    Ok(())
}

/// The part of `length` positions from `start` through `end`, which count from the end if they are negative: its first
/// and its last. An end before the beginning is the first position, as Redis has it.
pub fn part(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let length = i64::try_from(length).ok()?;
    let from_start = |position: i64| if position < 0 { (length + position).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(length - 1));
    (start <= end).then_some((start as u64, end as u64))
}

fn getrange(call: &mut Call<'_, '_>) -> CommandResult {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let (key, database) = (call.args[1], call.session.database);
    let entry = call.data.entry(database, key)?;
    call.data.note_lookup(entry.is_some());
    let Some(entry) = entry else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let Some((start, end)) = part(start, end, entry.length()).filter(|_| entry.is_string()) else {
        if !entry.is_string() {
            return Err(refusal::WRONG_TYPE);
        }
        call.reply.bulk(b"");
        return Ok(());
    };
    call.expect_bytes(end + 1 - start)?;
    let string = call.data.string_of(database, key, &entry)?.ok_or(refusal::WRONG_TYPE)?;
    call.reply.bulk_of(end + 1 - start, |out| string.copy(start, end + 1, out))?;
    Ok(())
}

/// Cells of the table of `LCS` that take as long as one row of a long answer.
const CELLS_A_ROW: u64 = 50;

fn lcs(call: &mut Call<'_, '_>) -> CommandResult {
    let database = call.session.database;
    let mut strings = [StoredString::Whole(b""), StoredString::Whole(b"")];
    for (string, key) in strings.iter_mut().zip(&call.args[1..3]) {
        if let Some(entry) = call.data.entry(database, key)? {
            let not_strings = refusal::text("ERR The specified keys must contain string values");
            *string = call.data.string_of(database, key, &entry)?.ok_or(not_strings)?;
        }
    }
    let (mut wants_length, mut wants_ranges, mut with_lengths, mut length_min) = (false, false, false, 0);
    let mut place = 3;
    while let Some(&word) = call.args.get(place) {
        if is_word(word, "len") {
            wants_length = true;
        } else if is_word(word, "idx") {
            wants_ranges = true;
        } else if is_word(word, "withmatchlen") {
            with_lengths = true;
        } else if is_word(word, "minmatchlen") {
            place += 1;
            length_min = call.integer(place)?.max(0) as u64;
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 1;
    }
    if wants_length && wants_ranges {
        return Err(refusal::text("ERR If you want both the length and indexes, please just use IDX."));
    }
    let [first, second] = strings;
    let cells = (first.len() + 1) * (second.len() + 1);
    if cells > STRING_BYTES_MAX as u64 / 4 {
        return Err(refusal::text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    call.expect_rows(cells / CELLS_A_ROW)?;
    let (first, second) = (first.bytes()?, second.bytes()?);
    let table = Table::of(&first, &second);
    if wants_ranges {
        let matches: Vec<_> = table.matches().into_iter().filter(|found| found.length() as u64 >= length_min).collect();
        let length = table.length();
        answer_matches(call.reply, &matches, with_lengths, length);
    } else if wants_length {
        call.reply.integer(table.length() as i64);
    } else {
        call.reply.bulk(&table.subsequence());
    }
    Ok(())
}

fn answer_matches(reply: &mut Reply, matches: &[subsequence::Match], with_lengths: bool, length: usize) {
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(2 + usize::from(with_lengths));
        for range in [&found.first, &found.second] {
            reply.array(2);
            reply.integer(*range.start() as i64);
            reply.integer(*range.end() as i64);
        }
        if with_lengths {
            reply.integer(found.length() as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(length as i64);
}
