//! A node of the cluster as one state machine: inputs and ticks in, messages and answers out.
//!
//! It has no socket, clock, thread or random source. What drives it opens the tables for a turn, gives it inputs,
//! commits the tables, and carries out the outputs once the commit is durable ([`tables`](crate::tables)). The same
//! inputs give the same outputs.
//!
//! Invariants:
//! 1. What a node keeps in memory is bounded by [`Limits`]: requests by number and bytes, what is sent to peers by
//!    bytes, hints by bytes and age; sessions of repair and copies are a few each.
//! 2. A request has one answer, within [`Limits::request_timeout_ms`], and one with a long value a little later.
//! 3. A number of a request between nodes is used once, over restarts too: its upper half is the number of the start.
//!
//! Each file here is one concern: `write`, `read` and `conditional` coordinate requests of clients; `hints` keep what
//! peers have missed; `sessions` compare rows with another replica, `repair` decides with whom, `movement` copies;
//! `positions` counts over the cluster; `housekeeping` removes what is due.

mod ahead;
mod conditional;
mod hints;
mod housekeeping;
mod messages;
mod movement;
mod positions;
mod read;
mod repair;
mod sessions;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use quipu::Result;

use crate::api::{Answer, Request};
use crate::clock::{Clock, Stamp};
use crate::codec::{Fields, Put};
use crate::ids::{Epoch, NodeId, Now, Quorum, Version};
use crate::limits::Limits;
use crate::membership::Membership;
use crate::metrics::Metrics;
pub use crate::mutations::Mutations;
use crate::peers::{ClockReport, Health, Peers};
use crate::protocol::{Frame, Header, Message};
use crate::replica::Replica;
use crate::routing::Routing;
use crate::tables::{Table, Tables};
use crate::topology::{Entry, StoreId, Topology};

/// What a node takes in.
#[derive(Debug)]
pub enum Input<'i> {
    /// A frame of a peer, whole.
    Frame {
        /// Who sent it.
        from: NodeId,
        /// Its bytes.
        bytes: &'i [u8],
    },
    /// The connection to a peer is there.
    Connected(NodeId),
    /// The connection to a peer broke: what was sent and not answered may be lost.
    Disconnected(NodeId),
    /// An answer of so many bytes has begun to come, and takes its time.
    Coming {
        /// From whom.
        from: NodeId,
        /// To which request.
        request: u64,
        /// The bytes of its frame.
        bytes: usize,
    },
    /// The log of the topology has come so far.
    Topology(Routing),
    /// A client asks something.
    Request {
        /// Names the request to whoever drives the node.
        client: u64,
        /// What is asked.
        request: Request,
    },
    /// Compare all partitions now.
    Repair,
    /// Time has passed.
    Tick,
}

/// What a node puts out.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A frame for a peer. Those of one turn to one peer may go out as one write.
    Send {
        /// To whom.
        to: NodeId,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// The answer to a request.
    Answer {
        /// Which.
        client: u64,
        /// The answer.
        answer: Answer,
    },
    /// An entry for the log of the topology. It is proposed again until it has an effect.
    Propose(Entry),
}

/// The tables, the time and the outputs of a turn.
pub(crate) struct Turn<'t, T> {
    pub(crate) now: Now,
    pub(crate) tables: &'t mut T,
    pub(crate) out: &'t mut Vec<Output>,
}

/// Who waits for an answer of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    Write(u64),
    Read(u64),
    Conditional(u64),
    Hint,
    Session(u64),
    Round(u64),
    Position(u64),
}

/// What a node waits for until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Write(u64),
    Read(u64),
    Conditional(u64),
    Position(u64),
    Session(u64),
    Round(u64),
    Peers,
    Hints,
    Repair,
    Movement,
    Housekeeping,
    Membership,
    Announce,
}

/// An answer of a peer, or that none will come.
#[derive(Clone, Copy, Debug)]
enum Reply<'r, 'm> {
    Message(Epoch, &'r Message<'m>),
    Lost,
}

