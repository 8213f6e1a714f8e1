//! Rules for documents: links lead somewhere, files that are named exist, and sentences are plain.

mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::house::{kept_files, root};

/// Words that make a sentence hard to read, with what to write instead.
const PRIVATE_ENGLISH: &[(&str, &str)] = &[
    ("behind", "after, past or slower than"),
    ("nobody", "the thing that does not: no thread, no client"),
    ("somebody", "the thing that does: a thread, a client"),
    ("whoever", "the thing that does: a caller, a client"),
    ("everybody", "all of what"),
    ("anybody", "any of what: any client, any other machine"),
    ("anyone", "any of what: any client, any other machine"),
    ("everyone", "all of what"),
    ("someone", "the thing that does: a thread, a client"),
    ("no one", "the thing that does not: no thread, no client"),
    ("is none", "is malformed, is missing, has no"),
    ("are none", "are malformed, are missing, has no"),
    ("as they are", "unchanged"),
    ("so it is for", "the same holds for"),
    ("to be told", "to be distinguished or to be reported"),
];

/// Words that had other meanings, or meant what has another word, and were replaced: where, which, and by which word.
/// Identifiers count by their parts, so `wake_keeper` has the word `keeper`.
const RETIRED: &[(&[&str], &str, &str)] = &[
    (&["engine/src", "docs"], "unasked", "unresolved"),
    (&["engine/src", "docs"], "unsettled", "unresolved"),
    (&["engine/src", "server/src", "docs"], "keeper", "the background thread"),
    (&["engine/src", "docs/guarantees.md", "docs/internals"], "resident", "in_memory, in memory"),
    (&["engine/src", "docs"], "annotation", "metadata"),
    (&["engine/src", "docs"], "annotations", "metadata"),
    (&["engine/src", "server/src/keyspace", "server/src/execution"], "edit", "latched write, write"),
    (&["engine/src", "server/src/keyspace", "server/src/execution"], "edits", "latched writes, writes"),
    (&["engine/src"], "explain", "with_cost"),
    (&["engine/src", "docs"], "index_pages", "inner_pages"),
    (&["engine/src", "server/src", "docs"], "read_latched", "db.latched().read_with"),
    (&["engine/src", "server/src", "docs"], "write_latched", "db.latched().write_with"),
    (&["engine/src", "server/src", "docs"], "latched_write_at_once", "db.latched().write_at_once"),
    (&[""], "options::in_memory", "Options::without_files"),
    (&["server/src"], "courtesy", "yielding"),
    (&["server/src"], "unasked", "unknown"),
    (&["agreement/src", "cluster/src", "server/src"], "settle", "decide, follow, agree"),
    (&["agreement/src", "cluster/src", "server/src"], "settled", "decided, followed, agreed"),
    (&["agreement/src", "cluster/src", "server/src"], "settling", "deciding, following, agreeing"),
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a document outside of fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((number + 1, line))
    })
}

/// A line without what stands in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// What stands in backticks in a line.
fn code_of(line: &str) -> impl Iterator<Item = &str> {
    let count = line.matches('`').count();
    line.split('`').skip(1).step_by(2).take(count / 2)
}

