//! Time, in the only place of the suite that asks for it.
#![expect(clippy::disallowed_methods, reason = "the suite waits for processes and for expiry")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lets `duration` pass.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// A seed that differs from run to run.
pub fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Whole numbers that are short to type: micros of the last eleven days or so.
    u64::try_from(since.as_micros()).unwrap_or(0) % 1_000_000_000_000
}

/// A moment until which something may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Passes `duration` from now.
    pub fn after(duration: Duration) -> Deadline {
        Deadline(Some(Instant::now() + duration))
    }

    /// Never passes.
    pub fn never() -> Deadline {
        Deadline(None)
    }

    /// Whether it is past.
    pub fn passed(&self) -> bool {
        self.0.is_some_and(|moment| Instant::now() >= moment)
    }
}

/// Measures from its start.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
