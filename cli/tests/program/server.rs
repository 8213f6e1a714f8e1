//! Servers that end with their test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Place;

/// A server that is killed with the test.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of this machine that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A server that has said it is ready, and what it said before.
pub(crate) fn started(mut command: Command) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().expect("the program");
    let mut said = String::new();
    let mut lines = BufReader::new(process.stdout.take().expect("its output"));
    while !said.ends_with("ready\n") {
        assert_ne!(lines.read_line(&mut said).expect("a line"), 0, "it ended: {said}");
    }
    (process, said)
}

impl Server {
    /// A server with these arguments in a directory, and what it said until it was ready. A node that joins a cluster
    /// is ready when it has been added, so it is not waited for.
    pub(crate) fn of(arguments: &[&str], directory: &Path) -> (Server, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.arg("serve").args(arguments).current_dir(directory);
        // A node that leaves does not wait until clients have seen it.
        command.stdin(Stdio::null()).stderr(Stdio::null()).env("QUIPU_CLUSTER_DRAIN_MS", "0");
        if arguments.contains(&"--join") {
            return (Server(command.stdout(Stdio::null()).spawn().expect("the program")), String::new());
        }
        let (process, said) = started(command);
        (Server(process), said)
    }
}

impl Place {
    /// A server over the directory `served`, with durability `os`, that is ready.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args(["serve", "--durability", "os", "--data"]).arg(self.path("served")).args(arguments);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Server(started(command).0)
    }
}
