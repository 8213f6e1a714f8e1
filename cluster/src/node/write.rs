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

use super::context::Context;
use super::hints::Hints;
use super::operation::{Asker, Operation, Progress, Wish};
use super::targets::{Status, Target, Targets};
use super::waiting::{Reply, Timer, Waiter};
use crate::api::Answer;
use crate::clock::Stamp;
use crate::ids::{NodeId, Partition, Quorum, Version};
use crate::protocol::{Message, Refusal};
use crate::record::{Record, State};
use crate::replica::{Origin, Verdict};
use crate::tables::Tables;

/// After how long replicas with an older epoch, or a newer one, are asked again.
const AGAIN_MS: u64 = 20;

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

/// What a replica has said to the last stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Stored,
    Older,
    /// This node's clock is too far ahead for it.
    FarAhead,
    /// It has no space.
    Full,
}

fn is_stored(target: &Target<Said>) -> bool {
    target.status == Status::Answered(Said::Stored)
}

fn is_older(target: &Target<Said>) -> bool {
    target.status == Status::Answered(Said::Older)
}

/// Whether it had no space.
fn is_refused(target: &Target<Said>) -> bool {
    target.status == Status::Answered(Said::Full)
}

/// Whether it has stored the write, or may yet.
fn is_good(target: &Target<Said>) -> bool {
    is_stored(target) || target.is_open()
}

fn status_of_refusal(refusal: Refusal) -> Status<Said> {
    match refusal {
        Refusal::StaleEpoch | Refusal::NotReplica | Refusal::NotReady => Status::Later,
        Refusal::FarAhead => Status::Answered(Said::FarAhead),
        Refusal::Full => Status::Answered(Said::Full),
        Refusal::Overloaded | Refusal::Failed => Status::Failed,
    }
}

/// What another stamp comes to.
enum Restamp {
    Sent,
    /// Those that have not answered may answer so too.
    Wait,
    GiveUp,
}

/// A write under way.
#[derive(Debug)]
pub(super) struct WriteOp {
    number: u64,
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
    targets: Targets<Said>,
    is_answered: bool,
    /// Whether replicas were made equal while some had not answered: a read may have come to them before the write.
    is_equal_too_soon: bool,
    /// When it is answered at the latest, in ticks; after the answer, when the rest is given up.
    until_ms: u64,
}

impl WriteOp {
    /// None if this node stamps nothing now.
    pub(super) fn begin<T: Tables>(
        cx: &mut Context<'_, T>,
        asker: Asker,
        mut change: Change,
        quorum: Quorum,
        above: Version,
    ) -> Result<Option<(WriteOp, Progress)>> {
        cx.note_class_in_use(quorum.from);
        if change.deadline_ms > 0 && cx.now.wall_ms >= change.deadline_ms {
            // It was due before it was written.
            (change.value, change.deadline_ms) = (None, 0);
        }
        let long_ms = change.value.as_ref().map_or(0, Vec::len) as u64 / cx.limits.bytes_a_ms.max(1);
        let partition = cx.routing.partition_of(&change.key);
        let above = above.max(cx.line(partition));
        let Some(Stamp { version, is_far, .. }) = cx.stamp(above)? else { return Ok(None) };
        let mut op = WriteOp {
            number: cx.calls.number(),
            asker,
            change,
            partition,
            quorum,
            version,
            is_known: is_far,
            above,
            unsure: 0,
            targets: targets_of(cx, partition, quorum),
            is_answered: false,
            is_equal_too_soon: false,
            until_ms: cx.now.ticks_ms + cx.limits.request_timeout_ms + long_ms,
        };
        cx.timers.set(op.until_ms, Timer::Write(op.number));
        op.send_first(cx);
        let progress = op.decide(cx)?;
        Ok(Some((op, progress)))
    }

    fn send_first<T: Tables>(&mut self, cx: &mut Context<'_, T>) {
        for place in self.targets.places_to_ask(cx) {
            self.send_to(cx, place);
        }
    }

