//! `/debug/profile/...`: where the running server spends its time, as a flame graph.
//!
//! The processor's time is sampled 99 times a second of it, over all threads, by a signal (the crate pprof): some tenths of a percent while it runs, nothing else.
//! Allocations and waiting for locks are not sampled: the first needs an allocator that does it, the second locks that do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::{Response, StatusCode};

use super::answer::{self, Answer};
use super::limits::Pulse;
use super::query;

const SECONDS_DEFAULT: u64 = 10;
const SECONDS_MAX: u64 = 120;
/// Samples a second. Not 100, so that it does not keep step with anything.
const FREQUENCY: i32 = 99;

/// Whether one is being taken: there is one signal and one timer.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}

pub(super) async fn cpu(pulse: &Pulse, query: Option<&str>) -> Response<Answer> {
    let seconds = query::parse(query, ["seconds"]).and_then(|[seconds]| {
        let seconds = seconds.map(|seconds| query::number("seconds", &seconds)).transpose()?.unwrap_or(SECONDS_DEFAULT);
        let is_possible = (1..=SECONDS_MAX).contains(&seconds);
        is_possible.then_some(seconds).ok_or(format!("`seconds` is a number from 1 to {SECONDS_MAX}"))
    });
    let seconds = match seconds {
        Ok(seconds) => seconds,
        Err(reason) => return answer::bad_request(reason),
    };
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return answer::overloaded("another profile is being taken");
    }
    let turn = Turn;
    let failed = |error: String| {
        answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("the profile could not be taken: {error}"))
    };
    // Unwinding inside these libraries from a signal can wait for a lock that the thread holds.
    let profiler = pprof::ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build();
    let profiler = match profiler {
        Ok(profiler) => profiler,
        Err(error) => return failed(error.to_string()),
    };
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pulse.step();
    }
    // Names of functions are looked up in the program's file: tens to hundreds of milliseconds.
    let drawn = tokio::task::spawn_blocking(move || {
        let mut graph = Vec::new();
        let drawn = profiler.report().build().and_then(|report| report.flamegraph(&mut graph));
        drop((profiler, turn));
        drawn.map(|()| graph).map_err(|error| error.to_string())
    });
    match drawn.await {
        Ok(Ok(graph)) if graph.is_empty() => failed("the server did nothing meanwhile".to_owned()),
        Ok(Ok(graph)) => answer::typed(StatusCode::OK, "image/svg+xml", graph),
        Ok(Err(error)) => failed(error),
        Err(error) => failed(error.to_string()),
    }
}

/// `501` for what is not there.
pub(super) fn not_built(what: &str) -> Response<Answer> {
    let text = format!("there is no {what} profile in this build; /debug/profile/cpu is there");
    answer::text(StatusCode::NOT_IMPLEMENTED, text)
}
