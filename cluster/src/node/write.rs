//! A write under way: stamp, send to all replicas, count confirmations, stamp again, answer, leave hints.
//!
//! Invariants:
//! 1. The answer "written" comes after `ack` replicas of each set have stored the version that it names, and no earlier
//!    one: `Older` is no confirmation, and confirmations of an earlier stamp do not count.
//! 2. If too few can confirm because some hold something newer, the write is stamped anew above all of that and sent
//!    again, but only if no replica can hold an earlier stamp: each has answered `Older`. So a write is seen under one
//!    version only: one that was seen and then overwritten does not come back above what overwrote it. Else it is "not
//!    enough replicas", and replicas are made equal, so that the next attempt meets the same everywhere. So of two
//!    writes with `ack + ack > from`, the one acknowledged before the other began has the lower version, whatever the
//!    clocks say: at most `from - ack` replicas lack the first, fewer than the second needs.
//! 3. What is sent under an epoch goes to the replicas of that epoch: a write that outlives an epoch and has to be sent
//!    again is sent to all replicas of the next. (Sent to the old ones alone, under the new epoch, it would be let in
//!    after they were copied.)
//! 4. A replica that has not confirmed when the write is over gets a hint with its last version.

use quipu::Result;

use super::{Asker, Node, Reply, Timer, Turn, Waiter};
use crate::api::Answer;
use crate::clock::Stamp;
use crate::ids::{Epoch, NodeId, Partition, Quorum, Version};
use crate::peers::Health;
use crate::protocol::{Message, Refusal};
use crate::record::{Record, State};
use crate::replica::{Origin, Verdict};
use crate::tables::Tables;

/// What a client wants to become of a key.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: Vec<u8>,
    /// None: remove.
    pub(super) value: Option<Vec<u8>>,
    /// 0: never.
    pub(super) deadline_ms: u64,
}

impl Change {
    fn state(&self) -> State<'_> {
        match &self.value {
            Some(value) => State::Live { deadline_ms: self.deadline_ms, value },
            None => State::Grave,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Not asked yet: it is slow, and the others may be enough.
    Spared,
    Waiting(u64),
    Stored,
    Older,
    /// It, or this node, does not know the epoch of the other yet: asked again later.
    Later,
    /// This node's clock is too far ahead for it.
    FarAhead,
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    node: NodeId,
    /// Whether it is of the first set, and of the second.
    sets: [bool; 2],
    status: Status,
}

/// A write under way.
#[derive(Debug)]
pub(super) struct WriteOp {
    asker: Asker,
    change: Change,
    partition: Partition,
    quorum: Quorum,
    version: Version,
    /// Whether the version tops one that is stored, and is far ahead only because of that.
    is_known: bool,
    /// What the next stamp has to top.
    above: Version,
    /// Times that it was sent to a replica which has not answered `Older`: it may have stored it.
    unsure: u32,
    targets: Vec<Target>,
    /// The epoch that they are of.
    epoch: Epoch,
    has_second: bool,
    is_answered: bool,
    /// When it is answered at the latest, in ticks; after the answer, when the rest is given up.
    until_ms: u64,
}

impl WriteOp {
    fn count(&self, set: usize, is: impl Fn(Status) -> bool) -> usize {
        self.targets.iter().filter(|target| target.sets[set] && is(target.status)).count()
    }

    /// The least of the sets' counts: each needs `ack`.
    fn least(&self, is: impl Fn(Status) -> bool + Copy) -> usize {
        let first = self.count(0, is);
        if self.has_second { first.min(self.count(1, is)) } else { first }
    }

