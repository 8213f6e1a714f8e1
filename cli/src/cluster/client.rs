//! A client of nodes: one request a connection.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value as Json;

use crate::failure::{Failure, Result};

/// How long a node may take to take a connection, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// What a node answers.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }
}

/// Whom to ask, and as whom.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Target {
    /// The address of a node
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    pub(super) url: String,
    /// A user and a password, as in `name:password`; else QUIPU_LOGIN of the environment
    #[arg(long, value_name = "LOGIN")]
    login: Option<String>,
}

impl Target {
    /// Asks a node, which may be another than that of the command line.
    pub(super) fn ask(&self, url: &str, method: &str, path: &str) -> Result<Reply> {
        self.send(url, method, path, b"")
    }

    /// The same with a body.
    pub(super) fn send(&self, url: &str, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
        let login = self.login.clone().or_else(|| std::env::var("QUIPU_LOGIN").ok());
        ask(url, method, path, body, login.as_deref())
    }

    /// The report of a node.
    pub(super) fn report(&self, url: &str) -> Result<Json> {
        let reply = self.ask(url, "GET", "/v0/cluster")?;
        match reply.status {
            200 => serde_json::from_slice(&reply.body).map_err(|_| Failure::new(format!("{url} is not a node"))),
            400 => Err(Failure::new(format!("{url} is not a node of a cluster"))),
            status => Err(Failure::new(format!("{url} answers {status}: {}", reply.text()))),
        }
    }
}

/// The addresses of all members that a report names, its own first.
pub(super) fn member_urls(report: &Json) -> Vec<String> {
    let peers = report["peers"].as_array().map(Vec::as_slice).unwrap_or_default();
    std::iter::once(report).chain(peers).filter_map(|member| member["url"].as_str().map(str::to_owned)).collect()
}

/// Asks the node at an address of the form `http://host:port`.
pub(super) fn ask(url: &str, method: &str, path: &str, body: &[u8], login: Option<&str>) -> Result<Reply> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot ask {url}: {error}"));
    let host = url.trim_end_matches('/').strip_prefix("http://");
    let host = host.ok_or_else(|| Failure::Usage(format!("{url}: write an address as http://host:port")))?;
    let with_port = if host.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut stream = Err(std::io::Error::other("its name has no address"));
    for address in with_port.to_socket_addrs().map_err(failed)? {
        stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
        if stream.is_ok() {
            break;
        }
    }
    let mut stream = stream.map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let login = login.map_or(String::new(), |login| format!("Authorization: Basic {}\r\n", base64(login.as_bytes())));
    let length = body.len();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{login}\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    parse(&bytes).ok_or_else(|| Failure::new(format!("{url} gives no whole answer")))
}

fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &bytes[end + 4..];
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    (body.len() == length).then(|| Reply { status, body: body.to_vec() })
}

/// Base 64 (RFC 4648) of a login.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[test]
fn logins_are_base_64() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("name:pw", "bmFtZTpwdw==")] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

#[test]
fn answers_that_are_not_whole_are_none() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(parse(whole).map(|reply| (reply.status, reply.text())), Some((200, "ok".to_owned())));
    assert!((0..whole.len()).all(|length| parse(&whole[..length]).is_none()));
}
