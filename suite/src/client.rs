//! A connection to a server: what is written goes out at once, what comes back is handed out frame by frame, decoded
//! and raw.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::clock;
use crate::command::Command;
use crate::value::Value;

/// How long a reply may take before the server counts as silent. Generous: the machine may be busy.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A reply, and the bytes of its frame.
    Reply {
        /// The decoded reply.
        value: Value,
        /// Its bytes.
        raw: Vec<u8>,
    },
    /// Nothing, within the time that a reply may take; the bytes of a part of a reply, if a part came.
    Silence(Vec<u8>),
    /// The connection was closed; the bytes that came before.
    Closed(Vec<u8>),
    /// Bytes that are no reply.
    Garbage(Vec<u8>),
}

impl Answer {
    /// The bytes that came.
    pub fn raw(&self) -> &[u8] {
        match self {
            Answer::Reply { raw, .. } | Answer::Silence(raw) | Answer::Closed(raw) | Answer::Garbage(raw) => raw,
        }
    }

    /// The reply, if it is one.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Answer::Reply { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    taken: usize,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If the server is not there.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Client { stream, received: Vec::new(), taken: 0 })
    }

    /// Makes the server count as silent after `patience`, which is not zero.
    ///
    /// # Errors
    ///
    /// If the socket does not take it.
    pub fn be_patient_for(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    /// Writes `bytes` in pieces that end at `cuts`, with a short pause after each piece but the last.
    ///
    /// # Errors
    ///
    /// If the connection is closed, or the server does not read.
    pub fn send(&mut self, bytes: &[u8], cuts: &[usize]) -> io::Result<()> {
        let mut from = 0;
        for &cut in cuts {
            let to = cut.clamp(from, bytes.len());
            if to > from && to < bytes.len() {
                self.stream.write_all(&bytes[from..to])?;
                clock::pause(Duration::from_micros(200));
                from = to;
            }
        }
        self.stream.write_all(&bytes[from..])
    }

    /// Tells the server that nothing more will come; what it answers can still be read.
    ///
    /// # Errors
    ///
    /// If the connection is closed.
    pub fn say_no_more(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// The next reply.
    pub fn answer(&mut self) -> Answer {
        loop {
            match Value::decode(&self.received[self.taken..]) {
                Ok(Some((value, length))) => {
                    let raw = self.received[self.taken..self.taken + length].to_vec();
                    self.taken += length;
                    return Answer::Reply { value, raw };
                }
                Ok(None) => {}
                Err(_) => return Answer::Garbage(self.rest()),
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            match self.receive() {
                Ok(0) => return Answer::Closed(self.rest()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Answer::Silence(self.rest()),
                Err(_) => return Answer::Closed(self.rest()),
            }
        }
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn ask(&mut self, command: &Command) -> io::Result<Value> {
        self.send(&command.encode(), &[])?;
        match self.answer() {
            Answer::Reply { value, .. } => Ok(value),
            other => Err(io::Error::other(format!("no reply to {command}: {other:?}"))),
        }
    }

    /// Bytes that have come and that were not asked for.
    pub fn unasked(&self) -> &[u8] {
        &self.received[self.taken..]
    }

    /// All that has come, and whether the server has closed the connection: the end of this connection's use.
    pub fn drain(mut self) -> (Vec<u8>, bool) {
        let mut closed = self.stream.set_nonblocking(true).is_err();
        while !closed {
            match self.receive() {
                Ok(0) => closed = true,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => break,
                Err(_) => closed = true,
            }
        }
        (self.rest(), closed)
    }

    fn rest(&mut self) -> Vec<u8> {
        let rest = self.received.split_off(self.taken);
        self.received.clear();
        self.taken = 0;
        rest
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut piece = [0; 64 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(count) => {
                    self.received.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
