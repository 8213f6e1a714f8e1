//! Statements: what writes rows of one table in a transaction.

use std::sync::Arc;

use quipu::isolation::Patch;
use quipu::{Error, ErrorKind, ReadableTable, Result, WritableTable};
use smallvec::SmallVec;

use crate::definition::index::RowKey;
use crate::definition::row::{encode_key, encode_value};
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::index::IndexIn;
use crate::read::ordered::Ordered;
use crate::read::row::{Row, RowView};
use crate::read::table::TableIn;
use crate::schema::column::Identity;
use crate::schema::constraint::Constraint;
use crate::schema::invalid;
use crate::transaction::{RowTransaction, as_one};
use crate::value::{Value, Values, same_in_key};
use crate::write::complete::{self, NewRow, patched};
use crate::write::consequences::Consequences;
use crate::write::entries::{Change, Entries, change_entries};
use crate::write::references;
use crate::write::violations::{broken, row_name};

/// Keys that are deleted together.
const DELETED_TOGETHER: usize = 1_024;

/// Writing: each of these does all of what it says, or, if it fails, nothing.
///
/// Errors of a constraint that a row breaks have a [`Violation`](crate::Violation) as their source.
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
        self.add(|| complete::from_all(&self.definition, values, &self.trees.numbers, self.brings_numbers)).map(drop)
    }

    /// The same table, whose new rows may bring numbers for columns that always have a number of the table, as rows do
    /// that come from another database. Their numbers are not given out later. (SQL has `OVERRIDING SYSTEM VALUE`.)
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Identity, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/bills", Options::without_files())?)?;
    /// let bills = TableSchema::new("bills")
    ///     .column(Column::new("number", DataType::I32).identity(Identity::Always))
    ///     .column(Column::new("payer", DataType::TEXT))
    ///     .key(["number"]);
    /// let bills = database.create_table(&bills)?;
    /// bills.insert((7, "Ana")).unwrap_err();
    /// database.write(|transaction| transaction.table("bills")?.bringing_numbers().insert((7, "Ana")))?;
    /// assert_eq!(bills.insert_columns(&["payer"], "Ben")?.get("number")?, Value::Int(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bringing_numbers(self) -> Self {
        TableIn { brings_numbers: true, ..self }
    }

    /// Adds a row with values for some columns, the others having their defaults, and returns it.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`]; [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub fn insert_columns<'v>(&self, columns: &[&str], values: impl IntoValues<'v>) -> Result<Row> {
        let places = self.definition.places(columns)?;
        let values = values.into_values();
        let (key, value) = self.add(|| {
            complete::from_some(&self.definition, &places, &values, &self.trees.numbers, self.brings_numbers)
        })?;
        Ok(self.row(key.as_slice().into(), value.as_slice().into()))
    }

    /// Adds a row, or replaces the one of its key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`], but for a row of the same key.
    pub fn put<'v>(&self, values: impl IntoValues<'v>) -> Result<bool> {
        let (values, definition) = (values.into_values(), &*self.definition);
        let complete = || complete::from_all(definition, &values, &self.trees.numbers, self.brings_numbers);
        let mut passed_over = Vec::new();
        loop {
            let mut new = complete()?;
            let mut key = Vec::new();
            encode_key(definition, &new.row, &mut key);
            // A row whose key has a number of the table is a new one.
            let has_new_key = new.was_given(&definition.primary.places);
            let Some(old) = (if has_new_key { None } else { self.tree.get(&key)? }) else {
                drop(new);
                self.add(complete)?;
                return Ok(false);
            };
            // The row keeps its number where it always has one of the table.
            let is_kept = |place: usize| {
                definition.columns[place].declared.identity == Some(Identity::Always) && new.was_given(&[place])
            };
            let places: SmallVec<[usize; 16]> = (0..new.row.len()).filter(|&place| !is_kept(place)).collect();
            let changes = places.iter().map(|&place| (place, new.row[place].borrowed())).collect();
            match self.change_row(&key, &old, changes) {
                Ok(()) => {
                    places.into_iter().for_each(|place| new.keep_number(place));
                    return Ok(true);
                }
                Err(error) if new.has_taken_number(definition, &error) => passed_over.push(new.without_row()),
                Err(error) => return Err(error),
            }
        }
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
            self.trees.refuse_stale(&self.definition)?;
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
        self.trees.refuse_stale(&self.definition)?;
        let range = self.range_of(span)?;
        if self.definition.indexes.is_empty() && self.definition.document.referenced_by.is_empty() {
            return self.tree.remove_range(range.bounds());
        }
        as_one(self.trees, || {
            let rows = self.tree.count(range.bounds())?;
            let mut consequences = Consequences::default();
            loop {
                let mut keys: Vec<RowKey> = Vec::new();
                self.tree.for_each_limited(range.bounds(), DELETED_TOGETHER as u64, |key, _| keys.push(key.into()))?;
                if keys.is_empty() {
                    break;
                }
                for key in keys {
                    // Some may have gone with others of the range.
                    if self.delete_one(&key, &mut consequences)? {
                        consequences.do_work(self.trees)?;
                    }
                }
            }
            consequences.check(self.trees)?;
            Ok(rows)
        })
    }

    /// Changes columns of the row of an encoded key. Returns whether there is one.
    pub(crate) fn update_at(&self, key: &[u8], changes: SmallVec<[(usize, Value<'_>); 8]>) -> Result<bool> {
        let places: SmallVec<[usize; 8]> = changes.iter().map(|(place, _)| *place).collect();
        if self.can_patch(&places) {
            self.trees.refuse_stale(&self.definition)?;
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
        self.trees.refuse_stale(&self.definition)?;
        if self.definition.indexes.is_empty() && self.definition.document.referenced_by.is_empty() {
            return self.tree.remove(key);
        }
        if self.definition.document.referenced_by.is_empty() {
            return self.delete_one(key, &mut Consequences::default());
        }
        as_one(self.trees, || {
            let mut consequences = Consequences::default();
            let was_there = self.delete_one(key, &mut consequences)?;
            consequences.do_work(self.trees)?;
            consequences.check(self.trees)?;
            Ok(was_there)
        })
    }

    /// Whether the table refers to itself, so that a row may refer to one that the same statement writes.
    fn refers_to_itself(&self) -> bool {
        self.definition.foreign_keys.iter().any(|foreign_key| foreign_key.table == self.definition.number)
    }

    /// Adds the row that `complete` makes. Returns its key and value. A number of the table that another row has is
    /// passed over, and the row made again.
    fn add<'h, 'v>(&'h self, complete: impl Fn() -> Result<NewRow<'h, 'v>>) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut passed_over = Vec::new();
        loop {
            let new = complete()?;
            match self.insert_row(&new.row) {
                Ok(written) => {
                    new.keep(&self.definition);
                    return Ok(written);
                }
                Err(error) if new.has_taken_number(&self.definition, &error) => passed_over.push(new.without_row()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds a complete row. Returns its key and value.
    fn insert_row(&self, row: &Values<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
        self.trees.refuse_stale(&self.definition)?;
        complete::check(&self.definition, row, None)?;
        if self.refers_to_itself() {
            return as_one(self.trees, || {
                let written = self.write_new(row)?;
                references::check_referred(self.trees, &self.definition, row, None)?;
                Ok(written)
            });
        }
        match references::check_referred(self.trees, &self.definition, row, None) {
            Ok(()) => self.write_new(row),
            // Of a key that is taken, too, the caller is told first: it may mean to pass over such rows.
            Err(missing) => as_one(self.trees, || {
                self.write_new(row)?;
                Err(missing)
            }),
        }
    }

    /// Writes a complete row, of which nothing more is looked at, and its entries. Returns its key and value.
    pub(crate) fn write_new(&self, row: &Values<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
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
        self.trees.refuse_stale(&self.definition)?;
        let is_alone = self.definition.document.referenced_by.is_empty() && !self.refers_to_itself();
        let mut consequences = if is_alone { Consequences::of_one_row() } else { Consequences::default() };
        if is_alone {
            self.change_one(key, old, changes, &mut consequences)?;
        } else {
            as_one(self.trees, || {
                self.change_one(key, old, changes, &mut consequences)?;
                consequences.do_work(self.trees)?;
                consequences.check(self.trees)
            })?;
        }
        consequences.keep_numbers(self.trees);
        Ok(())
    }

    /// Changes columns of a row, and adds what follows for rows that refer to it.
    pub(crate) fn change_one(
        &self,
        key: &[u8],
        old_value: &[u8],
        changes: SmallVec<[(usize, Value<'_>); 8]>,
        consequences: &mut Consequences,
    ) -> Result<()> {
        let definition = &*self.definition;
        let view = RowView::new(definition, key, old_value)?;
        let old: Values<'_> = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
        let mut row = old.clone();
        let mut changed: SmallVec<[usize; 16]> = SmallVec::new();
        let given: SmallVec<[usize; 8]> = changes.iter().map(|(place, _)| *place).collect();
        for (place, value) in changes {
            if !self.brings_numbers {
                complete::refuse_own_number(definition, &row, place)?;
            }
            row[place] = value.into_owned();
            if !(row[place].is_null() && complete::is_generated(definition, place)) {
                complete::accept(definition, &mut row, place)?;
            }
            if !is_identical(&row[place], &old[place]) && !changed.contains(&place) {
                changed.push(place);
            }
        }
        if changed.is_empty() {
            // It is a write all the same: that these values stand at the commit.
            return self.rely_on_written(key, &given);
        }
        if !definition.generated.is_empty() {
            complete::generate(definition, &mut row, |place| given.contains(&place))?;
            changed.retain(|place| !complete::is_generated(definition, *place));
            let generated = definition.generated.iter().map(|column| column.place);
            changed.extend(generated.filter(|&place| !is_identical(&row[place], &old[place])));
        }
        complete::check(definition, &row, Some(&changed))?;
        if consequences.are_of_one_row() {
            references::check_referred(self.trees, &self.definition, &row, Some(&changed))?;
        }
        // Of columns that are equal in keys, those that refer to the row see no change.
        let differing: SmallVec<[usize; 16]> = changed
            .iter()
            .copied()
            .filter(|&place| !same_in_key(definition.columns[place].declared.data_type, &old[place], &row[place]))
            .collect();
        if !differing.is_empty() {
            references::add_referring(self.trees, &self.definition, &old, Some((&row, &differing)), consequences)?;
        }
        let new_key = self.replace_row((key, old_value, &old), &row, &changed)?;
        self.trees.postponed.follow(&self.definition, key, &new_key);
        consequences.note_changed(&self.definition, (key, &new_key), &row, &changed);
        Ok(())
    }

    /// Puts a row, and its entries, in the place of an old one. Returns its key.
    fn replace_row(
        &self,
        (key, old_value, old): (&[u8], &[u8], &Values<'_>),
        row: &Values<'_>,
        changed: &[usize],
    ) -> Result<Vec<u8>> {
        let definition = &*self.definition;
        let (mut new_key, mut value) = (Vec::with_capacity(key.len()), Vec::with_capacity(old_value.len() + 16));
        encode_key(definition, row, &mut new_key);
        encode_value(definition, row, &mut value);
        let has_same_key = new_key == key;
        if has_same_key {
            self.tree.put(key, &value).map_err(|error| in_row(error, definition, row))?;
        } else {
            match self.tree.insert(&new_key, &value) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Exists => return Err(exists(definition, row)),
                Err(error) => return Err(in_row(error, definition, row)),
            }
        }
        let change = Change { old: Some((old, key)), new: Some((row, &new_key)), changed: Some(changed) };
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
        Ok(new_key)
    }

    /// Removes a row, and adds what follows for rows that refer to it.
    pub(crate) fn delete_one(&self, key: &[u8], consequences: &mut Consequences) -> Result<bool> {
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
        consequences.note_gone(definition, key);
        references::add_referring(self.trees, &self.definition, &old, None, consequences)?;
        Ok(true)
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
    let key = definition.primary.places.iter().map(|&place| {
        let column = &definition.columns[place].declared.name;
        (column.clone(), row[place].borrowed().into_owned())
    });
    let broken = broken(definition, row, Constraint::PrimaryKey, what).of_key(key.collect());
    match &definition.document.schema.key_name {
        Some(name) => broken.named(name).into_error(),
        None => broken.into_error(),
    }
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

/// Writing through an index.
impl<'x> IndexIn<'_, RowTransaction<'x>> {
    /// Removes from the table all rows that a range of the index has, and from its other indexes their entries. Returns
    /// how many there were. Costs a look at each of these entries, and what [`TableIn::delete`] costs for each row.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, IndexSchema, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/tasks", Options::without_files())?)?;
    /// # let tasks = TableSchema::new("tasks")
    /// #     .column(Column::new("id", DataType::I32))
    /// #     .column(Column::new("state", DataType::TEXT))
    /// #     .key(["id"])
    /// #     .index(IndexSchema::new("state", ["state"]));
    /// # let tasks = database.create_table(&tasks)?;
    /// for (id, state) in [(1, "done"), (2, "open"), (3, "done")] {
    ///     tasks.insert((id, state))?;
    /// }
    /// let removed = database.write(|transaction| {
    ///     transaction.table("tasks")?.index("state")?.delete_range(Span::eq("done"))
    /// })?;
    /// assert_eq!((removed, tasks.len()?), (2, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`TableIn::delete`]; then none of the rows is removed.
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        let (trees, entries) = (self.trees, &self.entries);
        trees.refuse_stale(&entries.definition)?;
        let range = self.range_of(span)?;
        let table = TableIn::new(trees, Arc::clone(&entries.definition))?;
        as_one(trees, || {
            let rows = entries.tree.count(range.bounds())?;
            let mut consequences = Consequences::default();
            loop {
                let mut found: Vec<Result<RowKey>> = Vec::new();
                entries.tree.for_each_limited(range.bounds(), DELETED_TOGETHER as u64, |key, value| {
                    found.push(entries.index.row_key(key, value));
                })?;
                let Some(Ok(first)) = found.first() else {
                    found.into_iter().next().transpose()?;
                    break;
                };
                let first = first.clone();
                let mut are_there = false;
                for key in found {
                    // Some may have gone with others of the range.
                    if table.delete_one(&key?, &mut consequences)? {
                        are_there = true;
                        consequences.do_work(trees)?;
                    }
                }
                if !are_there {
                    return Err(self.without_row(&first));
                }
            }
            consequences.check(trees)?;
            Ok(rows)
        })
    }
}
