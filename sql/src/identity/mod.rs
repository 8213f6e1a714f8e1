//! The identity of a session: its user and database, and what its client has told it.

use std::sync::Arc;

use quipu_rows::Timestamp;

pub mod kept;
pub mod rights;
pub mod settings;

use kept::Kept;
use rights::Rights;
use settings::Settings;

use crate::functions::identifiers::folded_letter;
use crate::limits::{Canceller, Limits};
use crate::notifications::Mailbox;
use crate::row_files::TemporaryFiles;

/// Who a session is of, and what it was told.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user.
    pub user: Arc<str>,
    /// What it may do.
    pub rights: Arc<dyn Rights>,
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
    /// Where its statements put rows beyond their memory.
    pub temporary_files: TemporaryFiles,
}

impl Identity {
    /// The schemas in which names without one are looked for, that of temporary tables among them.
    pub fn search_path(&self) -> Vec<String> {
        let written = self.settings.search_path();
        let own = || self.temporary_schema.to_string();
        let name = |name: String| match &*name {
            "$user" => self.user.to_string(),
            "pg_temp" => own(),
            _ => name,
        };
        let mut path: Vec<String> = names_of(written).into_iter().map(name).collect();
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
            temporary_files: Some(self.temporary_files.clone()),
            file_bytes: self.settings.temporary_file_bytes(),
        }
    }
}

/// The names of a list: those in quotes as they are, others in small letters.
fn names_of(written: &str) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = written.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => name.push('"'),
            '"' => is_quoted = !is_quoted,
            letter if is_quoted => name.push(letter),
            ',' => names.push(std::mem::take(&mut name)),
            letter if letter.is_whitespace() => {}
            letter => name.push(folded_letter(letter)),
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}
