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
//! A node only keeps what its operations share, and dispatches: messages, timers and epochs go to the operation that
//! they are for (`operations`), with a `Context`. Operations are values that do not know the node:
//!
//! | file | what it is |
//! |---|---|
//! | `write`, `read`, `mending`, `query`, `conditional` | what clients ask; `requests` lets it in and carries it on |
//! | `targets` | which replicas of those that `routing` names are asked first; whether enough have answered |
//! | `hints` | what peers have missed |
//! | `comparison`, `repair`, `movement` | comparing rows with others; with whom and when; copying them |
//! | `housekeeping` | what is due is removed |
//! | `questions` | what this node's replica answers to others |
//! | `operations`, `operation` | all operations of a node; what those of requests have in common |
//! | `context`, `waiting` | what an operation is given for a step; questions to peers, and timers |
//! | `prefetch` | the rows that an input will look up |
//! | `interface`, `identity` | inputs and outputs of a node; the owner of a store |

mod comparison;
mod conditional;
mod context;
mod hints;
mod housekeeping;
mod identity;
mod interface;
mod mending;
mod movement;
mod operation;
mod operations;
mod prefetch;
mod query;
mod questions;
mod read;
mod repair;
mod requests;
mod targets;
mod waiting;
mod write;

pub use self::identity::Identity;
pub use self::interface::{Input, Output};
pub use crate::mutations::Mutations;

use std::collections::BTreeMap;

use quipu::Result;

use self::context::{CLOCK, Context};
use self::identity::TOPOLOGY;
use self::operations::Operations;
use self::questions::Question;
use self::waiting::{Calls, Reply, Timer, Timers};
use crate::api::Request;
use crate::clock::Clock;
use crate::codec::Fields;
use crate::ids::{NodeId, Now, Partition, Version};
use crate::limits::Limits;
use crate::membership::Membership;
use crate::metrics::Metrics;
use crate::peers::{ClockReport, Health, Peers};
use crate::protocol::{Frame, Header, Message, Refusal};
use crate::replica::Replica;
use crate::routing::Routing;
use crate::tables::{Table, Tables};
use crate::topology::Topology;

/// The tables, the time and the outputs of a turn.
struct Turn<'t, T> {
    now: Now,
    tables: &'t mut T,
    out: &'t mut Vec<Output>,
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
    calls: Calls,
    timers: Timers,
    operations: Operations,
    /// Which `from` are in use anywhere, as far as is known, a bit each; and which of them are stored as known.
    classes: u32,
    stored_classes: u32,
    /// Floors far ahead of this node's clock that writes have met.
    lines: BTreeMap<Partition, Version>,
    /// When a peer was last asked for the topology.
    asked_topology_at: u64,
}

/// Where the number of starts is stored.
const STARTS: &[u8] = b"starts";
/// Where it is stored which `from` are in use anywhere.
const KNOWN_CLASSES: &[u8] = b"known classes";

