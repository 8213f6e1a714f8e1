//! The order of values and of rows.

use std::cmp::Ordering;

use quipu_rows::Collation;

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
                (Datum::Text(a), Datum::Text(b)) if direction.is_caseless => Collation::Unicode.compare(a, b),
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
