//! Clusters of real processes on this machine.

pub mod network;

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::Network;

pub use crate::http::{Reply, ask};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nodes of a cluster, each with a directory of its own. They end with it.
pub struct Nodes {
    directory: tempfile::TempDir,
    addresses: Vec<SocketAddr>,
    /// Where they are, if not at this machine's own address.
    pub network: Option<Network>,
    children: Vec<Option<Child>>,
    /// How many of them the list of the cluster names.
    listed: usize,
    /// Flags that all nodes get.
    pub flags: Vec<String>,
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        pause(20);
    }
}

/// A port of this machine.
pub fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

impl Nodes {
    /// So many nodes, that run and have met.
    pub fn start(count: usize, flags: &[&str]) -> Nodes {
        let mut nodes = Nodes::new(count, flags);
        (0..count).for_each(|node| nodes.spawn(node));
        (0..count).for_each(|node| nodes.wait(node));
        nodes
    }

    /// So many nodes, none of which runs.
    pub fn new(count: usize, flags: &[&str]) -> Nodes {
        Nodes::of_list(count, count, flags)
    }

    /// So many nodes, of which the list names the first few.
    pub fn of_list(count: usize, listed: usize, flags: &[&str]) -> Nodes {
        // All at once, so that they are different.
        let listeners: Vec<TcpListener> =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        let addresses = listeners.iter().map(|listener| listener.local_addr().expect("a port")).collect();
        Nodes {
            directory: tempfile::tempdir().expect("a directory"),
            addresses,
            network: None,
            children: (0..count).map(|_| None).collect(),
            listed,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        }
    }

    /// So many nodes in a network of the test's own, none of which runs.
    pub fn in_network(count: usize, flags: &[&str]) -> Nodes {
        let flags: Vec<&str> = flags.iter().copied().chain(["--protected-mode", "no"]).collect();
        let mut nodes = Nodes::new(count, &flags);
        nodes.addresses = (0..count).map(Network::address).collect();
        nodes.network = Some(Network::new(count));
        nodes
    }

    pub fn count(&self) -> usize {
        self.addresses.len()
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn address(&self, node: usize) -> SocketAddr {
        self.addresses[node]
    }

    pub fn port(&self, node: usize) -> u16 {
        self.addresses[node].port()
    }

    pub fn url(&self, node: usize) -> String {
        match self.network {
            Some(_) => format!("http://{}", self.addresses[node]),
            None => format!("http://localhost:{}", self.port(node)),
        }
    }

    pub fn list(&self) -> String {
        (0..self.listed).map(|node| self.url(node)).collect::<Vec<_>>().join(",")
    }

    pub fn data(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("data-{node}"))
    }

