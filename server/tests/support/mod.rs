//! A server without sockets: lines of words go in, answers as text come out.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;

use quipu::{Db, Durability, Options};
use quipu_server::config::Config;
use quipu_server::execute::{Progress, Turn, run_long};
use quipu_server::resp::parse::{Batch, Limits, Parser};
use quipu_server::resp::reply::{Protocol, Reply};
use quipu_server::server::Server;
use quipu_server::session::Session;

/// A server over a database in memory, or over a directory.
pub(crate) fn server(options: Options, directory: &str) -> Server {
    let db = Db::open(Path::new(directory), options).expect("a database");
    Server::over(db, Config::default()).expect("a server")
}

pub(crate) fn in_memory() -> Server {
    server(Options::in_memory(), "/server")
}

/// A client of a server without sockets.
pub(crate) struct Client<'s> {
    server: &'s Server,
    pub(crate) session: Session,
    protocol: Protocol,
}

impl<'s> Client<'s> {
    pub(crate) fn new(server: &'s Server) -> Client<'s> {
        let session = server.welcome("test:1".to_owned(), "test:2".to_owned()).expect("welcome");
        Client { server, session, protocol: Protocol::Resp2 }
    }

    pub(crate) fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Sends commands in one read, and returns the bytes of all answers.
    pub(crate) fn send(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut input = Vec::new();
        for words in commands {
            input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                input.extend_from_slice(word);
                input.extend_from_slice(b"\r\n");
            }
        }
        let mut batch = Batch::new();
        let parsed = Parser::new(Limits::default()).parse(&input, usize::MAX, &mut batch).expect("well-formed");
        assert_eq!(parsed.consumed, input.len());
        let mut reply = Reply::new(self.protocol);
        let mut from = 0;
        loop {
            let mut turn = Turn::new(self.server);
            let progress = turn.run(&mut self.session, &input, &batch, from, &mut reply);
            turn.finish(Durability::Os).expect("committed");
            match progress {
                Progress::Done | Progress::Closing | Progress::Paused(_) => break,
                Progress::Enough(number) => from = number,
                Progress::Long(number) => {
                    let words: Vec<Vec<u8>> = batch.arguments(&input, number).map(<[u8]>::to_vec).collect();
                    run_long(self.server, &mut self.session, &words, &mut reply);
                    from = number + 1;
                }
            }
        }
        self.protocol = reply.protocol;
        reply.bytes
    }

    /// Sends one command of words between spaces, `"in quotes"` where they have some, and returns the answer's bytes as text.
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
