//! Goal: `quipu shell --connect` and `quipu top` speak to a running server, and say what is wrong without one.
//! Method: the program serves at a free port; the shell is driven by scripts from a pipe.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::program::{Place, Running, Server, free_port};

/// A server of Redis clients.
struct Served {
    _server: Server,
    address: String,
}

fn serve(place: &Place, more: &[&str]) -> Served {
    let port = free_port();
    let server = place.serve(&[&["--port", &port.to_string()], more].concat());
    Served { _server: server, address: format!("127.0.0.1:{port}") }
}

#[test]
fn a_script_is_answered_as_redis_cli_shows_it() {
    let place = Place::new();
    let server = serve(&place, &[]);
    let script = r#"# a comment
SET greeting "hello \"you\"\n\x00"
GET greeting
SET place 'New York'
STRLEN place
GET nothing

MGET place nothing
KEYS nothing*
HELLO 3
CONFIG GET maxclients
INFO keyspace
help get
timing on
PING
quit
PING
"#;
    let out = place.run_with(&format!("shell --connect {}", server.address), script).success();
    let begin = "OK\n\"hello \\\"you\\\"\\n\\x00\"\nOK\n(integer) 8\n(nil)\n1) \"New York\"\n2) (nil)\n(empty array)\n";
    assert!(out.starts_with(begin), "{out}");
    let hello = &out[begin.len()..];
    assert!(hello.starts_with("1# \"server\" => \""), "{out}");
    assert!(hello.contains("\n1# \"maxclients\" => \"10000\"\n# Keyspace\r\ndb0:keys=2,"), "{out}");
    assert!(hello.contains("\nGET: "), "{out}");
    let last: Vec<&str> = out.lines().rev().take(2).collect();
    assert!(last[1] == "PONG" && last[0].starts_with('(') && last[0].ends_with("s)"), "{out}");
    let help = place.out(&format!("shell --connect {} -c help", server.address));
    assert!(help.contains("help COMMAND"), "{help}");
}

#[test]
fn errors_end_a_script_unless_told_otherwise() {
    let place = Place::new();
    let server = serve(&place, &[]);
    let shell = format!("shell --connect {}", server.address);
    let script = "SET a x\nINCR a\nGET \"a\nMONITOR\nGET a\n";
    let outcome = place.run_with(&shell, script);
    assert_eq!(outcome.out, "OK\n(error) ERR value is not an integer or out of range\n");
    assert_eq!(outcome.failure(), "quipu: line 2: ERR value is not an integer or out of range\n");
    let outcome = place.run_with(&format!("{shell} --keep-going"), script);
    assert!(outcome.out.ends_with("\n\"x\"\n") && outcome.out.lines().count() == 5, "{}", outcome.out);
    assert_eq!(outcome.failure(), "quipu: 3 commands failed\n");
}

#[test]
fn passwords_come_from_flags_or_the_environment() {
    let place = Place::new();
    let server = serve(&place, &["--requirepass", "secret"]);
    let shell = format!("shell --connect {} -c PING", server.address);
    assert!(place.run(&shell).failure().contains("NOAUTH"));
    assert_eq!(place.out(&format!("{shell} --password secret")), "PONG\n");
    assert_eq!(place.out(&format!("{shell} --user default --password secret")), "PONG\n");
    assert!(place.run(&format!("{shell} --password wrong")).failure().contains("cannot log in"));
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(shell.split_whitespace())
        .env("QUIPU_PASSWORD", "secret")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "PONG\n");
}

