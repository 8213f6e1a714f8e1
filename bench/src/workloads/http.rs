//! Requests over HTTP/1.1 with keep-alive, one under way on each connection, beside a bare hyper server that answers
//! everything with the same bytes: what the database costs on top of the protocol.
//!
//! Servers run in this process, each on as many threads of its own, and take turns; the client is one thread that waits
//! for many raw sockets, and compares every answer's status and body. It competes with the server for the processor,
//! and costs each of them the same.
//!
//! Entities have keys of 10 bytes and values of 36, as in the report that this face is modelled on; writes are handed
//! to the operating system.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use hyper::service::service_fn;
use quipu_server::Server;
use quipu_server::http::{HttpListening, HttpOptions, listen};
use rustix::event::epoll;

use crate::clock::{Deadline, median, now};
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::Draw;
use crate::socket::wait_for_answers;
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "http",
    about: "GET and PUT of entities over HTTP with keep-alive; a bare hyper server beside",
    run,
    child: None,
};

const VALUE_BYTES: usize = 36;
const CONNECTIONS: usize = 32;
/// Threads of each server: one, so that on two processors the client does not take from it.
const SERVER_THREADS: usize = 1;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Get,
    Put,
}

impl Question {
    const ALL: [Question; 2] = [Question::Get, Question::Put];

    fn name(self) -> &'static str {
        match self {
            Question::Get => "GET 1/1",
            Question::Put => "PUT 1/1",
        }
    }

    fn message(self, number: u64) -> Vec<u8> {
        let target = format!("/v0/entity?id=key-{number:06}&ack=1&from=1");
        match self {
            Question::Get => format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(),
            Question::Put => {
                let head = format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {VALUE_BYTES}\r\n\r\n");
                [head.as_bytes(), &value_of(number)].concat()
            }
        }
    }
}

fn value_of(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    let digits = number.to_string();
    value[..digits.len()].copy_from_slice(digits.as_bytes());
    value
}

/// One server and what it must answer.
struct Rival {
    name: &'static str,
    address: SocketAddr,
    /// What its threads are called.
    threads: &'static str,
    /// Whether it knows the entities; else every answer is `200` with a value's bytes.
    stores: bool,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for entities in bench.options.row_counts(&[100_000], 500) {
        show(one_size(bench, entities)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, entities: u64) -> Result<Table> {
    let dir = bench.place.fresh()?;
    let quipu = start_quipu(dir.path())?;
    let hello = Hello::start()?;
    let rivals = [
        Rival { name: "bare hyper", address: hello.address, threads: "hello", stores: false },
        Rival { name: "quipu", address: quipu.addresses[0], threads: "http", stores: true },
    ];
    let connections = if bench.options.smoke { 4 } else { CONNECTIONS };
    let mut crowds = Vec::new();
    for rival in &rivals {
        crowds.push(Crowd::open(rival, connections)?);
    }
    // All entities once, so that each is found.
    let everyone: Vec<u64> = (0..entities).collect();
    crowds[1].serve(Question::Put, &mut everyone.iter().copied(), &Deadline::never())?;

    let columns = ["request", "server", "requests", "requests/s", "median", "99 %", "CPU a request", "of bare hyper"];
    let mut table =
        Table::new(format!("HTTP, {connections} connections, {} entities", Cell::Count(entities)), &columns)
            .with_bars("requests/s", 1);
    for question in Question::ALL.into_iter().filter(|question| bench.options.wants(question.name())) {
        let turns = bench.options.repeat.max(1);
        let seconds = bench.options.seconds / turns as f64 / 2.0;
        let (mut rates, mut costs): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
        let mut latencies = [Latencies::new(), Latencies::new()];
        for turn in 0..turns {
            for (number, rival) in rivals.iter().enumerate() {
                bench.progress(format_args!("{}, {}, turn {}", question.name(), rival.name, turn + 1));
                let mut draw = Draw::new(bench.options.seed + turn as u64);
                let mut asked = std::iter::repeat_with(|| draw.below(entities));
                let cpu_before = cpu_nanos(rival.threads);
                let served = crowds[number].serve(question, &mut asked, &Deadline::after(seconds))?;
                let requests = served.nanos.len() as f64;
                rates[number].push(requests / served.wall_s);
                costs[number].push((cpu_nanos(rival.threads) - cpu_before) / requests);
                served.nanos.iter().for_each(|nanos| latencies[number].record(*nanos));
            }
        }
        for (number, rival) in rivals.iter().enumerate() {
            table.push(vec![
                Cell::text(question.name()),
                Cell::text(rival.name),
                Cell::Count(latencies[number].count()),
                Cell::PerSecond(median(rates[number].clone())),
                latencies[number].median(),
                latencies[number].p99(),
                Cell::Nanos(median(costs[number].clone())),
                Cell::Times(median(costs[0].clone()) / median(costs[number].clone())),
            ]);
        }
    }
    table.note("CPU: of the server's threads, in user and kernel mode. Of bare hyper: requests that the same CPU time would serve.");
    table.note("Closed loop: a stall is one slow answer on each connection. `oha -q RATE --latency-correction` shows stalls as clients feel them.");
    drop(crowds);
    quipu.stop();
    Ok(table)
}

/// CPU time of this process' threads of a name, in nanoseconds.
fn cpu_nanos(name: &str) -> f64 {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ours = tasks.filter(|task| read(task.path().join("comm")).trim().starts_with(name));
    // The first number of `schedstat` is the time on a processor.
    ours.filter_map(|task| read(task.path().join("schedstat")).split(' ').next()?.parse::<f64>().ok()).sum()
}

fn start_quipu(dir: &std::path::Path) -> Result<HttpListening> {
    let options = quipu::Options { durability: quipu::Durability::Os, memtable_bytes: 0, ..quipu::Options::default() };
    let db = quipu::Db::open(dir, options)?;
    let config = quipu_server::config::Config::default().with_durability(quipu::Durability::Os);
    let server = Arc::new(Server::over(db, config)?);
    Ok(listen(&server, HttpOptions { threads: SERVER_THREADS, ..HttpOptions::default() })?)
}

/// A server of hyper that answers everything with as many bytes as a value has.
struct Hello {
    address: SocketAddr,
    /// Ends its tasks when dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Hello {
    fn start() -> Result<Hello> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(SERVER_THREADS).thread_name("hello").enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let answer = service_fn(async |_| {
                    let body = http_body_util::Full::new(hyper::body::Bytes::from_static(&[b'v'; VALUE_BYTES]));
                    Ok::<_, Infallible>(hyper::Response::new(body))
                });
                let io = hyper_util::rt::TokioIo::new(stream);
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, answer));
            }
        });
        Ok(Hello { address, _runtime: runtime })
    }
}

