//! The bodies of messages as bytes: `docs/internals/cluster.md` has the table.

use super::message::{Cut, LOG, MARK, Message, Refusal, Row, Span, Summary};
use crate::codec::{Fields, Put};
use crate::ids::Partition;
use crate::record::Record;

impl<'a> Message<'a> {
    /// Writes the body.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Write { .. }
            | Message::Stored
            | Message::Older { .. }
            | Message::Refused { .. }
            | Message::Read { .. }
            | Message::Long { .. }
            | Message::Value { .. }
            | Message::Conditional { .. }
            | Message::Outcome { .. } => self.encode_entity(out),
            Message::Compare { .. }
            | Message::Differ { .. }
            | Message::Hashes { .. }
            | Message::Entries { .. }
            | Message::Give { .. }
            | Message::Floor { .. }
            | Message::Horizon { .. } => self.encode_comparison(out),
            Message::Ping { .. }
            | Message::Pong { .. }
            | Message::AskTopology { .. }
            | Message::Topology { .. }
            | Message::Gossip { .. }
            | Message::Log { .. }
            | Message::Mark { .. } => self.encode_news(out),
            Message::Count { .. }
            | Message::Counted { .. }
            | Message::Cuts { .. }
            | Message::Cutting { .. }
            | Message::Page { .. }
            | Message::Rows { .. } => self.encode_position(out),
        }
    }

    /// Reads a body; `None` if it is not of this kind.
    pub(super) fn decode(kind: u8, body: &'a [u8]) -> Option<Message<'a>> {
        let mut fields = Fields(body);
        let message = match kind {
            1..=6 | 26..=27 | 29 => decode_entity(kind, &mut fields)?,
            7..=13 => decode_comparison(kind, &mut fields)?,
            14..=18 | LOG | MARK => decode_news(kind, &mut fields)?,
            20..=25 => decode_position(kind, &mut fields)?,
            _ => return None,
        };
        fields.end()?;
        Some(message)
    }

    /// Messages of single entities: writes and reads, and what most questions are answered.
    fn encode_entity(&self, out: &mut Vec<u8>) {
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
            Message::Read { partition, from, is_whole, key } => {
                out.put_u16(partition.0);
                out.put_u8(*from);
                out.put_u8(u8::from(*is_whole));
                out.put_short(key);
            }
            Message::Long { from, version, deadline_ms, bytes } => {
                out.put_u8(*from);
                out.put_version(*version);
                out.put_u64(*deadline_ms);
                out.put_u64(*bytes);
            }
            Message::Value { found: Some((from, record)) } => {
                out.put_u8(*from);
                record.encode(out);
            }
            Message::Value { found: None } => {}
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
            _ => {}
        }
    }

    /// Messages with which replicas compare their rows.
    fn encode_comparison(&self, out: &mut Vec<u8>) {
        match self {
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
            Message::Differ { floor, bits } => {
                out.put_u64(*floor);
                out.extend_from_slice(bits);
            }
            Message::Hashes { partition, is_copy, wants_rows, span, hashes } => {
                out.put_u16(partition.0);
                out.put_u8(u8::from(*is_copy));
                out.put_u8(u8::from(*wants_rows));
                put_span(out, *span);
                put_numbers(out, hashes);
            }
            Message::Entries { horizon, absent, resume, rows, wanted } => {
                out.put_u64(*horizon);
                out.put_u64(absent.0);
                out.put_u8(absent.1);
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
            _ => {}
        }
    }

    /// Messages that tell of members, clocks and the topology.
    fn encode_news(&self, out: &mut Vec<u8>) {
        match self {
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
            Message::Mark { store, mark } => {
                out.put_u64(*store);
                out.put_u64(*mark);
            }
            _ => {}
        }
    }

    /// Messages of position queries.
    fn encode_position(&self, out: &mut Vec<u8>) {
        match self {
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
            _ => {}
        }
    }
}

fn decode_entity<'a>(kind: u8, f: &mut Fields<'a>) -> Option<Message<'a>> {
    Some(match kind {
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
        5 => Message::Read { partition: f.partition()?, from: f.u8()?, is_whole: f.bool()?, key: f.short()? },
        6 if f.0.is_empty() => Message::Value { found: None },
        6 => Message::Value { found: Some((f.u8()?, Record::decode(f.rest())?)) },
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
        29 => Message::Long { from: f.u8()?, version: f.version()?, deadline_ms: f.u64()?, bytes: f.u64()? },
        _ => return None,
    })
}

fn decode_comparison<'a>(kind: u8, f: &mut Fields<'a>) -> Option<Message<'a>> {
    Some(match kind {
        7 => Message::Compare {
            partition: f.partition()?,
            is_copy: f.bool()?,
            summaries: list(f, |f| Some(Summary { span: span(f)?, rows: f.u64()?, hash: f.u64()? }))?,
        },
        8 => Message::Differ { floor: f.u64()?, bits: f.rest() },
        9 => Message::Hashes {
            partition: f.partition()?,
            is_copy: f.bool()?,
            wants_rows: f.bool()?,
            span: span(f)?,
            hashes: list(f, Fields::u64)?,
        },
        10 => Message::Entries {
            horizon: f.u64()?,
            absent: (f.u64()?, f.u8()?),
            resume: f.short()?,
            rows: rows(f)?,
            wanted: list(f, Fields::u64)?,
        },
        11 => Message::Give { partition: f.partition()?, horizon: f.u64()?, rows: rows(f)? },
        12 => Message::Floor { partition: f.partition()?, time: f.u64()? },
        13 => Message::Horizon { partition: f.partition()?, time: f.u64()?, from_max: f.u8()? },
        _ => return None,
    })
}

fn decode_news<'a>(kind: u8, f: &mut Fields<'a>) -> Option<Message<'a>> {
    Some(match kind {
        14 => Message::Ping { applied: f.u64()?, classes: f.u32()?, wall_ms: f.u64()? },
        15 => Message::Pong { applied: f.u64()?, classes: f.u32()?, wall_ms: f.u64()? },
        16 => Message::AskTopology { applied: f.u64()? },
        17 => Message::Topology { bytes: f.rest() },
        18 => Message::Gossip { wall_ms: f.u64()?, bytes: f.rest() },
        LOG => Message::Log { bytes: f.rest() },
        MARK => Message::Mark { store: f.u64()?, mark: f.u64()? },
        _ => return None,
    })
}

fn decode_position<'a>(kind: u8, f: &mut Fields<'a>) -> Option<Message<'a>> {
    Some(match kind {
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
        _ => return None,
    })
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
