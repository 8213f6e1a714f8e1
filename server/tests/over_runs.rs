//! Goal: a server whose keys lie in runs answers as one whose keys lie in memory; a command that lacks a page holds up
//! only its own connection, whose answers keep their order; what it did before it lacked the page is not seen.
//! Method: servers with sockets over tiny pages and hardly any cache, and a disk that counts, fails and is full.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::sockets::{Running, ask, eventually, line, take};
use crate::support::tiny_pages;
use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, Options};
use quipu_server::config::Config;
use quipu_server::{Server, keyspace, net};

fn options(disk: &SimDisk) -> Options {
    tiny_pages(disk, 8 << 10)
}

fn running(disk: &SimDisk) -> Running {
    over(Db::open(Path::new("/server"), options(disk)).expect("a database"))
}

fn over(db: Db) -> Running {
    let config = Config { port: Some(0), ..Config::default() }.with_durability(Durability::Os);
    let server = Arc::new(Server::over(db, config).expect("a server"));
    let listening = net::listen(&server).expect("listening");
    Running { server, listening: Some(listening) }
}

/// Writes all tables to runs.
fn flush(running: &Running) {
    crate::support::flush(&running.server);
}

fn faults(running: &Running) -> u64 {
    running.server.statistics.page_faults.load(Ordering::Relaxed)
}

/// Sends a command, whose words may be long, and takes its answer.
fn take_answer(client: &mut TcpStream, words: &[&str], answer: &str) {
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command += &bulk(word));
    client.write_all(command.as_bytes()).expect("sent");
    take(client, answer);
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

const KEYS: usize = 3000;

fn value(number: usize) -> String {
    format!("value {number} {}", "x".repeat(number % 40))
}

/// A server with strings, some with deadlines, and a sorted set, all in runs.
fn with_keys(disk: &SimDisk) -> Running {
    let running = running(disk);
    let mut client = running.connect();
    let (mut commands, mut answers) = (String::new(), String::new());
    for number in 0..KEYS {
        commands += &match number % 10 {
            0 => format!("SET key:{number:05} \"{}\" EX 100000\r\n", value(number)),
            _ => format!("SET key:{number:05} \"{}\"\r\n", value(number)),
        };
        commands += &format!("ZADD z {number} member:{number:05}\r\n");
        answers += "+OK\r\n:1\r\n";
    }
    client.write_all(commands.as_bytes()).expect("sent");
    take(&mut client, &answers);
    flush(&running);
    running
}

#[test]
fn answers_keep_their_order_and_are_those_of_memory() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let before = faults(&running);
    let mut client = running.connect();
    let (mut commands, mut answers) = (String::new(), String::new());
    for number in (0..KEYS).step_by(37) {
        commands += &format!("GET key:{number:05}\r\nZSCORE z member:{number:05}\r\nZRANK z member:{number:05}\r\n");
        answers += &format!("{}{}:{number}\r\n", bulk(&value(number)), bulk(&number.to_string()));
        commands +=
            &format!("Q.NTH {number}\r\nQ.RANK key:{number:05}\r\nECHO here\r\nEXISTS key:{number:05} none\r\n");
        answers += &format!("{}:{number}\r\n{}:1\r\n", bulk(&format!("key:{number:05}")), bulk("here"));
    }
    commands += "DBSIZE\r\nZCARD z\r\nQ.COUNT [key:00100 (key:00200\r\n";
    answers += &format!(":{}\r\n:{KEYS}\r\n:100\r\n", KEYS + 1);
    client.write_all(commands.as_bytes()).expect("sent");
    take(&mut client, &answers);
    assert!(faults(&running) > before + 50, "{} faults", faults(&running) - before);
    assert_eq!(running.server.statistics.parked.load(Ordering::Relaxed), 0);
}

