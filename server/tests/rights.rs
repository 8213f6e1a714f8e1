//! Goal: users, their rules and their passwords. Method: a server without sockets is given lines.

use std::path::Path;

use crate::support::{Client, in_memory};
use quipu::{Db, Options};
use quipu_server::Server;
use quipu_server::config::{Config, file};

#[test]
fn a_user_with_a_hundred_thousand_patterns_is_made_at_once() {
    // Each was compared with all before it, which took ten seconds and held all clients up.
    const COUNT: usize = 100_000;
    let server = in_memory();
    let mut client = Client::new(&server);
    let rules = |rule: &dyn Fn(usize) -> String| {
        let words = ["ACL", "SETUSER", "al"].map(str::to_owned).into_iter().chain((0..COUNT).map(rule));
        vec![words.map(String::into_bytes).collect::<Vec<_>>()]
    };
    let ways: [&dyn Fn(usize) -> String; 6] = [
        &|number| format!("~k{number}"),
        &|number| format!("&c{number}"),
        &|number| format!(">p{number}"),
        &|number| format!("<p{number}"),
        &|number| ["+@read", "-@write", "+config|get", "-config"][number % 4].to_owned(),
        &|number| format!("%R~k{number}"),
    ];
    for way in ways {
        assert_eq!(client.send(&rules(way)), b"+OK\r\n");
    }
    client.expect("ACL DRYRUN al get k99999", "+OK");
    client.expect("ACL DRYRUN al get z", "$50|This user has no permissions to access the 'z' key");
    let told = client.run("ACL GETUSER al");
    assert!(told.contains("-@all +@read -@write -config\r\n"), "what a later rule made void is gone");
    assert!(told.contains("~k0 ~k1 ~k2 ") && told.contains("&c0 &c1 &c2 "));
}

#[test]
fn a_configuration_is_told_at_once_whoever_asks_for_it_a_hundred_thousand_times() {
    let server = in_memory();
    let mut client = Client::new(&server);
    let words = ["CONFIG", "GET"].into_iter().chain((0..100_000).map(|number| ["*", "hz", "?*z", "n*"][number % 4]));
    let answer = client.send(&[words.map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()]);
    assert_eq!(String::from_utf8_lossy(&answer), client.run("CONFIG GET *"));
    client.expect("CONFIG GET HZ hz [h]z", "*2|$2|HZ|$2|10");
}

#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn with_file(text: &str) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("quipu.toml");
    std::fs::write(&path, text).expect("a file");
    let mut config = Config::default();
    file::read(&mut config, &path).expect("a configuration");
    let db = Db::open(Path::new("/server"), Options::without_files()).expect("a database");
    let server = Server::over(db, config).expect("a server");
    (directory, server)
}

#[test]
fn users_are_not_kept_where_the_next_start_does_not_look() {
    const REFUSED: &str = "-ERR the users stand in the configuration file, under [users], and are taken from there at \
                           every start; CONFIG REWRITE writes them there";
    let (_directory, server) = with_file("[users]\ndefault = \"on nopass ~* &* +@all\"\nal = \"on >pw ~* +get\"\n");
    let mut client = Client::new(&server);
    client.expect("ACL SETUSER al +set", "+OK");
    client.expect("ACL SAVE", REFUSED);
    client.expect("ACL LOAD", REFUSED);
    client.expect("CONFIG REWRITE", "+OK");
    let path = server.config.file.clone().expect("a file");
    assert!(std::fs::read_to_string(path).expect("a file").contains("+get +set"));
}

#[test]
fn once_users_were_written_into_the_file_they_are_kept_there() {
    let (_directory, server) = with_file("maxclients = 5\n");
    let mut client = Client::new(&server);
    client.expect("ACL SAVE", "+OK");
    client.expect("CONFIG REWRITE", "+OK");
    client.expect("ACL SAVE", "+OK");
    client.expect("ACL SETUSER al on", "+OK");
    client.expect("CONFIG REWRITE", "+OK");
    assert!(client.run("ACL SAVE").starts_with("-ERR the users stand in the configuration file"));
}

#[test]
fn the_log_of_refusals_names_the_command_and_the_key_that_were_refused() {
    let server = in_memory();
    let (mut admin, mut client) = (Client::new(&server), Client::new(&server));
    admin.expect("ACL SETUSER al on >pw ~a* +mget +@connection (+mget ~b*) (+mget ~a* ~b*)", "+OK");
    client.expect("AUTH al pw", "+OK");
    client.expect("PING", "+PONG");
    assert!(client.run("MGET a1 b1 c1").starts_with("-NOPERM"));
    let told = admin.run("ACL LOG");
    assert!(told.contains(" cmd=mget "), "not the command before: {told}");
    assert!(told.contains("$6\r\nobject\r\n$2\r\nc1\r\n"), "one set of rules allows the keys before: {told}");
    admin.expect("ACL DRYRUN al mget a b c", "$50|This user has no permissions to access the 'c' key");
}

/// Everything that shows what clients do, after passwords were given in every way there is.
#[test]
fn no_password_is_shown_to_anybody() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let server = crate::support::configured(|config| {
        config.set("logfile", log.to_str().expect("a path")).expect("set");
        config.set("loglevel", "debug").expect("set");
    });
    let (mut admin, mut monitor, mut client) = (Client::new(&server), Client::new(&server), Client::new(&server));
    admin.expect("CONFIG SET slowlog-log-slower-than 0", "+OK");
    admin.expect("ACL SETUSER al on >hidden1 ~a* +@all", "+OK");
    monitor.expect("MONITOR", "+OK");
    let ways = [
        "AUTH al hidden1",
        "AUTH default hidden2",
        "AUTH hidden3",
        "HELLO 2 AUTH al hidden1",
        "HELLO 3 AUTH al hidden4 SETNAME me",
        "ACL SETUSER bo >hidden5 <hidden6 nonsense",
        "ACL SETUSER bo >hidden5 on",
        "ACL DRYRUN al AUTH hidden7",
        "CONFIG SET MasterUser hidden10 tls-client-key-file-pass hidden11 tls-key-file-pass hidden12",
        "Q.AT 1 AUTH default hidden13",
        "Q.AT 1 CONFIG SET requirepass hidden14",
        "AUTH default hidden15 hidden16",
        // The last: no client does anything without it any more.
        "CONFIG SET requirepass hidden8 masterauth hidden9",
    ];
    for line in ways {
        client.run(line);
        client.run_all(&["MULTI", "GET a", line, "EXEC"]);
        client.run("RESET");
    }
    let told = [
        String::from_utf8_lossy(&monitor.session.client.take_pushed()).into_owned(),
        admin.run("SLOWLOG GET -1"),
        admin.run("ACL LOG 100"),
        admin.run("CLIENT LIST"),
        admin.run("LATENCY LATEST"),
        admin.run("INFO everything"),
        std::fs::read_to_string(&log).expect("a log"),
    ];
    for told in &told {
        assert!(!told.contains("hidden"), "{told}");
    }
    assert!(told[0].contains("\"EXEC\"") && told[1].contains("CONFIG"), "there is something to see");
    assert!(told[1].contains("(redacted)") && told[2].contains("auth"));
}