    fn send_to<T: Tables>(&mut self, cx: &mut Context<'_, T>, place: usize) {
        let record = Record { version: self.version, state: self.change.state() };
        let node = self.targets.at(place).node;
        let (partition, from, key) = (self.partition, self.quorum.from, &self.change.key[..]);
        let status = if node == cx.own {
            let epoch = cx.routing.epoch();
            let origin = if self.is_known { Origin::Known(epoch) } else { Origin::Coordinator(epoch) };
            match cx.replica.store(cx.now, cx.tables, cx.routing, (partition, from, key), record, origin) {
                Ok(Verdict::Stored) => {
                    self.unsure += 1;
                    Status::Answered(Said::Stored)
                }
                Ok(Verdict::Older(version)) => {
                    self.above = self.above.max(version);
                    Status::Answered(Said::Older)
                }
                Ok(Verdict::Refused(refusal)) => status_of_refusal(refusal),
                Err(error) => {
                    cx.metrics.note_failure(&error);
                    self.unsure += 1;
                    Status::Failed
                }
            }
        } else {
            self.unsure += 1;
            let message = Message::Write { partition, from, is_known: self.is_known, key, record };
            Status::Waiting(cx.ask(node, Waiter::Write(self.number), &message))
        };
        self.targets.set(place, status);
    }

    /// Answers if it is decided, stamps anew if that helps, and is over if nothing is left to wait for.
    fn decide<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        let mut progress = Progress::default();
        while !self.is_answered {
            if self.is_acknowledged(cx.mutations.answers_early()) {
                self.answer(cx, &mut progress, Answer::Written { version: self.version });
            } else if self.targets.has_enough(is_good) {
                break;
            } else if self.targets.has_enough(|target| is_good(target) || target.is_spared()) {
                // A replica failed: slow ones are needed after all.
                if !self.follow_epoch(cx) {
                    for place in self.targets.places(Target::is_spared) {
                        self.send_to(cx, place);
                    }
                }
            } else {
                match self.restamp(cx, &mut progress)? {
                    Restamp::Sent => {}
                    Restamp::Wait => break,
                    Restamp::GiveUp => {
                        let refused = self.refusal(cx.mutations.full_is_certain());
                        self.answer(cx, &mut progress, refused);
                    }
                }
            }
        }
        if self.is_answered && !self.targets.any(Target::is_open) {
            self.finish(&mut progress);
        }
        Ok(progress)
    }

    /// Nothing is left to wait for.
    fn finish(&mut self, progress: &mut Progress) {
        progress.is_over = true;
        if std::mem::take(&mut self.is_equal_too_soon) {
            progress.wish = Some(self.makes_equal());
        }
    }

    fn makes_equal(&self) -> Wish {
        Wish::MakeEqual { key: self.change.key.clone(), from: self.quorum.from }
    }

    fn is_acknowledged(&self, answers_early: bool) -> bool {
        self.targets.has_enough(is_stored) || answers_early && self.targets.least(is_stored) > 0
    }

    /// Whether a replica had no space for it, and none has said that it has stored it.
    fn is_unmade(&self) -> bool {
        self.targets.any(is_refused) && !self.targets.any(is_stored)
    }

    /// Why too few have confirmed. Where all that were sent it have refused it for lack of space, it was not made.
    fn refusal(&self, is_certain: bool) -> Answer {
        match self.is_unmade() && self.unsure == 0 || is_certain && self.targets.any(is_refused) {
            true => Answer::Full,
            false => Answer::NotEnoughReplicas,
        }
    }

    /// Tells the outcome. The rest is waited for a little longer.
    fn answer<T>(&mut self, cx: &mut Context<'_, T>, progress: &mut Progress, answer: Answer) {
        progress.answer = Some(answer);
        self.is_answered = true;
        self.until_ms = cx.now.ticks_ms + cx.limits.linger_ms;
        cx.timers.set(self.until_ms, Timer::Write(self.number));
    }

    /// Too few confirm the last stamp: sends another, if it may and that can be enough.
    fn restamp<T: Tables>(&mut self, cx: &mut Context<'_, T>, progress: &mut Progress) -> Result<Restamp> {
        let may_confirm = |target: &Target<Said>| is_good(target) || target.is_spared() || is_older(target);
        let is_in_time = cx.now.ticks_ms < self.until_ms;
        if is_in_time && self.is_unmade() && self.targets.any(Target::is_open) {
            // If the others have no space either, the write was not made.
            return Ok(Restamp::Wait);
        }
        if !is_in_time || !self.targets.any(is_older) || !self.targets.has_enough(may_confirm) {
            return Ok(Restamp::GiveUp);
        }
        if self.unsure == 0 || !cx.limits.stamps_once || cx.mutations.stamps_after_stored() {
            let Some(stamp) = cx.stamp(self.above.max(self.version))? else { return Ok(Restamp::GiveUp) };
            cx.metrics.restamps += 1;
            (self.version, self.is_known) = (stamp.version, stamp.is_far);
            self.send_again(cx);
            return Ok(Restamp::Sent);
        }
        if self.targets.any(Target::is_open) && !self.targets.any(is_stored) {
            return Ok(Restamp::Wait);
        }
        cx.metrics.stamped_once += 1;
        progress.wish = Some(self.makes_equal());
        self.is_equal_too_soon = self.targets.any(Target::is_open) && !cx.mutations.makes_equal_once();
        Ok(Restamp::GiveUp)
    }

    /// Begins again with the replicas of the epoch that has begun meanwhile. Returns whether one has.
    fn follow_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> bool {
        let is_outlived = self.targets.let_go_if_outlived(cx);
        if is_outlived {
            self.targets = targets_of(cx, self.partition, self.quorum);
            self.send_first(cx);
        }
        is_outlived
    }

    /// Sends the newest version to all but those that are down.
    fn send_again<T: Tables>(&mut self, cx: &mut Context<'_, T>) {
        if self.follow_epoch(cx) {
            return;
        }
        for place in 0..self.targets.iter().len() {
            match self.targets.at(place).status {
                Status::Failed => continue,
                Status::Waiting(request) => cx.forget(request),
                _ => {}
            }
            self.send_to(cx, place);
        }
    }
}

