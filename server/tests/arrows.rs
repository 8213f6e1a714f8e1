//! Goal: files of the server know each other in one direction, and so do the crates of the workspace.
//!
//! Method: three kinds of edges lead from one file to another. A `use` line and a path in the code (`crate::...`,
//! `super::...`) lead to the file that defines the name; a name that a folder only passes on (`pub use`) leads to its
//! file. A call of a method leads to the file that defines it, if that is another file than its type's and no other
//! function of the crate has the method's name. Tests are no edges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `server/src`, from the bottom to the top: what stands in a line may use its own line and those
/// before.
const LAYERS: &[&[&str]] = &[
    &["system"],
    &["resp", "profile", "tls"],
    &["keyspace", "facts"],
    &["users"],
    &["config", "cluster"],
    &["state"],
    &["command"],
    &["execution"],
    &["net", "http"],
    // For fuzzers and tests; the crate's root only names the folders.
    &["fuzz", "lib"],
];

/// Of a lower folder, a folder may use only this file.
const ONLY: &[(&str, &str, &str)] = &[("keyspace", "resp", "resp/number")];

/// Files of the largest circle that is borne.
const CIRCLE_MAX: usize = 3;

/// The crates, each with those of the workspace that it may depend on. Tests may use more.
const CRATES: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("rows-derive", &[]),
    ("rows", &["engine", "rows-derive"]),
    ("cluster", &["engine"]),
    ("agreement", &["engine", "cluster"]),
    ("server", &["engine", "cluster", "agreement"]),
    ("bench", &["engine", "rows", "server"]),
    ("suite", &[]),
    // Storm only asks the server for the table of commands.
    ("storm", &["engine", "rows", "cluster", "server", "suite"]),
    ("cli", &["engine", "rows", "server", "bench", "storm"]),
];

struct File {
    /// Below `src`, without `.rs`: `net/worker`; a folder's `mod.rs` is `net/mod`.
    name: String,
    code: String,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(dir: &Path, found: &mut Vec<File>) {
    let mut paths: Vec<_> =
        fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(source()).expect("below the source").to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, found);
        } else if let Some(name) = name.strip_suffix(".rs")
            && !name.ends_with("tests")
        {
            found.push(File { name: name.to_owned(), code: code_of(&fs::read_to_string(&path).expect("a file")) });
        }
    }
}

/// Code without comments, texts and tests.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let parts: Vec<&str> = line.split('"').step_by(2).collect();
        code.push_str(&parts.join("\"\""));
        code.push('\n');
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The paths that a `use` of a tree names: `a::{b, c::{self, d}}` are `a::b`, `a::c` and `a::c::d`.
fn paths_of_tree(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        found.push(if name == "self" { prefix.trim_end_matches("::").to_owned() } else { format!("{prefix}{name}") });
        return;
    };
    let inside = inside.strip_suffix('}').expect("a whole tree");
    let (mut depth, mut start) = (0, 0);
    for (place, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[start..place].trim().is_empty() {
                    paths_of_tree(&format!("{prefix}{}", before.trim()), &inside[start..place], found);
                }
                start = place + 1;
            }
            _ => {}
        }
    }
}

/// The paths of all `use` items, with whether they are passed on.
fn uses(code: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(place) = rest.find("use ") {
        let line = rest[..place].rsplit('\n').next().unwrap_or_default().trim();
        let after = &rest[place + 4..];
        rest = after;
        if !line.is_empty() && !line.starts_with("pub") || line.contains(|c: char| !is_word(c) && !"() ".contains(c)) {
            continue;
        }
        let mut paths = Vec::new();
        paths_of_tree("", &after[..after.find(';').unwrap_or(after.len())].replace('\n', " "), &mut paths);
        found.extend(paths.into_iter().map(|path| (line.starts_with("pub"), path)));
    }
    found
}