/// Who gets the outcome of a request that this node coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Client(u64),
    /// A conditional write that this node serializes.
    Conditional(u64),
    /// Nobody: a read that mends.
    Nobody,
}

/// A node. See the module.
#[derive(Debug)]
pub struct Node {
    own: NodeId,
    limits: Limits,
    routing: Routing,
    clock: Clock,
    peers: Peers,
    replica: Replica,
    membership: Membership,
    /// Counts what happens.
    pub metrics: Metrics,
    mutations: Mutations,
    next_number: u64,
    waiters: BTreeMap<u64, (NodeId, Waiter)>,
    timers: BTreeSet<(u64, Timer)>,
    request_bytes: usize,
    writes: BTreeMap<u64, write::WriteOp>,
    reads: BTreeMap<u64, read::ReadOp>,
    conditionals: conditional::Conditionals,
    hints: hints::Hints,
    sessions: sessions::Sessions,
    repair: repair::Repair,
    movement: movement::Movement,
    positions: positions::Positions,
    housekeeping: housekeeping::Housekeeping,
    /// Which `from` are in use anywhere, as far as is known.
    classes: u32,
    /// When a peer was last asked for the topology.
    asked_topology_at: u64,
}

const TOPOLOGY: &[u8] = b"topology";
const STORE: &[u8] = b"store";
const STARTS: &[u8] = b"starts";
const CLOCK: &[u8] = b"clock";

/// What a store says of the node that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The store's own id.
    pub store: StoreId,
    /// The topology that it knows.
    pub topology: Topology,
}

impl Node {
    /// Gives a new store to a node. At epoch 0 it has all that the node keeps, since nothing was written yet; later it
    /// has nothing, and copies.
    pub fn found<T: Tables>(tables: &mut T, identity: &Identity, limits: &Limits) -> Result<()> {
        Node::found_without_rows(tables, identity)?;
        if identity.topology.epoch == Epoch(0) {
            let routing = Routing::new(identity.topology.clone());
            Replica::open(identity.node, limits.clone(), tables)?.found(&routing, tables)?;
        }
        Ok(())
    }

    /// Gives a new store to a node that has lost its own: it has nothing of what it keeps, and copies.
    ///
    /// Nobody may count any more what the lost store has confirmed: whoever drives the node sees to it that all others
    /// have forgotten their requests under way before this one is opened.
    pub fn found_without_rows<T: Tables>(tables: &mut T, identity: &Identity) -> Result<()> {
        let Identity { node, store, topology } = identity;
        let mut bytes = Vec::new();
        bytes.put_u16(node.0);
        bytes.put_u64(store.0);
        tables.put(Table::Facts, STORE, &bytes)?;
        tables.put(Table::Facts, TOPOLOGY, &topology.encode())
    }

    /// Whose store this is; none if it is new, or damaged.
    pub fn identity<T: Tables>(tables: &T) -> Result<Option<Identity>> {
        let read = || {
            let bytes = tables.get(Table::Facts, STORE)?;
            let topology = tables.get(Table::Facts, TOPOLOGY)?;
            Ok::<_, quipu::Error>(bytes.zip(topology))
        };
        Ok(read()?.and_then(|(bytes, topology)| {
            let mut fields = Fields(&bytes);
            Some(Identity {
                node: fields.node()?,
                store: StoreId(fields.u64()?),
                topology: Topology::decode(&topology)?,
            })
        }))
    }

