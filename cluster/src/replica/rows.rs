//! The rows of entities in tables: values in `entities`, tombstones and notes in `graves`, and a row in `expires` for
//! each value that expires.
//!
//! Invariant: a key has one record, and a row in `expires` if it is a value with a deadline.

use quipu::{Error, ErrorKind, Result};

use super::PartitionState;
use crate::ids::Partition;
use crate::record::{PREFIX_BYTES, Record, State, class_start, expiry_key, partition_end};
use crate::tables::{Table, Tables};

/// A record as it is stored.
pub(super) fn record_of(bytes: &[u8]) -> Result<Record<'_>> {
    Record::decode(bytes).ok_or_else(|| Error::new(ErrorKind::Corrupt, "a row of an entity is malformed"))
}

/// The key of an entity in a row's key.
pub(super) fn entity_key(row: &[u8]) -> &[u8] {
    row.get(PREFIX_BYTES..).unwrap_or_default()
}

/// The record of a row, encoded.
pub(super) fn get<T: Tables>(tables: &T, row: &[u8]) -> Result<Option<Vec<u8>>> {
    match tables.get(Table::Entities, row)? {
        Some(bytes) => Ok(Some(bytes)),
        None => tables.get(Table::Graves, row),
    }
}

/// Replaces the record of a row.
pub(super) fn put<T: Tables>(tables: &mut T, row: &[u8], old: Option<&[u8]>, record: Record<'_>) -> Result<()> {
    let old = old.map(record_of).transpose()?;
    let mut bytes = Vec::with_capacity(record.encoded_bytes());
    record.encode(&mut bytes);
    let deadline = |record: &Record<'_>| match record.state {
        State::Live { deadline_ms, .. } if deadline_ms > 0 => Some(deadline_ms),
        _ => None,
    };
    let table = |record: &Record<'_>| match record.state {
        State::Live { .. } => Table::Entities,
        _ => Table::Graves,
    };
    // What can be looked for comes before what is found by it: if a put fails, nothing is lost from sight.
    if let Some(deadline_ms) = deadline(&record) {
        tables.put(Table::Expires, &expiry_key(deadline_ms, row), b"")?;
    }
    tables.put(table(&record), row, &bytes)?;
    if let Some(old) = old {
        if table(&old) != table(&record) {
            tables.remove(table(&old), row)?;
        }
        if let Some(deadline_ms) = deadline(&old).filter(|old| deadline(&record) != Some(*old)) {
            tables.remove(Table::Expires, &expiry_key(deadline_ms, row))?;
        }
    }
    Ok(())
}

/// Removes a row for good.
pub(super) fn remove<T: Tables>(tables: &mut T, row: &[u8]) -> Result<()> {
    if let Some(bytes) = tables.get(Table::Entities, row)? {
        if let State::Live { deadline_ms, .. } = record_of(&bytes)?.state
            && deadline_ms > 0
        {
            tables.remove(Table::Expires, &expiry_key(deadline_ms, row))?;
        }
        tables.remove(Table::Entities, row)?;
    }
    tables.remove(Table::Graves, row)
}

/// Bytes of a row beside its key and a value, in the log.
pub(super) const ROW_BYTES: usize = 128;

/// The bytes that the log needs for the removal of rows, with a tombstone for each.
pub(super) fn removal_bytes(keys: &[Vec<u8>]) -> usize {
    // Each may have a deadline, and be in either table.
    keys.iter().map(|key| 3 * key.len() + ROW_BYTES).sum()
}

/// Removes up to `rows` rows of a partition's classes from `first` to before `end`. Returns whether all are gone.
pub(crate) fn drop_classes<T: Tables>(
    tables: &mut T,
    partition: Partition,
    (first, end): (u8, u8),
    rows: usize,
) -> Result<bool> {
    let start = class_start(partition, first);
    let end = if end == PartitionState::NONE { partition_end(partition) } else { class_start(partition, end) };
    for table in [Table::Entities, Table::Graves] {
        let mut keys = Vec::new();
        tables.scan(table, &start, &end, rows, |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        if !keys.is_empty() && !tables.has_room_for(true, removal_bytes(&keys))? {
            return Ok(false);
        }
        for key in &keys {
            remove(tables, key)?;
        }
        if keys.len() == rows {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lends the rows of a range in order, up to `rows` of each table. Returns where to go on, if there are more.
pub(super) fn visit<T: Tables>(
    tables: &T,
    (start, end): (&[u8], &[u8]),
    rows: usize,
    mut visit: impl FnMut(&[u8], &[u8]),
) -> Result<Option<Vec<u8>>> {
    // Both tables are read up to the same key.
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut bound: Option<Vec<u8>> = None;
    for table in [Table::Entities, Table::Graves] {
        let (mut seen, mut last) = (0, Vec::new());
        tables.scan(table, start, end, rows, |key, value| {
            seen += 1;
            found.push((key.to_vec(), value.to_vec()));
            last.clear();
            last.extend_from_slice(key);
            true
        })?;
        if seen == rows {
            last.push(0);
            bound = Some(bound.map_or(last.clone(), |bound| bound.min(last)));
        }
    }
    if let Some(bound) = &bound {
        found.retain(|(key, _)| key < bound);
    }
    found.sort_unstable();
    found.iter().for_each(|(key, value)| visit(key, value));
    Ok(bound)
}
