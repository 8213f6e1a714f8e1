//! `ZSCAN`: a walk over all members of a sorted set, some at a time.
//!
//! A small set is answered whole. The walk over a larger one goes through a snapshot that is taken when it begins, so every member that stays from the beginning to the
//! end is told exactly once, with the score that it has when it is told, however often that changes meanwhile; members that have gone are not told, and new ones are
//! not either. The cursor names the walk; the last one given and the one before can be used, so that a client may ask again for an answer that it lost.
//!
//! A walk ends when nobody goes on with it for 60 seconds, or when 1024 others were used since. A cursor of a walk that has ended starts a new one, and
//! so does one of another key.
//!
//! Differences from Redis: cursors end; `COUNT` is at most 20000. Begun inside `MULTI`, a walk has no snapshot, as the transaction's own writes belong to
//! it: it goes by score, and a member whose score changes meanwhile may be told twice or not at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu::Snapshot;

use super::sorted_sets::{Members, id_of};
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, LONG_ROWS, Refusal, is_word, refusal};
use crate::clock;
use crate::glob;
use crate::keyspace::sorted_set::{SortedSet, Span, scores_many};
use crate::keyspace::value::CollectionId;
use crate::keyspace::{Data, Need};
use crate::resp::reply::Reply;

/// The family's line.
pub const COMMANDS: &[Spec] =
    &[Spec::new("zscan", -3, Flags::READ.and(Flags::ALONE).and(Flags::INSIDE_TOO), Group::SortedSet, zscan)
        .keys(1, 1, 1)
        .about(
            "key cursor [MATCH pattern] [COUNT count]",
            "Some of the members of a sorted set, and a cursor for the next ones.",
            "2.8.0",
        )
        .costs("O(log n) for each member", "O(1) for each call")];

/// Members of a set that is answered whole.
const WHOLE_ROWS_MAX: u64 = 512;
/// Walks at a time.
const WALKS_MAX: usize = 1024;
/// How long a walk waits for the next question.
const IDLE_MS_MAX: u64 = 60_000;
/// Bits of a cursor that count a walk's answers; the others are its number.
const STEP_BITS: u32 = 20;
const STEP_MASK: u64 = (1 << STEP_BITS) - 1;

/// What a walk goes through, and where it is.
#[derive(Clone)]
struct Course {
    /// `None` if it goes through the set as it is.
    snapshot: Option<Arc<Snapshot>>,
    id: CollectionId,
    /// The member told last, as a key of the part by score.
    place: Vec<u8>,
}

struct Walk {
    database: usize,
    key: Box<[u8]>,
    course: Course,
    /// Where it was one answer earlier.
    earlier: Vec<u8>,
    step: u64,
    used_ms: u64,
}

/// The walks of all clients.
#[derive(Default)]
pub struct Walks {
    walks: Mutex<HashMap<u64, Walk>>,
}

