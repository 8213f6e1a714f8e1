//! Files of statements and the answers that PostgreSQL 15 gave, in sqllogictest's format: `sql/tests/logic`. Sessions
//! are asked them without a network, and over sockets.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

/// What a client is told.
#[derive(Debug, Default)]
pub struct Answer {
    /// How many columns there are, if it is a query.
    pub columns: Option<usize>,
    /// The rows; a NULL has no text.
    pub rows: Vec<Vec<Option<String>>>,
    /// What has been done: `INSERT 0 1`.
    pub tag: String,
}

/// An error that a client is told.
#[derive(Debug)]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: String,
    /// The message.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.text, self.code)
    }
}

impl Error for Refusal {}

/// A client that can be asked statements.
pub trait Client: Send {
    /// Asks one statement, or several in a text.
    ///
    /// # Errors
    /// That of the statement.
    fn ask(&mut self, text: &str) -> Result<Answer, Refusal>;
}

/// The files, in the order of their names.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/tests/logic");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(paths.len() >= 3, "{} files", paths.len());
    paths
}

/// Asks the statements of a file. Returns all answers that are not as expected, each with its line.
#[must_use]
pub fn differences<C: Client>(path: &Path, connect: impl Fn() -> C) -> Vec<String> {
    let mut runner = Runner::new(|| async { Ok(Asked(connect())) });
    let records = sqllogictest::parse_file(path).expect("a file of statements");
    records.into_iter().filter_map(|record| runner.run(record).err()).map(|error| error.to_string()).collect()
}

/// A client as the runner asks it.
struct Asked<C>(C);

fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text,
    }
}

impl<C: Client> DB for Asked<C> {
    type Error = Refusal;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, text: &str) -> Result<DBOutput<DefaultColumnType>, Refusal> {
        let answer = self.0.ask(text)?;
        Ok(match answer.columns {
            Some(columns) => DBOutput::Rows {
                types: vec![DefaultColumnType::Text; columns],
                rows: answer.rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect(),
            },
            None => {
                let count = answer.tag.rsplit(' ').next().and_then(|count| count.parse().ok());
                DBOutput::StatementComplete(count.unwrap_or(0))
            }
        })
    }

    fn engine_name(&self) -> &str {
        "quipu"
    }

    fn error_sql_state(refusal: &Refusal) -> Option<String> {
        Some(refusal.code.clone())
    }
}
