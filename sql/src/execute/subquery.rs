//! Sub-selects in expressions. What one has found is kept for the arguments of its last run, so one that depends on no
//! row is run once.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate_all, quantified_rows};
use crate::execute::kept_answers::{Answer, Found};
use crate::execute::query::QueryCursor;
use crate::plan::expression::{Comparison, Subquery, SubqueryKind};
use crate::types::datum::{Array, Datum};

impl Answer {
    /// Counts the bytes that it takes.
    fn keep(&self, context: &Context<'_>) -> Result<usize> {
        match self {
            Answer::Value(value) => context.state.keep(std::slice::from_ref(value)),
            Answer::Rows(rows) => rows.iter().map(|row| context.state.keep(row)).sum(),
            Answer::Set(set) => context.state.keep(&set.0),
            Answer::Sorted { known, open } => known.iter().chain(&**open).map(|row| context.state.keep(row)).sum(),
        }
    }
}

/// The answer of a sub-select for a row: the one that is kept, or a new one, which is kept then.
pub(crate) fn answer(subquery: &Subquery, row: &[Datum], context: &Context<'_>) -> Result<Answer> {
    let arguments = evaluate_all(&subquery.arguments, row, context)?;
    let known = context.state.found.borrow().get(&subquery.number).and_then(|found| {
        let is_same = found.arguments == arguments;
        is_same.then(|| found.answer.clone())
    });
    Ok(match known {
        Some(answer) => answer,
        None => {
            let inner = Context { arguments: &arguments, ..*context };
            let before = context.state.passing_bytes();
            let answer = run(subquery, &inner)?;
            context.state.let_go(context.state.passing_bytes().saturating_sub(before));
            let bytes = answer.keep(context)?;
            let found = Found { arguments, answer: answer.clone(), bytes };
            if let Some(before) = context.state.found.borrow_mut().insert(subquery.number, found) {
                context.state.let_go(before.bytes);
            }
            answer
        }
    })
}

/// The value of a sub-select for a row.
pub(crate) fn evaluate(subquery: &Subquery, row: &[Datum], context: &Context<'_>) -> Result<Datum> {
    match (&subquery.kind, answer(subquery, row, context)?) {
        (_, Answer::Value(value)) => Ok(value),
        (SubqueryKind::Quantified { left, comparison, is_all }, Answer::Set(set)) => {
            let left = evaluate_all(left, row, context)?;
            Ok(in_set(&left[0], &set, *comparison, *is_all))
        }
        (SubqueryKind::Quantified { left, comparison, is_all }, Answer::Rows(rows)) => {
            let left = evaluate_all(left, row, context)?;
            quantified_rows(&left, *comparison, rows.iter().cloned().map(Ok), *is_all)
        }
        (SubqueryKind::Quantified { left, comparison, is_all }, Answer::Sorted { known, open }) => {
            let left = evaluate_all(left, row, context)?;
            let is_open = left.iter().any(Datum::is_null);
            if !is_open && known.binary_search(&left).is_ok() {
                return Ok(Datum::Bool(!is_all));
            }
            let others = known.iter().filter(|_| is_open).chain(&*open);
            quantified_rows(&left, *comparison, others.cloned().map(Ok), *is_all)
        }
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a sub-select has an answer of another kind")),
    }
}

/// IN and NOT IN, over sorted values.
fn in_set(left: &Datum, set: &(Vec<Datum>, bool), comparison: Comparison, is_all: bool) -> Datum {
    let (values, has_null) = set;
    if values.is_empty() && !has_null {
        return Datum::Bool(is_all);
    }
    if left.is_null() {
        return Datum::Null;
    }
    let is_found = values.binary_search(left).is_ok();
    match (is_found, comparison) {
        (true, _) => Datum::Bool(comparison == Comparison::Equal),
        (false, _) if *has_null => Datum::Null,
        (false, _) => Datum::Bool(comparison != Comparison::Equal),
    }
}

#[cold]
fn several_rows() -> SqlError {
    let what = "more than one row returned by a subquery used as an expression";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, what)
}

fn run(subquery: &Subquery, context: &Context<'_>) -> Result<Answer> {
    let mut cursor = QueryCursor::new(&subquery.query);
    let mut row = Vec::new();
    Ok(match &subquery.kind {
        SubqueryKind::Exists => Answer::Value(Datum::Bool(cursor.next(&subquery.query, context, &mut row)?)),
        SubqueryKind::Scalar => {
            if !cursor.next(&subquery.query, context, &mut row)? {
                return Ok(Answer::Value(Datum::Null));
            }
            let value = row.swap_remove(0);
            if cursor.next(&subquery.query, context, &mut row)? {
                return Err(several_rows());
            }
            Answer::Value(value)
        }
        SubqueryKind::Record(types) => {
            if !cursor.next(&subquery.query, context, &mut row)? {
                return Ok(Answer::Value(Datum::Null));
            }
            let fields = types.iter().copied().zip(std::mem::take(&mut row)).collect();
            if cursor.next(&subquery.query, context, &mut row)? {
                return Err(several_rows());
            }
            Answer::Value(Datum::record(fields))
        }
        SubqueryKind::Array(of) => {
            let mut values = Vec::new();
            while cursor.next(&subquery.query, context, &mut row)? {
                context.state.keep(&row[..1])?;
                values.push(row.swap_remove(0));
            }
            Answer::Value(Datum::Array(Arc::new(Array::collected(of.base, values, of.is_array)?)))
        }
        SubqueryKind::Quantified { left, comparison, is_all } => {
            let mut rows = Vec::new();
            while cursor.next(&subquery.query, context, &mut row)? {
                context.state.keep(&row)?;
                rows.push(std::mem::take(&mut row));
            }
            let is_in = matches!((comparison, is_all), (Comparison::Equal, false) | (Comparison::Unequal, true));
            let are_plain = |row: &Vec<Datum>| row.iter().all(|value| !matches!(value, Datum::Record(_)));
            if !is_in || !rows.iter().all(are_plain) {
                Answer::Rows(Arc::new(rows))
            } else if left.len() == 1 {
                let mut values: Vec<Datum> = rows.into_iter().map(|mut row| row.swap_remove(0)).collect();
                values.sort_unstable();
                // NULLs come last.
                let known = values.partition_point(|value| !value.is_null());
                let has_null = known < values.len();
                values.truncate(known);
                Answer::Set(Arc::new((values, has_null)))
            } else {
                let (open, mut known): (Vec<_>, Vec<_>) =
                    rows.into_iter().partition(|row| row.iter().any(Datum::is_null));
                known.sort_unstable();
                Answer::Sorted { known: Arc::new(known), open: Arc::new(open) }
            }
        }
    })
}
