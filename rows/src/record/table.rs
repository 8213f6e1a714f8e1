//! A table as it is now, as structs.

use std::marker::PhantomData;
use std::ops::Deref;

use quipu::{ErrorKind, Result};

use crate::database::Database;
use crate::encoding::span::Span;
use crate::read::ordered::Ordered;
use crate::read::row::Page;
use crate::record::records::{Records, to_page, to_record};
use crate::record::{Record, fit};
use crate::schema::table::TableSchema;
use crate::table::RowTable;

/// A table as it is now, whose rows are structs. Reads see the last commit; each write is a commit of its own, with the
/// database's durability. Rows of a range, and indexes, are read at a snapshot: [`RowSnapshot::table_of`].
///
/// It dereferences to the [`RowTable`], for all that is no matter of structs.
///
/// [`RowSnapshot::table_of`]: crate::RowSnapshot::table_of
pub struct RecordTable<R> {
    table: RowTable,
    record: PhantomData<fn() -> R>,
}

impl Database {
    /// The table of a struct.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of its name; [`Invalid`](ErrorKind::Invalid) if it does not fit
    /// the struct, with each column, index and constraint that differs, and how. More columns in the table are no
    /// difference if rows need not bring their values, and neither are more indexes and constraints.
    pub fn table_of<R: Record>(&self) -> Result<RecordTable<R>> {
        let table = self.table(R::TABLE)?;
        fit::check::<R>(&table.schema()?)?;
        Ok(RecordTable { table, record: PhantomData })
    }

    /// The table of a struct, created if there is none of its name.
    ///
    /// # Errors
    /// Those of [`Database::create_table`] and of [`Database::table_of`].
    pub fn ensure_table_of<R: Record>(&self) -> Result<RecordTable<R>> {
        if self.open_table(R::TABLE)?.is_none() {
            match self.create_table(&R::schema()) {
                // Another thread has created it meanwhile.
                Err(error) if error.kind() == ErrorKind::Exists => {}
                created => drop(created?),
            }
        }
        self.table_of()
    }
}

impl TableSchema {
    /// The table of this name in a database, created if there is none.
    ///
    /// A table that is there may have more: columns that rows need not bring, indexes and constraints. Expressions are
    /// compared by their meaning.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// let towns = TableSchema::new("towns").column(Column::new("name", DataType::TEXT)).key(["name"]);
    /// towns.ensure_in(&database)?.insert("Cusco")?;
    /// assert_eq!(towns.ensure_in(&database)?.len()?, 1);
    /// assert!(towns.column(Column::new("people", DataType::I64)).ensure_in(&database).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if one that is there does not fit the schema, with each column, index and
    /// constraint that differs, and how; those of [`Database::create_table`].
    pub fn ensure_in(&self, database: &Database) -> Result<RowTable> {
        if database.open_table(&self.table)?.is_none() {
            match database.create_table(self) {
                // Another thread has created it meanwhile.
                Err(error) if error.kind() == ErrorKind::Exists => {}
                created => return created,
            }
        }
        let table = database.table(&self.table)?;
        fit::check_schema(self, &table.schema()?)?;
        Ok(table)
    }
}

impl<R> Deref for RecordTable<R> {
    type Target = RowTable;

    fn deref(&self) -> &RowTable {
        &self.table
    }
}

impl<R: Record> RecordTable<R> {
    /// The record of this key.
    ///
    /// # Errors
    /// Those of [`RowTable::get`] and of [`Record::from_row`].
    pub fn get(&self, key: R::Key<'_>) -> Result<Option<R>> {
        to_record(self.table.get(key)?)
    }

    /// Whether there is a record of this key.
    ///
    /// # Errors
    /// Those of [`RowTable::contains`].
    pub fn contains(&self, key: R::Key<'_>) -> Result<bool> {
        self.table.contains(key)
    }

    /// The record at an offset of a range: see [`Ordered::nth`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn nth<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<Option<R>> {
        let span = span.into();
        self.table.with(|table| to_record(table.nth(&span, offset)?))
    }

    /// The first record of a range: see [`Ordered::first`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn first<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<R>> {
        let span = span.into();
        self.table.with(|table| to_record(table.first(&span)?))
    }

    /// The last record of a range: see [`Ordered::last`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn last<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<R>> {
        let span = span.into();
        self.table.with(|table| to_record(table.last(&span)?))
    }

    /// Up to `limit` records from an offset of a range on: see [`Ordered::page`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn page<'v>(&self, span: impl Into<Span<'v>>, offset: u64, limit: usize) -> Result<Page<R>> {
        let span = span.into();
        self.table.with(|table| to_page(table.page(&span, offset, limit)?))
    }

    /// Gives each record of a range to `visit`, in order, until it returns false: see [`Records::for_each`]. All are of
    /// one moment.
    ///
    /// # Errors
    /// Those of [`Records::nth`], and those of `visit`.
    pub fn for_each<'v>(&self, span: impl Into<Span<'v>>, visit: impl FnMut(R) -> Result<bool>) -> Result<()> {
        self.table.at_snapshot(|table| Records::new(table).for_each(span, visit))
    }

    /// Adds a record: see [`Records::insert`].
    ///
    /// # Errors
    /// Those of [`Records::insert`] and of a commit.
    pub fn insert(&self, record: &R) -> Result<()> {
        self.table.write(|table| Records::new(table).insert(record))
    }

    /// Adds a record, and returns it as it is in the table: see [`Records::insert_returning`].
    ///
    /// # Errors
    /// Those of [`Records::insert_returning`] and of a commit.
    pub fn insert_returning(&self, record: &R) -> Result<R> {
        self.table.write(|table| Records::new(table).insert_returning(record))
    }

    /// Adds a record, or changes all fields of the one of its key: see [`Records::put`].
    ///
    /// # Errors
    /// Those of [`Records::put`] and of a commit.
    pub fn put(&self, record: &R) -> Result<bool> {
        self.table.write(|table| Records::new(table).put(record))
    }

    /// Changes all fields of the record of the same key: see [`Records::update`].
    ///
    /// # Errors
    /// Those of [`Records::update`] and of a commit.
    pub fn update(&self, record: &R) -> Result<bool> {
        self.table.write(|table| Records::new(table).update(record))
    }

    /// Removes the record of this key: see [`Records::delete`].
    ///
    /// # Errors
    /// Those of [`Records::delete`] and of a commit.
    pub fn delete(&self, key: R::Key<'_>) -> Result<bool> {
        self.table.delete(key)
    }

    /// Removes all records of a range, in one commit: see [`TableIn::delete_range`](crate::TableIn::delete_range).
    /// Returns how many there were.
    ///
    /// # Errors
    /// Those of [`TableIn::delete_range`](crate::TableIn::delete_range) and of a commit.
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.table.delete_range(span)
    }
}
