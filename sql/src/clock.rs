//! The clock: what time it is, and moments to measure from.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "now() tells the wall clock")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A moment to measure from.
#[expect(clippy::disallowed_methods, reason = "how long statements and waits take")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}
