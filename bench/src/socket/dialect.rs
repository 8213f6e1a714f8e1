//! The four requests of a table of rows, in either protocol.

use std::net::SocketAddr;

use super::{Batch, iproto, resp};
use crate::store::Result;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Redis' protocol. Keys are numbers as 8 bytes, the highest first, so that the order of bytes is that of numbers.
    Resp,
    /// Tarantool's. Keys are numbers.
    Iproto,
}

/// A row: a number and 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: u64,
    pub(crate) value: [u8; 8],
}

impl Row {
    /// The row that is inserted with this key, or the one that replaces it.
    pub(crate) fn new(key: u64, replaced: bool) -> Self {
        // An odd factor mixes the bits and keeps values of different keys different.
        let mixed = (key ^ u64::from(replaced) << 63).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Row { key, value: mixed.to_be_bytes() }
    }
}

/// What is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Request {
    /// Puts a row that must be new: `SET NX`, `INSERT`.
    Insert,
    /// Reads the row: `GET`, `SELECT`.
    Select,
    /// Puts another value in the place of the old: `SET`, `REPLACE`.
    Replace,
    /// Takes the row out, which must be there: `DEL`, `DELETE`.
    Delete,
}

impl Request {
    /// In the order in which they can follow one another.
    pub(crate) const ALL: [Request; 4] = [Request::Insert, Request::Select, Request::Replace, Request::Delete];

    /// As in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Request::Insert => "insert",
            Request::Select => "select",
            Request::Replace => "replace",
            Request::Delete => "delete",
        }
    }
}

impl Dialect {
    /// Adds a request to `batch`. For a select or a delete, `row` is what must be there.
    pub(crate) fn push(self, batch: &mut Batch, request: Request, row: &Row) {
        let sync = batch.len();
        let Row { key, value } = row;
        batch.push(|out, answer| match self {
            Dialect::Resp => {
                let key = key.to_be_bytes();
                match request {
                    Request::Insert => resp::command(out, &[b"SET", &key, value, b"NX"]),
                    Request::Select => resp::command(out, &[b"GET", &key]),
                    Request::Replace => resp::command(out, &[b"SET", &key, value]),
                    Request::Delete => resp::command(out, &[b"DEL", &key]),
                }
                match request {
                    Request::Insert | Request::Replace => resp::status(answer, "OK"),
                    Request::Select => resp::bulk(answer, value),
                    Request::Delete => resp::integer(answer, 1),
                }
            }
            Dialect::Iproto => {
                match request {
                    Request::Insert => iproto::insert(out, sync, *key, value),
                    Request::Select => iproto::select(out, sync, *key),
                    Request::Replace => iproto::replace(out, sync, *key, value),
                    Request::Delete => iproto::delete(out, sync, *key),
                }
                iproto::tuple(answer, *key, value);
            }
        });
    }

    /// The length of the first answer in `received`; `None` if it has not arrived as a whole.
    pub(crate) fn answer_bytes(self, received: &[u8]) -> Result<Option<usize>> {
        match self {
            Dialect::Resp => resp::answer_bytes(received),
            Dialect::Iproto => iproto::answer_bytes(received),
        }
    }

    /// Compares a whole answer, the `number`-th to arrive, with what `batch` expects.
    ///
    /// # Errors
    /// The server's error, or both answers if they differ.
    pub(crate) fn check(self, batch: &Batch, number: usize, answer: &[u8]) -> Result<()> {
        let (number, payload) = match self {
            Dialect::Resp if answer.starts_with(b"-") => {
                return Err(format!("the server says: {}", String::from_utf8_lossy(&answer[1..]).trim_end()).into());
            }
            Dialect::Resp => (number, answer),
            // Its answers may overtake one another.
            Dialect::Iproto => iproto::payload(answer).map_err(|error| format!("the server says: {error}"))?,
        };
        match batch.answer(number) {
            Some(expected) if expected == payload => Ok(()),
            Some(expected) => {
                let (expected, payload) = (expected.escape_ascii(), payload.escape_ascii());
                Err(format!("request {number} of a batch was answered `{payload}`, not `{expected}`").into())
            }
            None => Err(format!("an answer to request {number}, which was not sent").into()),
        }
    }

    /// What a server sends before it is asked, in bytes.
    pub(crate) fn greeting_bytes(self) -> usize {
        match self {
            Dialect::Resp => 0,
            Dialect::Iproto => iproto::GREETING_BYTES,
        }
    }
}

/// Where a server listens, and what it speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    pub(crate) dialect: Dialect,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_a_wrong_answer_are_shown() {
        let mut batch = Batch::default();
        Dialect::Resp.push(&mut batch, Request::Delete, &Row::new(1, false));
        let check = |number, answer: &[u8]| Dialect::Resp.check(&batch, number, answer).map_err(|e| e.to_string());
        assert_eq!(check(0, b":1\r\n"), Ok(()));
        assert_eq!(check(0, b"-ERR full\r\n"), Err("the server says: ERR full".to_owned()));
        assert!(check(0, b":0\r\n").unwrap_err().contains(r"`:0\r\n`, not `:1\r\n`"));
        assert!(check(1, b":1\r\n").is_err());
    }

    #[test]
    fn a_replaced_row_has_another_value() {
        assert_ne!(Row::new(5, false), Row::new(5, true));
        assert_ne!(Row::new(5, false).value, Row::new(6, false).value);
    }
}
