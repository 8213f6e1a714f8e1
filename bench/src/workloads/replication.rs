//! Entities of a cluster of three processes on this machine, written and read with `ack`/`from` of 1/1, 2/3 and 3/3, as
//! in the report that this face is modelled on (values of about 36 bytes, no wait for the disk).
//!
//! First the highest rate, with a request under way on each of 64 connections, spread over the three nodes. Then an
//! open loop: requests come at a fixed rate, whatever is answered, and a latency is counted from the moment a request
//! was due, not from when it could be sent. So a stall counts for all that came meanwhile. The rate is that of the
//! report, or half of the highest where this machine cannot hold it. All statuses are counted: a `504` is no success.
//!
//! Client and nodes share the processors of this machine; the report's server had ten.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::clock::{Deadline, now};
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::Draw;
use crate::socket::{Process, Server};
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "replication",
    about: "GET and PUT of entities in a cluster of three processes, at a fixed rate",
    run,
    child: None,
};

const NODES: usize = 3;
const CONNECTIONS: usize = 64;
const VALUE_BYTES: usize = 36;
/// How long nodes may take to meet, in seconds.
const START_SECONDS_MAX: f64 = 30.0;

/// What is asked, and what the report measured: its rate, and p50, p99, p99.9 and the longest in milliseconds.
struct Question {
    name: &'static str,
    is_put: bool,
    quorum: &'static str,
    rate: f64,
    report_ms: [f64; 4],
}

const QUESTIONS: [Question; 6] = [
    Question {
        name: "PUT 1/1",
        is_put: true,
        quorum: "&ack=1&from=1",
        rate: 50e3,
        report_ms: [1.71, 4.47, 5.98, 7.83],
    },
    Question {
        name: "PUT 2/3",
        is_put: true,
        quorum: "&ack=2&from=3",
        rate: 27e3,
        report_ms: [1.65, 7.08, 11.71, 19.77],
    },
    Question {
        name: "PUT 3/3",
        is_put: true,
        quorum: "&ack=3&from=3",
        rate: 27e3,
        report_ms: [2.15, 6.47, 8.37, 9.97],
    },
    Question {
        name: "GET 1/1",
        is_put: false,
        quorum: "&ack=1&from=1",
        rate: 50e3,
        report_ms: [1.56, 3.56, 3.96, 4.50],
    },
    Question {
        name: "GET 2/3",
        is_put: false,
        quorum: "&ack=2&from=3",
        rate: 27e3,
        report_ms: [1.84, 7.62, 10.91, 12.94],
    },
    Question {
        name: "GET 3/3",
        is_put: false,
        quorum: "&ack=3&from=3",
        rate: 27e3,
        report_ms: [1.97, 5.05, 6.93, 8.15],
    },
];

impl Question {
    fn message(&self, number: u64) -> Vec<u8> {
        // Of each `from` its own keys: what is written again with another has to move.
        let from = self.quorum.as_bytes()[self.quorum.len() - 1];
        let target = format!("/v0/entity?id=key-{}-{number:06}{}", char::from(from), self.quorum);
        if !self.is_put {
            return format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
        }
        let value = format!("{number:v<VALUE_BYTES$}");
        format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {VALUE_BYTES}\r\n\r\n{value}").into_bytes()
    }
}

/// Three nodes that have met.
struct Cluster {
    processes: Vec<Process>,
    ports: Vec<u16>,
    _directories: Vec<tempfile::TempDir>,
}

impl Cluster {
    fn start(bench: &Bench<'_>, program: &std::path::Path, durability: &str) -> Result<Cluster> {
        let listeners: Vec<TcpListener> =
            (0..NODES).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<std::io::Result<_>>()?;
        let ports: Vec<u16> =
            listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()?;
        drop(listeners);
        let url = |port: &u16| format!("http://localhost:{port}");
        let list = ports.iter().map(url).collect::<Vec<_>>().join(",");
        let (mut processes, mut directories) = (Vec::new(), Vec::new());
        for port in &ports {
            let directory = bench.place.fresh()?;
            let mut command = Command::new(program);
            command.args(["serve", "--http-port", &port.to_string(), "--self-url", &url(port), "--cluster", &list]);
            command.args(["--durability", durability, "--data"]).arg(directory.path().join("data"));
            processes.push(Process::start(command, directory.path())?);
            directories.push(directory);
        }
        let mut cluster = Cluster { processes, ports, _directories: directories };
        let deadline = Deadline::after(START_SECONDS_MAX);
        for number in 0..NODES {
            while !is_ready(cluster.ports[number]) {
                cluster.processes[number].expect_running()?;
                if deadline.passed() {
                    return Err("the nodes do not meet".into());
                }
                std::thread::yield_now();
            }
        }
        Ok(cluster)
    }

