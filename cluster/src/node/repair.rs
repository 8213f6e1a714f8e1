//! Repair: which partitions are compared with which replicas, and when tombstones may go.
//!
//! From time to time each replica compares each of its partitions with the replicas after it in the partition's order,
//! so that every pair compares once. What differs is exchanged ([`comparison`](super::comparison)).
//!
//! A **round** lets tombstones go. The first replica of a partition asks the others what their clocks say, draws a
//! line, the earliest of these moments and its own less the grace period, and
//!
//! 1. has all replicas raise their *floor* to it: nothing that old is let in from coordinators, hints or read repair
//!    any more, so what lies below the line does not change;
//! 2. compares with each of them, and once more with each: the second time all get what the last one had;
//! 3. has all replicas raise their *horizon* to it, and drop the tombstones below.
//!
//! Invariants:
//! 1. A horizon is raised only after *all* replicas of the partition took part, in one epoch in which they do not
//!    change. One that is down holds it up, until it is back or replaced.
//! 2. Below the horizon all replicas hold the same, so a key that is absent there stays absent: rows of others that are
//!    below it are taken only if they were read after the other had reached it ([`replica`](crate::replica)).
//!
//! 3. A round that is over, however it ends, waits for no answer any more: a peer that owes one counts as slow.
//!
//! A round covers the classes that are in use as its leader knows; the horizon says which those were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quipu::Result;

use super::comparison::{Purpose, Sessions};
use super::context::Context;
use super::housekeeping::Housekeeping;
use super::waiting::{Reply, Timer, Waiter};
use crate::clock::time_of_ms;
use crate::ids::{Epoch, NodeId, Partition};
use crate::peers::Health;
use crate::protocol::Message;
use crate::replica::compare::has_far_horizon;
use crate::tables::Tables;

/// Sessions of repair at once, and rounds at once.
const AT_ONCE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Asks what the clocks of the others say.
    Clocks,
    Floor,
    First,
    Second,
    Horizon,
}

impl Stage {
    /// The one after it, of a round with so many peers.
    fn next(self, peers: usize) -> Option<Stage> {
        match self {
            Stage::Clocks => Some(Stage::Floor),
            Stage::Floor => Some(Stage::First),
            // With one other, none can have missed something.
            Stage::First if peers < 2 => Some(Stage::Horizon),
            Stage::First => Some(Stage::Second),
            Stage::Second => Some(Stage::Horizon),
            Stage::Horizon => None,
        }
    }
}

#[derive(Debug)]
struct Round {
    partition: Partition,
    epoch: Epoch,
    time: u64,
    from_max: u8,
    peers: Vec<NodeId>,
    stage: Stage,
    /// Who has not done this stage's part yet.
    left: BTreeSet<NodeId>,
    until_ms: u64,
}

impl Round {
    /// What peers are sent for this stage; none if they are compared with.
    fn message<T>(&self, cx: &Context<'_, T>) -> Option<Message<'static>> {
        let (partition, time, from_max) = (self.partition, self.time, self.from_max);
        match self.stage {
            Stage::Clocks => Some(cx.ping_message()),
            Stage::Floor => Some(Message::Floor { partition, time }),
            Stage::Horizon => Some(Message::Horizon { partition, time, from_max }),
            Stage::First | Stage::Second => None,
        }
    }
}

/// What is to be compared, and the rounds.
#[derive(Debug, Default)]
pub(super) struct Repair {
    queue: VecDeque<(Partition, NodeId)>,
    rounds: BTreeMap<u64, Round>,
    /// Partitions whose round is to come.
    round_queue: VecDeque<Partition>,
}

/// Other replicas of a partition that share classes with this node: each with the least of them.
fn sharers<T>(cx: &Context<'_, T>, partition: Partition) -> Vec<(NodeId, u8)> {
    let Some(own) = cx.routing.least_from(partition, cx.own) else { return Vec::new() };
    let depth = usize::from(cx.largest_class());
    let (current, next) = cx.routing.orders(partition);
    let mut nodes: Vec<NodeId> = Vec::new();
    for node in current.iter().take(depth).chain(next.unwrap_or_default().iter().take(depth)) {
        if *node != cx.own && !nodes.contains(node) && cx.routing.is_living(*node) {
            nodes.push(*node);
        }
    }
    let shared = |node: NodeId| cx.routing.least_from(partition, node).map(|least| (node, least.max(own)));
    nodes.into_iter().filter_map(shared).filter(|(_, from)| usize::from(*from) <= depth).collect()
}

/// The least class that this node shares with another.
fn shared_from<T>(cx: &Context<'_, T>, partition: Partition, peer: NodeId) -> Option<u8> {
    sharers(cx, partition).into_iter().find(|(node, _)| *node == peer).map(|(_, from)| from)
}

impl Repair {
    /// Comparisons and rounds that are still to be done, or under way, but for the sessions of both.
    pub(super) fn left(&self) -> usize {
        self.queue.len() + self.round_queue.len() + self.rounds.len()
    }

