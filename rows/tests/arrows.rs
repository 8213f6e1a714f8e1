//! Goal: files of the crate know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top: what stands in a line may use itself and the lines before.
const LAYERS: &[&[&str]] = &[
    &["value"],
    &["encoding"],
    &["expression"],
    &["schema"],
    &["definition"],
    &["catalogue"],
    &["read"],
    &["transaction"],
    &["write"],
    &["change"],
    &["snapshot", "table"],
    &["database"],
    &["check"],
    &["repair"],
    &["record"],
    // For fuzzers, tests and the storm.
    &["fuzz", "table_model"],
];

#[test]
fn the_fence_holds() {
    Fence { layers: LAYERS, pages: &["rows.md"], ..Fence::around(env!("CARGO_MANIFEST_DIR")) }.check();
}
