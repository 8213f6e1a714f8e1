//! Goal: files of the crate know each other in one direction: from the node down to the words that all use; no type has
//! everything. Method: every `crate::` and `super::` path in the code, without comments and tests, is an edge from one
//! file to another, and so is a call of a method that stands in another file than its type, if no other function has
//! its name. A layer uses itself and those before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom to the top: files, or folders whose files do not stand apart.
const LAYERS: &[&[&str]] = &[
    // A version is made of a clock's time, and a clock makes versions.
    &["limits", "mutations", "random", "ids", "clock"],
    &["codec", "placement", "topology", "routing", "record"],
    &["tables", "model", "engine"],
    &["protocol", "admission"],
    &["replica"],
    &["peers", "membership", "api", "metrics"],
    // What operations are given, and what several of them use.
    &["node/interface", "node/identity", "node/waiting", "node/context", "node/ahead"],
    &["node/hints", "node/housekeeping", "node/sessions", "node/targets"],
    &["node/operation"],
    &["node/write", "node/mending", "node/read", "node/query", "node/conditional"],
    &["node/repair", "node/movement", "node/questions"],
    &["node/requests"],
    &["node/operations"],
    &["node"],
    &["simulation", "fuzz"],
];

/// Files of the largest circle, and methods of the largest type.
const CIRCLE_MAX: usize = 3;
const METHODS_MAX: usize = 40;

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

/// The name of each file (`node/write`; a folder's own is `node/mod`) with its code, without comments and tests.
fn modules() -> BTreeMap<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let is_code = |path: &PathBuf| !path.ends_with("lib.rs") && !path.ends_with("tests.rs");
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(&source).expect("below the source").with_extension("");
        #[expect(clippy::disallowed_methods, reason = "the source, no file of a database")]
        let text = String::from_utf8(fs::read(path).expect("a file")).expect("text");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        (name.to_string_lossy().into_owned(), code.join("\n"))
    };
    found.iter().filter(|path| is_code(path)).map(read).collect()
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The layer of a file: its own, or that of its folder.
fn layer(name: &str) -> usize {
    let place = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let layer = place(name).or_else(|| place(word(name)));
    layer.unwrap_or_else(|| panic!("`{name}` stands in no layer of this test"))
}

/// The file that a path names, if it is one of the crate: `a::b::C` is of `a/b`, or of `a`.
fn file_of(modules: &BTreeMap<String, String>, folder: &str, path: &str) -> Option<String> {
    let (first, rest) = path.split_once("::").unwrap_or((path, ""));
    let below = format!("{folder}{}", word(first));
    let inside = file_of_inside(modules, &below, rest);
    inside.or_else(|| [below.clone(), format!("{below}/mod")].into_iter().find(|name| modules.contains_key(name)))
}

fn file_of_inside(modules: &BTreeMap<String, String>, folder: &str, rest: &str) -> Option<String> {
    Some(format!("{folder}/{}", word(rest))).filter(|name| modules.contains_key(name))
}

/// The types of a file with their methods, by the `impl` blocks that are not of traits.
fn methods(code: &str) -> Vec<(&str, &str)> {
    let (mut found, mut of) = (Vec::new(), None);
    for line in code.lines() {
        if line.starts_with('}') {
            of = None;
        } else if line.starts_with("impl") && !line.contains(" for ") {
            let generic = line.strip_prefix("impl<").and_then(|line| line.split_once("> ")).map(|(_, header)| header);
            of = Some(word(generic.unwrap_or(line.trim_start_matches("impl "))));
        } else if let (Some(of), Some((before, name))) = (of, line.split_once("fn "))
            && before.starts_with("    ")
            && !before.starts_with("     ")
        {
            found.push((of, word(name)));
        }
    }
    found
}

/// Who uses whom, and by what.
fn edges(modules: &BTreeMap<String, String>) -> BTreeMap<(String, String), String> {
    let mut edges = BTreeMap::new();
    let (mut homes, mut counts) = (BTreeMap::new(), BTreeMap::<&str, usize>::new());
    for (name, code) in modules {
        let folder = name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for (start, folder) in [("crate::", ""), ("super::", &folder[..]), ("self::", &folder[..])] {
            for (place, _) in code.match_indices(start) {
                let path = &code[place + start.len()..];
                let is_whole = !code[..place].ends_with(|c: char| c.is_alphanumeric() || c == ':');
                if let Some(to) = file_of(modules, folder, path).filter(|to| is_whole && to != name) {
                    edges.entry((name.clone(), to)).or_insert(path.lines().next().unwrap_or_default().to_owned());
                }
            }
        }
        code.split("fn ").skip(1).for_each(|function| *counts.entry(word(function)).or_default() += 1);
        for of in code.split("struct ").chain(code.split("enum ")).skip(1) {
            homes.entry(word(of)).or_insert(name);
        }
    }
    for (home, code) in modules {
        let far = methods(code).into_iter().filter(|(of, _)| homes.get(of).is_some_and(|name| *name != home));
        for (_, method) in far.filter(|(_, method)| counts[method] == 1) {
            for (name, _) in
                modules.iter().filter(|(name, code)| *name != home && code.contains(&format!(".{method}(")))
            {
                edges.entry((name.clone(), home.clone())).or_insert(format!(".{method}()"));
            }
        }
    }
    edges
}

#[test]
fn no_file_uses_one_above_it() {
    let modules = modules();
    assert!(modules.len() > 30, "{} files", modules.len());
    let edges = edges(&modules);
    // By `super::`, by `crate::`, and by a method.
    for (from, to) in [("node/write", "node/targets"), ("node/write", "clock"), ("node/repair", "replica/compare")] {
        assert!(edges.contains_key(&(from.to_owned(), to.to_owned())), "{from} does use {to}");
    }
    let above = edges.iter().filter(|((from, to), _)| layer(to) > layer(from));
    let wrong: Vec<String> = above.map(|((from, to), shown)| format!("{from} uses {to}: {shown}")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_circle_has_more_than_three_files() {
    let modules = modules();
    let edges = edges(&modules);
    let reached = |from: &String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            let further = edges.keys().filter(|(from, _)| from == next).map(|(_, to)| to);
            open.extend(further.filter(|to| reached.insert((*to).clone())));
        }
        reached
    };
    let reaches: BTreeMap<&String, BTreeSet<String>> = modules.keys().map(|name| (name, reached(name))).collect();
    let circle = |name: &&String| -> Vec<&String> {
        modules.keys().filter(|other| reaches[name].contains(*other) && reaches[other].contains(*name)).collect()
    };
    let large: BTreeSet<Vec<&String>> =
        modules.keys().map(|name| circle(&name)).filter(|circle| circle.len() > CIRCLE_MAX).collect();
    assert!(large.is_empty(), "circles of files: {large:#?}");
}

#[test]
fn no_type_has_more_than_forty_methods() {
    let modules = modules();
    let mut counts = BTreeMap::<&str, usize>::new();
    modules.values().flat_map(|code| methods(code)).for_each(|(of, _)| *counts.entry(of).or_default() += 1);
    assert!(counts["Node"] > 10);
    counts.retain(|_, count| *count > METHODS_MAX);
    assert!(counts.is_empty(), "{counts:?}");
}

#[test]
fn machines_know_no_clock_thread_socket_file_or_random_order() {
    for (module, code) in modules().iter().filter(|(module, _)| *module != "fuzz") {
        for name in BANNED {
            assert!(!code.contains(name), "{module} names {name}");
        }
    }
}
