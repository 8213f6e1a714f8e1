//! The topology: members, settings, and the change under way, as a state machine over an agreed log.
//!
//! Every node applies the same entries in the same order, so every node has the same topology at the same epoch. What
//! agrees on the log is not here. Requests, hints, repair and counts need no agreement: they go on with the epoch that
//! a node knows.
//!
//! What the log must do: it gives every entry once and in order to a node that keeps its place, and may give a whole
//! [`Topology`] instead of entries that it no longer has. It may lose what is proposed or append it twice: entries are
//! idempotent, and are proposed again until they have an effect. Nothing is expected of its speed.
//!
//! A change (members added, removed, replaced) goes through three epochs, and reads and writes go on in all of them:
//!
//! | epoch | written to | read from | meanwhile |
//! |---|---|---|---|
//! | before | old replicas | old | |
//! | `Copying` | old and new, `ack` of each | old | new replicas copy from *all* old ones |
//! | `Switched` | old and new, `ack` of each | new | |
//! | after | new | new | old ones drop what they no longer keep |
//!
//! While new replicas copy, a change can be given up ([`Entry::Abort`]): the next epoch is as before the change.
//!
//! Invariants:
//! 1. An epoch ends only after every member that is not declared dead has said, in the log, that it knows the epoch
//!    durably; the epoch of copying, that it has copied what it must. So two members are at most one epoch apart, and
//!    no node reads from old replicas what is written to new ones only. The one exception is a change that is given up:
//!    before it, in it and after it all read from the old replicas and write to them, and the next change begins when
//!    all know that it is over.
//! 2. If the replicas of a partition change, a replica refuses messages that were sent before the epoch that it must
//!    know: [`Topology::floor`]. So nothing is written to old replicas alone after they were copied, or dropped.
//! 3. An id is given once. A node whose store is gone gets a new one; the old is declared dead.
//!
//! A change whose new node is declared dead before all has been copied is given up: the next epoch is as before it.
//!
//! Rows that only a dead member had are lost; with `ack = 1` that may be an acknowledged write. The operator of the
//! cluster declares a member dead, or the loss of its store proves it.

mod codec;

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::Put;
use crate::ids::{Epoch, NodeId, Partition};
use crate::mutations::Mutations;
use crate::placement::{Candidate, FROM_MAX, Placement, WEIGHT, partitions_for};

/// Tells apart the data directories that a node has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// What is decided when a cluster is formed, and is the same on all nodes: with other numbers a node would look for an
/// entity in other places, or compare rows by other hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Replicas of an entity where a request says nothing.
    pub replicas: u8,
    /// The number of partitions.
    pub partitions: u32,
    /// A hash of the seed of keys and rows.
    pub seed: u64,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where others reach it.
    pub url: String,
    /// Its zone, for placement.
    pub zone: String,
    /// Its weight, for placement.
    pub weight: u32,
    /// Its data directory; unknown (0) until it was claimed.
    pub store: StoreId,
    /// Whether it was declared dead: no node waits for it any more.
    pub is_dead: bool,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// New replicas copy; reads ask old ones.
    Copying,
    /// Reads ask new ones; old ones are still written to.
    Switched,
}

/// A change under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its first epoch.
    pub begun: Epoch,
    /// How far it has come.
    pub phase: Phase,
    /// Who keeps data when it is done.
    pub goal: BTreeSet<NodeId>,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Begins a change, if this is still the epoch and every living member knows it.
    Change {
        /// The epoch that the proposer knew.
        expected: Epoch,
        /// Members that come, in the order in which they get ids.
        add: Vec<Member>,
        /// Members that leave.
        remove: Vec<NodeId>,
        /// Members that leave and are dead.
        dead: Vec<NodeId>,
    },
    /// A member knows the epoch, and has copied what it must.
    Ready {
        /// Which.
        node: NodeId,
        /// The epoch.
        epoch: Epoch,
    },
    /// A member is dead, and is not waited for.
    Dead {
        /// Which.
        node: NodeId,
    },
    /// A member has this store, and no longer the one that the proposer knew.
    Claim {
        /// Which.
        node: NodeId,
        /// Its store.
        store: StoreId,
        /// The store that the proposer knew: 0 before the first claim, another if the node has returned under its id
        /// with an empty directory.
        instead_of: StoreId,
    },
    /// Gives up the change under way, if this is still its epoch of copying.
    Abort {
        /// The epoch that the proposer knew.
        expected: Epoch,
    },
}

