//! Entries of the log and topologies as bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Entry, Member, Phase, StoreId, Topology};
use crate::codec::{Fields, Put};
use crate::ids::{Epoch, NodeId};

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
            Entry::Claim { node, store, instead_of } => {
                bytes.put_u8(4);
                bytes.put_u16(node.0);
                bytes.put_u64(store.0);
                bytes.put_u64(instead_of.0);
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
            4 => {
                let (node, store) = (fields.node()?, StoreId(fields.u64()?));
                Entry::Claim { node, store, instead_of: StoreId(fields.u64()?) }
            }
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
