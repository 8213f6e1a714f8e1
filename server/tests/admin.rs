//! Goal: what administrators use answers as Redis does: configuration, users, statistics, what is told of commands.
//! Method: a server without sockets is given lines; expected answers were taken from Redis 7.0.15.

use crate::support::{Client, in_memory};
use quipu_server::facts::{Flags, Group, all, redis};

#[test]
fn connections_introduce_themselves() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("PING", "+PONG");
    client.expect("PING a", "$1|a");
    client.expect("ECHO a", "$1|a");
    client.expect("HELLO 4", "-NOPROTO unsupported protocol version");
    client.expect("HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'");
    client.expect("CLIENT SETNAME \"a b\"", "-ERR Client names cannot contain spaces, newlines or special characters.");
    client.expect("CLIENT SETNAME ab", "+OK");
    client.expect("CLIENT GETNAME", "$2|ab");
    client.expect("CLIENT SETINFO LIB-NAME lib", "+OK");
    assert!(client.run("CLIENT LIST").contains(" name=ab "));
    assert!(client.run("CLIENT INFO").contains(" lib-name=lib "));
    assert!(client.run("HELLO 3").starts_with("%7\r\n$6\r\nserver\r\n"));
    client.expect("CLIENT GETREDIR", ":-1");
    client.expect("RESET", "+RESET");
    client.expect("CLIENT GETNAME", "$-1");
}

#[test]
fn answers_that_nobody_wants_are_not_given() {
    let server = in_memory();
    let mut client = Client::new(&server);
    assert_eq!(client.run_all(&["CLIENT REPLY OFF", "PING", "NOSUCH", "CLIENT REPLY ON", "PING"]), "+OK\r\n+PONG\r\n");
    assert_eq!(client.run_all(&["CLIENT REPLY SKIP", "PING", "ECHO a"]), "$1\r\na\r\n");
    client.expect("CLIENT REPLY x", "-ERR syntax error");
}

#[test]
fn parameters_are_told_and_changed() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("CONFIG GET hz", "*2|$2|hz|$2|10");
    client.expect("CONFIG SET hz 5000 timeout 7", "+OK");
    client.expect("CONFIG GET hz timeout", "*4|$2|hz|$3|500|$7|timeout|$1|7");
    client.expect("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'");
    client.expect(
        "CONFIG SET timeout 1 timeout 2",
        "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
    );
    client.expect(
        "CONFIG SET timeout 9 maxclients 0",
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
    );
    client.expect("CONFIG GET timeout", "*2|$7|timeout|$1|7");
    client.expect("CONFIG SET durability none", "+OK");
    assert_eq!(server.durability(), quipu::Durability::None);
    client.expect("CONFIG REWRITE", "-ERR The server is running without a config file");
    client.expect("CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP.");
}

#[test]
fn a_range_needs_rights_to_every_key_that_could_lie_in_it() {
    const DENIED: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    let server = in_memory();
    let (mut admin, mut client) = (Client::new(&server), Client::new(&server));
    admin.expect("MSET a1 x a2 x b1 secret", "+OK");
    admin.expect("ACL SETUSER rd on >p ~a* +@read +@write +@transaction +@connection +q.at +q.snapshot", "+OK");
    client.expect("AUTH rd p", "+OK");
    let reads =
        ["Q.RANGE - + WITHVALUES", "Q.COUNT", "Q.COUNT - +", "Q.NTH 0", "Q.TALLY", "Q.SAMPLE - + 3", "Q.RANK b1"];
    let others = ["Q.SPLIT [a [b 2", "Q.QUANTILE [a [c 0.5", "Q.WATCH - +", "Q.COUNT [a1 +", "Q.NTH 0 [a [b"];
    for line in reads.into_iter().chain(others) {
        client.expect(line, DENIED);
    }
    client.expect("Q.COUNT [a (b", ":2");
    client.expect("Q.RANGE [a1 [a9", "*2|$2|a1|$2|a2");
    client.expect("Q.NTH 1 [a (b", "$2|a2");
    let taken = client.run("Q.SNAPSHOT");
    let number = taken.trim_start_matches(':').trim_end();
    client.expect(&format!("Q.AT {number} GET b1"), DENIED);
    client.expect(&format!("Q.AT {number} Q.COUNT - +"), DENIED);
    client.expect(&format!("Q.AT {number} Q.COUNT [a (b"), ":2");
    let another = in_memory();
    let told = format!("-ERR there is no snapshot {number}: its time is over, or it was released");
    Client::new(&another).expect(&format!("Q.AT {number} Q.COUNT"), &told);
    // `@write` has it not: it is dangerous too, and needs rights to write.
    client.expect("Q.DELRANGE - +", DENIED);
    admin.expect("ACL SETUSER rd resetkeys %R~a*", "+OK");
    client.expect("Q.DELRANGE [a (b", DENIED);
    admin.expect("ACL SETUSER rd ~a* -@dangerous", "+OK");
    client.expect("Q.DELRANGE [a (b", "-NOPERM this user has no permissions to run the 'q.delrange' command");
    admin.expect("DBSIZE", ":3");
}

