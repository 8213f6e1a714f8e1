//! A trait for all that runs statements: a database of this process, or a server. The shell knows no difference.

use crate::failure::{Failure, Result};
use crate::interrupts::Stop;

/// Oids of types whose values stand at the right, or are not texts in JSON.
mod oids {
    pub(super) const BOOL: u32 = 16;
    pub(super) const JSON: [u32; 2] = [114, 3802];
    /// Whole numbers, fractions, numeric, and numbers of objects.
    pub(super) const NUMBERS: [u32; 7] = [20, 21, 23, 26, 700, 701, 1700];
    /// Numbers in a general sense: transactions, commands.
    pub(super) const COUNTERS: [u32; 3] = [28, 29, 5069];
}

/// A column of a result.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its name.
    pub(super) name: String,
    /// The number of its type, as PostgreSQL has it.
    pub(super) oid: u32,
}

impl Column {
    /// Whether its values stand at the right.
    pub(super) fn is_at_right(&self) -> bool {
        self.is_number() || oids::COUNTERS.contains(&self.oid)
    }

    /// Whether its values are numbers of JSON, but for infinities and NaN.
    pub(super) fn is_number(&self) -> bool {
        oids::NUMBERS.contains(&self.oid)
    }

    /// Whether its values are `t` and `f`.
    pub(super) fn is_bool(&self) -> bool {
        self.oid == oids::BOOL
    }

    /// Whether its values are JSON.
    pub(super) fn is_json(&self) -> bool {
        oids::JSON.contains(&self.oid)
    }
}

/// An error or a notice.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// `ERROR`, `NOTICE`, `WARNING` and their like.
    pub(super) severity: String,
    /// SQLSTATE.
    pub(super) code: String,
    /// What is wrong.
    pub(super) message: String,
    /// More of it.
    pub(super) detail: Option<String>,
    /// What could be done.
    pub(super) hint: Option<String>,
    /// Where in the work it happened.
    pub(super) context: Option<String>,
    /// The place in the text: characters from 1 on.
    pub(super) position: Option<usize>,
}

impl Report {
    /// What a session has said on a channel that this one listens to.
    pub(super) fn of_notification(process: i32, channel: &str, payload: &str) -> Report {
        let payload = if payload.is_empty() { String::new() } else { format!(": {payload}") };
        let message = format!("channel \"{channel}\", process {process}{payload}");
        Report { severity: "NOTIFICATION".to_owned(), message, ..Report::default() }
    }
}

/// Why a statement did not end well.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was refused; the next one may run.
    Refused(Box<Report>),
    /// The output or the connection is gone.
    Lost(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Lost(failure)
    }
}

/// Takes what statements answer, in order.
pub(super) trait Answers {
    /// A result begins.
    fn columns(&mut self, columns: Vec<Column>) -> Result<()>;
    /// A row of it.
    fn row(&mut self, values: &[Option<&str>]) -> Result<()>;
    /// Data of COPY TO STDOUT.
    fn copy_data(&mut self, data: &[u8]) -> Result<()>;
    /// The next data for COPY FROM STDIN; none at its end. An error ends the COPY, not the shell.
    fn copy_in(&mut self) -> Result<Option<Vec<u8>>>;
    /// Something to know.
    fn notice(&mut self, report: &Report) -> Result<()>;
    /// A statement is done.
    fn done(&mut self, tag: &str) -> Result<()>;
}

/// Whether the session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    No,
    Open,
    Failed,
}

/// What runs statements.
pub(super) trait Backend {
    /// Runs a statement to its end.
    fn run(&mut self, text: &str, answers: &mut dyn Answers) -> Result<(), Ended>;
    /// Whether a transaction is open.
    fn transaction(&self) -> Transaction;
    /// What stops a statement, from another thread.
    fn stop(&self) -> Stop;
    /// The name of the database.
    fn database(&self) -> String;
    /// What it is, for a greeting.
    fn title(&self) -> String;
}

/// Rows of a question that the shell itself asks.
#[derive(Debug, Default)]
struct Collected {
    rows: Vec<Vec<String>>,
}

impl Answers for Collected {
    fn columns(&mut self, _columns: Vec<Column>) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[Option<&str>]) -> Result<()> {
        self.rows.push(values.iter().map(|value| value.unwrap_or_default().to_owned()).collect());
        Ok(())
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn copy_in(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn notice(&mut self, _report: &Report) -> Result<()> {
        Ok(())
    }

    fn done(&mut self, _tag: &str) -> Result<()> {
        Ok(())
    }
}

/// The rows of a question, which has few; NULL is an empty text.
pub(super) fn ask(backend: &mut dyn Backend, text: &str) -> Result<Vec<Vec<String>>, Ended> {
    let mut collected = Collected::default();
    backend.run(text, &mut collected)?;
    Ok(collected.rows)
}

/// A text as a constant of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
