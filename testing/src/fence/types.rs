//! Types of a crate, and the methods that stand in blocks of them, without those of traits.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{first_word, is_word};
use super::edges::Source;

/// Methods of the standard library: a call of one need not be a call of the crate's own of that name.
const STANDARD: &[&str] = &[
    "chain", "chunks", "clear", "cloned", "contains", "copied", "count", "drain", "end", "entry", "extend", "fill",
    "filter", "find", "first", "flush", "get", "insert", "join", "last", "len", "lines", "load", "lock", "map", "max",
    "merge", "min", "next", "parse", "peek", "pop", "position", "push", "range", "read", "recv", "remove", "replace",
    "retain", "send", "skip", "sort", "split", "start", "store", "sum", "swap", "take", "wait", "write", "zip",
];

/// A block of methods of a type.
struct Block<'c> {
    of: &'c str,
    methods: Vec<&'c str>,
}

/// The blocks `impl Type` of a file. Those of a trait's methods are left out.
fn blocks(code: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    for (place, _) in code.match_indices("\nimpl") {
        let rest = &code[place + "\nimpl".len()..];
        let Some((head, body)) = rest.split_once('{') else { continue };
        let head = without_parameters(head);
        let named = head.split(" where").next().unwrap_or_default();
        if named.contains(" for ") {
            continue;
        }
        let path = named.split('<').next().unwrap_or_default();
        let of = path.rsplit("::").next().unwrap_or_default().trim();
        let body = &body[..body.find("\n}").unwrap_or(body.len())];
        found.push(Block { of, methods: functions_at(body, "    ") });
    }
    found
}

/// The head of a block after the parameters that it declares.
fn without_parameters(head: &str) -> &str {
    if !head.starts_with('<') {
        return head.trim_start();
    }
    let mut depth = 0;
    let mut before = ' ';
    for (place, c) in head.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return head[place + 1..].trim_start();
        }
        before = c;
    }
    head
}

/// The names of functions whose lines begin with this indentation and no more.
fn functions_at<'c>(code: &'c str, indentation: &str) -> Vec<&'c str> {
    let declared = code.lines().filter_map(|line| {
        let line = line.strip_prefix(indentation).filter(|line| !line.starts_with([' ', '}']))?;
        let (before, after) = line.split_once("fn ")?;
        let is_head = before.chars().all(|c| is_word(c) || "() :\"".contains(c)) && !before.ends_with(is_word);
        is_head.then(|| first_word(after))
    });
    declared.filter(|name| !name.is_empty()).collect()
}

/// The names of the types, or of the traits, that a file declares.
fn declared<'c>(code: &'c str, words: &[&str]) -> BTreeSet<&'c str> {
    let lines = code.lines().filter(|line| !line.starts_with(' '));
    let names = lines.filter_map(|line| {
        let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
            None => rest.trim_start(),
        });
        words.iter().find_map(|word| line.strip_prefix(word)).map(first_word)
    });
    names.collect()
}

impl Source {
    /// The types of each file.
    fn types(&self) -> BTreeMap<&str, BTreeSet<usize>> {
        let mut types: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            for name in declared(&file.code, &["struct ", "enum ", "union ", "trait ", "type "]) {
                types.entry(name).or_default().insert(number);
            }
        }
        types
    }

    /// Methods whose names no other function has, that stand in another file than their type: each with its file.
    pub(super) fn far_methods(&self) -> BTreeMap<String, usize> {
        let types = self.types();
        let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut far = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            for (place, _) in file.code.match_indices("fn ") {
                if !file.code[..place].ends_with(is_word) {
                    *functions.entry(first_word(&file.code[place + "fn ".len()..])).or_default() += 1;
                }
            }
            for block in blocks(&file.code) {
                if types.get(block.of).is_some_and(|files| !files.contains(&number)) {
                    far.extend(block.methods.into_iter().map(|name| (name.to_owned(), number)));
                }
            }
        }
        far.retain(|name, _| functions[&**name] == 1 && !STANDARD.contains(&&**name));
        far
    }

    /// How many methods each type has, and each trait, by its file and its name.
    pub(super) fn methods(&self) -> BTreeMap<(usize, String), usize> {
        let types = self.types();
        let mut counts = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            for block in blocks(&file.code) {
                let Some(files) = types.get(block.of) else { continue };
                let home = match files.contains(&number) {
                    true => Some(number),
                    false => self.imported(number, block.of).or_else(|| files.first().copied()),
                };
                let Some(home) = home else { continue };
                *counts.entry((home, block.of.to_owned())).or_default() += block.methods.len();
            }
            for name in declared(&file.code, &["trait "]) {
                let body = file.code.split(&format!("trait {name}")).nth(1).and_then(|rest| rest.split("\n}").next());
                let methods = functions_at(body.unwrap_or_default(), "    ").len();
                counts.insert((number, name.to_owned()), methods);
            }
        }
        counts
    }
}

#[test]
fn methods_of_types_are_seen() {
    let code = "
struct Tree<T> {
    a: fn(u8),
}

impl<F: Fn() -> bool, T> Tree<T>
where
    T: Clone,
{
    pub(crate) fn one(&self) {
        fn inner() {}
    }

    pub const unsafe fn two() {}
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {}
}

impl super::tree::Part<'_> {
    fn three() {}
}
";
    let found: Vec<(&str, Vec<&str>)> = blocks(code).into_iter().map(|block| (block.of, block.methods)).collect();
    assert_eq!(found, [("Tree", vec!["one", "two"]), ("Part", vec!["three"])]);
    let declarations =
        "pub(crate) struct A<'a>(u8);\nenum B {\n}\npub struct C;\n    struct Inner;\npub(in crate::a) trait D {";
    assert_eq!(declared(declarations, &["struct ", "enum ", "trait "]), BTreeSet::from(["A", "B", "C", "D"]));
}
