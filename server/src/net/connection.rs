//! One client's connection: its session, the bytes of commands that are not complete, and answers that wait to be sent.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::execution::batch::LOOKED_AHEAD_MAX;
use crate::execution::long::Step;
use crate::resp::parse::{Limits, Parser};
use crate::resp::reply::{Protocol, Reply};
use crate::state::clients::{Client, Clients};
use crate::state::session::Session;
use crate::system::clock;
use crate::system::log::Level;

use super::long::{self, Job};
use super::stream::Stream;

/// Bytes of answers that wait to be sent above which no more commands are read.
const BACKLOG_BYTES_MAX: usize = 1 << 20;
/// The same while clients hold much together.
const BACKLOG_BYTES_MAX_OVER: usize = 16 << 10;

/// Bytes that an empty buffer keeps memory for.
const KEPT_BYTES: usize = 16 << 10;

/// Commands of one connection that are parsed at a time, and that run in one turn of the loop, at most.
pub(super) const COMMANDS_MAX: usize = 4096;
/// Commands that are parsed after one that had to wait: those whose pages are asked for together with its own.
const PARSED_MIN: usize = LOOKED_AHEAD_MAX;

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

/// How long the commands of a connection take: it is served after those that are lighter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// They took little time in its last turn.
    Light,
    /// The turn that did not come to it was taken by others from which that was not expected.
    Suspected,
    /// They took long in its last turn.
    Heavy,
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
    /// The long command under way, while its client is to take what there is of the answer.
    job: Option<Job>,
    pub(super) reply: Reply,
    /// Bytes of `reply` that were sent.
    sent: usize,
    /// When it took something of an answer.
    progress: Instant,
    /// The socket may have more to read.
    pub(super) is_readable: bool,
    /// The system has said that the client sends no more: there may still be something to read, and nothing will tell
    /// of the end again.
    pub(super) is_read_closed: bool,
    /// The client sends no more, and all that it sent was read.
    pub(super) is_ended: bool,
    /// No more is read: it closes when all is sent.
    pub(super) is_closing: bool,
    /// Its next command waits, as `CLIENT PAUSE` wants it.
    pub(super) is_paused: bool,
    /// Its next command lacks pages of runs, or waits for memory.
    pub(super) is_parked: bool,
    /// Whether its commands took long in the last turn.
    pub(super) weight: Weight,
    /// Since when it has more answers to take than the soft limit allows.
    pub(super) over_soft_since: Option<Instant>,
    /// Why it is closed, if that was not its own wish.
    pub(super) why_closed: String,
    /// How much that matters.
    pub(super) level: Level,
    /// How many commands are parsed at a time. Those after one that had to wait are parsed again, so that a pipeline in
    /// which many wait would be parsed as many times: fewer are parsed then, and twice as many after each time without.
    pub(super) parsed_max: usize,
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
            job: None,
            reply: Reply::new(Protocol::Resp2),
            sent: 0,
            progress: clock::moment(),
            is_readable: true,
            is_read_closed: false,
            is_ended: false,
            is_closing: false,
            is_paused: false,
            is_parked: false,
            weight: Weight::Light,
            over_soft_since: None,
            why_closed: String::new(),
            level: Level::Notice,
            parsed_max: COMMANDS_MAX,
            wanted_bytes: 0,
            has_commands: false,
        }
    }

    /// Notes that the commands that were parsed have run, all of them or those before one that waits.
    pub(super) fn note_run(&mut self, are_all: bool) {
        self.parsed_max = if are_all { (self.parsed_max * 2).min(COMMANDS_MAX) } else { PARSED_MIN };
    }

    /// Whether commands are to be read: it is not closing, no command waits or is long under way, and it takes its
    /// answers. `is_over`: clients hold much together.
    pub(super) fn takes_commands(&self, is_over: bool) -> bool {
        let backlog_bytes_max = if is_over { BACKLOG_BYTES_MAX_OVER } else { BACKLOG_BYTES_MAX };
        let waits = self.is_paused || self.is_parked || self.session.is_none();
        !self.is_closing && !waits && self.backlog_bytes() < backlog_bytes_max
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

    /// Reads what has come into `buffer`, which has room, after its first `filled` bytes.
    pub(super) fn fill(&mut self, buffer: &mut [u8], filled: &mut usize) -> io::Result<Filled> {
        while *filled < buffer.len() {
            match self.stream.read(&mut buffer[*filled..]) {
                Ok(0) => {
                    self.is_ended = true;
                    return Ok(Filled::End);
                }
                Ok(bytes) => {
                    *filled += bytes;
                    // A short read has taken all that there was, and the next event tells when there is more; but the
                    // end is told once only.
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

    /// For how many seconds it has taken nothing of a long answer that waits for it; 0 if there is none.
    pub(super) fn stalled_s(&self) -> u64 {
        if self.job.is_some() { clock::since(self.progress).as_secs() } else { 0 }
    }

    /// Why it is to be closed, if it sent nothing for `idle_s` seconds, or left more than `soft_bytes` of answers for
    /// `soft_s`; 0 is no limit.
    pub(super) fn why_over_time(&mut self, idle_s: u64, soft_bytes: usize, soft_s: u64) -> Option<String> {
        let is_monitor = self.session.as_ref()?.is_monitor;
        let backlog_bytes = self.backlog_bytes();
        if soft_bytes > 0 && backlog_bytes > soft_bytes {
            let since = *self.over_soft_since.get_or_insert_with(clock::moment);
            if clock::since(since).as_secs() >= soft_s {
                return Some(format!("it left {backlog_bytes} bytes of answers for {soft_s} seconds"));
            }
        } else {
            self.over_soft_since = None;
        }
        if idle_s == 0 || is_monitor {
            return None;
        }
        let idle_ms = clock::now_ms().saturating_sub(self.client.active_ms.load(Ordering::Relaxed));
        (idle_ms / 1000 >= idle_s).then(|| format!("it was idle for {} seconds", idle_ms / 1000))
    }

    /// Sends what the socket takes. Returns how much that was.
    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let bytes = self.send()?;
        self.stream.flush()?;
        if bytes > 0 {
            self.progress = clock::moment();
        }
        Ok(bytes)
    }

    /// Sends what the socket takes of the bytes that are there.
    fn send(&mut self) -> io::Result<usize> {
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
        let bytes = self.sent - before;
        if self.sent == self.reply.bytes.len() {
            self.reply.bytes.clear();
            self.reply.bytes.shrink_to(KEPT_BYTES);
            self.sent = 0;
        }
        Ok(bytes)
    }

    /// Takes a part of the answer of its long command.
    pub(super) fn take_answer(&mut self, job: Job, bytes: Vec<u8>, step: Step) {
        if !self.why_closed.is_empty() {
            return;
        }
        if self.backlog_bytes() == 0 {
            // They may be many, and are not copied.
            self.reply.bytes = bytes;
            self.sent = 0;
        } else {
            self.reply.bytes.extend_from_slice(&bytes);
        }
        self.progress = clock::moment();
        self.reply.protocol = job.protocol;
        match step {
            Step::More => self.job = Some(job),
            Step::Done => {
                self.is_closing |= job.session.closing;
                self.session = Some(job.session);
            }
            Step::Broken(why) => self.give_up(why),
        }
    }

    /// The long command under way, if its client is to be sent more.
    pub(super) fn next_step(&mut self) -> Option<Job> {
        let wants_more = self.backlog_bytes() < long::BACKLOG_BYTES;
        self.job.take_if(|_| wants_more)
    }

    /// Notes what others see of it.
    pub(super) fn note(&self, clients: &Clients) {
        let mut queued_bytes = 0;
        if let Some(session) = &self.session {
            session.show();
            queued_bytes = session.queue.as_ref().map_or(0, |queue| queue.bytes);
            self.client.queued_bytes.store(queued_bytes, Ordering::Relaxed);
        }
        clients.hold(&self.client, self.input.len() + self.backlog_bytes() + queued_bytes);
        self.client.is_waiting.store(self.is_paused || self.is_parked, Ordering::Relaxed);
        self.client.input_bytes.store(self.input.len(), Ordering::Relaxed);
        self.client.output_bytes.store(self.backlog_bytes(), Ordering::Relaxed);
        let protocol = if self.reply.protocol == Protocol::Resp2 { 2 } else { 3 };
        self.client.protocol.store(protocol, Ordering::Relaxed);
    }

    /// Closes it soon, without its answers.
    pub(super) fn give_up(&mut self, why: String) {
        self.is_closing = true;
        self.job = None;
        self.reply.bytes.clear();
        self.sent = 0;
        self.why_closed = why;
    }

    /// The same, where it was the client that broke off: many do.
    pub(super) fn give_up_lost(&mut self, why: String) {
        self.level = Level::Verbose;
        self.give_up(why);
    }

    /// Whether nothing is left to do for it.
    pub(super) fn is_finished(&self) -> bool {
        let is_done = self.session.is_some() && (self.is_closing || (self.is_ended && !self.has_commands));
        (is_done || !self.why_closed.is_empty()) && self.backlog_bytes() == 0 && !self.stream.has_unsent()
    }
}
