//! The engine's tables to read: their current versions, those of a snapshot, or those of a transaction.

use quipu::{Db, Error, ErrorKind, ReadableTable, Result, Snapshot, TableView};

/// All trees at one moment, or as they are now.
pub trait Trees {
    /// One of them.
    #[doc(hidden)]
    type Tree<'t>: ReadableTable
    where
        Self: 't;

    /// One of the trees, to be asked.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it is not there, or not any more.
    #[doc(hidden)]
    fn tree<'t>(&'t self, table: &quipu::Table) -> Result<Self::Tree<'t>>;

    /// The tree of that name; none if there is none.
    #[doc(hidden)]
    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>>;
}

/// Trees of one moment, so that an entry and its row can be read one after the other.
pub trait OneMoment: Trees {}

impl OneMoment for Snapshot {}

impl Trees for Db {
    type Tree<'t> = quipu::Table;

    fn tree(&self, table: &quipu::Table) -> Result<quipu::Table> {
        Ok(table.clone())
    }

    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>> {
        self.open_table(name)
    }
}

impl Trees for Snapshot {
    type Tree<'t> = TableView<'t>;

    fn tree<'t>(&'t self, table: &quipu::Table) -> Result<TableView<'t>> {
        self.table(table)
    }

    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>> {
        Ok(self.open_table(name))
    }
}

/// Opens a tree that a definition names.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) if it is not there.
pub(crate) fn open(trees: &impl Trees, name: &str) -> Result<quipu::Table> {
    trees.open_tree(name)?.ok_or_else(|| {
        let what = format!("the catalogue names the tree {name}, which is not there: run `quipu check`");
        Error::new(ErrorKind::Corrupt, what)
    })
}
