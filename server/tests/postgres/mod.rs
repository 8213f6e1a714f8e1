//! Goal: the PostgreSQL face keeps its protocol whatever clients send, lets in who may come in, and ends what it must.
//! Method: a server with sockets on free ports, and a client that speaks bytes.

mod bad_input;
mod client;
mod encodings;
mod full_disk;
mod messages;
mod notifications;
mod passwords;
mod statements;

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::sockets::eventually;
use client::{Client, Running, field, message, packet, texts};

#[test]
fn a_session_begins_with_what_clients_ask_of_it() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    // Encryption by GSSAPI is asked for first, as libpq does, and TLS, which this server does not have.
    client.send(&packet(80_877_104, b""));
    client.send(&packet(80_877_103, b""));
    let mut answers = [0; 2];
    std::io::Read::read_exact(&mut client.stream, &mut answers).expect("answers");
    assert_eq!(&answers, b"NN");
    let options = r"-c statement_timeout=5s --search_path=a\ b";
    client.begin(0, &[("user", "default"), ("application_name", "a test"), ("options", options)]);
    let told = client.until_ready();
    assert_eq!(told[0], ('R', vec![0; 4]));
    let has = |name: &str, value: &str| told.contains(&('S', texts(&[name, value])));
    let version = concat!("15.0 (Quipu ", env!("CARGO_PKG_VERSION"), ")");
    for (name, value) in [
        ("server_version", version),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("application_name", "a test"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("session_authorization", "default"),
    ] {
        assert!(has(name, value), "{name}: {told:?}");
    }
    let key = told.iter().find(|(tag, _)| *tag == 'K').expect("a key");
    assert_eq!(key.1.len(), 8);
    assert_eq!(told.last(), Some(&('Z', b"I".to_vec())));
    let line = running.server.clients.all()[0].line();
    assert!(line.contains("name=a_test") && line.contains("lib-name=postgres lib-ver=3.0"), "{line}");
    client.send(&message('X', b""));
    assert_eq!(client.next(), None);
    eventually("it has left", || running.server.clients.is_empty());
}

#[test]
fn others_see_the_name_of_an_application_before_its_first_statement() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    client.begin(0, &[("user", "default"), ("application_name", "reports")]);
    client.until_ready();
    let asked = "SELECT 1 / count(*) FROM pg_stat_activity WHERE application_name = 'reports'";
    assert_eq!(running.session().code(asked), None);
}

#[test]
fn versions_are_negotiated() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    client.begin(2, &[("user", "default")]);
    let told = client.until_ready();
    assert!(told.iter().all(|(tag, _)| *tag != 'v'));
    let key = told.iter().find(|(tag, _)| *tag == 'K').expect("a key");
    assert_eq!(key.1.len(), 36);
    let mut client = running.client();
    client.begin(9999, &[("user", "default"), ("_pq_.nothing", "on")]);
    let body = client.expect('v');
    let expected = [&(3u32 << 16 | 2).to_be_bytes()[..], &1u32.to_be_bytes(), b"_pq_.nothing\0"].concat();
    assert_eq!(body, expected);
    client.until_ready();
    for (number, code) in [(2 << 16, "0A000"), (4 << 16, "0A000"), (1234, "0A000")] {
        let mut client = running.client();
        client.send(&packet(number, b"user\0default\0\0"));
        client.expect_end(code);
    }
}

