//! A client's socket, of whatever kind: TCP, a local socket, TLS over TCP. None of them blocks.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::tls::TlsStream;

/// A socket that does not block.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.send_sealed(),
        }
    }
}

impl Stream {
    /// Of a client that has just connected by TCP and is to speak TLS.
    pub(super) fn tls(socket: TcpStream, config: &Arc<rustls::ServerConfig>) -> io::Result<Stream> {
        let connection = rustls::ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(TlsStream::new(socket, connection.into()))))
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// Bytes that were taken by `write` and have not gone to the system: some are left when it takes no more.
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(stream) => stream.has_sealed(),
        }
    }

    /// Whether a read that brought less than there was room for has brought all that there is.
    pub(super) fn short_read_is_all(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Tells the other side that nothing more comes.
    pub(super) fn end(&mut self) {
        // It may have gone already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => stream.send_leave().and_then(|()| stream.socket().shutdown(Shutdown::Write)),
        };
    }

    /// Tells the loop of this socket from now on.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        // It is closed next, which has the same effect.
        let _ = self.source().deregister(registry);
    }
}
