//! A replica: the rows that this node keeps, and its answers to others about them.
//!
//! Invariants:
//! 1. A key and class has one row, in `entities` or `graves`: the newest that arrived.
//! 2. A write is confirmed only if it is in the tables of this turn; if they have a newer version, the answer is
//!    `Older`.
//! 3. Rows are read and counted only where the replica has all of them: a partition that it still copies, or a store
//!    that is new, answers `NotReady`. ([`PartitionState::have`])
//! 4. A write is accepted only above the partition's floor. A row from another replica that is not above the horizon,
//!    and whose key is absent here, is accepted only if the sender had reached that horizon when it read the row.
//!    Tombstones up to the horizon are dropped, so no removed value can come back (`node/repair.rs`).
//! 5. A message from before the epoch that a partition's replicas must know is refused.
//! 6. A line that is drawn for this replica (a floor, and with it the horizon) is not above its own wall clock less the
//!    grace period; a version is not further ahead than clocks may be, unless it is stored somewhere already.
//!
//! Costs: a write is a look-up for each class in use (in practice one) and one to three puts.
//!
//! Not here: who is asked, and what repair asks ([`node`](crate::node)).

mod ask;
pub(crate) mod compare;
pub(crate) mod rows;
mod state;
mod store;

pub use ask::{Cuts, KeyPage, Part};
pub use state::PartitionState;
pub use store::{Found, Origin, Verdict};
pub(crate) use store::{found_order, found_record};

use std::collections::BTreeMap;

use quipu::Result;

use crate::clock::time_of_ms;
use crate::codec::{Fields, Put};
use crate::ids::{Epoch, NodeId, Now, Partition, Version};
use crate::limits::Limits;
use crate::mutations::Mutations;
use crate::protocol::Refusal;
use crate::routing::Routing;
use crate::tables::{Table, Tables};

/// The rows of this node.
#[derive(Clone, Debug)]
pub struct Replica {
    own: NodeId,
    limits: Limits,
    /// Of each partition of which anything is known.
    states: BTreeMap<Partition, PartitionState>,
    /// Which `from` have ever had a row here, a bit each.
    classes: u32,
    /// The highest timestamp stored.
    newest: u64,
    /// Faults that a test puts in.
    pub(crate) mutations: Mutations,
}

const CLASSES: &[u8] = b"classes";

impl Replica {
    /// Reads what the tables say.
    pub fn open<T: Tables>(own: NodeId, limits: Limits, tables: &T) -> Result<Replica> {
        let classes = tables.get(Table::Facts, CLASSES)?.and_then(|bytes| Fields(&bytes).u32()).unwrap_or(0);
        let mut states = BTreeMap::new();
        tables.scan(Table::Facts, &[state::FACT], &[state::FACT + 1], usize::MAX, |key, value| {
            if let Some((partition, state)) = PartitionState::decode(key, value) {
                states.insert(partition, state);
            }
            true
        })?;
        Ok(Replica { own, limits, states, classes, newest: 0, mutations: Mutations::default() })
    }

    /// Notes that a new store has all rows that its node keeps, because no node has any yet.
    pub fn found<T: Tables>(&mut self, routing: &Routing, tables: &mut T) -> Result<()> {
        for partition in routing.partitions() {
            if let Some(from) = routing.least_from(partition, self.own) {
                self.change(tables, partition, |state| state.have = from)?;
            }
        }
        Ok(())
    }

    /// What is known of a partition.
    pub fn state(&self, partition: Partition) -> PartitionState {
        self.states.get(&partition).copied().unwrap_or_default()
    }

    /// Whether an entity that is absent here has been up to this version for good. A horizon above the line that this
    /// node's clock allows is of a time when the clocks of all replicas were ahead. One that has come since has not
    /// reached it, and will not soon: above the line rows of both are compared as if there were no horizon.
    fn is_absent_for_good(&self, wall_ms: u64, partition: Partition, from: u8, version: Version) -> bool {
        let is_due = version.time <= self.line(wall_ms);
        let trusts_any = self.mutations.drops_graves_early() || self.mutations.trusts_any_horizon();
        self.state(partition).is_absent_for_good(from, version.time) && (is_due || trusts_any)
    }

    /// All partitions of which something is known.
    pub fn states(&self) -> impl Iterator<Item = (Partition, PartitionState)> + '_ {
        self.states.iter().map(|(partition, state)| (*partition, *state))
    }

    /// Which `from` are in use here, a bit each.
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// Changes what is known of a partition, durably.
    pub fn change<T: Tables>(
        &mut self,
        tables: &mut T,
        partition: Partition,
        change: impl FnOnce(&mut PartitionState),
    ) -> Result<()> {
        let before = self.state(partition);
        let mut state = before;
        change(&mut state);
        if state == before {
            return Ok(());
        }
        if state == PartitionState::default() {
            self.states.remove(&partition);
            return tables.remove(Table::Facts, &PartitionState::key(partition));
        }
        self.states.insert(partition, state);
        tables.put(Table::Facts, &PartitionState::key(partition), &state.encode())
    }

    fn note_class<T: Tables>(&mut self, tables: &mut T, from: u8) -> Result<()> {
        let with = self.classes | 1 << (from - 1);
        if with != self.classes {
            self.classes = with;
            let mut bytes = Vec::new();
            bytes.put_u32(with);
            tables.put(Table::Facts, CLASSES, &bytes)?;
        }
        Ok(())
    }

    /// The classes in use, ascending.
    pub(crate) fn classes_in_use(&self) -> impl Iterator<Item = u8> + use<> {
        let classes = self.classes;
        (1..=32u8).filter(move |from| classes >> (from - 1) & 1 == 1)
    }

    /// Whether a message of `epoch` may write rows of this class here.
    fn admits(&self, routing: &Routing, partition: Partition, from: u8, epoch: Epoch) -> Result<(), Refusal> {
        if epoch < routing.floor(partition) {
            return Err(Refusal::StaleEpoch);
        }
        if routing.least_from(partition, self.own).is_none_or(|least| from < least) {
            return Err(Refusal::NotReplica);
        }
        if self.state(partition).is_dirty {
            return Err(Refusal::NotReady);
        }
        Ok(())
    }

    /// Whether a message of `epoch` may be answered from the rows of a partition, of classes from `from` on.
    pub fn serves(&self, routing: &Routing, partition: Partition, from: u8, epoch: Epoch) -> Result<(), Refusal> {
        if epoch < routing.floor(partition) {
            return Err(Refusal::StaleEpoch);
        }
        let (current, next) = routing.orders(partition);
        let place = |order: &[NodeId]| order.iter().position(|node| *node == self.own).map(|place| place as u8 + 1);
        let least = [place(current), next.and_then(place)];
        if least.iter().flatten().all(|least| from < *least) {
            return Err(Refusal::NotReplica);
        }
        // Complete in one of the orders that coordinators may go by.
        let state = self.state(partition);
        match least.iter().flatten().any(|least| from >= *least && state.have <= *least) && !state.is_dirty {
            true => Ok(()),
            false => Err(Refusal::NotReady),
        }
    }

    /// Whether a version is further ahead than clocks may be, and than what the key has.
    fn is_far_ahead(&self, now: Now, version: Version, stored: Option<Version>) -> bool {
        let bound = time_of_ms(now.wall_ms.saturating_add(self.limits.ahead_ms_max));
        let above_stored = stored.map_or(0, |stored| stored.time.saturating_add(time_of_ms(self.limits.ahead_ms_max)));
        version.time > bound.max(above_stored)
    }
}

#[cfg(test)]
mod tests;
