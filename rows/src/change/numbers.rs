//! The next numbers of identity columns: created, read, set and removed.

use quipu::tuple::{self, Element};
use quipu::{ReadableTable, Result, TableTransaction, WritableTable};

use crate::catalogue::numbers::{self, FIRST, NumberedColumn};
use crate::catalogue::shared::{Shared, read_only};
use crate::change::definitions::Definitions;
use crate::definition::document::{ColumnNumber, TableNumber};
use crate::definition::table::TableDefinition;
use crate::schema::invalid;
use crate::transaction::missing;
use crate::value::Value;

impl Definitions<'_> {
    /// Writes the first numbers of identity columns that have none yet, so that transactions that are open at once can
    /// raise them without a conflict.
    pub(crate) fn begin_numbers(&self, definition: &TableDefinition) -> Result<()> {
        for &place in &definition.numbered {
            let numbered = (definition.number, definition.columns[place].number);
            if !self.numbers()?.contains(numbers::key(numbered))? {
                self.set_number(numbered, FIRST)?;
            }
        }
        Ok(())
    }

    pub(crate) fn numbers(&self) -> Result<TableTransaction<'_>> {
        self.engine().table(self.shared().numbers_tree().ok_or_else(read_only)?)
    }

    /// Sets the next number of a column.
    pub(crate) fn set_number(&self, numbered: NumberedColumn, next: i128) -> Result<()> {
        self.numbers()?.put(numbers::key(numbered), numbers::value(next))?;
        self.transaction.numbers.set_next(numbered, next);
        Ok(())
    }

    /// Sets the number that the next row is given.
    pub(crate) fn set_next_number(&self, table: &str, column: &str, next: i128) -> Result<()> {
        let definition = self.ready(&self.draft(table)?)?;
        let (place, numbered) = numbered_column(&definition, column)?;
        let data_type = definition.columns[place].declared.data_type;
        let accepted = data_type.accept(Value::Int(next));
        accepted.map_err(|what| invalid(format!("table {table}, column {column}: {what}")))?;
        self.set_number(numbered, next)
    }

    /// Forgets the numbers of a column that goes, or of all columns of a table.
    pub(crate) fn end_numbers(&self, table: TableNumber, column: Option<ColumnNumber>) -> Result<()> {
        match column {
            Some(column) => self.numbers()?.remove(numbers::key((table, column))).map(drop),
            None => self.numbers()?.remove_range(tuple::range(&[Element::Int(table.into())])).map(drop),
        }
    }
}

impl Shared {
    /// The number that the next row is given, if no open transaction has it; none if all have been given out.
    pub(crate) fn next_number(&self, table: &str, column: &str) -> Result<Option<i128>> {
        let snapshot = self.db.snapshot();
        let definition = self.definition(&snapshot, table)?.ok_or_else(|| missing(table))?;
        let (place, numbered) = numbered_column(&definition, column)?;
        let next = match self.numbers_tree() {
            Some(tree) => numbers::next_in(&snapshot.table(tree)?, numbered)?,
            None => FIRST,
        };
        let data_type = definition.columns[place].declared.data_type;
        Ok(data_type.accept(Value::Int(next)).is_ok().then_some(next))
    }
}

/// The place of an identity column of this name.
pub(super) fn numbered_column(definition: &TableDefinition, name: &str) -> Result<(usize, NumberedColumn)> {
    let place = definition.place(name)?;
    if !definition.numbered.contains(&place) {
        let table = definition.name();
        return Err(invalid(format!("column {name} of table {table} has no numbers of the table (`identity`)")));
    }
    Ok((place, (definition.number, definition.columns[place].number)))
}
