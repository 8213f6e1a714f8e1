//! Conditional writes: compare and set by version.
//!
//! The coordinator hands the write to the first replica of the key that it believes alive, which has those of one key
//! wait for each other: it reads, with as many answers as the write has not confirmations (so that the two meet),
//! compares, and writes above what it has read.
//!
//! What that guarantees: of conditional writes that went through the same node, with the same `ack` and `from`, each
//! saw the outcome of those answered before. Where two nodes disagree about who is alive, or the first replica changes,
//! two writes may both find their condition met, and both be answered "written": the later version wins, as with any
//! write. A write without a condition is not held up by one with. What is answered "not enough replicas" may have been
//! made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quipu::Result;

use super::write::Change;
use super::{Asker, Node, Reply, Timer, Turn, Waiter};
use crate::api::{Answer, Condition};
use crate::ids::{NodeId, Quorum, Version};
use crate::peers::Health;
use crate::protocol::Message;
use crate::tables::Tables;

/// Requests of other nodes that are remembered, so that one that arrives twice is done once.
const REMEMBERED: usize = 1024;

const WRITTEN: u8 = 1;
const FAILED: u8 = 2;
const TOO_FEW: u8 = 3;
const OVERLOADED: u8 = 4;

/// Who asked for a conditional write.
#[derive(Clone, Copy, Debug)]
enum From {
    Client(u64),
    Node(NodeId, u64),
}

#[derive(Debug)]
struct Op {
    from: From,
    change: Change,
    quorum: Quorum,
    condition: Condition,
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

    /// Whether this request of a node is new.
    fn is_new(&mut self, from: NodeId, request: u64) -> bool {
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
}

impl Node {
    pub(super) fn begin_conditional<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        client: u64,
        change: Change,
        quorum: Quorum,
        condition: Condition,
    ) -> Result<()> {
        let partition = self.routing.partition_of(&change.key);
        let first = self.routing.read_set(partition, quorum.from).iter().copied();
        let first = first.clone().find(|node| self.health(*node) == Health::Up).or(first.into_iter().next());
        let Some(first) = first.filter(|first| self.health(*first) != Health::Down) else {
            self.answer(turn, client, Answer::NotEnoughReplicas);
            return Ok(());
        };
        if first == self.own {
            return self.serialize(turn, From::Client(client), change, quorum, condition);
        }
        let number = self.number();
        let (kind, versions) = match &condition {
            Condition::Is(versions) => (1, versions),
            Condition::IsNot(versions) => (2, versions),
        };
        let message = Message::Conditional {
            quorum: (quorum.ack, quorum.from),
            condition: kind,
            versions: versions.clone(),
            deadline_ms: change.deadline_ms,
            key: &change.key,
            value: change.value.as_deref(),
        };
        self.ask(turn, first, Waiter::Conditional(number), &message);
        self.conditionals.handed_on.insert(number, client);
        // The other node has as much time as this one would have for a read and a write.
        self.set_timer(turn.now.ticks_ms + 2 * self.limits.request_timeout_ms, Timer::Conditional(number));
        Ok(())
    }

