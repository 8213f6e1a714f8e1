//! Conditional writes: compare and set by version.
//!
//! The coordinator hands the write to the first replica of the key that it believes alive. That replica makes the
//! conditional writes of one key one after the other: it reads, with so many answers that the read meets every
//! confirmed write, compares, and writes above the version that it has read. The reads and writes themselves are
//! operations of [`requests`](super::requests); this file decides which comes next.
//!
//! The guarantee: if conditional writes go through the same node, with the same `ack` and `from`, each sees the
//! outcomes of those that were answered before it. If two nodes disagree about which replicas are alive, or if the
//! first replica changes, two writes may both find their condition met and both be answered "written": the later
//! version wins, as with any write. A write without a condition does not wait for one with a condition. A write that is
//! answered "not enough replicas" may have been made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::context::Context;
use super::waiting::{Reply, Timer, Waiter};
use super::write::Change;
use crate::api::{Answer, Condition};
use crate::ids::{NodeId, Quorum, Version};
use crate::peers::Health;
use crate::protocol::Message;

/// Requests of other nodes that are remembered, so that one that arrives twice is done once.
const REMEMBERED: usize = 1024;

const WRITTEN: u8 = 1;
const FAILED: u8 = 2;
const TOO_FEW: u8 = 3;
const OVERLOADED: u8 = 4;
const FULL: u8 = 5;

/// Who asked for a conditional write.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Client(u64),
    Node(NodeId, u64),
}

/// A write with a condition.
#[derive(Debug)]
pub(super) struct Conditional {
    pub(super) from: From,
    pub(super) change: Change,
    pub(super) quorum: Quorum,
    pub(super) condition: Condition,
}

/// What a conditional write does next. Its outcome is for [`Conditionals::on_outcome`].
#[derive(Debug)]
pub(super) enum Next {
    Read { number: u64, key: Vec<u8>, quorum: Quorum },
    Write { number: u64, change: Change, quorum: Quorum, above: Version },
}

#[derive(Debug)]
struct Op {
    write: Conditional,
    is_writing: bool,
}

/// Conditional writes under way.
#[derive(Debug, Default)]
pub(super) struct Conditionals {
    /// Those that this node serializes.
    ops: BTreeMap<u64, Op>,
    /// Of each key, the write under way and those that wait.
    turns: BTreeMap<Vec<u8>, VecDeque<u64>>,
    /// Those that were handed on: the client of each.
    handed_on: BTreeMap<u64, u64>,
    seen: BTreeSet<(NodeId, u64)>,
    seen_order: VecDeque<(NodeId, u64)>,
}

impl Conditionals {
    pub(super) fn len(&self) -> usize {
        self.ops.len() + self.handed_on.len()
    }

    /// Notes this request of a node, if it is new. Returns whether it is.
    fn note_if_new(&mut self, from: NodeId, request: u64) -> bool {
        let is_new = self.seen.insert((from, request));
        if is_new {
            self.seen_order.push_back((from, request));
            if self.seen_order.len() > REMEMBERED
                && let Some(oldest) = self.seen_order.pop_front()
            {
                self.seen.remove(&oldest);
            }
        }
        is_new
    }

    /// Takes the write of a client, or hands it on.
    pub(super) fn begin<T>(
        &mut self,
        cx: &mut Context<'_, T>,
        client: u64,
        change: Change,
        quorum: Quorum,
        condition: Condition,
    ) -> Option<Next> {
        let partition = cx.routing.partition_of(&change.key);
        let replicas = cx.routing.read_set(partition, quorum.from);
        let first = replicas.iter().find(|node| cx.health(**node) == Health::Up).or(replicas.first()).copied();
        let Some(first) = first.filter(|first| cx.health(*first) != Health::Down) else {
            cx.answer(client, Answer::NotEnoughReplicas);
            return None;
        };
        if first == cx.own {
            return self.serialize(cx, Conditional { from: From::Client(client), change, quorum, condition });
        }
        let number = cx.calls.number();
        let (kind, versions) = match condition {
            Condition::Is(versions) => (1, versions),
            Condition::IsNot(versions) => (2, versions),
        };
        let message = Message::Conditional {
            quorum: (quorum.ack, quorum.from),
            condition: kind,
            versions,
            deadline_ms: change.deadline_ms,
            key: &change.key,
            value: change.value.as_deref(),
        };
        cx.ask(first, Waiter::Conditional(number), &message);
        self.handed_on.insert(number, client);
        // The other node has as much time as this one would have for a read and a write.
        cx.set_timer(2 * cx.limits.request_timeout_ms, Timer::Conditional(number));
        None
    }

