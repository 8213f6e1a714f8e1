//! The commands that a node of a cluster serves: those about whole strings and their deadlines, which the last writer
//! wins, and positions. They go through the node's coordinator, with the default `ack` and `from` or those of `Q.ACK`.
//!
//! Each key is an entity of its own: `MSET` and `DEL` of several keys are so many writes. What reads and then writes
//! (`SETNX`, `EXPIRE`, `PERSIST`) writes on the condition that the version is still the one that was read.
//!
//! A command waits for its answers: it runs on the threads of long commands.

use std::collections::VecDeque;

use quipu_cluster::api::{Answer as Outcome, Condition, Offset, Range, Request};
use quipu_cluster::ids::Quorum;
use tokio::sync::oneshot::Receiver;

use super::expiry::Unit;
use super::{Answer, Call, Handler, Refusal, is_word, refusal};
use crate::cluster::Cluster;
use crate::facts::{Flags, Spec};
use crate::resp::number::{parse_i64, parse_u64};
use crate::resp::reply::{Protocol, Reply};
use crate::state::session::Session;
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("q.ack", set_quorum)];

/// Keys of one command that the node is asked for at once: it has room for the requests of others, too.
const AT_ONCE: usize = 128;
/// Attempts at a write on condition while others write the same key.
const TRIES: usize = 16;

const NOT_ENOUGH: Refusal = refusal::text("NOREPLICAS Not Enough Replicas: if it is a write, it may show or not");

const NO_TRANSACTIONS: Refusal =
    refusal::text("ERR a transaction cannot be replicated: each key of a cluster is on nodes of its own");
const ONE_DATABASE: Refusal = refusal::text("ERR a cluster has one database; SELECT 0");

/// Keys of a page that the nodes are asked for at once, and the bytes of all pages of one command.
const PAGE_ROWS: usize = 500;
const PAGES_BYTES_MAX: usize = 64 << 20;

/// Whether a client may give a command to a node of a cluster.
///
/// # Errors
/// It cannot be replicated, or not so.
pub fn check(session: &Session, spec: &Spec, args: &[&[u8]]) -> Answer {
    let is_about_data = spec.flags.has(Flags::READ) || spec.flags.has(Flags::WRITE);
    // Those that end what cannot begin say so themselves.
    let is_of_transactions = matches!(spec.name, "exec" | "discard" | "unwatch");
    match (spec.name, args) {
        ("multi" | "watch", _) => return Err(NO_TRANSACTIONS),
        ("select", [_, database]) if parse_i64(database).is_some_and(|database| database != 0) => {
            return Err(ONE_DATABASE);
        }
        _ => {}
    }
    if !spec.flags.has(Flags::REPLICATED) {
        return match is_about_data && !is_of_transactions {
            true => Err(Refusal::new(format!(
                "ERR '{}' is not served by a node of a cluster: whole strings are replicated there, of which the last \
                 writer wins (GET, SET, DEL, EXISTS, MGET, MSET, TTL and their like)",
                spec.name
            ))),
            false => Ok(()),
        };
    }
    if session.queue.is_some() {
        return Err(NO_TRANSACTIONS);
    }
    if session.database != 0 {
        return Err(ONE_DATABASE);
    }
    Ok(())
}

/// `Q.ACK [ack from]`.
fn set_quorum(call: &mut Call<'_, '_>) -> Answer {
    let Some(cluster) = call.server.cluster.get() else {
        return Err(refusal::text("ERR this node is alone: there are no replicas to wait for"));
    };
    match *call.args {
        [_] => {
            let replicas = cluster.replicas() as i64;
            let (ack, from) = match call.session.quorum {
                Some(quorum) => (i64::from(quorum.ack), i64::from(quorum.from)),
                None => (replicas / 2 + 1, replicas),
            };
            call.reply.array(2);
            call.reply.integer(ack);
            call.reply.integer(from);
            Ok(())
        }
        [_, ack, from] => {
            let number = |word: &[u8]| parse_i64(word).ok_or(refusal::NOT_INTEGER);
            let (ack, from) = (number(ack)?, number(from)?);
            let nodes = cluster.nodes() as i64;
            match (u8::try_from(ack), u8::try_from(from)) {
                (Ok(ack), Ok(from)) if 1 <= ack && ack <= from && i64::from(from) <= nodes => {
                    call.session.quorum = Some(Quorum { ack, from });
                    call.reply.ok();
                    Ok(())
                }
                _ => Err(Refusal::new(format!("ERR it must be 1 <= ack <= from <= {nodes}, the nodes of the cluster"))),
            }
        }
        _ => Err(refusal::SYNTAX),
    }
}

