//! The HTTP face, from outside: raw sockets against a server in this process.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quipu::{Db, Durability, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::http::{HttpLimits, HttpListening, HttpOptions, listen};
use quipu_server::keyspace::value::{Header, Kind};
use quipu_server::keyspace::{Data, Need};
use quipu_server::profile::Sampling;

/// A server with its HTTP face; stopped when dropped.
struct Node {
    server: Arc<Server>,
    listening: Option<HttpListening>,
    address: SocketAddr,
}

impl Node {
    fn over(db: Db, durability: Durability, options: HttpOptions) -> Node {
        Node::configured(db, Config::default().with_durability(durability), options)
    }

    fn configured(db: Db, config: Config, options: HttpOptions) -> Node {
        let server = Server::over(db, config).unwrap();
        let server = Arc::new(server);
        let listening = listen(&server, options).unwrap();
        let address = listening.addresses[0];
        Node { server, listening: Some(listening), address }
    }

    fn with(durability: Durability, limits: HttpLimits) -> Node {
        let db = Db::open("/http", Options::without_files()).unwrap();
        Node::over(db, durability, HttpOptions { limits, ..HttpOptions::default() })
    }

    fn new() -> Node {
        Node::with(Durability::Os, HttpLimits::default())
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// One request over a connection of its own.
    fn ask(&self, request: &str) -> Reply {
        self.client().ask(request)
    }

    /// Puts what a Redis client would.
    fn put_as_redis(&self, key: &[u8], value: &[u8]) {
        let mut data = Data::open(&self.server.keyspace, Need::Write, now_ms()).unwrap();
        data.put_string(0, key, Header::new(Kind::String), value).unwrap();
        let _ = data.close().unwrap();
    }

    /// Makes a sorted set with one member, as far as the table of keys goes.
    fn put_sorted_set(&self, key: &[u8]) {
        let mut data = Data::open(&self.server.keyspace, Need::Write, now_ms()).unwrap();
        data.collection_to_write(0, key, Kind::SortedSet).unwrap();
        let _ = data.close().unwrap();
    }

    fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

fn now_ms() -> u64 {
    quipu_server::system::clock::now_ms()
}

struct Client {
    stream: TcpStream,
    /// What was read and belongs to the next answers.
    rest: Vec<u8>,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// The chunks, if it was chunked.
    chunks: Vec<Vec<u8>>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn tag(&self) -> &str {
        self.header("etag").expect("an entity tag")
    }
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, rest: Vec::new() }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// `request` is a request line without the version, headers after semicolons: `GET /v0/status; if-match: *`.
    fn ask(&mut self, request: &str) -> Reply {
        self.ask_with(request, b"")
    }

    fn ask_with(&mut self, request: &str, body: &[u8]) -> Reply {
        let message = message(request, body);
        self.send(message);
        self.read()
    }

    fn put(&mut self, id: &str, value: &[u8]) -> Reply {
        self.ask_with(&format!("PUT /v0/entity?id={id}"), value)
    }

    fn get(&mut self, id: &str) -> Reply {
        self.ask(&format!("GET /v0/entity?id={id}"))
    }

    /// More bytes; false at the end.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}; so far {:?}", String::from_utf8_lossy(&self.rest)),
        };
        self.rest.extend_from_slice(&buffer[..count]);
        count > 0
    }

    fn take_to(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(place) = self.rest.windows(end.len()).position(|part| part == end) {
                let behind = self.rest.split_off(place + end.len());
                let mut taken = std::mem::replace(&mut self.rest, behind);
                taken.truncate(place);
                return taken;
            }
            assert!(self.fill(), "the end, after {:?}", String::from_utf8_lossy(&self.rest));
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.rest.len() < count {
            assert!(self.fill(), "the end, {} bytes too early", count - self.rest.len());
        }
        let behind = self.rest.split_off(count);
        std::mem::replace(&mut self.rest, behind)
    }

    fn read(&mut self) -> Reply {
        let head = String::from_utf8(self.take_to(b"\r\n\r\n")).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new(), chunks: Vec::new() };
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = String::from_utf8(self.take_to(b"\r\n")).unwrap();
                let chunk = self.take(usize::from_str_radix(&line, 16).unwrap());
                assert_eq!(self.take(2), b"\r\n");
                if chunk.is_empty() {
                    break;
                }
                reply.body.extend_from_slice(&chunk);
                reply.chunks.push(chunk);
            }
        } else if status != 304 && status != 100 {
            let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            reply.body = self.take(length);
        }
        reply
    }

    /// Whether the server closes, with nothing more to say.
    fn is_closed(&mut self) -> bool {
        assert!(self.rest.is_empty());
        !self.fill()
    }
}

