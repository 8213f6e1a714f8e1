//! Runs pages of the documentation: each command of the tutorial and of the server's first pages, by a shell, and
//! compares each answer. In an answer `...` stands for any text of the line, and a line of `...` for any lines.
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::Place;
#[cfg(feature = "server")]
use crate::program::free_port;

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

/// The root of the repository, and a page of it.
fn page(name: &str) -> (PathBuf, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository");
    let page = std::fs::read_to_string(root.join(name)).expect("the page");
    (root, page)
}

/// Runs each command of a page in turn, with the program at the end of these directories, and compares the answers.
fn run(page: &str, place: &Place, first: Option<&Path>) -> usize {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_quipu"));
    let mut path = first.map(|first| first.as_os_str().to_owned()).unwrap_or_default();
    path.push(":");
    path.push(program.parent().expect("its directory"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let sessions = sessions(page);
    for (command, expected) in &sessions {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("({command}\n) 2>&1")]).env("PATH", &path).current_dir(place.path(""));
        let output = shell.output().expect("a shell");
        let answer = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = answer.lines().collect();
        assert!(all_fit(&lines, expected), "$ {command}\n{answer}\nthe page has:\n{}", expected.join("\n"));
    }
    sessions.len()
}

#[test]
fn the_tutorial_runs() {
    let (root, page) = page("docs/tutorial.md");
    let place = Place::new();
    std::os::unix::fs::symlink(root.join("data"), place.path("data")).expect("a link");
    assert!(run(&page, &place, None) > 10, "the commands are not found");
}

/// What the pages have Redis's shell and `curl` ask a server: the shell of the program, which answers as that of Redis,
/// and `curl` at another port. Commands of `curl` are left out if it is not installed.
#[test]
#[cfg(feature = "server")]
fn the_first_pages_of_the_server_run() {
    use std::os::unix::fs::PermissionsExt;

    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    for name in ["README.md", "docs/getting-started-server.md"] {
        let (_, page) = page(name);
        let (port, http_port) = (free_port().to_string(), free_port().to_string());
        let place = Place::new();
        let _server = place.serve(&["--port", &port, "--http-port", &http_port]);
        std::fs::create_dir(place.path("bin")).expect("a directory");
        for (command, script) in [
            (
                "redis-cli",
                format!(
                    "line=\nfor word; do line=\"$line \\\"$word\\\"\"; done\n\
                     exec quipu shell --connect 127.0.0.1:{port} -c \"$line\""
                ),
            ),
            (
                "curl",
                format!(
                    "for word; do shift; set -- \"$@\" \"$(echo \"$word\" | sed s/:8080/:{http_port}/)\"; done\n\
                     PATH=\"${{PATH#*:}}\" exec curl --silent \"$@\""
                ),
            ),
        ] {
            place.write(&format!("bin/{command}"), format!("#!/bin/sh\n{script}\n"));
            let may_run = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(place.path(&format!("bin/{command}")), may_run).expect("it may be run");
        }
        let is_run = |block: &&str| {
            let first = block.lines().next().unwrap_or_default();
            first.starts_with("$ redis-cli") || has_curl && first.starts_with("$ curl")
        };
        let blocks = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
        let blocks: Vec<String> = blocks.filter(is_run).map(|block| format!("```console\n{block}```\n")).collect();
        assert!(run(&blocks.concat(), &place, Some(&place.path("bin"))) > 3, "{name}: the commands are not found");
    }
}
