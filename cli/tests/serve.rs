//! Goal: `quipu serve` starts, says what it serves, ends in order, and tells what is wrong in one line.
//! Method: the program is run; a client speaks to it over a local socket, which needs no free port.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::program::{free_port, started};

fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.arg("serve").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that has said it is ready, and what it said before.
fn start(words: &[&str]) -> (Child, String) {
    started(program(words))
}

/// Ends a server by SHUTDOWN and returns what it logged.
fn end(mut child: Child, socket: &Path, command: &str) -> String {
    let mut client = UnixStream::connect(socket).expect("a connection");
    client.write_all(format!("{command}\r\n").as_bytes()).expect("sent");
    let mut log = String::new();
    child.stderr.take().expect("its log").read_to_string(&mut log).expect("the log");
    assert!(child.wait().expect("its end").success(), "{log}");
    log
}

/// What a server that does not start says, and its exit code.
fn fails(words: &[&str]) -> (String, i32) {
    let output = program(words).output().expect("the program");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code().expect("a code"))
}

#[test]
fn it_starts_ends_and_starts_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data").to_str().expect("a path").to_owned();
    let socket = directory.path().join("s.sock");
    let words = ["--data", &data, "--unixsocket", socket.to_str().expect("a path"), "--durability", "os"];
    let redis_style = ["--save", "", "--appendonly", "no", "--zset-max-listpack-entries=7"];
    let (child, said) = start(&[&words[..], &redis_style[..]].concat());
    assert!(said.contains("holds       0 keys") && said.contains("durability  os"), "{said}");
    let (busy, code) = fails(&["--data", &data, "--unixsocket", "/nowhere/s.sock"]);
    assert!(code == 1 && busy.lines().count() == 1 && busy.starts_with("quipu: "), "{busy}");
    // A backup is made by the process that has the database open.
    let copy = directory.path().join("copy").to_str().expect("a path").to_owned();
    let backup =
        Command::new(env!("CARGO_BIN_EXE_quipu")).args(["backup", &data, &copy]).output().expect("the program");
    let told = String::from_utf8_lossy(&backup.stderr);
    assert!(told.ends_with(&format!("redis-cli Q.BACKUP {copy}\n")), "{told}");
    let mut client = UnixStream::connect(&socket).expect("a connection");
    client.write_all(format!("Q.BACKUP {copy}\r\n").as_bytes()).expect("sent");
    let mut answer = [0; 7];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+commit");
    let check = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["check", &copy]).output().expect("the program");
    assert!(check.status.success(), "{check:?}");
    let mut client = UnixStream::connect(&socket).expect("a connection");
    client.write_all(b"SET a 1\r\nCONFIG GET zset-max-listpack-entries\r\n").expect("sent");
    let expected = "+OK\r\n*2\r\n$25\r\nzset-max-listpack-entries\r\n$1\r\n7\r\n";
    let mut answer = vec![0; expected.len()];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), expected);
    let log = end(child, &socket, "SHUTDOWN");
    assert!(log.contains("without effect here: appendonly, save, zset-max-listpack-entries"), "{log}");
    assert!(log.contains("stopped: checkpoint"), "{log}");

    let (child, said) = start(&words);
    assert!(said.contains("holds       1 key, "), "{said}");
    assert!(end(child, &socket, "SHUTDOWN NOSAVE").contains("without a checkpoint"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn values_come_from_file_environment_and_flags_in_this_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (file, data, socket) = (path("quipu.toml"), path("data"), path("s.sock"));
    std::fs::write(&file, "maxclients = 5\ntimeout = 6\nhz = 7\n").expect("a file");
    let mut command = program(&["--config", &file, "--data", &data, "--unixsocket", &socket, "--timeout", "60"]);
    command.env("QUIPU_TIMEOUT", "50").env("QUIPU_HZ", "70");
    let (child, _) = started(command);
    let mut client = UnixStream::connect(&socket).expect("a connection");
    client.write_all(b"CONFIG GET maxclients timeout hz\r\n").expect("sent");
    let expected = "*6\r\n$10\r\nmaxclients\r\n$1\r\n5\r\n$7\r\ntimeout\r\n$2\r\n60\r\n$2\r\nhz\r\n$2\r\n70\r\n";
    let mut answer = vec![0; expected.len()];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), expected);
    end(child, Path::new(&socket), "SHUTDOWN");
}

#[test]
fn mistakes_are_told_in_one_line() {
    for (words, told) in [
        (&["--maxclients", "0"][..], "quipu: `--maxclients 0`: argument must be between 1 and 4294967295 inclusive\n"),
        (
            &["--durability", "always"][..],
            "quipu: `--durability always`: argument(s) must be one of the following: sync, os, none\n",
        ),
        (
            &["--port", "0"][..],
            "quipu: nothing is to be served: name `--port`, `--http-port`, `--pg-port`, `--tls-port` or \
             `--unixsocket`\n",
        ),
    ] {
        assert_eq!(fails(words), (told.to_owned(), 2));
    }
    let (told, code) = fails(&["--nosuch", "1"]);
    assert!(code == 2 && told.contains("--nosuch"), "{told}");
    let (told, code) = fails(&["--config", "/nowhere/quipu.toml"]);
    assert!(code == 2 && told.starts_with("quipu: cannot read /nowhere/quipu.toml"), "{told}");
}

/// With `maxmemory` alone, rows stayed in memory up to the usual gigabyte, and writes were refused that fitted once
/// some had gone to disk.
#[test]
fn found_maxmemory_alone_refused_writes_of_which_the_disk_has_room() {
    const ROUNDS: usize = 120;
    const AT_ONCE: usize = 500;
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data").to_str().expect("a path").to_owned();
    let socket = directory.path().join("s.sock");
    let path = socket.to_str().expect("a path");
    let (child, _) = start(&["--data", &data, "--unixsocket", path, "--durability", "os", "--maxmemory", "8mb"]);
    let mut client = UnixStream::connect(&socket).expect("a connection");
    let value = "v".repeat(400);
    for round in 0..ROUNDS {
        let commands: String =
            (0..AT_ONCE).map(|n| format!("SET key:{:06} {value}\r\n", round * AT_ONCE + n)).collect();
        client.write_all(commands.as_bytes()).expect("sent");
        let mut answers = vec![0; AT_ONCE * "+OK\r\n".len()];
        client.read_exact(&mut answers).expect("answers");
        assert_eq!(String::from_utf8_lossy(&answers), "+OK\r\n".repeat(AT_ONCE), "round {round}");
    }
    client.write_all(b"DBSIZE\r\n").expect("sent");
    let mut answer = [0; 8];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b":60000\r\n", "24 MB of values");
    end(child, &socket, "SHUTDOWN");
}

/// What was imported was not there for those who served its directory, and nothing said why.
#[test]
fn tables_with_columns_are_told_with_the_way_to_serve_them() {
    let place = crate::program::Place::new();
    place.write("towns.csv", "name\nCusco\n");
    place.run("import towns.csv --data db").success();
    let (data, socket) = (place.path("db").to_str().expect("a path").to_owned(), place.path("s.sock"));
    let words = ["--data", &data, "--unixsocket", socket.to_str().expect("a path")];
    let port = free_port().to_string();
    for (more, told) in
        [(&[][..], "which `--pg-port 5432` would serve by SQL"), (&["--pg-port", &port], "which SQL serves")]
    {
        let (child, said) = start(&[&words[..], more].concat());
        assert!(said.contains(&format!("tables with columns, {told}\n")), "{said}");
        end(child, &socket, "SHUTDOWN");
    }
}
