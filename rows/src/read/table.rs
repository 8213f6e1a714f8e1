//! A table that can be asked: as it is now, at a snapshot, or in a transaction.

use std::sync::Arc;

use quipu::{Entry, ReadableTable, Result};

use crate::catalogue::engine_tables::{OneMoment, Trees};
use crate::definition::document::Document;
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::encoding::values::IntoValues;
use crate::read::index::{EntriesIn, IndexIn};
use crate::read::ordered::{InOrder, Order};
use crate::read::row::{Row, RowView};
use crate::schema::invalid;
use crate::schema::table::TableSchema;
use crate::value::Value;
use crate::value::text::counted;

/// A table, live (`T` is [`quipu::Db`]), at a snapshot or in a transaction: what can be asked of its rows is in
/// [`Ordered`](crate::Ordered), what can be written in a transaction is further below.
pub struct TableIn<'t, T: Trees + 't> {
    pub(crate) trees: &'t T,
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) tree: T::Tree<'t>,
    /// Whether new rows may bring numbers for columns that always have a number of the table.
    pub(crate) brings_numbers: bool,
}

impl<'t, T: Trees> TableIn<'t, T> {
    pub(crate) fn new(trees: &'t T, definition: Arc<TableDefinition>) -> Result<TableIn<'t, T>> {
        let tree = trees.tree(&definition.rows)?;
        Ok(TableIn { trees, definition, tree, brings_numbers: false })
    }

    /// What is declared of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.definition.document.schema
    }

    /// The number of the table, which stays when it gets another name, and which no other table has or had.
    pub fn number(&self) -> u32 {
        self.definition.number
    }

    /// The number of the column at this place of the schema, which no other column of the table has or had; none if
    /// there is no such place.
    pub fn column_number(&self, place: usize) -> Option<u32> {
        self.definition.columns.get(place).map(|column| column.number)
    }

    /// The version of what is declared of the table, which grows with each change of it.
    pub fn version(&self) -> u64 {
        self.definition.version
    }

    /// The numbers of what belongs to the table: indexes, tables that it refers to, tables that refer to it.
    pub fn related(&self) -> RelatedNumbers<'_> {
        RelatedNumbers(&self.definition.document)
    }

    /// The row of this key; none if there is none.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if these are not the values of a whole key, and those of reading a page
    /// of a file.
    pub fn get<'v>(&self, key: impl IntoValues<'v>) -> Result<Option<Row>> {
        let key = self.key_of(&key.into_values())?;
        let value = self.tree.get(&key)?;
        Ok(value.map(|value| self.row(key.as_slice().into(), value)))
    }

    /// Lends the row of this key, or none, to `work`, with no copy.
    ///
    /// # Errors
    /// Those of [`TableIn::get`] and of `work`.
    pub fn get_with<'v, R>(
        &self,
        key: impl IntoValues<'v>,
        work: impl FnOnce(Option<RowView<'_>>) -> Result<R>,
    ) -> Result<R> {
        let key = self.key_of(&key.into_values())?;
        self.tree
            .get_with(&key, |value| work(value.map(|value| RowView::new(&self.definition, &key, value)).transpose()?))?
    }

    /// Whether there is a row of this key.
    ///
    /// # Errors
    /// Those of [`TableIn::get`].
    pub fn contains<'v>(&self, key: impl IntoValues<'v>) -> Result<bool> {
        self.tree.contains(self.key_of(&key.into_values())?)
    }

    /// The rows of many keys, in their order; their pages are waited for together.
    ///
    /// # Errors
    /// Those of [`TableIn::get`].
    pub fn get_many<'v, K: IntoValues<'v>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Row>>> {
        let keys = keys.into_iter().map(|key| self.key_of(&key.into_values())).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(self.tree.get_many(&keys)?) {
            rows.push(value.map(|value| self.row(key.as_slice().into(), value)));
        }
        Ok(rows)
    }

    /// The entries of an index of this name, without their rows.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none, or it is still being built.
    pub fn entries(&self, index: &str) -> Result<EntriesIn<'t, T>> {
        EntriesIn::new(self.trees, Arc::clone(&self.definition), Arc::clone(self.definition.index(index)?))
    }

    pub(crate) fn row(&self, key: quipu::bytes::Key, value: quipu::bytes::Value) -> Row {
        Row { definition: Arc::clone(&self.definition), index: None, key, value }
    }

    /// The encoded key of these values, one for each of its columns.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there are fewer or more, or one is of another type.
    pub(crate) fn key_of(&self, values: &[Value<'_>]) -> Result<Vec<u8>> {
        whole_key(&self.definition, values)
    }
}