/// The targets of the links of a line.
fn links_of(line: &str) -> Vec<String> {
    let line = without_code(line);
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The names by which a document's headings are linked to.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
            kept.map(|char| if char == ' ' { '-' } else { char }).collect()
        })
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for name in kept_files(&root, "md") {
        let text = read(&root.join(&name));
        // A link may begin on one line and end on the next.
        for (number, line) in prose(&text) {
            for link in links_of(line) {
                if link.contains("://") {
                    continue;
                }
                seen += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
                let target = match path {
                    "" => root.join(&name),
                    path => root.join(&name).with_file_name("").join(path),
                };
                let is_there = target.exists() && (anchor.is_empty() || anchors_of(&read(&target)).contains(anchor));
                if !is_there {
                    wrong.push(format!("{name}:{number}: {link}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these links lead nowhere: {wrong:#?}");
    assert!(seen > 100 || kept_files(&root, "md").is_empty(), "the links are not found");
}

/// Where a path may begin that a document of this name mentions.
fn bases(root: &Path, name: &str) -> Vec<PathBuf> {
    let mut bases = vec![root.to_owned(), root.join(name).with_file_name("")];
    for part in ["engine", "rows", "sql", "cluster", "server", "cli", "storm", "bench", "agreement", "suite", "python"]
    {
        bases.extend([root.join(part), root.join(part).join("src")]);
    }
    bases
}

/// Whether a word in backticks is the path of a file with an extension, the name of a source, or the path of a folder
/// with a slash at its end.
fn is_path(word: &str) -> bool {
    let is_plain = word.chars().all(|char| char.is_ascii_alphanumeric() || "._-/".contains(char));
    let extensions = [".rs", ".md", ".toml", ".py", ".pyi", ".sh", ".hex", ".txt", ".svg"];
    let is_file = extensions.iter().any(|extension| word.ends_with(extension));
    let is_folder = word.ends_with('/') && word.len() > 2;
    let is_source = word.ends_with(".rs") && word.len() > 3;
    is_plain && (word.contains('/') || is_source) && !word.starts_with('/') && (is_file || is_folder)
}

#[test]
fn files_that_documents_name_exist() {
    let root = root();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let sources: Vec<PathBuf> = kept_files(&root, "rs").into_iter().map(PathBuf::from).collect();
    for name in kept_files(&root, "md") {
        let bases = bases(&root, &name);
        // A name without a folder is that of any source.
        let is_source = |path: &str| !path.contains('/') && sources.iter().any(|source| source.ends_with(path));
        let is_there = |path: &str| bases.iter().any(|base| base.join(path).exists()) || is_source(path);
        for (number, line) in prose(&read(&root.join(&name))) {
            for word in code_of(line) {
                // A module without its extension, where its folder is one of a crate: `state/attempt`.
                let folder = word.split_once('/').filter(|_| name.contains("internals/")).map(|(folder, _)| folder);
                let is_module = word.chars().all(|char| char.is_ascii_lowercase() || "_/".contains(char))
                    && folder.is_some_and(|folder| {
                        !folder.is_empty() && bases[2..].iter().any(|base| base.join(folder).is_dir())
                    });
                // What a build makes is not there before.
                if (is_path(word) || is_module) && !word.starts_with("target/") {
                    seen += 1;
                    let found = is_there(word) || is_module && is_there(&format!("{word}.rs"));
                    if !found {
                        wrong.push(format!("{name}:{number}: {word}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these files do not exist: {wrong:#?}");
    assert!(seen > 100 || kept_files(&root, "md").is_empty(), "the names are not found");
}

/// Where a reader is sent who asks "Where is ...?": the files of a row are those of its table's crate, and the names in
/// it stand in one of these files.
#[test]
fn rows_of_questions_name_files_of_their_crate_and_names_in_these() {
    let root = root();
    let sources = [kept_files(&root, "rs"), kept_files(&root, "py")].concat();
    let is_name = |word: &&str| {
        let starts_as_name = word.starts_with(|first: char| first.is_ascii_alphabetic());
        starts_as_name && word.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    let (mut wrong, mut seen, mut folder) = (Vec::new(), 0, String::new());
    for (number, line) in prose(&read(&root.join("CONTRIBUTING.md"))) {
        let Some((question, place)) = line.strip_prefix("| ").and_then(|row| row.split_once(" | ")) else { continue };
        if question == "question" {
            folder = code_of(place).next().unwrap_or_default().to_owned();
            continue;
        }
        let named: Vec<&str> = code_of(place).filter(|word| is_path(word)).collect();
        // A file may be one of a folder that the row names.
        let mut bases = vec![String::new(), folder.clone()];
        for word in named.iter().filter(|word| word.ends_with('/')) {
            bases.extend([(*word).to_owned(), format!("{folder}{word}")]);
        }
        let mut text = String::new();
        for word in named {
            let paths: Vec<String> = bases.iter().map(|base| format!("{base}{word}")).collect();
            let is_named = |source: &&String| paths.iter().any(|path| source.starts_with(path.as_str()));
            let found: Vec<&String> = sources.iter().filter(is_named).collect();
            // Each crate has one.
            let is_folder = paths.iter().any(|path| word.ends_with('/') && root.join(path).is_dir());
            if found.is_empty() && !is_folder && word != "tests/arrows.rs" {
                wrong.push(format!("CONTRIBUTING.md:{number}: {word}"));
            }
            found.into_iter().for_each(|source| text.push_str(&read(&root.join(source))));
        }
        let words: BTreeSet<&str> = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').collect();
        for name in code_of(place).filter(is_name) {
            seen += 1;
            if !words.contains(name) {
                wrong.push(format!("CONTRIBUTING.md:{number}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not in the files of their rows, or not in the crate of their table: {wrong:#?}");
    assert!(seen > 40 || sources.is_empty(), "the names are not found");
}

/// Pages that comments name as `docs/...`.
#[test]
fn documents_that_sources_name_exist() {
    let root = root();
    let mut wrong = Vec::new();
    for name in kept_files(&root, "rs").iter().chain(&kept_files(&root, "toml")) {
        for (number, line) in read(&root.join(name)).lines().enumerate() {
            for rest in line.split("docs/").skip(1) {
                let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && !"-./_".contains(char));
                let path = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
                if path.ends_with(".md") && !root.join("docs").join(path).is_file() {
                    wrong.push(format!("{name}:{}: docs/{path}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these pages do not exist: {wrong:#?}");
}

/// How often a phrase stands in a text, as whole words, in any case.
fn count_of(text: &str, phrase: &str) -> usize {
    // In capitals they are words of a command.
    let text = text.replace("NO ONE", "").to_lowercase();
    let is_end = |char: Option<char>| !char.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase)
        // “there is none” is the usual way to say it.
        .filter(|(at, _)| !(phrase.ends_with(" none") && text[..*at].ends_with("there ")))
        .filter(|(at, _)| is_end(text[..*at].chars().next_back()) && is_end(text[at + phrase.len()..].chars().next()))
        .count()
}

/// The phrases that stand in a text, each with what to write instead.
fn found_in(text: &str) -> Vec<String> {
    let found = PRIVATE_ENGLISH.iter().filter(|(phrase, _)| count_of(text, phrase) > 0);
    found.map(|(phrase, instead)| format!("“{phrase}” (write: {instead})")).collect()
}

#[test]
fn documents_are_in_plain_english() {
    let root = root();
    let mut found = Vec::new();
    for name in kept_files(&root, "md") {
        let text = read(&root.join(&name));
        let lines: Vec<(usize, String)> = prose(&text).map(|(number, line)| (number, without_code(line))).collect();
        for (at, (number, line)) in lines.iter().enumerate() {
            // A phrase may go on in the next line.
            let next = lines.get(at + 1).map_or("", |(_, next)| next);
            let both = format!("{line} {}", next.trim_start());
            for phrase in found_in(&both).into_iter().filter(|_| found_in(next).is_empty()) {
                found.push(format!("{name}:{number}: {phrase}"));
            }
        }
    }
    assert!(found.is_empty(), "say it plainly: {found:#?}");
}

/// Words that ask: a head begins with a noun that names the thing, or with a verb that says what it does.
const QUESTIONS: [&str; 8] = ["How", "What", "When", "Where", "Whether", "Which", "Who", "Why"];

/// The heads of Rust files (`//!`) keep to the same, and begin with a noun or a verb.
#[test]
fn heads_of_files_are_in_plain_english() {
    let root = root();
    let mut hits = Vec::new();
    for name in kept_files(&root, "rs") {
        let text = read(&root.join(&name));
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("//!")) {
            hits.extend(found_in(line).into_iter().map(|phrase| format!("{name}:{}: {phrase}", number + 1)));
        }
        let first = text.strip_prefix("//! ").and_then(|head| head.split_whitespace().next()).unwrap_or_default();
        if QUESTIONS.contains(&first) {
            hits.push(format!("{name}: the head begins with {first} (name the thing, or say what it does)"));
        }
    }
    assert!(hits.is_empty(), "say it plainly: {hits:#?}");
}

/// The modules that a file declares, but for its tests.
fn modules_of(text: &str) -> Vec<&str> {
    let (mut modules, mut is_test) = (Vec::new(), false);
    for line in text.lines() {
        let words = line.strip_suffix(';').unwrap_or_default().rsplit_once("mod ");
        if let Some((_, module)) =
            words.filter(|(before, _)| !is_test && matches!(*before, "" | "pub " | "pub(crate) "))
        {
            modules.push(module);
        }
        is_test = line.starts_with("#[cfg(test") || is_test && line.starts_with("#[");
    }
    modules
}

/// A head that has a table of modules names all of them.
#[test]
fn tables_of_modules_are_whole() {
    let root = root();
    let (mut lacking, mut seen) = (Vec::new(), 0);
    for name in kept_files(&root, "rs") {
        let text = read(&root.join(&name));
        let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let names = |line: &str| code_of(line).map(|word| word.trim_end_matches('/').to_owned()).collect::<Vec<_>>();
        let rows = head.iter().filter_map(|line| line.trim_start().strip_prefix('|')?.split('|').next());
        let listed: BTreeSet<String> = rows.flat_map(names).collect();
        let named: BTreeSet<String> = head.iter().flat_map(|line| names(line)).collect();
        let modules = modules_of(&text);
        // Other tables may name a module in passing.
        if modules.iter().filter(|module| listed.contains(**module)).count() > 1 {
            seen += 1;
            lacking.extend(modules.iter().filter(|module| !named.contains(**module)).map(|it| format!("{name}: {it}")));
        }
    }
    assert!(lacking.is_empty(), "the tables at the heads of these files lack modules: {lacking:#?}");
    assert!(seen > 20 || kept_files(&root, "rs").is_empty(), "the tables are not found");
}

/// Comments say which thread, client or node they mean, and what a thing is or lacks.
#[test]
fn comments_name_who_they_mean() {
    let root = root();
    let people = ["nobody", "somebody", "whoever", "everybody", "anybody", "anyone", "everyone", "someone", "no one"];
    let refused = [&people[..], &["is none", "are none", "so it is for"]].concat();
    let mut hits = Vec::new();
    for name in kept_files(&root, "rs") {
        for (number, line) in read(&root.join(&name)).lines().enumerate() {
            let comment = line.split_once("// ").or_else(|| line.split_once("/// ")).map_or("", |(_, comment)| comment);
            let found = PRIVATE_ENGLISH.iter().filter(|(phrase, _)| refused.contains(phrase));
            let found = found.filter(|(phrase, _)| count_of(comment, phrase) > 0);
            hits.extend(found.map(|(word, instead)| format!("{name}:{}: {word} (write: {instead})", number + 1)));
        }
    }
    assert!(hits.is_empty(), "say it plainly: {hits:#?}");
}

#[test]
fn retired_words_do_not_return() {
    let root = root();
    let mut found = Vec::new();
    for name in kept_files(&root, "rs").into_iter().chain(kept_files(&root, "md")) {
        let is_under = |folder: &&str| name.starts_with(*folder);
        // This list names them, and a decision tells what was once.
        if name == "suite/tests/documents.rs" || name.contains("/decisions/") || name == "CHANGELOG.md" {
            continue;
        }
        let retired: Vec<_> = RETIRED.iter().filter(|(folders, ..)| folders.iter().any(is_under)).collect();
        for (number, line) in read(&root.join(&name)).lines().enumerate().filter(|_| !retired.is_empty()) {
            for (_, word, instead) in retired.iter().filter(|(_, word, _)| count_of(line, word) > 0) {
                found.push(format!("{name}:{}: {word} (write: {instead})", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "these words were retired: {found:#?}");
}

#[test]
fn every_page_is_in_the_reading_orders() {
    let root = root();
    let start = root.join("docs/README.md");
    if !start.is_file() {
        return; // The sources are packed.
    }
    let index = read(&start);
    let is_named = |name: &str| index.contains(&format!("]({name}"));
    let pages = kept_files(&root, "md").into_iter().filter_map(|name| name.strip_prefix("docs/").map(str::to_owned));
    let pages = pages.filter(|name| name != "README.md" && !name.starts_with("internals/decisions/"));
    let lost: Vec<String> = pages.filter(|name| !is_named(name)).collect();
    assert!(lost.is_empty(), "docs/README.md names these pages to no reader: {lost:?}");
}

/// Names that mean little by themselves: a crate has one type of each, or the types have longer names.
const GENERAL: [&str; 7] = ["Answer", "Cut", "Entry", "Place", "State", "Turn", "Window"];

#[test]
fn a_general_name_is_that_of_one_type_in_a_crate() {
    let root = root();
    let mut places: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for name in kept_files(&root, "rs").into_iter().filter(|name| name.contains("/src/") && !name.contains("tests")) {
        let text = read(&root.join(&name));
        for (number, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').skip_while(|word| word.is_empty());
            let mut words = words.skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "in" | ""));
            let defines = matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) && !line.starts_with("  ");
            let general = words.next().and_then(|word| GENERAL.iter().find(|general| **general == word));
            if let Some(general) = general.filter(|_| defines) {
                let package = name.split('/').next().unwrap_or_default().to_owned();
                places.entry((package, *general)).or_default().push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(places.len() > GENERAL.len(), "the names are found: {places:?}");
    let several: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(several.is_empty(), "give these longer names: {several:#?}");
}
