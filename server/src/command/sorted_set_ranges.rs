//! Ranges of sorted sets: by rank, by score, by member; to read, to count, to store, to remove.
//!
//! Every range comes down to members that stand together, so any offset costs two or three descents, and the answer's length is known before it begins.
//!
//! Differences from Redis: a range by member over a set whose scores differ, which Redis leaves open, is answered as Redis answers it for small sets, and looks
//! at every member.

use std::ops::Bound;

use super::sorted_sets::{answer_member, begin_members};
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, is_word, refusal, sorted_set_runs as runs};
use crate::keyspace::sorted_set::{Found, SortedSet, Span};
use crate::keyspace::value::CollectionId;
use crate::resp::number;

const READ: Flags = Flags::READ;
const READ_FAST: Flags = Flags::READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE;
const COST: &str = "O(log n), and one step a member of the answer";
const REDIS_COST: &str = "O(log n + m), m with the offset";
const REMOVE_COST: &str = "O(log n), and O(log n) for each member; one step a leaf if all go";

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("zrange", -4, READ, Group::SortedSet, zrange)
        .keys(1, 1, 1)
        .about(
            "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            "Members in a range of ranks, of scores, or of names.",
            "1.2.0",
        )
        .costs(COST, REDIS_COST)
        .many(&[(4, runs::zrange)]),
    Spec::new("zrangestore", -5, WRITE.and(Flags::DENY_OOM), Group::SortedSet, zrangestore)
        .keys(1, 2, 1)
        .about(
            "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            "Puts the members in a range into another sorted set.",
            "6.2.0",
        )
        .costs("O(log n), and O(log n) for each member", "O(log n + m)"),
    Spec::new("zrevrange", -4, READ, Group::SortedSet, zrevrange)
        .keys(1, 1, 1)
        .about("key start stop [WITHSCORES]", "Members in a range of ranks counted from the end.", "1.2.0")
        .costs(COST, REDIS_COST),
    Spec::new("zrangebyscore", -4, READ, Group::SortedSet, zrangebyscore)
        .keys(1, 1, 1)
        .about("key min max [WITHSCORES] [LIMIT offset count]", "Members in a range of scores.", "1.0.5")
        .costs(COST, REDIS_COST),
    Spec::new("zrevrangebyscore", -4, READ, Group::SortedSet, zrevrangebyscore)
        .keys(1, 1, 1)
        .about(
            "key max min [WITHSCORES] [LIMIT offset count]",
            "Members in a range of scores, from the highest down.",
            "2.2.0",
        )
        .costs(COST, REDIS_COST),
    Spec::new("zrangebylex", -4, READ, Group::SortedSet, zrangebylex)
        .keys(1, 1, 1)
        .about("key min max [LIMIT offset count]", "Members in a range of names, in a set of one score.", "2.8.9")
        .costs(COST, REDIS_COST),
    Spec::new("zrevrangebylex", -4, READ, Group::SortedSet, zrevrangebylex)
        .keys(1, 1, 1)
        .about("key max min [LIMIT offset count]", "Members in a range of names, from the last to the first.", "2.8.9")
        .costs(COST, REDIS_COST),
    Spec::new("zcount", 4, READ_FAST, Group::SortedSet, zcount)
        .keys(1, 1, 1)
        .about("key min max", "How many members have scores in a range.", "2.0.0")
        .costs("O(log n)", "O(log n)")
        .many(&[(4, runs::zcount)]),
    Spec::new("zlexcount", 4, READ_FAST, Group::SortedSet, zlexcount)
        .keys(1, 1, 1)
        .about("key min max", "How many members lie in a range of names.", "2.8.9")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zremrangebyrank", 4, WRITE, Group::SortedSet, zremrangebyrank)
        .keys(1, 1, 1)
        .about("key start stop", "Removes the members in a range of ranks.", "2.0.0")
        .costs(REMOVE_COST, "O(log n + m)"),
    Spec::new("zremrangebyscore", 4, WRITE, Group::SortedSet, zremrangebyscore)
        .keys(1, 1, 1)
        .about("key min max", "Removes the members with scores in a range.", "1.2.0")
        .costs(REMOVE_COST, "O(log n + m)"),
    Spec::new("zremrangebylex", 4, WRITE, Group::SortedSet, zremrangebylex)
        .keys(1, 1, 1)
        .about("key min max", "Removes the members in a range of names.", "2.8.9")
        .costs(REMOVE_COST, "O(log n + m)"),
];

