//! What happened since the start, for `INFO` and for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::command::Spec;

/// Counters.
#[derive(Default)]
pub struct Statistics {
    /// Commands run.
    pub commands: AtomicU64,
    /// Commands refused before they ran, and those that failed.
    pub errors: AtomicU64,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused.
    pub refused_connections: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes sent to clients.
    pub bytes_out: AtomicU64,
}

impl Statistics {
    /// Notes commands of one kind that took this long together.
    #[inline]
    pub fn note_commands(&self, _: &'static Spec, count: u64, _: Duration) {
        self.commands.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes what went over sockets.
    pub fn note_bytes(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    /// Notes a command that failed.
    pub fn note_failure(&self, _: &'static Spec) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a command that was refused before it ran.
    pub fn note_refusal(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}
