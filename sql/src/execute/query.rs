//! The rows of a query, in order.

use std::collections::HashMap;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all};
use crate::execute::group::group_rows;
use crate::execute::kept_answers::Seen;
use crate::execute::sorted::{Sorter, compare_rows};
use crate::execute::source::SourceCursor;
use crate::execute::window::add_windows;
use crate::execute::with::run_with;
use crate::locks::mode::LockMode;
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Distinct, Query, RowLock, Select, SetOperation};
use crate::types::datum::Datum;

/// The rows of a query that are still to come.
pub struct QueryCursor {
    body: BodyCursor,
    has_begun: bool,
    /// Rows to pass over.
    offset: u64,
    /// Rows that may still be given.
    left: Option<u64>,
    /// The rows in order, where they are sorted or locked.
    ready: Option<std::vec::IntoIter<Vec<Datum>>>,
    /// The last row that was given, or the last one of its kind.
    last: Option<Vec<Datum>>,
    seen: Seen,
}

/// The rows of a body that are still to come.
enum BodyCursor {
    Select(Box<SelectCursor>),
    Values(usize),
    Set(Box<SetCursor>),
}

impl QueryCursor {
    /// All rows of a query.
    pub fn new(query: &Query) -> QueryCursor {
        let body = match &query.body {
            Body::Select(select) => BodyCursor::Select(Box::new(SelectCursor::new(select))),
            Body::Values(_) => BodyCursor::Values(0),
            Body::Set { left, right, .. } => BodyCursor::Set(Box::new(SetCursor::new(left, right))),
        };
        QueryCursor { body, has_begun: false, offset: 0, left: None, ready: None, last: None, seen: Seen::default() }
    }

    /// Puts the values of the next row into `row`. Returns whether there is one.
    ///
    /// # Errors
    /// Those of reading and of evaluating.
    pub fn next(&mut self, query: &Query, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        if !self.has_begun {
            self.begin(query, context)?;
        }
        loop {
            if self.left == Some(0) && !query.with_ties {
                return Ok(false);
            }
            if !self.next_of_kind(query, context, row)? {
                return Ok(false);
            }
            if self.offset > 0 {
                self.offset -= 1;
                continue;
            }
            match &mut self.left {
                // Rows that equal the last one in order.
                Some(0) => {
                    let is_tie = self.last.as_ref().is_some_and(|last| compare_rows(last, row, &query.sort).is_eq());
                    if !is_tie {
                        return Ok(false);
                    }
                }
                Some(left) => {
                    *left -= 1;
                    if *left == 0 && query.with_ties {
                        self.last = Some(row.clone());
                    }
                }
                None => {}
            }
            row.truncate(query.visible);
            return Ok(true);
        }
    }

    fn begin(&mut self, query: &Query, context: &Context<'_>) -> Result<()> {
        self.has_begun = true;
        query.with.iter().try_for_each(|with| run_with(with, context))?;
        self.offset = row_count(query.offset.as_ref(), context, false)?.unwrap_or(0);
        self.left = row_count(query.limit.as_ref(), context, true)?;
        let lock = match &query.body {
            Body::Select(select) => select.lock.as_ref(),
            _ => None,
        };
        if query.sort.is_empty() && lock.is_none() {
            if let (BodyCursor::Select(cursor), Body::Select(select)) = (&mut self.body, &query.body)
                && cursor.limit(select, self.offset, self.left.filter(|_| !query.with_ties))
            {
                self.offset = 0;
            }
            return Ok(());
        }
        let wanted = self.left.map(|left| left.saturating_add(self.offset));
        let mut row = Vec::new();
        let mut rows = Vec::new();
        if query.sort.is_empty() {
            // No more rows are read, and locked, than are wanted.
            while wanted.is_none_or(|wanted| (rows.len() as u64) < wanted)
                && self.body.next(&query.body, context, &mut row)?
            {
                if lock_row(lock, &row, context)? {
                    context.state.keep(&row)?;
                    rows.push(std::mem::take(&mut row));
                }
            }
        } else {
            let is_all_wanted = query.with_ties || lock.is_some() || is_distinct_on(query);
            let mut sorter = Sorter::new(&query.sort, wanted.filter(|_| !is_all_wanted));
            while self.body.next(&query.body, context, &mut row)? {
                sorter.add(std::mem::take(&mut row), context)?;
            }
            for row in sorter.finish() {
                if lock.is_some() && wanted.is_some_and(|wanted| rows.len() as u64 >= wanted) {
                    break;
                }
                if lock_row(lock, &row, context)? {
                    rows.push(row);
                }
            }
        }
        self.ready = Some(rows.into_iter());
        Ok(())
    }

