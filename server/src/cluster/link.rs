//! A connection to a peer: bytes in, cut into frames; frames out, as few writes as may be.
//!
//! What waits to be sent is bounded: a long frame beyond is dropped, as a network would lose it, and the operation that
//! has asked goes on without that answer. A peer that takes nothing for a while is cut off, and found again when it
//! does.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use quipu_cluster::protocol::{HEADER_BYTES, frame_length};

use super::socket::PeerSocket;

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Bytes that may wait to be sent, beside short frames: as many as all writes under way have
/// ([`quipu_cluster::limits::Limits::request_bytes_max`]), so that none of them is dropped.
const OUT_BYTES_MAX: usize = 256 << 20;
/// Shorter frames are not dropped.
const SHORT_BYTES: usize = 64 << 10;
/// A peer that takes nothing of what waits for so long is cut off.
const STALL_MS: u64 = 10_000;
/// A buffer that has grown beyond is given back when it is empty.
const KEPT_BYTES: usize = 1 << 20;
/// Where in a frame the number of its request stands.
const REQUEST_AT: usize = HEADER_BYTES - 8;

pub(super) struct Link {
    pub(super) stream: PeerSocket<TcpStream>,
    /// Tells this connection from earlier ones to the same peer.
    pub(super) token: mio::Token,
    pub(super) is_dialed: bool,
    pub(super) since_ms: u64,
    /// Whether there may be something to read.
    pub(super) is_readable: bool,
    frame_bytes_max: usize,
    /// Room for what comes. It is kept, and cleared only where it grows: a turn may bring a few bytes.
    incoming: Vec<u8>,
    /// Where in `incoming` what was read begins that was not taken, and where it ends.
    taken: usize,
    filled: usize,
    outgoing: Vec<u8>,
    sent: usize,
    /// When the peer last took something of what waits, or it began to wait.
    progress_ms: Option<u64>,
    /// The request of the last long frame that was told of.
    told: u64,
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
            filled: 0,
            outgoing: Vec::new(),
            sent: 0,
            progress_ms: None,
            told: 0,
        }
    }

    /// Reads what has come, up to a bound; `false` if the connection is at its end.
    pub(super) fn read(&mut self) -> bool {
        if self.taken > 0 {
            self.incoming.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.filled == 0 && self.incoming.len() > KEPT_BYTES {
            self.incoming = Vec::new();
        }
        if self.incoming.len() - self.filled < READ_BYTES {
            self.incoming.resize(self.filled + READ_BYTES, 0);
        }
        loop {
            match self.stream.read(&mut self.incoming[self.filled..]) {
                Ok(0) => return false,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return true;
                }
                Err(_) => return false,
            }
            if self.filled == self.incoming.len() {
                return true;
            }
        }
    }

    /// The next whole frame of what was read; `Err` if what comes is malformed.
    pub(super) fn next_frame(&mut self) -> Result<Option<&[u8]>, ()> {
        let rest = &self.incoming[self.taken..self.filled];
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

    /// Whether [`Link::next_frame`] has something to return, be it that the peer cannot be understood.
    pub(super) fn has_frame(&self) -> bool {
        let rest = &self.incoming[self.taken..self.filled];
        frame_length(rest, self.frame_bytes_max)
            .map_or(true, |length| length.is_some_and(|length| rest.len() >= length))
    }

    /// The request that a long frame answers which has begun to come, and the frame's bytes. Once for each frame.
    pub(super) fn coming(&mut self) -> Option<(u64, usize)> {
        let rest = &self.incoming[self.taken..self.filled];
        let length = frame_length(rest, self.frame_bytes_max).ok().flatten()?;
        let request = rest.get(REQUEST_AT..REQUEST_AT + 8)?.first_chunk().copied().map(u64::from_le_bytes)?;
        let is_news = request != 0 && length > READ_BYTES && rest.len() < length && self.told != request;
        is_news.then(|| {
            self.told = request;
            (request, length)
        })
    }

    /// The whole frames that [`Link::next_frame`] will return.
    pub(super) fn frames_ahead(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.incoming[self.taken..self.filled];
        std::iter::from_fn(move || {
            let length = frame_length(rest, self.frame_bytes_max).ok().flatten()?;
            let (frame, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(frame)
        })
    }

    /// Queues a frame to be sent; `false` if it was dropped, because too much waits.
    pub(super) fn push(&mut self, frame: &[u8]) -> bool {
        let waiting_bytes = self.outgoing.len() - self.sent;
        let fits = frame.len() <= SHORT_BYTES || waiting_bytes + frame.len() <= OUT_BYTES_MAX + self.frame_bytes_max;
        if fits {
            self.outgoing.extend_from_slice(frame);
        }
        fits
    }

    /// Sends what the socket takes; `false` if the connection is at its end, or the peer has taken nothing for long.
    pub(super) fn flush(&mut self, now_ms: u64) -> bool {
        let progress_ms = self.progress_ms.get_or_insert(now_ms);
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.sent += count;
                    *progress_ms = now_ms;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        let is_stalled = now_ms >= *progress_ms + STALL_MS;
        // What was sealed before may wait still.
        if self.stream.flush().is_err() {
            return false;
        }
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.progress_ms = None;
            self.outgoing.clear();
            if self.outgoing.capacity() > KEPT_BYTES {
                self.outgoing = Vec::new();
            }
        } else if self.sent > KEPT_BYTES && self.sent * 2 >= self.outgoing.len() {
            // Half of it at least, so that each byte moves once: a long value would else move with each piece of it.
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        !is_stalled || self.outgoing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use quipu_cluster::ids::Epoch;
    use quipu_cluster::protocol::{Frame, Header, Message};

    use super::*;

    /// A quorum of replicas could not send a value of 60 MB within the second of a short one.
    #[test]
    fn a_long_frame_is_told_of_once_when_it_begins_to_come() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        let stream = PeerSocket::Plain(TcpStream::from_std(stream));
        let mut link = Link::new(stream, mio::Token(1), (false, 0), 64 << 20);
        let mut frame = Vec::new();
        let topology = vec![7; 2 * READ_BYTES];
        Frame::encode(Header { epoch: Epoch(1), request: 9 }, &Message::Topology { bytes: &topology }, &mut frame);
        let mut told = Vec::new();
        for piece in frame.chunks(READ_BYTES / 2) {
            peer.write_all(piece).unwrap();
            let before = link.filled - link.taken;
            while link.filled - link.taken < before + piece.len() {
                assert!(link.read());
            }
            told.extend(link.coming());
        }
        assert_eq!(told, [(9, frame.len())]);
        assert!(link.next_frame().is_ok_and(|found| found == Some(&frame[..])));
    }

    /// A connection was cut when more than a bound waited, though its peer took all that it could, and what waited was
    /// sent again as soon as it was back.
    #[test]
    fn what_is_too_much_is_dropped_and_a_peer_that_takes_nothing_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        let mut link = Link::new(PeerSocket::Plain(TcpStream::from_std(stream)), mio::Token(1), (false, 0), 64 << 20);
        let frame = vec![7; 60 << 20];
        let pushed = (0..6).filter(|_| link.push(&frame)).count();
        assert_eq!(pushed, 5, "what writes under way have, and one more");
        assert!(link.push(&frame[..SHORT_BYTES]), "short ones are not dropped");
        assert!(link.flush(1000) && link.flush(1000 + STALL_MS - 1));
        assert!(!link.flush(1000 + STALL_MS), "it has taken nothing");
        let bytes = pushed * frame.len() + SHORT_BYTES;
        let reader = std::thread::spawn(move || {
            let taken = std::io::copy(&mut (&peer).take(bytes as u64), &mut std::io::sink());
            (peer, taken.unwrap())
        });
        while !link.outgoing.is_empty() {
            link.flush(1000 + STALL_MS);
            std::thread::yield_now();
        }
        let (_peer, taken) = reader.join().unwrap();
        assert_eq!(taken, bytes as u64);
        assert!(link.push(&frame) && link.flush(10 * STALL_MS), "it has taken all, and time begins anew");
    }
}
