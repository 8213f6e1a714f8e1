//! Certificates and keys from files, as rustls takes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quipu::{Error, ErrorKind, Result};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// Certificates and keys, files in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// This side's certificate, and those between it and a root.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Roots of the other side's certificates; without, clients need none.
    pub authority: Option<PathBuf>,
    /// Whether a client must have a certificate, where there are roots.
    pub clients_need_one: bool,
}

/// What a server needs to serve clients over TLS, from the files of the configuration.
///
/// # Errors
/// [`ErrorKind::Invalid`] if a file is missing or malformed: which, and what to do.
pub fn for_clients(files: &TlsFiles) -> Result<Arc<ServerConfig>> {
    let own = Own::read(files, "tls")?;
    let roots = files.authority.as_deref().map(roots).transpose()?;
    own.server(roots.map(|roots| (roots, files.clients_need_one)))
}

/// What a node needs to speak TLS with its peers: each side has a certificate, and both are checked.
#[derive(Clone, Debug)]
pub struct PeerTls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl PeerTls {
    /// From the files of the configuration; `None` if it names none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a file is missing or malformed: which, and what to do.
    pub fn read(files: &TlsFiles) -> Result<Option<PeerTls>> {
        if (&files.certificate, &files.key, &files.authority) == (&None, &None, &None) {
            return Ok(None);
        }
        let own = Own::read(files, "cluster-tls")?;
        let authority = named(&files.authority, "cluster-tls", "ca-cert-file")?;
        let roots = roots(authority)?;
        let client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
            .map_err(|error| own.misfit(&error))?;
        Ok(Some(PeerTls { server: own.server(Some((roots, true)))?, client: Arc::new(client) }))
    }

    /// The side of a node that asks `host` for a connection.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn dial(&self, host: &str) -> std::result::Result<rustls::Connection, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let connection = ClientConnection::new(self.client.clone(), name).map_err(|error| error.to_string())?;
        Ok(connection.into())
    }

    /// The side of a node that is asked.
    ///
    /// # Errors
    /// Why there is none.
    pub fn accept(&self) -> std::result::Result<rustls::Connection, String> {
        ServerConnection::new(self.server.clone()).map(Into::into).map_err(|error| error.to_string())
    }
}

/// The certificate of this side, its chain, and its key.
struct Own {
    paths: (PathBuf, PathBuf),
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Own {
    /// `options`: how the names of the options for these files begin.
    fn read(files: &TlsFiles, options: &str) -> Result<Own> {
        let certificate = named(&files.certificate, options, "cert-file")?;
        let key_path = named(&files.key, options, "key-file")?;
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| {
            invalid(format!("no private key in PEM can be read from {}: {error}", key_path.display()))
        })?;
        Ok(Own { paths: (certificate.to_owned(), key_path.to_owned()), chain, key })
    }

    /// Serves with this certificate. `authority`: the roots of clients' certificates, and whether each must have one.
    fn server(self, authority: Option<(RootCertStore, bool)>) -> Result<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(format!("TLS cannot be set up: {error}")))?;
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some((roots, is_needed)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                let verifier = if is_needed { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| invalid(format!("the roots of certificates are of no use: {error}")))?,
                )
            }
        };
        let config = builder.with_single_cert(self.chain.clone(), self.key.clone_key());
        config.map(Arc::new).map_err(|error| self.misfit(&error))
    }

    fn misfit(&self, error: &rustls::Error) -> Error {
        let (certificate, key) = (self.paths.0.display(), self.paths.1.display());
        invalid(format!("{certificate} and {key} do not fit together: {error}"))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::Invalid, text)
}

fn named<'f>(file: &'f Option<PathBuf>, options: &str, option: &str) -> Result<&'f Path> {
    file.as_deref().ok_or_else(|| invalid(format!("TLS is to be spoken, and `--{options}-{option}` is missing")))
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| invalid(format!("a root in {} is malformed: {error}", path.display())))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let invalid = |error: &dyn std::fmt::Display| {
        invalid(format!("no certificate in PEM can be read from {}: {error}", path.display()))
    };
    let list = CertificateDer::pem_file_iter(path).map_err(|error| invalid(&error))?;
    let list: Vec<_> = list.collect::<std::result::Result<_, _>>().map_err(|error| invalid(&error))?;
    if list.is_empty() { Err(invalid(&"it has no certificate")) } else { Ok(list) }
}
