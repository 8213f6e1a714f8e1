//! Goal: each command that takes over or removes what keys own does over runs what it does in memory, byte for byte;
//! a page that cannot be read leaves it done as a whole, or not at all, and then it can be given again.
//!
//! Method: the same keys in memory and, cold, on a disk. A command is given to both. Then, for each read that it made,
//! it is given over a copy of the disk where that read fails: each eighth command in an everyday run, beginning at the
//! seed, all of them with eight seeds.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::sockets::{DEADLINE, rest};
use crate::support::{Client, flush, tiny_pages, words};
use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, Options};
use quipu_server::config::Config;
use quipu_server::entities::LONG_BYTES;
use quipu_server::http::{self, HttpOptions};
use quipu_server::keyspace::Cut;
use quipu_server::{Server, keyspace};
use quipu_testing::seeds::seeds;

const CUT: Cut = Cut { whole_bytes_max: 300, piece_bytes: 100 };

/// Of as many parts of all commands, one is given over failing reads for each seed.
const PARTS: usize = 8;

/// Names that commands here use, there or not.
const NAMES: [&str; 12] = ["free", "gone", "l0", "l1", "l2", "s0", "s1", "z0", "z1", "z2", "z3", "z4"];

fn in_memory() -> Server {
    let db = Db::open(Path::new("/server"), Options::without_files()).expect("a database");
    Server::over_cut(db, Config::default(), CUT).expect("a server")
}

fn over(disk: &SimDisk) -> Server {
    over_as(disk, Config::default())
}

/// Over tiny pages and hardly any cache.
fn over_as(disk: &SimDisk, config: Config) -> Server {
    let db = Db::open(Path::new("/server"), tiny_pages(disk, 4 << 10)).expect("a database");
    Server::over_cut(db, config, CUT).expect("a server")
}

/// A disk on which all that `fill` has put lies in runs.
fn cold() -> SimDisk {
    let disk = SimDisk::new();
    let server = over(&disk);
    fill(&server);
    flush(&server);
    drop(server);
    disk
}

/// Bytes that no other value has. Some are zero.
fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| ((place * 31 + place / 7 + seed * 101) % 251) as u8).collect()
}

fn set(name: &str, value: Vec<u8>) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), name.into(), value]
}

/// Strings that are long and short, sorted sets that are large and small, some with a deadline, in two databases.
fn fill(server: &Server) {
    let mut client = Client::new(server);
    for database in [1, 0] {
        client.expect(&format!("SELECT {database}"), "+OK");
        for (name, length) in [("l0", 2500), ("l1", 900), ("l2", 1300), ("s0", 50), ("s1", 20)] {
            assert_eq!(client.send(&[set(name, bytes(length + database, length))]), b"+OK\r\n");
        }
        for (name, first, count) in [("z0", 0, 60), ("z1", 30, 60), ("z2", 88, 3), ("z3", 0, 40)] {
            for number in first..first + count {
                let score = (number * 37) % 100;
                client.run(&format!("ZADD {name} {score}.5 member:{number:03}:{}", "m".repeat(20)));
            }
        }
        client.expect("PEXPIREAT l2 99999999999999", ":1");
        client.expect("PEXPIREAT z3 99999999999999", ":1");
        for number in 0..60 {
            client.run(&format!("SET filler:{number:02} {}", "x".repeat(40)));
        }
    }
}

/// All that is there, by database and name: a string or the members of a set, and the deadline.
fn everything(server: &Server) -> BTreeMap<String, String> {
    let mut client = Client::new(server);
    let mut found = BTreeMap::new();
    for database in 0..2 {
        client.expect(&format!("SELECT {database}"), "+OK");
        found.insert(format!("{database} "), client.run("DBSIZE"));
        for name in NAMES {
            let lines = ["GET", "PEXPIRETIME", "OBJECT ENCODING"].map(|verb| words(&format!("{verb} {name}")));
            let range = words(&format!("ZRANGE {name} 0 -1 WITHSCORES"));
            let answer: Vec<u8> = lines.iter().chain([&range]).flat_map(|line| client.send(&[line])).collect();
            found.insert(format!("{database} {name}"), answer.escape_ascii().to_string());
        }
    }
    while server.keyspace.remove_step().expect("removed") {}
    assert_eq!(keyspace::check(server.keyspace.db()).expect("read"), Vec::<String>::new());
    found
}

