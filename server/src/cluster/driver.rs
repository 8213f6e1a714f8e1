//! The thread that runs a node: it waits for sockets, requests and timers, gives all that has come to the node in one
//! turn, commits, and carries out what the node put out.
//!
//! Invariants:
//! 1. Nothing is sent or answered before the commit of its turn is durable.
//! 2. If a turn fails, nothing of it stays: it is rolled back, the node is dropped and opened again from its tables,
//!    and all who wait for an answer learn that none will come.
//! 3. A node runs only while it is a member, and peers are members.
//! 4. Frames go out over one connection to a peer. Of two that are made at the same time, that which the node with the
//!    lower id has asked for stays; what was sent over the other is heard (`links`).

mod dials;
mod failure;
mod members;
mod reporting;
mod space;
mod store_mark;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mio::{Poll, Token};
use quipu::Result;
use quipu_agreement::Agreement;
use quipu_cluster::api::{Answer, Request};
use quipu_cluster::engine::EngineTables;
use quipu_cluster::ids::{NodeId, Now};
use quipu_cluster::limits::Limits;
use quipu_cluster::node::{Input, Node, Output};
use quipu_cluster::protocol::{Aside, Frame, Header, Message, aside};
use quipu_cluster::routing::Routing;
use quipu_cluster::topology::{Entry, StoreId};
use tokio::sync::{oneshot, watch};

use dials::{Dials, PEER_WENT_BACK, REMOVED};
use failure::LastFailure;
use reporting::Repaired;
use space::{note_failed, note_turned, space_of};
use store_mark::Marking;

use super::change::PendingChange;
use super::greeting::{Failure, Greeted};
use super::host::Host;
use super::inbox::{Event, Inbox};
use super::link::Link;
use super::links::{Linked, Links};
use super::register::{Register, Standing, WENT_BACK_TEXT};
use super::report::Report;
use crate::system::clock;
use crate::system::log::Level;

/// How long a new node, or one that has failed, waits before it looks again.
const AGAIN: Duration = Duration::from_millis(50);

/// Bytes of a frame beside its value.
const FRAME_EXTRA_BYTES: usize = 1 << 20;
/// How long peers are waited for at the start.
const MEETING_MS: u64 = 1500;

/// What is given to the node in a turn, beside frames.
enum Step {
    Ask(u64, Request),
    Connected(NodeId),
    Disconnected(NodeId),
    /// A long answer of a node to a request has begun to come.
    Coming(NodeId, u64, usize),
    Repair,
    Topology(Routing),
}

impl Step {
    fn input(self) -> Input<'static> {
        match self {
            Step::Ask(client, request) => Input::Request { client, request },
            Step::Connected(peer) => Input::Connected(peer),
            Step::Disconnected(peer) => Input::Disconnected(peer),
            Step::Coming(from, request, bytes) => Input::Coming { from, request, bytes },
            Step::Repair => Input::Repair,
            Step::Topology(routing) => Input::Topology(routing),
        }
    }
}

