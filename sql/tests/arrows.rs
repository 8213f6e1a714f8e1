//! Goal: files of the crate know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top: what stands in a line may use itself and the lines before.
const LAYERS: &[&[&str]] = &[
    &["error", "clock", "stack"],
    &["numeric"],
    &["types"],
    &["functions"],
    &["row_files"],
    &["limits", "notifications", "identity"],
    &["plan"],
    &["locks"],
    &["copy"],
    &["execute"],
    &["dialect", "foreign"],
    &["tokens"],
    &["block"],
    &["alteration", "depth", "type_change", "upkeep"],
    &["known_words"],
    &["statement"],
    &["bind"],
    // The tables of the catalogue evaluate expressions as sessions do.
    &["catalogue", "ddl", "session"],
    // For fuzzers.
    &["fuzz"],
];

/// Circles that are larger than they should be, each by one of its files: expressions hold queries, and queries hold
/// expressions; texts of arrays, rows and ranges are made of those of their values.
const CIRCLES: &[(&str, usize)] =
    &[("bind/expression", 10), ("ddl/mod", 15), ("execute/evaluate", 13), ("types/text", 4)];

/// Types with more methods than a type should have.
const METHODS: &[(&str, usize)] = &[("Binder", 130), ("Session", 109)];

#[test]
fn the_fence_holds() {
    let fence = Fence {
        layers: LAYERS,
        uses_beside: true,
        circles: CIRCLES,
        methods: METHODS,
        pages: &["sql-inside.md"],
        ..Fence::around(env!("CARGO_MANIFEST_DIR"))
    };
    fence.check();
}
