//! A client of the PostgreSQL protocol that speaks bytes, and a server with sockets on free ports for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quipu::{Db, Durability, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::postgres::{self, PostgresListening};
use quipu_server::users::verifier::{hash, sign};

use crate::support::sockets::DEADLINE;

/// A server that serves PostgreSQL alone, over a database in memory.
pub(super) struct Running {
    pub(super) server: Arc<Server>,
    listening: Option<PostgresListening>,
}

impl Running {
    pub(super) fn new(set: impl FnOnce(&mut Config)) -> Running {
        Running::over(Options::without_files(), set)
    }

    /// The same over another disk in memory.
    pub(super) fn over(options: Options, set: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config::default().with_durability(Durability::Os);
        set(&mut config);
        let db = Db::open(Path::new("/server"), options).expect("a database");
        let server = Arc::new(Server::over(db, config).expect("a server"));
        let listening = postgres::listen(&server, 0).expect("listening");
        Running { server, listening: Some(listening) }
    }

    pub(super) fn socket(&self) -> TcpStream {
        let address = self.listening.as_ref().expect("listening").addresses[0];
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    }

    pub(super) fn client(&self) -> Client<TcpStream> {
        Client { stream: self.socket() }
    }

    /// A client whose session has begun, as the user `default` without a password.
    pub(super) fn session(&self) -> Client<TcpStream> {
        let mut client = self.client();
        client.begin(0, &[("user", "default")]);
        client.until_ready();
        client
    }

    pub(super) fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A message: its kind and its body.
pub(super) type Message = (char, Vec<u8>);

pub(super) struct Client<S> {
    pub(super) stream: S,
}

/// Texts, each with its end.
pub(super) fn texts(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| text.bytes().chain([0])).collect()
}

/// A message of this kind.
pub(super) fn message(tag: char, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag as u8][..], &length, body].concat()
}

/// A packet that comes first.
pub(super) fn packet(number: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 8).to_be_bytes();
    [&length[..], &number.to_be_bytes(), body].concat()
}

/// The fields of an error or a notice, by their letters.
pub(super) fn field(body: &[u8], letter: char) -> Option<String> {
    body.split(|byte| *byte == 0)
        .find(|field| field.first() == Some(&(letter as u8)))
        .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
}

impl<S: Read + Write> Client<S> {
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// The next message; none if the connection has ended.
    pub(super) fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes")) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0] as char, body))
    }

    #[track_caller]
    pub(super) fn expect(&mut self, tag: char) -> Vec<u8> {
        let (found, body) = self.next().expect("a message");
        assert_eq!(found, tag, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Expects an error of this code; returns its message.
    #[track_caller]
    pub(super) fn expect_error(&mut self, code: &str) -> String {
        let body = self.expect('E');
        assert_eq!(field(&body, 'C').as_deref(), Some(code), "{}", String::from_utf8_lossy(&body));
        field(&body, 'M').expect("a message")
    }

    /// Runs statements. Returns the kinds of the messages that come, up to the one that it is ready.
    pub(super) fn run(&mut self, text: &str) -> String {
        self.send(&message('Q', &texts(&[text])));
        self.kinds()
    }

    /// Runs a statement without rows. Returns its tag.
    #[track_caller]
    pub(super) fn tag(&mut self, text: &str) -> String {
        self.send(&message('Q', &texts(&[text])));
        let tag = self.expect('C');
        self.expect('Z');
        String::from_utf8_lossy(tag.strip_suffix(b"\0").expect("a text")).into_owned()
    }

    /// The code of the error that statements are answered with; none if they were done.
    pub(super) fn code(&mut self, text: &str) -> Option<String> {
        self.send(&message('Q', &texts(&[text])));
        let mut code = None;
        loop {
            match self.next().expect("a message") {
                ('E', body) => code = field(&body, 'C'),
                ('Z', _) => return code,
                _ => {}
            }
        }
    }

    /// Expects an error that ends the connection.
    #[track_caller]
    pub(super) fn expect_end(&mut self, code: &str) -> String {
        let text = self.expect_error(code);
        assert_eq!(self.next(), None, "{text}");
        text
    }

    /// Asks for a session of the protocol 3 and `minor`.
    pub(super) fn begin(&mut self, minor: u32, parameters: &[(&str, &str)]) {
        let mut body: Vec<u8> = parameters.iter().flat_map(|(name, value)| texts(&[name, value])).collect();
        body.push(0);
        self.send(&packet(3 << 16 | minor, &body));
    }

    /// All messages up to the one that says that the server is ready.
    #[track_caller]
    pub(super) fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().expect("a message");
            if message.0 == 'E' && messages.is_empty() {
                panic!("{}", String::from_utf8_lossy(&message.1));
            }
            let is_ready = message.0 == 'Z';
            messages.push(message);
            if is_ready {
                return messages;
            }
        }
    }

    /// Kinds of all messages up to the one that says that the server is ready.
    pub(super) fn kinds(&mut self) -> String {
        let mut kinds = String::new();
        while let Some((tag, _)) = self.next() {
            kinds.push(tag);
            if tag == 'Z' {
                break;
            }
        }
        kinds
    }

    /// Proves a password by SCRAM, with the number of rounds that the server says. Returns what comes then.
    #[track_caller]
    pub(super) fn scram(&mut self, password: &str) -> Message {
        let asked = self.expect('R');
        assert_eq!(asked, [&10u32.to_be_bytes()[..], b"SCRAM-SHA-256\0\0"].concat());
        let bare = "n=,r=abc";
        let first = format!("n,,{bare}");
        let length = (first.len() as u32).to_be_bytes();
        self.send(&message('p', &[b"SCRAM-SHA-256\0", &length[..], first.as_bytes()].concat()));
        let said = self.expect('R');
        assert_eq!(said[..4], 11u32.to_be_bytes());
        let said = String::from_utf8(said[4..].to_vec()).expect("text");
        let part =
            |letter: &str| said.split(',').find_map(|part| part.strip_prefix(letter)).expect("a part").to_owned();
        let salt = STANDARD.decode(part("s=")).expect("base64");
        let rounds: std::num::NonZeroU32 = part("i=").parse().expect("a number");
        let mut salted = [0; 32];
        ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let without_proof = format!("c=biws,r={}", part("r="));
        let text = format!("{bare},{said},{without_proof}");
        let signature = sign(&hash(&client_key), text.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        self.send(&message('p', format!("{without_proof},p={}", STANDARD.encode(proof)).as_bytes()));
        let (tag, body) = self.next().expect("a message");
        if tag == 'R' {
            let proof = STANDARD.encode(sign(&sign(&salted, b"Server Key"), text.as_bytes()));
            assert_eq!(body, [&12u32.to_be_bytes()[..], b"v=", proof.as_bytes()].concat(), "the server knows it");
            let ok = self.expect('R');
            assert_eq!(ok, 0u32.to_be_bytes());
        }
        (tag, body)
    }
}
