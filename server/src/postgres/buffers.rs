//! Bytes that have come and wait to be read, and bytes that wait to be sent.
//!
//! Both keep little memory while there is nothing in them, so a client that is idle costs its thread and no more.

use std::io::{self, Read};

use super::answers::Answers;
use super::stream::Stream;

/// Bytes that an empty buffer keeps memory for.
const KEPT_BYTES: usize = 16 << 10;
/// Bytes that are read at once at least.
const READ_BYTES: usize = 8 << 10;
/// Bytes of answers above which they are sent though more may follow.
const FULL_BYTES: usize = 64 << 10;

/// What has come and was not read.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    /// What has come.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// So many bytes were read.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Bytes that it keeps memory for.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes what comes next, of a message that has so many bytes. Returns how much that was; 0 at the end.
    ///
    /// Memory grows with what has come, not with what a client says that it will send.
    pub(super) fn fill(&mut self, from: &mut impl Read, wanted_bytes: usize) -> io::Result<usize> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == 0 && self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        let room = (self.end * 2).clamp(READ_BYTES, wanted_bytes.max(READ_BYTES));
        if self.bytes.len() < self.end + READ_BYTES / 2 || self.bytes.len() < room {
            self.bytes.resize(room.max(self.end + READ_BYTES), 0);
        }
        let count = loop {
            match from.read(&mut self.bytes[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end += count;
        Ok(count)
    }
}

/// What waits to be sent, and where it goes.
pub(super) struct Outgoing {
    pub(super) stream: Stream,
    pub(super) answers: Answers,
}

impl Outgoing {
    pub(super) fn new(stream: Stream) -> Outgoing {
        Outgoing { stream, answers: Answers::default() }
    }

    /// Sends all.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.answers.bytes.is_empty() {
            return Ok(());
        }
        let sent = self.stream.send(&self.answers.bytes);
        self.answers.bytes.clear();
        self.answers.bytes.shrink_to(FULL_BYTES + KEPT_BYTES);
        sent
    }

    /// Sends all if it is much.
    pub(super) fn flush_if_full(&mut self) -> io::Result<()> {
        if self.answers.bytes.len() >= FULL_BYTES { self.flush() } else { Ok(()) }
    }

    /// Gives memory back before the client is waited for.
    pub(super) fn rest(&mut self) {
        self.answers.bytes.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_has_come() {
        let mut incoming = Incoming::default();
        let sent: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        let mut rest = &sent[..];
        incoming.fill(&mut rest, 1 << 30).expect("read");
        assert!(incoming.held_bytes() <= 2 * READ_BYTES, "{}", incoming.held_bytes());
        while incoming.fill(&mut rest, 1 << 30).expect("read") > 0 {
            assert!(incoming.held_bytes() <= 2 * incoming.rest().len() + READ_BYTES);
        }
        assert_eq!(incoming.rest(), sent);
        incoming.consume(150_000);
        assert_eq!(incoming.rest(), &sent[150_000..]);
        incoming.consume(50_000);
        assert_eq!(incoming.fill(&mut rest, 5).expect("read"), 0);
        assert!(incoming.held_bytes() <= 2 * READ_BYTES);
    }
}
