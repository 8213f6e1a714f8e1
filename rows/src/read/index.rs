//! An index that can be asked: its rows, or its entries alone.

use std::sync::Arc;

use quipu::{Entry, Error, ErrorKind, ReadableTable, Result};

use crate::catalogue::engine_tables::Trees;
use crate::definition::index::{IndexDefinition, RowKey};
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::encoding::values::IntoValues;
use crate::expression::evaluate::Failed;
use crate::read::ordered::{InOrder, Order};
use crate::read::row::{Row, RowView};
use crate::schema::index::IndexSchema;
use crate::value::Value;

/// Entries whose rows are looked up together.
const LOOKED_UP_TOGETHER: usize = 256;

/// The rows of a table in the order of an index: what can be asked of them is in [`Ordered`](crate::Ordered).
///
/// Counts, ranks and sums need only the index. What returns rows looks them up in the table, many together;
/// [`IndexIn::entries`] does not, and has the columns of the index, its included columns and the primary key.
pub struct IndexIn<'t, T: Trees + 't> {
    pub(crate) trees: &'t T,
    pub(crate) entries: EntriesIn<'t, T>,
    rows: T::Tree<'t>,
}

/// The entries of an index: rows with the columns that the index has.
pub struct EntriesIn<'t, T: Trees + 't> {
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) index: Arc<IndexDefinition>,
    pub(crate) tree: T::Tree<'t>,
}

impl<'t, T: Trees> IndexIn<'t, T> {
    pub(crate) fn new(
        trees: &'t T,
        definition: Arc<TableDefinition>,
        index: Arc<IndexDefinition>,
    ) -> Result<IndexIn<'t, T>> {
        let rows = trees.tree(&definition.rows)?;
        Ok(IndexIn { trees, entries: EntriesIn::new(trees, definition, index)?, rows })
    }

    /// What is declared of the index.
    pub fn schema(&self) -> &IndexSchema {
        &self.entries.index.declared
    }

    /// The entries, without their rows.
    pub fn entries(&self) -> &EntriesIn<'t, T> {
        &self.entries
    }

    /// The entries, without their rows.
    pub fn into_entries(self) -> EntriesIn<'t, T> {
        self.entries
    }

    /// The row with these values, one for each column of a unique index; none if there is none.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the index is not unique or these are not the values of all its columns, and
    /// those of reading a page of a file.
    pub fn get<'v>(&self, values: impl IntoValues<'v>) -> Result<Option<Row>> {
        let index = &self.entries.index;
        let values = values.into_values();
        if !index.declared.unique || values.len() != index.indexed() || values.iter().any(Value::is_null) {
            let what = format!(
                "{} is asked for one row: it takes a unique index, and a value of each column",
                index.key.owner
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mut key = Vec::new();
        index.key.encode(&values, &mut key)?;
        let Some(value) = self.entries.tree.get(&key)? else { return Ok(None) };
        let rows = self.rows_of(vec![Entry { key: key.as_slice().into(), value }])?;
        Ok(rows.into_iter().next())
    }

    /// The rows of entries. Each entry has one.
    fn look_up(&self, entries: &[Entry]) -> Result<Vec<Row>> {
        let index = &self.entries.index;
        let keys = entries.iter().map(|entry| index.row_key(&entry.key, &entry.value)).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::with_capacity(entries.len());
        for (key, value) in keys.iter().zip(self.rows.get_many(&keys)?) {
            let value = value.ok_or_else(|| self.without_row(key))?;
            let definition = Arc::clone(&self.entries.definition);
            rows.push(Row { definition, index: None, key: key.as_slice().into(), value });
        }
        Ok(rows)
    }

    #[cold]
    pub(crate) fn without_row(&self, key: &RowKey) -> Error {
        let (owner, row) = (&self.entries.index.key.owner, self.entries.definition.primary.key.show(key));
        let what = format!("an entry of {owner} has no row {row}: rebuild the index, and run `quipu check`");
        Error::new(ErrorKind::Corrupt, what)
    }
}

impl<'t, T: Trees> EntriesIn<'t, T> {
    pub(crate) fn new(
        trees: &'t T,
        definition: Arc<TableDefinition>,
        index: Arc<IndexDefinition>,
    ) -> Result<EntriesIn<'t, T>> {
        let tree = trees.tree(&index.tree)?;
        Ok(EntriesIn { definition, index, tree })
    }

    /// What is declared of the index.
    pub fn schema(&self) -> &IndexSchema {
        &self.index.declared
    }

    /// The number of the index, which stays when it gets another name, and which no other index of any table has or
    /// had. An index that is built again keeps it.
    pub fn number(&self) -> u32 {
        self.index.number
    }

    /// Whether entries have the column at this place of the schema.
    pub fn has(&self, place: usize) -> bool {
        self.index.shape.has(place)
    }

    fn entry(&self, entry: Entry) -> Row {
        let (definition, index) = (Arc::clone(&self.definition), Some(Arc::clone(&self.index)));
        Row { definition, index, key: entry.key, value: entry.value }
    }

    fn order_of(&self) -> Order<'_> {
        Order { key: &self.index.key, definition: &self.definition, sum: self.index.sum }
    }

    /// The value that the index sorts a row by, for a row that has the column.
    fn key_value_of(&self, row: &Row, element: usize) -> Result<Value<'static>> {
        let view = row.view()?;
        let Some(expression) = self.index.expressions.get(element) else {
            let place =
                self.definition.primary.key.names.iter().position(|name| *name == self.index.key.names[element]);
            return Ok(view.value(self.definition.primary.places[place.unwrap_or_default()])?.into_owned());
        };
        match expression.evaluate(&view) {
            Ok(value) => Ok(value.into_owned()),
            Err(Failed::Read(error)) => Err(error),
            Err(Failed::NoValue(what)) => Err(Error::new(ErrorKind::Invalid, what)),
        }
    }
}

