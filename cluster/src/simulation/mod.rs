//! A whole cluster from one seed: a plan is drawn, run and judged; a failing plan is shrunk.
//!
//! A run has two phases: chaos, in which everything may go wrong that the plan has; then all faults end, and the
//! cluster must converge. Each plan runs twice and must leave the same trace.

pub mod checker;
mod faults;
pub mod plan;
pub mod slot;
pub mod store;
pub mod world;

use crate::api::{Answer, Offset, Range, Request};
use crate::ids::Quorum;
use crate::limits::Limits;
use plan::{Operation, Plan};
use world::World;

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of everything that happened.
    pub trace: u64,
    /// Requests that were answered as asked for.
    pub answered: u64,
    /// What is wrong.
    pub failure: Option<String>,
}

/// Runs a plan and judges it.
pub fn run(plan: &Plan) -> Outcome {
    let mut world = World::new(plan.clone(), Limits::tiny());
    world.run();
    let failure = world.failure.clone().or_else(|| checker::check(&world).err()).or_else(|| check_end(&mut world));
    let good = |event: &&world::Event| !matches!(event.answer, None | Some(Answer::NotEnoughReplicas | Answer::Full));
    let answered = world.history.iter().filter(good).count() as u64;
    Outcome { trace: world.trace, answered, failure }
}

/// Asks every node for everything after the cluster has healed: all answers must be those of its rows, exactly.
fn check_end(world: &mut World) -> Option<String> {
    // Expired values go within a moment, by clocks that differ by 6 s.
    let until_us = world.now_us + 8_000_000;
    world.run_until(until_us);
    let before = checker::questions(world);
    world.run_until(until_us + 2_000_000);
    let left: Vec<_> = checker::questions(world).intersection(&before).copied().collect();
    if !left.is_empty() {
        return Some(format!("in the end nodes wait for answers that do not come (slot, question): {left:?}"));
    }
    let wall_ms = 1_700_000_000_000 + world.now_us / 1000;
    let live = checker::live_keys(world, wall_ms);
    let replicas = world.agreed.topology().replicas;
    let mixed = world.plan.operations.iter().any(|operation| operation.quorum.from != replicas);
    // With `ack = k` only entities with `from >= k` are counted.
    let ack = if mixed { 1 } else { replicas };
    let past_plan = world.plan.operations.len();
    let range = Range { start: vec![b'k'], end: Vec::new() };
    for slot in world.up().map(|(slot, _)| slot).collect::<Vec<_>>() {
        let first = world.history.len();
        let mut requests = vec![Request::Count { range: range.clone(), ack }];
        for offset in 0..=live.len() {
            let offset = Offset::Keys(offset as u64);
            requests.push(Request::Page { range: range.clone(), offset, limit: 2, with_values: true });
        }
        for key in 0..=12 {
            let quorum = Some(Quorum { ack: replicas, from: replicas });
            requests.push(Request::Get { key: vec![b'k', key], quorum, is_blocking: false });
        }
        for request in requests {
            // One after the other: together they would be more than what one peer is sent at once.
            world.request(slot, past_plan, request);
            let until_us = world.now_us + 60_000;
            world.run_until(until_us);
        }
        let keys: Vec<_> = live.iter().map(|(key, (_, value))| (key.clone(), value.clone())).collect();
        for (number, event) in world.history[first..].iter().enumerate() {
            let offset = number.saturating_sub(1);
            let is_right = match &event.answer {
                Some(Answer::Count { rows, sources }) => {
                    *rows == live.len() as u64 && (sources.unseen.is_empty() || mixed)
                }
                Some(Answer::Page { rows, total, .. }) => {
                    *total == live.len() as u64 && keys.iter().skip(offset).take(2).eq(rows)
                }
                Some(Answer::Value { value, .. }) => mixed || live.values().any(|(_, live)| live == value),
                Some(Answer::Absent { .. }) => true,
                Some(Answer::NotEnoughReplicas) if mixed => true,
                _ => false,
            };
            if !is_right {
                return Some(format!("in the end slot {slot} answers request {number} of {keys:?} with {event:?}"));
            }
        }
    }
    if let Some(failure) = writes_fail(world) {
        return Some(failure);
    }
    let faults: Vec<String> = world.up().flat_map(|(_, slot)| slot.store.faults()).collect();
    if !faults.is_empty() {
        return Some(format!("`check` finds {faults:?}"));
    }
    world.failure.clone()
}

