//! What a node says of itself: for `/readyz`, `/metrics` and `quipu cluster status`.

use quipu_cluster::ids::NodeId;
use quipu_cluster::metrics::Metrics;
use quipu_cluster::peers::Health;

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
    /// Why there is no connection, as far as is known.
    pub trouble: String,
}

/// How a node stands.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its id.
    pub node: NodeId,
    /// Its address.
    pub url: String,
    /// Whether every peer that is up has been greeted since the start, as far as is known.
    pub is_settled: bool,
    /// Why the node cannot serve yet, or any more.
    pub trouble: Option<String>,
    /// The epoch of the topology.
    pub epoch: u64,
    /// Partitions of the cluster.
    pub partitions: u32,
    /// Replicas of an entity where a request says nothing.
    pub replicas: u8,
    /// Partitions that this node keeps and has still to copy.
    pub copies_left: usize,
    /// Comparisons with replicas that are still to be done, or under way.
    pub repairs_left: usize,
    /// Entities of this node.
    pub entities: u64,
    /// The other members.
    pub peers: Vec<PeerReport>,
    /// What has happened since the start.
    pub metrics: Metrics,
    /// Writes that peers have missed and are kept for them, and their bytes.
    pub hints: (u64, u64),
    /// Turns since the start, and inputs taken in them.
    pub turns: (u64, u64),
    /// How often the node's thread has looked for something to do.
    pub wakes: u64,
}

impl Report {
    pub(super) fn new(register: &Register) -> Report {
        let routing = register.routing();
        let topology = routing.topology();
        Report {
            node: register.own(),
            url: register.self_url().to_owned(),
            is_settled: false,
            trouble: Some("the node starts".to_owned()),
            epoch: topology.epoch.0,
            partitions: topology.partitions,
            replicas: topology.replicas,
            copies_left: 0,
            repairs_left: 0,
            entities: 0,
            peers: Vec::new(),
            metrics: Metrics::default(),
            hints: (0, 0),
            turns: (0, 0),
            wakes: 0,
        }
    }

    /// Whether the node answers everything that it should.
    pub fn is_ready(&self) -> bool {
        self.is_settled && self.trouble.is_none() && self.copies_left == 0
    }
}
