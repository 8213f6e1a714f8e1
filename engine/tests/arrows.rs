//! Goal: modules of the engine depend on each other in the directions that are written here, and in no other.
//! Method: every `crate::` path in the source (comments and tests apart) is an edge between two modules, which the table must allow; an edge that the table
//! allows and nobody needs is taken out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the top down: a module, and what it may use. `docs/engine.md` has the picture.
const ARROWS: &[(&str, &[&str])] = &[
    // Seen by benchmarks and fuzzers only: these two may use anything, and nobody uses them.
    ("bench", &[]),
    ("fuzz", &[]),
    // The database and what it does. These know each other: they are the methods of one shared state, cut into files.
    ("backup", &["check", "db", "error", "io", "log", "manifest", "open", "options"]),
    (
        "repair",
        &[
            "backup",
            "check",
            "checkpoint",
            "db",
            "error",
            "failures",
            "io",
            "log",
            "manifest",
            "open",
            "options",
            "record",
            "run",
            "snapshot",
            "source",
            "stack",
            "tally",
            "tree",
            "writer",
        ],
    ),
    ("check", &["db", "error", "io", "manifest", "open", "options", "run", "stack", "tally", "tree", "writer"]),
    ("stats", &["db", "edit", "failures", "log", "snapshot", "sync", "tally"]),
    (
        "open",
        &[
            "checkpoint",
            "db",
            "error",
            "failures",
            "io",
            "keeper",
            "log",
            "manifest",
            "options",
            "page",
            "record",
            "run",
            "snapshot",
            "tally",
            "tree",
            "writer",
        ],
    ),
    ("preload", &["db", "error", "index_pages", "run", "snapshot", "table"]),
    ("keeper", &["db", "failures", "tree"]),
    (
        "blind",
        &[
            "bounds",
            "commit",
            "db",
            "error",
            "failures",
            "layers",
            "options",
            "page",
            "record",
            "run",
            "snapshot",
            "source",
            "stack",
            "tally",
            "tree",
            "unresolved",
            "writer",
        ],
    ),
    ("memory", &["db", "error", "failures", "snapshot", "sync"]),
    (
        "compaction",
        &[
            "checkpoint",
            "db",
            "error",
            "failures",
            "options",
            "page",
            "pieces",
            "run",
            "snapshot",
            "source",
            "sync",
            "tally",
        ],
    ),
    ("pieces", &["error", "page", "run", "stack", "tree"]),
    (
        "checkpoint",
        &[
            "db", "error", "io", "log", "manifest", "options", "page", "run", "snapshot", "stack", "sync", "tally",
            "tree", "writer",
        ],
    ),
    ("layers", &["commit", "db", "error", "options", "snapshot", "transaction", "tree", "writer"]),
    (
        "commit",
        &[
            "bounds",
            "db",
            "decision",
            "error",
            "log",
            "options",
            "page",
            "record",
            "run",
            "snapshot",
            "source",
            "stack",
            "sync",
            "table",
            "tally",
            "transaction",
            "tree",
            "unresolved",
            "writer",
        ],
    ),
    (
        "validation",
        &[
            "commit",
            "db",
            "error",
            "observation",
            "page",
            "run",
            "snapshot",
            "source",
            "stack",
            "tally",
            "transaction",
            "tree",
            "unresolved",
            "writer",
        ],
    ),
    (
        "edit",
        &[
            "bounds",
            "commit",
            "committed",
            "db",
            "decision",
            "entry",
            "error",
            "latch",
            "log",
            "read",
            "record",
            "run",
            "snapshot",
            "sync",
            "table",
            "tree",
            "writer",
        ],
    ),
    ("writer", &["latch", "run", "snapshot", "source", "sync", "tally", "tree"]),
    (
        "db",
        &[
            "checkpoint",
            "committed",
            "error",
            "failures",
            "io",
            "keeper",
            "latch",
            "log",
            "options",
            "record",
            "run",
            "snapshot",
            "source",
            "sync",
            "table",
            "transaction",
            "tree",
            "writer",
        ],
    ),
    ("latch", &["snapshot", "sync"]),
    ("failures", &["error", "run", "snapshot", "sync"]),
    ("decision", &["error", "record", "run", "snapshot", "source", "tally", "tree"]),
    // What callers hold.
    (
        "transaction",
        &[
            "bounds",
            "error",
            "observation",
            "options",
            "page",
            "range",
            "read",
            "snapshot",
            "source",
            "stack",
            "table",
            "tally",
            "tree",
        ],
    ),
    ("table", &["bounds", "entry", "error", "options", "range", "read", "run", "snapshot", "source", "tree"]),
    ("committed", &["error", "log", "options"]),
    (
        "snapshot",
        &[
            "bounds",
            "committed",
            "entry",
            "error",
            "options",
            "range",
            "read",
            "run",
            "source",
            "stack",
            "sync",
            "tally",
            "tree",
        ],
    ),
    (
        "read",
        &[
            "bounds",
            "cursor",
            "entry",
            "error",
            "explain",
            "observation",
            "page",
            "range",
            "run",
            "sample",
            "source",
            "stack",
            "tally",
            "tree",
        ],
    ),
    ("cursor", &["bounds", "entry", "error"]),
    ("range", &["bounds", "entry", "error", "observation"]),
    ("explain", &["error", "observation", "range", "source"]),
    ("observation", &["bounds", "entry", "error", "page", "run", "source", "stack", "tally", "tree"]),
    ("bounds", &["stack"]),
    // Structures.
    ("source", &["error", "mixed", "page", "run", "stack", "tally", "tree", "unresolved"]),
    ("unresolved", &["error", "page", "stack", "tally", "tree"]),
    ("mixed", &["page", "run", "stack", "tally", "tree"]),
    ("run", &["bounds", "compression", "error", "io", "page", "stack", "tally", "tree"]),
    ("stack", &["page", "tally", "tree"]),
    ("tree", &["error", "page", "tally"]),
    ("manifest", &["compression", "error", "index_pages", "io", "tally"]),
    ("record", &["compression", "error", "index_pages", "options", "tally"]),
    ("log", &["error", "io", "sync", "waits"]),
    ("page", &["tally"]),
    // The bottom.
    ("options", &["compression", "error", "index_pages", "io", "log", "page", "tally"]),
    ("tally", &["tuple"]),
    ("tuple", &["error"]),
    ("compression", &[]),
    ("index_pages", &[]),
    ("sample", &[]),
    ("entry", &[]),
    ("error", &[]),
    ("io", &[]),
    ("sync", &["waits"]),
    ("waits", &[]),
];

