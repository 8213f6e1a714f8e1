//! A server without sockets: lines of words go in, answers as text come out.

pub(crate) mod sockets;

use std::path::Path;
use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::fuzz::Player;
use quipu_server::resp::reply::Protocol;

/// Tiny pages and hardly any cache over a disk in memory.
pub fn tiny_pages(disk: &SimDisk, cache_bytes: u64) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 512,
        run_page_bytes: 512,
        memtable_bytes: 1 << 20,
        cache_bytes,
        ..Options::without_files()
    }
}

/// Writes all tables to runs.
pub fn flush(server: &Server) {
    for table in server.keyspace.db().tables().into_iter().filter(|table| !table.options().in_memory) {
        table.flush().expect("a flush");
    }
}

/// A server over a database in memory, or over a directory.
pub(crate) fn server(options: Options, directory: &str) -> Server {
    let db = Db::open(Path::new(directory), options).expect("a database");
    Server::over(db, Config::default()).expect("a server")
}

pub(crate) fn in_memory() -> Server {
    server(Options::without_files(), "/server")
}

/// A server in memory that is configured otherwise.
pub(crate) fn configured(set: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config::default();
    set(&mut config);
    let db = Db::open(Path::new("/server"), Options::without_files()).expect("a database");
    Server::over(db, config).expect("a server")
}

/// A client of a server without sockets.
pub(crate) struct Client<'s>(Player<'s>);

impl<'s> std::ops::Deref for Client<'s> {
    type Target = Player<'s>;

    fn deref(&self) -> &Player<'s> {
        &self.0
    }
}

impl std::ops::DerefMut for Client<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<'s> Client<'s> {
    pub(crate) fn new(server: &'s Server) -> Client<'s> {
        Client(Player::new(server))
    }

    pub(crate) fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Sends one command of words between spaces, `"in quotes"` where they have some, and returns the answer's bytes as
    /// text.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let answer = self.send(&[words(line)]);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends many such lines in one read.
    pub(crate) fn run_all(&mut self, lines: &[&str]) -> String {
        let commands: Vec<_> = lines.iter().map(|line| words(line)).collect();
        String::from_utf8_lossy(&self.send(&commands)).into_owned()
    }

    /// Runs a line and compares its answer, in which `|` stands for the end of a line.
    #[track_caller]
    pub(crate) fn expect(&mut self, line: &str, answer: &str) {
        let expected = if answer.is_empty() { String::new() } else { answer.replace('|', "\r\n") + "\r\n" };
        assert_eq!(self.run(line), expected, "{line}");
    }
}

/// The words of a line: between spaces, or in double quotes, where `\xNN`, `\n`, `\r`, `\"` and `\\` are escapes.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let bytes = line.as_bytes();
    let (mut words, mut place) = (Vec::new(), 0);
    while place < bytes.len() {
        if bytes[place] == b' ' {
            place += 1;
            continue;
        }
        let mut word = Vec::new();
        let quoted = bytes[place] == b'"';
        place += usize::from(quoted);
        while place < bytes.len() && bytes[place] != if quoted { b'"' } else { b' ' } {
            if quoted && bytes[place] == b'\\' {
                place += 1;
                match bytes[place] {
                    b'x' => {
                        word.push(u8::from_str_radix(&line[place + 1..place + 3], 16).expect("two digits"));
                        place += 2;
                    }
                    b'n' => word.push(b'\n'),
                    b'r' => word.push(b'\r'),
                    other => word.push(other),
                }
            } else {
                word.push(bytes[place]);
            }
            place += 1;
        }
        place += usize::from(quoted);
        words.push(word);
    }
    words
}
