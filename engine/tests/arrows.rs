//! Goal: files of the engine depend on each other in the direction that is written here, and hardly any in circles.
//! Method: every `crate::` and `super::` path in the source (comments and tests apart) is an edge between two files,
//! and so is every call of a method that stands in another file than its type. A layer uses itself and those below it;
//! what goes up is listed, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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
    &["db", "table", "stats", "files"],
    // Seen by benchmarks and fuzzers only: nobody uses them.
    &["bench", "fuzz"],
];

/// Edges that go up, each with why it is borne.
const UPWARD: &[(&str, &str, &str)] = &[];

/// The most files that may know each other in a circle.
const CIRCLE_MAX: usize = 3;

/// What may not be named in a module's source at all, and in which files it may.
const BANNED: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["page", "tree", "stack", "tally", "tuple", "bounds", "read/entry"],
        &["std::fs", "std::thread", "std::time", "std::net", "rand"],
        &["tree/arena"],
    ),
    (&["tree/arena"], &["std::fs", "std::thread::spawn", "thread::sleep", "thread::Builder", "std::time"], &[]),
    (&["run", "cache", "probe", "log", "catalog"], &["std::fs", "std::net", "std::time::SystemTime"], &[]),
];

/// The most methods that a type may have, over all its `impl` blocks but those of traits.
const METHODS_MAX: usize = 40;

/// Types that have more, each with how many at most. These figures may only fall.
const METHODS_MAX_OF: &[(&str, usize)] = &[("Tree", 83), ("RunFile", 70), ("PageRef", 63)];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The code of the files that are not tests, by their paths in the source without `.rs`, and those of a folder by its
/// name.
fn files() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![source()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).expect("a directory of the source") {
            let path = entry.expect("a directory entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "testdata" {
                    waiting.push(path);
                }
            } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(source()).expect("under the source").to_string_lossy().into_owned();
                let module = path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
                found.insert(module, code_of(&text));
            }
        }
    }
    found
}

/// The code without comments and without test modules.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a path that begins here: `a::b::C` gives three.
fn words_of_path(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let word: String = rest.chars().take_while(|&c| is_word(c)).collect();
        rest = &rest[word.len()..];
        if word.is_empty() {
            return words;
        }
        words.push(word);
        match rest.strip_prefix("::") {
            Some(more) => rest = more,
            None => return words,
        }
    }
}

/// What names in a file stand for that gives them on: `pub use error::{Error, Result}` makes `Error` a name of `error`.
fn given_on(module: &str, code: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in code.split(';') {
        let Some((_, path)) = item.rsplit_once("pub use ").or_else(|| item.rsplit_once("pub(crate) use ")) else {
            continue;
        };
        let (path, list) = path.rsplit_once("::").unwrap_or(("", path));
        let parent = if module == "lib" { String::new() } else { format!("{module}/") };
        for name in list.trim_matches(['{', '}', '\n', ' ']).split(',') {
            let name = name.trim().rsplit(' ').next().unwrap_or_default();
            names.insert(name.to_owned(), format!("{parent}{}", path.trim().replace("::", "/")));
        }
    }
    names
}

/// The file that a path from the crate's root leads to.
fn resolve(files: &BTreeMap<String, String>, words: &[String]) -> Option<String> {
    let mut module = String::new();
    for word in words {
        let next = if module.is_empty() { word.clone() } else { format!("{module}/{word}") };
        if files.contains_key(&next) || files.keys().any(|file| file.starts_with(&format!("{next}/"))) {
            module = next;
            continue;
        }
        let at = if module.is_empty() { "lib" } else { &module };
        if let Some(given) = files.get(at).and_then(|code| given_on(at, code).remove(word)) {
            module = given;
        }
        break;
    }
    files.contains_key(&module).then_some(module)
}

/// Pairs of files, of which the first uses the second.
fn edges(files: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    let mut edges = BTreeSet::new();
    for (from, code) in files {
        if from == "lib" {
            continue;
        }
        assert!(!code.contains("crate::{"), "{from}: one `use` line a module, so that this test can read it");
        let paths = code.split("crate::").skip(1).map(words_of_path).map(|words| resolve(files, &words));
        let is_folder = files.keys().any(|file| file.starts_with(&format!("{from}/")));
        let parent: Vec<String> = match from.rsplit_once('/') {
            _ if is_folder && !from.contains('/') => Vec::new(),
            Some((folder, _)) => folder.split('/').map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let above = code.split("super::").skip(1).map(words_of_path).map(|words| {
            let words: Vec<String> = parent.iter().cloned().chain(words).collect();
            resolve(files, &words)
        });
        for to in paths.chain(above).flatten().filter(|to| to != from) {
            edges.insert((from.clone(), to));
        }
    }
    edges.extend(calls(files));
    edges
}

/// Calls of methods that do not stand in the file of their type, which no `use` shows: those whose names nothing else
/// has.
fn calls(files: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, code) in files {
        for keyword in ["struct ", "enum ", "trait "] {
            for rest in code.split(keyword).skip(1) {
                homes.entry(first_word(rest)).or_default().push(file);
            }
        }
        for rest in code.split("fn ").skip(1) {
            *functions.entry(first_word(rest)).or_default() += 1;
        }
    }
    let mut abroad: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, code) in files {
        for block in code.split("\nimpl").skip(1) {
            let (head, body) = block.split_once('{').unwrap_or((block, ""));
            // Behind the parameters of the block.
            let named = head.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or(head, |(_, named)| named);
            let name = first_word(named.trim_start());
            if head.contains(" for ") || homes.get(name).is_none_or(|homes| homes.contains(&&**file)) {
                continue;
            }
            for rest in body.split("\n}").next().unwrap_or_default().split("fn ").skip(1) {
                if functions[first_word(rest)] == 1 {
                    abroad.insert(first_word(rest), file);
                }
            }
        }
    }
    let mut calls = BTreeSet::new();
    for (from, code) in files.iter().filter(|(file, _)| *file != "lib") {
        for rest in code.split('.').skip(1) {
            let name = first_word(rest);
            let is_call = rest[name.len()..].starts_with(['(', ':']);
            if let (true, Some(to)) = (is_call, abroad.get(name))
                && to != from
            {
                calls.insert((from.clone(), (*to).to_owned()));
            }
        }
    }
    calls
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

