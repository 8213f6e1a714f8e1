//! Goal: a full disk is a state that ends. While it lasts, reads and what frees space are served, every other write is
//! refused as a whole and for good, and the server says what is so. Method: a disk in memory that is as full as wanted.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use crate::support::sockets::{DEADLINE, eventually, rest};
use crate::support::{Client, words};
use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, Options};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::execution::housekeeping::give_space_back;
use quipu_server::http::{self, HttpOptions};

/// Small pages, segments and log, so that a disk is full soon.
fn over(disk: &SimDisk, memtable_bytes: u64) -> Server {
    over_as(disk, memtable_bytes, Durability::Os)
}

fn over_as(disk: &SimDisk, memtable_bytes: u64, durability: Durability) -> Server {
    let options = Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 512,
        run_page_bytes: 512,
        log_segment_bytes: 128 << 10,
        memtable_bytes,
        ..Options::without_files()
    };
    let config = Config::default().with_durability(durability);
    Server::over(Db::open(Path::new("/server"), options).expect("a database"), config).expect("a server")
}

/// Sets keys until the disk takes no more: some segments of the log. Returns how many it took.
fn fill(disk: &SimDisk, client: &mut Client<'_>) -> usize {
    disk.set_capacity(disk.used_bytes() + (512 << 10));
    let value = "v".repeat(2000);
    for number in 0..10_000 {
        let answer = client.run(&format!("SET key:{number:05} {value}"));
        if answer != "+OK\r\n" {
            assert!(answer.starts_with("-MISCONF The disk is full: "), "{answer}");
            assert!(answer.contains("space") && !answer.contains("reopen"), "{answer}");
            return number;
        }
    }
    panic!("the disk is never full");
}

/// The error came before `EXEC` had emptied the queue: the connection stayed inside `MULTI`, answered QUEUED to all
/// that came, and carried the refused transaction out once there was space.
#[test]
fn found_an_exec_that_a_full_disk_refused_was_done_later() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    client.expect("SET n 1", "+OK");
    fill(&disk, &mut client);
    client.run_all(&["WATCH n", "MULTI", "SET a new", "INCR n"]);
    let refused = client.run("EXEC");
    assert!(refused.starts_with("-MISCONF The disk is full"), "{refused}");
    client.expect("PING", "+PONG");
    client.expect("GET a", "$-1");
    client.expect("EXEC", "-ERR EXEC without MULTI");
    disk.set_capacity(u64::MAX);
    eventually("there is space", || {
        server.keyspace.ask_for_space();
        server.keyspace.lack_of_space().is_none()
    });
    client.expect("MULTI", "+OK");
    client.expect("GET n", "+QUEUED");
    client.expect("EXEC", "*1|$1|1");
    client.expect("EXISTS a", ":0");
    client.expect("SET a 2", "+OK");
}

#[test]
fn a_full_disk_refuses_no_transaction_that_only_reads_and_no_watch() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    client.expect("SET n 1", "+OK");
    let count = fill(&disk, &mut client);
    client.run_all(&["MULTI", "GET n", "DBSIZE"]);
    client.expect("EXEC", &format!("*2|$1|1|:{}", count + 1));
    client.run_all(&["MULTI"]);
    client.expect("EXEC", "*0");
    client.expect("WATCH n", "+OK");
    client.expect("Q.WATCH - + COUNT", "+OK");
    // What is watched is told of changes, too.
    other.expect("DEL n", ":1");
    client.run_all(&["MULTI", "GET n"]);
    client.expect("EXEC", "*-1");
}

/// A reader of a key whose time is over removed it, for which there was no space, and was refused.
#[test]
fn a_full_disk_answers_reads_while_keys_expire() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    client.expect("SET stays 1", "+OK");
    client.expect("SET goes 1 PX 1", "+OK");
    fill(&disk, &mut client);
    eventually("the key has expired", || client.run("GET goes") == "$-1\r\n");
    client.expect("GET stays", "$1|1");
}

