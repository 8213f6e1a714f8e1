//! Rows of which some columns are read, or changed, without relying on the others.

use std::sync::Arc;

use quipu::{Patch, ReadableTable, Result, ValuePart};
use xxhash_rust::xxh3::Xxh3;

use crate::definition::table::TableDefinition;
use crate::encoding::key;
use crate::encoding::layout::sum_of_value;
use crate::encoding::values::IntoValues;
use crate::read::row::{Row, RowView};
use crate::read::table::TableIn;
use crate::schema::invalid;
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::write::complete::{self, Values};

/// Some columns of a table, to read rows by: made by [`TableIn::columns`], and used for many rows.
#[derive(Clone, Debug)]
pub struct ColumnSet {
    part: ValuePart,
    table: u32,
}

/// A change of some columns of a row that follows from the row alone: made by [`TableIn::change`], and used for many
/// rows.
#[derive(Clone)]
pub struct RowChange {
    definition: Arc<TableDefinition>,
    /// The places of the columns that change.
    places: Arc<[usize]>,
    make: Arc<MakeFn>,
}

type MakeFn = dyn Fn(&RowView<'_>) -> Result<Vec<Value<'static>>> + Send + Sync;

/// A digest of some columns of a row.
fn digest(definition: &TableDefinition, places: &[usize], value: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    let mut add = |bytes: Option<&[u8]>| {
        hash.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_le_bytes());
        hash.update(bytes.unwrap_or_default());
    };
    match definition.shape_of(value) {
        Ok(Some(shape)) => {
            for &place in places {
                match shape.read_bytes(place, &[], value) {
                    Ok(bytes) => add(bytes),
                    // A column of the key is the same as long as the row is there.
                    Err(_) => add(None),
                }
            }
        }
        // Bytes that this definition does not know: all of them.
        _ => add(Some(value)),
    }
    hash.digest128()
}

impl<'x> TableIn<'_, RowTransaction<'x>> {
    /// Columns of these names, to read rows by.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is no such column.
    pub fn columns(&self, names: &[&str]) -> Result<ColumnSet> {
        let part = self.part(self.places(names)?);
        Ok(ColumnSet { part, table: self.definition.number })
    }

    fn part(&self, places: Vec<usize>) -> ValuePart {
        let definition = Arc::clone(&self.definition);
        ValuePart::new(move |value| digest(&definition, &places, value))
    }

    /// Notes that columns of a row that a statement writes must be unchanged at the commit: of two that write them the
    /// first wins. Where reads are noted, they say so; the single writer is alone.
    pub(crate) fn rely_on_written(&self, key: &[u8], places: &[usize]) -> Result<()> {
        if !self.trees.notes_writes_alone() {
            return Ok(());
        }
        self.tree.relying().get_part(key, &self.part(places.to_vec())).map(drop)
    }

    /// The row of this key, of which the caller promises to use these columns and those of the key only: a commit that
    /// changes others is no conflict.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/shop", Options::without_files())?)?;
    /// # let shops = TableSchema::new("shops").key(["id"]).column(Column::new("id", DataType::I32));
    /// # let shops = shops.column(Column::new("tax", DataType::I32)).column(Column::new("sold", DataType::I32));
    /// # let shops = database.create_table(&shops)?;
    /// # shops.insert((1, 8, 0))?;
    /// let transaction = database.begin();
    /// let in_transaction = transaction.table("shops")?;
    /// let tax = in_transaction.columns(&["tax"])?;
    /// let shop = in_transaction.get_columns(1, &tax)?.expect("it is there");
    /// assert_eq!(shop.get("tax")?, Value::Int(8));
    /// in_transaction.insert((2, 8, 0))?;
    /// shops.update(1, &[("sold", Value::Int(9))])?;
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`TableIn::get`]; [`Invalid`](quipu::ErrorKind::Invalid) if the columns are of another table.
    pub fn get_columns<'v>(&self, key: impl IntoValues<'v>, columns: &ColumnSet) -> Result<Option<Row>> {
        if columns.table != self.definition.number {
            return Err(invalid(format!("the columns are of another table than {}", self.definition.name())));
        }
        let key = self.key_of(&key.into_values())?;
        // Under other isolations nothing is noted of what is only read.
        let value = match self.trees.notes_reads() {
            true => self.tree.get_part(&key, &columns.part)?,
            false => self.tree.get(&key)?,
        };
        Ok(value.map(|value| self.row(key.as_slice().into(), value)))
    }

    /// A change of columns of these names to what `make` makes of a row: one value for each. It depends on the row
    /// alone, and is the same for the same row, since it may be made again.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is no such column, or one is named twice.
    pub fn change(
        &self,
        names: &[&str],
        make: impl Fn(&RowView<'_>) -> Result<Vec<Value<'static>>> + Send + Sync + 'static,
    ) -> Result<RowChange> {
        let places = self.places(names)?;
        if let Some(place) = (1..places.len()).find(|&place| places[..place].contains(&places[place])) {
            return Err(invalid(format!("table {}: column {} is named twice", self.definition.name(), names[place])));
        }
        Ok(RowChange { definition: Arc::clone(&self.definition), places: places.into(), make: Arc::new(make) })
    }

    /// Changes columns of the row of this key. Returns whether there is one.
    ///
    /// Of columns that no index, foreign key or primary key has, the transaction relies on no more than that the row is
    /// there: if another commit has changed the row meanwhile, the change is made again at the commit, of the row of
    /// then. So two transactions that add to a column of one row both commit, and so do two that change different
    /// columns. Checks of the row are made then as well.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/shop", Options::without_files())?)?;
    /// # let shops = TableSchema::new("shops").key(["id"]).column(Column::new("id", DataType::I32));
    /// # let shops = database.create_table(&shops.column(Column::new("sold", DataType::I32).not_null()))?;
    /// # shops.insert((1, 0))?;
    /// let (anna, ben) = (database.begin(), database.begin());
    /// for transaction in [&anna, &ben] {
    ///     let shops = transaction.table("shops")?;
    ///     let one_more = shops.change(&["sold"], |row| match row.get("sold")? {
    ///         Value::Int(sold) => Ok(vec![Value::Int(sold + 1)]),
    ///         other => Ok(vec![other.into_owned()]),
    ///     })?;
    ///     assert!(shops.apply(1, &one_more)?);
    /// }
    /// anna.commit()?;
    /// ben.commit()?;
    /// assert_eq!(shops.get(1)?.expect("it is there").get("sold")?, Value::Int(2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`TableIn::update`], and those of the change. At the commit, those of the change and of checks again.
    pub fn apply<'v>(&self, key: impl IntoValues<'v>, change: &RowChange) -> Result<bool> {
        let key = self.key_of(&key.into_values())?;
        self.apply_at(key, change)
    }

    /// [`TableIn::apply`], of an encoded key.
    pub(crate) fn apply_at(&self, key: Vec<u8>, change: &RowChange) -> Result<bool> {
        if change.definition.number != self.definition.number || change.definition.version != self.definition.version {
            let what = format!("the change is of another table than {}, or of another version", self.definition.name());
            return Err(invalid(what));
        }
        self.trees.refuse_broken()?;
        if self.can_patch(&change.places) {
            let (change, patched_key) = (change.clone(), key.clone());
            return self.tree.patch(&key, &Patch::new(move |value| change.patched(&patched_key, value)));
        }
        let Some(old) = self.tree.get(&key)? else { return Ok(false) };
        let values = (change.make)(&RowView::new(&self.definition, &key, &old)?)?;
        let changes = change.places.iter().copied().zip(values).collect();
        self.change_row(&key, &old, changes)?;
        Ok(true)
    }

    /// Whether nothing but the value of a row depends on these columns.
    pub(crate) fn can_patch(&self, places: &[usize]) -> bool {
        let definition = &*self.definition;
        let is_read = |place: usize| {
            definition.primary.places.contains(&place)
                || definition.numbered.contains(&place)
                || definition.indexes.iter().any(|index| index.reads.contains(&place))
                || definition.foreign_keys.iter().any(|foreign_key| foreign_key.columns.contains(&place))
        };
        // What others refer to is the primary key or in a unique index.
        !places.iter().any(|&place| is_read(place))
    }
}