    fn log_path(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("log-{node}"))
    }

    /// All that a node has logged, over all its runs.
    #[expect(clippy::disallowed_methods, reason = "a log, no file of a database")]
    pub fn log(&self, node: usize) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_path(node)).unwrap_or_default()).into_owned()
    }

    /// The command that runs a node, with these flags over its own.
    pub fn command(&self, node: usize, flags: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_quipu");
        let mut command = match &self.network {
            Some(network) => network.command(node, program),
            None => Command::new(program),
        };
        let bind = self.network.as_ref().map(|_| self.addresses[node].ip().to_string());
        let (port, data) = (self.port(node).to_string(), self.data(node));
        let (url, list) = (self.url(node), self.list());
        let own = [
            ("--http-port", port.as_str()),
            ("--self-url", &url),
            ("--cluster", &list),
            ("--durability", "os"),
            ("--loglevel", "verbose"),
            ("--data", data.to_str().expect("a path")),
        ];
        command.arg("serve").args(flags);
        command.args(bind.iter().flat_map(|host| ["--bind", host]));
        let joins = flags.contains(&"--join");
        let rest = own.iter().filter(|(name, _)| !(flags.contains(name) || joins && *name == "--cluster"));
        rest.for_each(|(name, value)| {
            command.args([name, value]);
        });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts the process of a node.
    pub fn spawn(&mut self, node: usize) {
        self.spawn_with(node, &[]);
    }

    /// The same with more flags.
    pub fn spawn_with(&mut self, node: usize, flags: &[&str]) {
        let log = File::options().create(true).append(true).open(self.log_path(node)).expect("a log");
        let child = self
            .command(node, &self.flags.iter().map(String::as_str).chain(flags.iter().copied()).collect::<Vec<_>>())
            .stderr(log)
            .spawn()
            .expect("the program");
        self.children[node] = Some(child);
    }

    /// Waits until a node serves.
    pub fn wait(&self, node: usize) {
        eventually(&format!("node {node} serves: {}", self.log(node)), || {
            ask(self.addresses[node], "GET", "/v0/status", b"", "").is_ok_and(|reply| reply.status == 200)
        });
    }

    pub fn restart(&mut self, node: usize) {
        self.spawn(node);
        self.wait(node);
    }

    /// `kill -9`.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.children[node].take() {
            child.kill().expect("a process to kill");
            child.wait().expect("its end");
        }
    }

    /// Sends a signal by name.
    pub fn signal(&self, node: usize, signal: &str) {
        let child = self.children[node].as_ref().expect("a process");
        let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    }

    /// SIGTERM, and its exit code.
    pub fn stop(&mut self, node: usize) -> Option<i32> {
        self.signal(node, "TERM");
        let mut child = self.children[node].take().expect("a process");
        child.wait().expect("its end").code()
    }

    /// Removes the data directory of a node that does not run.
    pub fn erase(&self, node: usize) {
        std::fs::remove_dir_all(self.data(node)).expect("a directory to remove");
    }

    pub fn ask(&self, node: usize, method: &str, target: &str, body: &[u8]) -> Reply {
        ask(self.addresses[node], method, target, body, "").unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// The status of a request.
    pub fn status(&self, node: usize, method: &str, target: &str, body: &[u8]) -> u16 {
        self.ask(node, method, target, body).status
    }

    /// Asks for something. An entity for which the replicas did not answer in time is asked for again: this machine may
    /// be busy, and that answer loses nothing.
    pub fn get(&self, node: usize, target: &str) -> Reply {
        let mut attempts = 0;
        loop {
            let reply = self.ask(node, "GET", target, b"");
            attempts += 1;
            if reply.status != 503 || !target.starts_with("/v0/entity") || attempts == 5 {
                return reply;
            }
            pause(200);
        }
    }

    /// A figure of `/metrics`.
    pub fn metric(&self, node: usize, name: &str) -> f64 {
        let page = self.get(node, "/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
    }

    /// Waits until a node answers everything that it should.
    pub fn until_ready(&self, node: usize) {
        let begun = now();
        loop {
            let why = match ask(self.addresses[node], "GET", "/readyz", b"", "") {
                Ok(reply) if reply.status == 200 => return,
                Ok(reply) => reply.text(),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() >= PATIENCE {
                let report = ask(self.addresses[node], "GET", "/v0/cluster", b"", "").map(|reply| reply.text());
                panic!("node {node} is not ready after {PATIENCE:?}: {why}: {report:?}\n{}", self.log(node));
            }
            pause(20);
        }
    }
}

/// Asks a node for other members. Returns the status and the text of the answer.
pub fn order(nodes: &Nodes, node: usize, order: &str) -> (u16, String) {
    let reply = nodes.ask(node, "POST", "/v0/cluster", order.as_bytes());
    (reply.status, reply.text())
}

/// Waits until no change is under way as far as a node knows, and every living member knows that.
pub fn until_changed(nodes: &Nodes, node: usize, members: usize) {
    eventually("the change has ended", || {
        let report = nodes.get(node, "/v0/cluster").text();
        report.contains("\"change\":null") && report.matches("\"connected\"").count() == members - 1
    });
}

/// Starts a node that joins the first three, and waits until it answers.
pub fn join(nodes: &mut Nodes, node: usize) {
    let list = nodes.list();
    nodes.spawn_with(node, &["--join", &list]);
    eventually("it answers", || ask(nodes.addresses[node], "GET", "/v0/status", b"", "").is_ok());
}

/// Runs the program. Returns its exit code and all that it said.
pub fn quipu(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(arguments).output().expect("the program");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), format!("{out}{err}"))
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for (node, child) in self.children.iter_mut().enumerate() {
            if let Some(child) = child {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
            if std::thread::panicking() {
                let log = std::fs::read_to_string(self.directory.path().join(format!("log-{node}")));
                eprintln!("-- node {node}:\n{}", log.unwrap_or_default());
            }
        }
    }
}