#[test]
fn a_lost_connection_is_told() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let closing = std::thread::spawn(move || {
        for (answer, waits) in [("+PONG\r\n", false), ("*1\r\n?\r\n", true)] {
            let (client, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(client);
            // One command of one word: its count, its length and itself.
            (0..3).for_each(|_| assert_ne!(lines.read_line(&mut String::new()).unwrap(), 0));
            let mut client: &TcpStream = lines.get_ref();
            client.write_all(answer.as_bytes()).unwrap();
            if waits {
                // Closed with something unread, the connection would be reset before the answer is looked at.
                std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
            }
        }
    });
    let outcome = place.run_with(&format!("shell --connect {address}"), "PING\nPING\n");
    assert_eq!(outcome.out, "PONG\n");
    assert!(outcome.failure().starts_with(&format!("quipu: line 2: the connection to {address} was lost: ")));
    let failure = place.run(&format!("shell --connect {address} -c PING")).failure();
    assert!(failure.contains("broke the protocol"), "{failure}");
    closing.join().unwrap();
    let failure = place.run(&format!("shell --connect {address} -c PING")).failure();
    assert!(failure.starts_with(&format!("quipu: cannot connect to {address}: ")), "{failure}");
    assert_eq!(place.run("shell --connect localhost:1 --data air").code, Some(2));
    assert_eq!(place.run("shell").code, Some(2));
}

#[test]
fn top_looks_twice_and_prints_once() {
    let place = Place::new();
    let server = serve(&place, &[]);
    place.run_with(&format!("shell --connect {}", server.address), "SET a 1\nGET a\nGET b\n").success();
    let top = format!("top --connect {} --interval 0.05 --once", server.address);
    let json: serde_json::Value = serde_json::from_str(&place.out(&format!("{top} --json"))).unwrap();
    assert_eq!((&json["keys"], &json["clients"]), (&1.into(), &1.into()));
    // The second look sees the first.
    assert!(json["commands_per_s"].as_f64().unwrap() > 0.0 && json["seconds"].as_f64().unwrap() >= 0.05, "{json}");
    assert!(json["memory_bytes"].as_u64().unwrap() > 0 && json["log_bytes"].as_u64().unwrap() > 0, "{json}");
    let commands = json["commands"].as_array().unwrap();
    let get = commands.iter().find(|command| command["command"] == "get").unwrap();
    assert_eq!((&get["calls"], &get["calls_per_s"]), (&2.into(), &0.0.into()));
    assert!(get["percentiles_us"]["p50"].as_f64().unwrap() > 0.0, "{json}");
    let text = place.out(&top);
    assert!(text.starts_with("quipu ") && text.contains("\nkeys      1, ") && !text.contains('\x1b'), "{text}");
    assert!(text.contains("p99 µs") && text.contains("\ninfo "), "{text}");
    assert!(place.run("top --once --connect 127.0.0.1:1").failure().contains("cannot connect"));
}

/// A row in a table of keys that no server has written made the key useless: it could be neither read nor removed.
#[test]
fn the_shell_does_not_change_tables_of_a_server() {
    let place = Place::new();
    drop(place.serve(&["--port", &free_port().to_string()]));
    for commands in
        ["-c 'use keys.0' -c 'put a b'", "-c 'use keys.0' -c 'remove a'", "-c 'drop keys.0'", "-c 'drop server'"]
    {
        let outcome = place.run(&format!("shell --data served {commands}"));
        assert!(
            outcome.code == Some(1) && outcome.err.contains("keeps keys of `quipu serve`"),
            "{commands}: {}",
            outcome.err
        );
    }
    place.out("shell --data served -c 'use keys.0' -c scan");
}

/// Ctrl-C ends the wait for an answer, and with it the connection: a late answer would be taken for that of the next
/// command. A script ends too.
#[test]
fn an_interrupt_ends_the_wait_for_a_server() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream);
        // One command of one word: its count, its length and itself.
        (0..3).for_each(|_| assert_ne!(lines.read_line(&mut String::new()).unwrap(), 0));
        let mut client: &TcpStream = lines.get_ref();
        client.write_all(b"+PONG\r\n").unwrap();
        // The second one is not answered, until the connection ends.
        std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
        // Another one comes in its place, which sends nothing.
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let script = "PING\nLATE\nPING\n";
    let mut running = Running::begin(&place, &["shell", "--keep-going", "--connect", &address], script);
    assert_eq!(running.line(), "PONG\n");
    let (code, rest, err) = running.interrupt();
    assert_eq!((code, rest.as_str(), err.as_str()), (Some(1), "", "quipu: stopped by Ctrl-C\n"));
    assert_eq!(serving.join().unwrap(), 0);
}
