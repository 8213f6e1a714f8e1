//! Goal: the pages that are made from tables say what the tables say.
//! Method: each page is made and compared; with UPDATE_DOCS=1 it is written.

use std::path::Path;

use quipu_server::config::{Config, file, reference};

/// Compares what a table gives with the file that has it.
#[expect(clippy::disallowed_methods, reason = "a page of the documentation is written")]
fn is_written(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/{name} is stale: UPDATE_DOCS=1 cargo test -p quipu-server --test all reference");
}

#[test]
fn the_page_of_commands_is_of_this_table() {
    is_written("commands.md", &quipu_server::facts::reference::markdown());
}

#[test]
fn the_page_of_parameters_and_the_example_are_of_this_table() {
    is_written("configuration.md", &reference::markdown());
    is_written("quipu.toml", &reference::example());
}

/// Each line of the example may be taken as it stands.
#[test]
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn the_example_sets_every_parameter_to_its_default() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("quipu.toml");
    let is_setting =
        |line: &&str| line.strip_prefix("# ").is_some_and(|rest| rest.contains(" = ") && !rest.contains("--config"));
    let example = reference::example();
    let (parameters, _) = example.split_once("# --- Users").expect("users come last");
    let settings: Vec<&str> = parameters.lines().filter(is_setting).map(|line| &line[2..]).collect();
    assert!(settings.len() > 40, "{settings:?}");
    // What has no default is not set to an empty text.
    let settings: Vec<&str> = settings.into_iter().filter(|line| !line.ends_with(" = \"\"")).collect();
    std::fs::write(&path, settings.join("\n")).expect("a file");
    let (mut config, defaults) = (Config::default(), Config::default());
    let names = file::read(&mut config, &path).expect("a configuration");
    assert_eq!(names.len(), settings.len());
    config.file = None;
    assert_eq!(format!("{config:?}"), format!("{defaults:?}"));
}
