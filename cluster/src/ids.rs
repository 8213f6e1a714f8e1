//! Names of things: nodes, partitions, epochs, versions.

use std::fmt;

/// A member of a cluster. An id is given once: a node whose directory was erased comes back under another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// What a node greets with that has no id yet. No node gets it.
    pub const NONE: NodeId = NodeId(u16::MAX);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A part of the keys, told by the first bits of a seeded hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u16);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A state of the topology. Each change of the topology is the next epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// What orders the writes of an entity: a hybrid logical timestamp ([`clock`](crate::clock)), and the node that gave
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Milliseconds since 1970 times 65,536, plus a counter.
    pub time: u64,
    /// Who stamped it. Breaks ties.
    pub node: NodeId,
}

impl Version {
    /// Before all others.
    pub const ZERO: Version = Version { time: 0, node: NodeId(0) };
    /// Bytes of the encoding.
    pub const BYTES: usize = 10;

    /// That of the floor of a partition: what has to be topped, and nothing that a replica holds.
    pub fn of_line(time: u64) -> Version {
        Version { time, node: NodeId(u16::MAX) }
    }

    /// Whether it is that of a floor.
    pub fn is_of_line(self) -> bool {
        self.node == NodeId(u16::MAX)
    }

    /// Big-endian, so that encodings sort as versions do.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.time.to_be_bytes());
        bytes[8..].copy_from_slice(&self.node.0.to_be_bytes());
        bytes
    }

    /// Takes a version off the front.
    pub fn decode(bytes: &[u8]) -> Option<(Version, &[u8])> {
        let (time, rest) = bytes.split_first_chunk()?;
        let (node, rest) = rest.split_first_chunk()?;
        Some((Version { time: u64::from_be_bytes(*time), node: NodeId(u16::from_be_bytes(*node)) }, rest))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.time >> 16, self.time & 0xFFFF, self.node.0)
    }
}

/// Moments as a node sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since some moment; never goes back. Timeouts are measured by it.
    pub ticks_ms: u64,
    /// Since 1970, by the node's wall clock, which may be wrong and may jump. Versions and deadlines are.
    pub wall_ms: u64,
}

/// How many replicas an entity has, and how many of them are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Answers that are waited for.
    pub ack: u8,
    /// Replicas that are asked.
    pub from: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_versions_sort_as_versions_do() {
        let versions: Vec<Version> = [0, 1, 255, 256, u64::MAX]
            .into_iter()
            .flat_map(|time| [0, 1, 256].map(|node| Version { time, node: NodeId(node) }))
            .collect();
        for a in &versions {
            assert_eq!(Version::decode(&a.encode()), Some((*a, &[][..])));
            assert!(Version::decode(&a.encode()[..9]).is_none());
            for b in &versions {
                assert_eq!(a.cmp(b), a.encode().cmp(&b.encode()));
            }
        }
    }
}
