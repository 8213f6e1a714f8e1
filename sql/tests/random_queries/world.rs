//! A database with what a test puts into it, and what statements answer there.

use super::super::sessions::{Client, database};

/// What a statement did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done {
        rows: Vec<String>,
        /// What the statement says that it did; empty for queries.
        tag: String,
    },
    /// The SQLSTATE of its error, or `panic`.
    Error(String),
}

impl Outcome {
    /// The outcome with its rows in a fixed order.
    pub(super) fn sorted(mut self) -> Outcome {
        if let Outcome::Done { rows, .. } = &mut self {
            rows.sort();
        }
        self
    }
}

/// A database, and a session that is open there.
pub(super) struct World {
    client: Client,
}

impl World {
    /// A database in which the statements have been run; those that fail have done nothing.
    pub(super) fn new(statements: &[String]) -> World {
        let world = World { client: Client::new(&database(), "anna") };
        world.run("SET join_reorder_ms = 0", false);
        let mut savepoint = None;
        for statement in statements {
            if let Some(name) = statement.strip_prefix("SAVEPOINT ") {
                savepoint = Some(name);
            }
            if let (Outcome::Error(_), Some(name)) = (world.run(statement, false), savepoint) {
                world.run(&format!("ROLLBACK TO {name}"), false);
            }
        }
        world
    }

    /// Runs a statement.
    pub(super) fn run(&self, text: &str, is_prepared: bool) -> Outcome {
        self.described(text, is_prepared).0
    }

    /// Runs a statement that keeps hardly any rows in memory. If it is refused, a transaction that is open goes on.
    pub(super) fn run_with_files(&self, text: &str) -> Outcome {
        // Outside of a transaction these two are errors, which change nothing.
        self.run("SAVEPOINT with_files", false);
        self.run("SET statement_memory = '8kB'", false);
        let outcome = self.run(text, false);
        self.run("ROLLBACK TO with_files", false);
        self.run("RESET statement_memory", false);
        outcome
    }

    /// Runs a statement. Returns the types of its columns, too.
    pub(super) fn described(&self, text: &str, is_prepared: bool) -> (Outcome, Vec<String>) {
        match self.client.send(text, is_prepared).recv() {
            Err(_) => (Outcome::Error("panic".to_owned()), Vec::new()),
            Ok(Err(error)) => (Outcome::Error(error.state().code().to_owned()), vec![error.to_string()]),
            Ok(Ok(answer)) => {
                let shown = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
                let line = |row: Vec<Option<String>>| row.into_iter().map(shown).collect::<Vec<_>>().join("|");
                let types = answer.types.iter().map(ToString::to_string).collect();
                let tag = if answer.tag.starts_with("SELECT") { String::new() } else { answer.tag };
                (Outcome::Done { rows: answer.rows.into_iter().map(line).collect(), tag }, types)
            }
        }
    }
}