const NOT_SCORES: Refusal = refusal::text("ERR min or max is not a float");
const NOT_NAMES: Refusal = refusal::text("ERR min or max not valid string range item");

/// What a range is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Rank,
    Score,
    Member,
}

type MemberBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range as given.
enum Range<'a> {
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    /// `None`: nothing can lie in it.
    Members(Option<MemberBounds<'a>>),
}

impl<'a> Range<'a> {
    fn parse(order: Order, min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Refusal> {
        Ok(match order {
            Order::Rank => {
                let rank = |word| number::parse_i64(word).ok_or(refusal::NOT_INTEGER);
                Range::Ranks(rank(min)?, rank(max)?)
            }
            Order::Score => {
                let (min, max) = score_bounds(min, max).ok_or(NOT_SCORES)?;
                Range::Scores(min, max)
            }
            Order::Member => {
                let (low, high) = (member_bound(min).ok_or(NOT_NAMES)?, member_bound(max).ok_or(NOT_NAMES)?);
                Range::Members(match (low, high) {
                    (Edge::Last, _) | (_, Edge::First) => None,
                    _ => Some((low.bound(), high.bound())),
                })
            }
        })
    }

    /// The members in it.
    fn find(&self, set: &SortedSet<'_>, reverse: bool) -> Result<Found, Refusal> {
        match self {
            Range::Ranks(start, stop) => {
                let all = set.all()?;
                let Some((offset, rows)) = rank_part(*start, *stop, all.rows) else { return Ok(all.part(0, 0)) };
                Ok(if reverse { all.part_from_end(offset, rows) } else { all.part(offset, rows) })
            }
            Range::Scores(min, max) => Ok(set.find(&Span::of_scores(set.id(), *min, *max))?),
            Range::Members(None) => Ok(set.all()?.part(0, 0)),
            Range::Members(Some((min, max))) => Ok(set.find_members(*min, *max, reverse)?),
        }
    }
}

/// Offset and number of the members from one rank to another, which may be counted from the end; `None` if there are none.
pub(super) fn rank_part(start: i64, stop: i64, rows: u64) -> Option<(u64, u64)> {
    let rows = rows as i64;
    let from_end = |rank: i64| if rank < 0 { rank + rows } else { rank };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(rows - 1));
    (start <= stop && start < rows).then(|| (start as u64, (stop - start) as u64 + 1))
}

/// The bounds that two words spell.
pub(super) fn score_bounds(min: &[u8], max: &[u8]) -> Option<(Bound<f64>, Bound<f64>)> {
    Some((score_bound(min)?, score_bound(max)?))
}

/// `5`, `(5`, `-inf`. Redis gives it to `strtod`, which passes over spaces, reads as far as a zero byte, rounds what is too large to infinity, and takes nothing
/// for 0.
fn score_bound(word: &[u8]) -> Option<Bound<f64>> {
    let (word, is_open) = match word {
        [b'(', rest @ ..] => (rest, true),
        _ => (word, false),
    };
    let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    let word = &word[..end];
    let start = word.iter().position(|byte| !matches!(byte, b' ' | 9..=13)).unwrap_or(0);
    let text = &word[start..];
    let score = match number::parse_f64(text) {
        Some(score) => score,
        None if word.is_empty() => 0.0,
        None if text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) => {
            std::str::from_utf8(text).ok()?.parse().ok()?
        }
        None => return None,
    };
    Some(if is_open { Bound::Excluded(score) } else { Bound::Included(score) })
}

/// One end of a range of members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge<'a> {
    /// `-`, before all.
    First,
    /// `+`, behind all.
    Last,
    At(Bound<&'a [u8]>),
}

impl<'a> Edge<'a> {
    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            Edge::First | Edge::Last => Bound::Unbounded,
            Edge::At(bound) => bound,
        }
    }
}

