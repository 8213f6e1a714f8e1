//! The action of a statement.

use crate::plan::change::{Change, Several};
use crate::plan::query::Query;

/// What a statement does.
pub enum Action {
    /// Nothing: its text is empty.
    Empty,
    /// It reads.
    Query(Box<Query>),
    /// It changes rows.
    Change(Change),
    /// It has parts that change rows.
    Several(Box<Several>),
    /// Something else, which is done by its tree.
    Utility,
}
