//! Goal: pgbench's transactions lose no move and leave sums that agree when the server is killed. Method: the judge
//! `quipu-suite transfers`, for a few rounds.

use std::path::PathBuf;

use quipu_suite::process::Launch;
use quipu_suite::transfers::{self, Options};

fn kill_under_transfers(durability: &str, seed: u64, more: &[&str]) {
    let arguments = ["--durability", durability].iter().chain(more).map(|word| (*word).to_owned()).collect();
    let launch = Launch::Quipu { program: PathBuf::from(env!("CARGO_BIN_EXE_quipu")), arguments };
    let options = Options { launch, seed, seconds: 0.0, rounds: 4, writers: 4 };
    assert!(
        transfers::run(&options).expect("a server"),
        "quipu-suite transfers --durability {durability} --seed {seed}"
    );
}

#[test]
fn sums_agree_after_kills() {
    kill_under_transfers("os", 1, &[]);
}

#[test]
fn sums_agree_after_kills_with_hardly_any_memory() {
    kill_under_transfers("sync", 2, &["--memtable-bytes", "256kb", "--cache-bytes", "256kb"]);
}
