//! Queries of WITH: their rows, which are kept. Those of a recursive one are made round by round, when they are asked
//! for, so that a LIMIT ends one without an end.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::evaluate_all;
use crate::execute::kept_answers::{Growing, Seen, WithRows};
use crate::execute::query::{list_all, read_all};
use crate::plan::query::{Recursion, With};
use crate::stack::is_stack_short;
use crate::types::datum::Datum;

/// Runs a query of WITH, and keeps its rows; of a recursive one those of the first part.
///
/// # Errors
/// Those of the query.
pub(super) fn run_with(with: &With, context: &Context<'_>) -> Result<()> {
    let arguments = evaluate_all(&with.arguments, &[], context)?;
    let inner = &Context { arguments: &arguments, ..*context };
    let rows = match &with.recursion {
        None => WithRows::All(Arc::new(list_all(&with.query, inner)?)),
        Some(recursion) => {
            let rows = read_all(&with.query, inner)?;
            let mut seen = Seen::default();
            let rows = new_rows(rows, recursion, &mut seen, context)?;
            let arguments = evaluate_all(&recursion.arguments, &[], context)?;
            let recursion = Arc::clone(recursion);
            WithRows::Growing(Box::new(Growing { rows, last_round: 0, seen, recursion, arguments, bytes: 0 }))
        }
    };
    let before = context.state.with.borrow_mut().insert(with.number, rows);
    if let Some(before) = before {
        if let WithRows::Growing(before) = before {
            context.state.let_go_at_last(before.bytes);
        }
        // What sub-selects have found in the rows before.
        context.state.forget();
    }
    Ok(())
}

/// Makes all rows of a query of WITH.
///
/// # Errors
/// Those of the query.
pub(super) fn complete(number: usize, context: &Context<'_>) -> Result<()> {
    while grow(number, context)? {}
    Ok(())
}

/// The row of a recursive query of WITH at a place; none after the last one.
///
/// # Errors
/// Those of the query.
pub(super) fn row_at(number: usize, place: usize, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
    loop {
        match context.state.with.borrow().get(&number) {
            None => return Ok(None),
            Some(WithRows::All(_)) => return Ok(None),
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
///
/// A round may read other recursive queries, and so run rounds of them.
fn grow(number: usize, context: &Context<'_>) -> Result<bool> {
    if is_stack_short() {
        let what = "queries of WITH RECURSIVE read each other in too long a row";
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, what));
    }
    let known = context.state.with.borrow_mut().remove(&number);
    let Some(WithRows::Growing(mut growing)) = known else {
        known.map(|rows| context.state.with.borrow_mut().insert(number, rows));
        return Ok(false);
    };
    let last_round = growing.rows[growing.last_round..].to_vec();
    let is_over = last_round.is_empty();
    if !is_over {
        let recursion = Arc::clone(&growing.recursion);
        context.state.with.borrow_mut().insert(recursion.number, WithRows::All(Arc::new(last_round.into())));
        let before = context.state.passing_bytes();
        let rows = read_all(&recursion.query, &Context { arguments: &growing.arguments, ..*context })?;
        growing.last_round = growing.rows.len();
        growing.rows.extend(new_rows(rows, &recursion, &mut growing.seen, context)?);
        // They stay, though it may be a sub-select that has asked for them.
        let bytes = context.state.passing_bytes().saturating_sub(before);
        context.state.keep_to_the_end(bytes);
        growing.bytes += bytes;
    }
    let has_more = growing.last_round < growing.rows.len();
    context.state.with.borrow_mut().insert(number, WithRows::Growing(growing));
    Ok(has_more)
}
