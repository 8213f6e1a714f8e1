//! PostgreSQL beside the database: `psql` runs a file of statements, and says what each did.

use std::fmt::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::world::Outcome;

/// What PostgreSQL does with statements, one by one, in an empty schema: the outcome of each, and the types of its
/// columns. `psql` finds the server by the usual variables (`PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE`).
#[expect(clippy::disallowed_methods, reason = "a file of statements for psql is no file of a database")]
pub(super) fn run(statements: &[String]) -> Vec<(Outcome, Vec<String>)> {
    /// Tests run beside each other, and the schema is one.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut script = String::from(
        "\\set QUIET on\n\\set VERBOSITY sqlstate\n\\pset null NULL\n\\pset fieldsep '|'\n\\pset tuples_only on\n\
         set client_min_messages = error; set timezone = 'UTC'; drop schema public cascade; create schema public;\n\
         \\set QUIET off\n",
    );
    for (number, statement) in statements.iter().enumerate() {
        let _ = write!(script, "\\echo @@{number}\n{statement};\n");
        if is_query(statement) {
            let _ = write!(script, "\\echo @@types\n{statement} \\gdesc\n");
        }
    }
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("statements.sql");
    std::fs::write(&path, script).expect("written");
    let command = format!("psql -X -A -f '{}' 2>&1", path.display());
    let output = Command::new("sh").args(["-c", &command]).output().expect("psql runs");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut answers = Vec::new();
    let mut lines = output.lines().skip_while(|line| *line != "@@0");
    lines.next();
    for (number, statement) in statements.iter().enumerate() {
        let next = format!("@@{}", number + 1);
        let all: Vec<&str> = lines.by_ref().take_while(|line| **line != next).collect();
        answers.push(answer(statement, &all));
    }
    answers
}

/// Whether a statement answers rows alone.
fn is_query(statement: &str) -> bool {
    ["SELECT", "WITH", "(", "VALUES"].iter().any(|word| statement.starts_with(word))
}

fn answer(statement: &str, lines: &[&str]) -> (Outcome, Vec<String>) {
    let (lines, described) = match lines.iter().position(|line| *line == "@@types") {
        Some(at) => (&lines[..at], &lines[at + 1..]),
        None => (lines, &lines[..0]),
    };
    let type_of = |line: &&str| line.rsplit('|').next().unwrap_or_default().to_owned();
    if let Some(error) = lines.iter().find_map(|line| line.split_once("ERROR:  ")) {
        return (Outcome::Error(error.1.chars().take(5).collect()), Vec::new());
    }
    let mut rows: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let tag = if is_query(statement) { String::new() } else { rows.pop().unwrap_or_default() };
    (Outcome::Done { rows, tag }, described.iter().map(type_of).collect())
}
