//! The context that a node lends to an operation for a step: the time, the tables, the outputs, and what all operations
//! share.
//!
//! An operation ([`operation`](super::operation)) knows nothing else of the node: neither its other operations, nor
//! what is done with its progress.

use std::collections::BTreeMap;

use quipu::Result;

use super::interface::Output;
use super::waiting::{Calls, Timer, Timers, Waiter};
use crate::api::Answer;
use crate::clock::{Clock, Stamp};
use crate::ids::{NodeId, Now, Partition, Version};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::mutations::Mutations;
use crate::peers::{Health, Peers};
use crate::protocol::{Frame, Header, Message};
use crate::record::Record;
use crate::replica::{Origin, Replica, Verdict};
use crate::routing::Routing;
use crate::tables::{Table, Tables};

/// Where the clock's limit is stored.
pub(super) const CLOCK: &[u8] = b"clock";

/// See the module.
#[derive(Debug)]
pub(super) struct Context<'c, T> {
    pub(super) now: Now,
    pub(super) tables: &'c mut T,
    pub(super) out: &'c mut Vec<Output>,
    pub(super) own: NodeId,
    pub(super) limits: &'c Limits,
    pub(super) mutations: Mutations,
    pub(super) routing: &'c Routing,
    pub(super) clock: &'c mut Clock,
    pub(super) peers: &'c mut Peers,
    pub(super) replica: &'c mut Replica,
    pub(super) metrics: &'c mut Metrics,
    pub(super) calls: &'c mut Calls,
    pub(super) timers: &'c mut Timers,
    /// Which `from` are in use anywhere, as far as is known, a bit each.
    pub(super) classes: &'c mut u32,
    /// Floors far ahead of this node's clock that writes have met.
    pub(super) lines: &'c mut BTreeMap<Partition, Version>,
}

