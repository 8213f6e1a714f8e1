//! Repairs replicas before a blocking read is answered: `ack` replicas must have the value of the answer, or a newer
//! one. While replicas change, this holds for `ack` of the old placement and `ack` of the new one.

use std::cmp::Ordering;

use quipu::Result;

use super::context::Context;
use super::read::Seen;
use super::targets::{Status, Target, Targets};
use super::waiting::{Reply, Waiter};
use crate::ids::{NodeId, Partition, Quorum};
use crate::protocol::Message;
use crate::replica::{Found, Verdict, found_order, found_record};
use crate::routing::Routing;
use crate::tables::Tables;

/// The replicas that writes go to, and what is known of each: nothing yet (spared), that it was sent the record, that
/// it holds it or something newer (answered), or that it does not.
#[derive(Debug)]
pub(super) struct Mending {
    holders: Targets<()>,
}

impl Mending {
    /// For a read that asks these replicas. Writes may go to others too.
    pub(super) fn new(routing: &Routing, partition: Partition, quorum: Quorum, asked: &[NodeId]) -> Mending {
        let sets = routing.write_sets(partition, quorum.from);
        let second = sets.second.unwrap_or_default();
        let outside = sets.first.iter().chain(second).filter(|node| !asked.contains(node));
        let mut holders = Targets::new(routing.epoch(), quorum.ack);
        for node in asked.iter().chain(outside) {
            holders.add(*node, [sets.first.contains(node), second.contains(node)], Status::Spared);
        }
        Mending { holders }
    }

    /// Adds a replica that is asked besides: it counts for neither placement.
    pub(super) fn add(&mut self, node: NodeId) {
        if self.holders.of_node(node).is_none() {
            self.holders.add(node, [false; 2], Status::Spared);
        }
    }

    /// Whether enough replicas hold what is answered.
    pub(super) fn is_held(&self) -> bool {
        self.holders.has_enough(|target| target.answer().is_some())
    }

    /// Whether enough may come to hold it.
    pub(super) fn may_be_held(&self, reading: &Targets<Seen>) -> bool {
        self.holders.has_enough(|target| {
            target.answer().is_some() || target.is_open() || reading.of_node(target.node).is_some_and(Target::is_open)
        })
    }

    /// Whether a replica holds it, or was sent it.
    pub(super) fn is_seen_to(&self, node: NodeId) -> bool {
        self.holders.of_node(node).is_some_and(|target| target.answer().is_some() || target.is_open())
    }

    /// Sends the newest to replicas that lack it: to those that have answered the read, and to those that were not
    /// asked.
    pub(super) fn go_on<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        number: u64,
        reading: &Targets<Seen>,
        (partition, key): (Partition, &[u8]),
        newest: &Found,
    ) -> Result<()> {
        for place in self.holders.places(Target::is_spared) {
            let node = self.holders.at(place).node;
            let order = match reading.of_node(node).map(Target::answer) {
                Some(Some(seen)) => found_order(&seen.found, newest, cx.now.wall_ms),
                Some(None) => continue,
                None if newest.is_some() => Ordering::Less,
                None => Ordering::Equal,
            };
            let status = match (order, found_record(newest)) {
                (Ordering::Less, Some((from, record))) if cx.keeps(partition, from, node) => {
                    if node == cx.own {
                        match cx.store_own((partition, from, key), record)? {
                            Verdict::Stored => Status::Answered(()),
                            Verdict::Older(version) if !version.is_of_line() => Status::Answered(()),
                            _ => Status::Failed,
                        }
                    } else {
                        cx.metrics.read_repairs += 1;
                        let message = Message::Write { partition, from, is_known: true, key, record };
                        Status::Waiting(cx.ask(node, Waiter::Read(number), &message))
                    }
                }
                // It is not for this replica to hold.
                (Ordering::Less, _) => Status::Failed,
                _ => Status::Answered(()),
            };
            self.holders.set(place, status);
        }
        Ok(())
    }

    /// A replica that was sent the newest has answered, or will not.
    pub(super) fn on_reply(&mut self, from: NodeId, request: u64, reply: Reply<'_, '_>, newest: &Found) {
        let Some(target) = self.holders.waiting(from, request) else { return };
        let holds = match (reply, found_record(newest)) {
            (Reply::Message(_, Message::Stored), _) => true,
            (Reply::Message(_, Message::Older { version }), Some((_, newest))) => {
                *version >= newest.version && !version.is_of_line()
            }
            _ => false,
        };
        target.status = if holds { Status::Answered(()) } else { Status::Failed };
    }

    /// Waits for no answer any more.
    pub(super) fn forget<T>(&self, cx: &mut Context<'_, T>) {
        self.holders.forget(cx);
    }
}
