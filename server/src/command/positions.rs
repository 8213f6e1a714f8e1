//! What Redis lacks: counts, ranks, offsets, quantiles, samples and cuts of the ordered keys.

use quipu::{Bounds, Read};

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, Run, refusal};

const READ: Flags = Flags::READ.and(Flags::FAST).and(Flags::EXACT);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("q.count", 3, READ, Group::Ordered, count)
        .about("min max", "How many keys lie in a range.", "0.1.0")
        .costs("O(log n)", "")
        .many(&[(3, count_many)]),
    Spec::new("q.rank", 2, READ, Group::Ordered, rank)
        .about("key", "How many keys lie below a key, present or not.", "0.1.0")
        .costs("O(log n)", "")
        .many(&[(2, rank_many)]),
    Spec::new("q.nth", -2, READ, Group::Ordered, nth)
        .about("offset [min max]", "The key at an offset of a range, or of all keys.", "0.1.0")
        .costs("O(log n)", "")
        .many(&[(2, nth_many)]),
];

/// A bound of a range of keys, as ZRANGEBYLEX has it: `-`, `+`, `[key`, `(key`.
fn bound(word: &[u8]) -> Result<std::ops::Bound<&[u8]>, Refusal> {
    match word {
        b"-" | b"+" => Ok(std::ops::Bound::Unbounded),
        [b'[', key @ ..] => Ok(std::ops::Bound::Included(key)),
        [b'(', key @ ..] => Ok(std::ops::Bound::Excluded(key)),
        _ => Err(refusal::text("ERR min or max not valid string range item")),
    }
}

/// A range of keys; `None` if it is empty whatever there is (`+` as its start, `-` as its end).
pub fn range<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Option<Bounds<'a>>, Refusal> {
    let (start, end) = (bound(min)?, bound(max)?);
    Ok((min != b"+" && max != b"-").then(|| Bounds::new(start, end)))
}

fn count(call: &mut Call<'_, '_>) -> Answer {
    let rows = match (range(call.args[1], call.args[2])?, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.count(&bounds)?,
        _ => 0,
    };
    call.reply.integer(rows as i64);
    Ok(())
}

fn count_many(_: &mut Run<'_, '_>) -> Answer {
    Err(super::ONE_BY_ONE)
}

fn rank(call: &mut Call<'_, '_>) -> Answer {
    let rank = match call.data.tables(call.session.database) {
        Some(tables) => call.data.view(&tables.keys)?.rank(call.args[1])?,
        None => 0,
    };
    call.reply.integer(rank as i64);
    Ok(())
}

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
    let offset = offset(call.args[1])?;
    let bounds = match call.args.len() {
        2 => Some(Bounds::from(..)),
        4 => range(call.args[2], call.args[3])?,
        _ => return Err(refusal::SYNTAX),
    };
    let entry = match (bounds, call.data.tables(call.session.database)) {
        (Some(bounds), Some(tables)) => call.data.view(&tables.keys)?.nth(&bounds, offset)?,
        _ => None,
    };
    match entry {
        Some(entry) => call.reply.bulk(&entry.key),
        None => call.reply.null(),
    }
    Ok(())
}

fn offset(word: &[u8]) -> Result<u64, Refusal> {
    crate::resp::number::parse_u64(word).ok_or(refusal::NOT_INTEGER)
}

fn nth_many(run: &mut Run<'_, '_>) -> Answer {
    let offsets: Vec<u64> = run.column(1).into_iter().map(offset).collect::<Result<_, _>>()?;
    let Some(tables) = run.data.tables(run.database) else {
        offsets.iter().for_each(|_| run.reply.null());
        return Ok(());
    };
    for entry in run.data.view(&tables.keys)?.nth_many(&offsets)? {
        match entry {
            Some(entry) => run.reply.bulk(&entry.key),
            None => run.reply.null(),
        }
    }
    Ok(())
}
