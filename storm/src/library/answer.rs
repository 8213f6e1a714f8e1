//! Answers, which are judged now and, in a transaction, again when it commits.

use quipu::cost::Footprint;
use quipu::histogram::Histogram;
use quipu::{Entry, ErrorKind, Tally};

use crate::library::rows::{Iter, Rows};
use crate::library::value::Value;

/// A row.
pub type Row = (Vec<u8>, Vec<u8>);

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing but that it was done.
    Done,
    /// An error that is an answer: a live key, a dead one.
    Failed(ErrorKind),
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// Numbers.
    Numbers(Vec<u64>),
    /// At least, at most.
    Between(u64, u64),
    /// A value, if there is one.
    Value(Option<Vec<u8>>),
    /// Values, where there are some.
    Values(Vec<Option<Vec<u8>>>),
    /// Rows in order.
    Rows(Vec<Row>),
    /// A row, if there is one.
    Row(Option<Row>),
    /// Rows, where there are some.
    MaybeRows(Vec<Option<Row>>),
    /// Keys in order.
    Keys(Vec<Vec<u8>>),
    /// Rows, and the total.
    Page(Vec<Row>, u64),
    /// A tally.
    Tally(Tally),
    /// A plan.
    Footprint(Footprint),
    /// A histogram.
    Histogram(Box<Histogram>),
}

/// A row of an entry.
pub fn row_of(entry: Entry) -> Row {
    (entry.key.to_vec(), entry.value.to_vec())
}

/// Whether a row is that of the model.
pub fn is_row(row: &Option<Row>, expected: Option<(&[u8], Value)>) -> bool {
    match (row, expected) {
        (None, None) => true,
        (Some((key, value)), Some((k, v))) => key == k && v.is(value),
        _ => false,
    }
}

/// Whether a value is that of the model.
pub fn is_value(value: &Option<Vec<u8>>, expected: Option<Value>) -> bool {
    match (value, expected) {
        (None, None) => true,
        (Some(value), Some(expected)) => expected.is(value),
        _ => false,
    }
}

/// Whether these are exactly those rows.
pub fn are_rows(rows: &[Row], expected: Iter<'_>) -> bool {
    let mut rows = rows.iter();
    for (key, value) in expected {
        if rows.next().is_none_or(|row| row.0 != key || !value.is(&row.1)) {
            return false;
        }
    }
    rows.next().is_none()
}

/// The row at a position of a range of the model.
pub fn at(rows: &Rows, (from, to): (usize, usize), offset: u64) -> Option<(&[u8], Value)> {
    let position = from.checked_add(usize::try_from(offset).ok()?)?;
    if position < to { rows.nth(position) } else { None }
}

/// An answer, shortened for people.
pub fn shown(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.len()),
        None => text,
    }
}
