//! Goal: a server without a password serves no strangers, on any face. Method: sessions of made-up addresses; and,
//! where this machine has an address beside loopback, sockets. The decision alone is tested in `protection.rs`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use crate::support::sockets::{DEADLINE, Running, ask, rest};
use quipu_server::Server;
use quipu_server::http::{self, HttpOptions};

fn refusal(server: &Server, address: &str) -> Option<String> {
    server.welcome(address.to_owned(), String::new()).err().map(|refusal| refusal.reply_text().into_owned())
}

/// An address of this machine that is not loopback, if there is one. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn a_stranger_is_turned_away_until_there_is_a_password_or_the_mode_is_off() {
    let running = Running::new(|_| {});
    let server = &running.server;
    let mut admin = running.connect();
    ask(&mut admin, "CONFIG GET protected-mode", "*2\r\n$14\r\nprotected-mode\r\n$3\r\nyes\r\n");
    let told = refusal(server, "10.0.0.7:5000").expect("turned away");
    assert!(told.starts_with("DENIED Quipu is running in protected mode") && !told.contains('\n'), "{told}");
    for way_out in ["--bind 127.0.0.1", "--requirepass", "CONFIG SET protected-mode no", "--protected-mode no"] {
        assert!(told.contains(way_out), "{way_out}: {told}");
    }
    for served in ["127.0.0.1:5000", "[::1]:5000", "/tmp/quipu.sock:0"] {
        assert_eq!(refusal(server, served), None, "{served}");
    }
    ask(&mut admin, "CONFIG SET protected-mode no", "+OK\r\n");
    ask(&mut admin, "CONFIG GET protected-mode", "*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n");
    assert_eq!(refusal(server, "10.0.0.7:5000"), None);
    ask(&mut admin, "CONFIG SET protected-mode yes requirepass secret", "+OK\r\n");
    assert_eq!(refusal(server, "10.0.0.7:5000"), None, "the password keeps strangers out");
    ask(&mut admin, "CONFIG SET requirepass \"\"", "+OK\r\n");
    assert!(refusal(server, "10.0.0.7:5000").is_some());
    // As in Redis, the password is what counts, not whether the user is on.
    ask(&mut admin, "ACL SETUSER default resetpass", "+OK\r\n");
    assert_eq!(refusal(server, "10.0.0.7:5000"), None);
}

#[test]
fn the_configuration_knows_the_mode() {
    let running = Running::new(|config| config.set("protected-mode", "no").expect("set"));
    assert_eq!(refusal(&running.server, "10.0.0.7:5000"), None);
    ask(&mut running.connect(), "CONFIG GET protected-mode", "*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n");
}

#[test]
fn both_faces_tell_a_stranger_why_they_turn_him_away() {
    let Some(own) = own_address() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let running = Running::new(|config| {
        config.bind = vec![own.to_string(), "127.0.0.1".to_owned()];
        config.set("logfile", log.to_str().expect("a path")).expect("set");
    });
    let options = HttpOptions { bind: vec![own.to_string(), "127.0.0.1".to_owned()], ..HttpOptions::default() };
    let listening = http::listen(&running.server, options).expect("listening");
    let connect = |address: SocketAddr| {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    };
    let request = |address: SocketAddr| {
        let mut stream = connect(address);
        stream.write_all(b"GET /v0/count HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("sent");
        rest(&mut stream)
    };
    let told = std::fs::read_to_string(&log).expect("a log");
    let warnings =
        told.matches("warning the user `default` has no password: clients of other machines are turned away");
    assert_eq!(warnings.count(), 2, "{told}");
    let resp = &running.listening.as_ref().expect("listening").addresses;
    assert!(rest(&mut connect(resp[0])).starts_with("-DENIED Quipu is running in protected mode"));
    ask(&mut connect(resp[1]), "PING", "+PONG\r\n");
    let told = request(listening.addresses[0]);
    assert!(told.starts_with("HTTP/1.1 403 ") && told.contains("protected mode"), "{told}");
    assert!(request(listening.addresses[1]).starts_with("HTTP/1.1 200 "));
    ask(&mut connect(resp[1]), "CONFIG SET protected-mode no", "+OK\r\n");
    ask(&mut connect(resp[0]), "PING", "+PONG\r\n");
    assert!(request(listening.addresses[0]).starts_with("HTTP/1.1 200 "));
    listening.stop();
}
