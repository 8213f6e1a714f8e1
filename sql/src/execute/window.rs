//! Window functions: for each row a value computed of rows around it.

use std::cmp::{Ordering, Reverse};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::large_partition::{LargePartition, walks};
use crate::execute::order::compare_in;
use crate::execute::row_list::RowList;
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::functions::{AggregateCall, make};
use crate::plan::expression::Expr;
use crate::plan::query::{Direction, Exclusion, FrameEnd, FrameUnit, SortKey, WindowCall, WindowFunction};
use crate::types::datum::{Datum, Interval};

/// Frames with the values of window functions, in the order of the windows: as in PostgreSQL, windows are sorted one
/// after the other, that of the most values first. Functions of one window share its sort.
pub(crate) struct WindowCursor {
    /// The functions of the window that is computed last.
    calls: Vec<usize>,
    /// Each row has the values of the partition, those of the order, and the frame.
    rows: SortedRows,
    /// The first row of the next partition.
    ahead: Option<Vec<Datum>>,
    /// Frames of a partition that are computed.
    ready: std::vec::IntoIter<Vec<Datum>>,
    /// What the partition takes.
    bytes: usize,
    /// One that does not fit into memory.
    large: Option<Box<LargePartition>>,
}

impl WindowCursor {
    /// Reads all frames that `input` gives, and sorts them.
    ///
    /// # Errors
    /// Those of `input`, and of evaluating.
    pub(crate) fn new(
        calls: &[WindowCall],
        context: &Context<'_>,
        input: &mut dyn FnMut() -> Result<Option<Vec<Datum>>>,
    ) -> Result<WindowCursor> {
        let mut left: Vec<usize> = (0..calls.len()).collect();
        left.sort_by_key(|&at| Reverse(calls[at].partition.len() + calls[at].order.len()));
        let (first, mut left) = of_one_window(calls, &left);
        let mut cursor = WindowCursor::sorted(first, calls, context, &mut || {
            Ok(input()?.map(|mut frame| {
                frame.resize(frame.len() + calls.len(), Datum::Null);
                frame
            }))
        })?;
        while !left.is_empty() {
            let next;
            (next, left) = of_one_window(calls, &left);
            cursor = WindowCursor::sorted(next, calls, context, &mut || cursor.next(calls, context))?;
        }
        Ok(cursor)
    }

    fn sorted(
        of: Vec<usize>,
        calls: &[WindowCall],
        context: &Context<'_>,
        input: &mut dyn FnMut() -> Result<Option<Vec<Datum>>>,
    ) -> Result<WindowCursor> {
        let window = &calls[of[0]];
        let mut keys = ascending(0..window.partition.len());
        let directions = window.order.iter().map(|(_, direction)| *direction);
        keys.extend((keys.len()..).zip(directions).map(|(place, direction)| SortKey { place, direction }));
        let mut sorter = Sorter::new(keys, None);
        while let Some(frame) = input()? {
            let mut row = Vec::with_capacity(window.partition.len() + window.order.len() + frame.len());
            for value in window.partition.iter().chain(window.order.iter().map(|(value, _)| value)) {
                row.push(evaluate(value, &frame, context)?);
            }
            row.extend(frame);
            sorter.add(row, context.state)?;
        }
        let (rows, ready) = (sorter.finish(context.state)?, Vec::new().into_iter());
        Ok(WindowCursor { calls: of, rows, ahead: None, ready, bytes: 0, large: None })
    }

    /// The next frame.
    ///
    /// # Errors
    /// Those of evaluating; [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if a partition does not fit into memory, and a
    /// function cannot walk along it.
    pub(crate) fn next(&mut self, calls: &[WindowCall], context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        if let Some(large) = &mut self.large {
            if let Some(frame) = large.next(calls, context)? {
                return Ok(Some(frame));
            }
            self.large = None;
        }
        if let Some(frame) = self.ready.next() {
            return Ok(Some(frame));
        }
        context.state.let_go(std::mem::take(&mut self.bytes));
        let mut partition = match self.next_partition(calls, context)? {
            NextPartition::Small(partition) => partition,
            NextPartition::Large(rows) => {
                self.large = Some(Box::new(LargePartition::new(rows, &self.calls, calls, context)?));
                return self.next(calls, context);
            }
            NextPartition::None => return Ok(None),
        };
        partition.find_peers(&calls[self.calls[0]].order);
        for &at in &self.calls {
            let values = partition.compute(&calls[at], context)?;
            for (frame, value) in partition.frames.iter_mut().zip(values) {
                let place = frame.len() - calls.len() + at;
                frame[place] = value;
            }
        }
        self.ready = partition.frames.into_iter();
        Ok(self.ready.next())
    }

