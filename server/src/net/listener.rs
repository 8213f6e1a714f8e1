//! Sockets at which clients connect: addresses of TCP, with TLS or without, and a local socket.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use quipu::{Error, ErrorKind, Result};
use rustls::ServerConfig;

use super::stream::Stream;
use crate::config::Config;
use crate::system::listening::bind_all as bind;
use crate::tls;

/// A socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<ServerConfig>),
    Unix(UnixListener, PathBuf),
}

/// A client that has connected: its socket, its address, and the server's.
pub(super) type Accepted = (Stream, String, String);

impl Listener {
    /// All that a configuration names, and the addresses of TCP among them.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if an address cannot be listened at, [`ErrorKind::Invalid`] if certificates cannot be used.
    pub(super) fn open_all(config: &Config) -> Result<(Vec<Listener>, Vec<SocketAddr>)> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for socket in config.port.map(|port| bind_all(config, port)).transpose()?.unwrap_or_default() {
            addresses.extend(socket.local_addr().ok());
            listeners.push(Listener::Tcp(socket));
        }
        if let Some(port) = config.tls_port {
            let tls = tls::for_clients(&config.tls)?;
            for socket in bind_all(config, port)? {
                addresses.extend(socket.local_addr().ok());
                listeners.push(Listener::Tls(socket, tls.clone()));
            }
        }
        if let Some(path) = &config.unix_socket {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let socket = bind_local(&path, config.unix_socket_mode).map_err(|error| {
                Error::new(
                    ErrorKind::Io,
                    format!("cannot listen at {}: {error}; choose another `--unixsocket`", path.display()),
                )
            })?;
            listeners.push(Listener::Unix(socket, path));
        }
        Ok((listeners, addresses))
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(socket) | Listener::Tls(socket, _) => registry.register(socket, token, Interest::READABLE),
            Listener::Unix(socket, _) => registry.register(socket, token, Interest::READABLE),
        }
    }

    /// Takes the next client.
    pub(super) fn accept(&self) -> io::Result<Accepted> {
        let tcp = |socket: &TcpListener| {
            let (stream, address) = socket.accept()?;
            let local = stream.local_addr().map(|local| local.to_string()).unwrap_or_default();
            // A request and its answer are small, and neither should wait for the other's acknowledgement.
            let _ = stream.set_nodelay(true);
            Ok::<_, io::Error>((stream, address.to_string(), local))
        };
        match self {
            Listener::Tcp(socket) => tcp(socket).map(|(stream, address, local)| (Stream::Tcp(stream), address, local)),
            Listener::Tls(socket, config) => {
                let (stream, address, local) = tcp(socket)?;
                Ok((Stream::tls(stream, config)?, address, local))
            }
            Listener::Unix(socket, path) => {
                let (stream, _) = socket.accept()?;
                // As Redis names the two ends of a local socket.
                let name = format!("{}:0", path.display());
                Ok((Stream::Unix(stream), name.clone(), name))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Another process may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_all(config: &Config, port: u16) -> Result<Vec<TcpListener>> {
    bind(&config.bind, port).map_err(|(place, error)| {
        let text = format!("cannot listen at {place}: {error}; choose another `--port` or `--bind`");
        Error::new(ErrorKind::Io, text)
    })
}

/// Listens at a path. What a server that was killed has left there goes.
fn bind_local(path: &Path, mode: u32) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    if mode != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(socket)
}
