//! Wall and CPU time. The only place of the bench that reads a clock.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment, as the monotonic clock tells it.
#[expect(clippy::disallowed_methods, reason = "measuring time is what a bench is for")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// CPU time of all threads of this process, in user and kernel mode.
fn process_cpu() -> Duration {
    cpu_of(ClockId::ProcessCPUTime)
}

fn cpu_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU time of the calling thread alone, in seconds.
pub(crate) fn thread_cpu_s() -> f64 {
    cpu_of(ClockId::ThreadCPUTime).as_secs_f64()
}

/// Measures wall and CPU time from its start.
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

/// What a piece of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time on the wall, in seconds.
    pub wall_s: f64,
    /// CPU time of all threads of the process, background threads included, in seconds.
    pub cpu_s: f64,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        let cpu = process_cpu();
        Stopwatch { cpu, wall: now() }
    }

    /// What was spent since its start.
    pub fn stop(&self) -> Spent {
        let wall_s = self.wall.elapsed().as_secs_f64();
        Spent { wall_s, cpu_s: process_cpu().saturating_sub(self.cpu).as_secs_f64() }
    }
}

/// Nanoseconds that `work` took.
pub(crate) fn nanos_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let start = now();
    let answer = work();
    (answer, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The moment at which a cell of a table has had enough time. Reading the clock costs 25-40 ns, so loops of short calls
/// ask every 64th time ([`Deadline::passed_at`]), loops that wait for a disk each time ([`Deadline::passed`]).
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Passes `seconds` from now; never if that is not a positive finite number.
    pub fn after(seconds: f64) -> Self {
        Deadline(Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).map(|time| now() + time))
    }

    /// Never passes.
    pub fn never() -> Self {
        Deadline(None)
    }

    /// Whether it is past.
    pub fn passed(&self) -> bool {
        self.0.is_some_and(|moment| now() >= moment)
    }

    /// As [`Deadline::passed`], but looks at the clock only when `step` is a multiple of 64.
    #[inline]
    pub fn passed_at(&self, step: u64) -> bool {
        step & 63 == 0 && self.passed()
    }
}

/// The median of some figures; 0 of none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => (figures[count / 2 - 1] + figures[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_deadline_passes_once() {
        assert!(!Deadline::never().passed());
        assert!(!Deadline::after(0.0).passed(), "no limit");
        let soon = Deadline::after(1e-9);
        while !soon.passed() {}
        assert!(soon.passed_at(64));
        assert!(!soon.passed_at(65));
    }
}
