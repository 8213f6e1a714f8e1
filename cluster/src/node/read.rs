//! A read under way: ask all replicas, answer with the newest of the first `ack` answers, mend those that were older.
//!
//! Invariants:
//! 1. The answer is the newest of the first `ack` good answers. A refusal, or a replica that copies, is no answer. If
//!    the newest is a note that the key has moved to another `from`, or a tombstone of an expiry that is not due by
//!    this node's clock, it shows that there is a value, but not which. Then the replicas of that `from` are asked too,
//!    until one has that version or a newer one, or all of them have answered that they do not. In the latter case the
//!    value is lost, and the answer is the one that the note has kept. Until then there is no answer, and after the
//!    time limit it is "not enough replicas".
//!    What is older than a note is no answer either, while the replica that has given the note is asked again.
//! 2. A blocking read answers only after `ack` replicas hold the version that it answers, or a newer one; so no later
//!    read, with `ack + ack > from`, answers an older one. While replicas change, this holds for `ack` of the old and
//!    `ack` of the new ones: other reads may still ask the old ones, or ask the new ones already.
//! 3. Of the replicas that are asked one sends a long value, this node if it is one of them; the others say which
//!    version they have. If another has the newest it is asked for the value, and one more with the same version while
//!    that one is slow. (Digest reads: Cassandra.)
//! 4. All that a read asks before it has its answer, it asks under one epoch, of that epoch's replicas. When another
//!    begins it begins again.
//! 5. An entity is not spread beyond its own replicas: on other nodes, only a stale note of another `from` is repaired.

use std::cmp::Ordering;

use quipu::Result;

use super::context::Context;
use super::hints::Hints;
use super::mending::Mending;
use super::operation::{Asker, Operation, Progress};
use super::targets::{Status, Target, Targets, first_status};
use super::waiting::{Reply, Timer, Waiter};
use crate::api::Answer;
use crate::ids::{NodeId, Partition, Quorum, Version};
use crate::peers::Health;
use crate::protocol::{Message, Refusal};
use crate::record::{Record, State};
use crate::replica::{Found, found_order, found_record};
use crate::tables::Tables;

/// After how long replicas with an older epoch, or a newer one, are asked again.
const AGAIN_MS: u64 = 20;

/// A read under way.
#[derive(Debug)]
pub(super) struct ReadOp {
    number: u64,
    asker: Asker,
    key: Vec<u8>,
    partition: Partition,
    quorum: Quorum,
    targets: Targets<Seen>,
    /// The replica that sends its value however long it is.
    sender: Option<NodeId>,
    /// The replicas that were asked for a long value after they had said that they have it, and the questions.
    fetching: Vec<(NodeId, u64)>,
    /// Whether a long value has begun to come.
    is_coming: bool,
    /// Of a blocking read: who has to hold what is answered.
    mending: Option<Mending>,
    /// The newest note for which the replicas of another `from` were asked.
    asked_on: Option<Note>,
    /// The newest of the first answers, once they are there.
    newest: Option<Found>,
    is_answered: bool,
    until_ms: u64,
    /// How much of that is for the length of the value.
    long_ms: u64,
}

/// A replica says that there is something, and not what.
#[derive(Clone, Copy, Debug)]
struct Note {
    version: Version,
    /// The `from` that it was found with.
    class: u8,
    /// The `from` whose replicas have it.
    elsewhere: u8,
}

/// What a replica has answered.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// What it has. A value that was left out is empty here.
    pub(super) found: Found,
    /// Bytes of the value that was left out, if it was.
    left_out: Option<u64>,
}

fn is_found(target: &Target<Seen>) -> bool {
    target.answer().is_some()
}

fn is_good(target: &Target<Seen>) -> bool {
    is_found(target) || target.is_open()
}

fn status_of_refusal(refusal: Refusal) -> Status<Seen> {
    match refusal {
        Refusal::StaleEpoch | Refusal::NotReplica => Status::Later,
        _ => Status::Failed,
    }
}

