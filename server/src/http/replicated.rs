//! Requests for entities to a node of a cluster: the node's coordinator answers them.
//!
//! Every request waits for the thread of the node, so all are futures, and take a place.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, ETAG, HeaderName, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use quipu::{Error, ErrorKind};
use quipu_cluster::api::{Answer as Outcome, Condition, Offset, Range, Request as Ask, Sources};
use quipu_cluster::ids::{NodeId, Quorum, Version};
use tokio::sync::mpsc;

use super::answer::{self, Answer};
use super::batch;
use super::condition::{Conditions, Verdict};
use super::entities;
use super::entity::{self, Asked};
use super::limits::{Pulse, Taken};
use super::members;
use super::node::Node;
use super::positions;
use super::query;
use super::socket::Socket;
use super::waiting;
use crate::cluster::{Cluster, LocalRange};
use crate::system::clock;

/// Entities of a stream that are ready while the client takes the last.
const AHEAD: usize = 16;
/// Rows of a page of a range over the cluster.
const PAGE_ROWS: usize = 500;
/// Which nodes a position was made from, and the timestamp that each had met.
const SOURCES: HeaderName = HeaderName::from_static("x-quipu-sources");
/// How many partitions could not be seen whole.
const UNSEEN: HeaderName = HeaderName::from_static("x-quipu-unseen-partitions");
const VALUE_LENGTH: HeaderName = HeaderName::from_static("x-quipu-value-length");

/// Whether a request is answered here.
pub(super) fn takes(path: &str) -> bool {
    matches!(
        path,
        "/v0/entity"
            | "/v0/entities"
            | "/v0/count"
            | "/v0/rank"
            | "/v0/nth"
            | "/v0/status"
            | "/v0/peer"
            | "/v0/batch"
            | "/v0/cluster"
            | "/v0/repair"
    )
}

/// Answers a request of one of those paths.
pub(super) async fn serve(
    node: &Arc<Node>,
    cluster: &Arc<Cluster>,
    pulse: &Pulse,
    request: Request<Incoming>,
) -> Response<Answer> {
    let path = request.uri().path();
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match path {
        "/v0/entity" => match *request.method() {
            Method::GET | Method::HEAD => get(node, cluster, &request.into_parts().0).await,
            Method::PUT | Method::DELETE => write(node, cluster, pulse, request).await,
            _ => answer::not_allowed("GET, HEAD, PUT, DELETE"),
        },
        "/v0/batch" => match *request.method() {
            Method::POST => batch::serve(node, cluster, pulse, request).await,
            _ => answer::not_allowed("POST"),
        },
        "/v0/repair" => match *request.method() {
            Method::POST => {
                cluster.repair();
                answer::empty(StatusCode::ACCEPTED)
            }
            _ => answer::not_allowed("POST"),
        },
        "/v0/cluster" if *request.method() == Method::POST => members::change(node, cluster, pulse, request).await,
        "/v0/cluster" if !is_get => answer::not_allowed("GET, HEAD, POST"),
        _ if !is_get => answer::not_allowed("GET, HEAD"),
        "/v0/status" => {
            cluster.settled().await;
            let mut response = answer::text(StatusCode::OK, format!("up, {} node(s)\n", cluster.nodes()));
            let standing = waiting::standing(cluster.is_waiting(), &cluster.self_url());
            if let Ok(standing) = HeaderValue::try_from(standing) {
                response.headers_mut().insert(waiting::NODE, standing);
            }
            response
        }
        "/v0/cluster" => {
            answer::typed(StatusCode::OK, "application/json", members::describe(node, cluster).to_string())
        }
        "/v0/peer" => peer(node, cluster, request),
        "/v0/entities" => range(node, cluster, request.uri().query()).await,
        path => position(node, cluster, path, request.uri().query()).await,
    }
}

/// Asks the node; `None`: it is not known what became of the request.
pub(super) async fn ask(cluster: &Cluster, ask: Ask) -> Option<Outcome> {
    tokio::time::timeout(cluster.patience(), cluster.ask(ask)).await.ok()?.ok()
}

/// The entity tag of a version.
pub(super) fn tag_of(version: Version) -> String {
    format!("\"{}-{}\"", version.time, version.node.0)
}

fn version_of(tag: &str) -> Option<Version> {
    let (time, node) = tag.strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
    Some(Version { time: time.parse().ok()?, node: NodeId(node.parse().ok()?) })
}

