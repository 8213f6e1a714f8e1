//! `/v0/count`, `/v0/rank` and `/v0/nth`: how many keys lie in a range, where a key stands in it, which key stands at
//! an offset. Each costs a descent or two. A node of a cluster answers for itself, or for all nodes with
//! `cluster=true`.

use std::borrow::Cow;
use std::ops::Bound;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use quipu::{Bounds, Error, ErrorKind, ReadableTable, Result, TableView};
use quipu_cluster::api::{self, Sources};

use super::answer::{self, AnswerBody};
use super::entities::check_cluster;
use super::node::Node;
use super::query;
use super::retry::{Answered, Lacking, Patience};
use super::writer::DATABASE;
use crate::cluster::Cluster;
use crate::entities::Coordinator;
use crate::keyspace::value::Entry;
use crate::system::clock;

/// Bytes of the value at an offset, where it is a string.
const VALUE_LENGTH: &str = "x-quipu-value-length";
/// Which nodes a position was made from, and the timestamp that each had met.
const SOURCES: HeaderName = HeaderName::from_static("x-quipu-sources");
/// How many partitions could not be seen whole.
const UNSEEN: HeaderName = HeaderName::from_static("x-quipu-unseen-partitions");

/// Which of the three is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Count,
    Rank,
    Nth,
}

/// What is asked for.
struct Asked {
    range: Range,
    /// Keys before the one that is wanted, of `/v0/nth`.
    offset: u64,
    /// Whether all nodes are asked.
    is_cluster: bool,
    /// Replicas that must agree on a count over all nodes.
    ack: u8,
}

/// A range of keys.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) start: Option<Vec<u8>>,
    pub(super) end: Option<Vec<u8>>,
}

