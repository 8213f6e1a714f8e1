//! Consequences of a statement for rows that refer to those that it removes or changes: they are removed or changed
//! too, and so are the rows that refer to these.
//!
//! It is a list of work, not a recursion: chains of references may be long. Rows that refer to one are taken from their
//! range one at a time, each with all that follows from it, until the range is empty: so a row that has changed
//! meanwhile, by another way from the same statement, is met where it is then.
//!
//! Whether rows refer to what is there is looked at when the work is done. On the way, a row may move before the one
//! that it refers to does.
//!
//! Invariants, when the work is done:
//! 1. Each row that was given other values in a foreign key refers to a row, or to nothing.
//! 2. No row refers to the old values of a row that went or changed, unless another row has them now: those of
//!    `Cascade` and `SetNull` were taken off, a row that came later is one of 1, and `Restrict` refuses the statement.
//!
//! Not here: the statement itself, and how many rows it tells that it has removed (`statement`).

use std::sync::Arc;

use quipu::{ErrorKind, ReadableTable, Result};
use smallvec::SmallVec;

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::numbers::NumberedColumn;
use crate::definition::index::RowKey;
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::constraint::Constraint;
use crate::transaction::RowTransaction;
use crate::transaction::deferred_constraints::{Moved, Restricted, Waiting};
use crate::value::Value;
use crate::write::complete::number_of;
use crate::write::references;
use crate::write::violations::{broken, list};

/// What is still to be done for a statement, and what is to be looked at then.
#[derive(Default)]
pub(crate) struct Consequences {
    work: Vec<Referring>,
    waiting: Waiting,
    /// Numbers that rows have brought into identity columns.
    numbers: Vec<(NumberedColumn, i128)>,
    /// Whether nothing follows from the statement, which looks at what its row refers to before it writes.
    are_of_one_row: bool,
}

/// Rows of a range that refer to a row which went or changed.
pub(crate) struct Referring {
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) range: KeyRange,
    /// The number of the index whose range it is; none for the primary key.
    pub(crate) index: Option<usize>,
    /// What becomes of them; none if they go.
    pub(crate) changes: Option<Vec<(usize, Value<'static>)>>,
    /// The row that was taken last.
    last: Option<RowKey>,
}

impl Referring {
    pub(crate) fn new(
        definition: Arc<TableDefinition>,
        range: KeyRange,
        index: Option<usize>,
        changes: Option<Vec<(usize, Value<'static>)>>,
    ) -> Referring {
        Referring { definition, range, index, changes, last: None }
    }

    /// The key of the first row of the range.
    fn first(&self, transaction: &RowTransaction<'_>) -> Result<Option<RowKey>> {
        let index = self.index.map(|index| &self.definition.indexes[index]);
        let tree = transaction.tree(index.map_or(&self.definition.rows, |index| &index.tree))?;
        let mut first = None;
        tree.for_each_limited(self.range.bounds(), 1, |key, value| {
            first = Some(match index {
                None => Ok(RowKey::from_slice(key)),
                Some(index) => index.row_key(key, value),
            });
        })?;
        first.transpose()
    }
}

impl Consequences {
    /// None: of a table that refers to others alone, and to which none refers.
    pub(crate) fn of_one_row() -> Consequences {
        Consequences { are_of_one_row: true, ..Consequences::default() }
    }

    pub(crate) fn are_of_one_row(&self) -> bool {
        self.are_of_one_row
    }

    /// Adds work that follows from one change: it is done in this order, before what was added earlier.
    pub(crate) fn follow(&mut self, work: Vec<Referring>) {
        self.work.extend(work.into_iter().rev());
    }

    pub(crate) fn restrict(&mut self, restricted: Restricted) {
        self.waiting.restricted.push(restricted);
    }

    /// Notes that columns of a row have changed, and with them its key if these differ.
    pub(crate) fn note_changed(
        &mut self,
        definition: &Arc<TableDefinition>,
        (key, new_key): (&[u8], &[u8]),
        row: &[Value<'_>],
        changed: &[usize],
    ) {
        let numbered = definition.numbered.iter().filter(|place| changed.contains(place));
        self.numbers.extend(numbered.filter_map(|&place| number_of(definition, row, place)));
        if self.are_of_one_row {
            return;
        }
        let of_foreign_key = |place: &usize| definition.foreign_keys.iter().any(|key| key.columns.contains(place));
        let mut of_foreign_keys: SmallVec<[usize; 4]> = changed.iter().copied().filter(of_foreign_key).collect();
        if let Some(earlier) = self.forget(definition, key) {
            of_foreign_keys.extend(earlier.changed);
        }
        if !of_foreign_keys.is_empty() {
            let moved = Moved { definition: Arc::clone(definition), changed: of_foreign_keys };
            self.waiting.moved.insert((definition.number, RowKey::from_slice(new_key)), moved);
        }
    }

    /// Notes that a row is gone.
    pub(crate) fn note_gone(&mut self, definition: &TableDefinition, key: &[u8]) {
        self.forget(definition, key);
    }

    fn forget(&mut self, definition: &TableDefinition, key: &[u8]) -> Option<Moved> {
        if self.waiting.moved.is_empty() {
            return None;
        }
        self.waiting.moved.remove(&(definition.number, RowKey::from_slice(key)))
    }

    /// Does the work, and what follows from it.
    pub(crate) fn do_work(&mut self, transaction: &RowTransaction<'_>) -> Result<()> {
        while let Some(mut referring) = self.work.pop() {
            let Some(key) = referring.first(transaction)? else { continue };
            if referring.last.as_ref() == Some(&key) {
                return Err(endless(transaction, &referring.definition, &key)?);
            }
            referring.last = Some(key.clone());
            let (definition, changes) = (Arc::clone(&referring.definition), referring.changes.clone());
            // Below what follows from the row.
            self.work.push(referring);
            let table = TableIn::new(transaction, definition)?;
            match changes {
                None => drop(table.delete_one(&key, self)?),
                Some(changes) => {
                    if let Some(old) = table.tree.get(&key)? {
                        table.change_one(&key, &old, changes.into_iter().collect(), self)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks whether rows refer to what is not there, once all work is done: at the end of the statement that it is
    /// part of.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if one does.
    pub(crate) fn check(&mut self, transaction: &RowTransaction<'_>) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut waiting = Some(waiting);
        let is_postponed =
            references::postpone(transaction, false, |together| together.extend(waiting.take().unwrap_or_default()));
        if is_postponed { Ok(()) } else { references::check_waiting(transaction, &waiting.unwrap_or_default()) }
    }

    /// The statement is done: numbers that its rows have brought are not given out later.
    pub(crate) fn keep_numbers(self, transaction: &RowTransaction<'_>) {
        for (numbered, number) in self.numbers {
            transaction.numbers.add(numbered, number);
        }
    }
}

/// The error of a row that is where it was after it has changed.
#[cold]
fn endless(transaction: &RowTransaction<'_>, definition: &TableDefinition, key: &RowKey) -> Result<quipu::Error> {
    let Some(value) = transaction.tree(&definition.rows)?.get(key)? else {
        let what = format!("an entry of table {} has no row: run `quipu check`", definition.name());
        return Ok(quipu::Error::new(ErrorKind::Corrupt, what));
    };
    let values = RowView::new(definition, key, &value)?.key_values()?;
    let what = format!("rows that refer to each other change row {} again and again", list(&values));
    Ok(broken(definition, &[], Constraint::ForeignKey, what).into_error())
}
