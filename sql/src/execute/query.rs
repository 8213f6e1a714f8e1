//! The rows of a query, in order.

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::distinct::DistinctRows;
use crate::execute::evaluate::{evaluate, evaluate_all};
use crate::execute::group::GroupCursor;
use crate::execute::order::compare_rows;
use crate::execute::row_list::RowList;
use crate::execute::set_operation::SetRows;
use crate::execute::sorter::{SortedRows, Sorter};
use crate::execute::source::SourceCursor;
use crate::execute::window::WindowCursor;
use crate::execute::with::run_with;
use crate::locks::mode::LockMode;
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Distinct, Query, RowLock, Select};
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
    ready: Option<Ready>,
    /// The last row that was given, or the last one of its kind.
    last: Option<Vec<Datum>>,
    /// For DISTINCT ON.
    distinct: DistinctRows,
    is_over: bool,
}

/// Rows that are taken one after the other.
enum Ready {
    /// Those that were locked.
    Locked(std::vec::IntoIter<Vec<Datum>>),
    /// Those that were sorted.
    Sorted(Box<SortedRows>),
}

impl Ready {
    fn next(&mut self, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        match self {
            Ready::Locked(rows) => Ok(rows.next()),
            Ready::Sorted(rows) => rows.next(context.state),
        }
    }
}

/// The rows of a body that are still to come.
enum BodyCursor {
    Select(Box<SelectCursor>),
    Values(usize),
    Set(Box<(QueryCursor, QueryCursor, SetRows)>),
}

impl QueryCursor {
    /// All rows of a query.
    pub fn new(query: &Query) -> QueryCursor {
        let body = match &query.body {
            Body::Select(select) => BodyCursor::Select(Box::new(SelectCursor::new(select))),
            Body::Values(_) => BodyCursor::Values(0),
            Body::Set { left, right, .. } => {
                BodyCursor::Set(Box::new((QueryCursor::new(left), QueryCursor::new(right), SetRows::default())))
            }
        };
        let (has_begun, is_over, distinct) = (false, false, DistinctRows::default());
        QueryCursor { body, has_begun, offset: 0, left: None, ready: None, last: None, distinct, is_over }
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
            let mut sorter = Sorter::new(query.sort.clone(), wanted.filter(|_| !is_all_wanted));
            while self.body.next(&query.body, context, &mut row)? {
                sorter.add(std::mem::take(&mut row), context.state)?;
            }
            let mut sorted = sorter.finish(context.state)?;
            if lock.is_none() {
                self.ready = Some(Ready::Sorted(Box::new(sorted)));
                return Ok(());
            }
            while wanted.is_none_or(|wanted| (rows.len() as u64) < wanted)
                && let Some(row) = sorted.next(context.state)?
            {
                if lock_row(lock, &row, context)? {
                    context.state.keep(&row)?;
                    rows.push(row);
                }
            }
        }
        self.ready = Some(Ready::Locked(rows.into_iter()));
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
        let Some(places) = on else { return self.next_ready(query, context, row) };
        while !self.is_over {
            if !self.next_ready(query, context, row)? {
                self.is_over = true;
            } else if self.distinct.is_first(row, Some(places), context.state)? {
                return Ok(true);
            }
        }
        let waiting = self.distinct.next_waiting(Some(places), context.state)?;
        Ok(put(waiting, row))
    }

    fn next_ready(&mut self, query: &Query, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        match &mut self.ready {
            Some(rows) => Ok(put(rows.next(context)?, row)),
            None => self.body.next(&query.body, context, row),
        }
    }
}

