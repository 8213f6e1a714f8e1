//! The messages between nodes, and their bodies as bytes.

use crate::codec::{Fields, Put};
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
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 6] = {
        use Refusal::{Failed, FarAhead, NotReady, NotReplica, Overloaded, StaleEpoch};
        [StaleEpoch, NotReplica, NotReady, FarAhead, Overloaded, Failed]
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
        }
    }

    fn decode(byte: u8) -> Option<Refusal> {
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
        /// The key.
        key: &'a [u8],
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
        }
    }

    /// Writes the body.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Write { partition, from, is_known, key, record } => {
                out.put_u16(partition.0);
                out.put_u8(*from);
                out.put_u8(u8::from(*is_known));
                out.put_short(key);
                record.encode(out);
            }
            Message::Stored => {}
            Message::Older { version } => out.put_version(*version),
            Message::Refused { refusal } => out.put_u8(*refusal as u8),
            Message::Read { partition, from, key } => {
                out.put_u16(partition.0);
                out.put_u8(*from);
                out.put_short(key);
            }
            Message::Value { found } => {
                if let Some((from, record)) = found {
                    out.put_u8(*from);
                    record.encode(out);
                }
            }
            Message::Compare { partition, is_copy, summaries } => {
                out.put_u16(partition.0);
                out.put_u8(u8::from(*is_copy));
                out.put_u32(summaries.len() as u32);
                for summary in summaries {
                    put_span(out, summary.span);
                    out.put_u64(summary.rows);
                    out.put_u64(summary.hash);
                }
            }
            Message::Differ { bits } => out.extend_from_slice(bits),
            Message::Hashes { partition, is_copy, wants_rows, span, hashes } => {
                out.put_u16(partition.0);
                out.put_u8(u8::from(*is_copy));
                out.put_u8(u8::from(*wants_rows));
                put_span(out, *span);
                put_numbers(out, hashes);
            }
            Message::Entries { horizon, resume, rows, wanted } => {
                out.put_u64(*horizon);
                out.put_short(resume);
                put_rows(out, rows);
                put_numbers(out, wanted);
            }
            Message::Give { partition, horizon, rows } => {
                out.put_u16(partition.0);
                out.put_u64(*horizon);
                put_rows(out, rows);
            }
            Message::Floor { partition, time } => {
                out.put_u16(partition.0);
                out.put_u64(*time);
            }
            Message::Horizon { partition, time, from_max } => {
                out.put_u16(partition.0);
                out.put_u64(*time);
                out.put_u8(*from_max);
            }
            Message::Ping { applied, classes, wall_ms } | Message::Pong { applied, classes, wall_ms } => {
                out.put_u64(*applied);
                out.put_u32(*classes);
                out.put_u64(*wall_ms);
            }
            Message::AskTopology { applied } => out.put_u64(*applied),
            Message::Topology { bytes } | Message::Log { bytes } => out.extend_from_slice(bytes),
            Message::Gossip { wall_ms, bytes } => {
                out.put_u64(*wall_ms);
                out.extend_from_slice(bytes);
            }
            Message::Count { span, assigned } => {
                put_span(out, *span);
                put_assigned(out, assigned);
            }
            Message::Counted { rows, time, refused } => {
                out.put_u64(*rows);
                out.put_u64(*time);
                put_places(out, refused);
            }
            Message::Cuts { span, low, cuts, assigned } => {
                put_span(out, *span);
                out.put_short(low);
                out.put_u16(*cuts);
                put_assigned(out, assigned);
            }
            Message::Cutting { time, rows, cuts, refused } => {
                out.put_u64(*time);
                put_numbers(out, rows);
                out.put_u32(cuts.len() as u32);
                for cut in cuts {
                    out.put_short(cut.key);
                    out.put_u16(cut.assigned);
                    out.put_u64(cut.rank);
                }
                put_places(out, refused);
            }
            Message::Page { span, rows, with_values, assigned } => {
                put_span(out, *span);
                out.put_u16(*rows);
                out.put_u8(u8::from(*with_values));
                put_assigned(out, assigned);
            }
            Message::Rows { time, resume, rows, refused } => {
                out.put_u64(*time);
                out.put_short(resume);
                out.put_u32(rows.len() as u32);
                for (key, value) in rows {
                    out.put_short(key);
                    out.put_long(value);
                }
                put_places(out, refused);
            }
            Message::Conditional { quorum, condition, versions, deadline_ms, key, value } => {
                out.put_u8(quorum.0);
                out.put_u8(quorum.1);
                out.put_u8(*condition);
                out.put_u16(versions.len() as u16);
                versions.iter().for_each(|version| out.put_version(*version));
                out.put_u64(*deadline_ms);
                out.put_short(key);
                out.put_u8(u8::from(value.is_some()));
                out.extend_from_slice(value.unwrap_or_default());
            }
            Message::Outcome { outcome, version } => {
                out.put_u8(*outcome);
                out.put_version(*version);
            }
            Message::Mark { store, mark } => {
                out.put_u64(*store);
                out.put_u64(*mark);
            }
        }
    }

    /// Reads a body; `None` if it is none of this kind.
    pub(super) fn decode(kind: u8, body: &'a [u8]) -> Option<Message<'a>> {
        let mut fields = Fields(body);
        let f = &mut fields;
        let message = match kind {
            1 => Message::Write {
                partition: f.partition()?,
                from: f.u8()?,
                is_known: f.bool()?,
                key: f.short()?,
                record: Record::decode(f.rest())?,
            },
            2 => Message::Stored,
            3 => Message::Older { version: f.version()? },
            4 => Message::Refused { refusal: Refusal::decode(f.u8()?)? },
            5 => Message::Read { partition: f.partition()?, from: f.u8()?, key: f.short()? },
            6 if body.is_empty() => Message::Value { found: None },
            6 => Message::Value { found: Some((f.u8()?, Record::decode(f.rest())?)) },
            7 => Message::Compare {
                partition: f.partition()?,
                is_copy: f.bool()?,
                summaries: list(f, |f| Some(Summary { span: span(f)?, rows: f.u64()?, hash: f.u64()? }))?,
            },
            8 => Message::Differ { bits: f.rest() },
            9 => Message::Hashes {
                partition: f.partition()?,
                is_copy: f.bool()?,
                wants_rows: f.bool()?,
                span: span(f)?,
                hashes: list(f, Fields::u64)?,
            },
            10 => Message::Entries {
                horizon: f.u64()?,
                resume: f.short()?,
                rows: rows(f)?,
                wanted: list(f, Fields::u64)?,
            },
            11 => Message::Give { partition: f.partition()?, horizon: f.u64()?, rows: rows(f)? },
            12 => Message::Floor { partition: f.partition()?, time: f.u64()? },
            13 => Message::Horizon { partition: f.partition()?, time: f.u64()?, from_max: f.u8()? },
            14 => Message::Ping { applied: f.u64()?, classes: f.u32()?, wall_ms: f.u64()? },
            15 => Message::Pong { applied: f.u64()?, classes: f.u32()?, wall_ms: f.u64()? },
            16 => Message::AskTopology { applied: f.u64()? },
            17 => Message::Topology { bytes: f.rest() },
            18 => Message::Gossip { wall_ms: f.u64()?, bytes: f.rest() },
            LOG => Message::Log { bytes: f.rest() },
            20 => Message::Count { span: span(f)?, assigned: assigned(f)? },
            21 => Message::Counted { rows: f.u64()?, time: f.u64()?, refused: list(f, Fields::u16)? },
            22 => Message::Cuts { span: span(f)?, low: f.short()?, cuts: f.u16()?, assigned: assigned(f)? },
            23 => Message::Cutting {
                time: f.u64()?,
                rows: list(f, Fields::u64)?,
                cuts: list(f, |f| Some(Cut { key: f.short()?, assigned: f.u16()?, rank: f.u64()? }))?,
                refused: list(f, Fields::u16)?,
            },
            24 => Message::Page { span: span(f)?, rows: f.u16()?, with_values: f.bool()?, assigned: assigned(f)? },
            25 => Message::Rows {
                time: f.u64()?,
                resume: f.short()?,
                rows: list(f, |f| Some((f.short()?, f.long()?)))?,
                refused: list(f, Fields::u16)?,
            },
            26 => {
                let quorum = (f.u8()?, f.u8()?);
                let condition = f.u8()?;
                let count = f.u16()?;
                let versions = (0..count).map(|_| f.version()).collect::<Option<_>>()?;
                let (deadline_ms, key) = (f.u64()?, f.short()?);
                let value = match f.bool()? {
                    true => Some(f.rest()),
                    false => None,
                };
                Message::Conditional { quorum, condition, versions, deadline_ms, key, value }
            }
            27 => Message::Outcome { outcome: f.u8()?, version: f.version()? },
            MARK => Message::Mark { store: f.u64()?, mark: f.u64()? },
            _ => return None,
        };
        fields.end()?;
        Some(message)
    }
}