fn message(request: &str, body: &[u8]) -> Vec<u8> {
    let mut parts = request.split("; ");
    let mut message = format!("{} HTTP/1.1\r\nhost: quipu\r\n", parts.next().unwrap());
    parts.for_each(|header| message.push_str(&format!("{header}\r\n")));
    if request.starts_with("PUT") || !body.is_empty() {
        message.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    message.push_str("\r\n");
    [message.as_bytes(), body].concat()
}

/// Everything once, with writes in groups and one by one.
#[test]
fn every_line_of_the_table_of_requests() {
    for durability in [Durability::Sync, Durability::Os] {
        let node =
            Node::with(durability, HttpLimits { key_bytes_max: 100, value_bytes_max: 1000, ..HttpLimits::default() });
        let mut client = node.client();
        assert_eq!(client.ask("GET /v0/status").status, 200);
        for (request, body, status) in [
            ("GET /v0/entity?id=a", "", 404),
            ("DELETE /v0/entity?id=a", "", 202),
            ("PUT /v0/entity?id=a", "one", 201),
            ("GET /v0/entity?id=a", "", 200),
            ("GET /v0/entity?id=a&ack=1&from=1", "", 200),
            ("PUT /v0/entity?id=empty", "", 201),
            ("GET /v0/entity?id=empty", "", 200),
            ("DELETE /v0/entity?id=a&ack=1", "", 202),
            ("GET /v0/entity?id=a", "", 404),
            ("POST /v0/entity?id=a", "x", 405),
            ("PATCH /v0/entity", "", 405),
            ("GET /v0/entity", "", 400),
            ("GET /v0/entity?id=", "", 400),
            ("GET /v0/entity?id", "", 400),
            ("PUT /v0/entity?id=", "x", 400),
            ("DELETE /v0/entity?ack=1", "", 400),
            ("GET /v0/entity?id=a&ack=0", "", 400),
            ("GET /v0/entity?id=a&ack=x", "", 400),
            ("GET /v0/entity?id=a&ack=", "", 400),
            ("GET /v0/entity?id=a&ack=-1", "", 400),
            ("GET /v0/entity?id=a&from=0", "", 400),
            ("GET /v0/entity?id=a&from=2", "", 400),
            ("GET /v0/entity?id=a&ack=2", "", 400),
            ("GET /v0/entity?id=a&ack=1&from=5", "", 400),
            ("GET /v0/entity?id=a&id=b", "", 400),
            ("GET /v0/entity?id=a&ack=1&ack=1", "", 400),
            ("GET /v0/entity?id=a&akc=1", "", 400),
            ("GET /v0/entity?id=%4", "", 400),
            ("GET /v0/entity?id=%zz", "", 400),
            ("GET /v0/entity?id=a&ttl=1", "", 400),
            ("PUT /v0/entity?id=a&ttl=soon", "x", 400),
            ("PUT /v0/entity?id=a&ttl=0", "x", 400),
            ("GET /", "", 400),
            ("GET /v0", "", 400),
            ("GET /v0/entity/", "", 400),
            ("GET /v0/entitiesXYZ", "", 400),
            ("GET /v0/entitiesXYZ?start=a", "", 400),
            ("PUT /else", "x", 400),
            ("POST /v0/status", "x", 405),
            ("GET /v0/entities", "", 400),
            ("GET /v0/entities?start=", "", 400),
            ("GET /v0/entities?end=a", "", 400),
            ("GET /v0/entities?start=a&end=", "", 400),
            ("GET /v0/entities?start=a&limit=x", "", 400),
            ("GET /v0/entities?start=a&offset=", "", 400),
            ("GET /v0/entities?start=a&cluster=maybe", "", 400),
            ("GET /v0/entities?start=a&cluster=true", "", 200),
            ("GET /v0/entities?start=z&end=a", "", 200),
            ("PUT /v0/entities?start=a", "", 405),
            ("GET /v0/count?start=", "", 400),
            ("GET /v0/rank", "", 400),
            ("GET /v0/nth?start=a", "", 400),
            ("GET /v0/nth?offset=many", "", 400),
            ("GET /v0/nth?offset=999", "", 404),
            ("GET /healthz", "", 200),
            ("GET /readyz", "", 200),
            ("GET /metrics", "", 200),
            ("PUT /debug/profile/heap", "", 405),
            ("GET /debug/profile/lock?seconds=121", "", 400),
            ("GET /debug/profile/none", "", 400),
            ("GET /debug/profile/cpu?seconds=0", "", 400),
        ] {
            let reply = node.client().ask_with(request, body.as_bytes());
            assert_eq!(reply.status, status, "{request}: {reply:?}");
            if status == 400 {
                assert!(!reply.body.is_empty(), "{request} gives no reason");
            }
        }
        assert_eq!(node.ask("POST /v0/entity?id=a").header("allow"), Some("GET, HEAD, PUT, DELETE"));
        assert_eq!(node.ask("DELETE /v0/nth").header("allow"), Some("GET, HEAD"));
        let (long_key, long_value) = ("k".repeat(101), vec![0; 1001]);
        assert_eq!(client.get(&long_key).status, 413);
        assert_eq!(client.put(&long_key, b"x").status, 413);
        assert_eq!(client.put(&"k".repeat(100), &[0; 1000]).status, 201);
        assert_eq!(client.get(&"k".repeat(100)).body, [0; 1000]);
        assert_eq!(node.client().put("long", &long_value).status, 413);
    }
}

#[test]
fn keys_and_values_are_bytes() {
    let node = Node::new();
    let mut client = node.client();
    let all: Vec<u8> = (0..=255).collect();
    let id: String = all.iter().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(client.put(&id, &all).status, 201);
    assert_eq!(client.get(&id).body, all);
    client.put("a+b", b"plus");
    assert_eq!(client.get("a%2Bb").body, b"plus");
    assert_eq!(client.get("a%20b").status, 404);
    assert_eq!(client.get("%61%2bb").body, b"plus");
    // As the Redis face has them.
    let data = Data::open(&node.server.keyspace, Need::Read, now_ms()).unwrap();
    assert_eq!(data.entry(0, &all).unwrap().unwrap().whole(), all);
}

#[test]
fn one_connection_takes_requests_one_after_the_other_and_many_at_once() {
    let node = Node::new();
    let mut client = node.client();
    let mut all = Vec::new();
    for number in 0..200 {
        all.extend(message(&format!("PUT /v0/entity?id=k{number}"), format!("v{number}").as_bytes()));
        all.extend(message(&format!("GET /v0/entity?id=k{number}"), b""));
        all.extend(message("GET /v0/entity?id=absent", b""));
    }
    // In pieces that end in the middle of everything.
    for piece in all.chunks(997) {
        client.send(piece);
    }
    for number in 0..200 {
        assert_eq!(client.read().status, 201);
        assert_eq!(client.read().text(), format!("v{number}"));
        assert_eq!(client.read().status, 404);
    }
    assert_eq!(client.ask("GET /v0/status; connection: close").status, 200);
    assert!(client.is_closed());
}

#[test]
fn an_upgrade_to_http_2_is_passed_over() {
    let node = Node::new();
    let mut client = node.client();
    let upgrade = "connection: Upgrade, HTTP2-Settings; upgrade: h2c; http2-settings: AAMAAABkAAQAAP__";
    assert_eq!(client.ask_with(&format!("PUT /v0/entity?id=a; {upgrade}"), b"x").status, 201);
    let reply = client.ask(&format!("GET /v0/entity?id=a; {upgrade}"));
    assert_eq!((reply.status, reply.text()), (200, "x"));
    assert!(reply.head.starts_with("HTTP/1.1 200"), "{}", reply.head);
    assert_eq!(client.get("a").text(), "x", "the connection goes on");
}

#[test]
fn bodies_come_in_chunks_and_after_a_go_ahead() {
    let node = Node::with(Durability::Os, HttpLimits { value_bytes_max: 100_000, ..HttpLimits::default() });
    let mut client = node.client();
    client.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: q\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client.send("1;name=value\r\n \r\n");
    client.send("5\r\nworld\r\n0\r\ntrailer: x\r\n\r\n");
    assert_eq!(client.read().status, 201);
    assert_eq!(client.get("a").text(), "hello world");

    let long = vec![7; 90_000];
    client.send("PUT /v0/entity?id=b HTTP/1.1\r\nhost: q\r\nexpect: 100-continue\r\ncontent-length: 90000\r\n\r\n");
    assert_eq!(client.read().status, 100);
    client.send(&long);
    assert_eq!(client.read().status, 201);
    assert_eq!(client.get("b").body, long);

    // Refused without a go-ahead.
    client.send("PUT /v0/entity?id=c HTTP/1.1\r\nhost: q\r\nexpect: 100-continue\r\ncontent-length: 100001\r\n\r\n");
    assert_eq!(client.read().status, 413);
    // Refused as it comes.
    let mut client = node.client();
    client.send("PUT /v0/entity?id=c HTTP/1.1\r\nhost: q\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..2 {
        client.send([b"c350\r\n", &[1; 50_000][..], b"\r\n"].concat());
    }
    client.send("1\r\nx\r\n0\r\n\r\n");
    assert_eq!(client.read().status, 413);
    assert_eq!(node.ask("GET /v0/entity?id=c").status, 404);
}

#[test]
fn what_is_no_request_is_refused_and_others_are_served() {
    let node = Node::new();
    let mut bystander = node.client();
    for bytes in [
        "\r\n\r\nnonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET /v0/status HTTP/9.9\r\n\r\n",
        "GET /v0/status HTTP/1.1\r\nno colon\r\n\r\n",
        "PUT /v0/entity?id=a HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        "PUT /v0/entity?id=a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        "PUT /v0/entity?id=a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        "PUT /v0/entity?id=a HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked, gzip\r\n\r\nx",
        "GET /v0/entity?id=\x01 HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = node.client();
        client.send(bytes);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        // A client that begins with HTTP/2 would not understand an answer.
        let status = if bytes.contains("gzip") { "HTTP/1.1 501" } else { "HTTP/1.1 400" };
        assert!(text.starts_with(status) || bytes.starts_with("PRI"), "{bytes:?} got {text}");
        assert_eq!(bystander.get("a").status, 404, "after {bytes:?}");
    }
    let mut client = node.client();
    client.send(format!("GET /v0/entity?id={} HTTP/1.1\r\n\r\n", "k".repeat(66_000)));
    assert_eq!(client.read().status, 414);
    let mut client = node.client();
    // Refused before it is read to its end, so that sending or reading may fail too.
    let _ =
        client.stream.write_all(format!("GET /v0/status HTTP/1.1\r\nx: {}\r\n\r\n", "k".repeat(200_000)).as_bytes());
    while client.fill() {}
    assert!(client.rest.is_empty() || client.rest.starts_with(b"HTTP/1.1 431"));
}

#[test]
fn rights_are_those_of_the_redis_face() {
    let mut config = Config::default().with_durability(Durability::Os);
    config.set("requirepass", "secret").unwrap();
    let db = Db::open("/http", Options::without_files()).unwrap();
    let node = Node::configured(db, config, HttpOptions::default());
    node.server.users.set("reader", &[b"on", b">p", b"~a*", b"+@read"]).unwrap();
    let reader = "authorization: Basic cmVhZGVyOnA="; // reader:p
    let owner = "authorization: Basic ZGVmYXVsdDpzZWNyZXQ="; // default:secret
    let wrong = "authorization: Basic ZGVmYXVsdDp3cm9uZw=="; // default:wrong
    for (status, request) in [
        (401, "GET /v0/entity?id=a".to_owned()),
        (401, "PUT /v0/entity?id=a".to_owned()),
        (401, "GET /v0/entities?start=a".to_owned()),
        (401, "GET /metrics".to_owned()),
        (401, "GET /debug/profile/cpu?seconds=1".to_owned()),
        (200, "GET /healthz".to_owned()),
        (401, format!("GET /v0/count; {wrong}")),
        (201, format!("PUT /v0/entity?id=a1; {owner}")),
        (201, format!("PUT /v0/entity?id=b1; {owner}")),
        (200, format!("GET /v0/entity?id=a1; {reader}")),
        (403, format!("GET /v0/entity?id=b1; {reader}")),
        (403, format!("HEAD /v0/entity?id=%62%31; {reader}")),
        (403, format!("PUT /v0/entity?id=a1; {reader}")),
        (403, format!("DELETE /v0/entity?id=a1; {reader}")),
        (200, format!("GET /v0/entities?start=a&end=b; {reader}")),
        (403, format!("GET /v0/entities?start=a; {reader}")),
        (403, format!("GET /v0/count; {reader}")),
        (403, format!("GET /v0/rank?id=a1; {reader}")),
        (403, format!("GET /v0/nth?offset=1; {reader}")),
        (200, format!("GET /v0/nth?offset=0&start=a&end=b; {reader}")),
        (200, format!("GET /v0/count; {owner}")),
    ] {
        let mut client = node.client();
        client.send(message(&request, b""));
        let head = String::from_utf8(client.take_to(b"\r\n\r\n")).unwrap();
        assert_eq!(head[9..12], status.to_string(), "{request}");
        assert_eq!(head.contains("www-authenticate: Basic"), status == 401, "{request}");
    }
    let refusals = node.server.users.refusals.last(100);
    assert!(refusals.iter().any(|entry| entry.user == "reader" && entry.object == b"b1"));
    assert!(refusals.iter().any(|entry| entry.user == "default" && entry.object == b"AUTH"));
    assert!(refusals.iter().all(|entry| !entry.client.contains("wrong")), "no secrets");
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    let node = Node::new();
    let mut client = node.client();
    client.send(message("PUT /v0/entity?id=a", b"x"));
    client.send(message("GET /v0/entity?id=a", b""));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read().status, 201);
    assert_eq!(client.read().text(), "x");
    assert!(client.is_closed());
    // One that leaves in the middle of a body has written nothing.
    let mut client = node.client();
    client.send("PUT /v0/entity?id=b HTTP/1.1\r\nhost: q\r\ncontent-length: 10\r\n\r\nhalf");
    client.stream.shutdown(Shutdown::Write).unwrap();
    while client.fill() {}
    assert_eq!(node.ask("GET /v0/entity?id=b").status, 404);
}

