//! Sorted sets: members and their scores. Ranges, algebra and iteration have files of their own.
//!
//! Differences from Redis: a score of -0 is kept as 0. A count of `ZRANDMEMBER` below -16777216 is refused instead of answered with as many members.

use rand::RngExt;

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, check_key, is_word, refusal, sorted_set_runs as runs};
use crate::keyspace::sorted_set::{Found, SortedSet};
use crate::keyspace::sorted_set_writer::{Scoring, Writer, bytes_of_change};
use crate::keyspace::value::{CollectionId, Entry, Kind};
use crate::keyspace::{Change, KEY_BYTES_MAX};
use crate::resp::number;
use crate::resp::reply::{Protocol, Reply};

const READ: Flags = Flags::READ;
const READ_FAST: Flags = Flags::READ.and(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.and(Flags::FAST);
const ADD: Flags = Flags::WRITE.and(Flags::FAST).and(Flags::DENY_OOM);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("zadd", -4, ADD, Group::SortedSet, zadd)
        .keys(1, 1, 1)
        .about(
            "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            "Gives members of a sorted set their scores; members that are new are added.",
            "1.2.0",
        )
        .costs("O(log n) for each member", "O(log n) for each member")
        .many(&[(4, runs::zadd)]),
    Spec::new("zincrby", 4, ADD, Group::SortedSet, zincrby)
        .keys(1, 1, 1)
        .about("key increment member", "Adds to a member's score; a member that is new had 0.", "1.2.0")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zcard", 2, READ_FAST, Group::SortedSet, zcard)
        .keys(1, 1, 1)
        .about("key", "How many members a sorted set has.", "1.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("zscore", 3, READ_FAST, Group::SortedSet, zscore)
        .keys(1, 1, 1)
        .about("key member", "The score of a member.", "1.2.0")
        .costs("O(log n)", "O(1)")
        .many(&[(3, runs::zscore)]),
    Spec::new("zmscore", -3, READ_FAST, Group::SortedSet, zmscore)
        .keys(1, 1, 1)
        .about("key member [member ...]", "The scores of members.", "6.2.0")
        .costs("O(log n) for each member", "O(1) for each member"),
    Spec::new("zrank", -3, READ_FAST, Group::SortedSet, zrank)
        .keys(1, 1, 1)
        .about("key member [WITHSCORE]", "How many members stand before a member.", "2.0.0")
        .costs("O(log n)", "O(log n)")
        .many(&[(3, runs::zrank)]),
    Spec::new("zrevrank", -3, READ_FAST, Group::SortedSet, zrevrank)
        .keys(1, 1, 1)
        .about("key member [WITHSCORE]", "How many members stand behind a member.", "2.0.0")
        .costs("O(log n)", "O(log n)")
        .many(&[(3, runs::zrevrank)]),
    Spec::new("zrem", -3, WRITE_FAST, Group::SortedSet, zrem)
        .keys(1, 1, 1)
        .about("key member [member ...]", "Removes members.", "1.2.0")
        .costs("O(log n) for each member", "O(log n) for each member"),
    Spec::new("zpopmin", -2, WRITE_FAST, Group::SortedSet, zpopmin)
        .keys(1, 1, 1)
        .about("key [count]", "Removes and tells the members with the lowest scores.", "5.0.0")
        .costs("O(m log n) for m members", "O(m log n)"),
    Spec::new("zpopmax", -2, WRITE_FAST, Group::SortedSet, zpopmax)
        .keys(1, 1, 1)
        .about("key [count]", "Removes and tells the members with the highest scores.", "5.0.0")
        .costs("O(m log n) for m members", "O(m log n)"),
    Spec::new("zmpop", -4, Flags::WRITE, Group::SortedSet, zmpop)
        .about(
            "numkeys key [key ...] MIN | MAX [COUNT count]",
            "Removes and tells members at one end of the first of the sorted sets that exists.",
            "7.0.0",
        )
        .costs("O(k) and O(m log n) for m members", "O(k) + O(m log n)"),
    Spec::new("zrandmember", -2, READ, Group::SortedSet, zrandmember)
        .keys(1, 1, 1)
        .about("key [count [WITHSCORES]]", "Members drawn at random, each as likely as any other.", "6.2.0")
        .costs("O(m log n) for m members", "O(m)"),
];

/// The most members that `ZRANDMEMBER` draws with repetition: some hundred MB of answer.
const DRAWN_MAX: u64 = 1 << 24;

/// Members with their scores.
pub(super) type Members = Vec<(Vec<u8>, f64)>;

/// Members that a store writes with interleaved descents.
const STORED_AT_ONCE: usize = 512;

/// The id of the sorted set that an entry holds.
///
/// # Errors
/// `WRONGTYPE` if it holds something else.
pub(super) fn id_of(entry: Option<Entry<'_>>) -> Result<Option<CollectionId>, Refusal> {
    match entry {
        None => Ok(None),
        Some(entry) if entry.header.kind == Kind::SortedSet => Ok(entry.collection()),
        Some(_) => Err(refusal::WRONG_TYPE),
    }
}

impl Call<'_, '_> {
    /// The id of the sorted set at a key that is read.
    pub(super) fn sorted_set_id(&self, key: &[u8]) -> Result<Option<CollectionId>, Refusal> {
        id_of(self.entry(key)?)
    }

    /// The id of the sorted set at a key that is written to.
    pub(super) fn sorted_set_to_change(&self, key: &[u8]) -> Result<Option<CollectionId>, Refusal> {
        id_of(self.data.entry(self.database(), key)?)
    }

    /// The sorted set at a key.
    pub(super) fn sorted_set(&self, key: &[u8]) -> Result<Option<SortedSet<'_>>, Refusal> {
        match self.sorted_set_id(key)? {
            None => Ok(None),
            Some(id) => Ok(Some(SortedSet::open(self.data, self.database(), id)?)),
        }
    }

    /// The sorted set with an id.
    pub(super) fn sorted_set_with(&self, id: CollectionId) -> Result<SortedSet<'_>, Refusal> {
        Ok(SortedSet::open(self.data, self.database(), id)?)
    }

    /// Removes members that stand together from the set at a key, and the key with the last of them.
    pub(super) fn remove_members(&mut self, key: &[u8], id: CollectionId, found: Found, all: u64) -> Answer {
        let database = self.database();
        if found.rows == all {
            self.data.remove(database, key)?;
        } else if found.rows > 0 {
            Writer::open(self.data, database, id)?.remove_found(found)?;
            self.data.touch(database, key);
        }
        Ok(())
    }

    /// Puts a sorted set of these different members at a key, whatever stood there; none removes the key. Answers how many there are.
    pub(super) fn store_members(&mut self, key: &[u8], members: &[(Vec<u8>, f64)]) -> Answer {
        let database = self.database();
        if members.is_empty() {
            self.data.remove(database, key)?;
        } else {
            check_key(key)?;
            let id = self.data.new_id();
            self.data.change(database, key, |_, new| {
                crate::keyspace::value::Header::new(Kind::SortedSet).encode(new);
                new.extend_from_slice(&id.bytes());
                Change::Put
            })?;
            let mut writer = Writer::open(self.data, database, id)?;
            for chunk in members.chunks(STORED_AT_ONCE) {
                let scorings: Vec<_> =
                    chunk.iter().map(|(member, score)| Scoring { member, old: None, new: *score }).collect();
                if let Err(error) = writer.put_many(&scorings) {
                    // No key without members, and none with a part of them.
                    self.data.remove(database, key)?;
                    return Err(error.into());
                }
            }
        }
        self.reply.integer(members.len() as i64);
        Ok(())
    }
}

