//! Every public verb of the library and every command of the server is drawn by the storm, or stands in the list of what is left out, with the reason.

use std::collections::BTreeSet;

use quipu_storm::actions::ACTIONS;
use quipu_storm::coverage::{COMMANDS_LEFT_OUT, VERBS_LEFT_OUT};
use quipu_storm::questions::QUESTIONS;
use quipu_storm::resp::COMMANDS;
use quipu_storm::writes::WRITINGS;
use quipu_suite::generate::Group;

/// The names of public functions in a file of the engine, and those of the two traits.
fn verbs(file: &str) -> Vec<String> {
    let path = format!("{}/../engine/src/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut in_trait = false;
    let mut verbs = Vec::new();
    let mut hidden = false;
    for line in text.lines() {
        in_trait = line.starts_with("pub trait Read") || line.starts_with("pub trait Write") || in_trait && line != "}";
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
    let files = [
        "db.rs",
        "table.rs",
        "transaction.rs",
        "edit.rs",
        "snapshot.rs",
        "cursor.rs",
        "range.rs",
        "read.rs",
        "committed.rs",
        "explain.rs",
    ];
    let all: BTreeSet<String> = files.iter().flat_map(|file| verbs(file)).collect();
    assert!(all.len() > 60, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|name| !covered.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "give these an entry in a table of verbs: {missing:?}");
}

#[test]
fn each_command_of_the_server_is_sent_or_left_out_with_a_reason() {
    let mut covered: BTreeSet<String> = COMMANDS.iter().map(|name| name.to_lowercase()).collect();
    let groups = [Group::Strings, Group::Bits, Group::Keys, Group::Expiry, Group::SortedSets];
    covered.extend(groups.iter().flat_map(|group| group.commands()).map(|name| name.to_lowercase()));
    covered.extend(COMMANDS_LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()));
    let missing: Vec<&str> = quipu_server::command::table::all()
        .filter(|spec| spec.group != quipu_server::command::table::Group::Absent)
        .map(|spec| spec.name)
        .filter(|name| !covered.contains(*name))
        .collect();
    assert!(missing.is_empty(), "send these, or say why not: {missing:?}");
}
