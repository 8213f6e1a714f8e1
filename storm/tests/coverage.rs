//! Every public verb of the library and every command of the server is drawn by the storm, or stands in the list of
//! what is left out, with the reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quipu_storm::coverage::{COMMANDS_LEFT_OUT, ROWS_LEFT_OUT, VERBS_LEFT_OUT, called_of_rows};
use quipu_storm::library::actions::ACTIONS;
use quipu_storm::library::questions::QUESTIONS;
use quipu_storm::library::writes::WRITINGS;
use quipu_storm::modes::resp::COMMANDS;
use quipu_suite::generate::Group;

/// Files of the engine whose public functions are no verbs of an open database: values that one makes or looks at, and
/// what is done to closed ones, which the storm's modes do by themselves.
const NO_VERBS: [&str; 11] = [
    "bench.rs",
    "bounds.rs",
    "error.rs",
    "files/",
    "io/",
    "log/",
    "options.rs",
    "probe/histogram.rs",
    "stats.rs",
    "tally.rs",
    "tuple.rs",
];

/// The source files below `dir`, without those of [`NO_VERBS`].
fn files(root: &Path, dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        if path.is_dir() {
            files(root, &path, found);
        } else if name.ends_with(".rs") && !NO_VERBS.iter().any(|left_out| name.starts_with(left_out)) {
            found.push(path);
        }
    }
}

/// The names of public functions in a file of the engine, and those of the two traits.
fn verbs(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut in_trait = false;
    let mut verbs = Vec::new();
    let mut hidden = false;
    for line in text.lines() {
        let traits = ["pub trait ReadableTable:", "pub trait WritableTable:", "pub trait Ordered:"];
        let begins = traits.iter().any(|head| line.starts_with(head));
        in_trait = begins || in_trait && line != "}";
        let head = if in_trait { "    fn " } else { "    pub fn " };
        if let Some(rest) = line.strip_prefix(head) {
            let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            if !hidden {
                verbs.push(name);
            }
            hidden = false;
        }
        hidden |= line.trim() == "#[doc(hidden)]";
    }
    verbs
}

#[test]
fn each_verb_of_the_library_is_drawn_or_left_out_with_a_reason() {
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    let lists = QUESTIONS.iter().map(|question| question.covers).chain(ACTIONS.iter().map(|action| action.covers));
    for name in lists.flatten() {
        covered.insert(name.rsplit("::").next().unwrap());
    }
    covered.extend(WRITINGS.iter().map(|writing| writing.name));
    covered.extend(VERBS_LEFT_OUT.iter().map(|(name, _)| *name));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut sources = Vec::new();
    files(&root, &root, &mut sources);
    let all: BTreeSet<String> = sources.iter().flat_map(|file| verbs(file)).collect();
    assert!(all.len() > 60, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|name| !covered.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "give these an entry in a table of verbs: {missing:?}");
}

/// The files of rows whose public functions ask or change tables.
const OF_ROWS: [&str; 12] = [
    "check.rs",
    "change/load.rs",
    "database.rs",
    "read/index.rs",
    "read/ordered.rs",
    "read/table.rs",
    "snapshot.rs",
    "table.rs",
    "transaction/mod.rs",
    "write/column_set.rs",
    "write/row_change.rs",
    "write/statement.rs",
];

#[test]
fn each_function_of_rows_is_called_or_left_out_with_a_reason() {
    let covered: BTreeSet<&str> = called_of_rows().chain(ROWS_LEFT_OUT.iter().map(|(name, _)| *name)).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rows/src");
    let all: BTreeSet<String> = OF_ROWS.iter().flat_map(|file| verbs(&root.join(file))).collect();
    assert!(all.len() > 60, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|name| !covered.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "call these in a verb of `rows/src/table_model`, or say why not: {missing:?}");
}

#[test]
fn each_command_of_the_server_is_sent_or_left_out_with_a_reason() {
    let mut covered: BTreeSet<String> = COMMANDS.iter().map(|name| name.to_lowercase()).collect();
    let groups = [Group::Strings, Group::Bits, Group::Keys, Group::Expiry, Group::SortedSets];
    covered.extend(groups.iter().flat_map(|group| group.commands()).map(|name| name.to_lowercase()));
    covered.extend(COMMANDS_LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()));
    let missing: Vec<&str> = quipu_server::facts::all()
        .filter(|spec| spec.group != quipu_server::facts::Group::Absent)
        .map(|spec| spec.name)
        .filter(|name| !covered.contains(*name))
        .collect();
    assert!(missing.is_empty(), "send these, or say why not: {missing:?}");
}
