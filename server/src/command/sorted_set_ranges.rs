//! Reads, counts, stores and removes ranges of sorted sets: by rank, by score or by member.
//!
//! Every range consists of members that stand together, so any offset costs two or three descents, and the length of
//! the answer is known before it begins.
//!
//! Differences from Redis: Redis leaves open what a range by member means in a set whose scores differ. Quipu answers
//! as Redis does for small sets, and looks at every member.

use std::ops::Bound;

use super::pieces::MemberPieces;
use super::sorted_set_words::{answer_member, begin_members, rank_part, score_bounds};
use super::{Call, CommandResult, Handler, Refusal, is_word, refusal, sorted_set_runs as runs};
use crate::keyspace::sorted_set::{Found, SortedSet, Span};
use crate::keyspace::value::CollectionId;
use crate::resp::{number, word};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("zrange", zrange).many(&[(4, runs::zrange)]),
    Handler::new("zrangestore", zrangestore),
    Handler::new("zrevrange", zrevrange),
    Handler::new("zrangebyscore", zrangebyscore),
    Handler::new("zrevrangebyscore", zrevrangebyscore),
    Handler::new("zrangebylex", zrangebylex),
    Handler::new("zrevrangebylex", zrevrangebylex),
    Handler::new("zcount", zcount).many(&[(4, runs::zcount)]),
    Handler::new("zlexcount", zlexcount),
    Handler::new("zremrangebyrank", zremrangebyrank),
    Handler::new("zremrangebyscore", zremrangebyscore),
    Handler::new("zremrangebylex", zremrangebylex),
];

const NOT_SCORES: Refusal = refusal::text("ERR min or max is not a float");

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
                let bound = |word| member_bound(word).ok_or(refusal::NOT_BOUND);
                let (low, high) = (bound(min)?, bound(max)?);
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

/// One end of a range of members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge<'a> {
    /// `-`, before all.
    First,
    /// `+`: after all members.
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
        _ => word::bound(word).map(Edge::At),
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
fn expect_scan(call: &Call<'_, '_>, id: CollectionId, range: &Range<'_>) -> CommandResult {
    if let Range::Members(Some(_)) = range {
        let set = call.sorted_set_with(id)?;
        let all = set.all()?;
        if all.rows > super::LONG_ROWS && set.common_score(all)?.is_none() {
            call.expect_rows(all.rows)?;
        }
    }
    Ok(())
}

fn answer_range(call: &mut Call<'_, '_>, order: Option<Order>, reverse: Option<bool>) -> CommandResult {
    let request = Request::parse(call, 2, order, reverse, false)?;
    let Some(id) = call.sorted_set_id(call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    expect_scan(call, id, &request.range)?;
    let found = request.find(&call.sorted_set_with(id)?)?;
    call.expect_rows(found.rows)?;
    let pieces = call.in_pieces(found.rows);
    let set = SortedSet::open(call.data, call.session.database, id)?;
    let (reply, with_scores) = (&mut *call.reply, request.with_scores);
    begin_members(reply, found.rows, with_scores);
    if let Some(snapshot) = pieces {
        let elements = call.data.tables_to_write(call.session.database)?.elements.clone();
        let pieces = MemberPieces::new(snapshot, elements, &set, found, request.reverse, with_scores);
        call.session.leave(pieces);
        return Ok(());
    }
    set.walk(found, request.reverse, |member, score| answer_member(reply, member, score, with_scores))?;
    Ok(())
}

fn zrange(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, None, None)
}

fn zrevrange(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, Some(Order::Rank), Some(true))
}

fn zrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, Some(Order::Score), Some(false))
}

fn zrevrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, Some(Order::Score), Some(true))
}

fn zrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, Some(Order::Member), Some(false))
}

fn zrevrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    answer_range(call, Some(Order::Member), Some(true))
}

fn zrangestore(call: &mut Call<'_, '_>) -> CommandResult {
    let request = Request::parse(call, 3, None, None, true)?;
    let mut members = Vec::new();
    if let Some(set) = call.sorted_set(call.args[2])? {
        let found = request.find(&set)?;
        set.walk(found, false, |member, score| members.push((member.to_vec(), score)))?;
    }
    call.store_members(call.args[1], &members)
}

fn answer_count(call: &mut Call<'_, '_>, order: Order) -> CommandResult {
    let range = Range::parse(order, call.args[2], call.args[3])?;
    let mut members = 0;
    if let Some(id) = call.sorted_set_id(call.args[1])? {
        expect_scan(call, id, &range)?;
        members = range.find(&call.sorted_set_with(id)?, false)?.rows;
    }
    call.reply.integer(members as i64);
    Ok(())
}

fn zcount(call: &mut Call<'_, '_>) -> CommandResult {
    answer_count(call, Order::Score)
}

fn zlexcount(call: &mut Call<'_, '_>) -> CommandResult {
    answer_count(call, Order::Member)
}

fn remove_range(call: &mut Call<'_, '_>, order: Order) -> CommandResult {
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

fn zremrangebyrank(call: &mut Call<'_, '_>) -> CommandResult {
    remove_range(call, Order::Rank)
}

fn zremrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    remove_range(call, Order::Score)
}

fn zremrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    remove_range(call, Order::Member)
}
