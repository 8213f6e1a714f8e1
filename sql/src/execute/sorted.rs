//! Rows put in order, and those that are dropped since others are equal.

use std::cmp::Ordering;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::compare_caseless;
use crate::plan::query::{Direction, SortKey};
use crate::types::datum::Datum;

/// The order of two values in a direction.
pub fn compare_in(a: &Datum, b: &Datum, direction: Direction) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if direction.nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if direction.nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) => {
            let order = match (a, b) {
                (Datum::Text(a), Datum::Text(b)) if direction.is_caseless => compare_caseless(a, b),
                _ => a.cmp(b),
            };
            if direction.is_descending { order.reverse() } else { order }
        }
    }
}

/// The order of two rows.
pub fn compare_rows(a: &[Datum], b: &[Datum], keys: &[SortKey]) -> Ordering {
    let orders = keys.iter().map(|key| compare_in(&a[key.place], &b[key.place], key.direction));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Rows that are collected to be sorted; of which only the first ones may be wanted.
pub struct Sorter<'k> {
    keys: &'k [SortKey],
    wanted: Option<usize>,
    rows: Vec<Vec<Datum>>,
    bytes: usize,
}

impl<'k> Sorter<'k> {
    /// Collects rows, of which the first `wanted` in the order of `keys` are kept.
    pub fn new(keys: &'k [SortKey], wanted: Option<u64>) -> Sorter<'k> {
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        Sorter { keys, wanted, rows: Vec::new(), bytes: 0 }
    }

    /// Takes a row.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](crate::SqlState::OUT_OF_MEMORY) if there are too many.
    pub fn add(&mut self, row: Vec<Datum>, context: &Context<'_>) -> Result<()> {
        self.bytes += context.state.keep(&row)?;
        self.rows.push(row);
        if let Some(wanted) = self.wanted
            && self.rows.len() >= wanted.saturating_mul(2).saturating_add(1_000)
        {
            self.sort();
            self.rows.truncate(wanted);
            let kept = self.bytes / 2;
            context.state.let_go(self.bytes - kept);
            self.bytes = kept;
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.rows.sort_by(|a, b| compare_rows(a, b, self.keys));
    }

    /// The rows in order.
    pub fn finish(mut self) -> Vec<Vec<Datum>> {
        self.sort();
        self.rows
    }
}
