//! Answers peers that compare their rows with those of this replica, or copy its rows.

use std::collections::BTreeMap;

use quipu::Result;

use super::{Origin, Replica, Verdict, rows};
use crate::clock::{ms_of_time, time_of_ms};
use crate::ids::{Epoch, Now, Partition};
use crate::limits::Limits;
use crate::protocol::{Message, Refusal, Row, Span, Summary};
use crate::record::{PREFIX_BYTES, Record, State, parse_row_key, partition_end};
use crate::routing::Routing;
use crate::tables::{Table, Tables};

/// Bytes of a partition's number in a row's key.
const PARTITION_BYTES: usize = 2;
/// Bytes of what is known of a partition, in the log.
const FACT_BYTES: usize = 64;

/// The row keys of a span.
pub fn row_range(partition: Partition, span: Span<'_>) -> (Vec<u8>, Vec<u8>) {
    let whole = |key: &[u8]| [&partition.0.to_be_bytes(), key].concat();
    (whole(span.start), if span.end.is_empty() { partition_end(partition) } else { whole(span.end) })
}

/// A row's key as messages about one partition have it: `from`, key.
pub fn within_partition(row: &[u8]) -> &[u8] {
    row.get(PARTITION_BYTES..).unwrap_or_default()
}

/// The answer to [`Message::Hashes`], owned.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// The horizon when the rows were read.
    pub horizon: u64,
    /// Up to this timestamp, and in classes up to this one, what is not here is absent for good.
    pub absent: (u64, u8),
    /// Where to go on; empty: all was looked at.
    pub resume: Vec<u8>,
    /// Rows, `from` and key, with their records.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Hashes whose rows are not here.
    pub wanted: Vec<u64>,
}

impl Difference {
    /// As a message.
    pub fn message(&self) -> Message<'_> {
        Message::Entries {
            horizon: self.horizon,
            absent: self.absent,
            resume: &self.resume,
            rows: rows_of(&self.rows),
            wanted: self.wanted.clone(),
        }
    }
}

/// Rows as messages have them.
pub fn rows_of(rows: &[(Vec<u8>, Vec<u8>)]) -> Vec<Row<'_>> {
    rows.iter().filter_map(|(key, bytes)| Some(Row { key, record: Record::decode(bytes)? })).collect()
}

/// What is here of a range: rows and hash, tombstones included.
pub fn summary<T: Tables>(tables: &T, partition: Partition, span: Span<'_>) -> Result<(u64, u64)> {
    let (start, end) = row_range(partition, span);
    let tally = tables.tally(Table::Entities, &start, &end)? + tables.tally(Table::Graves, &start, &end)?;
    Ok((tally.rows as u64, tally.hash))
}

/// Keys that cut a range of rows into about `parts` of equal size: of `entities` or `graves`, whichever has more.
pub fn cuts<T: Tables>(tables: &T, partition: Partition, span: Span<'_>, parts: u64) -> Result<Vec<Vec<u8>>> {
    let (start, end) = row_range(partition, span);
    let count = |table| Ok::<u64, quipu::Error>(tables.tally(table, &start, &end)?.rows as u64);
    let (entities, graves) = (count(Table::Entities)?, count(Table::Graves)?);
    let (table, rows) = if entities >= graves { (Table::Entities, entities) } else { (Table::Graves, graves) };
    let mut cuts = Vec::new();
    for part in 1..parts.min(rows) {
        if let Some(key) = tables.nth(table, &start, &end, rows * part / parts.min(rows))? {
            cuts.push(within_partition(&key).to_vec());
        }
    }
    cuts.dedup();
    Ok(cuts)
}

/// Hashes of the rows of a range, which are read `rows` at once; the range must be small.
pub fn hashes<T: Tables>(tables: &T, partition: Partition, span: Span<'_>, rows: usize) -> Result<Vec<u64>> {
    let (mut start, end) = row_range(partition, span);
    let mut hashes = Vec::new();
    loop {
        let visit = |key: &[u8], value: &[u8]| hashes.push(tables.row_hash(key, value));
        match rows::visit(tables, (&start, &end), rows.max(1), visit)? {
            Some(at) => start = at,
            None => return Ok(hashes),
        }
    }
}

/// Whether a row is so young that it is on its way everywhere.
fn is_young(limits: &Limits, now: Now, value: &[u8]) -> bool {
    let time = Record::decode(value).map_or(0, |record| record.version.time);
    // Not what seems to come from the far future: that would never grow old.
    let age = now.wall_ms.abs_diff(ms_of_time(time));
    time > time_of_ms(now.wall_ms.saturating_sub(limits.young_ms)) && age <= limits.ahead_ms_max
}

