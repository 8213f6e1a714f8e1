//! `/v0/entity`: one key and its value, of a node alone or of a cluster. Requests are
//! parsed in one place and outcomes are answered in one place; in between, the entity is read and written where it is.
//!
//! Entities of a node alone are the strings of database 0 of the Redis face. A key that holds a collection there is a
//! conflict to a reader, and replaced or removed by a writer, as by `SET` and `DEL`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use quipu::ErrorKind;
use quipu_cluster::ids::Quorum;

use super::answer::{self, AnswerBody, Refusal};
use super::body;
use super::condition_headers::{self, tagged};
use super::head::Head;
use super::limits::{Pulse, Taken};
use super::node::Node;
use super::query;
use super::quorum;
use super::retry::{Answered, Lacking, Patience, lacking};
use super::streams::ValueStream;
use super::writer::{DATABASE, EntityChange, Write, WriteFailure, Written};
use crate::cluster::Cluster;
use crate::entities::{Condition, Coordinator, Tag, Verdict};
use crate::keyspace::Data;
use crate::keyspace::value::{Entry, Kind};
use crate::system::clock;

/// Values above are sent from a snapshot, piece by piece.
const LONG_VALUE_BYTES: u64 = 256 << 10;

/// What every request for an entity says.
pub(super) struct Asked<'q> {
    pub(super) key: Cow<'q, [u8]>,
    pub(super) quorum: Quorum,
    pub(super) condition: Condition,
    pub(super) ttl_ms: Option<u64>,
}

/// Reads the parameters of a request; the answer to one that is wrong.
pub(super) fn parse<'q>(
    node: &Node,
    method: &Method,
    query: Option<&'q str>,
    headers: &HeaderMap,
) -> Result<Asked<'q>, Refusal> {
    let wrong = |reason: String| Refusal::from(answer::bad_request(reason));
    let ([id, ack, from], ttl) = match *method {
        Method::PUT => {
            let [id, ack, from, ttl] = query::parse(query, ["id", "ack", "from", "ttl"]).map_err(wrong)?;
            ([id, ack, from], ttl)
        }
        _ => (query::parse(query, ["id", "ack", "from"]).map_err(wrong)?, None),
    };
    let key = id.filter(|key| !key.is_empty()).ok_or_else(|| wrong("`id` is missing or empty".to_owned()))?;
    if key.len() > node.limits.key_bytes_max {
        let reason = format!("the key has {} bytes, the limit is {}", key.len(), node.limits.key_bytes_max);
        return Err(answer::text(StatusCode::PAYLOAD_TOO_LARGE, reason).into());
    }
    let quorum = quorum::parse(ack.as_deref(), from.as_deref(), node.nodes()).map_err(wrong)?;
    let ttl_ms = ttl.map(|ttl| query::milliseconds("ttl", &ttl)).transpose().map_err(wrong)?;
    Ok(Asked { key, quorum, condition: condition_headers::parse(headers).map_err(wrong)?, ttl_ms })
}

/// What a `PUT` or `DELETE` is to do, but for the value.
struct Change {
    asked: Asked<'static>,
    /// None to delete.
    body: Option<Incoming>,
}

/// Reads the head of a `PUT` or a `DELETE`.
fn change_of(node: &Node, request: Request<Incoming>) -> Result<Change, Refusal> {
    let (parts, body) = request.into_parts();
    let asked = parse(node, &parts.method, parts.uri.query(), &parts.headers)?;
    let asked = Asked { key: Cow::Owned(asked.key.into_owned()), ..asked };
    Ok(Change { asked, body: (parts.method != Method::DELETE).then_some(body) })
}

/// The value of a change, and what a long one takes, which is given back when it is written.
async fn value_of(node: &Node, pulse: &Pulse, body: Option<Incoming>) -> Result<(Option<Bytes>, Vec<Taken>), Refusal> {
    let Some(body) = body else { return Ok((None, Vec::new())) };
    let (value, taken) = body::read(node, pulse, body).await?;
    Ok((Some(value), taken))
}

