//! `/v0/entities`: the entities of a range, one chunk each, as they were at one moment.
//!
//! The stream reads a snapshot in steps of some 64 KiB, and the next one only when the socket has taken the last: what it holds does not grow with the range.
//! A key that holds a collection is passed over; it counts where positions do.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::Response;
use quipu::{Bounds, Read, Snapshot};

use super::answer::{self, Answer};
use super::limits::{Places, Taken};
use super::query;
use super::writer::DATABASE;
use super::{Node, STREAM_STEP_BYTES};
use crate::clock;
use crate::keyspace::value::{Entry, Kind};
use crate::server::Server;

/// Entities read in one step, at most.
const STEP_ROWS_MAX: usize = 512;

pub(super) fn serve(node: &Node, query: Option<&str>) -> Response<Answer> {
    match ask(node, query) {
        Ok(Ok(Some(stream))) => answer::octets(Answer::Range(Box::new(stream))),
        Ok(Ok(None)) => answer::overloaded("too many ranges are being sent"),
        Ok(Err(error)) => answer::failed(&error),
        Err(reason) => answer::bad_request(reason),
    }
}

type Opened = quipu::Result<Option<RangeStream>>;

fn ask(node: &Node, query: Option<&str>) -> Result<Opened, String> {
    let [start, end, limit, offset, cluster] = query::parse(query, ["start", "end", "limit", "offset", "cluster"])?;
    let Some(start) = start.filter(|start| !start.is_empty()) else {
        return Err("`start` is missing or empty".to_owned());
    };
    if end.as_ref().is_some_and(|end| end.is_empty()) {
        return Err("`end` is empty; leave it out for a range without an end".to_owned());
    }
    check_cluster(cluster.as_deref())?;
    let limit = limit.map(|limit| query::number("limit", &limit)).transpose()?;
    let offset = offset.map(|offset| query::number("offset", &offset)).transpose()?;
    let Some(taken) = node.streams.take(1) else { return Ok(Ok(None)) };
    let now_ms = clock::now_ms();
    Ok(node.server.keyspace.live_snapshot(now_ms).and_then(|snapshot| {
        let mut stream = RangeStream {
            server: node.server.clone(),
            snapshot,
            flight_bytes: node.flight_bytes.clone(),
            now_ms,
            start: Bound::Included(start.into_owned()),
            end: end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.into_owned())),
            left_rows: limit.unwrap_or(u64::MAX),
            ready: VecDeque::new(),
            _taken: taken,
        };
        stream.skip(offset.unwrap_or(0))?;
        Ok(Some(stream))
    }))
}

/// Whether all nodes are asked, or this one: with one node it comes to the same.
pub(super) fn check_cluster(text: Option<&[u8]>) -> Result<(), String> {
    match text {
        None | Some(b"true" | b"false") => Ok(()),
        Some(other) => Err(format!("`cluster` is true or false, not {}", String::from_utf8_lossy(other))),
    }
}

/// The entities of a range that are still to be sent.
pub(super) struct RangeStream {
    server: Arc<Server>,
    snapshot: Snapshot,
    flight_bytes: Places,
    now_ms: u64,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    left_rows: u64,
    ready: VecDeque<Bytes>,
    _taken: Taken,
}

/// The bytes of a long entity, counted while they live.
struct Counted(Vec<u8>, #[expect(dead_code, reason = "gives the bytes back when dropped")] Taken);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl RangeStream {
    /// Starts that many keys later.
    fn skip(&mut self, offset: u64) -> quipu::Result<()> {
        if offset == 0 {
            return Ok(());
        }
        let Some(tables) = self.server.keyspace.tables(DATABASE) else { return Ok(()) };
        let bounds = Bounds::new(borrowed(&self.start), borrowed(&self.end));
        match self.snapshot.table(&tables.keys)?.nth(bounds, offset)? {
            Some(entry) => self.start = Bound::Included(entry.key.to_vec()),
            None => self.left_rows = 0,
        }
        Ok(())
    }

    /// The next entity: the key, a line feed, the value.
    pub(super) fn next(&mut self) -> quipu::Result<Option<Bytes>> {
        while self.ready.is_empty() && self.left_rows > 0 {
            self.read()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Reads the next step of the range. Sets `left_rows` to 0 at its end.
    fn read(&mut self) -> quipu::Result<()> {
        let Some(tables) = self.server.keyspace.tables(DATABASE) else {
            self.left_rows = 0;
            return Ok(());
        };
        let mut step = BytesMut::with_capacity(STREAM_STEP_BYTES);
        let mut ends = Vec::new();
        let (mut long, mut last, mut seen) = (None, None, 0);
        let (now_ms, left_rows, flight_bytes) = (self.now_ms, self.left_rows, &self.flight_bytes);
        let bounds = Bounds::new(borrowed(&self.start), borrowed(&self.end));
        self.snapshot.table(&tables.keys)?.for_each(bounds, |key, value| {
            seen += 1;
            let entry = Entry::decode(value).filter(|entry| !entry.header.is_expired(now_ms));
            if let Some(entry) = entry.filter(|entry| entry.header.kind == Kind::String) {
                let bytes = key.len() + 1 + entry.body.len();
                if bytes > STREAM_STEP_BYTES {
                    // It has to be one chunk, so it is in memory as a whole: the last one of this step, and counted.
                    let whole = [key, b"\n", entry.body].concat();
                    long = Some(Bytes::from_owner(Counted(whole, flight_bytes.take_anyway(bytes))));
                } else {
                    step.extend_from_slice(key);
                    step.extend_from_slice(b"\n");
                    step.extend_from_slice(entry.body);
                    ends.push(step.len());
                }
            }
            let sent = ends.len() as u64 + u64::from(long.is_some());
            let is_full =
                long.is_some() || step.len() >= STREAM_STEP_BYTES || seen == STEP_ROWS_MAX || sent == left_rows;
            if is_full {
                last = Some(key.to_vec());
            }
            !is_full
        })?;
        self.left_rows -= ends.len() as u64 + u64::from(long.is_some());
        match last {
            Some(key) => self.start = Bound::Excluded(key),
            None => self.left_rows = 0,
        }
        let mut rest = step.freeze();
        let mut start = 0;
        for end in ends {
            self.ready.push_back(rest.split_to(end - start));
            start = end;
        }
        self.ready.extend(long);
        Ok(())
    }
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}