/// What the members agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Tells this cluster from others.
    pub cluster: u64,
    /// Changes when placement or its phase does.
    pub epoch: Epoch,
    /// The number of the last entry applied.
    pub applied: u64,
    /// Seeds the hash of keys and that of rows.
    pub seed: u64,
    /// The number of partitions, a power of two, fixed for life.
    pub partitions: u32,
    /// Replicas of an entity where a request says nothing.
    pub replicas: u8,
    /// All members, those that come or leave included.
    pub members: BTreeMap<NodeId, Member>,
    /// Who keeps data, or did before the change.
    pub placed: BTreeSet<NodeId>,
    /// The change under way.
    pub change: Option<Change>,
    /// Who has said that it knows this epoch.
    pub ready: BTreeSet<NodeId>,
    /// The id of the next new member.
    pub next_id: u16,
    /// The oldest epoch of messages for each partition.
    floors: Vec<Epoch>,
}

impl Topology {
    /// Epoch 0: the list of nodes at formation. The ids of nodes are their places in the sorted list of addresses.
    /// `seed` seeds the hashes of keys and rows; what is 0 of `partitions` and `replicas` is chosen by the number of
    /// nodes.
    pub fn founded(members: &[(String, String)], seed: u64, partitions: u32, replicas: u8) -> Topology {
        let mut members: Vec<&(String, String)> = members.iter().collect();
        members.sort_unstable();
        members.dedup_by_key(|(url, _)| url.as_str());
        let partitions = if partitions == 0 { partitions_for(members.len()) } else { partitions };
        let all = members.len().min(usize::from(FROM_MAX)) as u8;
        let mut names = Vec::new();
        members.iter().for_each(|(url, _)| names.put_short(url.as_bytes()));
        Topology {
            cluster: xxhash_rust::xxh3::xxh3_64(&names),
            epoch: Epoch(0),
            applied: 0,
            seed,
            partitions,
            replicas: if replicas == 0 { all } else { replicas },
            placed: (0..members.len() as u16).map(NodeId).collect(),
            ready: (0..members.len() as u16).map(NodeId).collect(),
            next_id: members.len() as u16,
            members: (0..)
                .map(NodeId)
                .zip(members.into_iter().map(|(url, zone)| Member {
                    url: url.clone(),
                    zone: zone.clone(),
                    weight: WEIGHT,
                    store: StoreId(0),
                    is_dead: false,
                }))
                .collect(),
            change: None,
            floors: vec![Epoch(0); partitions as usize],
        }
    }

    /// What all nodes must have been told alike.
    pub fn settings(&self) -> Settings {
        // The seed itself is not told: a client that knows it can choose rows whose hashes sum alike.
        let seed = xxhash_rust::xxh3::xxh3_64(&[b"seed", &self.seed.to_le_bytes()[..]].concat());
        Settings { replicas: self.replicas, partitions: self.partitions, seed }
    }

    /// The table for some of the members.
    pub fn placement(&self, of: &BTreeSet<NodeId>) -> Placement {
        let candidate = |node: &NodeId| {
            let member = self.members.get(node)?;
            Some(Candidate { node: *node, zone: member.zone.clone(), weight: member.weight })
        };
        let candidates: Vec<Candidate> = of.iter().filter_map(candidate).collect();
        Placement::new(&candidates, self.partitions, self.replicas)
    }

    /// The oldest epoch whose messages a replica of the partition takes.
    pub fn floor(&self, partition: Partition) -> Epoch {
        self.floors.get(usize::from(partition.0)).copied().unwrap_or_default()
    }

