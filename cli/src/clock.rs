//! The one clock of the program: how long an answer took.
#![expect(clippy::disallowed_methods, reason = "the program shows people how long things take")]

use std::time::{Duration, Instant};

/// Runs `work`, and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// A time since some moment.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A duration with three digits that matter: `840 ns`, `12.3 µs`, `1.23 ms`, `4.56 s`.
pub(crate) fn show(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos() as f64;
    let (value, unit) = match nanoseconds {
        n if n < 1e3 => return format!("{n} ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[test]
fn durations_show_three_digits() {
    let shown = |nanoseconds| show(Duration::from_nanos(nanoseconds));
    assert_eq!(shown(840), "840 ns");
    assert_eq!(shown(1_234), "1.23 µs");
    assert_eq!(shown(12_345), "12.3 µs");
    assert_eq!(shown(999_400), "999 µs");
    assert_eq!(shown(1_234_567_890), "1.23 s");
}
