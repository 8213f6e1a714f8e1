//! The bounds of the HTTP face: sizes, requests and bytes at once, and how long a client may be silent.
//!
//! Invariant: nothing waits in an unbounded queue. What is over a bound is answered with `503` and `Retry-After`, and
//! costs nothing but the answer (`answer`), which those give that ask for a [`Place`]: `entities`, `entity`, `body`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::keyspace::KEY_BYTES_MAX;

/// The bounds of a node.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// The longest key; a longer one is answered with `413`.
    pub key_bytes_max: usize,
    /// The longest value that is taken; a longer one is answered with `413`.
    pub value_bytes_max: usize,
    /// Writes that are being answered at once.
    pub requests_max: usize,
    /// Ranges and long values that are being sent at once: each holds a snapshot.
    pub streams_max: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once at the port where nodes of the cluster meet, if it is another: until a peer has proved who
    /// it is.
    pub peer_connections_max: usize,
    /// Bytes of long request bodies, and of long entities of ranges, in memory at once.
    pub flight_bytes_max: usize,
    /// A client that for so long neither finishes a request nor takes anything of an answer is disconnected (after
    /// twice as long at most).
    pub quiet_max: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: 64 << 20,
            requests_max: 4096,
            streams_max: 64,
            connections_max: 10_000,
            peer_connections_max: 1000,
            flight_bytes_max: 256 << 20,
            quiet_max: Duration::from_secs(60),
        }
    }
}

/// A number of things that may be there at once.
#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Arc<AtomicUsize>,
    max: usize,
}

impl Places {
    pub(super) fn new(max: usize) -> Places {
        Places { taken: Arc::default(), max }
    }

    /// Takes `count` of them, unless too few are left.
    pub(super) fn take(&self, count: usize) -> Option<Taken> {
        let before = self.taken.fetch_add(count, Ordering::Relaxed);
        let taken = Taken { taken: self.taken.clone(), count };
        (before.saturating_add(count) <= self.max).then_some(taken)
    }

    /// Takes `count` of them, though there be too few: others wait for that.
    pub(super) fn take_anyway(&self, count: usize) -> Taken {
        self.taken.fetch_add(count, Ordering::Relaxed);
        Taken { taken: self.taken.clone(), count }
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Some of the [`Places`], given back when dropped.
#[derive(Debug)]
pub(super) struct Taken {
    taken: Arc<AtomicUsize>,
    count: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Steps that a connection has made, so that one that makes none is noticed.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    steps: AtomicU64,
    /// Why the parser has ended the connection.
    unreadable: OnceLock<String>,
}

impl Pulse {
    /// The connection gets on.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Notes that the parser has ended the connection: why.
    pub(super) fn note_unreadable(&self, why: String) {
        // There is one end.
        let _ = self.unreadable.set(why);
    }

    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let places = Places::new(3);
        let two = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        assert_eq!(places.taken(), 2, "what was not got is not kept");
        let more = places.take_anyway(5);
        assert!(places.take(1).is_none());
        drop((two, more));
        assert!(places.take(3).is_some());
    }
}
