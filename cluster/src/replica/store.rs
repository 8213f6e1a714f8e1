//! Storing and reading entities; expiry; tombstones that go.

use std::cmp::Ordering;

use quipu::{Error, Result};

use super::Replica;
use super::rows::{self, ROW_BYTES, record_of};
use crate::ids::{Epoch, Now, Partition, Version};
use crate::protocol::Refusal;
use crate::record::{Kept, Record, State, class_start, parse_row_key, partition_end, row_key};
use crate::routing::Routing;
use crate::tables::{FREEING_BYTES_MAX, Table, Tables};

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

/// Whether a record can be put in the place of a row, with notes in its other classes: on a full disk, if that frees
/// space.
fn has_room<T: Tables>(tables: &mut T, row: &[u8], record: &Record<'_>, others: &[(Vec<u8>, Vec<u8>)]) -> Result<bool> {
    let frees = !matches!(record.state, State::Live { .. });
    let notes: usize = others.iter().map(|(row, old)| row.len() + old.len() + ROW_BYTES).sum();
    let longest = others.iter().map(|(_, old)| old.len() + ROW_BYTES).max().unwrap_or(0);
    let bytes = record.encoded_bytes();
    let is_short = bytes.max(longest) <= FREEING_BYTES_MAX;
    tables.has_room_for(frees && is_short, 3 * row.len() + bytes + ROW_BYTES + notes)
}

impl Replica {
    /// The newest state of a key in all classes here, encoded, and its class. A note keeps the newest of all other
    /// classes: where it leads to nothing any more, that is what is left here.
    pub fn newest_row<T: Tables>(&self, tables: &T, partition: Partition, key: &[u8], wall_ms: u64) -> Result<Found> {
        // No class is 0.
        let newest = self.newest_beside(tables, partition, key, (0, None), wall_ms)?;
        let Some((class, mut note)) = found_record(&newest) else { return Ok(newest) };
        if !matches!(note.state, State::Moved { .. }) || self.mutations.note_keeps_its_class() {
            return Ok(newest);
        }
        let others = self.classes_in_use().filter(|from| *from != class);
        let others: Vec<Option<Vec<u8>>> =
            others.map(|from| rows::get(tables, &row_key(partition, from, key))).collect::<Result<_>>()?;
        for other in others.iter().flatten() {
            note = note.keeping(Some(record_of(other)?));
        }
        Ok(Some((class, note.to_bytes())))
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
                false => rows::get(tables, &row_key(partition, from, key))?,
            };
            let Some(bytes) = row else { continue };
            let record = record_of(&bytes)?;
            let is_newer = match &newest {
                Some((_, old)) => record.order(&record_of(old)?, wall_ms) == Ordering::Greater,
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
        if let Some(verdict) = self.verdict_at_once(routing, (partition, from, key), &record, origin) {
            return Ok(verdict);
        }
        let state = self.state(partition);
        let row = row_key(partition, from, key);
        let same = rows::get(tables, &row)?;
        if let Origin::Replica { horizon, .. } = origin
            && same.is_none()
            && self.is_absent_for_good(now.wall_ms, partition, from, record.version)
            && (horizon < state.horizon || record.is_tombstone(now.wall_ms))
        {
            // Every replica had it, or its tombstone: that it is absent is the newest.
            return Ok(Verdict::Stored);
        }
        let own_class = same.as_deref().map(record_of).transpose()?;
        // A note keeps the copy that it takes the place of.
        let record = if self.mutations.note_destroys_copy() { record } else { record.keeping(own_class) };
        let newest = match record.state {
            // That an entity has moved is of interest in its own class only.
            State::Moved { .. } => same.clone().map(|bytes| (from, bytes)),
            _ => self.newest_beside(tables, partition, key, (from, same.as_deref()), now.wall_ms)?,
        };
        let newest = newest.as_ref().map(|(class, bytes)| Ok::<_, Error>((*class, record_of(bytes)?))).transpose()?;
        let stored = newest.map(|(_, newest)| newest.version);
        if !self.is_known(origin) && self.is_far_ahead(now, record.version, stored) {
            return Ok(Verdict::Refused(Refusal::FarAhead));
        }
        let verdict = newest.and_then(|newest| self.verdict_beside(now, (from, record), newest));
        match (verdict, newest) {
            (None, _) => {}
            (Some(Verdict::Older(_)), Some((class, newest)))
                if class != from && matches!(origin, Origin::Replica { .. }) =>
            {
                // The replicas of this class learn that the key has moved, or was removed.
                let note = newest.note(class).keeping(Some(record)).keeping(own_class);
                if own_class.is_none_or(|old| note.order(&old, now.wall_ms) == Ordering::Greater) {
                    if !has_room(tables, &row, &note, &[])? {
                        return Ok(Verdict::Refused(Refusal::Full));
                    }
                    self.put_row(tables, &row, same.as_deref(), note)?;
                }
                return Ok(Verdict::Stored);
            }
            (Some(verdict), _) => return Ok(verdict),
        }
        let others = match record.state {
            State::Moved { .. } => Vec::new(),
            _ => self.other_rows(tables, (partition, from, key))?,
        };
        if !has_room(tables, &row, &record, &others)? {
            return Ok(Verdict::Refused(Refusal::Full));
        }
        self.note_class(tables, from)?;
        self.put_row(tables, &row, same.as_deref(), record)?;
        // They learn that the key has moved to this class.
        for (other, old) in &others {
            let keeps = Some(record_of(old)?).filter(|_| !self.mutations.note_destroys_copy());
            self.put_row(tables, other, Some(old), record.note(from).keeping(keeps))?;
        }
        Ok(Verdict::Stored)
    }