/// Gives the node the frames of a link, but those of the log and marks to `set_aside`. Returns whether all were good;
/// if not, the link is to be cut.
fn take_frames(
    (peer, link): (NodeId, &mut Link),
    node: &mut Node,
    take: &mut impl FnMut(Input<'_>, &mut Node) -> Result<()>,
    mut set_aside: impl FnMut(Aside<'_>),
) -> Result<bool> {
    loop {
        let bytes = match link.next_frame() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(true),
            Err(()) => {
                node.metrics.bad_frames += 1;
                return Ok(false);
            }
        };
        if let Some(other) = aside(bytes) {
            set_aside(other);
            continue;
        }
        let bad = node.metrics.bad_frames;
        take(Input::Frame { from: peer, bytes }, node)?;
        if node.metrics.bad_frames > bad {
            return Ok(false);
        }
    }
}

pub(super) struct Driver {
    host: Arc<dyn Host>,
    register: Arc<Register>,
    limits: Limits,
    poll: Poll,
    inbox: Arc<Inbox>,
    reporter: watch::Sender<Arc<Report>>,
    classes: Arc<AtomicU32>,
    /// Milliseconds since the beginning, when the clock was last looked at: at the beginning of a round, and after what
    /// may take long.
    ticks_ms: u64,
    node: Option<Node>,
    /// The log of the topology, once the node has its place in the cluster.
    agreement: Option<Agreement>,
    /// Nodes that have come with a new store in the place of another: since when, and when last.
    newcomers: BTreeMap<StoreId, (u64, u64)>,
    /// Changes of members that were asked for here.
    changes: Vec<PendingChange>,
    claimed_ms: u64,
    /// When the log is opened, if it is not.
    log_at_ms: u64,
    links: Links,
    dials: Dials,
    steps: Vec<Step>,
    out: Vec<Output>,
    next_client: u64,
    /// Requests that have come before the node could take them: until when they wait, and their numbers.
    held: Vec<(u64, u64, Request)>,
    has_met_peers: bool,
    trouble: Option<String>,
    failure: LastFailure,
    reported_ms: u64,
    /// The mark of the store.
    marking: Marking,
    /// When all was last compared.
    repaired: Repaired,
    /// Whether the node's clock stamped writes when that was last looked at, and whether it was behind.
    stamps: bool,
    is_late: bool,
    /// How long the node serves on when it leaves, and until when if it does.
    drain_ms: u64,
    drained_at_ms: Option<u64>,
    /// After a failure, when the node is opened again.
    open_at_ms: u64,
    turns: (u64, u64),
    wakes: u64,
    frames_dropped: u64,
    stops: bool,
}

impl Driver {
    pub(super) fn new(
        host: Arc<dyn Host>,
        register: Arc<Register>,
        (limits, drain_ms): (Limits, u64),
        (poll, inbox): (Poll, Arc<Inbox>),
        (reporter, classes): (watch::Sender<Arc<Report>>, Arc<AtomicU32>),
    ) -> Driver {
        Driver {
            host,
            register,
            limits,
            poll,
            inbox,
            reporter,
            classes,
            ticks_ms: 0,
            node: None,
            agreement: None,
            newcomers: BTreeMap::new(),
            changes: Vec::new(),
            claimed_ms: 0,
            log_at_ms: 0,
            links: Links::default(),
            dials: Dials::default(),
            steps: Vec::new(),
            out: Vec::new(),
            next_client: 0,
            held: Vec::new(),
            has_met_peers: false,
            trouble: Some("the node starts".to_owned()),
            failure: LastFailure::default(),
            reported_ms: 0,
            marking: Marking::default(),
            repaired: Repaired::default(),
            stamps: true,
            is_late: false,
            drain_ms,
            drained_at_ms: None,
            open_at_ms: 0,
            turns: (0, 0),
            wakes: 0,
            frames_dropped: 0,
            stops: false,
        }
    }

    /// What time it is.
    fn now(&mut self) -> Now {
        self.ticks_ms = self.inbox.ticks_ms();
        Now { ticks_ms: self.ticks_ms, wall_ms: clock::now_ms() }
    }

    pub(super) fn run(mut self) {
        let mut events = mio::Events::with_capacity(256);
        let mut taken = Vec::new();
        while !self.stops {
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience()))
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                self.host.note(Level::Warning, format_args!("the cluster's thread cannot wait: {error}"));
                return;
            }
            self.ticks_ms = self.inbox.begin_round();
            self.wakes += 1;
            for event in &events {
                self.on_socket(event);
            }
            self.inbox.take(&mut taken);
            for event in taken.drain(..) {
                self.on_event(event);
            }
            self.note_peers_met();
            self.see_to_node();
            self.turn();
            self.see_to_log();
            let now_ms = self.ticks_ms;
            self.repaired.see_to(self.node.as_ref(), now_ms);
            self.marking.see_to(&self.register, &self.inbox, now_ms, self.node.is_some());
            self.dial();
            self.report();
            self.inbox.end_round();
        }
    }

    /// How long there is nothing to do if nothing comes.
    fn patience(&self) -> Duration {
        let now_ms = self.ticks_ms;
        if self.links.all().any(|link| link.is_readable) || !self.steps.is_empty() {
            return Duration::ZERO;
        }
        let dial_ms = self.dials.next_ms(&self.links);
        let wake_ms = self.node.as_ref().map(Node::wake_at_ms);
        let until_ms = dial_ms.into_iter().chain(wake_ms).min().unwrap_or(u64::MAX);
        let most = if self.node.is_none() || !self.has_met_peers { AGAIN } else { Duration::from_millis(100) };
        Duration::from_millis(until_ms.saturating_sub(now_ms)).min(most)
    }

    fn on_socket(&mut self, event: &mio::event::Event) {
        let now_ms = self.ticks_ms;
        let token = event.token();
        let Some((_, link)) = self.links.all_mut().find(|(_, link)| link.token == token) else { return };
        link.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        if event.is_writable()
            && !link.flush(now_ms)
            && let Some(node) = self.links.end(token, self.poll.registry())
        {
            self.cut(node);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Ask(request, sender) => self.on_request(request, sender),
            Event::Dialed(node, greeted) => self.on_dialed(node, greeted),
            Event::Accepted(Ok(greeted)) => self.link(greeted),
            Event::Accepted(Err(failure)) => self.on_failed_greeting(failure),
            Event::Marked(marked) => {
                let now_ms = self.ticks_ms;
                if let Some(frame) = self.marking.frame_of(&self.register, marked) {
                    for link in self.links.current() {
                        // It is short. Whether it goes out is seen at the next turn.
                        let _ = link.push(&frame) && link.flush(now_ms);
                    }
                }
            }
            Event::Fence(fence) => {
                self.forget("a peer has come back with a new data directory");
                fence.open();
            }
            Event::Repair => self.steps.push(Step::Repair),
            Event::Change(order, answer) => {
                let until_ms = self.ticks_ms + members::CHANGE_MS;
                self.changes.push(PendingChange { order, proposed: None, until_ms, answer });
            }
            Event::Log(to, bytes) => {
                // If there is no connection, the log asks again.
                if let Some(link) = self.links.to(to) {
                    let header = Header { epoch: self.register.routing().epoch(), request: 0 };
                    let mut frame = Vec::new();
                    Frame::encode(header, &Message::Log { bytes: &bytes }, &mut frame);
                    link.push(&frame);
                }
            }
            Event::Agreed(topology) => self.learn(topology),
            Event::Stop => self.stops = true,
        }
    }

    /// Asks the node, or keeps the request until the node can take it.
    fn on_request(&mut self, request: Request, sender: oneshot::Sender<Answer>) {
        self.next_client += 1;
        let client = self.next_client;
        if self.node.is_some() && self.has_met_peers {
            self.inbox.await_answer(client, sender);
            self.steps.push(Step::Ask(client, request));
        } else if let Some(why) = self.refusal() {
            // If the receiver is gone, no caller waits for it any more.
            let _ = sender.send(Answer::Unavailable(why.to_owned()));
        } else if self.held.len() < self.limits.requests_max {
            self.inbox.await_answer(client, sender);
            self.held.push((self.ticks_ms + self.limits.request_timeout_ms, client, request));
        } else {
            // If the receiver is gone, no caller waits for it any more.
            let _ = sender.send(Answer::Overloaded);
        }
    }

    /// A peer that this node has called has let it in, or has not.
    fn on_dialed(&mut self, node: NodeId, greeted: std::result::Result<Greeted, Failure>) {
        self.dials.ended(node);
        let failure = match greeted {
            Ok(greeted) => return self.link(greeted),
            Err(failure) => failure,
        };
        if let Some(why) = self.dials.failed(node, &failure, self.ticks_ms) {
            let url = self.register.url_of(node);
            self.host.note(Level::Notice, format_args!("no connection to the node {url}: {why}"));
        }
        match failure {
            Failure::Newcomer(newcomer) => self.welcome(&newcomer),
            Failure::Placed => self.start_anew(),
            Failure::Removed(topology) => self.learn(*topology),
            Failure::WentBack => self.go_back(),
            Failure::Unreachable(_) | Failure::Refused(_) | Failure::Left | Failure::PeerWentBack(..) => {}
        }
    }

    /// A peer that has called this node was not let in, or has not let it in.
    fn on_failed_greeting(&mut self, failure: Failure) {
        match failure {
            Failure::Refused(why) => self.note_refusal(&why),
            Failure::PeerWentBack(peer, _, true) => {
                self.note_refusal(&format!("{}: {PEER_WENT_BACK}", self.register.url_of(peer)));
            }
            Failure::WentBack => self.go_back(),
            Failure::Newcomer(newcomer) => self.welcome(&newcomer),
            Failure::Placed => self.start_anew(),
            Failure::Removed(topology) => self.learn(*topology),
            // It has gone; it will try again, or has been told that it has left.
            Failure::Unreachable(_) | Failure::Left | Failure::PeerWentBack(_, _, false) => {}
        }
    }

    /// Says in the log that a node was refused.
    fn note_refusal(&mut self, why: &str) {
        if self.dials.note_refusal(why, self.ticks_ms) {
            self.host.note(Level::Warning, format_args!("a node was refused: {why}"));
        }
    }

    /// Takes a connection.
    fn link(&mut self, greeted: Greeted) {
        let node = greeted.node;
        let now_ms = self.ticks_ms;
        let frame_bytes_max = self.limits.value_bytes_max + FRAME_EXTRA_BYTES;
        match self.links.take(greeted, self.register.own(), (now_ms, frame_bytes_max), self.poll.registry()) {
            Linked::First => {}
            Linked::Instead => self.steps.push(Step::Disconnected(node)),
            Linked::Both | Linked::Failed => return,
        }
        self.steps.push(Step::Connected(node));
        self.dials.connected(node);
        let url = self.register.url_of(node);
        self.host.note(Level::Verbose, format_args!("connected to the node {url}"));
    }

    /// Drops the connection to a peer, if there is one.
    fn cut(&mut self, node: NodeId) {
        if !self.links.cut(node, self.poll.registry()) {
            return;
        }
        self.steps.push(Step::Disconnected(node));
        self.dials.disconnected(node, self.ticks_ms);
        let url = self.register.url_of(node);
        self.host.note(Level::Verbose, format_args!("the connection to the node {url} is gone"));
    }

    /// Drops the node and all requests under way.
    fn forget(&mut self, why: &str) {
        self.node = None;
        self.links.forget_replaced();
        self.out.clear();
        self.steps.clear();
        self.trouble = Some(why.to_owned());
        let held: Vec<u64> = self.held.iter().map(|(_, client, _)| *client).collect();
        self.inbox.awaited().retain(|client, _| held.contains(client));
    }

    /// Opens the node, if it is not open and may be.
    fn see_to_node(&mut self) {
        let now_ms = self.ticks_ms;
        if self.node.is_none() && now_ms >= self.open_at_ms {
            match self.open() {
                Ok(None) => self.trouble = None,
                Ok(trouble) => self.tell_trouble(trouble),
                Err(error) => {
                    note_failed(&*self.host, &error);
                    self.open_at_ms = now_ms + 200;
                    self.tell_trouble(Some(format!("the node cannot be opened: {error}")));
                }
            }
        }
        if let Some(why) = self.refusal() {
            let mut awaited = self.inbox.awaited();
            for sender in self.held.drain(..).filter_map(|(_, client, _)| awaited.remove(&client)) {
                let _ = sender.send(Answer::Unavailable(why.to_owned()));
            }
        }
        if self.node.is_some() && self.has_met_peers {
            self.steps.extend(self.held.drain(..).map(|(_, client, request)| Step::Ask(client, request)));
        }
        for (_, client, _) in self.held.extract_if(.., |(until_ms, ..)| now_ms >= *until_ms) {
            self.inbox.awaited().remove(&client);
        }
    }

    /// Why no request is to wait: the node will not serve.
    fn refusal(&self) -> Option<&'static str> {
        let is_said = |text: &&str| self.trouble.as_deref() == Some(text);
        [REMOVED, WENT_BACK_TEXT].into_iter().find(is_said).filter(|_| self.node.is_none())
    }

    fn tell_trouble(&mut self, trouble: Option<String>) {
        if self.trouble != trouble {
            if let Some(trouble) = trouble.as_ref().filter(|_| self.has_met_peers) {
                self.host.note(Level::Notice, format_args!("{trouble}"));
            }
            self.trouble = trouble;
        }
    }

    /// Opens the node on its tables. Returns what it waits for, if it may not begin yet.
    fn open(&mut self) -> Result<Option<String>> {
        let standing = self.register.standing();
        let is_member = self.register.routing().topology().members.contains_key(&self.register.own());
        if !is_member {
            return Ok(Some(REMOVED.to_owned()));
        }
        if self.register.is_back() {
            return Ok(Some(WENT_BACK_TEXT.to_owned()));
        }
        if standing != Standing::Begun {
            if !self.has_met_peers && self.links.nodes().len() < self.register.peers().len() {
                // A node that has not been met yet may know better.
                return Ok(Some("the other nodes are being greeted".to_owned()));
            }
            if let Some(waits) = self.register.begin()? {
                return Ok(Some(waits));
            }
            let what = match standing {
                Standing::Returning => "the data directory was lost or replaced: everything is copied from the others",
                _ => "the node has begun",
            };
            self.host.note(Level::Notice, format_args!("{what}"));
        }
        let now = self.now();
        let (routing, own) = (self.register.routing(), self.register.own());
        let store = self.register.store();
        let open =
            |tables: &mut EngineTables<'_>| Node::open(now, tables, own, self.limits.clone(), routing, rand::random());
        let turned = store.turn_in(space_of(&*self.host), open)?;
        note_turned(&*self.host, &turned);
        turned.commit.wait(self.host.durability())?;
        self.node = Some(turned.answer);
        self.steps.clear();
        for (peer, _) in self.register.peers() {
            let is_linked = self.links.contains(peer);
            self.steps.push(if is_linked { Step::Connected(peer) } else { Step::Disconnected(peer) });
        }
        Ok(None)
    }

    fn turn(&mut self) {
        let mut lost = Vec::new();
        self.links.end_replaced(self.ticks_ms);
        for (node, link) in self.links.all_mut() {
            if link.is_readable && !link.read() {
                lost.push(link.token);
            }
            if let Some((request, bytes)) = link.coming().filter(|_| self.node.is_some()) {
                self.steps.push(Step::Coming(node, request, bytes));
            }
        }
        match self.take_turn(&mut lost) {
            Ok(is_other_topology) => {
                self.carry_out(&mut lost);
                if is_other_topology {
                    self.follow_members();
                }
            }
            Err(error) => {
                note_failed(&*self.host, &error);
                let why = format!("the node has failed: {error}");
                if self.failure.note(&why, self.ticks_ms) {
                    self.host.note(Level::Warning, format_args!("{why}"));
                }
                self.forget(&why);
            }
        }
        lost.sort_unstable();
        lost.dedup();
        for token in lost {
            if let Some(node) = self.links.end(token, self.poll.registry()) {
                self.cut(node);
            }
        }
    }

    /// Gives the node what has come, and commits. Returns whether the topology is another.
    fn take_turn(&mut self, lost: &mut Vec<Token>) -> Result<bool> {
        let now = self.now();
        let Some(node) = &self.node else {
            // Peers speak to a node that is not there yet: they will again.
            for (_, link) in self.links.all_mut() {
                while let Ok(Some(_)) = link.next_frame() {}
            }
            return Ok(false);
        };
        let is_due = node.wake_at_ms() <= now.ticks_ms;
        if self.steps.is_empty() && !is_due && !self.links.all().any(Link::has_frame) {
            return Ok(false);
        }
        self.load_ahead()?;
        let Some(node) = &mut self.node else { return Ok(false) };
        let agreement = self.agreement.as_ref();
        let applied = node.routing().topology().applied;
        let (out, steps, links) = (&mut self.out, &mut self.steps, &mut self.links);
        let marks = &mut self.marking.heard;
        let give = |tables: &mut EngineTables<'_>| {
            let mut inputs = 0;
            let mut take = |input: Input<'_>, node: &mut Node| {
                inputs += 1;
                node.on(now, input, tables, out)
            };
            for step in steps.drain(..) {
                take(step.input(), node)?;
            }
            for (peer, link) in links.all_mut() {
                let set_aside = |other: Aside<'_>| match other {
                    Aside::Log(log) => agreement.into_iter().for_each(|agreement| agreement.receive(peer, log)),
                    Aside::Mark { store, mark } => marks.push((peer, StoreId(store), mark)),
                };
                if !take_frames((peer, &mut *link), node, &mut take, set_aside)? {
                    lost.push(link.token);
                }
            }
            // What came may have made it due.
            if node.wake_at_ms() <= now.ticks_ms {
                take(Input::Tick, node)?;
            }
            Ok(inputs)
        };
        let turned = self.register.store().turn_in(space_of(&*self.host), give)?;
        note_turned(&*self.host, &turned);
        if !self.out.is_empty() {
            turned.commit.wait(self.host.durability())?;
            self.ticks_ms = self.inbox.ticks_ms();
        }
        self.turns = (self.turns.0 + 1, self.turns.1 + turned.answer);
        let node_routing = node.routing();
        let is_other_topology = node_routing.topology().applied != applied;
        if is_other_topology {
            self.register.follow(node_routing);
        }
        self.classes.store(node.replica().classes(), Ordering::Release);
        Ok(is_other_topology)
    }

    /// Loads the pages of the rows that the next turn will look up.
    fn load_ahead(&self) -> Result<()> {
        let Some(node) = &self.node else { return Ok(()) };
        self.register.store().load_ahead(|visit| {
            for step in &self.steps {
                if let Step::Ask(_, request) = step {
                    node.rows_of_request(request, visit);
                }
            }
            self.links.all().flat_map(Link::frames_ahead).for_each(|frame| node.rows_of_frame(frame, visit));
        })
    }

    /// Sends and answers what the node has put out.
    fn carry_out(&mut self, lost: &mut Vec<Token>) {
        let stays = self.drains();
        let mut awaited = self.inbox.awaited();
        for output in self.out.drain(..) {
            match output {
                Output::Send { to, bytes } => {
                    // Who is not connected does not hear it; the node knows.
                    if let Some(link) = self.links.to(to)
                        && !link.push(&bytes)
                    {
                        self.frames_dropped += 1;
                    }
                }
                Output::Answer { client, answer } => {
                    if let Some(sender) = awaited.remove(&client) {
                        // The client may have gone.
                        let _ = sender.send(answer);
                    }
                }
                // It serves on until those who send it requests have seen that it leaves.
                Output::Propose(Entry::Ready { .. }) if stays => {}
                Output::Propose(entry) => {
                    // The node proposes it again.
                    self.agreement.iter().for_each(|agreement| agreement.propose(&entry));
                }
            }
        }
        drop(awaited);
        let now_ms = self.ticks_ms;
        for (_, link) in self.links.all_mut() {
            if !link.flush(now_ms) {
                lost.push(link.token);
            }
        }
    }

    /// Has peers called that it is time for.
    fn dial(&mut self) {
        // Most of the time all are connected: this is asked each turn.
        if self.links.nodes().len() == self.register.peer_count() || self.register.is_back() {
            return;
        }
        if let Err(error) = self.dials.call(&self.register, &self.inbox, &self.links, self.ticks_ms) {
            self.host.note(Level::Warning, format_args!("cannot connect to nodes: {error}"));
        }
    }

    /// Whether every peer was greeted or is known not to answer.
    fn note_peers_met(&mut self) {
        if self.has_met_peers {
            return;
        }
        let now_ms = self.ticks_ms;
        let peers = self.register.peers();
        let is_met = |node: &NodeId| self.links.contains(*node) || self.dials.has_ended(*node);
        self.has_met_peers = now_ms >= MEETING_MS || peers.iter().all(|(node, _)| is_met(node));
        if self.has_met_peers {
            self.reported_ms = 0;
        }
    }
}
