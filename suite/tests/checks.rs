//! The checks of the repository, checked: no step of CI is forgotten, and no file of tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[expect(clippy::disallowed_methods, reason = "files of the repository, not of a database")]
fn read(path: &str) -> String {
    String::from_utf8(std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))).expect("text")
}

/// The steps that a script runs: in any case, and only if a change touches what they guard, with the pattern of that.
fn steps_of(script: &str) -> (BTreeSet<String>, Vec<(String, String)>) {
    let (mut always, mut guarded) = (BTreeSet::new(), Vec::new());
    for line in read(script).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["step" | "beside", _minutes, name] => drop(always.insert(name.to_owned())),
            ["step_if" | "beside_if", pattern, _minutes, name] => {
                guarded.push((name.to_owned(), pattern.trim_matches('\'').to_owned()));
            }
            _ => {}
        }
    }
    (always, guarded)
}

/// Each step is run by the gate or by the nightly script, and what the gate may leave out by the nightly one.
#[test]
fn every_step_is_run_somewhere() {
    let text = read(".ci/steps");
    let defined: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("step_"))
        .filter_map(|line| Some(line.split_once("()")?.0.to_owned()))
        .filter(|name| name != "if")
        .collect();
    assert!(defined.len() > 15, "the steps are not found: {defined:?}");
    let ((gate, guarded), (nightly, of_nightly)) = (steps_of(".ci/run"), steps_of(".ci/nightly"));
    assert!(of_nightly.is_empty(), "the nightly script leaves nothing out: {of_nightly:?}");
    let guarded_names: BTreeSet<String> = guarded.iter().map(|(name, _)| name.clone()).collect();
    let called: BTreeSet<String> = gate.iter().chain(&guarded_names).chain(&nightly).cloned().collect();
    assert_eq!(called, defined, "a step is called that is not there, or is there and never called");
    let lost: Vec<&String> = guarded_names.difference(&nightly).collect();
    assert!(lost.is_empty(), "the gate may leave these out, and the nightly script has them not: {lost:?}");
}

/// A guard whose paths were renamed would leave its step out for ever.
#[test]
fn every_guard_names_files_that_exist() {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().expect("git");
    let files = String::from_utf8(listed.stdout).expect("names are text");
    if files.is_empty() {
        return; // The sources are not a checkout.
    }
    for (name, pattern) in steps_of(".ci/run").1 {
        for path in paths_of(&pattern) {
            assert!(files.lines().any(|file| file.starts_with(&path)), "{name}: there is no {path}");
        }
    }
}

/// The beginnings of paths that a pattern like `^engine/src/(page|tree)/` or `^(python|rows)/` stands for.
fn paths_of(pattern: &str) -> Vec<String> {
    let pattern = pattern.strip_prefix('^').unwrap_or_else(|| panic!("{pattern} begins at the root"));
    let Some((before, rest)) = pattern.split_once('(') else { return vec![pattern.to_owned()] };
    let (choices, after) = rest.split_once(')').expect("a closed group");
    choices.split('|').map(|choice| format!("{before}{choice}{after}")).collect()
}

/// Cargo runs only the programs that a manifest names, so a file that no program includes is never run.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let mut seen = 0;
    for manifest in read("Cargo.toml").split('"').filter(|member| root().join(member).join("tests").is_dir()) {
        let tests = root().join(manifest).join("tests");
        let files = std::fs::read_dir(&tests).expect("the folder of tests");
        let names: BTreeSet<String> = files
            .filter_map(|file| {
                file.expect("a file").file_name().into_string().ok()?.strip_suffix(".rs").map(str::to_owned)
            })
            .collect();
        let cargo = read(&format!("{manifest}/Cargo.toml"));
        let is_program = |name: &String| {
            !cargo.contains("autotests = false") || cargo.contains(&format!("[[test]]\nname = \"{name}\""))
        };
        let programs: Vec<&String> = names.iter().filter(|name| is_program(name)).collect();
        let text: String = programs.iter().map(|name| read(&format!("{manifest}/tests/{name}.rs"))).collect();
        for name in names.iter().filter(|name| !is_program(name)) {
            assert!(text.contains(&format!("mod {name};")), "{manifest}/tests/{name}.rs is in no program of tests");
            seen += 1;
        }
    }
    assert!(seen > 50, "the tests are not found");
}

/// What a script says that has the functions of the steps, in this directory.
fn said_in(directory: &Path, script: &str) -> String {
    let script = format!("source '{}'\ncd '{}'\n{script}", root().join(".ci/steps").display(), directory.display());
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A check whose line also has a message was left out as a message; a message that Python's tests expect was no change.
#[test]
fn a_change_of_messages_is_one_but_not_of_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = said_in(
        directory.path(),
        r#"
        git init -q . && git config user.email a@b && git config user.name a
        for file in comment message check long gone; do echo 'assert!(a < b, "it is too long here"); // why' >$file.rs; done
        git add . && git commit -qm first
        printf '// another\n' >>comment.rs
        echo 'assert!(a < b, "it is \"much\" too long"); // why' >message.rs
        echo 'assert!(a <= b, "it is too long here"); // why' >check.rs
        printf 'assert!(\n    a < b,\n    "another"\n); // why\n' >long.rs
        rm gone.rs; echo new >new.rs
        export BASE=HEAD
        echo all: $(changed); echo code: $(changed code)"#,
    );
    assert_eq!(said, "all: check.rs gone.rs long.rs message.rs new.rs\ncode: check.rs gone.rs new.rs\n");
}

/// A step that began when nothing was left had no limit at all, nor had those beside it the limit of the gate.
#[test]
fn no_step_outlasts_the_gate() {
    let script = "gate_minutes=45; for SECONDS in 0 2640 2700 9999; do limit_of 5; done";
    assert_eq!(said_in(&root(), script), "300\n60\n1\n1\n");
}
