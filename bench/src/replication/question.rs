//! Requests and their promises; the bytes of requests and of answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::socket::resp;
use crate::store::Result;

/// Length of a value, as in the report that the HTTP face is modelled on.
const VALUE_BYTES: usize = 36;
/// More headers than any of the servers sends.
const HEADERS_MAX: usize = 32;

/// A write or a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Put,
    Get,
}

impl Operation {
    pub(crate) const ALL: [Operation; 2] = [Operation::Put, Operation::Get];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Put => "PUT",
            Operation::Get => "GET",
        }
    }
}

/// Which replicas an answer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Quipu: `ack` replicas of `from`.
    Quorum { ack: u8, from: u8 },
    /// Redis: the primary and one of two replicas have a write (`WAIT 1`); reads ask the primary.
    WaitOne,
    /// etcd: a majority has a write, and a read is linearizable, so a majority confirms the leader.
    Raft,
}

impl Promise {
    /// As in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Promise::Quorum { ack, from } => format!("quipu {ack}/{from}"),
            Promise::WaitOne => "redis, WAIT 1".to_owned(),
            Promise::Raft => "etcd, gateway".to_owned(),
        }
    }
}

/// An operation under a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) operation: Operation,
    pub(crate) promise: Promise,
}

impl Question {
    /// As `--only` has it.
    pub(crate) fn name(self) -> String {
        let of = match self.promise {
            Promise::Quorum { ack, from } => format!("{ack}/{from}"),
            Promise::WaitOne => "redis".to_owned(),
            Promise::Raft => "etcd".to_owned(),
        };
        format!("{} {of}", self.operation.name())
    }

    /// The bytes that ask about the entity of this number.
    pub(crate) fn request(self, number: u64) -> Vec<u8> {
        match (self.promise, self.operation) {
            (Promise::Quorum { ack, from }, operation) => {
                // Of each `from` its own keys: what is written again with another has to move.
                let target = format!("/v0/entity?id=key-{from}-{number:06}&ack={ack}&from={from}");
                match operation {
                    Operation::Put => http("PUT", &target, &value_of(number)),
                    Operation::Get => format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(),
                }
            }
            (Promise::WaitOne, operation) => {
                let (key, mut out) = (key_of(number), Vec::with_capacity(128));
                match operation {
                    Operation::Put => {
                        resp::command(&mut out, &[b"SET", key.as_bytes(), value_of(number).as_bytes()]);
                        resp::command(&mut out, &[b"WAIT", b"1", b"1000"]);
                    }
                    Operation::Get => resp::command(&mut out, &[b"GET", key.as_bytes()]),
                }
                out
            }
            (Promise::Raft, Operation::Put) => {
                let (key, value) = (BASE64.encode(key_of(number)), BASE64.encode(value_of(number)));
                http("POST", "/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#))
            }
            (Promise::Raft, Operation::Get) => {
                http("POST", "/v3/kv/range", &format!(r#"{{"key":"{}"}}"#, BASE64.encode(key_of(number))))
            }
        }
    }

    /// Whether `received` is what should be answered about the entity of this number; `None` if it is not whole.
    ///
    /// # Errors
    /// Bytes that are no answer.
    pub(crate) fn judge(self, number: u64, received: &[u8]) -> Result<Option<bool>> {
        if self.promise == Promise::WaitOne {
            return self.judge_resp(number, received);
        }
        let Some((status, body)) = answer(received)? else { return Ok(None) };
        let has_value = || match self.promise {
            Promise::Raft => {
                let value = BASE64.encode(value_of(number));
                body.windows(value.len()).any(|part| part == value.as_bytes())
            }
            _ => body == value_of(number).as_bytes(),
        };
        Ok(Some((200..300).contains(&status) && (self.operation == Operation::Put || has_value())))
    }

    fn judge_resp(self, number: u64, received: &[u8]) -> Result<Option<bool>> {
        let Some(bytes) = resp::answer_bytes(received)? else { return Ok(None) };
        let (first, rest) = received.split_at(bytes);
        if self.operation == Operation::Get {
            return Ok(Some(
                resp::strings(first).is_ok_and(|mut found| found.next() == Some(value_of(number).as_bytes())),
            ));
        }
        let Some(bytes) = resp::answer_bytes(rest)? else { return Ok(None) };
        let replicas = rest[..bytes].strip_prefix(b":");
        Ok(Some(first == b"+OK\r\n" && replicas.is_some_and(|count| count != b"0\r\n")))
    }
}

fn key_of(number: u64) -> String {
    format!("key-{number:06}")
}

fn value_of(number: u64) -> String {
    format!("{number:v<VALUE_BYTES$}")
}

fn http(method: &str, target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Status and body of an answer with a known length; `None` if it is not whole.
fn answer(received: &[u8]) -> Result<Option<(u16, &[u8])>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = head.parse(received)? else { return Ok(None) };
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
    let length = length.ok_or_else(|| format!("no length in `{}`", received.escape_ascii()))?;
    Ok(received.get(start..start + length).map(|body| (head.code.unwrap_or(0), body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUORUM: Promise = Promise::Quorum { ack: 2, from: 3 };

    /// What is answered to this question, byte by byte: the verdict comes with the last one.
    fn verdict(operation: Operation, promise: Promise, answer: &str) -> bool {
        let question = Question { operation, promise };
        for length in 0..answer.len() {
            assert_eq!(question.judge(7, &answer.as_bytes()[..length]).unwrap(), None, "{answer:?} cut at {length}");
        }
        question.judge(7, answer.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn only_the_value_that_was_written_is_a_good_answer() {
        let value = value_of(7);
        let http = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let found = format!(r#"{{"kvs":[{{"key":"a","value":"{}"}}]}}"#, BASE64.encode(&value));
        assert!(verdict(Operation::Get, QUORUM, &http(&value)));
        assert!(!verdict(Operation::Get, QUORUM, &http(&value_of(8))));
        assert!(verdict(Operation::Get, Promise::Raft, &http(&found)));
        assert!(!verdict(Operation::Get, Promise::Raft, &http("{}")));
        assert!(verdict(Operation::Get, Promise::WaitOne, &format!("$36\r\n{value}\r\n")));
        assert!(!verdict(Operation::Get, Promise::WaitOne, "$-1\r\n"));
    }

    #[test]
    fn a_write_is_good_if_enough_replicas_confirmed() {
        assert!(verdict(Operation::Put, QUORUM, "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"));
        assert!(!verdict(Operation::Put, QUORUM, "HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 2\r\n\r\nno"));
        assert!(verdict(Operation::Put, Promise::WaitOne, "+OK\r\n:2\r\n"));
        assert!(!verdict(Operation::Put, Promise::WaitOne, "+OK\r\n:0\r\n"));
        assert!(!verdict(Operation::Put, Promise::WaitOne, "-NOREPLICAS no\r\n:0\r\n"));
        let nonsense = Question { operation: Operation::Put, promise: Promise::Raft }.judge(7, b"+OK\r\n");
        assert!(nonsense.is_err());
    }
}
