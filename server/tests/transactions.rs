//! Goal: a transaction is done as a whole or not at all. Method: a server without sockets is given lines.

use crate::support::{Client, in_memory};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn a_command_that_is_not_here_yet_is_refused_when_it_is_queued() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, refused) in [
        ("HSET h f v", "-ERR HSET: hashes come"),
        ("BLPOP l 0", "-ERR BLPOP: lists come"),
        ("PUBLISH c m", "-ERR PUBLISH: channels come"),
        ("SAVE", "-ERR Command not allowed inside a transaction"),
        ("Q.SNAPSHOT", "-ERR Command not allowed inside a transaction"),
        ("ACL SAVE", "-ERR Command not allowed inside a transaction"),
    ] {
        client.expect("MULTI", "+OK");
        client.expect("SET a 1", "+QUEUED");
        let answer = client.run(line);
        assert!(answer.starts_with(refused), "{line}: {answer}");
        client.expect("SET b 1", "+QUEUED");
        client.expect("EXEC", ABORTED);
        client.expect("EXISTS a b", ":0");
    }
    client.expect("HSET h f v", "-ERR HSET: hashes come in a later version of Quipu");
}

#[test]
fn a_refusal_that_queues_nothing_leaves_the_transaction_as_it_is() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.run_all(&["MULTI", "MULTI", "WATCH a", "SET a 1"]);
    client.expect("EXEC", "*1|+OK");
}

#[test]
fn memory_is_asked_again_before_a_transaction_runs() {
    let server = in_memory();
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    client.run_all(&["MULTI", "DEL a", "SET a 1"]);
    admin.expect("CONFIG SET maxmemory 1", "+OK");
    client.expect(
        "EXEC",
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
    );
    client.expect("EXEC", "-ERR EXEC without MULTI");
    // What takes no memory is done.
    client.run_all(&["MULTI", "GET a"]);
    client.expect("EXEC", "*1|$-1");
}

#[test]
fn a_key_that_one_client_watches_a_hundred_thousand_times_is_watched_once() {
    let server = in_memory();
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    let words = std::iter::once("WATCH").chain(std::iter::repeat_n("a", 100_000));
    assert_eq!(client.send(&[words.map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()]), b"+OK\r\n");
    other.expect("SET a 1", "+OK");
    client.run_all(&["MULTI", "GET a"]);
    client.expect("EXEC", "*-1");
}

/// The slow log had EXEC, without a word of what was slow in it.
#[test]
fn what_is_slow_in_a_transaction_is_shown_by_itself() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK");
    client.run_all(&["MULTI", "SET a 1", "EXEC"]);
    let told = client.run("SLOWLOG GET -1");
    assert!(told.contains("$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"), "{told}");
    assert!(!told.contains("EXEC"), "{told}");
    client.run("ACL SETUSER u on >secret");
    let told = client.run("SLOWLOG GET -1");
    assert!(told.contains("$7\r\nSETUSER\r\n$10\r\n(redacted)\r\n") && !told.contains("secret"), "{told}");
}

/// The engine's memory was full: the error came before the queue was emptied, and the connection stayed in `MULTI`.
#[test]
fn an_exec_for_which_memory_lacks_is_over() {
    let options = quipu::Options { memory_bytes: 4 << 20, memtable_bytes: 0, ..quipu::Options::without_files() };
    let server = crate::support::server(options, "/server");
    let mut client = Client::new(&server);
    let value = "v".repeat(50_000);
    let is_full = (0..1000).any(|number| client.run(&format!("SET key:{number} {value}")).starts_with("-OOM"));
    assert!(is_full);
    client.run_all(&["MULTI", &format!("SET a {value}"), "INCR n"]);
    let answer = client.run("EXEC");
    assert!(answer.contains("-OOM"), "{answer}");
    client.expect("PING", "+PONG");
    client.expect("EXEC", "-ERR EXEC without MULTI");
}
