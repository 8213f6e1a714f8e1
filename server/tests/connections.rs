//! Goal: connections are opened, limited and closed as configured, over TCP, local sockets and TLS, and a client that
//! is slow or silent does not hold up the others. Method: a server with sockets on free ports, and clients that speak
//! bytes. Waiting is for something to come, with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::sockets::{DEADLINE, Running, ask, eventually, line, rest, take};
use quipu::{Db, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::net;

/// What a client sends in one packet after a command whose answer takes a thread of its own, and is longer than what
/// may be left unsent.
#[test]
fn a_command_after_a_long_answer_runs_though_the_client_sends_no_more() {
    let running = Running::new(|_| {});
    let mut stream = running.connect();
    let members: String =
        (0..60_000).map(|number| format!("{number} member-with-a-long-name-{number:06}\r\n")).collect();
    let lines: Vec<String> = members.lines().map(|member| format!("ZADD z {member}\r\n")).collect();
    for lines in lines.chunks(5000) {
        stream.write_all(lines.concat().as_bytes()).expect("sent");
        take(&mut stream, &":1\r\n".repeat(lines.len()));
    }
    let body: String = (0..60_000).map(|number| format!("$30\r\nmember-with-a-long-name-{number:06}\r\n")).collect();
    let answer = format!("*60000\r\n{body}");
    for _ in 0..3 {
        ask(
            &mut stream,
            "ZRANGE z 0 -1\r\nPING\r\nZRANGE z 0 -1\r\nZCARD z",
            &format!("{answer}+PONG\r\n{answer}:60000\r\n"),
        );
    }
    stream.write_all(b"ZRANGE z 0 -1\r\nSET after long\r\n").expect("sent");
    stream.shutdown(Shutdown::Write).expect("half closed");
    let told = rest(&mut stream);
    assert!(told.ends_with("+OK\r\n"), "what followed was dropped: {} bytes", told.len());
    ask(&mut running.connect(), "GET after", "$4\r\nlong\r\n");
}

#[test]
fn a_client_that_sends_no_more_is_answered_and_closed() {
    let running = Running::new(|_| {});
    for round in 0..20 {
        let mut client = running.connect();
        // The end comes with the commands or after them.
        client.write_all(b"SET a 1\r\nGET a\r\n").expect("sent");
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        client.shutdown(Shutdown::Write).expect("shut down");
        assert_eq!(rest(&mut client), "+OK\r\n$1\r\n1\r\n");
    }
    eventually("all have left", || running.server.clients.is_empty());
}

#[test]
fn a_command_that_never_ends_is_closed_at_its_limit() {
    let running = Running::new(|config| config.set("client-query-buffer-limit", "1mb").expect("set"));
    let mut client = running.connect();
    let _ = client.write_all(b"*2\r\n$3\r\nGET\r\n$100000000\r\n");
    let chunk = vec![b'x'; 1 << 16];
    let mut sent = 0;
    while sent < 64 << 20 && client.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 64 << 20, "it went on");
    eventually("it has left", || running.server.clients.is_empty());
}

#[test]
fn a_client_that_takes_no_answers_holds_nobody_up() {
    let running = Running::new(|config| config.set("client-output-buffer-limit", "normal 0 2mb 1").expect("set"));
    let mut other = running.connect();
    let value = "v".repeat(4 << 20);
    other.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{value}\r\n", value.len()).as_bytes()).expect("sent");
    take(&mut other, "+OK\r\n");
    let mut slow = running.connect();
    for _ in 0..32 {
        slow.write_all(b"GET a\r\n").expect("sent");
    }
    for _ in 0..100 {
        ask(&mut other, "PING", "+PONG\r\n");
    }
    let left = || running.server.clients.all().iter().map(|client| client.output_bytes.load(Ordering::Relaxed)).max();
    assert!(left() < Some(16 << 20), "its answers were put together though it takes none: {:?}", left());
    eventually("the slow one was closed", || running.server.clients.len() == 1);
    ask(&mut other, "PING", "+PONG\r\n");
}

