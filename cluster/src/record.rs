//! What a replica keeps of an entity, and the keys and values of its tables.
//!
//! Tables, each key ordered bytewise:
//!
//! | table | key | value |
//! |---|---|---|
//! | `entities` | partition, `from`, key | version, deadline, value |
//! | `graves` | partition, `from`, key | version, and whether it only says that the key went to another `from` |
//! | `expires` | deadline, partition, `from`, key | |
//! | `hints` | peer, partition, `from`, key | version; the record too, if this node is no replica of it |
//! | `facts` | a name | |
//!
//! `entities` and `graves` measure rows, bytes and a seeded hash, and together hold one row a key and class: rows of a
//! range of both add up to what replicas compare. Values are byte-equal on all replicas: nothing local stands in them.

use std::cmp::Ordering;

use crate::ids::{NodeId, Partition, Version};

/// What an entity is at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// The key was written again with another `from`, under which its state is to be found.
    Moved,
    /// A value, until the deadline in milliseconds since 1970; 0: for good.
    Live {
        /// When it expires.
        deadline_ms: u64,
        /// The value.
        value: &'a [u8],
    },
    /// Removed, or expired.
    Grave,
}

/// A version of an entity, as replicas keep and exchange it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What orders it.
    pub version: Version,
    /// What the entity is.
    pub state: State<'a>,
}

/// Bytes of a row's key before the entity's key.
pub const PREFIX_BYTES: usize = 3;

const LIVE: u8 = 1;
const GRAVE: u8 = 2;
const MOVED: u8 = 3;

impl<'a> Record<'a> {
    /// Of two states of one version, which wins: an entity that expired keeps the version, and so does the note that it
    /// has moved.
    fn rank(&self) -> u8 {
        match self.state {
            State::Moved => 0,
            State::Live { .. } => 1,
            State::Grave => 2,
        }
    }

    /// Which is newer. Equal only for the same write.
    pub fn order(&self, other: &Record<'_>) -> Ordering {
        self.version.cmp(&other.version).then(self.rank().cmp(&other.rank()))
    }

    /// The value at a moment; none if there is none or it has expired.
    pub fn value_at(&self, wall_ms: u64) -> Option<&'a [u8]> {
        match self.state {
            State::Live { deadline_ms, value } if deadline_ms == 0 || wall_ms < deadline_ms => Some(value),
            _ => None,
        }
    }

    /// The same, or its grave if it has expired.
    #[must_use]
    pub fn at(self, wall_ms: u64) -> Record<'a> {
        match self.state {
            State::Live { .. } if self.value_at(wall_ms).is_none() => {
                Record { version: self.version, state: State::Grave }
            }
            _ => self,
        }
    }

    /// Bytes of the encoding.
    pub fn encoded_bytes(&self) -> usize {
        1 + Version::BYTES
            + match self.state {
                State::Live { value, .. } => 8 + value.len(),
                _ => 0,
            }
    }

    /// A byte for the state, the version, and of a value its deadline and bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(match self.state {
            State::Live { .. } => LIVE,
            State::Grave => GRAVE,
            State::Moved => MOVED,
        });
        bytes.extend_from_slice(&self.version.encode());
        if let State::Live { deadline_ms, value } = self.state {
            bytes.extend_from_slice(&deadline_ms.to_le_bytes());
            bytes.extend_from_slice(value);
        }
    }

    /// Decodes the result of [`Record::encode`], all of it.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (kind, rest) = bytes.split_first()?;
        let (version, rest) = Version::decode(rest)?;
        let state = match *kind {
            LIVE => {
                let (deadline, value) = rest.split_first_chunk()?;
                State::Live { deadline_ms: u64::from_le_bytes(*deadline), value }
            }
            GRAVE if rest.is_empty() => State::Grave,
            MOVED if rest.is_empty() => State::Moved,
            _ => return None,
        };
        Some(Record { version, state })
    }
}

/// The key of a row: partition, `from`, key.
pub fn row_key(partition: Partition, from: u8, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + key.len());
    bytes.extend_from_slice(&partition.0.to_be_bytes());
    bytes.push(from);
    bytes.extend_from_slice(key);
    bytes
}

/// Takes a row's key apart.
pub fn parse_row_key(bytes: &[u8]) -> Option<(Partition, u8, &[u8])> {
    let (partition, rest) = bytes.split_first_chunk()?;
    let (from, key) = rest.split_first()?;
    Some((Partition(u16::from_be_bytes(*partition)), *from, key))
}

/// The first row key of a partition's classes from `from` on; of the next partition for the end.
pub fn class_start(partition: Partition, from: u8) -> Vec<u8> {
    row_key(partition, from, b"")
}

/// The first key after all rows of a partition.
pub fn partition_end(partition: Partition) -> Vec<u8> {
    match partition.0.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        // After all: `from` is at most FROM_MAX.
        None => vec![0xFF; PREFIX_BYTES],
    }
}

/// The key of a row in `expires`.
pub fn expiry_key(deadline_ms: u64, row: &[u8]) -> Vec<u8> {
    [&deadline_ms.to_be_bytes(), row].concat()
}

/// The key of a hint.
pub fn hint_key(peer: NodeId, row: &[u8]) -> Vec<u8> {
    [&peer.0.to_be_bytes(), row].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64, state: State<'_>) -> Record<'_> {
        Record { version: Version { time, node: NodeId(1) }, state }
    }

    #[test]
    fn the_newest_wins_and_a_tombstone_wins_a_tie() {
        let live = |time| record(time, State::Live { deadline_ms: 0, value: b"v" });
        let ascending = [
            record(1, State::Moved),
            live(1),
            record(1, State::Grave),
            record(2, State::Moved),
            live(2),
            record(2, State::Grave),
        ];
        for (a, first) in ascending.iter().enumerate() {
            for (b, second) in ascending.iter().enumerate() {
                assert_eq!(first.order(second), a.cmp(&b));
            }
        }
    }

    #[test]
    fn records_come_back_and_nothing_else_decodes() {
        let states = [State::Moved, State::Grave, State::Live { deadline_ms: 77, value: b"" }];
        for state in states.into_iter().chain([State::Live { deadline_ms: 0, value: b"value" }]) {
            let mut bytes = Vec::new();
            let record = record(5, state);
            record.encode(&mut bytes);
            assert_eq!((Record::decode(&bytes), bytes.len()), (Some(record), record.encoded_bytes()));
            let fixed = bytes.len() - if let State::Live { value, .. } = state { value.len() } else { 0 };
            assert!((0..fixed).all(|length| Record::decode(&bytes[..length]).is_none()));
            bytes[0] = 9;
            assert_eq!(Record::decode(&bytes), None);
        }
    }

    #[test]
    fn an_expired_value_is_a_grave_of_the_same_version() {
        let record = record(5, State::Live { deadline_ms: 100, value: b"v" });
        assert_eq!((record.value_at(99), record.at(99)), (Some(&b"v"[..]), record));
        assert_eq!((record.value_at(100), record.at(100).state), (None, State::Grave));
        assert_eq!(record.at(100).version, record.version);
    }

    #[test]
    fn rows_of_a_partition_lie_together() {
        for partition in [Partition(0), Partition(255), Partition(u16::MAX)] {
            let row = row_key(partition, 3, b"key");
            assert_eq!(parse_row_key(&row), Some((partition, 3, &b"key"[..])));
            assert!(class_start(partition, 3) <= row && row < class_start(partition, 4));
            assert!(row < partition_end(partition));
        }
        assert!(partition_end(Partition(7)) <= class_start(Partition(8), 0));
    }
}
