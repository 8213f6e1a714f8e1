//! The socket to a server, with TLS or without.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};

use super::address::{Address, Tls};
use crate::failure::{Failure, Result};

/// The request for TLS: its length and its number.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection.
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// Connects, and speaks TLS if the address or the server wants it.
    pub(super) fn connect(address: &Address) -> Result<Transport> {
        let mut socket = dial(address)?;
        if address.tls == Tls::Disable {
            return Ok(Transport::Plain(socket));
        }
        let place = format!("{}:{}", address.host, address.port);
        let mut answer = [0];
        let asked = socket.write_all(&TLS_REQUEST).and_then(|()| socket.read_exact(&mut answer));
        asked.map_err(|error| match is_timeout(&error) {
            true => Failure::new(format!("{place} does not answer as a server of PostgreSQL's protocol does")),
            false => Failure::new(format!("cannot speak to {place}: {error}")),
        })?;
        match (answer[0], address.tls) {
            (b'S', _) => {}
            (b'N', Tls::Prefer) => return Ok(Transport::Plain(socket)),
            (b'N', _) => return Err(Failure::new(format!("{place} does not speak TLS, which sslmode asks for"))),
            _ => return Err(Failure::new(format!("{place} does not speak PostgreSQL's protocol"))),
        }
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("TLS with {place}: {error}"));
        let name = ServerName::try_from(address.host.clone()).map_err(|error| failed(&error))?;
        let connection = ClientConnection::new(config(address)?, name).map_err(|error| failed(&error))?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| failed(&error))?;
        }
        Ok(Transport::Tls(Box::new(stream)))
    }

    /// The session has begun: answers may take as long as they take.
    pub(super) fn wait_for_answers(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.set_read_timeout(None),
            Transport::Tls(stream) => stream.sock.set_read_timeout(None),
        }
    }

    /// Whether TLS is spoken.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}

/// Whether a read has taken too long: systems have two words for it.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Connects to the first of the host's addresses that answers.
pub(super) fn dial(address: &Address) -> Result<TcpStream> {
    let place = format!("{}:{}", address.host, address.port);
    let unreachable = |error: io::Error| Failure::new(format!("cannot connect to {place}: {error}"));
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for found in (address.host.as_str(), address.port).to_socket_addrs().map_err(unreachable)? {
        let connected = match address.connect_timeout {
            Some(timeout) => TcpStream::connect_timeout(&found, timeout),
            None => TcpStream::connect(found),
        };
        match connected {
            Ok(socket) => {
                socket.set_nodelay(true).map_err(unreachable)?;
                // Until the session has begun. A server of another protocol may wait for more.
                socket.set_read_timeout(address.connect_timeout).map_err(unreachable)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(unreachable(last))
}

fn config(address: &Address) -> Result<Arc<ClientConfig>> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("TLS: {error}"));
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| failed(&error))?;
    let Some(path) = address.authorities.as_ref().filter(|_| address.tls == Tls::Verify) else {
        let verifier = Arc::new(Unverified(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let in_file = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| in_file(&error))? {
        roots.add(certificate.map_err(|error| in_file(&error))?).map_err(|error| in_file(&error))?;
    }
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Takes any certificate, as `sslmode=require` does: what is sent is sealed, but the server may be another one.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
