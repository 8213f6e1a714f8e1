//! Adds, reads and removes members of sorted sets. Ranges, algebra and iteration have files of their own.
//!
//! Differences from Redis: a score of -0 is kept as 0. A count of `ZRANDMEMBER` below -16777216 is refused.

use rand::RngExt;

use super::sorted_set_words::{Members, answer_member, answer_score, begin_members, check_member, score};
use super::{Call, CommandResult, Handler, Refusal, check_key, is_word, refusal, sorted_set_runs as runs};
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::sorted_set_writer::{Scoring, Writer, bytes_of_change};
use crate::keyspace::value::Kind;
use crate::resp::number;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("zadd", zadd).many(&[(4, runs::zadd)]),
    Handler::new("zincrby", zincrby),
    Handler::new("zcard", zcard),
    Handler::new("zscore", zscore).many(&[(3, runs::zscore)]),
    Handler::new("zmscore", zmscore),
    Handler::new("zrank", zrank).many(&[(3, runs::zrank)]),
    Handler::new("zrevrank", zrevrank).many(&[(3, runs::zrevrank)]),
    Handler::new("zrem", zrem),
    Handler::new("zpopmin", zpopmin),
    Handler::new("zpopmax", zpopmax),
    Handler::new("zmpop", zmpop),
    Handler::new("zrandmember", zrandmember),
];

/// The most members that `ZRANDMEMBER` draws with repetition: some hundred MB of answer.
const DRAWN_MAX: u64 = 1 << 24;

/// What `ZADD` is told beside scores.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    adds_up: bool,
}

/// What `ZADD` makes of a member.
enum Outcome {
    Nothing,
    Put(f64),
}

impl AddOptions {
    /// Reads the options that words begin with. Returns what follows: scores and members in turn.
    fn read<'w, 'a>(&mut self, words: &'w [&'a [u8]]) -> Result<&'w [&'a [u8]], Refusal> {
        let mut place = 0;
        while let Some(&word) = words.get(place) {
            let flag = match word {
                _ if is_word(word, "nx") => &mut self.only_new,
                _ if is_word(word, "xx") => &mut self.only_old,
                _ if is_word(word, "gt") => &mut self.only_greater,
                _ if is_word(word, "lt") => &mut self.only_less,
                _ if is_word(word, "ch") => &mut self.counts_changed,
                _ if is_word(word, "incr") => &mut self.adds_up,
                _ => break,
            };
            *flag = true;
            place += 1;
        }
        let pairs = &words[place..];
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(refusal::SYNTAX);
        }
        if self.only_new && self.only_old {
            return Err(refusal::text("ERR XX and NX options at the same time are not compatible"));
        }
        if self.only_new && (self.only_greater || self.only_less) || self.only_greater && self.only_less {
            return Err(refusal::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.adds_up && pairs.len() > 2 {
            return Err(refusal::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(pairs)
    }

    fn decide(self, old: Option<f64>, given: f64) -> Result<Outcome, Refusal> {
        let Some(old) = old else {
            return Ok(if self.only_old { Outcome::Nothing } else { Outcome::Put(given) });
        };
        if self.only_new {
            return Ok(Outcome::Nothing);
        }
        let new = if self.adds_up { old + given } else { given };
        if new.is_nan() {
            return Err(refusal::text("ERR resulting score is not a number (NaN)"));
        }
        let is_held = self.only_less && new >= old || self.only_greater && new <= old;
        Ok(if is_held { Outcome::Nothing } else { Outcome::Put(new) })
    }
}

fn zadd(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, AddOptions::default())
}

fn zincrby(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, AddOptions { adds_up: true, ..AddOptions::default() })
}

