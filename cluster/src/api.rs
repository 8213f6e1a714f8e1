//! Requests of clients to a node, and its answers.

use crate::ids::{NodeId, Partition, Quorum, Version};

/// Which versions an entity must have for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// One of these (`If-Match`); none listed: any, so the entity must exist.
    Is(Vec<Version>),
    /// None of these (`If-None-Match`); none listed: the entity must not exist.
    IsNot(Vec<Version>),
}

impl Condition {
    /// Whether an entity with this version, or none, meets it.
    pub fn holds(&self, found: Option<Version>) -> bool {
        match (self, found) {
            (Condition::Is(_), None) => false,
            (Condition::IsNot(_), None) => true,
            (Condition::Is(versions), Some(found)) => versions.is_empty() || versions.contains(&found),
            (Condition::IsNot(versions), Some(found)) => !versions.is_empty() && !versions.contains(&found),
        }
    }
}

/// A range of keys: from `start` to before `end`; an empty end is no end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Where it starts.
    pub start: Vec<u8>,
    /// Before what it ends.
    pub end: Vec<u8>,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The value of a key.
    Get {
        /// The key.
        key: Vec<u8>,
        /// Replicas, and answers waited for; none: the defaults.
        quorum: Option<Quorum>,
        /// Whether to wait until what is answered is on `ack` replicas, so that no later read sees less.
        is_blocking: bool,
    },
    /// Writes or removes a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value; none: remove.
        value: Option<Vec<u8>>,
        /// How long the value lives; none: for good; 0: not at all, so it is a removal.
        ttl_ms: Option<u64>,
        /// Replicas, and confirmations waited for; none: the defaults.
        quorum: Option<Quorum>,
        /// What the entity must be for the write to be made.
        condition: Option<Condition>,
    },
    /// How many keys a range has, over the cluster. With a range that ends before a key: its rank.
    Count {
        /// The range.
        range: Range,
        /// Replicas of each partition that are asked; they must agree.
        ack: u8,
    },
    /// Keys from an offset in a range on, and how many the range has, over the cluster.
    Page {
        /// The range.
        range: Range,
        /// Keys to skip.
        offset: Offset,
        /// Keys to return.
        limit: usize,
        /// Whether values are wanted.
        with_values: bool,
    },
}

/// A place in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offset {
    /// So many keys after its start.
    Keys(u64),
    /// The key at this quantile, by the nearest rank, in millionths.
    Quantile(u32),
}

/// What position queries say of where they looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The replicas, and the highest timestamp that each had met.
    pub nodes: Vec<(NodeId, u64)>,
    /// Partitions of which rows of some `from` could not be seen: all their replicas are down.
    pub unseen: Vec<Partition>,
}

/// What a client is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The newest of the first answers.
    Value {
        /// Its version.
        version: Version,
        /// The value.
        value: Vec<u8>,
        /// When it expires, in milliseconds since 1970; 0: it does not.
        deadline_ms: u64,
    },
    /// There is no such key, or its newest state is a tombstone.
    Absent {
        /// The version of the tombstone.
        version: Option<Version>,
    },
    /// It was written to `ack` replicas.
    Written {
        /// The version.
        version: Version,
    },
    /// The condition did not hold; nothing was written.
    ConditionFailed {
        /// The version that was found.
        found: Option<Version>,
    },
    /// Too few replicas answered: it is not known whether a write was made.
    NotEnoughReplicas,
    /// Replicas have no space for the write; nothing was done. What frees space is.
    Full,
    /// Too much is going on; nothing was done.
    Overloaded,
    /// The node takes no requests, and will not for now: why. Nothing was done.
    Unavailable(String),
    /// The request makes no sense.
    Invalid(String),
    /// The key or the value is too long.
    TooLarge(String),
    /// A count.
    Count {
        /// Keys.
        rows: u64,
        /// Where it was counted.
        sources: Sources,
    },
    /// A page of keys.
    Page {
        /// Keys and values in order.
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        /// Keys of the whole range.
        total: u64,
        /// Where was looked.
        sources: Sources,
    },
}