    fn next_partition(&mut self, calls: &[WindowCall], context: &Context<'_>) -> Result<NextPartition> {
        let first = match self.ahead.take() {
            Some(first) => Some(first),
            None => self.rows.next(context.state)?,
        };
        let Some(first) = first else { return Ok(NextPartition::None) };
        let window = &calls[self.calls[0]];
        let of_partition = first[..window.partition.len()].to_vec();
        let mut partition = Partition { frames: Vec::new(), order: Vec::new(), peers: Vec::new() };
        let mut next = Some(first);
        while let Some(mut row) = next {
            if row[..of_partition.len()] != of_partition {
                self.ahead = Some(row);
                break;
            }
            let Some(bytes) = context.state.try_keep_or_spill(&row, self.bytes) else {
                if !self.calls.iter().all(|&at| walks(&calls[at])) {
                    return Err(context.state.out_of_memory());
                }
                return self.large_partition(partition, row, &of_partition, context).map(NextPartition::Large);
            };
            self.bytes += bytes;
            partition.frames.push(row.split_off(of_partition.len() + window.order.len()));
            partition.order.push(row.split_off(of_partition.len()));
            next = self.rows.next(context.state)?;
        }
        Ok(NextPartition::Small(partition))
    }

    /// Lists the rows of a partition: those that were read, the next one, and all others.
    fn large_partition(
        &mut self,
        read: Partition,
        next: Vec<Datum>,
        of_partition: &[Datum],
        context: &Context<'_>,
    ) -> Result<RowList> {
        let mut rows = RowList::default();
        context.state.let_go(std::mem::take(&mut self.bytes));
        for (order, frame) in read.order.into_iter().zip(read.frames) {
            rows.push([order, frame].concat(), context.state)?;
        }
        let mut next = Some(next);
        while let Some(mut row) = next {
            if row[..of_partition.len()] != *of_partition {
                self.ahead = Some(row);
                break;
            }
            rows.push(row.split_off(of_partition.len()), context.state)?;
            next = self.rows.next(context.state)?;
        }
        rows.finish()?;
        Ok(rows)
    }
}

/// The rows of the next partition.
enum NextPartition {
    None,
    Small(Partition),
    /// They do not fit into memory: the values of the order, then the frame.
    Large(RowList),
}

/// The functions among `left` that have the window of the first one, and the others.
fn of_one_window(calls: &[WindowCall], left: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let window = &calls[left[0]];
    left.iter().partition(|&&at| calls[at].partition == window.partition && calls[at].order == window.order)
}

/// The rows of a partition in order.
struct Partition {
    frames: Vec<Vec<Datum>>,
    /// The values of the order, a list a row.
    order: Vec<Vec<Datum>>,
    /// For each row the first one that is equal to it in order, and the one after the last.
    peers: Vec<(usize, usize)>,
}