/// The numbers of what belongs to a table. Made by [`TableIn::related`].
#[derive(Clone, Copy)]
pub struct RelatedNumbers<'d>(&'d Document);

impl<'d> RelatedNumbers<'d> {
    /// The number of an index, which stays when it gets another name, and which no other index of any table has or had;
    /// none if there is none of this name.
    pub fn index(self, name: &str) -> Option<u32> {
        let place = self.0.schema.indexes.iter().position(|declared| declared.name == name)?;
        self.0.indexes.get(place).map(|place| place.number())
    }

    /// Whether an index has all entries, so that it can be read; false while it is built.
    pub fn is_ready(self, name: &str) -> bool {
        let place = self.0.schema.indexes.iter().position(|declared| declared.name == name);
        place.and_then(|place| self.0.indexes.get(place)).is_some_and(|place| place.missed.is_none())
    }

    /// The tables that its foreign keys refer to, in the order of the schema.
    pub fn refers_to(self) -> &'d [u32] {
        &self.0.foreign_tables
    }

    /// The tables whose foreign keys refer to it.
    pub fn referred_by(self) -> &'d [u32] {
        &self.0.referenced_by
    }
}

impl<'t, T: OneMoment> TableIn<'t, T> {
    /// The index of this name: the rows in its order.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none, or it is still being built.
    pub fn index(&self, name: &str) -> Result<IndexIn<'t, T>> {
        IndexIn::new(self.trees, Arc::clone(&self.definition), Arc::clone(self.definition.index(name)?))
    }
}

/// See [`TableIn::key_of`].
pub(crate) fn whole_key(definition: &TableDefinition, values: &[Value<'_>]) -> Result<Vec<u8>> {
    let shape = &definition.primary.key;
    let mut key = Vec::new();
    shape.encode(values, &mut key)?;
    if values.len() < shape.columns.len() {
        let (given, wanted) = (counted(values.len(), "value"), counted(shape.columns.len(), "column"));
        let names = shape.names.join(", ");
        return Err(invalid(format!("{given} for a key of {}, which has {wanted}: {names}", shape.owner)));
    }
    Ok(key)
}

impl<'t, T: Trees> InOrder for TableIn<'t, T> {
    type Tree = T::Tree<'t>;

    fn tree(&self) -> &T::Tree<'t> {
        &self.tree
    }

    fn order(&self) -> Order<'_> {
        let definition = &self.definition;
        Order { key: &definition.primary.key, definition, sum: definition.sum }
    }

    fn key_value(&self, row: &Row, element: usize) -> Result<Value<'static>> {
        Ok(row.value(self.definition.primary.places[element])?.into_owned())
    }

    fn rows_of(&self, entries: Vec<Entry>) -> Result<Vec<Row>> {
        Ok(entries.into_iter().map(|entry| self.row(entry.key, entry.value)).collect())
    }

    fn entry_view<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>> {
        RowView::new(&self.definition, key, value)
    }

    fn lend(&self, range: &KeyRange, visit: &mut dyn FnMut(RowView<'_>) -> Result<bool>) -> Result<()> {
        let mut result = Ok(());
        self.tree.for_each(range.bounds(), |key, value| {
            let visited = RowView::new(&self.definition, key, value).and_then(&mut *visit);
            visited.unwrap_or_else(|error| {
                result = Err(error);
                false
            })
        })?;
        result
    }
}