/// What is at a key.
struct Found {
    value: Vec<u8>,
    version: quipu_cluster::ids::Version,
    /// 0: it does not expire.
    deadline_ms: u64,
}

struct Coordinator<'c> {
    cluster: &'c Cluster,
    quorum: Option<Quorum>,
}

impl Coordinator<'_> {
    fn wait(answer: Receiver<Outcome>) -> Result<Outcome, Refusal> {
        match answer.blocking_recv() {
            Ok(Outcome::NotEnoughReplicas) | Err(_) => Err(NOT_ENOUGH),
            Ok(Outcome::Unavailable(why)) => Err(Refusal::new(format!("TRYAGAIN {why}"))),
            Ok(Outcome::Overloaded) => Err(refusal::text("TRYAGAIN too many requests are under way")),
            Ok(Outcome::Invalid(why) | Outcome::TooLarge(why)) => Err(Refusal::new(format!("ERR {why}"))),
            Ok(outcome) => Ok(outcome),
        }
    }

    fn found(outcome: Outcome) -> Option<Found> {
        match outcome {
            Outcome::Value { version, value, deadline_ms } => Some(Found { value, version, deadline_ms }),
            _ => None,
        }
    }

    /// Asks for many things, some of them side by side. After the first that fails it asks for no more.
    fn ask_all<T>(
        asked: impl Iterator<Item = T>,
        ask: impl Fn(T) -> Receiver<Outcome>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let (mut under_way, mut outcomes) = (VecDeque::new(), Vec::new());
        for one in asked {
            if under_way.len() == AT_ONCE
                && let Some(first) = under_way.pop_front()
            {
                outcomes.push(Self::wait(first)?);
            }
            under_way.push_back(ask(one));
        }
        for answer in under_way {
            outcomes.push(Self::wait(answer)?);
        }
        Ok(outcomes)
    }

    /// Reads several keys side by side.
    fn get_all(&self, keys: &[&[u8]]) -> Result<Vec<Option<Found>>, Refusal> {
        let get = |key: &&[u8]| Request::Get { key: key.to_vec(), quorum: self.quorum, is_blocking: false };
        let outcomes = Self::ask_all(keys.iter(), |key| self.cluster.ask(get(key)))?;
        Ok(outcomes.into_iter().map(Self::found).collect())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Found>, Refusal> {
        Ok(self.get_all(&[key])?.pop().flatten())
    }

    fn put(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        ttl_ms: Option<u64>,
        condition: Option<Condition>,
    ) -> Receiver<Outcome> {
        let (key, value) = (key.to_vec(), value.map(<[u8]>::to_vec));
        self.cluster.ask(Request::Put { key, value, ttl_ms, quorum: self.quorum, condition })
    }

    /// Writes if the condition holds. Returns whether it did.
    fn put_if(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        ttl_ms: Option<u64>,
        condition: Option<Condition>,
    ) -> Result<bool, Refusal> {
        Ok(!matches!(Self::wait(self.put(key, value, ttl_ms, condition))?, Outcome::ConditionFailed { .. }))
    }

    /// Gives the value at a key another deadline, if `wanted` says so of what is there. Returns whether it did.
    fn set_deadline(&self, key: &[u8], wanted: impl Fn(&Found) -> Option<Option<u64>>) -> Result<bool, Refusal> {
        for _ in 0..TRIES {
            let Some(found) = self.get(key)? else { return Ok(false) };
            let Some(deadline_ms) = wanted(&found) else { return Ok(false) };
            let condition = Some(Condition::Is(vec![found.version]));
            let now_ms = clock::now_ms();
            let is_made = match deadline_ms {
                Some(deadline_ms) if deadline_ms <= now_ms => self.put_if(key, None, None, condition)?,
                Some(deadline_ms) => self.put_if(key, Some(&found.value), Some(deadline_ms - now_ms), condition)?,
                None => self.put_if(key, Some(&found.value), None, condition)?,
            };
            if is_made {
                return Ok(true);
            }
        }
        Err(refusal::text("TRYAGAIN others write the same key all the time"))
    }
}

