//! `/v0/entities`: the entities of a range, one chunk each: those of a node as they were at one moment, those of all
//! nodes of a cluster in pages of moments of their own.
//!
//! A key that holds a collection is left out; it counts where positions do.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use quipu::latched::PageFaults;
use quipu::{Error, ErrorKind};
use quipu_cluster::api::Range;
use tokio::sync::mpsc;

use super::answer::{self, AnswerBody};
use super::limits::Taken;
use super::node::Node;
use super::positions::with_sources;
use super::query;
use super::retry::{Answered, Patience, lacking};
use super::streams::RangeStream;
use crate::cluster::{Cluster, LocalRange};
use crate::entities::Coordinator;
use crate::system::clock;

/// Entities of a cluster that are ready while the client takes the last.
const AHEAD: usize = 16;

/// Answers from a node alone.
pub(super) fn serve(node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    Ok(match ask(node, query, patience) {
        Ok(opened) => match lacking(opened)? {
            Ok(Some(stream)) => answer::octets(AnswerBody::Range(Box::new(stream))),
            Ok(None) => answer::overloaded("too many ranges are being sent"),
            Err(error) => answer::failed(&error),
        },
        Err(reason) => answer::bad_request(reason),
    })
}

type Opened = quipu::Result<Option<RangeStream>>;

/// What is asked for.
pub(super) struct Asked {
    pub(super) start: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
    pub(super) limit: Option<u64>,
    pub(super) offset: u64,
    /// Whether of all nodes.
    pub(super) is_cluster: bool,
}

/// Reads the parameters.
///
/// # Errors
/// What is wrong, for the body of a `400`.
pub(super) fn parse(query: Option<&str>) -> Result<Asked, String> {
    let [start, end, limit, offset, cluster] = query::parse(query, ["start", "end", "limit", "offset", "cluster"])?;
    let Some(start) = start.filter(|start| !start.is_empty()) else {
        return Err("`start` is missing or empty".to_owned());
    };
    if end.as_ref().is_some_and(|end| end.is_empty()) {
        return Err("`end` is empty; leave it out for a range without an end".to_owned());
    }
    let is_cluster = check_cluster(cluster.as_deref())?;
    let limit = limit.map(|limit| query::number("limit", &limit)).transpose()?;
    let offset = offset.map(|offset| query::number("offset", &offset)).transpose()?;
    let end = end.map(std::borrow::Cow::into_owned);
    Ok(Asked { start: start.into_owned(), end, limit, offset: offset.unwrap_or(0), is_cluster })
}

fn ask(node: &Node, query: Option<&str>, patience: Patience) -> Result<Opened, String> {
    let Asked { start, end, limit, offset, .. } = parse(query)?;
    let Some(taken) = node.streams.take(1) else { return Ok(Ok(None)) };
    let now_ms = clock::now_ms();
    let keyspace = &node.server.keyspace;
    let snapshot = match patience {
        Patience::Patient => keyspace.live_snapshot(now_ms),
        Patience::Hurried => {
            keyspace.attempt_exactly(now_ms, &mut PageFaults::default(), |_| Ok(())).map(|(..)| keyspace.snapshot())
        }
    };
    Ok(snapshot.and_then(|snapshot| {
        let start = Bound::Included(start);
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = limit.unwrap_or(u64::MAX);
        let flight_bytes = node.flight_bytes.clone();
        let mut stream =
            RangeStream::new(node.server.clone(), snapshot, now_ms, (start, end), rows, flight_bytes, taken);
        stream.skip(offset, patience)?;
        Ok(Some(stream))
    }))
}

/// Whether all nodes are asked, or this one, which comes to the same for a node alone.
pub(super) fn check_cluster(text: Option<&[u8]>) -> Result<bool, String> {
    match text {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(other) => Err(format!("`cluster` is true or false, not {}", String::from_utf8_lossy(other))),
    }
}

type Piece = quipu::Result<Bytes>;

fn chunk(key: &[u8], value: &[u8]) -> Bytes {
    [key, b"\n", value].concat().into()
}

fn lost(what: &str) -> Error {
    Error::new(ErrorKind::Io, what.to_owned())
}

/// Answers from a node of a cluster.
pub(super) async fn serve_member(node: &Node, cluster: &Arc<Cluster>, query: Option<&str>) -> Response<AnswerBody> {
    let Asked { start, end, limit, offset, is_cluster } = match parse(query) {
        Ok(asked) => asked,
        Err(reason) => return answer::bad_request(reason),
    };
    let Some(taken) = node.streams.take(1) else {
        return answer::overloaded("too many ranges are being sent");
    };
    let (sender, pieces) = mpsc::channel(AHEAD);
    let rows = limit.unwrap_or(u64::MAX);
    if is_cluster {
        let range = Range { start, end: end.unwrap_or_default() };
        return from_all(cluster, range, offset, rows, (sender, pieces), taken).await;
    }
    let cluster = cluster.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let mut range = cluster.local((start, end), clock::now_ms());
        range.skip(offset).map(|()| range)
    });
    let range = match opened.await {
        Ok(Ok(range)) => range,
        Ok(Err(error)) => return answer::failed(&error),
        Err(_) => return answer::failed(&lost("the server stops")),
    };
    tokio::task::spawn_blocking(move || send_local(range, rows, &sender));
    answer::octets(AnswerBody::Pieces(pieces, taken))
}

/// Sends entities until the client has them or has gone.
fn send_local(mut range: LocalRange, rows: u64, sender: &mpsc::Sender<Piece>) {
    for _ in 0..rows {
        let piece = match range.next_entity() {
            Ok(Some((key, value))) => Ok(chunk(&key, &value)),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let is_last = piece.is_err();
        if sender.blocking_send(piece).is_err() || is_last {
            return;
        }
    }
}

/// A range over all nodes, in pages. Keys that come or go between two pages may be there or not.
async fn from_all(
    cluster: &Arc<Cluster>,
    range: Range,
    offset: u64,
    rows: u64,
    (sender, pieces): (mpsc::Sender<Piece>, mpsc::Receiver<Piece>),
    taken: Taken,
) -> Response<AnswerBody> {
    let asked = Coordinator::new(cluster, None).ask_page(range.clone(), offset, rows, true);
    let (first, sources) = match asked.answer().await {
        Ok(page) => (page.rows, page.sources),
        Err(failure) => return answer::refused(failure),
    };
    let cluster = cluster.clone();
    tokio::spawn(async move {
        let (mut page_rows, mut left, mut range) = (first, rows, range);
        loop {
            left = left.saturating_sub(page_rows.len() as u64);
            let Some((last, _)) = page_rows.last() else { return };
            range.start = [&last[..], &[0]].concat();
            for (key, value) in &page_rows {
                if sender.send(Ok(chunk(key, value))).await.is_err() {
                    return;
                }
            }
            if left == 0 {
                return;
            }
            let asked = Coordinator::new(&cluster, None).ask_page(range.clone(), 0, left, true);
            page_rows = match asked.answer().await {
                Ok(page) => page.rows,
                Err(_) => {
                    // The client sees a range without its end, if it is still there.
                    let _ = sender.send(Err(lost("the rest of a range cannot be read"))).await;
                    return;
                }
            };
        }
    });
    with_sources(answer::octets(AnswerBody::Pieces(pieces, taken)), &sources)
}
