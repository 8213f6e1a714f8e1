//! Tables, indexes, constraints and their changes as plain maps: slow, and simple enough to be right.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::{Action, Constraint, DataType, Value};

pub type ColumnId = u32;
pub type TableId = u32;
/// The values of a row, by column.
pub type Row = BTreeMap<ColumnId, Value<'static>>;

#[derive(Clone, Debug)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    pub data_type: DataType,
    pub not_null: bool,
    pub default: Value<'static>,
}

/// What an index sorts by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sorted {
    Column(ColumnId),
    /// `lower(text)`
    Lower(ColumnId),
    /// `int % 3`
    Rest(ColumnId),
}

/// Which rows an index has.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    NotNull(ColumnId),
    Greater(ColumnId, i128),
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub sorted: Vec<(Sorted, bool)>,
    pub unique: bool,
    pub include: Vec<ColumnId>,
    pub which: Option<Which>,
    pub sum: Option<ColumnId>,
}

/// `column >= bound`
#[derive(Clone, Debug)]
pub struct Check {
    pub name: String,
    pub column: ColumnId,
    pub bound: i128,
}

#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<ColumnId>,
    pub parent: TableId,
    pub references: Vec<ColumnId>,
    pub on_delete: Action,
    pub on_update: Action,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Columns, each with whether it is descending.
    pub key: Vec<(ColumnId, bool)>,
    pub sum: Option<ColumnId>,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub tables: BTreeMap<TableId, Table>,
}

/// Constraints that are broken; empty if none is.
pub type Broken = Vec<Constraint>;

fn compare(a: &[(Value<'static>, bool)], b: &[(Value<'static>, bool)]) -> Ordering {
    let one = |((a, is_descending), (b, _)): (&(Value<'static>, bool), &(Value<'static>, bool))| {
        if *is_descending { b.cmp(a) } else { a.cmp(b) }
    };
    a.iter().zip(b).map(one).fold(Ordering::Equal, Ordering::then)
}

impl Table {
    pub fn column(&self, id: ColumnId) -> &Column {
        self.columns.iter().find(|column| column.id == id).expect("a column of the table")
    }

    pub fn key_of(&self, row: &Row) -> Vec<(Value<'static>, bool)> {
        self.key.iter().map(|(id, is_descending)| (row[id].clone(), *is_descending)).collect()
    }

