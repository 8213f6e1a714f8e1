//! Keys listed: all that match, a few at a time, or any.
//!
//! The keys are ordered, so a pattern that begins with plain bytes is looked for among the keys that begin with them, and an iteration goes on behind the last
//! key it saw: it returns each key at most once, and each key that is there from its start to its end.
//!
//! Differences from Redis: `SCAN` returns keys in order. Its cursors are kept by the server ([`crate::keyspace::scan`]), the newest 65,536 of them: with one that is
//! not known, such as one from before a restart, the iteration starts over, so that keys may be repeated, but none is missed.

use std::ops::Bound;

use quipu::{Bounds, Read};

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, is_word, refusal};
use crate::glob;
use crate::keyspace::value::Entry;
use crate::resp::reply::Aggregate;

const READ: Flags = Flags::READ.and(Flags::EXACT);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("keys", 2, READ, Group::Generic, keys)
        .about("pattern", "All keys that match a pattern.", "1.0.0")
        .costs("O(log n + m) for m keys that begin as the pattern does", "O(n)"),
    Spec::new("scan", -2, READ, Group::Generic, scan)
        .about("cursor [MATCH pattern] [COUNT count] [TYPE type]", "Some keys, and a cursor to go on from.", "2.8.0")
        .costs("O(log n + count)", "O(count)"),
    Spec::new("randomkey", 1, READ, Group::Generic, random_key)
        .about("", "Any key, each as likely as any other.", "1.0.0")
        .costs("O(log n)", "O(1)"),
];

fn keys(call: &mut Call<'_, '_>) -> Answer {
    let pattern = call.args[1];
    let prefix = glob::literal_prefix(pattern);
    let Some(tables) = call.data.tables(call.session.database) else {
        call.reply.array(0);
        return Ok(());
    };
    let view = call.data.view(&tables.keys)?;
    call.expect_rows(view.count(Bounds::prefix(&prefix))?)?;
    let now_ms = call.data.now_ms;
    let (reply, mut found) = (&mut *call.reply, 0);
    let length = reply.later(Aggregate::Array);
    let read = view.for_each(Bounds::prefix(&prefix), |key, value| {
        if glob::matches(pattern, key, false) && is_live(value, now_ms) {
            reply.bulk(key);
            found += 1;
        }
        true
    });
    reply.fill(length, found);
    read?;
    Ok(())
}

fn is_live(value: &[u8], now_ms: u64) -> bool {
    Entry::decode(value).is_some_and(|entry| !entry.header.is_expired(now_ms))
}

fn random_key(call: &mut Call<'_, '_>) -> Answer {
    let entry = match call.data.tables(call.session.database) {
        None => None,
        Some(tables) => {
            let view = call.data.view(&tables.keys)?;
            let rows = view.len()?;
            if rows == 0 { None } else { view.nth(.., rand::random_range(0..rows))? }
        }
    };
    match entry {
        Some(entry) => call.reply.bulk(&entry.key),
        None => call.reply.null(),
    }
    Ok(())
}

/// A cursor as `strtoul` reads it, which is what Redis does: a sign is allowed, and what lies behind a zero byte is not looked at.
pub fn cursor(word: &[u8]) -> Result<u64, Refusal> {
    const INVALID: Refusal = refusal::text("ERR invalid cursor");
    let text = word.split(|byte| *byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(INVALID);
    }
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0')).ok_or(INVALID)?;
        number = number.checked_mul(10).and_then(|number| number.checked_add(digit)).ok_or(INVALID)?;
    }
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Keys that one call looks at if it is not told how many.
const COUNT_DEFAULT: u64 = 10;

/// What a call of `SCAN` looks for.
struct Wanted<'c> {
    pattern: &'c [u8],
    count: u64,
    kind: Option<&'c [u8]>,
}

fn wanted<'c>(call: &Call<'c, '_>) -> Result<Wanted<'c>, Refusal> {
    let mut wanted = Wanted { pattern: b"*", count: COUNT_DEFAULT, kind: None };
    let mut place = 2;
    while let Some(&option) = call.args.get(place) {
        let Some(&word) = call.args.get(place + 1) else { return Err(refusal::SYNTAX) };
        if is_word(option, "count") {
            wanted.count =
                u64::try_from(call.integer(place + 1)?).ok().filter(|count| *count > 0).ok_or(refusal::SYNTAX)?;
        } else if is_word(option, "match") {
            wanted.pattern = word;
        } else if is_word(option, "type") {
            wanted.kind = Some(word);
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 2;
    }
    Ok(wanted)
}

fn scan(call: &mut Call<'_, '_>) -> Answer {
    let from = cursor(call.args[1])?;
    let Wanted { pattern, count, kind } = wanted(call)?;
    let database = call.session.database;
    let prefix = glob::literal_prefix(pattern);
    let tables = call.data.tables(database);
    let cursors = &call.data.keyspace().cursors;
    let rows = match tables {
        Some(tables) => call.data.view(&tables.keys)?.len()?,
        None => 0,
    };
    call.expect_rows(count.min(rows))?;
    let behind = if from == 0 { None } else { cursors.find(from, database) };
    // Where the keys that can match begin, or behind the last one that was looked at.
    let start = match &behind {
        Some(key) if **key >= *prefix => Bound::Excluded(&**key),
        _ => Bound::Included(&*prefix),
    };
    let (mut seen, mut last, mut has_more, mut found) = (0, Vec::new(), false, Vec::new());
    if let Some(tables) = tables {
        let now_ms = call.data.now_ms;
        call.data.view(&tables.keys)?.for_each(Bounds::new(start, Bound::Unbounded), |key, value| {
            if !key.starts_with(&prefix) {
                return false;
            }
            has_more = seen == count;
            if has_more {
                return false;
            }
            seen += 1;
            last.clear();
            last.extend_from_slice(key);
            let entry = Entry::decode(value).filter(|entry| !entry.header.is_expired(now_ms));
            let is_of_kind = entry.is_some_and(|entry| {
                kind.is_none_or(|kind| kind.eq_ignore_ascii_case(entry.header.kind.name().as_bytes()))
            });
            if is_of_kind && glob::matches(pattern, key, false) {
                found.push(key.to_vec());
            }
            true
        })?;
    }
    let next = if has_more { cursors.make(from, database, &last) } else { 0 };
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}
