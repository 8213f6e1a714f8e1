//! `POST /v0/batch`: many entities in one request, a line of JSON each (NDJSON). Lines are requests of their own: they
//! are made side by side, each with its answer, a line in the same place.
//!
//! | line | answer |
//! |---|---|
//! | `{"op":"put","id":"k","value":"v","ttl":1.5}` | `{"status":201,"etag":"..."}` |
//! | `{"op":"get","id":"k"}` | `{"status":200,"etag":"...","value":"v"}` |
//! | `{"op":"delete","id":"k"}` | `{"status":202}` |
//!
//! Bytes that are no UTF-8 stand in `id_base64` and `value_base64`. What is wrong with a line is its answer's `error`.

use std::collections::VecDeque;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use quipu_cluster::ids::Version;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::answer::{self, AnswerBody};
use super::body;
use super::limits::Pulse;
use super::node::Node;
use super::query;
use super::quorum;
use crate::cluster::Cluster;
use crate::entities::{Coordinator, Entity, Failure, Pending, Tag};

/// Lines under way at once.
const AT_ONCE: usize = 128;

/// What a line asks.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Get(Vec<u8>),
    /// Key, value and how long it lives.
    Put(Vec<u8>, Vec<u8>, Option<u64>),
    Delete(Vec<u8>),
}

/// What a line is answered by.
enum Waiting {
    Read(Pending<Option<Entity>>),
    Put(Pending<Option<Version>>),
    Deleted(Pending<Option<Version>>),
    Wrong(String),
}

pub(super) async fn serve(
    node: &Node,
    cluster: &Cluster,
    pulse: &Pulse,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (parts, body) = request.into_parts();
    let quorum = query::parse(parts.uri.query(), ["ack", "from"])
        .and_then(|[ack, from]| quorum::parse(ack.as_deref(), from.as_deref(), node.nodes()));
    let quorum = match quorum {
        Ok(quorum) => quorum,
        Err(reason) => return answer::bad_request(reason),
    };
    let (body, _taken) = match body::read(node, pulse, body).await {
        Ok(read) => read,
        Err(refusal) => return *refusal,
    };
    let coordinator = Coordinator::new(cluster, Some(quorum));
    let mut answers = String::new();
    let mut under_way = VecDeque::new();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for line in lines {
        if under_way.len() >= AT_ONCE
            && let Some(waiting) = under_way.pop_front()
        {
            push(&mut answers, finish(waiting).await);
            pulse.step();
        }
        under_way.push_back(match parse(line) {
            Ok(Line::Get(key)) => Waiting::Read(coordinator.ask_get(key)),
            Ok(Line::Put(key, value, ttl_ms)) => Waiting::Put(coordinator.ask_put(key, Some(value), ttl_ms, None)),
            Ok(Line::Delete(key)) => Waiting::Deleted(coordinator.ask_put(key, None, None, None)),
            Err(reason) => Waiting::Wrong(reason),
        });
    }
    for waiting in under_way {
        push(&mut answers, finish(waiting).await);
    }
    answer::typed(StatusCode::OK, "application/x-ndjson", answers)
}

fn push(answers: &mut String, answer: Value) {
    answers.push_str(&answer.to_string());
    answers.push('\n');
}

fn bytes_of(line: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    let in_base64 = format!("{name}_base64");
    match (line.get(name), line.get(&in_base64)) {
        (None, None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map(Some).map_err(|_| format!("`{in_base64}` is not base64"))
        }
        (Some(_), Some(_)) => Err(format!("`{name}` and `{in_base64}` are both there")),
        _ => Err(format!("`{name}` is not text")),
    }
}

/// The members of a line, and a name that stands there twice.
#[derive(Default)]
struct Members {
    members: Map<String, Value>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Taking;
        impl<'de> Visitor<'de> for Taking {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut line = Members::default();
                while let Some((name, value)) = access.next_entry::<String, Value>()? {
                    if line.members.insert(name.clone(), value).is_some() {
                        line.twice = Some(name);
                    }
                }
                Ok(line)
            }
        }
        deserializer.deserialize_map(Taking)
    }
}

