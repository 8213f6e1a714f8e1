//! The places of columns in the bytes of a row, or of an entry of an index.

use quipu::{Error, ErrorKind, Result, tuple};

use crate::encoding::key::KeyColumn;
use crate::encoding::layout::Layout;
use crate::value::Value;
use crate::value::data_type::DataType;

/// Where a column of the table stands.
#[derive(Clone, Debug)]
pub(crate) enum ColumnPlace {
    /// An element of the key.
    Key(usize),
    /// An element of the row's key, which an entry of a unique index has in its value.
    RowKey(usize),
    /// A column of the value.
    Stored(usize),
    /// Nowhere: the rows are older than the column, and all have this.
    Missing(Value<'static>),
    /// Not in an index.
    Absent,
}

/// Where the columns of a table stand in the keys and values of one kind: rows of a layout, or entries of an index.
#[derive(Clone, Debug)]
pub(crate) struct RowShape {
    /// The elements of the key.
    pub(crate) key: Vec<KeyColumn>,
    /// The elements of the row's key that an entry of a unique index has in its value.
    pub(crate) row_key: Vec<KeyColumn>,
    /// The layout of the value; none if it is empty.
    pub(crate) layout: Option<Layout>,
    /// For each column of the table.
    pub(crate) places: Vec<ColumnPlace>,
}

/// The place, in the layout of a unique index's values, of what the key lacks of the row's key.
pub(crate) const ROW_KEY_SLOT: usize = 0;

impl RowShape {
    /// The value of a column.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are of no such row, [`Invalid`](ErrorKind::Invalid) if the column
    /// is not there.
    #[inline]
    pub(crate) fn read<'r>(&'r self, column: usize, key: &'r [u8], value: &'r [u8]) -> Result<Value<'r>> {
        match &self.places[column] {
            ColumnPlace::Stored(slot) => self.layout()?.read(*slot, value),
            ColumnPlace::Key(element) => decode(&self.key, *element, key),
            ColumnPlace::RowKey(element) => decode(&self.row_key, *element, self.row_key_bytes(value)?),
            ColumnPlace::Missing(value) => Ok(value.borrowed()),
            ColumnPlace::Absent => Err(absent()),
        }
    }

    /// The bytes of a column that is stored in the value with this type, or that it is NULL; none if it stands
    /// elsewhere.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are of no such row.
    #[inline]
    pub(crate) fn read_stored<'r>(
        &self,
        column: usize,
        data_type: DataType,
        value: &'r [u8],
    ) -> Result<Option<Option<&'r [u8]>>> {
        match (&self.places[column], &self.layout) {
            (ColumnPlace::Stored(slot), Some(layout)) if layout.data_type(*slot) == data_type => {
                layout.read_bytes(*slot, value).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Bytes that are the same for equal values of a column, for comparison within one shape; none for NULL.
    ///
    /// # Errors
    /// Those of [`RowShape::read`].
    pub(crate) fn read_bytes<'r>(&self, column: usize, key: &'r [u8], value: &'r [u8]) -> Result<Option<&'r [u8]>> {
        match &self.places[column] {
            ColumnPlace::Stored(slot) => self.layout()?.read_bytes(*slot, value),
            ColumnPlace::Key(element) => {
                tuple::parts(key).nth(*element).map(|part| Some(part.bytes())).ok_or_else(too_few)
            }
            ColumnPlace::RowKey(element) => {
                let bytes = self.row_key_bytes(value)?;
                tuple::parts(bytes).nth(*element).map(|part| Some(part.bytes())).ok_or_else(too_few)
            }
            // All rows of the shape have the same.
            ColumnPlace::Missing(_) => Ok(Some(&[])),
            ColumnPlace::Absent => Err(absent()),
        }
    }

    /// Whether the column can be read.
    pub(crate) fn has(&self, column: usize) -> bool {
        !matches!(self.places[column], ColumnPlace::Absent)
    }

    /// What an entry of a unique index has of the row's key.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are of no entry.
    pub(crate) fn row_key_bytes<'r>(&self, value: &'r [u8]) -> Result<&'r [u8]> {
        if self.row_key.is_empty() {
            return Ok(&[]);
        }
        Ok(self.layout()?.read_bytes(ROW_KEY_SLOT, value)?.unwrap_or_default())
    }

    fn layout(&self) -> Result<&Layout> {
        self.layout.as_ref().ok_or_else(absent)
    }
}

#[inline]
fn decode<'r>(columns: &[KeyColumn], element: usize, key: &'r [u8]) -> Result<Value<'r>> {
    let part = tuple::parts(key).nth(element).ok_or_else(too_few)?;
    columns[element].decode(part)
}

#[cold]
fn too_few() -> Error {
    Error::new(ErrorKind::Corrupt, "a key has fewer elements than its table has columns: run `quipu check`")
}

#[cold]
fn absent() -> Error {
    Error::new(ErrorKind::Invalid, "the index does not have this column; read the row")
}