impl Node {
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
        let starts = tables.get(Table::Facts, STARTS)?.and_then(|bytes| Fields(&bytes).u64());
        let start = starts.unwrap_or(0) + 1;
        tables.put(Table::Facts, STARTS, &start.to_le_bytes())?;
        let clock = Clock::new(own, tables.get(Table::Facts, CLOCK)?.as_deref(), limits.ahead_ms_max);
        tables.put(Table::Facts, CLOCK, &clock.fact())?;
        let replica = Replica::open(own, limits.clone(), tables)?;
        let known = tables.get(Table::Facts, KNOWN_CLASSES)?.and_then(|bytes| Fields(&bytes).u32()).unwrap_or(0);
        let mut node = Node {
            own,
            clock,
            peers: Peers::default(),
            membership: Membership::new(own, start, seed, routing.topology().members.len()),
            metrics: Metrics::default(),
            mutations: Mutations::default(),
            calls: Calls::new(start),
            timers: Timers::default(),
            operations: Operations::new(&limits),
            classes: known | replica.classes() | 1 << (routing.topology().replicas - 1),
            stored_classes: known,
            lines: BTreeMap::new(),
            asked_topology_at: 0,
            replica,
            limits,
            routing,
        };
        let mut turn = Turn { now, tables, out: &mut Vec::new() };
        let (mut cx, operations) = node.lend(&mut turn);
        operations.open(&mut cx)?;
        // Nodes do not compare all at the same moment.
        let first_repair_ms = cx.limits.repair_every_ms * (1 + u64::from(own.0) % 8) / 8;
        for (delay_ms, timer) in [
            (0, Timer::Membership),
            (1, Timer::Movement),
            (1, Timer::Announce),
            (2, Timer::Housekeeping),
            (3, Timer::Hints),
            (first_repair_ms, Timer::Repair),
        ] {
            cx.set_timer(delay_ms, timer);
        }
        node.note_members(now);
        Ok(node)
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
        let health = |node: NodeId| match self.routing.is_living(node) {
            _ if node == self.own => Health::Up,
            true => self.peers.health(node, &self.limits),
            false => Health::Down,
        };
        self.routing.topology().members.keys().map(|node| (*node, health(*node))).collect()
    }

    /// What this node's clock and those of peers say, and whether this node stamps writes now.
    pub fn clocks(&self, now: Now) -> ClockReport {
        let members = self.routing.topology().living().count();
        ClockReport {
            can_stamp: !self.peers.is_clock_far_ahead(now, members, &self.limits),
            ahead_ms: self.clock.ahead_ms(now),
            skews_ms: self.peers.skews_ms(now),
            went_back: self.clock.went_back,
            far_stamps: self.clock.far_stamps,
        }
    }

    /// Puts faults into the machine. See [`Mutations`].
    #[cfg(feature = "simulation")]
    pub fn mutate(&mut self, mutations: Mutations) {
        self.mutations = mutations;
        self.replica.mutations = mutations;
        self.clock.mutations = mutations;
    }

    /// The questions to peers whose answers this node waits for, by operations or by how the peers stand.
    #[cfg(feature = "simulation")]
    pub fn questions(&self) -> std::collections::BTreeSet<u64> {
        self.calls.all().chain(self.peers.requests()).collect()
    }

    /// How long a peer usually takes to answer, in milliseconds.
    pub fn usual_ms(&self, peer: NodeId) -> f64 {
        self.peers.usual_ms(peer)
    }

    /// When the node wants to be ticked, in ticks.
    pub fn wake_at_ms(&self) -> u64 {
        self.timers.first_ms()
    }

    /// Comparisons and rounds that are still to be done, or under way.
    pub fn repairs_left(&self) -> usize {
        self.operations.repairs_left()
    }

    /// Partitions that are still to be copied.
    pub fn copies_left(&self) -> usize {
        self.operations.copies_left()
    }

    /// Names the rows that a client's request will look up here.
    pub fn rows_of_request(&self, request: &Request, visit: &mut dyn FnMut(&[u8])) {
        prefetch::rows_of_request(&self.routing, &self.replica, request, visit);
    }

    /// Names the rows that a peer's frame will have this node look up.
    pub fn rows_of_frame(&self, bytes: &[u8], visit: &mut dyn FnMut(&[u8])) {
        prefetch::rows_of_frame(&self.replica, bytes, visit);
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
                self.operations.hints.wake(node);
            }
            Input::Disconnected(node) => {
                for request in self.peers.disconnected(node) {
                    self.on_reply(turn, node, request, Reply::Lost)?;
                }
            }
            Input::Coming { from, request, bytes } => {
                let (mut cx, operations) = self.lend(turn);
                operations.requests.on_coming(&mut cx, from, request, bytes);
            }
            Input::Topology(routing) => self.adopt(turn, routing)?,
            Input::Request { client, request } => {
                let (mut cx, operations) = self.lend(turn);
                operations.requests.on_request(&mut cx, &mut operations.hints, client, request)?;
            }
            Input::Repair => {
                let (mut cx, operations) = self.lend(turn);
                operations.repair_all(&mut cx)?;
            }
            Input::Tick => {}
        }
        if self.operations.take_repair_wish() {
            let (mut cx, operations) = self.lend(turn);
            operations.repair_all(&mut cx)?;
        }
        self.run_timers(turn)?;
        if self.classes != self.stored_classes {
            // A node that is started again and cannot reach those who have told it would count without their rows.
            turn.tables.put(Table::Facts, KNOWN_CLASSES, &self.classes.to_le_bytes())?;
            self.stored_classes = self.classes;
        }
        Ok(())
    }

    /// What the operations work with, and the operations.
    fn lend<'n, T>(&'n mut self, turn: &'n mut Turn<'_, T>) -> (Context<'n, T>, &'n mut Operations) {
        let cx = Context {
            now: turn.now,
            tables: turn.tables,
            out: turn.out,
            own: self.own,
            limits: &self.limits,
            mutations: self.mutations,
            routing: &self.routing,
            clock: &mut self.clock,
            peers: &mut self.peers,
            replica: &mut self.replica,
            metrics: &mut self.metrics,
            calls: &mut self.calls,
            timers: &mut self.timers,
            classes: &mut self.classes,
            lines: &mut self.lines,
        };
        (cx, &mut self.operations)
    }

    fn run_timers<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        let now_ms = turn.now.ticks_ms;
        while let Some(timer) = self.timers.pop_due(now_ms) {
            match timer {
                Timer::Peers => {
                    let probed = self.peers.check(now_ms, &self.limits);
                    let (mut cx, _) = self.lend(turn);
                    probed.into_iter().for_each(|peer| cx.ping(peer));
                    if !cx.peers.is_quiet() {
                        cx.set_timer(5, Timer::Peers);
                    }
                }
                Timer::Membership => {
                    let sent = self.membership.tick(now_ms);
                    let verdicts = self.membership.verdicts();
                    self.gossip(turn, sent, verdicts);
                    self.timers.set(self.membership.wake_at_ms().max(now_ms + 1), Timer::Membership);
                }
                timer => {
                    let (mut cx, operations) = self.lend(turn);
                    operations.on_timer(&mut cx, timer)?;
                }
            }
        }
        Ok(())
    }

    fn on_message<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        header: Header,
        message: &Message<'_>,
    ) -> Result<()> {
        self.metrics.frames_received += 1;
        if header.epoch > self.routing.epoch() {
            self.ask_topology(turn, from);
        }
        match message {
            // Answers.
            Message::Stored
            | Message::Older { .. }
            | Message::Refused { .. }
            | Message::Value { .. }
            | Message::Long { .. }
            | Message::Differ { .. }
            | Message::Entries { .. }
            | Message::Counted { .. }
            | Message::Cutting { .. }
            | Message::Rows { .. }
            | Message::Outcome { .. } => {
                self.peers.answered(from, header.request, turn.now.ticks_ms);
                if let Message::Refused { refusal: Refusal::StaleEpoch } = message {
                    self.ask_topology(turn, from);
                }
                self.on_reply(turn, from, header.request, Reply::Message(header.epoch, message))
            }
            // What members tell each other of themselves and of the topology.
            Message::Ping { .. }
            | Message::Pong { .. }
            | Message::AskTopology { .. }
            | Message::Topology { .. }
            | Message::Gossip { .. } => self.on_news(turn, from, header, message),
            Message::Conditional { .. } => {
                let (mut cx, operations) = self.lend(turn);
                operations.requests.on_conditional(&mut cx, &mut operations.hints, from, header.request, message)
            }
            // These are for the program that drives the node.
            Message::Log { .. } | Message::Mark { .. } => Ok(()),
            // Questions to the replica.
            Message::Write { .. }
            | Message::Read { .. }
            | Message::Compare { .. }
            | Message::Hashes { .. }
            | Message::Give { .. }
            | Message::Floor { .. }
            | Message::Horizon { .. }
            | Message::Count { .. }
            | Message::Cuts { .. }
            | Message::Page { .. } => {
                let (mut cx, operations) = self.lend(turn);
                Question { from, header, message }.answer(&mut cx, &mut operations.housekeeping)
            }
        }
    }

    /// Gives an answer, or that none will come, to the operation that waits for it, if one does.
    fn on_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(waiter) = self.calls.take(from, request) else { return Ok(()) };
        let (mut cx, operations) = self.lend(turn);
        operations.on_reply(&mut cx, waiter, (from, request, reply))
    }

    fn on_news<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        header: Header,
        message: &Message<'_>,
    ) -> Result<()> {
        let known = self.routing.topology();
        // What a node that has left, and does not know it, takes for the time is nothing to go by.
        let is_member = known.members.contains_key(&from);
        match message {
            Message::Pong { applied, classes, wall_ms } | Message::Ping { applied, classes, wall_ms } => {
                match message {
                    Message::Pong { .. } => _ = self.peers.answered(from, header.request, turn.now.ticks_ms),
                    // Its number is one of the peer's own.
                    _ => self.peers.heard(from, turn.now.ticks_ms),
                }
                if is_member {
                    self.peers.heard_clock(from, turn.now, *wall_ms);
                }
                self.classes |= classes;
                self.operations.hints.wake(from);
                let (mut cx, operations) = self.lend(turn);
                operations.on_classes(&mut cx, from, header.epoch);
                let known = self.routing.topology();
                let applied_here = known.applied;
                if *applied > applied_here {
                    self.ask_topology(turn, from);
                }
                if let Message::Pong { .. } = message {
                    return self.on_reply(turn, from, header.request, Reply::Message(header.epoch, message));
                }
                let wall_ms = turn.now.wall_ms;
                let (mut cx, _) = self.lend(turn);
                let classes = cx.classes_in_use();
                cx.send(from, header.request, &Message::Pong { applied: applied_here, classes, wall_ms });
            }
            Message::AskTopology { applied } if *applied < known.applied => {
                let bytes = known.encode();
                self.lend(turn).0.send(from, 0, &Message::Topology { bytes: &bytes });
            }
            Message::Topology { bytes } => {
                if let Some(topology) = Topology::decode(bytes)
                    && topology.cluster == known.cluster
                    && topology.applied > known.applied
                {
                    let routing = self.routing.follow(topology);
                    self.adopt(turn, routing)?;
                }
            }
            Message::Gossip { wall_ms, bytes } => {
                if is_member {
                    self.peers.heard_clock(from, turn.now, *wall_ms);
                }
                let (sent, verdicts) = self.membership.received(turn.now.ticks_ms, bytes);
                self.gossip(turn, sent, verdicts);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the verdicts of the failure detector, and sends what it says to others.
    fn gossip<T>(
        &mut self,
        turn: &mut Turn<'_, T>,
        sent: Vec<(NodeId, Vec<u8>)>,
        verdicts: impl IntoIterator<Item = (NodeId, bool)>,
    ) {
        for (node, is_faulty) in verdicts {
            self.peers.judged(node, is_faulty);
        }
        let wall_ms = turn.now.wall_ms;
        let (mut cx, _) = self.lend(turn);
        for (to, bytes) in sent {
            cx.send(to, 0, &Message::Gossip { wall_ms, bytes: &bytes });
        }
    }

    fn ask_topology<T>(&mut self, turn: &mut Turn<'_, T>, to: NodeId) {
        // The log brings it as well: peers are asked now and then.
        if turn.now.ticks_ms >= self.asked_topology_at + 20 || self.asked_topology_at == 0 {
            self.asked_topology_at = turn.now.ticks_ms.max(1);
            let applied = self.routing.topology().applied;
            self.lend(turn).0.send(to, 0, &Message::AskTopology { applied });
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
            self.note_members(turn.now);
            let (mut cx, operations) = self.lend(turn);
            operations.on_epoch(&mut cx)?;
        }
        let members = &self.routing.topology().members;
        self.peers.retain(|node| members.contains_key(&node));
        let (mut cx, operations) = self.lend(turn);
        operations.announce(&mut cx);
        Ok(())
    }

    /// Tells the failure detector who is a member.
    fn note_members(&mut self, now: Now) {
        self.membership.set_members(now.ticks_ms, self.routing.topology().members.keys().copied());
    }
}
