//! Addresses of nodes: `http://host:port`, compared as texts once they are normal.

use std::net::{SocketAddr, ToSocketAddrs};

const DEFAULT_PORT: u16 = 80;

/// Host and port of a normal address.
fn parts(address: &str) -> Option<(&str, u16)> {
    let rest = address.strip_prefix("http://")?;
    let (host, port) = match rest.rsplit_once(':') {
        // An address of IPv6 without a port ends in a bracket.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port != 0)?),
        _ => (rest, DEFAULT_PORT),
    };
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\,".contains(&byte));
    is_host.then_some((host, port))
}

/// The address as all nodes write it: in small letters, with its port, without a slash at its end.
///
/// # Errors
/// What is wrong with it.
pub fn normal(address: &str) -> Result<String, String> {
    let small = address.trim().trim_end_matches('/').to_ascii_lowercase();
    match parts(&small) {
        Some((host, port)) => Ok(format!("http://{host}:{port}")),
        None => Err(format!("`{address}` is not an address of a node; one looks like http://host:port")),
    }
}

/// The host of a normal address.
pub(super) fn host(address: &str) -> Option<&str> {
    parts(address).map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'))
}

/// Where the node at a normal address may be connected to. Asks the system for the name.
pub(super) fn resolve(address: &str) -> std::io::Result<Vec<SocketAddr>> {
    let (host, port) = parts(address).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port).to_socket_addrs()?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_normal_or_are_refused() {
        for (given, expected) in [
            ("http://localhost:8080", "http://localhost:8080"),
            ("HTTP://LocalHost:8080/", "http://localhost:8080"),
            (" http://a.example ", "http://a.example:80"),
            ("http://[::1]:9", "http://[::1]:9"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            assert_eq!(normal(given).as_deref(), Ok(expected), "{given}");
        }
        for given in
            ["", "localhost:8080", "https://a:1", "http://", "http://:80", "http://a:0", "http://a:b", "http://a/b:1"]
        {
            assert!(normal(given).is_err(), "{given}");
        }
        assert_eq!(resolve("http://127.0.0.1:81").unwrap(), ["127.0.0.1:81".parse().unwrap()]);
        assert_eq!(resolve("http://[::1]:81").unwrap(), ["[::1]:81".parse().unwrap()]);
    }
}
