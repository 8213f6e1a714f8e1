//! Commands that Redis lacks: counts, ranks, offsets, quantiles, samples and split points of a database's ordered keys.
//!
//! Bounds are written as for ZRANGEBYLEX: `-` is before all keys and `+` after them, `[key` includes the key, `(key`
//! does not. A key of any kind counts as one.

use std::ops::Bound;

use quipu::{Bounds, Entry as Row, ReadableTable};

use super::pieces::RowPieces;
use super::strings::answer_string;
use super::{Call, CommandResult, EntityCall, Handler, Refusal, Run, entity_handler, is_word, refusal};
use crate::entities::{Entities, PageAsked, PagePart, SnapshotRows, Value};
use crate::keyspace::Data;
use crate::resp::number::{parse_f64, parse_i64, parse_u64};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::word;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    entity_handler!("q.count", count).many(&[(3, count_many)]),
    entity_handler!("q.rank", rank).many(&[(2, rank_many)]),
    entity_handler!("q.nth", nth).many(&[(2, nth_many)]),
    entity_handler!("q.range", page),
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
        _ => word::bound(word).ok_or(refusal::NOT_BOUND),
    }
}

/// A range of keys; `None` if it is empty whatever there is (`+` as its start, `-` as its end).
pub fn range<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Option<Bounds<'a>>, Refusal> {
    let (start, end) = (bound(min)?, bound(max)?);
    Ok((min != b"+" && max != b"-").then(|| Bounds::new(start, end)))
}

/// The range that the words from `place` on name: all keys if there are none.
fn range_at<'c>(args: &[&'c [u8]], place: usize) -> Result<Option<Bounds<'c>>, Refusal> {
    match args[place..] {
        [] => Ok(Some(Bounds::from(..))),
        [min, max] => range(min, max),
        _ => Err(refusal::SYNTAX),
    }
}

fn count<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let rows = call.entities.count(range_at(call.args, 1)?.as_ref())?;
    call.reply.integer(rows as i64);
    Ok(())
}

/// A run of `Q.COUNT min max`.
fn count_many(run: &mut Run<'_, '_>) -> CommandResult {
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

fn rank<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let rank = call.entities.rank(call.args[1])?;
    call.reply.integer(rank as i64);
    Ok(())
}

/// A run of `Q.RANK key`.
fn rank_many(run: &mut Run<'_, '_>) -> CommandResult {
    let keys = run.column(1);
    let ranks = match run.data.tables(run.database) {
        Some(tables) => run.data.view(&tables.keys)?.rank_many(&keys)?,
        None => vec![0; keys.len()],
    };
    ranks.into_iter().for_each(|rank| run.reply.integer(rank as i64));
    Ok(())
}

fn nth<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let offset = call.integer(1)?;
    let range = range_at(call.args, 2)?;
    let offset = match u64::try_from(offset) {
        Ok(offset) => Some(offset),
        Err(_) => call.entities.count(range.as_ref())?.checked_sub(offset.unsigned_abs()),
    };
    let key = offset.map(|offset| call.entities.nth(range.as_ref(), offset)).transpose()?.flatten();
    match key {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

fn answer_key(reply: &mut Reply, row: Option<&Row>) {
    match row {
        Some(row) => reply.bulk(&row.key),
        None => reply.null(),
    }
}

/// A run of `Q.NTH offset`.
fn nth_many(run: &mut Run<'_, '_>) -> CommandResult {
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

/// Reads the options of `Q.RANGE`: `[REV] [OFFSET n] [LIMIT n] [WITHVALUES] [WITHTOTAL]`.
fn page_options(words: &[&[u8]]) -> Result<PageAsked, Refusal> {
    let mut asked = PageAsked { is_reverse: false, offset: 0, limit: u64::MAX, with_values: false, with_total: false };
    let mut left = words.iter();
    while let Some(word) = left.next() {
        match () {
            () if is_word(word, "rev") => asked.is_reverse = true,
            () if is_word(word, "withvalues") => asked.with_values = true,
            () if is_word(word, "withtotal") => asked.with_total = true,
            () if is_word(word, "offset") || is_word(word, "limit") => {
                let number = left.next().ok_or(refusal::SYNTAX)?;
                let number = parse_u64(number).ok_or(refusal::NOT_INTEGER)?;
                if is_word(word, "offset") { asked.offset = number } else { asked.limit = number }
            }
            () => return Err(refusal::SYNTAX),
        }
    }
    Ok(asked)
}

fn page<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let range = range(call.args[1], call.args[2])?;
    let asked = page_options(&call.args[3..])?;
    let EntityCall { entities, session, reply, .. } = call;
    entities.page(range.as_ref(), &asked, |part| {
        match part {
            PagePart::Begin { total, rows } => {
                if asked.with_total {
                    reply.array(2);
                    reply.integer(total as i64);
                }
                let is_flat = asked.with_values && reply.protocol == Protocol::Resp2;
                reply.array(rows as usize * if is_flat { 2 } else { 1 });
            }
            PagePart::Row(key, None) => reply.bulk(key),
            PagePart::Row(key, Some(value)) => answer_pair(reply, key, &value)?,
            PagePart::Rows(SnapshotRows { snapshot, keys, rows }) => {
                let answer = if asked.with_values { answer_row } else { answer_name };
                session.leave(RowPieces::new(snapshot, session.database, keys, rows, asked.is_reverse, answer));
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn answer_name(_: &Data<'_>, _: usize, row: &Row, reply: &mut Reply) -> quipu::Result<()> {
    reply.bulk(&row.key);
    Ok(())
}

fn answer_row(data: &Data<'_>, database: usize, row: &Row, reply: &mut Reply) -> quipu::Result<()> {
    answer_pair(reply, &row.key, &Value::of_row(data, database, row)?)
}

/// A key and its string, or null if it has something else.
fn answer_pair(reply: &mut Reply, key: &[u8], value: &Value<'_>) -> quipu::Result<()> {
    if reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(key);
    match value {
        Value::String(string) => answer_string(reply, string)?,
        _ => reply.null(),
    }
    Ok(())
}

fn quantile(call: &mut Call<'_, '_>) -> CommandResult {
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

fn sample(call: &mut Call<'_, '_>) -> CommandResult {
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

fn split(call: &mut Call<'_, '_>) -> CommandResult {
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

fn tally(call: &mut Call<'_, '_>) -> CommandResult {
    let tally = match (range_at(call.args, 1)?, call.data.tables(call.session.database)) {
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

fn remove_range(call: &mut Call<'_, '_>) -> CommandResult {
    let removed = match range(call.args[1], call.args[2])? {
        Some(bounds) => call.data.remove_range(call.session.database, &bounds)?,
        None => 0,
    };
    call.reply.integer(removed as i64);
    Ok(())
}
