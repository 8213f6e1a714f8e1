//! The handle of a table.

use crate::catalog::declaration::{Declaration, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TableOptions;
use crate::state::shared::Shared;
use std::sync::Arc;

/// A handle to a table of a database. Cheap to clone; clones refer to the same table.
///
/// Reads see the last commit. Each write is a commit with the database's durability. Group writes that belong together
/// in [`Db::write`](crate::Db::write).
#[derive(Clone)]
pub struct Table {
    pub(crate) shared: Arc<Shared>,
    pub(crate) declaration: Arc<Declaration>,
}

impl Table {
    /// Fails if the table belongs to another database.
    #[inline]
    pub(crate) fn check_owner(&self, database: &Shared) -> Result<()> {
        if std::ptr::eq(database, &*self.shared) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, format!("table {:?} belongs to another open database", self.name())))
    }

    pub(crate) fn id(&self) -> TableId {
        self.declaration.id
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// The options it was declared with.
    pub fn options(&self) -> &TableOptions {
        &self.declaration.options
    }

    /// Fails as a write of this row would if its key or its value is too long; for callers that gather rows before they
    /// write them.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), with the limit.
    pub fn check_lengths(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shared.check_row(key, Some(value))
    }

    /// Sequence number of the last commit that changed the table: see
    /// [`Snapshot::changed_at`](crate::Snapshot::changed_at).
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if the table was dropped.
    pub fn changed_at(&self) -> Result<u64> {
        self.shared.versions.read().table(self.id()).map(|table| table.sequence)
    }

    /// The application's metadata, given when the table was created.
    pub fn metadata(&self) -> &[u8] {
        &self.declaration.options.metadata
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}
