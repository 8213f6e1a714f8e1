//! `/v0/entities`: the entities of a range, one chunk each, as they were at one moment.
//!
//! A key that holds a collection is left out; it counts where positions do.

use std::ops::Bound;

use quipu::PageFaults;

use super::answer::{self, Answer};
use super::node::Node;
use super::patience::{Answered, Patience, lacking};
use super::query;
use super::streams::RangeStream;
use crate::system::clock;

pub(super) fn serve(node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    Ok(match ask(node, query, patience) {
        Ok(opened) => match lacking(opened)? {
            Ok(Some(stream)) => answer::octets(Answer::Range(Box::new(stream))),
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