    pub fn key_values(&self, row: &Row) -> Vec<Value<'static>> {
        self.key.iter().map(|(id, _)| row[id].clone()).collect()
    }

    /// What an index sorts a row by: its columns, and then the primary key.
    pub fn sorted_by(&self, index: &Index, row: &Row) -> Vec<(Value<'static>, bool)> {
        let mut sorted: Vec<(Value<'static>, bool)> = index
            .sorted
            .iter()
            .map(|(sorted, is_descending)| {
                let value = match sorted {
                    Sorted::Column(id) => row[id].clone(),
                    Sorted::Lower(id) => match &row[id] {
                        Value::Text(text) => Value::from(text.to_lowercase()),
                        other => other.clone(),
                    },
                    Sorted::Rest(id) => match &row[id] {
                        Value::Int(int) => Value::Int(int % 3),
                        other => other.clone(),
                    },
                };
                (value, *is_descending)
            })
            .collect();
        let rest =
            self.key.iter().filter(|(id, _)| !index.sorted.iter().any(|(sorted, _)| *sorted == Sorted::Column(*id)));
        sorted.extend(rest.map(|(id, is_descending)| (row[id].clone(), *is_descending)));
        sorted
    }

    pub fn has(&self, index: &Index, row: &Row) -> bool {
        match index.which {
            None => true,
            Some(Which::NotNull(id)) => !row[&id].is_null(),
            Some(Which::Greater(id, bound)) => matches!(row[&id], Value::Int(int) if int > bound),
        }
    }

    /// Rows in the order of the primary key.
    pub fn in_order(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| compare(&self.key_of(a), &self.key_of(b)));
        rows
    }

    /// Rows that an index has, in its order.
    pub fn in_order_of(&self, index: &Index) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| self.has(index, row)).collect();
        rows.sort_by(|a, b| compare(&self.sorted_by(index, a), &self.sorted_by(index, b)));
        rows
    }

    pub fn place_of(&self, key: &[Value<'static>]) -> Option<usize> {
        self.rows.iter().position(|row| self.key_values(row) == key)
    }

    /// Constraints that a row breaks by itself, and beside other rows; `own` is its place if it is there already.
    pub fn broken_by(&self, row: &Row, own: Option<usize>, tables: &BTreeMap<TableId, Table>) -> Broken {
        let mut broken = Vec::new();
        for column in &self.columns {
            let value = &row[&column.id];
            if value.is_null() && column.not_null {
                broken.push(Constraint::NotNull);
            } else if column.data_type.accept(value.clone()).is_err() {
                broken.push(Constraint::Type);
            }
        }
        if !broken.is_empty() {
            // Nothing else is looked at.
            return broken;
        }
        for check in &self.checks {
            if matches!(row[&check.column], Value::Int(int) if int < check.bound) {
                broken.push(Constraint::Check);
            }
        }
        let others = || self.rows.iter().enumerate().filter(|(place, _)| Some(*place) != own).map(|(_, row)| row);
        if others().any(|other| self.key_values(other) == self.key_values(row)) {
            broken.push(Constraint::PrimaryKey);
        }
        for index in self.indexes.iter().filter(|index| index.unique && self.has(index, row)) {
            let values = |row: &Row| self.sorted_by(index, row)[..index.sorted.len()].to_vec();
            let own = values(row);
            let is_same = |other: &&Row| self.has(index, other) && values(other) == own;
            if !own.iter().any(|(value, _)| value.is_null()) && others().any(|other| is_same(&other)) {
                broken.push(Constraint::Unique);
            }
        }
        for foreign_key in &self.foreign_keys {
            let values: Vec<&Value<'_>> = foreign_key.columns.iter().map(|id| &row[id]).collect();
            let parent = &tables[&foreign_key.parent];
            let is_referred =
                |other: &Row| foreign_key.references.iter().map(|id| &other[id]).eq(values.iter().copied());
            if !values.iter().any(|value| value.is_null()) && !parent.rows.iter().any(is_referred) {
                broken.push(Constraint::ForeignKey);
            }
        }
        broken
    }
}

impl Model {
    /// Does a statement, or nothing of it.
    fn as_one(&mut self, statement: impl FnOnce(&mut Model) -> Broken) -> Broken {
        let mut changed = self.clone();
        let mut broken = statement(&mut changed);
        if broken.is_empty() && !changed.are_all_referred() {
            broken = vec![Constraint::ForeignKey];
        }
        if broken.is_empty() {
            *self = changed;
        }
        broken
    }

    pub fn insert(&mut self, id: TableId, row: Row) -> Broken {
        let broken = self.tables[&id].broken_by(&row, None, &self.tables);
        if broken.is_empty() {
            self.table_mut(id).rows.push(row);
        }
        broken
    }