#[test]
fn a_slow_command_that_sets_a_password_is_told_without_it() {
    let server = in_memory();
    let mut admin = Client::new(&server);
    admin.expect("CONFIG SET slowlog-log-slower-than 0", "+OK");
    admin.expect("CONFIG SET requirepass topsecret", "+OK");
    let told = admin.run("SLOWLOG GET");
    assert!(!told.contains("topsecret") && told.contains("(redacted)"), "{told}");
}

#[test]
fn users_may_do_what_their_rules_say() {
    let server = in_memory();
    let (mut admin, mut client) = (Client::new(&server), Client::new(&server));
    admin.expect("ACL SETUSER al on >pw ~k* %R~r* +get +set +mget +config|get -config|set +@connection", "+OK");
    client.expect("AUTH al no", "-WRONGPASS invalid username-password pair or user is disabled.");
    client.expect("AUTH al pw", "+OK");
    assert_eq!(client.run("ACL WHOAMI"), "-NOPERM this user has no permissions to run the 'acl|whoami' command\r\n");
    client.expect("SET k1 v", "+OK");
    client.expect("SET z v", "-NOPERM this user has no permissions to access one of the keys used as arguments");
    client.expect("SET r1 v", "-NOPERM this user has no permissions to access one of the keys used as arguments");
    client.expect("GET r1", "$-1");
    client.expect("SET r1 v GET", "-NOPERM this user has no permissions to access one of the keys used as arguments");
    client.expect("DEL k1", "-NOPERM this user has no permissions to run the 'del' command");
    client.expect("CONFIG GET hz", "*2|$2|hz|$2|10");
    assert_eq!(
        client.run("CONFIG SET hz 1"),
        "-NOPERM this user has no permissions to run the 'config|set' command\r\n"
    );
    // Rules count for commands that are sent together, too.
    assert_eq!(
        client.run_all(&["GET k1", "GET z"]),
        "$1\r\nv\r\n-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
    );
    assert!(admin.run("ACL LOG").contains("reason"));
    admin.expect("ACL SETUSER al allkeys", "+OK");
    client.expect("GET z", "$-1");
    admin.expect("ACL DELUSER al default", "-ERR The 'default' user cannot be removed");
    admin.expect("ACL DELUSER al", ":1");
    assert!(client.session.client.is_killed());
}

#[test]
fn passwords() {
    let server = in_memory();
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    first.expect(
        "AUTH x",
        "-ERR AUTH <password> called without any password configured for the default user. \
         Are you sure your configuration is correct?",
    );
    first.expect("CONFIG SET requirepass secret", "+OK");
    second.expect("PING", "+PONG");
    let mut third = Client::new(&server);
    third.expect("PING", "-NOAUTH Authentication required.");
    third.expect("HELLO 3 AUTH default no", "-WRONGPASS invalid username-password pair or user is disabled.");
    third.expect("AUTH secret", "+OK");
    third.expect("PING", "+PONG");
    third.expect("RESET", "+RESET");
    third.expect("PING", "-NOAUTH Authentication required.");
}

#[test]
fn users_are_kept_with_the_data() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("ACL LOAD", "-ERR no users were kept; ACL SAVE keeps them");
    client.expect("ACL SETUSER al on >pw ~k* +get (+set ~l*)", "+OK");
    client.expect("ACL SAVE", "+OK");
    let kept = client.run("ACL LIST");
    client.expect("ACL DELUSER al", ":1");
    client.expect("ACL LOAD", "+OK");
    assert_eq!(client.run("ACL LIST"), kept);
    client.expect("ACL DRYRUN al set l1 v", "+OK");
    client.expect("ACL DRYRUN al set k1 v", "$51|This user has no permissions to access the 'k1' key");
}

#[test]
fn what_happened_is_counted() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK");
    client.run_all(&["SET a 1", "SET b 2", "GET a", "NOSUCH", "LPUSH"]);
    let info = client.run("INFO commandstats errorstats keyspace latencystats");
    for part in
        ["cmdstat_set:calls=2,", "cmdstat_get:calls=1,", "errorstat_ERR:count=2", "db0:keys=2,expires=0,avg_ttl=0"]
    {
        assert!(info.contains(part), "{part}: {info}");
    }
    assert!(info.contains("latency_percentiles_usec_set:p50="));
    assert!(client.run("SLOWLOG GET -1").contains("$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"));
    client.expect("SLOWLOG RESET", "+OK");
    client.expect("CONFIG RESETSTAT", "+OK");
    assert!(!client.run("INFO commandstats").contains("cmdstat_set"));
    let sections = client.run("INFO everything");
    for section in ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Keyspace", "Quipu"] {
        assert!(sections.contains(&format!("# {section}\r\n")), "{section}");
    }
}