#[test]
fn quiet_clients_are_disconnected() {
    let quiet_max = Duration::from_secs(3);
    let node = Node::with(Durability::Os, HttpLimits { quiet_max, ..HttpLimits::default() });
    let long = vec![1; 60_000_000];
    node.client().put("long", &long);
    let mut active = node.client();
    let mut silent = node.client();
    let mut in_head = node.client();
    in_head.send("GET /v0/status HTTP/1.1\r\nhost:");
    let mut in_body = node.client();
    in_body.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: q\r\ncontent-length: 1000\r\n\r\nhalf");
    // One that takes none of its answer, which is more than the socket's buffers hold.
    let mut deaf = node.client();
    deaf.send(message("GET /v0/entity?id=long", b""));
    let started = quipu_server::system::clock::moment();
    // A head that never ends is given up; who asks meanwhile is served.
    let mut trickle = TcpStream::connect(node.address).unwrap();
    while trickle.write_all(b"G").is_ok() || quipu_server::system::clock::since(started) < quiet_max * 2 {
        assert!(quipu_server::system::clock::since(started) < Duration::from_secs(60));
        assert_eq!(active.get("x").status, 404);
        pause_ms(20);
    }
    while silent.fill() {}
    while in_head.fill() {}
    while in_body.fill() {}
    while !active.ask("GET /metrics").text().contains("quipu_http_streams 0\n") {
        assert!(quipu_server::system::clock::since(started) < Duration::from_secs(60));
        pause_ms(20);
    }
    let mut got = 0;
    while deaf.fill() {
        got += deaf.rest.len();
        deaf.rest.clear();
    }
    assert!(got < long.len(), "the answer was given up, after {got} bytes");
}