/// Answers `PUT` and `DELETE` of a node alone.
pub(super) async fn write(node: &Node, pulse: &Pulse, request: Request<Incoming>) -> Response<AnswerBody> {
    let Change { asked, body } = match change_of(node, request) {
        Ok(change) => change,
        Err(refusal) => return *refusal,
    };
    let (value, _taken) = match value_of(node, pulse, body).await {
        Ok(value) => value,
        Err(refusal) => return *refusal,
    };
    let change = value.map_or(EntityChange::Delete, |value| EntityChange::Put(value, asked.ttl_ms));
    let write = Write { key: asked.key.into_owned(), change, condition: asked.condition, staged: None };
    match node.writer.write(write).await {
        Ok(Written::Put(version)) => written(Some(Tag::Version(version.0))),
        Ok(Written::Deleted) => written(None),
        Ok(Written::Refused) => answer::empty(StatusCode::PRECONDITION_FAILED),
        Err(failure) => answer_failure(node, failure),
    }
}

/// Answers `PUT` and `DELETE` of a node of a cluster.
pub(super) fn write_elsewhere(
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    pulse: Arc<Pulse>,
    request: Request<Incoming>,
) -> Result<impl Future<Output = Response<AnswerBody>> + Send, Refusal> {
    let Change { asked: Asked { key, quorum, condition, ttl_ms }, body } = change_of(&node, request)?;
    let condition = condition.of_versions().map_err(|failure| Box::new(answer::refused(failure)))?;
    Ok(async move {
        let (value, _taken) = match value_of(&node, &pulse, body).await {
            Ok(value) => value,
            Err(refusal) => return *refusal,
        };
        let (key, is_put) = (key.into_owned(), value.is_some());
        let put = Coordinator::new(&cluster, Some(quorum)).ask_put(key, value.map(Vec::from), ttl_ms, condition);
        match put.answer().await {
            Ok(Some(version)) => written(is_put.then_some(Tag::Replicated(version))),
            Ok(None) => answer::empty(StatusCode::PRECONDITION_FAILED),
            Err(failure) => answer::refused(failure),
        }
    })
}

/// The answer to a write that was made: of the tag that was put, or of a removal.
fn written(tag: Option<Tag>) -> Response<AnswerBody> {
    match tag {
        Some(tag) => tagged(answer::empty(StatusCode::CREATED), tag),
        None => answer::empty(StatusCode::ACCEPTED),
    }
}

/// Asks for what a `GET` or `HEAD` of a node of a cluster wants. The answer is made of what comes.
pub(super) fn get_elsewhere(
    node: &Node,
    cluster: &Cluster,
    head: &Head<'_>,
) -> Result<impl Future<Output = Response<AnswerBody>> + Send + use<>, Refusal> {
    let Asked { key, quorum, condition, .. } = parse(node, head.method, head.uri.query(), head.headers)?;
    let get = Coordinator::new(cluster, Some(quorum)).ask_get(key.into_owned());
    Ok(async move {
        match get.answer().await {
            Ok(None) => answer_read(None, &condition, || AnswerBody::Whole(None)),
            Ok(Some(entity)) => {
                let found = (Kind::String, Some(Tag::Replicated(entity.version)));
                answer_read(Some(found), &condition, || AnswerBody::Whole(Some(entity.value.into())))
            }
            Err(failure) => answer::refused(failure),
        }
    })
}

/// Answers `GET` and `HEAD` of a node alone.
pub(super) fn get(node: &Node, head: &Head<'_>, patience: Patience) -> Answered {
    match parse(node, head.method, head.uri.query(), head.headers) {
        Ok(asked) => Ok(read(node, &asked.key, &asked.condition, patience)?.unwrap_or_else(|e| answer::failed(&e))),
        Err(refusal) => Ok(*refusal),
    }
}