fn layer_of(file: &str) -> Option<usize> {
    let place = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    place(file).or_else(|| place(file.split('/').next().unwrap_or_default()))
}

#[test]
fn files_use_what_is_below_them() {
    let files = files();
    let edges = edges(&files);
    let mut unused: BTreeSet<(&str, &str)> = UPWARD.iter().map(|(from, to, _)| (*from, *to)).collect();
    let mut wrong = Vec::new();
    for (from, to) in &edges {
        let (above, below) = (layer_of(from), layer_of(to));
        assert!(above.is_some() && below.is_some(), "{from} or {to} is in no layer");
        if above < below && !unused.remove(&(&**from, &**to)) {
            wrong.push(format!("{from} -> {to}"));
        }
    }
    assert!(wrong.is_empty(), "these go up (see docs/engine.md, Arrows):\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "nobody needs these arrows any more; take them out of the list: {unused:?}");
}

#[test]
fn circles_are_small() {
    let files = files();
    let edges = edges(&files);
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in &edges {
        next.entry(from).or_default().push(to);
    }
    let reached = |from: &str| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(file) = waiting.pop() {
            for to in next.get(file).into_iter().flatten() {
                if seen.insert(*to) {
                    waiting.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = files.keys().map(|file| (&**file, reached(file))).collect();
    let mut circles = BTreeSet::new();
    for (file, from_here) in &reached {
        let circle: BTreeSet<&str> = from_here.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if circle.len() > CIRCLE_MAX {
            circles.insert(circle);
        }
    }
    assert!(circles.is_empty(), "circles of more than {CIRCLE_MAX} files: {circles:?}");
}

/// The number of methods of each type.
fn methods(files: &BTreeMap<String, String>) -> BTreeMap<&str, usize> {
    let mut methods = BTreeMap::new();
    for code in files.values() {
        for block in code.split("\nimpl").skip(1) {
            let (head, body) = block.split_once('{').unwrap_or((block, ""));
            if head.contains(" for ") {
                continue;
            }
            let named = head.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or(head, |(_, named)| named);
            let name = named.trim_start().rsplit("::").next().unwrap_or_default();
            let body = body.split("\n}").next().unwrap_or_default();
            // Functions within functions stand further to the right.
            let is_method =
                |line: &&str| line.starts_with("    ") && !line.starts_with("     ") && line.contains("fn ");
            *methods.entry(first_word(name)).or_default() += body.lines().filter(is_method).count();
        }
    }
    methods
}

#[test]
fn no_type_does_everything() {
    let files = files();
    let methods = methods(&files);
    for (name, &number) in &methods {
        let ceiling = METHODS_MAX_OF.iter().find(|(of, _)| of == name).map_or(METHODS_MAX, |(_, ceiling)| *ceiling);
        assert!(number <= ceiling, "{name} has {number} methods, and may have {ceiling}: give a part of it a type");
    }
    for (name, ceiling) in METHODS_MAX_OF {
        let number = methods.get(name).copied().unwrap_or_default();
        assert!(number == *ceiling, "{name} has {number} methods now: lower its ceiling of {ceiling}, or delete it");
    }
}

#[test]
fn structures_know_no_files_threads_or_clocks() {
    let files = files();
    for (modules, words, except) in BANNED {
        for (file, code) in &files {
            let folder = file.split('/').next().unwrap_or_default();
            if !modules.iter().any(|module| *module == file || *module == folder) || except.contains(&&**file) {
                continue;
            }
            for word in *words {
                assert!(
                    !code.contains(&format!("{word}::")) && !code.contains(&format!("use {word}")),
                    "{file} names {word}"
                );
            }
        }
    }
    // Only `io` touches the file system, and only `io` and tests make a disk.
    for (file, code) in &files {
        assert!(file.starts_with("io") || !code.contains("std::fs"), "{file} goes past the disk trait");
    }
}
