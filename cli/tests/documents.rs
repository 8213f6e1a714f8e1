//! The tutorial runs as it is written: each command of `docs/tutorial.md` in turn, by a shell, and each answer is
//! compared. In an answer `...` stands for any text of the line, and a line of `...` for any lines.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The commands of all blocks of `console`, each with its answer.
fn sessions(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("the end of a block");
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                found.push((command.to_owned(), Vec::new()));
                continue;
            }
            let (command, answer) = found.last_mut().expect("a command comes first");
            if command.ends_with('\\') {
                command.push('\n');
                command.push_str(line);
            } else {
                answer.push(line.to_owned());
            }
        }
    }
    found
}

/// Whether a line is as it is expected.
fn fits(line: &str, expected: &str) -> bool {
    let mut parts = expected.trim_end().split("...");
    let Some(mut rest) = line.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || is_open
}

/// Whether all lines are as they are expected.
fn all_fit(lines: &[&str], expected: &[String]) -> bool {
    match (expected, lines) {
        ([], _) => lines.is_empty(),
        ([any, rest @ ..], _) if any == "..." => (0..=lines.len()).any(|skipped| all_fit(&lines[skipped..], rest)),
        ([first, rest @ ..], [line, lines @ ..]) => fits(line, first) && all_fit(lines, rest),
        _ => false,
    }
}

#[test]
fn the_tutorial_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository");
    let page = std::fs::read_to_string(root.join("docs/tutorial.md")).expect("the page");
    let place = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(root.join("data"), place.path().join("data")).expect("a link");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_quipu"));
    let mut path = program.parent().expect("its directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let sessions = sessions(&page);
    assert!(sessions.len() > 10, "the commands are not found");
    for (command, expected) in sessions {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("({command}) 2>&1")]).env("PATH", &path).current_dir(place.path());
        let output = shell.output().expect("a shell");
        let answer = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = answer.lines().collect();
        assert!(all_fit(&lines, &expected), "$ {command}\n{answer}\nthe page has:\n{}", expected.join("\n"));
    }
}
