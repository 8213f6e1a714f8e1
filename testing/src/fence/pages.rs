//! Compares what the documents say of layers, crates and `unsafe` with the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::Fence;
use super::code::has_word;
use super::edges::Source;

/// The root of the repository: the folder that has `ARCHITECTURE.md`.
fn root(folder: &str) -> PathBuf {
    let is_root = |folder: &&Path| folder.join("ARCHITECTURE.md").is_file();
    Path::new(folder).ancestors().find(is_root).expect("a folder with ARCHITECTURE.md").to_owned()
}

/// The page of this name, in the root of the repository or somewhere below `docs`.
fn page(root: &Path, name: &str) -> PathBuf {
    let mut waiting = vec![root.join("docs")];
    let mut found = root.join(name);
    while let Some(folder) = waiting.pop().filter(|_| !found.is_file()) {
        found = folder.join(name);
        let entries = fs::read_dir(folder).expect("the documents").map(|entry| entry.expect("an entry").path());
        waiting.extend(entries.filter(|path| path.is_dir()));
    }
    found
}

/// Compares the block of code of this kind in a page with what it should be, or writes it, with `UPDATE_DOCS=1`.
fn compare_block(page: &Path, kind: &str, expected: &str) -> Option<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let begin = format!("```{kind}\n");
    let Some((before, rest)) = text.split_once(&begin) else {
        return Some(format!("{} has no block of code that begins with ```{kind}", page.display()));
    };
    let (block, after) = rest.split_once("```").expect("a block ends");
    if block == expected {
        return None;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        #[expect(clippy::disallowed_methods, reason = "a page, no file of a database")]
        fs::write(page, [before, &begin, expected, "```", after].concat()).expect("the page is written");
        return None;
    }
    Some(format!("{} has other {kind} than the test's table; UPDATE_DOCS=1 writes:\n{expected}", page.display()))
}

/// Whether the pages have the layers as the table has them: from the top to the bottom.
pub(super) fn layers(fence: &Fence) -> Vec<String> {
    let lines = fence.layers.iter().rev().map(|layer| {
        let names: Vec<&str> = layer.iter().copied().filter(|name| *name != "lib").collect();
        format!("{}\n", names.join("  "))
    });
    let expected: String = lines.filter(|line| line != "\n").collect();
    let root = root(fence.folder);
    fence.pages.iter().filter_map(|name| compare_block(&page(&root, name), "layers", &expected)).collect()
}

/// The folders (`engine/src/page/`) and files that may have `unsafe` code, as `ARCHITECTURE.md` has them.
fn listed_for_unsafe(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, rest) = text.split_once("\n- `unsafe` stands only in").expect("a point on `unsafe`");
    let point = rest.split("\n- ").next().unwrap_or_default();
    point.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a crate has `unsafe` code where `ARCHITECTURE.md` says, and forbids it if that is nowhere.
pub(super) fn places_of_unsafe(folder: &str, source: &Source) -> Vec<String> {
    let root = root(folder);
    let folder = fs::canonicalize(folder).expect("the folder of the crate");
    let member = folder.strip_prefix(fs::canonicalize(&root).expect("the root")).expect("below the root");
    let source_folder = format!("{}/src/", member.display());
    let listed: BTreeSet<String> =
        listed_for_unsafe(&root).into_iter().filter(|path| path.starts_with(&source_folder)).collect();
    let mut unused = listed.clone();
    let mut wrong = Vec::new();
    for file in &source.files {
        let path = format!("{source_folder}{}.rs", file.name);
        let place = listed.iter().find(|place| path == **place || place.ends_with('/') && path.starts_with(&**place));
        if has_word(&file.code, "unsafe") {
            match place {
                Some(place) => drop(unused.remove(place)),
                None => wrong.push(format!("{path} has `unsafe` code, and ARCHITECTURE.md does not list it")),
            }
        }
        let is_root = ["lib", "main"].contains(&&*file.name);
        if is_root && listed.is_empty() && !file.code.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{path} does not say #![forbid(unsafe_code)]"));
        }
    }
    wrong.extend(unused.iter().map(|place| format!("{place} has no `unsafe` code, and ARCHITECTURE.md lists it")));
    wrong
}

/// A crate, by its folder, with those of the workspace that it may depend on.
pub type Dependencies = (&'static str, &'static [&'static str]);

/// Checks that the crates of the workspace at `root` are those of `table`, from the bottom to the top, that each
/// depends on those of its line alone, and that `ARCHITECTURE.md` has the same table. What tests use is left out.
///
/// # Panics
///
/// If that is not so.
pub fn crates_depend_on_each_other_in_one_direction(root: &Path, table: &[Dependencies]) {
    let workspace = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace");
    let members = workspace.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).expect("its members");
    let members: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    let of_table: BTreeSet<&str> = table.iter().map(|(name, _)| *name).collect();
    assert!(members.is_subset(&of_table), "not in the table: {:?}", members.difference(&of_table));
    let mut wrong = Vec::new();
    for (place, (name, allowed)) in table.iter().enumerate() {
        let is_below = |other: &&str| table[..place].iter().any(|(below, _)| below == other);
        assert!(allowed.iter().all(is_below), "{name} looks up");
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let found = dependencies(&root.join(name));
        if found != allowed {
            wrong.push(format!("{name} depends on {found:?}, and may on {allowed:?}"));
        }
    }
    let width = table.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, allowed): &Dependencies| match allowed {
        [] => format!("{name}\n"),
        _ => format!("{name:width$} -> {}\n", allowed.join(", ")),
    };
    let expected: String = table.iter().rev().map(line).collect();
    wrong.extend(compare_block(&root.join("ARCHITECTURE.md"), "crates", &expected));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The crates beside this one that its `Cargo.toml` names, those for tests apart.
fn dependencies(folder: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).expect("a Cargo.toml");
    let mut is_here = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            is_here = line.contains("dependencies") && !line.contains("dev-dependencies");
        } else if is_here && let Some((_, path)) = line.split_once("path = \"../") {
            found.insert(path.split('"').next().unwrap_or_default().to_owned());
        }
    }
    found
}
