//! A server under pgbench's transactions and clients that misbehave, killed again and again: the mode `transfers`,
//! which is the judge of that name of the suite.

use quipu_suite::dice::Dice;
use quipu_suite::process::{Launch, quipu_program};
use quipu_suite::transfers;

use crate::options::Options;
use crate::report::Counters;

/// A run.
pub fn run(seed: u64, options: &Options) -> (Counters, Result<(), String>) {
    let mut dice = Dice::new(seed);
    let mut arguments: Vec<String> = vec!["--durability".into(), dice.pick(&["os", "os", "sync"]).into()];
    if dice.percent(40) {
        arguments.extend(["--memtable-bytes", "256kb", "--cache-bytes", "256kb"].map(str::to_owned));
    }
    let launch = Launch::Quipu { program: quipu_program(options.quipu.as_deref()), arguments };
    let writers = dice.below(6) + 2;
    let what = transfers::Options { launch, seed, seconds: options.run_seconds, rounds: 1, writers };
    match transfers::judge(&what) {
        Ok(Ok(done)) => {
            let (kills, commits) = (done.rounds + done.killed_in_recovery, done.acknowledged);
            (Counters { kills, commits, reopens: done.rounds, ..Counters::default() }, Ok(()))
        }
        Ok(Err(complaint)) => (Counters::default(), Err(complaint)),
        Err(error) => (Counters::default(), Err(error.to_string())),
    }
}
