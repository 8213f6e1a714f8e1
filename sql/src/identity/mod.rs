//! The identity of a session: its user and database, and what its client has told it.

use std::sync::Arc;

use quipu_rows::Timestamp;

pub mod kept;
pub mod settings;

use kept::Kept;
use settings::Settings;

use crate::limits::{Canceller, Limits};
use crate::notifications::Mailbox;

/// Who a session is of, and what it was told.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// Its prepared statements and cursors.
    pub kept: Kept,
    /// The schema of its temporary tables, which is there once it has one.
    pub temporary_schema: Arc<str>,
    /// The number of the connection.
    pub process: i32,
    /// The parameters.
    pub settings: Arc<Settings>,
    /// When the transaction began.
    pub transaction_time: Timestamp,
    /// When the statement began.
    pub statement_time: Timestamp,
    /// Cancels the statement that runs.
    pub canceller: Canceller,
    /// Where notifications come.
    pub mailbox: Arc<Mailbox>,
}

impl Identity {
    /// The schemas in which names without one are looked for, that of temporary tables among them.
    pub fn search_path(&self) -> Vec<String> {
        let written = self.settings.search_path();
        let own = || self.temporary_schema.to_string();
        let name = |part: &str| match part.trim().trim_matches('"') {
            "$user" => self.user.to_string(),
            "pg_temp" => own(),
            name => name.to_owned(),
        };
        let mut path: Vec<String> = written.split(',').map(name).filter(|name| !name.is_empty()).collect();
        if !path.iter().any(|name| **name == *self.temporary_schema) {
            path.insert(0, own());
        }
        path
    }

    /// When a statement that begins now is stopped.
    pub fn limits(&self) -> Limits {
        Limits {
            canceller: self.canceller.clone(),
            deadline: self.settings.statement_timeout().map(|timeout| crate::clock::moment() + timeout),
            memory: self.settings.statement_memory(),
        }
    }
}
