//! The report of a node on itself: for `/readyz`, `/metrics` and `quipu cluster status`.

use quipu_agreement::LogReport;
use quipu_cluster::ids::{Epoch, NodeId};
use quipu_cluster::metrics::Metrics;
use quipu_cluster::peers::ClockReport;
use quipu_cluster::peers::Health;
use quipu_cluster::topology::{Phase, Topology};

use super::register::Register;

/// How another member stands.
#[derive(Clone, Debug)]
pub struct PeerReport {
    /// Its id.
    pub node: NodeId,
    /// Its address.
    pub url: String,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// How the node believes that it stands.
    pub health: Health,
    /// How long it usually takes to answer, in milliseconds.
    pub usual_ms: f64,
    /// How far its store had come when that was heard last.
    pub mark: u64,
    /// Its zone.
    pub zone: String,
    /// Its share of the data.
    pub weight: u32,
    /// Why there is no connection, as far as is known.
    pub trouble: String,
}

/// How far a change of members is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePhase {
    /// New replicas copy.
    Copying,
    /// New replicas are read from, and the old ones are told.
    Switched,
    /// Those who stay take over the votes in the log of the topology.
    Voting,
}

/// A change of members under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeReport {
    /// The epoch in which it began.
    pub begun: u64,
    /// How far it is.
    pub phase: ChangePhase,
    /// The addresses of members that come.
    pub come: Vec<String>,
    /// The addresses of members that leave.
    pub leave: Vec<String>,
    /// The addresses of members that are waited for: those that have not yet said that they know of it or that they
    /// have copied, and, while others copy, those that do not answer, since all that live are copied from.
    pub waits_for: Vec<String>,
    /// Those of them that do not answer.
    pub down: Vec<String>,
}

impl ChangeReport {
    /// What a topology says; none if nothing is under way. `is_down` tells whether a member answers.
    pub(super) fn new(
        topology: &Topology,
        log: Option<&LogReport>,
        is_down: impl Fn(NodeId) -> bool,
    ) -> Option<ChangeReport> {
        let Some(change) = &topology.change else {
            let is_voting = topology.epoch > Epoch(0) && log.is_some_and(|log| !log.is_agreed);
            let (come, leave, waits_for, down) = Default::default();
            let (begun, phase) = (topology.epoch.0, ChangePhase::Voting);
            return is_voting.then_some(ChangeReport { begun, phase, come, leave, waits_for, down });
        };
        let is_source = |node: NodeId| change.phase == Phase::Copying && topology.placed.contains(&node);
        let is_awaited = |node: &NodeId| {
            let is_not_ready = !topology.ready.contains(node);
            is_not_ready || is_source(*node) && is_down(*node)
        };
        let urls = |nodes: &mut dyn Iterator<Item = NodeId>| {
            nodes.filter_map(|node| topology.members.get(&node)).map(|member| member.url.clone()).collect()
        };
        Some(ChangeReport {
            begun: change.begun.0,
            phase: match change.phase {
                Phase::Copying => ChangePhase::Copying,
                Phase::Switched => ChangePhase::Switched,
            },
            come: urls(&mut change.goal.difference(&topology.placed).copied()),
            leave: urls(&mut topology.placed.difference(&change.goal).copied()),
            waits_for: urls(&mut topology.living().filter(is_awaited)),
            down: urls(&mut topology.living().filter(is_awaited).filter(|node| is_down(*node))),
        })
    }
}

/// How a node stands.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its id.
    pub node: NodeId,
    /// Its address.
    pub url: String,
    /// Whether every peer that is up has been greeted since the start, as far as is known.
    pub has_met_peers: bool,
    /// Why the node cannot serve yet, or any more.
    pub trouble: Option<String>,
    /// Why the node cannot serve requests with the default `ack` and `from` now, or should be sent none; none if it
    /// can.
    pub unready: Option<String>,
    /// Partitions of which too few replicas answer for such a request.
    pub partitions_without_quorum: usize,
    /// How long ago replicas were last compared with all others of all partitions, in milliseconds; none if they were
    /// not since the start.
    pub repaired_ms_ago: Option<u64>,
    /// The node's zone.
    pub zone: String,
    /// The node's share of the data, beside the 100 of others.
    pub weight: u32,
    /// The epoch of the topology.
    pub epoch: u64,
    /// Partitions of the cluster.
    pub partitions: u32,
    /// Replicas of an entity where a request says nothing.
    pub replicas: u8,
    /// How long the node keeps tombstones at least, in milliseconds: should be the same on all nodes.
    pub grace_ms: u64,
    /// Partitions that this node keeps and has still to copy.
    pub copies_left: usize,
    /// Comparisons with replicas that are still to be done, or under way.
    pub repairs_left: usize,
    /// The change of members under way.
    pub change: Option<ChangeReport>,
    /// Addresses of members that were declared dead and are still members: others have not taken their places.
    pub dead: Vec<String>,
    /// The log of the topology; none if this node takes no part in it, or not yet.
    pub log: Option<LogReport>,
    /// The other members.
    pub peers: Vec<PeerReport>,
    /// What this node's clock and those of the others say.
    pub clocks: ClockReport,
    /// What has happened since the start.
    pub metrics: Metrics,
    /// Writes that peers have missed and are kept for them, and their bytes.
    pub hints: (u64, u64),
    /// Turns since the start, and inputs taken in them.
    pub turns: (u64, u64),
    /// How often the node's thread has looked for something to do.
    pub wakes: u64,
    /// Frames that were not sent, because too much waited for their peers.
    pub frames_dropped: u64,
}

impl Report {
    pub(super) fn new(register: &Register) -> Report {
        let routing = register.routing();
        let topology = routing.topology();
        let settings = (topology.partitions, topology.replicas);
        Report {
            epoch: topology.epoch.0,
            grace_ms: register.limits().grace_ms,
            ..Report::starting(register.own(), register.self_url().to_owned(), settings)
        }
    }

    /// What a node says of itself before it knows more.
    pub(super) fn starting(node: NodeId, url: String, (partitions, replicas): (u32, u8)) -> Report {
        Report {
            node,
            url,
            has_met_peers: false,
            trouble: Some("the node starts".to_owned()),
            unready: Some("the node starts".to_owned()),
            partitions_without_quorum: 0,
            repaired_ms_ago: None,
            zone: String::new(),
            weight: 0,
            epoch: 0,
            partitions,
            replicas,
            grace_ms: 0,
            copies_left: 0,
            repairs_left: 0,
            change: None,
            dead: Vec::new(),
            log: None,
            peers: Vec::new(),
            clocks: ClockReport { can_stamp: true, ..ClockReport::default() },
            metrics: Metrics::default(),
            hints: (0, 0),
            turns: (0, 0),
            wakes: 0,
            frames_dropped: 0,
        }
    }

    /// Whether the node serves requests now, and should be sent some.
    pub fn is_ready(&self) -> bool {
        self.unready.is_none()
    }
}