fn tagged(mut response: Response<Answer>, version: Version) -> Response<Answer> {
    if let Ok(tag) = HeaderValue::try_from(tag_of(version)) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn quorum_of(asked: &Asked<'_>) -> Option<Quorum> {
    Some(Quorum { ack: asked.quorum.ack, from: asked.quorum.from })
}

/// What is answered where a request was not done as asked.
fn refusal(outcome: Option<Outcome>) -> Response<Answer> {
    match outcome {
        Some(Outcome::Overloaded) => answer::overloaded("too many requests are under way"),
        Some(Outcome::Unavailable(why)) => answer::overloaded(why),
        Some(Outcome::Invalid(reason)) => answer::bad_request(reason),
        Some(Outcome::TooLarge(reason)) => answer::text(StatusCode::PAYLOAD_TOO_LARGE, reason),
        Some(Outcome::ConditionFailed { .. }) => answer::empty(StatusCode::PRECONDITION_FAILED),
        _ => answer::text(StatusCode::GATEWAY_TIMEOUT, "Not Enough Replicas"),
    }
}

async fn get(node: &Node, cluster: &Cluster, parts: &Parts) -> Response<Answer> {
    let asked = match entity::parse(node, &parts.method, parts.uri.query(), &parts.headers) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let quorum = quorum_of(&asked);
    match ask(cluster, Ask::Get { key: asked.key.to_vec(), quorum, is_blocking: false }).await {
        Some(Outcome::Value { version, value, .. }) => match asked.conditions.check_tag(Some(&tag_of(version))) {
            Verdict::Changed => answer::empty(StatusCode::PRECONDITION_FAILED),
            Verdict::Unchanged => tagged(answer::empty(StatusCode::NOT_MODIFIED), version),
            Verdict::Holds => tagged(answer::octets(Answer::Whole(Some(value.into()))), version),
        },
        Some(Outcome::Absent { .. }) => match asked.conditions.check_tag(None) {
            Verdict::Changed => answer::empty(StatusCode::PRECONDITION_FAILED),
            _ => answer::empty(StatusCode::NOT_FOUND),
        },
        other => refusal(other),
    }
}

/// The condition of a write, as the node knows conditions.
///
/// # Errors
/// What is wrong, for the body of a `400`.
fn condition_of(conditions: &Conditions) -> Result<Option<Condition>, String> {
    let (is, is_not) = conditions.tags();
    let versions = |tags: Vec<&str>| -> Vec<Version> {
        let mut found: Vec<Version> = tags.into_iter().filter_map(version_of).collect();
        if found.is_empty() {
            // Tags that no version has: an empty list would mean any.
            found.push(Version::ZERO);
        }
        found
    };
    match (is, is_not) {
        (None, None) => Ok(None),
        (Some(is), None) => Ok(Some(Condition::Is(is.map(versions).unwrap_or_default()))),
        (None, Some(is_not)) => Ok(Some(Condition::IsNot(is_not.map(versions).unwrap_or_default()))),
        // Nothing exists and does not.
        (Some(_), Some(None)) => Ok(Some(Condition::Is(vec![Version::ZERO]))),
        (Some(Some(is)), Some(Some(is_not))) => {
            let is_not = versions(is_not);
            let mut left = versions(is);
            left.retain(|version| !is_not.contains(version));
            left.push(Version::ZERO);
            Ok(Some(Condition::Is(left)))
        }
        (Some(None), Some(Some(_))) => Err("`If-Match: *` together with tags in `If-None-Match` is not served".into()),
    }
}

async fn write(node: &Node, cluster: &Cluster, pulse: &Pulse, request: Request<Incoming>) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let asked = match entity::parse(node, &parts.method, parts.uri.query(), &parts.headers) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let condition = match condition_of(&asked.conditions) {
        Ok(condition) => condition,
        Err(reason) => return answer::bad_request(reason),
    };
    let is_put = parts.method == Method::PUT;
    let (value, _taken): (Option<Bytes>, Vec<Taken>) = match is_put {
        false => (None, Vec::new()),
        true => match entity::read_body(node, pulse, body).await {
            Ok((value, taken)) => (Some(value), taken),
            Err(refusal) => return *refusal,
        },
    };
    let put = Ask::Put {
        quorum: quorum_of(&asked),
        ttl_ms: asked.ttl_ms,
        key: asked.key.into_owned(),
        value: value.map(Vec::from),
        condition,
    };
    match ask(cluster, put).await {
        Some(Outcome::Written { version }) if is_put => tagged(answer::empty(StatusCode::CREATED), version),
        Some(Outcome::Written { .. }) => answer::empty(StatusCode::ACCEPTED),
        other => refusal(other),
    }
}

