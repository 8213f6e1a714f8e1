//! The rows of a FROM, written into their slots of the frame.

use std::sync::Arc;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::join::JoinCursor;
use crate::execute::kept_answers::WithRows;
use crate::execute::query::QueryCursor;
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::scan::ScanCursor;
use crate::execute::with::row_at;
use crate::functions::Series;
use crate::plan::source::{RowsOf, Source};
use crate::types::datum::Datum;

/// The rows of a source that are still to come.
pub enum SourceCursor {
    /// Of [`Source::Once`] and [`Source::Value`]: whether it is still to come.
    Once(bool),
    /// Of [`Source::Nothing`].
    Nothing,
    /// Of [`Source::Scan`].
    Scan(Box<ScanCursor>),
    /// Of [`Source::Catalogue`]: its rows, once it has begun, and how many have come.
    Catalogue(Option<Arc<Vec<Vec<Datum>>>>, usize),
    /// Of [`Source::Function`]: the rows of each function, once it has begun, and how many have come.
    Function(Option<Vec<RowsOfCall>>, i64),
    /// Of [`Source::Subselect`], once it has begun, with what it was given.
    Subselect(Option<(Box<QueryCursor>, Vec<Datum>)>),
    /// Of [`Source::With`]: its rows, once it has begun, if all are there; and how many have come.
    With(Option<(Arc<RowList>, Box<RowListCursor>)>, usize),
    /// Of [`Source::Join`].
    Join(Box<JoinCursor>),
    /// Of [`Source::Filter`].
    Filter(Box<SourceCursor>),
}

impl SourceCursor {
    /// Has the scan at the source's beginning pass over rows and stop early, if each of its rows is one of the source.
    /// Returns whether it does.
    pub fn limit(&mut self, source: &Source, offset: u64, limit: Option<u64>) -> bool {
        match (self, source) {
            (SourceCursor::Scan(cursor), Source::Scan(scan)) if scan.filter.is_none() && scan.sample.is_none() => {
                cursor.limit(offset, limit);
                true
            }
            (SourceCursor::Join(cursor), Source::Join(join)) => cursor.limit(join, offset, limit),
            _ => false,
        }
    }

    /// All rows of a source.
    pub fn new(source: &Source) -> SourceCursor {
        match source {
            Source::Once | Source::Value { .. } => SourceCursor::Once(true),
            Source::Nothing => SourceCursor::Nothing,
            Source::Scan(_) => SourceCursor::Scan(Box::default()),
            Source::Catalogue { .. } => SourceCursor::Catalogue(None, 0),
            Source::Function { .. } => SourceCursor::Function(None, 0),
            Source::Subselect { .. } => SourceCursor::Subselect(None),
            Source::With { .. } => SourceCursor::With(None, 0),
            Source::Join(join) => SourceCursor::Join(Box::new(JoinCursor::new(join))),
            Source::Filter { input, .. } => SourceCursor::Filter(Box::new(SourceCursor::new(input))),
        }
    }

    /// Calls `visit` with each row in its slots. If `visit` evaluates only what can be asked early, rows of a scan are
    /// not copied.
    ///
    /// # Errors
    /// Those of reading, of evaluating and of `visit`.
    pub fn visit_all(
        &mut self,
        source: &Source,
        frame: &mut Vec<Datum>,
        context: &Context<'_>,
        asks_early: bool,
        visit: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        if let (SourceCursor::Scan(cursor), Source::Scan(scan), true) = (&mut *self, source, asks_early) {
            return cursor.visit_all(scan, frame, context, visit);
        }
        while self.next(source, frame, context)? {
            visit(frame)?;
        }
        Ok(())
    }