fn read(
    node: &Node,
    key: &[u8],
    condition: &Condition,
    patience: Patience,
) -> Result<quipu::Result<Response<AnswerBody>>, Lacking> {
    let found = node.ask(patience, false, |data| {
        let entry = data.entry(DATABASE, key)?;
        data.note_lookup(entry.is_some());
        if entry.is_some_and(|entry| entry.length() > LONG_VALUE_BYTES) {
            return Ok(None);
        }
        let string = match &entry {
            Some(entry) => data.string_of(DATABASE, key, entry)?,
            None => None,
        };
        let (mut bytes, mut copied) = (Vec::new(), Ok(()));
        let response = answer_read(found_of(entry.as_ref()), condition, || {
            if let Some(string) = string {
                bytes.reserve_exact(string.len() as usize);
                copied = string.copy(0, string.len(), &mut bytes);
            }
            AnswerBody::Whole(Some(bytes.into()))
        });
        copied.map(|()| Some(response))
    })?;
    match found {
        Ok(Some(response)) => Ok(Ok(response)),
        Ok(None) => lacking(read_long(node, key, condition, patience)),
        Err(error) => Ok(Err(error)),
    }
}

/// Answers with a long value, which is read from a snapshot as it is sent.
fn read_long(
    node: &Node,
    key: &[u8],
    condition: &Condition,
    patience: Patience,
) -> quipu::Result<Response<AnswerBody>> {
    let Some(taken) = node.streams.take(1) else {
        return Ok(answer::overloaded("too many long answers are being sent"));
    };
    let keyspace = &node.server.keyspace;
    let (snapshot, now_ms) = (keyspace.snapshot(), clock::now_ms());
    let at = if patience == Patience::Patient { Data::patiently_at } else { Data::at };
    let data = at(keyspace, &snapshot, now_ms);
    let mut long_bytes = None;
    let entry = data.entry(DATABASE, key)?;
    let mut response = answer_read(found_of(entry.as_ref()), condition, || {
        long_bytes = entry.map(|entry| entry.length());
        AnswerBody::Whole(None)
    });
    drop(data);
    if let Some(left_bytes) = long_bytes {
        let stream = ValueStream::new(node.server.clone(), snapshot, now_ms, key, left_bytes, taken);
        *response.body_mut() = AnswerBody::Value(Box::new(stream));
    }
    Ok(response)
}

/// What stands at a key, as far as answers are about it: its kind, and its tag if it is a string.
type FoundHere = (Kind, Option<Tag>);

fn found_of(entry: Option<&Entry<'_>>) -> Option<FoundHere> {
    entry.map(|entry| (entry.header.kind, Tag::of(entry)))
}

/// The answer to a read of what stands at the key.
fn answer_read(
    found: Option<FoundHere>,
    condition: &Condition,
    body: impl FnOnce() -> AnswerBody,
) -> Response<AnswerBody> {
    let verdict = condition.check_tag(found.is_some(), || found.and_then(|(_, tag)| tag));
    if verdict == Verdict::Changed {
        return answer::empty(StatusCode::PRECONDITION_FAILED);
    }
    let Some((kind, tag)) = found else { return answer::empty(StatusCode::NOT_FOUND) };
    let response = match tag {
        _ if verdict == Verdict::Unchanged => answer::empty(StatusCode::NOT_MODIFIED),
        Some(_) => answer::octets(body()),
        None => answer::text(StatusCode::CONFLICT, wrong_kind(kind)),
    };
    match tag {
        Some(tag) => tagged(response, tag),
        None => response,
    }
}

fn wrong_kind(kind: Kind) -> String {
    format!("the key holds a {}, which only a Redis client can read", kind.name())
}

fn answer_failure(node: &Node, failure: WriteFailure) -> Response<AnswerBody> {
    match failure {
        WriteFailure::Overloaded => answer::overloaded("too many writes wait"),
        WriteFailure::Failed(ErrorKind::Full, text) => answer::text(StatusCode::INSUFFICIENT_STORAGE, text),
        WriteFailure::Failed(ErrorKind::Invalid, text) => answer::text(StatusCode::PAYLOAD_TOO_LARGE, text),
        WriteFailure::Failed(_, text) => {
            // The only replica has not confirmed: whether it holds the write is not known.
            node.server.log(format_args!("a write over HTTP failed: {text}"));
            answer::text(StatusCode::GATEWAY_TIMEOUT, "Not Enough Replicas")
        }
    }
}