/// The replicas at this epoch.
fn targets_of<T>(cx: &Context<'_, T>, partition: Partition, quorum: Quorum) -> Targets<Said> {
    let sets = cx.routing.write_sets(partition, quorum.from);
    let second = if cx.mutations.writes_old_only() { None } else { sets.second };
    Targets::of_sets(cx, quorum.ack, sets.first, second)
}

impl Operation for WriteOp {
    fn number(&self) -> u64 {
        self.number
    }

    fn asker(&self) -> Asker {
        self.asker
    }

    fn bytes(&self) -> usize {
        self.change.key.len() + self.change.value.as_ref().map_or(0, Vec::len)
    }

    fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<Progress> {
        if let Some(target) = self.targets.waiting(from, request) {
            target.status = match reply {
                Reply::Message(_, Message::Stored) => Status::Answered(Said::Stored),
                Reply::Message(_, Message::Older { version }) => {
                    self.above = self.above.max(*version);
                    self.unsure -= 1;
                    cx.meet(self.partition, *version);
                    Status::Answered(if cx.mutations.older_is_ack() { Said::Stored } else { Said::Older })
                }
                Reply::Message(_, Message::Refused { refusal }) => {
                    cx.metrics.note_refusal(*refusal);
                    if *refusal == Refusal::Full {
                        self.unsure -= 1;
                    }
                    status_of_refusal(*refusal)
                }
                Reply::Message(..) | Reply::Lost => Status::Failed,
            };
            if target.is_later() {
                cx.set_timer(AGAIN_MS, Timer::Write(self.number));
            }
        }
        self.decide(cx)
    }

    fn on_timer<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        if cx.now.ticks_ms >= self.until_ms {
            let answer = (!self.is_answered).then_some(Answer::NotEnoughReplicas);
            let mut progress = Progress { answer, ..Progress::default() };
            self.finish(&mut progress);
            return Ok(progress);
        }
        let refused = self.targets.places(Target::is_later);
        if refused.is_empty() || !self.follow_epoch(cx) {
            for place in refused {
                self.send_to(cx, place);
                if self.targets.at(place).is_later() {
                    cx.set_timer(AGAIN_MS, Timer::Write(self.number));
                }
            }
        }
        self.decide(cx)
    }

    fn on_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        let is_affected = |target: &Target<Said>| match target.status {
            Status::Later => true,
            Status::Failed => false,
            _ => !cx.routing.is_living(target.node),
        };
        if self.targets.any(is_affected) && !self.is_answered && cx.now.ticks_ms < self.until_ms {
            self.follow_epoch(cx);
        }
        self.decide(cx)
    }

    /// Leaves hints for those that did not confirm.
    fn end<T: Tables>(self, cx: &mut Context<'_, T>, hints: &mut Hints) -> Result<()> {
        self.targets.forget(cx);
        let record = Record { version: self.version, state: self.change.state() };
        let is_anywhere = self.targets.any(is_stored);
        let own = cx.own;
        for target in self.targets.iter().filter(|target| target.node != own) {
            // What a clock far ahead has stamped, or had no space, and no replica has taken, is left at that.
            let needs_no_hint = match target.answer() {
                Some(Said::Stored | Said::Older) => true,
                Some(Said::FarAhead | Said::Full) => !is_anywhere,
                None => false,
            };
            if !needs_no_hint {
                hints.leave(cx, target.node, (self.partition, self.quorum.from, &self.change.key), record)?;
            }
        }
        Ok(())
    }
}