#[test]
fn errors_skip_to_sync_and_answers_come_in_one_piece() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    let bind = |portal: &str, statement: &str| message('B', &[&texts(&[portal, statement])[..], &[0; 6]].concat());
    let execute = |portal: &str| message('E', &[&texts(&[portal])[..], &[0; 4]].concat());
    let close = |name: &str| message('C', &[b"S", &texts(&[name])[..]].concat());
    let describe = |kind: &str, name: &str| message('D', &[kind.as_bytes(), &texts(&[name])[..]].concat());
    let sync = message('S', b"");
    for (sent, code) in [
        (bind("", "nothing"), "26000"),
        (bind("", ""), "26000"),
        (execute("nothing"), "34000"),
        (describe("S", "nothing"), "26000"),
        (describe("P", ""), "34000"),
        (message('P', &[&texts(&["", "SELECT $1"])[..], &[0, 1, 0, 0, 255, 255]].concat()), "42704"),
    ] {
        // What follows the error is left out, however much it is.
        client.send(&[&sent[..], &close("a"), &execute("b"), &message('Q', b"SELECT 1\0"), &sync].concat());
        client.expect_error(code);
        assert_eq!(client.expect('Z'), b"I");
    }
    // To close what is not there is no error; Flush brings answers before Sync does.
    client.send(&[&close("a")[..], &close(""), &message('H', b"")].concat());
    client.expect('3');
    client.expect('3');
    client.send(&sync);
    client.expect('Z');
    // Without either, a client hears of an error alone.
    let parse = message('P', &[&texts(&["", "SELECT 1"])[..], &[0, 0]].concat());
    client.send(&[&parse[..], &bind("", ""), &execute("")].concat());
    client.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    assert!(client.stream.peek(&mut [0]).is_err(), "nothing comes before Sync");
    client.stream.set_read_timeout(Some(crate::support::sockets::DEADLINE)).expect("a timeout");
    client.send(&sync);
    assert_eq!(client.kinds(), "12DCZ");
    client.send(&bind("", "nothing"));
    client.expect_error("26000");
    client.send(&sync);
    client.expect('Z');
    // Data of a COPY that there is not are left out; functions are not called.
    client.send(&[message('d', b"x"), message('c', b""), message('f', b"why\0"), message('F', b"??")].concat());
    client.expect_error("0A000");
    client.expect('Z');
    // A thousand messages at once.
    let many: Vec<u8> = (0..1000).flat_map(|_| [close("a"), sync.clone()].concat()).collect();
    client.send(&many);
    for _ in 0..1000 {
        assert_eq!(client.kinds(), "3Z");
    }
    let errors = running.server.postgres.errors();
    assert_eq!(errors, [("0A", 1), ("26", 4), ("34", 2), ("42", 1)]);
}

/// `{? = call lower(?)}` of JDBC: the result is declared as a parameter of type `void`.
#[test]
fn a_parameter_of_type_void_is_no_argument_of_a_call() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    let types = [&[0, 2][..], &2278u32.to_be_bytes(), &25u32.to_be_bytes()].concat();
    for statement in ["SELECT * FROM lower($1, $2) AS result", "SELECT lower($1, $2)"] {
        let parse = message('P', &[&texts(&["", statement])[..], &types].concat());
        let values = [&[0, 0, 0, 2][..], &(-1i32).to_be_bytes(), &3u32.to_be_bytes(), b"ABC", &[0, 0]].concat();
        let bind = message('B', &[&texts(&["", ""])[..], &values].concat());
        let execute = message('E', &[&texts(&[""])[..], &[0; 4]].concat());
        client.send(&[parse, bind, execute, message('S', b"")].concat());
        client.expect('1');
        client.expect('2');
        assert_eq!(client.expect('D'), b"\0\x01\0\0\0\x03abc", "{statement}");
        client.expect('C');
        client.expect('Z');
    }
}

