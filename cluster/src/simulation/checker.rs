//! Judges a history. Each write has a version and each read returns one, so the rules are comparisons, not a search:
//!
//! 1. What a read returns was written by a write that began before the read ended; one version is one write.
//! 2. It is not older than any write that was acknowledged before the read began, where their quorums meet.
//! 3. Of two writes whose quorums meet, one that was acknowledged before the other began has the lower version.
//! 4. After a blocking read has ended, reads whose quorum meets its own return nothing older.
//! 5. In the end all replicas hold the same, and nothing older than what was acknowledged.
//! 6. Counts lie between the keys that are surely there and those that may be; in the end they are exact.
//! 7. A write shows under one version only: what was seen and then overwritten does not come back above that.
//! 8. A key that was put is not absent under that version, unless its deadline has passed by the clock of the node that
//!    answers; and what has passed it is no value.
//! 9. A write that was refused for lack of space was not made: it is never read.
//! 10. In the end no node waits for an answer for longer than any operation does: whom it waits for counts as slow.
//!
//! A count may lack entities with a `from` of which its node could not hear: it was cut off when the first was written.
//!
//! In the end, when faults are over and clocks right, each node takes writes of each key.
//!
//! Quorums meet if `ack + ack` is more than the larger `from`. A write that was answered "not enough replicas", or not
//! at all, may show at any time. What was acknowledged by no more replicas than stores were erased may be lost.
//!
//! A tombstone goes after the grace period, and with it the version: an absent key without a version is no older than a
//! removal, or an expiry, with a version below any line that a round may have drawn: the grace period before a moment
//! that the clocks of as many slots as there are replicas had shown.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Ask, Fault, FaultKind, Operation, value_of};
use super::slot::{BEGIN_MS, Place};
use super::world::{Event, PLAN_BEGINS_US, SKEW_MS_MAX, World};
use crate::api::Answer;
use crate::clock::ms_of_time;
use crate::ids::{Quorum, Version};
use crate::record::{Record, State, parse_row_key};
use crate::tables::Table;

/// How long after a node was cut off it may not have heard yet what others told meanwhile: it is probed every 50 ms,
/// and answers may take as long again.
const HEARING_US: u64 = 200_000;

fn meet(a: Quorum, b: Quorum) -> bool {
    a.ack + b.ack > a.from.max(b.from)
}

/// The operation that wrote a value.
fn writer(value: &[u8]) -> Option<usize> {
    let number = u64::from_le_bytes(*value.first_chunk()?) as usize;
    (value == value_of(number)).then_some(number)
}

struct Judge<'w> {
    world: &'w World,
    /// Events of operations in the plan.
    events: Vec<(&'w Event, &'w Operation)>,
}

/// Checks all rules but the last parts of 5 and 6, which look at the end.
///
/// # Errors
/// What is wrong, in words.
pub fn check(world: &World) -> Result<(), String> {
    let with_operation =
        world.history.iter().filter_map(|event| Some((event, world.plan.operations.get(event.operation)?)));
    let judge = Judge { world, events: with_operation.collect() };
    judge.sources()?;
    judge.order_of_writes()?;
    judge.reads()?;
    judge.counts()?;
    judge.end()
}

