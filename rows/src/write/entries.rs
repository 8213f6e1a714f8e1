//! The entries of a row in the indexes of its table.

use quipu::{ErrorKind, ReadableTable, Result, WritableTable};
use smallvec::SmallVec;

use crate::catalogue::engine_tables::Trees;
use crate::definition::index::{IndexDefinition, RowKey};
use crate::definition::table::TableDefinition;
use crate::expression::evaluate::Failed;
use crate::read::row::RowView;
use crate::schema::constraint::{Constraint, Deferral};
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::write::complete::RowValues;
use crate::write::unique_later;
use crate::write::violations::{broken, list, row_name};

/// A row before or after a change: its values and its key.
pub(crate) type Image<'c, 'v> = (&'c [Value<'v>], &'c [u8]);

/// A change of a row: what it was, and what it becomes.
#[derive(Clone, Copy)]
pub(crate) struct Change<'c, 'v> {
    pub(crate) old: Option<Image<'c, 'v>>,
    pub(crate) new: Option<Image<'c, 'v>>,
    /// The places of the columns that change; none if the row comes or goes.
    pub(crate) changed: Option<&'c [usize]>,
}

impl Change<'_, '_> {
    fn reversed(self) -> Self {
        Change { old: self.new, new: self.old, ..self }
    }

    /// Whether entries of an index can change with the row.
    fn affects(&self, index: &IndexDefinition) -> bool {
        let has_same_key = matches!((self.old, self.new), (Some((_, old)), Some((_, new))) if old == new);
        match self.changed {
            Some(changed) if has_same_key => index.reads.iter().any(|place| changed.contains(place)),
            _ => true,
        }
    }
}

/// An entry of an index.
#[derive(Default)]
struct IndexEntry {
    key: Vec<u8>,
    value: Vec<u8>,
    is_there: bool,
}

/// Buffers for entries, kept from row to row.
#[derive(Default)]
pub(crate) struct Entries {
    old: IndexEntry,
    new: IndexEntry,
}

/// Changes the entries of a row in all indexes, or in none.
///
/// # Errors
/// [`Exists`](ErrorKind::Exists) if a unique index has the values of another row; [`Invalid`](ErrorKind::Invalid) if an
/// expression has no value; those of the engine.
pub(crate) fn change_entries(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    change: Change<'_, '_>,
    buffers: &mut Entries,
) -> Result<()> {
    if definition.indexes.is_empty() {
        return Ok(());
    }
    // Those first that may refuse the row.
    let unique = definition.indexes.iter().filter(|index| index.declared.unique);
    let others = definition.indexes.iter().filter(|index| !index.declared.unique);
    let affected: SmallVec<[&IndexDefinition; 8]> =
        unique.chain(others).map(|index| &**index).filter(|index| change.affects(index)).collect();
    for (place, index) in affected.iter().enumerate() {
        let Err(error) = change_entry(transaction, definition, index, change, buffers) else { continue };
        for done in &affected[..place] {
            if change_entry(transaction, definition, done, change.reversed(), buffers).is_err() {
                transaction.break_off();
            }
        }
        return Err(error);
    }
    Ok(())
}

