//! Storing and reading entities; expiry; tombstones that go.

use std::cmp::Ordering;

use quipu::{Error, ErrorKind, Result};

use super::Replica;
use crate::ids::{Epoch, NodeId, Now, Partition, Version};
use crate::protocol::Refusal;
use crate::record::{
    Kept, PREFIX_BYTES, Record, State as EntityState, class_start, expiry_key, parse_row_key, partition_end, row_key,
};
use crate::routing::Routing;
use crate::tables::{Table, Tables};

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A coordinator, of this epoch: a write.
    Coordinator(Epoch),
    /// A coordinator, of this epoch, of what some replica has stored, or what tops that: a hint, a read repair, a write
    /// that was stamped again. It is taken however far ahead it is: the entity is there already, and would stay apart.
    Known(Epoch),
    /// Another replica.
    Replica {
        /// The epoch that it knew.
        epoch: Epoch,
        /// Its horizon when it read the row.
        horizon: u64,
    },
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, or was already.
    Stored,
    /// Something newer is there, or something so old is not let in.
    Older(Version),
    /// Not done.
    Refused(Refusal),
}

/// What a replica has of a key: the class, and the record, encoded.
pub type Found = Option<(u8, Vec<u8>)>;

/// The class and the record of what was found.
pub(crate) fn found_record(found: &Found) -> Option<(u8, Record<'_>)> {
    found.as_ref().and_then(|(from, bytes)| Some((*from, Record::decode(bytes)?)))
}