struct Crate {
    files: Vec<File>,
    /// The number of each file.
    numbers: BTreeMap<String, usize>,
    /// What a folder passes on: its name and the name of the thing, and the path that it stands for.
    passed_on: BTreeMap<(String, String), Vec<String>>,
}

impl Crate {
    fn read() -> Crate {
        let mut found = Vec::new();
        files(&source(), &mut found);
        let numbers = found.iter().enumerate().map(|(number, file)| (file.name.clone(), number)).collect();
        let mut all = Crate { files: found, numbers, passed_on: BTreeMap::new() };
        for number in 0..all.files.len() {
            for (is_public, path) in uses(&all.files[number].code) {
                let module = all.module(number);
                if let Some(path) = all.absolute(number, &path).filter(|_| is_public) {
                    let name = path.last().expect("a name").clone();
                    all.passed_on.insert((module.join("/"), name), path);
                }
            }
        }
        all
    }

    /// The module of a file: `net/mod` is `net`, `lib` the root.
    fn module(&self, number: usize) -> Vec<String> {
        let mut parts: Vec<String> = self.files[number].name.split('/').map(str::to_owned).collect();
        if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
            parts.pop();
        }
        parts
    }

    /// A path of a file from the root on; `None` if it leads out of the crate.
    fn absolute(&self, number: usize, path: &str) -> Option<Vec<String>> {
        let mut module = self.module(number);
        let mut parts = path.split("::").map(|part| part.trim().to_owned()).peekable();
        match parts.peek()?.as_str() {
            "crate" => {
                parts.next();
                module.clear();
            }
            "self" => {
                parts.next();
            }
            "super" => {
                while parts.next_if(|part| part == "super").is_some() {
                    module.pop();
                }
            }
            first => {
                // A module beside or below, as `mod.rs` names it.
                let below = [module.join("/"), first.to_owned()].join("/");
                let below = below.trim_start_matches('/');
                if !self.is_module(below) || !self.files[number].name.ends_with("mod") {
                    return None;
                }
            }
        }
        module.extend(parts);
        Some(module)
    }

    fn is_module(&self, path: &str) -> bool {
        self.numbers.contains_key(path) || self.numbers.contains_key(&format!("{path}/mod"))
    }

    /// The file that defines what a path names.
    fn file_of(&self, path: &[String]) -> Option<usize> {
        let mut module = String::new();
        for (place, part) in path.iter().enumerate() {
            let below = if module.is_empty() { part.clone() } else { format!("{module}/{part}") };
            let is_last = place + 1 == path.len();
            // A module and a thing that is passed on may have the same name.
            if let Some(further) = self.passed_on.get(&(module.clone(), part.clone()))
                && (is_last || !self.is_module(&below))
            {
                let further: Vec<String> = further.iter().chain(&path[place + 1..]).cloned().collect();
                return self.file_of(&further);
            }
            if !self.is_module(&below) {
                break;
            }
            module = below;
        }
        let root = if module.is_empty() { "lib".to_owned() } else { format!("{module}/mod") };
        self.numbers.get(&module).or_else(|| self.numbers.get(&root)).copied()
    }

    /// Paths within the code that begin at the root or above.
    fn paths_in_code(&self, number: usize) -> Vec<String> {
        let code = &self.files[number].code;
        let mut found = Vec::new();
        for start in ["crate::", "super::"] {
            for (place, _) in code.match_indices(start) {
                // Not the end of another path, nor a `pub(in crate::...)`.
                let before = &code[..place];
                if before.ends_with(|c: char| is_word(c) || c == ':') || before.ends_with("pub(in ") {
                    continue;
                }
                let path: String = code[place..].chars().take_while(|&c| is_word(c) || c == ':').collect();
                found.push(path.trim_end_matches(':').to_owned());
            }
        }
        // A folder's own file names those within it without a prefix.
        if self.files[number].name.ends_with("mod") {
            let passed_on = code.split(';').filter(|item| !item.trim_start().starts_with("pub use "));
            let code = passed_on.collect::<Vec<_>>().join(";");
            let module = self.module(number).join("/");
            let within = self.numbers.keys().filter_map(|name| name.strip_prefix(&format!("{module}/")));
            for name in within.filter(|name| *name != "mod") {
                let is_named = |(place, _): (usize, &str)| !code[..place].ends_with(|c: char| is_word(c) || c == ':');
                if code.match_indices(&format!("{name}::")).any(is_named) {
                    found.push(format!("self::{name}"));
                }
            }
        }
        found
    }

    /// Who uses whom, by numbers, with what shows it.
    fn edges(&self) -> BTreeMap<(usize, usize), String> {
        let mut edges = BTreeMap::new();
        for number in 0..self.files.len() {
            let code = &self.files[number].code;
            let own = code.split(';').filter(|item| {
                let first = item.trim_start().trim_start_matches("pub ");
                !first.starts_with("use ") && !first.starts_with("mod ")
            });
            let own: BTreeSet<&str> = own.flat_map(|item| item.split(|c| !is_word(c))).collect();
            // A name that is only passed on is none that the file uses.
            let used = uses(code).into_iter().filter(|(is_public, path)| {
                !is_public || path.rsplit("::").next().is_some_and(|name| own.contains(name))
            });
            let paths = used.map(|(_, path)| path).chain(self.paths_in_code(number).into_iter().filter(|path| {
                // A `use` of a tree is read above.
                !self.files[number].code.contains(&format!("use {path}::{{"))
                    && !self.files[number].code.contains(&format!("pub use {path}"))
            }));
            for path in paths {
                let Some(full) = self.absolute(number, &path) else { continue };
                if let Some(to) = self.file_of(&full).filter(|to| *to != number) {
                    edges.entry((number, to)).or_insert(path);
                }
            }
        }
        for (method, home) in self.far_methods() {
            for number in (0..self.files.len()).filter(|number| *number != home) {
                if self.files[number].code.contains(&format!(".{method}(")) {
                    edges.entry((number, home)).or_insert(format!(".{method}()"));
                }
            }
        }
        edges
    }

    /// Methods whose names no other function has, that stand in another file than their type: each with its file.
    fn far_methods(&self) -> BTreeMap<String, usize> {
        let mut types = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            for word in ["struct ", "enum "] {
                for (place, _) in file.code.match_indices(word) {
                    let name: String = file.code[place + word.len()..].chars().take_while(|&c| is_word(c)).collect();
                    types.entry(name).or_insert_with(BTreeSet::new).insert(number);
                }
            }
        }
        let mut functions: BTreeMap<String, usize> = BTreeMap::new();
        let mut far = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            let mut is_far = false;
            for line in file.code.lines() {
                if line.starts_with("impl") {
                    let header = line.split(" for ").last().unwrap_or_default();
                    let header = header.strip_prefix("impl").map_or(header, |rest| match rest.strip_prefix('<') {
                        Some(rest) => rest.split_once("> ").map_or("", |(_, rest)| rest),
                        None => rest,
                    });
                    let name: String = header.trim().chars().take_while(|&c| is_word(c)).collect();
                    is_far = !line.contains(" for ") && types.get(&name).is_some_and(|files| !files.contains(&number));
                } else if line.starts_with('}') {
                    is_far = false;
                }
                let Some((before, after)) = line.split_once("fn ") else { continue };
                if before.ends_with(is_word) {
                    continue;
                }
                let name: String = after.chars().take_while(|&c| is_word(c)).collect();
                *functions.entry(name.clone()).or_default() += 1;
                if is_far {
                    far.insert(name, number);
                }
            }
        }
        far.retain(|name, _| functions[name] == 1);
        far
    }

    fn layer(&self, number: usize) -> (&str, usize) {
        let folder = self.files[number].name.split('/').next().expect("a name");
        let layer = LAYERS.iter().position(|line| line.contains(&folder));
        (folder, layer.unwrap_or_else(|| panic!("{folder} has no place among the layers")))
    }
}

