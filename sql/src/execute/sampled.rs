//! Parts of tables, by rows at equal distances.

use quipu_rows::{Ordered, Span};

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::holds;
use crate::execute::view::in_table;
use crate::plan::expression::Expr;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// How many rows are looked at.
const ROWS: u64 = 64;
/// At how many of them equal rows are counted.
const PLACES: u64 = 8;

/// The offsets of so many rows, or of all, each in the middle of an equal part.
fn offsets(rows: u64, count: u64) -> impl Iterator<Item = u64> {
    let count = u128::from(rows.min(count));
    (0..count).map(move |place| (u128::from(rows) * (2 * place + 1) / (2 * count)) as u64)
}

/// Estimates the part of a table's rows that meet conditions, from rows at equal distances. The slots of its columns
/// begin at `base`. It is never 0: rows that meet them may stand between those that were looked at.
///
/// # Errors
/// Those of reading, and of the conditions.
pub fn part_kept(
    table: &str,
    types: &[SqlType],
    base: usize,
    conditions: &[&Expr],
    context: &Context<'_>,
) -> Result<f64> {
    let mut slots = Vec::new();
    conditions.iter().for_each(|condition| condition.add_slots(&mut slots));
    let mut frame = vec![Datum::Null; base + types.len()];
    let (mut kept, mut looked_at) = (0, 0);
    let read = context.view.table(table)?;
    in_table!(read, read => {
        for offset in offsets(read.len()?, ROWS) {
            let Some(row) = read.nth(.., offset)? else { continue };
            let view = row.view()?;
            for &slot in &slots {
                frame[slot] = Datum::of_column(view.value(slot - base)?, types[slot - base])?;
            }
            looked_at += 1;
            let mut is_kept = true;
            for condition in conditions {
                is_kept = is_kept && holds(condition, &frame, context)?;
            }
            kept += u64::from(is_kept);
        }
    });
    Ok((kept as f64 + 0.5) / (looked_at as f64 + 1.0))
}

/// How many rows have the same values of the first columns of an order, on the average of its values; none if there are
/// no rows. A place lies among many equal rows more often than among few, so each counts as much less.
///
/// # Errors
/// Those of reading.
pub fn rows_by_key(order: &impl Ordered, columns: usize) -> Result<Option<f64>> {
    let (mut places, mut parts) = (0.0, 0.0);
    for offset in offsets(order.len()?, PLACES) {
        let Some(row) = order.nth(.., offset)? else { continue };
        let mut values = order.key_values(&row)?;
        values.truncate(columns);
        places += 1.0;
        parts += 1.0 / order.count(Span::eq(values))?.max(1) as f64;
    }
    Ok((parts > 0.0).then(|| places / parts))
}
