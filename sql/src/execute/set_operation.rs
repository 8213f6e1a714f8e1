//! UNION, INTERSECT and EXCEPT: the rows of two queries.

use crate::error::Result;
use crate::execute::context::Running;
use crate::execute::distinct::DistinctRows;
use crate::execute::key_table::KeyTable;
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::plan::query::SetOperation;
use crate::types::datum::Datum;

/// What is known of the rows of a set operation.
#[derive(Default)]
pub(super) struct SetRows {
    is_left_over: bool,
    is_over: bool,
    distinct: DistinctRows,
    /// The rows of the second query, for INTERSECT and EXCEPT.
    counts: Option<RowCounts>,
}

impl SetRows {
    /// Puts the values of the next row into `row`. Returns whether there is one. `left` and `right` do the same for the
    /// two queries.
    ///
    /// # Errors
    /// Those of the queries, and of keeping rows.
    pub(super) fn next(
        &mut self,
        (operation, is_all): (SetOperation, bool),
        left: &mut dyn FnMut(&mut Vec<Datum>) -> Result<bool>,
        right: &mut dyn FnMut(&mut Vec<Datum>) -> Result<bool>,
        row: &mut Vec<Datum>,
        state: &Running,
    ) -> Result<bool> {
        if operation != SetOperation::Union && self.counts.is_none() {
            let mut counts = RowCounts::default();
            while right(row)? {
                counts.add(std::mem::take(row), state)?;
            }
            self.counts = Some(counts);
        }
        while !self.is_over {
            if self.is_left_over || !left(row)? {
                self.is_left_over = true;
                if operation != SetOperation::Union || !right(row)? {
                    self.is_over = true;
                    break;
                }
            }
            let is_wanted = match &mut self.counts {
                None => true,
                Some(counts) => counts.has(row, is_all, state)? == Some(operation == SetOperation::Intersect),
            };
            if is_wanted && (is_all || self.distinct.is_first(row, None, state)?) {
                return Ok(true);
            }
        }
        let mut waiting = self.distinct.next_waiting(None, state)?;
        if let (None, Some(counts)) = (&waiting, &mut self.counts) {
            waiting = counts.next_waiting(operation == SetOperation::Intersect, is_all, state)?;
        }
        Ok(waiting.map(|waiting| *row = waiting).is_some())
    }
}

/// How often a query has each row. Once no more rows fit into memory, others wait, together with those of the first
/// query that could be equal to them, until both have been read; then they are compared in order.
#[derive(Default)]
struct RowCounts {
    /// `None` until the first row tells how many values one has.
    known: Option<KeyTable>,
    /// How often each of them is there.
    counts: Vec<usize>,
    /// What they take.
    bytes: usize,
    /// Rows with [`OF_SECOND`] or [`OF_FIRST`] as their last value.
    waiting: Option<Sorter>,
    sorted: Option<SortedRows>,
    /// The last row that has waited, and how often the second query still has it.
    last: Option<(Vec<Datum>, usize)>,
    has_given_last: bool,
}

const OF_SECOND: Datum = Datum::Int(0);
const OF_FIRST: Datum = Datum::Int(1);

impl RowCounts {
    /// Takes a row of the second query.
    fn add(&mut self, row: Vec<Datum>, state: &Running) -> Result<()> {
        let known = self.known.get_or_insert_with(|| KeyTable::of_width(row.len()));
        if let Some(at) = known.find(&row) {
            self.counts[at] += 1;
            return Ok(());
        }
        if self.waiting.is_none()
            && let Some(bytes) = state.try_keep_or_spill(&row, self.bytes)
        {
            self.bytes += bytes;
            known.add(row);
            self.counts.push(1);
            return Ok(());
        }
        self.wait(row, OF_SECOND, state)
    }

    fn wait(&mut self, mut row: Vec<Datum>, query: Datum, state: &Running) -> Result<()> {
        row.push(query);
        let width = row.len();
        self.waiting.get_or_insert_with(|| Sorter::new(ascending(0..width), None)).add(row, state)
    }

    /// Whether the second query has a row of the first one, as often as it has come if `is_all`. `None` if the row
    /// waits.
    fn has(&mut self, row: &[Datum], is_all: bool, state: &Running) -> Result<Option<bool>> {
        match self.known.as_ref().and_then(|known| known.find(row)) {
            Some(at) => {
                let count = &mut self.counts[at];
                let is_there = *count > 0;
                *count -= usize::from(is_all && is_there);
                Ok(Some(is_there))
            }
            None if self.waiting.is_none() => Ok(Some(false)),
            None => self.wait(row.to_vec(), OF_FIRST, state).map(|()| None),
        }
    }

    /// The next row that has waited and belongs to the result, once both queries have been read.
    fn next_waiting(&mut self, is_intersect: bool, is_all: bool, state: &Running) -> Result<Option<Vec<Datum>>> {
        if let Some(waiting) = self.waiting.take() {
            self.sorted = Some(waiting.finish(state)?);
        }
        let Some(sorted) = &mut self.sorted else { return Ok(None) };
        while let Some(mut row) = sorted.next(state)? {
            state.step()?;
            let is_of_second = row.pop() == Some(OF_SECOND);
            if self.last.as_ref().is_none_or(|(last, _)| *last != row) {
                (self.last, self.has_given_last) = (Some((row.clone(), 0)), false);
            }
            let Some((_, count)) = &mut self.last else { continue };
            if is_of_second {
                *count += 1;
                continue;
            }
            let is_there = *count > 0;
            *count -= usize::from(is_all && is_there);
            if is_there == is_intersect && (is_all || !self.has_given_last) {
                self.has_given_last = true;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
