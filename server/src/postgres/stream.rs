//! A client's socket, with TLS or without. It blocks: a connection has a thread of its own.
//!
//! Times: a read waits as long as it is told, a write until nothing moved for [`QUIET_MAX`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use crate::system::clock;
use crate::tls::TlsStream;

/// How long a client may take nothing of an answer that waits for it, as over HTTP.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(60);

/// How long a client that was told why its connection ends may take to leave.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// After how long a silent client is asked whether it is still there, how often again, and how many times in vain.
const PROBE_AFTER: Duration = Duration::from_secs(120);
const PROBE_EVERY: Duration = Duration::from_secs(30);
const PROBES: u32 = 4;

/// A socket that several threads know: one reads and writes, others may shut it down.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    /// How long a read waits; none for ever.
    read_timeout: Option<Duration>,
}

impl Socket {
    /// Of a client that has just connected.
    pub(super) fn new(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        // A request and its answer are small, and neither should wait for the other's acknowledgement.
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(QUIET_MAX))?;
        stream.set_read_timeout(None)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        // Not every system has these; then its own times apply.
        let _ = sockopt::set_tcp_keepidle(&stream, PROBE_AFTER);
        let _ = sockopt::set_tcp_keepintvl(&stream, PROBE_EVERY);
        let _ = sockopt::set_tcp_keepcnt(&stream, PROBES);
        Ok(Socket { stream: Arc::new(stream), read_timeout: None })
    }

    /// Ends what waits for the client to send something, or also what waits for it to take something.
    pub(super) fn shut_down(&self, how: Shutdown) {
        // The client may have gone.
        let _ = self.stream.shutdown(how);
    }

    /// Whether a read would not wait: there are bytes, or an end.
    fn has_more(&self) -> io::Result<bool> {
        match recv(&*self.stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Another handle of the socket.
    fn duplicate(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Says how long a read of this handle waits. Costs a system call only if that is another time than before.
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.read_timeout != timeout {
            self.stream.set_read_timeout(timeout)?;
            self.read_timeout = timeout;
        }
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.stream).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket with TLS or without.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// Speaks TLS over the socket from now on.
    pub(super) fn upgrade(&mut self, config: &Arc<rustls::ServerConfig>) -> io::Result<()> {
        if let Stream::Plain(socket) = self {
            let connection = rustls::ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            *self = Stream::Tls(Box::new(TlsStream::new(socket.clone(), connection.into())));
        }
        Ok(())
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Says how long a read waits; none for ever.
    pub(super) fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)
    }

    /// Whether the client has sent more, or has gone.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn has_more(&mut self) -> io::Result<bool> {
        self.socket().has_more()
    }

    /// Whether a read would give something at once: what was opened and not read, or what [`Stream::has_more`] sees.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn would_give(&mut self) -> io::Result<bool> {
        let has_opened = match self {
            Stream::Tls(stream) => stream.has_opened(),
            Stream::Plain(_) => false,
        };
        if has_opened { Ok(true) } else { self.has_more() }
    }

    /// Another handle of the socket below.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn duplicate(&mut self) -> io::Result<TcpStream> {
        self.socket().duplicate()
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the client takes nothing for [`QUIET_MAX`], and those of the socket.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match self {
                Stream::Plain(socket) => socket.write(bytes),
                Stream::Tls(stream) => stream.write(bytes),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(timed_out()),
                Err(error) => return Err(error),
            }
        }
        match self {
            Stream::Tls(stream) => {
                stream.send_sealed()?;
                // What is left there was not taken in time.
                if stream.has_sealed() { Err(timed_out()) } else { Ok(()) }
            }
            Stream::Plain(_) => Ok(()),
        }
    }

    /// Takes leave.
    pub(super) fn end(&mut self) {
        if let Stream::Tls(stream) = self {
            // The client may have gone.
            let _ = stream.send_leave();
        }
    }

    /// Waits until the client has seen that nothing follows, while it may still be sending: what comes is left unread,
    /// but if the socket were closed over it, the system would take back what was sent last.
    pub(super) fn linger(&mut self) {
        let socket = self.socket();
        socket.shut_down(Shutdown::Write);
        let (begun, mut dropped) = (clock::moment(), [0; 16 << 10]);
        while let Some(left) = LINGER_MAX.checked_sub(clock::since(begun)) {
            let is_set = socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).is_ok();
            match socket.read(&mut dropped) {
                Ok(1..) if is_set => {}
                _ => return,
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

/// Whether a socket says that the time is over: systems have two words for it.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("it took no answer for {} seconds", QUIET_MAX.as_secs()))
}