    /// Queues all comparisons that are this node's to begin, and the next regular time.
    pub(super) fn begin_all<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
    ) -> Result<()> {
        cx.timers.postpone(cx.now.ticks_ms + cx.limits.repair_every_ms, Timer::Repair);
        self.queue.clear();
        self.round_queue.clear();
        // After a restart it has forgotten what they have said, and compares by what it knows: with all the next time.
        cx.ping_all();
        let due_time = time_of_ms(cx.now.wall_ms.saturating_sub(cx.limits.grace_ms + cx.limits.grace_ms / 4));
        for partition in cx.routing.partitions() {
            let Some(own) = cx.routing.least_from(partition, cx.own) else { continue };
            let is_first = cx.routing.least_read_from(partition, cx.own) == Some(1);
            let is_changing = cx.routing.is_changing(partition);
            let is_due = cx.replica.state(partition).horizon < due_time
                || has_far_horizon(cx.replica, cx.now.wall_ms, partition);
            if is_first && !is_changing && is_due {
                self.round_queue.push_back(partition);
                continue;
            }
            for (peer, _) in sharers(cx, partition) {
                let is_before = cx.routing.least_from(partition, peer).is_some_and(|other| {
                    // Of two, the first begins; the other if the first is down and so misses its turn.
                    (own, cx.own) < (other, peer)
                });
                if is_before {
                    self.queue.push_back((partition, peer));
                }
            }
        }
        self.begin_next(cx, sessions, housekeeping)
    }

