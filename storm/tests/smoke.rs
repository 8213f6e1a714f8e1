//! A few seeds of each quick mode, so that the ordinary test run knows whether the storm itself works, and sees what
//! is broken at once.
//! Replay: quipu storm --only MODE --seed SEED

use std::time::Duration;

use quipu_storm::library::script::Journal;
use quipu_storm::modes::all::run_steps;
use quipu_storm::modes::sequential::Source;
use quipu_suite::clock::Deadline;

fn storm(mode: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let deadline = Deadline::after(Duration::from_secs(20));
        let source = Source::Seed { seed, deadline, steps: 250 };
        let mut journal = Journal::create(None).unwrap();
        let (counters, result) = run_steps(mode, &source, &mut journal).expect("a mode of steps");
        if let Err(text) = result {
            panic!("{mode} seed {seed}, 250 steps: {text}");
        }
        assert!(counters.steps >= 200 && counters.questions > 0 && counters.commits > 0, "{counters}");
    }
}

#[test]
fn the_library_answers_right() {
    storm("library", 0..8);
}

#[test]
fn a_crash_loses_nothing_that_was_promised() {
    storm("crash", 0..4);
}

#[test]
fn faults_of_the_disk_are_told() {
    storm("faults", 0..8);
}

#[test]
fn typed_tables_are_as_they_are_declared() {
    storm("rows", 0..8);
}

#[test]
fn clusters_heal_and_lose_nothing() {
    let (counters, result) = quipu_storm::modes::cluster::storm(1, &Deadline::after(Duration::from_secs(2)), false);
    if let Err(text) = result {
        panic!("cluster seed 1: {text}");
    }
    assert!(counters.plans > 0 && counters.commands > 0, "{counters}");
}

#[test]
fn damage_is_no_wrong_answer() {
    storm("damage", 0..4);
}

#[test]
fn sessions_of_sql_are_told_what_they_may_see() {
    storm("sql", 1..7);
}
