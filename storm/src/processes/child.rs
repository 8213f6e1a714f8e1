//! The side that does the runs: it reads requests from standard input, a line each, and answers with a line.
//!
//! `seed MODE SEED JOURNAL` draws a run, `script MODE FILE JOURNAL` does one again. The answer is `ok COUNTERS` or
//! `failed TEXT`; none, if the process dies.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::library::script::{Journal, Script};
use crate::modes::all::{run_script, run_seed};
use crate::options::Options;
use crate::panics;
use crate::report::Counters;

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

/// A panic is a failure.
fn guarded(work: impl FnOnce() -> (Counters, Result<(), String>)) -> (Counters, Result<(), String>) {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| (Counters::default(), Err(format!("panic: {}", panics::last()))))
}
