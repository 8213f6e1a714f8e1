//! Parts of tables, by some of their rows.

use quipu_rows::Ordered;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::holds;
use crate::execute::view::in_table;
use crate::plan::expression::Expr;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// How many rows are looked at.
const ROWS: u64 = 64;

/// Which part of a table's rows keeps conditions, by rows at equal distances. The slots of its columns begin at `base`.
/// It is never 0: a row that keeps them may stand between those that were looked at.
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
        let rows = read.len()?;
        let count = rows.min(ROWS);
        for place in 0..count {
            let offset = u128::from(rows) * (2 * u128::from(place) + 1) / (2 * u128::from(count));
            let Some(row) = read.nth(.., offset as u64)? else { continue };
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
