//! [`Node`]: the state that all HTTP requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu::Result;
use quipu::latched::PageFaults;
use tokio::sync::watch;

use super::limits::{HttpLimits, Places};
use super::metrics::Metrics;
use super::retry::{Lacking, Patience, lacking};
use super::writer::Writer;
use crate::cluster::Cluster;
use crate::keyspace::{Data, Need};
use crate::state::server::Server;
use crate::system::clock;

/// Who is expected at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    Clients,
    Peers,
}

/// What all requests share.
pub(super) struct Node {
    pub(super) server: Arc<Server>,
    /// The cluster that this node is of; none if it is alone.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The port at which nodes of the cluster meet, if it is another than that of clients.
    pub(super) peer_port: Option<u16>,
    pub(super) writer: Writer,
    pub(super) limits: HttpLimits,
    pub(super) requests: Places,
    pub(super) streams: Places,
    pub(super) connections: Places,
    /// Those at the port where nodes meet: clients cannot take them.
    pub(super) peer_connections: Places,
    pub(super) flight_bytes: Places,
    pub(super) metrics: Arc<Metrics>,
    /// Wakes the tasks that wait for a stop.
    pub(super) stopping: watch::Receiver<bool>,
    /// Set before those tasks are woken.
    pub(super) stops: AtomicBool,
}

impl Node {
    /// How many nodes there are, and how many of them keep an entity where a request says nothing.
    pub(super) fn nodes(&self) -> (usize, usize) {
        self.cluster.as_ref().map_or((1, 1), |cluster| (cluster.nodes(), cluster.replicas()))
    }

    /// Asks what is live in a hold of the data; after removing what has expired if the answer counts keys.
    pub(super) fn ask<T>(
        &self,
        patience: Patience,
        is_exact: bool,
        mut question: impl FnMut(&mut Data<'_>) -> Result<T>,
    ) -> std::result::Result<Result<T>, Lacking> {
        let keyspace = &self.server.keyspace;
        let attempt = |faults: &mut PageFaults| {
            let now_ms = clock::now_ms();
            let answered = match is_exact {
                true => keyspace.attempt_exactly(now_ms, faults, &mut question),
                false => keyspace.attempt(Need::Read, now_ms, faults, &mut question),
            };
            answered.map(|(answer, _)| answer)
        };
        match patience {
            Patience::Patient => Ok(keyspace.patiently(attempt)),
            Patience::Hurried => lacking({ attempt }(&mut PageFaults::default())),
        }
    }

    /// Whether the node, or the server, is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire) || self.server.stopping.load(Ordering::Acquire)
    }
}