#[expect(clippy::disallowed_methods, reason = "a client that is slow on purpose")]
fn pause_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn long_values_come_back_whole() {
    for durability in [Durability::Sync, Durability::Os] {
        let node = Node::with(durability, HttpLimits::default());
        let mut client = node.client();
        for length in [1, 16_383, 16_384, 16_385, 262_144, 262_145, 3_000_000] {
            let value: Vec<u8> = (0..length).map(|place: u32| (place * 7 + length) as u8).collect();
            let tag = client.put("long", &value).tag().to_owned();
            let reply = client.get("long");
            assert_eq!(reply.header("content-length"), Some(&*length.to_string()));
            assert!(reply.body == value, "{length} bytes");
            assert_eq!(reply.tag(), tag);
        }
        let tag = client.get("long").tag().to_owned();
        assert_eq!(client.ask(&format!("GET /v0/entity?id=long; if-none-match: {tag}")).status, 304);
        assert!(client.ask("GET /v0/entities?start=l").chunks[0].starts_with(b"long\n"));
    }
}

#[test]
fn keys_are_shared_with_redis_clients() {
    let node = Node::new();
    node.put_as_redis(b"a", b"theirs");
    node.put_sorted_set(b"set");
    let mut client = node.client();
    let reply = client.get("a");
    assert_eq!(reply.text(), "theirs");
    let tag = reply.tag().to_owned();
    assert!(tag.starts_with("\"h") && tag.len() == 35, "{tag}");
    assert_eq!(client.get("a").tag(), tag);
    let reply = client.ask_with(&format!("PUT /v0/entity?id=a; if-match: {tag}"), b"ours");
    assert_eq!(reply.status, 201);
    assert!(reply.tag().trim_matches('"').parse::<u64>().is_ok(), "{}", reply.tag());
    // Their write takes the version away, and the same bytes have another tag then.
    node.put_as_redis(b"a", b"ours");
    assert_ne!(client.get("a").tag(), reply.tag());

    let reply = client.get("set");
    assert_eq!(reply.status, 409);
    assert!(reply.text().contains("zset"), "{}", reply.text());
    assert_eq!(client.ask("GET /v0/entity?id=set; if-none-match: *").status, 304);
    assert_eq!(client.ask("GET /v0/entities?start=a").body, b"a\nours", "passed over");
    assert_eq!(client.ask("GET /v0/count").text(), "2", "and counted");
    assert_eq!(client.ask("GET /v0/nth?offset=1").header("x-quipu-value-length"), None);
    assert_eq!(client.put("set", b"replaced").status, 201);
    assert_eq!(client.get("set").text(), "replaced");
}