/// Begins an answer of members: an array of them; with their scores in the older protocol an array of both in turn, in the newer one of pairs.
pub(super) fn begin_members(reply: &mut Reply, members: u64, with_scores: bool) {
    let is_flat = with_scores && reply.protocol == Protocol::Resp2;
    reply.array(if is_flat { members * 2 } else { members } as usize);
}

/// A member in an answer that [`begin_members`] began.
#[inline]
pub(super) fn answer_member(reply: &mut Reply, member: &[u8], score: f64, with_scores: bool) {
    if with_scores && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        reply.double(score);
    }
}

/// The score that a word spells.
pub(super) fn score(word: &[u8]) -> Result<f64, Refusal> {
    number::parse_f64(word).ok_or(refusal::NOT_FLOAT)
}

/// Whether a member may be stored.
pub(super) fn check_member(member: &[u8]) -> Answer {
    if member.len() > KEY_BYTES_MAX {
        return Err(Refusal::new(format!(
            "ERR a member of {} bytes is over the limit of {KEY_BYTES_MAX}",
            member.len()
        )));
    }
    Ok(())
}

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

fn zadd(call: &mut Call<'_, '_>) -> Answer {
    add(call, AddOptions::default())
}

fn zincrby(call: &mut Call<'_, '_>) -> Answer {
    add(call, AddOptions { adds_up: true, ..AddOptions::default() })
}