#[test]
fn a_portal_is_a_cursor_of_fetch_move_and_close() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    client.run("BEGIN");
    let parse = message('P', &[&texts(&["", "SELECT n FROM generate_series(1, 10) n"])[..], &[0, 0]].concat());
    let bind = message('B', &[&texts(&["Some", ""])[..], &[0; 6]].concat());
    let execute = |rows: u32| message('E', &[&texts(&["Some"])[..], &rows.to_be_bytes()].concat());
    client.send(&[parse, bind.clone(), execute(2), message('S', b"")].concat());
    assert_eq!(client.kinds(), "12DDsZ");
    assert_eq!(client.tag("MOVE 3 FROM \"Some\""), "MOVE 3");
    client.send(&message('Q', b"FETCH FORWARD 2 FROM \"Some\"\0"));
    client.expect('T');
    assert_eq!(client.expect('D'), b"\0\x01\0\0\0\x016");
    assert_eq!(client.kinds(), "DCZ");
    // The portal goes on where the cursor stands, and knows that it has come to its end.
    client.send(&[execute(1), message('S', b"")].concat());
    assert_eq!(client.expect('D'), b"\0\x01\0\0\0\x018");
    assert_eq!(client.kinds(), "sZ");
    assert_eq!(client.tag("MOVE ALL IN \"Some\""), "MOVE 2");
    client.send(&[execute(1), message('S', b"")].concat());
    assert_eq!(client.expect('C'), b"SELECT 0\0");
    client.expect('Z');
    assert_eq!(client.tag("CLOSE \"Some\""), "CLOSE CURSOR");
    assert_eq!(client.code("CLOSE \"Some\"").as_deref(), Some("34000"));
    // One name is one cursor, and Close closes those of DECLARE too.
    client.run("ROLLBACK");
    client.run("BEGIN");
    let parse_one = message('P', &[&texts(&["", "SELECT 1"])[..], &[0, 0]].concat());
    client.send(&[parse_one, bind.clone(), message('S', b"")].concat());
    assert_eq!(client.kinds(), "12Z");
    assert_eq!(client.code("DECLARE \"Some\" CURSOR FOR SELECT 1").as_deref(), Some("42P03"));
    client.run("ROLLBACK");
    client.run("BEGIN");
    client.run("DECLARE \"Some\" CURSOR FOR SELECT 1");
    let parse = message('P', &[&texts(&["", "SELECT 2"])[..], &[0, 0]].concat());
    client.send(&[parse.clone(), message('C', b"PSome\0"), bind.clone(), message('S', b"")].concat());
    assert_eq!(client.kinds(), "132Z");
    client.run("ROLLBACK");
    client.run("BEGIN");
    client.run("DECLARE \"Some\" CURSOR FOR SELECT 1");
    client.send(&[parse, bind, message('S', b"")].concat());
    client.expect('1');
    client.expect_error("42P03");
    client.expect('Z');
}

#[test]
fn a_copy_that_has_failed_is_told_although_its_data_go_on() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    client.send(&message('Q', b"CREATE TABLE t (id int PRIMARY KEY)\0"));
    assert_eq!(client.kinds(), "CZ");
    client.send(&message('Q', b"COPY t FROM STDIN\0"));
    client.expect('G');
    client.send(&[message('d', b"x\n"), message('d', b"1\n"), message('c', b"")].concat());
    client.expect_error("22P02");
    client.expect('Z');
    client.send(&message('d', b"2\n"));
    client.send(&message('Q', b"SELECT count(*) FROM t\0"));
    assert_eq!(client.kinds(), "TDCZ");
}

#[test]
fn a_query_is_answered_although_more_has_come_that_waits_for_sync() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    let parse = message('P', &[&texts(&["", "SELECT 2"])[..], &[0, 0]].concat());
    client.send(&[message('Q', b"SELECT 1\0"), parse].concat());
    assert_eq!(client.kinds(), "TDCZ");
    client.send(&message('S', b""));
    assert_eq!(client.kinds(), "1Z");
}

/// The suite of node-postgres sends a query that takes long before it has the answer to the one before.
#[test]
fn a_query_is_answered_although_the_next_one_that_has_come_waits() {
    let running = Running::new(|_| {});
    let (mut other, mut client) = (running.session(), running.session());
    assert_eq!(other.run("SELECT pg_advisory_lock(1)"), "TDCZ");
    client.send(&[message('Q', b"SELECT 1\0"), message('Q', b"SELECT pg_advisory_lock(1)\0")].concat());
    assert_eq!(client.kinds(), "TDCZ", "while the second one waits for the lock");
    assert_eq!(other.run("SELECT pg_advisory_unlock(1)"), "TDCZ");
    assert_eq!(client.kinds(), "TDCZ");
}

