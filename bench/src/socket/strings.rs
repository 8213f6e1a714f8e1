//! Strings by key, asked one at a time over a connection of its own: `SET`, `GET`, and Quipu's `Q.RANGE`.

use super::{Connection, Running, resp};
use crate::store::{Client, Result};

/// A client of a server that speaks RESP.
pub(crate) struct Strings {
    connection: Connection,
    request: Vec<u8>,
}

impl Strings {
    /// Connects.
    pub(crate) fn open(server: &Running) -> Result<Self> {
        Ok(Strings { connection: server.connect()?, request: Vec::new() })
    }

    /// How many keys there are.
    pub(crate) fn count(&mut self) -> Result<u64> {
        let answer = self.ask(&[b"DBSIZE"])?;
        let digits = std::str::from_utf8(&answer)?.trim_start_matches(':').trim_end();
        Ok(digits.parse()?)
    }

    /// The answer, unless it is an error.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>> {
        self.request.clear();
        resp::command(&mut self.request, words);
        let answer = self.connection.ask(&self.request)?;
        if answer.starts_with(b"-") {
            return Err(format!("the server says: {}", String::from_utf8_lossy(&answer[1..]).trim_end()).into());
        }
        Ok(answer)
    }
}

impl Client for Strings {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match &self.ask(&[b"SET", key, value])?[..] {
            b"+OK\r\n" => Ok(()),
            other => Err(format!("SET was answered `{}`", other.escape_ascii()).into()),
        }
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let answer = self.ask(&[b"GET", key])?;
        let value = resp::strings(&answer)?.next();
        Ok(value.map(see).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let from = [b"[", from].concat();
        let answer = self.ask(&[b"Q.RANGE", &from, b"+", b"LIMIT", limit.to_string().as_bytes(), b"WITHVALUES"])?;
        let mut strings = resp::strings(&answer)?;
        while let (Some(key), Some(value)) = (strings.next(), strings.next()) {
            see(key, value);
        }
        Ok(())
    }
}