/// Runs a command that is [`Flags::REPLICATED`], and waits for its answer.
///
/// # Errors
/// Why it is refused.
pub fn run(cluster: &Cluster, session: &Session, spec: &Spec, args: &[&[u8]], reply: &mut Reply) -> Answer {
    let node = Coordinator { cluster, quorum: session.quorum };
    match (spec.name, args) {
        ("get", [_, key]) => bulk_or_null(reply, node.get(key)?),
        ("strlen", [_, key]) => reply.integer(node.get(key)?.map_or(0, |found| found.value.len() as i64)),
        ("type", [_, key]) => reply.simple(if node.get(key)?.is_some() { "string" } else { "none" }),
        ("mget", [_, keys @ ..]) => {
            let found = node.get_all(keys)?;
            reply.array(found.len());
            found.into_iter().for_each(|found| bulk_or_null(reply, found));
        }
        ("exists" | "touch", [_, keys @ ..]) => {
            reply.integer(node.get_all(keys)?.iter().flatten().count() as i64);
        }
        ("del" | "unlink", [_, keys @ ..]) => {
            let mut keys = keys.to_vec();
            keys.sort_unstable();
            keys.dedup();
            let there = node.get_all(&keys)?.iter().flatten().count();
            // Those that are absent here may be on their way: they are removed as well.
            Coordinator::ask_all(keys.iter(), |key| node.put(key, None, None, None))?;
            reply.integer(there as i64);
        }
        ("set", [_, key, value, options @ ..]) => set(&node, key, value, options, reply)?,
        ("setnx", [_, key, value]) => {
            let condition = Some(Condition::IsNot(Vec::new()));
            reply.integer(i64::from(node.put_if(key, Some(value), None, condition)?));
        }
        ("setex" | "psetex", [_, key, time, value]) => {
            let unit = if spec.name == "setex" { Unit::Seconds } else { Unit::Milliseconds };
            let ttl_ms = ttl_of(unit, time, spec.name)?;
            node.put_if(key, Some(value), Some(ttl_ms), None)?;
            reply.ok();
        }
        ("mset", [_, pairs @ ..]) => {
            if !pairs.len().is_multiple_of(2) {
                return Err(refusal::wrong_arity("mset"));
            }
            Coordinator::ask_all(pairs.chunks_exact(2), |pair| node.put(pair[0], Some(pair[1]), None, None))?;
            reply.ok();
        }
        ("ttl" | "pttl" | "expiretime" | "pexpiretime", [_, key]) => {
            let now_ms = clock::now_ms();
            reply.integer(match (node.get(key)?.map(|found| found.deadline_ms), spec.name) {
                (None, _) => -2,
                (Some(0), _) => -1,
                (Some(at_ms), "ttl") => (at_ms.saturating_sub(now_ms) as i64 + 500) / 1000,
                (Some(at_ms), "pttl") => at_ms.saturating_sub(now_ms) as i64,
                (Some(at_ms), "expiretime") => (at_ms as i64 + 500) / 1000,
                (Some(at_ms), _) => at_ms as i64,
            });
        }
        ("persist", [_, key]) => {
            let is_made = node.set_deadline(key, |found| (found.deadline_ms != 0).then_some(None))?;
            reply.integer(i64::from(is_made));
        }
        ("expire" | "pexpire" | "expireat" | "pexpireat", [_, key, time, options @ ..]) => {
            let unit = match spec.name {
                "expire" => Unit::Seconds,
                "pexpire" => Unit::Milliseconds,
                "expireat" => Unit::UnixSeconds,
                _ => Unit::UnixMilliseconds,
            };
            let deadline_ms = moment_of(unit, time, spec.name)?.max(0) as u64;
            let wanted = deadline_condition(options)?;
            let is_made = node.set_deadline(key, |found| {
                let old_ms = if found.deadline_ms == 0 { u64::MAX } else { found.deadline_ms };
                wanted(old_ms, deadline_ms).then_some(Some(deadline_ms))
            })?;
            reply.integer(i64::from(is_made));
        }
        ("dbsize", [_]) => reply.integer(count(&node, Range::default())? as i64),
        ("q.count", [_]) => reply.integer(count(&node, Range::default())? as i64),
        ("q.count", [_, min, max]) => reply.integer(match range_of(min, max)? {
            Some(range) => count(&node, range)? as i64,
            None => 0,
        }),
        ("q.rank", [_, key]) => {
            let range = Range { start: Vec::new(), end: key.to_vec() };
            reply.integer(if key.is_empty() { 0 } else { count(&node, range)? as i64 });
        }
        ("q.nth", [_, offset, bounds @ ..]) => {
            let range = match bounds {
                [] => Some(Range::default()),
                [min, max] => range_of(min, max)?,
                _ => return Err(refusal::SYNTAX),
            };
            let offset = parse_i64(offset).ok_or(refusal::NOT_INTEGER)?;
            match nth(&node, range, offset)? {
                Some(key) => reply.bulk(&key),
                None => reply.null(),
            }
        }
        ("q.range", [_, min, max, options @ ..]) => page(&node, range_of(min, max)?, options, reply)?,
        _ => return Err(refusal::SYNTAX),
    }
    Ok(())
}

