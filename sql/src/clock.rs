//! The clock: what time it is, and moments to measure from.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use quipu_rows::Timestamp;

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "now() tells the wall clock")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The present moment.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microseconds(now_us()).unwrap_or_default()
}

/// A moment to measure from.
#[expect(clippy::disallowed_methods, reason = "how long statements and waits take")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}
