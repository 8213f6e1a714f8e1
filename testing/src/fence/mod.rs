//! The fence around a crate: files use what lies below them, circles and types stay small, and `unsafe` stands where
//! `ARCHITECTURE.md` says.
//!
//! | file | what it is |
//! |---|---|
//! | `code` | the text of a file without comments and strings, and the paths that it names |
//! | `edges` | which file uses which, and the circles among them |
//! | `types` | types and their methods |
//! | `pages` | what the documents say of layers, crates and `unsafe` |
//!
//! Three kinds of edges lead from one file to another. A `use` and a path in the code (`crate::...`, `super::...`) lead
//! to the file that defines the name; a name that a folder only passes on (`pub use`) leads to its file. A call of a
//! method leads to the file that defines it, if that is another file than its type's and no other function of the
//! crate has the method's name. Tests are no edges, and neither is what the root of the crate (`lib.rs`) names.
//!
//! What is larger than it may be stands in a list with its size. The list is a ratchet: the check fails if the size
//! grows, and also if it falls, until the list says the new one.
//!
//! Not here: what macros write, and methods whose names two functions of a crate have.

mod code;
mod edges;
mod pages;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::path::Path;

use edges::Source;
pub use pages::{Dependencies, crates_depend_on_each_other_in_one_direction};

/// Files that may know each other in a circle.
pub const CIRCLE_MAX: usize = 3;

/// Methods of a type, without those of traits.
pub const METHODS_MAX: usize = 40;

/// Files and folders, or none for all; words and paths that they must not name; files and folders that may.
pub type Banned = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// What a crate keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// The folder of the crate: `env!("CARGO_MANIFEST_DIR")`.
    pub folder: &'static str,
    /// Folders and files of its source, from the bottom to the top; empty if the crate has no layers. A file
    /// (`read/entry`) may stand apart from its folder.
    pub layers: &'static [&'static [&'static str]],
    /// Whether folders in one line may use each other.
    pub uses_beside: bool,
    /// Of a lower folder, a folder may use only this file.
    pub only: &'static [(&'static str, &'static str, &'static str)],
    /// Words and paths that files must not name.
    pub banned: &'static [Banned],
    /// Circles of more than [`CIRCLE_MAX`] files, each by one of its files.
    pub circles: &'static [(&'static str, usize)],
    /// Types of more than [`METHODS_MAX`] methods.
    pub methods: &'static [(&'static str, usize)],
    /// Pages, by their names, that have the layers in a block of code called `layers`.
    pub pages: &'static [&'static str],
}

impl Fence {
    /// A fence without layers and lists.
    pub const fn around(folder: &'static str) -> Fence {
        Fence {
            folder,
            layers: &[],
            uses_beside: false,
            only: &[],
            banned: &[],
            circles: &[],
            methods: &[],
            pages: &[],
        }
    }

    /// Checks all of it.
    ///
    /// # Panics
    ///
    /// With everything that is not as it should be.
    pub fn check(&self) {
        let source = Source::read(&Path::new(self.folder).join("src"));
        let mut wrong = self.arrows(&source);
        wrong.extend(self.banned(&source));
        wrong.extend(self.circles(&source));
        wrong.extend(self.methods(&source));
        wrong.extend(pages::layers(self));
        wrong.extend(pages::places_of_unsafe(self.folder, &source));
        assert!(wrong.is_empty(), "{} (the rules: testing/src/fence/mod.rs):\n{}", self.folder, wrong.join("\n"));
    }