/// Edges that go up, each with why it is borne.
const UPWARD: &[(&str, &str, &str)] = &[
    ("transaction", "db", "a transaction holds the shared state it commits to"),
    ("table", "db", "a table's writes are commits, which the shared state makes"),
    ("committed", "db", "the shared state waits for the log"),
    ("snapshot", "db", "a snapshot keeps the shared state, and its pages, alive"),
    ("snapshot", "table", "a view is asked for with the table's handle"),
    ("cursor", "read", "a cursor asks any reader, and every reader makes cursors"),
    ("range", "read", "a range is filled by any reader, and every reader makes ranges"),
    ("explain", "read", "what is explained is a reader too, and every reader can be explained"),
    ("page", "tree", "a record may name a blob, whose bytes are the tree's"),
    ("record", "snapshot", "a record names its table by the id that is defined there"),
];

/// What may not be named in a module's source at all, and in which files it may.
const BANNED: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["page", "tree", "stack", "tally", "tuple", "bounds", "entry"],
        &["std::fs", "std::thread", "std::time", "std::net", "rand"],
        &["tree/arena.rs"],
    ),
    (&["tree/arena.rs"], &["std::fs", "std::thread::spawn", "thread::sleep", "thread::Builder", "std::time"], &[]),
    (&["run", "log", "manifest", "record"], &["std::fs", "std::net", "std::time::SystemTime"], &[]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The Rust files under a directory that are not tests, with their paths in the source.
fn files(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).expect("a directory of the source") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "testdata" {
                files(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let path = path.strip_prefix(source()).expect("under the source").to_string_lossy().into_owned();
            found.push((path, code_of(&text)));
        }
    }
}

/// The code without comments and without test modules.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn module_of(path: &str) -> String {
    path.split('/').next().expect("a path").trim_end_matches(".rs").to_owned()
}