#[test]
fn conditions_hold_or_refuse() {
    let node = Node::new();
    let mut client = node.client();
    assert_eq!(client.ask_with("PUT /v0/entity?id=a; if-match: *", b"x").status, 412);
    assert_eq!(client.ask("GET /v0/entity?id=a; if-match: *").status, 412);
    let first = client.ask_with("PUT /v0/entity?id=a; if-none-match: *", b"1");
    assert_eq!(first.status, 201);
    assert_eq!(client.ask_with("PUT /v0/entity?id=a; if-none-match: *", b"2").status, 412);
    let first = first.tag().to_owned();
    assert_eq!(client.get("a").tag(), first);
    let second = client.ask_with(&format!("PUT /v0/entity?id=a; if-match: {first}"), b"2").tag().to_owned();
    let number = |tag: &str| tag.trim_matches('"').parse::<u64>().unwrap();
    assert!(number(&second) > number(&first));
    assert_eq!(client.ask_with(&format!("PUT /v0/entity?id=a; if-match: {first}"), b"3").status, 412);
    let reply = client.ask(&format!("GET /v0/entity?id=a; if-none-match: {first}"));
    assert_eq!((reply.status, reply.text()), (200, "2"));
    let reply = client.ask(&format!("GET /v0/entity?id=a; if-none-match: {first}, W/{second}"));
    assert_eq!((reply.status, reply.tag()), (304, &*second));
    assert_eq!(client.ask(&format!("GET /v0/entity?id=a; if-match: {first}")).status, 412);
    assert_eq!(client.ask("GET /v0/entity?id=a; if-match: 1").status, 400);
    assert_eq!(client.ask(&format!("DELETE /v0/entity?id=a; if-match: {first}")).status, 412);
    assert_eq!(client.ask(&format!("DELETE /v0/entity?id=a; if-match: {second}")).status, 202);
    assert_eq!(client.ask(&format!("DELETE /v0/entity?id=a; if-match: {second}")).status, 412);
    assert_eq!(client.get("a").status, 404);
}

#[test]
fn of_two_writers_with_the_same_tag_one_wins() {
    for durability in [Durability::Sync, Durability::Os] {
        let node = Node::with(durability, HttpLimits::default());
        let mut tag = node.client().put("a", b"0").tag().to_owned();
        for round in 0..100 {
            let statuses: Vec<(u16, Option<String>)> = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..4)
                    .map(|writer| {
                        let (node, tag) = (&node, &tag);
                        scope.spawn(move || {
                            let request = format!("PUT /v0/entity?id=a; if-match: {tag}");
                            let reply = node.client().ask_with(&request, format!("{round} {writer}").as_bytes());
                            (reply.status, reply.header("etag").map(str::to_owned))
                        })
                    })
                    .collect();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect()
            });
            let winners: Vec<&String> = statuses.iter().filter_map(|(_, tag)| tag.as_ref()).collect();
            assert_eq!(winners.len(), 1, "{statuses:?}");
            assert_eq!(statuses.iter().filter(|(status, _)| *status == 412).count(), 3, "{statuses:?}");
            tag = winners[0].clone();
        }
    }
}

#[test]
fn values_go_when_their_time_is_up() {
    let node = Node::new();
    let mut client = node.client();
    assert_eq!(client.ask_with("PUT /v0/entity?id=short&ttl=0.15", b"x").status, 201);
    assert_eq!(client.ask_with("PUT /v0/entity?id=kept&ttl=0.1", b"x").status, 201);
    assert_eq!(client.ask_with("PUT /v0/entity?id=long&ttl=1000.5", b"x").status, 201);
    assert_eq!(client.put("kept", b"y").status, 201);
    assert_eq!(client.get("short").status, 200);
    assert_eq!(client.ask("GET /v0/count").text(), "3");
    pause_ms(200);
    assert_eq!(client.get("short").status, 404);
    assert_eq!(client.ask_with("PUT /v0/entity?id=short; if-match: *", b"x").status, 412);
    assert_eq!(client.ask("GET /v0/count").text(), "2");
    assert_eq!(client.ask("GET /v0/entities?start=a").text(), "kept\nylong\nx");
    assert_eq!(client.get("kept").text(), "y", "a PUT without a time has none");
}

