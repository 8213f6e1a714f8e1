//! Rows of a table or an index, as structs: at a snapshot and in a transaction.

use std::marker::PhantomData;
use std::ops::Deref;

use quipu::{Error, ErrorKind, Result, Snapshot};
use rand_core::Rng;

use crate::catalogue::engine_tables::{OneMoment, Trees};
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::index::IndexIn;
use crate::read::ordered::{InOrder, Ordered, RowIter};
use crate::read::row::{Page, Row};
use crate::read::table::TableIn;
use crate::record::Record;
use crate::snapshot::RowSnapshot;
use crate::transaction::RowTransaction;

/// Rows of a table ([`TableIn`]) or of an index ([`IndexIn`]), as structs.
///
/// Questions whose answers are rows are asked here; all others, such as [`Ordered::count`], are those of the table or
/// the index, which this dereferences to.
pub struct Records<R, O> {
    rows: O,
    record: PhantomData<fn() -> R>,
}

impl<R, O> Deref for Records<R, O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.rows
    }
}

impl RowSnapshot {
    /// The table of a struct, by its name. Whether it fits is not looked at, but for what reading finds.
    ///
    /// # Errors
    /// Those of [`RowSnapshot::table`].
    pub fn table_of<R: Record>(&self) -> Result<Records<R, TableIn<'_, Snapshot>>> {
        Ok(Records::new(self.table(R::TABLE)?))
    }
}

impl<'x> RowTransaction<'x> {
    /// The table of a struct, by its name, to read and to write. Whether it fits is not looked at, but for what reading
    /// and writing find.
    ///
    /// # Errors
    /// Those of [`RowTransaction::table`].
    pub fn table_of<R: Record>(&self) -> Result<Records<R, TableIn<'_, RowTransaction<'x>>>> {
        Ok(Records::new(self.table(R::TABLE)?))
    }
}

impl<R, O> Records<R, O> {
    pub(crate) fn new(rows: O) -> Records<R, O> {
        Records { rows, record: PhantomData }
    }
}

impl<R: Record, O: Ordered> Records<R, O> {
    /// See [`Ordered::nth`].
    ///
    /// # Errors
    /// Those of [`Ordered::count`] and of [`Record::from_row`]. The same holds for all below.
    pub fn nth<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<Option<R>> {
        to_record(self.rows.nth(span, offset)?)
    }

    /// See [`Ordered::nth_back`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn nth_back<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<Option<R>> {
        to_record(self.rows.nth_back(span, offset)?)
    }

    /// See [`Ordered::first`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn first<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<R>> {
        to_record(self.rows.first(span)?)
    }

    /// See [`Ordered::last`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn last<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<R>> {
        to_record(self.rows.last(span)?)
    }

    /// See [`Ordered::page`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn page<'v>(&self, span: impl Into<Span<'v>>, offset: u64, limit: usize) -> Result<Page<R>> {
        to_page(self.rows.page(span, offset, limit)?)
    }

    /// See [`Ordered::quantile`].
    ///
    /// # Errors
    /// Those of [`Ordered::quantile`] and of [`Record::from_row`].
    pub fn quantile<'v>(&self, span: impl Into<Span<'v>>, q: f64) -> Result<Option<R>> {
        to_record(self.rows.quantile(span, q)?)
    }

    /// See [`Ordered::sample`].
    ///
    /// # Errors
    /// Those of [`Records::nth`].
    pub fn sample<'v>(&self, span: impl Into<Span<'v>>, rows: usize, random: &mut impl Rng) -> Result<Vec<R>> {
        self.rows.sample(span, rows, random)?.iter().map(Row::to).collect()
    }

    /// The records of a range, from either end: see [`Ordered::rows`].
    ///
    /// # Errors
    /// Those of [`Ordered::rows`]; what reading says, and [`Record::from_row`], comes with the records.
    pub fn rows<'v>(&self, span: impl Into<Span<'v>>) -> Result<RecordIter<'_, R, O>> {
        Ok(RecordIter { rows: self.rows.rows(span)?, record: PhantomData })
    }

    /// Gives each record of a range to `visit`, in order, until it returns false: see [`Ordered::for_each`].
    ///
    /// # Errors
    /// Those of [`Records::nth`], and those of `visit`.
    pub fn for_each<'v>(&self, span: impl Into<Span<'v>>, mut visit: impl FnMut(R) -> Result<bool>) -> Result<()> {
        self.rows.for_each(span, |row| visit(R::from_row(&row)?))
    }
}

impl<'t, R: Record, T: Trees> Records<R, TableIn<'t, T>> {
    /// The record of this key: see [`TableIn::get`].
    ///
    /// # Errors
    /// Those of [`TableIn::get`] and of [`Record::from_row`].
    pub fn get(&self, key: R::Key<'_>) -> Result<Option<R>> {
        self.rows.get_with(key, |row| row.map(|row| R::from_row(&row)).transpose())
    }

