//! The requests that this node coordinates: admits them, keeps their operations, and acts on the progress of these.

use std::collections::BTreeMap;

use quipu::Result;

use super::conditional::{Conditionals, Next};
use super::context::Context;
use super::hints::Hints;
use super::operation::{Asker, Operation, Progress, Wish};
use super::query::{Page, Query};
use super::read::ReadOp;
use super::waiting::{Reply, Timer, Waiter};
use super::write::{Change, WriteOp};
use crate::api::{Answer, Request};
use crate::ids::{NodeId, Quorum, Version};
use crate::limits::Limits;
use crate::protocol::Message;
use crate::tables::Tables;

/// The operations of one kind, by their numbers.
type Map<O> = BTreeMap<u64, O>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Requests {
    writes: Map<WriteOp>,
    reads: Map<ReadOp>,
    queries: Map<Query>,
    conditionals: Conditionals,
    /// What the operations hold in memory of their requests.
    bytes: usize,
    /// Whether replicas were found to differ about a count.
    is_compare_wanted: bool,
}

/// The quorum of a request, or why it is refused.
fn check<T>(cx: &Context<'_, T>, request: &Request) -> std::result::Result<Quorum, Answer> {
    let is_within = |what: &str, bytes: usize, limit: usize| match bytes > limit {
        true => Err(Answer::TooLarge(format!("{what} of {bytes} bytes is over the limit of {limit}"))),
        false => Ok(()),
    };
    let replicas = cx.routing.topology().replicas;
    match request {
        Request::Get { key, quorum, .. } | Request::Put { key, quorum, .. } => {
            if key.is_empty() {
                return Err(Answer::Invalid("the key is empty".to_owned()));
            }
            is_within("a key", key.len(), cx.limits.key_bytes_max)?;
            if let Request::Put { value: Some(value), .. } = request {
                is_within("a value", value.len(), cx.limits.value_bytes_max)?;
            }
            cx.routing.quorum(*quorum).map_err(Answer::Invalid)
        }
        Request::Count { ack, .. } if *ack == 0 || *ack > replicas => {
            Err(Answer::Invalid(format!("`ack` is {ack}, and can be 1 to {replicas}")))
        }
        Request::Count { ack, .. } => Ok(Quorum { ack: *ack, from: replicas }),
        Request::Page { .. } => Ok(Quorum { ack: 1, from: replicas }),
    }
}

impl Requests {
    fn writes(&mut self) -> &mut Map<WriteOp> {
        &mut self.writes
    }

    fn reads(&mut self) -> &mut Map<ReadOp> {
        &mut self.reads
    }

    fn queries(&mut self) -> &mut Map<Query> {
        &mut self.queries
    }

    /// Whether replicas should be compared because of a request, since this was last asked.
    pub(super) fn take_compare_wish(&mut self) -> bool {
        std::mem::take(&mut self.is_compare_wanted)
    }

    fn has_room_for(&self, request: &Request, limits: &Limits) -> bool {
        let under_way = self.writes.len() + self.reads.len() + self.queries.len() + self.conditionals.len();
        let bytes = match request {
            Request::Get { key, .. } => key.len(),
            Request::Put { key, value, .. } => key.len() + value.as_ref().map_or(0, Vec::len),
            Request::Count { .. } | Request::Page { .. } => 0,
        };
        under_way < limits.requests_max && self.bytes + bytes <= limits.request_bytes_max
    }

