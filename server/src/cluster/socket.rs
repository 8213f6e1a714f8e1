//! The socket between two nodes, with TLS or without: while they greet it waits for so long and no longer; afterwards
//! it does not block.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::address;
use crate::system::clock;
use crate::tls::TlsStream;

/// For how long a peer may confirm nothing of what was sent to it. After a cut TCP waits longer each time before it
/// sends again, up to as long as the cut has lasted; a new connection is there at once.
#[cfg(target_os = "linux")]
const UNCONFIRMED_MS_MAX: u32 = 5000;

/// A socket, with TLS or without.
#[derive(Debug)]
pub(super) enum PeerSocket<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

impl<S> PeerSocket<S> {
    /// The socket itself.
    pub(super) fn tcp(&mut self) -> &mut S {
        match self {
            PeerSocket::Plain(socket) => socket,
            PeerSocket::Tls(stream) => stream.socket(),
        }
    }

    /// The same connection over the same socket in another form.
    fn map<T>(self, turn: impl FnOnce(S) -> T) -> PeerSocket<T> {
        match self {
            PeerSocket::Plain(socket) => PeerSocket::Plain(turn(socket)),
            PeerSocket::Tls(stream) => PeerSocket::Tls(Box::new(stream.map(turn))),
        }
    }

    /// Whether the other side may be the node at a normal address, as far as its certificate tells.
    pub(super) fn may_be(&self, url: &str) -> bool {
        match self {
            PeerSocket::Plain(_) => true,
            PeerSocket::Tls(stream) => address::host(url).is_some_and(|host| stream.is_of_host(host)),
        }
    }

    /// From here on TLS, if `connection` is a side of it.
    pub(super) fn sealed(self, connection: Option<rustls::Connection>) -> PeerSocket<S> {
        match (self, connection) {
            (PeerSocket::Plain(socket), Some(connection)) => {
                PeerSocket::Tls(Box::new(TlsStream::new(socket, connection)))
            }
            (socket, _) => socket,
        }
    }
}

impl PeerSocket<Timed> {
    /// The same connection, which does not block, and ends when the other side has confirmed nothing for a while.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn into_nonblocking(mut self) -> io::Result<PeerSocket<mio::net::TcpStream>> {
        let stream = &self.tcp().stream;
        stream.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_tcp_user_timeout(stream, UNCONFIRMED_MS_MAX)?;
        Ok(self.map(|timed| mio::net::TcpStream::from_std(timed.stream)))
    }
}

impl<S: Read + Write> Read for PeerSocket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            PeerSocket::Plain(socket) => socket.read(buffer),
            PeerSocket::Tls(stream) => stream.read(buffer),
        }
    }
}

impl<S: Read + Write> Write for PeerSocket<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            PeerSocket::Plain(socket) => socket.write(buffer),
            PeerSocket::Tls(stream) => stream.write(buffer),
        }
    }

    /// Sends what was taken and waits, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            PeerSocket::Plain(socket) => socket.flush(),
            PeerSocket::Tls(stream) => stream.flush(),
        }
    }
}

/// A socket that blocks, until it is too late: however slowly the bytes of the other side come.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    begun: Instant,
    patience: Duration,
}

impl Timed {
    /// From now on, for so long.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(stream: TcpStream, patience: Duration) -> io::Result<Timed> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Timed { stream, begun: clock::moment(), patience })
    }

    /// The time that is left.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.patience.checked_sub(clock::since(self.begun)).filter(|left| !left.is_zero());
        left.map(Some).ok_or_else(too_late)
    }
}

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "its greeting took too long")
}

/// The system calls the end of the time that a socket may take "would block".
fn or_too_late(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { too_late() } else { error }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer).map_err(or_too_late)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer).map_err(or_too_late)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
