//! Licences and sources of what the programs are built with, by the list in `deny.toml`. `cargo deny` says more, and
//! also of what only other systems need; it takes minutes to build, so it is a step of `.ci/nightly`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The quoted words between `begin` and the next closing bracket.
fn quoted(text: &str, begin: &str) -> BTreeSet<String> {
    let list = text.split(begin).nth(1).unwrap_or_else(|| panic!("{begin} is not there"));
    let list = list.split(']').next().expect("a list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an expression such as `(MIT OR Apache-2.0) AND Unicode-3.0` is satisfied by licences that are allowed.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.replace('/', " OR ");
    let alternatives = |text: &str| {
        let text = text.trim().trim_matches(['(', ')']);
        text.split(" OR ").any(|licence| is_allowed(licence.trim()))
    };
    if expression.contains('(') {
        return expression.split(" AND ").all(alternatives);
    }
    expression.split(" OR ").any(|all| all.split(" AND ").all(|licence| is_allowed(licence.trim())))
}

#[test]
fn licences_and_sources_of_dependencies_are_those_that_are_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    #[expect(clippy::disallowed_methods, reason = "a file of the repository, not of a database")]
    let deny = String::from_utf8(std::fs::read(root.join("deny.toml")).expect("deny.toml")).expect("text");
    let allowed = quoted(&deny, "\nallow = [");
    assert!(allowed.contains("MIT"), "{allowed:?}");
    // Offline: what a test is built from is here already.
    let words = ["tree", "--workspace", "--prefix", "none", "--locked", "--offline", "-f", "{p}\t{l}"];
    let output = Command::new(env!("CARGO")).args(words).current_dir(&root).output().expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 100, "{lines:?}");
    for line in lines {
        let line = line.trim_end_matches(" (*)");
        let (package, licence) = line.split_once('\t').expect("a package and its licence");
        let licence = licence.trim_end_matches(" (*)");
        let mut words = package.split(' ');
        let name = words.next().expect("a name");
        let source = words.nth(1).unwrap_or_default();
        assert!(
            source.is_empty() || source == "(proc-macro)" || source.starts_with("(/"),
            "{package} does not come from the registry"
        );
        let excepted = format!("{{ crate = \"{name}\", allow = [");
        let exceptions = if deny.contains(&excepted) { quoted(&deny, &excepted) } else { BTreeSet::new() };
        let is_allowed = |licence: &str| allowed.contains(licence) || exceptions.contains(licence);
        assert!(is_satisfied(licence, &is_allowed), "{package} is under {licence:?}, which deny.toml does not allow");
    }
}

#[test]
fn expressions_of_licences_are_read_as_they_are_meant() {
    let is_allowed = |licence: &str| ["MIT", "ISC", "Unicode-3.0"].contains(&licence);
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "MIT AND ISC",
        "GPL-3.0 OR MIT AND ISC",
    ] {
        assert!(is_satisfied(good, &is_allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "GPL-3.0 OR MIT AND GPL-2.0"] {
        assert!(!is_satisfied(bad, &is_allowed), "{bad}");
    }
}
