//! The expected contents of a database: the current model, those of earlier commits, and those that a failed call may
//! have left.

use std::collections::BTreeMap;

use crate::{Database, Ordered};
use quipu::Result;

use super::judge::{values_in_order, values_of};
use super::model::{Model, TableId};
use super::schemas::{schema_of, shape};
use super::statements::{Statement, apply, apply_to_model, assert_same};

/// What a database should hold.
#[derive(Default)]
pub struct Expected {
    pub model: Model,
    /// What the call that goes on, or has failed, may leave in place of the model.
    pub attempts: Vec<Model>,
    /// The model after the commits of these numbers. Of the commits in between, which are steps of one call, each left
    /// the state before the call or the one after it.
    pub history: BTreeMap<u64, Model>,
}

impl Expected {
    /// The database holds the model now.
    pub fn note(&mut self, database: &Database) {
        self.attempts.clear();
        self.history.insert(database.db().latched().read().sequence(), self.model.clone());
    }

    /// Does a statement to the database, as a commit of its own, and to the model, and compares.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&mut self, database: &Database, id: TableId, statement: &Statement) -> Result<()> {
        let mut after = self.model.clone();
        let expected = apply_to_model(&mut after, id, statement);
        self.attempts = vec![after];
        let table = &self.model.tables[&id];
        let found = database.write(|transaction| {
            let in_transaction = transaction.table(&table.name)?;
            apply(&in_transaction, table, statement)
        })?;
        assert_same(&found, &expected, statement);
        self.model = self.attempts.remove(0);
        self.note(database);
        Ok(())
    }

    /// What may be found of a database whose last commit is this one.
    pub fn candidates(&self, sequence: u64) -> Vec<Model> {
        let before = self.history.range(..=sequence).next_back();
        let after = self.history.range(sequence + 1..).next();
        let attempts = if after.is_none() { &self.attempts[..] } else { &[] };
        before.into_iter().chain(after).map(|(_, model)| model).chain(attempts).cloned().collect()
    }

    /// Takes what the database holds as the model.
    ///
    /// # Errors
    /// How it differs from each of `candidates`, in words.
    pub fn take_present(&mut self, database: &Database, candidates: Vec<Model>) -> std::result::Result<(), String> {
        let mut differences = Vec::new();
        for candidate in candidates {
            match difference(database, &candidate) {
                Ok(None) => {
                    self.model = candidate;
                    let sequence = database.db().latched().read().sequence();
                    self.history.split_off(&(sequence + 1));
                    self.note(database);
                    return Ok(());
                }
                Ok(Some(text)) => differences.push(text),
                Err(error) => differences.push(format!("{error:?}")),
            }
        }
        Err(differences.join(" -- and -- "))
    }
}

/// How a database differs from a model, in its declarations and rows.
///
/// # Errors
/// Those of reading it.
pub fn difference(database: &Database, model: &Model) -> Result<Option<String>> {
    let now = database.snapshot();
    let mut names: Vec<&String> = model.tables.values().map(|table| &table.name).collect();
    names.sort();
    let found = now.tables()?;
    if !found.iter().eq(names.iter().copied()) {
        return Ok(Some(format!("there are the tables {found:?}, expected {names:?}")));
    }
    for table in model.tables.values() {
        let seen = now.table(&table.name)?;
        let (found, expected) = (shape(seen.schema()), shape(&schema_of(table, model)));
        if found != expected {
            let one_sided = |own: &[String], other: &[String]| {
                own.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>()
            };
            let (more, less) = (one_sided(&found, &expected), one_sided(&expected, &found));
            return Ok(Some(format!("table {} has in its declaration {more:?}, expected {less:?}", table.name)));
        }
        let rows = seen.rows(..)?.map(|row| values_in_order(&row?)).collect::<Result<Vec<_>>>()?;
        let expected: Vec<_> = table.in_order().into_iter().map(|row| values_of(table, row)).collect();
        if rows != expected {
            let (found, expected) = (rows.len(), expected.len());
            return Ok(Some(format!("table {} has other rows: {found}, expected {expected}", table.name)));
        }
    }
    Ok(None)
}
