//! What all requests of the HTTP face share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::coordinator::Coordinator;
use super::limits::{HttpLimits, Places};
use super::metrics::Metrics;
use super::writer::Writer;
use crate::state::server::Server;

/// What all requests share.
pub(super) struct Node {
    pub(super) server: Arc<Server>,
    pub(super) coordinator: Coordinator,
    pub(super) writer: Writer,
    pub(super) limits: HttpLimits,
    pub(super) requests: Places,
    pub(super) streams: Places,
    pub(super) flight_bytes: Places,
    pub(super) metrics: Arc<Metrics>,
    /// Wakes the tasks that wait for a stop.
    pub(super) stopping: watch::Receiver<bool>,
    /// Set before those tasks are woken.
    pub(super) stops: AtomicBool,
}

impl Node {
    /// Whether the node, or the server, is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire) || self.server.stopping.load(Ordering::Acquire)
    }
}
