//! Yields the data lock between the steps of long work.
//!
//! Turns of writers become fair after a wait of a millisecond. Before that, a lock that is released is taken by the
//! thread that asks first, which is the one that has just released it: the threads that wait are still waking up. So
//! work that takes the data again and again would hold up each other client by a millisecond a step. It asks here
//! first, and waits while others do. How long it waits is bounded, so that it goes on under any load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many threads wait for the data that should not wait for long.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicUsize);

/// How often, and how long each time, a step waits at most: 10 ms in all.
const ROUNDS_MAX: usize = 200;
const ROUND: Duration = Duration::from_micros(50);

impl Waiting {
    /// Takes the data, which others may hold.
    #[inline]
    pub(super) fn counted<T>(&self, take: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let taken = take();
        self.0.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    /// Lets those threads in.
    pub(super) fn let_in(&self) {
        for _ in 0..ROUNDS_MAX {
            if self.0.load(Ordering::Relaxed) == 0 {
                return;
            }
            std::thread::park_timeout(ROUND);
        }
    }
}
