//! Goal: what a transaction says reaches each connection that listens once, in the order of commits, and at once if it
//! is idle. Method: several clients of one server.

use std::net::TcpStream;
use std::time::Duration;

use quipu_testing::seeds::with_seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::client::{Client, Running, message, texts};

/// The next message, which must be a notification: its process, channel and payload.
fn told(client: &mut Client<TcpStream>) -> (i32, String, String) {
    let body = client.expect('A');
    let process = i32::from_be_bytes(body[..4].try_into().expect("four bytes"));
    let mut parts = body[4..].split(|byte| *byte == 0);
    let mut text = || String::from_utf8(parts.next().expect("a text").to_vec()).expect("UTF-8");
    (process, text(), text())
}

/// The number of a connection, as its session says it.
fn process_of(client: &mut Client<TcpStream>) -> i32 {
    client.send(&message('Q', &texts(&["SELECT pg_backend_pid()"])));
    let told = client.until_ready();
    let (_, row) = told.iter().find(|(tag, _)| *tag == 'D').expect("a row");
    std::str::from_utf8(&row[6..]).expect("digits").parse().expect("a number")
}

#[test]
fn an_idle_connection_is_told_at_once() {
    let running = Running::new(|_| {});
    let (mut listener, mut speaker) = (running.session(), running.session());
    assert_eq!(listener.run("LISTEN news"), "CZ");
    let process = process_of(&mut speaker);
    assert_eq!(speaker.run("NOTIFY news, 'first'; NOTIFY news, 'first'; NOTIFY NEWS; NOTIFY other"), "CCCCZ");
    assert_eq!(told(&mut listener), (process, "news".to_owned(), "first".to_owned()));
    assert_eq!(told(&mut listener), (process, "news".to_owned(), String::new()));
    assert_eq!(speaker.run("SELECT pg_notify('news', x::text) FROM generate_series(1, 3) x"), "TDDDCZ");
    for number in ["1", "2", "3"] {
        assert_eq!(told(&mut listener).2, number);
    }
    // It goes on to answer, and to be told.
    assert_eq!(listener.run("SELECT 1"), "TDCZ");
    // Statements of one text are one transaction.
    speaker.run("NOTIFY news, 'never'; SELECT 1 / 0");
    assert_eq!(speaker.run("NOTIFY news, 'last'"), "CZ");
    assert_eq!(told(&mut listener).2, "last");
    // Its own come before the next statement may.
    assert_eq!(listener.run("NOTIFY news, 'own'"), "CAZ");
    assert_eq!(listener.run("UNLISTEN *"), "CZ");
    assert_eq!(speaker.run("NOTIFY news"), "CZ");
    assert_eq!(listener.run("SELECT 1"), "TDCZ");
}

#[test]
fn a_transaction_is_told_after_its_end() {
    let running = Running::new(|_| {});
    let (mut listener, mut speaker) = (running.session(), running.session());
    assert_eq!(listener.run("LISTEN a"), "CZ");
    assert_eq!(listener.run("BEGIN; NOTIFY a, 'own'"), "CCZ");
    assert_eq!(speaker.run("BEGIN; NOTIFY a, '1'"), "CCZ");
    assert_eq!(speaker.run("SAVEPOINT s; NOTIFY a, '2'; ROLLBACK TO s; NOTIFY a, '3'"), "CCCCZ");
    assert_eq!(listener.run("SELECT 1"), "TDCZ");
    assert_eq!(speaker.run("COMMIT"), "CZ");
    assert_eq!(listener.run("SELECT 1"), "TDCZ");
    assert_eq!(listener.run("COMMIT"), "CAAAZ");
    assert_eq!(speaker.run("BEGIN; NOTIFY a, 'never'; ROLLBACK"), "CCCZ");
    assert_eq!(speaker.run("BEGIN; LISTEN b; ROLLBACK"), "CCCZ");
    assert_eq!(listener.run("NOTIFY b"), "CZ");
    assert_eq!(speaker.run("SELECT * FROM pg_listening_channels()"), "TCZ");
    assert_eq!(listener.run("DISCARD ALL; NOTIFY a"), "CCZ");
    // With the extended protocol, at Sync.
    assert_eq!(listener.run("LISTEN c"), "CZ");
    let parse = message('P', &[&texts(&["", "NOTIFY c"])[..], &[0, 0]].concat());
    let bind = message('B', &[&texts(&["", ""])[..], &[0; 6]].concat());
    let execute = message('E', &[&texts(&[""])[..], &[0; 4]].concat());
    listener.send(&[parse, bind, execute, message('S', b"")].concat());
    assert_eq!(listener.kinds(), "12CAZ");
}

#[test]
fn a_quiet_listener_is_closed_in_time_and_one_that_is_ended_is_told() {
    let running = Running::new(|config| config.set("timeout", "1").expect("set"));
    let (mut listener, mut speaker) = (running.session(), running.session());
    assert_eq!(listener.run("LISTEN a"), "CZ");
    let process = process_of(&mut listener);
    assert_eq!(speaker.run(&format!("SELECT pg_terminate_backend({process})")), "TDCZ");
    listener.expect_end("57P01");
    assert_eq!(speaker.run("LISTEN a"), "CZ");
    speaker.expect_end("57P05");
}

#[test]
fn each_listener_has_every_commit_once_and_in_order() {
    with_seeds(2, each_has_every_commit);
}

fn each_has_every_commit(seed: u64) {
    const ROUNDS: usize = 60;
    let running = Running::new(|_| {});
    let mut first = running.session();
    first.run("CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)");
    let mut listeners: Vec<_> = (0..3).map(|_| running.session()).collect();
    for listener in &mut listeners {
        assert_eq!(listener.run("LISTEN counted"), "CZ");
    }
    let committed: usize = std::thread::scope(|scope| {
        let running = &running;
        let work = |number: u64| {
            move || {
                let mut random = StdRng::seed_from_u64(seed << 8 | number);
                let mut client = running.session();
                let mut committed = 0;
                for _ in 0..ROUNDS {
                    client.run("BEGIN");
                    // The row keeps others from committing between.
                    let count = "UPDATE counter SET n = n + 1 RETURNING pg_notify('counted', n::text)";
                    if random.random_bool(0.3) {
                        client.run(&format!("SAVEPOINT s; {count}; ROLLBACK TO s"));
                    }
                    client.run(count);
                    let is_kept = random.random_bool(0.7);
                    client.run(if is_kept { "COMMIT" } else { "ROLLBACK" });
                    committed += usize::from(is_kept);
                    if random.random_bool(0.3) {
                        assert_eq!(client.run(count), "TDCZ");
                        committed += 1;
                    }
                }
                committed
            }
        };
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    for listener in &mut listeners {
        for number in 1..=committed {
            assert_eq!(told(listener).2, number.to_string());
        }
        listener.stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        assert_eq!(listener.run("SELECT 1"), "TDCZ");
    }
}