    /// Members that are waited for.
    pub fn living(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|(_, member)| !member.is_dead).map(|(node, _)| *node)
    }

    /// Applies entry number `number`. Returns whether the epoch is another.
    pub fn apply(&mut self, number: u64, entry: &Entry) -> bool {
        self.apply_with(number, entry, Mutations::default())
    }

    /// The same, with the faults that a test puts in.
    pub(crate) fn apply_with(&mut self, number: u64, entry: &Entry, mutations: Mutations) -> bool {
        if number <= self.applied {
            return false;
        }
        self.applied = number;
        let before = self.epoch;
        match entry {
            Entry::Change { expected, add, remove, dead } => self.begin(*expected, add, remove, dead),
            Entry::Ready { node, epoch } => {
                if *epoch == self.epoch && self.members.contains_key(node) {
                    self.ready.insert(*node);
                }
            }
            Entry::Dead { .. } if mutations.dead_wait_for_change() && self.change.is_some() => {}
            Entry::Dead { node } => {
                if let Some(member) = self.members.get_mut(node) {
                    member.is_dead = true;
                }
                if !mutations.dead_get_places() && self.gives_places_to_the_dead() {
                    self.give_up();
                }
            }
            Entry::Claim { node, store, instead_of } => {
                if let Some(member) = self.members.get_mut(node).filter(|member| member.store == *instead_of) {
                    member.store = *store;
                }
            }
            Entry::Abort { .. } if mutations.abort_is_ignored() => {}
            Entry::Abort { expected } => self.abort(*expected),
        }
        if self.epoch == before && self.all_ready() {
            self.advance();
        }
        self.epoch != before
    }

    fn all_ready(&self) -> bool {
        self.living().all(|node| self.ready.contains(&node))
    }

    fn begin(&mut self, expected: Epoch, add: &[Member], remove: &[NodeId], dead: &[NodeId]) {
        let dead: BTreeSet<NodeId> = dead.iter().filter(|node| self.members.contains_key(node)).copied().collect();
        let is_ready = self.living().all(|node| dead.contains(&node) || self.ready.contains(&node));
        let is_known = |added: &Member| {
            let is_same = |(node, member): (&NodeId, &Member)| member.url == added.url && !dead.contains(node);
            self.members.iter().any(is_same)
        };
        if expected != self.epoch || self.change.is_some() || !is_ready || add.iter().any(is_known) {
            return;
        }
        // Those that were declared dead before go, too: a change gives them no places.
        let is_dead =
            |node: &NodeId| dead.contains(node) || self.members.get(node).is_some_and(|member| member.is_dead);
        let mut goal = self.placed.clone();
        goal.retain(|node| !remove.contains(node) && !is_dead(node));
        let room = usize::from(u16::MAX - self.next_id);
        if goal.len() + add.len() == 0 || add.len() > room || (add.is_empty() && goal == self.placed) {
            return;
        }
        for node in &dead {
            if let Some(member) = self.members.get_mut(node) {
                member.is_dead = true;
            }
        }
        for member in add {
            let node = NodeId(self.next_id);
            self.next_id += 1;
            goal.insert(node);
            self.members.insert(node, Member { is_dead: false, ..member.clone() });
        }
        self.epoch = self.epoch.next();
        self.raise_floors(&goal, self.epoch);
        self.change = Some(Change { begun: self.epoch, phase: Phase::Copying, goal });
        self.ready.clear();
    }

    /// Whether a change that copies gives places to a node that was to come and is dead, or what living replicas hold
    /// to dead ones alone: to go on would lose it. Then the next epoch is as before the change.
    fn gives_places_to_the_dead(&self) -> bool {
        let Some(Change { phase: Phase::Copying, goal, .. }) = &self.change else { return false };
        let is_living = |node: &NodeId| self.members.get(node).is_some_and(|member| !member.is_dead);
        if goal.iter().any(|node| !self.placed.contains(node) && !is_living(node)) {
            return true;
        }
        let (old, new) = (self.placement(&self.placed), self.placement(goal));
        old.all().any(|partition| {
            let (old, new) = (old.order(partition), new.order(partition));
            // Of entities with this `from`.
            (1..=old.len()).any(|from| {
                let has_living = |order: &[NodeId]| order[..from.min(order.len())].iter().any(is_living);
                has_living(old) && !has_living(new)
            })
        })
    }

    fn abort(&mut self, expected: Epoch) {
        let is_copying = self.change.as_ref().is_some_and(|change| change.phase == Phase::Copying);
        if expected == self.epoch && is_copying {
            self.give_up();
        }
    }

    /// Back to the placement before the change. Floors stay as they are: what the epoch of copying sends is written to
    /// the old replicas and read from them, as what the next one sends. Nodes that were declared dead stay so.
    fn give_up(&mut self) {
        self.change = None;
        self.members.retain(|node, _| self.placed.contains(node));
        self.epoch = self.epoch.next();
        self.ready.clear();
    }

    fn raise_floors(&mut self, goal: &BTreeSet<NodeId>, epoch: Epoch) {
        let (old, new) = (self.placement(&self.placed), self.placement(goal));
        for partition in old.all() {
            if old.order(partition) != new.order(partition) {
                self.floors[usize::from(partition.0)] = epoch;
            }
        }
    }

    /// The next phase of the change.
    fn advance(&mut self) {
        let Some(change) = &mut self.change else { return };
        match change.phase {
            Phase::Copying => change.phase = Phase::Switched,
            Phase::Switched => {
                let goal = std::mem::take(&mut change.goal);
                // Requests of the epoch that ends read and write the new replicas: they are still welcome.
                self.raise_floors(&goal, self.epoch);
                self.members.retain(|node, _| goal.contains(node));
                self.placed = goal;
                self.change = None;
            }
        }
        self.epoch = self.epoch.next();
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests;
