//! A connection to a peer: bytes in, cut into frames; frames out, as few writes as may be.
//!
//! What waits to be sent is bounded: a peer that takes nothing is cut off, and found again when it does.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use quipu_cluster::protocol::frame_length;

use super::socket::PeerSocket;

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Bytes that may wait to be sent, beside one frame of the largest size.
const OUT_BYTES_MAX: usize = 32 << 20;
/// A buffer that has grown beyond is given back when it is empty.
const KEPT_BYTES: usize = 1 << 20;

pub(super) struct Link {
    pub(super) stream: PeerSocket<TcpStream>,
    /// Tells this connection from earlier ones to the same peer.
    pub(super) token: mio::Token,
    pub(super) is_dialed: bool,
    pub(super) since_ms: u64,
    /// Whether there may be something to read.
    pub(super) is_readable: bool,
    frame_bytes_max: usize,
    incoming: Vec<u8>,
    /// Of `incoming`, what was taken.
    taken: usize,
    outgoing: Vec<u8>,
    sent: usize,
}

impl Link {
    pub(super) fn new(
        stream: PeerSocket<TcpStream>,
        token: mio::Token,
        (is_dialed, since_ms): (bool, u64),
        frame_bytes_max: usize,
    ) -> Link {
        Link {
            stream,
            token,
            is_dialed,
            since_ms,
            is_readable: true,
            frame_bytes_max,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
        }
    }

    /// Reads what has come, up to a bound; `false` if the connection is at its end.
    pub(super) fn read(&mut self) -> bool {
        self.incoming.drain(..self.taken);
        self.taken = 0;
        if self.incoming.is_empty() && self.incoming.capacity() > KEPT_BYTES {
            self.incoming = Vec::new();
        }
        let start = self.incoming.len();
        self.incoming.resize(start + READ_BYTES, 0);
        let mut end = start;
        let is_open = loop {
            match self.stream.read(&mut self.incoming[end..]) {
                Ok(0) => break false,
                Ok(count) => end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    break true;
                }
                Err(_) => break false,
            }
            if end == self.incoming.len() {
                break true;
            }
        };
        self.incoming.truncate(end);
        is_open
    }

    /// The next whole frame of what was read; `Err` if what comes is none.
    pub(super) fn next_frame(&mut self) -> Result<Option<&[u8]>, ()> {
        let rest = &self.incoming[self.taken..];
        match frame_length(rest, self.frame_bytes_max) {
            Ok(Some(length)) if rest.len() >= length => {
                let start = self.taken;
                self.taken += length;
                Ok(Some(&self.incoming[start..start + length]))
            }
            Ok(_) => Ok(None),
            Err(_) => Err(()),
        }
    }

    /// Puts a frame behind those that are to be sent.
    pub(super) fn push(&mut self, frame: &[u8]) {
        self.outgoing.extend_from_slice(frame);
    }

    /// Sends what the socket takes; `false` if the connection is at its end, or too much waits.
    pub(super) fn flush(&mut self) -> bool {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        // What was sealed before may wait still.
        if self.stream.flush().is_err() {
            return false;
        }
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.outgoing.clear();
            if self.outgoing.capacity() > KEPT_BYTES {
                self.outgoing = Vec::new();
            }
        } else if self.sent > KEPT_BYTES {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        self.outgoing.len() - self.sent <= OUT_BYTES_MAX + self.frame_bytes_max
    }
}