impl RowChange {
    /// The value of a changed row.
    fn patched(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let view = RowView::new(&self.definition, key, value)?;
        let values = (self.make)(&view)?;
        if values.len() != self.places.len() {
            let (made, wanted) = (values.len(), self.places.len());
            return Err(invalid(format!("a change made {made} values for {wanted} columns")));
        }
        patched(&self.definition, &view, self.places.iter().copied().zip(values.iter().map(Value::borrowed)))
    }
}

/// The value of a row of which some columns change, that no index has.
pub(crate) fn patched<'v>(
    definition: &TableDefinition,
    view: &RowView<'_>,
    changes: impl Iterator<Item = (usize, Value<'v>)> + Clone,
) -> Result<Vec<u8>> {
    if let Some(value) = overwritten(definition, view.value, changes.clone()) {
        return Ok(value);
    }
    let mut row: Values<'_> = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
    let mut changed: smallvec::SmallVec<[usize; 16]> = smallvec::SmallVec::new();
    for (place, value) in changes {
        row[place] = value.into_owned();
        complete::accept(definition, &mut row, place)?;
        changed.push(place);
    }
    complete::check(definition, &row, Some(&changed))?;
    let mut value = Vec::with_capacity(view.value.len() + 16);
    encode_value(definition, &row, &mut value);
    Ok(value)
}

/// The value of a row in which columns of fixed size are overwritten and the others are not looked at. None if it takes
/// more than that: another layout, another size, a check, or an error.
fn overwritten<'v>(
    definition: &TableDefinition,
    value: &[u8],
    changes: impl Iterator<Item = (usize, Value<'v>)>,
) -> Option<Vec<u8>> {
    let layout = definition.current_shape().layout.as_ref()?;
    if !definition.checks.is_empty() || !layout.is_of(value) {
        return None;
    }
    let mut value = value.to_vec();
    for (place, new) in changes {
        let column = &definition.columns[place].declared;
        if column.not_null && new.is_null() {
            return None;
        }
        let new = if new.is_null() { new } else { column.data_type.accept(new).ok()? };
        let stored = definition.stored.iter().position(|&stored| stored == place)?;
        if !layout.overwrite(stored, &new, &mut value) {
            return None;
        }
    }
    Some(value)
}

/// Appends the key of a row.
pub(crate) fn encode_key(definition: &TableDefinition, row: &[Value<'_>], bytes: &mut Vec<u8>) {
    let primary = &definition.primary;
    key::encode(&primary.key.columns, primary.places.iter().map(|&place| &row[place]), bytes);
}

/// Appends the value of a row, in the layout of new rows.
pub(crate) fn encode_value(definition: &TableDefinition, row: &[Value<'_>], bytes: &mut Vec<u8>) {
    let sum = definition.sum.map_or(0, |place| sum_of_value(&row[place]));
    if let Some(layout) = &definition.current_shape().layout {
        layout.encode(sum, definition.stored.iter().map(|&place| &row[place]), bytes);
    }
}
