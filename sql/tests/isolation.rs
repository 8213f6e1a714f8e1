//! Goal: sessions beside each other see, wait and fail as those of PostgreSQL 15 do. Method: files of cases, in
//! `tests/sessions`; the answers are those that PostgreSQL gave, but where a comment says what it answered.
//!
//! A case begins with `== ` and its name, and has a database of its own, in which the file's lines of `setup:` were
//! run. A line `a: SELECT 1` is sent by session `a`; the lines below it, which begin with spaces, are its answer: a
//! line for each row, `ok` without rows, `ERROR` and a SQLSTATE, or `waits`. The answer of a session that has waited
//! stands below `a:` alone. Other lines are comments.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use quipu_sql::{Result, SqlError};

use crate::sessions::{Answer, Client, database};

/// How long a statement that has to wait is watched.
const WAIT: Duration = Duration::from_millis(150);
/// How long an answer may take.
const LONG: Duration = Duration::from_secs(60);

/// A statement of a session, or the end of a wait, and what is to be answered.
struct Step {
    line: usize,
    session: String,
    statement: Option<String>,
    answer: Vec<String>,
}

struct Case {
    name: String,
    steps: Vec<Step>,
}

/// The statements before each case, and the cases.
fn read(text: &str) -> (Vec<String>, Vec<Case>) {
    let (mut setup, mut cases) = (Vec::new(), Vec::<Case>::new());
    for (number, line) in text.lines().enumerate() {
        if let Some(statement) = line.strip_prefix("setup: ") {
            setup.push(statement.to_owned());
        } else if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name: name.to_owned(), steps: Vec::new() });
        } else if let Some(case) = cases.last_mut() {
            if let Some(answer) = line.strip_prefix("   ") {
                case.steps.last_mut().expect("an answer stands below a statement").answer.push(answer.to_owned());
            } else if let Some((session, statement)) = line.split_once(':').filter(|(name, _)| name.len() == 1) {
                let statement = Some(statement.trim().to_owned()).filter(|statement| !statement.is_empty());
                let (session, line) = (session.to_owned(), number + 1);
                case.steps.push(Step { line, session, statement, answer: Vec::new() });
            }
        }
    }
    (setup, cases)
}

fn shown(result: Result<Answer>) -> Vec<String> {
    match result {
        Err(error) => vec![shown_error(&error)],
        Ok(answer) if answer.rows.is_empty() => vec!["ok".to_owned()],
        Ok(answer) => {
            let value = |value: &Option<String>| value.clone().unwrap_or_default();
            answer.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join("|")).collect()
        }
    }
}

fn shown_error(error: &SqlError) -> String {
    format!("ERROR {}", error.state().code())
}

/// Runs a case. Returns what was answered otherwise than the file says.
fn run(setup: &[String], case: &Case) -> Vec<String> {
    let database = database();
    let first = Client::new(&database, "anna");
    for statement in setup {
        first.send(statement, false).recv().expect("an answer").unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let mut waiting: BTreeMap<&str, Receiver<Result<Answer>>> = BTreeMap::new();
    let mut differences = Vec::new();
    for step in &case.steps {
        let asked = match &step.statement {
            Some(statement) => {
                clients.entry(&step.session).or_insert_with(|| Client::new(&database, "anna")).send(statement, false)
            }
            None => waiting.remove(&*step.session).unwrap_or_else(|| panic!("line {}: it has not waited", step.line)),
        };
        let must_wait = step.answer == ["waits"];
        let answer = match asked.recv_timeout(if must_wait { WAIT } else { LONG }) {
            Ok(result) => shown(result),
            Err(_) => {
                waiting.insert(&step.session, asked);
                vec!["waits".to_owned()]
            }
        };
        if answer != step.answer {
            differences.push(format!("line {} ({}): {answer:?}, not {:?}", step.line, case.name, step.answer));
            // What follows would differ too.
            break;
        }
    }
    differences
}

#[test]
fn sessions_answer_as_those_of_postgresql() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut differences = Vec::new();
    let mut cases_run = 0;
    for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        let (setup, cases) = read(&std::fs::read_to_string(&path).expect("a file"));
        for case in &cases {
            let found = run(&setup, case);
            differences.extend(found.into_iter().map(|found| format!("{}: {found}", path.display())));
        }
        cases_run += cases.len();
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(cases_run >= 20, "{cases_run} cases");
}