impl Range {
    fn bounds(&self) -> Bounds<'_> {
        let start = self.start.as_deref().map_or(Bound::Unbounded, Bound::Included);
        Bounds::new(start, self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Whether no key can lie in it.
    fn is_empty(&self) -> bool {
        self.end.as_deref().is_some_and(|end| end <= self.start.as_deref().unwrap_or_default())
    }

    /// As the cluster knows it.
    pub(super) fn of_cluster(self) -> api::Range {
        api::Range { start: self.start.unwrap_or_default(), end: self.end.unwrap_or_default() }
    }

    /// As this node's part of a cluster is asked.
    pub(super) fn of_member(self) -> (Vec<u8>, Option<Vec<u8>>) {
        (self.start.unwrap_or_default(), self.end)
    }
}

type Parameter<'q> = Option<Cow<'q, [u8]>>;

/// Reads the parameters. Only a node of a cluster, `is_member`, has replicas that may agree (`ack`).
///
/// # Errors
/// What is wrong, for the body of a `400`.
fn parse(position: Position, is_member: bool, query: Option<&str>) -> std::result::Result<Asked, String> {
    let (mut id, mut offset, mut ack): (Parameter<'_>, Parameter<'_>, Parameter<'_>) = (None, None, None);
    let (start, end, cluster);
    match (position, is_member) {
        (Position::Count, false) => [start, end, cluster] = query::parse(query, ["start", "end", "cluster"])?,
        (Position::Count, true) => {
            [start, end, cluster, ack] = query::parse(query, ["start", "end", "cluster", "ack"])?;
        }
        (Position::Rank, false) => [id, start, end, cluster] = query::parse(query, ["id", "start", "end", "cluster"])?,
        (Position::Rank, true) => {
            [id, start, end, cluster, ack] = query::parse(query, ["id", "start", "end", "cluster", "ack"])?;
        }
        (Position::Nth, _) => {
            [offset, start, end, cluster] = query::parse(query, ["offset", "start", "end", "cluster"])?;
        }
    }
    for (name, bound) in [("start", &start), ("end", &end)] {
        if bound.as_ref().is_some_and(|bound| bound.is_empty()) {
            return Err(format!("`{name}` is empty; leave it out for a range without it"));
        }
    }
    let is_cluster = check_cluster(cluster.as_deref())?;
    let offset = match position {
        Position::Nth => query::number("offset", &offset.ok_or("`offset` is missing")?)?,
        _ => 0,
    };
    let ack = match u8::try_from(ack.map_or(Ok(1), |ack| query::number("ack", &ack))?) {
        Ok(ack) if is_cluster || ack == 1 => ack,
        _ => return Err("`ack` is a number of replicas that must agree, with `cluster=true`".to_owned()),
    };
    let owned = |bound: Parameter<'_>| bound.map(Cow::into_owned);
    let mut range = Range { start: owned(start), end: owned(end) };
    if position == Position::Rank {
        // The keys of the range below the key.
        let id = owned(id).filter(|id| !id.is_empty()).ok_or("`id` is missing or empty")?;
        range.end = Some(range.end.map_or(id.clone(), |end| end.min(id)));
    }
    Ok(Asked { range, offset, is_cluster, ack })
}

/// Answers from a node alone.
pub(super) fn serve(position: Position, node: &Node, query: Option<&str>, patience: Patience) -> Answered {
    let Asked { range, offset, .. } = match parse(position, false, query) {
        Ok(asked) => asked,
        Err(reason) => return Ok(answer::bad_request(reason)),
    };
    let answered = if position == Position::Nth {
        let row = ask(node, patience, |keys| keys.nth(range.bounds(), offset))?;
        row.map(|row| {
            answer_nth(row.map(|row| {
                let entry = Entry::decode(&row.value).filter(Entry::is_string);
                (row.key.to_vec(), entry.map(|entry| entry.length()))
            }))
        })
    } else {
        ask(node, patience, |keys| keys.count(range.bounds()))?.map(answer_count)
    };
    Ok(answered.unwrap_or_else(|error| answer::failed(&error)))
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

/// Answers from a node of a cluster.
pub(super) async fn serve_member(
    position: Position,
    node: &Node,
    cluster: &std::sync::Arc<Cluster>,
    query: Option<&str>,
) -> Response<AnswerBody> {
    let asked = match parse(position, true, query) {
        Ok(asked) => asked,
        Err(reason) => return answer::bad_request(reason),
    };
    if position != Position::Nth && asked.range.is_empty() {
        return answer_count(0);
    }
    if asked.is_cluster {
        return from_all(position, cluster, asked).await;
    }
    let Some(_taken) = node.streams.take(1) else {
        return answer::overloaded("too many ranges are being read");
    };
    let cluster = cluster.clone();
    let own = move || {
        let mut range = cluster.local(asked.range.of_member(), clock::now_ms());
        if position != Position::Nth {
            return range.count().map(answer_count);
        }
        range.skip(asked.offset)?;
        let row = range.next_entity()?;
        Ok(answer_nth(row.map(|(key, value)| (key, Some(value.len() as u64)))))
    };
    let stops = || Error::new(ErrorKind::Io, "the server stops");
    let answered = tokio::task::spawn_blocking(own).await.unwrap_or_else(|_| Err(stops()));
    answered.unwrap_or_else(|error| answer::failed(&error))
}

/// Answers from all nodes of the cluster.
async fn from_all(position: Position, cluster: &Cluster, asked: Asked) -> Response<AnswerBody> {
    let coordinator = Coordinator::new(cluster, None);
    let range = asked.range.of_cluster();
    let answered = if position == Position::Nth {
        let page = coordinator.ask_page(range, asked.offset, 1, true).answer().await;
        page.map(|page| {
            let row = page.rows.into_iter().next().map(|(key, value)| (key, Some(value.len() as u64)));
            // What is not there has no place in the order, and is from nowhere.
            if row.is_some() { with_sources(answer_nth(row), &page.sources) } else { answer_nth(row) }
        })
    } else {
        let count = coordinator.ask_count(range, asked.ack).answer().await;
        count.map(|counted| with_sources(answer_count(counted.rows), &counted.sources))
    };
    answered.unwrap_or_else(answer::refused)
}

fn answer_count(rows: u64) -> Response<AnswerBody> {
    answer::text(StatusCode::OK, rows.to_string())
}

/// A key, and the bytes of its value if that is a string.
fn answer_nth(row: Option<(Vec<u8>, Option<u64>)>) -> Response<AnswerBody> {
    let Some((key, bytes)) = row else { return answer::empty(StatusCode::NOT_FOUND) };
    let mut response = answer::octets(AnswerBody::Whole(Some(key.into())));
    if let Some(bytes) = bytes {
        response.headers_mut().insert(VALUE_LENGTH, HeaderValue::from(bytes));
    }
    response
}

/// Says where an answer was made from.
pub(super) fn with_sources(mut response: Response<AnswerBody>, sources: &Sources) -> Response<AnswerBody> {
    let nodes: Vec<String> = sources.nodes.iter().map(|(node, time)| format!("{node}@{time}")).collect();
    if let Ok(nodes) = HeaderValue::try_from(nodes.join(",")) {
        response.headers_mut().insert(SOURCES, nodes);
    }
    if !sources.unseen.is_empty() {
        response.headers_mut().insert(UNSEEN, HeaderValue::from(sources.unseen.len()));
    }
    response
}