fn member_bound(word: &[u8]) -> Option<Edge<'_>> {
    match word {
        [b'-'] | [b'-', 0, ..] => Some(Edge::First),
        [b'+'] | [b'+', 0, ..] => Some(Edge::Last),
        [b'[', member @ ..] => Some(Edge::At(Bound::Included(member))),
        [b'(', member @ ..] => Some(Edge::At(Bound::Excluded(member))),
        _ => None,
    }
}

/// A range with what is wanted of it.
struct Request<'a> {
    range: Range<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

impl<'a> Request<'a> {
    /// Reads the words from the range's first on. An order or a direction that is given cannot be chosen by a word.
    fn parse(
        call: &Call<'a, '_>,
        first: usize,
        order: Option<Order>,
        reverse: Option<bool>,
        stores: bool,
    ) -> Result<Request<'a>, Refusal> {
        let (fixed_order, fixed_reverse) = (order, reverse);
        let (mut order, mut reverse) = (order.unwrap_or(Order::Rank), reverse.unwrap_or(false));
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut has_order = fixed_order.is_some();
        let mut place = first + 2;
        while let Some(&word) = call.args.get(place) {
            if !stores && is_word(word, "withscores") {
                with_scores = true;
            } else if is_word(word, "limit") && call.args.len() > place + 2 {
                (offset, limit) = (call.integer(place + 1)?, call.integer(place + 2)?);
                place += 2;
            } else if fixed_reverse.is_none() && !reverse && is_word(word, "rev") {
                reverse = true;
            } else if !has_order && is_word(word, "bylex") {
                (order, has_order) = (Order::Member, true);
            } else if !has_order && is_word(word, "byscore") {
                (order, has_order) = (Order::Score, true);
            } else {
                return Err(refusal::SYNTAX);
            }
            place += 1;
        }
        if limit != -1 && order == Order::Rank {
            return Err(refusal::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && order == Order::Member {
            return Err(refusal::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (mut min, mut max) = (call.args[first], call.args[first + 1]);
        if reverse && order != Order::Rank {
            std::mem::swap(&mut min, &mut max);
        }
        Ok(Request { range: Range::parse(order, min, max)?, reverse, with_scores, offset, limit })
    }

    /// The members asked for: those of the range, from the offset on, up to the limit.
    fn find(&self, set: &SortedSet<'_>) -> Result<Found, Refusal> {
        let found = self.range.find(set, self.reverse)?;
        if matches!(self.range, Range::Ranks(..)) {
            return Ok(found);
        }
        let limit = if self.limit < 0 { u64::MAX } else { self.limit as u64 };
        // An offset below zero passes over everything.
        let offset = u64::try_from(self.offset).unwrap_or(u64::MAX);
        Ok(if self.reverse { found.part_from_end(offset, limit) } else { found.part(offset, limit) })
    }
}

/// Says beforehand if every member will be looked at: a range of names in a set of several scores.
fn expect_scan(call: &Call<'_, '_>, id: CollectionId, range: &Range<'_>) -> Answer {
    if let Range::Members(Some(_)) = range {
        let set = call.sorted_set_with(id)?;
        let all = set.all()?;
        if all.rows > super::LONG_ROWS && set.common_score(all)?.is_none() {
            call.expect_rows(all.rows)?;
        }
    }
    Ok(())
}

fn answer_range(call: &mut Call<'_, '_>, order: Option<Order>, reverse: Option<bool>) -> Answer {
    let request = Request::parse(call, 2, order, reverse, false)?;
    let Some(id) = call.sorted_set_id(call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    expect_scan(call, id, &request.range)?;
    let found = request.find(&call.sorted_set_with(id)?)?;
    call.expect_rows(found.rows)?;
    let set = SortedSet::open(call.data, call.session.database, id)?;
    let (reply, with_scores) = (&mut *call.reply, request.with_scores);
    begin_members(reply, found.rows, with_scores);
    set.walk(found, request.reverse, |member, score| answer_member(reply, member, score, with_scores))?;
    Ok(())
}

fn zrange(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, None, None)
}

fn zrevrange(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, Some(Order::Rank), Some(true))
}

fn zrangebyscore(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, Some(Order::Score), Some(false))
}

fn zrevrangebyscore(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, Some(Order::Score), Some(true))
}

