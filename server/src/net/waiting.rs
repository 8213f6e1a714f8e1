//! How threads that serve connections wait: they ask for more to do for a while, and then they sleep.
//!
//! To wake a sleeping thread takes longer than most commands. A client that sends one command at a time pays for that
//! each time, unless the thread still asks when the command comes. So a thread that had something to do asks for
//! `poll-us` microseconds more; it lets others go first, and one that had nothing to do sleeps.
//!
//! Invariant: of the threads that serve connections, fewer ask than there are processors; so a client on the same
//! machine has one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mio::{Events, Poll};

use crate::system::clock;

/// How many threads do not sleep.
#[derive(Debug)]
pub(super) struct Awake {
    threads: AtomicUsize,
    processors: usize,
}

impl Awake {
    pub(super) fn new() -> Awake {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Awake { threads: AtomicUsize::new(0), processors }
    }

    /// Waits for events, at most for `timeout`. The thread is one of those that are awake, before and after. It asks
    /// for `ask_for` before it sleeps.
    pub(super) fn wait(
        &self,
        poll: &mut Poll,
        events: &mut Events,
        timeout: Duration,
        ask_for: Duration,
    ) -> io::Result<()> {
        if timeout.is_zero() {
            return poll.poll(events, Some(timeout));
        }
        if !ask_for.is_zero() {
            let start = clock::moment();
            while self.threads.load(Ordering::Relaxed) < self.processors && clock::since(start) < ask_for {
                poll.poll(events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    return Ok(());
                }
                std::thread::yield_now();
            }
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
        let waited = poll.poll(events, Some(timeout));
        self.threads.fetch_add(1, Ordering::Relaxed);
        waited
    }

    /// The calling thread is awake from here on.
    pub(super) fn enter(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }
}