impl<T> Context<'_, T> {
    /// Sends a message that has no answer. Returns its bytes.
    pub(super) fn send(&mut self, to: NodeId, request: u64, message: &Message<'_>) -> usize {
        let mut bytes = Vec::with_capacity(64);
        Frame::encode(Header { epoch: self.routing.epoch(), request }, message, &mut bytes);
        let length = bytes.len();
        self.metrics.note_sent(message.kind(), length);
        self.out.push(Output::Send { to, bytes });
        length
    }

    /// Sends a message that `waiter` waits for. Returns its number.
    pub(super) fn ask(&mut self, to: NodeId, waiter: Waiter, message: &Message<'_>) -> u64 {
        let request = self.calls.number();
        let bytes = self.send(to, request, message);
        if self.peers.is_quiet() {
            self.set_timer(5, Timer::Peers);
        }
        self.peers.sent(to, request, self.now.ticks_ms, bytes);
        self.calls.wait(request, to, waiter);
        request
    }

    /// Waits no longer for an answer.
    pub(super) fn forget(&mut self, request: u64) {
        if let Some(node) = self.calls.forget(request) {
            self.peers.forget_request(node, request);
        }
    }

    /// Answers a client.
    pub(super) fn answer(&mut self, client: u64, answer: Answer) {
        self.metrics.note_answer(&answer);
        self.out.push(Output::Answer { client, answer });
    }

    /// Sets a timer so long from now.
    pub(super) fn set_timer(&mut self, after_ms: u64, timer: Timer) {
        self.timers.set(self.now.ticks_ms + after_ms, timer);
    }

    /// How this node believes that a node stands.
    pub(super) fn health(&self, node: NodeId) -> Health {
        match self.routing.is_living(node) {
            _ if node == self.own => Health::Up,
            true => self.peers.health(node, self.limits),
            false => Health::Down,
        }
    }

    /// Whether this node's wall clock is to be trusted with versions and deadlines: most peers say so, or do not say.
    pub(super) fn can_stamp(&self) -> bool {
        let members = self.routing.topology().living().count();
        !self.peers.is_clock_far_ahead(self.now, members, self.limits)
    }

    /// Up to which deadline values have expired: none, while this node's clock is known to be far ahead.
    pub(super) fn due_ms(&self) -> u64 {
        if self.can_stamp() { self.now.wall_ms } else { 0 }
    }

    /// By which clock tombstones of expiry are due.
    pub(super) fn judge_ms(&self) -> u64 {
        if self.mutations.early_tombstone_wins() { u64::MAX } else { self.now.wall_ms }
    }

    /// Whether a node is a replica of entities with so many.
    pub(super) fn keeps(&self, partition: Partition, from: u8, node: NodeId) -> bool {
        let sets = self.routing.write_sets(partition, from);
        sets.first.contains(&node) || sets.second.is_some_and(|second| second.contains(&node))
    }

    /// The largest `from` in use, as far as is known.
    pub(super) fn largest_class(&self) -> u8 {
        32 - self.classes_in_use().leading_zeros() as u8
    }

    /// Notes that entities with this many replicas exist, and tells the others if that is new.
    pub(super) fn note_class_in_use(&mut self, from: u8) {
        let with = *self.classes | 1 << (from - 1);
        if with != *self.classes {
            *self.classes = with;
            self.ping_all();
        }
    }

    /// Asks all members whether they are there, and so which `from` are in use.
    pub(super) fn ping_all(&mut self) {
        let (routing, own) = (self.routing, self.own);
        routing.topology().members.keys().filter(|peer| **peer != own).for_each(|peer| self.ping(*peer));
    }

    /// Asks a peer whether it is there, without waiting for the answer.
    pub(super) fn ping(&mut self, to: NodeId) {
        let message = self.ping_message();
        self.send(to, 0, &message);
    }

    pub(super) fn ping_message(&self) -> Message<'static> {
        let applied = self.routing.topology().applied;
        Message::Ping { applied, classes: self.classes_in_use(), wall_ms: self.now.wall_ms }
    }

    /// Which `from` are in use anywhere, as far as is known, a bit each: of what others said, and of what is here.
    pub(super) fn classes_in_use(&self) -> u32 {
        *self.classes | self.replica.classes() | 1
    }

    /// The floor that a write to a partition has to top, as far as is known.
    pub(super) fn line(&self, partition: Partition) -> Version {
        if self.mutations.forgets_lines() {
            return Version::ZERO;
        }
        let met = self.lines.get(&partition).copied().unwrap_or_default();
        met.max(Version::of_line(self.replica.state(partition).floor))
    }

    /// Notes a version that a replica of a partition holds against a write: what is far ahead must not move the clock.
    /// A floor that is so far ahead comes from a time when the clocks of all its replicas were; a replica that came
    /// later does not have it.
    pub(super) fn meet(&mut self, partition: Partition, version: Version) {
        self.clock.meet(self.now, version);
        let bound = self.clock.bound(self.now);
        if version.is_of_line() && version.time > bound {
            self.lines.retain(|_, line| line.time > bound);
            let line = self.lines.entry(partition).or_default();
            *line = version.max(*line);
        }
    }
}

impl<T: Tables> Context<'_, T> {
    /// The next version, above `above` too; none if this node's clock is far ahead of most others: replicas would
    /// refuse it, and what one of them took all the same would stand above all writes to come.
    pub(super) fn stamp(&mut self, above: Version) -> Result<Option<Stamp>> {
        if !self.can_stamp() {
            self.metrics.stamps_refused += 1;
            return Ok(None);
        }
        let stamp = self.clock.stamp(self.now, above);
        if stamp.is_some_and(|stamp| stamp.is_to_be_stored) {
            self.tables.put(Table::Facts, CLOCK, &self.clock.fact())?;
        }
        Ok(stamp)
    }

    /// Stores in this node's own rows what some replica has.
    pub(super) fn store_own(&mut self, row: (Partition, u8, &[u8]), record: Record<'_>) -> Result<Verdict> {
        let origin = Origin::Known(self.routing.epoch());
        self.replica.store(self.now, self.tables, self.routing, row, record, origin)
    }
}
