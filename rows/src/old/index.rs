//! Secondary indexes: their schemas, and the entry that a row has in one.
//!
//! An index is a table of the engine whose keys are the index's columns and then those of the primary key that are not
//! among them, and whose values are empty. So every row has one entry in every index, and the entry tells the row's
//! key. It is counted as any table: how many rows there are between two values is one descent.

use quipu::tuple::Element;
use quipu::{Result, Table};

use crate::old::encoding::encode_places;
use crate::old::schema::Schema;

/// A secondary index of a table.
pub(crate) struct Index {
    pub(crate) table: Table,
    /// Where the columns of its keys stand in the table's schema.
    pub(crate) places: Vec<usize>,
}

impl Index {
    /// Makes the key of the row's entry, in the place of what `entry` holds.
    pub(crate) fn encode_entry(&self, row: &[Element<'_>], entry: &mut Vec<u8>) {
        encode_places(row, &self.places, entry);
    }
}

impl Schema {
    /// The schema of an index of `table`, whose schema this is, by the columns of these names.
    ///
    /// # Errors
    ///
    /// [`Invalid`](quipu::ErrorKind::Invalid) if a name is no column, or stands twice.
    pub fn index(&self, table: &str, names: &[String]) -> Result<Schema> {
        let mut places = self.places(names)?;
        places.extend(self.key.iter().filter(|place| !names.contains(&self.columns[**place].name)));
        Ok(Schema {
            columns: places.iter().map(|&place| self.columns[place].clone()).collect(),
            key: (0..places.len()).collect(),
            value: Vec::new(),
            index_of: Some(table.to_owned()),
        })
    }
}