/// Connections of one thread, each with one request under way.
struct Crowd {
    epoll: rustix::fd::OwnedFd,
    members: Vec<Member>,
    stores: bool,
}

struct Member {
    stream: TcpStream,
    asked: u64,
    sent_at: std::time::Instant,
    answer: Vec<u8>,
}

/// What a crowd got done.
struct Served {
    nanos: Vec<u64>,
    wall_s: f64,
}

impl Crowd {
    fn open(rival: &Rival, connections: usize) -> Result<Crowd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut members = Vec::new();
        for number in 0..connections {
            let stream = TcpStream::connect(rival.address)?;
            stream.set_nodelay(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
            members.push(Member { stream, asked: 0, sent_at: now(), answer: Vec::with_capacity(1024) });
        }
        Ok(Crowd { epoll, members, stores: rival.stores })
    }

    /// Asks about the entities that `numbers` gives, each connection its next one as soon as the last is answered.
    fn serve(
        &mut self,
        question: Question,
        numbers: &mut dyn Iterator<Item = u64>,
        deadline: &Deadline,
    ) -> Result<Served> {
        let mut nanos = Vec::new();
        let mut under_way = 0;
        let start = now();
        for member in &mut self.members {
            under_way += usize::from(member.ask_next(question, numbers)?);
        }
        let mut events = Vec::with_capacity(256);
        while under_way > 0 {
            wait_for_answers(&self.epoll, &mut events)?;
            let is_over = deadline.passed();
            for event in &events {
                let member = &mut self.members[event.data.u64() as usize];
                if !member.receive()? {
                    continue;
                }
                nanos.push(member.sent_at.elapsed().as_nanos() as u64);
                member.check(question, self.stores)?;
                under_way -= 1;
                under_way += usize::from(!is_over && member.ask_next(question, numbers)?);
            }
        }
        Ok(Served { nanos, wall_s: start.elapsed().as_secs_f64() })
    }
}

impl Member {
    /// Sends the next request, if there is one.
    fn ask_next(&mut self, question: Question, numbers: &mut dyn Iterator<Item = u64>) -> Result<bool> {
        let Some(number) = numbers.next() else { return Ok(false) };
        self.asked = number;
        self.answer.clear();
        let message = question.message(number);
        self.sent_at = now();
        self.stream.write_all(&message)?;
        Ok(true)
    }

    /// Reads what has come; says whether the answer is whole.
    fn receive(&mut self) -> Result<bool> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => return Err(format!("the server closed after `{}`", self.answer.escape_ascii()).into()),
            count => self.answer.extend_from_slice(&buffer[..count]),
        }
        Ok(self.body()?.is_some())
    }

    /// The body, once it is there.
    fn body(&self) -> Result<Option<&[u8]>> {
        let Some(end) = self.answer.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
        const NAME: &[u8] = b"content-length: ";
        let place = self.answer[..end].windows(NAME.len()).position(|part| part == NAME);
        let place = place.ok_or_else(|| format!("no length in `{}`", self.answer.escape_ascii()))?;
        let digits = self.answer[place + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
        Ok(self.answer.get(end + 4..end + 4 + length))
    }

    fn check(&self, question: Question, stores: bool) -> Result<()> {
        let expected: (&[u8], &[u8]) = match (stores, question) {
            (false, _) => (b"HTTP/1.1 200", &[b'v'; VALUE_BYTES]),
            (true, Question::Get) => (b"HTTP/1.1 200", &value_of(self.asked)),
            (true, Question::Put) => (b"HTTP/1.1 201", b""),
        };
        if self.answer.starts_with(expected.0) && self.body()? == Some(expected.1) {
            return Ok(());
        }
        Err(format!("{} of entity {} got `{}`", question.name(), self.asked, self.answer.escape_ascii()).into())
    }
}
