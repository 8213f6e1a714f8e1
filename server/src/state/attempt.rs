//! A command that was taken back because pages of runs are missing: what the next attempt needs.
//!
//! Its pages are loaded while the connection waits, and stay in memory until the command has run, whatever the cache
//! evicts. So each attempt gets further.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quipu::Error;
use quipu::latched::PageFaults;

use crate::keyspace::Keyspace;

/// What is kept of a command, or of several that run together, from one attempt to the next.
#[derive(Default)]
pub struct Attempt {
    /// Commands that run together in it.
    pub commands: usize,
    /// What was missing, and what was loaded.
    pub faults: PageFaults,
    /// Pages that were read from files for it.
    pub pages_read: u64,
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
    pub fn bring(&mut self, keyspace: &Keyspace) {
        let brought = if self.waits {
            keyspace.wait_for_memory().map(|()| 0)
        } else {
            keyspace.db().latched().load(&mut self.faults)
        };
        self.note_brought(brought);
    }

    /// Notes that what was lacking is there, and how many pages were read, or why it will never be.
    pub fn note_brought(&mut self, brought: quipu::Result<u64>) {
        match brought {
            Ok(pages_read) => self.pages_read += pages_read,
            Err(failure) => self.failure = Some(failure),
        }
        self.has_waited |= self.waits;
        self.waits = false;
    }

    /// Lets it be tried: it counts among those that are on their way, with the bytes of its pages, until it is parked
    /// again or dropped.
    pub fn set_out(&mut self, holding: &Arc<Holding>) {
        self.held = None;
        self.held = Some(Held::new(holding, self.faults.bytes()));
    }

    /// It lacks something again, and is not on its way any more. It holds its pages.
    pub fn park(&mut self) {
        self.held.iter_mut().for_each(Held::come_back);
    }
}

/// What all attempts hold together.
#[derive(Debug, Default)]
pub struct Holding {
    bytes: AtomicU64,
    out: AtomicU64,
}

impl Holding {
    /// Bytes of their pages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many are being tried.
    pub fn out(&self) -> u64 {
        self.out.load(Ordering::Relaxed)
    }
}

/// What one holds, counted while it lives.
struct Held {
    holding: Arc<Holding>,
    bytes: u64,
    is_out: bool,
}

impl Held {
    fn new(holding: &Arc<Holding>, bytes: u64) -> Held {
        holding.bytes.fetch_add(bytes, Ordering::Relaxed);
        holding.out.fetch_add(1, Ordering::Relaxed);
        Held { holding: holding.clone(), bytes, is_out: true }
    }

    fn come_back(&mut self) {
        if std::mem::take(&mut self.is_out) {
            self.holding.out.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.come_back();
        self.holding.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
