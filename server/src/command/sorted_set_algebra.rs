//! Unions, intersections and differences of sorted sets.
//!
//! Differences from Redis: there are no plain sets yet, so they cannot be inputs.

use std::collections::HashMap;

use super::sorted_set_words::{Members, answer_member, begin_members};
use super::{Call, CommandResult, Handler, Refusal, is_word, refusal};
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::value::CollectionId;
use crate::resp::number;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("zunion", zunion),
    Handler::new("zinter", zinter),
    Handler::new("zdiff", zdiff),
    Handler::new("zintercard", zintercard),
    Handler::new("zunionstore", zunionstore),
    Handler::new("zinterstore", zinterstore),
    Handler::new("zdiffstore", zdiffstore),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
    /// How large the intersection is.
    Cardinality,
}

/// How the scores of a member of several sets become one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn join(self, total: f64, score: f64) -> f64 {
        match self {
            // Both infinities make zero.
            Aggregate::Sum => number_or_zero(total + score),
            Aggregate::Min => {
                if score < total {
                    score
                } else {
                    total
                }
            }
            Aggregate::Max => {
                if score > total {
                    score
                } else {
                    total
                }
            }
        }
    }
}

/// Zero in place of what is no number.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One input; no id if its key does not exist.
struct Input {
    id: Option<CollectionId>,
    members: u64,
    weight: f64,
}

/// A request, as its words say it.
struct Request {
    inputs: Vec<Input>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: u64,
}

impl Request {
    /// Reads the words from the number of keys on. Kinds are checked before the options, as Redis does it.
    fn parse(call: &Call<'_, '_>, place: usize, operation: Operation, stores: bool) -> Result<Request, Refusal> {
        let keys = call.integer(place)?;
        if keys < 1 {
            return Err(Refusal::new(format!("ERR at least 1 input key is needed for '{}' command", call.spec.name)));
        }
        let first = place + 1;
        if keys > (call.args.len() - first) as i64 {
            return Err(refusal::SYNTAX);
        }
        let end = first + keys as usize;
        let mut inputs = Vec::with_capacity(end - first);
        for key in &call.args[first..end] {
            let id = call.sorted_set_id(key)?;
            inputs.push(Input { id, members: 0, weight: 1.0 });
        }
        let weighs = matches!(operation, Operation::Union | Operation::Intersection);
        // Options may be said again; the last counts.
        let (mut aggregate, mut with_scores, mut limit) = (Aggregate::default(), false, 0);
        let mut place = end;
        while let Some(&word) = call.args.get(place) {
            let left = call.args.len() - place;
            if weighs && left > inputs.len() && is_word(word, "weights") {
                for (input, word) in inputs.iter_mut().zip(&call.args[place + 1..]) {
                    input.weight = number::parse_f64(word).ok_or(refusal::text("ERR weight value is not a float"))?;
                }
                place += 1 + inputs.len();
            } else if weighs && left >= 2 && is_word(word, "aggregate") {
                aggregate = match call.args[place + 1] {
                    word if is_word(word, "sum") => Aggregate::Sum,
                    word if is_word(word, "min") => Aggregate::Min,
                    word if is_word(word, "max") => Aggregate::Max,
                    _ => return Err(refusal::SYNTAX),
                };
                place += 2;
            } else if !stores && operation != Operation::Cardinality && is_word(word, "withscores") {
                with_scores = true;
                place += 1;
            } else if operation == Operation::Cardinality && left >= 2 && is_word(word, "limit") {
                let number = number::parse_i64(call.args[place + 1]).filter(|number| *number >= 0);
                limit = number.ok_or(refusal::text("ERR LIMIT can't be negative"))? as u64;
                place += 2;
            } else {
                return Err(refusal::SYNTAX);
            }
        }
        for input in &mut inputs {
            if let Some(id) = input.id {
                input.members = call.sorted_set_with(id)?.len()?;
            }
        }
        // From the smallest to the largest: scores are added in that order.
        if operation != Operation::Difference {
            inputs.sort_by_key(|input| input.members);
        }
        let limit = if limit == 0 { u64::MAX } else { limit };
        Ok(Request { inputs, aggregate, with_scores, limit })
    }

