//! A table with its schema and its secondary indexes, which change with it in one transaction.
//!
//! The index `name` of the table `T` is the table `T.name`; its keys are the index's columns and then the rest of the primary key,
//! its values are empty.

use quipu::tuple;
use quipu::{Db, Entry, Error, ErrorKind, Read, Table, TableOptions, TableTransaction, Transaction, Write};

use crate::failure::{Failure, Result};
use crate::schema::Schema;

/// A table and what belongs to it.
pub(crate) struct RowTable {
    pub(crate) table: Table,
    pub(crate) schema: Option<Schema>,
    indexes: Vec<Index>,
}

struct Index {
    table: Table,
    /// The index's columns in the table's schema.
    places: Vec<usize>,
}

impl RowTable {
    /// The table of that name with the indexes that name it.
    pub(crate) fn open(db: &Db, name: &str) -> Result<Option<RowTable>> {
        let Some(table) = db.open_table(name)? else { return Ok(None) };
        let schema = Schema::of(&table);
        let mut indexes = Vec::new();
        if let Some(schema) = &schema {
            for candidate in db.tables() {
                let Some(index) = Schema::of(&candidate) else { continue };
                if index.index_of.as_deref() != Some(name) {
                    continue;
                }
                let places = index.key_columns().map(|column| schema.place(&column.name)).collect::<Option<_>>();
                let places = places.ok_or_else(|| {
                    Failure::new(format!("index {} has a column that table {name} has not", candidate.name()))
                })?;
                indexes.push(Index { table: candidate, places });
            }
        }
        Ok(Some(RowTable { table, schema, indexes }))
    }

    /// Creates the table and its indexes, each a name and its columns.
    ///
    /// # Errors
    ///
    /// A column that is not there, a table that is; nothing is created then.
    pub(crate) fn create(
        db: &Db,
        name: &str,
        schema: &Schema,
        indexes: &[(String, Vec<String>)],
        mut options: TableOptions,
    ) -> Result<RowTable> {
        let mut index_schemas = Vec::new();
        for (index, columns) in indexes {
            let index_schema = schema.index(name, columns).map_err(|error| error.context(format!("index {index}")))?;
            index_schemas.push((format!("{name}.{index}"), index_schema));
        }
        for table in std::iter::once(name).chain(index_schemas.iter().map(|(name, _)| name.as_str())) {
            if db.open_table(table)?.is_some() {
                return Err(Failure::new(format!("table {table} exists")));
            }
        }
        options.annotation = schema.to_annotation();
        db.create_table(name, options)?;
        for (index, schema) in index_schemas {
            db.create_table(&index, TableOptions { annotation: schema.to_annotation(), ..TableOptions::default() })?;
        }
        RowTable::open(db, name)?.ok_or_else(|| Failure::new(format!("table {name} is gone")))
    }

    /// Drops the table and its indexes.
    pub(crate) fn drop(self, db: &Db) -> Result<()> {
        for index in &self.indexes {
            db.drop_table(index.table.name())?;
        }
        db.drop_table(self.table.name())?;
        Ok(())
    }

    /// The names of the indexes, without the table's.
    pub(crate) fn index_names(&self) -> impl Iterator<Item = &str> {
        let skipped = self.table.name().len() + 1;
        self.indexes.iter().map(move |index| index.table.name().get(skipped..).unwrap_or_default())
    }

    /// The name of the table that this is an index of: it changes with that table only.
    pub(crate) fn index_of(&self) -> Option<&str> {
        self.schema.as_ref()?.index_of.as_deref()
    }

    /// The table and its indexes in a transaction.
    pub(crate) fn within<'a>(&'a self, transaction: &'a Transaction) -> quipu::Result<RowWriter<'a>> {
        Ok(RowWriter {
            table: self,
            rows: transaction.table(&self.table)?,
            indexes: self.indexes.iter().map(|index| transaction.table(&index.table)).collect::<quipu::Result<_>>()?,
            entry: Vec::new(),
        })
    }
}

/// Writes rows of one table in one transaction, and the entries of its indexes with them.
pub(crate) struct RowWriter<'a> {
    table: &'a RowTable,
    rows: TableTransaction<'a>,
    indexes: Vec<TableTransaction<'a>>,
    /// The key of an index's entry, kept for its capacity.
    entry: Vec<u8>,
}

impl RowWriter<'_> {
    /// Adds a row.
    ///
    /// # Errors
    ///
    /// `Exists` if there is one of that key.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> quipu::Result<()> {
        self.rows.insert(key, value)?;
        self.add_entries(key, value)
    }

    /// Adds a row, or replaces the one of that key.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> quipu::Result<()> {
        if !self.indexes.is_empty()
            && let Some(old) = self.rows.get(key)?
        {
            self.remove_entries(key, &old)?;
        }
        self.rows.put(key, value)?;
        self.add_entries(key, value)
    }

    /// Removes a row; whether there was one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> quipu::Result<bool> {
        if self.indexes.is_empty() {
            return self.rows.remove(key);
        }
        let Some(old) = self.rows.get(key)? else { return Ok(false) };
        self.remove_entries(key, &old)?;
        self.rows.remove(key)
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> quipu::Result<u64> {
        self.rows.len()
    }

    /// The row at an offset.
    pub(crate) fn nth(&self, offset: u64) -> quipu::Result<Option<Entry>> {
        self.rows.nth(.., offset)
    }

    /// Whether there is a row of that key.
    pub(crate) fn contains(&self, key: &[u8]) -> quipu::Result<bool> {
        self.rows.contains(key)
    }

    fn add_entries(&mut self, key: &[u8], value: &[u8]) -> quipu::Result<()> {
        self.for_each_entry(key, value, |index, entry| index.put(entry, b""))
    }

    fn remove_entries(&mut self, key: &[u8], value: &[u8]) -> quipu::Result<()> {
        self.for_each_entry(key, value, |index, entry| index.remove(entry).map(drop))
    }

    /// Calls `change` with each index and the key of the row's entry there.
    fn for_each_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        change: impl Fn(&mut TableTransaction<'_>, &[u8]) -> quipu::Result<()>,
    ) -> quipu::Result<()> {
        let Some(schema) = self.table.schema.as_ref().filter(|_| !self.indexes.is_empty()) else { return Ok(()) };
        let row = schema.decode_row(key, value).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                format!("a row does not fit the schema of table {}", self.table.table.name()),
            )
        })?;
        for (transaction, index) in self.indexes.iter_mut().zip(&self.table.indexes) {
            self.entry.clear();
            for &place in &index.places {
                tuple::encode_into(std::slice::from_ref(&row[place]), &mut self.entry);
            }
            change(transaction, &self.entry)?;
        }
        Ok(())
    }
}
