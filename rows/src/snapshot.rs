//! All tables of rows at one moment.

use std::sync::Arc;

use quipu::{ErrorKind, Result, Snapshot};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::read::scan::Scan;
use crate::read::table::TableIn;
use crate::transaction::{RowTransaction, missing};

/// All tables of rows at one moment, with the definitions that they had then. It owns itself and can go to other
/// threads; while it lives, pages that change are kept twice.
#[derive(Clone)]
pub struct RowSnapshot {
    shared: Arc<Shared>,
    snapshot: Snapshot,
}

impl RowSnapshot {
    /// All tables as they are now.
    pub(crate) fn now(shared: &Arc<Shared>) -> RowSnapshot {
        RowSnapshot { shared: Arc::clone(shared), snapshot: shared.db.snapshot() }
    }

    /// All tables at the version that a transaction reads, without what it has written. O(1).
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) in the closure of [`Database::write`](crate::Database::write).
    pub fn of(transaction: &RowTransaction<'_>) -> Result<RowSnapshot> {
        Ok(RowSnapshot { shared: Arc::clone(&transaction.shared), snapshot: transaction.engine().snapshot()? })
    }

    /// The table that had this name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there was none, and those of reading the catalogue.
    pub fn table(&self, name: &str) -> Result<TableIn<'_, Snapshot>> {
        let definition = self.shared.definition(&self.snapshot, name)?.ok_or_else(|| missing(name))?;
        TableIn::new(&self.snapshot, definition)
    }

    /// The names of all tables that there were.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<Vec<String>> {
        let Some(catalogue) = self.shared.catalogue() else { return Ok(Vec::new()) };
        match self.snapshot.table(catalogue) {
            Ok(catalogue) => store::names(Some(&catalogue)),
            Err(error) if error.kind() == ErrorKind::Missing => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// A number that is another one after each change of a definition: see
    /// [`Database::catalogue_version`](crate::Database::catalogue_version).
    ///
    /// # Errors
    /// Those of [`Database::catalogue_version`](crate::Database::catalogue_version).
    pub fn catalogue_version(&self) -> Result<u64> {
        let Some(catalogue) = self.shared.catalogue() else { return Ok(0) };
        match self.snapshot.changed_at(catalogue) {
            // It is older than the catalogue.
            Err(error) if error.kind() == ErrorKind::Missing => Ok(0),
            version => version,
        }
    }

    /// A scan of the rows of a table, as batches of columns.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, ColumnValues, DataType, Database, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// # let towns = TableSchema::new("towns").key(["name"]);
    /// # let towns = towns.column(Column::new("name", DataType::TEXT)).column(Column::new("people", DataType::I32));
    /// # let towns = database.create_table(&towns)?;
    /// towns.insert(("Cusco", 428_450))?;
    /// towns.insert(("Lima", 10_000_000))?;
    /// let mut batches = database.snapshot().scan("towns")?.columns(&["people"])?.span(Span::ge("D"))?.batches()?;
    /// let mut batch = batches.new_batch();
    /// while batches.read_into(&mut batch)? {
    ///     assert_eq!(batch.columns()[0].values, ColumnValues::I32(vec![10_000_000]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`RowSnapshot::table`].
    pub fn scan(&self, table: &str) -> Result<Scan> {
        let definition = self.shared.definition(&self.snapshot, table)?.ok_or_else(|| missing(table))?;
        Ok(Scan::new(self.snapshot.clone(), definition))
    }

    /// The snapshot of the engine.
    pub fn engine(&self) -> &Snapshot {
        &self.snapshot
    }
}