    /// The records of many keys, in their order: see [`TableIn::get_many`].
    ///
    /// # Errors
    /// Those of [`Records::get`].
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = R::Key<'k>>) -> Result<Vec<Option<R>>> {
        self.rows.get_many(keys)?.into_iter().map(to_record).collect()
    }

    /// Whether there is a record of this key.
    ///
    /// # Errors
    /// Those of [`TableIn::contains`].
    pub fn contains(&self, key: R::Key<'_>) -> Result<bool> {
        self.rows.contains(key)
    }
}

impl<'t, R: Record, T: OneMoment> Records<R, TableIn<'t, T>> {
    /// The index of this name: the records in its order.
    ///
    /// # Errors
    /// Those of [`TableIn::index`].
    pub fn index(&self, name: &str) -> Result<Records<R, IndexIn<'t, T>>> {
        Ok(Records::new(self.rows.index(name)?))
    }
}

impl<'t, R: Record, T: Trees> Records<R, IndexIn<'t, T>> {
    /// The record with these values in a unique index: see [`IndexIn::get`].
    ///
    /// # Errors
    /// Those of [`IndexIn::get`] and of [`Record::from_row`].
    pub fn get<'v>(&self, values: impl IntoValues<'v>) -> Result<Option<R>> {
        to_record(self.rows.get(values)?)
    }
}

impl<R: Record> Records<R, TableIn<'_, RowTransaction<'_>>> {
    /// Adds a record. Columns of the table that the struct lacks have their defaults; where the table always gives out
    /// a number, what the struct has is not used.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`].
    pub fn insert(&self, record: &R) -> Result<()> {
        self.rows.insert_columns(R::COLUMNS, record.values()).map(drop)
    }

    /// Adds a record, and returns it as it is in the table: with the numbers that that has given out.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`] and of [`Record::from_row`].
    pub fn insert_returning(&self, record: &R) -> Result<R> {
        self.rows.insert_columns(R::COLUMNS, record.values())?.to()
    }

    /// Adds a record, or changes all fields of the one of its key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`TableIn::put`]; [`Invalid`](ErrorKind::Invalid) if the table always gives out a number of the key.
    pub fn put(&self, record: &R) -> Result<bool> {
        if R::HAS_OWN_NUMBER_IN_KEY {
            let what = "the table always gives out a number of the key, so no record brings it: insert or update";
            return Err(Error::new(ErrorKind::Invalid, format!("table {}: {what}", R::TABLE)));
        }
        if self.update(record)? {
            return Ok(true);
        }
        self.insert(record)?;
        Ok(false)
    }

    /// Changes all fields of the record of the same key. Returns whether there is one. Columns that the struct lacks
    /// stay as they are.
    ///
    /// # Errors
    /// Those of [`TableIn::update`].
    pub fn update(&self, record: &R) -> Result<bool> {
        self.rows.update(record.key(), &record.changes())
    }

    /// Removes the record of this key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`TableIn::delete`].
    pub fn delete(&self, key: R::Key<'_>) -> Result<bool> {
        self.rows.delete(key)
    }

    /// Removes all records of a range: see [`TableIn::delete_range`]. Returns how many there were.
    ///
    /// # Errors
    /// Those of [`TableIn::delete_range`].
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.rows.delete_range(span)
    }
}

impl<R: Record> Records<R, IndexIn<'_, RowTransaction<'_>>> {
    /// Removes all records that a range of the index has: see [`IndexIn::delete_range`]. Returns how many there were.
    ///
    /// # Errors
    /// Those of [`IndexIn::delete_range`].
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.rows.delete_range(span)
    }
}

pub(crate) fn to_record<R: Record>(row: Option<Row>) -> Result<Option<R>> {
    row.map(|row| row.to()).transpose()
}

pub(crate) fn to_page<R: Record>(page: Page) -> Result<Page<R>> {
    let rows = page.rows.iter().map(Row::to).collect::<Result<_>>()?;
    Ok(Page { rows, offset: page.offset, total: page.total })
}

/// The records of a range, from either end. Made by [`Records::rows`].
pub struct RecordIter<'o, R, O: InOrder> {
    rows: RowIter<'o, O>,
    record: PhantomData<fn() -> R>,
}

impl<R: Record, O: InOrder> Iterator for RecordIter<'_, R, O> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Result<R>> {
        Some(self.rows.next()?.and_then(|row| row.to()))
    }
}

impl<R: Record, O: InOrder> DoubleEndedIterator for RecordIter<'_, R, O> {
    fn next_back(&mut self) -> Option<Result<R>> {
        Some(self.rows.next_back()?.and_then(|row| row.to()))
    }
}
