//! Waiting of threads that serve connections: they ask for more to do for a while, and then they sleep.
//!
//! To wake a sleeping thread takes longer than most commands. A client that sends one command at a time pays for that
//! each time, unless the thread still asks when the command comes. So a thread that had something to do asks for
//! `poll-us` microseconds more; it lets others go first, and one that had nothing to do sleeps.
//!
//! Invariant: of the threads that serve connections, over whatever protocol, fewer ask than there are processors; so a
//! client on the same machine has one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::system::clock;

/// How many threads that serve connections do not sleep.
#[derive(Debug)]
pub(crate) struct Awake {
    threads: AtomicUsize,
    processors: usize,
}

impl Awake {
    pub(crate) fn new() -> Awake {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Awake { threads: AtomicUsize::new(0), processors }
    }

    /// The calling thread is awake until what is returned is dropped.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }
}

/// A thread that is awake, but for its sleeps.
#[derive(Debug)]
pub(crate) struct Entered<'a>(&'a Awake);

impl Entered<'_> {
    /// Asks for something to do, at most for `time`, until it `has_more`. Returns whether it had.
    pub(crate) fn ask(&self, time: Duration, mut has_more: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
        if time.is_zero() {
            return Ok(false);
        }
        let start = clock::moment();
        while self.0.threads.load(Ordering::Relaxed) < self.0.processors && clock::since(start) < time {
            if has_more()? {
                return Ok(true);
            }
            std::thread::yield_now();
        }
        Ok(false)
    }

    /// Waits by a function that lets the thread sleep.
    pub(crate) fn sleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.0.threads.fetch_sub(1, Ordering::Relaxed);
        let waited = wait();
        self.0.threads.fetch_add(1, Ordering::Relaxed);
        waited
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::Relaxed);
    }
}
