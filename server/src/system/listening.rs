//! Addresses to listen at, as the configuration has them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Clients that may wait to be accepted, if the system allows as many. One more would wait for a second before it is
/// heard again.
const BACKLOG: i32 = 4096;

/// Listens at a port of all addresses. One that begins with `-` may be missing; `*` is all of them.
///
/// # Errors
/// The address that cannot be listened at, and why.
pub fn bind_all(binds: &[String], port: u16) -> Result<Vec<mio::net::TcpListener>, (String, io::Error)> {
    let mut sockets = Vec::new();
    for bind in binds {
        let (host, may_be_missing) = match bind.strip_prefix('-') {
            Some(host) => (host, true),
            None => (bind.as_str(), false),
        };
        let host = match host {
            "*" => "0.0.0.0",
            "::*" => "::",
            host => host,
        };
        let open = || -> io::Result<Vec<_>> { (host, port).to_socket_addrs()?.map(listen_at).collect() };
        match open() {
            Ok(opened) => sockets.extend(opened),
            Err(_) if may_be_missing => {}
            Err(error) => return Err((format!("{host}:{port}"), error)),
        }
    }
    Ok(sockets)
}

fn listen_at(address: SocketAddr) -> io::Result<mio::net::TcpListener> {
    let listener = mio::net::TcpListener::bind(address)?;
    // The second call changes the backlog.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}
