//! Sessions: two replicas compare the rows that they share, top-down by tallies, and exchange those that differ.
//!
//! The one that begins sends what it holds of some ranges (rows, hash); the other answers a bit each. Ranges that
//! differ are cut where the first has its rows, into [`Limits::repair_fan_out`] parts, and compared again. A range of
//! few rows is compared by hashes of them: the other sends the rows that the first lacks, and asks for those that it
//! lacks. The other keeps nothing of a session, and every message may be sent twice. (Range-based set reconciliation,
//! Meyer, 2022.)
//!
//! A copy is a session of a replica that has nothing yet: its first message is the last, and rows come in chunks. It
//! takes the floor along: else writes below it would be stored here alone.
//!
//! Cost: messages for each difference as there are levels; `docs/internals/cluster.md` has the bytes. All sessions of a
//! node share [`Limits::repair_bytes_per_second`]. One message of a session is under way at a time.

use std::collections::{BTreeMap, VecDeque};

use quipu::Result;

use super::context::Context;
use super::waiting::{Reply, Timer, Waiter};
use crate::ids::{NodeId, Partition};
use crate::limits::Limits;
use crate::placement::FROM_MAX;
use crate::protocol::{HEADER_BYTES, Message, Span, Summary};
use crate::replica::PartitionState;
use crate::replica::compare::{cuts, drop_refused, hashes, rows_of, summary};
use crate::tables::Tables;

/// Times that a message is sent before its session is given up.
const ATTEMPTS: u32 = 4;
/// Ranges in one message.
const RANGES_AT_ONCE: usize = 64;

/// Whom a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Repair,
    Round(u64),
    Copy,
}

/// A session that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) peer: NodeId,
    pub(super) partition: Partition,
    pub(super) purpose: Purpose,
    /// Whether both have the same now; else it was given up.
    pub(super) is_done: bool,
}

/// A range of row keys without their partition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnedSpan {
    start: Vec<u8>,
    /// Empty: the end of the partition.
    end: Vec<u8>,
}

impl OwnedSpan {
    fn span(&self) -> Span<'_> {
        Span { start: &self.start, end: &self.end }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Compare(Vec<OwnedSpan>),
    Hashes { span: OwnedSpan, wants_rows: bool },
    Give { horizon: u64, rows: Vec<(Vec<u8>, Vec<u8>)> },
}

#[derive(Debug)]
struct Session {
    peer: NodeId,
    partition: Partition,
    purpose: Purpose,
    compares: VecDeque<OwnedSpan>,
    steps: VecDeque<Step>,
    /// The step under way, and the number of its message.
    under_way: Option<(u64, Step)>,
    attempts: u32,
    /// When to look again, in ticks: the step is sent again, or there are bytes to spend.
    due_ms: u64,
}

impl Session {
    /// Cuts a range that differs, or has its rows compared.
    fn look_closer<T: Tables>(&mut self, cx: &Context<'_, T>, span: OwnedSpan) -> Result<()> {
        let (rows, _) = summary(cx.tables, self.partition, span.span())?;
        let cuts = if rows <= cx.limits.repair_leaf_rows {
            Vec::new()
        } else {
            let parts = cx.limits.repair_fan_out as u64;
            cuts(cx.tables, self.partition, span.span(), parts)?
        };
        if cuts.is_empty() {
            self.steps.push_back(Step::Hashes { span, wants_rows: true });
            return Ok(());
        }
        let mut start = span.start;
        for cut in cuts.into_iter().filter(|cut| cut.first().is_some_and(|from| *from <= FROM_MAX)) {
            if cut > start {
                self.compares.push_back(OwnedSpan { start, end: cut.clone() });
                start = cut;
            }
        }
        self.compares.push_back(OwnedSpan { start, end: span.end });
        Ok(())
    }

    /// Queues rows that the other lacks.
    fn plan_gifts<T>(&mut self, cx: &Context<'_, T>, rows: Vec<(Vec<u8>, Vec<u8>)>) {
        let horizon = cx.replica.state(self.partition).horizon;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for row in rows {
            bytes += row.0.len() + row.1.len();
            chunk.push(row);
            if bytes >= cx.limits.chunk_bytes {
                self.steps.push_back(Step::Give { horizon, rows: std::mem::take(&mut chunk) });
                bytes = 0;
            }
        }
        if !chunk.is_empty() {
            self.steps.push_back(Step::Give { horizon, rows: chunk });
        }
    }

    fn end<T>(self, cx: &mut Context<'_, T>, is_done: bool) -> Ended {
        cx.metrics.note_session(is_done);
        Ended { peer: self.peer, partition: self.partition, purpose: self.purpose, is_done }
    }
}

