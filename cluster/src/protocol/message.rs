//! The messages between nodes. Their bodies as bytes: `body`.

use crate::ids::{Partition, Version};
use crate::record::Record;

/// The kind of messages of the log: who drives a node takes them, the node does not.
pub(super) const LOG: u8 = 19;
/// The same of what a store has come to.
pub(super) const MARK: u8 = 28;

/// Why a replica did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The epoch is too old for this partition: ask for the topology, and try again.
    StaleEpoch = 1,
    /// The replica does not know the epoch yet, or keeps no such rows.
    NotReplica = 2,
    /// It is still copying what it was asked for, or its store is new.
    NotReady = 3,
    /// The version is too far ahead of the replica's clock.
    FarAhead = 4,
    /// It holds too much already.
    Overloaded = 5,
    /// Its storage has failed.
    Failed = 6,
    /// It has no space for what grows.
    Full = 7,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 7] = {
        use Refusal::{Failed, FarAhead, Full, NotReady, NotReplica, Overloaded, StaleEpoch};
        [StaleEpoch, NotReplica, NotReady, FarAhead, Overloaded, Failed, Full]
    };

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::StaleEpoch => "stale_epoch",
            Refusal::NotReplica => "not_replica",
            Refusal::NotReady => "not_ready",
            Refusal::FarAhead => "far_ahead",
            Refusal::Overloaded => "overloaded",
            Refusal::Failed => "failed",
            Refusal::Full => "full",
        }
    }

    pub(super) fn decode(byte: u8) -> Option<Refusal> {
        Refusal::ALL.into_iter().find(|known| *known as u8 == byte)
    }
}

/// A range of row keys without their partition: `from`, key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// Where it starts.
    pub start: &'a [u8],
    /// Before what it ends; empty: at the end of the partition.
    pub end: &'a [u8],
}

/// What a replica holds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    /// The range.
    pub span: Span<'a>,
    /// Its rows, tombstones included.
    pub rows: u64,
    /// The sum of their hashes.
    pub hash: u64,
}

/// A row of a partition, as replicas exchange it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// `from`, key.
    pub key: &'a [u8],
    /// What is there.
    pub record: Record<'a>,
}

