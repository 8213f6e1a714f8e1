//! Rows as their bytes: columns are decoded when they are asked for.

use std::fmt;
use std::sync::Arc;

use quipu::{Error, ErrorKind, Result};

use crate::definition::index::IndexDefinition;
use crate::definition::shape::RowShape;
use crate::definition::table::TableDefinition;
use crate::expression::evaluate::Columns;
use crate::schema::table::TableSchema;
use crate::value::Value;

/// A row, lent: its bytes, and how to read them.
///
/// A column is read in O(1), those of the primary key in the time of passing over the columns before. An entry of an
/// index is lent as a row that has some of the columns.
#[derive(Clone, Copy)]
pub struct RowView<'r> {
    pub(crate) definition: &'r TableDefinition,
    pub(crate) shape: &'r RowShape,
    pub(crate) key: &'r [u8],
    pub(crate) value: &'r [u8],
}

impl<'r> RowView<'r> {
    /// The row of these bytes.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if they are no row, [`Conflict`](ErrorKind::Conflict) if the row is of columns
    /// that the definition does not know yet.
    #[inline]
    pub(crate) fn new(definition: &'r TableDefinition, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>> {
        let shape = definition.shape_of(value)?.ok_or_else(|| stale(definition))?;
        Ok(RowView { definition, shape, key, value })
    }

    /// The value of the column at this place of the schema.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are no such row; [`Invalid`](ErrorKind::Invalid) if this is an
    /// entry of an index that does not have the column.
    #[inline]
    pub fn value(&self, place: usize) -> Result<Value<'r>> {
        self.shape.read(place, self.key, self.value)
    }

    /// The value of the column of this name.
    ///
    /// # Errors
    /// Those of [`RowView::value`]; [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub fn get(&self, column: &str) -> Result<Value<'r>> {
        self.value(self.definition.place(column)?)
    }

    /// The place of the column of this name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub(crate) fn place(&self, column: &str) -> Result<usize> {
        self.definition.place(column)
    }

    /// The values of all columns that are not hidden, in the order of the schema.
    ///
    /// # Errors
    /// Those of [`RowView::value`].
    pub fn values(&self) -> Result<Vec<Value<'r>>> {
        let columns = self.definition.columns.iter().enumerate();
        columns.filter(|(_, column)| !column.declared.hidden).map(|(place, _)| self.value(place)).collect()
    }

    /// The values of the primary key.
    ///
    /// # Errors
    /// Those of [`RowView::value`].
    pub fn key_values(&self) -> Result<Vec<Value<'r>>> {
        self.definition.primary.places.iter().map(|&place| self.value(place)).collect()
    }

    /// Whether the column at this place can be read: always, but in an entry of an index.
    pub fn has(&self, place: usize) -> bool {
        self.shape.has(place)
    }

    /// What is declared of the table.
    pub fn schema(&self) -> &'r TableSchema {
        &self.definition.document.schema
    }

    /// The key and the value as the engine has them.
    pub fn bytes(&self) -> (&'r [u8], &'r [u8]) {
        (self.key, self.value)
    }
}

impl Columns for RowView<'_> {
    fn column(&self, place: usize) -> Result<Value<'_>> {
        self.value(place)
    }
}

impl fmt::Debug for RowView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = f.debug_struct(self.definition.name());
        for (place, column) in self.definition.columns.iter().enumerate() {
            match self.value(place) {
                Ok(value) => row.field(&column.declared.name, &format_args!("{value}")),
                Err(_) if !self.has(place) => &mut row,
                Err(error) => row.field(&column.declared.name, &error),
            };
        }
        row.finish()
    }
}

/// The error of a row that is younger than the definition at hand.
#[cold]
pub(crate) fn stale(definition: &TableDefinition) -> Error {
    let what = format!("the columns of table {} have changed; open the table again", definition.name());
    Error::caused_by(ErrorKind::Conflict, what, Stale)
}

/// The source of an error of a question by an older definition than that of the row it finds.
#[derive(Debug)]
struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the definition is out of date")
    }
}

impl std::error::Error for Stale {}

/// Whether an error comes of a definition that is out of date.
pub(crate) fn is_stale(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Stale>())
}

/// A row that owns its bytes.
///
/// ```
/// # use quipu::{Db, Options};
/// # use quipu_rows::{Column, DataType, Database, TableSchema, Value};
/// # fn main() -> quipu::Result<()> {
/// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
/// # let towns = TableSchema::new("towns").key(["name"]);
/// # let towns = towns.column(Column::new("name", DataType::TEXT)).column(Column::new("people", DataType::I32));
/// # let towns = database.create_table(&towns)?;
/// towns.insert(("Cusco", 428_450))?;
/// let row = towns.get("Cusco")?.expect("it is there");
/// assert_eq!(row.get("people")?, Value::Int(428_450));
/// assert_eq!(row.values()?, [Value::from("Cusco"), Value::Int(428_450)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Row {
    pub(crate) definition: Arc<TableDefinition>,
    /// The index that it is an entry of; none of a row of the table.
    pub(crate) index: Option<Arc<IndexDefinition>>,
    pub(crate) key: quipu::bytes::Key,
    pub(crate) value: quipu::bytes::Value,
}

impl Row {
    /// The row, lent.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if its bytes are no row.
    pub fn view(&self) -> Result<RowView<'_>> {
        match &self.index {
            None => RowView::new(&self.definition, &self.key, &self.value),
            Some(index) => {
                Ok(RowView { definition: &self.definition, shape: &index.shape, key: &self.key, value: &self.value })
            }
        }
    }

    /// See [`RowView::get`].
    ///
    /// # Errors
    /// Those of [`RowView::get`].
    pub fn get(&self, column: &str) -> Result<Value<'_>> {
        self.view()?.get(column)
    }

    /// See [`RowView::value`].
    ///
    /// # Errors
    /// Those of [`RowView::value`].
    pub fn value(&self, place: usize) -> Result<Value<'_>> {
        self.view()?.value(place)
    }

    /// See [`RowView::values`].
    ///
    /// # Errors
    /// Those of [`RowView::values`].
    pub fn values(&self) -> Result<Vec<Value<'_>>> {
        self.view()?.values()
    }

    /// See [`RowView::key_values`].
    ///
    /// # Errors
    /// Those of [`RowView::key_values`].
    pub fn key_values(&self) -> Result<Vec<Value<'_>>> {
        self.view()?.key_values()
    }

    /// What is declared of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.definition.document.schema
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            Ok(view) => view.fmt(f),
            Err(error) => write!(f, "{error}"),
        }
    }
}

/// Rows at an offset of a range, and the total of the range, all from one version.
#[derive(Clone, Debug)]
pub struct Page<T = Row> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// The offset of the first of them in the range.
    pub offset: u64,
    /// The number of rows in the whole range.
    pub total: u64,
}

impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page { rows: Vec::new(), offset: 0, total: 0 }
    }
}