#[test]
fn statements_are_cancelled_by_who_has_the_key() {
    let running = Running::new(|_| {});
    for minor in [0, 2] {
        let mut client = running.client();
        client.begin(minor, &[("user", "default")]);
        let told = client.until_ready();
        let (_, key) = told.iter().find(|(tag, _)| *tag == 'K').expect("a key");
        let cancels = &running.server.postgres.cancels;
        let before = cancels.load(Ordering::Relaxed);
        let mut wrong = key.clone();
        wrong[7] ^= 1;
        for key in [wrong, key[..6].to_vec(), [&key[..], b"x"].concat()] {
            let mut other = running.client();
            other.send(&packet(80_877_102, &key));
            assert_eq!(other.next(), None);
        }
        assert_eq!(cancels.load(Ordering::Relaxed), before);
        let mut other = running.client();
        other.send(&packet(80_877_102, key));
        assert_eq!(other.next(), None);
        assert_eq!(cancels.load(Ordering::Relaxed), before + 1);
    }
}

#[test]
fn a_connection_is_ended_by_another_one() {
    let running = Running::new(|_| {});
    let (mut ended, mut other) = (running.session(), running.session());
    let ask = |client: &mut Client<TcpStream>, text: &str| {
        client.send(&message('Q', &texts(&[text])));
        let told = client.until_ready();
        let (_, row) = told.into_iter().find(|(tag, _)| *tag == 'D').expect("a row");
        // After the number of values and the length of the first.
        String::from_utf8_lossy(&row[6..]).into_owned()
    };
    let process = ask(&mut ended, "SELECT pg_backend_pid()");
    assert_eq!(ask(&mut other, &format!("SELECT pg_terminate_backend({process})")), "t");
    ended.expect_end("57P01");
    assert_eq!(ask(&mut other, "SELECT pg_terminate_backend(0)"), "f");
    // A statement that runs is told of it once, and of nothing else.
    let mut busy = running.session();
    let process = ask(&mut busy, "SELECT pg_backend_pid()");
    busy.send(&message('Q', b"SELECT pg_sleep(60)\0"));
    eventually("it runs", || {
        ask(&mut other, "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sl'") == "1"
    });
    assert_eq!(ask(&mut other, &format!("SELECT pg_terminate_backend({process})")), "t");
    busy.expect_end("57P01");
    let mut own = running.session();
    own.send(&message('Q', b"SELECT pg_terminate_backend(pg_backend_pid())\0"));
    let mut told = std::iter::from_fn(|| own.next());
    let error = told.find(|(tag, _)| *tag == 'E').expect("an error").1;
    assert_eq!(field(&error, 'C').as_deref(), Some("57P01"));
    assert_eq!(told.next(), None);
    // One that leaves before it has begun is not answered.
    let mut early = running.client();
    early.send(&message('X', b""));
    assert_eq!(early.next(), None);
    // Statements of the protocol are listed while they are there.
    other.send(&message('P', &[&texts(&["one", "SELECT 1"])[..], &[0, 0]].concat()));
    other.send(&message('S', b""));
    other.until_ready();
    assert_eq!(ask(&mut other, "SELECT name FROM pg_prepared_statements"), "one");
    assert_eq!(ask(&mut other, "EXECUTE one"), "1");
    other.send(&message('C', &[&b"S"[..], &texts(&["one"])].concat()));
    other.send(&message('S', b""));
    other.until_ready();
    assert_eq!(ask(&mut other, "SELECT count(*) FROM pg_prepared_statements"), "0");
}

#[test]
fn there_are_no_more_sessions_than_may_be() {
    let running = Running::new(|config| config.set("pg-connections-max", "3").expect("set"));
    let mut clients: Vec<_> = (0..3).map(|_| running.session()).collect();
    let mut more = running.client();
    more.begin(0, &[("user", "default")]);
    more.expect_end("53300");
    // Connections that do not speak do not take the places of others, up to a number.
    let silent: Vec<_> = (0..60).map(|_| running.socket()).collect();
    drop(silent);
    clients[0].send(&message('X', b""));
    eventually("it has left", || running.server.postgres.sessions.load(Ordering::Relaxed) == 2);
    eventually("there is a place", || {
        let mut client = running.client();
        client.begin(0, &[("user", "default")]);
        client.next().is_some_and(|(tag, _)| tag == 'R')
    });
}

