//! Goal: in whatever order background work, writers, readers and transactions take their steps, and wherever in it the
//! power goes or the process is killed, nothing that was acknowledged is lost, no commit has a hole before it, and
//! every answer is one that there was. Method: `shuttle` runs the threads of a tiny database one at a time, and a seed
//! chooses at every lock, atomic and call of the disk who is next. Copies of the disk are taken at drawn calls, as
//! power loss or a kill would leave it, with what had been acknowledged by then; each is opened and judged afterwards.
//! Replay: SEED=... cargo test -p quipu --features shuttle --test schedules; SCHEDULES=... runs more than the few of
//! the ordinary run.

mod book;
mod disk;
mod scheduler;
mod work;

use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::{Config, Runner};

/// Schedules of the ordinary run.
const SCHEDULES: u64 = 400;
/// Bytes of each thread's stack.
const STACK_BYTES: usize = 512 << 10;

static CRASH_POINTS: AtomicU64 = AtomicU64::new(0);
static COMMITS: AtomicU64 = AtomicU64::new(0);
static JOBS: AtomicU64 = AtomicU64::new(0);

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says how to repeat what fails while it lives.
struct Tell(u64);

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SEED={}", self.0);
        }
    }
}

fn run(seed: u64) {
    let tell = Tell(seed);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000_000);
    config.silence_warnings = true;
    config.failure_persistence = shuttle::FailurePersistence::None;
    Runner::new(scheduler::Sticky::new(seed), config).run(move || {
        let done = work::schedule(seed);
        CRASH_POINTS.fetch_add(done.crash_points, Ordering::Relaxed);
        COMMITS.fetch_add(done.commits, Ordering::Relaxed);
        JOBS.fetch_add(done.jobs, Ordering::Relaxed);
    });
    drop(tell);
}

#[test]
fn background_work_against_everything_else() {
    if let Some(seed) = environment("SEED") {
        return run(seed);
    }
    let count = environment("SCHEDULES").unwrap_or(SCHEDULES);
    let first = environment("FIRST").unwrap_or(0);
    for seed in first..first + count {
        run(seed);
    }
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{count} schedules, {} commits, {} jobs in the background, {} crash points",
        of(&COMMITS),
        of(&JOBS),
        of(&CRASH_POINTS)
    );
}
