//! Definitions as a transaction sees them, also of tables that others have dropped since it began.

use std::sync::Arc;

use quipu::{ErrorKind, Result, TableTransaction};

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::known::Known;
use crate::definition::table::TableDefinition;
use crate::transaction::{Held, RowTransaction, missing};

/// The definition of a table that the transaction does not rely on, also if others have dropped it meanwhile: then
/// as the transaction sees it, and nothing keeps it.
pub(crate) fn definition_as_seen(transaction: &RowTransaction<'_>, name: &str) -> Result<Arc<TableDefinition>> {
    match transaction.read_definition(transaction, name) {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let (catalogue, entry) = transaction.shared.entry(transaction, name)?.ok_or_else(|| missing(name))?;
            Known::read(&AsSeen(transaction), catalogue, entry)
        }
        read => read,
    }
}

/// The trees of a transaction, with those that others have dropped since it has begun.
struct AsSeen<'r, 'x>(&'r RowTransaction<'x>);

impl Trees for AsSeen<'_, '_> {
    type Tree<'t>
        = TableTransaction<'t>
    where
        Self: 't;

    fn tree<'t>(&'t self, table: &quipu::Table) -> Result<TableTransaction<'t>> {
        self.0.tree(table)
    }

    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>> {
        match (self.0.open_tree(name), &self.0.held) {
            (Err(error), Held::Own(transaction)) if error.kind() == ErrorKind::Conflict => {
                Ok(transaction.snapshot()?.open_table(name))
            }
            (found, _) => found,
        }
    }
}
