//! Goal: what any client was told is there after a power loss, be it what it wrote itself or what it read of others.
//! Method: a server over a simulated disk that loses everything that was not synced. Another client's commit is made
//! and not waited for; then its effect is read in each of the ways there are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::support::Client;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Durability, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::http::{HttpOptions, listen};
use quipu_server::keyspace::value::{Header, Kind};
use quipu_server::keyspace::{Data, Need};
use quipu_server::system::clock::now_ms;

fn over(disk: &SimDisk) -> Server {
    let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
    let db = quipu::Db::open("/server", options).expect("a database");
    Server::over(db, Config::default().with_durability(Durability::Sync)).expect("a server")
}

/// Puts a key as another client does whose commit is still on its way.
fn put_without_waiting(server: &Server, key: &[u8]) {
    let mut data = Data::open(&server.keyspace, Need::Write, now_ms()).expect("data");
    data.put_string(0, key, Header::new(Kind::String), b"v").expect("put");
    let _ = data.close().expect("committed");
}

#[test]
fn what_was_told_survives_a_power_loss() {
    let reads = [
        ("get k", "$1|v"),
        ("q.count - +", ":1"),
        ("set k other nx", "$-1"),
        ("setnx k other", ":0"),
        ("dbsize", ":1"),
        ("exists k", ":1"),
        ("keys *", "*1|$1|k"),
        ("scan 0", "*2|$1|0|*1|$1|k"),
    ];
    for (command, answer) in reads {
        let disk = SimDisk::new();
        let server = over(&disk);
        let mut client = Client::new(&server);
        put_without_waiting(&server, b"k");
        client.expect(command, answer);
        let after = over(&disk.crash_with(CrashMode::LoseAll, 1));
        Client::new(&after).expect("get k", "$1|v");
    }
    // Without a read, it is gone: the disk does lose what is not synced.
    let disk = SimDisk::new();
    let server = over(&disk);
    put_without_waiting(&server, b"k");
    let after = over(&disk.crash_with(CrashMode::LoseAll, 1));
    Client::new(&after).expect("get k", "$-1");
}

/// A commit that a failed sync leaves behind is in memory, and may never be on disk.
#[test]
fn nobody_is_told_what_a_failed_sync_may_have_lost() {
    let disk = SimDisk::new();
    let server = over(&disk);
    let mut client = Client::new(&server);
    client.expect("set k v", "+OK");
    put_without_waiting(&server, b"l");
    disk.fail_at(disk.steps(), std::io::ErrorKind::Other);
    for command in ["get l", "get l", "get k", "keys *", "q.count", "dbsize", "set k w", "q.at 1 get l"] {
        let answer = client.run(command);
        assert!(answer.starts_with("-MISCONF ") && answer.lines().count() == 1, "{command}: {answer}");
    }
    assert!(server.keyspace.db().stats().poisoned, "the read's wait met the failure");
    // What tells nothing of the data goes on.
    client.expect("ping", "+PONG");
    assert!(client.run("info persistence").starts_with('$'));
    let after = over(&disk.crash_with(CrashMode::LoseAll, 1));
    let mut client = Client::new(&after);
    client.expect("get k", "$1|v");
    client.expect("get l", "$-1");
}

/// Where all that was committed is durable, a failed log hinders no reads.
#[test]
fn reads_go_on_when_the_log_has_failed_and_nothing_is_in_doubt() {
    let disk = SimDisk::new();
    let server = over(&disk);
    let mut client = Client::new(&server);
    client.expect("set k v", "+OK");
    let in_doubt = server.keyspace.db().pending_commits().is_durable(Durability::Sync);
    assert!(in_doubt, "it was waited for");
    server.note_failed_log();
    client.expect("get k", "$1|v");
}

#[test]
fn nobody_is_told_over_http_what_a_failed_sync_may_have_lost() {
    for path in ["/v0/entity?id=k", "/v0/count", "/v0/nth?offset=0", "/v0/entities?start=k", "/v0/status"] {
        let disk = SimDisk::new();
        let server = Arc::new(over(&disk));
        let listening = listen(&server, HttpOptions::default()).expect("listening");
        put_without_waiting(&server, b"k");
        disk.fail_at(disk.steps(), std::io::ErrorKind::Other);
        let mut stream = TcpStream::connect(listening.addresses[0]).expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: q\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let expected = if path == "/v0/status" { "HTTP/1.1 200 " } else { "HTTP/1.1 503 " };
        assert!(answer.starts_with(expected), "{path}: {answer}");
        listening.stop();
    }
}

