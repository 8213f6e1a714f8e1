//! `/debug/profile/...`: where the running server spends its time, allocates, and waits, as flame graphs.
//!
//! The processor's time is sampled 99 times a second of it, over all threads, by a signal (the crate pprof): some
//! tenths of a percent while it runs, nothing else. Allocations and waits: [`crate::profile`].

use std::time::Duration;

use hyper::{Response, StatusCode};

use super::answer::{self, AnswerBody};
use super::limits::Pulse;
use super::query;
use crate::profile::{ProfilePermit, Recording, Subject};

const SECONDS_DEFAULT: u64 = 10;
const SECONDS_MAX: u64 = 120;
/// Samples a second. Not 100, so that it does not keep step with anything.
const FREQUENCY: i32 = 99;

/// What the last part of the path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Where threads spend the processor's time.
    Cpu,
    /// Where they allocate.
    Heap,
    /// Where they wait.
    Lock,
}

impl Kind {
    /// The profile of a path.
    pub(super) fn of_path(path: &str) -> Option<Kind> {
        match path.strip_prefix("/debug/profile/")? {
            "cpu" => Some(Kind::Cpu),
            "heap" => Some(Kind::Heap),
            "lock" => Some(Kind::Lock),
            _ => None,
        }
    }
}

/// A profile that is being taken.
enum Running {
    Cpu(pprof::ProfilerGuard<'static>, ProfilePermit),
    Sampled(Recording),
}

impl Running {
    fn begin(kind: Kind, permit: ProfilePermit) -> Result<Running, String> {
        let subject = match kind {
            Kind::Heap => Subject::Allocations,
            Kind::Lock => Subject::Waits,
            Kind::Cpu => {
                // Unwinding inside these libraries from a signal can wait for a lock that the thread holds.
                let profiler = pprof::ProfilerGuardBuilder::default()
                    .frequency(FREQUENCY)
                    .blocklist(&["libc", "libgcc", "pthread", "vdso"])
                    .build();
                return profiler.map(|profiler| Running::Cpu(profiler, permit)).map_err(|error| error.to_string());
            }
        };
        Ok(Running::Sampled(Recording::begin(permit, subject)))
    }

    /// Ends it and draws it; `None` if there is nothing to draw.
    fn draw(self) -> Result<Option<Vec<u8>>, String> {
        match self {
            Running::Sampled(recording) => recording.draw(),
            Running::Cpu(profiler, _permit) => {
                let mut graph = Vec::new();
                let drawn = profiler.report().build().and_then(|report| report.flamegraph(&mut graph));
                drawn.map_err(|error| error.to_string())?;
                Ok((!graph.is_empty()).then_some(graph))
            }
        }
    }
}

pub(super) async fn take(kind: Kind, pulse: &Pulse, query: Option<&str>) -> Response<AnswerBody> {
    let seconds = query::parse(query, ["seconds"]).and_then(|[seconds]| {
        let seconds = seconds.map(|seconds| query::number("seconds", &seconds)).transpose()?.unwrap_or(SECONDS_DEFAULT);
        let is_possible = (1..=SECONDS_MAX).contains(&seconds);
        is_possible.then_some(seconds).ok_or(format!("`seconds` is a number from 1 to {SECONDS_MAX}"))
    });
    let seconds = match seconds {
        Ok(seconds) => seconds,
        Err(reason) => return answer::bad_request(reason),
    };
    let Some(permit) = ProfilePermit::take() else { return answer::overloaded("another profile is being taken") };
    let failed = |error: String| {
        answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("the profile could not be taken: {error}"))
    };
    let running = match Running::begin(kind, permit) {
        Ok(running) => running,
        Err(error) => return failed(error),
    };
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pulse.step();
    }
    // Names of functions are looked up in the program's file: tens to hundreds of milliseconds.
    match tokio::task::spawn_blocking(move || running.draw()).await {
        Ok(Ok(Some(graph))) => answer::typed(StatusCode::OK, "image/svg+xml", graph),
        Ok(Ok(None)) => answer::text(StatusCode::OK, "nothing was sampled meanwhile".to_owned()),
        Ok(Err(error)) => failed(error),
        Err(error) => failed(error.to_string()),
    }
}
