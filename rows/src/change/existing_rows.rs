//! Constraints and indexes of the rows that a transaction sees, within that transaction.
//!
//! What others write to the table meanwhile is a conflict, so this is for tables that are small, or that others do not
//! use yet; the changes beside writers are in `constraints` and `indexes`.

use std::ops::Deref;
use std::sync::Arc;

use quipu::{Error, ErrorKind, ReadableTable, Result, Transaction, WritableTable};

use crate::change::definitions::Definitions;
use crate::change::indexes::{index_entry, two_rows};
use crate::definition::document::IndexTree;
use crate::definition::foreign::ForeignKeyDefinition;
use crate::definition::index::IndexDefinition;
use crate::definition::table::{CheckDefinition, TableDefinition};
use crate::encoding::key_range::KeyRange;
use crate::expression::quoted;
use crate::read::ordered::Ordered;
use crate::read::row::{Row, RowView};
use crate::read::table::TableIn;
use crate::schema::constraint::{Check, Constraint, Deferral, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::transaction::Relying;
use crate::value::{Value, Values, collation};
use crate::write::complete;
use crate::write::references::{Access, check_reference, prefix_access, prefix_accesses};
use crate::write::unique_later;
use crate::write::violations::{broken_in_column, list};

/// Rows that are read together.
const READ_TOGETHER: usize = 1_000;

/// Definitions whose changes look at rows.
pub(crate) struct WithRows<'d>(pub(crate) &'d Definitions<'d>);

impl<'d> Deref for WithRows<'d> {
    type Target = Definitions<'d>;

    fn deref(&self) -> &Definitions<'d> {
        self.0
    }
}

