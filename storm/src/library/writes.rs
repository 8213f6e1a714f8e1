//! Writes to a table, alone or in a transaction: one entry a verb, with what it does to the model.

use quipu::{ErrorKind, Result, Table, TableTransaction, WritableTable};
use quipu_suite::dice::Dice;

use crate::library::answer::{Answer, row_of};
use crate::library::model::TableModel;
use crate::library::questions::{bounds, key};
use crate::library::setup::Setup;
use crate::library::word::{Word, Words};

/// A verb that writes.
pub struct Writing {
    /// Its name in scripts, and that of the verb of the library.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: usize,
    /// Draws what it writes.
    pub draw: fn(&mut Dice, &Setup, &TableModel) -> Vec<Word>,
    /// Writes to a table.
    pub table: fn(&Table, Words<'_>) -> Result<Answer>,
    /// Writes in a transaction.
    pub transaction: fn(&TableTransaction<'_>, Words<'_>) -> Result<Answer>,
    /// Writes to the model, and says what is to be answered.
    pub model: fn(&mut TableModel, Words<'_>) -> Answer,
}

macro_rules! write_with {
    ($name:expr, $weight:expr, $draw:expr, $write:expr, $model:expr) => {
        Writing {
            name: $name,
            weight: $weight,
            draw: $draw,
            table: |table, words| $write(table, words),
            transaction: |table, words| $write(table, words),
            model: $model,
        }
    };
}

/// All of them.
pub static WRITINGS: &[Writing] = &[
    write_with!("put", 40, row, |table: &_, words: Words<'_>| put(table, words), |table, words| {
        table.rows.put(words.key(0), words.value(1));
        Answer::Done
    }),
    write_with!("insert", 14, row, |table: &_, words: Words<'_>| insert(table, words), |table, words| {
        if table.rows.get(words.key(0)).is_some() {
            return Answer::Failed(ErrorKind::Exists);
        }
        table.rows.put(words.key(0), words.value(1));
        Answer::Done
    }),
    write_with!("replace", 10, row, |table: &_, words: Words<'_>| replace(table, words), |table, words| {
        if table.rows.get(words.key(0)).is_none() {
            return Answer::Failed(ErrorKind::Missing);
        }
        table.rows.put(words.key(0), words.value(1));
        Answer::Done
    }),
    write_with!(
        "remove",
        16,
        |dice, setup, table| vec![key(dice, setup, table)],
        |table: &_, words: Words<'_>| remove(table, words),
        |table, words| Answer::Flag(table.rows.remove(words.key(0)).is_some())
    ),
    write_with!(
        "delete",
        8,
        |dice, setup, table| vec![key(dice, setup, table)],
        |table: &_, words: Words<'_>| delete(table, words),
        |table, words| {
            table.rows.remove(words.key(0));
            Answer::Done
        }
    ),
    write_with!(
        "remove_range",
        3,
        neighbours,
        |table: &_, words: Words<'_>| remove_range(table, words),
        |table, words| Answer::Number(table.rows.remove_range(&words.bounds(0)) as u64)
    ),
    write_with!("retain", 2, neighbours, |table: &_, words: Words<'_>| retain(table, words), |table, words| {
        let (from, to) = table.rows.span(&words.bounds(0));
        let rows = table.rows.slice(from, to);
        let gone: Vec<Vec<u8>> =
            rows.filter(|(_, value)| is_odd_one(&value.bytes())).map(|(key, _)| key.to_vec()).collect();
        for key in &gone {
            table.rows.remove(key);
        }
        Answer::Number(gone.len() as u64)
    }),
    write_with!("pop_first", 3, |_, _, _| Vec::new(), |table: &_, _: Words<'_>| pop_first(table), |table, _| pop(
        table, 0
    )),
    write_with!("pop_last", 3, |_, _, _| Vec::new(), |table: &_, _: Words<'_>| pop_last(table), |table, _| pop(
        table,
        table.rows.len().saturating_sub(1)
    )),
    write_with!("update", 8, row, |table: &_, words: Words<'_>| update(table, words), |table, words| {
        if table.rows.get(words.key(0)).is_some_and(|value| is_odd_one(&value.bytes())) {
            table.rows.remove(words.key(0));
        } else {
            table.rows.put(words.key(0), words.value(1));
        }
        Answer::Done
    }),
];

/// The value of a row that `retain` and `update` remove.
fn is_odd_one(value: &[u8]) -> bool {
    value.len().is_multiple_of(3)
}

/// Takes the row at a position out of the model.
fn pop(table: &mut TableModel, position: usize) -> Answer {
    let row = table.rows.nth(position).map(|(key, value)| (key.to_vec(), value.bytes()));
    if let Some((key, _)) = &row {
        table.rows.remove(key);
    }
    Answer::Row(row)
}

/// Draws a range: any, or a few neighbours, or many.
fn neighbours(dice: &mut Dice, setup: &Setup, table: &TableModel) -> Vec<Word> {
    if dice.percent(40) {
        return bounds(dice, setup, table);
    }
    let most = *dice.pick(&[&9, &9, &100, &2000]);
    let (low, high) = (key(dice, setup, table), dice.below(most));
    let Word::Key(low) = low else { return Vec::new() };
    let position = table.rows.before(&low, false) + high;
    let high = table.rows.nth(position).map(|row| std::ops::Bound::Excluded(row.0.to_vec()));
    vec![Word::Bound(std::ops::Bound::Included(low)), Word::Bound(high.unwrap_or(std::ops::Bound::Unbounded))]
}

/// Draws a row.
pub fn row(dice: &mut Dice, setup: &Setup, table: &TableModel) -> Vec<Word> {
    let ascending = setup.get("ascending") as usize;
    let key = match table.rows.len().checked_sub(1).and_then(|last| table.rows.nth(last)) {
        // After the last one.
        Some((last, _)) if ascending > 0 && dice.percent(ascending) => {
            let digits: u64 = last
                .iter()
                .filter(|byte| byte.is_ascii_digit())
                .fold(0, |number, byte| (number * 10 + u64::from(byte - b'0')) % 1_000_000);
            Word::Key(setup.key(digits + 1, 0))
        }
        _ => key(dice, setup, table),
    };
    vec![key, Word::Value(setup.draw_value(dice))]
}

fn done(result: Result<()>) -> Result<Answer> {
    match result {
        Ok(()) => Ok(Answer::Done),
        Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::Missing) => {
            Ok(Answer::Failed(error.kind()))
        }
        Err(error) => Err(error),
    }
}

fn put(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    done(table.put(words.key(0), words.value(1).bytes()))
}

fn insert(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    done(table.insert(words.key(0), words.value(1).bytes()))
}

fn replace(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    done(table.replace(words.key(0), words.value(1).bytes()))
}

fn remove(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Flag(table.remove(words.key(0))?))
}

fn delete(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    done(table.delete(words.key(0)))
}

fn remove_range(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Number(table.remove_range(words.bounds(0))?))
}

fn retain(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Number(table.retain(words.bounds(0), |_, value| !is_odd_one(value))?))
}

fn pop_first(table: &impl WritableTable) -> Result<Answer> {
    Ok(Answer::Row(table.pop_first()?.map(row_of)))
}

fn pop_last(table: &impl WritableTable) -> Result<Answer> {
    Ok(Answer::Row(table.pop_last()?.map(row_of)))
}

fn update(table: &impl WritableTable, words: Words<'_>) -> Result<Answer> {
    let new = words.value(1).bytes();
    done(table.update(words.key(0), |old| if old.is_some_and(is_odd_one) { None } else { Some(new) }))
}
