//! What Redis lacks: counts, ranks, offsets, quantiles, samples and split points of the ordered keys of a database.
//!
//! Bounds are written as for ZRANGEBYLEX: `-` is before all keys and `+` after them, `[key` includes the key, `(key`
//! does not. A key of any kind counts as one.

use std::ops::{Bound, RangeBounds};

use quipu::{Bounds, Entry as Row, ReadableTable, TableView};

use super::pieces::RowPieces;
use super::{Answer, Call, Handler, LONG_BYTES, LONG_ROWS, Refusal, Run, is_word, refusal};
use crate::keyspace::Data;
use crate::keyspace::value::{Body, Entry};
use crate::resp::number::{parse_f64, parse_i64, parse_u64};
use crate::resp::reply::{Protocol, Reply};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("q.count", count).many(&[(3, count_many)]),
    Handler::new("q.rank", rank).many(&[(2, rank_many)]),
    Handler::new("q.nth", nth).many(&[(2, nth_many)]),
    Handler::new("q.range", page),
    Handler::new("q.quantile", quantile),
    Handler::new("q.sample", sample),
    Handler::new("q.split", split),
    Handler::new("q.tally", tally),
    Handler::new("q.delrange", remove_range),
];

/// Keys that `Q.SAMPLE`, `Q.SPLIT` and `Q.QUANTILE` return at most.
const ANSWERS_MAX: u64 = 1_000_000;

/// A bound of a range of keys, as ZRANGEBYLEX has it: `-`, `+`, `[key`, `(key`.
fn bound(word: &[u8]) -> Result<Bound<&[u8]>, Refusal> {
    match word {
        b"-" | b"+" => Ok(Bound::Unbounded),
        [b'[', key @ ..] => Ok(Bound::Included(key)),
        [b'(', key @ ..] => Ok(Bound::Excluded(key)),
        _ => Err(refusal::text("ERR min or max not valid string range item")),
    }
}

/// A range of keys; `None` if it is empty whatever there is (`+` as its start, `-` as its end).
pub fn range<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Option<Bounds<'a>>, Refusal> {
    let (start, end) = (bound(min)?, bound(max)?);
    Ok((min != b"+" && max != b"-").then(|| Bounds::new(start, end)))
}

/// The range that the words from `place` on name: all keys if there are none.
fn range_at<'c>(call: &Call<'c, '_>, place: usize) -> Result<Option<Bounds<'c>>, Refusal> {
    match call.args.len() - place {
        0 => Ok(Some(Bounds::from(..))),
        2 => range(call.args[place], call.args[place + 1]),
        _ => Err(refusal::SYNTAX),
    }
}

fn rows_of(call: &Call<'_, '_>, bounds: Option<&Bounds<'_>>) -> Result<u64, Refusal> {
    Ok(match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.count(bounds)?,
        _ => 0,
    })
}

fn count(call: &mut Call<'_, '_>) -> Answer {
    let bounds = range_at(call, 1)?;
    let rows = rows_of(call, bounds.as_ref())?;
    call.reply.integer(rows as i64);
    Ok(())
}

/// A run of `Q.COUNT min max`.
fn count_many(run: &mut Run<'_, '_>) -> Answer {
    let (mins, maxes) = (run.column(1), run.column(2));
    let mut bounds = Vec::with_capacity(mins.len());
    for (min, max) in mins.iter().zip(&maxes) {
        // One that is malformed, or empty by its words, sends all one by one.
        bounds.push(range(min, max).ok().flatten().ok_or(super::ONE_BY_ONE)?);
    }
    let counts = match run.data.tables(run.database) {
        Some(tables) => run.data.view(&tables.keys)?.count_many(&bounds)?,
        None => vec![0; bounds.len()],
    };
    counts.into_iter().for_each(|rows| run.reply.integer(rows as i64));
    Ok(())
}

fn rank(call: &mut Call<'_, '_>) -> Answer {
    let rank = match call.data.tables(call.session.database) {
        Some(tables) => call.data.view(&tables.keys)?.rank(call.args[1])?,
        None => 0,
    };
    call.reply.integer(rank as i64);
    Ok(())
}

/// A run of `Q.RANK key`.
fn rank_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    let ranks = match run.data.tables(run.database) {
        Some(tables) => run.data.view(&tables.keys)?.rank_many(&keys)?,
        None => vec![0; keys.len()],
    };
    ranks.into_iter().for_each(|rank| run.reply.integer(rank as i64));
    Ok(())
}

fn nth(call: &mut Call<'_, '_>) -> Answer {
    let offset = call.integer(1)?;
    let bounds = range_at(call, 2)?;
    let rows = if offset < 0 { rows_of(call, bounds.as_ref())? } else { 0 };
    let offset = if offset < 0 { rows.checked_sub(offset.unsigned_abs()) } else { Some(offset as u64) };
    let row = match (bounds, call.data.tables(call.session.database), offset) {
        (Some(bounds), Some(tables), Some(offset)) => call.data.view(&tables.keys)?.nth(&bounds, offset)?,
        _ => None,
    };
    answer_key(call.reply, row.as_ref());
    Ok(())
}

