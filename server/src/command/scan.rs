//! `KEYS`, `SCAN` and `RANDOMKEY`: list the keys that match a pattern, at once or a few at a time, or draw one.
//!
//! The keys are ordered, so a pattern that begins with plain bytes is looked for only among the keys that begin with
//! them. An iteration continues after the last key that it saw: it returns each key at most once, and each key that
//! exists from its start to its end.
//!
//! Differences from Redis: `SCAN` returns keys in order, and looks at no more than 20,000 of them in one call. A cursor
//! is valid as long as the key exists after which it continues, and for a while longer ([`crate::keyspace::scan`]). Any
//! other cursor is an error, never a new beginning.

use std::ops::Bound;

use quipu::{Bounds, ReadableTable, Snapshot, Table, TableView};
use rand::RngExt;

use super::pieces::{KeyPieces, PIECE_ROWS_MAX};
use super::{Call, CommandResult, Handler, LONG_BYTES, LONG_ROWS, Refusal, is_word, refusal};
use crate::keyspace::Keyspace;
use crate::keyspace::scan::Cursors;
use crate::keyspace::value::Entry;
use crate::resp::glob;
use crate::resp::reply::{Aggregate, Reply};
use crate::state::pieces::Pieces;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] =
    &[Handler::new("keys", keys), Handler::new("scan", scan), Handler::new("randomkey", random_key)];

fn keys(call: &mut Call<'_, '_>) -> CommandResult {
    let pattern = call.args[1];
    let prefix = glob::literal_prefix(pattern);
    let Some(tables) = call.data.tables(call.session.database) else {
        call.reply.array(0);
        return Ok(());
    };
    let view = call.data.view(&tables.keys)?;
    let rows = view.count(Bounds::prefix(&prefix))?;
    call.expect_rows(rows)?;
    if let Some(snapshot) = call.in_pieces(rows) {
        let pieces = KeyPieces::new(snapshot, tables.keys.clone(), pattern, prefix, rows, call.reply);
        call.session.leave(pieces);
        return Ok(());
    }
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

fn random_key(call: &mut Call<'_, '_>) -> CommandResult {
    let entry = match call.data.tables(call.session.database) {
        None => None,
        Some(tables) => {
            let view = call.data.view(&tables.keys)?;
            let rows = view.len()?;
            if rows == 0 { None } else { view.nth(.., call.session.rng().random_range(0..rows))? }
        }
    };
    match entry {
        Some(entry) => call.reply.bulk(&entry.key),
        None => call.reply.null(),
    }
    Ok(())
}

/// A cursor as `strtoul` reads it, which is what Redis does: a sign is allowed, and what lies after a zero byte is not
/// looked at.
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

const UNKNOWN_CURSOR: Refusal = refusal::text(
    "ERR the cursor is not known any more: the key after which it goes on was removed. Begin again with 0",
);

/// What a call of `SCAN` looks for.
struct Wanted {
    pattern: Vec<u8>,
    /// Plain bytes that it begins with.
    prefix: Vec<u8>,
    count: u64,
    kind: Option<Vec<u8>>,
}

fn wanted(call: &Call<'_, '_>) -> Result<Wanted, Refusal> {
    let mut wanted = Wanted { pattern: b"*".to_vec(), prefix: Vec::new(), count: COUNT_DEFAULT, kind: None };
    let mut place = 2;
    while let Some(&option) = call.args.get(place) {
        let Some(&word) = call.args.get(place + 1) else { return Err(refusal::SYNTAX) };
        if is_word(option, "count") {
            let count = u64::try_from(call.integer(place + 1)?).ok().filter(|count| *count > 0);
            wanted.count = count.ok_or(refusal::SYNTAX)?.min(LONG_ROWS);
        } else if is_word(option, "match") {
            wanted.pattern = word.to_vec();
        } else if is_word(option, "type") {
            wanted.kind = Some(word.to_vec());
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 2;
    }
    wanted.prefix = glob::literal_prefix(&wanted.pattern);
    Ok(wanted)
}

fn scan(call: &mut Call<'_, '_>) -> CommandResult {
    let from = cursor(call.args[1])?;
    let wanted = wanted(call)?;
    let cursors = &call.server.keyspace.cursors;
    let Some(tables) = call.data.tables(call.session.database) else {
        answer_none(call.reply);
        return Ok(());
    };
    let view = call.data.view(&tables.keys)?;
    let behind = if from == 0 { None } else { cursors.find(from) };
    if from != 0 && behind.is_none() {
        // It is looked for among all keys.
        let rows = view.len()?;
        call.expect_rows(rows)?;
        let mut search = Search { cursor: from, wanted, now_ms: call.data.now_ms, place: None };
        if let Some(snapshot) = call.in_pieces(rows) {
            call.session.leave(SearchPieces { snapshot, keys: tables.keys.clone(), search });
            return Ok(());
        }
        return search.step(&view, cursors, u64::MAX, call.reply).map(|_| ());
    }
    portion(&view, cursors, &wanted, behind.as_deref(), call.data.now_ms, call.reply)
}

/// A call of `SCAN` whose cursor is looked for.
struct Search {
    cursor: u64,
    wanted: Wanted,
    now_ms: u64,
    /// The key that was looked at last.
    place: Option<Vec<u8>>,
}

impl Search {
    /// Looks at so many keys more. Answers, and says false, when it has found what it looks for or the end.
    fn step(
        &mut self,
        view: &TableView<'_>,
        cursors: &Cursors,
        rows_max: u64,
        reply: &mut Reply,
    ) -> Result<bool, Refusal> {
        let start = self.place.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, mut found, mut last) = (0, None, None);
        view.for_each(Bounds::new(start, Bound::Unbounded), |key, _| {
            rows += 1;
            if cursors.names(self.cursor, key) {
                found = Some(key.to_vec());
            } else if rows >= rows_max {
                last = Some(key.to_vec());
            }
            found.is_none() && last.is_none()
        })?;
        match (found, last) {
            (Some(key), _) => portion(view, cursors, &self.wanted, Some(&key), self.now_ms, reply).map(|()| false),
            (None, Some(last)) => {
                self.place = Some(last);
                Ok(true)
            }
            (None, None) if view.is_empty()? => {
                answer_none(reply);
                Ok(false)
            }
            (None, None) => Err(UNKNOWN_CURSOR),
        }
    }
}

/// The same in pieces, of which only the last has bytes.
struct SearchPieces {
    snapshot: Snapshot,
    keys: Table,
    search: Search,
}

impl Pieces for SearchPieces {
    fn next(&mut self, keyspace: &Keyspace, reply: &mut Reply) -> quipu::Result<bool> {
        let view = self.snapshot.table(&self.keys)?;
        self.search.step(&view, &keyspace.cursors, PIECE_ROWS_MAX, reply).or_else(|refusal| {
            reply.error(refusal.reply_bytes());
            Ok(false)
        })
    }
}

fn answer_none(reply: &mut Reply) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}

