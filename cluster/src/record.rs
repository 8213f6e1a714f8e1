//! The record of an entity in a replica, and the keys and values of the replica's tables.
//!
//! Tables, each key ordered bytewise:
//!
//! | table | key | value |
//! |---|---|---|
//! | `entities` | partition, `from`, key | version, deadline, value |
//! | `graves` | partition, `from`, key | version, and whether it was removed, has expired, or went to another `from` |
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
    /// A note: the key was written again with another `from`, under which its state is to be found. It says "newer, not
    /// here", and never "absent".
    Moved {
        /// The other `from`.
        to: u8,
        /// When what is there expires; 0: it does not. From then on the key is absent, whatever is there.
        deadline_ms: u64,
        /// What the note took the place of, should the other be lost.
        kept: Option<Kept<'a>>,
    },
    /// A value, until the deadline in milliseconds since 1970; 0: for good.
    Live {
        /// When it expires.
        deadline_ms: u64,
        /// The value.
        value: &'a [u8],
    },
    /// The value has expired, by the clock of the node that wrote this. By a clock that has not come to the deadline it
    /// is nothing that counts: the value is to be found elsewhere.
    Expired {
        /// When.
        deadline_ms: u64,
    },
    /// Removed.
    Grave,
}

/// The state of a key that a note took the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// Its version, below the note's.
    pub version: Version,
    /// The deadline and the value; none: it was removed, or had expired.
    pub value: Option<(u64, &'a [u8])>,
}

impl Kept<'_> {
    /// Which of two is kept: the newer, and of one version the value, where another replica's had expired.
    fn order(&self) -> (Version, bool) {
        (self.version, self.value.is_some())
    }
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
const EXPIRED: u8 = 4;

/// Whether a deadline has passed.
fn is_due(deadline_ms: u64, wall_ms: u64) -> bool {
    deadline_ms > 0 && wall_ms >= deadline_ms
}

impl<'a> Record<'a> {
    /// Of two states of one version, which wins at a moment: an entity that expired keeps the version, and so does the
    /// note that it has moved. A tombstone of expiry that came too early yields to the value.
    fn rank(&self, wall_ms: u64) -> u8 {
        match self.state {
            State::Moved { .. } => 0,
            State::Expired { deadline_ms } if !is_due(deadline_ms, wall_ms) => 1,
            State::Live { .. } => 2,
            State::Expired { .. } => 3,
            State::Grave => 4,
        }
    }