#[test]
fn ranges_have_a_chunk_for_each_entity() {
    let node = Node::new();
    let mut client = node.client();
    for (id, value) in [("a", "1"), ("b", ""), ("c%0a", "3\n"), ("d", "4"), ("%ff", "5")] {
        client.put(id, value.as_bytes());
    }
    let texts = |reply: Reply| -> Vec<String> {
        assert_eq!((reply.status, reply.header("transfer-encoding")), (200, Some("chunked")));
        reply.chunks.iter().map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect()
    };
    for (query, expected) in [
        ("start=a", vec!["a\n1", "b\n", "c\n\n3\n", "d\n4", "\u{fffd}\n5"]),
        ("start=a&end=c", vec!["a\n1", "b\n"]),
        ("start=b&end=%ff", vec!["b\n", "c\n\n3\n", "d\n4"]),
        ("start=a%00", vec!["b\n", "c\n\n3\n", "d\n4", "\u{fffd}\n5"]),
        ("start=b&end=b", vec![]),
        ("start=x&end=a", vec![]),
        ("start=a&limit=2", vec!["a\n1", "b\n"]),
        ("start=a&limit=0", vec![]),
        ("start=a&limit=2&offset=1", vec!["b\n", "c\n\n3\n"]),
        ("start=b&end=d&offset=1", vec!["c\n\n3\n"]),
        ("start=b&end=d&offset=2", vec![]),
        ("start=a&offset=18446744073709551615", vec![]),
        ("start=a&limit=18446744073709551615&cluster=false", vec!["a\n1", "b\n", "c\n\n3\n", "d\n4", "\u{fffd}\n5"]),
    ] {
        assert_eq!(texts(client.ask(&format!("GET /v0/entities?{query}"))), expected, "{query}");
    }
    for (query, expected) in [
        ("count", "5"),
        ("count?start=b&end=d", "2"),
        ("count?start=d&end=b", "0"),
        ("count?end=b&cluster=true", "1"),
        ("rank?id=a", "0"),
        ("rank?id=c", "2"),
        ("rank?id=%ff%ff", "5"),
        ("rank?id=d&start=b", "2"),
        ("rank?id=d&start=b&end=c", "1"),
        ("rank?id=a&start=b", "0"),
        ("nth?offset=0", "a"),
        ("nth?offset=3", "d"),
        ("nth?offset=1&start=b", "c\n"),
    ] {
        let reply = client.ask(&format!("GET /v0/{query}"));
        assert_eq!((reply.status, reply.text()), (200, expected), "{query}");
    }
    assert_eq!(client.ask("GET /v0/nth?offset=2").header("x-quipu-value-length"), Some("2"));
    assert_eq!(client.ask("GET /v0/nth?offset=1&start=b&end=c").status, 404);
}

#[test]
fn a_range_is_that_of_one_moment_whatever_is_written_meanwhile() {
    const ENTITIES: usize = 100_000;
    let node = Node::new();
    let key = |number: usize| format!("key-{number:06}");
    for part in 0..ENTITIES / 1000 {
        let mut data = Data::open(&node.server.keyspace, Need::Write, now_ms()).unwrap();
        for number in part * 1000..(part + 1) * 1000 {
            data.put_string(0, key(number).as_bytes(), Header::new(Kind::String), b"before").unwrap();
        }
        let _ = data.close().unwrap();
    }
    let (stops, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mut reader = node.client();
        reader.send(message("GET /v0/entities?start=key-&end=key.", b""));
        // The moment is now: the head of the answer is there.
        while reader.rest.is_empty() {
            reader.fill();
        }
        for writer in 0..2 {
            let (node, stops, written, key) = (&node, &stops, &written, &key);
            scope.spawn(move || {
                let mut client = node.client();
                let mut number = writer;
                while !stops.load(Ordering::Relaxed) {
                    // From the end, which the reader comes to last.
                    let id = key(ENTITIES - 1 - number % ENTITIES);
                    let reply = match number % 3 {
                        0 => client.put(&id, b"after"),
                        1 => client.ask(&format!("DELETE /v0/entity?id={id}")),
                        _ => client.put(&format!("{id}-new"), b"after"),
                    };
                    assert!(matches!(reply.status, 201 | 202));
                    written.fetch_add(1, Ordering::Relaxed);
                    number += 2;
                }
            });
        }
        while written.load(Ordering::Relaxed) < 1000 {
            pause_ms(5);
        }
        let reply = reader.read();
        stops.store(true, Ordering::Relaxed);
        assert_eq!(reply.chunks.len(), ENTITIES);
        for (number, chunk) in reply.chunks.iter().enumerate() {
            assert_eq!(String::from_utf8_lossy(chunk), format!("{}\nbefore", key(number)));
        }
    });
    assert!(node.ask("GET /metrics").text().contains("quipu_snapshots 0\n"));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_range_holds_nothing() {
    let node = Node::new();
    let mut client = node.client();
    for number in 0..50 {
        client.put(&format!("k{number}"), &vec![0; 200_000]);
    }
    {
        let mut leaver = node.client();
        leaver.send(message("GET /v0/entities?start=k", b""));
        leaver.fill();
    }
    let is_free = || {
        let page = node.ask("GET /metrics");
        let text = page.text();
        text.contains("quipu_snapshots 0\n") && text.contains("quipu_http_flight_bytes 0\n")
    };
    let started = quipu_server::system::clock::moment();
    while !is_free() {
        assert!(
            quipu_server::system::clock::since(started) < Duration::from_secs(10),
            "{}",
            node.ask("GET /metrics").text()
        );
        pause_ms(10);
    }
    assert_eq!(client.ask("GET /v0/entities?start=k").chunks.len(), 50);
}

#[test]
fn a_restart_keeps_values_and_tags() {
    for durability in [Durability::Sync, Durability::Os] {
        let dir = tempfile::tempdir().unwrap();
        let open = |dir: &Path| {
            let options = Options { durability, memory_bytes: 1 << 30, ..Options::default() };
            Node::over(Db::open(dir, options).unwrap(), durability, HttpOptions::default())
        };
        let mut tags = Vec::new();
        {
            let node = open(dir.path());
            let mut client = node.client();
            for number in 0..100 {
                tags.push(client.put(&format!("k{number}"), format!("v{number}").as_bytes()).tag().to_owned());
            }
            assert_eq!(client.ask("DELETE /v0/entity?id=k7").status, 202);
        }
        let node = open(dir.path());
        let mut client = node.client();
        for (number, tag) in tags.iter().enumerate() {
            let reply = client.get(&format!("k{number}"));
            if number == 7 {
                assert_eq!(reply.status, 404);
                continue;
            }
            assert_eq!((reply.text(), reply.tag()), (&*format!("v{number}"), &**tag));
        }
        let number = |tag: &str| tag.trim_matches('"').parse::<u64>().unwrap();
        assert!(number(client.put("new", b"x").tag()) > number(&tags[99]));
    }
}

