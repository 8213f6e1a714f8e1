//! Goal: what RFC 9110 and 9112 want of an HTTP server, and which of two answers to `GET` and `HEAD` have a body.
//! Method: bytes over a socket, each request over a connection of its own.

use std::io::Write;
use std::net::TcpStream;

use crate::support::sockets::{DEADLINE, Running, rest};
use quipu_server::http::{self, HttpListening, HttpOptions};

/// Sends a request, and reads what comes until the server closes.
fn answer(listening: &HttpListening, request: &str) -> String {
    let mut stream = TcpStream::connect(listening.addresses[0]).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    rest(&mut stream)
}

fn http(running: &Running) -> HttpListening {
    http::listen(&running.server, HttpOptions::default()).expect("listening")
}

#[test]
fn a_request_that_is_none_by_the_standard_is_refused() {
    let running = Running::new(|_| {});
    let listening = http(&running);
    let put = "PUT /v0/entity?id=a";
    for (request, status) in [
        ("GET /v0/status HTTP/1.1\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.1\r\nHost: user@a\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET /v0/status HTTP/1.1\r\nHost: a:8000\r\nConnection: close\r\n\r\n", 200),
        ("GET /v0/status HTTP/1.1\r\nHost: [::1]:8000\r\nConnection: close\r\n\r\n", 200),
        ("GET /v0/status HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 200),
        ("GET /v0/status HTTP/1.0\r\n\r\n", 200),
        (&format!("{put} HTTP/1.0\r\n\r\nvalue"), 411),
        (&format!("{put} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nvalue\r\n0\r\n\r\n"), 501),
        (
            &format!(
                "{put} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nvalue\r\n0\r\n\r\n"
            ),
            501,
        ),
        ("GET /v0/entity?id=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (&format!("{put} HTTP/1.0\r\nContent-Length: 5\r\n\r\nvalue"), 201),
        (
            &format!(
                "{put} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n\
                 5\r\nvalue\r\n0\r\n\r\n"
            ),
            201,
        ),
        (&format!("{put} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 201),
    ] {
        let told = answer(&listening, request);
        assert_eq!(told.get(9..12), Some(status.to_string().as_str()), "{request:?}: {told}");
    }
    listening.stop();
}

/// The parser answered by itself, with nothing but the status.
#[test]
fn what_the_parser_cannot_read_is_answered_with_what_is_wrong() {
    let running = Running::new(|_| {});
    let listening = http(&running);
    let put = "PUT /v0/entity?id=a HTTP/1.1\r\nHost: a\r\n";
    for (request, status, text) in [
        (&*format!("{put}Content-Length: 3\r\nContent-Length: 5\r\n\r\nvalue"), 400, "Content-Length"),
        (&format!("{put}Content-Length: +5\r\n\r\nvalue"), 400, "Content-Length"),
        (&format!("{put}Content-Length: abc\r\n\r\nvalue"), 400, "Content-Length"),
        (&format!("{put}X : y\r\n\r\n"), 400, "cannot be read"),
        ("no HTTP at all\r\n\r\n", 400, "cannot be read"),
        (&format!("{put}Transfer-Encoding: gzip\r\n\r\nvalue"), 501, "chunked"),
        (&format!("{put}Transfer-Encoding: identity\r\n\r\nvalue"), 501, "chunked"),
        (&format!("{put}Transfer-Encoding: xchunked\r\n\r\nvalue"), 501, "chunked"),
    ] {
        let told = answer(&listening, request);
        let (head, body) = told.split_once("\r\n\r\n").expect("a head");
        assert_eq!(told.get(9..12), Some(status.to_string().as_str()), "{request:?}: {told}");
        assert!(body.contains(text) && body.ends_with('\n'), "{request:?}: {told}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{request:?}: {told}");
    }
    listening.stop();
}

#[test]
fn a_head_is_answered_as_a_get_without_the_body() {
    let running = Running::new(|_| {});
    let listening = http(&running);
    let long = "v".repeat(1 << 20);
    for (key, value) in [("a", "one"), ("empty", ""), ("long", long.as_str())] {
        let length = value.len();
        let request = format!("PUT /v0/entity?id={key} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{value}");
        assert!(answer(&listening, &request).starts_with("HTTP/1.0 201"));
    }
    // That there are chunks need not be said where there is none.
    let is_left_out = |line: &str| line.starts_with("date:") || line.starts_with("transfer-encoding:");
    // Other headers, in order of the alphabet; whether there is a body.
    let parts = |method: &str, path: &str| {
        let told = answer(&listening, &format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let (head, body) = told.split_once("\r\n\r\n").expect("a head");
        let mut lines: Vec<String> = head.lines().filter(|line| !is_left_out(line)).map(str::to_owned).collect();
        lines.sort();
        (lines, body.len())
    };
    for path in [
        "/v0/entity?id=a",
        "/v0/entity?id=long",
        "/v0/entity?id=none",
        "/v0/entity?id=empty",
        "/v0/entity",
        "/v0/entities?start=a",
        "/v0/count",
        "/v0/rank?id=long",
        "/v0/nth?offset=0",
        "/v0/status",
        "/healthz",
        "/readyz",
        "/nothing",
    ] {
        let (get, head) = (parts("GET", path), parts("HEAD", path));
        assert_eq!(get.0, head.0, "{path}");
        assert_eq!(head.1, 0, "{path}");
    }
    assert_eq!(parts("GET", "/v0/entity?id=long").1, 1 << 20);
    // Figures grow meanwhile, and their text may.
    assert_eq!((parts("HEAD", "/metrics").0[0].as_str(), parts("HEAD", "/metrics").1), ("HTTP/1.1 200 OK", 0));
    let tag =
        parts("GET", "/v0/entity?id=a").0.into_iter().find_map(|line| Some(line.strip_prefix("etag: ")?.to_owned()));
    let tag = tag.expect("an entity tag");
    let same = format!("HEAD /v0/entity?id=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: {tag}\r\n\r\n");
    assert!(answer(&listening, &same).starts_with("HTTP/1.1 304"));
    assert!(parts("HEAD", "/v0/entities").0.iter().any(|line| line == "HTTP/1.1 400 Bad Request"));
    listening.stop();
}

#[test]
fn what_a_request_is_authorized_with_is_shown_nowhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let running = Running::new(|config| {
        config.set("logfile", log.to_str().expect("a path")).expect("set");
        config.set("loglevel", "debug").expect("set");
        config.set("slowlog-log-slower-than", "0").expect("set");
    });
    let listening = http(&running);
    let mut told = Vec::new();
    for line in ["GET /v0/entity?id=a", "PUT /v0/entity?id=a", "GET /nothing", "PATCH /v0/entity", "GET /metrics"] {
        for authorization in ["Basic YWw6aGlkZGVu", "Bearer YWw6aGlkZGVu", "YWw6aGlkZGVu\r\nTransfer-Encoding: odd"] {
            told.push(answer(
                &listening,
                &format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"),
            ));
        }
    }
    told.extend(std::fs::read_to_string(&log));
    told.extend(running.server.slow_log.last(100).iter().map(|entry| format!("{entry:?}")));
    let refused: Vec<String> = running
        .server
        .users
        .refusals
        .last(100)
        .iter()
        .map(|entry| format!("{entry:?} {:?}", entry.object.escape_ascii().to_string()))
        .collect();
    assert!(refused[0].contains("user: \"al\""), "there is something to see: {refused:?}");
    told.extend(refused);
    let is_shown = |told: &String| told.contains("YWw6aGlkZGVu") || told.contains("hidden");
    assert!(!told.iter().any(is_shown), "{told:#?}");
    listening.stop();
}