#[track_caller]
fn same(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>, told: &str) {
    for (name, value) in expected {
        assert_eq!(&found[name], value, "{name} {told}");
    }
}

/// Commands of one client, each of which is answered before the next.
type Lines = Vec<Vec<Vec<u8>>>;

fn give(server: &Server, lines: &Lines) -> Vec<Vec<u8>> {
    let mut client = Client::new(server);
    lines.iter().map(|line| client.send(&[line])).collect()
}

fn lines(text: &str) -> Lines {
    text.split("; ").map(words).collect()
}

/// Commands that put something where a long string, a large set or nothing is, or that remove it.
fn all_commands() -> Vec<Lines> {
    let owners = ["l0", "z0", "z3", "l2"];
    let mut all: Vec<Lines> = Vec::new();
    fn add(all: &mut Vec<Lines>, text: String) {
        all.push(lines(&text));
    }
    for to in owners {
        for from in ["l1", "z1", "z2", "s0"] {
            add(&mut all, format!("RENAME {from} {to}"));
            add(&mut all, format!("RENAMENX {from} {to}"));
            add(&mut all, format!("COPY {from} {to} REPLACE"));
            add(&mut all, format!("COPY {from} {to} DB 1 REPLACE"));
        }
        add(&mut all, format!("RENAMENX {to} free"));
        add(&mut all, format!("MOVE {to} 1"));
        add(&mut all, format!("MULTI; SELECT 1; DEL {to}; SELECT 0; MOVE {to} 1; EXEC"));
        for verb in ["DEL", "UNLINK", "GETDEL", "PERSIST", "GETEX", "INCR", "STRLEN"] {
            add(&mut all, format!("{verb} {to}"));
        }
        add(&mut all, format!("DEL {to} z1 none l1"));
        add(&mut all, format!("PEXPIREAT {to} 1"));
        add(&mut all, format!("PEXPIREAT {to} 99999999999998"));
        add(&mut all, format!("GETEX {to} PXAT 1"));
        add(&mut all, format!("SET {to} short KEEPTTL"));
        add(&mut all, format!("SET {to} short XX GET"));
        add(&mut all, format!("SETNX {to} short"));
        add(&mut all, format!("GETSET {to} short"));
        add(&mut all, format!("MSET {to} short l1 short z1 short"));
        add(&mut all, format!("MSETNX free short {to} short"));
        add(&mut all, format!("APPEND {to} {}", "a".repeat(500)));
        add(&mut all, format!("SETRANGE {to} 700 {}", "b".repeat(500)));
        add(&mut all, format!("SETBIT {to} 9000 1"));
        add(&mut all, format!("BITFIELD {to} SET u8 #400 7 INCRBY u16 #700 9"));
        add(&mut all, format!("BITOP NOT {to} l1"));
        add(&mut all, format!("BITOP XOR {to} l1 s0 {to}"));
        add(&mut all, format!("BITOP AND {to} none none"));
        add(&mut all, format!("ZADD {to} 1 new 2 member:000:{}", "m".repeat(20)));
        add(&mut all, format!("ZADD {to} XX CH 1 new 2 member:000:{}", "m".repeat(20)));
        add(&mut all, format!("ZINCRBY {to} 5 member:001:{}", "m".repeat(20)));
        add(&mut all, format!("ZREM {to} new member:002:{}", "m".repeat(20)));
        add(&mut all, format!("ZPOPMIN {to} 100"));
        add(&mut all, format!("ZPOPMAX {to} 7"));
        add(&mut all, format!("ZMPOP 2 none {to} MIN COUNT 100"));
        add(&mut all, format!("ZREMRANGEBYRANK {to} 0 -1"));
        add(&mut all, format!("ZREMRANGEBYRANK {to} 5 20"));
        add(&mut all, format!("ZREMRANGEBYSCORE {to} -inf +inf"));
        add(&mut all, format!("ZREMRANGEBYLEX {to} - +"));
        for verb in ["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"] {
            add(&mut all, format!("{verb} {to} 2 z1 z2"));
            add(&mut all, format!("{verb} {to} 2 z1 {to}"));
            add(&mut all, format!("{verb} {to} 2 none none"));
        }
        add(&mut all, format!("ZINTERSTORE {to} 2 z0 z2"));
        add(&mut all, format!("ZDIFFSTORE {to} 2 z2 z1"));
        add(&mut all, format!("ZRANGESTORE {to} z1 0 -1"));
        add(&mut all, format!("ZRANGESTORE {to} z1 20 60 BYSCORE LIMIT 3 9"));
        add(&mut all, format!("ZRANGESTORE {to} z1 500 600"));
        add(&mut all, format!("MULTI; RENAME {to} free; SET {to} 1; COPY free {to} REPLACE; UNLINK free; EXEC"));
        add(
            &mut all,
            format!("MULTI; ZUNIONSTORE {to} 1 z1; RENAME {to} l1; SWAPDB 0 1; DEL {to}; RENAME z1 l2; EXEC"),
        );
    }
    for line in [
        "FLUSHDB",
        "FLUSHDB ASYNC",
        "FLUSHALL",
        "MULTI; SWAPDB 0 1; DEL l0 z0; EXEC",
        "MULTI; FLUSHDB; SET l0 1; COPY l0 z0; EXEC",
        "MULTI; SWAPDB 0 1; FLUSHDB; RENAME z0 l0; EXEC",
        "Q.DELRANGE - +",
        "Q.DELRANGE [l (z",
        "Q.DELRANGE (l0 [z0",
        "Q.DELRANGE [z0 [z0",
        "MULTI; Q.DELRANGE [l (m; RENAME z0 l0; RENAME z1 l1; EXEC",
        "MULTI; SETRANGE l0 2400 more; COPY l0 z0 REPLACE; GETDEL l0; EXEC",
    ] {
        add(&mut all, line.to_owned());
    }
    // What DUMP says of each, and a long value from outside.
    let memory = in_memory();
    fill(&memory);
    for from in ["l1", "z1", "s0"] {
        let dump = Client::new(&memory).send(&[words(&format!("DUMP {from}"))]);
        let start = dump.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        for to in owners {
            for further in [&[b"REPLACE".to_vec()][..], &[]] {
                let line = [b"RESTORE".to_vec(), to.into(), b"0".to_vec(), dump[start..dump.len() - 2].to_vec()];
                all.push(vec![[&line[..], further].concat()]);
            }
        }
    }
    for to in owners {
        all.push(vec![set(to, bytes(7, 1700))]);
        all.push(vec![vec![b"GETSET".to_vec(), to.into(), bytes(8, 1700)]]);
        all.push(vec![vec![b"APPEND".to_vec(), to.into(), bytes(9, 1700)]]);
        all.push(vec![vec![b"MSET".to_vec(), to.into(), bytes(10, 1700), b"z1".to_vec(), bytes(11, 600)]]);
    }
    all
}

