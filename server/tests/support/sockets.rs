//! A server with sockets, and clients that speak bytes. Waiting is for something to come, with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quipu::{Db, Durability, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::net::{self, Listening};

/// How long anything is waited for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A server with sockets on free ports, over a database in memory.
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) listening: Option<Listening>,
}

impl Running {
    pub(crate) fn new(set: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config { port: Some(0), ..Config::default() }.with_durability(Durability::Os);
        set(&mut config);
        let db = Db::open(Path::new("/server"), Options::without_files()).expect("a database");
        let server = Arc::new(Server::over(db, config).expect("a server"));
        let listening = net::listen(&server).expect("listening");
        Running { server, listening: Some(listening) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let address = self.listening.as_ref().expect("listening").addresses[0];
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }
}

/// Sends a line and reads as many bytes as are expected.
#[track_caller]
pub(crate) fn ask(stream: &mut (impl Read + Write), line: &str, expected: &str) {
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("sent");
    take(stream, expected);
}

/// Reads a line, its end included.
#[track_caller]
pub(crate) fn line(stream: &mut impl Read) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text")
}

#[track_caller]
pub(crate) fn take(stream: &mut impl Read, expected: &str) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

/// Reads until the other side ends.
#[track_caller]
pub(crate) fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