    fn cpu_s(&self) -> f64 {
        self.processes.iter().map(Process::cpu_s).sum()
    }
}

fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let quipu = Server::all(bench.options).into_iter().find(|server| server.name == "quipu");
    let Some(program) = quipu.as_ref().and_then(Server::path) else {
        let mut table = Table::new("Replication", &["why there are no figures"]);
        table.push(vec![Cell::text("no `quipu` beside this program; name one with --quipu or QUIPU_BIN")]);
        show(table);
        return Ok(());
    };
    for durability in &bench.options.durability {
        let name = format!("{durability:?}").to_lowercase();
        for entities in bench.options.row_counts(&[100_000], 200) {
            show(measure(bench, program, &name, entities)?);
        }
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, program: &std::path::Path, durability: &str, entities: u64) -> Result<Table> {
    let cluster = Cluster::start(bench, program, durability)?;
    let connections = if bench.options.smoke { 6 } else { CONNECTIONS };
    let mut crowd = Crowd::open(&cluster.ports, connections)?;
    let title = format!("Replication, three nodes, {durability}, {connections} connections, {entities} entities");
    let columns = [
        "request",
        "highest rate",
        "rate",
        "answered/s",
        "p50",
        "p99",
        "p99.9",
        "longest",
        "not 2xx",
        "CPU of nodes a request",
        "report's rate",
        "p50",
        "p99",
        "p99.9",
        "longest",
    ];
    let mut table = Table::new(title, &columns);
    for question in QUESTIONS.iter().filter(|question| bench.options.wants(question.name)) {
        bench.progress(format_args!("{}", question.name));
        let mut draw = Draw::new(bench.options.seed);
        // All entities once, so that each is found.
        let filling = Question { is_put: true, ..*question };
        let mut everyone = 0..entities;
        crowd.closed(&filling, &mut || everyone.next())?;
        let deadline = Deadline::after(bench.options.seconds / 3.0);
        let highest = crowd.closed(question, &mut || (!deadline.passed()).then(|| draw.below(entities)))?;
        let highest_rate = highest.answered as f64 / highest.wall_s;
        let rate = question.rate.min(highest_rate / 2.0);
        let cpu_before = cluster.cpu_s();
        let served = crowd.open_loop(question, rate, bench.options.seconds, &mut || draw.below(entities))?;
        let cpu_s = cluster.cpu_s() - cpu_before;
        let report = question.report_ms.map(|ms| Cell::Nanos(ms * 1e6));
        let [p50, p99, p999, longest] = report;
        table.push(vec![
            Cell::text(question.name),
            Cell::PerSecond(highest_rate),
            Cell::PerSecond(rate),
            Cell::PerSecond(served.answered as f64 / served.wall_s),
            served.latencies.median(),
            served.latencies.p99(),
            served.latencies.p999(),
            served.latencies.longest(),
            Cell::Count(served.failed + highest.failed),
            Cell::Nanos(cpu_s * 1e9 / (served.answered as f64).max(1.0)),
            Cell::PerSecond(question.rate),
            p50,
            p99,
            p999,
            longest,
        ]);
    }
    table.note("Latencies are counted from when a request was due. The report's are of ten processors, with the same correction.");
    Ok(table)
}

/// What a crowd got done.
struct Served {
    answered: u64,
    /// Answers that are not 2xx.
    failed: u64,
    latencies: Latencies,
    wall_s: f64,
}

/// Connections of one thread, each with one request under way.
struct Crowd {
    epoll: rustix::fd::OwnedFd,
    members: Vec<Member>,
    idle: Vec<usize>,
}