/// All faults are over and all clocks are right: each node takes writes, to new keys and to all that there are. (The
/// second attempt must succeed: a first one may have found replicas that differ, and made them equal.)
fn writes_fail(world: &mut World) -> Option<String> {
    let (past_plan, replicas) = (world.plan.operations.len(), world.agreed.topology().replicas);
    let quorum = Some(Quorum { ack: replicas, from: replicas });
    for slot in world.up().map(|(slot, _)| slot).collect::<Vec<_>>() {
        for key in (0..=12).chain([200 + slot as u8]) {
            let mut answers = Vec::new();
            for _ in 0..2 {
                let value = Some(vec![b'e', key]);
                let request = Request::Put { key: vec![b'k', key], value, ttl_ms: None, quorum, condition: None };
                let place = world.history.len();
                world.request(slot, past_plan, request);
                let until_us = world.now_us + 60_000;
                world.run_until(until_us);
                answers.push(world.history[place].answer.clone());
                if let Some(Some(Answer::Written { .. })) = answers.last() {
                    break;
                }
            }
            if !matches!(answers.last(), Some(Some(Answer::Written { .. }))) {
                return Some(format!("in the end slot {slot} does not write key {key}: {answers:?}"));
            }
        }
    }
    None
}

/// Runs a plan twice.
pub fn run_twice(plan: &Plan) -> Outcome {
    let (first, second) = (run(plan), run(plan));
    if first != second {
        let failure = Some(format!("two runs of one plan differ: {first:?} and {second:?}"));
        return Outcome { failure, ..first };
    }
    first
}

/// All that a plan has, an operation or a fault a line, with what clients were answered: what one needs to see why it
/// fails.
pub fn report(plan: &Plan) -> String {
    let mut world = World::new(plan.clone(), Limits::tiny());
    world.run();
    let answer = |place: usize| match world.history.iter().find(|event| event.operation == place) {
        None => "not asked: the slot was down".to_owned(),
        Some(event) => format!("{} us: {:?} at {:?} us", event.invoked_us, event.answer, event.ended_us),
    };
    let mut lines: Vec<(u64, String)> =
        plan.faults.iter().map(|fault| (fault.at_ms, format!("{:?} for {} ms", fault.kind, fault.for_ms))).collect();
    lines.extend(plan.operations.iter().enumerate().map(|(place, operation)| {
        let Operation { at_ms, slot, key, quorum: Quorum { ack, from }, ask } = operation;
        (*at_ms, format!("operation {place}: slot {slot}, key {key}, {ack}/{from}, {ask:?}; {}", answer(place)))
    }));
    lines.sort_by_key(|(at_ms, _)| *at_ms);
    let rest = Plan { operations: Vec::new(), faults: Vec::new(), ..plan.clone() };
    let lines: Vec<String> = lines.into_iter().map(|(at_ms, line)| format!("{at_ms} ms: {line}\n")).collect();
    format!("{rest:?}, with these operations and faults (the clock of answers is 50 ms ahead):\n{}", lines.concat())
}

/// A plan that still fails, with as little in it as `attempts` runs find.
pub fn shrink(plan: &Plan, attempts: usize) -> Plan {
    let mut best = plan.clone();
    let mut left = attempts;
    let mut fails = |plan: &Plan| {
        left = left.saturating_sub(1);
        left > 0 && run(plan).failure.is_some()
    };
    let mut size = best.operations.len().max(best.faults.len());
    while size > 0 {
        let mut start = 0;
        while start < best.faults.len() {
            let mut smaller = best.clone();
            smaller.faults.drain(start..(start + size).min(best.faults.len()));
            if fails(&smaller) { best = smaller } else { start += size }
        }
        let mut start = 0;
        while start < best.operations.len() {
            let mut smaller = best.clone();
            smaller.operations.drain(start..(start + size).min(best.operations.len()));
            if fails(&smaller) { best = smaller } else { start += size }
        }
        size /= 2;
    }
    let simpler: [fn(&mut Plan); 7] = [
        |plan| plan.loss = 0,
        |plan| plan.duplication = 0,
        |plan| plan.skews_ms.fill(0),
        |plan| plan.skews_ms.iter_mut().filter(|skew_ms| skew_ms.abs() <= world::SKEW_MS_MAX).for_each(|ms| *ms = 0),
        |plan| (plan.delay_ms_max, plan.sync_ms_max) = (1, 0),
        |plan| plan.sync_ms_max = 0,
        |plan| plan.partitions = 1,
    ];
    for simplify in simpler {
        let mut smaller = best.clone();
        simplify(&mut smaller);
        if fails(&smaller) {
            best = smaller;
        }
    }
    best
}
