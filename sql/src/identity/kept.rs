//! Prepared statements and cursors of a session, as `pg_prepared_statements` and `pg_cursors` tell of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu_rows::Timestamp;

use crate::types::SqlType;

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct KeptStatement {
    /// Its text.
    pub text: Arc<str>,
    /// When it was prepared.
    pub prepared: Timestamp,
    /// The types of its parameters.
    pub parameters: Vec<SqlType>,
    /// Whether it is one of PREPARE, not of the protocol.
    pub is_from_sql: bool,
}

/// A cursor of DECLARE.
#[derive(Clone, Debug)]
pub struct KeptCursor {
    /// The text that declared it.
    pub text: Arc<str>,
    /// When it was declared.
    pub declared: Timestamp,
    /// Whether it stays after its transaction.
    pub is_held: bool,
}

/// Those of a session, by their names.
#[derive(Debug, Default)]
pub struct Lists {
    /// The statements.
    pub statements: BTreeMap<String, KeptStatement>,
    /// The cursors.
    pub cursors: BTreeMap<String, KeptCursor>,
}

/// Those of a session, to its own statements.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<Lists>>);

impl Kept {
    /// The lists.
    pub fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