    /// Writes the next row into its slots. Returns whether there is one.
    ///
    /// # Errors
    /// Those of reading and of evaluating.
    pub fn next(&mut self, source: &Source, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<bool> {
        match (self, source) {
            (SourceCursor::Once(is_left), Source::Once) => Ok(std::mem::take(is_left)),
            (SourceCursor::Once(is_left), Source::Value { value, slot }) => {
                if !std::mem::take(is_left) {
                    return Ok(false);
                }
                frame[*slot] = evaluate(value, frame, context)?;
                Ok(true)
            }
            (SourceCursor::Scan(cursor), Source::Scan(scan)) => cursor.next(scan, frame, context),
            (SourceCursor::Catalogue(rows, at), Source::Catalogue { table, slots, filter }) => {
                let rows = match rows {
                    Some(rows) => rows,
                    None => {
                        let make = || context.environment.catalogue_rows(table);
                        rows.insert(context.state.catalogue_rows(table, make)?)
                    }
                };
                while let Some(row) = rows.get(*at) {
                    *at += 1;
                    context.state.step()?;
                    for (slot, value) in frame[slots.clone()].iter_mut().zip(row) {
                        slot.clone_from(value);
                    }
                    match filter {
                        Some(filter) if !holds(filter, frame, context)? => {}
                        _ => return Ok(true),
                    }
                }
                Ok(false)
            }
            (SourceCursor::Function(rows, number), Source::Function { calls, ordinality }) => {
                if rows.is_none() {
                    let all = calls.iter().map(|rows| rows_of(rows, frame, context)).collect::<Result<_>>()?;
                    *rows = Some(all);
                }
                context.state.step()?;
                let mut is_there = false;
                for (rows, call) in rows.iter_mut().flatten().zip(calls) {
                    match rows.next() {
                        Some(row) => {
                            is_there = true;
                            place(frame, call.slots.start, row);
                        }
                        None => frame[call.slots.clone()].fill(Datum::Null),
                    }
                }
                *number += 1;
                if let Some(slot) = ordinality {
                    frame[*slot] = Datum::Int(*number);
                }
                Ok(is_there)
            }
            (SourceCursor::Subselect(state), Source::Subselect { query, arguments, slots }) => {
                if state.is_none() {
                    let arguments = match arguments {
                        Some(arguments) => evaluate_all(arguments, frame, context)?,
                        None => context.arguments.to_vec(),
                    };
                    *state = Some((Box::new(QueryCursor::new(query)), arguments));
                }
                let Some((cursor, arguments)) = state else { return Ok(false) };
                let inner = Context { arguments, ..*context };
                let mut row = Vec::new();
                let is_there = cursor.next(query, &inner, &mut row)?;
                if is_there {
                    place(frame, slots.start, row);
                }
                Ok(is_there)
            }
            (SourceCursor::With(rows, at), Source::With { number, slots }) => {
                context.state.step()?;
                if *at == 0
                    && let Some(WithRows::All(all)) = context.state.with.borrow().get(number)
                {
                    *rows = Some((Arc::clone(all), Box::default()));
                }
                let row = match rows {
                    Some((all, cursor)) => cursor.next(all)?.map(|(_, row)| row.to_vec()),
                    None => row_at(*number, *at, context)?,
                };
                let Some(row) = row else { return Ok(false) };
                *at += 1;
                place(frame, slots.start, row);
                Ok(true)
            }
            (SourceCursor::Join(cursor), Source::Join(join)) => cursor.next(join, frame, context),
            (SourceCursor::Filter(cursor), Source::Filter { input, condition }) => {
                while cursor.next(input, frame, context)? {
                    if holds(condition, frame, context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

/// All rows of a function.
/// What a function gives.
pub enum RowsOfCall {
    /// Rows that are kept.
    Kept(std::vec::IntoIter<Vec<Datum>>),
    /// Values that are computed as they are taken.
    Series(Series),
}

impl RowsOfCall {
    fn next(&mut self) -> Option<Vec<Datum>> {
        match self {
            RowsOfCall::Kept(rows) => rows.next(),
            RowsOfCall::Series(series) => series.next().map(|value| vec![value]),
        }
    }
}

fn rows_of(rows: &RowsOf, frame: &[Datum], context: &Context<'_>) -> Result<RowsOfCall> {
    let arguments = evaluate_all(&rows.arguments, frame, context)?;
    if let Some(series) = rows.call.series(&arguments)? {
        return Ok(RowsOfCall::Series(series));
    }
    let mut all = Vec::new();
    for row in rows.call.run(context.environment, &arguments)? {
        let row = row?;
        context.state.step()?;
        context.state.keep(&row)?;
        all.push(row);
    }
    Ok(RowsOfCall::Kept(all.into_iter()))
}

/// Moves the values of a row into the slots from one on.
fn place(frame: &mut [Datum], start: usize, row: Vec<Datum>) {
    for (slot, value) in frame[start..].iter_mut().zip(row) {
        *slot = value;
    }
}