/// What is read at a snapshot lacks pages of its own: it is parked as any other command is, and answers of that moment.
#[test]
fn a_snapshot_over_runs_answers_as_one_of_memory() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    client.write_all(b"Q.SNAPSHOT SECONDS 3600\r\n").expect("sent");
    let taken = line(&mut client);
    let snapshot = taken.trim_start_matches(':').trim_end();
    let (mut commands, mut answers) = (String::new(), String::new());
    for number in (0..KEYS).step_by(2) {
        commands += &format!("DEL key:{number:05}\r\nZREM z member:{number:05}\r\n");
        answers += ":1\r\n:1\r\n";
    }
    client.write_all(commands.as_bytes()).expect("sent");
    take(&mut client, &answers);
    flush(&running);
    let before = faults(&running);
    let (mut commands, mut answers) = (String::new(), String::new());
    for number in (0..KEYS - 1).step_by(111) {
        let (key, next) = (format!("key:{number:05}"), format!("key:{:05}", number + 1));
        for command in [
            format!("GET {key}"),
            format!("ZSCORE z member:{number:05}"),
            format!("ZRANK z member:{number:05}"),
            format!("Q.NTH {number}"),
            format!("Q.RANK {key}"),
            format!("Q.RANGE - + OFFSET {number} LIMIT 2 WITHVALUES"),
            format!("Q.SPLIT [{key} [{next} 2"),
            "Q.QUANTILE - (z 0 0.5 1".to_owned(),
        ] {
            commands += &format!("Q.AT {snapshot} {command}\r\n");
        }
        answers += &format!("{}{}:{number}\r\n", bulk(&value(number)), bulk(&number.to_string()));
        answers += &format!("{}:{number}\r\n", bulk(&key));
        let pair = bulk(&key) + &bulk(&value(number)) + &bulk(&next) + &bulk(&value(number + 1));
        answers += &format!("*4\r\n{pair}*1\r\n{}", bulk(&next));
        let middle = format!("key:{:05}", KEYS / 2);
        answers += &format!("*3\r\n{}{}{}", bulk("key:00000"), bulk(&middle), bulk(&format!("key:{:05}", KEYS - 1)));
    }
    client.write_all(commands.as_bytes()).expect("sent");
    take(&mut client, &answers);
    assert!(faults(&running) > before + 50, "{} faults", faults(&running) - before);
    assert_eq!(running.server.statistics.parked.load(Ordering::Relaxed), 0);
}

/// Pages are loaded for commands that come after one that lacks some, before their words are looked at.
#[test]
fn commands_without_their_words_come_after_one_that_lacks_pages() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let before = faults(&running);
    let names = "get set getset getex del exists mget mset msetnx append getrange setrange incr incrby lcs bitcount \
                 bitfield setbit expire ttl persist type object rename copy move zadd zincrby zscore zrank zrange \
                 zrangestore zinter zunionstore zintercard zmpop zremrangebyrank q.rank q.nth q.range";
    for (number, name) in names.split_whitespace().enumerate() {
        let mut client = running.connect();
        let key = number * 29 % KEYS;
        let sent = format!("GET key:{key:05}\r\n{name}\r\n{name} 7\r\n{name} 0 0\r\nECHO end\r\n");
        client.write_all(sent.as_bytes()).expect("sent");
        let (mut all, mut part) = (Vec::new(), [0; 4096]);
        let end = bulk("end");
        while !all.ends_with(end.as_bytes()) {
            let read = client.read(&mut part).expect("an answer");
            assert!(read > 0, "{name}: closed after {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&part[..read]);
        }
        assert!(all.starts_with(bulk(&value(key)).as_bytes()), "{name}");
    }
    assert!(faults(&running) > before + 20);
}

#[test]
fn what_a_command_did_before_it_lacked_a_page_is_taken_back() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    // Each writes several rows of several tables, of which some are cold.
    for number in (0..KEYS - 50).step_by(101) {
        let (a, b) = (format!("key:{number:05}"), format!("key:{:05}", number + 7));
        ask(&mut client, &format!("SET {a} new EX 5000"), "+OK\r\n");
        ask(&mut client, &format!("MSET {a} 1 {b} 2 fresh:{number} 3"), "+OK\r\n");
        ask(&mut client, &format!("RENAME {b} {a}"), "+OK\r\n");
        ask(&mut client, &format!("ZADD z {} member:{number:05} -1 extra:{number}", number + 100_000), ":1\r\n");
        ask(&mut client, &format!("ZREM z extra:{number} member:{number:05} nobody"), ":2\r\n");
        ask(&mut client, &format!("DEL {a} {b} fresh:{number}"), ":2\r\n");
        flush(&running);
    }
    assert!(faults(&running) > 100);
    let found = keyspace::check(running.server.keyspace.db()).expect("read");
    assert!(found.is_empty(), "{found:#?}");
    let removed = (0..KEYS - 50).step_by(101).count();
    ask(&mut client, "DBSIZE", &format!(":{}\r\n", KEYS + 1 - 2 * removed));
    ask(&mut client, "ZCARD z", &format!(":{}\r\n", KEYS - removed));
}

