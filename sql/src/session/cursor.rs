//! A cursor of DECLARE: its portal, and the row that it stands on.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::session::portal::{Portal, Prepared};
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

pub(super) fn cursor_named<'c>(cursors: &'c HashMap<String, Cursor>, name: &str) -> Result<&'c Cursor> {
    cursors.get(name).ok_or_else(|| no_cursor(name))
}

/// The error of a cursor that is not there.
pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