struct Member {
    stream: TcpStream,
    due: Instant,
    answer: Vec<u8>,
}

impl Crowd {
    fn open(ports: &[u16], connections: usize) -> Result<Crowd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut members = Vec::new();
        for number in 0..connections {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[number % ports.len()]))?;
            stream.set_nodelay(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
            members.push(Member { stream, due: now(), answer: Vec::with_capacity(512) });
        }
        Ok(Crowd { epoll, idle: (0..members.len()).collect(), members })
    }

    /// Asks about what `next` gives until it gives nothing, a request under way on each connection.
    fn closed(&mut self, question: &Question, next: &mut dyn FnMut() -> Option<u64>) -> Result<Served> {
        let start = now();
        let mut served = Served { answered: 0, failed: 0, latencies: Latencies::new(), wall_s: 0.0 };
        let mut is_over = false;
        while !is_over || self.idle.len() < self.members.len() {
            while !is_over && let Some(member) = self.idle.pop() {
                match next() {
                    Some(number) => self.members[member].ask(question, number, now())?,
                    None => {
                        self.idle.push(member);
                        is_over = true;
                    }
                }
            }
            if self.idle.len() < self.members.len() {
                self.receive(Duration::from_secs(30), &mut served)?;
            }
        }
        served.wall_s = start.elapsed().as_secs_f64();
        Ok(served)
    }

    /// Asks at a fixed rate for some seconds, whatever is answered, and waits for the rest.
    fn open_loop(
        &mut self,
        question: &Question,
        rate: f64,
        seconds: f64,
        next: &mut dyn FnMut() -> u64,
    ) -> Result<Served> {
        let start = now();
        let total = (rate * seconds).ceil().max(1.0) as u64;
        let due_at = |number: u64| start + Duration::from_secs_f64(number as f64 / rate);
        let mut served = Served { answered: 0, failed: 0, latencies: Latencies::new(), wall_s: 0.0 };
        let (mut come, mut waiting) = (0, VecDeque::new());
        while served.answered < total {
            let moment = now();
            while come < total && due_at(come) <= moment {
                waiting.push_back(due_at(come));
                come += 1;
            }
            while !waiting.is_empty()
                && let Some(member) = self.idle.pop()
            {
                let due = waiting.pop_front().unwrap_or(moment);
                self.members[member].ask(question, next(), due)?;
            }
            let patience = match come < total && waiting.is_empty() {
                true => due_at(come).saturating_duration_since(now()),
                false => Duration::from_secs(30),
            };
            self.receive(patience, &mut served)?;
        }
        served.wall_s = start.elapsed().as_secs_f64();
        Ok(served)
    }

    /// Takes the answers that have come, or comes back when `patience` ends.
    fn receive(&mut self, patience: Duration, served: &mut Served) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        let patience =
            rustix::time::Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)) {
            Ok(0) if patience.tv_sec >= 30 => return Err("no answer in 30 s".into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64() as usize;
            let member = &mut self.members[number];
            let Some(is_good) = member.receive()? else { continue };
            served.answered += 1;
            served.failed += u64::from(!is_good);
            served.latencies.record(member.due.elapsed().as_nanos() as u64);
            self.idle.push(number);
        }
        Ok(())
    }
}

impl Member {
    fn ask(&mut self, question: &Question, number: u64, due: Instant) -> Result<()> {
        self.due = due;
        self.answer.clear();
        Ok(self.stream.write_all(&question.message(number))?)
    }

    /// Reads what has come. Once the answer is whole, whether it is 2xx.
    fn receive(&mut self) -> Result<Option<bool>> {
        const LENGTH: &[u8] = b"content-length: ";
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => return Err(format!("a node closed after `{}`", self.answer.escape_ascii()).into()),
            count => self.answer.extend_from_slice(&buffer[..count]),
        }
        let Some(end) = self.answer.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
        let place = self.answer[..end].windows(LENGTH.len()).position(|part| part == LENGTH);
        let place = place.ok_or_else(|| format!("no length in `{}`", self.answer.escape_ascii()))?;
        let digits = self.answer[place + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
        Ok((self.answer.len() >= end + 4 + length).then(|| self.answer.starts_with(b"HTTP/1.1 2")))
    }
}