#[test]
fn too_much_load_is_turned_away() {
    let limits = HttpLimits { requests_max: 2, streams_max: 1, flight_bytes_max: 50_000, ..HttpLimits::default() };
    let node = Node::with(Durability::Os, limits);
    let mut client = node.client();
    let overloaded = |reply: &Reply| reply.status == 503 && reply.header("retry-after").is_some();
    // Two requests wait for their bodies, each in its place.
    let mut waiting: Vec<Client> = (0..2).map(|_| node.client()).collect();
    for waiting in &mut waiting {
        waiting.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: q\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        assert_eq!(waiting.read().status, 100);
    }
    let reply = client.ask("DELETE /v0/entity?id=x");
    assert!(overloaded(&reply), "{reply:?}");
    assert_eq!(client.ask("GET /v0/status").status, 200, "reads need no place");
    for waiting in &mut waiting {
        waiting.send("one");
        assert_eq!(waiting.read().status, 201);
    }
    assert_eq!(client.get("a").text(), "one");
    // Long bodies share a number of bytes.
    let reply = node.client().put("b", &[0; 60_000]);
    assert!(overloaded(&reply), "{reply:?}");
    assert_eq!(client.put("b", &[0; 40_000]).status, 201);
    // One range at a time.
    for number in 0..60 {
        let mut data = Data::open(&node.server.keyspace, Need::Write, now_ms()).unwrap();
        let key = format!("k{number}");
        data.put_string(0, key.as_bytes(), Header::new(Kind::String), &vec![0; 1_000_000]).unwrap();
        let _ = data.close().unwrap();
    }
    let mut first = node.client();
    first.send(message("GET /v0/entities?start=k", b""));
    first.fill();
    let reply = client.ask("GET /v0/entities?start=k");
    assert!(overloaded(&reply), "{} {}", reply.head, reply.body.len());
    assert!(overloaded(&client.get("k1")), "a long value is a stream too");
    assert_eq!(first.read().chunks.len(), 60);
    drop(first);

    let node = Node::with(Durability::Os, HttpLimits { connections_max: 1, ..HttpLimits::default() });
    let mut only = node.client();
    assert_eq!(only.get("a").status, 404);
    let mut second = node.client();
    let reply = second.read();
    assert!(overloaded(&reply), "{reply:?}");
}

#[test]
fn clients_take_no_connections_of_the_port_where_nodes_meet() {
    let limits = HttpLimits { connections_max: 1, peer_connections_max: 1, ..HttpLimits::default() };
    let options = HttpOptions { limits, peer_port: Some(0), ..HttpOptions::default() };
    let node = Node::over(Db::open("/http", Options::without_files()).unwrap(), Durability::Os, options);
    let peers = node.listening.as_ref().unwrap().peer_addresses[0];
    let mut only = node.client();
    assert_eq!(only.get("a").status, 404);
    assert_eq!(node.client().read().status, 503);
    let mut peer = Client::connect(peers);
    let reply = peer.ask("GET /v0/status");
    assert_eq!((reply.status, reply.text()), (404, "only nodes of the cluster meet here"));
    assert_eq!(Client::connect(peers).read().status, 503);
}

#[test]
fn writes_that_come_together_are_committed_together() {
    let node = Node::with(Durability::Sync, HttpLimits::default());
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let node = &node;
            scope.spawn(move || {
                let mut client = node.client();
                for number in 0..50 {
                    let id = format!("w{writer}-{number}");
                    assert_eq!(client.put(&id, id.as_bytes()).status, 201);
                    assert_eq!(client.get(&id).text(), id);
                }
            });
        }
    });
    let mut client = node.client();
    assert_eq!(client.ask("GET /v0/count").text(), "400");
    assert!(client.ask("GET /metrics").text().contains("quipu_http_writes_total 400\n"));
}

#[test]
fn a_stop_answers_what_is_under_way_and_frees_the_port() {
    let mut node = Node::new();
    let mut idle = node.client();
    assert_eq!(idle.get("a").status, 404);
    let mut under_way = node.client();
    under_way.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: q\r\ncontent-length: 3\r\n\r\no");
    pause_ms(50);
    let address = node.address;
    let finisher = std::thread::spawn(move || {
        pause_ms(200);
        under_way.send("ne");
        let reply = under_way.read();
        (reply.status, under_way.is_closed())
    });
    let started = quipu_server::system::clock::moment();
    node.stop();
    assert!(quipu_server::system::clock::since(started) < Duration::from_secs(2));
    assert_eq!(finisher.join().unwrap(), (201, true));
    assert!(idle.is_closed());
    // At once again, on the same port.
    let options = HttpOptions { port: address.port(), ..HttpOptions::default() };
    let listening = listen(&node.server, options).unwrap();
    assert_eq!(Client::connect(address).get("a").text(), "one");
    // A client that never finishes does not hold up a stop.
    let mut stuck = Client::connect(address);
    stuck.send("PUT /v0/entity?id=b HTTP/1.1\r\nhost: q\r\ncontent-length: 3\r\n\r\no");
    pause_ms(50);
    let started = quipu_server::system::clock::moment();
    listening.stop();
    assert!(quipu_server::system::clock::since(started) < Duration::from_secs(5));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let node = Node::new();
    let options = HttpOptions { port: node.address.port(), ..HttpOptions::default() };
    let error = listen(&node.server, options).err().expect("the port is taken");
    assert!(error.to_string().contains(&node.address.port().to_string()), "{error}");
    let cluster = vec!["http://a:1".to_owned(), "http://b:1".to_owned()];
    let options = HttpOptions { self_url: Some("http://c:1".to_owned()), cluster, ..HttpOptions::default() };
    assert!(listen(&node.server, options).is_err());
}

