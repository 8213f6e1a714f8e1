//! Numbers of sequences that a session got last, for `currval` and `lastval`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalogue::objects::ObjectNumber;

/// The last numbers that a session got of sequences.
#[derive(Debug, Default)]
pub struct LastNumbers {
    by_sequence: HashMap<ObjectNumber, i64>,
    /// Of identity columns: their tables, as rows call them, and names.
    by_column: Vec<(Arc<str>, Arc<str>, i64)>,
    /// Of whichever sequence or column.
    pub(super) last: Option<i64>,
}

impl LastNumbers {
    pub(super) fn of_column(&self, table: &str, column: &str) -> Option<i64> {
        let mut known = self.by_column.iter();
        known.find(|known| *known.0 == *table && *known.1 == *column).map(|known| known.2)
    }

    pub(super) fn note_of_column(&mut self, table: &Arc<str>, column: &Arc<str>, number: i64) {
        match self.by_column.iter_mut().find(|known| known.0 == *table && known.1 == *column) {
            Some(known) => known.2 = number,
            None => self.by_column.push((Arc::clone(table), Arc::clone(column), number)),
        }
    }

    /// The last number of a sequence, or of the identity column that it stands for.
    pub(super) fn of(&self, number: ObjectNumber, column: Option<&(String, String)>) -> Option<i64> {
        match column {
            Some((table, column)) => self.of_column(table, column),
            None => self.by_sequence.get(&number).copied(),
        }
    }

    pub(super) fn note(&mut self, number: ObjectNumber, column: Option<&(String, String)>, value: i64) {
        match column {
            Some((table, column)) => self.note_of_column(&table.as_str().into(), &column.as_str().into(), value),
            None => drop(self.by_sequence.insert(number, value)),
        }
    }
}
