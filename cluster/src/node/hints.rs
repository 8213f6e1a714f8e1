//! Hints: what peers have missed, kept durably and handed over when they are back.
//!
//! Invariants:
//! 1. Of a peer, key and class there is one hint, with the newest version. It has the record itself only where this
//!    node is no replica of it; else the row is read when the hint is handed over, and may be newer.
//! 2. A hint goes when the peer has confirmed its version or something newer. It is no confirmation of any write.
//! 3. Hints for a peer are bounded in bytes, and hints in age. What is dropped is found by repair.
//! 4. Hints on their way to a peer are bounded in number and in bytes of their rows, but for one row of any length.

use std::collections::BTreeMap;

use quipu::Result;

use super::context::Context;
use super::waiting::{Reply, Timer, Waiter};
use crate::clock::ms_of_time;
use crate::ids::{NodeId, Partition, Version};
use crate::peers::Health;
use crate::protocol::{Message, Refusal};
use crate::record::{Record, hint_key, parse_row_key, row_key};
use crate::tables::{Table, Tables};

/// How often hints are looked at while there are some.
const EVERY_MS: u64 = 50;

/// Hints on their way.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// Bytes and rows of the hints for each peer, as far as this start has counted; the tables know it exactly.
    peers: BTreeMap<NodeId, Handing>,
}

#[derive(Debug, Default)]
struct Handing {
    /// Where the next look begins.
    after: Vec<u8>,
    /// Requests under way.
    under_way: BTreeMap<u64, Sent>,
    /// Before this moment the peer is left alone.
    not_before_ms: u64,
}

/// A hint under way.
#[derive(Debug)]
struct Sent {
    key: Vec<u8>,
    version: Version,
    /// Bytes of the row.
    bytes: usize,
    /// When its answer is waited for no longer.
    until_ms: u64,
}

impl Hints {
    /// Finds out for whom there are hints.
    pub(super) fn open<T: Tables>(&mut self, cx: &Context<'_, T>) -> Result<()> {
        let mut start = Vec::new();
        loop {
            let mut peer = None;
            cx.tables.scan(Table::Hints, &start, &[0xFF; 3], 1, |key, _| {
                peer = key.first_chunk().map(|bytes| NodeId(u16::from_be_bytes(*bytes)));
                false
            })?;
            let Some(peer) = peer else { return Ok(()) };
            self.peers.entry(peer).or_default();
            let Some(next) = peer.0.checked_add(1) else { return Ok(()) };
            start = next.to_be_bytes().to_vec();
        }
    }

    /// A peer seems to be back.
    pub(super) fn wake(&mut self, node: NodeId) {
        if let Some(handing) = self.peers.get_mut(&node) {
            handing.not_before_ms = 0;
        }
    }

