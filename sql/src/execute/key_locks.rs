//! Locks of the keys that a row takes, and of those that it refers to.
//!
//! A key that other rows refer to has a lock beside that of its row: rows that refer to it share it, and what removes
//! or changes the key has it alone. So a row may change in its other columns while others come that refer to it. What
//! removes or changes it has the locks of the rows that go or change with it, too.

use std::collections::HashSet;

use quipu_rows::{Action, Followers, RowTransaction, TableIn, TableSchema, Value};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate_all, holds};
use crate::execute::view::{View, in_table};
use crate::locks::mode::LockMode;
use crate::plan::change::{ConflictKey, Target};
use crate::plan::query::LockWait;
use crate::types::datum::Datum;

/// A table that is written.
pub type Written<'v> = TableIn<'v, RowTransaction<'v>>;

/// The table of this name.
pub fn written<'v>(name: &str, context: &Context<'v>) -> Result<Written<'v>> {
    match context.view {
        View::Transaction(transaction) => Ok(transaction.table(name)?),
        View::Snapshot(_) | View::Nothing => {
            Err(SqlError::new(SqlState::INTERNAL_ERROR, "a snapshot cannot be written"))
        }
    }
}

/// A value as a column has it.
pub fn value_of(datum: &Datum) -> Result<Value<'_>> {
    let cannot_hold = || SqlError::new(SqlState::DATATYPE_MISMATCH, "no column can hold a row");
    datum.to_value().ok_or_else(cannot_hold)
}

/// Locks a row that is changed, or a key that is taken.
pub fn lock(table: &str, key: &[Datum], context: &Context<'_>) -> Result<()> {
    context.locker.lock(table, key, LockWait::Wait, false).map(drop)
}

/// Locks the unique keys that a row takes.
pub fn lock_unique<'r>(
    target: &Target,
    unique: &[ConflictKey],
    value: impl Fn(usize) -> Option<&'r Datum>,
    context: &Context<'_>,
) -> Result<()> {
    for key in unique {
        if let Some(values) = values_taken(key, target.scan.width, &value, context)? {
            match &key.index {
                None => lock(&target.table, &values, context)?,
                Some(index) => lock(&format!("{}.{index}", target.table), &values, context)?,
            }
        }
    }
    Ok(())
}

/// The values of a unique key of a row of `width` columns; none if one of them is NULL or not known, or if the key does
/// not have the row.
pub fn values_taken<'r>(
    key: &ConflictKey,
    width: usize,
    value: &impl Fn(usize) -> Option<&'r Datum>,
    context: &Context<'_>,
) -> Result<Option<Vec<Datum>>> {
    let Some(words) = &key.words else { return Ok(known_values(key.places.iter().copied(), value)) };
    let mut row = vec![Datum::Null; width];
    for &place in &key.places {
        let Some(value) = value(place) else { return Ok(None) };
        row[place] = value.clone();
    }
    for condition in &words.condition {
        if !holds(condition, &row, context)? {
            return Ok(None);
        }
    }
    let values = evaluate_all(&words.values, &row, context)?;
    Ok(values.iter().all(|value| !value.is_null()).then_some(values))
}

/// Shares the keys that a row refers to, by foreign keys that a column which `is_written` belongs to.
pub fn share_referred<'r>(
    target: &Target,
    table: &Written<'_>,
    is_written: impl Fn(usize) -> bool,
    value: impl Fn(usize) -> Option<&'r Datum>,
    context: &Context<'_>,
) -> Result<()> {
    for foreign in &table.schema().foreign_keys {
        let places: Option<Vec<usize>> = foreign.columns.iter().map(|name| place_of(target, name)).collect();
        let Some(places) = places.filter(|places| places.iter().any(|&place| is_written(place))) else { continue };
        if let Some(values) = known_values(places.into_iter(), &value) {
            let parent = context.view.table(&foreign.table)?;
            let name = in_table!(parent, parent => referred(parent.schema(), &foreign.references));
            context.locker.lock_table(&foreign.table, LockMode::RowShare)?;
            context.locker.lock(&name, &values, LockWait::Wait, true)?;
        }
    }
    Ok(())
}

/// Locks the keys by which others may refer to a row, and the rows that go or change with it, before it goes or columns
/// at these places change.
pub fn lock_referred(
    table: &Written<'_>,
    key: &[Datum],
    changed: Option<&[usize]>,
    context: &Context<'_>,
) -> Result<()> {
    if table.related().referred_by().is_empty() {
        return Ok(());
    }
    let mut seen = HashSet::new();
    let mut work = vec![(table.schema().table.clone(), key.to_vec(), changed.map(<[usize]>::to_vec))];
    while let Some((name, key, changed)) = work.pop() {
        let table = written(&name, context)?;
        let known = key.iter().map(value_of).collect::<Result<Vec<_>>>()?;
        for followers in Followers::of(&table, known, changed.as_deref())? {
            let Followers { table: child, columns, references, values, action, keys } = followers;
            lock(&referred(table.schema(), &references), &data_of(values), context)?;
            let goes = changed.is_none() && action == Action::Cascade;
            context.locker.lock_table(&child, LockMode::RowExclusive)?;
            for key in keys.into_iter().map(data_of) {
                context.state.step()?;
                lock(&child, &key, context)?;
                let next = (child.clone(), key, (!goes).then(|| columns.clone()));
                if seen.insert(next.clone()) {
                    work.push(next);
                }
            }
        }
    }
    Ok(())
}

fn data_of(values: Vec<Value<'static>>) -> Vec<Datum> {
    values.into_iter().map(Datum::of_value).collect()
}

/// Whether an UPDATE of these columns writes a foreign key.
pub fn writes_reference(schema: &TableSchema, target: &Target, sets: &[(usize, impl Sized)]) -> bool {
    let is_set = |name: &String| sets.iter().any(|(place, _)| Some(*place) == place_of(target, name));
    schema.foreign_keys.iter().any(|foreign| foreign.columns.iter().any(is_set))
}

/// The name of the locks of keys that are referred to, by the primary key or by these columns.
fn referred(parent: &TableSchema, references: &[String]) -> String {
    let columns = if references == parent.key { String::new() } else { references.join(",") };
    match &columns[..] {
        "" => format!("{}.", parent.table),
        columns => format!("{}.({columns})", parent.table),
    }
}

fn place_of(target: &Target, name: &str) -> Option<usize> {
    target.columns.iter().position(|known| **known == *name)
}

/// The values of a key, if all are known and not null.
fn known_values<'r>(
    places: impl Iterator<Item = usize>,
    value: impl Fn(usize) -> Option<&'r Datum>,
) -> Option<Vec<Datum>> {
    places.map(|place| value(place).filter(|value| !value.is_null()).cloned()).collect()
}