/// What a line asks.
///
/// # Errors
/// What is wrong with it.
fn parse(line: &[u8]) -> Result<Line, String> {
    let Ok(Members { members: line, twice }) = serde_json::from_slice(line) else {
        return Err("a line is an object of JSON".to_owned());
    };
    // Which of the two was meant is not known.
    if let Some(name) = twice {
        return Err(format!("`{name}` stands there twice"));
    }
    let known = ["op", "id", "id_base64", "value", "value_base64", "ttl"];
    if let Some(name) = line.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown name `{name}`; there are {}", known.join(", ")));
    }
    let key = bytes_of(&line, "id")?.filter(|key| !key.is_empty()).ok_or("`id` is missing or empty")?;
    let value = bytes_of(&line, "value")?;
    let ttl = line.get("ttl").map(|ttl| query::milliseconds("ttl", ttl.to_string().as_bytes())).transpose()?;
    let op = line.get("op").and_then(Value::as_str).unwrap_or_default();
    if op != "put" && (value.is_some() || ttl.is_some()) {
        return Err("only `put` has a value or a `ttl`".to_owned());
    }
    match op {
        "put" => Ok(Line::Put(key, value.ok_or("`value` is missing")?, ttl)),
        "delete" => Ok(Line::Delete(key)),
        "get" => Ok(Line::Get(key)),
        _ => Err("`op` is put, get or delete".to_owned()),
    }
}

async fn finish(waiting: Waiting) -> Value {
    let answer = match waiting {
        Waiting::Read(read) => read.answer().await.map(|entity| entity.map_or(json!({ "status": 404 }), found)),
        Waiting::Put(put) => put.answer().await.map(|version| {
            let tag = version.map(|version| Tag::Replicated(version).text());
            json!({ "status": 201, "etag": tag })
        }),
        Waiting::Deleted(deleted) => deleted.answer().await.map(|_| json!({ "status": 202 })),
        Waiting::Wrong(reason) => Err(Failure::Invalid(reason)),
    };
    answer.unwrap_or_else(|failure| {
        let (status, why) = answer::refusal_of(failure);
        json!({ "status": status.as_u16(), "error": why })
    })
}

/// The answer to a line that has read an entity.
fn found(entity: Entity) -> Value {
    let mut answer = json!({ "status": 200, "etag": Tag::Replicated(entity.version).text() });
    match String::from_utf8(entity.value) {
        Ok(text) => answer["value"] = text.into(),
        Err(error) => answer["value_base64"] = STANDARD.encode(error.as_bytes()).into(),
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requests_or_say_what_is_wrong() {
        let parse = |line: &str| parse(line.as_bytes());
        let line = parse(r#"{"op":"put","id_base64":"AP8=","value":"","ttl":1.5}"#);
        assert_eq!(line, Ok(Line::Put(vec![0, 255], Vec::new(), Some(1500))));
        for (line, word) in [
            ("", "object"),
            ("[]", "object"),
            (r#"{"op":"put","id":"k"}"#, "value"),
            (r#"{"op":"put","id":"","value":"v"}"#, "id"),
            (r#"{"op":"get","id":"k","value":"v"}"#, "only"),
            (r#"{"op":"put","id":"k","value":7}"#, "not text"),
            (r#"{"op":"put","id":"k","id_base64":"aw==","value":"v"}"#, "both"),
            (r#"{"op":"put","id":"k","value_base64":"!"}"#, "base64"),
            (r#"{"op":"put","id":"k","value":"v","ttl":0}"#, "ttl"),
            (r#"{"op":"take","id":"k"}"#, "put, get or delete"),
            (r#"{"op":"get","key":"k"}"#, "unknown"),
            (r#"{"op":"put","id":"a","value":"v","id":"b"}"#, "`id` stands there twice"),
            (r#"{"op":"put","id":"a","value":"v","value":"v"}"#, "`value` stands there twice"),
            (r#"{"op":"delete","op":"get","id":"a"}"#, "`op` stands there twice"),
            (r#"{"op":"get","id":"a"} {}"#, "object"),
        ] {
            let why = parse(line).expect_err(line);
            assert!(why.contains(word), "{line}: {why}");
        }
    }
}