impl WithRows<'_> {
    /// Lends each row of a table, as the transaction sees it.
    pub(crate) fn each_row(
        &self,
        definition: &Arc<TableDefinition>,
        mut visit: impl FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        let trees = Relying(self.transaction);
        let table = TableIn::new(&trees, Arc::clone(definition))?;
        let mut left = Some(KeyRange::all());
        while let Some(range) = left {
            self.transaction.stop.refuse()?;
            let (rows, rest) = table.chunk(&range, READ_TOGETHER, false)?;
            rows.iter().try_for_each(&mut visit)?;
            left = rest;
        }
        Ok(())
    }

    /// Adds a check that all rows keep, but for those of before if it says so.
    pub(crate) fn add_check(&self, table: &str, check: Check) -> Result<()> {
        let mut draft = self.draft(table)?;
        draft.document.schema.checks.push(check);
        let ready = self.put(&mut draft)?;
        ready.checks.last().map_or(Ok(()), |check| self.look_at_check(&ready, check))
    }

    fn look_at_check(&self, ready: &Arc<TableDefinition>, check: &CheckDefinition) -> Result<()> {
        if check.declared.not_valid {
            return Ok(());
        }
        self.each_row(ready, |row| complete::check_one(ready, &all_values(ready, &row.view()?)?, check))
    }

    fn look_at_references(&self, ready: &Arc<TableDefinition>, foreign_key: &ForeignKeyDefinition) -> Result<()> {
        if foreign_key.declared.not_valid {
            return Ok(());
        }
        self.each_row(ready, |row| {
            check_reference(self.transaction, ready, foreign_key, &all_values(ready, &row.view()?)?)
        })
    }

    /// Makes a check or a foreign key valid, which all rows keep. Returns whether there is one of this name.
    pub(crate) fn validate_constraint(&self, table: &str, name: &str) -> Result<bool> {
        let mut draft = self.draft(table)?;
        let schema = &mut draft.document.schema;
        let check = schema.checks.iter().position(|check| check.name == name);
        let foreign_key = schema.foreign_keys.iter().position(|foreign_key| foreign_key.name == name);
        let not_valid = match (check, foreign_key) {
            (Some(at), _) => &mut schema.checks[at].not_valid,
            (None, Some(at)) => &mut schema.foreign_keys[at].not_valid,
            (None, None) => return Ok(false),
        };
        if std::mem::take(not_valid) {
            let ready = self.put(&mut draft)?;
            match (check, foreign_key) {
                (Some(at), _) => self.look_at_check(&ready, &ready.checks[at])?,
                (None, at) => at.map_or(Ok(()), |at| self.look_at_references(&ready, &ready.foreign_keys[at]))?,
            }
        }
        Ok(true)
    }

    /// Makes a column NOT NULL, which all rows keep.
    pub(crate) fn set_not_null(&self, table: &str, column: &str) -> Result<()> {
        let mut draft = self.draft(table)?;
        let place = self.ready(&draft)?.place(column)?;
        if std::mem::replace(&mut draft.document.schema.columns[place].not_null, true) {
            return Ok(());
        }
        let ready = self.put(&mut draft)?;
        self.each_row(&ready, |row| {
            if !row.value(place)?.is_null() {
                return Ok(());
            }
            let what = "NULL in a column that is NOT NULL";
            Err(broken_in_column(&ready, &all_values(&ready, &row.view()?)?, place, Constraint::NotNull, what))
        })
    }

    /// Adds a foreign key that all rows keep, but for those of before if it says so. It gets an index if there is none.
    pub(crate) fn add_foreign_key(&self, table: &str, foreign_key: ForeignKey) -> Result<()> {
        let ready = self.ready(&self.draft(table)?)?;
        let places = foreign_key.columns.iter().map(|column| ready.place(column)).collect::<Result<Vec<_>>>()?;
        if prefix_access(&ready, &places).is_none() {
            self.create_index(table, index_for(&foreign_key))?;
        }
        let mut draft = self.draft(table)?;
        self.link_foreign_key(&mut draft, foreign_key)?;
        let ready = self.put(&mut draft)?;
        ready.foreign_keys.last().map_or(Ok(()), |foreign_key| self.look_at_references(&ready, foreign_key))
    }

    /// Creates an index for each foreign key that goes by this one alone; or, without one, by the primary key alone.
    pub(crate) fn relieve_index(&self, table: &str, index: Option<&str>) -> Result<()> {
        let ready = self.ready(&self.draft(table)?)?;
        let is_other = |access: Access<'_>| match access {
            Access::Primary => index.is_some(),
            Access::Index(found) => Some(&*found.declared.name) != index,
        };
        for foreign_key in &ready.foreign_keys {
            if !prefix_accesses(&ready, &foreign_key.columns).any(is_other) {
                self.create_index(table, index_for(&foreign_key.declared))?;
            }
        }
        Ok(())
    }

    /// Creates an index of the rows that there are.
    pub(crate) fn create_index(&self, table: &str, declared: IndexSchema) -> Result<()> {
        let mut draft = self.draft(table)?;
        let schema = &mut draft.document.schema;
        if schema.indexes.iter().any(|index| index.name == declared.name) {
            return Err(Error::new(ErrorKind::Exists, format!("table {table} has an index {} already", declared.name)));
        }
        let (has_sum, comment) = (declared.sum.is_some(), format!("index {} of table {table}", declared.name));
        schema.indexes.push(declared);
        draft.document.indexes.push(IndexTree::NONE);
        match self.look_at(draft.number, &draft.document) {
            Err(error) if error.kind() == ErrorKind::Version => {
                draft.document.collation = Some(collation::VERSION.to_owned());
            }
            looked_at => drop(looked_at?),
        }
        let tree = self.create_tree(Transaction::create_table, &draft.document.schema, has_sum, comment)?;
        if let Some(place) = draft.document.indexes.last_mut() {
            *place = IndexTree::new(tree, None);
        }
        let ready = self.put(&mut draft)?;
        match ready.indexes.last() {
            Some(index) if index.declared.deferral != Deferral::Never => {
                self.fill_index(&ready, index)?;
                unique_later::check_all(self.transaction, &ready, index)
            }
            Some(index) => self.fill_index(&ready, index),
            None => Ok(()),
        }
    }

    /// Writes the entries of all rows.
    fn fill_index(&self, definition: &Arc<TableDefinition>, index: &IndexDefinition) -> Result<()> {
        let entries = self.engine().table(&index.tree)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.each_row(definition, |row| {
            let view = row.view()?;
            if !index_entry(definition, index, &view, &mut key, &mut value)? {
                return Ok(());
            }
            if !index.declared.unique {
                return entries.put(&key, &value);
            }
            match entries.insert(&key, &value) {
                Err(error) if error.kind() == ErrorKind::Exists => {
                    let other = entries.get(&key)?.unwrap_or_default();
                    let other = definition.primary.key.show(&index.row_key(&key, &other)?).to_string();
                    let rows = [other, list(&view.key_values()?)];
                    let values = index.values(&definition.columns, &view);
                    Err(two_rows(definition, index, &index.declared.name, &rows, values).into_error())
                }
                inserted => inserted,
            }
        })
    }
}

/// The values of all columns of a row.
pub(crate) fn all_values<'r>(definition: &TableDefinition, row: &RowView<'r>) -> Result<Values<'static>> {
    let values = (0..definition.columns.len()).map(|place| row.value(place).map(Value::into_owned));
    values.collect()
}

/// The index that a foreign key gets which has none.
pub(crate) fn index_for(foreign_key: &ForeignKey) -> IndexSchema {
    let columns = foreign_key.columns.iter().map(|column| quoted(column));
    IndexSchema::new(format!("{}_index", foreign_key.name), columns)
}
