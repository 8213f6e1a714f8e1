//! A read under way: ask all replicas, answer with the newest of the first `ack` answers, mend those that were older.
//!
//! Invariants:
//! 1. The answer is the newest of the first `ack` good answers. A refusal, or a replica that copies, is no answer. If
//!    the newest is a note that the key has moved to another `from`, or a tombstone of expiry that is not due by this
//!    node's clock, it says that there is something, and not what: the replicas of that `from` are asked on, until one
//!    has it or something newer, or all of them have answered that they have not. Then it is lost, and the answer is
//!    what the note has kept. Until then there is no answer, and after the time limit "not enough replicas".
//! 2. A blocking read answers only after `ack` replicas hold what it answers, or something newer; so no read that
//!    begins later, with `ack + ack > from`, answers less. While replicas change, `ack` of the old and `ack` of the
//!    new: others may still read the old, or read the new already.
//! 3. An entity is not spread beyond its own replicas: of others only a stale note of another `from` is mended.

use std::cmp::Ordering;

use quipu::Result;

use super::{Asker, Node, Reply, Timer, Turn, Waiter};
use crate::api::Answer;
use crate::ids::{Epoch, NodeId, Partition, Quorum, Version};
use crate::peers::Health;
use crate::protocol::{Message, Refusal};
use crate::record::{Record, State};
use crate::replica::{Found, Origin, Verdict};
use crate::tables::Tables;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    /// It is of the placement that reads do not go by; a blocking read writes to it.
    Outside,
    Spared,
    Waiting(u64),
    Found(Found),
    Later,
    Failed,
}

/// How a mended replica stands, in a blocking read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mending {
    None,
    Waiting(u64),
    Holds,
    Failed,
}