/// All sessions that this node has begun.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: BTreeMap<u64, Session>,
    /// Bytes that may be spent, and when that was so.
    budget_bytes: i64,
    budget_at_ms: u64,
}

impl Sessions {
    pub(super) fn new(limits: &Limits) -> Sessions {
        Sessions {
            sessions: BTreeMap::new(),
            budget_bytes: limits.repair_bytes_per_second.min(1 << 40) as i64,
            budget_at_ms: 0,
        }
    }

    /// How many there are for a purpose.
    pub(super) fn count(&self, is: impl Fn(Purpose) -> bool) -> usize {
        self.sessions.values().filter(|session| is(session.purpose)).count()
    }

    /// Whether one compares a partition with a peer.
    pub(super) fn has(&self, partition: Partition, peer: NodeId, purpose: Purpose) -> bool {
        let is_it = |s: &Session| (s.partition, s.peer, s.purpose) == (partition, peer, purpose);
        self.sessions.values().any(is_it)
    }

    /// Gives up the copies: another epoch has begun, in which they have to begin anew.
    pub(super) fn end_copies<T>(&mut self, cx: &mut Context<'_, T>) {
        let is_copy = |_: &u64, session: &mut Session| session.purpose == Purpose::Copy;
        for (_, session) in self.sessions.extract_if(.., is_copy) {
            if let Some((request, _)) = session.under_way {
                cx.forget(request);
            }
            session.end(cx, false);
        }
    }

    /// How long to wait until bytes may be spent again.
    fn wait_ms(&mut self, now_ms: u64, limits: &Limits) -> u64 {
        let rate = limits.repair_bytes_per_second.clamp(1, 1 << 40) as i64;
        let earned = (now_ms.saturating_sub(self.budget_at_ms).min(1000) as i64) * rate / 1000;
        if earned > 0 {
            self.budget_bytes = (self.budget_bytes + earned).min(rate);
            self.budget_at_ms = now_ms;
        }
        if self.budget_bytes >= 0 { 0 } else { (-self.budget_bytes * 1000 / rate) as u64 + 1 }
    }

