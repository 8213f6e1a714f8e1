//! Goal: files of the storm know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top: what stands in a line may use the line and those before.
const LAYERS: &[&[&str]] = &[
    &["options", "panics", "report", "value"],
    &["rows", "word", "sql_state"],
    &["answer", "model", "setup", "sql_client"],
    &["questions", "script"],
    &["writes"],
    &["world"],
    &["changes", "upkeep", "watched"],
    &["actions", "transactions"],
    // The modes.
    &[
        "sequential",
        "damage",
        "kill",
        "row_tables",
        "sql_sessions",
        "threads",
        "transfers",
        "crowd",
        "owner",
        "cluster",
        "server",
        "http",
        "resp",
    ],
    &["child"],
    &["parent", "shrink"],
    &["program", "coverage"],
];

#[test]
fn the_fence_holds() {
    Fence { layers: LAYERS, uses_beside: true, ..Fence::around(env!("CARGO_MANIFEST_DIR")) }.check();
}
