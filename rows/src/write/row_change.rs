//! Changes of some columns that follow from the row alone, and that are made again where another commit has changed it.

use std::sync::Arc;

use quipu::isolation::Patch;
use quipu::{ReadableTable, Result};

use crate::definition::table::TableDefinition;
use crate::encoding::values::IntoValues;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::invalid;
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::value::text::counted;
use crate::write::complete::patched;

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

impl<'x> TableIn<'_, RowTransaction<'x>> {
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
        let places = self.definition.places(names)?;
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
        if change.definition.number != self.definition.number || change.definition.version != self.definition.version {
            let what = format!("the change is of another table than {}, or of another version", self.definition.name());
            return Err(invalid(what));
        }
        self.trees.refuse_stale(&self.definition)?;
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
}

impl RowChange {
    /// The value of a changed row.
    fn patched(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let view = RowView::new(&self.definition, key, value)?;
        let values = (self.make)(&view)?;
        if values.len() != self.places.len() {
            let (made, wanted) = (counted(values.len(), "value"), counted(self.places.len(), "column"));
            return Err(invalid(format!("a change made {made} for {wanted}")));
        }
        patched(&self.definition, &view, self.places.iter().copied().zip(values.iter().map(Value::borrowed)))
    }
}