/// Hands a connection over to the node protocol.
fn peer(node: &Arc<Node>, cluster: &Arc<Cluster>, request: Request<Incoming>) -> Response<Answer> {
    let protocol = cluster.protocol();
    let upgrade = |status: StatusCode| {
        let mut response = answer::empty(status);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
        response
    };
    match request.headers().get(UPGRADE) {
        Some(asked) if request.method() == Method::GET && asked.as_bytes() == protocol.as_bytes() => {}
        Some(asked) if asked.as_bytes().starts_with(b"quipu-peer") => {
            cluster.refuse_protocol();
            return upgrade(StatusCode::UPGRADE_REQUIRED);
        }
        _ => return answer::bad_request("this is where nodes of the cluster meet"),
    }
    let (node, cluster) = (node.clone(), cluster.clone());
    tokio::spawn(async move {
        // A peer that goes before it has greeted comes again.
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else { return };
        let Some(_taken) = node.requests.take(1) else { return };
        if !parts.read_buf.is_empty() {
            return;
        }
        let Some(Ok(stream)) = parts.io.into_inner().into_stream().map(|stream| stream.into_std()) else { return };
        // If it panics it has said so.
        let _ = tokio::task::spawn_blocking(move || cluster.accept(stream)).await;
    });
    upgrade(StatusCode::SWITCHING_PROTOCOLS)
}

type Piece = quipu::Result<Bytes>;

fn chunk(key: &[u8], value: &[u8]) -> Bytes {
    [key, b"\n", value].concat().into()
}

fn lost(what: &str) -> Error {
    Error::new(ErrorKind::Io, what.to_owned())
}

/// `/v0/entities`.
async fn range(node: &Arc<Node>, cluster: &Arc<Cluster>, query: Option<&str>) -> Response<Answer> {
    let entities::Asked { start, end, limit, offset, is_cluster } = match entities::parse(query) {
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
        return cluster_range(cluster, range, offset, rows, (sender, pieces), taken).await;
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
    answer::octets(Answer::Pieces(pieces, taken))
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
async fn cluster_range(
    cluster: &Arc<Cluster>,
    range: Range,
    offset: u64,
    rows: u64,
    (sender, pieces): (mpsc::Sender<Piece>, mpsc::Receiver<Piece>),
    taken: Taken,
) -> Response<Answer> {
    let page = |range: Range, offset: u64, rows: u64| Ask::Page {
        range,
        offset: Offset::Keys(offset),
        limit: rows.min(PAGE_ROWS as u64) as usize,
        with_values: true,
    };
    let (first, sources) = match ask(cluster, page(range.clone(), offset, rows)).await {
        Some(Outcome::Page { rows, sources, .. }) => (rows, sources),
        other => return refusal(other),
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
            page_rows = match ask(&cluster, page(range.clone(), 0, left)).await {
                Some(Outcome::Page { rows, .. }) => rows,
                _ => {
                    // The client sees a range without its end, if it is still there.
                    let _ = sender.send(Err(lost("the rest of a range cannot be read"))).await;
                    return;
                }
            };
        }
    });
    with_sources(answer::octets(Answer::Pieces(pieces, taken)), &sources)
}

fn with_sources(mut response: Response<Answer>, sources: &Sources) -> Response<Answer> {
    let nodes: Vec<String> = sources.nodes.iter().map(|(node, time)| format!("{node}@{time}")).collect();
    if let Ok(nodes) = HeaderValue::try_from(nodes.join(",")) {
        response.headers_mut().insert(SOURCES, nodes);
    }
    if !sources.unseen.is_empty() {
        response.headers_mut().insert(UNSEEN, HeaderValue::from(sources.unseen.len()));
    }
    response
}

/// `/v0/count`, `/v0/rank`, `/v0/nth`.
async fn position(node: &Arc<Node>, cluster: &Arc<Cluster>, path: &str, query: Option<&str>) -> Response<Answer> {
    match path {
        "/v0/nth" => nth(node, cluster, query).await,
        _ => count(node, cluster, path == "/v0/rank", query).await,
    }
}

