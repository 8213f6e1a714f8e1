//! The entities of a cluster, which the coordinator of this node asks the others for.
//!
//! Each key is an entity of its own: to write several is so many writes. What reads and then writes writes on the
//! condition that the version is still the one that was read.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use quipu::Bounds;
use quipu_cluster::api::{self, Offset, Range, Request};
use quipu_cluster::ids::{Quorum, Version};

use super::pending::{Counted, Entity, Paged, Pending, counted, paged, read, written};
use super::{Condition, Entities, Failure, Found, Lifetime, NewDeadline, PageAsked, PagePart, Value};
use crate::cluster::Cluster;
use crate::keyspace::StoredString;
use crate::keyspace::value::Kind;
use crate::system::clock;

/// Keys of one command that the node is asked for at once: it has room for the requests of others, too.
const AT_ONCE: usize = 128;
/// Attempts at a write on condition while others write the same key.
const TRIES: usize = 16;
/// Keys of a page that the nodes are asked for at once.
const PAGE_ROWS: usize = 500;
/// Bytes of all pages of one command.
const PAGES_BYTES_MAX: usize = 64 << 20;

/// The coordinator of this node, with how many replicas are asked.
#[derive(Clone, Copy)]
pub struct Coordinator<'c> {
    cluster: &'c Cluster,
    /// None: the defaults.
    quorum: Option<Quorum>,
}

impl<'c> Coordinator<'c> {
    /// The coordinator of a node of this cluster.
    pub fn new(cluster: &'c Cluster, quorum: Option<Quorum>) -> Coordinator<'c> {
        Coordinator { cluster, quorum }
    }

    /// Asks for an entity.
    pub fn ask_get(&self, key: Vec<u8>) -> Pending<Option<Entity>> {
        Pending::new(self.cluster.ask(Request::Get { key, quorum: self.quorum, is_blocking: false }), read)
    }

    /// Asks to write an entity, or to remove it (no value), if a condition holds. Its version, if it did.
    pub fn ask_put(
        &self,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
        ttl_ms: Option<u64>,
        condition: Option<api::Condition>,
    ) -> Pending<Option<Version>> {
        let put = Request::Put { key, value, ttl_ms, quorum: self.quorum, condition };
        Pending::new(self.cluster.ask(put), written)
    }

    /// Asks how many keys a range has. `ack` replicas of each partition must agree.
    pub fn ask_count(&self, range: Range, ack: u8) -> Pending<Counted> {
        Pending::new(self.cluster.ask(Request::Count { range, ack }), counted)
    }

    /// Asks for keys of a range, from an offset on: for so many, or for as many as a page has.
    pub fn ask_page(&self, range: Range, offset: u64, rows: u64, with_values: bool) -> Pending<Paged> {
        let limit = rows.min(PAGE_ROWS as u64) as usize;
        let page = Request::Page { range, offset: Offset::Keys(offset), limit, with_values };
        Pending::new(self.cluster.ask(page), paged)
    }

    /// Asks for many things, some of them side by side, and calls `take` with the answers in order. After the first
    /// that fails it asks for no more.
    fn ask_all<T, R>(
        asked: impl Iterator<Item = T>,
        ask: impl Fn(T) -> Pending<R>,
        mut take: impl FnMut(R),
    ) -> Result<(), Failure> {
        let mut under_way = VecDeque::new();
        for one in asked {
            if under_way.len() == AT_ONCE
                && let Some(first) = under_way.pop_front()
            {
                take(Pending::wait(first)?);
            }
            under_way.push_back(ask(one));
        }
        under_way.into_iter().try_for_each(|pending| pending.wait().map(&mut take))
    }

    /// Reads several keys side by side.
    fn get_all(&self, keys: &[&[u8]], take: impl FnMut(Option<Entity>)) -> Result<(), Failure> {
        Self::ask_all(keys.iter(), |key| self.ask_get(key.to_vec()), take)
    }
}

/// The range of keys that bounds mean; `None` if it is empty.
fn range_of(bounds: &Bounds<'_>) -> Option<Range> {
    let after = |key: &[u8]| [key, &[0]].concat();
    let start = match bounds.start_bound() {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => after(key),
    };
    let end = match bounds.end_bound() {
        Bound::Unbounded => Vec::new(),
        Bound::Excluded([]) => return None,
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => key.to_vec(),
    };
    (end.is_empty() || start < end).then_some(Range { start, end })
}

/// Another may write between the read and the write.
fn not_at_once() -> Failure {
    let text = "what is read and replaced at once (GET or KEEPTTL of SET) is not served by a node of a cluster";
    Failure::Invalid(text.to_owned())
}

impl Entities for Coordinator<'_> {
    type New<'v> = &'v [u8];

    fn now_ms(&self) -> u64 {
        clock::now_ms()
    }

    fn find(&self, key: &[u8]) -> Result<Option<Found>, Failure> {
        let found = self.ask_get(key.to_vec()).wait()?;
        Ok(found.map(|Entity { value, deadline_ms, .. }| Found {
            kind: Kind::String,
            deadline_ms,
            bytes: value.len() as u64,
        }))
    }

    fn count_found(&self, keys: &[&[u8]]) -> Result<u64, Failure> {
        let mut found = 0;
        self.get_all(keys, |entity| found += u64::from(entity.is_some()))?;
        Ok(found)
    }

    fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure> {
        let found = self.ask_get(key.to_vec()).wait()?;
        Ok(read(found.as_ref().map(|entity| Value::String(StoredString::Whole(&entity.value)))))
    }

    fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(Option<Value<'_>>)) -> Result<(), Failure> {
        self.get_all(keys, |entity| {
            read(entity.as_ref().map(|entity| Value::String(StoredString::Whole(&entity.value))));
        })
    }

