//! `ZSCAN`: lists all members of a sorted set, some at a time, in the order of their hashes.
//!
//! The cursor is a hash, and the server need not remember anything: any client can continue a scan at any time, even
//! after a restart. What it keeps of a reading (`keyspace/set_scan`) only saves work. Every member that exists from the
//! beginning to the end is returned, with the score that it has at that moment, however often the score changes. A
//! small set is answered whole.
//!
//! Differences from Redis: `COUNT` is at most 20000. A member is returned once, unless the set has become small by the
//! time of an answer.

use super::objects::{PACKED_BYTES_MAX, PACKED_MEMBERS_MAX};
use super::{Call, CommandResult, Handler, LONG_BYTES, LONG_ROWS, Refusal, is_word, refusal, scan::cursor};
use crate::keyspace::set_scan::{Hashed, Portion, Scan};
use crate::keyspace::sorted_set::{SortedSet, member_hash};
use crate::resp::glob;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("zscan", zscan)];

/// Members of a set that is answered whole.
const WHOLE_ROWS_MAX: u64 = 512;

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
}

fn zscan(call: &mut Call<'_, '_>) -> CommandResult {
    let from = cursor(call.args[2])?;
    let Some(id) = call.sorted_set_id(call.args[1])? else {
        answer(call, 0, &[], None, false);
        return Ok(());
    };
    let options = Options::parse(call)?;
    let (members, next, is_whole) = {
        let set = SortedSet::open(call.data, call.database(), id)?;
        let all = set.all()?;
        if all.rows <= WHOLE_ROWS_MAX {
            let mut members = Vec::new();
            set.walk(all, false, |member, score| {
                let hash = member_hash(set.hash_seed(), member);
                members.push(Hashed { hash, member: member.to_vec(), score });
            })?;
            (members, None, true)
        } else {
            let scan = Scan {
                windows: &call.server.windows,
                now_ms: call.data.now_ms,
                rows: options.rows,
                bytes_max: LONG_BYTES as usize,
                may_read_all: call.expect_rows(all.rows).is_ok(),
            };
            match scan.step(&set, from)? {
                Portion::Members(members, next) => (members, next, false),
                Portion::ReadsAll => return Err(Refusal::Long),
            }
        }
    };
    let is_short = |found: &Hashed| found.member.len() <= PACKED_BYTES_MAX;
    let is_packed = is_whole && members.len() as u64 <= PACKED_MEMBERS_MAX && members.iter().all(is_short);
    answer(call, next.unwrap_or(0), &members, options.pattern, is_packed);
    Ok(())
}

/// The whole number that Redis holds in the place of a score of a packed set. It shows it with all its digits, here and
/// nowhere else.
fn packed_integer(score: f64) -> Option<i64> {
    const END: f64 = (1_u64 << 62) as f64;
    (score.abs() < END && score.trunc() == score).then_some(score as i64)
}

fn answer(call: &mut Call<'_, '_>, cursor: u64, members: &[Hashed], pattern: Option<&[u8]>, is_packed: bool) {
    let fits = |found: &&Hashed| pattern.is_none_or(|pattern| glob::matches(pattern, &found.member, false));
    let reply = &mut *call.reply;
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(members.iter().filter(fits).count() * 2);
    for found in members.iter().filter(fits) {
        reply.bulk(&found.member);
        match packed_integer(found.score).filter(|_| is_packed) {
            Some(integer) => reply.integer_bulk(integer),
            None => reply.double_bulk(found.score),
        }
    }
}
