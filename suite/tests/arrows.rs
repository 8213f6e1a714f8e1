//! Goal: crates know each other in one direction, and those without layers have small circles and types, and `unsafe`
//! where it is listed. Method: `quipu_testing::fence`; the other crates have a test of their own (`tests/arrows.rs`).

use std::path::Path;

use quipu_testing::fence::{Dependencies, Fence, crates_depend_on_each_other_in_one_direction};

/// The crates from the bottom to the top, each with those that it depends on. Tests use more.
const CRATES: &[Dependencies] = &[
    ("testing", &[]),
    ("engine", &[]),
    ("rows-derive", &[]),
    ("rows", &["engine", "rows-derive"]),
    ("sql", &["engine", "rows"]),
    ("cluster", &["engine"]),
    ("agreement", &["engine", "cluster"]),
    ("server", &["engine", "sql", "cluster", "agreement"]),
    ("bench", &["engine", "rows", "server"]),
    ("suite", &[]),
    // Storm only asks the server for the table of commands.
    ("storm", &["engine", "rows", "sql", "cluster", "server", "suite"]),
    ("cli", &["engine", "rows", "sql", "server", "bench", "storm"]),
];

#[test]
fn crates_know_each_other_in_one_direction() {
    crates_depend_on_each_other_in_one_direction(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), CRATES);
}

/// The files of the Python package, from the bottom to the top.
const PYTHON: &[&[&str]] = &[
    &["error"],
    &["range", "signals", "value"],
    &["arrow_json", "many", "turns"],
    &["datum", "on_conflict", "parameter", "rows", "session", "source"],
    &["arrow_in", "arrow_out", "reader", "result", "result_arrow"],
    &["database"],
];

#[test]
fn crates_without_layers_hold_their_fences() {
    const FENCES: &[Fence] = &[
        Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../agreement")),
        Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../bench")),
        Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli")),
        Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../rows-derive")),
        Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../testing")),
        Fence::around(env!("CARGO_MANIFEST_DIR")),
        Fence { layers: PYTHON, uses_beside: true, ..Fence::around(concat!(env!("CARGO_MANIFEST_DIR"), "/../python")) },
    ];
    FENCES.iter().for_each(Fence::check);
}
