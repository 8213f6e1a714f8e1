//! Two sources joined by equal values, of which the second does not fit into memory: both are sorted by the values and
//! read side by side. Where it matters, the pairs are sorted back into the order of the first.
//!
//! Not here: the join in memory, which begins each of these (`join`).

use crate::error::Result;
use crate::execute::context::Running;
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::plan::source::{Join, JoinKind};
use crate::types::datum::Datum;

/// Whether a pair keeps the condition of the join.
pub(super) type IsPair<'p> = &'p dyn Fn(&[Datum]) -> Result<bool>;

/// The pairs of a merge that are still to come.
pub(super) struct MergeCursor {
    /// The rows of the first source: the values of the key, the frame, and the number of the row.
    first: SortedRows,
    /// Those of the second: the values of the key, then those of the slots that are read.
    second: SortedRows,
    /// The first row of the second source that is after the group.
    ahead: Option<Vec<Datum>>,
    /// How many values a key has.
    width: usize,
    group: Group,
    /// The number of the present row of the first source.
    number: Option<Datum>,
    has_pair: bool,
    /// Reads those of the group that may be its pairs; none if its key is another one.
    candidates: Option<RowListCursor>,
    left_over: LeftOver,
}

/// Rows of the second source that have one key.
#[derive(Default)]
struct Group {
    key: Option<Vec<Datum>>,
    rows: RowList,
    /// Which of them have a pair, if that is asked for.
    has_pair: Vec<bool>,
}

/// Of a full join: rows of the second source that have no pair, which come last.
struct LeftOver {
    rows: RowList,
    /// Reads them, once all have been found.
    cursor: Option<RowListCursor>,
    /// A frame without a row of the first source.
    frame: Vec<Datum>,
}

impl MergeCursor {
    /// Sorts the rows of the first source, which `next_first` writes into their slots; `key` tells the values that a
    /// row of the second must have.
    pub(super) fn new(
        join: &Join,
        width: usize,
        second: Sorter,
        next_first: &mut dyn FnMut(&mut Vec<Datum>) -> Result<bool>,
        key: &dyn Fn(&[Datum]) -> Result<Vec<Datum>>,
        frame: &mut Vec<Datum>,
        state: &Running,
    ) -> Result<MergeCursor> {
        let mut first = Sorter::new(ascending(0..width), None);
        let mut count = 0;
        while next_first(frame)? {
            let mut row = key(frame)?;
            row.extend_from_slice(frame);
            row.push(Datum::Int(count));
            count += 1;
            first.add(row, state)?;
        }
        let mut of_none = frame.clone();
        join.outer_slots.iter().for_each(|&slot| of_none[slot] = Datum::Null);
        let mut second = second.finish(state)?;
        let ahead = second.next(state)?;
        Ok(MergeCursor {
            first: first.finish(state)?,
            second,
            ahead,
            width,
            group: Group::default(),
            number: None,
            has_pair: false,
            candidates: None,
            left_over: LeftOver { rows: RowList::default(), cursor: None, frame: of_none },
        })
    }

    /// The frames of all pairs in the order of the first source, each with a number as its last value.
    pub(super) fn in_order(
        mut self,
        join: &Join,
        is_pair: IsPair<'_>,
        frame: &mut Vec<Datum>,
        state: &Running,
    ) -> Result<SortedRows> {
        let mut pairs = Sorter::new(ascending([frame.len()]), None);
        while let Some(number) = self.next(join, is_pair, frame, state)? {
            let mut pair = Vec::with_capacity(frame.len() + 1);
            pair.extend_from_slice(frame);
            pair.push(number);
            pairs.add(pair, state)?;
        }
        pairs.finish(state)
    }