fn answer_key(reply: &mut Reply, row: Option<&Row>) {
    match row {
        Some(row) => reply.bulk(&row.key),
        None => reply.null(),
    }
}

/// A run of `Q.NTH offset`.
fn nth_many(run: &mut Run<'_, '_>) -> Answer {
    let words = run.column(1);
    // From the end, and what is no number, have answers of their own.
    let from_start = |word: &&[u8]| parse_i64(word).and_then(|offset| u64::try_from(offset).ok());
    let offsets: Vec<u64> =
        words.iter().map(|word| from_start(word).ok_or(super::ONE_BY_ONE)).collect::<Result<_, _>>()?;
    let Some(tables) = run.data.tables(run.database) else {
        offsets.iter().for_each(|_| run.reply.null());
        return Ok(());
    };
    for row in run.data.view(&tables.keys)?.nth_many(&offsets)? {
        answer_key(run.reply, row.as_ref());
    }
    Ok(())
}

/// The string of a row, or null of another kind.
fn answer_value(data: &Data<'_>, database: usize, row: &Row, reply: &mut Reply) -> quipu::Result<()> {
    match Entry::decode(&row.value) {
        Some(Entry { body: Body::Bytes(bytes), .. }) => reply.bulk(bytes),
        Some(entry) if entry.is_string() => {
            if let Some(string) = data.string_of(database, &row.key, &entry)? {
                reply.bulk_of(string.len(), |out| string.copy(0, string.len(), out))?;
            }
        }
        _ => reply.null(),
    }
    Ok(())
}

fn page(call: &mut Call<'_, '_>) -> Answer {
    let bounds = range(call.args[1], call.args[2])?;
    let (mut reverse, mut offset, mut limit, mut values, mut total) = (false, 0, u64::MAX, false, false);
    let mut place = 3;
    while let Some(word) = call.args.get(place) {
        match () {
            () if is_word(word, "rev") => reverse = true,
            () if is_word(word, "withvalues") => values = true,
            () if is_word(word, "withtotal") => total = true,
            () if is_word(word, "offset") || is_word(word, "limit") => {
                place += 1;
                let number = parse_u64(call.word(place)?).ok_or(refusal::NOT_INTEGER)?;
                if is_word(word, "offset") { offset = number } else { limit = number }
            }
            () => return Err(refusal::SYNTAX),
        }
        place += 1;
    }
    let rows = rows_of(call, bounds.as_ref())?;
    let wanted = rows.saturating_sub(offset).min(limit);
    let first = if reverse { rows.saturating_sub(offset).saturating_sub(wanted) } else { offset };
    let is_long = wanted > LONG_ROWS || (values && bytes_of(call, bounds.as_ref(), first, wanted)? > LONG_BYTES);
    let cost = if is_long { wanted.max(LONG_ROWS + 1) } else { wanted };
    call.expect_rows(cost)?;
    let database = call.session.database;
    let answer = if values { answer_pair } else { answer_name };
    // Values may be long: beside the loop, they are read as they are sent.
    let snapshot = call.in_pieces(if values { LONG_ROWS + 1 } else { cost });
    if let (Some(snapshot), Some(bounds), Some(tables)) = (snapshot, &bounds, call.data.tables(database)) {
        let keys = tables.keys.clone();
        let first = first + rows_before(&*call.data.view(&keys)?, bounds)?;
        begin_page(call.reply, rows, wanted, total, values);
        call.session.leave(RowPieces::new(snapshot, database, keys, first..first + wanted, reverse, answer));
        return Ok(());
    }
    let mut entries = match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) if wanted > 0 => {
            call.data.view(&tables.keys)?.page(&bounds, first, wanted as usize)?.entries
        }
        _ => Vec::new(),
    };
    if reverse {
        entries.reverse();
    }
    if values {
        let length = |row: &Row| Entry::decode(&row.value).map_or(0, |entry| entry.length());
        call.expect_bytes(entries.iter().map(length).sum())?;
    }
    begin_page(call.reply, rows, entries.len() as u64, total, values);
    for row in &entries {
        answer(call.data, database, row, call.reply)?;
    }
    Ok(())
}

/// Begins the answer of a page: the number of all keys if asked, and the array of those of the page.
fn begin_page(reply: &mut Reply, rows: u64, returned: u64, total: bool, values: bool) {
    if total {
        reply.array(2);
        reply.integer(rows as i64);
    }
    let is_flat = values && reply.protocol == Protocol::Resp2;
    reply.array(returned as usize * if is_flat { 2 } else { 1 });
}

