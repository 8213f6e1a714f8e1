//! Rows of which some columns are read, or written, without relying on the others.

use std::sync::Arc;

use quipu::isolation::ValuePart;
use quipu::{ReadableTable, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::definition::table::TableDefinition;
use crate::encoding::values::IntoValues;
use crate::read::row::Row;
use crate::read::table::TableIn;
use crate::schema::invalid;
use crate::transaction::RowTransaction;

/// Some columns of a table, to read rows by: made by [`TableIn::columns`], and used for many rows.
#[derive(Clone, Debug)]
pub struct ColumnSet {
    part: ValuePart,
    table: u32,
}

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
        let part = self.part(self.definition.places(names)?);
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
        definition.generated.is_empty() && !places.iter().any(|&place| is_read(place))
    }
}
