//! What Redis lacks: counts, ranks, offsets, quantiles, samples and cuts of the ordered keys of a database.
//!
//! Bounds are those of ZRANGEBYLEX: `-` and `+` are before and behind everything, `[key` includes the key, `(key` does not. Keys of every kind count as one.

use std::ops::Bound;

use quipu::{Bounds, Entry as Row, Read};

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, Run, is_word, refusal};
use crate::keyspace::value::{Entry, Kind};
use crate::resp::number::{parse_f64, parse_i64, parse_u64};
use crate::resp::reply::{Protocol, Reply};

const READ: Flags = Flags::READ.and(Flags::FAST).and(Flags::EXACT);
const SLOW_READ: Flags = Flags::READ.and(Flags::EXACT);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("q.count", -1, READ, Group::Ordered, count)
        .about("[min max]", "How many keys lie in a range, or in all.", "0.1.0")
        .costs("O(log n)", "")
        .many(&[(3, count_many)]),
    Spec::new("q.rank", 2, READ, Group::Ordered, rank)
        .about("key", "How many keys lie below a key, present or not.", "0.1.0")
        .costs("O(log n)", "")
        .many(&[(2, rank_many)]),
    Spec::new("q.nth", -2, READ, Group::Ordered, nth)
        .about(
            "offset [min max]",
            "The key at an offset of a range, or of all keys; a negative offset counts from the end.",
            "0.1.0",
        )
        .costs("O(log n)", "")
        .many(&[(2, nth_many)]),
    Spec::new("q.range", -3, SLOW_READ, Group::Ordered, page)
        .about(
            "min max [REV] [OFFSET n] [LIMIT n] [WITHVALUES] [WITHTOTAL]",
            "Keys of a range from an offset on, with their strings and the exact number of all if asked.",
            "0.1.0",
        )
        .costs("O(log n + keys returned)", ""),
    Spec::new("q.quantile", -4, READ, Group::Ordered, quantile)
        .about("min max q [q ...]", "The keys at quantiles (0 to 1, nearest rank) of a range.", "0.1.0")
        .costs("O(log n) a quantile", ""),
    Spec::new("q.sample", 4, READ, Group::Ordered, sample)
        .about("min max n", "Different keys of a range, each as likely as any other, in key order.", "0.1.0")
        .costs("O(log n) a key", ""),
    Spec::new("q.split", 4, READ, Group::Ordered, split)
        .about("min max parts", "Keys that cut a range into parts of equal counts.", "0.1.0")
        .costs("O(log n) a part", ""),
    Spec::new("q.tally", -1, READ, Group::Ordered, tally)
        .about("[min max]", "Rows, bytes and hash of a range: equal hashes tell equal content.", "0.1.0")
        .costs("O(log n)", ""),
    Spec::new("q.delrange", 3, Flags::WRITE.and(Flags::EXACT), Group::Ordered, remove_range)
        .about("min max", "Removes all keys of a range and tells how many there were.", "0.1.0")
        .costs("O(keys removed)", ""),
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
fn answer_value(reply: &mut Reply, row: &Row) {
    match Entry::decode(&row.value) {
        Some(entry) if entry.header.kind == Kind::String => reply.bulk(entry.body),
        _ => reply.null(),
    }
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
    call.expect_rows(wanted)?;
    let first = if reverse { rows.saturating_sub(offset).saturating_sub(wanted) } else { offset };
    let mut entries = match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) if wanted > 0 => {
            call.data.view(&tables.keys)?.page(&bounds, first, wanted as usize)?.entries
        }
        _ => Vec::new(),
    };
    if reverse {
        entries.reverse();
    }
    let reply = &mut *call.reply;
    if total {
        reply.array(2);
        reply.integer(rows as i64);
    }
    let pairs = values && reply.protocol == Protocol::Resp3;
    reply.array(entries.len() * if values && !pairs { 2 } else { 1 });
    for row in &entries {
        if pairs {
            reply.array(2);
        }
        reply.bulk(&row.key);
        if values {
            answer_value(reply, row);
        }
    }
    Ok(())
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
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.sample(&bounds, wanted, &mut rand::rng())?,
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
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.split(&bounds, parts)?,
        _ => Vec::new(),
    };
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn tally(call: &mut Call<'_, '_>) -> Answer {
    let tally = match (range_at(call, 1)?, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.tally(&bounds)?,
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
