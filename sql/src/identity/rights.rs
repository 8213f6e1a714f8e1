//! Rights of the user of a session: what it may do. They are given when the session is opened, by a server from the
//! rules of its users.
//!
//! Not here: where a statement is asked for them (`catalogue/lookup`, `session/permission`).

use std::fmt;

use crate::error::{Result, SqlError, SqlState};

/// What may be done with a table, a view or a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Its rows may be read.
    Select,
    /// Rows may be added.
    Insert,
    /// Rows may be changed and locked, and numbers be taken from a sequence.
    Update,
    /// Rows may be removed.
    Delete,
    /// All rows may be removed at once.
    Truncate,
}

impl Right {
    /// All of them.
    pub const ALL: [Right; 5] = [Right::Select, Right::Insert, Right::Update, Right::Delete, Right::Truncate];

    /// Its name, as `information_schema` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Right::Select => "SELECT",
            Right::Insert => "INSERT",
            Right::Update => "UPDATE",
            Right::Delete => "DELETE",
            Right::Truncate => "TRUNCATE",
        }
    }
}

/// Answers what a user may do at the moment. Rights may change while a session is open.
pub trait Rights: fmt::Debug + Send + Sync {
    /// Whether everything is allowed: definitions too, and what is about the sessions of other users.
    fn has_all(&self) -> bool;

    /// Whether this may be done with a relation of this schema and name.
    fn has(&self, right: Right, schema: &str, name: &str) -> bool;

    /// A number that is another one whenever an answer may have changed.
    fn version(&self) -> u64;
}

/// The rights of a user that may do everything.
#[derive(Clone, Copy, Debug)]
pub struct AllRights;

impl Rights for AllRights {
    fn has_all(&self) -> bool {
        true
    }

    fn has(&self, _right: Right, _schema: &str, _name: &str) -> bool {
        true
    }

    fn version(&self) -> u64 {
        0
    }
}

/// Refuses what a user may not do; `what` says which it is, as in "table orders".
///
/// # Errors
/// [`INSUFFICIENT_PRIVILEGE`](SqlState::INSUFFICIENT_PRIVILEGE).
pub fn require_all(rights: &dyn Rights, what: &str) -> Result<()> {
    if rights.has_all() { Ok(()) } else { Err(denied(what).with_hint("Users with the rules ~* and +@all may do it.")) }
}

/// That a right is missing to something.
pub fn denied(what: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {what}"))
}