    fn get_to_replace<T>(&self, _: &[u8], _: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure> {
        Err(not_at_once())
    }

    /// The replicas say what is too long.
    fn prepare<'v>(&mut self, _: &[u8], value: &'v [u8]) -> Result<&'v [u8], Failure> {
        Ok(value)
    }

    fn prepare_many<'v>(&mut self, _: &[&[u8]], values: &[&'v [u8]]) -> Result<Vec<&'v [u8]>, Failure> {
        Ok(values.to_vec())
    }

    fn put(&mut self, key: &[u8], value: &[u8], condition: &Condition, lifetime: Lifetime) -> Result<bool, Failure> {
        let ttl_ms = match lifetime {
            Lifetime::Forever => None,
            Lifetime::Kept => return Err(not_at_once()),
            // For no time if that has passed: it is removed.
            Lifetime::Until(deadline_ms) => Some(deadline_ms.saturating_sub(clock::now_ms())),
        };
        let put = self.ask_put(key.to_vec(), Some(value.to_vec()), ttl_ms, condition.of_versions()?);
        Ok(put.wait()?.is_some())
    }

    fn put_many(&mut self, keys: &[&[u8]], values: Vec<&[u8]>) -> Result<(), Failure> {
        let put = |(key, value): (&&[u8], &[u8])| self.ask_put(key.to_vec(), Some(value.to_vec()), None, None);
        Self::ask_all(keys.iter().zip(values), put, drop)
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<u64, Failure> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let found = self.count_found(&keys)?;
        // Those that are absent here may be on their way: they are removed as well.
        Self::ask_all(keys.iter(), |key| self.ask_put(key.to_vec(), None, None, None), drop)?;
        Ok(found)
    }

    fn set_deadline(&mut self, key: &[u8], decide: impl Fn(Option<u64>) -> NewDeadline) -> Result<bool, Failure> {
        for _ in 0..TRIES {
            let Some(found) = self.ask_get(key.to_vec()).wait()? else { return Ok(false) };
            let (value, ttl_ms) = match decide(found.deadline_ms) {
                NewDeadline::Unchanged => return Ok(false),
                NewDeadline::Past => (None, None),
                NewDeadline::Put(None) => (Some(found.value), None),
                NewDeadline::Put(Some(deadline_ms)) => {
                    (Some(found.value), Some(deadline_ms.saturating_sub(clock::now_ms())))
                }
            };
            let condition = Some(api::Condition::Is(vec![found.version]));
            if self.ask_put(key.to_vec(), value, ttl_ms, condition).wait()?.is_some() {
                return Ok(true);
            }
        }
        Err(Failure::Contended)
    }

    fn count(&self, range: Option<&Bounds<'_>>) -> Result<u64, Failure> {
        let Some(range) = range.and_then(range_of) else { return Ok(0) };
        Ok(self.ask_count(range, 1).wait()?.rows)
    }

    fn rank(&self, key: &[u8]) -> Result<u64, Failure> {
        self.count(Some(&Bounds::from(..key)))
    }

    fn nth(&self, range: Option<&Bounds<'_>>, offset: u64) -> Result<Option<Vec<u8>>, Failure> {
        let Some(range) = range.and_then(range_of) else { return Ok(None) };
        let rows = self.ask_page(range, offset, 1, false).wait()?.rows;
        Ok(rows.into_iter().next().map(|(key, _)| key))
    }

    /// In pages of moments of their own.
    fn page(
        &self,
        range: Option<&Bounds<'_>>,
        asked: &PageAsked,
        mut read: impl FnMut(PagePart<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let total = if asked.is_reverse || asked.with_total { self.count(range)? } else { 0 };
        let (mut offset, mut limit) = (asked.offset, asked.limit);
        if asked.is_reverse {
            let end = total.saturating_sub(offset);
            offset = end.saturating_sub(limit);
            limit = end - offset;
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        if let Some(mut range) = range.and_then(range_of) {
            while (found.len() as u64) < limit {
                let left = limit - found.len() as u64;
                let rows = self.ask_page(range.clone(), offset, left, asked.with_values).wait()?.rows;
                let Some((last, _)) = rows.last() else { break };
                (range.start, offset) = ([&last[..], &[0]].concat(), 0);
                bytes += rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                if bytes > PAGES_BYTES_MAX {
                    let text = "the answer has more than 64 MiB: ask for parts of it with OFFSET and LIMIT";
                    return Err(Failure::TooLarge(text.to_owned()));
                }
                found.extend(rows);
            }
        }
        if asked.is_reverse {
            found.reverse();
        }
        read(PagePart::Begin { total, rows: found.len() as u64 })?;
        found.iter().try_for_each(|(key, value)| {
            let value = asked.with_values.then_some(Value::String(StoredString::Whole(value)));
            read(PagePart::Row(key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_bounds() {
        let range = |start: &[u8], end: &[u8]| Some(Range { start: start.to_vec(), end: end.to_vec() });
        let of = |start, end| range_of(&Bounds::new(start, end));
        assert_eq!(of(Bound::Unbounded, Bound::Unbounded), range(b"", b""));
        assert_eq!(of(Bound::Included(b"a"), Bound::Excluded(b"b")), range(b"a", b"b"));
        assert_eq!(of(Bound::Excluded(b"a"), Bound::Included(b"b")), range(b"a\0", b"b\0"));
        assert_eq!(of(Bound::Included(b"b"), Bound::Excluded(b"b")), None);
        assert_eq!(of(Bound::Unbounded, Bound::Excluded(b"")), None);
    }
}