async fn count(node: &Arc<Node>, cluster: &Arc<Cluster>, is_rank: bool, query: Option<&str>) -> Response<Answer> {
    let asked = positions::parse_count(is_rank, query).and_then(|(start, end, is_cluster, ack)| {
        let ack = ack.map_or(Ok(1), |ack| query::number("ack", &ack))?;
        match u8::try_from(ack) {
            Ok(ack) if is_cluster || ack == 1 => Ok((start, end, is_cluster, ack)),
            _ => Err("`ack` is a number of replicas that must agree, with `cluster=true`".to_owned()),
        }
    });
    let (start, end, is_cluster, ack) = match asked {
        Ok(asked) => asked,
        Err(reason) => return answer::bad_request(reason),
    };
    if end.as_ref().is_some_and(|end| *end <= start) {
        return answer::text(StatusCode::OK, "0");
    }
    if is_cluster {
        let range = Range { start, end: end.unwrap_or_default() };
        return match ask(cluster, Ask::Count { range, ack }).await {
            Some(Outcome::Count { rows, sources }) => {
                with_sources(answer::text(StatusCode::OK, rows.to_string()), &sources)
            }
            other => refusal(other),
        };
    }
    let Some(_taken) = node.streams.take(1) else {
        return answer::overloaded("too many ranges are being read");
    };
    let cluster = cluster.clone();
    match tokio::task::spawn_blocking(move || cluster.local((start, end), clock::now_ms()).count()).await {
        Ok(Ok(rows)) => answer::text(StatusCode::OK, rows.to_string()),
        Ok(Err(error)) => answer::failed(&error),
        Err(_) => answer::failed(&lost("the server stops")),
    }
}

async fn nth(node: &Arc<Node>, cluster: &Arc<Cluster>, query: Option<&str>) -> Response<Answer> {
    let (start, end, offset, is_cluster) = match positions::parse_nth(query) {
        Ok(asked) => asked,
        Err(reason) => return answer::bad_request(reason),
    };
    let found = if is_cluster {
        let range = Range { start, end: end.unwrap_or_default() };
        let page = Ask::Page { range, offset: Offset::Keys(offset), limit: 1, with_values: true };
        match ask(cluster, page).await {
            Some(Outcome::Page { rows, sources, .. }) => Ok((rows.into_iter().next(), sources)),
            other => return refusal(other),
        }
    } else {
        let Some(_taken) = node.streams.take(1) else {
            return answer::overloaded("too many ranges are being read");
        };
        let cluster = cluster.clone();
        let find = move || {
            let mut range = cluster.local((start, end), clock::now_ms());
            range.skip(offset).and_then(|()| range.next_entity())
        };
        let found = tokio::task::spawn_blocking(find).await.unwrap_or_else(|_| Err(lost("the server stops")));
        found.map(|row| (row, Sources::default()))
    };
    match found {
        Ok((Some((key, value)), sources)) => {
            let mut response = answer::octets(Answer::Whole(Some(key.into())));
            response.headers_mut().insert(VALUE_LENGTH, HeaderValue::from(value.len()));
            with_sources(response, &sources)
        }
        Ok((None, _)) => answer::empty(StatusCode::NOT_FOUND),
        Err(error) => answer::failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;

    use super::*;

    #[test]
    fn tags_are_those_of_versions() {
        let version = Version { time: 77, node: NodeId(2) };
        assert_eq!(tag_of(version), "\"77-2\"");
        assert_eq!(version_of("\"77-2\""), Some(version));
        for text in ["", "77-2", "\"77\"", "\"-2\"", "\"77-70000\"", "\"x-2\""] {
            assert_eq!(version_of(text), None, "{text}");
        }
    }

    #[test]
    fn conditions_are_those_of_the_node() {
        let condition = |lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_str(value).unwrap());
            }
            condition_of(&Conditions::parse(&headers).unwrap())
        };
        let version = |time| Version { time, node: NodeId(0) };
        assert_eq!(condition(&[]), Ok(None));
        assert_eq!(condition(&[("if-match", "*")]), Ok(Some(Condition::Is(vec![]))));
        assert_eq!(condition(&[("if-none-match", "*")]), Ok(Some(Condition::IsNot(vec![]))));
        let two = condition(&[("if-match", "\"1-0\", \"2-0\"")]);
        assert_eq!(two, Ok(Some(Condition::Is(vec![version(1), version(2)]))));
        // A tag that is none of ours, or weak, is not any.
        for tag in ["\"x\"", "W/\"1-0\""] {
            assert_eq!(condition(&[("if-match", tag)]), Ok(Some(Condition::Is(vec![Version::ZERO]))));
        }
        assert_eq!(condition(&[("if-none-match", "W/\"1-0\"")]), Ok(Some(Condition::IsNot(vec![version(1)]))));
        let both = condition(&[("if-match", "\"1-0\", \"2-0\""), ("if-none-match", "\"1-0\"")]);
        assert_eq!(both, Ok(Some(Condition::Is(vec![version(2), Version::ZERO]))));
        assert!(condition(&[("if-match", "*"), ("if-none-match", "\"1-0\"")]).is_err());
    }
}
