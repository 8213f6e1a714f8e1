//! The names on the front pages of the libraries: few, and no name on both.

use std::collections::BTreeSet;
use std::path::Path;

use crate::house::root;

/// How many names the front page of `quipu` shows. What few programs need goes into a module.
const ENGINE_MAX: usize = 41;

/// How many that of `quipu-rows` shows.
const ROWS_MAX: usize = 65;

/// The names of types, functions and modules that rustdoc shows at the root of a crate.
fn names_of(lib: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(lib).unwrap_or_else(|error| panic!("{}: {error}", lib.display()));
    let (mut names, mut is_hidden) = (BTreeSet::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub mod ").filter(|_| !is_hidden) {
            names.insert(rest.trim_end_matches([';', '{', ' ']).to_owned());
        }
        // What is indented stands in a module, or goes on with a list.
        if let Some(rest) = line.strip_prefix("pub use ") {
            let mut path = rest.to_owned();
            while !path.ends_with(';') {
                path.push_str(lines.next().expect("the end of a list"));
            }
            let path = path.trim_end_matches([';', '}', ' ']);
            let list = path.split_once('{').map_or(path, |(_, list)| list);
            let listed = list.split(',').filter_map(|name| name.trim().rsplit("::").next());
            names.extend(listed.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        is_hidden = line.starts_with("#[") && (is_hidden || line == "#[doc(hidden)]");
    }
    names
}

#[test]
fn front_pages_stay_short() {
    for (krate, max) in [("engine", ENGINE_MAX), ("rows", ROWS_MAX)] {
        let names = names_of(&root().join(krate).join("src/lib.rs"));
        assert!(names.len() > 30, "{krate}: the names are not found: {names:?}");
        assert!(names.len() <= max, "{krate} shows {} names, at most {max}: {names:#?}", names.len());
        assert!(names.len() + 3 > max, "{krate} shows {} names only: lower the ceiling of {max}", names.len());
    }
}

/// So that a program may import both whole.
#[test]
fn no_name_is_in_both_libraries() {
    let (engine, rows) = (names_of(&root().join("engine/src/lib.rs")), names_of(&root().join("rows/src/lib.rs")));
    let both: Vec<&String> = engine.intersection(&rows).collect();
    assert!(both.is_empty(), "in both quipu and quipu-rows: {both:?}");
}