#[test]
fn there_are_only_so_many_clients() {
    let running = Running::new(|config| config.set("maxclients", "2").expect("set"));
    let (mut first, mut second) = (running.connect(), running.connect());
    ask(&mut first, "PING", "+PONG\r\n");
    ask(&mut second, "PING", "+PONG\r\n");
    assert_eq!(rest(&mut running.connect()), "-ERR max number of clients reached\r\n");
    drop(first);
    eventually("one has left", || running.server.clients.len() == 1);
    ask(&mut running.connect(), "PING", "+PONG\r\n");
}

#[test]
fn idle_clients_are_closed() {
    let running = Running::new(|config| config.set("timeout", "1").expect("set"));
    let mut client = running.connect();
    ask(&mut client, "PING", "+PONG\r\n");
    assert_eq!(rest(&mut client), "");
}

#[test]
fn clients_are_killed() {
    let running = Running::new(|_| {});
    let (mut admin, mut victim) = (running.connect(), running.connect());
    ask(&mut victim, "CLIENT ID", ":");
    let mut id = [0; 1];
    victim.read_exact(&mut id).expect("a digit");
    take(&mut victim, "\r\n");
    ask(&mut admin, &format!("CLIENT KILL ID {}", id[0] as char), ":1\r\n");
    assert_eq!(rest(&mut victim), "");
    ask(&mut admin, "CLIENT KILL TYPE normal SKIPME no", ":1\r\n");
    assert_eq!(rest(&mut admin), "");
}

#[test]
fn commands_wait_while_the_server_is_paused() {
    let running = Running::new(|_| {});
    let (mut admin, mut client) = (running.connect(), running.connect());
    ask(&mut admin, "CLIENT PAUSE 60000 WRITE", "+OK\r\n");
    client.write_all(b"GET a\r\nSET a 1\r\nGET a\r\n").expect("sent");
    take(&mut client, "$-1\r\n");
    client.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let waits = client.read(&mut [0; 1]).expect_err("it waits");
    assert!(matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    ask(&mut admin, "CLIENT UNPAUSE", "+OK\r\n");
    take(&mut client, "+OK\r\n$1\r\n1\r\n");
    ask(&mut admin, "CLIENT PAUSE 100", "+OK\r\n");
    ask(&mut client, "PING", "+PONG\r\n");
}

#[test]
fn monitors_see_commands() {
    let running = Running::new(|_| {});
    let (mut monitor, mut client) = (running.connect(), running.connect());
    ask(&mut monitor, "MONITOR", "+OK\r\n");
    ask(&mut client, "SET \"a b\" \"\\x01\"", "+OK\r\n");
    let line = line(&mut monitor);
    assert!(line.starts_with('+') && line.ends_with("] \"SET\" \"a b\" \"\\x01\"\r\n"), "{line}");
}

#[test]
fn a_local_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("quipu.sock");
    {
        let running = Running::new(|config| {
            config.set("unixsocket", path.to_str().expect("a path")).expect("set");
            config.set("unixsocketperm", "700").expect("set");
        });
        let mut client = UnixStream::connect(&path).expect("a connection");
        client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        ask(&mut client, "SET a 1", "+OK\r\n");
        assert!(running.server.clients.all()[0].line().contains("flags=U"));
    }
    assert!(!path.exists());
    // What a killed server leaves behind is no hindrance.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let _running = Running::new(|config| config.set("unixsocket", path.to_str().expect("a path")).expect("set"));
    UnixStream::connect(&path).expect("a connection");
}

#[test]
fn a_port_in_use_is_told() {
    let running = Running::new(|_| {});
    let port = running.listening.as_ref().expect("listening").addresses[0].port();
    let db = Db::open(Path::new("/other"), Options::without_files()).expect("a database");
    let server = Arc::new(Server::over(db, Config { port: Some(port), ..Config::default() }).expect("a server"));
    let error = net::listen(&server).err().expect("in use");
    assert!(error.to_string().contains(&format!("cannot listen at 127.0.0.1:{port}")), "{error}");
}

mod tls {
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;

