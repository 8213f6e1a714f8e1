//! Runs of the same sorted-set command: their descents are interleaved, so that they wait for memory together.
//!
//! A run answers exactly as its commands would one by one. What it cannot do (another kind at a key, a word that is not
//! a number) it leaves to them.

use std::collections::HashSet;

use quipu::{ReadableTable, Result};

use super::sorted_set_words::{answer_score, check_member, id_of, rank_part, score, score_bounds};
use super::{CommandResult, LONG_ROWS, ONE_BY_ONE, Refusal, Run};
use crate::keyspace::sorted_set::{Found, SortedSet, Span, score_key, scores_many};
use crate::keyspace::sorted_set_writer::{Scoring, Writer, bytes_of_change};
use crate::keyspace::value::{CollectionId, Kind};
use crate::resp::number;

impl Run<'_, '_> {
    /// The ids of the sorted sets at the commands' keys. Left to the commands themselves if one holds something else.
    fn sorted_set_ids(&self, counts: bool) -> Result<Vec<Option<CollectionId>>, Refusal> {
        let mut ids: Vec<Option<CollectionId>> = Vec::with_capacity(self.len());
        let mut last: Option<&[u8]> = None;
        for key in self.column(1) {
            let id = match (last, ids.last()) {
                (Some(last), Some(id)) if last == key => *id,
                _ => id_of(self.data.entry(self.database, key)?).map_err(|_| ONE_BY_ONE)?,
            };
            ids.push(id);
            last = Some(key);
        }
        if counts {
            let hits = ids.iter().flatten().count() as u64;
            self.data.note_lookups(hits, ids.len() as u64 - hits);
        }
        Ok(ids)
    }

    /// All members of each set. Those of the same set are found once.
    fn all_of(&self, ids: &[Option<CollectionId>]) -> Result<Vec<Option<Found>>, Refusal> {
        let mut all: Vec<Option<Found>> = Vec::with_capacity(ids.len());
        for (number, id) in ids.iter().enumerate() {
            let found = match id {
                None => None,
                Some(_) if number > 0 && ids[number - 1] == *id => all[number - 1],
                Some(id) => Some(SortedSet::open(self.data, self.database, *id)?.all()?),
            };
            all.push(found);
        }
        Ok(all)
    }
}

/// A run of `ZSCORE key member`.
pub(super) fn zscore(run: &mut Run<'_, '_>) -> CommandResult {
    for score in scores(run)?.1 {
        answer_score(run.reply, score);
    }
    Ok(())
}

type Scores = (Vec<Option<CollectionId>>, Vec<Option<f64>>);

/// The sets at the keys, and the scores of the members after them.
fn scores(run: &Run<'_, '_>) -> Result<Scores, Refusal> {
    let ids = run.sorted_set_ids(true)?;
    let scores = match run.data.tables(run.database) {
        None => vec![None; run.len()],
        Some(tables) => scores_many(run.data, tables, &ids, &run.column(2))?,
    };
    Ok((ids, scores))
}

/// A run of `ZRANK key member`.
pub(super) fn zrank(run: &mut Run<'_, '_>) -> CommandResult {
    ranks(run, false)
}

/// A run of `ZREVRANK key member`.
pub(super) fn zrevrank(run: &mut Run<'_, '_>) -> CommandResult {
    ranks(run, true)
}

fn ranks(run: &mut Run<'_, '_>, reverse: bool) -> CommandResult {
    let (ids, scores) = scores(run)?;
    let members = run.column(2);
    let mut keys = Vec::with_capacity(members.len());
    for ((id, score), member) in ids.iter().zip(&scores).zip(&members) {
        if let (Some(id), Some(score)) = (id, score) {
            keys.push(score_key(*id, *score, member));
        }
    }
    let mut ranks = match run.data.tables(run.database) {
        None => Vec::new(),
        Some(tables) => run.data.view(&tables.elements)?.rank_many(&keys)?,
    }
    .into_iter();
    let all = run.all_of(&ids)?;
    for (score, all) in scores.into_iter().zip(all) {
        match (score, all) {
            (Some(_), Some(all)) => {
                let rank = all.offset_of(ranks.next().unwrap_or_default());
                run.reply.integer(if reverse { all.rows - 1 - rank } else { rank } as i64);
            }
            _ => run.reply.null(),
        }
    }
    Ok(())
}

