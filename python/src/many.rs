//! Questions and changes of many rows, a part at a time, with a look for signals after each part.

use quipu::Result;
use quipu_rows::{Database, KeyRange, Ordered, Page, Row, RowTransaction, TableIn, Trees, Value};

use crate::signals::{ROWS_BETWEEN_SIGNALS, check_signals};

/// Up to which step a slice reads all rows between its ends: a further descent costs as much as some rows.
const READ_THROUGH_STEP: i64 = 8;

/// Rows of one question, and where the next one begins; none at the end.
pub(crate) struct Chunk<T> {
    pub(crate) rows: T,
    pub(crate) rest: Option<KeyRange>,
}

/// The first rows of a range, or the last ones from the end on, and the rest of the range.
pub(crate) fn chunk(rows: &impl Ordered, range: &KeyRange, limit: u64, is_reverse: bool) -> Result<Chunk<Vec<Row>>> {
    if is_reverse {
        let total = rows.count(range)?;
        let (before, last) = rows.cut(range, total.saturating_sub(limit))?;
        let rest = (total > limit).then_some(before);
        let Some(last) = last else { return Ok(Chunk { rows: Vec::new(), rest: None }) };
        let rows = rows.rows(&last)?.rev().collect::<Result<_>>()?;
        return Ok(Chunk { rows, rest });
    }
    let (first, rest) = rows.cut(range, limit)?;
    Ok(Chunk { rows: rows.rows(&first)?.collect::<Result<_>>()?, rest })
}

/// Up to `limit` rows of a range from an offset on, and how many the range has.
pub(crate) fn page(rows: &impl Ordered, range: &KeyRange, offset: u64, limit: usize) -> Result<Page> {
    let mut page = rows.page(range, offset, limit.min(ROWS_BETWEEN_SIGNALS))?;
    while page.rows.len() < limit {
        let (next, left) = (offset.saturating_add(page.rows.len() as u64), limit - page.rows.len());
        if next >= page.total {
            break;
        }
        check_signals()?;
        page.rows.extend(rows.page(range, next, left.min(ROWS_BETWEEN_SIGNALS))?.rows);
    }
    Ok(page)
}

/// The rows of many keys, in their order.
pub(crate) fn get_many<T: Trees>(table: &TableIn<'_, T>, keys: Vec<Vec<Value<'static>>>) -> Result<Vec<Option<Row>>> {
    let mut found = Vec::with_capacity(keys.len());
    let mut keys = keys.into_iter();
    while keys.len() > 0 {
        let together = keys.by_ref().take(ROWS_BETWEEN_SIGNALS);
        found.extend(table.get_many(together)?);
        if keys.len() > 0 {
            check_signals()?;
        }
    }
    Ok(found)
}

/// The rows of a slice, in its order, as Python's lists have it.
pub(crate) fn slice(
    rows: &impl Ordered,
    range: &KeyRange,
    ends: (Option<i64>, Option<i64>),
    step: i64,
) -> Result<Vec<Row>> {
    let len = rows.count(range)? as i64;
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |end: Option<i64>, open: i64| match end {
        None => open,
        Some(end) if end < 0 => end.saturating_add(len).max(least),
        Some(end) => end.min(most),
    };
    let (start, stop) = match step > 0 {
        true => (place(ends.0, 0), place(ends.1, len)),
        false => (place(ends.0, len - 1), place(ends.1, -1)),
    };
    let distance = if step > 0 { stop - start } else { start - stop };
    if distance <= 0 {
        return Ok(Vec::new());
    }
    let stride = step.saturating_abs();
    let count = (distance - 1) / stride + 1;
    if stride > READ_THROUGH_STEP {
        let nth = |number: i64| {
            if number as usize % ROWS_BETWEEN_SIGNALS == ROWS_BETWEEN_SIGNALS - 1 {
                check_signals()?;
            }
            rows.nth(range, (start + number * step) as u64)
        };
        return (0..count).filter_map(|number| nth(number).transpose()).collect();
    }
    let last = start + (count - 1) * step;
    let (low, high) = (start.min(last), start.max(last));
    let page = page(rows, range, low as u64, (high - low + 1) as usize)?;
    let mut taken: Vec<Row> = page.rows.into_iter().step_by(stride as usize).collect();
    if step < 0 {
        taken.reverse();
    }
    Ok(taken)
}

/// Removes the rows of a range of a table or of one of its indexes, all or none. Returns how many there were.
pub(crate) fn delete_range(
    database: &Database,
    transaction: &RowTransaction<'_>,
    name: &str,
    index: Option<&str>,
    range: &KeyRange,
) -> Result<u64> {
    let table = transaction.table(name)?;
    // What refers to the rows is looked at when all are removed.
    let is_one_step = |rows: u64| -> Result<bool> {
        Ok(rows <= ROWS_BETWEEN_SIGNALS as u64 || is_referred_to(database, transaction, name)?)
    };
    let Some(index) = index else {
        if table.schema().indexes.is_empty() || is_one_step(table.count(range)?)? {
            return table.delete_range(range);
        }
        return delete_in_parts(transaction, &table, range, |part| table.delete_range(part));
    };
    let index = table.index(index)?;
    if is_one_step(index.count(range)?)? {
        return index.delete_range(range);
    }
    delete_in_parts(transaction, &index, range, |part| index.delete_range(part))
}

/// Removes the rows of a range a part at a time, all or none.
fn delete_in_parts(
    transaction: &RowTransaction<'_>,
    rows: &impl Ordered,
    range: &KeyRange,
    delete: impl Fn(&KeyRange) -> Result<u64>,
) -> Result<u64> {
    transaction.all_or_none(|| {
        let (mut removed, mut left) = (0, Some(range.clone()));
        while let Some(range) = left.take() {
            let (part, rest) = rows.cut(&range, ROWS_BETWEEN_SIGNALS as u64)?;
            removed += delete(&part)?;
            left = rest;
            check_signals()?;
        }
        Ok(removed)
    })
}

/// Whether a table has a foreign key to one of this name.
fn is_referred_to(database: &Database, transaction: &RowTransaction<'_>, name: &str) -> Result<bool> {
    for table in database.tables()? {
        let table = transaction.table(&table)?;
        if table.schema().foreign_keys.iter().any(|foreign_key| foreign_key.table == name) {
            return Ok(true);
        }
    }
    Ok(false)
}
