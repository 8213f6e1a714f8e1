//! Goal: files of the storm know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top: what stands in a line may use the line and those before.
const LAYERS: &[&[&str]] = &[
    &["options", "panics", "report", "library/value"],
    &["library/rows", "library/word", "modes/sql/state"],
    &["library/answer", "library/disk_faults", "library/model", "library/setup", "modes/sql/client"],
    &["library/questions", "library/script"],
    &["library/writes"],
    &["library/world"],
    &["library/changes", "library/upkeep", "library/watched"],
    &["library/actions", "library/transactions"],
    // The modes.
    &[
        "modes/sequential",
        "modes/damage",
        "modes/kill",
        "modes/row_tables",
        "modes/sql/sessions",
        "modes/threads",
        "modes/transfers",
        "modes/crowd",
        "modes/owner",
        "modes/cluster",
        "modes/server",
        "modes/http",
        "modes/resp",
    ],
    &["modes/all"],
    &["processes/child"],
    &["processes/parent", "processes/shrink"],
    &["program", "coverage"],
];

#[test]
fn the_fence_holds() {
    Fence { layers: LAYERS, uses_beside: true, ..Fence::around(env!("CARGO_MANIFEST_DIR")) }.check();
}
