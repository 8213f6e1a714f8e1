//! Statements: drawn, done to a table, and done to the model.

use crate::{Constraint, RowTransaction, Span, TableIn, Value, Violation};
use quipu::{Error, ErrorKind, Result};
use rand::RngExt;
use rand::rngs::StdRng;

use super::draw::{pick, row};
use super::model::{Broken, Model, Row, Table, TableId};

/// A statement about one table.
#[derive(Clone, Debug)]
pub enum Statement {
    Insert(Row),
    Put(Row),
    Update(Vec<Value<'static>>, Row),
    Delete(Vec<Value<'static>>),
    /// All rows whose keys begin with the value.
    DeleteRange(Value<'static>),
}

/// What came of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// How many rows it was about.
    Done(u64),
    Refused(Broken),
}

/// Whether an error tells of the disk, and not of what was asked.
pub fn is_of_disk(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::Poisoned)
}

/// The constraint that an error tells of.
///
/// # Panics
/// If it is another error.
pub fn constraint_of(error: &Error) -> Constraint {
    Violation::of(error).unwrap_or_else(|| panic!("{error:?}")).constraint
}

/// Draws a statement about a table.
pub fn draw(random: &mut StdRng, model: &Model, id: TableId) -> Statement {
    let table = &model.tables[&id];
    let drawn = row(random, table, model);
    let key = match pick(random, &table.rows) {
        Some(row) if random.random_range(0..8) > 0 => table.key_values(row),
        _ => table.key_values(&drawn),
    };
    let is_key_good = table
        .key
        .iter()
        .zip(&key)
        .all(|((id, _), value)| !value.is_null() && table.column(*id).data_type.accept(value.clone()).is_ok());
    match random.random_range(0..12) {
        0..5 => Statement::Insert(drawn),
        5 | 6 => Statement::Put(drawn),
        _ if !is_key_good => Statement::Insert(drawn),
        7..=9 => {
            let columns = random.random_range(1..3);
            let changes = (0..columns)
                .filter_map(|_| pick(random, &table.columns))
                .map(|column| (column.id, drawn[&column.id].clone()));
            Statement::Update(key, changes.collect())
        }
        10 => Statement::Delete(key),
        _ => match table.rows.len() {
            12.. => Statement::DeleteRange(key[0].clone()),
            _ => Statement::Delete(key),
        },
    }
}

/// Fails if a table and the model differ about a statement. Of several constraints that a row breaks, any may be told.
pub fn assert_same(found: &Outcome, expected: &Outcome, statement: &Statement) {
    match (found, expected) {
        (Outcome::Done(found), Outcome::Done(expected)) if found == expected => {}
        (Outcome::Refused(found), Outcome::Refused(expected)) if expected.contains(&found[0]) => {}
        _ => panic!("a statement gives {found:?}, expected {expected:?}: {statement:?}"),
    }
}

/// Does a statement to a table.
///
/// # Errors
/// A conflict, as definitions that a transaction uses have changed since it began; and those of the disk.
pub fn apply(table: &TableIn<'_, RowTransaction<'_>>, model: &Table, statement: &Statement) -> Result<Outcome> {
    let values = |row: &Row| model.columns.iter().map(|column| row[&column.id].clone()).collect::<Vec<_>>();
    let result = match statement {
        Statement::Insert(row) => table.insert(values(row)).map(|()| 1),
        Statement::Put(row) => table.put(values(row)).map(|was_there| 1 + u64::from(was_there)),
        Statement::Update(key, changes) => {
            let changes: Vec<(&str, Value<'_>)> =
                changes.iter().map(|(id, value)| (&*model.column(*id).name, value.clone())).collect();
            table.update(key.clone(), &changes).map(u64::from)
        }
        Statement::Delete(key) => table.delete(key.clone()).map(u64::from),
        Statement::DeleteRange(value) => table.delete_range(Span::eq(value.clone())),
    };
    match result {
        Ok(rows) => Ok(Outcome::Done(rows)),
        Err(error) if error.kind() == ErrorKind::Conflict || is_of_disk(&error) => Err(error),
        Err(error) => Ok(Outcome::Refused(vec![constraint_of(&error)])),
    }
}

/// Does a statement to the model.
pub fn apply_to_model(model: &mut Model, id: TableId, statement: &Statement) -> Outcome {
    let refused = |broken: Broken, rows| if broken.is_empty() { Outcome::Done(rows) } else { Outcome::Refused(broken) };
    match statement {
        Statement::Insert(row) => refused(model.insert(id, row.clone()), 1),
        Statement::Put(row) => {
            let table = &model.tables[&id];
            let key = table.key_values(row);
            match table.place_of(&key) {
                None => refused(model.insert(id, row.clone()), 1),
                Some(_) => match model.update(id, &key, row) {
                    Ok(_) => Outcome::Done(2),
                    Err(broken) => Outcome::Refused(broken),
                },
            }
        }
        Statement::Update(key, changes) => match model.update(id, key, changes) {
            Ok(was_there) => Outcome::Done(was_there.into()),
            Err(broken) => Outcome::Refused(broken),
        },
        Statement::Delete(key) => match model.delete(id, key) {
            Ok(was_there) => Outcome::Done(was_there.into()),
            Err(broken) => Outcome::Refused(broken),
        },
        Statement::DeleteRange(value) => {
            let table = &model.tables[&id];
            let keys = table.in_order().into_iter().map(|row| table.key_values(row)).filter(|key| key[0] == *value);
            let keys: Vec<_> = keys.collect();
            refused(model.delete_all(id, &keys), keys.len() as u64)
        }
    }
}
