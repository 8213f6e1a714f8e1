//! A server process that is stormed, and what it takes of the machine while that goes on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quipu_suite::client::Client;
use quipu_suite::clock::{Deadline, Stopwatch, pause};
use quipu_suite::command::Command;
use quipu_suite::dice::Dice;
use quipu_suite::process::{Launch, ServerProcess, quipu_program};

use crate::panics;

/// What is found, or nothing.
pub type Judged<T = ()> = Result<T, String>;

/// A server, and the directory of its data.
pub struct Stormed {
    /// The process.
    pub server: ServerProcess,
    /// Where it answers over HTTP.
    pub http: SocketAddr,
    launch: Launch,
    dir: tempfile::TempDir,
}

impl Stormed {
    /// Starts one.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(program: Option<&Path>, dice: &mut Dice, arguments: &[&str]) -> io::Result<Stormed> {
        let dir = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut all: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        all.extend(["--http-port".to_owned(), port.to_string()]);
        // In memory, or in runs of which some pages are, or hardly any.
        let limits =
            *dice.pick(&[&None, &None, &Some(("2mb", "16mb")), &Some(("256kb", "1mb")), &Some(("256kb", "0"))]);
        if let Some((memtable, cache)) = limits {
            all.extend(["--memtable-bytes", memtable, "--cache-bytes", cache].map(str::to_owned));
        }
        let program: PathBuf = quipu_program(program);
        let launch = Launch::Quipu { program, arguments: all };
        let server = ServerProcess::start(&launch, &dir.path().join("data"), dir.path())?;
        Ok(Stormed { server, http: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), launch, dir })
    }

    /// Ends it, politely or not, and starts it again on the same files.
    ///
    /// # Errors
    /// If it does not end, or not start.
    pub fn restart(&mut self, kill: bool) -> io::Result<()> {
        if kill {
            self.server.kill()?
        } else {
            self.server.stop()?
        }
        self.server = ServerProcess::start(&self.launch, &self.dir.path().join("data"), self.dir.path())?;
        Ok(())
    }

    /// The process, as the system knows it.
    ///
    /// # Errors
    /// If it does not say.
    pub fn process(&self) -> Judged<u32> {
        let info = ask(self.server.address, &["INFO", "server"])?;
        let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("process_id:"));
        line.and_then(|number| number.trim().parse().ok()).ok_or_else(|| "INFO tells no process_id".to_owned())
    }
}

/// One command over a connection of its own.
///
/// # Errors
/// If there is no answer.
pub fn ask(address: SocketAddr, words: &[&str]) -> Judged<quipu_suite::value::Value> {
    let command = Command { words: words.iter().map(|word| word.as_bytes().to_vec()).collect() };
    Client::connect(address).and_then(|mut client| client.ask(&command)).map_err(|error| error.to_string())
}

/// What all threads of a run share.
pub struct SumField {
    /// Where Redis clients connect.
    pub address: SocketAddr,
    /// Where HTTP clients do.
    pub http: SocketAddr,
    /// Until when.
    pub deadline: Deadline,
    /// Milliseconds that an honest PING may take.
    pub stall_ms: u64,
    failures: Mutex<Vec<String>>,
    failed: AtomicBool,
    /// Commands sent by honest clients.
    pub commands: std::sync::atomic::AtomicU64,
}

impl SumField {
    /// For a server.
    pub fn new(stormed: &Stormed, deadline: Deadline, stall_ms: u64) -> SumField {
        SumField {
            address: stormed.server.address,
            http: stormed.http,
            deadline,
            stall_ms,
            failures: Mutex::default(),
            failed: AtomicBool::new(false),
            commands: Default::default(),
        }
    }

    /// Whether it is time to end.
    pub fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.deadline.passed()
    }

    /// Notes what was found.
    pub fn fail(&self, text: String) {
        self.failed.store(true, Ordering::SeqCst);
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Runs the work of a thread.
    pub fn guard<T>(&self, who: &str, work: impl FnOnce() -> Judged<T>) -> Option<T> {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(text)) => {
                self.fail(format!("{who}: {text}"));
                None
            }
            Err(_) => {
                self.fail(format!("{who}: panic: {}", panics::last()));
                None
            }
        }
    }

    /// What was found.
    ///
    /// # Errors
    /// If anything was.
    pub fn end(&self) -> Judged {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; then ")) }
    }
}

/// What a process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Threads.
    pub threads: u64,
    /// Memory that is resident, in KiB.
    pub resident_kib: u64,
    /// Open files.
    pub files: u64,
}

impl Usage {
    /// As the system tells it.
    pub fn of(process: u32) -> Usage {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |entries| entries.count() as u64);
        Usage { threads: number("Threads:"), resident_kib: number("VmRSS:"), files }
    }
}

/// Watches what a process takes, until it is time to end.
///
/// # Errors
/// If it takes more than it may.
pub fn watch(field: &SumField, process: u32, bound: Usage) -> Judged<Usage> {
    let mut most = Usage::default();
    while !field.is_over() {
        let now = Usage::of(process);
        most.threads = most.threads.max(now.threads);
        most.resident_kib = most.resident_kib.max(now.resident_kib);
        most.files = most.files.max(now.files);
        if most.threads > bound.threads || most.resident_kib > bound.resident_kib || most.files > bound.files {
            return Err(format!("the server takes {now:?}, and may take {bound:?}"));
        }
        pause(Duration::from_millis(20));
    }
    Ok(most)
}

/// An honest client that asks for nothing but an answer, a hundred times a second.
///
/// # Errors
/// If an answer takes long.
pub fn ping(field: &SumField) -> Judged {
    let mut client = Client::connect(field.address).map_err(|error| error.to_string())?;
    let ping = Command::new("PING");
    while !field.is_over() {
        let watch = Stopwatch::start();
        client.ask(&ping).map_err(|error| error.to_string())?;
        if watch.seconds() * 1000.0 > field.stall_ms as f64 {
            return Err(format!("PING took {:.0} ms", watch.seconds() * 1000.0));
        }
        pause(Duration::from_millis(10));
    }
    Ok(())
}