    /// Starts a node on its store. `routing` has the tables of the stored topology or of a later one. `seed` is for the
    /// choices of the failure detector.
    pub fn open<T: Tables>(
        now: Now,
        tables: &mut T,
        own: NodeId,
        limits: Limits,
        routing: Routing,
        seed: u64,
    ) -> Result<Node> {
        let number =
            |name: &[u8]| Ok::<_, quipu::Error>(tables.get(Table::Facts, name)?.and_then(|b| Fields(&b).u64()));
        let start = number(STARTS)?.unwrap_or(0) + 1;
        tables.put(Table::Facts, STARTS, &start.to_le_bytes())?;
        let clock = Clock::new(own, tables.get(Table::Facts, CLOCK)?.as_deref(), limits.ahead_ms_max);
        tables.put(Table::Facts, CLOCK, &clock.fact())?;
        let mut node = Node {
            own,
            clock,
            peers: Peers::default(),
            replica: Replica::open(own, limits.clone(), tables)?,
            membership: Membership::new(own, start, seed, routing.topology().members.len()),
            metrics: Metrics::default(),
            mutations: Mutations::default(),
            next_number: (start << 32) + 1,
            waiters: BTreeMap::new(),
            timers: BTreeSet::new(),
            request_bytes: 0,
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            conditionals: conditional::Conditionals::default(),
            hints: hints::Hints::default(),
            sessions: sessions::Sessions::new(&limits),
            repair: repair::Repair::default(),
            movement: movement::Movement::default(),
            positions: positions::Positions::default(),
            housekeeping: housekeeping::Housekeeping::default(),
            classes: 0,
            asked_topology_at: 0,
            limits,
            routing,
        };
        node.classes = node.replica.classes() | 1 << (node.routing.topology().replicas - 1);
        let mut out = Vec::new();
        let mut turn = Turn { now, tables, out: &mut out };
        node.hints.open(&turn)?;
        node.enter_epoch(&mut turn)?;
        for (delay_ms, timer) in [
            (0, Timer::Membership),
            (1, Timer::Movement),
            (1, Timer::Announce),
            (2, Timer::Housekeeping),
            (3, Timer::Hints),
            (node.first_repair_ms(), Timer::Repair),
        ] {
            node.set_timer(now.ticks_ms + delay_ms, timer);
        }
        Ok(node)
    }

    /// Nodes do not compare all at the same moment.
    fn first_repair_ms(&self) -> u64 {
        self.limits.repair_every_ms * (1 + u64::from(self.own.0) % 8) / 8
    }

    /// The topology in force, with its tables.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// This node.
    pub fn id(&self) -> NodeId {
        self.own
    }

    /// The rows of this node.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// How this node believes that the members stand.
    pub fn health_of_all(&self) -> Vec<(NodeId, Health)> {
        self.routing.topology().members.keys().map(|node| (*node, self.health(*node))).collect()
    }

    /// What this node's clock and those of peers say, and whether this node stamps writes now.
    pub fn clocks(&self, now: Now) -> ClockReport {
        ClockReport {
            can_stamp: self.can_stamp(now),
            ahead_ms: self.clock.ahead_ms(now),
            skews_ms: self.peers.skews_ms(now),
            went_back: self.clock.went_back,
            far_stamps: self.clock.far_stamps,
        }
    }

    /// Whether this node's wall clock is to be trusted with versions and deadlines: most peers say so, or do not say.
    fn can_stamp(&self, now: Now) -> bool {
        let members = self.routing.topology().living().count();
        !self.peers.is_clock_far_ahead(now, members, &self.limits)
    }

    /// Puts faults into the machine. See [`Mutations`].
    #[cfg(feature = "simulation")]
    pub fn mutate(&mut self, mutations: Mutations) {
        self.mutations = mutations;
        self.replica.mutations = mutations;
        self.clock.mutations = mutations;
    }

    /// How long a peer usually takes to answer, in milliseconds.
    pub fn usual_ms(&self, peer: NodeId) -> f64 {
        self.peers.usual_ms(peer)
    }

    /// When the node wants to be ticked, in ticks.
    pub fn wake_at_ms(&self) -> u64 {
        self.timers.first().map_or(u64::MAX, |(at_ms, _)| *at_ms)
    }

