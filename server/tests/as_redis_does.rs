//! Goal: small things that administrators and test suites of Redis look at are as there. Method: a server with or
//! without sockets is given lines; what is expected was seen at Redis 7.0.15.

use std::io::Write;

use crate::support::sockets::{Running, ask, eventually, take};
use crate::support::{Client, configured, in_memory, words};

#[test]
fn a_monitor_sees_a_transaction_before_its_end() {
    let server = in_memory();
    let (mut monitor, mut client) = (Client::new(&server), Client::new(&server));
    monitor.expect("MONITOR", "+OK");
    client.run_all(&["MULTI", "SET a 1", "GET a", "EXEC", "PING"]);
    let told = String::from_utf8_lossy(&monitor.session.client.take_pushed()).into_owned();
    let words: Vec<&str> = told.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(words, ["MULTI", "SET", "GET", "EXEC", "PING"]);
}

#[test]
fn debug_is_for_those_whom_the_configuration_lets() {
    const REFUSED: &str = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
                           can run it from a local connection, otherwise you need to set this option in the \
                           configuration file, and then restart the server.";
    let server = in_memory();
    Client::new(&server).expect("DEBUG SLEEP 0", REFUSED);
    Client::new(&server).expect("DEBUG HELP", REFUSED);
    let server = configured(|config| config.set("enable-debug-command", "yes").expect("set"));
    let mut client = Client::new(&server);
    client.expect("DEBUG SLEEP 0", "+OK");
    client.run_all(&["MULTI", "SET a 1", "DEBUG SLEEP 0"]);
    client.expect("EXEC", "*2|+OK|+OK");
    let running = Running::new(|config| config.set("enable-debug-command", "local").expect("set"));
    ask(&mut running.connect(), "DEBUG SLEEP 0", "+OK\r\n");
    // Who has come from elsewhere may not.
    let server = configured(|config| config.set("enable-debug-command", "local").expect("set"));
    Client::new(&server).expect("DEBUG SLEEP 0", REFUSED);
}

#[test]
fn who_waits_for_the_end_of_a_pause_is_counted() {
    let running = Running::new(|_| {});
    let (mut admin, mut client) = (running.connect(), running.connect());
    let server = &running.server;
    let mut seer = Client::new(server);
    ask(&mut admin, "CLIENT PAUSE 60000 WRITE", "+OK\r\n");
    assert!(seer.run("INFO clients").contains("blocked_clients:0\r\n"));
    client.write_all(b"SET a 1\r\n").expect("sent");
    eventually("it waits", || seer.run("INFO clients").contains("blocked_clients:1\r\n"));
    assert!(seer.run("CLIENT LIST").contains(" flags=b "));
    ask(&mut admin, "CLIENT UNPAUSE", "+OK\r\n");
    take(&mut client, "+OK\r\n");
    eventually("it waits no more", || seer.run("INFO clients").contains("blocked_clients:0\r\n"));
}

#[test]
fn an_answer_that_is_not_wanted_is_not_given_after_a_pause_or_a_long_command_either() {
    let running = Running::new(|_| {});
    let (mut admin, mut client) = (running.connect(), running.connect());
    ask(&mut admin, "CLIENT PAUSE 60000 WRITE", "+OK\r\n");
    client.write_all(b"CLIENT REPLY SKIP\r\nSET a 1\r\nPING\r\n").expect("sent");
    eventually("it waits", || running.server.clients.all().iter().any(|client| client.line().contains(" flags=b ")));
    ask(&mut admin, "CLIENT UNPAUSE", "+OK\r\n");
    take(&mut client, "+PONG\r\n");
    for start in (0..25_000).step_by(1000) {
        let words: String = (start..start + 1000).map(|number| format!(" {number} m{number}")).collect();
        ask(&mut client, &format!("ZADD z{words}"), ":1000\r\n");
    }
    ask(&mut client, "CLIENT REPLY SKIP\r\nZRANGE z 0 -1\r\nPING", "+PONG\r\n");
    ask(&mut client, "CLIENT REPLY OFF\r\nZRANGE z 0 -1\r\nKEYS *\r\nCLIENT REPLY ON\r\nPING", "+OK\r\n+PONG\r\n");
}

#[test]
fn keys_do_not_go_during_a_pause_though_they_have_expired() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.run_all(&["MULTI", "SET a 1 PX 1", "SET b 1 PX 1", "CLIENT PAUSE 60000 WRITE"]);
    client.expect("EXEC", "*3|+OK|+OK|+OK");
    eventually("expired", || client.run("GET a") == "$-1\r\n" && client.run("GET b") == "$-1\r\n");
    let expired = |client: &mut Client<'_>| client.run("INFO stats").contains("expired_keys:2\r\n");
    assert!(!expired(&mut client), "reading them removes them");
    client.expect("DBSIZE", ":2");
    assert!(!expired(&mut client), "counting removes them");
    client.expect("CLIENT UNPAUSE", "+OK");
    client.expect("DBSIZE", ":0");
    client.run("SET c 1 PX 1");
    eventually("removed", || {
        client.run("GET c") == "$-1\r\n" && client.run("INFO stats").contains("expired_keys:3\r\n")
    });
}