fn add(call: &mut Call<'_, '_>, mut options: AddOptions) -> CommandResult {
    let key = call.args[1];
    let pairs = options.read(&call.args[2..])?;
    let AddOptions { only_old, counts_changed, adds_up, .. } = options;
    let scores: Vec<f64> = pairs.iter().step_by(2).map(|word| score(word)).collect::<Result<_, _>>()?;
    let members = || pairs.iter().skip(1).step_by(2);
    let existing = call.sorted_set_to_change(key)?;
    if existing.is_none() && only_old {
        if adds_up {
            call.reply.null()
        } else {
            call.reply.integer(0)
        }
        return Ok(());
    }
    check_key(key)?;
    members().try_for_each(|member| check_member(member))?;
    let database = call.database();
    call.data.reserve(database, &[key], members().map(|member| bytes_of_change(member)).sum())?;
    let id = match existing {
        Some(id) => id,
        None => call.data.collection_to_write(database, key, Kind::SortedSet)?,
    };
    let mut writer = Writer::open(call.data, database, id)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    let mut put_all = || -> CommandResult {
        for (member, &given) in members().zip(&scores) {
            let old = writer.set()?.score(member)?;
            let Outcome::Put(new) = options.decide(old, given)? else { continue };
            last = Some(new);
            if old != Some(new) {
                writer.put(Scoring { member, old, new })?;
                if old.is_none() { added += 1 } else { changed += 1 }
            }
        }
        Ok(())
    };
    let outcome = put_all();
    if added + changed > 0 {
        call.data.touch(database, key);
    } else if existing.is_none() {
        // The first member could not be put: no key without members.
        call.data.remove(database, key)?;
    }
    outcome?;
    match last {
        Some(score) if adds_up => call.reply.double(score),
        None if adds_up => call.reply.null(),
        _ => call.reply.integer(if counts_changed { added + changed } else { added }),
    }
    Ok(())
}

fn zcard(call: &mut Call<'_, '_>) -> CommandResult {
    let members = call.sorted_set(call.args[1])?.map_or(Ok(0), |set| set.len())?;
    call.reply.integer(members as i64);
    Ok(())
}

fn zscore(call: &mut Call<'_, '_>) -> CommandResult {
    let score = call.sorted_set(call.args[1])?.map_or(Ok(None), |set| set.score(call.args[2]))?;
    answer_score(call.reply, score);
    Ok(())
}

fn zmscore(call: &mut Call<'_, '_>) -> CommandResult {
    let members = &call.args[2..];
    let scores = match call.sorted_set(call.args[1])? {
        None => vec![None; members.len()],
        Some(set) => members.iter().map(|member| set.score(member)).collect::<quipu::Result<_>>()?,
    };
    call.reply.array(members.len());
    scores.into_iter().for_each(|score| answer_score(call.reply, score));
    Ok(())
}

fn zrank(call: &mut Call<'_, '_>) -> CommandResult {
    rank(call, false)
}

fn zrevrank(call: &mut Call<'_, '_>) -> CommandResult {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_>, reverse: bool) -> CommandResult {
    let with_score = match call.args {
        [_, _, _] => false,
        [_, _, _, word] if is_word(word, "withscore") => true,
        // As before the option was there.
        _ => {
            return Err(Refusal::new(format!("ERR wrong number of arguments for '{}' command", call.spec.name)));
        }
    };
    let member = call.args[2];
    let mut found = None;
    if let Some(set) = call.sorted_set(call.args[1])?
        && let Some(score) = set.score(member)?
    {
        let rank = set.rank(member, score)?;
        found = Some((if reverse { set.len()? - 1 - rank } else { rank }, score));
    }
    match found {
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
        Some((rank, score)) => {
            if with_score {
                call.reply.array(2);
            }
            call.reply.integer(rank as i64);
            if with_score {
                call.reply.double(score);
            }
        }
    }
    Ok(())
}

fn zrem(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, database) = (call.args[1], call.database());
    let Some(id) = call.sorted_set_to_change(key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut writer = Writer::open(call.data, database, id)?;
    let mut removed = 0;
    for member in &call.args[2..] {
        let score = writer.set()?.score(member)?;
        if let Some(score) = score {
            writer.remove(member, score)?;
            removed += 1;
        }
    }
    if removed > 0 {
        let is_empty = writer.set()?.is_empty()?;
        call.data.touch(database, key);
        if is_empty {
            call.data.remove(database, key)?;
        }
    }
    call.reply.integer(removed);
    Ok(())
}

/// The count that a word spells, not below `min`.
fn count(word: &[u8], min: i64, otherwise: &'static str) -> Result<u64, Refusal> {
    match number::parse_i64(word) {
        Some(number) if number >= min => Ok(number as u64),
        _ => Err(refusal::text(otherwise)),
    }
}

fn zpopmin(call: &mut Call<'_, '_>) -> CommandResult {
    pop_one(call, false)
}

fn zpopmax(call: &mut Call<'_, '_>) -> CommandResult {
    pop_one(call, true)
}

