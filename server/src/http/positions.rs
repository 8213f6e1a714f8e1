//! `/v0/count`, `/v0/rank` and `/v0/nth`: how many keys lie in a range, where a key stands in it, which key stands at
//! an offset. Each costs a descent or two.

use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use quipu::{Bounds, ReadableTable, Result, TableView};

use super::answer::{self, Answer};
use super::entities::check_cluster;
use super::node::Node;
use super::patience::{Answered, Lacking, Patience};
use super::query;
use super::writer::DATABASE;
use crate::keyspace::value::Entry;

/// Bytes of the value at an offset, where it is a string.
const VALUE_LENGTH: &str = "x-quipu-value-length";

/// Parameters that all positions take.
struct Range<'q> {
    start: Option<std::borrow::Cow<'q, [u8]>>,
    end: Option<std::borrow::Cow<'q, [u8]>>,
}

impl Range<'_> {
    /// Whether the bounds make sense. Returns whether all nodes are asked.
    fn check(&self, cluster: Option<&[u8]>) -> std::result::Result<bool, String> {
        for (name, bound) in [("start", &self.start), ("end", &self.end)] {
            if bound.as_ref().is_some_and(|bound| bound.is_empty()) {
                return Err(format!("`{name}` is empty; leave it out for a range without it"));
            }
        }
        check_cluster(cluster)
    }

    fn bounds(&self) -> Bounds<'_> {
        bounds(self.start.as_deref(), self.end.as_deref())
    }
}

/// The bytes of a parameter.
type Bytes = Vec<u8>;

fn owned(bound: Option<std::borrow::Cow<'_, [u8]>>) -> Option<Bytes> {
    bound.map(std::borrow::Cow::into_owned)
}

/// What a count or a rank over a cluster is asked: start, end, whether of all nodes, and `ack`. A rank is the count of
/// the part of the range before the key.
pub(super) fn parse_count(
    is_rank: bool,
    query: Option<&str>,
) -> std::result::Result<(Bytes, Option<Bytes>, bool, Option<Bytes>), String> {
    let (id, [start, end, cluster, ack]) = match is_rank {
        false => (None, query::parse(query, ["start", "end", "cluster", "ack"])?),
        true => {
            let [id, start, end, cluster, ack] = query::parse(query, ["id", "start", "end", "cluster", "ack"])?;
            let id = id.filter(|id| !id.is_empty()).ok_or("`id` is missing or empty")?;
            (Some(id.into_owned()), [start, end, cluster, ack])
        }
    };
    let range = Range { start, end };
    let is_cluster = range.check(cluster.as_deref())?;
    let end = match (owned(range.end), id) {
        (Some(end), Some(id)) => Some(end.min(id)),
        (end, id) => end.or(id),
    };
    Ok((owned(range.start).unwrap_or_default(), end, is_cluster, owned(ack)))
}

/// What is asked for the key at an offset: start, end, offset, whether of all nodes.
pub(super) fn parse_nth(query: Option<&str>) -> std::result::Result<(Bytes, Option<Bytes>, u64, bool), String> {
    let [offset, start, end, cluster] = query::parse(query, ["offset", "start", "end", "cluster"])?;
    let range = Range { start, end };
    let is_cluster = range.check(cluster.as_deref())?;
    let offset = query::number("offset", &offset.ok_or("`offset` is missing")?)?;
    Ok((owned(range.start).unwrap_or_default(), owned(range.end), offset, is_cluster))
}

fn bounds<'a>(start: Option<&'a [u8]>, end: Option<&'a [u8]>) -> Bounds<'a> {
    use std::ops::Bound;
    Bounds::new(start.map_or(Bound::Unbounded, Bound::Included), end.map_or(Bound::Unbounded, Bound::Excluded))
}

pub(super) fn count(node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    let range = query::parse(query, ["start", "end", "cluster"]).and_then(|[start, end, cluster]| {
        let range = Range { start, end };
        range.check(cluster.as_deref()).map(|_| range)
    });
    match range {
        Ok(range) => Ok(answer_number(ask(node, patience, |keys| keys.count(range.bounds()))?)),
        Err(reason) => Ok(answer::bad_request(reason)),
    }
}

pub(super) fn rank(node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    let asked = query::parse(query, ["id", "start", "end", "cluster"]).and_then(|[id, start, end, cluster]| {
        let range = Range { start, end };
        range.check(cluster.as_deref())?;
        let id = id.filter(|id| !id.is_empty()).ok_or("`id` is missing or empty")?;
        Ok((id, range))
    });
    let (id, range) = match asked {
        Ok(asked) => asked,
        Err(reason) => return Ok(answer::bad_request(reason)),
    };
    // The keys of the range below the key.
    let end = range.end.as_deref().map_or(&*id, |end| end.min(&*id));
    Ok(answer_number(ask(node, patience, |keys| keys.count(bounds(range.start.as_deref(), Some(end))))?))
}

pub(super) fn nth(node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    let asked = query::parse(query, ["offset", "start", "end", "cluster"]).and_then(|[offset, start, end, cluster]| {
        let range = Range { start, end };
        range.check(cluster.as_deref())?;
        let offset = offset.ok_or("`offset` is missing")?;
        Ok((query::number("offset", &offset)?, range))
    });
    let (offset, range) = match asked {
        Ok(asked) => asked,
        Err(reason) => return Ok(answer::bad_request(reason)),
    };
    Ok(match ask(node, patience, |keys| keys.nth(range.bounds(), offset))? {
        Ok(Some(row)) => {
            let mut response = answer::octets(Answer::Whole(Some(row.key.to_vec().into())));
            if let Some(entry) = Entry::decode(&row.value).filter(Entry::is_string) {
                response.headers_mut().insert(VALUE_LENGTH, HeaderValue::from(entry.length()));
            }
            response
        }
        Ok(None) => answer::empty(StatusCode::NOT_FOUND),
        Err(error) => answer::failed(&error),
    })
}

/// Asks the keys that are live now.
fn ask<R: Default>(
    node: &Node,
    patience: Patience,
    question: impl Fn(&TableView<'_>) -> Result<R>,
) -> std::result::Result<Result<R>, Lacking> {
    node.ask(patience, true, |data| match data.tables(DATABASE) {
        Some(tables) => question(&*data.view(&tables.keys)?),
        None => Ok(R::default()),
    })
}

fn answer_number(number: Result<u64>) -> Response<Answer> {
    match number {
        Ok(number) => answer::text(StatusCode::OK, number.to_string()),
        Err(error) => answer::failed(&error),
    }
}