/// On how many other nodes each write is that this session was told of: `WAIT` asks for that.
pub(super) fn confirmations(cluster: &Cluster, session: &Session) -> i64 {
    let ack = session.quorum.map_or(cluster.replicas() / 2 + 1, |quorum| usize::from(quorum.ack));
    ack as i64 - 1
}

fn bulk_or_null(reply: &mut Reply, found: Option<Found>) {
    match found {
        Some(found) => reply.bulk(&found.value),
        None => reply.null(),
    }
}

fn moment_of(unit: Unit, time: &[u8], name: &str) -> Result<i64, Refusal> {
    let number = parse_i64(time).ok_or(refusal::NOT_INTEGER)?;
    let moment = unit.moment_ms(number, clock::now_ms());
    moment.ok_or_else(|| Refusal::new(format!("ERR invalid expire time in '{name}' command")))
}

/// A time to live that must be above zero.
fn ttl_of(unit: Unit, time: &[u8], name: &str) -> Result<u64, Refusal> {
    let moment_ms = moment_of(unit, time, name)?;
    let is_positive = parse_i64(time).is_some_and(|number| number > 0);
    if !is_positive {
        return Err(Refusal::new(format!("ERR invalid expire time in '{name}' command")));
    }
    // A moment that has passed: it lives for no time, and so is removed.
    Ok((moment_ms.max(0) as u64).saturating_sub(clock::now_ms()))
}

fn set(node: &Coordinator<'_>, key: &[u8], value: &[u8], options: &[&[u8]], reply: &mut Reply) -> Answer {
    let (mut condition, mut ttl_ms) = (None, None);
    let mut left = options.iter();
    while let Some(option) = left.next() {
        if is_word(option, "nx") && condition.is_none() {
            condition = Some(Condition::IsNot(Vec::new()));
        } else if is_word(option, "xx") && condition.is_none() {
            condition = Some(Condition::Is(Vec::new()));
        } else if let Some(unit) = Unit::of(option)
            && ttl_ms.is_none()
        {
            ttl_ms = Some(ttl_of(unit, left.next().ok_or(refusal::SYNTAX)?, "set")?);
        } else if is_word(option, "get") || is_word(option, "keepttl") {
            return Err(refusal::text("ERR SET with GET or KEEPTTL is not served by a node of a cluster"));
        } else {
            return Err(refusal::SYNTAX);
        }
    }
    match node.put_if(key, Some(value), ttl_ms, condition)? {
        true => reply.ok(),
        false => reply.null(),
    }
    Ok(())
}

/// Whether a new deadline is to replace an old one: `NX`, `XX`, `GT`, `LT`.
fn deadline_condition(options: &[&[u8]]) -> Result<fn(u64, u64) -> bool, Refusal> {
    match options {
        [] => Ok(|_, _| true),
        [option] if is_word(option, "nx") => Ok(|old, _| old == u64::MAX),
        [option] if is_word(option, "xx") => Ok(|old, _| old != u64::MAX),
        [option] if is_word(option, "gt") => Ok(|old, new| old != u64::MAX && new > old),
        [option] if is_word(option, "lt") => Ok(|old, new| new < old),
        _ => Err(refusal::SYNTAX),
    }
}

/// A range of keys by bounds as Q.COUNT has them; `None` if it is empty.
fn range_of(min: &[u8], max: &[u8]) -> Result<Option<Range>, Refusal> {
    let wrong = refusal::text("ERR min or max not valid string range item");
    let after = |key: &[u8]| [key, &[0]].concat();
    let start = match min {
        b"-" => Vec::new(),
        b"+" => return Ok(None),
        [b'[', key @ ..] => key.to_vec(),
        [b'(', key @ ..] => after(key),
        _ => return Err(wrong),
    };
    let end = match max {
        b"+" => Vec::new(),
        b"-" => return Ok(None),
        [b'[', key @ ..] => after(key),
        [b'('] => return Ok(None),
        [b'(', key @ ..] => key.to_vec(),
        _ => return Err(wrong),
    };
    Ok((end.is_empty() || start < end).then_some(Range { start, end }))
}