#[test]
fn a_running_server_on_a_full_disk_can_be_emptied() {
    for (name, memtable_bytes) in [("in memory", 1 << 30), ("over runs", 64 << 10)] {
        for empties in
            [&["FLUSHALL"][..], &["Q.DELRANGE - +"], &["MULTI", "DEL key:00000 key:00001", "FLUSHALL", "EXEC"]]
        {
            let disk = SimDisk::new();
            let server = over(&disk, memtable_bytes);
            let mut client = Client::new(&server);
            let count = fill(&disk, &mut client);
            assert!(server.keyspace.lack_of_space().is_some(), "{name}");
            let text = client.run("INFO");
            assert!(
                text.contains("disk_full:1\r\n") && text.contains("aof_last_write_status:err\r\n"),
                "{name}: {text}"
            );
            client.expect("DEL key:00003", ":1");
            client.expect("GETDEL none", "$-1");
            assert!(client.run("SET more 1").starts_with("-MISCONF"), "{name}: what frees space lets nothing else in");
            client.expect("DBSIZE", &format!(":{}", count - 1));
            let answers = client.run_all(empties);
            assert!(!answers.contains("-MISCONF") && !answers.contains("-OOM"), "{name}: {answers}");
            // A manifest, and what is left of the tables.
            disk.set_capacity(disk.used_bytes() + 16_384);
            client.expect("SAVE", "+OK");
            give_space_back(&server);
            eventually("the space is given back", || {
                server.keyspace.ask_for_space();
                client.run("SET again 1") == "+OK\r\n"
            });
            assert!(server.keyspace.lack_of_space().is_none(), "{name}");
            client.expect("DBSIZE", ":1");
        }
    }
}

/// The log had room for small writes and none for a long one: however much was removed, that was refused until a
/// checkpoint came for another reason.
#[test]
fn found_space_that_was_freed_for_a_long_value_was_not_given_back() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    let long = "v".repeat(50_000);
    disk.set_capacity(disk.used_bytes() + (512 << 10));
    let refused =
        |client: &mut Client<'_>, number| client.run(&format!("SET long:{number} {long}")).starts_with("-MISC");
    let count = (0..100).find(|number| refused(&mut client, *number)).expect("it is full");
    disk.set_capacity(disk.used_bytes());
    assert!(server.keyspace.lack_of_space().is_some() && client.run("INFO").contains("disk_full:1\r\n"));
    server.keyspace.ask_for_space();
    assert!(server.keyspace.lack_of_space().is_some(), "it has no space for as much");
    for number in 0..count {
        client.expect(&format!("DEL long:{number}"), ":1");
    }
    give_space_back(&server);
    eventually("the space is given back", || {
        server.keyspace.ask_for_space();
        server.keyspace.lack_of_space().is_none()
    });
    client.expect(&format!("SET long {long}"), "+OK");
}

#[test]
fn a_command_that_is_longer_than_the_space_left_does_not_make_the_disk_count_as_full() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    client.expect("SET before 1", "+OK");
    disk.set_capacity(disk.used_bytes() + (3 << 20));
    let value = "v".repeat(10_000);
    let refused = client.run(&(0..500).fold("MSET".to_owned(), |command, key| format!("{command} k{key} {value}")));
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    eventually("it has space for others", || {
        server.keyspace.ask_for_space();
        server.keyspace.lack_of_space().is_none()
    });
    client.expect("SET after 1", "+OK");
    client.expect("DBSIZE", ":2");
}

/// Removals of keys, also by expiry, used up the room that the log keeps for them, and `FLUSHALL` was refused then.
#[test]
fn found_a_server_could_not_be_flushed_after_its_keys_had_gone_one_by_one() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    (0..8000).for_each(|number| client.expect(&format!("SET small:{number} v"), "+OK"));
    fill(&disk, &mut client);
    disk.set_capacity(disk.used_bytes());
    let removed = (0..8000).find(|number| client.run(&format!("DEL small:{number}")).starts_with("-MISCONF"));
    assert!(removed.is_some_and(|count| count > 1000), "{removed:?}");
    client.expect("FLUSHALL", "+OK");
    client.expect("DBSIZE", ":0");
    disk.set_capacity(disk.used_bytes() + 16_384);
    client.expect("SAVE", "+OK");
    eventually("the space is given back", || {
        server.keyspace.ask_for_space();
        client.run("SET again 1") == "+OK\r\n"
    });
}