    /// The inputs' sets, in their order.
    fn sets<'v>(&self, call: &'v Call<'_, '_>) -> Result<Vec<Option<SortedSet<'v>>>, Refusal> {
        self.inputs.iter().map(|input| input.id.map(|id| call.sorted_set_with(id)).transpose()).collect()
    }

    fn union(&self, call: &Call<'_, '_>) -> Result<Members, Refusal> {
        let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
        for (input, set) in self.inputs.iter().zip(self.sets(call)?) {
            let Some(set) = set else { continue };
            set.walk(set.all()?, false, |member, score| {
                let score = number_or_zero(input.weight * score);
                match scores.get_mut(member) {
                    Some(total) => *total = self.aggregate.join(*total, score),
                    None => drop(scores.insert(member.to_vec(), score)),
                }
            })?;
        }
        Ok(scores.into_iter().collect())
    }

    fn intersection(&self, call: &Call<'_, '_>) -> Result<Members, Refusal> {
        let sets: Vec<SortedSet<'_>> = match self.sets(call)?.into_iter().collect() {
            Some(sets) => sets,
            None => return Ok(Vec::new()),
        };
        let [first, others @ ..] = &sets[..] else { return Ok(Vec::new()) };
        let mut members = Vec::new();
        let mut outcome = Ok(());
        first.walk_after(&crate::keyspace::sorted_set::Span::whole(first.id()).start, |_, member, score| {
            let mut total = number_or_zero(self.inputs[0].weight * score);
            for (set, input) in others.iter().zip(&self.inputs[1..]) {
                match set.score(member) {
                    Ok(Some(score)) => total = self.aggregate.join(total, input.weight * score),
                    Ok(None) => return true,
                    Err(error) => {
                        outcome = Err(error);
                        return false;
                    }
                }
            }
            members.push((member.to_vec(), total));
            (members.len() as u64) < self.limit
        })?;
        outcome?;
        Ok(members)
    }

    fn difference(&self, call: &Call<'_, '_>) -> Result<Members, Refusal> {
        let sets = self.sets(call)?;
        let mut members = Vec::new();
        let Some((Some(first), others)) = sets.split_first() else { return Ok(members) };
        let mut outcome = Ok(());
        first.walk(first.all()?, false, |member, score| {
            let is_elsewhere = others.iter().flatten().any(|set| match set.score(member) {
                Ok(score) => score.is_some(),
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            });
            if !is_elsewhere {
                members.push((member.to_vec(), score));
            }
        })?;
        outcome?;
        Ok(members)
    }
}

/// The result's members in order.
fn compute(call: &Call<'_, '_>, request: &Request, operation: Operation) -> Result<Members, Refusal> {
    let mut members = match operation {
        Operation::Union => request.union(call)?,
        Operation::Intersection | Operation::Cardinality => request.intersection(call)?,
        Operation::Difference => request.difference(call)?,
    };
    members.sort_by(|(a, a_score), (b, b_score)| {
        a_score.partial_cmp(b_score).unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.cmp(b))
    });
    Ok(members)
}

fn answer(call: &mut Call<'_, '_>, operation: Operation) -> CommandResult {
    let request = Request::parse(call, 1, operation, false)?;
    call.expect_rows(match operation {
        Operation::Cardinality => request.inputs.first().map_or(0, |input| input.members),
        _ => request.inputs.iter().map(|input| input.members).sum(),
    })?;
    let members = compute(call, &request, operation)?;
    if operation == Operation::Cardinality {
        call.reply.integer(members.len() as i64);
        return Ok(());
    }
    begin_members(call.reply, members.len() as u64, request.with_scores);
    for (member, score) in &members {
        answer_member(call.reply, member, *score, request.with_scores);
    }
    Ok(())
}

fn store(call: &mut Call<'_, '_>, operation: Operation) -> CommandResult {
    let request = Request::parse(call, 2, operation, true)?;
    let members = compute(call, &request, operation)?;
    call.store_members(call.args[1], &members)
}

fn zunion(call: &mut Call<'_, '_>) -> CommandResult {
    answer(call, Operation::Union)
}

fn zinter(call: &mut Call<'_, '_>) -> CommandResult {
    answer(call, Operation::Intersection)
}

fn zdiff(call: &mut Call<'_, '_>) -> CommandResult {
    answer(call, Operation::Difference)
}

fn zintercard(call: &mut Call<'_, '_>) -> CommandResult {
    answer(call, Operation::Cardinality)
}

fn zunionstore(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Operation::Union)
}

fn zinterstore(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Operation::Intersection)
}

fn zdiffstore(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Operation::Difference)
}