    /// Writes the next pair into its slots. Returns the number of its row of the first source, which is greater than
    /// all others if it has none; `None` after the last pair.
    pub(super) fn next(
        &mut self,
        join: &Join,
        is_pair: IsPair<'_>,
        frame: &mut Vec<Datum>,
        state: &Running,
    ) -> Result<Option<Datum>> {
        loop {
            let Some(number) = &self.number else {
                if self.begin_row(join, frame, state)? {
                    continue;
                }
                return self.next_left_over(join, frame, state);
            };
            while let Some(candidates) = &mut self.candidates
                && let Some((place, row)) = candidates.next(&self.group.rows)?
            {
                state.step()?;
                write(&join.inner_slots, row, frame);
                if is_pair(frame)? {
                    self.has_pair = true;
                    if let Some(has_pair) = self.group.has_pair.get_mut(place) {
                        *has_pair = true;
                    }
                    return Ok(Some(number.clone()));
                }
            }
            let number = self.number.take();
            if !self.has_pair && join.kind != JoinKind::Inner {
                join.inner_slots.iter().for_each(|&slot| frame[slot] = Datum::Null);
                return Ok(number);
            }
        }
    }

    /// Takes the next row of the first source, and looks for its key. Returns whether there is one.
    fn begin_row(&mut self, join: &Join, frame: &mut Vec<Datum>, state: &Running) -> Result<bool> {
        state.step()?;
        let Some(mut key) = self.first.next(state)? else { return Ok(false) };
        self.number = key.pop();
        *frame = key.split_off(self.width);
        while self.ahead.is_some() && self.group.key.as_ref().is_none_or(|own| *own < key) {
            self.next_group(join, state)?;
        }
        // NULL equals nothing.
        let has_group = self.group.key.as_ref() == Some(&key) && !key.iter().any(Datum::is_null);
        (self.has_pair, self.candidates) = (false, has_group.then(RowListCursor::default));
        Ok(true)
    }

    /// Reads the rows of the next key of the second source.
    fn next_group(&mut self, join: &Join, state: &Running) -> Result<()> {
        self.end_group(join, state)?;
        let Some(mut key) = self.ahead.take() else { return Ok(()) };
        self.group.rows.push(key.split_off(self.width), state)?;
        while let Some(mut row) = self.second.next(state)? {
            state.step()?;
            if row[..self.width] != key {
                self.ahead = Some(row);
                break;
            }
            self.group.rows.push(row.split_off(self.width), state)?;
        }
        self.group.rows.finish()?;
        self.group.key = Some(key);
        if join.kind == JoinKind::Full {
            self.group.has_pair = vec![false; self.group.rows.len()];
        }
        Ok(())
    }

    /// Lets go of a group, of which a full join keeps the rows that have no pair.
    fn end_group(&mut self, join: &Join, state: &Running) -> Result<()> {
        if join.kind == JoinKind::Full {
            let mut rows = RowListCursor::default();
            while let Some((place, row)) = rows.next(&self.group.rows)? {
                if !self.group.has_pair[place] {
                    self.left_over.rows.push(row.to_vec(), state)?;
                }
            }
        }
        self.group.rows.clear(state);
        self.group.key = None;
        Ok(())
    }

    fn next_left_over(&mut self, join: &Join, frame: &mut Vec<Datum>, state: &Running) -> Result<Option<Datum>> {
        if self.left_over.cursor.is_none() {
            while join.kind == JoinKind::Full && self.ahead.is_some() {
                self.next_group(join, state)?;
            }
            self.end_group(join, state)?;
            self.left_over.rows.finish()?;
        }
        let cursor = self.left_over.cursor.get_or_insert_default();
        let Some((_, row)) = cursor.next(&self.left_over.rows)? else { return Ok(None) };
        frame.clone_from(&self.left_over.frame);
        write(&join.inner_slots, row, frame);
        Ok(Some(Datum::Int(i64::MAX)))
    }
}

/// Writes the values of a row into slots.
pub(super) fn write(slots: &[usize], row: &[Datum], frame: &mut [Datum]) {
    slots.iter().zip(row).for_each(|(&slot, value)| frame[slot].clone_from(value));
}