    /// Which is newer, by a wall clock. Equal only for the same write.
    pub fn order(&self, other: &Record<'_>, wall_ms: u64) -> Ordering {
        let kept = |record: &Record<'_>| match record.state {
            State::Moved { kept, .. } => kept.map(|kept| kept.order()),
            _ => None,
        };
        let by_rank = self.rank(wall_ms).cmp(&other.rank(wall_ms));
        self.version.cmp(&other.version).then(by_rank).then(kept(self).cmp(&kept(other)))
    }

    /// The value at a moment; none if there is none or it has expired.
    pub fn value_at(&self, wall_ms: u64) -> Option<&'a [u8]> {
        match self.state {
            State::Live { deadline_ms, value } if !is_due(deadline_ms, wall_ms) => Some(value),
            _ => None,
        }
    }

    /// The same, or its tombstone if it has expired.
    #[must_use]
    pub fn at(self, wall_ms: u64) -> Record<'a> {
        match self.state {
            State::Live { deadline_ms, .. } if is_due(deadline_ms, wall_ms) => {
                Record { version: self.version, state: State::Expired { deadline_ms } }
            }
            _ => self,
        }
    }

    /// Whether it says, at a moment, that the key is absent.
    pub fn is_tombstone(&self, wall_ms: u64) -> bool {
        match self.state {
            State::Grave => true,
            State::Moved { deadline_ms, .. } | State::Live { deadline_ms, .. } | State::Expired { deadline_ms } => {
                is_due(deadline_ms, wall_ms)
            }
        }
    }

    /// Of which `from` the replicas have to be asked, because this says that there is something, and not what: a note,
    /// or a tombstone of expiry, of a row of `class`, that is not due.
    pub fn is_elsewhere(&self, class: u8, wall_ms: u64) -> Option<u8> {
        match self.state {
            State::Moved { to, deadline_ms, .. } if !is_due(deadline_ms, wall_ms) => Some(to),
            State::Expired { deadline_ms } if !is_due(deadline_ms, wall_ms) => Some(class),
            _ => None,
        }
    }

    /// What the rows of other classes become when this is stored in `class`: a removal removes all, else it is a note.
    #[must_use]
    pub fn note(&self, class: u8) -> Record<'static> {
        let moved = |to, deadline_ms| State::Moved { to, deadline_ms, kept: None };
        let state = match self.state {
            State::Grave => State::Grave,
            State::Live { deadline_ms, .. } | State::Expired { deadline_ms } => moved(class, deadline_ms),
            State::Moved { to, deadline_ms, .. } => moved(to, deadline_ms),
        };
        Record { version: self.version, state }
    }

    /// A note that keeps what it takes the place of, or what that had kept, whichever is newer. Other records as they
    /// are.
    #[must_use]
    pub fn keeping(self, old: Option<Record<'a>>) -> Record<'a> {
        let State::Moved { to, deadline_ms, kept } = self.state else { return self };
        let of_old = old.and_then(|old| match old.state {
            State::Moved { kept, .. } => kept,
            State::Live { deadline_ms, value } => {
                Some(Kept { version: old.version, value: Some((deadline_ms, value)) })
            }
            State::Expired { .. } | State::Grave => Some(Kept { version: old.version, value: None }),
        });
        let is_newer =
            |of_old: &Kept<'_>| of_old.version < self.version && kept.is_none_or(|kept| kept.order() < of_old.order());
        let kept = of_old.filter(is_newer).or(kept);
        Record { version: self.version, state: State::Moved { to, deadline_ms, kept } }
    }

    /// What a note has kept, as a record.
    pub fn kept(&self) -> Option<Record<'a>> {
        let State::Moved { kept: Some(kept), .. } = self.state else { return None };
        let state = match kept.value {
            Some((deadline_ms, value)) => State::Live { deadline_ms, value },
            None => State::Grave,
        };
        Some(Record { version: kept.version, state })
    }

    /// Bytes of the encoding.
    pub fn encoded_bytes(&self) -> usize {
        let live = |value: &[u8]| 8 + value.len();
        1 + Version::BYTES
            + match self.state {
                State::Live { value, .. } => live(value),
                State::Moved { kept, .. } => {
                    let of_kept = |kept: Kept<'_>| Version::BYTES + kept.value.map_or(0, |(_, value)| live(value));
                    9 + kept.map_or(0, of_kept)
                }
                State::Expired { .. } => 8,
                State::Grave => 0,
            }
    }

    /// A byte for the state, the version, and of a value its deadline and bytes; of a note the other `from`, the
    /// deadline and what it keeps; of an expired value its deadline.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(match self.state {
            State::Live { .. } => LIVE,
            State::Grave => GRAVE,
            State::Moved { .. } => MOVED,
            State::Expired { .. } => EXPIRED,
        });
        bytes.extend_from_slice(&self.version.encode());
        match self.state {
            State::Live { deadline_ms, value } => {
                bytes.extend_from_slice(&deadline_ms.to_le_bytes());
                bytes.extend_from_slice(value);
            }
            State::Moved { to, deadline_ms, kept } => {
                bytes.push(to);
                bytes.extend_from_slice(&deadline_ms.to_le_bytes());
                if let Some(kept) = kept {
                    bytes.extend_from_slice(&kept.version.encode());
                    if let Some((deadline_ms, value)) = kept.value {
                        bytes.extend_from_slice(&deadline_ms.to_le_bytes());
                        bytes.extend_from_slice(value);
                    }
                }
            }
            State::Expired { deadline_ms } => bytes.extend_from_slice(&deadline_ms.to_le_bytes()),
            State::Grave => {}
        }
    }

    /// The encoding, in bytes of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        self.encode(&mut bytes);
        bytes
    }

    /// Decodes the result of [`Record::encode`], all of it.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let deadline = |bytes: &'a [u8]| {
            let (deadline, rest) = bytes.split_first_chunk()?;
            Some((u64::from_le_bytes(*deadline), rest))
        };
        let (kind, rest) = bytes.split_first()?;
        let (version, rest) = Version::decode(rest)?;
        let state = match *kind {
            LIVE => {
                let (deadline_ms, value) = deadline(rest)?;
                State::Live { deadline_ms, value }
            }
            GRAVE if rest.is_empty() => State::Grave,
            MOVED => {
                let (to, rest) = rest.split_first()?;
                let (deadline_ms, rest) = deadline(rest)?;
                let kept = match rest {
                    [] => None,
                    rest => {
                        let (version, rest) = Version::decode(rest)?;
                        let value = if rest.is_empty() { None } else { Some(deadline(rest)?) };
                        Some(Kept { version, value })
                    }
                };
                State::Moved { to: *to, deadline_ms, kept }
            }
            EXPIRED => {
                let (deadline_ms, rest) = deadline(rest)?;
                rest.is_empty().then_some(State::Expired { deadline_ms })?
            }
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

    const MOVED_TO_1: State<'_> = State::Moved { to: 1, deadline_ms: 0, kept: None };

    fn kept(time: u64, value: Option<(u64, &[u8])>) -> Option<Kept<'_>> {
        Some(Kept { version: Version { time, node: NodeId(1) }, value })
    }

    #[test]
    fn the_newest_wins_and_a_tombstone_wins_a_tie_once_it_is_due() {
        let live = |time| record(time, State::Live { deadline_ms: 50, value: b"v" });
        let moved = |time, kept| record(time, State::Moved { to: 1, deadline_ms: 0, kept });
        let expired = |time| record(time, State::Expired { deadline_ms: 50 });
        let of = |time: u64, is_due: bool| {
            let pair = if is_due { [live(time), expired(time)] } else { [expired(time), live(time)] };
            let notes = [moved(time, None), moved(time, kept(0, None))];
            notes.into_iter().chain(pair).chain([record(time, State::Grave)])
        };
        for wall_ms in [49, 50] {
            let ascending: Vec<_> = of(1, wall_ms == 50).chain(of(2, wall_ms == 50)).collect();
            for (a, first) in ascending.iter().enumerate() {
                for (b, second) in ascending.iter().enumerate() {
                    assert_eq!(first.order(second, wall_ms), a.cmp(&b), "{first:?} {second:?} at {wall_ms}");
                }
            }
        }
    }

    #[test]
    fn records_come_back_and_nothing_else_decodes() {
        let moved = |kept| State::Moved { to: 2, deadline_ms: 9, kept };
        let fixed = [State::Grave, State::Expired { deadline_ms: 7 }, moved(None), moved(kept(3, None))];
        let open = [State::Live { deadline_ms: 77, value: b"" }, State::Live { deadline_ms: 0, value: b"value" }];
        for state in fixed.into_iter().chain(open).chain([moved(kept(3, Some((5, b"old"))))]) {
            let record = record(5, state);
            let mut bytes = record.to_bytes();
            assert_eq!((Record::decode(&bytes), bytes.len()), (Some(record), record.encoded_bytes()));
            let is_other = |length: usize| Record::decode(&bytes[..length]).is_none_or(|other| other != record);
            assert!((0..bytes.len()).all(is_other));
            bytes[0] = 9;
            assert_eq!(Record::decode(&bytes), None);
        }
    }

    #[test]
    fn an_expired_value_is_a_tombstone_of_the_same_version_with_its_deadline() {
        let record = record(5, State::Live { deadline_ms: 100, value: b"v" });
        assert_eq!((record.value_at(99), record.at(99)), (Some(&b"v"[..]), record));
        assert_eq!((record.value_at(100), record.at(100).state), (None, State::Expired { deadline_ms: 100 }));
        assert_eq!(record.at(100).version, record.version);
        assert_eq!(record.at(100).is_elsewhere(3, 99), Some(3), "by a clock that is not there yet, it counts nothing");
        assert_eq!(record.at(100).is_elsewhere(3, 100), None);
    }

    #[test]
    fn a_note_keeps_the_newest_that_it_took_the_place_of() {
        let live = record(5, State::Live { deadline_ms: 0, value: b"v" });
        let note = record(9, State::Live { deadline_ms: 7, value: b"w" }).note(1);
        assert_eq!(note.state, State::Moved { to: 1, deadline_ms: 7, kept: None });
        let keeping = note.keeping(Some(live));
        assert_eq!(keeping.kept(), Some(live));
        assert_eq!(record(11, MOVED_TO_1).keeping(Some(keeping)).kept(), Some(live), "through a second note");
        assert_eq!(keeping.keeping(Some(record(4, State::Grave))).kept(), Some(live), "what is older changes nothing");
        let expired = record(5, State::Expired { deadline_ms: 3 });
        assert_eq!(record(9, MOVED_TO_1).keeping(Some(expired)).keeping(Some(live)).kept(), Some(live));
        assert_eq!(keeping.keeping(Some(expired)).kept(), Some(live), "of one version the value");
        let removed = record(6, State::Grave);
        assert_eq!(keeping.keeping(Some(removed)).kept(), Some(removed), "a removal after it counts");
        assert_eq!(record(12, State::Grave).note(1).state, State::Grave, "a removal removes all");
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