/// Answers keys after a place, or from the start.
fn portion(
    view: &TableView<'_>,
    cursors: &Cursors,
    wanted: &Wanted,
    behind: Option<&[u8]>,
    now_ms: u64,
    reply: &mut Reply,
) -> CommandResult {
    let Wanted { pattern, prefix, count, kind } = wanted;
    // Where the keys that can match begin, or after the last one that was looked at.
    let start = match behind {
        Some(key) if *key >= **prefix => Bound::Excluded(key),
        _ => Bound::Included(&**prefix),
    };
    let (mut seen, mut bytes, mut last, mut next, mut found) = (0, 0, Vec::new(), 0, Vec::new());
    view.for_each(Bounds::new(start, Bound::Unbounded), |key, value| {
        if !key.starts_with(prefix) {
            return false;
        }
        if (seen >= *count || bytes >= LONG_BYTES as usize)
            && let Some(cursor) = cursors.make(&last)
        {
            next = cursor;
            return false;
        }
        seen += 1;
        last.clear();
        last.extend_from_slice(key);
        let entry = Entry::decode(value).filter(|entry| !entry.header.is_expired(now_ms));
        let is_of_kind = entry.is_some_and(|entry| {
            kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(entry.header.kind.name().as_bytes()))
        });
        if is_of_kind && glob::matches(pattern, key, false) {
            bytes += key.len();
            found.push(key.to_vec());
        }
        true
    })?;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}
