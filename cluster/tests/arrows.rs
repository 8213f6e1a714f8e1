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
    // What operations are given, and what several of them use.
    &["node/interface", "node/identity", "node/waiting", "node/context", "node/prefetch"],
    &["node/comparison", "node/hints", "node/housekeeping", "node/targets"],
    &["node/operation"],
    &["node/write", "node/mending", "node/read", "node/query", "node/conditional"],
    &["node/repair", "node/movement", "node/questions"],
    &["node/requests"],
    &["node/operations"],
    &["node"],
    &["simulation", "fuzz"],
];

/// What none of the machines may name: their time, randomness and order come from their driver.
const BANNED: &[&str] = &["std::thread", "std::net", "std::fs", "HashMap", "HashSet", "SystemTime", "Instant"];

#[test]
fn the_fence_holds() {
    let fence = Fence {
        layers: LAYERS,
        uses_beside: true,
        banned: &[(&[], BANNED, &["fuzz"])],
        ..Fence::around(env!("CARGO_MANIFEST_DIR"))
    };
    fence.check();
}
