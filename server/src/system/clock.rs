//! Asks for the time. No other file does.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, as deadlines of keys have it.
#[expect(clippy::disallowed_methods, reason = "keys expire by the wall clock")]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "TIME tells the wall clock")]
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A moment to measure from.
#[expect(clippy::disallowed_methods, reason = "how long commands take")]
pub fn moment() -> Instant {
    Instant::now()
}

/// How long since then.
pub fn since(moment: Instant) -> Duration {
    moment.elapsed()
}
