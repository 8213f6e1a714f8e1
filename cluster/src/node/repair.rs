//! Repair: which partitions are compared with which replicas, and when tombstones may go.
//!
//! From time to time each replica compares each of its partitions with the replicas after it in the partition's order,
//! so that every pair compares once. What differs is exchanged ([`sessions`](super::sessions)).
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
//! A round covers the classes that are in use as its leader knows; the horizon says which those were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quipu::Result;

use super::sessions::Purpose;
use super::{Node, Reply, Timer, Turn, Waiter};
use crate::clock::time_of_ms;
use crate::ids::{Epoch, NodeId, Partition};
use crate::peers::Health;
use crate::protocol::Message;
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

/// What is to be compared, and the rounds.
#[derive(Debug, Default)]
pub(super) struct Repair {
    queue: VecDeque<(Partition, NodeId)>,
    rounds: BTreeMap<u64, Round>,
    /// Partitions whose round is to come.
    round_queue: VecDeque<Partition>,
}

impl Node {
    /// The largest `from` in use, as far as is known.
    pub(super) fn largest_class(&self) -> u8 {
        32 - (self.classes | self.replica.classes() | 1).leading_zeros() as u8
    }

    /// Comparisons and rounds that are still to be done, or under way.
    pub fn repairs_left(&self) -> usize {
        self.repair.queue.len()
            + self.repair.round_queue.len()
            + self.repair.rounds.len()
            + self.sessions.count(|purpose| purpose != Purpose::Copy)
    }

    /// Other replicas of a partition that share classes with this node: each with the least of them.
    fn sharers(&self, partition: Partition) -> Vec<(NodeId, u8)> {
        let Some(own) = self.routing.least_from(partition, self.own) else { return Vec::new() };
        let depth = usize::from(self.largest_class());
        let (current, next) = self.routing.orders(partition);
        let mut nodes: Vec<NodeId> = Vec::new();
        for node in current.iter().take(depth).chain(next.unwrap_or_default().iter().take(depth)) {
            if *node != self.own && !nodes.contains(node) && self.routing.is_living(*node) {
                nodes.push(*node);
            }
        }
        let shared = |node: NodeId| self.routing.least_from(partition, node).map(|least| (node, least.max(own)));
        nodes.into_iter().filter_map(shared).filter(|(_, from)| usize::from(*from) <= depth).collect()
    }