#[test]
fn latencies_are_kept_while_they_are_tracked() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("CONFIG SET latency-tracking-info-percentiles \"50.0 99.90\"", "+OK");
    client.expect("GET a", "$-1");
    let told = client.run("INFO latencystats");
    assert!(told.contains("latency_percentiles_usec_get:p50=") && told.contains(",p99.9="), "{told}");
    client.expect("CONFIG SET latency-tracking no", "+OK");
    client.expect("GET a", "$-1");
    assert!(!client.run("INFO latencystats").contains("usec_get"));
    assert!(client.run("INFO commandstats").contains("cmdstat_get:calls=2,"), "calls are counted all the same");
    client.expect("CONFIG SET latency-tracking yes", "+OK");
    assert!(client.run("LATENCY HISTOGRAM get").contains("calls\r\n:1\r\n"));
}

#[test]
fn after_everything_was_removed_nothing_is_left_to_save() {
    let server = in_memory();
    let mut client = Client::new(&server);
    let mut changes = |line: &str| {
        client.run(line);
        let told = client.run("INFO persistence");
        let line = told.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.and_then(|number| number.parse::<u64>().ok())
    };
    assert_eq!(changes("MSET a 1 b 2"), Some(2));
    assert_eq!(changes("FLUSHALL"), Some(0));
    changes("CONFIG SET save \"\"");
    assert_eq!(changes("MSET a 1 b 2"), Some(2));
    assert_eq!(changes("FLUSHALL"), Some(4));
    assert_eq!(changes("FLUSHALL"), Some(4));
    assert_eq!(changes("SAVE"), Some(0));
}

#[test]
fn a_client_that_breaks_off_is_no_notice_in_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let running = Running::new(|config| config.set("logfile", log.to_str().expect("a path")).expect("set"));
    let mut admin = running.connect();
    ask(&mut admin, "SET a 1", "+OK\r\n");
    // Answers that the client has not read: the socket is reset when it is closed.
    let mut client = running.connect();
    client.write_all(&b"GET a\r\n".repeat(1000)).expect("sent");
    take(&mut client, "$1\r\n");
    drop(client);
    eventually("it has left", || running.server.clients.len() == 1);
    ask(&mut admin, "CLIENT KILL TYPE normal SKIPME no", ":1\r\n");
    eventually("all have left", || running.server.clients.is_empty());
    let told = std::fs::read_to_string(&log).expect("a log");
    assert!(!told.contains("failed: "), "{told}");
}