#[derive(Clone, Debug)]
struct Target {
    node: NodeId,
    /// Whether writes go to it by the placement before a change, and by that after it.
    sets: [bool; 2],
    status: Status,
    mending: Mending,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct ReadOp {
    asker: Asker,
    key: Vec<u8>,
    partition: Partition,
    quorum: Quorum,
    is_blocking: bool,
    targets: Vec<Target>,
    /// The epoch that they are of.
    epoch: Epoch,
    /// The newest note for which the replicas of another `from` were asked.
    asked_on: Option<Version>,
    /// The newest of the first answers, once they are there.
    newest: Option<Found>,
    is_answered: bool,
    until_ms: u64,
    /// How much of that is for the length of the value.
    long_ms: u64,
}

fn decode(found: &Found) -> Option<(u8, Record<'_>)> {
    found.as_ref().and_then(|(from, bytes)| Some((*from, Record::decode(bytes)?)))
}

/// Which of two findings is newer, by a wall clock.
fn order(a: &Found, b: &Found, wall_ms: u64) -> Ordering {
    match (decode(a), decode(b)) {
        (Some((_, a)), Some((_, b))) => a.order(&b, wall_ms),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

impl ReadOp {
    fn count(&self, is: impl Fn(&Target) -> bool) -> usize {
        self.targets.iter().filter(|target| is(target)).count()
    }

    /// The least of the sets' counts of replicas that hold, or may come to hold, what is answered.
    fn least(&self, is: impl Fn(&Target) -> bool) -> usize {
        let count = |set: usize| self.count(|target| target.sets[set] && is(target));
        match self.targets.iter().any(|target| target.sets[1]) {
            true => count(0).min(count(1)),
            false => count(0),
        }
    }

    fn newest_found(&self, wall_ms: u64) -> Option<Found> {
        let found = self.targets.iter().filter_map(|target| match &target.status {
            Status::Found(found) => Some(found),
            _ => None,
        });
        found.max_by(|a, b| order(a, b, wall_ms)).cloned()
    }
}

impl Node {
    pub(super) fn begin_read<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        asker: Asker,
        key: Vec<u8>,
        quorum: Quorum,
        is_blocking: bool,
    ) -> Result<()> {
        let mut op = ReadOp {
            asker,
            partition: self.routing.partition_of(&key),
            key,
            quorum,
            is_blocking,
            targets: Vec::new(),
            epoch: self.routing.epoch(),
            asked_on: None,
            newest: None,
            is_answered: false,
            until_ms: turn.now.ticks_ms + self.limits.request_timeout_ms,
            long_ms: 0,
        };
        self.request_bytes += op.key.len();
        let number = self.number();
        self.set_timer(op.until_ms, Timer::Read(number));
        self.find_read_targets(&mut op);
        self.send_read(turn, number, &mut op)?;
        self.settle_read(turn, number, op)
    }

    fn find_read_targets(&self, op: &mut ReadOp) {
        let status = |node: NodeId| match self.health(node) {
            Health::Down => Status::Failed,
            Health::Up | Health::Slow => Status::Spared,
        };
        let sets = self.routing.write_sets(op.partition, op.quorum.from);
        let second = sets.second.unwrap_or_default();
        let target = |node: &NodeId, status| {
            let sets = [sets.first.contains(node), second.contains(node)];
            Target { node: *node, sets, status, mending: Mending::None }
        };
        let asked = self.routing.read_set(op.partition, op.quorum.from);
        op.epoch = self.routing.epoch();
        op.targets = asked.iter().map(|node| target(node, status(*node))).collect();
        if op.is_blocking {
            let outside = sets.first.iter().chain(second).filter(|node| !asked.contains(node));
            op.targets.extend(outside.map(|node| target(node, Status::Outside)));
        }
    }

    fn send_read<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut ReadOp) -> Result<()> {
        let up: Vec<bool> = op.targets.iter().map(|target| self.health(target.node) == Health::Up).collect();
        let good = op.targets.iter().zip(&up).filter(|(target, up)| match target.status {
            Status::Spared => **up,
            Status::Waiting(_) | Status::Found(_) => true,
            _ => false,
        });
        let spares_slow = good.count() >= usize::from(op.quorum.ack);
        for (place, is_up) in up.into_iter().enumerate() {
            if op.targets[place].status == Status::Spared && (is_up || !spares_slow) {
                self.send_read_to(turn, number, op, place)?;
            }
        }
        Ok(())
    }

    fn send_read_to<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        op: &mut ReadOp,
        place: usize,
    ) -> Result<()> {
        let node = op.targets[place].node;
        // A node that is asked on is a replica of the other `from` only.
        let least = self.routing.least_read_from(op.partition, node).unwrap_or(1);
        let (partition, from) = (op.partition, op.quorum.from.max(least));
        op.targets[place].status = if node == self.own {
            let epoch = self.routing.epoch();
            let place = (partition, from, &op.key[..]);
            match self.replica.read(turn.tables, &self.routing, place, (epoch, turn.now.wall_ms)) {
                Ok(Ok(found)) => Status::Found(found),
                Ok(Err(Refusal::NotReplica | Refusal::StaleEpoch)) => Status::Later,
                Ok(Err(_)) => Status::Failed,
                Err(error) => {
                    self.metrics.note_failure(&error);
                    Status::Failed
                }
            }
        } else {
            let message = Message::Read { partition, from, key: &op.key };
            Status::Waiting(self.ask(turn, node, Waiter::Read(number), &message))
        };
        Ok(())
    }

