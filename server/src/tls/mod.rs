//! TLS, by rustls: certificates from files in PEM, and a socket whose bytes are sealed. Clients of Redis and peers of a
//! cluster use it.

mod files;
mod stream;

pub use files::{PeerTls, TlsFiles, for_clients};
pub use stream::TlsStream;
