//! Parts of strings: read, written over, appended to; and what two strings have in common.
//!
//! Cost: a string is stored as one value, so changing a part of it writes it anew, where Redis changes it in place.

use super::subsequence::{self, Table};
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, check_key, is_word, refusal};
use crate::keyspace::value::{Form, Header, Kind};
use crate::keyspace::{Change, Data};
use crate::resp::reply::Reply;

const READ: Flags = Flags::READ;
const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("append", 3, WRITE.and(Flags::FAST), Group::String, append)
        .keys(1, 1, 1)
        .about("key value", "Appends to the string at a key, which starts empty.", "2.0.0")
        .costs("O(log n + length)", "O(1) amortized"),
    Spec::new("strlen", 2, READ.and(Flags::FAST), Group::String, strlen)
        .keys(1, 1, 1)
        .about("key", "How many bytes the string at a key has.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getrange", 4, READ, Group::String, getrange)
        .keys(1, 1, 1)
        .about("key start end", "The bytes of a string from one position through another.", "2.4.0")
        .costs("O(log n + part)", "O(part)"),
    Spec::new("substr", 4, READ, Group::String, getrange)
        .keys(1, 1, 1)
        .about("key start end", "The old name of GETRANGE.", "1.0.0")
        .costs("O(log n + part)", "O(part)"),
    Spec::new("setrange", 4, WRITE, Group::String, setrange)
        .keys(1, 1, 1)
        .about("key offset value", "Writes over a part of a string, which grows as needed.", "2.2.0")
        .costs("O(log n + length)", "O(part)"),
    Spec::new("lcs", -3, READ, Group::String, lcs)
        .keys(1, 2, 1)
        .about(
            "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
            "The longest bytes that two strings have in common, in the same order with gaps.",
            "7.0.0",
        )
        .costs("O(a b) time and memory, of strings of a and b bytes", "O(a b)"),
];

/// Bytes of the longest string.
pub const STRING_BYTES_MAX: usize = 512 << 20;

const TOO_LONG: Refusal = refusal::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Changes the string at a key, whose deadline stays: `change` is given its bytes and appends the new ones behind the header that is there already. `form`
/// says what the new string counts as.
///
/// # Errors
/// `WRONGTYPE` if the key holds something else, and those of `change`; nothing is changed then.
pub fn change_string(
    data: &mut Data<'_>,
    database: usize,
    key: &[u8],
    form: fn(Option<&[u8]>) -> Form,
    change: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<Change, Refusal>,
) -> Answer {
    let mut refused = Ok(());
    data.change(database, key, |entry, new| {
        if entry.is_some_and(|entry| entry.header.kind != Kind::String) {
            refused = Err(refusal::WRONG_TYPE);
            return Change::Keep;
        }
        let deadline_ms = entry.and_then(|entry| entry.header.deadline_ms);
        let old = entry.map(|entry| entry.body);
        Header { form: form(old), ..Header::string(deadline_ms) }.encode(new);
        change(old, new).unwrap_or_else(|refusal| {
            refused = Err(refusal);
            Change::Keep
        })
    })?;
    refused
}

/// Writes over a part of a string; what lies between is filled with zeros.
fn overlay(new: &mut Vec<u8>, old: &[u8], offset: usize, part: &[u8]) {
    let start = new.len();
    new.extend_from_slice(old);
    new.resize(start + old.len().max(offset + part.len()), 0);
    new[start + offset..start + offset + part.len()].copy_from_slice(part);
}

fn append(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let (reply, part) = (&mut *call.reply, call.args[2]);
    change_string(
        call.data,
        call.session.database,
        call.args[1],
        |old| if old.is_some() { Form::Changed } else { Form::Content },
        |old, new| {
            let old = old.unwrap_or_default();
            let length = old.len() + part.len();
            if length > STRING_BYTES_MAX {
                return Err(TOO_LONG);
            }
            new.extend_from_slice(old);
            new.extend_from_slice(part);
            reply.integer(length as i64);
            Ok(Change::Put)
        },
    )
}

fn setrange(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let offset = usize::try_from(call.integer(2)?).map_err(|_| refusal::text("ERR offset is out of range"))?;
    let (reply, part) = (&mut *call.reply, call.args[3]);
    change_string(
        call.data,
        call.session.database,
        call.args[1],
        |_| Form::Changed,
        |old, new| {
            let old = old.unwrap_or_default();
            if part.is_empty() {
                reply.integer(old.len() as i64);
                return Ok(Change::Keep);
            }
            if offset.saturating_add(part.len()) > STRING_BYTES_MAX {
                return Err(TOO_LONG);
            }
            overlay(new, old, offset, part);
            reply.integer(old.len().max(offset + part.len()) as i64);
            Ok(Change::Put)
        },
    )
}

fn strlen(call: &mut Call<'_, '_>) -> Answer {
    let length = call.string(call.args[1])?.map_or(0, <[u8]>::len);
    call.reply.integer(length as i64);
    Ok(())
}

/// The part of `length` positions from `start` through `end`, which count from the end if they are negative: its first and its last. An end before the
/// beginning is the first position, as Redis has it.
pub fn part(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let length = i64::try_from(length).ok()?;
    let from_start = |position: i64| if position < 0 { (length + position).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(length - 1));
    (start <= end).then_some((start as u64, end as u64))
}

fn getrange(call: &mut Call<'_, '_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let database = call.session.database;
    let entry = call.data.entry(database, call.args[1])?;
    call.data.keyspace().counters.note_lookup(entry.is_some());
    let body = match &entry {
        None => &[][..],
        Some(entry) if entry.header.kind == Kind::String => entry.body,
        Some(_) => return Err(refusal::WRONG_TYPE),
    };
    match part(start, end, body.len() as u64) {
        Some((start, end)) => call.reply.bulk(&body[start as usize..=end as usize]),
        None => call.reply.bulk(b""),
    }
    Ok(())
}

/// Cells of the table of `LCS` that take as long as one row of a long answer.
const CELLS_A_ROW: u64 = 50;

fn lcs(call: &mut Call<'_, '_>) -> Answer {
    let database = call.session.database;
    let mut strings = [&[][..]; 2];
    for (string, key) in strings.iter_mut().zip(&call.args[1..3]) {
        match call.data.entry(database, key)? {
            None => {}
            Some(entry) if entry.header.kind == Kind::String => *string = entry.body,
            Some(_) => return Err(refusal::text("ERR The specified keys must contain string values")),
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
    let cells = (first.len() as u64 + 1) * (second.len() as u64 + 1);
    if cells > STRING_BYTES_MAX as u64 / 4 {
        return Err(refusal::text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    call.expect_rows(cells / CELLS_A_ROW)?;
    let table = Table::of(first, second);
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