    /// Takes a write that another node hands on.
    pub(super) fn on_message<T>(
        &mut self,
        cx: &mut Context<'_, T>,
        from: NodeId,
        request: u64,
        message: &Message<'_>,
    ) -> Option<Next> {
        let Message::Conditional { quorum, condition, versions, deadline_ms, key, value } = message else {
            return None;
        };
        if !self.note_if_new(from, request) {
            return None;
        }
        let from = From::Node(from, request);
        let Ok(quorum) = cx.routing.quorum(Some(Quorum { ack: quorum.0, from: quorum.1 })) else {
            tell(cx, from, Answer::NotEnoughReplicas);
            return None;
        };
        let is_too_long =
            key.len() > cx.limits.key_bytes_max || value.is_some_and(|value| value.len() > cx.limits.value_bytes_max);
        if is_too_long || self.len() >= cx.limits.requests_max {
            tell(cx, from, Answer::Overloaded);
            return None;
        }
        let condition = match condition {
            1 => Condition::Is(versions.clone()),
            _ => Condition::IsNot(versions.clone()),
        };
        let change = Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec), deadline_ms: *deadline_ms };
        self.serialize(cx, Conditional { from, change, quorum, condition })
    }

    fn serialize<T>(&mut self, cx: &mut Context<'_, T>, write: Conditional) -> Option<Next> {
        let number = cx.calls.number();
        let waiting = self.turns.entry(write.change.key.clone()).or_default();
        if waiting.len() >= cx.limits.conditional_waiting_max {
            tell(cx, write.from, Answer::Overloaded);
            return None;
        }
        waiting.push_back(number);
        let is_first = waiting.len() == 1;
        self.ops.insert(number, Op { write, is_writing: false });
        if is_first { self.read_for(number) } else { None }
    }

    fn read_for(&self, number: u64) -> Option<Next> {
        let write = &self.ops.get(&number)?.write;
        let Quorum { ack, from } = write.quorum;
        let quorum = Quorum { ack: ack.max(from + 1 - ack), from };
        Some(Next::Read { number, key: write.change.key.clone(), quorum })
    }

    /// A read or a write for a conditional write has its outcome.
    pub(super) fn on_outcome<T>(&mut self, cx: &mut Context<'_, T>, number: u64, answer: Answer) -> Option<Next> {
        let op = self.ops.get_mut(&number)?;
        let (found, above) = match &answer {
            Answer::Value { version, .. } => (Some(*version), *version),
            Answer::Absent { version } => (None, version.unwrap_or_default()),
            _ => return self.end(cx, number, answer),
        };
        if op.is_writing {
            return self.end(cx, number, answer);
        }
        if !op.write.condition.holds(found) {
            return self.end(cx, number, Answer::ConditionFailed { found });
        }
        op.is_writing = true;
        Some(Next::Write { number, change: op.write.change.clone(), quorum: op.write.quorum, above })
    }

    fn end<T>(&mut self, cx: &mut Context<'_, T>, number: u64, answer: Answer) -> Option<Next> {
        let write = self.ops.remove(&number)?.write;
        tell(cx, write.from, answer);
        let waiting = self.turns.get_mut(&write.change.key)?;
        waiting.retain(|other| *other != number);
        match waiting.front().copied() {
            Some(next) => self.read_for(next),
            None => {
                self.turns.remove(&write.change.key);
                None
            }
        }
    }

    /// The node that a write was handed to has answered, or will not.
    pub(super) fn on_reply<T>(&mut self, cx: &mut Context<'_, T>, number: u64, reply: Reply<'_, '_>) {
        let Some(client) = self.handed_on.remove(&number) else { return };
        let answer = match reply {
            Reply::Message(_, Message::Outcome { outcome, version }) => match *outcome {
                WRITTEN => Answer::Written { version: *version },
                FAILED => Answer::ConditionFailed { found: Some(*version).filter(|v| *v != Version::ZERO) },
                OVERLOADED => Answer::Overloaded,
                FULL => Answer::Full,
                _ => Answer::NotEnoughReplicas,
            },
            _ => Answer::NotEnoughReplicas,
        };
        cx.answer(client, answer);
    }

    /// The time of a write that was handed on is up.
    pub(super) fn on_timer<T>(&mut self, cx: &mut Context<'_, T>, number: u64) {
        if let Some(client) = self.handed_on.remove(&number) {
            for request in cx.calls.of(Waiter::Conditional(number)) {
                cx.forget(request);
            }
            cx.answer(client, Answer::NotEnoughReplicas);
        }
    }
}

fn tell<T>(cx: &mut Context<'_, T>, from: From, answer: Answer) {
    match from {
        From::Client(client) => cx.answer(client, answer),
        From::Node(node, request) => {
            let (outcome, version) = match answer {
                Answer::Written { version } => (WRITTEN, version),
                Answer::ConditionFailed { found } => (FAILED, found.unwrap_or_default()),
                Answer::Overloaded => (OVERLOADED, Version::ZERO),
                Answer::Full => (FULL, Version::ZERO),
                _ => (TOO_FEW, Version::ZERO),
            };
            cx.send(node, request, &Message::Outcome { outcome, version });
        }
    }
}
