//! Window functions over a partition that does not fit into memory: its rows stand in a list, and each function walks
//! along it.
//!
//! Not all functions can: one whose frame begins later than its partition is asked of partitions in memory alone
//! (`window`).

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::window::{compare_keys, ntile};
use crate::functions::{Accumulator, make};
use crate::plan::expression::Expr;
use crate::plan::query::{Direction, Exclusion, FrameEnd, FrameUnit, WindowCall, WindowFunction};
use crate::types::datum::Datum;

/// Whether a function can walk along the rows of a partition.
pub(super) fn walks(call: &WindowCall) -> bool {
    let frame = &call.frame;
    let is_from_first = frame.start == FrameEnd::First
        && matches!(frame.end, FrameEnd::Current | FrameEnd::Last)
        && frame.exclusion == Exclusion::Nothing;
    match call.function {
        WindowFunction::Aggregate(_) | WindowFunction::FirstValue => is_from_first,
        WindowFunction::LastValue | WindowFunction::NthValue => false,
        WindowFunction::Lag | WindowFunction::Lead => distance(call).is_some(),
        _ => true,
    }
}

/// How far `lag` and `lead` look, if that is the same for all rows.
fn distance(call: &WindowCall) -> Option<usize> {
    match call.arguments.get(1) {
        None => Some(1),
        Some(Expr::Constant(Datum::Int(distance))) => usize::try_from(*distance).ok(),
        Some(_) => None,
    }
}

/// The frames of a partition that are still to come.
pub(super) struct LargePartition {
    /// The values of the order, then the frame.
    rows: RowList,
    cursor: RowListCursor,
    peers: Peers,
    /// What each function knows, with its number.
    walkers: Vec<(usize, Walker)>,
}

/// The rows that equal the present one in order.
#[derive(Default)]
struct Peers {
    /// Reads them before the others do.
    cursor: RowListCursor,
    /// The first one after them.
    next: Option<Vec<Datum>>,
    start: usize,
    end: usize,
    /// How many groups of them have come.
    count: i64,
}

/// What a function knows of the rows so far.
enum Walker {
    /// It follows from the place of the row and of its peers.
    Place,
    Sum {
        accumulator: Box<dyn Accumulator>,
        value: Datum,
    },
    First(Option<Datum>),
    /// Another row: that of `lag` is missing for so many rows at first.
    Neighbour {
        cursor: RowListCursor,
        missing: usize,
    },
}

impl LargePartition {
    /// The frames of rows that are listed.
    pub(super) fn new(
        rows: RowList,
        of: &[usize],
        calls: &[WindowCall],
        context: &Context<'_>,
    ) -> Result<LargePartition> {
        let mut walkers = Vec::with_capacity(of.len());
        for &number in of {
            let call = &calls[number];
            let walker = match &call.function {
                WindowFunction::Aggregate(aggregate) => {
                    Walker::Sum { accumulator: make(aggregate, context.environment), value: Datum::Null }
                }
                WindowFunction::FirstValue => Walker::First(None),
                WindowFunction::Lag => {
                    Walker::Neighbour { cursor: RowListCursor::default(), missing: distance(call).unwrap_or(1) }
                }
                WindowFunction::Lead => {
                    let mut cursor = RowListCursor::default();
                    for _ in 0..distance(call).unwrap_or(1).min(rows.len()) {
                        cursor.next(&rows)?;
                    }
                    Walker::Neighbour { cursor, missing: 0 }
                }
                _ => Walker::Place,
            };
            walkers.push((number, walker));
        }
        let width = calls[of[0]].order.len();
        if of.iter().any(|&number| added(&calls[number]) == Added::Once) {
            let mut cursor = RowListCursor::default();
            while let Some((_, row)) = cursor.next(&rows)? {
                context.state.step()?;
                add(&mut walkers, calls, &row[width..], Added::Once, context)?;
            }
            finish(&mut walkers, calls, Added::Once)?;
        }
        let mut peers = Peers::default();
        peers.next = peers.cursor.next(&rows)?.map(|(_, row)| row.to_vec());
        Ok(LargePartition { rows, cursor: RowListCursor::default(), peers, walkers })
    }