    /// What is said of a record whatever is stored; none if that is to be looked at.
    fn verdict_at_once(
        &self,
        routing: &Routing,
        (partition, from, key): (Partition, u8, &[u8]),
        record: &Record<'_>,
        origin: Origin,
    ) -> Option<Verdict> {
        let is_long = |value: &[u8]| value.len() > self.limits.value_bytes_max;
        let is_too_long = match record.state {
            State::Live { value, .. } => is_long(value),
            State::Moved { kept: Some(Kept { value: Some((_, value)), .. }), .. } => is_long(value),
            _ => false,
        };
        if !(1..=32).contains(&from) || key.len() > self.limits.key_bytes_max || is_too_long {
            return Some(Verdict::Refused(Refusal::NotReplica));
        }
        let (Origin::Coordinator(epoch) | Origin::Known(epoch) | Origin::Replica { epoch, .. }) = origin;
        if let Err(refusal) = self.admits(routing, partition, from, epoch) {
            return Some(Verdict::Refused(refusal));
        }
        let floor = self.state(partition).floor;
        let is_of_replica = matches!(origin, Origin::Replica { .. });
        let is_below = !is_of_replica && record.version.time <= floor;
        is_below.then_some(Verdict::Older(Version::of_line(floor)))
    }

    /// Whether a record is stored elsewhere already, or tops what is.
    fn is_known(&self, origin: Origin) -> bool {
        !matches!(origin, Origin::Coordinator(_)) && !self.mutations.refuses_known()
    }

    /// What is said of a record of class `from` that is not newer than the newest here; none if it is.
    fn verdict_beside(
        &self,
        now: Now,
        (from, record): (u8, Record<'_>),
        (class, newest): (u8, Record<'_>),
    ) -> Option<Verdict> {
        let is_same_class = class == from;
        // By which clock tombstones of expiry are due.
        let judge_ms = if self.mutations.early_tombstone_wins() { u64::MAX } else { now.wall_ms };
        match newest.order(&record, judge_ms) {
            Ordering::Less => None,
            Ordering::Equal if is_same_class => Some(Verdict::Stored),
            // An entity that expired here keeps its version: the same write is confirmed.
            _ if is_same_class && newest.version == record.version => Some(Verdict::Stored),
            _ => Some(Verdict::Older(newest.version)),
        }
    }

    /// The rows of a key in the classes beside `from`.
    fn other_rows<T: Tables>(
        &self,
        tables: &T,
        (partition, from, key): (Partition, u8, &[u8]),
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut others = Vec::new();
        for class in self.classes_in_use().filter(|class| *class != from) {
            let other = row_key(partition, class, key);
            if let Some(old) = rows::get(tables, &other)? {
                others.push((other, old));
            }
        }
        Ok(others)
    }

    /// Replaces the record of a row, and notes its timestamp.
    fn put_row<T: Tables>(&mut self, tables: &mut T, row: &[u8], old: Option<&[u8]>, record: Record<'_>) -> Result<()> {
        self.newest = self.newest.max(record.version.time);
        rows::put(tables, row, old, record)
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
        if !due.is_empty() && !tables.has_room_for(true, rows::removal_bytes(&due))? {
            return Ok(false);
        }
        for key in &due {
            let row = &key[8..];
            if let Some(bytes) = tables.get(Table::Entities, row)? {
                let record = record_of(&bytes)?;
                let expired = record.at(wall_ms);
                if expired != record {
                    self.put_row(tables, row, Some(&bytes), expired)?;
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
        let start = if after.is_empty() { class_start(partition, 0) } else { after.to_vec() };
        let (mut seen, mut last, mut gone) = (0, Vec::new(), Vec::new());
        tables.scan(Table::Graves, &start, &partition_end(partition), rows, |key, value| {
            seen += 1;
            last = key.to_vec();
            // A note stays as long as there is something elsewhere, and a tombstone of expiry until it is due.
            let record = Record::decode(value).filter(|record| record.is_tombstone(wall_ms));
            if let (Some(record), Some((_, from, _))) = (record, parse_row_key(key))
                && self.is_absent_for_good(wall_ms, partition, from, record.version)
            {
                gone.push(key.to_vec());
            }
            true
        })?;
        if !gone.is_empty() && !tables.has_room_for(true, rows::removal_bytes(&gone))? {
            return Ok(None);
        }
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
}