#[test]
fn a_transaction_over_cold_keys_is_seen_as_a_whole() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let (mut client, mut other) = (running.connect(), running.connect());
    for round in 0..20 {
        let (a, b) = (format!("key:{:05}", 100 * round), format!("key:{:05}", 100 * round + 50));
        ask(&mut client, "MULTI", "+OK\r\n");
        ask(&mut client, &format!("SET {a} {round}"), "+QUEUED\r\n");
        ask(&mut client, &format!("INCR {a}"), "+QUEUED\r\n");
        ask(&mut client, &format!("GETSET {b} {round}"), "+QUEUED\r\n");
        ask(&mut client, "SELECT 0", "+QUEUED\r\n");
        client.write_all(b"EXEC\r\n").expect("sent");
        let old = bulk(&value(100 * round + 50));
        take(&mut client, &format!("*4\r\n+OK\r\n:{}\r\n{old}+OK\r\n", round + 1));
        other.write_all(format!("MGET {a} {b}\r\n").as_bytes()).expect("sent");
        take(&mut other, &format!("*2\r\n{}{}", bulk(&(round + 1).to_string()), bulk(&round.to_string())));
        flush(&running);
    }
    // A client that watches is told of a change, once, and of no change that was taken back.
    ask(&mut other, "WATCH key:00777", "+OK\r\n");
    ask(&mut client, "SETNX key:00777 never", ":0\r\n");
    ask(&mut other, "MULTI", "+OK\r\n");
    ask(&mut other, "GET key:00001", "+QUEUED\r\n");
    ask(&mut other, "EXEC", &format!("*1\r\n{}", bulk(&value(1))));
    ask(&mut other, "WATCH key:00778", "+OK\r\n");
    ask(&mut client, "APPEND key:00778 more", &format!(":{}\r\n", value(778).len() + 4));
    ask(&mut other, "MULTI", "+OK\r\n");
    ask(&mut other, "EXEC", "*-1\r\n");
}

#[test]
fn what_is_drawn_by_chance_is_drawn_once() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    for _ in 0..30 {
        // With another key at each attempt, it would hardly ever find its page.
        client.write_all(b"RANDOMKEY\r\nZRANDMEMBER z\r\nQ.SAMPLE - + 3\r\nPING\r\n").expect("sent");
        let mut answer = String::new();
        let mut byte = [0];
        while !answer.ends_with("+PONG\r\n") {
            client.read_exact(&mut byte).expect("an answer");
            answer.push(byte[0] as char);
        }
        assert_eq!(answer.matches('$').count(), 5, "{answer}");
    }
}

#[test]
fn keys_that_expire_are_gone_though_their_pages_are_cold() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    for number in (0..KEYS).step_by(50) {
        ask(&mut client, &format!("PEXPIRE key:{number:05} 1"), ":1\r\n");
    }
    flush(&running);
    std::thread::park_timeout(Duration::from_millis(5));
    ask(&mut client, "DBSIZE", &format!(":{}\r\n", KEYS + 1 - KEYS / 50));
    ask(&mut client, "GET key:00050", "$-1\r\n");
    ask(&mut client, "Q.COUNT [key:00000 (key:00101", ":98\r\n");
    let db = running.server.keyspace.db();
    eventually("expired keys are removed", || {
        db.stats()
            .tables
            .iter()
            .any(|table| table.name == "expires.0" && table.tally.rows == (KEYS / 10 - KEYS / 50) as i64)
    });
    assert!(keyspace::check(db).expect("read").is_empty());
}

#[test]
fn a_page_that_cannot_be_read_is_the_answer_of_those_commands_that_need_it() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    ask(&mut client, "SET fresh 1", "+OK\r\n");
    for name in disk.file_names().into_iter().filter(|name| name.to_string_lossy().contains("run-")) {
        let bytes = disk.read_file(&name).expect("a file").len() as u64;
        disk.make_unreadable(&name, 0..bytes);
    }
    client.write_all(b"GET key:01000\r\nGET fresh\r\nGET key:02000\r\nPING\r\n").expect("sent");
    let mut answer = vec![0; 4096];
    let mut len = 0;
    while !answer[..len].ends_with(b"+PONG\r\n") {
        len += client.read(&mut answer[len..]).expect("an answer");
    }
    let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
    let lines: Vec<&str> = answer.split_terminator("\r\n").collect();
    assert!(lines[0].starts_with("-ERR"), "{answer}");
    assert_eq!(lines[1..3], ["$1", "1"], "{answer}");
    assert!(lines[3].starts_with("-ERR"), "{answer}");
    ask(&mut client, "SET fresh 2", "+OK\r\n");
}

#[test]
fn a_client_that_leaves_while_its_command_is_parked_harms_nobody() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    for round in 0..50 {
        let mut gone = running.connect();
        let commands: String =
            (0..20).map(|number| format!("GET key:{:05}\r\n", (round * 53 + number * 17) % KEYS)).collect();
        gone.write_all(commands.as_bytes()).expect("sent");
        drop(gone);
    }
    let mut client = running.connect();
    ask(&mut client, "GET key:00123", &bulk(&value(123)));
    eventually("nobody is parked", || running.server.statistics.parked.load(Ordering::Relaxed) == 0);
}

