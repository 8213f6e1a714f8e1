//! Goal: files of the engine depend on each other in the direction that is written here, and hardly any in circles.
//! Method: `quipu_testing::fence`.

use quipu_testing::fence::{Banned, Fence};

/// From the bottom up: files and folders, by their paths in the source.
const LAYERS: &[&[&str]] = &[
    &[
        "waits",
        "error",
        "sync",
        "tuple",
        "tally",
        "compression",
        "inner_pages",
        "progress",
        "read/entry",
        "read/sample",
    ],
    &["io"],
    &["log"],
    &["page"],
    &["options", "tree"],
    &["stack", "bounds"],
    &["run"],
    &["cache"],
    &["probe"],
    &["catalog"],
    &["read"],
    &["state"],
    &["maintenance"],
    &["transactions", "write"],
    &["db", "latched", "table", "stats", "files", "bytes", "cost", "histogram", "ingest", "isolation"],
    // Seen by benchmarks and fuzzers only: no file uses them.
    &["bench", "fuzz"],
];

/// What may not be named in a module's source at all, and in which files it may.
const BANNED: &[Banned] = &[
    (
        &["page", "tree", "stack", "tally", "tuple", "bounds", "read/entry"],
        &["std::fs", "std::thread", "std::time", "std::net", "rand"],
        &["tree/arena"],
    ),
    (&["tree/arena"], &["std::fs", "std::thread::spawn", "thread::sleep", "thread::Builder", "std::time"], &[]),
    (&["run", "cache", "probe", "log", "catalog"], &["std::fs", "std::net", "std::time::SystemTime"], &[]),
    // Only `io` touches the file system, and only `io` and tests make a disk.
    (&[], &["std::fs"], &["io"]),
];

/// Circles that are larger than they should be, each by one of its files.
const CIRCLES: &[(&str, usize)] = &[("stack/layer", 4), ("tree/arena", 7)];

/// Types with more methods than a type should have.
const METHODS: &[(&str, usize)] = &[("PageRef", 63), ("RunFile", 70), ("Tree", 83)];

#[test]
fn the_fence_holds() {
    let fence = Fence {
        layers: LAYERS,
        uses_beside: true,
        banned: BANNED,
        circles: CIRCLES,
        methods: METHODS,
        pages: &["engine.md", "ARCHITECTURE.md"],
        ..Fence::around(env!("CARGO_MANIFEST_DIR"))
    };
    fence.check();
}
