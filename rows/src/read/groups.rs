//! Counts of keys that begin alike, by going from group to group.
//!
//! Cost: a seek for the first key of a group, and a tally of its range: O(groups x log rows), whatever the groups hold.

use std::ops::Bound;

use quipu::{Bounds, Error, ErrorKind, Measures, ReadableTable, Result, Tally, tuple};

use crate::encoding::key_range::KeyRange;
use crate::read::ordered::InOrder;
use crate::value::Value;

/// The groups of a range. Made by [`Ordered::groups`](crate::Ordered::groups).
pub struct Groups<'o, O: InOrder + ?Sized> {
    of: &'o O,
    left: KeyRange,
    columns: usize,
    is_over: bool,
}

/// Rows whose keys begin alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The values that their keys begin with. Where texts are equal that differ in case and accents, the text of the
    /// first row.
    pub values: Vec<Value<'static>>,
    /// How many rows there are.
    pub rows: u64,
    /// The sum of the column whose sums are kept; none if no sums are.
    pub sum: Option<Value<'static>>,
}

impl<'o, O: InOrder + ?Sized> Groups<'o, O> {
    pub(crate) fn new(of: &'o O, range: KeyRange, columns: usize) -> Groups<'o, O> {
        Groups { of, left: range, columns, is_over: false }
    }

    fn next_group(&mut self) -> Result<Option<Group>> {
        let (tree, order) = (self.of.tree(), self.of.order());
        let Some(first) = tree.range(self.left.bounds()).first_chunk(1).next().transpose()? else { return Ok(None) };
        let mut values = Vec::with_capacity(self.columns);
        let mut parts = tuple::parts(&first.key);
        let mut row = None;
        for (element, column) in order.key.columns[..self.columns].iter().enumerate() {
            let part = parts.next().ok_or_else(|| {
                let what = format!("a key of {} has too few elements: run `quipu check`", order.key.owner);
                Error::new(ErrorKind::Corrupt, what)
            })?;
            if column.data_type.has_sort_key() {
                if row.is_none() {
                    row = self.of.rows_of(vec![first.clone()])?.pop();
                }
                let value = row.as_ref().map(|row| self.of.key_value(row, element)).transpose()?;
                values.push(value.unwrap_or(Value::Null));
            } else {
                values.push(column.decode(part)?.into_owned());
            }
        }
        let beginning = first.key[..first.key.len() - parts.rest().len()].to_vec();
        // The group may begin before the range does, and end after it.
        let mut group = KeyRange::beginning_with(beginning.clone());
        group.start = self.left.start.clone();
        if let (Bound::Excluded(end), Bound::Excluded(group_end)) = (&self.left.end, &group.end)
            && end < group_end
        {
            group.end = Bound::Excluded(end.clone());
        }
        let tally = tally(tree, group.bounds(), order.sum.is_some())?;
        let sum = order.sum.map(|_| order.sum_of(&tally)).transpose()?;
        self.left.set_start_after(beginning);
        Ok(Some(Group { values, rows: tally.rows.unsigned_abs(), sum }))
    }
}

/// The tally of a range; only its rows, for less, if that is enough.
fn tally(tree: &impl ReadableTable, bounds: Bounds<'_>, has_sum: bool) -> Result<Tally> {
    if has_sum {
        return tree.tally(bounds);
    }
    let rows = tree.count(bounds)? as i64;
    Ok(Tally { rows, ..Measures::ROWS.of_row(b"", b"") })
}

impl<O: InOrder + ?Sized> Iterator for Groups<'_, O> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Result<Group>> {
        if self.is_over {
            return None;
        }
        let group = self.next_group().transpose();
        self.is_over = !matches!(group, Some(Ok(_)));
        group
    }
}