#[test]
fn figures_are_told_inside_a_transaction() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.run("SET a 1");
    client.run_all(&["MULTI", "SET b 1", "INFO keyspace", "MEMORY STATS", "SET c 1"]);
    let answer = client.run("EXEC");
    assert!(answer.starts_with("*4\r\n+OK\r\n$"), "{answer}");
    assert!(answer.contains("db0:keys=2,expires=0"), "what the transaction has written counts: {answer}");
    assert!(answer.contains("keys.count\r\n:2\r\n"), "{answer}");
    assert!(client.run("INFO keyspace").contains("db0:keys=3,"));
}

#[test]
fn who_was_killed_is_listed_no_more() {
    let server = in_memory();
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    other.run("CLIENT SETNAME other");
    assert!(client.run("CLIENT LIST").contains(" name=other "));
    let id = other.session.id;
    assert!(!client.run_all(&[&format!("CLIENT KILL ID {id}"), "CLIENT LIST"]).contains(" name=other "));
    client.run("CLIENT SETNAME me");
    client.run("CLIENT KILL SKIPME NO");
    assert!(client.session.closing);
    assert!(!Client::new(&server).run("CLIENT LIST").contains(" name=me "));
}

#[test]
fn memory_has_a_limit() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("SET a 1", "+OK");
    client.expect("CONFIG SET maxmemory 1", "+OK");
    client.expect("SET a 2", "-OOM command not allowed when used memory > 'maxmemory'.");
    client.expect("GET a", "$1|1");
    client.expect("DEL a", ":1");
    client.expect("CONFIG SET maxmemory 0", "+OK");
    client.expect("SET a 2", "+OK");
}

#[test]
fn what_is_told_of_commands() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("COMMAND GETKEYS mset a 1 b 2", "*2|$1|a|$1|b");
    client.expect("COMMAND GETKEYS ping x", "-ERR The command has no key arguments");
    client.expect("COMMAND GETKEYSANDFLAGS set a b", "*1|*2|$1|a|*2|+OW|+update");
    client.expect("COMMAND INFO nosuch", "*1|$-1");
    client.expect("COMMAND LIST FILTERBY PATTERN xyz*", "*0");
    assert!(client.run("COMMAND DOCS get").contains("summary"));
    assert!(client.run("COMMAND").starts_with('*'));
}

#[test]
fn maintenance() {
    let server = crate::support::configured(|config| config.set("enable-debug-command", "yes").expect("set"));
    let mut client = Client::new(&server);
    client.expect("SAVE", "+OK");
    client.expect("ROLE", "*3|$6|master|:0|*0");
    client.expect("WAIT 0 0", ":0");
    client.expect("WAITAOF 1 0 0", "*2|:1|:0");
    client.expect("REPLICAOF NO ONE", "+OK");
    client.expect("REPLICAOF a b", "-ERR Invalid master port");
    client.expect("SHUTDOWN ABORT", "-ERR No shutdown in progress.");
    client.expect("DEBUG SLEEP 0", "+OK");
    client.expect("MEMORY USAGE a", "$-1");
    client.expect("SET a 1", "+OK");
    assert!(client.run("MEMORY USAGE a").starts_with(':'));
    client.expect("LATENCY HISTORY command", "*0");
    client.expect("SHUTDOWN NOSAVE", "");
    assert!(client.session.closing && server.stopping.load(std::sync::atomic::Ordering::Acquire));
}

#[test]
fn every_command_is_described() {
    for spec in all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)) {
        assert!(!spec.summary.is_empty() && spec.summary.ends_with('.'), "{} has no summary", spec.name);
        assert!(!spec.cost.is_empty() || spec.group == Group::Absent, "{} has no cost", spec.name);
        let is_redis = redis::is_redis(spec.name);
        assert!(is_redis || spec.name.starts_with("q.") || spec.flags == spec.flags.and(Flags(0)), "{}", spec.name);
        assert!(spec.name.len() <= 32 && spec.name == spec.name.to_lowercase(), "{}", spec.name);
    }
}

#[test]
fn no_words_of_administrators_panic() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for spec in all().filter(|spec| spec.group == Group::Server || spec.group == Group::Connection) {
        if matches!(spec.name, "shutdown" | "debug") {
            continue;
        }
        let names = std::iter::once(spec.name).chain(spec.subcommands.iter().map(|sub| sub.name));
        for name in names.filter(|name| *name != "client|pause") {
            for words in ["", "\"\"", "a", "-1 -1", "\"\\xff\" (", "1 2 3", "get", "set a", "~ & % +", "ID", "TYPE x y"]
            {
                client.run(&format!("{} {words}", name.replace('|', " ")));
                client.run("CLIENT REPLY ON");
            }
        }
    }
}

#[test]
fn the_database_is_copied_while_it_is_served() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("SET k v", "+OK");
    client.expect("Q.BACKUP copy", "-ERR the directory must be an absolute path");
    assert!(client.run("Q.BACKUP /copies/monday").starts_with("+commit "));
    assert!(client.run("Q.BACKUP /copies/monday").contains("is not empty"));
    client.expect("MULTI", "+OK");
    assert!(client.run("Q.BACKUP /copies/tuesday").starts_with("-ERR"));
}