    /// Takes an input.
    ///
    /// # Errors
    /// Those of the tables. What was put out may not be carried out then.
    pub fn on<T: Tables>(&mut self, now: Now, input: Input<'_>, tables: &mut T, out: &mut Vec<Output>) -> Result<()> {
        let turn = &mut Turn { now, tables, out };
        match input {
            Input::Frame { from, bytes } => match Frame::decode(bytes) {
                Ok(frame) => self.on_message(turn, from, frame.header, &frame.message)?,
                Err(_) => self.metrics.bad_frames += 1,
            },
            Input::Connected(node) => {
                self.peers.connected(node);
                self.hints.wake(node);
            }
            Input::Disconnected(node) => {
                for request in self.peers.disconnected(node) {
                    if let Some((_, waiter)) = self.waiters.remove(&request) {
                        self.on_reply(turn, node, request, waiter, Reply::Lost)?;
                    }
                }
            }
            Input::Coming { from, request, bytes } => self.wait_for_long(turn, from, request, bytes),
            Input::Topology(routing) => self.adopt(turn, routing)?,
            Input::Request { client, request } => self.on_request(turn, client, request)?,
            Input::Repair => self.repair_all(turn)?,
            Input::Tick => {}
        }
        self.run_timers(turn)
    }

    fn run_timers<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        while let Some((at_ms, timer)) = self.timers.first().copied() {
            if at_ms > turn.now.ticks_ms {
                break;
            }
            self.timers.pop_first();
            let now_ms = turn.now.ticks_ms;
            match timer {
                Timer::Write(op) => self.write_timer(turn, op)?,
                Timer::Read(op) => self.read_timer(turn, op)?,
                Timer::Conditional(op) => self.conditional_timer(turn, op),
                Timer::Position(op) => self.position_timer(turn, op)?,
                Timer::Session(session) => self.session_timer(turn, session)?,
                Timer::Round(round) => self.round_timer(turn, round)?,
                Timer::Peers => {
                    for peer in self.peers.check(now_ms, &self.limits) {
                        self.ping(turn, peer);
                    }
                    if !self.peers.is_quiet() {
                        self.set_timer(now_ms + 5, Timer::Peers);
                    }
                }
                Timer::Hints => self.hand_over(turn)?,
                Timer::Repair => self.repair_all(turn)?,
                Timer::Movement => self.move_on(turn)?,
                Timer::Housekeeping => self.keep_house(turn)?,
                Timer::Membership => {
                    let sent = self.membership.tick(now_ms);
                    for (node, is_faulty) in self.membership.verdicts() {
                        self.peers.judged(node, is_faulty);
                    }
                    self.gossip(turn, sent);
                    self.set_timer(self.membership.wake_at_ms().max(now_ms + 1), Timer::Membership);
                }
                Timer::Announce => {
                    self.announce(turn);
                    self.set_timer(now_ms + 200, Timer::Announce);
                }
            }
        }
        Ok(())
    }

    fn set_timer(&mut self, at_ms: u64, timer: Timer) {
        self.timers.insert((at_ms, timer));
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Sends a message that nobody waits for.
    fn send<T>(&mut self, turn: &mut Turn<'_, T>, to: NodeId, request: u64, message: &Message<'_>) -> usize {
        let mut bytes = Vec::with_capacity(64);
        Frame::encode(Header { epoch: self.routing.epoch(), request }, message, &mut bytes);
        let length = bytes.len();
        self.metrics.note_sent(message.kind(), length);
        turn.out.push(Output::Send { to, bytes });
        length
    }

    /// Sends a message that `waiter` waits for. Returns its number.
    fn ask<T>(&mut self, turn: &mut Turn<'_, T>, to: NodeId, waiter: Waiter, message: &Message<'_>) -> u64 {
        let request = self.number();
        let bytes = self.send(turn, to, request, message);
        if self.peers.is_quiet() {
            self.set_timer(turn.now.ticks_ms + 5, Timer::Peers);
        }
        self.peers.sent(to, request, turn.now.ticks_ms, bytes);
        self.waiters.insert(request, (to, waiter));
        request
    }

    /// No longer waits for an answer.
    fn forget(&mut self, request: u64) {
        if let Some((node, _)) = self.waiters.remove(&request) {
            self.peers.forget_request(node, request);
        }
    }

    fn answer<T>(&mut self, turn: &mut Turn<'_, T>, client: u64, answer: Answer) {
        self.metrics.note_answer(&answer);
        turn.out.push(Output::Answer { client, answer });
    }

    fn health(&self, node: NodeId) -> Health {
        match self.routing.is_living(node) {
            _ if node == self.own => Health::Up,
            true => self.peers.health(node, &self.limits),
            false => Health::Down,
        }
    }

    /// The next version, above `above` too; none if this node's clock is far ahead of most others: replicas would
    /// refuse it, and what one of them took all the same would stand above all writes to come.
    fn stamp<T: Tables>(&mut self, turn: &mut Turn<'_, T>, above: Version) -> Result<Option<Stamp>> {
        if !self.can_stamp(turn.now) {
            self.metrics.stamps_refused += 1;
            return Ok(None);
        }
        let stamp = self.clock.stamp(turn.now, above);
        if stamp.is_some_and(|stamp| stamp.is_to_be_stored) {
            turn.tables.put(Table::Facts, CLOCK, &self.clock.fact())?;
        }
        Ok(stamp)
    }

    fn quorum(&self, given: Option<Quorum>) -> std::result::Result<Quorum, String> {
        let replicas = self.routing.topology().replicas;
        let quorum = given.unwrap_or(Quorum { ack: replicas / 2 + 1, from: replicas });
        let from_max = self.routing.from_max();
        match quorum {
            Quorum { from: 0, .. } => Err("`from` must be at least 1".to_owned()),
            Quorum { ack: 0, .. } => Err("`ack` must be at least 1".to_owned()),
            Quorum { from, .. } if from > from_max => Err(format!("`from` is {from}, and can be {from_max} at most")),
            Quorum { ack, from } if ack > from => Err(format!("`ack` is {ack}, more than `from`, which is {from}")),
            quorum => Ok(quorum),
        }
    }

    fn on_request<T: Tables>(&mut self, turn: &mut Turn<'_, T>, client: u64, request: Request) -> Result<()> {
        let under_way = self.writes.len() + self.reads.len() + self.positions.len() + self.conditionals.len();
        let bytes = match &request {
            Request::Get { key, .. } => key.len(),
            Request::Put { key, value, .. } => key.len() + value.as_ref().map_or(0, Vec::len),
            Request::Count { .. } | Request::Page { .. } => 0,
        };
        if under_way >= self.limits.requests_max || self.request_bytes + bytes > self.limits.request_bytes_max {
            self.answer(turn, client, Answer::Overloaded);
            return Ok(());
        }
        let too_large = |what: &str, bytes: usize, limit: usize| {
            let text = format!("{what} of {bytes} bytes is over the limit of {limit}");
            (bytes > limit).then_some(Answer::TooLarge(text))
        };
        let refused = match &request {
            Request::Get { key, .. } | Request::Put { key, .. } if key.is_empty() => {
                Some(Answer::Invalid("the key is empty".to_owned()))
            }
            Request::Get { key, .. } => too_large("a key", key.len(), self.limits.key_bytes_max),
            Request::Put { key, value, .. } => too_large("a key", key.len(), self.limits.key_bytes_max)
                .or_else(|| too_large("a value", value.as_ref().map_or(0, Vec::len), self.limits.value_bytes_max)),
            Request::Count { .. } | Request::Page { .. } => None,
        };
        if let Some(refused) = refused {
            self.answer(turn, client, refused);
            return Ok(());
        }
        match request {
            Request::Get { key, quorum, is_blocking } => match self.quorum(quorum) {
                Ok(quorum) => self.begin_read(turn, Asker::Client(client), key, quorum, is_blocking),
                Err(text) => {
                    self.answer(turn, client, Answer::Invalid(text));
                    Ok(())
                }
            },
            Request::Put { key, value, ttl_ms, quorum, condition } => {
                // What lives for no time at all is removed, on all replicas alike, whatever their clocks say.
                let value = value.filter(|_| ttl_ms != Some(0));
                let deadline_ms = match (&value, ttl_ms) {
                    (Some(_), Some(ttl_ms)) => turn.now.wall_ms.saturating_add(ttl_ms).max(1),
                    _ => 0,
                };
                match (self.quorum(quorum), condition) {
                    (Err(text), _) => {
                        self.answer(turn, client, Answer::Invalid(text));
                        Ok(())
                    }
                    (Ok(quorum), None) => {
                        let change = write::Change { key, value, deadline_ms };
                        self.begin_write(turn, Asker::Client(client), change, quorum, Version::ZERO)
                    }
                    (Ok(quorum), Some(condition)) => {
                        let change = write::Change { key, value, deadline_ms };
                        self.begin_conditional(turn, client, change, quorum, condition)
                    }
                }
            }
            Request::Count { range, ack } => self.begin_count(turn, client, range, ack),
            Request::Page { range, offset, limit, with_values } => {
                self.begin_page(turn, client, range, offset, limit, with_values)
            }
        }
    }

    fn on_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        request: u64,
        waiter: Waiter,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        match waiter {
            Waiter::Write(op) => self.write_reply(turn, op, from, request, reply),
            Waiter::Read(op) => self.read_reply(turn, op, from, request, reply),
            Waiter::Conditional(op) => self.conditional_reply(turn, op, reply),
            Waiter::Hint => self.hint_reply(turn, from, request, reply),
            Waiter::Session(session) => self.session_reply(turn, session, reply),
            Waiter::Round(round) => self.round_reply(turn, round, from, reply),
            Waiter::Position(op) => self.position_reply(turn, op, request, reply),
        }
    }

    fn ping<T>(&mut self, turn: &mut Turn<'_, T>, to: NodeId) {
        let message = self.ping_message(turn.now);
        self.send(turn, to, 0, &message);
    }

    fn ping_message(&self, now: Now) -> Message<'static> {
        let applied = self.routing.topology().applied;
        Message::Ping { applied, classes: self.classes, wall_ms: now.wall_ms }
    }

    fn ask_topology<T>(&mut self, turn: &mut Turn<'_, T>, to: NodeId) {
        // The log brings it as well: peers are asked now and then.
        if turn.now.ticks_ms >= self.asked_topology_at + 20 || self.asked_topology_at == 0 {
            self.asked_topology_at = turn.now.ticks_ms.max(1);
            let applied = self.routing.topology().applied;
            self.send(turn, to, 0, &Message::AskTopology { applied });
        }
    }

    fn gossip<T>(&mut self, turn: &mut Turn<'_, T>, sent: Vec<(NodeId, Vec<u8>)>) {
        for (to, bytes) in sent {
            self.send(turn, to, 0, &Message::Gossip { wall_ms: turn.now.wall_ms, bytes: &bytes });
        }
    }

    /// Takes a topology that is newer than what is known.
    fn adopt<T: Tables>(&mut self, turn: &mut Turn<'_, T>, routing: Routing) -> Result<()> {
        if routing.topology().applied <= self.routing.topology().applied {
            return Ok(());
        }
        let is_other_epoch = routing.epoch() != self.routing.epoch();
        self.routing = routing;
        turn.tables.put(Table::Facts, TOPOLOGY, &self.routing.topology().encode())?;
        if is_other_epoch {
            self.enter_epoch(turn)?;
            self.retry_after_epoch(turn)?;
        }
        let members: Vec<NodeId> = self.routing.topology().members.keys().copied().collect();
        self.peers.retain(|node| members.contains(&node));
        self.announce(turn);
        Ok(())
    }

    /// Says in the log that this node knows the epoch, once it has copied what it must.
    fn announce<T>(&mut self, turn: &mut Turn<'_, T>) {
        let topology = self.routing.topology();
        let epoch = topology.epoch;
        if topology.members.contains_key(&self.own) && !topology.ready.contains(&self.own) && self.has_copied() {
            turn.out.push(Output::Propose(Entry::Ready { node: self.own, epoch }));
        }
    }
}
