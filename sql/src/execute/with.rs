//! Queries of WITH: their rows, which are kept. They are made when they are asked for, so that a query that nothing
//! reads is not run; those of a recursive one round by round, so that a LIMIT ends one without an end.

use std::sync::Arc;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::evaluate_all;
use crate::execute::kept_answers::{Growing, Seen, WithRows};
use crate::execute::query::read_all;
use crate::plan::query::{Recursion, With};
use crate::types::datum::Datum;

/// Notes a query of WITH, which is run when its rows are asked for.
///
/// # Errors
/// Those of what the query around gives to it.
pub(super) fn note_with(with: &With, context: &Context<'_>) -> Result<()> {
    let again = with.recursion.as_ref().map_or(&[][..], |recursion| &recursion.arguments);
    let arguments = [evaluate_all(&with.arguments, &[], context)?, evaluate_all(again, &[], context)?];
    let waiting = WithRows::Waiting(Box::new(with.clone()), arguments);
    let before = context.state.with.borrow_mut().insert(with.number, waiting);
    if before.is_some() {
        // What sub-selects have found in the rows before.
        context.state.forget();
    }
    Ok(())
}

/// Runs a query of WITH that waits, and keeps its rows; of a recursive one those of the first part.
///
/// # Errors
/// Those of the query.
pub(super) fn begin_with(number: usize, context: &Context<'_>) -> Result<()> {
    if !matches!(context.state.with.borrow().get(&number), Some(WithRows::Waiting(..))) {
        return Ok(());
    }
    let waiting = context.state.with.borrow_mut().remove(&number);
    let Some(WithRows::Waiting(with, [arguments, again])) = waiting else { return Ok(()) };
    let rows = read_all(&with.query, &Context { arguments: &arguments, ..*context })?;
    let rows = match with.recursion {
        None => WithRows::All(Arc::new(rows)),
        Some(recursion) => {
            let mut seen = Seen::default();
            let rows = new_rows(rows, &recursion, &mut seen, context)?;
            WithRows::Growing(Box::new(Growing { rows, last_round: 0, seen, recursion, arguments: again }))
        }
    };
    context.state.with.borrow_mut().insert(number, rows);
    Ok(())
}

/// Makes all rows of a query of WITH.
///
/// # Errors
/// Those of the query.
pub(super) fn complete(number: usize, context: &Context<'_>) -> Result<()> {
    begin_with(number, context)?;
    while grow(number, context)? {}
    Ok(())
}

/// The row of a query of WITH that has begun at a place; none after the last one.
///
/// # Errors
/// Those of the query.
pub(super) fn row_at(number: usize, place: usize, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
    loop {
        match context.state.with.borrow().get(&number) {
            None | Some(WithRows::Waiting(..)) => return Ok(None),
            Some(WithRows::All(rows)) => return Ok(rows.get(place).cloned()),
            Some(WithRows::Growing(growing)) => {
                if let Some(row) = growing.rows.get(place) {
                    return Ok(Some(row.clone()));
                }
            }
        }
        if !grow(number, context)? {
            return Ok(None);
        }
    }
}

/// The rows that a recursive query has not given before, if equal ones are dropped.
fn new_rows(
    rows: Vec<Vec<Datum>>,
    recursion: &Recursion,
    seen: &mut Seen,
    context: &Context<'_>,
) -> Result<Vec<Vec<Datum>>> {
    if !recursion.is_distinct {
        return Ok(rows);
    }
    let mut kept = Vec::new();
    for row in rows {
        if context.state.is_new(&row, seen)? {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// Runs the next round of a recursive query. Returns whether it has added rows.
fn grow(number: usize, context: &Context<'_>) -> Result<bool> {
    let known = context.state.with.borrow_mut().remove(&number);
    let Some(WithRows::Growing(mut growing)) = known else {
        known.map(|rows| context.state.with.borrow_mut().insert(number, rows));
        return Ok(false);
    };
    let last_round = growing.rows[growing.last_round..].to_vec();
    let is_over = last_round.is_empty();
    if !is_over {
        let recursion = Arc::clone(&growing.recursion);
        context.state.with.borrow_mut().insert(recursion.number, WithRows::All(Arc::new(last_round)));
        let rows = read_all(&recursion.query, &Context { arguments: &growing.arguments, ..*context })?;
        growing.last_round = growing.rows.len();
        growing.rows.extend(new_rows(rows, &recursion, &mut growing.seen, context)?);
    }
    let has_more = growing.last_round < growing.rows.len();
    context.state.with.borrow_mut().insert(number, WithRows::Growing(growing));
    Ok(has_more)
}
