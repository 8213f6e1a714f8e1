//! The seeds that a random test plays, and their number: one rule for all crates.
//!
//! | variable | |
//! |---|---|
//! | `SEED=7` | that seed alone, as a failure prints it |
//! | `SEEDS_FROM=20261126` | from this seed on; 0 if unset. `.ci/run` gives the day, so each day plays others |
//! | `SEEDS=1000` | so many, whatever the test asks for |
//! | `TEST_SIZE=3000` | so many per cent of what each test asks for; 100 if unset |

use std::ops::Range;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The seeds of a random test that plays `count` of them in an everyday run.
pub fn seeds(count: u64) -> Range<u64> {
    if let Some(seed) = number("SEED") {
        return seed..seed + 1;
    }
    let from = number("SEEDS_FROM").unwrap_or(0);
    from..from + number("SEEDS").unwrap_or_else(|| (count * number("TEST_SIZE").unwrap_or(100) / 100).max(1))
}

/// The seed of a test that plays one: that of `SEED`, or its own. The test prints it.
pub fn seed_or(own: u64) -> u64 {
    number("SEED").unwrap_or(own)
}

/// Runs `test` with each of the seeds, `count` in an everyday run, and tells the one that fails.
pub fn with_seeds(count: u64, test: impl Fn(u64)) {
    for seed in seeds(count) {
        let tell = Tell::new(format!("SEED={seed}"));
        test(seed);
        drop(tell);
    }
}

/// Says how to repeat what fails while it lives.
#[derive(Debug)]
pub struct Tell(String);

impl Tell {
    /// Says this.
    pub fn new(how: String) -> Tell {
        Tell(how)
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}", self.0);
        }
    }
}