    fn bytes(&self) -> usize {
        self.change.key.len() + self.change.value.as_ref().map_or(0, Vec::len)
    }
}

impl Node {
    pub(super) fn begin_write<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        asker: Asker,
        change: Change,
        quorum: Quorum,
        above: Version,
    ) -> Result<()> {
        self.note_class_in_use(turn, quorum.from);
        let mut change = change;
        if change.deadline_ms > 0 && turn.now.wall_ms >= change.deadline_ms {
            // It was due before it was written.
            (change.value, change.deadline_ms) = (None, 0);
        }
        let long_ms = change.value.as_ref().map_or(0, Vec::len) as u64 / self.limits.bytes_a_ms.max(1);
        let Some(Stamp { version, is_far, .. }) = self.stamp(turn, above)? else {
            return self.finish_asker(turn, asker, Answer::NotEnoughReplicas);
        };
        let mut op = WriteOp {
            asker,
            partition: self.routing.partition_of(&change.key),
            change,
            quorum,
            version,
            is_known: is_far,
            above,
            unsure: 0,
            targets: Vec::new(),
            epoch: self.routing.epoch(),
            has_second: false,
            is_answered: false,
            until_ms: turn.now.ticks_ms + self.limits.request_timeout_ms + long_ms,
        };
        self.request_bytes += op.bytes();
        let number = self.number();
        self.set_timer(op.until_ms, Timer::Write(number));
        self.find_targets(&mut op);
        self.send_write(turn, number, &mut op)?;
        self.settle_write(turn, number, op)
    }

    /// The replicas at this epoch. Those that are down have failed already.
    fn find_targets(&self, op: &mut WriteOp) {
        let sets = self.routing.write_sets(op.partition, op.quorum.from);
        let second = if self.mutations.writes_old_only() { None } else { sets.second };
        let mut targets: Vec<Target> = Vec::with_capacity(sets.first.len() + 1);
        for (set, nodes) in [(0, sets.first), (1, second.unwrap_or_default())] {
            for node in nodes {
                match targets.iter_mut().find(|target| target.node == *node) {
                    Some(target) => target.sets[set] = true,
                    None => {
                        let status = match self.health(*node) {
                            Health::Up | Health::Slow => Status::Spared,
                            Health::Down => Status::Failed,
                        };
                        targets.push(Target { node: *node, sets: [set == 0, set == 1], status });
                    }
                }
            }
        }
        op.has_second = second.is_some();
        op.epoch = self.routing.epoch();
        op.targets = targets;
    }