fn count(node: &Coordinator<'_>, range: Range) -> Result<u64, Refusal> {
    match Coordinator::wait(node.cluster.ask(Request::Count { range, ack: 1 }))? {
        Outcome::Count { rows, .. } => Ok(rows),
        _ => Err(NOT_ENOUGH),
    }
}

fn nth(node: &Coordinator<'_>, range: Option<Range>, offset: i64) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(range) = range else { return Ok(None) };
    let offset = match u64::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => match count(node, range.clone())?.checked_sub(offset.unsigned_abs()) {
            Some(offset) => offset,
            None => return Ok(None),
        },
    };
    let page = Request::Page { range, offset: Offset::Keys(offset), limit: 1, with_values: false };
    match Coordinator::wait(node.cluster.ask(page))? {
        Outcome::Page { rows, .. } => Ok(rows.into_iter().next().map(|(key, _)| key)),
        _ => Err(NOT_ENOUGH),
    }
}

/// `Q.RANGE min max [REV] [OFFSET n] [LIMIT n] [WITHVALUES] [WITHTOTAL]`, in pages of moments of their own.
fn page(node: &Coordinator<'_>, range: Option<Range>, options: &[&[u8]], reply: &mut Reply) -> Answer {
    let (mut is_reverse, mut offset, mut limit, mut with_values, mut with_total) = (false, 0, u64::MAX, false, false);
    let mut left = options.iter();
    while let Some(word) = left.next() {
        match () {
            () if is_word(word, "rev") => is_reverse = true,
            () if is_word(word, "withvalues") => with_values = true,
            () if is_word(word, "withtotal") => with_total = true,
            () if is_word(word, "offset") || is_word(word, "limit") => {
                let number = left.next().ok_or(refusal::SYNTAX)?;
                let number = parse_u64(number).ok_or(refusal::NOT_INTEGER)?;
                if is_word(word, "offset") { offset = number } else { limit = number }
            }
            () => return Err(refusal::SYNTAX),
        }
    }
    let total = match &range {
        Some(range) if is_reverse || with_total => count(node, range.clone())?,
        _ => 0,
    };
    if is_reverse {
        let end = total.saturating_sub(offset);
        offset = end.saturating_sub(limit);
        limit = end - offset;
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    if let Some(mut range) = range {
        while (found.len() as u64) < limit {
            let rows = (limit - found.len() as u64).min(PAGE_ROWS as u64) as usize;
            let page = Request::Page { range: range.clone(), offset: Offset::Keys(offset), limit: rows, with_values };
            let Outcome::Page { rows, .. } = Coordinator::wait(node.cluster.ask(page))? else { return Err(NOT_ENOUGH) };
            let Some((last, _)) = rows.last() else { break };
            (range.start, offset) = ([&last[..], &[0]].concat(), 0);
            bytes += rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            if bytes > PAGES_BYTES_MAX {
                return Err(refusal::text(
                    "ERR the answer has more than 64 MiB: ask for parts of it with OFFSET and LIMIT",
                ));
            }
            found.extend(rows);
        }
    }
    if is_reverse {
        found.reverse();
    }
    if with_total {
        reply.array(2);
        reply.integer(total as i64);
    }
    let is_flat = with_values && reply.protocol == Protocol::Resp2;
    reply.array(found.len() * if is_flat { 2 } else { 1 });
    for (key, value) in &found {
        if with_values && !is_flat {
            reply.array(2);
        }
        reply.bulk(key);
        if with_values {
            reply.bulk(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_bounds() {
        let range = |start: &[u8], end: &[u8]| Some(Range { start: start.to_vec(), end: end.to_vec() });
        let of = |min: &[u8], max: &[u8]| range_of(min, max).ok().flatten();
        assert_eq!(of(b"-", b"+"), range(b"", b""));
        assert_eq!(of(b"[a", b"(b"), range(b"a", b"b"));
        assert_eq!(of(b"(a", b"[b"), range(b"a\0", b"b\0"));
        assert_eq!(of(b"[b", b"(b"), None);
        assert_eq!(of(b"+", b"+"), None);
        assert!(range_of(b"a", b"+").is_err());
    }
}