    /// The folder, or the file, of the table that a file belongs to, and the number of its layer.
    fn layer<'n>(&self, name: &'n str) -> Option<(&'n str, usize)> {
        let place = |name: &str| self.layers.iter().position(|layer| layer.contains(&name));
        let folder = name.split('/').next().unwrap_or_default();
        place(name).map(|layer| (name, layer)).or_else(|| Some((folder, place(folder)?)))
    }

    fn arrows(&self, source: &Source) -> Vec<String> {
        if self.layers.is_empty() {
            return Vec::new();
        }
        let mut wrong = BTreeSet::new();
        for ((from, to), shown) in &source.edges {
            let (from, to) = (source.name(*from), source.name(*to));
            let (Some((from_place, from_layer)), Some((to_place, to_layer))) = (self.layer(from), self.layer(to))
            else {
                wrong.insert(format!("{from} or {to} stands in no layer"));
                continue;
            };
            let is_beside = from_layer == to_layer && from_place != to_place && !self.uses_beside;
            let is_closed = |only: &&(_, _, _)| (only.0, only.1) == (from_place, to_place) && only.2 != to;
            if from_layer < to_layer || is_beside || self.only.iter().any(|only| is_closed(&only)) {
                wrong.insert(format!("{from} must not use {to}: it names {shown}"));
            }
        }
        let stands_for =
            |place: &&&str| source.names().any(|name| self.layer(name).is_some_and(|(own, _)| own == **place));
        for place in self.layers.iter().copied().flatten().filter(|place| **place != "lib" && !stands_for(place)) {
            wrong.insert(format!("there is no {place}, which stands among the layers"));
        }
        wrong.into_iter().collect()
    }

    fn banned(&self, source: &Source) -> Vec<String> {
        let mut wrong = Vec::new();
        let stands_in = |name: &str, places: &[&str]| {
            let is_in =
                |place: &&str| name.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            places.iter().any(is_in)
        };
        for (places, words, except) in self.banned {
            let is_meant = |name: &str| (places.is_empty() || stands_in(name, places)) && !stands_in(name, except);
            for file in source.files.iter().filter(|file| is_meant(&file.name)) {
                let named = words.iter().filter(|word| code::has_word(&file.code, word));
                wrong.extend(named.map(|word| format!("{} must not name {word}", file.name)));
            }
        }
        wrong
    }

    fn circles(&self, source: &Source) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut unused: Vec<_> = self.circles.to_vec();
        for circle in source.circles() {
            let names: Vec<&str> = circle.iter().map(|&file| source.name(file)).collect();
            let listed = unused.iter().position(|(name, _)| names.contains(name)).map(|place| unused.remove(place));
            match listed {
                None if names.len() <= CIRCLE_MAX => {}
                Some((_, size)) if size == names.len() => {}
                listed => {
                    let arrows =
                        source.edges.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
                    let arrows = arrows.map(|((from, to), shown)| {
                        format!("\n  {} -> {}: {shown}", source.name(*from), source.name(*to))
                    });
                    let (size, wanted) = (names.len(), listed.map_or(CIRCLE_MAX, |(_, size)| size));
                    wrong.push(format!(
                        "a circle of {size} files, where {wanted} are listed: {}{}",
                        names.join(", "),
                        arrows.collect::<String>()
                    ));
                }
            }
        }
        wrong.extend(unused.iter().map(|(name, _)| format!("{name} is in no circle any more: take it off the list")));
        wrong
    }

    fn methods(&self, source: &Source) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut unused: Vec<_> = self.methods.to_vec();
        for ((file, name), count) in source.methods() {
            let listed = unused.iter().position(|(listed, _)| *listed == name).filter(|_| count > METHODS_MAX);
            match listed.map(|place| unused.remove(place)) {
                None if count <= METHODS_MAX => {}
                Some((_, listed)) if listed == count => {}
                listed => {
                    let wanted = listed.map_or(METHODS_MAX, |(_, listed)| listed);
                    let file = source.name(file);
                    wrong.push(format!("{name} ({file}) has {count} methods, where {wanted} are listed"));
                }
            }
        }
        let few = |name: &str| format!("{name} has at most {METHODS_MAX} methods: take it off the list");
        wrong.extend(unused.iter().map(|(name, _)| few(name)));
        wrong
    }
}
