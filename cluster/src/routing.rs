//! Routing of requests at an epoch: the topology with its tables of placement, made once and shared.

use std::sync::Arc;

use crate::ids::{Epoch, NodeId, Partition, Quorum};
use crate::placement::{Placement, partition_of};
use crate::topology::{Phase, Topology};

/// A topology and its tables. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Routing {
    topology: Arc<Topology>,
    /// Who keeps data, or did before the change under way.
    current: Arc<Placement>,
    /// Who will after it.
    next: Option<Arc<Placement>>,
}

/// The replicas that must confirm a write: `ack` of the first, and `ack` of the second where there are two.
#[derive(Clone, Copy, Debug)]
pub struct WriteSets<'r> {
    /// Replicas.
    pub first: &'r [NodeId],
    /// Those of the placement that is coming, where it differs.
    pub second: Option<&'r [NodeId]>,
}

impl Routing {
    /// Makes the tables of a topology.
    pub fn new(topology: Topology) -> Routing {
        let current = Arc::new(topology.placement(&topology.placed));
        let next = topology.change.as_ref().map(|change| Arc::new(topology.placement(&change.goal)));
        Routing { topology: Arc::new(topology), current, next }
    }

    /// The tables of a topology that follows this one, with those that have not changed.
    #[must_use]
    pub fn follow(&self, topology: Topology) -> Routing {
        let reuse = |nodes: &std::collections::BTreeSet<NodeId>| {
            let same_members = topology.members.iter().all(|(node, member)| {
                self.topology.members.get(node).is_none_or(|old| old.zone == member.zone && old.weight == member.weight)
            });
            let goal = self.topology.change.as_ref().map(|change| &change.goal);
            match same_members {
                true if *nodes == self.topology.placed => self.current.clone(),
                true if goal == Some(nodes) => self.next.clone().unwrap_or_else(|| Arc::new(topology.placement(nodes))),
                _ => Arc::new(topology.placement(nodes)),
            }
        };
        let current = reuse(&topology.placed);
        let next = topology.change.as_ref().map(|change| reuse(&change.goal));
        Routing { current, next, topology: Arc::new(topology) }
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.topology.epoch
    }

    /// The partition of a key.
    pub fn partition_of(&self, key: &[u8]) -> Partition {
        partition_of(key, self.topology.seed, self.topology.partitions)
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        self.current.all()
    }

    /// The order of a partition that reads go by.
    pub fn read_order(&self, partition: Partition) -> &[NodeId] {
        match (&self.topology.change, &self.next) {
            (Some(change), Some(next)) if change.phase == Phase::Switched => next.order(partition),
            _ => self.current.order(partition),
        }
    }

    /// The replicas that a read asks.
    pub fn read_set(&self, partition: Partition, from: u8) -> &[NodeId] {
        let order = self.read_order(partition);
        &order[..order.len().min(usize::from(from))]
    }

    /// The replicas that a write goes to.
    pub fn write_sets(&self, partition: Partition, from: u8) -> WriteSets<'_> {
        let first = self.current.replicas(partition, from);
        let second = self.next.as_ref().map(|next| next.replicas(partition, from)).filter(|second| *second != first);
        WriteSets { first, second }
    }

    /// The order before the change, and after it if there is one.
    pub fn orders(&self, partition: Partition) -> (&[NodeId], Option<&[NodeId]>) {
        (self.current.order(partition), self.next.as_ref().map(|next| next.order(partition)))
    }

    /// The least `from` whose rows a node keeps, before the change or after it; none if it keeps nothing.
    pub fn least_from(&self, partition: Partition, node: NodeId) -> Option<u8> {
        let (current, next) = self.orders(partition);
        let place = |order: &[NodeId]| order.iter().position(|other| *other == node);
        place(current).into_iter().chain(next.and_then(place)).min().map(|place| place as u8 + 1)
    }

    /// The least `from` that a node answers reads for, of the rows that it is a read replica of.
    pub fn least_read_from(&self, partition: Partition, node: NodeId) -> Option<u8> {
        self.read_order(partition).iter().position(|other| *other == node).map(|place| place as u8 + 1)
    }

    /// Whether the replicas of a partition are changing.
    pub fn is_changing(&self, partition: Partition) -> bool {
        let (current, next) = self.orders(partition);
        next.is_some_and(|next| next != current)
    }

    /// Whether new replicas copy a partition, and there will be fewer of them than there can be now.
    pub fn loses_replicas(&self, partition: Partition) -> bool {
        let is_copying = self.topology.change.as_ref().is_some_and(|change| change.phase == Phase::Copying);
        let (current, next) = self.orders(partition);
        is_copying && next.is_some_and(|next| next.len() < current.len())
    }

    /// The oldest epoch whose messages are taken for a partition.
    pub fn floor(&self, partition: Partition) -> Epoch {
        self.topology.floor(partition)
    }

    /// Partitions of which too few replicas are up for a request that says nothing of `ack` and `from`.
    pub fn without_quorum(&self, is_up: impl Fn(NodeId) -> bool) -> usize {
        let replicas = self.topology.replicas;
        let ack = usize::from(replicas / 2 + 1);
        let has = |set: &[NodeId]| set.iter().filter(|node| is_up(**node)).count() >= ack;
        let serves = |partition: &Partition| {
            let sets = self.write_sets(*partition, replicas);
            has(self.read_set(*partition, replicas)) && has(sets.first) && sets.second.is_none_or(has)
        };
        self.partitions().filter(|partition| !serves(partition)).count()
    }

    /// Whether a node is a member that has not been declared dead.
    pub fn is_living(&self, node: NodeId) -> bool {
        self.topology.members.get(&node).is_some_and(|member| !member.is_dead)
    }

    /// What a request waits for and asks. If it says nothing: most of the default replicas.
    ///
    /// # Errors
    /// What is wrong with what it says.
    pub fn quorum(&self, given: Option<Quorum>) -> Result<Quorum, String> {
        let replicas = self.topology.replicas;
        let from_max = self.from_max();
        match given.unwrap_or(Quorum { ack: replicas / 2 + 1, from: replicas }) {
            Quorum { from: 0, .. } => Err("`from` must be at least 1".to_owned()),
            Quorum { ack: 0, .. } => Err("`ack` must be at least 1".to_owned()),
            Quorum { from, .. } if from > from_max => Err(format!("`from` is {from}, and can be {from_max} at most")),
            Quorum { ack, from } if ack > from => Err(format!("`ack` is {ack}, more than `from`, which is {from}")),
            quorum => Ok(quorum),
        }
    }

    /// The largest `from` of a request.
    pub fn from_max(&self) -> u8 {
        self.current.order(Partition(0)).len() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_lost_partition_by_partition() {
        let founded = |count: u16| {
            let members: Vec<_> =
                (0..count).map(|number| (format!("http://host-{number}:80"), String::new())).collect();
            Routing::new(Topology::founded(&members, 7, 64, 3))
        };
        let without = |routing: &Routing, down: &[u16]| routing.without_quorum(|node| !down.contains(&node.0));
        let three = founded(3);
        assert_eq!([0, 1, 2, 3].map(|count| without(&three, &[0, 1, 2][..count])), [0, 0, 64, 64]);
        let five = founded(5);
        let some = without(&five, &[0, 1]);
        assert!(without(&five, &[0]) == 0 && some > 0 && some < 64, "{some}");
    }
}