impl ReadOp {
    pub(super) fn begin<T: Tables>(
        cx: &mut Context<'_, T>,
        asker: Asker,
        key: Vec<u8>,
        quorum: Quorum,
        is_blocking: bool,
    ) -> Result<(ReadOp, Progress)> {
        let mut op = ReadOp {
            number: cx.calls.number(),
            asker,
            partition: cx.routing.partition_of(&key),
            key,
            quorum,
            targets: Targets::new(cx.routing.epoch(), quorum.ack),
            sender: None,
            fetching: Vec::new(),
            is_coming: false,
            mending: None,
            asked_on: None,
            newest: None,
            is_answered: false,
            until_ms: cx.now.ticks_ms + cx.limits.request_timeout_ms,
            long_ms: 0,
        };
        cx.timers.set(op.until_ms, Timer::Read(op.number));
        op.find_targets(cx, is_blocking);
        op.send_first(cx);
        let progress = op.decide(cx)?;
        Ok((op, progress))
    }

    /// The replicas at this epoch.
    fn find_targets<T>(&mut self, cx: &Context<'_, T>, is_blocking: bool) {
        let asked = cx.routing.read_set(self.partition, self.quorum.from);
        self.targets = Targets::of_sets(cx, self.quorum.ack, asked, None);
        self.mending = is_blocking.then(|| Mending::new(cx.routing, self.partition, self.quorum, asked));
    }

    fn send_first<T: Tables>(&mut self, cx: &mut Context<'_, T>) {
        let places = self.targets.places_to_ask(cx);
        let mut nodes = places.iter().map(|place| self.targets.at(*place).node);
        self.sender = nodes.clone().find(|node| *node == cx.own).or_else(|| nodes.next());
        for place in places {
            self.send_to(cx, place);
        }
    }

    fn send_to<T: Tables>(&mut self, cx: &mut Context<'_, T>, place: usize) {
        let node = self.targets.at(place).node;
        // A node that is asked on is a replica of the other `from` only.
        let least = cx.routing.least_read_from(self.partition, node).unwrap_or(1);
        let (partition, from) = (self.partition, self.quorum.from.max(least));
        let status = if node == cx.own {
            let row = (partition, from, &self.key[..]);
            match cx.replica.read(cx.tables, cx.routing, row, (cx.routing.epoch(), cx.now.wall_ms)) {
                Ok(Ok(found)) => Status::Answered(Seen { found, left_out: None }),
                Ok(Err(refusal)) => status_of_refusal(refusal),
                Err(error) => {
                    cx.metrics.note_failure(&error);
                    Status::Failed
                }
            }
        } else {
            Status::Waiting(self.ask(cx, node, from, self.sender == Some(node)))
        };
        self.targets.set(place, status);
    }

    fn ask<T>(&self, cx: &mut Context<'_, T>, node: NodeId, from: u8, is_whole: bool) -> u64 {
        let message = Message::Read { partition: self.partition, from, is_whole, key: &self.key };
        cx.ask(node, Waiter::Read(self.number), &message)
    }

