//! Goal: long answers hold up no other client, take bounded memory and threads, and what their clients sent after them
//! is run as if they had been short. Method: a server with sockets over some ten thousand keys; clients that pipeline,
//! end their side, take nothing, or leave.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::support::sockets::{Running, ask, eventually, line, rest, take};
use quipu_server::keyspace::value::{Body, Entry, Header, Kind};
use quipu_server::keyspace::{Data, Need};

/// Keys above what is answered in the loop.
const KEYS: usize = 30_000;

fn key(number: usize) -> String {
    format!("key:{number:08}:{}", "x".repeat(60))
}

/// What `KEYS *` answers.
fn all_keys() -> String {
    let keys: String = (0..KEYS).map(|number| format!("${}\r\n{}\r\n", key(number).len(), key(number))).collect();
    format!("*{KEYS}\r\n{keys}")
}

fn with_keys() -> Running {
    let running = Running::new(|_| {});
    let mut data = Data::open(&running.server.keyspace, Need::Write, 0).expect("data");
    for number in 0..KEYS {
        let entry = Entry { header: Header::new(Kind::String), body: Body::Bytes(b"v") };
        data.put_entry(0, key(number).as_bytes(), entry).expect("put");
    }
    let _ = data.close().expect("committed");
    running
}

#[test]
fn commands_after_a_long_reply_run_without_the_client_sending_more() {
    let running = with_keys();
    let mut client = running.connect();
    // The reply is larger than what may wait to be sent before commands are held back.
    assert!(all_keys().len() > 2 << 20);
    client.write_all(b"KEYS *\r\nPING\r\nKEYS *\r\nSET a 1\r\nGET a\r\n").expect("sent");
    take(&mut client, &all_keys());
    take(&mut client, "+PONG\r\n");
    take(&mut client, &all_keys());
    take(&mut client, "+OK\r\n$1\r\n1\r\n");
}

#[test]
fn commands_after_a_long_reply_run_though_the_client_sends_no_more() {
    let running = with_keys();
    for round in 0..3 {
        let mut client = running.connect();
        client.write_all(b"KEYS *\r\nPING\r\nKEYS key:*\r\nSET a 1\r\n").expect("sent");
        client.shutdown(Shutdown::Write).expect("shut down");
        if round == 1 {
            // The answers wait for the client.
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let answers = rest(&mut client);
        assert_eq!(answers.len(), 2 * all_keys().len() + "+PONG\r\n+OK\r\n".len());
        assert!(answers.ends_with("\r\n+OK\r\n"));
        let mut other = running.connect();
        ask(&mut other, "DEL a", ":1\r\n");
    }
}

#[test]
fn clients_that_take_nothing_hold_little_and_leave_nothing_behind() {
    let running = with_keys();
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let mut client = running.connect();
            // More than the sockets take.
            client.write_all("KEYS *\r\n".repeat(10).as_bytes()).expect("sent");
            client
        })
        .collect();
    let server = &running.server;
    // Each is sent what its socket takes; then its command waits.
    let each = 128 << 10;
    eventually("all wait for their clients", || server.clients.held_bytes() >= clients.len() * each);
    assert!(server.clients.held_bytes() < clients.len() * 2 * each, "{}", server.clients.held_bytes());
    let mut other = running.connect();
    ask(&mut other, "PING", "+PONG\r\n");
    other.write_all(b"KEYS *\r\n").expect("sent");
    take(&mut other, &all_keys());
    drop(clients);
    eventually("their commands have ended", || server.keyspace.db().stats().snapshots == 0);
    eventually("nothing is held", || server.clients.held_bytes() == 0);
}

#[test]
fn clients_that_hold_more_than_all_may_are_closed_from_the_largest_on() {
    let running = Running::new(|config| {
        config.set("maxmemory-clients", "1mb").expect("a parameter");
    });
    let mut modest = running.connect();
    ask(&mut modest, "MULTI", "+OK\r\n");
    ask(&mut modest, "SET a 1", "+QUEUED\r\n");
    let mut greedy = running.connect();
    ask(&mut greedy, "MULTI", "+OK\r\n");
    let value = "v".repeat(300 << 10);
    for _ in 0..4 {
        greedy
            .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{value}\r\n", value.len()).as_bytes())
            .expect("sent");
    }
    let server = &running.server;
    eventually("it is held", || server.clients.held_bytes() > 1 << 20);
    eventually("the one that holds the most is closed", || {
        quipu_server::execution::housekeeping::evict_clients(server);
        server.clients.held_bytes() < 1 << 20
    });
    assert_eq!(rest(&mut greedy).matches("+QUEUED").count(), 4);
    ask(&mut modest, "EXEC", "*1\r\n+OK\r\n");
}