    /// Keeps what a peer has missed.
    pub(super) fn leave<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        peer: NodeId,
        (partition, from, key): (Partition, u8, &[u8]),
        record: Record<'_>,
    ) -> Result<()> {
        if !cx.routing.is_living(peer) {
            return Ok(());
        }
        let row = row_key(partition, from, key);
        let hint = hint_key(peer, &row);
        let is_newer = cx.tables.get_with(Table::Hints, &hint, |old| {
            old.and_then(Version::decode).is_none_or(|(version, _)| version < record.version)
        })?;
        if !is_newer {
            return Ok(());
        }
        let mut value = record.version.encode().to_vec();
        if cx.routing.least_from(partition, cx.own).is_none_or(|least| from < least) {
            record.encode(&mut value);
        }
        let (start, end) = range(peer);
        let bytes = cx.tables.tally(Table::Hints, &start, &end)?.bytes as u64;
        let more = hint.len() + value.len();
        if bytes + more as u64 > cx.limits.hint_bytes_max || !cx.tables.has_room_for(false, more)? {
            cx.metrics.hints_dropped += 1;
            return Ok(());
        }
        cx.tables.put(Table::Hints, &hint, &value)?;
        cx.metrics.hints_left += 1;
        if self.peers.is_empty() {
            cx.set_timer(EVERY_MS, Timer::Hints);
        }
        self.peers.entry(peer).or_default();
        Ok(())
    }

    /// Hands over what peers that are up have missed, a few at a time.
    pub(super) fn hand_over<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            if !cx.routing.is_living(peer) {
                self.drop_hints(cx, peer)?;
                continue;
            }
            if let Some(handing) = self.peers.get_mut(&peer) {
                let now_ms = cx.now.ticks_ms;
                let lost = handing.under_way.extract_if(.., |_, sent| sent.until_ms <= now_ms);
                for (request, _) in lost.collect::<Vec<_>>() {
                    cx.forget(request);
                }
            }
            if cx.health(peer) == Health::Up {
                self.hand_over_to(cx, peer)?;
            }
        }
        if !self.peers.is_empty() {
            cx.set_timer(EVERY_MS, Timer::Hints);
        }
        Ok(())
    }

    /// Hints for a peer that is no member any more.
    fn drop_hints<T: Tables>(&mut self, cx: &mut Context<'_, T>, peer: NodeId) -> Result<()> {
        let (start, end) = range(peer);
        let mut keys = Vec::new();
        cx.tables.scan(Table::Hints, &start, &end, cx.limits.housekeeping_rows, |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.iter().try_for_each(|key| remove(cx.tables, key))?;
        if keys.is_empty() {
            let handing = self.peers.remove(&peer).unwrap_or_default();
            handing.under_way.into_keys().for_each(|request| cx.forget(request));
        }
        Ok(())
    }

    fn hand_over_to<T: Tables>(&mut self, cx: &mut Context<'_, T>, peer: NodeId) -> Result<()> {
        let now = cx.now;
        let Some(mut handing) = self.peers.remove(&peer) else { return Ok(()) };
        let room = cx.limits.hints_in_flight_max.saturating_sub(handing.under_way.len());
        let mut bytes_left = cx.limits.hint_bytes_in_flight_max;
        bytes_left = bytes_left.saturating_sub(handing.under_way.values().map(|sent| sent.bytes).sum());
        if now.ticks_ms < handing.not_before_ms || room == 0 || bytes_left == 0 {
            self.peers.insert(peer, handing);
            return Ok(());
        }
        let (start, end) = range(peer);
        let from = if handing.after.is_empty() { &start } else { &handing.after };
        let mut found = Vec::new();
        cx.tables.scan(Table::Hints, from, &end, room, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            true
        })?;
        if found.is_empty() && handing.after.is_empty() && handing.under_way.is_empty() {
            return Ok(());
        }
        handing.after = match found.last() {
            Some((key, _)) if found.len() == room => [key, &[0][..]].concat(),
            _ => Vec::new(),
        };
        for (key, value) in found {
            if handing.under_way.values().any(|other| other.key == key) {
                continue;
            }
            if bytes_left == 0 {
                handing.after = key;
                break;
            }
            match hand_over_one(cx, peer, &key, &value)? {
                Some((request, version, bytes)) => {
                    let long_ms = bytes as u64 / cx.limits.bytes_a_ms.max(1);
                    let until_ms = now.ticks_ms + cx.limits.repair_timeout_ms + long_ms;
                    bytes_left = bytes_left.saturating_sub(bytes);
                    handing.under_way.insert(request, Sent { key, version, bytes, until_ms });
                    cx.metrics.hints_sent += 1;
                }
                None => remove(cx.tables, &key)?,
            }
        }
        self.peers.insert(peer, handing);
        Ok(())
    }

    /// A peer has answered a hint, or will not.
    pub(super) fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        peer: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(handing) = self.peers.get_mut(&peer) else { return Ok(()) };
        let Some(Sent { key, version, .. }) = handing.under_way.remove(&request) else { return Ok(()) };
        let is_done = match reply {
            Reply::Message(_, Message::Stored | Message::Older { .. }) => true,
            // It is no replica of this any more, if it knows more of the topology than this node.
            Reply::Message(epoch, Message::Refused { refusal: Refusal::NotReplica }) => epoch >= cx.routing.epoch(),
            _ => false,
        };
        if !is_done {
            handing.not_before_ms = cx.now.ticks_ms + 10 * EVERY_MS;
            return Ok(());
        }
        let is_same = cx.tables.get_with(Table::Hints, &key, |value| {
            value.and_then(Version::decode).is_some_and(|(stored, _)| stored == version)
        })?;
        if is_same {
            remove(cx.tables, &key)?;
        }
        if handing.under_way.is_empty() {
            return self.hand_over_to(cx, peer);
        }
        Ok(())
    }
}

/// Removes a hint, unless even that needs more space than a full disk has: then it is handed over again.
fn remove<T: Tables>(tables: &mut T, key: &[u8]) -> Result<()> {
    if tables.has_room_for(true, key.len())? { tables.remove(Table::Hints, key) } else { Ok(()) }
}

/// The hints of a peer, from the first to after the last.
fn range(peer: NodeId) -> (Vec<u8>, Vec<u8>) {
    let end = peer.0.checked_add(1).map_or(vec![0xFF; 3], |next| next.to_be_bytes().to_vec());
    (peer.0.to_be_bytes().to_vec(), end)
}

/// Sends what a hint tells of. Returns the number of the message, the hint's version and the bytes of the row; none if
/// the hint is to go.
fn hand_over_one<T: Tables>(
    cx: &mut Context<'_, T>,
    peer: NodeId,
    key: &[u8],
    value: &[u8],
) -> Result<Option<(u64, Version, usize)>> {
    let row = &key[2..];
    let Some(((version, record), (partition, from, entity))) = Version::decode(value).zip(parse_row_key(row)) else {
        return Ok(None);
    };
    if ms_of_time(version.time) + cx.limits.hint_age_ms_max < cx.now.wall_ms {
        cx.metrics.hints_dropped += 1;
        return Ok(None);
    }
    let stored = match record {
        [] => match cx.tables.get(Table::Entities, row)? {
            Some(bytes) => Some(bytes),
            None => cx.tables.get(Table::Graves, row)?,
        },
        record => Some(record.to_vec()),
    };
    // If the row is gone here, its tombstone was agreed on by all, or it lies elsewhere now.
    let Some(record) = stored.as_deref().and_then(Record::decode) else { return Ok(None) };
    let message = Message::Write { partition, from, is_known: true, key: entity, record };
    let bytes = entity.len() + record.encoded_bytes();
    Ok(Some((cx.ask(peer, Waiter::Hint, &message), version, bytes)))
}