    /// The next row, or the next that differs from those before in what DISTINCT ON says.
    fn next_of_kind(&mut self, query: &Query, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        let on = match &query.body {
            Body::Select(select) => match &select.distinct {
                Distinct::On(places) => Some(places),
                _ => None,
            },
            _ => None,
        };
        loop {
            let is_there = match &mut self.ready {
                Some(rows) => match rows.next() {
                    Some(next) => {
                        *row = next;
                        true
                    }
                    None => false,
                },
                None => self.body.next(&query.body, context, row)?,
            };
            let (true, Some(places)) = (is_there, on) else { return Ok(is_there) };
            let kind: Vec<Datum> = places.iter().map(|&place| row[place].clone()).collect();
            if context.state.is_new(&kind, &mut self.seen)? {
                return Ok(true);
            }
        }
    }
}

fn is_distinct_on(query: &Query) -> bool {
    matches!(&query.body, Body::Select(select) if matches!(select.distinct, Distinct::On(_)))
}

/// Takes the locks of a row, if it takes some. Returns whether the row can be had.
fn lock_row(lock: Option<&RowLock>, row: &[Datum], context: &Context<'_>) -> Result<bool> {
    let Some(lock) = lock else { return Ok(true) };
    for target in &lock.targets {
        let key: Vec<Datum> = target.key.iter().map(|&place| row[place].clone()).collect();
        context.locker.lock_table(&target.table, LockMode::RowShare)?;
        // An outer join may have no row of the table.
        if !key.iter().any(Datum::is_null) && !context.locker.lock(&target.table, &key, lock.wait, lock.is_shared)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number that LIMIT or OFFSET says; none if it says NULL.
fn row_count(expr: Option<&Expr>, context: &Context<'_>, is_limit: bool) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match evaluate(expr, &[], context)? {
        Datum::Int(count) => u64::try_from(count).map(Some).map_err(|_| {
            let (state, word) = match is_limit {
                true => (SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT"),
                false => (SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET"),
            };
            SqlError::new(state, format!("{word} must not be negative"))
        }),
        _ => Ok(None),
    }
}

/// All rows of a query.
///
/// # Errors
/// Those of the query; [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if there are too many.
pub fn read_all(query: &Query, context: &Context<'_>) -> Result<Vec<Vec<Datum>>> {
    let mut cursor = QueryCursor::new(query);
    let (mut rows, mut row) = (Vec::new(), Vec::new());
    while cursor.next(query, context, &mut row)? {
        context.state.keep(&row)?;
        rows.push(std::mem::take(&mut row));
    }
    Ok(rows)
}

impl BodyCursor {
    fn next(&mut self, body: &Body, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        match (self, body) {
            (BodyCursor::Select(cursor), Body::Select(select)) => cursor.next(select, context, row),
            (BodyCursor::Values(at), Body::Values(lists)) => {
                let Some(list) = lists.get(*at) else { return Ok(false) };
                context.state.step()?;
                *at += 1;
                *row = evaluate_all(list, &[], context)?;
                Ok(true)
            }
            (BodyCursor::Set(cursor), Body::Set { operation, is_all, left, right }) => {
                cursor.next((*operation, *is_all), left, right, context, row)
            }
            _ => Ok(false),
        }
    }
}

/// The rows of a SELECT that are still to come, before they are sorted.
struct SelectCursor {
    source: SourceCursor,
    frame: Vec<Datum>,
    /// Frames that are computed from all rows: of groups, and with window functions.
    frames: Option<std::vec::IntoIter<Vec<Datum>>>,
    seen: Seen,
}

impl SelectCursor {
    fn new(select: &Select) -> SelectCursor {
        let frame = vec![Datum::Null; select.frame];
        SelectCursor { source: SourceCursor::new(&select.source), frame, frames: None, seen: Seen::default() }
    }

    /// Lets the scan pass over rows and stop early, where each of its rows is one of the result. Returns whether it
    /// does.
    fn limit(&mut self, select: &Select, offset: u64, limit: Option<u64>) -> bool {
        let is_row_by_row = select.grouping.is_none() && select.windows.is_empty() && select.distinct == Distinct::No;
        is_row_by_row && self.source.limit(&select.source, offset, limit)
    }

    fn next(&mut self, select: &Select, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        let needs_all = select.grouping.is_some() || !select.windows.is_empty();
        if needs_all && self.frames.is_none() {
            self.frames = Some(self.all_frames(select, context)?.into_iter());
        }
        loop {
            match &mut self.frames {
                Some(frames) => match frames.next() {
                    Some(frame) => self.frame = frame,
                    None => return Ok(false),
                },
                None if self.source.next(&select.source, &mut self.frame, context)? => {}
                None => return Ok(false),
            }
            row.clear();
            for output in &select.output {
                row.push(evaluate(output, &self.frame, context)?);
            }
            if select.distinct != Distinct::All || context.state.is_new(row, &mut self.seen)? {
                return Ok(true);
            }
        }
    }

    fn all_frames(&mut self, select: &Select, context: &Context<'_>) -> Result<Vec<Vec<Datum>>> {
        let mut frames = match &select.grouping {
            Some(grouping) => group_rows(grouping, &select.source, &mut self.source, &mut self.frame, context)?,
            None => {
                let mut frames = Vec::new();
                while self.source.next(&select.source, &mut self.frame, context)? {
                    context.state.keep(&self.frame)?;
                    frames.push(self.frame.clone());
                }
                frames
            }
        };
        if !select.windows.is_empty() {
            add_windows(&select.windows, &mut frames, context)?;
        }
        Ok(frames)
    }
}

/// The rows of a set operation that are still to come.
struct SetCursor {
    left: QueryCursor,
    right: QueryCursor,
    is_left_over: bool,
    seen: Seen,
    /// How often the second query has each row, for INTERSECT and EXCEPT.
    counts: Option<HashMap<Vec<Datum>, usize>>,
}

impl SetCursor {
    fn new(left: &Query, right: &Query) -> SetCursor {
        SetCursor {
            left: QueryCursor::new(left),
            right: QueryCursor::new(right),
            is_left_over: false,
            seen: Seen::default(),
            counts: None,
        }
    }

    fn next(
        &mut self,
        (operation, is_all): (SetOperation, bool),
        left: &Query,
        right: &Query,
        context: &Context<'_>,
        row: &mut Vec<Datum>,
    ) -> Result<bool> {
        if operation != SetOperation::Union && self.counts.is_none() {
            let mut counts = HashMap::new();
            while self.right.next(right, context, row)? {
                context.state.keep(row)?;
                *counts.entry(std::mem::take(row)).or_insert(0) += 1;
            }
            self.counts = Some(counts);
        }
        loop {
            if self.is_left_over || !self.left.next(left, context, row)? {
                self.is_left_over = true;
                if operation != SetOperation::Union || !self.right.next(right, context, row)? {
                    return Ok(false);
                }
            }
            let is_wanted = match &mut self.counts {
                None => true,
                Some(counts) => {
                    let count = counts.get_mut(row);
                    let is_there = count.as_ref().is_some_and(|count| **count > 0);
                    if let (true, Some(count)) = (is_all && is_there, count) {
                        *count -= 1;
                    }
                    is_there == (operation == SetOperation::Intersect)
                }
            };
            if is_wanted && (is_all || context.state.is_new(row, &mut self.seen)?) {
                return Ok(true);
            }
        }
    }
}