    /// Looks for the peers of the next row.
    fn read_peers(&mut self, order: &[(Expr, Direction)], calls: &[WindowCall], context: &Context<'_>) -> Result<()> {
        let (peers, width) = (&mut self.peers, order.len());
        peers.start = peers.end;
        peers.count += 1;
        while let Some(row) = peers.next.take() {
            context.state.step()?;
            add(&mut self.walkers, calls, &row[width..], Added::WithPeers, context)?;
            peers.end += 1;
            peers.next = peers.cursor.next(&self.rows)?.map(|(_, next)| next.to_vec());
            if peers.next.as_ref().is_some_and(|next| compare_keys(&row[..width], &next[..width], order).is_ne()) {
                break;
            }
        }
        finish(&mut self.walkers, calls, Added::WithPeers)
    }

    /// The next frame.
    ///
    /// # Errors
    /// Those of evaluating and of reading files.
    pub(super) fn next(&mut self, calls: &[WindowCall], context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        let order = &calls[self.walkers[0].0].order;
        let width = order.len();
        let Some((at, row)) = self.cursor.next(&self.rows)? else {
            self.rows.clear(context.state);
            return Ok(None);
        };
        let mut frame = row[width..].to_vec();
        if at == self.peers.end {
            self.read_peers(order, calls, context)?;
        }
        add(&mut self.walkers, calls, &frame, Added::Alone, context)?;
        finish(&mut self.walkers, calls, Added::Alone)?;
        let base = frame.len() - calls.len();
        let size = self.rows.len();
        let (start, end) = (self.peers.start, self.peers.end);
        for (number, walker) in &mut self.walkers {
            let call = &calls[*number];
            frame[base + *number] = match walker {
                Walker::Sum { value, .. } => value.clone(),
                Walker::First(value) => value.clone().unwrap_or(Datum::Null),
                Walker::Neighbour { missing, .. } if *missing > 0 => {
                    *missing -= 1;
                    default(call, &frame, context)?
                }
                Walker::Neighbour { cursor, .. } => match cursor.next(&self.rows)? {
                    Some((_, other)) => evaluate(&call.arguments[0], &other[width..], context)?,
                    None => default(call, &frame, context)?,
                },
                Walker::Place => match call.function {
                    WindowFunction::RowNumber => Datum::Int(at as i64 + 1),
                    WindowFunction::Rank => Datum::Int(start as i64 + 1),
                    WindowFunction::DenseRank => Datum::Int(self.peers.count),
                    WindowFunction::PercentRank if size == 1 => Datum::Float(0.0),
                    WindowFunction::PercentRank => Datum::Float(start as f64 / (size - 1) as f64),
                    WindowFunction::CumeDist => Datum::Float(end as f64 / size as f64),
                    WindowFunction::Ntile => ntile(&call.arguments[0], at, size, &frame, context)?,
                    _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a window function cannot walk")),
                },
            };
        }
        Ok(Some(frame))
    }
}

/// The value of `lag` and `lead` where there is no such row.
fn default(call: &WindowCall, frame: &[Datum], context: &Context<'_>) -> Result<Datum> {
    call.arguments.get(2).map_or(Ok(Datum::Null), |default| evaluate(default, frame, context))
}

/// When rows are added to what a function has seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    /// All of the partition, before the first row.
    Once,
    /// Each with those that equal it in order.
    WithPeers,
    /// Each alone.
    Alone,
}

fn added(call: &WindowCall) -> Added {
    match (&call.frame.end, call.frame.unit) {
        (FrameEnd::Last, _) => Added::Once,
        (_, FrameUnit::Rows) => Added::Alone,
        _ => Added::WithPeers,
    }
}

/// Adds a row to what functions have seen.
fn add(
    walkers: &mut [(usize, Walker)],
    calls: &[WindowCall],
    frame: &[Datum],
    when: Added,
    context: &Context<'_>,
) -> Result<()> {
    for (number, walker) in walkers {
        let call = &calls[*number];
        let is_left_out = |filter| holds(filter, frame, context).map(|holds| !holds);
        if added(call) != when || call.filter.as_ref().map_or(Ok(false), is_left_out)? {
            continue;
        }
        match walker {
            Walker::Sum { accumulator, .. } => accumulator.add(&evaluate_all(&call.arguments, frame, context)?)?,
            Walker::First(value) if value.is_none() => *value = Some(evaluate(&call.arguments[0], frame, context)?),
            _ => {}
        }
    }
    Ok(())
}

/// Computes the sums of what was added.
fn finish(walkers: &mut [(usize, Walker)], calls: &[WindowCall], when: Added) -> Result<()> {
    for (number, walker) in walkers {
        if let Walker::Sum { accumulator, value } = walker
            && added(&calls[*number]) == when
        {
            *value = accumulator.finish()?;
        }
    }
    Ok(())
}