/// A run of `ZCOUNT key min max`.
pub(super) fn zcount(run: &mut Run<'_, '_>) -> CommandResult {
    let bounds: Option<Vec<_>> =
        run.column(2).into_iter().zip(run.column(3)).map(|(min, max)| score_bounds(min, max)).collect();
    let bounds = bounds.ok_or(ONE_BY_ONE)?;
    let ids = run.sorted_set_ids(true)?;
    let mut keys = Vec::with_capacity(bounds.len() * 2);
    for (id, (min, max)) in ids.iter().zip(bounds) {
        if let Some(id) = id {
            let Span { start, end } = Span::of_scores(*id, min, max);
            keys.extend([start, end]);
        }
    }
    let ranks = match run.data.tables(run.database) {
        None => Vec::new(),
        Some(tables) => run.data.view(&tables.elements)?.rank_many(&keys)?,
    };
    let mut counts = ranks.chunks_exact(2).map(|pair| pair[1].saturating_sub(pair[0]));
    for id in ids {
        let members = id.and_then(|_| counts.next()).unwrap_or_default();
        run.reply.integer(members as i64);
    }
    Ok(())
}

/// A run of `ZRANGE key start stop`.
pub(super) fn zrange(run: &mut Run<'_, '_>) -> CommandResult {
    let parse = |words: Vec<&[u8]>| -> Option<Vec<i64>> { words.into_iter().map(number::parse_i64).collect() };
    let (Some(starts), Some(stops)) = (parse(run.column(2)), parse(run.column(3))) else { return Err(ONE_BY_ONE) };
    let ids = run.sorted_set_ids(true)?;
    let all = run.all_of(&ids)?;
    let parts: Vec<Option<Found>> = all
        .into_iter()
        .zip(starts.iter().zip(&stops))
        .map(|(all, (start, stop))| {
            let all = all?;
            let (offset, rows) = rank_part(*start, *stop, all.rows)?;
            Some(all.part(offset, rows))
        })
        .collect();
    if parts.iter().flatten().map(|part| part.rows).sum::<u64>() > LONG_ROWS {
        return Err(ONE_BY_ONE);
    }
    if let Some(tables) = run.data.tables(run.database) {
        // Rows that are not used: the descents fetch, all together, the pages in which each range then begins.
        let offsets: Vec<u64> = parts.iter().flatten().map(|part| part.base()).collect();
        run.data.view(&tables.elements)?.nth_many(&offsets)?;
    }
    let reply = &mut *run.reply;
    for (id, part) in ids.into_iter().zip(parts) {
        match (id, part) {
            (Some(id), Some(part)) => {
                reply.array(part.rows as usize);
                SortedSet::open(run.data, run.database, id)?.walk(part, false, |member, _| reply.bulk(member))?;
            }
            _ => reply.array(0),
        }
    }
    Ok(())
}

/// A run of `ZADD key score member`.
pub(super) fn zadd(run: &mut Run<'_, '_>) -> CommandResult {
    let (keys, members) = (run.column(1), run.column(3));
    run.reserve(&keys, members.iter().map(|member| bytes_of_change(member)).sum())?;
    if members.iter().any(|member| check_member(member).is_err()) {
        return Err(ONE_BY_ONE);
    }
    let given: Vec<f64> = run.column(2).into_iter().map(score).collect::<Result<_, _>>().map_err(|_| ONE_BY_ONE)?;
    // Nothing is written before all keys are known to hold sorted sets, or nothing.
    run.sorted_set_ids(false)?;
    let mut start = 0;
    while start < keys.len() {
        // Commands with one key and different members: what each finds does not hang on the others.
        let mut seen = HashSet::new();
        let end =
            (start..keys.len()).find(|&at| keys[at] != keys[start] || !seen.insert(members[at])).unwrap_or(keys.len());
        add_to_one(run, keys[start], &members[start..end], &given[start..end])?;
        start = end;
    }
    Ok(())
}

fn add_to_one(run: &mut Run<'_, '_>, key: &[u8], members: &[&[u8]], given: &[f64]) -> CommandResult {
    let database = run.database;
    let existing = id_of(run.data.entry(database, key)?)?;
    let old = match existing {
        None => vec![None; members.len()],
        Some(id) => {
            scores_many(run.data, run.data.tables_to_write(database)?, &vec![Some(id); members.len()], members)?
        }
    };
    let mut scorings = Vec::with_capacity(members.len());
    for ((&member, &new), old) in members.iter().zip(given).zip(old) {
        if old != Some(new) {
            scorings.push(Scoring { member, old, new });
        }
        run.reply.integer(i64::from(old.is_none()));
    }
    if scorings.is_empty() {
        return Ok(());
    }
    let id = match existing {
        Some(id) => id,
        None => run.data.collection_to_write(database, key, Kind::SortedSet)?,
    };
    let written = Writer::open(run.data, database, id)?.put_many(&scorings);
    if written.is_err() && existing.is_none() && SortedSet::open(run.data, database, id)?.is_empty()? {
        run.data.remove(database, key)?;
    }
    run.data.touch(database, key);
    Ok(written?)
}