fn add(call: &mut Call<'_, '_>, mut options: AddOptions) -> Answer {
    let (key, args) = (call.args[1], call.args);
    let mut place = 2;
    while let Some(&word) = args.get(place) {
        let flag = match word {
            _ if is_word(word, "nx") => &mut options.only_new,
            _ if is_word(word, "xx") => &mut options.only_old,
            _ if is_word(word, "gt") => &mut options.only_greater,
            _ if is_word(word, "lt") => &mut options.only_less,
            _ if is_word(word, "ch") => &mut options.counts_changed,
            _ if is_word(word, "incr") => &mut options.adds_up,
            _ => break,
        };
        *flag = true;
        place += 1;
    }
    let pairs = &args[place..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(refusal::SYNTAX);
    }
    let AddOptions { only_new, only_old, only_greater, only_less, counts_changed, adds_up } = options;
    if only_new && only_old {
        return Err(refusal::text("ERR XX and NX options at the same time are not compatible"));
    }
    if only_new && (only_greater || only_less) || only_greater && only_less {
        return Err(refusal::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if adds_up && pairs.len() > 2 {
        return Err(refusal::text("ERR INCR option supports a single increment-element pair"));
    }
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
    let mut put_all = || -> Answer {
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

fn zcard(call: &mut Call<'_, '_>) -> Answer {
    let members = call.sorted_set(call.args[1])?.map_or(Ok(0), |set| set.len())?;
    call.reply.integer(members as i64);
    Ok(())
}

pub(super) fn answer_score(reply: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

fn zscore(call: &mut Call<'_, '_>) -> Answer {
    let score = call.sorted_set(call.args[1])?.map_or(Ok(None), |set| set.score(call.args[2]))?;
    answer_score(call.reply, score);
    Ok(())
}

fn zmscore(call: &mut Call<'_, '_>) -> Answer {
    let members = &call.args[2..];
    let scores = match call.sorted_set(call.args[1])? {
        None => vec![None; members.len()],
        Some(set) => members.iter().map(|member| set.score(member)).collect::<quipu::Result<_>>()?,
    };
    call.reply.array(members.len());
    scores.into_iter().for_each(|score| answer_score(call.reply, score));
    Ok(())
}

fn zrank(call: &mut Call<'_, '_>) -> Answer {
    rank(call, false)
}

fn zrevrank(call: &mut Call<'_, '_>) -> Answer {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_>, reverse: bool) -> Answer {
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

fn zrem(call: &mut Call<'_, '_>) -> Answer {
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

fn zpopmin(call: &mut Call<'_, '_>) -> Answer {
    pop_one(call, false)
}

fn zpopmax(call: &mut Call<'_, '_>) -> Answer {
    pop_one(call, true)
}

fn pop_one(call: &mut Call<'_, '_>, highest: bool) -> Answer {
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

fn zmpop(call: &mut Call<'_, '_>) -> Answer {
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

fn zrandmember(call: &mut Call<'_, '_>) -> Answer {
    let key = call.args[1];
    let mut rng = rand::rng();
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