    pub(super) fn read_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(mut op) = self.reads.remove(&number) else { return Ok(()) };
        if let Some(target) = op.targets.iter_mut().find(|target| target.node == from) {
            if target.status == Status::Waiting(request) {
                target.status = match reply {
                    Reply::Message(_, Message::Value { found }) => {
                        if let Some((_, record)) = found {
                            self.clock.meet(turn.now, record.version);
                        }
                        Status::Found(found.map(|(from, record)| (from, record.to_bytes())))
                    }
                    Reply::Message(_, Message::Refused { refusal }) => {
                        self.metrics.note_refusal(*refusal);
                        match refusal {
                            Refusal::StaleEpoch | Refusal::NotReplica => Status::Later,
                            _ => Status::Failed,
                        }
                    }
                    Reply::Message(..) | Reply::Lost => Status::Failed,
                };
                if target.status == Status::Later {
                    self.set_timer(turn.now.ticks_ms + 20, Timer::Read(number));
                }
            } else if target.mending == Mending::Waiting(request) {
                target.mending = match (reply, op.newest.as_ref().and_then(decode)) {
                    (Reply::Message(_, Message::Stored), _) => Mending::Holds,
                    // Something newer than what is answered; the floor of a partition is nothing that it holds.
                    (Reply::Message(_, Message::Older { version }), Some((_, newest)))
                        if *version >= newest.version && version.node != NodeId(u16::MAX) =>
                    {
                        Mending::Holds
                    }
                    _ => Mending::Failed,
                };
            }
        }
        self.settle_read(turn, number, op)
    }

    /// Answers if it is decided, and ends if nothing is left to wait for.
    fn settle_read<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, mut op: ReadOp) -> Result<()> {
        let ack = usize::from(op.quorum.ack);
        let is_found = |target: &Target| matches!(target.status, Status::Found(_));
        let is_open = |target: &Target| matches!(target.status, Status::Waiting(_) | Status::Later);
        if !op.is_answered {
            self.grow_with_value(number, &mut op);
        }
        if !op.is_answered && op.newest.is_none() {
            if op.count(|t| is_found(t) || is_open(t)) < ack {
                let spared: Vec<usize> =
                    (0..op.targets.len()).filter(|place| op.targets[*place].status == Status::Spared).collect();
                for place in spared {
                    self.send_read_to(turn, number, &mut op, place)?;
                }
            }
            let enough = if self.mutations.first_answer_wins() { ack.min(1) } else { ack };
            if op.count(is_found) >= enough {
                op.newest = self.conclude(turn, number, &mut op)?;
                if op.newest.is_none() {
                    if !op.targets.iter().any(is_open) {
                        self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
                        op.is_answered = true;
                    }
                } else if op.is_blocking {
                    self.mend_first(turn, number, &mut op)?;
                }
            } else if op.count(|t| is_found(t) || is_open(t)) < ack {
                self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
                op.is_answered = true;
            }
        }
        if !op.is_answered && op.newest.is_some() {
            let holds = op.least(|target| target.mending == Mending::Holds);
            let may_hold = op.least(|t| matches!(t.mending, Mending::Holds | Mending::Waiting(_)) || is_open(t));
            if !op.is_blocking || holds >= ack {
                let answer = answer_of(op.newest.as_ref().unwrap_or(&None), turn.now.wall_ms);
                self.finish_asker(turn, op.asker, answer)?;
                op.is_answered = true;
            } else if may_hold < ack {
                self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
                op.is_answered = true;
            } else {
                // Answers that came later count if they hold as much.
                self.mend_first(turn, number, &mut op)?;
            }
            if op.is_answered {
                op.until_ms = turn.now.ticks_ms + self.limits.linger_ms;
                self.set_timer(op.until_ms, Timer::Read(number));
            }
        }
        if op.is_answered && !op.targets.iter().any(is_open) {
            return self.end_read(turn, op);
        }
        self.reads.insert(number, op);
        Ok(())
    }

    /// The newest of what was found. If that says that there is something and not what, the replicas that have it are
    /// asked, those that answered before too: what they had then may be older than the note. None until they are heard.
    fn conclude<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut ReadOp) -> Result<Option<Found>> {
        let wall_ms = turn.now.wall_ms;
        loop {
            let newest = op.newest_found(self.judge_ms(wall_ms)).unwrap_or(None);
            let Some((class, record)) = decode(&newest) else { return Ok(Some(newest)) };
            let is_settled = match record.state {
                State::Moved { .. } => self.mutations.note_is_absent(),
                _ => self.mutations.early_tombstone_wins(),
            };
            let elsewhere = record.is_elsewhere(class, wall_ms).filter(|_| !is_settled);
            let Some(elsewhere) = elsewhere else { return Ok(Some(newest)) };
            let version = record.version;
            if op.asked_on < Some(version) {
                op.asked_on = Some(version);
                self.metrics.notes_followed += 1;
                self.ask_on(turn, number, op, elsewhere)?;
                if op.count(|target| matches!(target.status, Status::Found(_))) < usize::from(op.quorum.ack) {
                    return Ok(None);
                }
                continue;
            }
            let has_answered = |node: &NodeId| {
                let is_found = |target: &Target| target.node == *node && matches!(target.status, Status::Found(_));
                op.targets.iter().any(is_found)
            };
            if !self.routing.read_set(op.partition, elsewhere).iter().all(has_answered) {
                return Ok(None);
            }
            // All that could have it were asked since, and none has: it was lost with its stores, or has expired by
            // their clocks.
            let left = op.targets.iter().filter_map(|target| {
                let Status::Found(found) = &target.status else { return None };
                let (class, record) = decode(found)?;
                match record.state {
                    _ if record.is_elsewhere(class, wall_ms).is_none() => Some((class, record)),
                    State::Moved { .. } => record.kept().map(|kept| (class, kept)),
                    _ => Some((class, Record { version: record.version, state: State::Grave })),
                }
            });
            let left = left.max_by(|(_, a), (_, b)| a.order(b, wall_ms));
            let (class, left) = left.unwrap_or((class, Record { version, state: State::Grave }));
            return Ok(Some(Some((class, left.to_bytes()))));
        }
    }

    /// Asks all replicas of a `from`, and those that were spared.
    fn ask_on<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut ReadOp, from: u8) -> Result<()> {
        let replicas = self.routing.read_set(op.partition, from).to_vec();
        for node in &replicas {
            if !op.targets.iter().any(|target| target.node == *node) {
                let status = if self.health(*node) == Health::Down { Status::Failed } else { Status::Spared };
                op.targets.push(Target { node: *node, sets: [false; 2], status, mending: Mending::None });
            }
        }
        for place in 0..op.targets.len() {
            let Target { node, status, .. } = &op.targets[place];
            match *status {
                Status::Spared => {}
                Status::Found(_) if replicas.contains(node) => {}
                Status::Waiting(request) if replicas.contains(node) => self.forget(request),
                _ => continue,
            }
            self.send_read_to(turn, number, op, place)?;
        }
        Ok(())
    }

    /// By which clock tombstones of expiry are due.
    fn judge_ms(&self, wall_ms: u64) -> u64 {
        if self.mutations.early_tombstone_wins() { u64::MAX } else { wall_ms }
    }

    /// Has the replicas that answered hold what is to be answered.
    fn mend_first<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut ReadOp) -> Result<()> {
        let newest = op.newest.clone().unwrap_or(None);
        for place in 0..op.targets.len() {
            let target = &op.targets[place];
            let order = match (&target.status, target.mending) {
                (Status::Found(found), Mending::None) => order(found, &newest, turn.now.wall_ms),
                (Status::Outside, Mending::None) if newest.is_some() => Ordering::Less,
                (Status::Outside, Mending::None) => Ordering::Equal,
                _ => continue,
            };
            let node = target.node;
            op.targets[place].mending = match (order, decode(&newest)) {
                (Ordering::Less, Some((class, record))) if self.keeps(op.partition, class, node) => {
                    let row = (op.partition, class, &op.key[..]);
                    if node == self.own {
                        match self.store_own(turn, row, record)? {
                            Verdict::Stored => Mending::Holds,
                            Verdict::Older(version) if version.node != NodeId(u16::MAX) => Mending::Holds,
                            _ => Mending::Failed,
                        }
                    } else {
                        let (partition, from, key) = row;
                        let message = Message::Write { partition, from, is_known: true, key, record };
                        self.metrics.read_repairs += 1;
                        Mending::Waiting(self.ask(turn, node, Waiter::Read(number), &message))
                    }
                }
                // It is not for this replica to hold.
                (Ordering::Less, _) => Mending::Failed,
                _ => Mending::Holds,
            };
        }
        Ok(())
    }

    /// Whether a node is a replica of entities with so many.
    fn keeps(&self, partition: Partition, from: u8, node: NodeId) -> bool {
        let sets = self.routing.write_sets(partition, from);
        sets.first.contains(&node) || sets.second.is_some_and(|second| second.contains(&node))
    }

    fn store_own<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        row: (Partition, u8, &[u8]),
        record: Record<'_>,
    ) -> Result<Verdict> {
        let origin = Origin::Known(self.routing.epoch());
        self.replica.store(turn.now, turn.tables, &self.routing, row, record, origin)
    }

    pub(super) fn read_timer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let Some(mut op) = self.reads.remove(&number) else { return Ok(()) };
        if turn.now.ticks_ms < op.until_ms {
            let is_refused = op.targets.iter().any(|target| target.status == Status::Later);
            if is_refused && !op.is_answered && op.newest.is_none() {
                self.read_again(turn, number, &mut op)?;
            }
            for place in 0..op.targets.len() {
                if op.targets[place].status == Status::Later {
                    self.send_read_to(turn, number, &mut op, place)?;
                    if op.targets[place].status == Status::Later {
                        self.set_timer(turn.now.ticks_ms + 20, Timer::Read(number));
                    }
                }
            }
            return self.settle_read(turn, number, op);
        }
        if !op.is_answered {
            self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
        }
        self.end_read(turn, op)
    }

    /// Where a long value was found, the others' take their time too.
    fn grow_with_value(&mut self, number: u64, op: &mut ReadOp) {
        let length = |target: &Target| match &target.status {
            Status::Found(Some((_, bytes))) => bytes.len() as u64,
            _ => 0,
        };
        let long_ms = op.targets.iter().map(length).max().unwrap_or(0) / self.limits.bytes_a_ms.max(1);
        if long_ms > op.long_ms {
            op.until_ms += long_ms - op.long_ms;
            op.long_ms = long_ms;
            self.set_timer(op.until_ms, Timer::Read(number));
        }
    }

    /// A long value has begun to come: it has as much more time as one that is written.
    pub(super) fn wait_for_long<T>(&mut self, turn: &Turn<'_, T>, from: NodeId, request: u64, bytes: usize) {
        let Some((node, Waiter::Read(number))) = self.waiters.get(&request).copied() else { return };
        let Some(op) = self.reads.get_mut(&number).filter(|op| node == from && !op.is_answered) else { return };
        let more_ms = self.limits.request_timeout_ms + bytes as u64 / self.limits.bytes_a_ms.max(1);
        op.until_ms = op.until_ms.max(turn.now.ticks_ms + more_ms);
        let until_ms = op.until_ms;
        self.set_timer(until_ms, Timer::Read(number));
    }

    pub(super) fn retry_reads<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        for number in self.reads.keys().copied().collect::<Vec<_>>() {
            let Some(mut op) = self.reads.remove(&number) else { continue };
            let is_refused = op.targets.iter().any(|target| target.status == Status::Later);
            if is_refused && !op.is_answered && op.newest.is_none() {
                self.read_again(turn, number, &mut op)?;
            }
            self.settle_read(turn, number, op)?;
        }
        Ok(())
    }

    /// Begins again with the replicas of the epoch that has begun meanwhile, if one has.
    fn read_again<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut ReadOp) -> Result<()> {
        if op.epoch == self.routing.epoch() {
            return Ok(());
        }
        for target in &op.targets {
            if let Status::Waiting(request) = target.status {
                self.forget(request);
            }
        }
        op.asked_on = None;
        self.find_read_targets(op);
        self.send_read(turn, number, op)
    }

    /// Mends what was older than the newest of all answers.
    fn end_read<T: Tables>(&mut self, turn: &mut Turn<'_, T>, op: ReadOp) -> Result<()> {
        self.request_bytes -= op.key.len();
        let wall_ms = turn.now.wall_ms;
        let newest = op.newest_found(wall_ms).unwrap_or(None);
        for target in &op.targets {
            for request in [
                if let Status::Waiting(request) = target.status { Some(request) } else { None },
                if let Mending::Waiting(request) = target.mending { Some(request) } else { None },
            ] {
                request.into_iter().for_each(|request| self.forget(request));
            }
            let (Status::Found(found), Some((class, record))) = (&target.status, decode(&newest)) else { continue };
            if order(found, &newest, wall_ms) != Ordering::Less
                || matches!(target.mending, Mending::Holds | Mending::Waiting(_))
            {
                continue;
            }
            let (from, record) = match decode(found) {
                _ if self.keeps(op.partition, class, target.node) => (class, record),
                Some((stale, _)) => (stale, record.note(class)),
                None => continue,
            };
            self.metrics.read_repairs += 1;
            let (partition, key) = (op.partition, &op.key[..]);
            if target.node == self.own {
                self.store_own(turn, (partition, from, key), record)?;
            } else {
                let message = Message::Write { partition, from, is_known: true, key, record };
                self.send(turn, target.node, 0, &message);
            }
        }
        Ok(())
    }
}

fn answer_of(found: &Found, wall_ms: u64) -> Answer {
    match decode(found) {
        None => Answer::Absent { version: None },
        Some((_, record)) => match (record.value_at(wall_ms), record.state) {
            (Some(value), State::Live { deadline_ms, .. }) => {
                Answer::Value { version: record.version, value: value.to_vec(), deadline_ms }
            }
            _ => Answer::Absent { version: Some(record.version) },
        },
    }
}