#[test]
fn what_was_told_over_http_survives_too() {
    // The last one looks at no key, and waits for nothing.
    for path in ["/v0/entity?id=k", "/v0/count", "/v0/nth?offset=0", "/v0/entities?start=k", "/healthz"] {
        let disk = SimDisk::new();
        let server = Arc::new(over(&disk));
        let listening = listen(&server, HttpOptions::default()).expect("listening");
        put_without_waiting(&server, b"k");
        let mut stream = TcpStream::connect(listening.addresses[0]).expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: q\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        let crashed = disk.crash_with(CrashMode::LoseAll, 1);
        // This waits for the disk.
        listening.stop();
        let after = over(&crashed);
        Client::new(&after).expect("get k", if path == "/healthz" { "$-1" } else { "$1|v" });
    }
}

/// SQL, whose commits are the engine's own, went on with the durability of the start.
#[test]
fn a_durability_that_is_set_later_is_that_of_the_engine_too() {
    let server = over(&SimDisk::new());
    let mut client = Client::new(&server);
    let db = server.keyspace.db();
    client.expect("config set durability os", "+OK");
    assert_eq!((db.durability(), server.durability()), (Durability::Os, Durability::Os));
    client.expect("config set appendfsync always", "+OK");
    assert_eq!((db.durability(), server.durability()), (Durability::Sync, Durability::Sync));
}

/// What a full disk refuses is not there, and what was answered is, command by command, also where commands run
/// together.
#[test]
fn a_full_disk_refuses_exactly_what_it_says() {
    let value = vec![b'v'; 4000];
    type Make = fn(usize, &[u8]) -> Vec<Vec<u8>>;
    let families: [(Make, &str); 4] = [
        (|n, value| vec![b"set".to_vec(), format!("key{n}").into(), value.to_vec()], "+OK"),
        (|n, value| vec![b"set".to_vec(), format!("key{n}").into(), value.to_vec(), b"nx".to_vec()], "+OK"),
        (|n, value| vec![b"mset".to_vec(), format!("key{n}").into(), value.to_vec()], "+OK"),
        (|n, value| vec![b"zadd".to_vec(), format!("key{n}").into(), b"1".to_vec(), value.to_vec()], ":1"),
    ];
    for (make, done) in families {
        let disk = SimDisk::new();
        let server = over(&disk);
        let mut client = Client::new(&server);
        client.run("get warm");
        let used: usize =
            disk.file_names().iter().filter_map(|path| disk.read_file(path)).map(|bytes| bytes.len()).sum();
        disk.set_capacity(used as u64 + (3 << 20));
        let commands: Vec<_> = (0..2000).map(|number| make(number, &value)).collect();
        let text = String::from_utf8(client.send(&commands)).expect("text");
        let answers: Vec<&str> = text.lines().collect();
        assert_eq!(answers.len(), commands.len());
        let accepted = answers.iter().filter(|answer| **answer == done).count();
        assert!(accepted > 100 && accepted < 1500, "{accepted} of {}: {:?}", answers.len(), answers.last());
        assert!(
            answers
                .iter()
                .all(|answer| *answer == done || answer.starts_with("-MISCONF The disk is full: the log needs"))
        );
        let compare = |client: &mut Client<'_>| {
            for (number, answer) in answers.iter().enumerate() {
                let expected = if *answer == done { ":1" } else { ":0" };
                client.expect(&format!("exists key{number}"), expected);
            }
        };
        compare(&mut client);
        let crashed = disk.crash_with(CrashMode::LoseAll, 1);
        // The operator has made room meanwhile.
        crashed.set_capacity(u64::MAX);
        let after = over(&crashed);
        compare(&mut Client::new(&after));
        assert_eq!(quipu_server::keyspace::check(server.keyspace.db()).expect("read"), Vec::<String>::new());
    }
}
