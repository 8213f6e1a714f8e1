//! The three processes of Quipu, Redis or etcd: which settings they start with, and what they used of the machine.
//!
//! | | `os`: handed to the operating system | `sync`: on the disk before the answer | asked are |
//! |---|---|---|---|
//! | Quipu | `--durability os` | `--durability sync` | all nodes in turn |
//! | Redis, a primary and two replicas | `appendfsync everysec` | `appendfsync always` | the primary |
//! | etcd, over its JSON gateway | as `sync`: it knows nothing weaker | its default | all members in turn |
//!
//! Nothing is compacted or saved as a snapshot meanwhile, as in `socket/server.rs`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::crowd::{Crowd, Pace};
use super::{Operation, Promise, Question, Served};
use crate::clock::{Deadline, Stopwatch};
use crate::socket::{Process, find, find_quipu, pause, resp, settle};
use crate::store::{Durability, Result};
use crate::{Bench, Options};

const NODES: usize = 3;
/// How long nodes may take to meet, in seconds.
const START_SECONDS_MAX: f64 = 30.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brand {
    Quipu,
    Redis,
    Etcd,
}

impl Brand {
    pub(crate) const ALL: [Brand; 3] = [Brand::Quipu, Brand::Redis, Brand::Etcd];

    /// As `--stores` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Brand::Quipu => "quipu",
            Brand::Redis => "redis",
            Brand::Etcd => "etcd",
        }
    }

    /// What it can be asked under.
    pub(crate) fn promises(self) -> &'static [Promise] {
        const fn quorum(ack: u8, from: u8) -> Promise {
            Promise::Quorum { ack, from }
        }
        match self {
            Brand::Quipu => const { &[quorum(1, 1), quorum(2, 3), quorum(3, 3)] },
            Brand::Redis => &[Promise::WaitOne],
            Brand::Etcd => &[Promise::Raft],
        }
    }

    /// What a reader of its figures must know.
    fn remark(self) -> &'static str {
        match self {
            Brand::Quipu => "",
            Brand::Redis => "; a primary and two replicas, `WAIT 1` after each `SET`, reads from the primary",
            Brand::Etcd => {
                "; asked over its JSON gateway (HTTP, not gRPC), linearizable reads, syncs each write whatever \
                 --durability says"
            }
        }
    }
}

/// A program that was looked for.
pub(crate) struct Found {
    pub(crate) brand: Brand,
    /// The program, and what it says of itself; or why there is none.
    pub(crate) program: Result<(PathBuf, String), String>,
}

impl Found {
    /// Those asked for, whether they are installed or not.
    pub(crate) fn all(options: &Options) -> Vec<Found> {
        let asked = |brand: &Brand| options.stores.is_empty() || options.stores.iter().any(|name| name == brand.name());
        let look = |brand| match brand {
            Brand::Quipu => find_quipu(options),
            Brand::Redis => find("redis-server"),
            Brand::Etcd => find("etcd"),
        };
        Brand::ALL.into_iter().filter(asked).map(|brand| Found { brand, program: look(brand) }).collect()
    }

    /// One line for below a table: the version, or why there are no figures.
    pub(crate) fn note(&self) -> String {
        match &self.program {
            Ok((_, version)) => format!("{}: {version}{}.", self.brand.name(), self.brand.remark()),
            Err(reason) => format!("{}: NOT MEASURED, {reason}.", self.brand.name()),
        }
    }
}

/// Three processes that have met, and connections to them.
pub(crate) struct Trio {
    pub(crate) brand: Brand,
    processes: Vec<Process>,
    crowd: Crowd,
    /// Whether [`Trio::settle`] waits at all.
    settles: bool,
    _directories: Vec<tempfile::TempDir>,
}

impl Trio {
    /// Starts what was found, empty, in fresh directories on free ports, and waits until it serves.
    pub(crate) fn start(bench: &Bench<'_>, found: &Found, durability: Durability, connections: usize) -> Result<Trio> {
        let brand = found.brand;
        let start = || {
            let (program, _) = found.program.as_ref().map_err(Clone::clone)?;
            let ports = free_ports(2 * NODES)?;
            let (ports, peer_ports) = ports.split_at(NODES);
            let (mut processes, mut directories) = (Vec::new(), Vec::new());
            for number in 0..NODES {
                let directory = bench.place.fresh()?;
                let mut command = Command::new(program);
                match brand {
                    Brand::Quipu => quipu(&mut command, ports, number, durability),
                    Brand::Redis => redis(&mut command, ports, number, durability),
                    Brand::Etcd => etcd(&mut command, ports, peer_ports, number),
                }
                // The directory is the last argument of each.
                command.arg(directory.path());
                processes.push(Process::start(command, directory.path())?);
                directories.push(directory);
            }
            let asked = if brand == Brand::Redis { &ports[..1] } else { ports };
            let deadline = Deadline::after(START_SECONDS_MAX);
            for port in asked {
                while !serves(brand, *port) {
                    processes.iter_mut().try_for_each(Process::expect_running)?;
                    if deadline.passed() {
                        return Err("the nodes do not meet".into());
                    }
                    pause(Duration::from_millis(10));
                }
            }
            let crowd = Crowd::open(asked, connections)?;
            Ok(Trio { brand, processes, crowd, settles: !bench.options.smoke, _directories: directories })
        };
        start().map_err(|error: Box<dyn std::error::Error + Send + Sync>| format!("{}: {error}", brand.name()).into())
    }