fn zrangebylex(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, Some(Order::Member), Some(false))
}

fn zrevrangebylex(call: &mut Call<'_, '_>) -> Answer {
    answer_range(call, Some(Order::Member), Some(true))
}

fn zrangestore(call: &mut Call<'_, '_>) -> Answer {
    let request = Request::parse(call, 3, None, None, true)?;
    let mut members = Vec::new();
    if let Some(set) = call.sorted_set(call.args[2])? {
        let found = request.find(&set)?;
        set.walk(found, false, |member, score| members.push((member.to_vec(), score)))?;
    }
    call.store_members(call.args[1], &members)
}

fn answer_count(call: &mut Call<'_, '_>, order: Order) -> Answer {
    let range = Range::parse(order, call.args[2], call.args[3])?;
    let mut members = 0;
    if let Some(id) = call.sorted_set_id(call.args[1])? {
        expect_scan(call, id, &range)?;
        members = range.find(&call.sorted_set_with(id)?, false)?.rows;
    }
    call.reply.integer(members as i64);
    Ok(())
}

fn zcount(call: &mut Call<'_, '_>) -> Answer {
    answer_count(call, Order::Score)
}

fn zlexcount(call: &mut Call<'_, '_>) -> Answer {
    answer_count(call, Order::Member)
}

fn remove_range(call: &mut Call<'_, '_>, order: Order) -> Answer {
    let key = call.args[1];
    let range = Range::parse(order, call.args[2], call.args[3])?;
    let mut removed = 0;
    if let Some(id) = call.sorted_set_to_change(key)? {
        let (found, all) = {
            let set = call.sorted_set_with(id)?;
            (range.find(&set, false)?, set.len()?)
        };
        removed = found.rows;
        call.remove_members(key, id, found, all)?;
    }
    call.reply.integer(removed as i64);
    Ok(())
}

fn zremrangebyrank(call: &mut Call<'_, '_>) -> Answer {
    remove_range(call, Order::Rank)
}

fn zremrangebyscore(call: &mut Call<'_, '_>) -> Answer {
    remove_range(call, Order::Score)
}

fn zremrangebylex(call: &mut Call<'_, '_>) -> Answer {
    remove_range(call, Order::Member)
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included};

    use super::{rank_part, score_bound};

    #[test]
    fn bounds_are_read_as_strtod_reads() {
        for (word, bound) in [
            (&b"5"[..], Some(Included(5.0))),
            (b"(5", Some(Excluded(5.0))),
            (b"", Some(Included(0.0))),
            (b"(", Some(Excluded(0.0))),
            (b" 1", Some(Included(1.0))),
            (b"1 ", None),
            (b" ", None),
            (b"1\0x", Some(Included(1.0))),
            (b"1e999", Some(Included(f64::INFINITY))),
            (b"-1e999", Some(Included(f64::NEG_INFINITY))),
            (b"1e-999", Some(Included(0.0))),
            (b"+inf", Some(Included(f64::INFINITY))),
            (b"(-Infinity", Some(Excluded(f64::NEG_INFINITY))),
            (b"0x10", Some(Included(16.0))),
            (b"nan", None),
            (b"x", None),
        ] {
            assert_eq!(score_bound(word), bound, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn ranks_are_counted_from_either_end() {
        for (start, stop, rows, part) in [
            (0, -1, 5, Some((0, 5))),
            (0, 0, 5, Some((0, 1))),
            (-2, -1, 5, Some((3, 2))),
            (-100, 100, 5, Some((0, 5))),
            (3, 2, 5, None),
            (5, 9, 5, None),
            (0, -6, 5, None),
            (i64::MIN, i64::MAX, 5, Some((0, 5))),
            (0, -1, 0, None),
        ] {
            assert_eq!(rank_part(start, stop, rows), part, "{start} {stop} {rows}");
        }
    }
}
