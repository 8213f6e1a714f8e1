//! Rules for the text of the repository: comments, code and prose in lines of at most 120 columns. Exempt is what
//! cannot be broken: tables and drawings, blocks of code in prose, and lines with a string in them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of a line at most.
const COLUMNS: usize = 120;

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files that Git keeps or would keep, whose names end so. None where the sources are not a checkout.
pub(crate) fn kept_files(root: &Path, extension: &str) -> Vec<String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--", &format!("*.{extension}")];
    let listed = Command::new("git").args(arguments).current_dir(root).output();
    let names = listed.map(|output| String::from_utf8(output.stdout).expect("names are text")).unwrap_or_default();
    names.lines().map(str::to_owned).filter(|name| root.join(name).is_file()).collect()
}

/// The lines of a file that are too long, outside of fenced blocks, and that `may_be_long` does not exempt.
fn long_lines(root: &Path, name: &str, may_be_long: fn(&str) -> bool) -> Vec<String> {
    let text = std::fs::read_to_string(root.join(name)).unwrap();
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let bare = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= bare.starts_with("```");
        if !is_fenced && line.chars().count() > COLUMNS && !may_be_long(bare) {
            found.push(format!("{name}:{}", number + 1));
        }
    }
    found
}

#[test]
fn lines_have_at_most_120_columns() {
    let root = root();
    let mut found = Vec::new();
    for name in kept_files(&root, "rs") {
        // A line that ends in a backslash goes on inside a string; one word cannot be broken.
        found.extend(long_lines(&root, &name, |line| {
            line.contains('"') || line.ends_with('\\') || !line.trim().contains(' ')
        }));
    }
    for name in kept_files(&root, "md") {
        found.extend(long_lines(&root, &name, |line| line.starts_with('|')));
    }
    assert!(found.is_empty(), "break these lines: {found:#?}");
}