impl Walks {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Walk>> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends those that nobody goes on with.
    pub fn end_idle(&self, now_ms: u64) {
        self.lock().retain(|_, walk| walk.used_ms + IDLE_MS_MAX > now_ms);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The walk that a cursor names, at the place that it means.
    fn find(&self, cursor: u64, database: usize, key: &[u8], now_ms: u64) -> Option<Course> {
        let mut walks = self.lock();
        let walk = walks.get_mut(&(cursor >> STEP_BITS))?;
        if walk.database != database || *walk.key != *key || walk.used_ms + IDLE_MS_MAX <= now_ms {
            return None;
        }
        let back = walk.step.wrapping_sub(cursor) & STEP_MASK;
        let place = match back {
            0 => walk.course.place.clone(),
            1 => walk.earlier.clone(),
            _ => return None,
        };
        walk.used_ms = now_ms;
        Some(Course { place, ..walk.course.clone() })
    }

    /// Notes where a walk has come to, and returns the cursor that goes on from there. `cursor` is the one that led here.
    fn keep(&self, cursor: u64, database: usize, key: &[u8], earlier: Vec<u8>, course: Course, now_ms: u64) -> u64 {
        let mut walks = self.lock();
        let mut number = cursor >> STEP_BITS;
        let is_known = walks.get(&number).is_some_and(|walk| walk.database == database && *walk.key == *key);
        let step = if is_known && cursor != 0 { (cursor & STEP_MASK) + 1 } else { 0 };
        if step == 0 {
            if walks.len() >= WALKS_MAX {
                let oldest = walks.iter().min_by_key(|(_, walk)| walk.used_ms).map(|(number, _)| *number);
                oldest.map(|number| walks.remove(&number));
            }
            // Drawn, so that a cursor from before a restart does not lead into the midst of another walk.
            number = (rand::random::<u64>() >> (STEP_BITS + 1)).max(1);
        }
        let step = step & STEP_MASK;
        walks.insert(number, Walk { database, key: key.into(), course, earlier, step, used_ms: now_ms });
        number << STEP_BITS | step
    }

    fn end(&self, cursor: u64) {
        self.lock().remove(&(cursor >> STEP_BITS));
    }
}

/// A cursor as `strtoul` reads it.
fn cursor(word: &[u8]) -> Result<u64, Refusal> {
    let invalid = refusal::text("ERR invalid cursor");
    // It ends at a zero byte.
    let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    let (negative, digits) = match &word[..end] {
        [] => return Ok(0),
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        word => (false, word),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid);
    }
    match std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()) {
        Some(number) => Ok(if negative { number.wrapping_neg() } else { number }),
        None => Err(invalid),
    }
}

struct Options<'a> {
    rows: u64,
    pattern: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a, '_>) -> Result<Options<'a>, Refusal> {
        let mut options = Options { rows: 10, pattern: None };
        for pair in call.args[3..].chunks(2) {
            match pair {
                [word, number] if is_word(word, "count") => {
                    let rows = crate::resp::number::parse_i64(number).ok_or(refusal::NOT_INTEGER)?;
                    if rows < 1 {
                        return Err(refusal::SYNTAX);
                    }
                    options.rows = (rows as u64).min(LONG_ROWS);
                }
                [word, pattern] if is_word(word, "match") => options.pattern = Some(pattern),
                _ => return Err(refusal::SYNTAX),
            }
        }
        Ok(options)
    }

    fn fits(&self, member: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, member, false))
    }
}

fn answer(reply: &mut Reply, cursor: u64, members: &[(Vec<u8>, f64)]) {
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(members.len() * 2);
    for (member, score) in members {
        reply.bulk(member);
        reply.double_bulk(*score);
    }
}

/// The id of the sorted set at a key.
fn id_at(data: &Data<'_>, database: usize, key: &[u8]) -> Result<Option<CollectionId>, Refusal> {
    id_of(data.entry(database, key)?)
}

fn zscan(call: &mut Call<'_, '_>) -> Answer {
    let (database, key) = (call.database(), call.args[1]);
    let given = cursor(call.args[2])?;
    let now_ms = clock::now_ms();
    if call.data.covers(Need::Read) {
        // Inside a transaction.
        let (members, next) = step(call, call.data, given, None, call.data.now_ms)?;
        answer(call.reply, next, &members);
        return Ok(());
    }
    let keyspace = &call.server.keyspace;
    let mut data = Data::open(keyspace, Need::Read, now_ms)?;
    let begins = begins_walk(call, &data, given, now_ms);
    let mut begun = None;
    if matches!(begins, Ok(true)) {
        // A snapshot is taken while nothing is held. By then the key may hold something else.
        let _ = data.close()?;
        let snapshot = Arc::new(keyspace.snapshot());
        let at = id_at(&Data::at(keyspace, &snapshot, now_ms), database, key).ok().flatten();
        data = Data::open(keyspace, Need::Read, now_ms)?;
        begun = at.map(|id| Course { snapshot: Some(snapshot), id, place: Span::whole(id).start });
    }
    let outcome = begins.and_then(|_| step(call, &data, given, begun, now_ms));
    // Whatever it came to: what had expired may have been removed.
    let _ = data.close()?;
    let (members, next) = outcome?;
    answer(call.reply, next, &members);
    Ok(())
}