/// Puts a row into its place, if there is one. Returns whether there is.
fn put(next: Option<Vec<Datum>>, row: &mut Vec<Datum>) -> bool {
    next.map(|next| *row = next).is_some()
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

/// All rows of a query, which need not fit into memory.
///
/// # Errors
/// Those of the query, and of keeping rows.
pub(super) fn list_all(query: &Query, context: &Context<'_>) -> Result<RowList> {
    let mut cursor = QueryCursor::new(query);
    let (mut rows, mut row) = (RowList::default(), Vec::new());
    while cursor.next(query, context, &mut row)? {
        rows.push(std::mem::take(&mut row), context.state)?;
    }
    rows.finish()?;
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
            (BodyCursor::Set(cursors), Body::Set { operation, is_all, left, right }) => {
                let (of_left, of_right, rows) = &mut **cursors;
                let mut next_left = |row: &mut Vec<Datum>| of_left.next(left, context, row);
                let mut next_right = |row: &mut Vec<Datum>| of_right.next(right, context, row);
                rows.next((*operation, *is_all), &mut next_left, &mut next_right, row, context.state)
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
    frames: Option<Frames>,
    /// For DISTINCT.
    distinct: DistinctRows,
    is_over: bool,
}

/// Frames that are computed from all rows.
enum Frames {
    Groups(Box<GroupCursor>),
    Windows(Box<WindowCursor>),
}

impl SelectCursor {
    fn new(select: &Select) -> SelectCursor {
        let frame = vec![Datum::Null; select.frame];
        let (source, distinct) = (SourceCursor::new(&select.source), DistinctRows::default());
        SelectCursor { source, frame, frames: None, distinct, is_over: false }
    }

    /// Lets the scan pass over rows and stop early, where each of its rows is one of the result. Returns whether it
    /// does.
    fn limit(&mut self, select: &Select, offset: u64, limit: Option<u64>) -> bool {
        let is_row_by_row = select.grouping.is_none() && select.windows.is_empty() && select.distinct == Distinct::No;
        is_row_by_row && self.source.limit(&select.source, offset, limit)
    }

    fn next(&mut self, select: &Select, context: &Context<'_>, row: &mut Vec<Datum>) -> Result<bool> {
        while !self.is_over {
            if !self.next_frame(select, context)? {
                self.is_over = true;
                break;
            }
            row.clear();
            for output in &select.output {
                row.push(evaluate(output, &self.frame, context)?);
            }
            if select.distinct != Distinct::All || self.distinct.is_first(row, None, context.state)? {
                return Ok(true);
            }
        }
        Ok(put(self.distinct.next_waiting(None, context.state)?, row))
    }

    /// Computes the frame of the next row. Returns whether there is one.
    fn next_frame(&mut self, select: &Select, context: &Context<'_>) -> Result<bool> {
        let needs_all = select.grouping.is_some() || !select.windows.is_empty();
        if !needs_all {
            return self.source.next(&select.source, &mut self.frame, context);
        }
        let frames = match &mut self.frames {
            Some(frames) => frames,
            None => {
                let begun = self.begin_frames(select, context)?;
                self.frames.insert(begun)
            }
        };
        let next = match (frames, &select.grouping) {
            (Frames::Windows(windows), _) => windows.next(&select.windows, context)?,
            (Frames::Groups(groups), Some(grouping)) => groups.next(grouping, context)?,
            (Frames::Groups(_), None) => None,
        };
        Ok(put(next, &mut self.frame))
    }

    fn begin_frames(&mut self, select: &Select, context: &Context<'_>) -> Result<Frames> {
        let (source, frame) = (&mut self.source, &mut self.frame);
        let mut groups = match &select.grouping {
            Some(grouping) => Some(GroupCursor::new(grouping, &select.source, source, frame, context)?),
            None => None,
        };
        if select.windows.is_empty()
            && let Some(groups) = groups
        {
            return Ok(Frames::Groups(Box::new(groups)));
        }
        let windows = WindowCursor::new(&select.windows, context, &mut || match (&mut groups, &select.grouping) {
            (Some(groups), Some(grouping)) => groups.next(grouping, context),
            _ => Ok(source.next(&select.source, frame, context)?.then(|| frame.clone())),
        })?;
        Ok(Frames::Windows(Box::new(windows)))
    }
}