/// How many commands of a name the server has done by now, as a client is told.
fn calls_done(client: &mut TcpStream, command: &str) -> usize {
    client.write_all(b"INFO commandstats\r\n").expect("sent");
    let length: usize = line(client).trim_start_matches('$').trim_end().parse().expect("a length");
    let mut told = vec![0; length + 2];
    client.read_exact(&mut told).expect("an answer");
    let told = String::from_utf8_lossy(&told).into_owned();
    let calls = told.split_once(&format!("cmdstat_{command}:calls=")).and_then(|(_, rest)| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// A turn served all clients that had sent something, one after the other: the small command of one waited for the
/// large ones of all that came before.
#[test]
fn a_small_command_waits_for_few_of_many_large_ones() {
    const CLIENTS: usize = 100;
    let running = Running::new(|config| config.set("enable-debug-command", "yes").expect("a parameter"));
    let mut light = running.connect();
    let mut add = String::new();
    for number in 0..15_000 {
        add += &format!("ZADD big {number} member:{number}\r\n");
    }
    light.write_all(add.as_bytes()).expect("sent");
    take(&mut light, &":1\r\n".repeat(15_000));
    let (mut sleeper, mut heavy) = (running.connect(), (0..CLIENTS).map(|_| running.connect()).collect::<Vec<_>>());
    heavy.iter_mut().for_each(|client| ask(client, "PING", "+PONG\r\n"));
    // All have sent their commands before the loop sees the first of them.
    sleeper.write_all(b"DEBUG SLEEP 0.5\r\n").expect("sent");
    for client in &mut heavy {
        client.write_all(b"ZRANGE big 0 14999 WITHSCORES\r\n").expect("sent");
    }
    let done = calls_done(&mut light, "zrange");
    assert!(done < CLIENTS / 2, "{done} of {CLIENTS} large commands were done first");
    take(&mut sleeper, "+OK\r\n");
    // All are answered in the end.
    for client in &mut heavy {
        let mut line = [0; 8];
        client.read_exact(&mut line).expect("an answer");
        assert_eq!(&line, b"*30000\r\n");
    }
}

/// Each turn began with a client whose commands take long. One of more than 20 ms ended the turn, so small commands
/// were served when all of these had been.
#[test]
fn a_small_command_is_served_though_each_of_many_large_ones_takes_a_whole_turn() {
    const CLIENTS: usize = 20;
    let running = Running::new(|config| config.set("enable-debug-command", "yes").expect("a parameter"));
    let (mut light, mut sleeper) = (running.connect(), running.connect());
    let mut heavy: Vec<_> = (0..CLIENTS).map(|_| running.connect()).collect();
    // The server knows how long each one's commands take. A small command that was interrupted for long passes for a
    // large one, so there are some attempts.
    heavy.iter_mut().for_each(|client| ask(client, "DEBUG SLEEP 0.03", "+OK\r\n"));
    let mut attempt = || {
        let before = calls_done(&mut light, "debug|sleep");
        ask(&mut light, "PING", "+PONG\r\n");
        sleeper.write_all(b"DEBUG SLEEP 0.3\r\n").expect("sent");
        for client in &mut heavy {
            client.write_all(b"DEBUG SLEEP 0.03\r\n").expect("sent");
        }
        let done = calls_done(&mut light, "debug|sleep") - before;
        take(&mut sleeper, "+OK\r\n");
        heavy.iter_mut().for_each(|client| take(client, "+OK\r\n"));
        done
    };
    let is_served = (0..8).any(|_| attempt() < CLIENTS / 2);
    assert!(is_served, "nearly all {CLIENTS} large commands were done first, eight times");
}
