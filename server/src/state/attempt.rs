//! A command that was taken back because pages of runs are missing: what the next attempt needs.
//!
//! Its pages are loaded while the connection waits, and stay in memory until the command has run, whatever the cache
//! evicts. So each attempt gets further.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quipu::{Db, Error, PageFaults};

/// What is kept of a command, or of several that run together, from one attempt to the next.
#[derive(Default)]
pub struct Attempt {
    /// Commands that run together in it.
    pub commands: usize,
    /// What was missing, and what was loaded.
    pub faults: PageFaults,
    /// What could not be loaded: the answer of the next attempt.
    pub failure: Option<Error>,
    /// The seed of what the command draws, if it does: each attempt draws the same.
    pub seed: Option<u64>,
    /// Whether it waits for memory, and whether it has.
    pub waits: bool,
    /// See `waits`.
    pub has_waited: bool,
    /// The bytes of its pages, which all attempts hold together.
    held: Option<Held>,
}

impl Attempt {
    /// The first.
    pub fn new() -> Attempt {
        Attempt::default()
    }

    /// Brings what is lacking on this thread, which waits for it.
    pub fn bring(&mut self, db: &Db) {
        let brought = if self.waits { db.wait_for_memory() } else { db.load(&mut self.faults) };
        self.note_brought(brought.err());
    }

    /// Notes that what was lacking is there, or why it will never be.
    pub fn note_brought(&mut self, failure: Option<Error>) {
        self.failure = failure;
        self.has_waited |= self.waits;
        self.waits = false;
    }

    /// Counts the bytes of its pages in `total`, until it is dropped.
    pub fn count_in(&mut self, total: &Arc<AtomicU64>) {
        self.held = Some(Held::new(total, self.faults.bytes()));
    }
}

/// Bytes that are counted while it lives.
struct Held {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl Held {
    fn new(total: &Arc<AtomicU64>, bytes: u64) -> Held {
        total.fetch_add(bytes, Ordering::Relaxed);
        Held { total: total.clone(), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