fn change_entry(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    index: &IndexDefinition,
    change: Change<'_, '_>,
    Entries { old, new }: &mut Entries,
) -> Result<()> {
    for (image, entry) in [(change.old, &mut *old), (change.new, &mut *new)] {
        entry.is_there = match image {
            None => false,
            Some((row, row_key)) => {
                let made = index.entry(&RowValues(row), row_key, &mut entry.key, &mut entry.value);
                made.map_err(|failed| no_entry(definition, index, row, failed))?
            }
        };
    }
    if let Some(missed) = &index.missed {
        return note_missed(transaction, missed, change, old);
    }
    let tree = transaction.tree(&index.tree)?;
    let has_same_key = old.is_there && new.is_there && old.key == new.key;
    if has_same_key {
        return match old.value == new.value {
            true => Ok(()),
            false => tree.put(&new.key, &new.value).map_err(|error| in_index(error, definition, index, change)),
        };
    }
    if new.is_there {
        if index.declared.unique {
            match tree.insert(&new.key, &new.value) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Exists => {
                    let row = change.new.map(|(row, _)| row).unwrap_or_default();
                    return Err(not_unique(transaction, definition, index, row, &new.key)?);
                }
                Err(error) => return Err(in_index(error, definition, index, change)),
            }
        } else {
            tree.put(&new.key, &new.value).map_err(|error| in_index(error, definition, index, change))?;
        }
    }
    if old.is_there {
        tree.delete(&old.key)?;
    }
    if index.declared.deferral != Deferral::Never && new.is_there {
        let row = change.new.map(|(row, _)| row).unwrap_or_default();
        if let Some(values) = unique_later::values_of(index, row, &new.key)
            && let Err(error) = unique_later::look(transaction, definition, index, values)
        {
            tree.delete(&new.key)?;
            if old.is_there {
                tree.put(&old.key, &old.value)?;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// An error of the engine with the row and the index whose entry it is about.
#[cold]
fn in_index(
    error: quipu::Error,
    definition: &TableDefinition,
    index: &IndexDefinition,
    change: Change<'_, '_>,
) -> quipu::Error {
    if error.kind() != ErrorKind::Invalid {
        return error;
    }
    let row = row_name(definition, change.new.map(|(row, _)| row).unwrap_or_default());
    let (table, name, columns) = (definition.name(), &index.declared.name, index.declared.columns.join(", "));
    error.context(format_args!("table {table}, row {row}, index {name} ({columns})"))
}

/// Notes for the build of an index that a row has changed since it began, with the entry that the index may have of it.
fn note_missed(
    transaction: &RowTransaction<'_>,
    missed: &quipu::Table,
    change: Change<'_, '_>,
    old: &IndexEntry,
) -> Result<()> {
    let tree = transaction.relying_tree(missed)?;
    let note = |row_key: &[u8], entry: &[u8]| match tree.contains(row_key)? {
        true => Ok(()),
        false => tree.put(row_key, entry),
    };
    if let Some((_, row_key)) = change.old {
        note(row_key, if old.is_there { &old.key } else { &[] })?;
    }
    match (change.new, change.old) {
        (Some((_, new)), Some((_, old))) if new == old => Ok(()),
        (Some((_, row_key)), _) => note(row_key, &[]),
        (None, _) => Ok(()),
    }
}

#[cold]
fn no_entry(definition: &TableDefinition, index: &IndexDefinition, row: &[Value<'_>], failed: Failed) -> quipu::Error {
    match failed {
        Failed::Read(error) => error,
        Failed::NoValue(what) => {
            let name = &index.declared.name;
            let columns = index.declared.columns.join(", ");
            let violation = broken(definition, row, Constraint::Type, format_args!("index {name}, {columns}: {what}"));
            violation.named(name).into_error()
        }
    }
}

/// The error of a row whose values in a unique index another row has.
#[cold]
fn not_unique(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    index: &IndexDefinition,
    row: &[Value<'_>],
    entry_key: &[u8],
) -> Result<quipu::Error> {
    let name = &index.declared.name;
    let key = index.values(&definition.columns, &RowValues(row));
    let values: Vec<String> = key.iter().map(|(column, value)| format!("{column} = {value}")).collect();
    let other = match transaction.tree(&index.tree)?.get(entry_key)? {
        Some(value) => key_of_row(transaction, definition, &index.row_key(entry_key, &value)?)?,
        None => "()".to_owned(),
    };
    let what = format!("another row, {other}, has {} in the unique index {name}", values.join(", "));
    Ok(broken(definition, row, Constraint::Unique, what).named(name).of_key(key).into_error())
}

/// A row as messages call it, found by its key.
pub(crate) fn key_of_row(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    row_key: &RowKey,
) -> Result<String> {
    let Some(value) = transaction.tree(&definition.rows)?.get(row_key)? else { return Ok("()".to_owned()) };
    let values = RowView::new(definition, row_key, &value)?.key_values()?;
    Ok(list(&values))
}
