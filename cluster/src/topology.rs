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
//! 2. Of a partition whose replicas change, a replica refuses what was sent before the epoch that it must know:
//!    [`Topology::floor`]. So nothing is written to old replicas alone after they were copied, or dropped.
//! 3. An id is given once. A node whose store is gone gets a new one; the old is declared dead.
//!
//! A change whose new node is declared dead before all has been copied is given up: the next epoch is as before it.
//!
//! What a dead member alone had is lost; with `ack = 1` that may be an acknowledged write. That a member is dead is
//! said by whoever runs the cluster, or proven by its store being gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{Fields, Put};
use crate::ids::{Epoch, NodeId, Partition};
use crate::placement::{Candidate, FROM_MAX, Placement, WEIGHT, partitions_for};

/// Tells apart the data directories that a node has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// What is settled when a cluster is formed, and is the same on all nodes: with other numbers a node would look for an
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
    /// Whether it was declared dead: nobody waits for it any more.
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
    /// A member has this store. Only the first claim counts.
    Claim {
        /// Which.
        node: NodeId,
        /// Its store.
        store: StoreId,
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
        // The seed itself is not told: whoever knows it can choose rows whose hashes sum alike.
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
            Entry::Dead { node } => {
                if let Some(member) = self.members.get_mut(node) {
                    member.is_dead = true;
                }
                self.give_up_for(*node);
            }
            Entry::Claim { node, store } => {
                if let Some(member) = self.members.get_mut(node).filter(|member| member.store == StoreId(0)) {
                    member.store = *store;
                }
            }
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
        let mut goal = self.placed.clone();
        goal.retain(|node| !remove.contains(node) && !dead.contains(node));
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

    /// A node that was to come is dead before it had anything: the next epoch is as before the change. To go on would
    /// give its places to nobody, and the old replicas would drop what they hold.
    fn give_up_for(&mut self, dead: NodeId) {
        let is_to_come = |change: &Change| change.phase == Phase::Copying && change.goal.contains(&dead);
        if self.change.as_ref().is_some_and(is_to_come) && !self.placed.contains(&dead) {
            self.give_up();
        }
    }

    fn abort(&mut self, expected: Epoch) {
        let is_copying = self.change.as_ref().is_some_and(|change| change.phase == Phase::Copying);
        if expected == self.epoch && is_copying {
            self.give_up();
        }
    }

    /// Back to the placement of before. Floors stay as they are: what the epoch of copying sends is written to the old
    /// replicas and read from them, as what the next one sends. Nodes that were declared dead stay so.
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

fn put_member(bytes: &mut Vec<u8>, member: &Member) {
    bytes.put_short(member.url.as_bytes());
    bytes.put_short(member.zone.as_bytes());
    bytes.put_u32(member.weight);
    bytes.put_u64(member.store.0);
    bytes.put_u8(u8::from(member.is_dead));
}

fn member(fields: &mut Fields<'_>) -> Option<Member> {
    Some(Member {
        url: fields.text()?.to_owned(),
        zone: fields.text()?.to_owned(),
        weight: fields.u32()?,
        store: StoreId(fields.u64()?),
        is_dead: fields.bool()?,
    })
}

fn put_nodes<'n>(bytes: &mut Vec<u8>, nodes: impl ExactSizeIterator<Item = &'n NodeId>) {
    bytes.put_u16(nodes.len() as u16);
    nodes.for_each(|node| bytes.put_u16(node.0));
}

fn nodes<C: FromIterator<NodeId>>(fields: &mut Fields<'_>) -> Option<C> {
    let count = fields.u16()?;
    (0..count).map(|_| fields.node()).collect()
}

/// A set, in ascending order: no other bytes mean it.
fn node_set(fields: &mut Fields<'_>) -> Option<BTreeSet<NodeId>> {
    let nodes: Vec<NodeId> = nodes(fields)?;
    nodes.is_sorted_by(|one, next| one < next).then(|| nodes.into_iter().collect())
}

