//! The side that does the runs: it reads requests from standard input, a line each, and answers with a line.
//!
//! `seed MODE SEED JOURNAL` draws a run, `script MODE FILE JOURNAL` does one again. The answer is `ok COUNTERS` or
//! `failed TEXT`; none, if the process dies.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use quipu_suite::clock::Deadline;

use crate::library::script::{Journal, Script};
use crate::modes::sequential::{self, Source};
use crate::options::Options;
use crate::panics;
use crate::report::Counters;

/// The modes, in the order in which they take turns. `sql` is done if it is named: see `sql_sessions`.
pub const MODES: &[&str] =
    &["library", "crash", "faults", "damage", "rows", "threads", "kill", "cluster", "resp", "http", "transfers"];

/// Answers requests until there are no more.
pub fn serve(options: &Options) {
    panics::note();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let (counters, result) = answer(&line, options);
        let text = match result {
            Ok(()) => format!("ok {counters}"),
            Err(text) => format!("failed {}", text.replace('\n', " ")),
        };
        println!("{text}");
        if std::io::stdout().flush().is_err() {
            return;
        }
    }
}

fn answer(line: &str, options: &Options) -> (Counters, Result<(), String>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [kind, mode, what, journal] = words[..] else {
        return (Counters::default(), Err(format!("what is {line:?}?")));
    };
    let mut journal = match Journal::create(Some(Path::new(journal))) {
        Ok(journal) => journal,
        Err(error) => return (Counters::default(), Err(format!("{journal}: {error}"))),
    };
    drop(panics::last());
    if kind == "script" {
        return match std::fs::read_to_string(what) {
            Ok(text) => guarded(|| run_script(&Script::parse(&text), &mut journal, options)),
            Err(error) => (Counters::default(), Err(format!("{what}: {error}"))),
        };
    }
    guarded(|| run_seed(mode, what.parse().unwrap_or(0), &mut journal, options))
}

/// Does the steps of a mode that has such, so that scripts tell all of its runs; none if it has not.
pub fn run_steps(mode: &str, source: &Source<'_>, journal: &mut Journal) -> Option<(Counters, Result<(), String>)> {
    match mode {
        "library" | "crash" | "faults" | "damage" => Some(sequential::run(mode, source, journal)),
        "rows" => Some(crate::modes::row_tables::run(source, journal)),
        "sql" => Some(crate::modes::sql::sessions::run(source, journal)),
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
        "threads" => crate::modes::threads::run(seed),
        "kill" => crate::modes::kill::run(seed, options),
        "cluster" => crate::modes::cluster::run(seed, options),
        "resp" => crate::modes::resp::run(seed, options),
        "http" => crate::modes::http::run(seed, options),
        "transfers" => crate::modes::transfers::run(seed, options),
        _ => (Counters::default(), Err(format!("there is no mode {mode}; there are {MODES:?}"))),
    }
}

/// A panic is a failure.
fn guarded(work: impl FnOnce() -> (Counters, Result<(), String>)) -> (Counters, Result<(), String>) {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| (Counters::default(), Err(format!("panic: {}", panics::last()))))
}