#[test]
fn files_use_what_lies_below_them() {
    let all = Crate::read();
    let mut wrong = Vec::new();
    for ((from, to), shown) in all.edges() {
        let ((from_folder, from_layer), (to_folder, to_layer)) = (all.layer(from), all.layer(to));
        let is_beside = from_layer == to_layer && from_folder != to_folder;
        let to_name = all.files[to].name.as_str();
        let is_closed = ONLY.iter().any(|only| (only.0, only.1) == (from_folder, to_folder) && only.2 != to_name);
        if from_layer < to_layer || is_beside || is_closed {
            wrong.push(format!("{} uses {} ({shown})", all.files[from].name, all.files[to].name));
        }
    }
    assert!(
        wrong.is_empty(),
        "these arrows go up, or aside (docs/internals/server.md, The layers):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn no_circle_has_more_than_three_files() {
    let all = Crate::read();
    let edges = all.edges();
    let count = all.files.len();
    let mut reaches = vec![vec![false; count]; count];
    edges.keys().for_each(|(from, to)| reaches[*from][*to] = true);
    for middle in 0..count {
        let beyond = reaches[middle].clone();
        for from in reaches.iter_mut().filter(|from| from[middle]) {
            from.iter_mut().zip(&beyond).for_each(|(reached, further)| *reached |= further);
        }
    }
    let mut seen = vec![false; count];
    let mut large = Vec::new();
    for file in 0..count {
        let circle: Vec<usize> = (0..count).filter(|&other| reaches[file][other] && reaches[other][file]).collect();
        if !seen[file] && circle.len() > CIRCLE_MAX {
            let names: Vec<&str> = circle.iter().map(|&number| all.files[number].name.as_str()).collect();
            let inside = edges.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let inside = inside
                .map(|((from, to), shown)| format!("  {} -> {} ({shown})", all.files[*from].name, all.files[*to].name));
            large.push(format!(
                "{} files: {}\n{}",
                names.len(),
                names.join(" "),
                inside.collect::<Vec<_>>().join("\n")
            ));
        }
        circle.iter().for_each(|&number| seen[number] = true);
    }
    assert!(large.is_empty(), "circles of files:\n{}", large.join("\n"));
}

/// The test sees what it is for: an edge of each kind that is known to be there.
#[test]
fn edges_of_each_kind_are_seen() {
    let all = Crate::read();
    let edges = all.edges();
    let has = |from: &str, to: &str| edges.contains_key(&(all.numbers[from], all.numbers[to]));
    // By a `use` line, by one through a name that is passed on, and by a method.
    assert!(has("execution/batch", "state/session"));
    assert!(has("command/strings", "command/call"));
    assert!(has("command/strings", "state/refusal"));
    assert!(has("command/keys", "keyspace/changes"));
    assert!(all.far_methods().len() > 10);
    let mut paths = Vec::new();
    paths_of_tree("", "a::{b, c::{self, d}, e as f}", &mut paths);
    assert_eq!(paths, ["a::b", "a::c", "a::c::d", "a::e"]);
}

/// The crates of the workspace that a crate's `Cargo.toml` depends on, those for tests apart.
fn dependencies(member: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(member).join("Cargo.toml")).expect("a Cargo.toml");
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

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace");
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).expect("its members");
    let members: BTreeSet<&str> =
        members.trim_end_matches(']').split(',').map(|name| name.trim().trim_matches('"')).collect();
    assert_eq!(
        members,
        CRATES.iter().map(|(name, _)| *name).collect(),
        "the table and the workspace have different crates"
    );
    for (place, (name, allowed)) in CRATES.iter().enumerate() {
        assert!(allowed.iter().all(|other| CRATES[..place].iter().any(|(below, _)| below == other)), "{name} looks up");
        let found = dependencies(name);
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|other| !allowed.contains(other)).collect();
        assert!(found.is_empty(), "{name} depends on {found:?}");
    }
}
