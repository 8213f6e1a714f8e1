//! The action of a statement.

use crate::plan::change::{Delete, Insert, Update};
use crate::plan::query::Query;

/// What a statement does.
pub enum Action {
    /// Nothing: its text is empty.
    Empty,
    /// It reads.
    Query(Box<Query>),
    /// It adds rows.
    Insert(Box<Insert>),
    /// It changes rows.
    Update(Box<Update>),
    /// It removes rows.
    Delete(Box<Delete>),
    /// Something else, which is done by its tree.
    Utility,
}
