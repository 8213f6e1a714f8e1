//! Answers that are sent piece by piece, from a snapshot: the entities of a range, and long values.
//!
//! A stream reads some 64 KiB at a time, and the next only when the socket has taken the last: what it holds does not
//! grow with what is sent.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quipu::{Bounds, ReadableTable, Snapshot};

use super::limits::{Places, Taken};
use super::retry::Patience;
use super::writer::DATABASE;
use crate::keyspace::Data;
use crate::keyspace::value::{Body, Entry};
use crate::state::server::Server;

/// Bytes that a stream reads at a time.
const STREAM_STEP_BYTES: usize = 64 << 10;
/// Entities read in one step, at most.
const STEP_ROWS_MAX: usize = 512;

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
    /// The entities between two bounds, `rows` at most, as they are in the snapshot.
    pub(super) fn new(
        server: Arc<Server>,
        snapshot: Snapshot,
        now_ms: u64,
        (start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        rows: u64,
        flight_bytes: Places,
        taken: Taken,
    ) -> RangeStream {
        let ready = VecDeque::new();
        RangeStream { server, snapshot, flight_bytes, now_ms, start, end, left_rows: rows, ready, _taken: taken }
    }

    /// Starts that many keys later.
    pub(super) fn skip(&mut self, offset: u64, patience: Patience) -> quipu::Result<()> {
        if offset == 0 {
            return Ok(());
        }
        let Some(tables) = self.server.keyspace.tables(DATABASE) else { return Ok(()) };
        let bounds = Bounds::new(borrowed(&self.start), borrowed(&self.end));
        let data = data_at(&self.server, &self.snapshot, self.now_ms, patience);
        let first = data.view(&tables.keys)?.nth(bounds, offset)?;
        drop(data);
        match first {
            Some(entry) => self.start = Bound::Included(entry.key.to_vec()),
            None => self.left_rows = 0,
        }
        Ok(())
    }

    /// The next entity: the key, a line feed, the value.
    ///
    /// # Errors
    /// [`quipu::ErrorKind::PageFault`] in a hurry, where a page is missing: nothing was taken, and it can be asked for
    /// again.
    pub(super) fn next(&mut self, patience: Patience) -> quipu::Result<Option<Bytes>> {
        while self.ready.is_empty() && self.left_rows > 0 {
            self.read(patience)?;
        }
        Ok(self.ready.pop_front())
    }

    /// Reads the next step of the range. Sets `left_rows` to 0 at its end.
    fn read(&mut self, patience: Patience) -> quipu::Result<()> {
        let Some(tables) = self.server.keyspace.tables(DATABASE) else {
            self.left_rows = 0;
            return Ok(());
        };
        let mut step = BytesMut::with_capacity(STREAM_STEP_BYTES);
        let mut ends = Vec::new();
        let (mut long, mut last, mut seen) = (None, None, 0);
        let (now_ms, left_rows, flight_bytes) = (self.now_ms, self.left_rows, &self.flight_bytes);
        let bounds = Bounds::new(borrowed(&self.start), borrowed(&self.end));
        let data = data_at(&self.server, &self.snapshot, now_ms, patience);
        let mut outcome = Ok(());
        data.view(&tables.keys)?.for_each(bounds, |key, value| {
            seen += 1;
            let entry = Entry::decode(value).filter(|entry| !entry.header.is_expired(now_ms));
            if let Some(entry) = entry.filter(Entry::is_string) {
                let bytes = key.len() + 1 + entry.length() as usize;
                if bytes > STREAM_STEP_BYTES || matches!(entry.body, Body::Pieces(_)) {
                    // It has to be one chunk, so it is in memory as a whole: the last one of this step, and counted.
                    match whole_entity(&data, key, &entry, bytes) {
                        Ok(whole) => long = Some(Bytes::from_owner(Counted(whole, flight_bytes.take_anyway(bytes)))),
                        Err(error) => {
                            outcome = Err(error);
                            return false;
                        }
                    }
                } else {
                    step.extend_from_slice(key);
                    step.extend_from_slice(b"\n");
                    step.extend_from_slice(entry.whole());
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
        outcome?;
        drop(data);
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

/// The data of a snapshot, asked in a hurry or not.
fn data_at<'k>(server: &'k Server, snapshot: &'k Snapshot, now_ms: u64, patience: Patience) -> Data<'k> {
    match patience {
        Patience::Hurried => Data::at(&server.keyspace, snapshot, now_ms),
        Patience::Patient => Data::patiently_at(&server.keyspace, snapshot, now_ms),
    }
}

/// The key, a line feed, the value: `bytes` in all.
fn whole_entity(data: &Data<'_>, key: &[u8], entry: &Entry<'_>, bytes: usize) -> quipu::Result<Vec<u8>> {
    let mut whole = Vec::with_capacity(bytes);
    whole.extend_from_slice(key);
    whole.push(b'\n');
    if let Some(string) = data.string_of(DATABASE, key, entry)? {
        string.copy(0, string.len(), &mut whole)?;
    }
    Ok(whole)
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

/// A value that is sent piece by piece, as it was when it was asked for.
pub(super) struct ValueStream {
    server: Arc<Server>,
    snapshot: Snapshot,
    now_ms: u64,
    key: Vec<u8>,
    sent_bytes: u64,
    left_bytes: u64,
    _taken: Taken,
}

impl ValueStream {
    /// The value of a key in the snapshot, which has so many bytes.
    pub(super) fn new(
        server: Arc<Server>,
        snapshot: Snapshot,
        now_ms: u64,
        key: &[u8],
        left_bytes: u64,
        taken: Taken,
    ) -> ValueStream {
        ValueStream { server, snapshot, now_ms, key: key.to_vec(), sent_bytes: 0, left_bytes, _taken: taken }
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// The next piece. One descent, and a copy.
    ///
    /// # Errors
    /// Those of [`RangeStream::next`].
    pub(super) fn next(&mut self, patience: Patience) -> quipu::Result<Option<Bytes>> {
        let data = data_at(&self.server, &self.snapshot, self.now_ms, patience);
        let Some(entry) = data.entry(DATABASE, &self.key)? else { return Ok(None) };
        let Some(string) = data.string_of(DATABASE, &self.key, &entry)? else { return Ok(None) };
        let mut part = Vec::new();
        string.copy(self.sent_bytes, self.sent_bytes + STREAM_STEP_BYTES as u64, &mut part)?;
        self.sent_bytes += part.len() as u64;
        self.left_bytes = self.left_bytes.saturating_sub(part.len() as u64);
        Ok((!part.is_empty()).then(|| part.into()))
    }
}
