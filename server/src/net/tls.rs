//! TLS over a socket that does not block: rustls encrypts and decrypts, the loop moves the bytes.
//!
//! Invariant: what the socket does not take waits in rustls, bounded by one record's worth of answers more than was
//! there; [`super::connection`] counts it as not sent.
//!
//! Not here: certificates that name a user. A client that has a certificate is treated as any other.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use mio::net::TcpStream;
use quipu::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::config::TlsFiles;

/// What TLS needs, from the files of the configuration.
///
/// # Errors
/// [`ErrorKind::Invalid`] if a file is missing or malformed: which, and what to do.
pub(super) fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>> {
    let invalid = |text: String| Error::new(ErrorKind::Invalid, text);
    let named = |file: &Option<std::path::PathBuf>, option: &str| {
        file.clone().ok_or_else(|| invalid(format!("TLS is to be served, and `--{option}` is missing")))
    };
    let certificate = named(&files.certificate, "tls-cert-file")?;
    let key_path = named(&files.key, "tls-key-file")?;
    let chain = certificates(&certificate)?;
    let key = PrivateKeyDer::from_pem_file(&key_path)
        .map_err(|error| invalid(format!("no private key in PEM can be read from {}: {error}", key_path.display())))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(format!("TLS cannot be set up: {error}")))?;
    let builder = match &files.authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots
                    .add(root)
                    .map_err(|error| invalid(format!("a root in {} is malformed: {error}", path.display())))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if files.clients_need_one { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| invalid(format!("the roots in {} are of no use: {error}", path.display())))?,
            )
        }
    };
    let config = builder.with_single_cert(chain, key);
    config.map(Arc::new).map_err(|error| {
        invalid(format!("{} and {} do not fit together: {error}", certificate.display(), key_path.display()))
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("no certificate in PEM can be read from {}: {error}", path.display()))
    };
    let list = CertificateDer::pem_file_iter(path).map_err(|error| invalid(&error))?;
    let list: Vec<_> = list.collect::<std::result::Result<_, _>>().map_err(|error| invalid(&error))?;
    if list.is_empty() { Err(invalid(&"there is none")) } else { Ok(list) }
}

/// A client that speaks TLS.
pub(super) struct TlsStream {
    socket: TcpStream,
    connection: ServerConnection,
    /// The socket has ended.
    is_ended: bool,
}

impl TlsStream {
    pub(super) fn new(socket: TcpStream, config: &Arc<ServerConfig>) -> io::Result<TlsStream> {
        let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(TlsStream { socket, connection, is_ended: false })
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether sealed bytes wait for the socket.
    pub(super) fn has_sealed(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends what is sealed, as far as the socket takes it.
    pub(super) fn send_sealed(&mut self) -> io::Result<()> {
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

    /// Reads what was opened; if there is nothing, opens what has come.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A client that goes without taking its leave has gone all the same: commands say themselves where they
                // end.
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

    /// Seals and sends; takes less than it is given while the socket takes nothing.
    pub(super) fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(buffer)?;
        self.send_sealed()?;
        if taken == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    /// Takes leave.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.connection.send_close_notify();
        self.send_sealed()?;
        self.socket.shutdown(std::net::Shutdown::Write)
    }
}
