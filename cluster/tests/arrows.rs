//! Goal: files of the crate know each other in one direction: from the node down to the words that all use.
//! Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// From the bottom to the top.
const LAYERS: &[&[&str]] = &[
    // A version is made of a clock's time, and a clock makes versions.
    &["limits", "mutations", "random", "ids", "clock"],
    &["codec", "placement", "topology", "routing", "record"],
    &["tables", "model", "engine"],
    &["protocol", "admission"],
    &["replica"],
    &["peers", "membership", "api", "metrics"],
    &["node"],
    &["simulation", "fuzz"],
];

/// What none of the machines may name: their time, randomness and order come from whoever drives them.
const BANNED: &[&str] = &["std::thread", "std::net", "std::fs", "HashMap", "HashSet", "SystemTime", "Instant"];

/// Circles that are larger than they should be, each by one of its files.
const CIRCLES: &[(&str, usize)] = &[("node/mod", 11)];

/// Types with more methods than a type should have.
const METHODS: &[(&str, usize)] = &[("Node", 132), ("Replica", 44), ("World", 41)];

#[test]
fn the_fence_holds() {
    let fence = Fence {
        layers: LAYERS,
        uses_beside: true,
        banned: &[(&[], BANNED, &["fuzz"])],
        circles: CIRCLES,
        methods: METHODS,
        ..Fence::around(env!("CARGO_MANIFEST_DIR"))
    };
    fence.check();
}
