//! The services that a node needs from its server, and its settings at the start.

use quipu::Durability;
use quipu::latched::Lack;
use quipu_cluster::limits::Limits;

use crate::system::log::Level;
use crate::tls::PeerTls;

/// What a node needs of the server that it is part of.
pub trait Host: Send + Sync {
    /// When a commit is answered.
    fn durability(&self) -> Durability;
    /// Whether the server is to stop.
    fn is_stopping(&self) -> bool;
    /// Whether the disk was found full, and not asked for space again since: that is done a few times a second.
    fn lacks_space(&self) -> bool;
    /// Notes a lack of space.
    fn note_lack(&self, lack: &Lack);
    /// Notes that something was removed for which alone there was space: a checkpoint gives it back.
    fn note_freed(&self);
    /// Writes a line of the log.
    fn note(&self, level: Level, line: std::fmt::Arguments<'_>);
}

/// How a node proves to its peers that it is one of them, and they to it.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The secret that all nodes of the cluster share.
    pub secret: Option<Vec<u8>>,
    /// Certificates: then all that nodes say to each other is hidden, too.
    pub tls: Option<PeerTls>,
}

impl Credentials {
    /// Whether a peer has to prove anything.
    pub fn is_some(&self) -> bool {
        self.secret.is_some() || self.tls.is_some()
    }
}

/// What a node is told at its start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The addresses of all nodes; of some of them, if this one joins.
    pub urls: Vec<String>,
    /// Whether the node joins a cluster that is there, and that it was added to.
    pub joins: bool,
    /// This node's.
    pub self_url: String,
    /// How it tells peers from others.
    pub credentials: Credentials,
    /// Replicas of an entity where a request says nothing; 0: all nodes.
    pub replicas: u8,
    /// The bounds of the node.
    pub limits: Limits,
    /// How long it serves on after it has said that it leaves, in milliseconds.
    pub drain_ms: u64,
}