/// Which of two findings is newer, by a wall clock.
pub(crate) fn found_order(a: &Found, b: &Found, wall_ms: u64) -> Ordering {
    match (found_record(a), found_record(b)) {
        (Some((_, a)), Some((_, b))) => a.order(&b, wall_ms),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// A record as it is stored.
fn owned(bytes: &[u8]) -> Result<Record<'_>> {
    Record::decode(bytes).ok_or_else(|| Error::new(ErrorKind::Corrupt, "a row of an entity is malformed"))
}

impl Replica {
    /// The row of a key and class, encoded.
    fn row<T: Tables>(&self, tables: &T, row: &[u8]) -> Result<Option<Vec<u8>>> {
        match tables.get(Table::Entities, row)? {
            Some(bytes) => Ok(Some(bytes)),
            None => tables.get(Table::Graves, row),
        }
    }

    /// The newest state of a key in all classes here, encoded, and its class.
    pub fn newest_row<T: Tables>(&self, tables: &T, partition: Partition, key: &[u8], wall_ms: u64) -> Result<Found> {
        // No class is 0.
        self.newest_beside(tables, partition, key, (0, None), wall_ms)
    }

    /// [`Replica::newest_row`], where the row of one class has been looked up.
    fn newest_beside<T: Tables>(
        &self,
        tables: &T,
        partition: Partition,
        key: &[u8],
        (class, its_row): (u8, Option<&[u8]>),
        wall_ms: u64,
    ) -> Result<Found> {
        let mut newest: Found = None;
        for from in self.classes_in_use() {
            let row = match from == class {
                true => its_row.map(<[u8]>::to_vec),
                false => self.row(tables, &row_key(partition, from, key))?,
            };
            let Some(bytes) = row else { continue };
            let record = owned(&bytes)?;
            let is_newer = match &newest {
                Some((_, old)) => record.order(&owned(old)?, wall_ms) == Ordering::Greater,
                None => true,
            };
            if is_newer {
                newest = Some((from, bytes));
            }
        }
        Ok(newest)
    }

    /// Reads a key for a coordinator of `epoch`. What is due is for the coordinator to say, by its own clock.
    pub fn read<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        (partition, from, key): (Partition, u8, &[u8]),
        (epoch, wall_ms): (Epoch, u64),
    ) -> Result<std::result::Result<Found, Refusal>> {
        if let Err(refusal) = self.serves(routing, partition, from, epoch) {
            return Ok(Err(refusal));
        }
        self.newest_row(tables, partition, key, wall_ms).map(Ok)
    }

    /// Stores a record if it is newer than what is there.
    pub fn store<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        routing: &Routing,
        (partition, from, key): (Partition, u8, &[u8]),
        record: Record<'_>,
        origin: Origin,
    ) -> Result<Verdict> {
        let is_long = |value: &[u8]| value.len() > self.limits.value_bytes_max;
        let is_too_long = match record.state {
            EntityState::Live { value, .. } => is_long(value),
            EntityState::Moved { kept: Some(Kept { value: Some((_, value)), .. }), .. } => is_long(value),
            _ => false,
        };
        if !(1..=32).contains(&from) || key.len() > self.limits.key_bytes_max || is_too_long {
            return Ok(Verdict::Refused(Refusal::NotReplica));
        }
        let (Origin::Coordinator(epoch) | Origin::Known(epoch) | Origin::Replica { epoch, .. }) = origin;
        if let Err(refusal) = self.admits(routing, partition, from, epoch) {
            return Ok(Verdict::Refused(refusal));
        }
        let state = self.state(partition);
        if !matches!(origin, Origin::Replica { .. }) && record.version.time <= state.floor {
            return Ok(Verdict::Older(Version { time: state.floor, node: NodeId(u16::MAX) }));
        }
        let row = row_key(partition, from, key);
        let same = self.row(tables, &row)?;
        if let Origin::Replica { horizon, .. } = origin
            && same.is_none()
            && state.is_settled(from, record.version.time)
            && (horizon < state.horizon || record.is_tombstone(now.wall_ms))
        {
            // Every replica had it, or its tombstone: that it is absent is the newest.
            return Ok(Verdict::Stored);
        }
        let own_class = same.as_deref().map(owned).transpose()?;
        // A note keeps the copy that it takes the place of.
        let record = if self.mutations.note_destroys_copy() { record } else { record.keeping(own_class) };
        let newest = match record.state {
            // That an entity has moved is of interest in its own class only.
            EntityState::Moved { .. } => same.clone().map(|bytes| (from, bytes)),
            _ => self.newest_beside(tables, partition, key, (from, same.as_deref()), now.wall_ms)?,
        };
        let newest = match &newest {
            Some((class, bytes)) => Some((*class, owned(bytes)?)),
            None => None,
        };
        let is_known = match origin {
            Origin::Coordinator(_) => false,
            Origin::Known(_) | Origin::Replica { .. } => !self.mutations.refuses_known(),
        };
        if !is_known && self.is_far_ahead(now, record.version, newest.map(|(_, newest)| newest.version)) {
            return Ok(Verdict::Refused(Refusal::FarAhead));
        }
        if let Some((class, newest)) = newest {
            let order = newest.order(&record, self.judge_ms(now));
            if order == Ordering::Equal && class == from {
                return Ok(Verdict::Stored);
            }
            if order != Ordering::Less {
                if let (Origin::Replica { .. }, true) = (origin, class != from) {
                    // The replicas of this class learn that the key has moved, or was removed.
                    let note = newest.note(class).keeping(Some(record)).keeping(own_class);
                    if own_class.is_none_or(|old| note.order(&old, now.wall_ms) == Ordering::Greater) {
                        self.write_row(tables, &row, same.as_deref(), note)?;
                    }
                    return Ok(Verdict::Stored);
                }
                // An entity that expired here keeps its version: the same write is confirmed.
                let is_same = newest.version == record.version && class == from;
                return Ok(if is_same { Verdict::Stored } else { Verdict::Older(newest.version) });
            }
        }
        self.note_class(tables, from)?;
        self.write_row(tables, &row, same.as_deref(), record)?;
        if !matches!(record.state, EntityState::Moved { .. }) {
            for class in self.classes_in_use().filter(|class| *class != from) {
                let other = row_key(partition, class, key);
                if let Some(old) = self.row(tables, &other)? {
                    let old_record = owned(&old)?;
                    let keeps = Some(old_record).filter(|_| !self.mutations.note_destroys_copy());
                    self.write_row(tables, &other, Some(&old), record.note(from).keeping(keeps))?;
                }
            }
        }
        Ok(Verdict::Stored)
    }

    /// By which clock tombstones of expiry are due.
    fn judge_ms(&self, now: Now) -> u64 {
        if self.mutations.early_tombstone_wins() { u64::MAX } else { now.wall_ms }
    }

    /// Replaces the row of a key and class.
    fn write_row<T: Tables>(
        &mut self,
        tables: &mut T,
        row: &[u8],
        old: Option<&[u8]>,
        record: Record<'_>,
    ) -> Result<()> {
        self.newest = self.newest.max(record.version.time);
        let old = old.map(owned).transpose()?;
        let mut bytes = Vec::with_capacity(record.encoded_bytes());
        record.encode(&mut bytes);
        let deadline = |record: &Record<'_>| match record.state {
            EntityState::Live { deadline_ms, .. } if deadline_ms > 0 => Some(deadline_ms),
            _ => None,
        };
        let table = |record: &Record<'_>| match record.state {
            EntityState::Live { .. } => Table::Entities,
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
    pub(super) fn remove_row<T: Tables>(&mut self, tables: &mut T, row: &[u8]) -> Result<()> {
        if let Some(bytes) = tables.get(Table::Entities, row)? {
            if let EntityState::Live { deadline_ms, .. } = owned(&bytes)?.state
                && deadline_ms > 0
            {
                tables.remove(Table::Expires, &expiry_key(deadline_ms, row))?;
            }
            tables.remove(Table::Entities, row)?;
        }
        tables.remove(Table::Graves, row)
    }

    /// Turns values that are due into tombstones of the same version, up to `rows` of them. Returns whether more are
    /// due.
    pub fn expire<T: Tables>(&mut self, tables: &mut T, wall_ms: u64, rows: usize) -> Result<bool> {
        let mut due = Vec::new();
        let end = wall_ms.saturating_add(1).to_be_bytes();
        tables.scan(Table::Expires, &[], &end, rows, |key, _| {
            due.push(key.to_vec());
            true
        })?;
        for key in &due {
            let row = &key[8..];
            if let Some(bytes) = tables.get(Table::Entities, row)? {
                let record = owned(&bytes)?;
                let expired = record.at(wall_ms);
                if expired != record {
                    self.write_row(tables, row, Some(&bytes), expired)?;
                    continue;
                }
            }
            tables.remove(Table::Expires, key)?;
        }
        Ok(due.len() == rows)
    }

    /// Drops tombstones up to the horizon, looking at `rows` of a partition from `after` on. Returns where to go on, if
    /// there are more. What tells of something elsewhere stays.
    pub fn bury<T: Tables>(
        &mut self,
        tables: &mut T,
        partition: Partition,
        after: &[u8],
        (rows, wall_ms): (usize, u64),
    ) -> Result<Option<Vec<u8>>> {
        let state = self.state(partition);
        let start = if after.is_empty() { class_start(partition, 0) } else { after.to_vec() };
        let (mut seen, mut last, mut gone) = (0, Vec::new(), Vec::new());
        tables.scan(Table::Graves, &start, &partition_end(partition), rows, |key, value| {
            seen += 1;
            last = key.to_vec();
            // A note stays as long as there is something elsewhere, and a tombstone of expiry until it is due.
            let record = Record::decode(value).filter(|record| record.is_tombstone(wall_ms));
            if let (Some(record), Some((_, from, _))) = (record, parse_row_key(key))
                && state.is_settled(from, record.version.time)
            {
                gone.push(key.to_vec());
            }
            true
        })?;
        for row in &gone {
            tables.remove(Table::Graves, row)?;
        }
        last.push(0);
        Ok((seen == rows).then_some(last))
    }

    /// The highest timestamp that was stored since the start.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The rows of a partition that are wanted by their hashes, from a range of row keys. For repair.
    pub(super) fn visit_rows<T: Tables>(
        &self,
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
}

/// The key of an entity in a row's key.
pub(super) fn entity_key(row: &[u8]) -> &[u8] {
    row.get(PREFIX_BYTES..).unwrap_or_default()
}