    /// Writes all entities once, so that each is found.
    pub(crate) fn fill(&mut self, promise: Promise, entities: u64) -> Result<()> {
        let mut everyone = 0..entities;
        let question = Question { operation: Operation::Put, promise };
        let served = self.closed_loop(question, &mut || everyone.next())?;
        match served.failed {
            0 => Ok(()),
            failed => {
                let refusal = &served.refusal;
                let text = format!("{failed} of {entities} entities were not taken; one got `{refusal}`");
                Err(format!("{}: {text}", promise.name()).into())
            }
        }
    }

    /// Asks about what `next` gives until it gives nothing, a request under way on each connection.
    pub(crate) fn closed_loop(&mut self, question: Question, next: &mut dyn FnMut() -> Option<u64>) -> Result<Served> {
        self.watched(|crowd, served| crowd.closed_loop(question, next, served))
    }

    /// Asks at a fixed rate, whatever is answered.
    pub(crate) fn open_loop(
        &mut self,
        question: Question,
        pace: Pace,
        next: &mut dyn FnMut() -> u64,
    ) -> Result<Served> {
        self.watched(|crowd, served| crowd.open_loop(question, pace, next, served))
    }

    fn watched(&mut self, work: impl FnOnce(&mut Crowd, &mut Served) -> Result<()>) -> Result<Served> {
        let (mut served, cpu_before, watch) = (Served::none(), self.cpu_s(), Stopwatch::start());
        work(&mut self.crowd, &mut served).map_err(|error| format!("{}: {error}", self.brand.name()))?;
        let spent = watch.stop();
        (served.wall_s, served.client_cpu_s) = (spent.wall_s, spent.cpu_s);
        served.nodes_cpu_s = self.cpu_s() - cpu_before;
        Ok(served)
    }

    /// Waits until it stands still, so that its work in the background is not paid by the one that is measured next.
    pub(crate) fn settle(&self) {
        if self.settles {
            settle(|| self.cpu_s());
        }
    }

    fn cpu_s(&self) -> f64 {
        self.processes.iter().map(Process::cpu_s).sum()
    }
}

/// Another program that takes a port before a server does makes the server end, which is reported.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..count).map(bind).collect::<std::io::Result<_>>()?;
    Ok(listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()?)
}

fn quipu(command: &mut Command, ports: &[u16], number: usize, durability: Durability) {
    let url = |port: &u16| format!("http://localhost:{port}");
    let list = ports.iter().map(url).collect::<Vec<_>>().join(",");
    let durability = if durability == Durability::Sync { "sync" } else { "os" };
    command.args(["serve", "--http-port", &ports[number].to_string(), "--self-url", &url(&ports[number])]);
    // A machine that is busy for a second shows in the latencies; it is no failure.
    command.args(["--cluster-request-timeout-ms", "10000"]);
    command.args(["--cluster", &list, "--durability", durability, "--data"]);
}

fn redis(command: &mut Command, ports: &[u16], number: usize, durability: Durability) {
    let append = if durability == Durability::Sync { "always" } else { "everysec" };
    command.args(["--port", &ports[number].to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", append, "--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"]);
    if number > 0 {
        command.args(["--replicaof", &format!("127.0.0.1 {}", ports[0])]);
    }
    command.arg("--dir");
}

fn etcd(command: &mut Command, ports: &[u16], peer_ports: &[u16], number: usize) {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let (client, peer) = (url(ports[number]), url(peer_ports[number]));
    let member = |(number, port): (usize, &u16)| format!("m{number}={}", url(*port));
    let list = peer_ports.iter().enumerate().map(member).collect::<Vec<_>>().join(",");
    command.args(["--name", &format!("m{number}"), "--initial-cluster", &list]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--logger", "zap", "--log-level", "error", "--snapshot-count", "100000000", "--data-dir"]);
}

/// Whether a node serves, with all the others.
fn serves(brand: Brand, port: u16) -> bool {
    let http = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let ask = |request: &[u8]| -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match brand {
        // A node is ready with two of three; a promise of 3 of 3, or of 1 of 1, needs each of them.
        Brand::Quipu => ask(http("/metrics").as_bytes()).is_ok_and(|page| {
            let peers = page.lines().filter(|line| line.starts_with("quipu_cluster_peer_up{"));
            page.contains("\nquipu_cluster_ready 1\n")
                && peers.filter(|line| !line.ends_with(" 0")).count() == NODES - 1
        }),
        Brand::Etcd => ask(http("/health").as_bytes()).is_ok_and(|answer| answer.contains(r#""health":"true""#)),
        Brand::Redis => {
            let mut request = Vec::new();
            resp::command(&mut request, &[b"SET", b"met", b"1"]);
            resp::command(&mut request, &[b"WAIT", b"2", b"100"]);
            resp::command(&mut request, &[b"QUIT"]);
            ask(&request).is_ok_and(|answer| answer.contains(":2\r\n"))
        }
    }
}
