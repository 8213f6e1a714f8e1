//! Sessions: two replicas compare the rows that they share, top-down by tallies, and exchange those that differ.
//!
//! The one that begins sends what it holds of some ranges (rows, hash); the other answers a bit each. Ranges that
//! differ are cut where the first has its rows, into [`Limits::repair_fan_out`] parts, and compared again. A range of
//! few rows is settled by hashes of its rows: the other sends the rows that the first lacks, and asks for those that it
//! lacks. The other keeps nothing of a session, and every message may be sent twice. (Range-based set reconciliation,
//! Meyer, 2022.)
//!
//! A copy is a session of a replica that has nothing yet: its first message is the last, and rows come in chunks.
//!
//! Cost: messages for each difference as there are levels; `docs/internals/cluster.md` has the bytes. All sessions of a
//! node share [`Limits::repair_bytes_per_second`]. One message of a session is under way at a time.

use std::collections::{BTreeMap, VecDeque};

use quipu::Result;

use super::{Node, Reply, Timer, Turn, Waiter};
use crate::ids::{NodeId, Partition};
use crate::limits::Limits;
use crate::placement::FROM_MAX;
use crate::protocol::{HEADER_BYTES, Message, Span, Summary};
use crate::replica::compare::rows_of;
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
}

impl Node {
    /// Compares the rows of a partition's classes from `from` on with a peer's.
    pub(super) fn begin_session<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        (peer, partition): (NodeId, Partition),
        from: u8,
        purpose: Purpose,
    ) -> Result<()> {
        let whole = OwnedSpan { start: vec![from], end: Vec::new() };
        let number = self.number();
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
        self.go_on(turn, number, session)
    }

    /// Sends the next message of a session, or ends it.
    fn go_on<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, mut session: Session) -> Result<()> {
        let now_ms = turn.now.ticks_ms;
        if session.under_way.is_none() && session.steps.is_empty() && session.compares.is_empty() {
            return self.end_session(turn, session, true);
        }
        let wait_ms = self.sessions.wait_ms(now_ms, &self.limits);
        if wait_ms > 0 {
            session.due_ms = now_ms + wait_ms;
        } else {
            let step = session.under_way.take().map(|(_, step)| step).or_else(|| session.steps.pop_front());
            let step = step.unwrap_or_else(|| {
                let ranges = session.compares.len().min(RANGES_AT_ONCE);
                Step::Compare(session.compares.drain(..ranges).collect())
            });
            let request = self.send_step(turn, number, &session, &step)?;
            session.under_way = Some((request, step));
            session.due_ms = now_ms + self.limits.repair_timeout_ms;
        }
        self.set_timer(session.due_ms, Timer::Session(number));
        self.sessions.sessions.insert(number, session);
        Ok(())
    }

    fn send_step<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        session: &Session,
        step: &Step,
    ) -> Result<u64> {
        let (partition, is_copy) = (session.partition, session.purpose == Purpose::Copy);
        let message = match step {
            Step::Compare(spans) => {
                let mut summaries = Vec::with_capacity(spans.len());
                for span in spans {
                    let (rows, hash) = self.replica.summary(turn.tables, partition, span.span())?;
                    summaries.push(Summary { span: span.span(), rows, hash });
                }
                self.metrics.ranges_compared += spans.len() as u64;
                Message::Compare { partition, is_copy, summaries }
            }
            Step::Hashes { span, wants_rows } => {
                let hashes = self.replica.hashes(turn.tables, partition, span.span())?;
                Message::Hashes { partition, is_copy, wants_rows: *wants_rows, span: span.span(), hashes }
            }
            Step::Give { horizon, rows } => Message::Give { partition, horizon: *horizon, rows: rows_of(rows) },
        };
        let before: usize = self.metrics.bytes_sent;
        let request = self.ask(turn, session.peer, Waiter::Session(number), &message);
        let bytes = self.metrics.bytes_sent - before;
        self.sessions.budget_bytes -= bytes as i64;
        self.metrics.repair_bytes += bytes as u64;
        Ok(request)
    }

    pub(super) fn session_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(mut session) = self.sessions.sessions.remove(&number) else { return Ok(()) };
        let Some((_, step)) = session.under_way.take() else { return self.go_on(turn, number, session) };
        let Reply::Message(epoch, message) = reply else { return self.end_session(turn, session, false) };
        session.attempts = 0;
        match (step, message) {
            (Step::Compare(spans), Message::Differ { bits }) => {
                self.note_repair_bytes(bits.len());
                for (place, span) in spans.into_iter().enumerate() {
                    let differs = bits.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1);
                    if differs {
                        self.look_closer(turn, &mut session, span)?;
                    }
                }
            }
            (Step::Hashes { span, .. }, Message::Entries { horizon, resume, rows, wanted }) => {
                let bytes = rows.iter().map(|row| row.key.len() + row.record.encoded_bytes()).sum::<usize>();
                self.note_repair_bytes(bytes + 8 * wanted.len());
                self.metrics.rows_moved += rows.len() as u64;
                let place = (session.partition, epoch, *horizon);
                let taken = self.replica.take_rows(turn.now, turn.tables, &self.routing, place, rows)?;
                if taken.is_err() {
                    return self.end_session(turn, session, false);
                }
                // A copy only takes.
                if !wanted.is_empty() && session.purpose != Purpose::Copy {
                    let rows = self.replica.rows_with(turn.now, turn.tables, session.partition, span.span(), wanted)?;
                    self.plan_gifts(&mut session, rows);
                }
                if !resume.is_empty() && *resume > &span.start[..] {
                    let rest = OwnedSpan { start: resume.to_vec(), end: span.end };
                    session.steps.push_front(Step::Hashes { span: rest, wants_rows: true });
                    if session.purpose != Purpose::Copy {
                        // What the other lacks of the part that it has looked at.
                        let first = OwnedSpan { start: span.start, end: resume.to_vec() };
                        session.steps.push_front(Step::Hashes { span: first, wants_rows: false });
                    }
                }
            }
            (Step::Give { rows, .. }, Message::Stored) => self.metrics.rows_moved += rows.len() as u64,
            _ => return self.end_session(turn, session, false),
        }
        self.go_on(turn, number, session)
    }

    fn note_repair_bytes(&mut self, body_bytes: usize) {
        let bytes = HEADER_BYTES + body_bytes;
        self.sessions.budget_bytes -= bytes as i64;
        self.metrics.repair_bytes += bytes as u64;
    }

    /// Cuts a range that differs, or has its rows compared.
    fn look_closer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, session: &mut Session, span: OwnedSpan) -> Result<()> {
        let (rows, _) = self.replica.summary(turn.tables, session.partition, span.span())?;
        let cuts = if rows <= self.limits.repair_leaf_rows {
            Vec::new()
        } else {
            let parts = self.limits.repair_fan_out as u64;
            self.replica.cuts(turn.tables, session.partition, span.span(), parts)?
        };
        if cuts.is_empty() {
            session.steps.push_back(Step::Hashes { span, wants_rows: true });
            return Ok(());
        }
        let mut start = span.start;
        for cut in cuts.into_iter().filter(|cut| cut.first().is_some_and(|from| *from <= FROM_MAX)) {
            if cut > start {
                session.compares.push_back(OwnedSpan { start, end: cut.clone() });
                start = cut;
            }
        }
        session.compares.push_back(OwnedSpan { start, end: span.end });
        Ok(())
    }

    fn plan_gifts(&self, session: &mut Session, rows: Vec<(Vec<u8>, Vec<u8>)>) {
        let horizon = self.replica.state(session.partition).horizon;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for row in rows {
            bytes += row.0.len() + row.1.len();
            chunk.push(row);
            if bytes >= self.limits.chunk_bytes {
                session.steps.push_back(Step::Give { horizon, rows: std::mem::take(&mut chunk) });
                bytes = 0;
            }
        }
        if !chunk.is_empty() {
            session.steps.push_back(Step::Give { horizon, rows: chunk });
        }
    }

    pub(super) fn session_timer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        let is_due = |session: &Session| turn.now.ticks_ms >= session.due_ms;
        if !self.sessions.sessions.get(&number).is_some_and(is_due) {
            return Ok(());
        }
        let Some(mut session) = self.sessions.sessions.remove(&number) else { return Ok(()) };
        if let Some((request, _)) = session.under_way {
            self.forget(request);
            session.attempts += 1;
            if session.attempts >= ATTEMPTS {
                return self.end_session(turn, session, false);
            }
        }
        self.go_on(turn, number, session)
    }

    fn end_session<T: Tables>(&mut self, turn: &mut Turn<'_, T>, session: Session, is_done: bool) -> Result<()> {
        self.metrics.note_session(is_done);
        let Session { peer, partition, purpose, .. } = session;
        match purpose {
            Purpose::Repair => self.repair_next(turn),
            Purpose::Round(round) => self.round_step(turn, round, peer, is_done),
            Purpose::Copy => self.copied(turn, partition, peer, is_done),
        }
    }
}