impl<'t, T: Trees> InOrder for EntriesIn<'t, T> {
    type Tree = T::Tree<'t>;

    fn tree(&self) -> &T::Tree<'t> {
        &self.tree
    }

    fn order(&self) -> Order<'_> {
        self.order_of()
    }

    fn key_value(&self, row: &Row, element: usize) -> Result<Value<'static>> {
        self.key_value_of(row, element)
    }

    fn rows_of(&self, entries: Vec<Entry>) -> Result<Vec<Row>> {
        Ok(entries.into_iter().map(|entry| self.entry(entry)).collect())
    }

    fn entry_view<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>> {
        Ok(RowView { definition: &self.definition, shape: &self.index.shape, key, value })
    }

    fn lend(&self, range: &KeyRange, visit: &mut dyn FnMut(RowView<'_>) -> Result<bool>) -> Result<()> {
        let mut result = Ok(());
        self.tree.for_each(range.bounds(), |key, value| {
            self.entry_view(key, value).and_then(&mut *visit).unwrap_or_else(|error| {
                result = Err(error);
                false
            })
        })?;
        result
    }
}

impl<'t, T: Trees> InOrder for IndexIn<'t, T> {
    type Tree = T::Tree<'t>;

    fn tree(&self) -> &T::Tree<'t> {
        &self.entries.tree
    }

    fn order(&self) -> Order<'_> {
        self.entries.order_of()
    }

    fn key_value(&self, row: &Row, element: usize) -> Result<Value<'static>> {
        self.entries.key_value_of(row, element)
    }

    fn rows_of(&self, entries: Vec<Entry>) -> Result<Vec<Row>> {
        self.look_up(&entries)
    }

    fn entry_view<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>> {
        self.entries.entry_view(key, value)
    }

    fn lend(&self, range: &KeyRange, visit: &mut dyn FnMut(RowView<'_>) -> Result<bool>) -> Result<()> {
        let definition = &self.entries.definition;
        let mut entries = self.entries.tree.range(range.bounds());
        loop {
            let mut keys: Vec<RowKey> = Vec::with_capacity(LOOKED_UP_TOGETHER);
            while keys.len() < LOOKED_UP_TOGETHER
                && let Some((key, value)) = entries.lend_next()?
            {
                keys.push(self.entries.index.row_key(key, value)?);
            }
            if keys.is_empty() {
                return Ok(());
            }
            let (mut result, mut goes_on) = (Ok(()), true);
            self.rows.get_many_with(&keys, |number, value| {
                if !goes_on || result.is_err() {
                    return;
                }
                let view = value.ok_or_else(|| self.without_row(&keys[number]));
                match view.and_then(|value| RowView::new(definition, &keys[number], value)).and_then(&mut *visit) {
                    Ok(more) => goes_on = more,
                    Err(error) => result = Err(error),
                }
            })?;
            result?;
            if !goes_on {
                return Ok(());
            }
        }
    }
}