pub(super) fn compare_keys(a: &[Datum], b: &[Datum], order: &[(Expr, Direction)]) -> Ordering {
    let orders = a.iter().zip(b).zip(order).map(|((a, b), (_, direction))| compare_in(a, b, *direction));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Partition {
    fn find_peers(&mut self, order: &[(Expr, Direction)]) {
        let size = self.frames.len();
        let mut start = 0;
        while start < size {
            let is_peer = |at: usize| compare_keys(&self.order[start], &self.order[at], order).is_eq();
            let end = (start + 1..size).find(|&at| !is_peer(at)).unwrap_or(size);
            self.peers.extend(std::iter::repeat_n((start, end), end - start));
            start = end;
        }
    }

    /// The values of a function, one a row.
    fn compute(&self, call: &WindowCall, context: &Context<'_>) -> Result<Vec<Datum>> {
        if let WindowFunction::Aggregate(aggregate) = &call.function {
            return self.aggregate(aggregate, call, context);
        }
        let mut values = Vec::with_capacity(self.frames.len());
        let mut dense = 0;
        let size = self.frames.len();
        for at in 0..size {
            context.state.step()?;
            let (start, end) = self.peers[at];
            dense += i64::from(start == at);
            values.push(match &call.function {
                WindowFunction::RowNumber => Datum::Int(at as i64 + 1),
                WindowFunction::Rank => Datum::Int(start as i64 + 1),
                WindowFunction::DenseRank => Datum::Int(dense),
                WindowFunction::PercentRank if size == 1 => Datum::Float(0.0),
                WindowFunction::PercentRank => Datum::Float(start as f64 / (size - 1) as f64),
                WindowFunction::CumeDist => Datum::Float(end as f64 / size as f64),
                WindowFunction::Ntile => ntile(&call.arguments[0], at, size, &self.frames[at], context)?,
                WindowFunction::Lag | WindowFunction::Lead => self.neighbour(at, call, context)?,
                _ => self.in_frame(at, call, context)?,
            });
        }
        Ok(values)
    }

    /// `lag` and `lead`.
    fn neighbour(&self, at: usize, call: &WindowCall, context: &Context<'_>) -> Result<Datum> {
        let frame = &self.frames[at];
        let distance = match call.arguments.get(1) {
            Some(distance) => match evaluate(distance, frame, context)?.as_int() {
                Some(distance) => distance,
                None => return Ok(Datum::Null),
            },
            None => 1,
        };
        let distance = if call.function == WindowFunction::Lag { distance.checked_neg() } else { Some(distance) };
        let place = distance.and_then(|distance| (at as i64).checked_add(distance));
        match place.and_then(|place| usize::try_from(place).ok()).and_then(|place| self.frames.get(place)) {
            Some(frame) => evaluate(&call.arguments[0], frame, context),
            None => call.arguments.get(2).map_or(Ok(Datum::Null), |default| evaluate(default, frame, context)),
        }
    }

    /// `first_value`, `last_value` and `nth_value`.
    fn in_frame(&self, at: usize, call: &WindowCall, context: &Context<'_>) -> Result<Datum> {
        let (start, end) = self.frame(at, call, context)?;
        let exclusion = call.frame.exclusion;
        if exclusion != Exclusion::Nothing {
            let mut kept = (start..end).filter(|&place| !self.leaves_out(at, exclusion, place));
            let place = match &call.function {
                WindowFunction::FirstValue => kept.next(),
                WindowFunction::LastValue => kept.next_back(),
                _ => {
                    let nth = evaluate(&call.arguments[1], &self.frames[at], context)?.as_int();
                    nth.filter(|nth| *nth > 0).and_then(|nth| kept.nth(nth as usize - 1))
                }
            };
            return match place {
                Some(place) => evaluate(&call.arguments[0], &self.frames[place], context),
                None => Ok(Datum::Null),
            };
        }
        let place = match &call.function {
            WindowFunction::FirstValue => Some(start),
            WindowFunction::LastValue => end.checked_sub(1),
            _ => match evaluate(&call.arguments[1], &self.frames[at], context)?.as_int() {
                Some(nth) if nth > 0 => start.checked_add(nth as usize - 1),
                Some(_) => {
                    let what = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION, what));
                }
                None => None,
            },
        };
        match place.filter(|place| (start..end).contains(place)) {
            Some(place) => evaluate(&call.arguments[0], &self.frames[place], context),
            None => Ok(Datum::Null),
        }
    }

    fn aggregate(&self, aggregate: &AggregateCall, call: &WindowCall, context: &Context<'_>) -> Result<Vec<Datum>> {
        let mut values = Vec::with_capacity(self.frames.len());
        let mut last: Option<(usize, usize)> = None;
        let mut sum = make(aggregate, context.environment);
        let mut value = Datum::Null;
        for at in 0..self.frames.len() {
            let (start, end) = self.frame(at, call, context)?;
            // A frame that only grows is not added up again.
            let from = match last {
                Some((last_start, last_end)) if last_start == start && last_end <= end => last_end,
                _ => {
                    sum = make(aggregate, context.environment);
                    start
                }
            };
            let is_whole = call.frame.exclusion == Exclusion::Nothing;
            let from = if is_whole { from } else { start };
            if !is_whole {
                sum = make(aggregate, context.environment);
            }
            if last != Some((start, end)) || !is_whole {
                for (place, frame) in (from..).zip(&self.frames[from..end.max(from)]) {
                    if self.leaves_out(at, call.frame.exclusion, place) {
                        continue;
                    }
                    context.state.step()?;
                    let is_kept = match &call.filter {
                        Some(filter) => holds(filter, frame, context)?,
                        None => true,
                    };
                    if is_kept {
                        sum.add(&evaluate_all(&call.arguments, frame, context)?)?;
                    }
                }
                value = sum.finish()?;
                last = Some((start, end));
            }
            values.push(value.clone());
        }
        Ok(values)
    }

    /// Whether the frame of a row leaves out the one at a place.
    fn leaves_out(&self, at: usize, exclusion: Exclusion, place: usize) -> bool {
        let is_peer = (self.peers[at].0..self.peers[at].1).contains(&place);
        match exclusion {
            Exclusion::Nothing => false,
            Exclusion::CurrentRow => place == at,
            Exclusion::Group => is_peer,
            Exclusion::Ties => is_peer && place != at,
        }
    }

    /// The first row of a row's frame, and the one after its last.
    fn frame(&self, at: usize, call: &WindowCall, context: &Context<'_>) -> Result<(usize, usize)> {
        let size = self.frames.len();
        let frame = &self.frames[at];
        let ends = [(&call.frame.start, true), (&call.frame.end, false)];
        let mut found = [0, size];
        for (((end, is_start), found), value) in ends.into_iter().zip(&mut found).zip(&call.frame.values) {
            *found = match end {
                FrameEnd::First => 0,
                FrameEnd::Last => size,
                FrameEnd::Current => match (call.frame.unit, is_start) {
                    (FrameUnit::Rows, true) => at,
                    (FrameUnit::Rows, false) => at + 1,
                    (_, true) => self.peers[at].0,
                    (_, false) => self.peers[at].1,
                },
                FrameEnd::Before(distance) | FrameEnd::After(distance) => {
                    let is_before = matches!(end, FrameEnd::Before(_));
                    let distance = evaluate(distance, frame, context)?;
                    let word = if is_start { "starting" } else { "ending" };
                    if distance.is_null() {
                        let what = format!("frame {word} offset must not be null");
                        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what));
                    }
                    if let Some(value) = value {
                        if is_negative(&distance) {
                            let what = "invalid preceding or following size in window function";
                            return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, what));
                        }
                        let value = evaluate(value, frame, context)?;
                        self.place_of(&value, &call.order, is_start)
                    } else {
                        let Some(distance) = distance.as_int().and_then(|distance| usize::try_from(distance).ok())
                        else {
                            let what = format!("frame {word} offset must not be negative");
                            return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, what));
                        };
                        self.distant(at, call.frame.unit, distance, is_before, is_start)
                    }
                }
            };
        }
        Ok((found[0].min(size), found[1].min(size).max(found[0].min(size))))
    }

    /// The first row from a value of the order on, or the one after the last up to it.
    fn place_of(&self, value: &Datum, order: &[(Expr, Direction)], is_start: bool) -> usize {
        let Some((_, direction)) = order.first() else { return 0 };
        self.order.partition_point(|own| {
            let compared = compare_in(&own[0], value, *direction);
            if is_start { compared.is_lt() } else { compared.is_le() }
        })
    }

    fn distant(&self, at: usize, unit: FrameUnit, distance: usize, is_before: bool, is_start: bool) -> usize {
        let size = self.frames.len();
        match unit {
            FrameUnit::Rows => {
                let after = usize::from(!is_start);
                match is_before {
                    true => (at + after).saturating_sub(distance),
                    false => at.saturating_add(distance).saturating_add(after).min(size),
                }
            }
            _ => {
                let (mut start, mut end) = self.peers[at];
                for _ in 0..distance {
                    match is_before {
                        true if start == 0 => return 0,
                        true => (start, end) = self.peers[start - 1],
                        false if end == size => return size,
                        false => (start, end) = self.peers[end],
                    }
                }
                if is_start { start } else { end }
            }
        }
    }
}

/// Whether a distance is less than nothing.
fn is_negative(distance: &Datum) -> bool {
    match distance {
        Datum::Interval(_) => *distance < Datum::Interval(Interval::new(0, 0, 0)),
        Datum::Float(distance) => *distance < 0.0,
        Datum::Numeric(distance) => distance.signum() < 0,
        _ => false,
    }
}

/// The part that a row is in, of parts of nearly equal size.
pub(super) fn ntile(parts: &Expr, at: usize, size: usize, frame: &[Datum], context: &Context<'_>) -> Result<Datum> {
    let parts = match evaluate(parts, frame, context)?.as_int() {
        Some(parts) if parts > 0 => parts as usize,
        Some(_) => {
            let what = "argument of ntile must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE_FUNCTION, what));
        }
        None => return Ok(Datum::Null),
    };
    let (small, larger) = (size / parts, size % parts);
    let in_larger = larger * (small + 1);
    let part = if at < in_larger { at / (small + 1) } else { larger + (at - in_larger) / small.max(1) };
    Ok(Datum::Int(part as i64 + 1))
}