#[test]
fn metrics_count() {
    let node = Node::new();
    let mut client = node.client();
    client.put("a", b"x");
    client.get("a");
    client.get("b");
    let reply = client.ask("GET /metrics");
    let text = reply.text();
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "quipu_http_requests_total{method=\"PUT\",status=\"201\"} 1",
        "quipu_http_requests_total{method=\"GET\",status=\"404\"} 1",
        "quipu_http_request_seconds_count{request=\"get\"} 2",
        "quipu_keys{database=\"0\"} 1",
        "quipu_table_rows{table=\"keys.0\"} 1",
        "quipu_lookup_hits_total 1",
        "quipu_http_connections 1",
        "quipu_poisoned 0",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    // Each metric has its help and type before its samples, and names are of the house.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(name.starts_with("quipu_") && text.contains(&format!("# TYPE {base} ")), "{line}");
    }
}

/// As the program has it, so that allocations can be profiled.
#[global_allocator]
static ALLOCATOR: Sampling = Sampling;

#[test]
fn profiles_are_flame_graphs() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::over(Db::open(dir.path(), Options::default()).unwrap(), Durability::Sync, HttpOptions::default());
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for key in ["a", "b"] {
            let (node, stops) = (&node, &stops);
            scope.spawn(move || {
                let mut client = node.client();
                while !stops.load(Ordering::Relaxed) {
                    client.put(key, &[b'v'; 100_000]);
                    client.get(key);
                }
            });
        }
        // A frame that each of them has to show. Beside many other programs it may take more than a second.
        let shown = [("cpu", "tokio"), ("heap", "quipu_server::http"), ("lock", "wait_for_the_disk")];
        let missing = shown.map(|(kind, frame)| {
            let mut replies = (0..30).map(|_| node.ask(&format!("GET /debug/profile/{kind}?seconds=1")));
            let is_graph = |reply: &Reply| {
                (reply.status, reply.header("content-type")) == (200, Some("image/svg+xml"))
                    && reply.text().contains("</svg>")
            };
            !replies.any(|reply| is_graph(&reply) && reply.text().contains(frame))
        });
        stops.store(true, Ordering::Relaxed);
        assert_eq!(missing, [false; 3], "profiles of {shown:?}");
    });
}

/// All rows lie in runs of tiny pages, with hardly any cache: requests are asked again where they may wait.
#[test]
fn entities_in_runs_are_read_written_counted_and_sent() {
    for durability in [Durability::Os, Durability::Sync] {
        let options = Options {
            page_bytes: 512,
            run_page_bytes: 512,
            memtable_bytes: 1 << 20,
            cache_bytes: 8 << 10,
            ..Options::without_files()
        };
        let node = Node::over(Db::open("/http", options).unwrap(), durability, HttpOptions::default());
        let flush = || {
            let tables = node.server.keyspace.db().tables();
            tables.iter().filter(|table| !table.options().in_memory).for_each(|table| table.flush().unwrap());
        };
        let value = |number: usize| format!("value {number} {}", "x".repeat(number % 50));
        for number in 0..400 {
            node.put_as_redis(format!("key{number:04}").as_bytes(), value(number).as_bytes());
        }
        let long: Vec<u8> = (0..700_000_u32).map(|number| number as u8).collect();
        node.put_as_redis(b"long", &long);
        flush();
        let mut client = node.client();
        for number in (0..400).step_by(29) {
            let reply = client.ask(&format!("GET /v0/entity?id=key{number:04}"));
            assert_eq!((reply.status, reply.text()), (200, &*value(number)));
            let tag = reply.tag().to_owned();
            let put = format!("PUT /v0/entity?id=key{number:04}&ttl=100000; if-match: {tag}");
            assert_eq!(client.ask_with(&put, b"new").status, 201);
            flush();
            assert_eq!(client.ask_with(&put, b"newer").status, 412);
            assert_eq!(client.ask(&format!("GET /v0/entity?id=key{number:04}")).text(), "new");
            assert_eq!(client.ask(&format!("DELETE /v0/entity?id=key{:04}", number + 1)).status, 202);
        }
        let removed = (0..400).step_by(29).count();
        assert_eq!(client.ask("GET /v0/count").text(), (401 - removed).to_string());
        assert_eq!(client.ask("GET /v0/rank?id=long").text(), (400 - removed).to_string());
        assert_eq!(client.ask("GET /v0/nth?offset=2").text(), "key0003");
        assert_eq!(client.ask("GET /v0/entity?id=long").body, long);
        let range = client.ask("GET /v0/entities?start=key0100&end=key0200&offset=3&limit=50");
        assert_eq!((range.status, range.chunks.len()), (200, 50));
        assert!(range.chunks[0].starts_with(b"key0103\nvalue 103"), "{:?}", range.chunks[0]);
        let all = client.ask("GET /v0/entities?start=a");
        assert_eq!(all.chunks.len(), 401 - removed);
        assert!(all.body.ends_with(&long[long.len() - 1000..]));
        assert!(quipu_server::keyspace::check(node.server.keyspace.db()).unwrap().is_empty());
    }
}
