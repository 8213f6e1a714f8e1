//! Goal: files of the server know each other in one direction. Method: `quipu_testing::fence`.

use quipu_testing::fence::Fence;

/// The folders of `server/src`, from the bottom to the top: what stands in a line may use its own line and those
/// before.
const LAYERS: &[&[&str]] = &[
    &["system"],
    &["resp", "profile", "tls"],
    &["keyspace", "facts"],
    &["users"],
    &["config", "cluster"],
    &["entities"],
    &["state"],
    &["command"],
    &["execution"],
    &["net", "http", "postgres"],
    // For fuzzers and tests; the crate's root only names the folders.
    &["fuzz", "lib"],
];

/// Of a lower folder, a folder may use only this file.
const ONLY: &[(&str, &str, &str)] = &[("keyspace", "resp", "resp/number")];

/// Types with more methods than a type should have.
const METHODS: &[(&str, usize)] = &[("Data", 92), ("Keyspace", 43)];

#[test]
fn the_fence_holds() {
    let fence = Fence {
        layers: LAYERS,
        only: ONLY,
        methods: METHODS,
        pages: &["server.md"],
        ..Fence::around(env!("CARGO_MANIFEST_DIR"))
    };
    fence.check();
}
