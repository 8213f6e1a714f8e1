//! A table with its schema and its secondary indexes: opened, created and dropped.
//!
//! Tables and their indexes are created and dropped by themselves, not in a transaction: a crash in between leaves the
//! table with some of its indexes.

use quipu::{Db, Error, ErrorKind, Result, Table, TableOptions};

use crate::old::catalog;
use crate::old::index::Index;
use crate::old::schema::Schema;

/// A table of rows, open, with its secondary indexes.
pub struct RowTable {
    /// The engine's table, in which the rows are.
    pub table: Table,
    /// Its columns; none for a table of plain keys and values, which has no indexes.
    pub schema: Option<Schema>,
    pub(crate) indexes: Vec<Index>,
}

impl RowTable {
    /// Opens the table of that name and its indexes; none if there is no such table.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt) if an index has a column that the table has not.
    pub fn open(db: &Db, name: &str) -> Result<Option<RowTable>> {
        let Some(table) = db.open_table(name)? else { return Ok(None) };
        let schema = Schema::of(&table);
        let indexes = schema.as_ref().map(|schema| catalog::indexes(db, name, schema)).transpose()?.unwrap_or_default();
        Ok(Some(RowTable { table, schema, indexes }))
    }

    /// Creates a table and its indexes, each a name and the names of its columns. The options are those of the table;
    /// their metadata becomes the schema's.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if an index names a column that is not there, [`Exists`](ErrorKind::Exists) if
    /// the table or the table of an index is there already. Nothing is created then.
    pub fn create(
        db: &Db,
        name: &str,
        schema: &Schema,
        indexes: &[(String, Vec<String>)],
        mut options: TableOptions,
    ) -> Result<RowTable> {
        let mut index_schemas = Vec::new();
        for (index, columns) in indexes {
            let index_schema = schema.index(name, columns).map_err(|error| error.context(format!("index {index}")))?;
            index_schemas.push((catalog::index_table(name, index), index_schema));
        }
        for table in std::iter::once(name).chain(index_schemas.iter().map(|(name, _)| name.as_str())) {
            if db.open_table(table)?.is_some() {
                return Err(Error::new(ErrorKind::Exists, format!("table {table} exists")));
            }
        }
        options.metadata = schema.to_metadata();
        db.create_table(name, options)?;
        for (index, schema) in index_schemas {
            db.create_table(&index, TableOptions { metadata: schema.to_metadata(), ..TableOptions::default() })?;
        }
        RowTable::open(db, name)?.ok_or_else(|| Error::new(ErrorKind::Missing, format!("table {name} is gone")))
    }

    /// Drops the indexes and then the table.
    pub fn drop(self, db: &Db) -> Result<()> {
        for index in &self.indexes {
            db.drop_table(index.table.name())?;
        }
        db.drop_table(self.table.name())?;
        Ok(())
    }

    /// The names of the indexes, without the table's name in front.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        let skipped = self.table.name().len() + 1;
        self.indexes.iter().map(move |index| index.table.name().get(skipped..).unwrap_or_default())
    }

    /// The name of the table that this is an index of, and with which alone it should change; none for a table of rows.
    pub fn index_of(&self) -> Option<&str> {
        self.schema.as_ref()?.index_of.as_deref()
    }
}
