//! INSERT, UPDATE, DELETE, MERGE, and several of them in one statement.

use std::sync::Arc;

use crate::plan::expression::Expr;
use crate::plan::query::{Query, With};
use crate::plan::source::{Scan, Source};
use crate::types::SqlType;

/// A table that is written.
#[derive(Clone, Debug)]
pub struct Target {
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// How to read it; its slots begin the frame.
    pub scan: Arc<Scan>,
    /// The names of its columns, hidden ones among them.
    pub columns: Arc<[Arc<str>]>,
    /// The types of its columns.
    pub types: Arc<[SqlType]>,
    /// Whether two rows may have the same values of a unique key on the way.
    pub has_unique_later: bool,
    /// What new rows keep by the CHECK OPTION of views through which it is written, over its columns.
    pub checks: Vec<Check>,
}

/// A condition of a view.
#[derive(Clone, Debug)]
pub struct Check {
    /// The name of the view.
    pub view: Arc<str>,
    /// The condition, over the columns of the table that the view shows.
    pub condition: Expr,
}

/// OVERRIDING ... VALUE of an INSERT: which of two values for an identity column gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// The number of the table, also where it is generated always.
    System,
    /// The value that is given.
    User,
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
    /// Whether the values are read from the table itself, so that all must be read before the first row is written.
    pub reads_target: bool,
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
    /// The places of its columns; of those that its words name, if it has some.
    pub places: Vec<usize>,
    /// What it is, if it is not its columns alone.
    pub words: Option<Arc<KeyWords>>,
    /// Whether two rows may have the same values on the way.
    pub is_unique_later: bool,
}

/// A unique key of expressions, or of some rows. Expressions are over the columns of a row, from slot 0 on.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyWords {
    /// Its values.
    pub values: Vec<Expr>,
    /// Their types.
    pub types: Vec<SqlType>,
    /// The values as SQL writes them.
    pub names: Vec<String>,
    /// What rows that have the key must keep, all of it.
    pub condition: Vec<Expr>,
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

/// MERGE.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The table.
    pub target: Target,
    /// The rows of USING, each with those of the table that it matches, or with NULLs.
    pub source: Source,
    /// How many slots the frame has.
    pub frame: usize,
    /// What becomes of a row: the first whose condition it keeps.
    pub clauses: Vec<MergeClause>,
}

/// WHEN ... THEN of a MERGE.
#[derive(Clone, Debug)]
pub struct MergeClause {
    /// Whether it is for rows that match one of the table.
    pub is_matched: bool,
    /// Which of them.
    pub condition: Option<Expr>,
    /// What is done.
    pub action: MergeAction,
}

/// What a MERGE does with a row.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// DO NOTHING.
    Nothing,
    /// UPDATE, whose source is not read.
    Update(Box<Update>),
    /// DELETE, whose source is not read.
    Delete(Box<Delete>),
    /// INSERT of values over the frame; its source is not read.
    Insert(Box<Insert>, Vec<Expr>),
}

/// A statement that changes rows.
#[derive(Clone, Debug)]
pub enum Change {
    /// It adds rows.
    Insert(Box<Insert>),
    /// It changes rows.
    Update(Box<Update>),
    /// It removes rows.
    Delete(Box<Delete>),
    /// It does all of these.
    Merge(Box<Merge>),
}

/// A statement with parts that change rows. All see the tables before it.
#[derive(Clone, Debug)]
pub struct Several {
    /// The queries of WITH, in order.
    pub parts: Vec<Part>,
    /// The statement itself.
    pub last: Last,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub enum Part {
    /// It reads.
    Query(With),
    /// It changes rows; later ones know what it gives of them by this number.
    Change(usize, Change),
}

/// What follows WITH.
#[derive(Clone, Debug)]
pub enum Last {
    /// It reads.
    Query(Box<Query>),
    /// It changes rows.
    Change(Change),
}

impl Target {
    /// Whether conditions of views read tables: they read them as they were before the statement.
    pub fn checks_read_tables(&self) -> bool {
        self.checks.iter().any(|check| check.condition.any(&reads_tables))
    }
}

fn reads_tables(part: &Expr) -> bool {
    matches!(part, Expr::Subquery(_))
}

impl Change {
    /// Whether conditions of views or RETURNING read tables: they read them as they were before the statement.
    pub fn reads_tables_of_before(&self) -> bool {
        let returning = match self {
            Change::Insert(insert) => &insert.returning,
            Change::Update(update) => &update.returning,
            Change::Delete(delete) => &delete.returning,
            Change::Merge(_) => &None,
        };
        returning.iter().flatten().any(|output| output.any(&reads_tables)) || self.target().checks_read_tables()
    }

    /// The table that is written.
    pub fn target(&self) -> &Target {
        match self {
            Change::Insert(insert) => &insert.target,
            Change::Update(update) => &update.target,
            Change::Delete(delete) => &delete.target,
            Change::Merge(merge) => &merge.target,
        }
    }

    /// The tag of a statement that is no more than this, without its number.
    pub fn word(&self) -> &'static str {
        match self {
            Change::Insert(_) => "INSERT",
            Change::Update(_) => "UPDATE",
            Change::Delete(_) => "DELETE",
            Change::Merge(_) => "MERGE",
        }
    }
}