/// Commands that prepare what they write beside the loop, while nothing is held.
fn long_commands() -> Vec<Lines> {
    let long = bytes(12, LONG_BYTES as usize + 1000);
    let of = |to: &str| {
        [
            vec![set(to, long.clone())],
            vec![vec![b"APPEND".to_vec(), to.into(), long.clone()]],
            vec![vec![b"SETRANGE".to_vec(), to.into(), b"700".to_vec(), long.clone()]],
        ]
    };
    ["l0", "z3"].into_iter().flat_map(of).collect()
}

fn told(lines: &Lines) -> String {
    let line = |line: &Vec<Vec<u8>>| line.join(&b' ').escape_ascii().to_string().chars().take(90).collect::<String>();
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// What a command answers and leaves in memory.
fn warm(lines: &Lines) -> (Vec<Vec<u8>>, BTreeMap<String, String>) {
    let server = in_memory();
    fill(&server);
    (give(&server, lines), everything(&server))
}

#[test]
fn commands_over_cold_owners_answer_and_leave_what_they_do_in_memory() {
    let disk = cold();
    let mut lacked = 0;
    for lines in all_commands().into_iter().chain(long_commands()) {
        let (answers, after) = warm(&lines);
        let server = over(&disk.kill());
        assert_eq!(give(&server, &lines), answers, "{}", told(&lines));
        lacked += server.statistics.page_faults.load(Ordering::Relaxed);
        same(&everything(&server), &after, &told(&lines));
    }
    assert!(lacked > 1000, "{lacked} attempts lacked pages");
}

#[test]
fn a_page_that_cannot_be_read_leaves_a_command_done_or_not_begun() {
    let disk = cold();
    let before = everything(&over(&disk.kill()));
    let (all, mut refused) = (all_commands(), 0);
    for lines in seeds(1).flat_map(|seed| all.iter().skip(seed as usize % PARTS).step_by(PARTS)) {
        let (answers, after) = warm(lines);
        for nth in 0.. {
            let copy = disk.kill();
            let server = over(&copy);
            let failing = copy.reads() + nth;
            copy.fail_read_at(failing);
            let found = give(&server, lines);
            let told = format!("({}) when read {nth} fails", told(lines));
            if copy.reads() <= failing {
                break;
            }
            if found != answers {
                let last = found.last().expect("an answer");
                assert!(last.starts_with(b"-"), "{told}: {}", last.escape_ascii());
                refused += 1;
                same(&everything(&server), &before, &told);
                assert_eq!(give(&server, lines), answers, "{told}, and again");
            }
            same(&everything(&server), &after, &told);
        }
    }
    assert!(refused > 200, "{refused} commands were refused");
}

/// A request over HTTP: what it does, the condition it has, and the value.
struct Request {
    line: String,
    condition: String,
    value: Vec<u8>,
}

/// Requests that hold or are refused, each about a key of its own, and what is there after those that hold.
fn requests(tags: &BTreeMap<&str, String>) -> Vec<(Request, &'static str, Option<Vec<u8>>, u16)> {
    let request = |line: &str, condition: String, value: Option<Vec<u8>>| {
        let value = value.unwrap_or_default();
        Request { line: line.to_owned(), condition, value }
    };
    let (long, short) = (Some(bytes(3, 1900)), Some(bytes(4, 40)));
    let none = String::new();
    let put = |name: &'static str, condition: &str, value: &Option<Vec<u8>>, status: u16| {
        let line = format!("PUT /v0/entity?id={name}");
        let left = if status < 300 { value.clone() } else { None };
        (request(&line, condition.to_owned(), value.clone()), name, left, status)
    };
    let delete = |name: &'static str, condition: &str, status: u16| {
        (request(&format!("DELETE /v0/entity?id={name}"), condition.to_owned(), None), name, None, status)
    };
    vec![
        put("l0", &none, &long, 201),
        put("l1", &format!("If-Match: {}\r\n", tags["l1"]), &long, 201),
        put("l2", "If-None-Match: *\r\n", &long, 412),
        put("s0", "If-Match: *\r\n", &long, 201),
        put("s1", "If-Match: \"0000\"\r\n", &short, 412),
        put("z0", &none, &long, 201),
        put("z1", &none, &short, 201),
        put("free", "If-None-Match: *\r\n", &long, 201),
        delete("z2", &none, 202),
        delete("z3", &none, 202),
        delete("l3", &format!("If-Match: {}\r\n", tags["l3"]), 202),
        delete("l4", "If-Match: \"0000\"\r\n", 412),
        delete("l5", &none, 202),
    ]
}

