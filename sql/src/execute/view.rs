//! The tables as a statement sees them.

use quipu::{Error, ErrorKind, Result, Snapshot};
use quipu_rows::{RowSnapshot, RowTransaction, TableIn};

/// The tables at a snapshot, or in a transaction; or none, for an expression that reads its row alone.
#[derive(Clone, Copy)]
pub enum View<'v> {
    /// At a snapshot.
    Snapshot(&'v RowSnapshot),
    /// In a transaction.
    Transaction(&'v RowTransaction<'v>),
    /// There are none.
    Nothing,
}

/// A table in a view.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub enum TableInView<'v> {
    /// At a snapshot.
    Snapshot(TableIn<'v, Snapshot>),
    /// In a transaction.
    Transaction(TableIn<'v, RowTransaction<'v>>),
}

impl<'v> View<'v> {
    /// The table of this name, to be read.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none.
    pub fn table(self, name: &str) -> Result<TableInView<'v>> {
        Ok(match self {
            View::Snapshot(snapshot) => TableInView::Snapshot(snapshot.table(name)?),
            View::Transaction(transaction) => TableInView::Transaction(transaction.table_to_read(name)?),
            View::Nothing => return Err(Error::new(ErrorKind::Missing, format!("there is no table {name} here"))),
        })
    }
}

impl View<'_> {
    /// The names of all tables, as rows know them.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn names(self) -> Result<Vec<String>> {
        match self {
            View::Snapshot(snapshot) => snapshot.tables(),
            View::Transaction(transaction) => Ok(transaction.definitions().tables()?.into_keys().collect()),
            View::Nothing => Ok(Vec::new()),
        }
    }

    /// A number that is another one after each change of a definition.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn catalogue_version(self) -> Result<u64> {
        match self {
            View::Snapshot(snapshot) => snapshot.catalogue_version(),
            View::Transaction(transaction) => transaction.catalogue_version(),
            View::Nothing => Ok(0),
        }
    }
}

/// Runs the same code over a table in either kind of view.
macro_rules! in_table {
    ($table:expr, $name:ident => $body:expr) => {
        match $table {
            $crate::execute::view::TableInView::Snapshot($name) => $body,
            $crate::execute::view::TableInView::Transaction($name) => $body,
        }
    };
}

/// Runs the same code over the rows of a table in the order of its primary key, or of an index.
macro_rules! in_order {
    ($table:expr, $index:expr, $is_covering:expr, $name:ident => $body:expr) => {
        $crate::execute::view::in_table!($table, table => match $index {
            None => {
                let $name = table;
                $body
            }
            Some(index) if $is_covering => {
                let $name = table.entries(index)?;
                $body
            }
            Some(index) => {
                let $name = table.index(index)?;
                $body
            }
        })
    };
}

pub(crate) use {in_order, in_table};
