//! Rows of which the first of each kind are given: DISTINCT, and set operations without ALL.
//!
//! The kinds are kept in memory. Once they do not fit, rows of other kinds wait in a [`Sorter`] until all have come;
//! then the first of each kind follows, in the order in which they came.

use crate::error::Result;
use crate::execute::context::Running;
use crate::execute::key_table::KeyTable;
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::types::datum::Datum;

/// Rows of which the first of each kind are given.
#[derive(Default)]
pub(crate) struct DistinctRows {
    /// `None` until the first row tells how many values a kind has.
    known: Option<KeyTable>,
    /// What they take.
    bytes: usize,
    waiting: Option<Sorter>,
    /// How many rows wait.
    count: i64,
    /// Those of them that are given.
    last: Option<SortedRows>,
}

impl DistinctRows {
    /// Whether a row is the first of its kind, which is the values at `places`. One that waits is not, for now.
    ///
    /// # Errors
    /// Those of [`Sorter::add`].
    pub(crate) fn is_first(&mut self, row: &[Datum], places: Option<&[usize]>, state: &Running) -> Result<bool> {
        let of_places: Vec<Datum>;
        let kind = match places {
            None => row,
            Some(places) => {
                of_places = places.iter().map(|&place| row[place].clone()).collect();
                &of_places[..]
            }
        };
        let known = self.known.get_or_insert_with(|| KeyTable::of_width(kind.len()));
        if known.find(kind).is_some() {
            return Ok(false);
        }
        if self.waiting.is_none() {
            if let Some(bytes) = state.try_keep_or_spill(kind, self.bytes) {
                self.bytes += bytes;
                known.add(kind.iter().cloned());
                return Ok(true);
            }
            let number = row.len();
            let of_kind = places.map_or_else(|| (0..row.len()).collect(), <[usize]>::to_vec);
            self.waiting = Some(Sorter::new(ascending(of_kind.into_iter().chain([number])), None));
        }
        if let Some(waiting) = &mut self.waiting {
            let mut numbered = row.to_vec();
            numbered.push(Datum::Int(self.count));
            self.count += 1;
            waiting.add(numbered, state)?;
        }
        Ok(false)
    }

    /// The next row that has waited and is the first of its kind, which is the values at `places`: to be asked for once
    /// all rows have come.
    ///
    /// # Errors
    /// Those of [`Sorter::finish`].
    pub(crate) fn next_waiting(&mut self, places: Option<&[usize]>, state: &Running) -> Result<Option<Vec<Datum>>> {
        if let Some(waiting) = self.waiting.take() {
            self.last = Some(first_of_each(waiting, places, state)?);
        }
        let Some(last) = &mut self.last else { return Ok(None) };
        let row = last.next(state)?;
        Ok(row.map(|mut row| {
            row.pop();
            row
        }))
    }
}

/// The first rows of their kinds, in the order of their numbers.
fn first_of_each(waiting: Sorter, places: Option<&[usize]>, state: &Running) -> Result<SortedRows> {
    let mut rows = waiting.finish(state)?;
    let mut by_number: Option<Sorter> = None;
    let mut last: Option<Vec<Datum>> = None;
    while let Some(row) = rows.next(state)? {
        state.step()?;
        let number = row.len() - 1;
        let is_same = |last: &Vec<Datum>| match places {
            None => last[..number] == row[..number],
            Some(places) => places.iter().all(|&place| last[place] == row[place]),
        };
        if !last.as_ref().is_some_and(is_same) {
            by_number.get_or_insert_with(|| Sorter::new(ascending([number]), None)).add(row.clone(), state)?;
            last = Some(row);
        }
    }
    by_number.unwrap_or_else(|| Sorter::new(Vec::new(), None)).finish(state)
}