    /// Answers if it is decided, and is over if nothing is left to wait for.
    fn decide<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        let mut progress = Progress::default();
        if !self.is_answered {
            self.follow_epoch(cx);
            self.grow_with_value(cx);
            if self.newest.is_none() {
                progress.answer = self.find_newest(cx)?;
            }
            if progress.answer.is_none() && self.newest.is_some() {
                progress.answer = self.hold_newest(cx)?;
                if progress.answer.is_some() {
                    self.until_ms = cx.now.ticks_ms + cx.limits.linger_ms;
                    cx.timers.set(self.until_ms, Timer::Read(self.number));
                }
            }
            self.is_answered = progress.answer.is_some();
        }
        progress.is_over = self.is_answered && !self.targets.any(Target::is_open);
        Ok(progress)
    }

    /// Finds the newest of the first answers, once they are there. Returns the answer if they cannot come.
    fn find_newest<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Option<Answer>> {
        if !self.targets.has_enough(is_good) {
            for place in self.targets.places(Target::is_spared) {
                self.send_to(cx, place);
            }
        }
        let enough = if cx.mutations.first_answer_wins() { 1 } else { usize::from(self.quorum.ack) };
        let is_lost = if self.targets.least(is_found) >= enough {
            self.newest = self.conclude(cx);
            self.newest.is_none() && self.fetching.is_empty() && !self.targets.any(Target::is_open)
        } else {
            !self.targets.has_enough(is_good)
        };
        if self.newest.is_some() {
            self.mend_first(cx)?;
        }
        Ok(is_lost.then_some(Answer::NotEnoughReplicas))
    }

    /// The answer, once it may be told: a blocking read waits until enough replicas hold it.
    fn hold_newest<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Option<Answer>> {
        if let Some(mending) = self.mending.as_ref().filter(|mending| !mending.is_held()) {
            if !mending.may_be_held(&self.targets) {
                return Ok(Some(Answer::NotEnoughReplicas));
            }
            // Answers that came later count if they hold as much.
            self.mend_first(cx)?;
            return Ok(None);
        }
        Ok(Some(answer_of(self.newest.as_ref().unwrap_or(&None), cx.now.wall_ms)))
    }

    /// In a blocking read, has the replicas that answered hold what is to be answered.
    fn mend_first<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        let (Some(mending), Some(newest)) = (&mut self.mending, &self.newest) else { return Ok(()) };
        mending.go_on(cx, self.number, &self.targets, (self.partition, &self.key), newest)
    }

    /// The newest of what was found. If that says that there is something and not what, the replicas that have it are
    /// asked, those that answered before too: what they had then may be older than the note. None until they are heard.
    fn conclude<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Option<Found> {
        let wall_ms = cx.now.wall_ms;
        loop {
            let newest = self.newest_seen(cx.judge_ms());
            let record = newest.and_then(|seen| found_record(&seen.found));
            let forgets = cx.mutations.forgets_notes();
            let Note { version, class, elsewhere } = match (newest.zip(record), self.asked_on) {
                // The replica that has the note is asked again: what others have said until then is older.
                (found, Some(note))
                    if !forgets && found.is_none_or(|(_, (_, record))| record.version < note.version) =>
                {
                    note
                }
                (None, _) => return Some(None),
                (Some((newest, (class, record))), _) => {
                    let is_believed = match record.state {
                        State::Moved { .. } => cx.mutations.note_is_absent(),
                        _ => cx.mutations.early_tombstone_wins(),
                    };
                    match record.is_elsewhere(class, wall_ms).filter(|_| !is_believed) {
                        Some(elsewhere) => Note { version: record.version, class, elsewhere },
                        None if newest.left_out.is_none() => return Some(newest.found.clone()),
                        None => {
                            let version = record.version;
                            return self.fetch(cx, version);
                        }
                    }
                }
            };
            if self.asked_on.is_none_or(|asked| asked.version < version) {
                self.asked_on = Some(Note { version, class, elsewhere });
                cx.metrics.notes_followed += 1;
                self.ask_on(cx, elsewhere);
                if !self.targets.has_enough(is_found) {
                    return None;
                }
                continue;
            }
            let has_answered = |node: &NodeId| self.targets.of_node(*node).is_some_and(is_found);
            if !cx.routing.read_set(self.partition, elsewhere).iter().all(has_answered) {
                return None;
            }
            return match self.left(wall_ms) {
                Some((_, left, true)) => self.fetch(cx, left.version),
                Some((class, left, false)) => Some(Some((class, left.to_bytes()))),
                None => Some(Some((class, Record { version, state: State::Grave }.to_bytes()))),
            };
        }
    }

    /// The newest that was found, with its value if a replica has sent it.
    fn newest_seen(&self, wall_ms: u64) -> Option<&Seen> {
        let seen = self.targets.iter().filter_map(Target::answer);
        let order = |a: &&Seen, b: &&Seen| {
            found_order(&a.found, &b.found, wall_ms).then(a.left_out.is_none().cmp(&b.left_out.is_none()))
        };
        seen.max_by(order)
    }

    /// Asks a replica that has said that it has this version for the value, and another one while the first is slow.
    /// None until it comes.
    fn fetch<T: Tables>(&mut self, cx: &mut Context<'_, T>, version: Version) -> Option<Found> {
        let is_waiting = |node: &NodeId| {
            self.targets.of_node(*node).is_some_and(|target| matches!(target.status, Status::Waiting(_)))
        };
        let fetching = self.fetching.iter().map(|(node, _)| *node);
        let mut senders = self.sender.filter(is_waiting).into_iter().chain(fetching).peekable();
        if senders.peek().is_some() && (self.is_coming || senders.any(|node| cx.health(node) == Health::Up)) {
            cx.set_timer(cx.limits.slow_after_ms, Timer::Read(self.number));
            return None;
        }
        let has_it = |target: &&Target<Seen>| {
            let Some(Seen { found, left_out: Some(_) }) = target.answer() else { return false };
            found_record(found).is_some_and(|(_, record)| record.version == version)
                && self.fetching.iter().all(|(node, _)| *node != target.node)
        };
        let places = self.targets.iter().filter(has_it).map(|target| target.node);
        let node = places.min_by_key(|node| cx.health(*node) != Health::Up)?;
        let least = cx.routing.least_read_from(self.partition, node).unwrap_or(1);
        let request = self.ask(cx, node, self.quorum.from.max(least), true);
        self.fetching.push((node, request));
        cx.metrics.long_values_fetched += 1;
        cx.set_timer(cx.limits.slow_after_ms, Timer::Read(self.number));
        None
    }

    /// Takes the answer of a replica. One that was asked for a long value and has none now does not count any more.
    fn take(&mut self, from: NodeId, request: u64, status: Status<Seen>) {
        if let Some(at) = self.fetching.iter().position(|asked| *asked == (from, request)) {
            self.fetching.swap_remove(at);
            self.is_coming = false;
        }
        if let Some(place) = self.targets.places(|target| target.node == from).pop() {
            self.targets.set(place, status);
        }
    }

    /// Waits for no long value any more.
    fn forget_fetching<T>(&mut self, cx: &mut Context<'_, T>) {
        self.fetching.drain(..).for_each(|(_, request)| cx.forget(request));
    }

    /// What is left where all that could have what a note tells of were asked since, and none has it: it was lost with
    /// its stores, or has expired by their clocks. With it whether its value was left out by all that have it.
    fn left(&self, wall_ms: u64) -> Option<(u8, Record<'_>, bool)> {
        let left = self.targets.iter().filter_map(|target| {
            let Seen { found, left_out } = target.answer()?;
            let (class, record) = found_record(found)?;
            match record.state {
                _ if record.is_elsewhere(class, wall_ms).is_none() => Some((class, record, left_out.is_some())),
                State::Moved { .. } => record.kept().map(|kept| (class, kept, false)),
                _ => Some((class, Record { version: record.version, state: State::Grave }, false)),
            }
        });
        left.max_by(|(_, a, a_left_out), (_, b, b_left_out)| a.order(b, wall_ms).then(b_left_out.cmp(a_left_out)))
    }

    /// Asks all replicas of a `from`, and those that were spared.
    fn ask_on<T: Tables>(&mut self, cx: &mut Context<'_, T>, from: u8) {
        let routing = cx.routing;
        let replicas = routing.read_set(self.partition, from);
        for node in replicas {
            if self.targets.of_node(*node).is_none() {
                self.targets.add(*node, [true, false], first_status(cx.health(*node)));
                if let Some(mending) = &mut self.mending {
                    mending.add(*node);
                }
            }
        }
        for place in 0..self.targets.iter().len() {
            let target = self.targets.at(place);
            let is_replica = replicas.contains(&target.node);
            match target.status {
                Status::Spared => {}
                Status::Answered(_) if is_replica => {}
                Status::Waiting(request) if is_replica => cx.forget(request),
                _ => continue,
            }
            self.send_to(cx, place);
        }
    }

    /// A long value that was found has as much more time for its way as one that is written.
    fn grow_with_value<T>(&mut self, cx: &mut Context<'_, T>) {
        let length = |seen: &Seen| seen.left_out.unwrap_or(seen.found.as_ref().map_or(0, |(_, it)| it.len() as u64));
        let longest = self.targets.iter().filter_map(Target::answer).map(length).max().unwrap_or(0);
        let long_ms = longest / cx.limits.bytes_a_ms.max(1);
        if long_ms > self.long_ms {
            self.until_ms += long_ms - self.long_ms;
            self.long_ms = long_ms;
            cx.timers.set(self.until_ms, Timer::Read(self.number));
        }
    }

    /// A long value has begun to come: it has as much more time as one that is written.
    pub(super) fn wait_for_long<T>(&mut self, cx: &mut Context<'_, T>, bytes: usize) {
        if !self.is_answered {
            self.is_coming = true;
            let more_ms = cx.limits.request_timeout_ms + bytes as u64 / cx.limits.bytes_a_ms.max(1);
            self.until_ms = self.until_ms.max(cx.now.ticks_ms + more_ms);
            cx.timers.set(self.until_ms, Timer::Read(self.number));
        }
    }

    /// Begins again with the replicas of the epoch that has begun meanwhile, if one has. Those of the one before may
    /// have let the key go: what they are asked for under the new epoch is what they have to hold in it.
    fn follow_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) {
        let is_asking = !self.is_answered && self.newest.is_none();
        let goes_on = cx.mutations.reads_span_epochs() && !self.targets.any(Target::is_later);
        if is_asking && !goes_on && self.targets.let_go_if_outlived(cx) {
            self.asked_on = None;
            self.forget_fetching(cx);
            self.find_targets(cx, self.mending.is_some());
            self.send_first(cx);
        }
    }
}