    pub(super) fn on_conditional<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        request: u64,
        message: &Message<'_>,
    ) -> Result<()> {
        let Message::Conditional { quorum, condition, versions, deadline_ms, key, value } = message else {
            return Ok(());
        };
        if !self.conditionals.is_new(from, request) {
            return Ok(());
        }
        let quorum = self.quorum(Some(Quorum { ack: quorum.0, from: quorum.1 }));
        let condition = match condition {
            1 => Condition::Is(versions.clone()),
            _ => Condition::IsNot(versions.clone()),
        };
        let is_too_long = key.len() > self.limits.key_bytes_max
            || value.is_some_and(|value| value.len() > self.limits.value_bytes_max);
        let Ok(quorum) = quorum else {
            self.tell(turn, From::Node(from, request), Answer::NotEnoughReplicas);
            return Ok(());
        };
        if is_too_long || self.conditionals.len() >= self.limits.requests_max {
            self.tell(turn, From::Node(from, request), Answer::Overloaded);
            return Ok(());
        }
        let change = Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec), deadline_ms: *deadline_ms };
        self.serialize(turn, From::Node(from, request), change, quorum, condition)
    }

    fn serialize<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: From,
        change: Change,
        quorum: Quorum,
        condition: Condition,
    ) -> Result<()> {
        let number = self.number();
        let waiting = self.conditionals.turns.entry(change.key.clone()).or_default();
        if waiting.len() >= self.limits.conditional_waiting_max {
            self.tell(turn, from, Answer::Overloaded);
            return Ok(());
        }
        waiting.push_back(number);
        let is_first = waiting.len() == 1;
        self.conditionals.ops.insert(number, Op { from, change, quorum, condition, is_writing: false });
        if is_first { self.read_for(turn, number) } else { Ok(()) }
    }

    fn read_for<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let Some(op) = self.conditionals.ops.get(&number) else { return Ok(()) };
        let Quorum { ack, from } = op.quorum;
        let quorum = Quorum { ack: ack.max(from + 1 - ack), from };
        let key = op.change.key.clone();
        self.begin_read(turn, Asker::Conditional(number), key, quorum, false)
    }

    /// A read or a write for a conditional write has ended.
    pub(super) fn conditional_step<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        answer: Answer,
    ) -> Result<()> {
        let Some(op) = self.conditionals.ops.get_mut(&number) else { return Ok(()) };
        let (found, above) = match &answer {
            Answer::Value { version, .. } => (Some(*version), *version),
            Answer::Absent { version } => (None, version.unwrap_or_default()),
            _ => (None, Version::ZERO),
        };
        let is_read = matches!(answer, Answer::Value { .. } | Answer::Absent { .. });
        if is_read && !op.is_writing {
            if op.condition.holds(found) {
                op.is_writing = true;
                let (change, quorum) = (op.change.clone(), op.quorum);
                return self.begin_write(turn, Asker::Conditional(number), change, quorum, above);
            }
            return self.end_conditional(turn, number, Answer::ConditionFailed { found });
        }
        self.end_conditional(turn, number, answer)
    }

    fn end_conditional<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, answer: Answer) -> Result<()> {
        let Some(op) = self.conditionals.ops.remove(&number) else { return Ok(()) };
        self.tell(turn, op.from, answer);
        let Some(waiting) = self.conditionals.turns.get_mut(&op.change.key) else { return Ok(()) };
        waiting.retain(|other| *other != number);
        match waiting.front().copied() {
            Some(next) => self.read_for(turn, next),
            None => {
                self.conditionals.turns.remove(&op.change.key);
                Ok(())
            }
        }
    }

    fn tell<T>(&mut self, turn: &mut Turn<'_, T>, from: From, answer: Answer) {
        match from {
            From::Client(client) => self.answer(turn, client, answer),
            From::Node(node, request) => {
                let (outcome, version) = match answer {
                    Answer::Written { version } => (WRITTEN, version),
                    Answer::ConditionFailed { found } => (FAILED, found.unwrap_or_default()),
                    Answer::Overloaded => (OVERLOADED, Version::ZERO),
                    _ => (TOO_FEW, Version::ZERO),
                };
                self.send(turn, node, request, &Message::Outcome { outcome, version });
            }
        }
    }

    pub(super) fn conditional_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(client) = self.conditionals.handed_on.remove(&number) else { return Ok(()) };
        let answer = match reply {
            Reply::Message(_, Message::Outcome { outcome, version }) => match *outcome {
                WRITTEN => Answer::Written { version: *version },
                FAILED => Answer::ConditionFailed { found: Some(*version).filter(|v| *v != Version::ZERO) },
                OVERLOADED => Answer::Overloaded,
                _ => Answer::NotEnoughReplicas,
            },
            _ => Answer::NotEnoughReplicas,
        };
        self.answer(turn, client, answer);
        Ok(())
    }

    pub(super) fn conditional_timer<T>(&mut self, turn: &mut Turn<'_, T>, number: u64) {
        if let Some(client) = self.conditionals.handed_on.remove(&number) {
            let is_its = |(_, (_, waiter)): &(&u64, &(NodeId, Waiter))| *waiter == Waiter::Conditional(number);
            let request = self.waiters.iter().find(is_its).map(|(request, _)| *request);
            request.into_iter().for_each(|request| self.forget(request));
            self.answer(turn, client, Answer::NotEnoughReplicas);
        }
    }
}