/// Removes rows of a range that a former replica does not have, by their hashes, and that are absent there for good:
/// writes that came here while this node knew no floor, and that those which did have refused.
pub fn drop_refused<T: Tables>(
    tables: &mut T,
    (partition, span): (Partition, Span<'_>),
    wanted: &[u64],
    (time, from_max): (u64, u8),
    limits: &Limits,
) -> Result<()> {
    let (mut start, end) = row_range(partition, span);
    let mut refused = Vec::new();
    loop {
        let resume = rows::visit(tables, (&start, &end), limits.housekeeping_rows.max(1), |key, value| {
            let record = Record::decode(value).filter(|record| record.version.time <= time);
            let is_note = record.is_none_or(|record| matches!(record.state, State::Moved { .. }));
            let is_covered = parse_row_key(key).is_some_and(|(_, from, _)| from <= from_max);
            if !is_note && is_covered && wanted.contains(&tables.row_hash(key, value)) {
                refused.push(key.to_vec());
            }
        })?;
        match resume {
            Some(at) => start = at,
            None => break,
        }
    }
    refused.iter().try_for_each(|row| rows::remove(tables, row))
}

/// Whether the horizon of a partition is above the line that this node's clock allows: it is of a time when the clocks
/// of all replicas were ahead. The next round takes it back, since a replica that has come since could not reach it
/// before that time.
pub(crate) fn has_far_horizon(replica: &Replica, wall_ms: u64, partition: Partition) -> bool {
    replica.state(partition).horizon > replica.line(wall_ms) && !replica.mutations.keeps_far_horizon()
}

impl Replica {
    /// Whether another replica may compare rows of a partition with ours, from a class on.
    fn compares(
        &self,
        routing: &Routing,
        (partition, from): (Partition, u8),
        (epoch, is_copy): (Epoch, bool),
    ) -> Result<(), Refusal> {
        if is_copy && epoch > routing.epoch() {
            // A copying node must not miss what is still written here under the epoch before.
            return Err(Refusal::NotReady);
        }
        if epoch < routing.floor(partition) {
            return Err(Refusal::StaleEpoch);
        }
        let state = self.state(partition);
        match routing.least_from(partition, self.own) {
            Some(least) if from >= least && state.have <= from && !state.is_dirty => Ok(()),
            // It has lost its rows and copies too: it has no more than this, and both must not wait for each other.
            Some(_) if is_copy && state.copying <= from && !state.is_dirty => Ok(()),
            Some(_) => Err(Refusal::NotReady),
            None => Err(Refusal::NotReplica),
        }
    }

    /// Which ranges differ: a bit each.
    pub fn compare<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        partition: Partition,
        (epoch, is_copy): (Epoch, bool),
        summaries: &[Summary<'_>],
    ) -> Result<std::result::Result<Vec<u8>, Refusal>> {
        let mut bits = vec![0u8; summaries.len().div_ceil(8)];
        for (number, theirs) in summaries.iter().enumerate() {
            let from = theirs.span.start.first().copied().unwrap_or_default();
            if let Err(refusal) = self.compares(routing, (partition, from), (epoch, is_copy)) {
                return Ok(Err(refusal));
            }
            if summary(tables, partition, theirs.span)? != (theirs.rows, theirs.hash) {
                bits[number / 8] |= 1 << (number % 8);
            }
        }
        Ok(Ok(bits))
    }

    /// Rows that are not among those with these hashes, as many as fit a message.
    pub fn difference<T: Tables>(
        &self,
        now: Now,
        tables: &T,
        routing: &Routing,
        (partition, span): (Partition, Span<'_>),
        (epoch, is_copy): (Epoch, bool),
        (hashes, wants_rows): (&[u64], bool),
    ) -> Result<std::result::Result<Difference, Refusal>> {
        let from = span.start.first().copied().unwrap_or_default();
        if let Err(refusal) = self.compares(routing, (partition, from), (epoch, is_copy)) {
            return Ok(Err(refusal));
        }
        let mut left: BTreeMap<u64, usize> = BTreeMap::new();
        hashes.iter().for_each(|hash| *left.entry(*hash).or_default() += 1);
        let state = self.state(partition);
        let absent = (state.horizon.min(self.line(now.wall_ms)), state.horizon_from_max);
        let mut difference = Difference { horizon: state.horizon, absent, ..Difference::default() };
        let (mut start, end) = row_range(partition, span);
        let mut bytes = 0;
        loop {
            let mut full_at = None;
            let resume = rows::visit(tables, (&start, &end), self.limits.housekeeping_rows.max(1), |key, value| {
                if full_at.is_some() {
                    return;
                }
                if bytes >= self.limits.chunk_bytes {
                    full_at = Some(key.to_vec());
                    return;
                }
                let hash = tables.row_hash(key, value);
                match left.get_mut(&hash) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ if !wants_rows || !is_copy && is_young(&self.limits, now, value) => {}
                    _ => {
                        bytes += key.len() + value.len();
                        difference.rows.push((within_partition(key).to_vec(), value.to_vec()));
                    }
                }
            })?;
            match (full_at, resume) {
                (Some(at), _) => {
                    difference.resume = within_partition(&at).to_vec();
                    return Ok(Ok(difference));
                }
                (None, Some(at)) => start = at,
                (None, None) => break,
            }
        }
        difference.wanted = left.into_iter().flat_map(|(hash, count)| std::iter::repeat_n(hash, count)).collect();
        Ok(Ok(difference))
    }

    /// Rows of a range with these hashes, that are not young. For those that want them.
    pub fn rows_with<T: Tables>(
        &self,
        now: Now,
        tables: &T,
        partition: Partition,
        span: Span<'_>,
        wanted: &[u64],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut start, end) = row_range(partition, span);
        let mut rows = Vec::new();
        loop {
            let resume = rows::visit(tables, (&start, &end), self.limits.housekeeping_rows.max(1), |key, value| {
                if wanted.contains(&tables.row_hash(key, value)) && !is_young(&self.limits, now, value) {
                    rows.push((within_partition(key).to_vec(), value.to_vec()));
                }
            })?;
            match resume {
                Some(at) => start = at,
                None => return Ok(rows),
            }
        }
    }

    /// Stores rows of another replica. Refuses if one could not be taken.
    pub fn take_rows<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        routing: &Routing,
        (partition, epoch, horizon): (Partition, Epoch, u64),
        rows: &[Row<'_>],
    ) -> Result<std::result::Result<(), Refusal>> {
        for row in rows {
            let Some((from, key)) = row.key.split_first() else { continue };
            let origin = Origin::Replica { epoch, horizon };
            let verdict = self.store(now, tables, routing, (partition, *from, key), row.record, origin)?;
            match verdict {
                Verdict::Refused(Refusal::FarAhead) | Verdict::Stored | Verdict::Older(_) => {}
                Verdict::Refused(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(()))
    }

    /// The highest line that a round may draw by this wall clock: the present less the grace period.
    pub fn line(&self, wall_ms: u64) -> u64 {
        time_of_ms(wall_ms.saturating_sub(self.limits.grace_ms))
    }

    /// Lets nothing up to `time` into a partition any more. A line above this node's own is refused: who drew it has a
    /// clock that is ahead.
    pub fn raise_floor<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        routing: &Routing,
        (partition, epoch): (Partition, Epoch),
        time: u64,
    ) -> Result<std::result::Result<(), Refusal>> {
        if let Err(refusal) = self.admits_round(routing, partition, epoch) {
            return Ok(Err(refusal));
        }
        if time > self.line(now.wall_ms) && !self.mutations.takes_any_line() {
            return Ok(Err(Refusal::FarAhead));
        }
        if !tables.has_room_for(false, FACT_BYTES)? {
            return Ok(Err(Refusal::Full));
        }
        self.change(tables, partition, |state| state.floor = state.floor.max(time))?;
        Ok(Ok(()))
    }

    /// Notes that all replicas agree up to `time`, and that a far horizon was none.
    pub fn raise_horizon<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        routing: &Routing,
        (partition, epoch): (Partition, Epoch),
        (time, from_max): (u64, u8),
    ) -> Result<std::result::Result<(), Refusal>> {
        if let Err(refusal) = self.admits_round(routing, partition, epoch) {
            return Ok(Err(refusal));
        }
        if self.state(partition).floor < time {
            return Ok(Err(Refusal::NotReady));
        }
        if !tables.has_room_for(false, FACT_BYTES)? {
            return Ok(Err(Refusal::Full));
        }
        let is_far = has_far_horizon(self, now.wall_ms, partition);
        self.change(tables, partition, |state| {
            if time > state.horizon || is_far {
                (state.horizon, state.horizon_from_max) = (time, from_max);
            }
        })?;
        Ok(Ok(()))
    }

    /// Rounds are of one epoch, in which the partition's replicas do not change.
    fn admits_round(&self, routing: &Routing, partition: Partition, epoch: Epoch) -> Result<(), Refusal> {
        if epoch < routing.floor(partition) {
            return Err(Refusal::StaleEpoch);
        }
        let state = self.state(partition);
        match routing.least_from(partition, self.own) {
            Some(least) if state.have <= least && !state.is_dirty && !routing.is_changing(partition) => Ok(()),
            Some(_) => Err(Refusal::NotReady),
            None => Err(Refusal::NotReplica),
        }
    }
}

/// The value of a record that is an entity at a moment.
pub(super) fn live_value(bytes: &[u8], wall_ms: u64) -> Option<&[u8]> {
    let record = Record::decode(bytes)?;
    debug_assert!(matches!(record.state, State::Live { .. }));
    record.value_at(wall_ms)
}

const _: () = assert!(PARTITION_BYTES + 1 == PREFIX_BYTES);