    /// Queues all comparisons that are this node's to begin, and the next regular time.
    pub(super) fn repair_all<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        self.set_timer(turn.now.ticks_ms + self.limits.repair_every_ms, Timer::Repair);
        self.timers.retain(|(at_ms, timer)| {
            *timer != Timer::Repair || *at_ms >= turn.now.ticks_ms + self.limits.repair_every_ms
        });
        self.repair.queue.clear();
        self.repair.round_queue.clear();
        let due_time = time_of_ms(turn.now.wall_ms.saturating_sub(self.limits.grace_ms + self.limits.grace_ms / 4));
        for partition in self.routing.partitions() {
            let Some(own) = self.routing.least_from(partition, self.own) else { continue };
            let is_first = self.routing.least_read_from(partition, self.own) == Some(1);
            let is_changing = self.routing.is_changing(partition);
            if is_first && !is_changing && self.replica.state(partition).horizon < due_time {
                self.repair.round_queue.push_back(partition);
                continue;
            }
            for (peer, _) in self.sharers(partition) {
                let is_before = self.routing.least_from(partition, peer).is_some_and(|other| {
                    // Of two, the first begins; the other if the first is down and so misses its turn.
                    (own, self.own) < (other, peer)
                });
                if is_before {
                    self.repair.queue.push_back((partition, peer));
                }
            }
        }
        self.repair_next(turn)
    }

    pub(super) fn repair_next<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        while self.repair.rounds.len() < AT_ONCE {
            let Some(partition) = self.repair.round_queue.pop_front() else { break };
            self.begin_round(turn, partition)?;
        }
        while self.sessions.count(|purpose| purpose == Purpose::Repair) < AT_ONCE {
            let Some((partition, peer)) = self.repair.queue.pop_front() else { break };
            let shared = self.sharers(partition).into_iter().find(|(node, _)| *node == peer);
            if let Some((_, from)) = shared
                && self.health(peer) != Health::Down
                && self.replica.state(partition).have <= from
                && !self.sessions.has(partition, peer, Purpose::Repair)
            {
                self.begin_session(turn, (peer, partition), from, Purpose::Repair)?;
            }
        }
        Ok(())
    }

    fn begin_round<T: Tables>(&mut self, turn: &mut Turn<'_, T>, partition: Partition) -> Result<()> {
        let time = self.replica.line(turn.now.wall_ms);
        let from_max = self.largest_class();
        let peers: Vec<NodeId> = self.routing.read_set(partition, from_max).to_vec();
        let peers: Vec<NodeId> = peers.into_iter().filter(|peer| *peer != self.own).collect();
        if peers.iter().any(|peer| self.health(*peer) == Health::Down) {
            // The others still compare.
            for (peer, _) in self.sharers(partition) {
                self.repair.queue.push_back((partition, peer));
            }
            return Ok(());
        }
        let epoch = self.routing.epoch();
        let number = self.number();
        let until_ms = turn.now.ticks_ms + 60 * self.limits.repair_timeout_ms;
        let left = peers.iter().copied().collect();
        let message = self.ping_message(turn.now);
        for peer in &peers {
            self.ask(turn, *peer, Waiter::Round(number), &message);
        }
        self.set_timer(turn.now.ticks_ms + self.limits.repair_timeout_ms, Timer::Round(number));
        let round = Round { partition, epoch, time, from_max, peers, stage: Stage::Clocks, left, until_ms };
        self.repair.rounds.insert(number, round);
        self.advance_round(turn, number)
    }

    /// A peer has answered a message of a round, or will not.
    pub(super) fn round_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        peer: NodeId,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        match reply {
            Reply::Message(_, Message::Pong { wall_ms, .. }) => {
                let line = self.replica.line(*wall_ms);
                if let Some(round) = self.repair.rounds.get_mut(&number)
                    && !self.mutations.line_is_leaders_own()
                {
                    round.time = round.time.min(line);
                }
                self.round_step(turn, number, peer, true)
            }
            Reply::Message(_, Message::Stored) => self.round_step(turn, number, peer, true),
            _ => self.round_step(turn, number, peer, false),
        }
    }

    /// A peer has done its part of a stage, or cannot.
    pub(super) fn round_step<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        peer: NodeId,
        is_done: bool,
    ) -> Result<()> {
        let Some(round) = self.repair.rounds.get_mut(&number) else { return Ok(()) };
        if !is_done {
            self.repair.rounds.remove(&number);
            self.metrics.rounds_failed += 1;
            return self.repair_next(turn);
        }
        round.left.remove(&peer);
        self.advance_round(turn, number)
    }

    fn advance_round<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let Some(round) = self.repair.rounds.get_mut(&number) else { return Ok(()) };
        if !round.left.is_empty() {
            return Ok(());
        }
        let partition = round.partition;
        if round.epoch != self.routing.epoch() && self.routing.floor(partition) > round.epoch {
            self.repair.rounds.remove(&number);
            return self.repair_next(turn);
        }
        round.left = round.peers.iter().copied().collect();
        let peers = round.peers.clone();
        round.stage = match round.stage {
            Stage::Clocks => Stage::Floor,
            Stage::Floor => Stage::First,
            // With one other there is nobody who could have missed something.
            Stage::First if peers.len() < 2 => Stage::Horizon,
            Stage::First => Stage::Second,
            Stage::Second => Stage::Horizon,
            Stage::Horizon => {
                self.repair.rounds.remove(&number);
                self.metrics.rounds_done += 1;
                return self.repair_next(turn);
            }
        };
        let (stage, time, from_max) = (round.stage, round.time, round.from_max);
        if stage == Stage::Floor {
            let place = (partition, self.routing.epoch());
            let raised = self.replica.raise_floor(turn.now, turn.tables, &self.routing, place, time)?;
            if time <= self.replica.state(partition).horizon || raised.is_err() {
                // Some clock is slow, or this one was set back: there is nothing to gain but what comparing does.
                self.repair.rounds.remove(&number);
                self.metrics.rounds_failed += 1;
                for (peer, _) in self.sharers(partition) {
                    self.repair.queue.push_back((partition, peer));
                }
                return self.repair_next(turn);
            }
            for peer in &peers {
                self.ask(turn, *peer, Waiter::Round(number), &Message::Floor { partition, time });
            }
        } else if stage != Stage::Horizon {
            for peer in &peers {
                let from = self.sharers(partition).into_iter().find(|(node, _)| node == peer).map(|(_, from)| from);
                match from {
                    Some(from) => self.begin_session(turn, (*peer, partition), from, Purpose::Round(number))?,
                    None => return self.round_step(turn, number, *peer, false),
                }
            }
        } else {
            let (epoch, line) = (self.routing.epoch(), (time, from_max));
            if self.replica.raise_horizon(turn.tables, &self.routing, (partition, epoch), line)?.is_ok() {
                self.housekeeping.bury(partition);
            }
            for peer in &peers {
                let message = Message::Horizon { partition, time, from_max };
                self.ask(turn, *peer, Waiter::Round(number), &message);
            }
        }
        // Nobody else: all stages at once.
        if peers.is_empty() { self.advance_round(turn, number) } else { Ok(()) }
    }

    /// Sends again what was not answered, and gives up what takes too long.
    pub(super) fn round_timer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let Some(round) = self.repair.rounds.get(&number) else { return Ok(()) };
        let is_its = |(_, (_, waiter)): &(&u64, &(NodeId, Waiter))| *waiter == Waiter::Round(number);
        let requests: Vec<u64> = self.waiters.iter().filter(is_its).map(|(request, _)| *request).collect();
        if turn.now.ticks_ms >= round.until_ms {
            requests.into_iter().for_each(|request| self.forget(request));
            self.repair.rounds.remove(&number);
            self.metrics.rounds_failed += 1;
            return self.repair_next(turn);
        }
        let (partition, time, from_max) = (round.partition, round.time, round.from_max);
        let left: Vec<NodeId> = round.left.iter().copied().collect();
        let message = match round.stage {
            Stage::Clocks => Some(self.ping_message(turn.now)),
            Stage::Floor => Some(Message::Floor { partition, time }),
            Stage::Horizon => Some(Message::Horizon { partition, time, from_max }),
            Stage::First | Stage::Second => None,
        };
        if let Some(message) = message {
            requests.into_iter().for_each(|request| self.forget(request));
            for peer in left {
                self.ask(turn, peer, Waiter::Round(number), &message);
            }
        }
        self.set_timer(turn.now.ticks_ms + self.limits.repair_timeout_ms, Timer::Round(number));
        Ok(())
    }
}