/// A key that cuts a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Which of the partitions that the node was asked for it is of.
    pub assigned: u16,
    /// Rows of that partition in the range, before the key.
    pub rank: u64,
}

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// Store this if it is newer. The answer is `Stored`, `Older` or `Refused`.
    Write {
        /// The key's partition.
        partition: Partition,
        /// Replicas of the entity.
        from: u8,
        /// Whether some replica holds it already, or what it was stamped above: then it is taken however far ahead of
        /// the clock it is.
        is_known: bool,
        /// The key.
        key: &'a [u8],
        /// What is to be stored.
        record: Record<'a>,
    },
    /// It is stored, durably.
    Stored,
    /// The replica has something newer, or lets nothing so old in: not a confirmation.
    Older {
        /// What has to be topped.
        version: Version,
    },
    /// It was not done.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// What is there?
    Read {
        /// The key's partition.
        partition: Partition,
        /// Replicas that are asked.
        from: u8,
        /// Whether the value is wanted however long it is; else the answer may be `Long`.
        is_whole: bool,
        /// The key.
        key: &'a [u8],
    },
    /// What a replica has of a key is a value too long to be sent by all who have it.
    Long {
        /// Replicas of the entity.
        from: u8,
        /// The value's version.
        version: Version,
        /// When it expires; 0: it does not.
        deadline_ms: u64,
        /// How long it is.
        bytes: u64,
    },
    /// What a replica has of a key.
    Value {
        /// Replicas of the entity, and its newest state; none if the key was never there, or long ago.
        found: Option<(u8, Record<'a>)>,
    },
    /// Which of these ranges are the same with you? The answer is `Differ`.
    Compare {
        /// The partition.
        partition: Partition,
        /// Whether the sender copies the partition.
        is_copy: bool,
        /// What the sender has.
        summaries: Vec<Summary<'a>>,
    },
    /// A bit for each range that was compared: whether it differs.
    Differ {
        /// The floor of the partition: what copies it lets in nothing below either.
        floor: u64,
        /// The bits, the first range in the lowest.
        bits: &'a [u8],
    },
    /// These are my rows; send me what I lack. The answer is `Entries`.
    Hashes {
        /// The partition.
        partition: Partition,
        /// Whether the sender copies the partition.
        is_copy: bool,
        /// Whether the receiver's rows are wanted, or only what it lacks.
        wants_rows: bool,
        /// The range.
        span: Span<'a>,
        /// Hashes of the sender's rows in it.
        hashes: Vec<u64>,
    },
    /// Rows whose hashes were not listed, and hashes whose rows are not here.
    Entries {
        /// The replica's horizon when it read the rows.
        horizon: u64,
        /// Up to this timestamp, and in classes up to this one, what the replica does not have is absent for good.
        absent: (u64, u8),
        /// Up to where the range was looked at; empty: to its end.
        resume: &'a [u8],
        /// What the asker lacks.
        rows: Vec<Row<'a>>,
        /// What the replica lacks; nothing, if it has not looked at the whole range.
        wanted: Vec<u64>,
    },
    /// Rows that the receiver lacks. The answer is `Stored` or `Refused`.
    Give {
        /// The partition.
        partition: Partition,
        /// The sender's horizon when it read the rows.
        horizon: u64,
        /// The rows.
        rows: Vec<Row<'a>>,
    },
    /// Let nothing older into the partition from now on. The answer is `Stored` or `Refused`.
    Floor {
        /// The partition.
        partition: Partition,
        /// The timestamp.
        time: u64,
    },
    /// All replicas agree up to here: drop the tombstones. The answer is `Stored` or `Refused`.
    Horizon {
        /// The partition.
        partition: Partition,
        /// The timestamp.
        time: u64,
        /// The largest `from` that was compared.
        from_max: u8,
    },
    /// Are you there? The answer is `Pong`.
    Ping {
        /// The last entry of the topology's log that the sender has applied.
        applied: u64,
        /// Which `from` are in use, a bit each.
        classes: u32,
        /// The sender's wall clock.
        wall_ms: u64,
    },
    /// Yes.
    Pong {
        /// As above.
        applied: u64,
        /// As above.
        classes: u32,
        /// As above.
        wall_ms: u64,
    },
    /// Send the topology, if yours is newer than this.
    AskTopology {
        /// The last entry that the sender has applied.
        applied: u64,
    },
    /// The topology, encoded.
    Topology {
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A message of the failure detector.
    Gossip {
        /// The sender's wall clock.
        wall_ms: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A message of the topology's log.
    Log {
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// How many keys of a range are in these partitions, from the class of each on?
    Count {
        /// The range of keys; an empty end is no end.
        span: Span<'a>,
        /// The partitions, each with the least `from`.
        assigned: Vec<(Partition, u8)>,
    },
    /// The count, and what was not counted.
    Counted {
        /// Keys.
        rows: u64,
        /// The highest timestamp that the node has met.
        time: u64,
        /// Partitions that the node cannot answer for, by their place in the question.
        refused: Vec<u16>,
    },
    /// Keys that cut the part of a range from `low` on in these partitions, `low` among them.
    Cuts {
        /// The range of keys, from whose start ranks count.
        span: Span<'a>,
        /// Where the part begins.
        low: &'a [u8],
        /// How many keys, for each partition.
        cuts: u16,
        /// The partitions.
        assigned: Vec<(Partition, u8)>,
    },
    /// Cuts, ascending by partition and key, and the rows of each partition in the range.
    Cutting {
        /// The highest timestamp that the node has met.
        time: u64,
        /// Rows in the range, for each partition.
        rows: Vec<u64>,
        /// The cuts.
        cuts: Vec<Cut<'a>>,
        /// Partitions that the node cannot answer for.
        refused: Vec<u16>,
    },
    /// The first keys of a range in these partitions.
    Page {
        /// The range of keys.
        span: Span<'a>,
        /// How many at most.
        rows: u16,
        /// Whether values are wanted.
        with_values: bool,
        /// The partitions.
        assigned: Vec<(Partition, u8)>,
    },
    /// Keys in order, with their values or empty.
    Rows {
        /// The highest timestamp that the node has met.
        time: u64,
        /// Up to where (exclusively) all keys are here; empty: to the end of the range.
        resume: &'a [u8],
        /// The keys.
        rows: Vec<(&'a [u8], &'a [u8])>,
        /// Partitions that the node cannot answer for.
        refused: Vec<u16>,
    },
    /// A conditional write, for the node that serializes those of its key.
    Conditional {
        /// Answers waited for, and replicas.
        quorum: (u8, u8),
        /// 1: the entity's version must be one of these; 2: it must be none of these; no version: any.
        condition: u8,
        /// The versions.
        versions: Vec<Version>,
        /// When the value expires; 0: never.
        deadline_ms: u64,
        /// The key.
        key: &'a [u8],
        /// The new value; none: remove.
        value: Option<&'a [u8]>,
    },
    /// How a conditional write ended.
    Outcome {
        /// 1 written, 2 the condition failed, 3 not enough replicas, 4 overloaded.
        outcome: u8,
        /// The version written, or that which was found.
        version: Version,
    },
    /// What the sender's store has come to.
    Mark {
        /// The store.
        store: u64,
        /// The number that stands in it, on stable storage.
        mark: u64,
    },
}

impl<'a> Message<'a> {
    /// The kind, as frames have it.
    pub fn kind(&self) -> u8 {
        match self {
            Message::Write { .. } => 1,
            Message::Stored => 2,
            Message::Older { .. } => 3,
            Message::Refused { .. } => 4,
            Message::Read { .. } => 5,
            Message::Value { .. } => 6,
            Message::Compare { .. } => 7,
            Message::Differ { .. } => 8,
            Message::Hashes { .. } => 9,
            Message::Entries { .. } => 10,
            Message::Give { .. } => 11,
            Message::Floor { .. } => 12,
            Message::Horizon { .. } => 13,
            Message::Ping { .. } => 14,
            Message::Pong { .. } => 15,
            Message::AskTopology { .. } => 16,
            Message::Topology { .. } => 17,
            Message::Gossip { .. } => 18,
            Message::Log { .. } => LOG,
            Message::Count { .. } => 20,
            Message::Counted { .. } => 21,
            Message::Cuts { .. } => 22,
            Message::Cutting { .. } => 23,
            Message::Page { .. } => 24,
            Message::Rows { .. } => 25,
            Message::Conditional { .. } => 26,
            Message::Outcome { .. } => 27,
            Message::Mark { .. } => MARK,
            Message::Long { .. } => 29,
        }
    }
}
