//! Answers of its parts that a statement keeps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::execute::row_list::RowList;
use crate::plan::query::Recursion;
use crate::types::datum::Datum;

/// Rows that are kept.
pub type Kept = Arc<Vec<Vec<Datum>>>;

/// Rows that were there already: see [`Running::is_new`](crate::execute::context::Running::is_new).
#[derive(Default)]
pub(crate) struct Seen {
    pub(super) rows: HashSet<Vec<Datum>>,
}

/// The rows of a query of WITH.
pub(crate) enum WithRows {
    /// All of them.
    All(Arc<RowList>),
    /// Those of a recursive one that were asked for.
    Growing(Box<Growing>),
}

/// Rows of a recursive query.
pub(crate) struct Growing {
    pub(crate) rows: Vec<Vec<Datum>>,
    /// Where those of the last round begin.
    pub(crate) last_round: usize,
    /// Rows that were given, if equal ones are dropped.
    pub(crate) seen: Seen,
    pub(crate) recursion: Arc<Recursion>,
    /// What the query around gives to the part that is run again.
    pub(crate) arguments: Vec<Datum>,
    /// Bytes that the rows of all rounds take, about.
    pub(crate) bytes: usize,
}

/// What a sub-select has found.
pub(crate) struct Found {
    pub(crate) arguments: Vec<Datum>,
    pub(crate) answer: Answer,
    /// Bytes that the answer takes, about.
    pub(crate) bytes: usize,
}

/// The answer of a sub-select for its arguments.
#[derive(Clone)]
pub(crate) enum Answer {
    Value(Datum),
    /// Its rows.
    Rows(Kept),
    /// The sorted values of its one column, and whether there was a NULL among them.
    Set(Arc<(Vec<Datum>, bool)>),
    /// Its rows, of which one is searched: those without NULL, sorted, and those with one.
    Sorted {
        known: Kept,
        open: Kept,
    },
}

/// What a statement knows of a scan that has a [`Lookup`](crate::plan::source::Lookup).
pub(crate) enum Asked {
    /// So many rows were read, and none is kept.
    Read(u64),
    /// All rows are kept.
    Kept(Arc<RowsByValue>),
    /// The rows take too much memory.
    TooLarge,
}

/// The rows of a scan, by the values of columns.
pub(crate) struct RowsByValue {
    /// The columns that the scan reads, row by row.
    pub(crate) rows: Vec<Vec<Datum>>,
    pub(crate) by_key: HashMap<Vec<Datum>, Arc<[usize]>>,
}