/// Bytes that are not UTF-8 came back as `\u{fffd}`, so a client that sends Latin-1 could not find its word.
#[test]
fn errors_repeat_a_word_byte_for_byte() {
    let server = in_memory();
    let mut client = Client::new(&server);
    let long = ["a".repeat(128), "b".repeat(128)];
    let unknown = format!("-ERR unknown command '{}', with args beginning with: '{}' ", long[0], long[1]);
    client.expect(&format!("{0}a {1}b c", long[0], long[1]), &unknown);
    let cases: [(&str, &[u8]); 12] = [
        (
            r#""\xff\xfeab\x00c" "x\xff\r\n" y"#,
            b"unknown command '\xff\xfeab', with args beginning with: 'x\xff  ' 'y' ",
        ),
        (r#"CLIENT "\xffoo""#, b"unknown subcommand '\xffoo'. Try CLIENT HELP."),
        (r#"OBJECT "\xffoo\n" k"#, b"unknown subcommand '\xffoo '. Try OBJECT HELP."),
        (r#"CONFIG SET "\xffa" b"#, b"Unknown option or number of arguments for CONFIG SET - '\xffa'"),
        (r#"ACL CAT "\xff""#, b"Unknown category '\xff'"),
        (r#"ACL DRYRUN default "\xffx""#, b"Command '\xffx' not found"),
        (r#"ACL DRYRUN "\xffx" get"#, b"User '\xffx' not found"),
        (r#"CLIENT KILL USER "\xff""#, b"No such user '\xff'"),
        (r#"CLIENT LIST TYPE "\xff""#, b"Unknown client type '\xff'"),
        (r#"CLIENT SETINFO "\xff" a"#, b"Unrecognized option '\xff'"),
        (r#"HELLO 3 "\xff""#, b"Syntax error in HELLO option '\xff'"),
        (r#"EXPIRE k 1 "\xff""#, b"Unsupported option \xff"),
    ];
    for (line, expected) in cases {
        let answer = client.send(&[words(line)]);
        let expected = [b"-ERR ", expected, b"\r\n"].concat();
        assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{line}");
    }
    client.expect("MULTI", "+OK");
    client.expect("CLIENT LIST TYPE \"\\xff\"", "+QUEUED");
    let answer = client.send(&[words("EXEC")]);
    assert_eq!(answer.escape_ascii().to_string(), "*1\\r\\n-ERR Unknown client type \\'\\xff\\'\\r\\n");
}

/// `ZSCAN` wrote 1e+17 where Redis writes all digits: it holds whole scores of small sets as integers, and `ZSCAN`
/// alone shows them so.
#[test]
fn scores_have_the_digits_that_redis_prints() {
    const LARGEST: &str = "1.7976931348623157e+308";
    let cases = [
        ("1e21", "1e+21", "1e+21"),
        ("0.30000000000000004", "0.30000000000000004", "0.30000000000000004"),
        ("inf", "inf", "inf"),
        ("-inf", "-inf", "-inf"),
        ("-0", "0", "0"),
        ("3.0", "3", "3"),
        ("1e16", "10000000000000000", "10000000000000000"),
        ("1e17", "1e+17", "100000000000000000"),
        ("-1e17", "-1e+17", "-100000000000000000"),
        ("99999999999999999", "1e+17", "100000000000000000"),
        ("123456789012345678", "1.2345678901234568e+17", "123456789012345680"),
        ("4611686018427387000", "4.6116860184273869e+18", "4611686018427386880"),
        ("4611686018427387904", "4.6116860184273879e+18", "4.6116860184273879e+18"),
        ("9007199254740993", "9007199254740992", "9007199254740992"),
        ("0.1", "0.10000000000000001", "0.10000000000000001"),
        ("1e-5", "1.0000000000000001e-05", "1.0000000000000001e-05"),
        ("0.0001", "0.0001", "0.0001"),
        ("1.7976931348623157e308", LARGEST, LARGEST),
        ("5e-324", "4.9406564584124654e-324", "4.9406564584124654e-324"),
        ("9.999999999999999e22", "9.9999999999999992e+22", "9.9999999999999992e+22"),
    ];
    let bulk = |text: &str| format!("${}|{text}", text.len());
    let server = in_memory();
    let mut client = Client::new(&server);
    let many: String = (0..200).map(|number| format!(" 1 other{number}")).collect();
    client.expect(&format!("ZADD large{many}"), ":200");
    for (score, everywhere, scanned) in cases {
        client.run_all(&["DEL z long", &format!("ZADD z {score} m"), &format!("ZADD large {score} m")]);
        client.expect("ZSCORE z m", &bulk(everywhere));
        client.expect("ZRANGE z 0 -1 WITHSCORES", &format!("*2|$1|m|{}", bulk(everywhere)));
        client.expect("ZSCAN z 0", &format!("*2|$1|0|*2|$1|m|{}", bulk(scanned)));
        client.expect("ZSCORE large m", &bulk(everywhere));
        client.expect("ZSCAN large 0 COUNT 1000 MATCH m", &format!("*2|$1|0|*2|$1|m|{}", bulk(everywhere)));
        let long = "m".repeat(65);
        client.run(&format!("ZADD long {score} {long}"));
        client.expect("ZSCAN long 0", &format!("*2|$1|0|*2|$65|{long}|{}", bulk(everywhere)));
    }
}

#[test]
fn a_client_is_listed_with_what_it_has_sent_and_not_taken_and_is_counted_when_that_is_too_much() {
    let running = Running::new(|_| {});
    let server = &running.server;
    let (mut client, mut admin) = (running.connect(), running.connect());
    ask(&mut client, "CLIENT SETNAME heavy", "+OK\r\n");
    let field = |name: &str| {
        let line = server.clients.all().iter().map(|client| client.line()).find(|line| line.contains(" name=heavy "));
        let line = line.unwrap_or_default();
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<usize>().ok()).unwrap_or(0)
    };
    let evicted = |count: u32| {
        let told = Client::new(server).run("INFO stats");
        told.contains(&format!("\r\nevicted_clients:{count}\r\n"))
    };
    let at_rest = field("tot-mem");
    assert!(field("qbuf") == 0 && at_rest > 0 && evicted(0), "{at_rest}");
    // Half of a command.
    let sent = 300_000;
    client.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 2 * sent).as_bytes()).expect("sent");
    client.write_all(&vec![b'v'; sent]).expect("sent");
    eventually("it has come", || field("qbuf") > sent);
    assert!(field("tot-mem") >= at_rest + sent, "{} after {at_rest}", field("tot-mem"));
    client.write_all(&vec![b'v'; sent]).expect("sent");
    client.write_all(b"\r\n").expect("sent");
    take(&mut client, "+OK\r\n");
    eventually("all is done", || field("qbuf") == 0 && field("tot-mem") < at_rest + sent);
    // Answers that it does not take.
    client.write_all(&b"GET k\r\n".repeat(40)).expect("sent");
    eventually("answers wait", || field("omem") > sent);
    assert!(field("tot-mem") >= at_rest + sent);
    ask(&mut admin, "CONFIG SET maxmemory-clients 300kb", "+OK\r\n");
    eventually("it is closed", || evicted(1));
    assert_eq!(field("tot-mem"), 0);
}