impl Operation for ReadOp {
    fn number(&self) -> u64 {
        self.number
    }

    fn asker(&self) -> Asker {
        self.asker
    }

    fn bytes(&self) -> usize {
        self.key.len()
    }

    fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<Progress> {
        let is_fetched = self.fetching.contains(&(from, request));
        if is_fetched || self.targets.waiting(from, request).is_some() {
            let status = match reply {
                Reply::Message(_, Message::Value { found }) => {
                    if let Some((_, record)) = found {
                        cx.clock.meet(cx.now, record.version);
                    }
                    let found = found.map(|(from, record)| (from, record.to_bytes()));
                    Status::Answered(Seen { found, left_out: None })
                }
                Reply::Message(_, Message::Long { from, version, deadline_ms, bytes }) => {
                    cx.clock.meet(cx.now, *version);
                    let state = State::Live { deadline_ms: *deadline_ms, value: b"" };
                    let found = Some((*from, Record { version: *version, state }.to_bytes()));
                    Status::Answered(Seen { found, left_out: Some(*bytes) })
                }
                Reply::Message(_, Message::Refused { refusal }) => {
                    cx.metrics.note_refusal(*refusal);
                    status_of_refusal(*refusal)
                }
                Reply::Message(..) | Reply::Lost => Status::Failed,
            };
            if matches!(status, Status::Later) {
                cx.set_timer(AGAIN_MS, Timer::Read(self.number));
            }
            self.take(from, request, status);
        } else if let (Some(mending), Some(newest)) = (&mut self.mending, &self.newest) {
            mending.on_reply(from, request, reply, newest);
        }
        self.decide(cx)
    }

