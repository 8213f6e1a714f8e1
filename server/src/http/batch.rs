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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use quipu_cluster::api::{Answer as Outcome, Request as Ask};
use quipu_cluster::ids;
use serde_json::{Map, Value, json};

use super::answer::{self, Answer};
use super::entity;
use super::limits::Pulse;
use super::node::Node;
use super::query;
use super::quorum::Quorum;
use super::replicated::tag_of;
use crate::cluster::Cluster;

/// Lines under way at once.
const AT_ONCE: usize = 128;

/// What a line asks, before the node is asked.
enum Line {
    Ask(Ask, &'static str),
    Wrong(Value),
}

pub(super) async fn serve(
    node: &Node,
    cluster: &Cluster,
    pulse: &Pulse,
    request: Request<Incoming>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let quorum = query::parse(parts.uri.query(), ["ack", "from"])
        .and_then(|[ack, from]| Quorum::parse(ack.as_deref(), from.as_deref(), node.nodes()));
    let quorum = match quorum {
        Ok(Quorum { ack, from }) => ids::Quorum { ack, from },
        Err(reason) => return answer::bad_request(reason),
    };
    let (body, _taken) = match entity::read_body(node, pulse, body).await {
        Ok(read) => read,
        Err(refusal) => return *refusal,
    };
    let mut answers = String::new();
    let mut under_way = VecDeque::new();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for line in lines {
        if under_way.len() >= AT_ONCE
            && let Some(waiting) = under_way.pop_front()
        {
            push(&mut answers, finish(cluster, waiting).await);
            pulse.step();
        }
        under_way.push_back(match parse(line, quorum) {
            Line::Ask(ask, op) => Ok((cluster.ask(ask), op)),
            Line::Wrong(answer) => Err(answer),
        });
    }
    for waiting in under_way {
        push(&mut answers, finish(cluster, waiting).await);
    }
    answer::typed(StatusCode::OK, "application/x-ndjson", answers)
}

fn push(answers: &mut String, answer: Value) {
    answers.push_str(&answer.to_string());
    answers.push('\n');
}

fn wrong(reason: impl Into<String>) -> Value {
    json!({ "status": 400, "error": reason.into() })
}

fn bytes_of(line: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    let in_base64 = format!("{name}_base64");
    match (line.get(name), line.get(&in_base64)) {
        (None, None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map(Some).map_err(|_| format!("`{in_base64}` is no base64"))
        }
        (Some(_), Some(_)) => Err(format!("`{name}` and `{in_base64}` are both there")),
        _ => Err(format!("`{name}` is no text")),
    }
}

fn parse(line: &[u8], quorum: ids::Quorum) -> Line {
    let quorum = Some(quorum);
    let asked = (|| {
        let Ok(Value::Object(line)) = serde_json::from_slice(line) else {
            return Err("a line is an object of JSON".to_owned());
        };
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
        let put = |value, ttl_ms| Ask::Put { key: key.clone(), value, ttl_ms, quorum, condition: None };
        match op {
            "put" => Ok(Line::Ask(put(Some(value.ok_or("`value` is missing")?), ttl), "put")),
            "delete" => Ok(Line::Ask(put(None, None), "delete")),
            "get" => Ok(Line::Ask(Ask::Get { key: key.clone(), quorum, is_blocking: false }, "get")),
            _ => Err("`op` is put, get or delete".to_owned()),
        }
    })();
    asked.unwrap_or_else(|reason| Line::Wrong(wrong(reason)))
}

type Waiting = Result<(tokio::sync::oneshot::Receiver<Outcome>, &'static str), Value>;

async fn finish(cluster: &Cluster, waiting: Waiting) -> Value {
    let (outcome, op) = match waiting {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    let outcome = tokio::time::timeout(cluster.patience(), outcome).await.ok().and_then(Result::ok);
    match outcome {
        Some(Outcome::Value { version, value, .. }) => {
            let mut answer = json!({ "status": 200, "etag": tag_of(version) });
            match String::from_utf8(value) {
                Ok(text) => answer["value"] = text.into(),
                Err(error) => answer["value_base64"] = STANDARD.encode(error.as_bytes()).into(),
            }
            answer
        }
        Some(Outcome::Absent { .. }) => json!({ "status": 404 }),
        Some(Outcome::Written { version }) if op == "put" => json!({ "status": 201, "etag": tag_of(version) }),
        Some(Outcome::Written { .. }) => json!({ "status": 202 }),
        Some(Outcome::Invalid(reason)) => wrong(reason),
        Some(Outcome::TooLarge(reason)) => json!({ "status": 413, "error": reason }),
        Some(Outcome::Unavailable(why)) => json!({ "status": 503, "error": why }),
        Some(Outcome::Overloaded) => json!({ "status": 503, "error": "too many requests are under way" }),
        _ => json!({ "status": 504, "error": "Not Enough Replicas" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requests_or_say_what_is_wrong() {
        let parse = |line: &str| match super::parse(line.as_bytes(), ids::Quorum { ack: 1, from: 1 }) {
            Line::Ask(ask, op) => Ok((ask, op)),
            Line::Wrong(answer) => Err(answer["error"].as_str().unwrap_or_default().to_owned()),
        };
        let (ask, op) = parse(r#"{"op":"put","id_base64":"AP8=","value":"","ttl":1.5}"#).expect("a request");
        assert_eq!(op, "put");
        let expected = Ask::Put {
            key: vec![0, 255],
            value: Some(Vec::new()),
            ttl_ms: Some(1500),
            quorum: Some(ids::Quorum { ack: 1, from: 1 }),
            condition: None,
        };
        assert_eq!(ask, expected);
        for (line, word) in [
            ("", "object"),
            ("[]", "object"),
            (r#"{"op":"put","id":"k"}"#, "value"),
            (r#"{"op":"put","id":"","value":"v"}"#, "id"),
            (r#"{"op":"get","id":"k","value":"v"}"#, "only"),
            (r#"{"op":"put","id":"k","value":7}"#, "no text"),
            (r#"{"op":"put","id":"k","id_base64":"aw==","value":"v"}"#, "both"),
            (r#"{"op":"put","id":"k","value_base64":"!"}"#, "base64"),
            (r#"{"op":"put","id":"k","value":"v","ttl":0}"#, "ttl"),
            (r#"{"op":"take","id":"k"}"#, "put, get or delete"),
            (r#"{"op":"get","key":"k"}"#, "unknown"),
        ] {
            let why = parse(line).expect_err(line);
            assert!(why.contains(word), "{line}: {why}");
        }
    }
}
