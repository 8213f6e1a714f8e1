//! The choice of what an inserted row does when its key is taken.

use quipu::Result;
use quipu_rows::{Ordered, RowTransaction, TableIn, Value};

use crate::error::invalid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It is an error.
    Error,
    /// The columns that come are changed.
    Update,
    /// The row that there is stays.
    Ignore,
}

impl OnConflict {
    /// What a word means.
    ///
    /// # Errors
    /// `Invalid` if it is not one of the three.
    pub(crate) fn of_word(word: &str) -> Result<OnConflict> {
        match word {
            "error" => Ok(OnConflict::Error),
            "update" => Ok(OnConflict::Update),
            "ignore" => Ok(OnConflict::Ignore),
            _ => Err(invalid(format!("on_conflict is 'error', 'update' or 'ignore', not {word:?}"))),
        }
    }

    /// Adds a row with values for some columns, or does this. Returns whether there was a row of its key; a row that
    /// lacks a column of the key is always added, with the column's default.
    ///
    /// # Errors
    /// Those of an insert and of an update.
    pub(crate) fn add(
        self,
        table: &TableIn<'_, RowTransaction<'_>>,
        names: &[&str],
        values: &[Value<'_>],
    ) -> Result<bool> {
        if self != OnConflict::Error {
            let place = |(column, _): &(String, _)| names.iter().position(|name| name == column);
            let places: Option<Vec<usize>> = table.key_columns().iter().map(place).collect();
            let key: Option<Vec<Value<'_>>> =
                places.map(|places| places.into_iter().map(|place| values[place].clone()).collect());
            if let Some(key) = key
                && table.contains(&key)?
            {
                if self == OnConflict::Update {
                    let changes: Vec<(&str, Value<'_>)> = names.iter().copied().zip(values.iter().cloned()).collect();
                    table.update(key, &changes)?;
                }
                return Ok(true);
            }
        }
        table.insert_columns(names, values)?;
        Ok(false)
    }
}