/// A deadline in the past removes its key, and was refused with all other deadlines.
#[test]
fn a_full_disk_takes_deadlines_in_the_past() {
    let disk = SimDisk::new();
    let server = over(&disk, 1 << 30);
    let mut client = Client::new(&server);
    client.expect("SET stays 1", "+OK");
    let count = fill(&disk, &mut client);
    for (at, command) in ["EXPIREAT {} 1", "PEXPIREAT {} 1000", "EXPIRE {} -1", "PEXPIRE {} 0"].into_iter().enumerate()
    {
        client.expect(&command.replace("{}", &format!("key:{at:05}")), ":1");
    }
    client.expect("GETEX stays EXAT 1", "$1|1");
    client.expect("DBSIZE", &format!(":{}", count - 4));
    client.expect("EXPIRE none 100", ":0");
    for command in ["EXPIRE key:00007 100", "GETEX key:00007 EX 100", "PERSIST key:00007"] {
        let refused = client.run(command);
        assert!(refused.starts_with("-MISCONF The disk is full"), "{command}: {refused}");
    }
    client.expect("TTL key:00007", ":-1");
    client.run_all(&["MULTI", "EXPIRE key:00007 100", "DEL key:00008"]);
    let answers = client.run("EXEC");
    assert!(answers.contains("-MISCONF") && answers.contains(":1"), "{answers}");
    client.expect("EXISTS key:00007 key:00008", ":1");
}

/// Over runs a full disk was told as memory that is full, with the advice to raise `maxmemory`.
#[test]
fn a_disk_that_takes_no_run_is_told_as_a_full_disk() {
    let disk = SimDisk::new();
    let server = over(&disk, 64 << 10);
    let mut client = Client::new(&server);
    fill(&disk, &mut client);
    for command in ["SET a 1", "APPEND a 1", "ZADD z 1 m"] {
        let answer = String::from_utf8_lossy(&client.send(&[words(command)])).into_owned();
        assert!(answer.starts_with("-MISCONF The disk is full: "), "{command}: {answer}");
        assert!(!answer.contains("maxmemory"), "{command}: {answer}");
    }
}

/// Every PUT was refused while `/healthz` and `/readyz` said that all was well.
#[test]
fn a_full_disk_is_told_over_http_where_entities_can_be_deleted() {
    for durability in [Durability::Os, Durability::Sync] {
        let disk = SimDisk::new();
        let server = Arc::new(over_as(&disk, 1 << 30, durability));
        let listening = http::listen(&server, HttpOptions::default()).expect("listening");
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(listening.addresses[0]).expect("a connection");
            stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
            stream.write_all(request.as_bytes()).expect("sent");
            let told = rest(&mut stream);
            (told[9..12].to_owned(), told)
        };
        let value = "v".repeat(2000);
        let put = |number: u32| {
            ask(&format!("PUT /v0/entity?id=key{number} HTTP/1.0\r\nContent-Length: 2000\r\n\r\n{value}"))
        };
        let get = |path: &str| ask(&format!("GET {path} HTTP/1.0\r\n\r\n"));
        disk.set_capacity(disk.used_bytes());
        let refused = (0..10_000).map(put).find(|(status, _)| status != "201").expect("a full disk");
        assert!(refused.0 == "507" && refused.1.contains("space"), "{refused:?}");
        let (status, told) = get("/readyz");
        assert!(status == "503" && told.contains("the disk is full"), "{told}");
        let (status, told) = get("/healthz");
        assert!(status == "200" && told.contains("the disk is full"), "{told}");
        assert!(get("/metrics").1.contains("quipu_disk_full 1\n"));
        let (status, told) = ask("DELETE /v0/entity?id=key0 HTTP/1.0\r\n\r\n");
        assert!(status.starts_with('2'), "{told}");
        assert_eq!((get("/v0/entity?id=key0").0, get("/v0/entity?id=key1").0), ("404".to_owned(), "200".to_owned()));
        disk.set_capacity(u64::MAX);
        eventually("writes are taken again", || put(0).0 == "201");
        assert_eq!((get("/readyz").0, get("/healthz").1.contains("full")), ("200".to_owned(), false));
        listening.stop();
    }
}