    fn on_timer<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        if cx.now.ticks_ms >= self.until_ms {
            let answer = (!self.is_answered).then_some(Answer::NotEnoughReplicas);
            return Ok(Progress { answer, is_over: true, wish: None });
        }
        self.follow_epoch(cx);
        for place in self.targets.places(Target::is_later) {
            self.send_to(cx, place);
            if self.targets.at(place).is_later() {
                cx.set_timer(AGAIN_MS, Timer::Read(self.number));
            }
        }
        self.decide(cx)
    }

    fn on_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        self.decide(cx)
    }

    /// Mends what was older than the newest of all answers.
    fn end<T: Tables>(mut self, cx: &mut Context<'_, T>, _: &mut Hints) -> Result<()> {
        self.targets.forget(cx);
        self.forget_fetching(cx);
        let wall_ms = cx.now.wall_ms;
        // Without the value nothing can be mended: the replicas' own repair does it.
        let newest = self.newest_seen(wall_ms).filter(|seen| seen.left_out.is_none()).map(|seen| &seen.found);
        if let Some(newest) = newest
            && let Some((class, record)) = found_record(newest)
        {
            for target in self.targets.iter() {
                let Some(Seen { found, .. }) = target.answer() else { continue };
                let is_mended = self.mending.as_ref().is_some_and(|mending| mending.is_seen_to(target.node));
                if is_mended || found_order(found, newest, wall_ms) != Ordering::Less {
                    continue;
                }
                let (from, record) = match found_record(found) {
                    _ if cx.keeps(self.partition, class, target.node) => (class, record),
                    Some((stale, _)) => (stale, record.note(class)),
                    None => continue,
                };
                cx.metrics.read_repairs += 1;
                let (partition, key) = (self.partition, &self.key[..]);
                if target.node == cx.own {
                    cx.store_own((partition, from, key), record)?;
                } else {
                    let message = Message::Write { partition, from, is_known: true, key, record };
                    cx.send(target.node, 0, &message);
                }
            }
        }
        if let Some(mending) = &self.mending {
            mending.forget(cx);
        }
        Ok(())
    }
}

fn answer_of(found: &Found, wall_ms: u64) -> Answer {
    match found_record(found) {
        None => Answer::Absent { version: None },
        Some((_, record)) => match (record.value_at(wall_ms), record.state) {
            (Some(value), State::Live { deadline_ms, .. }) => {
                Answer::Value { version: record.version, value: value.to_vec(), deadline_ms }
            }
            _ => Answer::Absent { version: Some(record.version) },
        },
    }
}
