//! Statements that were read and bound, and portals: such a statement with its parameters, and how far it has come.

use std::sync::Arc;

use quipu_rows::RowSnapshot;

use crate::bind::cursors::CursorKey;
use crate::catalogue::Version;
use crate::error::Result;
use crate::execute::context::Running;
use crate::execute::query::QueryCursor;
use crate::execute::row_list::{RowList, RowListCursor};
use crate::plan::action::Action;
use crate::plan::query::{Body, Query};
use crate::session::answer::ResultColumn;
use crate::session::snapshots::Snapshots;
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// A statement that was read, and whose types are known.
pub struct Prepared {
    /// Its text.
    pub text: Arc<str>,
    /// The types of its parameters.
    pub parameters: Vec<SqlType>,
    /// The columns of its result; none if it has no rows.
    pub columns: Option<Vec<ResultColumn>>,
    /// The tree, to be bound again after a change of the catalogue; none of an empty text.
    pub(crate) statement: Option<Statement>,
    /// What is done.
    pub(crate) action: Action,
    /// The catalogue that it was bound over.
    pub(crate) version: Version,
    /// The search path that it was bound with.
    pub(crate) path: Arc<str>,
    /// The version of the rights that it was bound with.
    pub(crate) rights: u64,
    /// Whether its literals are to be read again when its text is: some depend on the time.
    pub(crate) is_dated: bool,
    /// The types that were given for its parameters.
    pub(crate) given: Vec<Option<SqlType>>,
    /// The keys that stand beside the columns in its rows, of the query of a cursor.
    pub(crate) keys: Vec<CursorKey>,
}

impl Prepared {
    /// The snapshot that it names, if it does.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if no snapshot has the name, or its time is over.
    pub(super) fn snapshot(&self, snapshots: &Snapshots) -> Result<Option<RowSnapshot>> {
        let name = self.statement.as_ref().and_then(|statement| statement.snapshot.as_deref());
        name.map(|name| snapshots.find(name)).transpose()
    }

    /// Whether it neither writes nor locks rows: a query without FOR UPDATE, or what begins or rolls back a
    /// transaction, or reads or sets a parameter.
    pub fn only_reads(&self) -> bool {
        match &self.action {
            Action::Empty => true,
            Action::Query(query) => !is_locking(query),
            Action::Utility => self.statement.as_ref().is_some_and(|statement| {
                use sqlparser::ast::Statement::{Rollback, Savepoint, Set, ShowVariable, StartTransaction};
                matches!(
                    statement.tree,
                    StartTransaction { .. } | Rollback { .. } | Savepoint { .. } | Set(_) | ShowVariable { .. }
                )
            }),
            Action::Change(_) | Action::Several(_) => false,
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("text", &self.text).field("parameters", &self.parameters).finish()
    }
}

/// A prepared statement with its parameters, before and while it runs. A result of many rows is read in parts.
pub struct Portal {
    /// The statement.
    pub prepared: Arc<Prepared>,
    /// The values of its parameters.
    pub parameters: Vec<Datum>,
    /// How far it has come.
    pub(crate) state: PortalState,
}

impl Portal {
    /// Whether it has given its last row.
    pub fn is_done(&self) -> bool {
        matches!(self.state, PortalState::Done)
    }

    /// Whether a cursor may stand for it: it is a query's.
    pub fn is_of_query(&self) -> bool {
        matches!(self.prepared.action, Action::Query(_))
    }
}

impl std::fmt::Debug for Portal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portal").field("prepared", &self.prepared).finish()
    }
}

/// How far a portal has come.
#[derive(Default)]
pub(crate) enum PortalState {
    /// It has not begun.
    #[default]
    New,
    /// It reads.
    Rows(Box<RowsState>),
    /// Its rows are there.
    Ready(ReadyRows, String),
    /// It is done.
    Done,
}

/// Rows that are there, and how many of them were taken.
pub(crate) struct ReadyRows(Box<(RowList, RowListCursor)>);

impl ReadyRows {
    /// The next row.
    ///
    /// # Errors
    /// Those of reading files.
    pub(super) fn next(&mut self) -> Result<Option<&[Datum]>> {
        let (rows, cursor) = &mut *self.0;
        Ok(cursor.next(rows)?.map(|(_, row)| row))
    }

    /// How many there are, those that were taken among them.
    pub(super) fn len(&self) -> usize {
        self.0.0.len()
    }
}

impl<R: Into<RowList>> From<R> for ReadyRows {
    fn from(rows: R) -> ReadyRows {
        ReadyRows(Box::new((rows.into(), RowListCursor::default())))
    }
}

/// A portal that reads.
pub(crate) struct RowsState {
    pub(super) prepared: Arc<Prepared>,
    pub(super) cursor: QueryCursor,
    pub(super) running: Running,
    /// What it reads outside of a transaction.
    pub(super) snapshot: Option<RowSnapshot>,
    /// A row that was read to see whether there is one.
    pub(super) first: Option<Vec<Datum>>,
}

/// Whether a query locks the rows that it gives.
pub(super) fn is_locking(query: &Query) -> bool {
    matches!(&query.body, Body::Select(select) if select.lock.is_some())
}
