//! Two sources joined by equal values, of which the second does not fit into memory: both are sorted by the values and
//! read side by side; the pairs are sorted back into the order of the first.
//!
//! Not here: the join in memory, which begins each of these (`join`).

use crate::error::Result;
use crate::execute::context::Running;
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::plan::source::{Join, JoinKind};
use crate::types::datum::Datum;

/// What a merge asks of the join.
pub(super) struct Asks<'a> {
    /// Writes the next row of the first source into its slots of a frame. Returns whether there is one.
    pub(super) next_first: &'a mut dyn FnMut(&mut Vec<Datum>) -> Result<bool>,
    /// The values that a row of the second source must have.
    pub(super) key: &'a dyn Fn(&[Datum]) -> Result<Vec<Datum>>,
    /// Whether a pair keeps the condition.
    pub(super) is_pair: &'a dyn Fn(&[Datum]) -> Result<bool>,
}

/// The frames of all pairs, with the number of the first source's row as their last value. `second` has the rows of the
/// second source, sorted by the `width` values of its key, after which stand those of the slots that are read.
pub(super) fn merged(
    join: &Join,
    width: usize,
    second: Sorter,
    asks: Asks<'_>,
    frame: &mut Vec<Datum>,
    state: &Running,
) -> Result<SortedRows> {
    let mut by_key = Sorter::new(ascending(0..width), None);
    let mut count = 0;
    while (asks.next_first)(frame)? {
        let mut row = (asks.key)(frame)?;
        row.extend_from_slice(frame);
        row.push(Datum::Int(count));
        count += 1;
        by_key.add(row, state)?;
    }
    let mut first = by_key.finish(state)?;
    let mut left_over = frame.clone();
    join.outer_slots.iter().for_each(|&slot| left_over[slot] = Datum::Null);
    let mut second = second.finish(state)?;
    let ahead = second.next(state)?;
    let (group, pairs) = (Group::default(), Sorter::new(ascending([frame.len()]), None));
    let mut merge = Merge { join, second, ahead, width, group, pairs, left_over, is_pair: asks.is_pair, state };
    while let Some(mut row) = first.next(state)? {
        state.step()?;
        let number = row.pop().unwrap_or(Datum::Null);
        *frame = row.split_off(width);
        merge.add_pairs(&row, frame, &number)?;
    }
    merge.finish()
}

struct Merge<'m> {
    join: &'m Join,
    second: SortedRows,
    /// The first row of the second source that is after the group.
    ahead: Option<Vec<Datum>>,
    /// How many values a key has.
    width: usize,
    group: Group,
    pairs: Sorter,
    /// A frame without a row of the first source.
    left_over: Vec<Datum>,
    is_pair: &'m dyn Fn(&[Datum]) -> Result<bool>,
    state: &'m Running,
}

/// Rows of the second source that have one key.
#[derive(Default)]
struct Group {
    key: Option<Vec<Datum>>,
    rows: RowList,
    /// Which of them have a pair, if that is asked for.
    has_pair: Vec<bool>,
}

impl Merge<'_> {
    /// Adds the pairs of a row of the first source, whose frame has its values.
    fn add_pairs(&mut self, key: &[Datum], frame: &mut [Datum], number: &Datum) -> Result<()> {
        while self.group.key.as_deref().is_none_or(|own| own < key) && self.ahead.is_some() {
            self.next_group()?;
        }
        let mut has_pair = false;
        // NULL equals nothing.
        if self.group.key.as_deref() == Some(key) && !key.iter().any(Datum::is_null) {
            let mut rows = RowListCursor::default();
            while let Some((place, row)) = rows.next(&self.group.rows)? {
                self.state.step()?;
                write(&self.join.inner_slots, row, frame);
                if (self.is_pair)(frame)? {
                    has_pair = true;
                    if let Some(has_pair) = self.group.has_pair.get_mut(place) {
                        *has_pair = true;
                    }
                    self.add(frame, number.clone())?;
                }
            }
        }
        if !has_pair && self.join.kind != JoinKind::Inner {
            self.join.inner_slots.iter().for_each(|&slot| frame[slot] = Datum::Null);
            self.add(frame, number.clone())?;
        }
        Ok(())
    }

    fn add(&mut self, frame: &[Datum], number: Datum) -> Result<()> {
        let mut pair = Vec::with_capacity(frame.len() + 1);
        pair.extend_from_slice(frame);
        pair.push(number);
        self.pairs.add(pair, self.state)
    }

    /// Reads the rows of the next key of the second source.
    fn next_group(&mut self) -> Result<()> {
        self.add_left_over()?;
        let state = self.state;
        self.group.rows.clear(state);
        let Some(mut first) = self.ahead.take() else { return Ok(()) };
        let values = first.split_off(self.width);
        self.group.rows.push(values, state)?;
        while let Some(mut row) = self.second.next(state)? {
            state.step()?;
            if row[..self.width] != first {
                self.ahead = Some(row);
                break;
            }
            self.group.rows.push(row.split_off(self.width), state)?;
        }
        self.group.rows.finish()?;
        self.group.key = Some(first);
        let is_asked = self.join.kind == JoinKind::Full;
        self.group.has_pair = vec![false; if is_asked { self.group.rows.len() } else { 0 }];
        Ok(())
    }

    /// Of a full join: adds the rows of the group that have no pair, after all others.
    fn add_left_over(&mut self) -> Result<()> {
        if self.join.kind != JoinKind::Full {
            return Ok(());
        }
        let mut rows = RowListCursor::default();
        while let Some((place, row)) = rows.next(&self.group.rows)? {
            if !self.group.has_pair[place] {
                let mut frame = self.left_over.clone();
                write(&self.join.inner_slots, row, &mut frame);
                self.add(&frame, Datum::Int(i64::MAX))?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<SortedRows> {
        while self.join.kind == JoinKind::Full && self.ahead.is_some() {
            self.next_group()?;
        }
        self.add_left_over()?;
        self.group.rows.clear(self.state);
        self.pairs.finish(self.state)
    }
}

/// Writes the values of a row into slots.
fn write(slots: &[usize], row: &[Datum], frame: &mut [Datum]) {
    slots.iter().zip(row).for_each(|(&slot, value)| frame[slot].clone_from(value));
}