#[test]
fn many_clients_come_and_go() {
    let running = Running::new(|config| config.set("pg-connections-max", "100").expect("set"));
    for _ in 0..3 {
        let mut clients: Vec<_> = (0..100).map(|_| running.session()).collect();
        clients.iter_mut().for_each(|client| client.send(&message('Q', b"\0")));
        for client in &mut clients {
            assert!(client.kinds().ends_with('Z'));
        }
        drop(clients);
        eventually("all have left", || running.server.postgres.sessions.load(Ordering::Relaxed) == 0);
    }
    assert!(running.server.clients.is_empty());
}

#[test]
fn a_stop_and_an_administrator_end_sessions() {
    let mut running = Running::new(|_| {});
    let mut killed = running.session();
    running.server.clients.all()[0].kill();
    killed.expect_end("57P01");
    eventually("it has left", || running.server.clients.is_empty());
    let mut clients: Vec<_> = (0..5).map(|_| running.session()).collect();
    // One that has not begun, and one in the middle of a message.
    let mut silent = running.client();
    clients[0].send(&message('Q', b"SELECT 1\0")[..7]);
    running.stop();
    for client in &mut clients {
        assert!(client.expect_end("57P01").contains("administrator"));
    }
    assert_eq!(silent.next(), None);
}

#[test]
fn who_is_idle_for_too_long_is_told_and_closed() {
    let running = Running::new(|config| config.set("timeout", "1").expect("set"));
    let mut client = running.session();
    assert!(client.expect_end("57P05").contains("idle"));
    // A client that has closed its side is let go.
    let mut client = running.session();
    client.stream.shutdown(Shutdown::Write).expect("half closed");
    assert_eq!(client.next(), None);
    eventually("they have left", || running.server.clients.is_empty());
}

/// A session can set how long it may be idle, in a transaction apart from others.
#[test]
fn a_session_that_is_idle_for_longer_than_it_says_is_closed() {
    let running = Running::new(|_| ());
    let mut client = running.session();
    client.run("SET idle_session_timeout = '100ms'");
    assert!(client.expect_end("57P05").contains("idle-session"));
    let mut client = running.session();
    client.run("SET idle_in_transaction_session_timeout = 100");
    client.run("BEGIN");
    assert!(client.expect_end("25P03").contains("idle-in-transaction"));
    eventually("they have left", || running.server.clients.is_empty());
}

#[test]
fn messages_that_are_too_long_are_refused_before_they_are_read() {
    let running = Running::new(|config| config.set("pg-message-bytes-max", "1mb").expect("set"));
    let mut client = running.session();
    client.send(&[b"Q", &(1u32 << 30).to_be_bytes()[..]].concat());
    // It goes on to send, and is still told why it is closed.
    let chunk = vec![b'x'; 1 << 16];
    while client.stream.write_all(&chunk[..]).is_ok() {
        client.stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        if client.stream.peek(&mut [0; 5]).is_ok_and(|count| count == 5) {
            break;
        }
    }
    client.stream.set_read_timeout(Some(crate::support::sockets::DEADLINE)).expect("a timeout");
    let text = client.expect_error("54000");
    assert!(text.contains("1048576"), "{text}");
    // One that is just as long as may be is taken: it is a comment.
    let mut client = running.session();
    let text = [b"--", &vec![b'x'; (1 << 20) - 7][..], &[0]].concat();
    client.send(&message('Q', &text));
    assert!(client.kinds().ends_with('Z'));
    let told = field(b"CX\0MY\0\0", 'M');
    assert_eq!(told.as_deref(), Some("Y"));
}
