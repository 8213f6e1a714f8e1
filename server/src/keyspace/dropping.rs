//! Removes elements and pieces that no key has any more: at once if they are few, else step by step, so that no client
//! waits for long.

use quipu::{Bounds, ReadableTable, Result};

use super::removals::Removal;
use super::value::CollectionId;
use super::{Data, Keyspace, Need, Tables};

/// Rows that are removed in one hold: some hundred microseconds in memory.
const STEP_ROWS: u64 = 512;

/// The same of a table over runs, where a step costs the pages at its ends, and only some of its rows are in memory.
const STEP_ROWS_OVER_RUNS: u64 = 16 * STEP_ROWS;

impl Keyspace {
    /// Removes some of what no key has any more. Returns whether there may be more of it. To be called while no
    /// [`Data`] is held.
    pub fn remove_step(&self) -> Result<bool> {
        let Some(removal) = self.removals.queue().pop_front() else { return Ok(false) };
        let done = self.remove_some(removal);
        if !matches!(done, Ok(true)) {
            self.removals.queue().push_front(removal);
        }
        done.map(|_| true)
    }

    fn remove_some(&self, removal: Removal) -> Result<bool> {
        if self.removals_table.get(removal.row())?.is_none() {
            // Most strings that were made got a key.
            return Ok(true);
        }
        self.make(removal.number)?;
        let Some(tables) = self.tables_of(removal.number) else { return Ok(true) };
        self.step(Need::Removal, |data| self.remove_some_in(data, tables, removal))
    }

    fn remove_some_in(&self, data: &mut Data<'_>, tables: &Tables, removal: Removal) -> Result<bool> {
        // The table says what no key has; the queue only says in which order. An id without a row has a key, or nothing
        // is there any more.
        if data.view(&self.removals_table)?.get(removal.row())?.is_none() {
            return Ok(true);
        }
        let (start, end) = (removal.id.bytes(), CollectionId(removal.id.0 + 1).bytes());
        let next = data.view(&tables.elements)?.nth(&start[..]..&end[..], data.step_rows())?;
        match &next {
            Some(next) => {
                data.latched_write()?.remove_range(&tables.elements, &start[..]..&next.key[..])?;
            }
            None => {
                data.latched_write()?.remove_range(&tables.elements, &start[..]..&end[..])?;
                data.latched_write()?.remove(&self.removals_table, &removal.row())?;
            }
        }
        Ok(next.is_none())
    }
}

impl Data<'_> {
    /// Rows of elements that are removed in one hold.
    fn step_rows(&self) -> u64 {
        if self.may_fault { STEP_ROWS_OVER_RUNS } else { STEP_ROWS }
    }

    /// Removes the elements under an id: at once if they are few, else soon.
    pub(super) fn drop_elements(&mut self, database: usize, id: CollectionId) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        let prefix = id.bytes();
        if self.view(&tables.elements)?.count(Bounds::prefix(&prefix))? <= self.step_rows() {
            self.latched_write()?.remove_range(&tables.elements, Bounds::prefix(&prefix))?;
            return Ok(());
        }
        self.remove_later(Removal::of(self.keyspace().number_of(database), id))
    }

    pub(super) fn remove_later(&mut self, removal: Removal) -> Result<()> {
        let keyspace = self.keyspace();
        self.latched_write()?.put(&keyspace.removals_table, &removal.row(), &[])?;
        self.pending.remove_later(removal);
        Ok(())
    }

    /// Removes the elements of all collections and strings of a database.
    pub(super) fn drop_all_elements(&mut self, database: usize) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        let keyspace = self.keyspace();
        let number = keyspace.number_of(database);
        let last = keyspace.new_id();
        // Strings that are being prepared are among them.
        self.pending.note_ended(number, last);
        self.latched_write()?.remove_range(&tables.elements, ..).map(|_| ())
    }
}