    struct Files {
        _directory: tempfile::TempDir,
        certificate: String,
        key: String,
        certificate_der: CertificateDer<'static>,
        key_der: Vec<u8>,
    }

    #[expect(clippy::disallowed_methods, reason = "files of a test")]
    fn files() -> Files {
        let directory = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
        let (certificate, key) = (path("c.pem"), path("k.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        let (certificate_der, key_der) = (made.cert.der().clone(), made.signing_key.serialize_der());
        Files { _directory: directory, certificate, key, certificate_der, key_der }
    }

    fn running(files: &Files, asks_clients: bool) -> Running {
        Running::new(|config| {
            config.port = None;
            config.tls_port = Some(0);
            config.set("tls-cert-file", &files.certificate).expect("set");
            config.set("tls-key-file", &files.key).expect("set");
            config.tls.clients_need_one = true;
            if asks_clients {
                config.set("tls-ca-cert-file", &files.certificate).expect("set");
            }
        })
    }

    fn client(running: &Running, files: &Files, with_certificate: bool) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(files.certificate_der.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
        let builder = builder.with_root_certificates(roots);
        let config = if with_certificate {
            let key = PrivatePkcs8KeyDer::from(files.key_der.clone());
            builder.with_client_auth_cert(vec![files.certificate_der.clone()], key.into()).expect("a certificate")
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        StreamOwned::new(connection, running.connect())
    }

    #[test]
    fn commands_and_long_values() {
        let files = files();
        let running = running(&files, false);
        let mut client = client(&running, &files, false);
        ask(&mut client, "PING", "+PONG\r\n");
        let value = "v".repeat(3 << 20);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{value}\r\n", value.len());
        client.write_all(set.as_bytes()).expect("sent");
        take(&mut client, "+OK\r\n");
        for _ in 0..3 {
            ask(&mut client, "GET a", &format!("${}\r\n{value}\r\n", value.len()));
        }
        // Many commands in one record, and in many.
        let pings = "PING\r\n".repeat(20_000);
        client.write_all(pings.as_bytes()).expect("sent");
        take(&mut client, &"+PONG\r\n".repeat(20_000));
        ask(&mut client, "QUIT", "+OK\r\n");
        assert_eq!(rest(&mut client), "");
    }

    #[test]
    fn what_is_no_tls_is_closed() {
        let files = files();
        let running = running(&files, false);
        let mut plain = running.connect();
        plain.write_all(b"PING\r\n").expect("sent");
        assert!(!rest(&mut plain).contains("PONG"));
        eventually("it has left", || running.server.clients.is_empty());
    }

    #[test]
    fn clients_show_certificates_where_they_must() {
        let files = files();
        let running = running(&files, true);
        let mut without = client(&running, &files, false);
        assert!(without.write_all(b"PING\r\n").and_then(|()| without.read_exact(&mut [0; 7])).is_err());
        ask(&mut client(&running, &files, true), "PING", "+PONG\r\n");
    }

    #[test]
    fn a_missing_file_is_told() {
        let db = Db::open(Path::new("/server"), Options::without_files()).expect("a database");
        let config = Config { port: None, tls_port: Some(0), ..Config::default() };
        let server = Arc::new(Server::over(db, config).expect("a server"));
        let error = net::listen(&server).err().expect("refused").to_string();
        assert!(error.contains("--tls-cert-file"), "{error}");
    }
}

/// `psql -p 6379` waited for an answer until it was killed.
#[test]
fn a_client_of_postgresql_is_told_that_this_is_another_port() {
    let running = Running::new(|_| {});
    let asks_for_tls: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
    let begins: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
    for first in [asks_for_tls, begins] {
        let mut client = running.connect();
        client.write_all(first).expect("sent");
        let told = rest(&mut client);
        assert!(told.starts_with('E') && told.contains("SFATAL\0") && told.contains("--pg-port"), "{told:?}");
    }
    // Any other zero bytes are those of a command.
    ask(&mut running.connect(), "\0\0\0\x08abcd", "-ERR unknown command");
}