impl Entry {
    /// As the log has it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Entry::Change { expected, add, remove, dead } => {
                bytes.put_u8(1);
                bytes.put_u64(expected.0);
                bytes.put_u16(add.len() as u16);
                add.iter().for_each(|member| put_member(&mut bytes, member));
                put_nodes(&mut bytes, remove.iter());
                put_nodes(&mut bytes, dead.iter());
            }
            Entry::Ready { node, epoch } => {
                bytes.put_u8(2);
                bytes.put_u16(node.0);
                bytes.put_u64(epoch.0);
            }
            Entry::Dead { node } => {
                bytes.put_u8(3);
                bytes.put_u16(node.0);
            }
            Entry::Claim { node, store } => {
                bytes.put_u8(4);
                bytes.put_u16(node.0);
                bytes.put_u64(store.0);
            }
            Entry::Abort { expected } => {
                bytes.put_u8(5);
                bytes.put_u64(expected.0);
            }
        }
        bytes
    }

    /// Decodes the result of [`Entry::encode`]; `None` for any other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let mut fields = Fields(bytes);
        let entry = match fields.u8()? {
            1 => {
                let expected = fields.epoch()?;
                let count = fields.u16()?;
                let add = (0..count).map(|_| member(&mut fields)).collect::<Option<_>>()?;
                Entry::Change { expected, add, remove: nodes(&mut fields)?, dead: nodes(&mut fields)? }
            }
            2 => Entry::Ready { node: fields.node()?, epoch: fields.epoch()? },
            3 => Entry::Dead { node: fields.node()? },
            4 => Entry::Claim { node: fields.node()?, store: StoreId(fields.u64()?) },
            5 => Entry::Abort { expected: fields.epoch()? },
            _ => return None,
        };
        fields.end()?;
        Some(entry)
    }
}

