//! One client's connection: what it sent that is no whole command yet, its session, and answers that wait to be sent.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::clients::Client;
use crate::resp::parse::{Limits, Parser};
use crate::resp::reply::{Protocol, Reply};
use crate::session::Session;

use super::stream::Stream;

/// Bytes of answers that wait to be sent above which no more commands are read.
const BACKLOG_BYTES_MAX: usize = 1 << 20;

/// Bytes that an empty buffer keeps memory for.
const KEPT_BYTES: usize = 16 << 10;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Everything that had come was read.
    All,
    /// There may be more.
    More,
    /// The client will send no more.
    End,
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    /// What others see of it, also while its session is elsewhere.
    pub(super) client: Arc<Client>,
    pub(super) parser: Parser,
    /// What was read and not consumed: the start of a command, or commands that wait.
    pub(super) input: Vec<u8>,
    /// `None` while a long command runs beside the loop.
    pub(super) session: Option<Box<Session>>,
    pub(super) reply: Reply,
    /// Bytes of `reply` that were sent.
    sent: usize,
    /// The socket may have more to read.
    pub(super) is_readable: bool,
    /// The system has said that the client sends no more: there may still be something to read, and nothing will tell of the end again.
    pub(super) is_read_closed: bool,
    /// The client sends no more, and all that it sent was read.
    pub(super) is_ended: bool,
    /// No more is read: it closes when all is sent.
    pub(super) is_closing: bool,
    /// Its next command waits, as `CLIENT PAUSE` wants it.
    pub(super) is_paused: bool,
    /// Since when it has more answers to take than the soft limit allows.
    pub(super) over_soft_since: Option<Instant>,
    /// Why it is closed, if that was not its own wish.
    pub(super) why_closed: String,
    /// How many bytes the command in progress lacks at least.
    wanted_bytes: usize,
    /// Whether `input` has whole commands.
    has_commands: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Session) -> Connection {
        let limits = if session.is_authenticated { Limits::default() } else { Limits::unauthenticated() };
        Connection {
            stream,
            client: session.client.clone(),
            parser: Parser::new(limits),
            input: Vec::new(),
            session: Some(Box::new(session)),
            reply: Reply::new(Protocol::Resp2),
            sent: 0,
            is_readable: true,
            is_read_closed: false,
            is_ended: false,
            is_closing: false,
            is_paused: false,
            over_soft_since: None,
            why_closed: String::new(),
            wanted_bytes: 0,
            has_commands: false,
        }
    }

    /// Whether commands are to be read: it is not closing, no command waits or is long under way, and it takes its answers.
    pub(super) fn takes_commands(&self) -> bool {
        !self.is_closing && !self.is_paused && self.session.is_some() && self.backlog_bytes() < BACKLOG_BYTES_MAX
    }

    pub(super) fn wanted_bytes(&self) -> usize {
        self.wanted_bytes
    }

    pub(super) fn set_wanted_bytes(&mut self, bytes: usize) {
        self.wanted_bytes = bytes;
    }

    pub(super) fn has_commands(&self) -> bool {
        self.has_commands
    }

    pub(super) fn set_has_commands(&mut self, has: bool) {
        self.has_commands = has;
    }

    pub(super) fn backlog_bytes(&self) -> usize {
        self.reply.bytes.len() - self.sent
    }

    /// Reads what has come into `buffer`, which has room, behind its first `filled` bytes.
    pub(super) fn fill(&mut self, buffer: &mut [u8], filled: &mut usize) -> io::Result<Filled> {
        while *filled < buffer.len() {
            match self.stream.read(&mut buffer[*filled..]) {
                Ok(0) => {
                    self.is_ended = true;
                    return Ok(Filled::End);
                }
                Ok(bytes) => {
                    *filled += bytes;
                    // A short read has taken all that there was, and the next event tells when there is more; but the end is told once only.
                    if *filled < buffer.len() && !self.is_read_closed && self.stream.short_read_is_all() {
                        self.is_readable = false;
                        return Ok(Filled::All);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Ok(Filled::All);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Filled::More)
    }

    /// Sends what the socket takes. Returns how much that was.
    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < self.reply.bytes.len() {
            match self.stream.write(&self.reply.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.flush()?;
        let bytes = self.sent - before;
        if self.sent == self.reply.bytes.len() {
            self.reply.bytes.clear();
            self.reply.bytes.shrink_to(KEPT_BYTES);
            self.sent = 0;
        }
        Ok(bytes)
    }

    /// Notes what others see of it.
    pub(super) fn note(&self) {
        if let Some(session) = &self.session {
            self.client.note(session);
        }
        self.client.input_bytes.store(self.input.len(), Ordering::Relaxed);
        self.client.output_bytes.store(self.backlog_bytes(), Ordering::Relaxed);
        let protocol = if self.reply.protocol == Protocol::Resp2 { 2 } else { 3 };
        self.client.protocol.store(protocol, Ordering::Relaxed);
    }

    /// Closes it soon, without its answers.
    pub(super) fn give_up(&mut self, why: String) {
        self.is_closing = true;
        self.reply.bytes.clear();
        self.sent = 0;
        self.why_closed = why;
    }

    /// Whether nothing is left to do for it.
    pub(super) fn is_finished(&self) -> bool {
        (self.is_closing || self.is_ended && !self.has_commands)
            && self.session.is_some()
            && self.backlog_bytes() == 0
            && !self.stream.has_unsent()
    }
}
