//! All modes by their names, and what runs each.

use std::time::Duration;

use quipu_suite::clock::Deadline;

use crate::library::script::{Journal, Script};
use crate::modes::sequential::{self, Source};
use crate::options::Options;
use crate::report::Counters;

/// The modes, in the order in which they take turns.
pub const MODES: &[&str] =
    &["library", "crash", "faults", "damage", "rows", "sql", "threads", "kill", "cluster", "resp", "http", "transfers"];

/// Does the steps of a mode that has such, so that scripts tell all of its runs; none if it has not.
pub fn run_steps(mode: &str, source: &Source<'_>, journal: &mut Journal) -> Option<(Counters, Result<(), String>)> {
    match mode {
        "library" | "crash" | "faults" | "damage" => Some(sequential::run(mode, source, journal)),
        "rows" => Some(super::row_tables::run(source, journal)),
        "sql" => Some(super::sql::sessions::run(source, journal)),
        _ => None,
    }
}

/// Does a script.
pub fn run_script(script: &Script, journal: &mut Journal, options: &Options) -> (Counters, Result<(), String>) {
    let run = run_steps(&script.mode, &Source::Script(script), journal);
    run.unwrap_or_else(|| run_seed(&script.mode, script.setup.get("seed"), journal, options))
}

/// Draws a run from a seed.
pub fn run_seed(mode: &str, seed: u64, journal: &mut Journal, options: &Options) -> (Counters, Result<(), String>) {
    let deadline = Deadline::after(Duration::from_secs_f64(options.run_seconds));
    if let Some(run) = run_steps(mode, &Source::Seed { seed, deadline, steps: options.steps }, journal) {
        return run;
    }
    match mode {
        "threads" => super::threads::run(seed),
        "kill" => super::kill::run(seed, options),
        "cluster" => super::cluster::run(seed, options),
        "resp" => super::resp::run(seed, options),
        "http" => super::http::run(seed, options),
        "transfers" => super::transfers::run(seed, options),
        _ => (Counters::default(), Err(format!("there is no mode {mode}; there are {MODES:?}"))),
    }
}
