//! TLS over a socket: rustls seals and opens, this moves the bytes.
//!
//! Invariant: what the socket does not take waits in rustls, bounded by one record's worth more than was there; the
//! writer counts it as not sent.
//!
//! Not here: certificates that name a user. A client with a good one is treated as any other.

use std::io::{self, Read, Write};

use rustls::Connection;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;

/// A socket whose bytes are sealed.
#[derive(Debug)]
pub struct TlsStream<S> {
    socket: S,
    connection: Connection,
    /// The socket has ended.
    is_ended: bool,
}

impl<S> TlsStream<S> {
    /// Over a socket that nothing was read from yet.
    pub fn new(socket: S, connection: Connection) -> TlsStream<S> {
        TlsStream { socket, connection, is_ended: false }
    }

    /// The socket below.
    pub fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// The same connection over the same socket in another form.
    pub fn map<T>(self, turn: impl FnOnce(S) -> T) -> TlsStream<T> {
        TlsStream { socket: turn(self.socket), connection: self.connection, is_ended: self.is_ended }
    }

    /// Whether the other side has a certificate that is one of `host`. Whether it is good was checked before.
    pub fn is_of_host(&self, host: &str) -> bool {
        let certificate = self.connection.peer_certificates().and_then(|chain| chain.first());
        let certificate = certificate.and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
        let name = ServerName::try_from(host).ok();
        certificate.zip(name).is_some_and(|(certificate, name)| verify_server_name(&certificate, &name).is_ok())
    }

    /// Whether a read has something to give without the socket: opened bytes, an end or an error.
    pub fn has_opened(&mut self) -> bool {
        let state = self.connection.process_new_packets();
        self.is_ended || state.map_or(true, |state| state.plaintext_bytes_to_read() > 0 || state.peer_has_closed())
    }

    /// Whether sealed bytes wait for the socket.
    pub fn has_sealed(&self) -> bool {
        self.connection.wants_write()
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// Sends what is sealed, as far as the socket takes it.
    ///
    /// # Errors
    /// Those of the socket, but not that it takes nothing now.
    pub fn send_sealed(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes leave.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send_leave(&mut self) -> io::Result<()> {
        self.connection.send_close_notify();
        self.send_sealed()
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// Reads what was opened; if there is nothing, opens what has come.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A missing close_notify is no error: the protocols above mark their own ends.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.is_ended {
                return Ok(0);
            }
            match self.connection.read_tls(&mut self.socket) {
                Ok(0) => self.is_ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = self.connection.process_new_packets() {
                // The other side is told why, if it can be.
                let _ = self.send_sealed();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.send_sealed()?;
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    /// Seals and sends; takes less than it is given while the socket takes nothing.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(buffer)?;
        self.send_sealed()?;
        if taken == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_sealed()
    }
}