impl Judge<'_> {
    fn invoked(&self, operation: usize) -> Option<u64> {
        self.events.iter().find(|(event, _)| event.operation == operation).map(|(event, _)| event.invoked_us)
    }

    /// Rules 1 and 9.
    fn sources(&self) -> Result<(), String> {
        let refused: BTreeSet<usize> = self
            .events
            .iter()
            .filter(|(event, _)| event.answer == Some(Answer::Full))
            .map(|(event, _)| event.operation)
            .collect();
        let mut versions = BTreeMap::new();
        let mut shown: BTreeMap<usize, Version> = BTreeMap::new();
        for (event, operation) in &self.events {
            let (version, number) = match &event.answer {
                Some(Answer::Value { version, value, .. }) => {
                    let number = writer(value).ok_or_else(|| format!("no write has what {event:?} returns"))?;
                    let source = &self.world.plan.operations[number];
                    let began = self.invoked(number).unwrap_or(u64::MAX);
                    if source.key != operation.key || began > event.ended_us.unwrap_or(0) {
                        return Err(format!("{event:?} returns what operation {number} has not written yet"));
                    }
                    if refused.contains(&number) {
                        return Err(format!("{event:?} returns what operation {number} was refused for lack of space"));
                    }
                    (*version, number)
                }
                Some(Answer::Written { version }) => (*version, event.operation),
                _ => continue,
            };
            let known = *versions.entry((operation.key, version)).or_insert(number);
            if known != number {
                return Err(format!("version {version} is of operations {known} and {number}"));
            }
            let first = *shown.entry(number).or_insert(version);
            if first != version {
                return Err(format!("operation {number} shows under {first} and under {version}: {event:?}"));
            }
        }
        self.absences(&versions)
    }

    /// Rule 8, of keys whose versions are known.
    fn absences(&self, versions: &BTreeMap<(u8, Version), usize>) -> Result<(), String> {
        for (read, operation) in &self.events {
            let ended_us = read.ended_us.unwrap_or(read.invoked_us);
            let (earliest_ms, latest_ms) = self.world.slots[operation.slot].walls(read.invoked_us, ended_us);
            match &read.answer {
                Some(Answer::Value { deadline_ms, .. }) if *deadline_ms > 0 && earliest_ms >= *deadline_ms => {
                    return Err(format!("{read:?} of {operation:?} has expired"));
                }
                Some(Answer::Absent { version: Some(version) }) => {
                    let Some(number) = versions.get(&(operation.key, *version)) else { continue };
                    let write = &self.world.plan.operations[*number];
                    let began_us = self.invoked(*number).unwrap_or(0);
                    let deadline_ms = match write.ask {
                        Ask::Delete => continue,
                        // By the earlier of two clocks, if the clock was set in that moment.
                        Ask::Put { ttl_ms } if ttl_ms > 0 => {
                            self.world.slots[write.slot].walls(began_us, began_us).0 + ttl_ms
                        }
                        _ => u64::MAX,
                    };
                    // Lost with stores that were erased, or where enough clocks were ahead of the deadline. One replica
                    // may be all that has it until the write is acknowledged.
                    let acknowledged = self.events.iter().any(|(event, _)| {
                        event.operation == *number
                            && matches!(event.answer, Some(Answer::Written { .. }))
                            && event.ended_us.is_some_and(|ended_us| ended_us <= read.invoked_us)
                    });
                    let ahead = self.latest_walls(ended_us).filter(|wall_ms| *wall_ms >= deadline_ms).count() as u64;
                    let ack = if acknowledged { u64::from(write.quorum.ack) } else { 1 };
                    if latest_ms < deadline_ms && ack > self.world.erased + ahead {
                        return Err(format!("{read:?} of {operation:?} is absent, which {number}, {write:?}, has put"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn acknowledged(&self) -> impl Iterator<Item = (&Event, &Operation, Version)> {
        self.events.iter().filter_map(|(event, operation)| match event.answer {
            Some(Answer::Written { version }) if u64::from(operation.quorum.ack) > self.world.erased => {
                Some((*event, *operation, version))
            }
            _ => None,
        })
    }

    /// Rule 3.
    fn order_of_writes(&self) -> Result<(), String> {
        for (first, one, lower) in self.acknowledged() {
            for (second, other, higher) in self.acknowledged() {
                let is_before = first.ended_us.is_some_and(|ended| ended < second.invoked_us);
                if one.key == other.key && is_before && meet(one.quorum, other.quorum) && lower >= higher {
                    return Err(format!("{second:?} began after {first:?} was acknowledged, and has a lower version"));
                }
            }
        }
        Ok(())
    }

    /// The highest line that a round can have drawn up to a moment.
    fn line_ms(&self, at_us: u64) -> u64 {
        let mut walls: Vec<u64> = self.latest_walls(at_us).collect();
        walls.sort_unstable_by(|a, b| b.cmp(a));
        let replicas = usize::from(self.world.plan.replicas);
        walls.get(replicas - 1).map_or(0, |wall_ms| wall_ms.saturating_sub(self.world.limits.grace_ms))
    }

    /// The latest that the wall clocks of all slots that were used have shown up to a moment.
    fn latest_walls(&self, at_us: u64) -> impl Iterator<Item = u64> + '_ {
        let used = (0..self.world.slots.len()).filter(|slot| self.world.slots[*slot].life > 0);
        used.map(move |slot| self.world.slots[slot].walls(0, at_us).1)
    }

    /// Whether a key could be absent without a version at a moment, though it had this version.
    fn may_be_forgotten(&self, key: u8, version: Version, at_us: u64) -> bool {
        let line_ms = self.line_ms(at_us);
        self.events.iter().any(|(event, operation)| {
            let removes = match operation.ask {
                Ask::Delete => true,
                Ask::Put { ttl_ms } => ttl_ms > 0,
                _ => false,
            };
            let is_below = match event.answer {
                Some(Answer::Written { version: other }) => other >= version && ms_of_time(other.time) <= line_ms,
                // Of an unknown version.
                _ => self.has_wrong_clocks() || BEGIN_MS + event.invoked_us / 1000 <= line_ms + 7000,
            };
            operation.key == key && removes && is_below
        })
    }

    fn has_wrong_clocks(&self) -> bool {
        let is_far = |skew_ms: &i64| skew_ms.abs() > SKEW_MS_MAX;
        let is_wrong = |fault: &Fault| matches!(fault.kind, FaultKind::WrongClock { .. });
        self.world.plan.skews_ms.iter().any(is_far) || self.world.plan.faults.iter().any(is_wrong)
    }

    /// Rules 2 and 4.
    fn reads(&self) -> Result<(), String> {
        // What was put for good.
        let is_for_good = |operation: &Operation| matches!(operation.ask, Ask::Put { ttl_ms: 0 } | Ask::Swap);
        let puts: BTreeSet<(u8, Version)> = self
            .events
            .iter()
            .filter_map(|(event, operation)| match &event.answer {
                Some(Answer::Written { version }) if is_for_good(operation) => Some((operation.key, *version)),
                _ => None,
            })
            .collect();
        for (read, operation) in &self.events {
            let version = match &read.answer {
                Some(Answer::Value { version, .. }) => *version,
                // Lost with a store, and all that was there before with it.
                Some(Answer::Absent { version: Some(version) }) if puts.contains(&(operation.key, *version)) => {
                    Version::ZERO
                }
                Some(Answer::Absent { version }) => version.unwrap_or(Version::ZERO),
                _ => continue,
            };
            let is_bare = matches!(read.answer, Some(Answer::Absent { version: None }));
            let check = |bound: Version, what: &Event| {
                let is_fine = version >= bound
                    || is_bare && self.may_be_forgotten(operation.key, bound, read.ended_us.unwrap_or(0));
                match is_fine {
                    true => Ok(()),
                    false => Err(format!("{read:?} of {operation:?} is older than {what:?}")),
                }
            };
            for (write, other, written) in self.acknowledged() {
                let is_before = write.ended_us.is_some_and(|ended| ended < read.invoked_us);
                if other.key == operation.key && is_before && meet(other.quorum, operation.quorum) {
                    check(written, write)?;
                }
            }
            for (earlier, other) in &self.events {
                let is_blocking = other.ask == Ask::Get { is_blocking: true };
                let is_before = earlier.ended_us.is_some_and(|ended| ended < read.invoked_us);
                let is_kept = u64::from(other.quorum.ack) > self.world.erased;
                if let Some(Answer::Value { version: seen, .. }) = &earlier.answer
                    && is_blocking
                    && is_before
                    && is_kept
                    && other.key == operation.key
                    && meet(other.quorum, operation.quorum)
                {
                    check(*seen, earlier)?;
                }
            }
        }
        Ok(())
    }

    /// Rule 6, while things go on.
    fn counts(&self) -> Result<(), String> {
        for (count, counting) in &self.events {
            let (rows, unseen) = match &count.answer {
                Some(Answer::Count { rows, sources }) => (*rows, !sources.unseen.is_empty()),
                Some(Answer::Page { total, sources, .. }) => (*total, !sources.unseen.is_empty()),
                _ => continue,
            };
            let (mut least, mut most) = (0, 0);
            for key in 0..=u8::MAX {
                let writes: Vec<&(&Event, &Operation)> =
                    self.events.iter().filter(|(_, op)| op.key == key && writes(&op.ask)).collect();
                let ended = count.ended_us.unwrap_or(0);
                let mut classes: Vec<u8> = writes
                    .iter()
                    .filter(|(event, op)| op.ask != Ask::Delete && event.invoked_us <= ended)
                    .map(|(_, op)| op.quorum.from)
                    .collect();
                classes.sort_unstable();
                classes.dedup();
                // A key that was written with another `from` counts in both until the replicas have heard of it.
                most += classes.len() as u64;
                // Surely there: written to all replicas, and nothing that could have removed it afterwards.
                let is_sure = writes.iter().any(|(event, op)| {
                    let is_whole = op.quorum.ack == op.quorum.from && self.world.erased == 0;
                    let is_put = matches!(op.ask, Ask::Put { ttl_ms: 0 });
                    let is_done = matches!(event.answer, Some(Answer::Written { .. }))
                        && event.ended_us.is_some_and(|ended| ended < count.invoked_us);
                    is_whole
                        && is_put
                        && is_done
                        && writes.iter().all(|(_, other)| matches!(other.ask, Ask::Put { ttl_ms: 0 }))
                        && classes.len() == 1
                        && self.may_have_heard(count, counting.slot, op.quorum.from)
                });
                least += u64::from(is_sure);
            }
            if rows > most || !unseen && rows < least {
                return Err(format!("{count:?} is not between {least} and {most}"));
            }
        }
        Ok(())
    }

    /// Whether a count's node may have heard that entities with this `from` exist: of one that was asked for before,
    /// neither that node nor the one that was asked was cut off until shortly before the count was answered.
    fn may_have_heard(&self, count: &Event, slot: usize, from: u8) -> bool {
        let Some(ended_us) = count.ended_us else { return true };
        let at_us = |ms: u64| ms * 1000 + PLAN_BEGINS_US;
        let mut of_class = self.events.iter().filter(|(_, op)| op.quorum.from == from);
        of_class.any(|(event, op)| {
            let is_in_the_way = |fault: &Fault| match fault.kind {
                FaultKind::Isolate { slot: isolated } => isolated == slot || isolated == op.slot,
                FaultKind::Cut { from, to } => to == slot || from == op.slot,
                _ => false,
            };
            let lasts = |fault: &Fault| {
                let over_us = at_us(fault.at_ms + fault.for_ms) + HEARING_US;
                at_us(fault.at_ms) <= event.invoked_us && over_us >= ended_us
            };
            event.invoked_us <= count.invoked_us
                && !self.world.plan.faults.iter().any(|fault| is_in_the_way(fault) && lasts(fault))
        })
    }

    /// Rule 5: what was acknowledged is there in the end, or something newer.
    fn end(&self) -> Result<(), String> {
        let newest = newest_rows(self.world);
        let now_us = self.world.now_us;
        for (write, operation, version) in self.acknowledged() {
            let key = vec![b'k', operation.key];
            let found = newest.get(&key).copied().unwrap_or(Version::ZERO);
            let is_excused = self.may_be_forgotten(operation.key, version, now_us);
            if found < version && !is_excused {
                return Err(format!("{write:?} of {operation:?} is lost: the newest is {found}"));
            }
        }
        Ok(())
    }
}

fn writes(ask: &Ask) -> bool {
    matches!(ask, Ask::Put { .. } | Ask::Delete | Ask::Swap)
}

/// The newest version of each key anywhere.
fn newest_rows(world: &World) -> BTreeMap<Vec<u8>, Version> {
    let mut newest: BTreeMap<Vec<u8>, Version> = BTreeMap::new();
    for (_, slot) in world.up() {
        for table in [Table::Entities, Table::Graves] {
            for (row, value) in slot.store.rows(table) {
                if let (Some((_, _, key)), Some(record)) = (parse_row_key(&row), Record::decode(&value)) {
                    let version = newest.entry(key.to_vec()).or_default();
                    *version = (*version).max(record.version);
                }
            }
        }
    }
    newest
}

/// Keys that are there in the end, on their replicas.
pub fn live_keys(world: &World, wall_ms: u64) -> BTreeMap<Vec<u8>, (Version, Vec<u8>)> {
    let mut live = BTreeMap::new();
    for (_, slot) in world.up() {
        for (row, value) in slot.store.rows(Table::Entities) {
            if let (Some((_, _, key)), Some(record)) = (parse_row_key(&row), Record::decode(&value))
                && let Some(value) = record.value_at(wall_ms)
            {
                live.insert(key.to_vec(), (record.version, value.to_vec()));
            }
        }
    }
    live
}

/// What is not yet as it must be in the end; empty if all is.
pub fn not_healed(world: &World) -> String {
    let topology = world.agreed.topology();
    if topology.change.is_some() {
        return format!("a change is under way at {:?}: ready are {:?}", topology.epoch, topology.ready);
    }
    for (number, slot) in world.slots.iter().enumerate() {
        match (slot.place, &slot.node) {
            (Place::Empty, _) => {}
            (Place::Up, Some(node)) => {
                if node.routing().epoch() != topology.epoch {
                    return format!("slot {number} knows {:?} of {:?}", node.routing().epoch(), topology.epoch);
                }
                if !slot.store.rows(Table::Hints).is_empty() {
                    return format!("slot {number} has hints");
                }
            }
            (place, _) => return format!("slot {number} is {place:?}"),
        }
    }
    replicas_differ(world).unwrap_or_default()
}

/// The questions that each node waits for an answer to.
pub fn questions(world: &World) -> BTreeSet<(usize, u64)> {
    let nodes = world.up().filter_map(|(slot, machine)| Some((slot, machine.node.as_ref()?)));
    nodes.flat_map(|(slot, node)| node.questions().into_iter().map(move |question| (slot, question))).collect()
}

/// Where two replicas differ, or one has what it should not; none if nowhere.
pub fn replicas_differ(world: &World) -> Option<String> {
    let topology = world.agreed.topology();
    let mut rows: BTreeMap<Vec<u8>, BTreeMap<usize, Vec<u8>>> = BTreeMap::new();
    for (number, slot) in world.up() {
        for table in [Table::Entities, Table::Graves] {
            for (row, value) in slot.store.rows(table) {
                rows.entry(row).or_default().insert(number, value);
            }
        }
    }
    for (row, holders) in rows {
        let (partition, from, _) = parse_row_key(&row)?;
        let replicas = world.agreed.read_set(partition, from);
        let is_replica = |slot: usize| replicas.contains(&world.slots[slot].id);
        if let Some(slot) = holders.keys().find(|slot| !is_replica(**slot)) {
            return Some(format!("slot {slot} keeps a row of {partition} from {from}, which is not its to keep"));
        }
        let mut values: Vec<&[u8]> = holders.values().map(Vec::as_slice).collect();
        values.dedup();
        if values.len() > 1 || holders.len() != replicas.len().min(topology.members.len()) {
            let records: Vec<_> = holders.iter().map(|(slot, value)| (slot, Record::decode(value))).collect();
            let buried = holders
                .values()
                .all(|value| Record::decode(value).is_some_and(|record| !matches!(record.state, State::Live { .. })));
            let horizons: Vec<_> =
                world.up().filter_map(|(_, slot)| Some(slot.node.as_ref()?.replica().state(partition))).collect();
            let key = row.escape_ascii();
            return Some(format!(
                "{replicas:?} of {key} in {partition} from {from} hold {records:?} (graves: {buried}), {horizons:?}",
            ));
        }
    }
    None
}