fn pop_one(call: &mut Call<'_, '_>, highest: bool) -> CommandResult {
    let members = match call.args {
        [_, _] => None,
        [_, _, word] => Some(count(word, 0, "ERR value is out of range, must be positive")?),
        _ => return Err(refusal::SYNTAX),
    };
    let popped = pop(call, call.args[1], members.unwrap_or(1), highest)?.unwrap_or_default();
    if members.is_some() || popped.is_empty() {
        begin_members(call.reply, popped.len() as u64, true);
        popped.iter().for_each(|(member, score)| answer_member(call.reply, member, *score, true));
    } else {
        // Without a count the pair stands alone, in either protocol.
        call.reply.array(2);
        for (member, score) in &popped {
            call.reply.bulk(member);
            call.reply.double(*score);
        }
    }
    Ok(())
}

/// Removes members at one end of the set at a key, if there is one.
fn pop(call: &mut Call<'_, '_>, key: &[u8], members: u64, highest: bool) -> Result<Option<Members>, Refusal> {
    let Some(id) = call.sorted_set_to_change(key)? else { return Ok(None) };
    let mut popped = Vec::new();
    let (all, found) = {
        let set = call.sorted_set_with(id)?;
        let all = set.all()?;
        let found = if highest { all.part_from_end(0, members) } else { all.part(0, members) };
        set.walk(found, highest, |member, score| popped.push((member.to_vec(), score)))?;
        (all, found)
    };
    call.remove_members(key, id, found, all.rows)?;
    Ok(Some(popped))
}

fn zmpop(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = count(call.args[1], 1, "ERR numkeys should be greater than 0")?;
    let Some(end) = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(2)) else {
        return Err(refusal::SYNTAX);
    };
    let highest = match call.word(end)? {
        word if is_word(word, "min") => false,
        word if is_word(word, "max") => true,
        _ => return Err(refusal::SYNTAX),
    };
    let members = match &call.args[end + 1..] {
        [] => 1,
        [word, number] if is_word(word, "count") => count(number, 1, "ERR count should be greater than 0")?,
        [word, number, ..] if is_word(word, "count") => {
            count(number, 1, "ERR count should be greater than 0")?;
            return Err(refusal::SYNTAX);
        }
        _ => return Err(refusal::SYNTAX),
    };
    for key in &call.args[2..end] {
        if let Some(popped) = pop(call, key, members, highest)? {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(popped.len());
            for (member, score) in &popped {
                call.reply.array(2);
                call.reply.bulk(member);
                call.reply.double(*score);
            }
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}

fn zrandmember(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.args[1];
    let mut rng = call.session.rng();
    if call.args.len() == 2 {
        let mut drawn = None;
        if let Some(set) = call.sorted_set(key)? {
            let all = set.all()?;
            set.walk(all.part(rng.random_range(0..all.rows.max(1)), 1), false, |member, _| {
                drawn = Some(member.to_vec())
            })?;
        }
        match drawn {
            Some(member) => call.reply.bulk(&member),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let wanted = call.integer(2)?;
    if wanted == i64::MIN {
        return Err(Refusal::new(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        )));
    }
    let with_scores = match &call.args[3..] {
        [] => false,
        [word] if is_word(word, "withscores") => true,
        _ => return Err(refusal::SYNTAX),
    };
    if with_scores && wanted.unsigned_abs() > i64::MAX as u64 / 2 || wanted < 0 && wanted.unsigned_abs() > DRAWN_MAX {
        return Err(refusal::text("ERR value is out of range"));
    }
    let Some(id) = call.sorted_set_id(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let all = call.sorted_set_with(id)?.all()?;
    let rows = if wanted < 0 { wanted.unsigned_abs() } else { all.rows.min(wanted as u64) };
    call.expect_rows(rows)?;
    let set = SortedSet::open(call.data, call.session.database, id)?;
    let reply = &mut *call.reply;
    begin_members(reply, rows, with_scores);
    if rows == all.rows && wanted > 0 {
        set.walk(all, false, |member, score| answer_member(reply, member, score, with_scores))?;
    } else if wanted > 0 {
        set.sample(rows as usize, &mut rng, |member, score| answer_member(reply, member, score, with_scores))?;
    } else {
        for _ in 0..rows {
            let one = all.part(rng.random_range(0..all.rows.max(1)), 1);
            set.walk(one, false, |member, score| answer_member(reply, member, score, with_scores))?;
        }
    }
    Ok(())
}
