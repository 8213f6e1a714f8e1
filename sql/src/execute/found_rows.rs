//! Rows that an UPDATE or a DELETE has found, before the first of them is written: in memory as long as they fit, the
//! rest in a temporary file.

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Running, size_of_row};
use crate::execute::row_list::{RowList, RowListCursor};
use crate::types::datum::Datum;

/// A row that an UPDATE or a DELETE has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Its primary key.
    pub(super) key: Vec<Datum>,
    /// The frame: the row, and those of other tables; empty if nothing is computed of it any more.
    pub(super) frame: Vec<Datum>,
    /// Its new values.
    pub(super) changes: Vec<(usize, Datum)>,
}

/// Rows that were found.
pub(super) trait EachFound {
    /// Calls `visit` with each of them, and its place among them.
    fn each(&self, visit: &mut dyn FnMut(usize, &Found) -> Result<()>) -> Result<()>;
}

impl EachFound for Found {
    fn each(&self, visit: &mut dyn FnMut(usize, &Found) -> Result<()>) -> Result<()> {
        visit(0, self)
    }
}

impl EachFound for Vec<Found> {
    fn each(&self, visit: &mut dyn FnMut(usize, &Found) -> Result<()>) -> Result<()> {
        self.iter().enumerate().try_for_each(|(at, row)| visit(at, row))
    }
}

/// Rows that need not fit into memory.
#[derive(Default)]
pub(super) struct FoundRows {
    rows: Vec<Found>,
    /// What they take.
    bytes: usize,
    /// Those after them, as [`Found::flat`] has them.
    others: RowList,
}

impl EachFound for FoundRows {
    fn each(&self, visit: &mut dyn FnMut(usize, &Found) -> Result<()>) -> Result<()> {
        self.rows.each(visit)?;
        let mut others = RowListCursor::default();
        while let Some((at, row)) = others.next(&self.others)? {
            let found = Found::of_flat(row);
            let found = found.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a row is not as it was kept"))?;
            visit(self.rows.len() + at, &found)?;
        }
        Ok(())
    }
}

impl FoundRows {
    /// Adds a row.
    ///
    /// # Errors
    /// Those of [`RowList::push`].
    pub(super) fn push(&mut self, row: Found, state: &Running) -> Result<()> {
        let values = row.changes.iter().map(|(_, value)| size_of_row(std::slice::from_ref(value))).sum::<usize>();
        let bytes = size_of_row(&row.key) + size_of_row(&row.frame) + values;
        let share = state.share().saturating_sub(self.bytes);
        if self.others.len() == 0 && state.try_keep_bytes(bytes, share).is_some() {
            self.bytes += bytes;
            self.rows.push(row);
            return Ok(());
        }
        self.others.push(row.flat(), state)
    }

    /// Ends the adding of rows.
    ///
    /// # Errors
    /// Those of writing files.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.others.finish()
    }

    /// All rows, if they are in memory.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if they are not.
    pub(super) fn in_memory(self, state: &Running) -> Result<Vec<Found>> {
        if self.others.len() == 0 { Ok(self.rows) } else { Err(state.out_of_memory()) }
    }
}

impl Found {
    /// The number of values of the key and of those that are new; the key; the new values, each with its place; and the
    /// frame.
    fn flat(self) -> Vec<Datum> {
        let mut row = vec![Datum::Int(self.key.len() as i64), Datum::Int(self.changes.len() as i64)];
        row.extend(self.key);
        row.extend(self.changes.into_iter().flat_map(|(place, value)| [Datum::Int(place as i64), value]));
        row.extend(self.frame);
        row
    }

    fn of_flat(row: &[Datum]) -> Option<Found> {
        let number = |value: &Datum| value.as_int().and_then(|number| usize::try_from(number).ok());
        let ([keys, changes], rest) = row.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(number(keys)?)?;
        let (changes, frame) = rest.split_at_checked(2 * number(changes)?)?;
        let changes =
            changes.chunks(2).map(|pair| Some((number(&pair[0])?, pair[1].clone()))).collect::<Option<_>>()?;
        Some(Found { key: key.to_vec(), frame: frame.to_vec(), changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_after_they_were_flat() {
        let text = Datum::text;
        let rows = [
            Found::default(),
            Found { key: vec![Datum::Int(1)], frame: vec![], changes: vec![(3, Datum::Null), (0, text("a"))] },
            Found { key: vec![text("k"), Datum::Null], frame: vec![Datum::Null, Datum::Int(-1)], changes: vec![] },
        ];
        for row in rows {
            assert_eq!(Found::of_flat(&row.clone().flat()), Some(row));
        }
    }
}
