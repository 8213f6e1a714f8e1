//! A cursor of DECLARE: its portal, and the row that it stands on.

use std::collections::HashMap;
use std::sync::Arc;

use sqlparser::ast;

use crate::bind::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::session::portal::{Portal, Prepared};
use crate::statement::Statement;
use crate::types::datum::Datum;

/// A cursor of DECLARE.
pub(crate) struct Cursor {
    pub(super) portal: Portal,
    /// Whether it stays after its transaction.
    pub(super) is_held: bool,
    /// Whether its transaction is over.
    pub(super) is_past: bool,
    /// All its rows, if it goes backwards, and which one it stands on: 0 before the first.
    pub(super) rows: Option<(Vec<Vec<Datum>>, usize)>,
    /// The values after the columns of the row that it stands on: the keys of its tables.
    pub(super) current: Option<Vec<Datum>>,
}

impl Cursor {
    /// Its statement.
    pub(super) fn prepared(&self) -> &Arc<Prepared> {
        &self.portal.prepared
    }

    /// Notes the end of its transaction. Returns whether it stays.
    pub(super) fn stays_after_transaction(&mut self) -> bool {
        self.is_past = true;
        self.is_held
    }

    pub(super) fn columns(&self) -> usize {
        self.prepared().columns.as_ref().map_or(0, Vec::len)
    }

    /// Takes the keys from rows that it gives, and notes those of the last one, on which it stands if it `stays` there.
    pub(super) fn give(&mut self, rows: &mut [Vec<Datum>], stays: bool) {
        let columns = self.columns();
        self.current = None;
        let mut last = None;
        for row in rows {
            last = Some(row.split_off(columns.min(row.len())));
        }
        self.current = last.filter(|_| stays);
    }

    /// The primary key of the row of a table, which has this name, that it stands on.
    pub(super) fn key_of(&self, (table, name): (&str, &str), cursor: &str) -> Result<&[Datum]> {
        let wrong = |what: String| Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, what));
        if self.is_past {
            return wrong(format!("cursor \"{cursor}\" is held from a previous transaction"));
        }
        let mut keys = self.prepared().keys.iter().filter(|key| *key.table == *table);
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return wrong(format!("cursor \"{cursor}\" is not a simply updatable scan of table \"{name}\""));
        };
        let first = key.first - self.columns();
        let values = self.current.as_ref().map(|keys| &keys[first..first + key.count]);
        // A row without a pair in an outer join has none.
        match values.filter(|values| !values.iter().any(Datum::is_null)) {
            Some(values) => Ok(values),
            None => wrong(format!("cursor \"{cursor}\" is not positioned on a row")),
        }
    }
}

/// The cursor that a statement names, if it is DECLARE, FETCH, MOVE or CLOSE.
pub fn named_cursor(statement: &Statement) -> Option<String> {
    match &statement.tree {
        ast::Statement::Declare { stmts } => stmts.first().and_then(|declare| declare.names.first()).map(folded),
        ast::Statement::Fetch { name, .. } | ast::Statement::Close { cursor: ast::CloseCursor::Specific { name } } => {
            Some(folded(name))
        }
        _ => None,
    }
}

impl Prepared {
    /// The cursor that it names, if it is DECLARE, FETCH, MOVE or CLOSE.
    pub fn named_cursor(&self) -> Option<String> {
        self.statement.as_ref().and_then(named_cursor)
    }
}

/// Lends a portal of the protocol to a session, as a cursor of its name, while a statement runs that may name it. The
/// session must have no cursor of this name.
pub fn lend_portal(session: &mut Session, name: &str, portal: Portal) {
    let cursor = Cursor { portal, is_held: false, is_past: false, rows: None, current: None };
    session.cursors.insert(name.to_owned(), cursor);
}

/// Takes a portal back that was lent; none if it was closed.
pub fn take_portal_back(session: &mut Session, name: &str) -> Option<Portal> {
    session.cursors.remove(name).map(|cursor| cursor.portal)
}

/// Closes a cursor, if it is there.
pub fn close_cursor(session: &mut Session, name: &str) -> bool {
    session.identity.kept.lists().cursors.remove(name);
    session.cursors.remove(name).is_some()
}

pub(super) fn cursor_named<'c>(cursors: &'c HashMap<String, Cursor>, name: &str) -> Result<&'c Cursor> {
    cursors.get(name).ok_or_else(|| no_cursor(name))
}

/// The error of a cursor that is not there.
pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
