//! Rows written, and the entries of the indexes with them.
//!
//! A row and its entries change in one transaction, so no reader sees one without the others. A row that is replaced or
//! removed is read first if the table has indexes, since its old entries follow from its old value.

use quipu::{Error, ErrorKind, ReadableTable, Result, TableTransaction, Transaction, WritableTable};

use crate::old::table::RowTable;

/// Writes rows of one table in one transaction, and the entries of its indexes with them. [`RowTable::within`] makes
/// it.
///
/// Keys and values are bytes as [`Schema::encode_row`](crate::old::Schema::encode_row) makes them. In a table with indexes,
/// bytes that are no row of its schema are refused as [`Invalid`](ErrorKind::Invalid); the transaction should be given
/// up then, since the row may be changed and its entries not.
pub struct RowWriter<'a> {
    table: &'a RowTable,
    rows: TableTransaction<'a>,
    indexes: Vec<TableTransaction<'a>>,
    /// The key of an index's entry, kept for its capacity.
    entry: Vec<u8>,
}

impl RowTable {
    /// The table and its indexes in a transaction.
    ///
    /// # Errors
    ///
    /// [`Missing`](ErrorKind::Missing) if the table or an index was dropped.
    pub fn within<'a>(&'a self, transaction: &'a Transaction) -> Result<RowWriter<'a>> {
        Ok(RowWriter {
            table: self,
            rows: transaction.table(&self.table)?,
            indexes: self.indexes.iter().map(|index| transaction.table(&index.table)).collect::<Result<_>>()?,
            entry: Vec::new(),
        })
    }
}

impl RowWriter<'_> {
    /// Adds a row.
    ///
    /// # Errors
    ///
    /// [`Exists`](ErrorKind::Exists) if there is one of that key.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.rows.insert(key, value)?;
        self.add_entries(key, value)
    }

    /// Adds a row, or replaces the one of that key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.indexes.is_empty()
            && let Some(old) = self.rows.get(key)?
        {
            self.remove_entries(key, &old)?;
        }
        self.rows.put(key, value)?;
        self.add_entries(key, value)
    }

    /// Removes the row of that key; false if there was none.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.indexes.is_empty() {
            return self.rows.remove(key);
        }
        let Some(old) = self.rows.get(key)? else { return Ok(false) };
        self.remove_entries(key, &old)?;
        self.rows.remove(key)
    }

    /// The rows in this transaction, its own changes among them: whatever can be asked of a table can be asked of them.
    pub fn rows(&self) -> &TableTransaction<'_> {
        &self.rows
    }

    fn add_entries(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.for_each_entry(key, value, |index, entry| index.put(entry, b""))
    }

    fn remove_entries(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.for_each_entry(key, value, |index, entry| index.remove(entry).map(drop))
    }

    /// Calls `change` with each index and the key of the row's entry there.
    fn for_each_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        change: impl Fn(&mut TableTransaction<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(schema) = self.table.schema.as_ref().filter(|_| !self.indexes.is_empty()) else { return Ok(()) };
        let row = schema.decode_row(key, value).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                format!("a row does not fit the schema of table {}", self.table.table.name()),
            )
        })?;
        for (transaction, index) in self.indexes.iter_mut().zip(&self.table.indexes) {
            index.encode_entry(&row, &mut self.entry);
            change(transaction, &self.entry)?;
        }
        Ok(())
    }
}
