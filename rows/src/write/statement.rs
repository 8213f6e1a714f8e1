//! Statements: what writes rows of one table in a transaction.

use std::sync::Arc;

use quipu::{Error, ErrorKind, Patch, ReadableTable, Result, WritableTable};
use smallvec::SmallVec;

use crate::definition::index::RowKey;
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::ordered::Ordered;
use crate::read::row::{Row, RowView};
use crate::read::table::TableIn;
use crate::schema::column::Identity;
use crate::schema::constraint::Constraint;
use crate::schema::invalid;
use crate::transaction::RowTransaction;
use crate::transaction::part::{encode_key, encode_value, patched};
use crate::value::{Value, same_in_key};
use crate::write::broken::{broken, row_name};
use crate::write::complete::{self, Values};
use crate::write::entries::{Change, Entries, change_entries};
use crate::write::references::{self, Work};

/// Keys that are deleted together.
const DELETED_TOGETHER: usize = 1_024;

/// Writing: each of these does all of what it says, or, if it fails, nothing.
///
/// Errors of a constraint that a row breaks have a [`Violation`](crate::Violation) behind them.
impl<'x> TableIn<'_, RowTransaction<'x>> {
    /// Adds a row: a value for each column that is not hidden, in the order of the schema. NULL for an identity column
    /// stands for the next number.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists) if a row has its key, or its values in a unique index;
    /// [`Invalid`](ErrorKind::Invalid) if a value is of another type, NULL where there must be one, refused by a check
    /// or refers to no row; those of the engine.
    pub fn insert<'v>(&self, values: impl IntoValues<'v>) -> Result<()> {
        self.insert_values(&values.into_values())
    }

    /// [`TableIn::insert`], of values that the caller keeps.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`].
    pub fn insert_values(&self, values: &[Value<'_>]) -> Result<()> {
        let row = complete::from_all(&self.definition, values, self.trees)?;
        self.insert_row(&row).map(drop)
    }

    /// Adds a row with values for some columns, the others having their defaults, and returns it.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`]; [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub fn insert_columns<'v>(&self, columns: &[&str], values: impl IntoValues<'v>) -> Result<Row> {
        let places = self.places(columns)?;
        let values = values.into_values();
        let row = complete::from_some(&self.definition, &places, &values, self.trees)?;
        let (key, value) = self.insert_row(&row)?;
        Ok(self.row(key.as_slice().into(), value.as_slice().into()))
    }

    /// Adds a row, or replaces the one of its key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`], but for a row of the same key.
    pub fn put<'v>(&self, values: impl IntoValues<'v>) -> Result<bool> {
        let values = values.into_values();
        let row = complete::from_all(&self.definition, &values, self.trees)?;
        let mut key = Vec::new();
        encode_key(&self.definition, &row, &mut key);
        let Some(old) = self.tree.get(&key)? else {
            self.insert_row(&row)?;
            return Ok(false);
        };
        let is_own_number = |place: usize| self.definition.columns[place].declared.identity == Some(Identity::Always);
        let places = (0..row.len()).filter(|&place| !is_own_number(place));
        let changes = places.map(|place| (place, row[place].borrowed())).collect();
        self.change_row(&key, &old, changes)?;
        Ok(true)
    }

    /// Changes columns of the row of this key. Returns whether there is one.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`]; [`Invalid`](ErrorKind::Invalid) if there is no such column, or rows refer to what
    /// changes and restrict it.
    pub fn update<'v, 'c>(&self, key: impl IntoValues<'v>, changes: &[(&str, Value<'c>)]) -> Result<bool> {
        let key = self.key_of(&key.into_values())?;
        let mut places: SmallVec<[(usize, Value<'_>); 8]> = SmallVec::new();
        for (name, value) in changes {
            places.push((self.definition.place(name)?, value.borrowed()));
        }
        self.update_at(&key, places)
    }

    /// Changes columns, said by their places, of the row of this key to what `change` makes of it. Returns whether
    /// there is one.
    ///
    /// # Errors
    /// Those of [`TableIn::update`], and those of `change`.
    pub fn update_with<'v>(
        &self,
        key: impl IntoValues<'v>,
        change: impl FnOnce(&RowView<'_>) -> Result<Vec<(usize, Value<'static>)>>,
    ) -> Result<bool> {
        let key = self.key_of(&key.into_values())?;
        let Some(old) = self.tree.get(&key)? else { return Ok(false) };
        let view = RowView::new(&self.definition, &key, &old)?;
        let changes = change(&view)?;
        if let Some((place, _)) = changes.iter().find(|(place, _)| *place >= self.definition.columns.len()) {
            return Err(invalid(format!("table {} has no column number {place}", self.definition.name())));
        }
        let places: SmallVec<[usize; 8]> = changes.iter().map(|(place, _)| *place).collect();
        if self.can_patch(&places) {
            self.trees.refuse_broken()?;
            let changes = changes.iter().map(|(place, value)| (*place, value.borrowed()));
            let value = patched(&self.definition, &view, changes)?;
            if value == *old {
                // It is a write all the same: that these values stand at the commit.
                self.rely_on_written(&key, &places)?;
            } else {
                self.tree.put(&key, &value)?;
            }
            return Ok(true);
        }
        self.change_row(&key, &old, changes.into_iter().collect())?;
        Ok(true)
    }

    /// Removes the row of this key. Returns whether there was one.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if rows refer to it and restrict that; those of the engine.
    pub fn delete<'v>(&self, key: impl IntoValues<'v>) -> Result<bool> {
        let key = self.key_of(&key.into_values())?;
        self.delete_at(&key)
    }

    /// Removes all rows of a range. Returns how many there were.
    ///
    /// # Errors
    /// Those of [`TableIn::delete`]; then none of them is removed.
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.trees.refuse_broken()?;
        let range = self.range_of(span)?;
        if self.definition.indexes.is_empty() && self.definition.document.referenced_by.is_empty() {
            return self.tree.remove_range(range.bounds());
        }
        self.trees.as_one(|| {
            let mut deleted = 0;
            loop {
                let mut keys: Vec<RowKey> = Vec::new();
                self.tree.for_each_limited(range.bounds(), DELETED_TOGETHER as u64, |key, _| keys.push(key.into()))?;
                if keys.is_empty() {
                    return Ok(deleted);
                }
                for key in keys {
                    deleted += u64::from(self.delete_at(&key)?);
                }
            }
        })
    }

    /// The places of the columns of these names.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub(crate) fn places(&self, names: &[&str]) -> Result<Vec<usize>> {
        names.iter().map(|name| self.definition.place(name)).collect()
    }

    /// Changes columns of the row of an encoded key. Returns whether there is one.
    pub(crate) fn update_at(&self, key: &[u8], changes: SmallVec<[(usize, Value<'_>); 8]>) -> Result<bool> {
        let places: SmallVec<[usize; 8]> = changes.iter().map(|(place, _)| *place).collect();
        if self.can_patch(&places) {
            self.trees.refuse_broken()?;
            self.rely_on_written(key, &places)?;
            let definition = Arc::clone(&self.definition);
            let patched_key = RowKey::from_slice(key);
            let changes: Vec<(usize, Value<'static>)> =
                changes.into_iter().map(|(place, value)| (place, value.into_owned())).collect();
            return self.tree.patch(
                key,
                &Patch::new(move |value| {
                    let view = RowView::new(&definition, &patched_key, value)?;
                    patched(&definition, &view, changes.iter().map(|(place, value)| (*place, value.borrowed())))
                }),
            );
        }
        let Some(old) = self.tree.get(key)? else { return Ok(false) };
        self.change_row(key, &old, changes)?;
        Ok(true)
    }

    /// Removes the row of an encoded key. Returns whether there was one.
    pub(crate) fn delete_at(&self, key: &[u8]) -> Result<bool> {
        self.trees.refuse_broken()?;
        if self.definition.indexes.is_empty() && self.definition.document.referenced_by.is_empty() {
            return self.tree.remove(key);
        }
        if self.definition.document.referenced_by.is_empty() {
            return self.delete_one(key, &mut Vec::new());
        }
        self.trees.as_one(|| {
            let mut work = Vec::new();
            let was_there = self.delete_one(key, &mut work)?;
            self.do_work(work)?;
            Ok(was_there)
        })
    }

    /// Whether the table refers to itself, so that a row may refer to one that the same statement writes.
    fn refers_to_itself(&self) -> bool {
        self.definition.foreign_keys.iter().any(|foreign_key| foreign_key.table == self.definition.number)
    }

    /// Adds a complete row. Returns its key and value.
    fn insert_row(&self, row: &Values<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
        self.trees.refuse_broken()?;
        complete::check(&self.definition, row, None)?;
        if self.refers_to_itself() {
            return self.trees.as_one(|| {
                let written = self.write_new(row)?;
                references::check_referred(self.trees, &self.definition, row, None)?;
                Ok(written)
            });
        }
        references::check_referred(self.trees, &self.definition, row, None)?;
        self.write_new(row)
    }

    fn write_new(&self, row: &Values<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
        let (mut key, mut value) = (Vec::with_capacity(32), Vec::with_capacity(64));
        encode_key(&self.definition, row, &mut key);
        encode_value(&self.definition, row, &mut value);
        match self.tree.insert(&key, &value) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Exists => return Err(exists(&self.definition, row)),
            Err(error) => return Err(in_row(error, &self.definition, row)),
        }
        let change = Change { old: None, new: Some((row, &key)), changed: None };
        if let Err(error) = change_entries(self.trees, &self.definition, change, &mut Entries::default()) {
            if self.tree.remove(&key).is_err() {
                self.trees.break_off();
            }
            return Err(error);
        }
        Ok((key, value))
    }

    /// Changes columns of a row, and what follows from that.
    pub(crate) fn change_row(&self, key: &[u8], old: &[u8], changes: SmallVec<[(usize, Value<'_>); 8]>) -> Result<()> {
        self.trees.refuse_broken()?;
        if self.definition.document.referenced_by.is_empty() && !self.refers_to_itself() {
            return self.change_one(key, old, changes, &mut Vec::new());
        }
        self.trees.as_one(|| {
            let mut work = Vec::new();
            self.change_one(key, old, changes, &mut work)?;
            self.do_work(work)
        })
    }

    /// Changes columns of a row. What follows for rows that refer to it is added to the work.
    fn change_one(
        &self,
        key: &[u8],
        old_value: &[u8],
        changes: SmallVec<[(usize, Value<'_>); 8]>,
        work: &mut Vec<Work>,
    ) -> Result<()> {
        let definition = &*self.definition;
        let view = RowView::new(definition, key, old_value)?;
        let old: Values<'_> = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
        let mut row = old.clone();
        let mut changed: SmallVec<[usize; 16]> = SmallVec::new();
        let given: SmallVec<[usize; 8]> = changes.iter().map(|(place, _)| *place).collect();
        for (place, value) in changes {
            complete::refuse_own_number(definition, &row, place)?;
            row[place] = value.into_owned();
            complete::accept(definition, &mut row, place)?;
            if !is_identical(&row[place], &old[place]) && !changed.contains(&place) {
                changed.push(place);
            }
        }
        if changed.is_empty() {
            // It is a write all the same: that these values stand at the commit.
            return self.rely_on_written(key, &given);
        }
        complete::check(definition, &row, Some(&changed))?;
        let refers_to_itself = self.refers_to_itself();
        if !refers_to_itself {
            references::check_referred(self.trees, definition, &row, Some(&changed))?;
        }
        // Of columns that are equal in keys, those that refer to the row see no change.
        let differing: SmallVec<[usize; 16]> = changed
            .iter()
            .copied()
            .filter(|&place| !same_in_key(definition.columns[place].declared.data_type, &old[place], &row[place]))
            .collect();
        if !differing.is_empty() {
            references::add_referring(self.trees, definition, &old, Some((&row, &differing)), work)?;
        }
        let (mut new_key, mut value) = (Vec::with_capacity(key.len()), Vec::with_capacity(old_value.len() + 16));
        encode_key(definition, &row, &mut new_key);
        encode_value(definition, &row, &mut value);
        let has_same_key = new_key == key;
        if has_same_key {
            self.tree.put(key, &value).map_err(|error| in_row(error, definition, &row))?;
        } else {
            match self.tree.insert(&new_key, &value) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Exists => return Err(exists(definition, &row)),
                Err(error) => return Err(in_row(error, definition, &row)),
            }
        }
        let change = Change { old: Some((&old, key)), new: Some((&row, &new_key)), changed: Some(&changed) };
        let mut entries = change_entries(self.trees, definition, change, &mut Entries::default());
        if entries.is_ok() && !has_same_key {
            entries = self.tree.delete(key);
        }
        if let Err(error) = entries {
            let undone = if has_same_key { self.tree.put(key, old_value) } else { self.tree.delete(&new_key) };
            if undone.is_err() {
                self.trees.break_off();
            }
            return Err(error);
        }
        if refers_to_itself {
            references::check_referred(self.trees, definition, &row, Some(&changed))?;
        }
        Ok(())
    }

    /// Removes a row. What follows for rows that refer to it is added to the work.
    fn delete_one(&self, key: &[u8], work: &mut Vec<Work>) -> Result<bool> {
        let definition = &*self.definition;
        let Some(old_value) = self.tree.get(key)? else { return Ok(false) };
        let view = RowView::new(definition, key, &old_value)?;
        let old: Values<'_> = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
        let change = Change { old: Some((&old, key)), new: None, changed: None };
        change_entries(self.trees, definition, change, &mut Entries::default())?;
        if let Err(error) = self.tree.delete(key) {
            self.trees.break_off();
            return Err(error);
        }
        // The row is gone by now, so that one which refers to itself does not restrict that.
        references::add_referring(self.trees, definition, &old, None, work)?;
        Ok(true)
    }

    /// Does what follows from a change, and from what that brings with it.
    fn do_work(&self, mut work: Vec<Work>) -> Result<()> {
        while let Some(next) = work.pop() {
            match next {
                Work::Delete { definition, key } => {
                    TableIn::new(self.trees, definition)?.delete_one(&key, &mut work)?;
                }
                Work::Update { definition, key, changes } => {
                    let table = TableIn::new(self.trees, definition)?;
                    if let Some(old) = table.tree.get(&key)? {
                        table.change_one(&key, &old, changes.into_iter().collect(), &mut work)?;
                    }
                }
                Work::Referring { definition, range, index, changes } => {
                    references::take_referring(self.trees, definition, range, index, changes, &mut work)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether nothing changes: texts that are equal but in case differ here, and so do zeros of two signs.
fn is_identical(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// The error of a row whose key another row has.
#[cold]
fn exists(definition: &TableDefinition, row: &[Value<'_>]) -> Error {
    let what = "a row of this key is there already";
    broken(definition, row, Constraint::PrimaryKey, what).into_error()
}

/// An error of the engine with the row that it is about.
#[cold]
fn in_row(error: Error, definition: &TableDefinition, row: &[Value<'_>]) -> Error {
    match error.kind() {
        ErrorKind::Invalid => {
            error.context(format_args!("table {}, row {}", definition.name(), row_name(definition, row)))
        }
        _ => error,
    }
}