    pub fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables.get_mut(&id).expect("a table")
    }

    /// Whether there was a row of that key, or what refuses the change.
    pub fn update(&mut self, id: TableId, key: &[Value<'static>], changes: &Row) -> Result<bool, Broken> {
        if self.tables[&id].place_of(key).is_none() {
            return Ok(false);
        }
        let broken = self.as_one(|model| model.change(id, key, changes));
        if broken.is_empty() { Ok(true) } else { Err(broken) }
    }

    fn change(&mut self, id: TableId, key: &[Value<'static>], changes: &Row) -> Broken {
        let table = &self.tables[&id];
        let Some(place) = table.place_of(key) else { return Vec::new() };
        let old = table.rows[place].clone();
        let mut new = old.clone();
        new.extend(changes.clone());
        let broken = table.broken_by(&new, Some(place), &self.tables);
        // What it refers to is looked at when all that follows is done.
        if broken.iter().any(|constraint| *constraint != Constraint::ForeignKey) {
            return broken;
        }
        self.table_mut(id).rows[place] = new.clone();
        for (child, foreign_key) in self.referring(id) {
            let values = |row: &Row, ids: &[ColumnId]| ids.iter().map(|id| row[id].clone()).collect::<Vec<_>>();
            let (before, after) = (values(&old, &foreign_key.references), values(&new, &foreign_key.references));
            if before == after || before.iter().any(Value::is_null) {
                continue;
            }
            while let Some(key) = self.keys_referring(child, &foreign_key, &before).into_iter().next() {
                let changes: Row = match foreign_key.on_update {
                    Action::Restrict | Action::RestrictAtOnce => break,
                    Action::Cascade => foreign_key.columns.iter().copied().zip(after.clone()).collect(),
                    Action::SetNull => foreign_key.columns.iter().map(|id| (*id, Value::Null)).collect(),
                };
                let broken = self.change(child, &key, &changes);
                if !broken.is_empty() {
                    return broken;
                }
            }
        }
        Vec::new()
    }

    /// Whether there was a row of that key, or what refuses its removal.
    pub fn delete(&mut self, id: TableId, key: &[Value<'static>]) -> Result<bool, Broken> {
        if self.tables[&id].place_of(key).is_none() {
            return Ok(false);
        }
        let broken = self.as_one(|model| model.remove(id, key));
        if broken.is_empty() { Ok(true) } else { Err(broken) }
    }

    /// Removes all rows of these keys, or none, and tells what refuses that.
    pub fn delete_all(&mut self, id: TableId, keys: &[Vec<Value<'static>>]) -> Broken {
        self.as_one(|model| keys.iter().flat_map(|key| model.remove(id, key)).collect())
    }

    fn remove(&mut self, id: TableId, key: &[Value<'static>]) -> Broken {
        let Some(place) = self.tables[&id].place_of(key) else { return Vec::new() };
        let old = self.table_mut(id).rows.remove(place);
        for (child, foreign_key) in self.referring(id) {
            let values: Vec<Value<'static>> = foreign_key.references.iter().map(|id| old[id].clone()).collect();
            if values.iter().any(Value::is_null) {
                continue;
            }
            while let Some(key) = self.keys_referring(child, &foreign_key, &values).into_iter().next() {
                let broken = match foreign_key.on_delete {
                    Action::Restrict | Action::RestrictAtOnce => break,
                    Action::Cascade => self.remove(child, &key),
                    Action::SetNull => {
                        let changes = foreign_key.columns.iter().map(|id| (*id, Value::Null)).collect();
                        self.change(child, &key, &changes)
                    }
                };
                if !broken.is_empty() {
                    return broken;
                }
            }
        }
        Vec::new()
    }

    fn referring(&self, parent: TableId) -> Vec<(TableId, ForeignKey)> {
        let all =
            self.tables.iter().flat_map(|(id, table)| table.foreign_keys.iter().map(move |key| (*id, key.clone())));
        all.filter(|(_, foreign_key)| foreign_key.parent == parent).collect()
    }

    fn keys_referring(&self, child: TableId, key: &ForeignKey, values: &[Value<'static>]) -> Vec<Vec<Value<'static>>> {
        let table = &self.tables[&child];
        let rows = table.rows.iter().filter(|row| key.columns.iter().map(|id| &row[id]).eq(values.iter()));
        rows.map(|row| table.key_values(row)).collect()
    }

    /// Whether each row refers to one that is there, or to nothing.
    fn are_all_referred(&self) -> bool {
        self.tables.values().all(|table| {
            table.foreign_keys.iter().all(|foreign_key| {
                let parent = &self.tables[&foreign_key.parent];
                table.rows.iter().all(|row| {
                    let values = || foreign_key.columns.iter().map(|id| &row[id]);
                    let is_it = |other: &Row| foreign_key.references.iter().map(|id| &other[id]).eq(values());
                    values().any(Value::is_null) || parent.rows.iter().any(is_it)
                })
            })
        })
    }

    /// Whether all rows of a table keep all its constraints.
    pub fn is_sound(&self, id: TableId) -> bool {
        let table = &self.tables[&id];
        table.rows.iter().enumerate().all(|(place, row)| table.broken_by(row, Some(place), &self.tables).is_empty())
    }
}
