//! Owned snapshots of one table, and iterators over its rows that borrow nothing.
//!
//! Keep them in a struct, send them to another thread, return them from a function. A [`TableView`](crate::TableView)
//! borrows its snapshot and answers a little faster, since it looks its table up once.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::catalog::declaration::Declaration;
use crate::error::Result;
use crate::read::entry::Entry;
use crate::read::reader::{Fill, Reader};
use crate::read::rows::{Chunk, Chunks, fill_from};
use crate::read::table_stack::Source;
use crate::state::snapshot::Snapshot;
use crate::state::table_handle::Table;

/// One table at one moment. It owns its [`Snapshot`], borrows nothing, and can go to other threads.
///
/// Taking or cloning one costs two short locks. While one lives, pages that change are kept twice.
///
/// ```
/// # fn main() -> quipu::Result<()> {
/// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
/// use quipu::{ReadableTable, WritableTable};
/// let table = db.ensure_table("t")?;
/// table.put("a", "1")?;
/// let then = table.snapshot()?;
/// table.put("b", "2")?;
/// let rows = std::thread::spawn(move || then.len()).join().expect("it ends well")?;
/// assert_eq!((rows, table.len()?), (1, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableSnapshot {
    snapshot: Snapshot,
    declaration: Arc<Declaration>,
}

impl Snapshot {
    /// One table of the snapshot, as a value that owns the snapshot.
    ///
    /// # Errors
    /// Those of [`Snapshot::table`].
    pub fn into_table(self, table: &Table) -> Result<TableSnapshot> {
        table.check_owner(&self.shared)?;
        let declaration = self.versions.table(table.id())?.declaration.clone();
        Ok(TableSnapshot { snapshot: self, declaration })
    }
}

impl Table {
    /// The table as of now. O(1), whatever its size.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`](crate::ErrorKind::Missing) if the table was dropped.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        Snapshot::take(&self.shared).into_table(self)
    }

    /// Like [`Table::snapshot`], but a dropped table is noticed only when it is read.
    pub(crate) fn snapshot_unchecked(&self) -> TableSnapshot {
        TableSnapshot { snapshot: Snapshot::take(&self.shared), declaration: self.declaration.clone() }
    }
}

impl TableSnapshot {
    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// The application's metadata, given when the table was created.
    pub fn metadata(&self) -> &[u8] {
        &self.declaration.options.metadata
    }

    /// Sequence number of the last commit it contains.
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence()
    }

    /// The rows of a range in key order, from either end. Like [`ReadableTable::range`](crate::ReadableTable::range),
    /// but the iterator owns the snapshot.
    pub fn into_range<'b>(self, bounds: impl Into<Bounds<'b>>) -> OwnedRows {
        OwnedRows(Chunks::new(self, bounds.into().into_owned()))
    }
}

impl Reader for TableSnapshot {
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        let version = self.snapshot.versions.table(self.declaration.id)?;
        work(&self.snapshot.shared.source(version))
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}

impl Fill for TableSnapshot {
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut Chunk) -> Result<()> {
        fill_from(self, bounds, reverse, max, rows)
    }
}

impl std::fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSnapshot")
            .field("name", &self.name())
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

/// The rows of a range of a table at one moment, from either end. Made by [`TableSnapshot::into_range`]; borrows
/// nothing.
pub struct OwnedRows(Chunks<TableSnapshot>);

impl OwnedRows {
    /// See [`Rows::first_chunk`](crate::Rows::first_chunk).
    pub fn first_chunk(self, rows: usize) -> Self {
        OwnedRows(self.0.first_chunk(rows))
    }

    /// See [`Rows::rev`](crate::Rows::rev).
    pub fn rev(self) -> Self {
        OwnedRows(self.0.reversed())
    }

    /// See [`Rows::take`](crate::Rows::take).
    pub fn take(self, rows: usize) -> std::iter::Take<Self> {
        Iterator::take(self.first_chunk(rows), rows)
    }

    /// See [`Rows::lend_next`](crate::Rows::lend_next).
    ///
    /// # Errors
    /// Those of [`Rows::lend_next`](crate::Rows::lend_next).
    pub fn lend_next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.lend_next()
    }

    /// See [`Rows::lend_next_back`](crate::Rows::lend_next_back).
    ///
    /// # Errors
    /// Those of [`Rows::lend_next`](crate::Rows::lend_next).
    pub fn lend_next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.lend_next_back()
    }
}

impl Iterator for OwnedRows {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        self.0.take(false)
    }
}

impl DoubleEndedIterator for OwnedRows {
    #[inline]
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.0.take(true)
    }
}

impl std::iter::FusedIterator for OwnedRows {}