/// Sends all of them at once, each over a connection of its own, and returns their statuses.
fn ask_at_once(address: std::net::SocketAddr, requests: &[&Request]) -> Vec<u16> {
    let mut streams: Vec<TcpStream> = requests
        .iter()
        .map(|Request { line, condition, value }| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
            let head = format!("{line} HTTP/1.0\r\n{condition}Content-Length: {}\r\n\r\n", value.len());
            stream.write_all(&[head.as_bytes(), value].concat()).expect("sent");
            stream.shutdown(Shutdown::Write).expect("nothing more");
            stream
        })
        .collect();
    streams.iter_mut().map(|stream| rest(stream)[9..12].parse().expect("a status")).collect()
}

/// Requests that come together are a group of writes, of which some lack pages and are made with the next group.
#[test]
fn entities_over_cold_owners_are_put_and_deleted_as_a_whole_over_http_whatever_page_fails() {
    let disk = cold();
    let tags = {
        let server = Arc::new(over(&disk));
        let listening = http::listen(&server, HttpOptions::default()).expect("listening");
        let puts: Vec<(&str, Request)> = ["l1", "l3", "l4", "l5"]
            .map(|name| {
                let line = format!("PUT /v0/entity?id={name}");
                (name, Request { line, condition: String::new(), value: bytes(name.len(), 2000) })
            })
            .into();
        let statuses = ask_at_once(listening.addresses[0], &puts.iter().map(|(_, put)| put).collect::<Vec<_>>());
        assert_eq!(statuses, [201; 4]);
        let tags = puts.iter().map(|(name, _)| {
            let mut stream = TcpStream::connect(listening.addresses[0]).expect("a connection");
            stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
            stream.write_all(format!("HEAD /v0/entity?id={name} HTTP/1.0\r\n\r\n").as_bytes()).expect("sent");
            let told = rest(&mut stream).to_lowercase();
            let tag = told.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").trim().to_owned();
            (*name, tag)
        });
        let tags = tags.collect::<BTreeMap<_, _>>();
        listening.stop();
        flush(&server);
        tags
    };
    let string = |server: &Server, name: &str| Client::new(server).send(&[words(&format!("GET {name}"))]);
    let before = over(&disk.kill());
    let requests = requests(&tags);
    let all: Vec<&Request> = requests.iter().map(|(request, ..)| request).collect();
    for durability in [Durability::Os, Durability::Sync] {
        let mut failed = 0;
        for nth in 0.. {
            let copy = disk.kill();
            let server = Arc::new(over_as(&copy, Config::default().with_durability(durability)));
            let listening = http::listen(&server, HttpOptions::default()).expect("listening");
            let failing = copy.reads() + nth;
            // The pages of a group are read together, and those of each request again if that fails.
            (failing..failing + 3).for_each(|read| copy.fail_read_at(read));
            let statuses = ask_at_once(listening.addresses[0], &all);
            let is_over = copy.reads() <= failing;
            if is_over {
                assert_eq!(statuses, requests.iter().map(|(.., status)| *status).collect::<Vec<_>>());
                assert!(nth > 10, "{nth} reads");
                listening.stop();
                break;
            }
            for number in (0..60).cycle().take_while(|_| copy.reads() < failing + 3) {
                Client::new(&server).run(&format!("GET filler:{number:02}"));
            }
            for ((request, name, left, status), found) in requests.iter().zip(statuses) {
                let told = format!("{} when read {nth} fails", request.line);
                let is_failed = found >= 500;
                failed += usize::from(is_failed);
                assert!(found == *status || is_failed, "{told}: {found}");
                let stays = is_failed || *status == 412;
                let expected = match left {
                    _ if stays => string(&before, name),
                    Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                    None => b"$-1\r\n".to_vec(),
                };
                let value = string(&server, name);
                assert_eq!(value.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{told}");
                if is_failed {
                    let again = ask_at_once(listening.addresses[0], &[request]);
                    assert_eq!(again, [*status], "{told}, and again");
                }
            }
            while server.keyspace.remove_step().expect("removed") {}
            assert_eq!(keyspace::check(server.keyspace.db()).expect("read"), Vec::<String>::new());
            listening.stop();
        }
        assert!(failed > 10, "{failed} requests failed");
    }
}