    /// Begins what is queued, a few at a time.
    pub(super) fn begin_next<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
    ) -> Result<()> {
        while self.rounds.len() < AT_ONCE {
            let Some(partition) = self.round_queue.pop_front() else { break };
            self.begin_round(cx, sessions, housekeeping, partition)?;
        }
        while sessions.count(|purpose| purpose == Purpose::Repair) < AT_ONCE {
            let Some((partition, peer)) = self.queue.pop_front() else { break };
            if let Some(from) = shared_from(cx, partition, peer)
                && cx.health(peer) != Health::Down
                && cx.replica.state(partition).have <= from
                && !sessions.has(partition, peer, Purpose::Repair)
            {
                sessions.begin(cx, (peer, partition), from, Purpose::Repair)?;
            }
        }
        Ok(())
    }

    /// Queues comparisons with all that share a partition.
    fn queue_all<T>(&mut self, cx: &Context<'_, T>, partition: Partition) {
        self.queue.extend(sharers(cx, partition).into_iter().map(|(peer, _)| (partition, peer)));
    }

    fn begin_round<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
        partition: Partition,
    ) -> Result<()> {
        let time = cx.replica.line(cx.now.wall_ms);
        let from_max = cx.largest_class();
        let replicas = cx.routing.read_set(partition, from_max).iter().copied();
        let peers: Vec<NodeId> = replicas.filter(|peer| *peer != cx.own).collect();
        if peers.iter().any(|peer| cx.health(*peer) == Health::Down) {
            // The others still compare.
            self.queue_all(cx, partition);
            return Ok(());
        }
        let epoch = cx.routing.epoch();
        let number = cx.calls.number();
        let until_ms = cx.now.ticks_ms + 60 * cx.limits.repair_timeout_ms;
        let left = peers.iter().copied().collect();
        let message = cx.ping_message();
        for peer in &peers {
            cx.ask(*peer, Waiter::Round(number), &message);
        }
        cx.set_timer(cx.limits.repair_timeout_ms, Timer::Round(number));
        let round = Round { partition, epoch, time, from_max, peers, stage: Stage::Clocks, left, until_ms };
        self.rounds.insert(number, round);
        self.advance_round(cx, sessions, housekeeping, number)
    }

    /// What a peer's answer to a message of a round, or that none will come, says of its part.
    pub(super) fn on_reply<T>(&mut self, cx: &Context<'_, T>, number: u64, reply: Reply<'_, '_>) -> bool {
        match reply {
            Reply::Message(_, Message::Pong { wall_ms, .. }) => {
                if let Some(round) = self.rounds.get_mut(&number)
                    && !cx.mutations.line_is_leaders_own()
                {
                    round.time = round.time.min(cx.replica.line(*wall_ms));
                }
                true
            }
            Reply::Message(_, Message::Stored) => true,
            _ => false,
        }
    }

    /// A peer has done its part of a stage, or cannot.
    pub(super) fn on_part<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
        number: u64,
        (peer, is_done): (NodeId, bool),
    ) -> Result<()> {
        let Some(round) = self.rounds.get_mut(&number) else { return Ok(()) };
        if !is_done {
            self.end_round(cx, number, false);
            return self.begin_next(cx, sessions, housekeeping);
        }
        round.left.remove(&peer);
        self.advance_round(cx, sessions, housekeeping, number)
    }

    /// Begins the next stage of a round if all have done their part of the last one.
    fn advance_round<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
        number: u64,
    ) -> Result<()> {
        let Some(round) = self.rounds.get_mut(&number) else { return Ok(()) };
        if !round.left.is_empty() {
            return Ok(());
        }
        let is_outlived = round.epoch != cx.routing.epoch() && cx.routing.floor(round.partition) > round.epoch;
        let next = round.stage.next(round.peers.len()).filter(|_| !is_outlived);
        let Some(stage) = next else {
            self.end_round(cx, number, !is_outlived);
            return self.begin_next(cx, sessions, housekeeping);
        };
        round.left = round.peers.iter().copied().collect();
        round.stage = stage;
        let (peers, partition, time, from_max) = (round.peers.clone(), round.partition, round.time, round.from_max);
        let at = (partition, cx.routing.epoch());
        match stage {
            Stage::Clocks => {}
            Stage::Floor => {
                let raised = cx.replica.raise_floor(cx.now, cx.tables, cx.routing, at, time)?;
                let is_reached = time <= cx.replica.state(partition).horizon
                    && !has_far_horizon(cx.replica, cx.now.wall_ms, partition);
                if is_reached || raised.is_err() {
                    // Some clock is slow: there is nothing to gain but what comparing does.
                    self.end_round(cx, number, false);
                    self.queue_all(cx, partition);
                    return self.begin_next(cx, sessions, housekeeping);
                }
            }
            Stage::First | Stage::Second => {
                for peer in &peers {
                    match shared_from(cx, partition, *peer) {
                        Some(from) => sessions.begin(cx, (*peer, partition), from, Purpose::Round(number))?,
                        None => return self.on_part(cx, sessions, housekeeping, number, (*peer, false)),
                    }
                }
            }
            Stage::Horizon => {
                if cx.replica.raise_horizon(cx.now, cx.tables, cx.routing, at, (time, from_max))?.is_ok() {
                    housekeeping.bury(partition);
                }
            }
        }
        if let Some(message) = self.rounds.get(&number).and_then(|round| round.message(cx)) {
            for peer in &peers {
                cx.ask(*peer, Waiter::Round(number), &message);
            }
        }
        // No other replica: all stages at once.
        if peers.is_empty() { self.advance_round(cx, sessions, housekeeping, number) } else { Ok(()) }
    }

    /// A round is over. Peers that have not answered its last questions owe it nothing any more.
    fn end_round<T>(&mut self, cx: &mut Context<'_, T>, number: u64, is_done: bool) {
        self.rounds.remove(&number);
        if !cx.mutations.round_leaves_questions() {
            cx.calls.of(Waiter::Round(number)).into_iter().for_each(|request| cx.forget(request));
        }
        match is_done {
            true => cx.metrics.rounds_done += 1,
            false => cx.metrics.rounds_failed += 1,
        }
    }

    /// Sends again what was not answered, and gives up what takes too long.
    pub(super) fn on_timer<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        sessions: &mut Sessions,
        housekeeping: &mut Housekeeping,
        number: u64,
    ) -> Result<()> {
        let Some(round) = self.rounds.get(&number) else { return Ok(()) };
        if cx.now.ticks_ms >= round.until_ms {
            self.end_round(cx, number, false);
            return self.begin_next(cx, sessions, housekeeping);
        }
        if let Some(message) = round.message(cx) {
            cx.calls.of(Waiter::Round(number)).into_iter().for_each(|request| cx.forget(request));
            for peer in &round.left {
                cx.ask(*peer, Waiter::Round(number), &message);
            }
        }
        cx.set_timer(cx.limits.repair_timeout_ms, Timer::Round(number));
        Ok(())
    }
}