    /// Takes the request of a client.
    pub(super) fn on_request<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        client: u64,
        request: Request,
    ) -> Result<()> {
        if !self.has_room_for(&request, cx.limits) {
            cx.answer(client, Answer::Overloaded);
            return Ok(());
        }
        let quorum = match check(cx, &request) {
            Ok(quorum) => quorum,
            Err(refused) => {
                cx.answer(client, refused);
                return Ok(());
            }
        };
        let asker = Asker::Client(client);
        match request {
            Request::Get { key, is_blocking, .. } => self.begin_read(cx, hints, asker, key, quorum, is_blocking),
            Request::Put { key, value, ttl_ms, condition, .. } => {
                // What lives for no time at all is removed, on all replicas alike, whatever their clocks say.
                let value = value.filter(|_| ttl_ms != Some(0));
                let deadline_ms = match (&value, ttl_ms) {
                    (Some(_), Some(ttl_ms)) => cx.now.wall_ms.saturating_add(ttl_ms).max(1),
                    _ => 0,
                };
                let change = Change { key, value, deadline_ms };
                match condition {
                    None => self.begin_write(cx, hints, asker, change, quorum, Version::ZERO),
                    Some(condition) => {
                        let next = self.conditionals.begin(cx, client, change, quorum, condition);
                        self.carry_on(cx, hints, next)
                    }
                }
            }
            Request::Count { range, .. } => {
                let (query, progress) = Query::begin(cx, client, range, None, quorum.ack)?;
                self.enter(cx, hints, Requests::queries, query, progress)
            }
            Request::Page { range, offset, limit, with_values } => {
                let page = Page { offset, limit: limit.min(cx.limits.page_rows_max), with_values };
                let (query, progress) = Query::begin(cx, client, range, Some(page), quorum.ack)?;
                self.enter(cx, hints, Requests::queries, query, progress)
            }
        }
    }

    /// Takes a conditional write that another node hands on.
    pub(super) fn on_conditional<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        from: NodeId,
        request: u64,
        message: &Message<'_>,
    ) -> Result<()> {
        let next = self.conditionals.on_message(cx, from, request, message);
        self.carry_on(cx, hints, next)
    }

    /// A peer has answered a question of an operation, or will not.
    pub(super) fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        waiter: Waiter,
        (from, request, reply): (NodeId, u64, Reply<'_, '_>),
    ) -> Result<()> {
        match waiter {
            Waiter::Write(number) => {
                self.step(cx, hints, Requests::writes, number, |op, cx| op.on_reply(cx, from, request, reply))
            }
            Waiter::Read(number) => {
                self.step(cx, hints, Requests::reads, number, |op, cx| op.on_reply(cx, from, request, reply))
            }
            Waiter::Query(number) => {
                self.step(cx, hints, Requests::queries, number, |op, cx| op.on_reply(cx, from, request, reply))
            }
            Waiter::Conditional(number) => {
                self.conditionals.on_reply(cx, number, reply);
                Ok(())
            }
            Waiter::Hint | Waiter::Session(_) | Waiter::Round(_) => Ok(()),
        }
    }

    /// A timer of an operation has come.
    pub(super) fn on_timer<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        timer: Timer,
    ) -> Result<()> {
        match timer {
            Timer::Write(number) => self.step(cx, hints, Requests::writes, number, Operation::on_timer),
            Timer::Read(number) => self.step(cx, hints, Requests::reads, number, Operation::on_timer),
            Timer::Query(number) => self.step(cx, hints, Requests::queries, number, Operation::on_timer),
            Timer::Conditional(number) => {
                self.conditionals.on_timer(cx, number);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// An epoch has begun.
    pub(super) fn on_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>, hints: &mut Hints) -> Result<()> {
        for number in self.writes.keys().copied().collect::<Vec<_>>() {
            self.step(cx, hints, Requests::writes, number, Operation::on_epoch)?;
        }
        for number in self.reads.keys().copied().collect::<Vec<_>>() {
            self.step(cx, hints, Requests::reads, number, Operation::on_epoch)?;
        }
        Ok(())
    }

    /// An answer of so many bytes to a question has begun to come.
    pub(super) fn on_coming<T>(&mut self, cx: &mut Context<'_, T>, from: NodeId, request: u64, bytes: usize) {
        if let Some(Waiter::Read(number)) = cx.calls.waiter(from, request)
            && let Some(read) = self.reads.get_mut(&number)
        {
            read.wait_for_long(cx, bytes);
        }
    }

    fn begin_write<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        asker: Asker,
        change: Change,
        quorum: Quorum,
        above: Version,
    ) -> Result<()> {
        match WriteOp::begin(cx, asker, change, quorum, above)? {
            Some((op, progress)) => self.enter(cx, hints, Requests::writes, op, progress),
            None => {
                let progress = Progress { answer: Some(Answer::NotEnoughReplicas), is_over: true, wish: None };
                self.follow(cx, hints, asker, progress)
            }
        }
    }

    fn begin_read<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        asker: Asker,
        key: Vec<u8>,
        quorum: Quorum,
        is_blocking: bool,
    ) -> Result<()> {
        let (op, progress) = ReadOp::begin(cx, asker, key, quorum, is_blocking)?;
        self.enter(cx, hints, Requests::reads, op, progress)
    }

    /// Keeps an operation that has begun, if it is not over at once.
    fn enter<O: Operation, T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        map: fn(&mut Requests) -> &mut Map<O>,
        op: O,
        progress: Progress,
    ) -> Result<()> {
        let asker = op.asker();
        if progress.is_over {
            self.follow(cx, hints, asker, progress)?;
            return op.end(cx, hints);
        }
        self.bytes += op.bytes();
        map(self).insert(op.number(), op);
        self.follow(cx, hints, asker, progress)
    }

    /// Takes an operation a step further, and ends it if it is over.
    fn step<O: Operation, T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        map: fn(&mut Requests) -> &mut Map<O>,
        number: u64,
        step: impl FnOnce(&mut O, &mut Context<'_, T>) -> Result<Progress>,
    ) -> Result<()> {
        let Some(op) = map(self).get_mut(&number) else { return Ok(()) };
        let asker = op.asker();
        let progress = step(op, cx)?;
        let over = if progress.is_over { map(self).remove(&number) } else { None };
        self.follow(cx, hints, asker, progress)?;
        match over {
            None => Ok(()),
            Some(op) => {
                self.bytes -= op.bytes();
                op.end(cx, hints)
            }
        }
    }

    /// Tells the outcome of an operation, and does what it wants done.
    fn follow<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        hints: &mut Hints,
        asker: Asker,
        progress: Progress,
    ) -> Result<()> {
        match progress.wish {
            None => {}
            Some(Wish::Compare) => self.is_compare_wanted = true,
            Some(Wish::MakeEqual { key, from }) => {
                self.begin_read(cx, hints, Asker::Node, key, Quorum { ack: from, from }, false)?;
            }
        }
        match (asker, progress.answer) {
            (_, None) | (Asker::Node, _) => Ok(()),
            (Asker::Client(client), Some(answer)) => {
                cx.answer(client, answer);
                Ok(())
            }
            (Asker::Conditional(number), Some(answer)) => {
                let next = self.conditionals.on_outcome(cx, number, answer);
                self.carry_on(cx, hints, next)
            }
        }
    }

    /// Begins the next read or write of a conditional write.
    fn carry_on<T: Tables>(&mut self, cx: &mut Context<'_, T>, hints: &mut Hints, next: Option<Next>) -> Result<()> {
        match next {
            None => Ok(()),
            Some(Next::Read { number, key, quorum }) => {
                self.begin_read(cx, hints, Asker::Conditional(number), key, quorum, false)
            }
            Some(Next::Write { number, change, quorum, above }) => {
                self.begin_write(cx, hints, Asker::Conditional(number), change, quorum, above)
            }
        }
    }
}