#[test]
fn a_full_disk_refuses_writes_and_answers_reads() {
    let disk = SimDisk::new();
    let running = with_keys(&disk);
    let mut client = running.connect();
    disk.set_capacity(1);
    let long = "y".repeat(50_000);
    let mut refused = String::new();
    for number in 0..400 {
        client.write_all(format!("SET key:{number:05} {long}\r\n").as_bytes()).expect("sent");
        let mut answer = [0; 256];
        let len = client.read(&mut answer).expect("an answer");
        if answer[0] == b'-' {
            refused = String::from_utf8_lossy(&answer[..len]).into_owned();
            break;
        }
    }
    assert!(refused.starts_with("-MISCONF") || refused.starts_with("-OOM"), "{refused}");
    ask(&mut client, "GET key:02345", &bulk(&value(2345)));
    ask(&mut client, "ZSCORE z member:00007", &bulk("7"));
}

/// Does something at the end of a block, also where that panics.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What the command prepared went to runs before it held the data, so each attempt lacked other pages than the one
/// before, and prepared all of it again: for ever. Found by the storm.
#[test]
fn a_long_value_is_written_however_often_runs_change() {
    let disk = SimDisk::new();
    let db = Db::open(Path::new("/server"), Options { cache_bytes: 0, ..options(&disk) }).expect("a database");
    let running = over(db);
    let mut client = running.connect();
    let [long, other] = ["v", "w"].map(|letter| letter.repeat(1_100_000));
    take_answer(&mut client, &["SET", "long", &long], "+OK\r\n");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                flush(&running);
                for table in running.server.keyspace.db().tables() {
                    table.compact().expect("a merge");
                }
            }
        });
        let _ends = OnDrop(|| is_done.store(true, Ordering::Relaxed));
        for _ in 0..3 {
            take_answer(&mut client, &["MSET", "long", &other, "long", &long], "+OK\r\n");
        }
    });
    take_answer(&mut client, &["STRLEN", "long"], ":1100000\r\n");
}

/// A RENAME onto a long string lacked pages of what it replaced, was taken back, and left the pieces that it had moved
/// to be removed: in the next attempt they were the new key's, and were removed all the same.
#[test]
fn found_a_rename_that_lacked_pages_lost_the_bytes_it_moved() {
    const STRINGS: usize = 12;
    let disk = SimDisk::new();
    let running = running(&disk);
    let mut client = running.connect();
    let text = |number: usize| char::from(b'a' + number as u8).to_string().repeat(60_000 + 1000 * number);
    let mut model: Vec<Option<usize>> = (0..STRINGS).map(Some).collect();
    for number in 0..STRINGS {
        take_answer(&mut client, &["SET", &format!("key{number}"), &text(number)], "+OK\r\n");
    }
    for round in 0..60 {
        flush(&running);
        let (from, to) = (round * 5 % STRINGS, (round * 7 + 1) % STRINGS);
        if from == to || model[from].is_none() {
            continue;
        }
        let (names, moved) = ((format!("key{from}"), format!("key{to}")), model[from].take());
        match round % 3 {
            0 => take_answer(&mut client, &["RENAME", &names.0, &names.1], "+OK\r\n"),
            1 => {
                client.write_all(b"MULTI\r\n").expect("sent");
                take(&mut client, "+OK\r\n");
                take_answer(&mut client, &["RENAME", &names.0, &names.1], "+QUEUED\r\n");
                client.write_all(b"EXEC\r\n").expect("sent");
                take(&mut client, "*1\r\n+OK\r\n");
            }
            _ => {
                take_answer(&mut client, &["COPY", &names.0, &names.1, "REPLACE"], ":1\r\n");
                model[from] = moved;
            }
        }
        model[to] = moved;
        // As housekeeping does in its time.
        while running.server.keyspace.remove_step().expect("removed") {}
        for (number, content) in model.iter().enumerate() {
            let answer = content.map_or("$-1\r\n".to_owned(), |content| bulk(&text(content)));
            take_answer(&mut client, &["GET", &format!("key{number}")], &answer);
        }
        if model.iter().flatten().count() < STRINGS / 2 {
            for (number, content) in model.iter_mut().enumerate().filter(|(_, content)| content.is_none()) {
                take_answer(&mut client, &["SET", &format!("key{number}"), &text(number)], "+OK\r\n");
                *content = Some(number);
            }
        }
    }
    assert!(faults(&running) > 0);
    assert!(keyspace::check(running.server.keyspace.db()).expect("read").is_empty());
}
