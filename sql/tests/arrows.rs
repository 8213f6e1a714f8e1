//! Goal: files of the crate know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top: what stands in a line may use itself and the lines before.
const LAYERS: &[&[&str]] = &[
    &["error"],
    &["types"],
    &["functions"],
    &["limits"],
    &["plan"],
    &["copy"],
    &["execute"],
    &["locks"],
    &["statement"],
    &["bind"],
    &["catalogue"],
    &["ddl"],
    &["session"],
];

#[test]
fn the_fence_holds() {
    Fence { layers: LAYERS, ..Fence::around(env!("CARGO_MANIFEST_DIR")) }.check();
}
