//! Locks of the keys that a row takes, and of those that it refers to.
//!
//! A key that other rows refer to has a lock beside that of its row: rows that refer to it share it, and what removes
//! or changes the key has it alone. So a row may change in its other columns while others come that refer to it. It is
//! the primary key; rows that refer to other unique keys are checked when their transactions commit.

use quipu_rows::{RowTransaction, TableIn, TableSchema};

use crate::error::Result;
use crate::execute::context::Context;
use crate::plan::change::{ConflictKey, Target};
use crate::plan::query::LockWait;
use crate::types::datum::Datum;

type Written<'v> = TableIn<'v, RowTransaction<'v>>;

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
        if let Some(values) = known_values(key.places.iter().copied(), &value) {
            match &key.index {
                None => lock(&target.table, &values, context)?,
                Some(index) => lock(&format!("{}.{index}", target.table), &values, context)?,
            }
        }
    }
    Ok(())
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
        if !foreign.references.is_empty() {
            let parent = context.view.table(&foreign.table)?;
            let key = crate::execute::view::in_table!(parent, parent => parent.schema().key.clone());
            if key != foreign.references {
                continue;
            }
        }
        if let Some(values) = known_values(places.into_iter(), &value) {
            context.locker.lock(&referred(&foreign.table), &values, LockWait::Wait, true)?;
        }
    }
    Ok(())
}

/// Locks the primary key of a row that other tables may refer to, before it goes.
pub fn lock_referred(table: &Written<'_>, key: &[Datum], context: &Context<'_>) -> Result<()> {
    if table.related().referred_by().is_empty() {
        return Ok(());
    }
    lock(&referred(&table.schema().table), key, context)
}

/// Whether an UPDATE of these columns writes a foreign key.
pub fn writes_reference(schema: &TableSchema, target: &Target, sets: &[(usize, impl Sized)]) -> bool {
    let is_set = |name: &String| sets.iter().any(|(place, _)| Some(*place) == place_of(target, name));
    schema.foreign_keys.iter().any(|foreign| foreign.columns.iter().any(is_set))
}

/// The name of the locks of keys that are referred to.
fn referred(table: &str) -> String {
    format!("{table}.")
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
