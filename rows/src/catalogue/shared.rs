//! The state that all handles of an open database of rows share.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use quipu::{Db, Error, ErrorKind, Result, Snapshot, TableOptions};

use crate::catalogue::changes::Changes;
use crate::catalogue::engine_tables::Trees;
use crate::catalogue::failed_changes::Leftovers;
use crate::catalogue::free::Free;
use crate::catalogue::known::Known;
use crate::catalogue::numbers::Numbers;
use crate::catalogue::store::{self, CATALOGUE, NUMBERS, NamedTable, Root};
use crate::definition::document::TableNumber;
use crate::definition::table::TableDefinition;

/// What the database of the engine keeps for its rows: a way to what the handles share, while there are any.
type Attached = Mutex<Weak<Shared>>;

/// What all handles share.
pub(crate) struct Shared {
    pub(crate) db: Db,
    /// The tree of the catalogue; none in a database that is open for reading only and has none.
    catalogue: Option<quipu::Table>,
    numbers_tree: Option<quipu::Table>,
    pub(crate) known: Known,
    pub(crate) numbers: Numbers,
    pub(crate) changes: Changes,
    pub(crate) left: Leftovers,
    pub(crate) free: Free,
}

impl Shared {
    /// What the handles of `db` share. The first of them makes it, and removes what a crash has left.
    pub(crate) fn of(db: &Db, recover: impl FnOnce(&Arc<Shared>) -> Result<()>) -> Result<Arc<Shared>> {
        let attached = db.attachment(|| Attached::new(Weak::new()));
        let mut attached = attached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = attached.upgrade() {
            return Ok(shared);
        }
        let tree = |name: &str, comment: &str| match db.open_table(name)? {
            Some(tree) => Ok(Some(tree)),
            None => {
                let options = TableOptions { comment: comment.to_owned(), ..TableOptions::default() };
                match db.create_table(name, options) {
                    Ok(tree) => Ok(Some(tree)),
                    Err(error) if error.kind() == ErrorKind::ReadOnly => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let catalogue = tree(CATALOGUE, "definitions of tables of rows")?;
        let numbers_tree = tree(NUMBERS, "numbers of identity columns")?;
        let root = catalogue.as_ref().map(store::root).transpose()?.flatten().unwrap_or(Root::NEW);
        let shared = Arc::new(Shared {
            db: db.clone(),
            catalogue,
            numbers_tree,
            known: Known::default(),
            numbers: Numbers::default(),
            changes: Changes::default(),
            left: Leftovers::default(),
            free: Free::after(&root),
        });
        if shared.catalogue.is_some() {
            recover(&shared)?;
        }
        *attached = Arc::downgrade(&shared);
        Ok(shared)
    }

    /// The tree of the catalogue; none if there are no tables and cannot be any.
    pub(crate) fn catalogue(&self) -> Option<&quipu::Table> {
        self.catalogue.as_ref()
    }

    /// The tree of the numbers of identity columns.
    pub(crate) fn numbers_tree(&self) -> Option<&quipu::Table> {
        self.numbers_tree.as_ref()
    }

    /// The definition of the table of that name, as `trees` have it; none if there is none.
    ///
    /// # Errors
    /// Those of [`Known::definition`].
    pub(crate) fn definition(&self, trees: &impl Trees, name: &str) -> Result<Option<Arc<TableDefinition>>> {
        match self.entry(trees, name)? {
            Some((catalogue, entry)) => self.known.definition(trees, catalogue, entry).map(Some),
            None => Ok(None),
        }
    }

    /// Where a name leads, as `trees` have it, with the tree of the catalogue; none if no table has the name.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub(crate) fn entry(&self, trees: &impl Trees, name: &str) -> Result<Option<(&quipu::Table, NamedTable)>> {
        let Some(catalogue) = &self.catalogue else { return Ok(None) };
        match trees.tree(catalogue) {
            Ok(tree) => Ok(store::entry(&tree, name)?.map(|entry| (catalogue, entry))),
            // A snapshot that is older than the catalogue has no tables.
            Err(error) if error.kind() == ErrorKind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The definition, in a snapshot, of the table that a foreign key refers to; none if that is the table itself.
    ///
    /// # Errors
    /// Those of [`Known::definition`].
    pub(crate) fn parent_in(
        &self,
        snapshot: &Snapshot,
        child: &TableDefinition,
        number: TableNumber,
    ) -> Result<Option<Arc<TableDefinition>>> {
        let Some(catalogue) = self.catalogue.as_ref().filter(|_| number != child.number) else { return Ok(None) };
        let document = store::document(&snapshot.tree(catalogue)?, number)?;
        self.definition(snapshot, &document.schema.table)
    }
}

/// The error of a change where the database is open for reading alone.
#[cold]
pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the database is open read-only; open it for writing")
}
