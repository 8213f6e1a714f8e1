//! Edges between the files of a crate: which uses which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::code::{begins_path, code_of, has_word, paths_from_above, uses};

/// A file of the source that is no test.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Below `src`, without `.rs`: `net/worker`; a folder's `mod.rs` is `net/mod`.
    pub(super) name: String,
    /// Without comments, texts and tests.
    pub(super) code: String,
    /// The code without `use` items.
    body: String,
    /// The paths of its `use` items, and whether they are passed on.
    uses: Vec<(bool, String)>,
}

/// The source of a crate.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) files: Vec<File>,
    /// Who uses whom, by their numbers, with what shows it.
    pub(super) edges: BTreeMap<(usize, usize), String>,
    /// The number of each file.
    numbers: BTreeMap<String, usize>,
    /// What a folder passes on: its name and the name of the thing, and the path that it stands for.
    passed_on: BTreeMap<(String, String), Vec<String>>,
}

/// Whether a file is the root of a crate, which names all modules.
fn is_root(name: &str) -> bool {
    name == "lib" || name == "main"
}

impl Source {
    /// Reads the files of a folder.
    pub(super) fn read(folder: &Path) -> Source {
        let mut files = Vec::new();
        read_folder(folder, "", &mut files);
        Source::of(files)
    }

    /// The source of these files, each with its name and its text.
    pub(super) fn of(texts: Vec<(String, String)>) -> Source {
        let mut source = Source::default();
        for (name, text) in texts {
            let code = code_of(&text);
            let (items, body) = uses(&code);
            let uses =
                items.into_iter().flat_map(|item| item.paths.into_iter().map(move |path| (item.is_passed_on, path)));
            source.numbers.insert(name.clone(), source.files.len());
            source.files.push(File { name, body, uses: uses.collect(), code });
        }
        for number in 0..source.files.len() {
            for (is_passed_on, path) in &source.files[number].uses {
                if let Some(path) = source.absolute(number, path).filter(|_| *is_passed_on) {
                    let name = path.last().cloned().unwrap_or_default();
                    source.passed_on.insert((source.module(number).join("/"), name), path);
                }
            }
        }
        source.edges = source.find_edges();
        source
    }

    pub(super) fn name(&self, number: usize) -> &str {
        &self.files[number].name
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.name)
    }

    /// The module of a file: `net/mod` is `net`, `lib` the root.
    fn module(&self, number: usize) -> Vec<String> {
        let mut parts: Vec<String> = self.files[number].name.split('/').map(str::to_owned).collect();
        if parts.last().is_some_and(|last| last == "mod") || is_root(&self.files[number].name) {
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
                let below = [&module[..], &[first.to_owned()]].concat().join("/");
                if !self.is_module(&below) {
                    return None;
                }
            }
        }
        module.extend(parts);
        Some(module)
    }

    fn is_module(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.numbers.contains_key(path)
            || self.numbers.range(folder.clone()..).next().is_some_and(|(name, _)| name.starts_with(&folder))
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
                && further != path
            {
                let further: Vec<String> = further.iter().chain(&path[place + 1..]).cloned().collect();
                return self.file_of(&further);
            }
            if !self.is_module(&below) {
                break;
            }
            module = below;
        }
        let names =
            if module.is_empty() { ["lib".to_owned(), "main".to_owned()] } else { [format!("{module}/mod"), module] };
        names.iter().find_map(|name| self.numbers.get(name)).copied()
    }

    /// The file from which a file has a name.
    pub(super) fn imported(&self, number: usize, name: &str) -> Option<usize> {
        let paths = self.files[number].uses.iter().map(|(_, path)| path);
        let path = paths.clone().find(|path| path.rsplit("::").next() == Some(name))?;
        self.file_of(&self.absolute(number, path)?)
    }

    fn find_edges(&self) -> BTreeMap<(usize, usize), String> {
        let mut edges = BTreeMap::new();
        let far = self.far_methods();
        for (number, file) in self.files.iter().enumerate().filter(|(_, file)| !is_root(&file.name)) {
            // A name that is only passed on is not used by the file.
            let is_used = |(is_passed_on, path): &&(bool, String)| {
                !is_passed_on || path.rsplit("::").next().is_some_and(|name| has_word(&file.body, name))
            };
            let mut paths: Vec<String> = file.uses.iter().filter(is_used).map(|(_, path)| path.clone()).collect();
            paths.extend(paths_from_above(&file.body));
            // Modules within a folder are named without a prefix.
            let module = format!("{}/", self.module(number).join("/"));
            let within = self.numbers.keys().filter_map(|name| name.strip_prefix(&module)?.split('/').next());
            paths.extend(within.filter(|name| begins_path(&file.body, name)).map(|name| format!("self::{name}")));
            for path in paths {
                let to = self.absolute(number, &path).and_then(|path| self.file_of(&path));
                if let Some(to) = to.filter(|to| *to != number) {
                    edges.entry((number, to)).or_insert(path);
                }
            }
            for (method, &home) in far.iter().filter(|(_, home)| **home != number) {
                let is_called = |end: &str| file.body.contains(&format!(".{method}{end}"));
                if is_called("(") || is_called("::<") {
                    edges.entry((number, home)).or_insert(format!(".{method}()"));
                }
            }
        }
        edges
    }

    /// The files that know each other in circles.
    pub(super) fn circles(&self) -> Vec<Vec<usize>> {
        let count = self.files.len();
        let mut reaches = vec![vec![false; count]; count];
        self.edges.keys().for_each(|&(from, to)| reaches[from][to] = true);
        for middle in 0..count {
            let beyond = reaches[middle].clone();
            for from in reaches.iter_mut().filter(|from| from[middle]) {
                from.iter_mut().zip(&beyond).for_each(|(reached, further)| *reached |= further);
            }
        }
        let circle = |file: usize| -> Vec<usize> {
            (0..count).filter(|&other| reaches[file][other] && reaches[other][file]).collect()
        };
        (0..count)
            .map(|file| (file, circle(file)))
            .filter(|(file, circle)| circle.first() == Some(file))
            .map(|(_, circle)| circle)
            .collect()
    }
}

/// The files below a folder whose names begin with `prefix`, tests apart.
fn read_folder(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "testdata" {
            read_folder(&path, &format!("{prefix}{name}/"), found);
        } else if let Some(name) = name.strip_suffix(".rs")
            && name != "tests"
            && !name.ends_with("_tests")
        {
            found.push((format!("{prefix}{name}"), fs::read_to_string(&path).expect("text")));
        }
    }
}