impl Topology {
    /// As it is stored, handed to peers, and as a snapshot of the log has it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [self.cluster, self.epoch.0, self.applied, self.seed] {
            bytes.put_u64(number);
        }
        bytes.put_u32(self.partitions);
        bytes.put_u8(self.replicas);
        bytes.put_u16(self.next_id);
        bytes.put_u16(self.members.len() as u16);
        for (node, member) in &self.members {
            bytes.put_u16(node.0);
            put_member(&mut bytes, member);
        }
        put_nodes(&mut bytes, self.placed.iter());
        put_nodes(&mut bytes, self.ready.iter());
        match &self.change {
            None => bytes.put_u8(0),
            Some(change) => {
                bytes.put_u8(if change.phase == Phase::Copying { 1 } else { 2 });
                bytes.put_u64(change.begun.0);
                put_nodes(&mut bytes, change.goal.iter());
            }
        }
        // Runs of equal floors: few, as most changes touch most partitions or none.
        for run in self.floors.chunk_by(|a, b| a == b) {
            bytes.put_u32(run.len() as u32);
            bytes.put_u64(run[0].0);
        }
        bytes
    }

    /// Decodes the result of [`Topology::encode`]; `None` for any other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Topology> {
        let mut fields = Fields(bytes);
        let [cluster, epoch, applied, seed] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let (partitions, replicas, next_id) = (fields.u32()?, fields.u8()?, fields.u16()?);
        if !partitions.is_power_of_two() || partitions > 1 << 16 || replicas == 0 {
            return None;
        }
        let count = fields.u16()?;
        let members = (0..count).map(|_| Some((fields.node()?, member(&mut fields)?))).collect::<Option<Vec<_>>>()?;
        let are_in_order = members.is_sorted_by(|one, next| one.0 < next.0);
        let members: BTreeMap<NodeId, Member> = members.into_iter().collect();
        let (placed, ready) = (node_set(&mut fields)?, node_set(&mut fields)?);
        let change = match fields.u8()? {
            0 => None,
            phase @ 1..=2 => Some(Change {
                phase: if phase == 1 { Phase::Copying } else { Phase::Switched },
                begun: fields.epoch()?,
                goal: node_set(&mut fields)?,
            }),
            _ => return None,
        };
        let goal = change.iter().flat_map(|change| &change.goal);
        if !are_in_order || !placed.iter().chain(goal).all(|node| members.contains_key(node)) {
            return None;
        }
        let mut floors: Vec<Epoch> = Vec::new();
        while floors.len() < partitions as usize {
            let length = fields.u32()? as usize;
            let floor = fields.epoch()?;
            if length == 0 || length > partitions as usize - floors.len() || floors.last() == Some(&floor) {
                return None;
            }
            floors.resize(floors.len() + length, floor);
        }
        fields.end()?;
        let epoch = Epoch(epoch);
        Some(Topology {
            cluster,
            epoch,
            applied,
            seed,
            partitions,
            replicas,
            members,
            placed,
            change,
            ready,
            next_id,
            floors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founded(count: u16) -> Topology {
        let members: Vec<_> = (0..count).map(|n| (format!("http://host-{n}:80"), String::new())).collect();
        Topology::founded(&members, 7, 0, 0)
    }

    fn newcomer(url: &str) -> Member {
        Member { url: url.to_owned(), zone: "z".to_owned(), weight: 100, store: StoreId(9), is_dead: false }
    }

    struct Log(Topology, u64);

    impl Log {
        fn append(&mut self, entry: &Entry) -> bool {
            self.1 += 1;
            assert_eq!(Entry::decode(&entry.encode()).as_ref(), Some(entry));
            let changed = self.0.apply(self.1, entry);
            let bytes = self.0.encode();
            assert_eq!(Topology::decode(&bytes).as_ref(), Some(&self.0));
            assert!((0..bytes.len()).all(|length| Topology::decode(&bytes[..length]).is_none()));
            changed
        }

        fn ready(&mut self, nodes: &[u16]) -> bool {
            let epoch = self.0.epoch;
            nodes.iter().fold(false, |_, node| self.append(&Entry::Ready { node: NodeId(*node), epoch }))
        }

        fn change(&mut self, add: &[&str], remove: &[u16], dead: &[u16]) -> bool {
            self.append(&Entry::Change {
                expected: self.0.epoch,
                add: add.iter().map(|url| newcomer(url)).collect(),
                remove: remove.iter().map(|node| NodeId(*node)).collect(),
                dead: dead.iter().map(|node| NodeId(*node)).collect(),
            })
        }
    }

    #[test]
    fn a_cluster_id_is_that_of_the_list_in_any_order() {
        let list = |urls: &[&str]| urls.iter().map(|url| (url.to_string(), String::new())).collect::<Vec<_>>();
        let a = Topology::founded(&list(&["x", "y", "z"]), 1, 0, 0);
        assert_eq!(a, Topology::founded(&list(&["z", "x", "y", "x"]), 1, 0, 0));
        assert_ne!(a.cluster, Topology::founded(&list(&["x", "yz"]), 1, 0, 0).cluster);
        assert_eq!((a.partitions, a.replicas, a.members[&NodeId(2)].url.as_str()), (64, 3, "z"));
        assert_eq!(Topology::founded(&list(&["x"]), 1, 0, 0).partitions, 1);
    }

    #[test]
    fn a_join_goes_through_its_phases_as_all_become_ready() {
        let mut log = Log(founded(3), 0);
        assert!(log.change(&["http://new:80"], &[], &[]));
        let change = log.0.change.clone().unwrap();
        assert_eq!((log.0.epoch, change.begun, change.phase), (Epoch(1), Epoch(1), Phase::Copying));
        assert_eq!(change.goal.len(), 4);
        assert!(!log.change(&["http://other:80"], &[], &[]), "one change at a time");
        assert!(!log.ready(&[0, 1, 2]) && log.ready(&[3]));
        assert_eq!(log.0.change.as_ref().unwrap().phase, Phase::Switched);
        assert!(log.ready(&[3, 1, 0, 2]));
        assert!(log.0.change.is_none() && log.0.placed.len() == 4 && log.0.epoch == Epoch(3));
        // Not before all know the last epoch.
        assert!(!log.change(&[], &[0], &[]));
        log.ready(&[0, 1, 2, 3]);
        assert!(log.change(&[], &[0], &[]));
    }

    #[test]
    fn the_dead_are_not_waited_for_and_ids_are_not_given_again() {
        let mut log = Log(founded(3), 0);
        assert!(log.change(&["http://host-1:80"], &[], &[1]), "a node that lost its store comes back");
        assert!(log.0.members[&NodeId(1)].is_dead && log.0.members.contains_key(&NodeId(3)));
        log.ready(&[0, 2]);
        // Another one dies meanwhile.
        log.append(&Entry::Dead { node: NodeId(2) });
        assert!(log.ready(&[3]) && log.ready(&[0, 3]));
        assert_eq!(log.0.placed, [0, 2, 3].map(NodeId).into());
        assert!(log.ready(&[0, 3]) || log.change(&["http://x:80"], &[], &[2]));
        assert!(log.0.members.contains_key(&NodeId(4)) && !log.0.members.contains_key(&NodeId(1)));
    }

    /// A node was added under an address where nothing ever started, and was declared dead: its places were given to it
    /// all the same, and the replicas that had held the rows dropped them.
    #[test]
    fn a_change_is_given_up_when_the_node_that_was_to_come_is_dead() {
        let mut log = Log(founded(3), 0);
        let before = log.0.clone();
        assert!(log.change(&["http://nowhere:80"], &[], &[]));
        log.ready(&[0, 1, 2]);
        assert!(log.append(&Entry::Dead { node: NodeId(3) }));
        assert_eq!((&log.0.members, &log.0.placed, log.0.epoch), (&before.members, &before.placed, Epoch(2)));
        assert!(log.0.change.is_none() && !log.change(&["http://new:80"], &[], &[]), "not before all know");
        log.ready(&[0, 1, 2]);
        assert!(log.change(&["http://new:80"], &[], &[]) && log.0.members.contains_key(&NodeId(4)));
    }

    /// A node was added under an address at which nobody is, and the change waited for it for ever.
    #[test]
    fn a_change_can_be_given_up_while_it_copies_and_not_later() {
        let mut log = Log(founded(3), 0);
        let before = log.0.clone();
        assert!(!log.append(&Entry::Abort { expected: Epoch(0) }), "no change is under way");
        assert!(log.change(&["http://nowhere:80"], &[0], &[]));
        log.ready(&[0, 1, 2]);
        assert!(!log.append(&Entry::Abort { expected: Epoch(0) }), "that is another epoch");
        assert!(log.append(&Entry::Abort { expected: Epoch(1) }));
        assert_eq!((&log.0.members, &log.0.placed, log.0.epoch), (&before.members, &before.placed, Epoch(2)));
        assert!(log.0.change.is_none() && log.0.ready.is_empty());
        // Another change begins when all know that this one is over, and its node gets another id.
        assert!(!log.change(&["http://new:80"], &[], &[]));
        log.ready(&[0, 1, 2]);
        assert!(log.change(&["http://new:80"], &[], &[]) && log.0.members.contains_key(&NodeId(4)));
        assert!(log.ready(&[0, 1, 2, 4]) && !log.append(&Entry::Abort { expected: log.0.epoch }), "it has copied");
    }

    #[test]
    fn floors_rise_where_the_replicas_change_and_nowhere_else() {
        let mut log = Log(founded(5), 0);
        log.0.replicas = 3;
        log.change(&["http://new:80"], &[], &[]);
        let (old, new) = (log.0.placement(&log.0.placed), log.0.placement(&log.0.change.as_ref().unwrap().goal));
        for partition in old.all() {
            let is_changed = old.order(partition) != new.order(partition);
            assert_eq!(log.0.floor(partition), Epoch(u64::from(is_changed)));
        }
        log.ready(&[0, 1, 2, 3, 4, 5]);
        log.ready(&[0, 1, 2, 3, 4, 5]);
        for partition in old.all() {
            let is_changed = old.order(partition) != new.order(partition);
            assert_eq!(log.0.floor(partition), Epoch(if is_changed { 2 } else { 0 }));
        }
        assert_eq!(log.0.floor(Partition(64)), Epoch(0));
    }

    #[test]
    fn an_entry_is_applied_once_and_one_for_another_epoch_does_nothing() {
        let mut log = Log(founded(3), 0);
        let entry = Entry::Change { expected: Epoch(5), add: vec![newcomer("u")], remove: vec![], dead: vec![] };
        assert!(!log.append(&entry) && log.0.members.len() == 3);
        assert!(!log.change(&["http://host-0:80"], &[], &[]), "a member has the address");
        assert!(!log.change(&[], &[0, 1, 2], &[]), "somebody must stay");
        let before = log.0.clone();
        assert!(!log.0.apply(1, &Entry::Dead { node: NodeId(0) }));
        assert_eq!(before, log.0);
    }

    /// What a set or a map is made of stands in ascending order, and once; a fuzzer found that other orders decoded.
    #[test]
    fn lists_out_of_order_do_not_decode() {
        let topology = founded(3);
        let bytes = topology.encode();
        let placed = [3_u16, 0, 1, 2].map(u16::to_le_bytes).concat();
        let at = bytes.windows(placed.len()).position(|window| window == placed).expect("the members that are placed");
        for list in [[3_u16, 1, 0, 2], [3, 0, 1, 1], [3, 0, 2, 1]] {
            let mut changed = bytes.clone();
            changed[at..at + placed.len()].copy_from_slice(&list.map(u16::to_le_bytes).concat());
            assert_eq!(Topology::decode(&changed), None, "{list:?}");
        }
        assert_eq!(Topology::decode(&bytes), Some(topology));
    }
}