fn answer_name(_: &Data<'_>, _: usize, row: &Row, reply: &mut Reply) -> quipu::Result<()> {
    reply.bulk(&row.key);
    Ok(())
}

/// A key and its value.
fn answer_pair(data: &Data<'_>, database: usize, row: &Row, reply: &mut Reply) -> quipu::Result<()> {
    if reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(&row.key);
    answer_value(data, database, row, reply)
}

/// How many rows of a table lie before a range.
fn rows_before(view: &TableView<'_>, bounds: &Bounds<'_>) -> Result<u64, Refusal> {
    let end = match bounds.start_bound() {
        Bound::Unbounded => return Ok(0),
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
    };
    Ok(view.count(Bounds::new(Bound::Unbounded, end))?)
}

/// How many bytes `wanted` rows of a range have together, from the one at offset `first` on.
fn bytes_of(call: &Call<'_, '_>, bounds: Option<&Bounds<'_>>, first: u64, wanted: u64) -> Result<u64, Refusal> {
    let (Some(bounds), Some(tables)) = (bounds, call.data.tables(call.session.database)) else { return Ok(0) };
    let view = call.data.view(&tables.keys)?;
    let all = view.tally(bounds)?.bytes;
    // Nearly always there is little.
    if all <= LONG_BYTES as i64 || wanted == 0 {
        return Ok(all.max(0) as u64);
    }
    let (Some(first), Some(last)) = (view.nth(bounds, first)?, view.nth(bounds, first + wanted - 1)?) else {
        return Ok(all as u64);
    };
    Ok(view.tally(Bounds::new(Bound::Included(&first.key), Bound::Included(&last.key)))?.bytes.max(0) as u64)
}

fn quantile(call: &mut Call<'_, '_>) -> Answer {
    let bounds = range(call.args[1], call.args[2])?;
    let mut quantiles = Vec::new();
    for word in &call.args[3..] {
        let number = parse_f64(word).filter(|number| (0.0..=1.0).contains(number));
        quantiles.push(number.ok_or(refusal::text("ERR a quantile is a number from 0 to 1"))?);
    }
    call.reply.array(quantiles.len());
    for q in quantiles {
        let row = match (&bounds, call.data.tables(call.session.database)) {
            (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.quantile(bounds, q)?,
            _ => None,
        };
        answer_key(call.reply, row.as_ref());
    }
    Ok(())
}

/// How many keys the answer may have, from the word at `place`.
fn answers(call: &Call<'_, '_>, place: usize) -> Result<usize, Refusal> {
    let number = parse_u64(call.word(place)?).ok_or(refusal::NOT_INTEGER)?;
    if number > ANSWERS_MAX {
        return Err(Refusal::new(format!("ERR {number} keys are over the limit of {ANSWERS_MAX}")));
    }
    Ok(number as usize)
}

fn sample(call: &mut Call<'_, '_>) -> Answer {
    let (bounds, wanted) = (range(call.args[1], call.args[2])?, answers(call, 3)?);
    call.expect_rows(wanted as u64 * 4)?;
    let rows = match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => {
            call.data.view(&tables.keys)?.sample(&bounds, wanted, &mut call.session.rng())?
        }
        _ => Vec::new(),
    };
    call.reply.array(rows.len());
    rows.iter().for_each(|row| call.reply.bulk(&row.key));
    Ok(())
}

fn split(call: &mut Call<'_, '_>) -> Answer {
    let (bounds, parts) = (range(call.args[1], call.args[2])?, answers(call, 3)?);
    if parts == 0 {
        return Err(refusal::text("ERR a range has one part at least"));
    }
    call.expect_rows(parts as u64 * 4)?;
    let keys = match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.split_points(&bounds, parts)?,
        _ => Vec::new(),
    };
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn tally(call: &mut Call<'_, '_>) -> Answer {
    let tally = match (range_at(call, 1)?, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => {
            let tally = call.data.view(&tables.keys)?.tally(&bounds)?;
            // The bytes of long strings that do not stand at their keys.
            let further = call.data.view(&tables.owners)?.tally(&bounds)?.sum;
            quipu::Tally { bytes: tally.bytes + further, ..tally }
        }
        _ => quipu::Tally::ZERO,
    };
    call.reply.map(3);
    call.reply.bulk(b"rows");
    call.reply.integer(tally.rows);
    call.reply.bulk(b"bytes");
    call.reply.integer(tally.bytes);
    call.reply.bulk(b"hash");
    call.reply.bulk(format!("{:016x}", tally.hash).as_bytes());
    Ok(())
}

fn remove_range(call: &mut Call<'_, '_>) -> Answer {
    let removed = match range(call.args[1], call.args[2])? {
        Some(bounds) => call.data.remove_range(call.session.database, &bounds)?,
        None => 0,
    };
    call.reply.integer(removed as i64);
    Ok(())
}
