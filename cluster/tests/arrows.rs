//! Goal: files of the crate know each other in one direction: from the node down to the words that all use.
//! Method: every `crate::` path in the code, without comments and tests, is an edge between two modules. A layer uses
//! itself and those before it.

use std::fs;
use std::path::{Path, PathBuf};

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

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of each file with the name of its module, without comments and tests.
fn modules() -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    found.sort();
    let is_code = |path: &PathBuf| !path.ends_with("lib.rs") && !path.ends_with("tests.rs");
    let read = |path: &PathBuf| {
        let below = path.strip_prefix(&source).expect("below the source");
        let first = below.components().next().expect("a name").as_os_str().to_string_lossy();
        #[expect(clippy::disallowed_methods, reason = "the source, no file of a database")]
        let text = String::from_utf8(fs::read(path).expect("a file")).expect("text");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        (first.trim_end_matches(".rs").to_owned(), code.join("\n"))
    };
    found.iter().filter(|path| is_code(path)).map(read).collect()
}

fn layer(module: &str) -> usize {
    let place = LAYERS.iter().position(|layer| layer.contains(&module));
    place.unwrap_or_else(|| panic!("`{module}` stands in no layer of this test"))
}

#[test]
fn no_module_uses_one_above_it() {
    let modules = modules();
    assert!(modules.len() > 30, "{} files", modules.len());
    let mut wrong = Vec::new();
    for (module, code) in &modules {
        for path in code.split("crate::").skip(1) {
            let used: String = path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if layer(&used) > layer(module) {
                wrong.push(format!("{module} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn machines_know_no_clock_thread_socket_file_or_random_order() {
    for (module, code) in modules().iter().filter(|(module, _)| module != "fuzz") {
        for name in BANNED {
            assert!(!code.contains(name), "{module} names {name}");
        }
    }
}
