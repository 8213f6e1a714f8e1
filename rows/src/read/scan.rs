//! Scans: the rows of a range as batches of columns, in an order, from either end.
//!
//! A scan owns its snapshot, borrows nothing and can go to other threads; parts of one range ([`Ordered::split`]) are
//! read by as many scans of clones of one snapshot.
//!
//! [`Ordered::split`]: crate::Ordered::split

use std::sync::Arc;

use quipu::{OwnedRows, Result, Snapshot};

use crate::definition::index::IndexDefinition;
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::encoding::key_shape::KeyShape;
use crate::encoding::span::Span;
use crate::read::batch::Batch;
use crate::read::row::RowView;
use crate::schema::invalid;

/// Rows of one batch by default.
const BATCH_ROWS: usize = 8_192;

/// What a scan reads: made by [`RowSnapshot::scan`](crate::RowSnapshot::scan), and changed before it begins.
#[derive(Clone)]
pub struct Scan {
    snapshot: Snapshot,
    definition: Arc<TableDefinition>,
    index: Option<Arc<IndexDefinition>>,
    places: Vec<usize>,
    range: KeyRange,
    is_reverse: bool,
    batch_rows: usize,
}

impl Scan {
    pub(crate) fn new(snapshot: Snapshot, definition: Arc<TableDefinition>) -> Scan {
        let columns = definition.columns.iter().enumerate();
        let places = columns.filter(|(_, column)| !column.declared.hidden).map(|(place, _)| place).collect();
        Scan {
            snapshot,
            definition,
            index: None,
            places,
            range: KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded },
            is_reverse: false,
            batch_rows: BATCH_ROWS,
        }
    }

    /// The same scan, of columns of these names.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is no such column.
    pub fn columns(mut self, names: &[&str]) -> Result<Scan> {
        self.places = names.iter().map(|name| self.definition.place(name)).collect::<Result<_>>()?;
        Ok(self)
    }

    /// The same scan, of the entries of an index, in its order. Comes before the range.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of this name.
    pub fn index(mut self, name: &str) -> Result<Scan> {
        self.index = Some(Arc::clone(self.definition.index(name)?));
        Ok(self)
    }

    /// The same scan, of a range.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if the range has more columns than the key, or values of other types.
    pub fn span<'v>(mut self, span: impl Into<Span<'v>>) -> Result<Scan> {
        self.range = span.into().encode(self.key())?;
        Ok(self)
    }

    /// The same scan, of a range of encoded keys, as [`Ordered::split`](crate::Ordered::split) makes them.
    pub fn range(self, range: KeyRange) -> Scan {
        Scan { range, ..self }
    }

    /// The same scan, from the end to the start.
    pub fn reverse(self) -> Scan {
        Scan { is_reverse: true, ..self }
    }

    /// The same scan, with so many rows in a batch, at least one. Default: 8,192.
    pub fn batch_rows(self, rows: usize) -> Scan {
        Scan { batch_rows: rows.max(1), ..self }
    }

    fn key(&self) -> &KeyShape {
        self.index.as_ref().map_or(&self.definition.primary.key, |index| &index.key)
    }

    /// A batch of the columns of the scan, without rows.
    pub fn new_batch(&self) -> Batch {
        let column = |&place: &usize| {
            let declared = &self.definition.columns[place].declared;
            (declared.name.clone(), declared.data_type)
        };
        Batch::new(self.places.iter().map(column))
    }

    /// Begins to read.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if the index does not have one of the columns.
    pub fn batches(self) -> Result<Batches> {
        if let Some(index) = &self.index
            && let Some(&place) = self.places.iter().find(|&&place| !index.shape.has(place))
        {
            let (owner, column) = (&index.key.owner, &self.definition.columns[place].declared.name);
            return Err(invalid(format!("{owner} has no column {column}; include it, or read the table")));
        }
        let tree = self.index.as_ref().map_or(&self.definition.rows, |index| &index.tree);
        let rows = self.snapshot.clone().into_table(tree)?.into_range(self.range.bounds()).first_chunk(self.batch_rows);
        Ok(Batches { scan: self, rows, is_over: false })
    }
}

/// The batches of a scan. As an iterator it makes a new one each time; [`Batches::read_into`] fills one again and
/// again.
pub struct Batches {
    scan: Scan,
    rows: OwnedRows,
    is_over: bool,
}

impl Batches {
    /// Fills a batch, which [`Scan::new_batch`] has made, with the next rows. Returns whether there are any.
    ///
    /// # Errors
    /// Those of reading a page of a file, and [`Corrupt`](quipu::ErrorKind::Corrupt) if a row is malformed.
    pub fn read_into(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        let definition = &self.scan.definition;
        while !self.is_over && batch.rows() < self.scan.batch_rows && !batch.is_full() {
            let row = if self.scan.is_reverse { self.rows.lend_next_back()? } else { self.rows.lend_next()? };
            let Some((key, value)) = row else {
                self.is_over = true;
                break;
            };
            let view = match &self.scan.index {
                None => RowView::new(definition, key, value)?,
                Some(index) => RowView { definition, shape: &index.shape, key, value },
            };
            batch.push(&view, &self.scan.places)?;
        }
        Ok(batch.rows() > 0)
    }

    /// A batch of the columns of the scan, without rows.
    pub fn new_batch(&self) -> Batch {
        self.scan.new_batch()
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let mut batch = self.new_batch();
        match self.read_into(&mut batch) {
            Ok(true) => Some(Ok(batch)),
            Ok(false) => None,
            Err(error) => {
                self.is_over = true;
                Some(Err(error))
            }
        }
    }
}