/// Whether the answer begins a walk: the set is not small, and the cursor is not one of a walk through it.
fn begins_walk(call: &Call<'_, '_>, data: &Data<'_>, given: u64, now_ms: u64) -> Result<bool, Refusal> {
    let (database, key) = (call.database(), call.args[1]);
    let Some(id) = id_at(data, database, key)? else { return Ok(false) };
    let known = call.server.walks.find(given, database, key, now_ms);
    Ok(known.is_none_or(|course| course.id != id) && SortedSet::open(data, database, id)?.len()? > WHOLE_ROWS_MAX)
}

type Step = (Members, u64);

/// The next members of a walk, the one that has just begun or the one that the cursor names, and the cursor that goes on behind them.
fn step(call: &Call<'_, '_>, data: &Data<'_>, given: u64, begun: Option<Course>, now_ms: u64) -> Result<Step, Refusal> {
    let (database, key, walks) = (call.database(), call.args[1], &call.server.walks);
    let id = id_at(data, database, key)?;
    data.keyspace().counters.note_lookup(id.is_some());
    let Some(id) = id else { return Ok((Vec::new(), 0)) };
    let options = Options::parse(call)?;
    let known = begun.is_none().then(|| walks.find(given, database, key, now_ms)).flatten();
    let given = if known.is_some() { given } else { 0 };
    let course = begun.or(known).filter(|course| course.id == id);
    let set = SortedSet::open(data, database, id)?;
    let course = match course {
        Some(course) => course,
        None if set.len()? <= WHOLE_ROWS_MAX => {
            let mut members = Vec::new();
            set.walk(set.all()?, false, |member, score| {
                if options.fits(member) {
                    members.push((member.to_vec(), score));
                }
            })?;
            return Ok((members, 0));
        }
        None => Course { snapshot: None, id, place: Span::whole(id).start },
    };
    // Members as they stood at the beginning.
    let mut members = Members::new();
    let (mut rows, mut place) = (0, Vec::new());
    let mut visit = |at: &[u8], member: &[u8], score: f64| {
        rows += 1;
        if options.fits(member) {
            members.push((member.to_vec(), score));
        }
        if rows == options.rows {
            place = at.to_vec();
        }
        rows < options.rows
    };
    match &course.snapshot {
        None => set.walk_after(&course.place, &mut visit)?,
        Some(snapshot) => {
            let then = Data::at(data.keyspace(), snapshot, now_ms);
            SortedSet::open(&then, database, id)?.walk_after(&course.place, &mut visit)?;
            // As they stand now.
            let names: Vec<&[u8]> = members.iter().map(|(member, _)| &**member).collect();
            let scores = scores_many(data, data.tables_to_write(database)?, &vec![Some(id); names.len()], &names)?;
            members = members.iter().zip(scores).filter_map(|((m, _), score)| Some((m.clone(), score?))).collect();
        }
    }
    if place.is_empty() {
        walks.end(given);
        return Ok((members, 0));
    }
    let earlier = course.place.clone();
    let next = walks.keep(given, database, key, earlier, Course { place, ..course }, now_ms);
    Ok((members, next))
}

#[cfg(test)]
mod tests {
    use super::cursor;

    #[test]
    fn cursors_are_read_as_strtoul_reads() {
        for (word, number) in [
            (&b"0"[..], Some(0)),
            (b"", Some(0)),
            (b"-1", Some(u64::MAX)),
            (b"+5", Some(5)),
            (b"007", Some(7)),
            (b"\x005", Some(0)),
        ] {
            assert_eq!(cursor(word).ok(), number);
        }
        for word in [&b"x"[..], b" 1", b"1 ", b"-", b"18446744073709551616"] {
            assert!(cursor(word).is_err());
        }
    }
}
