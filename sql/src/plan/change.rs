//! INSERT, UPDATE, DELETE.

use std::sync::Arc;

use crate::plan::expression::Expr;
use crate::plan::query::Query;
use crate::plan::source::{Scan, Source};

/// A table that is written.
#[derive(Clone, Debug)]
pub struct Target {
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// How to read it; its slots begin the frame.
    pub scan: Arc<Scan>,
    /// The names of its columns, hidden ones among them.
    pub columns: Arc<[Arc<str>]>,
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The table.
    pub target: Target,
    /// The places of the columns that are given, in the order of the values.
    pub places: Vec<usize>,
    /// The values, one for each place; none for a row of defaults.
    pub source: Option<Query>,
    /// Columns that are not given and have a default: their places, and what it is.
    pub defaults: Vec<(usize, Expr)>,
    /// The unique keys of the table, which a new row takes.
    pub unique: Vec<ConflictKey>,
    /// Whether given numbers replace those of identity columns that always have their own.
    pub is_overriding: bool,
    /// What happens to a row whose key another one has.
    pub conflict: Option<Conflict>,
    /// What is given of each row, over the frame of the target.
    pub returning: Option<Vec<Expr>>,
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The unique keys that are looked at: the primary key if no index is named; all if the list is empty.
    pub keys: Vec<ConflictKey>,
    /// What the row that is there becomes; it stays as it is if none. The frame: the row that is there, then the one
    /// that was to come.
    pub update: Option<ConflictUpdate>,
}

/// A unique key.
#[derive(Clone, Debug, PartialEq)]
pub struct ConflictKey {
    /// The index; the primary key if none.
    pub index: Option<Arc<str>>,
    /// The places of its columns.
    pub places: Vec<usize>,
}

/// ON CONFLICT DO UPDATE.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// New values by the places of columns.
    pub sets: Vec<(usize, Expr)>,
    /// Which rows are changed.
    pub condition: Option<Expr>,
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// The table.
    pub target: Target,
    /// Its rows, with those of FROM.
    pub source: Source,
    /// How many slots the frame has.
    pub frame: usize,
    /// New values by the places of columns.
    pub sets: Vec<(usize, Expr)>,
    /// The unique keys that these columns belong to.
    pub unique: Vec<ConflictKey>,
    /// What is given of each row, over the frame, with the new values of the target.
    pub returning: Option<Vec<Expr>>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The table.
    pub target: Target,
    /// Its rows, with those of USING.
    pub source: Source,
    /// How many slots the frame has.
    pub frame: usize,
    /// What is given of each row, over the frame.
    pub returning: Option<Vec<Expr>>,
}