    /// Sends the write to all that are to be asked: those that are up, and slow ones if the others are too few.
    fn send_write<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut WriteOp) -> Result<()> {
        let up: Vec<bool> = op.targets.iter().map(|target| self.health(target.node) == Health::Up).collect();
        let is_enough = |set: usize| {
            let good = op.targets.iter().zip(&up).filter(|(target, up)| {
                let is_good = matches!(target.status, Status::Waiting(_) | Status::Stored);
                target.sets[set] && (is_good || target.status == Status::Spared && **up)
            });
            good.count() >= usize::from(op.quorum.ack)
        };
        let spares_slow = is_enough(0) && (!op.has_second || is_enough(1));
        for (place, is_up) in up.into_iter().enumerate() {
            if op.targets[place].status == Status::Spared && (is_up || !spares_slow) {
                self.send_write_to(turn, number, op, place)?;
            }
        }
        Ok(())
    }

    fn send_write_to<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        op: &mut WriteOp,
        place: usize,
    ) -> Result<()> {
        let record = Record { version: op.version, state: op.change.state() };
        let node = op.targets[place].node;
        let (partition, from) = (op.partition, op.quorum.from);
        op.targets[place].status = if node == self.own {
            let epoch = self.routing.epoch();
            let origin = if op.is_known { Origin::Known(epoch) } else { Origin::Coordinator(epoch) };
            let row = (partition, from, &op.change.key[..]);
            match self.replica.store(turn.now, turn.tables, &self.routing, row, record, origin) {
                Ok(Verdict::Stored) => {
                    op.unsure += 1;
                    Status::Stored
                }
                Ok(Verdict::Older(version)) => {
                    op.above = op.above.max(version);
                    Status::Older
                }
                Ok(Verdict::Refused(Refusal::StaleEpoch | Refusal::NotReplica | Refusal::NotReady)) => Status::Later,
                Ok(Verdict::Refused(Refusal::FarAhead)) => Status::FarAhead,
                Ok(Verdict::Refused(_)) => Status::Failed,
                Err(error) => {
                    self.metrics.note_failure(&error);
                    op.unsure += 1;
                    Status::Failed
                }
            }
        } else {
            op.unsure += 1;
            let is_known = op.is_known;
            let message = Message::Write { partition, from, is_known, key: &op.change.key, record };
            Status::Waiting(self.ask(turn, node, Waiter::Write(number), &message))
        };
        Ok(())
    }

    pub(super) fn write_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(mut op) = self.writes.remove(&number) else { return Ok(()) };
        let target = op.targets.iter_mut().find(|t| t.node == from && t.status == Status::Waiting(request));
        if let Some(target) = target {
            target.status = match reply {
                Reply::Message(_, Message::Stored) => Status::Stored,
                Reply::Message(_, Message::Older { version }) => {
                    op.above = op.above.max(*version);
                    op.unsure -= 1;
                    self.clock.meet(turn.now, *version);
                    if self.mutations.older_is_ack() { Status::Stored } else { Status::Older }
                }
                Reply::Message(_, Message::Refused { refusal }) => {
                    self.metrics.note_refusal(*refusal);
                    match refusal {
                        Refusal::StaleEpoch | Refusal::NotReplica | Refusal::NotReady => Status::Later,
                        Refusal::FarAhead => Status::FarAhead,
                        _ => Status::Failed,
                    }
                }
                Reply::Message(..) | Reply::Lost => Status::Failed,
            };
            if target.status == Status::Later {
                // Those that are behind, or ahead, are asked again until the time is up.
                self.set_timer(turn.now.ticks_ms + 20, Timer::Write(number));
            }
        }
        self.settle_write(turn, number, op)
    }

    /// Answers if it is decided, stamps anew if that helps, and ends if nothing is left to wait for.
    fn settle_write<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, mut op: WriteOp) -> Result<()> {
        let ack = usize::from(op.quorum.ack);
        loop {
            let stored = op.least(|status| status == Status::Stored);
            if !op.is_answered && (stored >= ack || self.mutations.answers_early() && stored > 0) {
                self.finish_asker(turn, op.asker, Answer::Written { version: op.version })?;
                op.is_answered = true;
                op.until_ms = turn.now.ticks_ms + self.limits.linger_ms;
                self.set_timer(op.until_ms, Timer::Write(number));
            }
            let is_good = |status| matches!(status, Status::Stored | Status::Waiting(_) | Status::Later);
            if op.is_answered || op.least(is_good) >= ack {
                break;
            }
            if op.least(|status| is_good(status) || status == Status::Spared) >= ack {
                // Somebody failed: slow ones are needed after all.
                if self.follow_epoch(turn, number, &mut op)? {
                    continue;
                }
                for place in 0..op.targets.len() {
                    if op.targets[place].status == Status::Spared {
                        self.send_write_to(turn, number, &mut op, place)?;
                    }
                }
                continue;
            }
            let may_confirm = |status| is_good(status) || matches!(status, Status::Spared | Status::Older);
            let has_older = op.targets.iter().any(|target| target.status == Status::Older);
            if has_older && op.least(may_confirm) >= ack && turn.now.ticks_ms < op.until_ms {
                let is_waiting = op.targets.iter().any(|t| matches!(t.status, Status::Waiting(_) | Status::Later));
                if op.unsure == 0 || !self.limits.stamps_once || self.mutations.stamps_after_stored() {
                    if let Some(Stamp { version, is_far, .. }) = self.stamp(turn, op.above.max(op.version))? {
                        self.metrics.restamps += 1;
                        (op.version, op.is_known) = (version, is_far);
                        self.send_again(turn, number, &mut op)?;
                        continue;
                    }
                } else if is_waiting && !op.targets.iter().any(|target| target.status == Status::Stored) {
                    // They may answer `Older` too.
                    break;
                } else {
                    self.metrics.stamped_once += 1;
                    self.make_equal(turn, &op)?;
                }
            }
            self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
            op.is_answered = true;
            op.until_ms = turn.now.ticks_ms + self.limits.linger_ms;
            self.set_timer(op.until_ms, Timer::Write(number));
        }
        let is_open = |target: &Target| matches!(target.status, Status::Waiting(_) | Status::Later);
        if op.is_answered && !op.targets.iter().any(is_open) {
            return self.end_write(turn, op);
        }
        self.writes.insert(number, op);
        Ok(())
    }

    /// Reads a key from all its replicas, and so gives all the newest that any has.
    fn make_equal<T: Tables>(&mut self, turn: &mut Turn<'_, T>, op: &WriteOp) -> Result<()> {
        let quorum = Quorum { ack: op.quorum.from, from: op.quorum.from };
        self.begin_read(turn, Asker::Nobody, op.change.key.clone(), quorum, false)
    }

    /// Begins again with the replicas of the epoch that has begun meanwhile. Returns whether one has.
    fn follow_epoch<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut WriteOp) -> Result<bool> {
        if op.epoch == self.routing.epoch() {
            return Ok(false);
        }
        for target in &op.targets {
            if let Status::Waiting(request) = target.status {
                self.forget(request);
            }
        }
        self.find_targets(op);
        self.send_write(turn, number, op)?;
        Ok(true)
    }

    /// Sends the newest version to all but those that are down.
    fn send_again<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, op: &mut WriteOp) -> Result<()> {
        if self.follow_epoch(turn, number, op)? {
            return Ok(());
        }
        for place in 0..op.targets.len() {
            if let Status::Waiting(request) = op.targets[place].status {
                self.forget(request);
            }
            if op.targets[place].status != Status::Failed {
                self.send_write_to(turn, number, op, place)?;
            }
        }
        Ok(())
    }

    pub(super) fn write_timer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let Some(mut op) = self.writes.remove(&number) else { return Ok(()) };
        if turn.now.ticks_ms < op.until_ms {
            let is_refused = op.targets.iter().any(|target| target.status == Status::Later);
            if is_refused && self.follow_epoch(turn, number, &mut op)? {
                return self.settle_write(turn, number, op);
            }
            for place in 0..op.targets.len() {
                if op.targets[place].status == Status::Later {
                    self.send_write_to(turn, number, &mut op, place)?;
                    if op.targets[place].status == Status::Later {
                        self.set_timer(turn.now.ticks_ms + 20, Timer::Write(number));
                    }
                }
            }
            return self.settle_write(turn, number, op);
        }
        if !op.is_answered {
            self.finish_asker(turn, op.asker, Answer::NotEnoughReplicas)?;
        }
        self.end_write(turn, op)
    }

    /// After an epoch has begun: whoever refused is asked again, by the new placement.
    pub(super) fn retry_after_epoch<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        for number in self.writes.keys().copied().collect::<Vec<_>>() {
            let Some(mut op) = self.writes.remove(&number) else { continue };
            let is_refused = op.targets.iter().any(|target| target.status == Status::Later);
            let is_removed = op.targets.iter().any(|t| t.status != Status::Failed && !self.routing.is_living(t.node));
            if (is_refused || is_removed) && !op.is_answered && turn.now.ticks_ms < op.until_ms {
                self.follow_epoch(turn, number, &mut op)?;
            }
            self.settle_write(turn, number, op)?;
        }
        self.retry_reads(turn)
    }

    /// Leaves hints for those that did not confirm.
    fn end_write<T: Tables>(&mut self, turn: &mut Turn<'_, T>, op: WriteOp) -> Result<()> {
        self.request_bytes -= op.bytes();
        let record = Record { version: op.version, state: op.change.state() };
        let is_stored = op.targets.iter().any(|target| target.status == Status::Stored);
        for target in &op.targets {
            if let Status::Waiting(request) = target.status {
                self.forget(request);
            }
            // What a clock far ahead has stamped, and nobody has taken, is left at that.
            let is_over = match target.status {
                Status::Stored | Status::Older => true,
                Status::FarAhead => !is_stored,
                _ => false,
            };
            if !is_over && target.node != self.own {
                let row = (op.partition, op.quorum.from, &op.change.key[..]);
                self.leave_hint(turn, target.node, row, record)?;
            }
        }
        Ok(())
    }

    /// Notes that entities with this many replicas exist, and tells the others if that is new.
    fn note_class_in_use<T>(&mut self, turn: &mut Turn<'_, T>, from: u8) {
        let with = self.classes | 1 << (from - 1);
        if with != self.classes {
            self.classes = with;
            let mut peers: Vec<NodeId> = self.routing.topology().members.keys().copied().collect();
            peers.retain(|peer| *peer != self.own);
            for peer in peers {
                self.ping(turn, peer);
            }
        }
    }

    /// Tells whoever asked.
    pub(super) fn finish_asker<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        asker: Asker,
        answer: Answer,
    ) -> Result<()> {
        match asker {
            Asker::Client(client) => {
                self.answer(turn, client, answer);
                Ok(())
            }
            Asker::Conditional(number) => self.conditional_step(turn, number, answer),
            Asker::Nobody => Ok(()),
        }
    }
}
