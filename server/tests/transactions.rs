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
