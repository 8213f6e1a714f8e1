//! Pages of the keys of a node alone: in the hold of the data if they are short, from a snapshot in pieces if not.

use std::ops::{Bound, RangeBounds};

use quipu::{Bounds, Entry as Row, ReadableTable, TableView};

use super::{Alone, Failure, LONG_BYTES, LONG_ROWS, PageAsked, PagePart, SnapshotRows, Value};
use crate::keyspace::Data;
use crate::keyspace::value::Entry;

/// Reads the keys of a range that are asked for.
pub(super) fn read(
    alone: &Alone<'_, '_>,
    range: Option<&Bounds<'_>>,
    asked: &PageAsked,
    mut read: impl FnMut(PagePart<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Alone { data, database, room } = alone;
    let (Some(range), Some(tables)) = (range, data.tables(*database)) else {
        return read(PagePart::Begin { total: 0, rows: 0 });
    };
    let view = data.view(&tables.keys)?;
    let total = view.count(range)?;
    let after = total.saturating_sub(asked.offset);
    let wanted = after.min(asked.limit);
    let first = if asked.is_reverse { after - wanted } else { asked.offset };
    let is_long = wanted > LONG_ROWS || asked.with_values && bytes_of(&view, range, first, wanted)? > LONG_BYTES;
    let cost = if is_long { wanted.max(LONG_ROWS + 1) } else { wanted };
    room.expect_rows(data, cost)?;
    // Values may be long: beside the loop, they are read as they are sent.
    if let Some(snapshot) = room.in_pieces(data, if asked.with_values { LONG_ROWS + 1 } else { cost }) {
        let first = first + rows_before(&view, range)?;
        read(PagePart::Begin { total, rows: wanted })?;
        let rows = first..first + wanted;
        return read(PagePart::Rows(SnapshotRows { snapshot, keys: tables.keys.clone(), rows }));
    }
    let mut entries = match wanted {
        0 => Vec::new(),
        wanted => view.page(range, first, wanted as usize)?.entries,
    };
    if asked.is_reverse {
        entries.reverse();
    }
    if asked.with_values {
        let length = |row: &Row| Entry::decode(&row.value).map_or(0, |entry| entry.length());
        room.expect_bytes(data, entries.iter().map(length).sum())?;
    }
    read(PagePart::Begin { total, rows: entries.len() as u64 })?;
    for row in &entries {
        let value = match asked.with_values {
            true => Some(Value::of_row(data, *database, row)?),
            false => None,
        };
        read(PagePart::Row(&row.key, value))?;
    }
    Ok(())
}

impl<'r> Value<'r> {
    /// The value of a row of the table of keys of a database.
    ///
    /// # Errors
    /// Those of the database.
    pub fn of_row(data: &'r Data<'_>, database: usize, row: &'r Row) -> quipu::Result<Value<'r>> {
        let string = match Entry::decode(&row.value) {
            Some(entry) => data.string_of(database, &row.key, &entry)?,
            None => None,
        };
        Ok(string.map_or(Value::Other, Value::String))
    }
}

/// How many rows of a table lie before a range.
fn rows_before(view: &TableView<'_>, range: &Bounds<'_>) -> Result<u64, Failure> {
    let end = match range.start_bound() {
        Bound::Unbounded => return Ok(0),
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
    };
    Ok(view.count(Bounds::new(Bound::Unbounded, end))?)
}

/// How many bytes `wanted` rows of a range have together, from the one at offset `first` on.
fn bytes_of(view: &TableView<'_>, range: &Bounds<'_>, first: u64, wanted: u64) -> Result<u64, Failure> {
    let all = view.tally(range)?.bytes;
    // Nearly always there is little.
    if all <= LONG_BYTES as i64 || wanted == 0 {
        return Ok(all.max(0) as u64);
    }
    let (Some(first), Some(last)) = (view.nth(range, first)?, view.nth(range, first + wanted - 1)?) else {
        return Ok(all as u64);
    };
    Ok(view.tally(Bounds::new(Bound::Included(&first.key), Bound::Included(&last.key)))?.bytes.max(0) as u64)
}