    /// Compares the rows of a partition's classes from `from` on with a peer's.
    pub(super) fn begin<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        (peer, partition): (NodeId, Partition),
        from: u8,
        purpose: Purpose,
    ) -> Result<()> {
        let whole = OwnedSpan { start: vec![from], end: Vec::new() };
        let number = cx.calls.number();
        let mut session = Session {
            peer,
            partition,
            purpose,
            compares: VecDeque::new(),
            steps: VecDeque::new(),
            under_way: None,
            attempts: 0,
            due_ms: 0,
        };
        session.compares.push_back(whole);
        // It has something to send, so it does not end yet.
        self.go_on(cx, number, session).map(|_| ())
    }

    /// Sends the next message of a session, or ends it.
    fn go_on<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        number: u64,
        mut session: Session,
    ) -> Result<Option<Ended>> {
        let now_ms = cx.now.ticks_ms;
        if session.under_way.is_none() && session.steps.is_empty() && session.compares.is_empty() {
            return Ok(Some(session.end(cx, true)));
        }
        let wait_ms = self.wait_ms(now_ms, cx.limits);
        if wait_ms > 0 {
            session.due_ms = now_ms + wait_ms;
        } else {
            let step = session.under_way.take().map(|(_, step)| step).or_else(|| session.steps.pop_front());
            let step = step.unwrap_or_else(|| {
                let ranges = session.compares.len().min(RANGES_AT_ONCE);
                Step::Compare(session.compares.drain(..ranges).collect())
            });
            let request = self.send_step(cx, number, &session, &step)?;
            session.under_way = Some((request, step));
            session.due_ms = now_ms + cx.limits.repair_timeout_ms;
        }
        cx.timers.set(session.due_ms, Timer::Session(number));
        self.sessions.insert(number, session);
        Ok(None)
    }

    fn send_step<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        number: u64,
        session: &Session,
        step: &Step,
    ) -> Result<u64> {
        let (partition, is_copy) = (session.partition, session.purpose == Purpose::Copy);
        let message = match step {
            Step::Compare(spans) => {
                let mut summaries = Vec::with_capacity(spans.len());
                for span in spans {
                    let (rows, hash) = summary(cx.tables, partition, span.span())?;
                    summaries.push(Summary { span: span.span(), rows, hash });
                }
                cx.metrics.ranges_compared += spans.len() as u64;
                Message::Compare { partition, is_copy, summaries }
            }
            Step::Hashes { span, wants_rows } => {
                let hashes = hashes(cx.tables, partition, span.span(), cx.limits.housekeeping_rows)?;
                Message::Hashes { partition, is_copy, wants_rows: *wants_rows, span: span.span(), hashes }
            }
            Step::Give { horizon, rows } => Message::Give { partition, horizon: *horizon, rows: rows_of(rows) },
        };
        let before: usize = cx.metrics.bytes_sent;
        let request = cx.ask(session.peer, Waiter::Session(number), &message);
        let bytes = cx.metrics.bytes_sent - before;
        self.budget_bytes -= bytes as i64;
        cx.metrics.repair_bytes += bytes as u64;
        Ok(request)
    }

    /// A peer has answered the message of a session, or will not. Returns the session if it has ended.
    pub(super) fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        number: u64,
        reply: Reply<'_, '_>,
    ) -> Result<Option<Ended>> {
        let Some(mut session) = self.sessions.remove(&number) else { return Ok(None) };
        let Some((_, step)) = session.under_way.take() else { return self.go_on(cx, number, session) };
        let Reply::Message(epoch, message) = reply else { return Ok(Some(session.end(cx, false))) };
        session.attempts = 0;
        match (step, message) {
            (Step::Compare(spans), Message::Differ { floor, bits }) => {
                self.note_received(cx, 8 + bits.len());
                if session.purpose == Purpose::Copy && !cx.mutations.copies_no_floor() {
                    let partition = session.partition;
                    cx.replica.change(cx.tables, partition, |state| state.floor = state.floor.max(*floor))?;
                }
                for (place, span) in spans.into_iter().enumerate() {
                    let differs = bits.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1);
                    if differs {
                        session.look_closer(cx, span)?;
                    }
                }
            }
            (Step::Hashes { span, .. }, Message::Entries { horizon, absent, resume, rows, wanted }) => {
                let bytes = rows.iter().map(|row| row.key.len() + row.record.encoded_bytes()).sum::<usize>();
                self.note_received(cx, bytes + 8 * wanted.len());
                cx.metrics.rows_moved += rows.len() as u64;
                let (partition, is_copy) = (session.partition, session.purpose == Purpose::Copy);
                // A copy that begins with nothing has nothing that the other could lack.
                let looks_back = !resume.is_empty() && (!is_copy || summary(cx.tables, partition, span.span())?.0 > 0);
                let place = (partition, epoch, *horizon);
                let taken = cx.replica.take_rows(cx.now, cx.tables, cx.routing, place, rows)?;
                if taken.is_err() {
                    return Ok(Some(session.end(cx, false)));
                }
                // A copy only takes.
                if !wanted.is_empty() && !is_copy {
                    let rows = cx.replica.rows_with(cx.now, cx.tables, partition, span.span(), wanted)?;
                    session.plan_gifts(cx, rows);
                }
                let is_new = cx.replica.state(partition).copying != PartitionState::NONE;
                if !wanted.is_empty() && is_copy && is_new && !cx.mutations.copies_beside_refused() {
                    drop_refused(cx.tables, (partition, span.span()), wanted, *absent, cx.limits)?;
                }
                if !resume.is_empty() && *resume > &span.start[..] {
                    let rest = OwnedSpan { start: resume.to_vec(), end: span.end };
                    session.steps.push_front(Step::Hashes { span: rest, wants_rows: true });
                    if looks_back {
                        // What the other lacks of the part that it has looked at.
                        let first = OwnedSpan { start: span.start, end: resume.to_vec() };
                        session.steps.push_front(Step::Hashes { span: first, wants_rows: false });
                    }
                }
            }
            (Step::Give { rows, .. }, Message::Stored) => cx.metrics.rows_moved += rows.len() as u64,
            _ => return Ok(Some(session.end(cx, false))),
        }
        self.go_on(cx, number, session)
    }

    fn note_received<T>(&mut self, cx: &mut Context<'_, T>, body_bytes: usize) {
        let bytes = HEADER_BYTES + body_bytes;
        self.budget_bytes -= bytes as i64;
        cx.metrics.repair_bytes += bytes as u64;
    }

    /// A session's message was not answered in time, or there are bytes to spend again. Returns the session if it has
    /// ended.
    pub(super) fn on_timer<T: Tables>(&mut self, cx: &mut Context<'_, T>, number: u64) -> Result<Option<Ended>> {
        let is_due = |session: &Session| cx.now.ticks_ms >= session.due_ms;
        if !self.sessions.get(&number).is_some_and(is_due) {
            return Ok(None);
        }
        let Some(mut session) = self.sessions.remove(&number) else { return Ok(None) };
        if let Some((request, _)) = session.under_way {
            cx.forget(request);
            session.attempts += 1;
            if session.attempts >= ATTEMPTS {
                return Ok(Some(session.end(cx, false)));
            }
        }
        self.go_on(cx, number, session)
    }
}