fn put_span(out: &mut Vec<u8>, span: Span<'_>) {
    out.put_short(span.start);
    out.put_short(span.end);
}

fn span<'a>(fields: &mut Fields<'a>) -> Option<Span<'a>> {
    Some(Span { start: fields.short()?, end: fields.short()? })
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    out.put_u32(numbers.len() as u32);
    numbers.iter().for_each(|number| out.put_u64(*number));
}

fn put_places(out: &mut Vec<u8>, places: &[u16]) {
    out.put_u32(places.len() as u32);
    places.iter().for_each(|place| out.put_u16(*place));
}

fn put_assigned(out: &mut Vec<u8>, assigned: &[(Partition, u8)]) {
    out.put_u32(assigned.len() as u32);
    for (partition, from) in assigned {
        out.put_u16(partition.0);
        out.put_u8(*from);
    }
}

fn assigned(fields: &mut Fields<'_>) -> Option<Vec<(Partition, u8)>> {
    list(fields, |fields| Some((fields.partition()?, fields.u8()?)))
}

fn put_rows(out: &mut Vec<u8>, rows: &[Row<'_>]) {
    out.put_u32(rows.len() as u32);
    for row in rows {
        out.put_short(row.key);
        out.put_u32(row.record.encoded_bytes() as u32);
        row.record.encode(out);
    }
}

fn rows<'a>(fields: &mut Fields<'a>) -> Option<Vec<Row<'a>>> {
    list(fields, |fields| Some(Row { key: fields.short()?, record: Record::decode(fields.long()?)? }))
}

/// A count, and so many items. Memory grows with the items that are there, whatever the count says.
fn list<'a, T>(fields: &mut Fields<'a>, mut item: impl FnMut(&mut Fields<'a>) -> Option<T>) -> Option<Vec<T>> {
    let count = fields.u32()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(fields)?);
    }
    Some(items)
}