/// What names at the root of the crate stand for: `pub use error::{Error, Result}` makes `crate::Error` an edge to `error`.
fn names_at_root() -> BTreeMap<String, String> {
    let lib = code_of(&fs::read_to_string(source().join("lib.rs")).expect("lib.rs"));
    let mut names = BTreeMap::new();
    for line in lib.split(';').filter_map(|item| item.trim().strip_prefix("pub use ")) {
        let (module, rest) = line.split_once("::").expect("a path");
        for name in rest.trim_matches(['{', '}']).split(',') {
            names.insert(name.trim().to_owned(), module.to_owned());
        }
    }
    names
}

fn edges() -> BTreeSet<(String, String)> {
    let names = names_at_root();
    let mut found = Vec::new();
    files(&source(), &mut found);
    let mut edges = BTreeSet::new();
    for (path, code) in &found {
        if path == "lib.rs" {
            continue;
        }
        let from = module_of(path);
        assert!(!code.contains("crate::{"), "{path}: one `use` line a module, so that this test can read it");
        if !path.contains('/') {
            assert!(!code.contains("super::"), "{path}: `super` is the crate's root here; say `crate::`");
        }
        for rest in code.split("crate::").skip(1) {
            let name: String = rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
            let to = names.get(&name).cloned().unwrap_or(name);
            if to != from && from != "bench" && from != "fuzz" {
                edges.insert((from.clone(), to));
            }
        }
    }
    edges
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut allowed: BTreeSet<(String, String)> = BTreeSet::new();
    for (from, to) in ARROWS {
        allowed.extend(to.iter().map(|to| ((*from).to_owned(), (*to).to_owned())));
    }
    allowed.extend(UPWARD.iter().map(|(from, to, _)| ((*from).to_owned(), (*to).to_owned())));
    let edges = edges();
    let wrong: Vec<_> = edges.difference(&allowed).collect();
    assert!(wrong.is_empty(), "these modules use what they should not (see docs/engine.md, Arrows): {wrong:?}");
    let unused: Vec<_> = allowed.difference(&edges).collect();
    assert!(unused.is_empty(), "nobody needs these arrows any more; take them out of the table: {unused:?}");
}

#[test]
fn every_module_has_its_place() {
    let mut found = Vec::new();
    files(&source(), &mut found);
    let modules: BTreeSet<String> =
        found.iter().map(|(path, _)| module_of(path)).filter(|name| name != "lib").collect();
    let placed: BTreeSet<String> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(modules, placed, "the table and the source have different modules");
}

/// The table itself goes down: but for the group around `db`, no module reaches itself. What goes up is listed apart.
#[test]
fn the_table_has_no_circles() {
    const ONE_STATE: [&str; 9] =
        ["db", "open", "commit", "checkpoint", "compaction", "layers", "memory", "keeper", "check"];
    let place = |name: &str| ARROWS.iter().position(|(module, _)| *module == name).expect("a module of the table");
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for (from, to) in ARROWS {
        // Depth first, in arrows that leave the group.
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<&str> = to.to_vec();
        while let Some(module) = waiting.pop() {
            assert!(module != *from || ONE_STATE.contains(from), "{from} reaches itself");
            if seen.insert(module) {
                waiting.extend(arrows[module]);
            }
        }
    }
    // Nobody uses what is only seen from outside.
    for hidden in ["bench", "fuzz"] {
        assert!(ARROWS.iter().all(|(_, to)| !to.contains(&hidden)), "{hidden} is used");
    }
    for (from, to, _) in UPWARD {
        assert!(place(from) > place(to), "{from} to {to} does not go up: it belongs into the table");
    }
}

#[test]
fn structures_know_no_files_threads_or_clocks() {
    let mut found = Vec::new();
    files(&source(), &mut found);
    for (modules, words, except) in BANNED {
        for (path, code) in &found {
            let applies = modules.contains(&&*module_of(path)) || modules.contains(&&**path);
            if !applies || except.contains(&&**path) {
                continue;
            }
            for word in *words {
                assert!(
                    !code.contains(&format!("{word}::")) && !code.contains(&format!("use {word}")),
                    "{path} names {word}"
                );
            }
        }
    }
    // Only `io` touches the file system, and only `io` and tests make a disk.
    for (path, code) in &found {
        assert!(module_of(path) == "io" || !code.contains("std::fs"), "{path} goes past the disk trait");
    }
}
