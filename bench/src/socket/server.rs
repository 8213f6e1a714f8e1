//! The servers that are measured, their programs, and the settings with which they start.
//!
//! Settings follow the measurement this one is modelled on: the log is on; nothing is compacted or saved as a snapshot
//! meanwhile, so that a figure does not depend on when that would begin; limits on requests under way are out of the
//! way.
//!
//! | | `os`: handed to the operating system | `sync`: on the disk before the answer |
//! |---|---|---|
//! | Quipu | `--durability os` | `--durability sync` |
//! | Redis | `appendfsync everysec` | `appendfsync always` |
//! | Tarantool | `wal_mode = 'write'` | `wal_mode = 'fsync'` |

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::dialect::{Address, Dialect};
use super::process::Process;
use super::{Batch, Connection, iproto, resp};
use crate::clock::Deadline;
use crate::store::{Durability, Result};
use crate::{Bench, Options};

/// How long a server may take to listen, in seconds.
const START_SECONDS_MAX: f64 = 60.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brand {
    Quipu,
    Redis,
    Tarantool,
}

/// A server that could be measured.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// As in tables.
    pub(crate) name: &'static str,
    brand: Brand,
    /// The program, and what it says of itself; or why there is none.
    program: Result<(PathBuf, String), String>,
}

impl Server {
    /// The names for `--stores`.
    pub(crate) const NAMES: [&'static str; 3] = ["quipu", "redis", "tarantool"];

    /// The servers asked for, whether they are installed or not.
    pub(crate) fn all(options: &Options) -> Vec<Server> {
        let mut servers = vec![
            Server::quipu("quipu", options),
            Server { name: "redis", brand: Brand::Redis, program: find("redis-server") },
            Server { name: "tarantool", brand: Brand::Tarantool, program: find("tarantool") },
        ];
        if let Some(path) = &options.tarantool {
            let program = describe(path.clone(), "--version");
            servers.push(Server { name: "tarantool, given", brand: Brand::Tarantool, program });
        }
        let asked = |server: &Server| {
            let name = Server::NAMES[server.brand as usize];
            options.stores.is_empty() || options.stores.iter().any(|asked| asked == name)
        };
        servers.retain(asked);
        servers
    }

    /// Quipu's, whether it is there or not.
    pub(crate) fn quipu(name: &'static str, options: &Options) -> Server {
        Server { name, brand: Brand::Quipu, program: find_quipu(options) }
    }

    /// Whether its program was found.
    pub(crate) fn is_there(&self) -> bool {
        self.program.is_ok()
    }

    /// Whether it knows the commands of Redis.
    pub(crate) fn speaks_resp(&self) -> bool {
        self.dialect() == Dialect::Resp
    }

    /// Whether it counts the rows between two keys, and finds rows by number, without a scan.
    pub(crate) fn counts(&self) -> bool {
        self.brand == Brand::Quipu
    }

    /// One line for below a table: the version, or why there are no figures.
    pub(crate) fn note(&self) -> String {
        match &self.program {
            Ok((_, version)) => format!("{}: {version}", self.name),
            Err(reason) => format!("{}: NOT MEASURED, {reason}", self.name),
        }
    }

    fn dialect(&self) -> Dialect {
        if self.brand == Brand::Tarantool { Dialect::Iproto } else { Dialect::Resp }
    }

    /// Starts it, empty, in a fresh directory on a free port, and waits until it listens.
    pub(crate) fn start(&self, bench: &Bench<'_>, durability: Durability) -> Result<Running> {
        self.start_with(bench, durability, &[])
    }

    /// As [`Server::start`], with more arguments on its command line.
    pub(crate) fn start_with(&self, bench: &Bench<'_>, durability: Durability, more: &[String]) -> Result<Running> {
        let start = || {
            let (program, _) = self.program.as_ref().map_err(Clone::clone)?;
            let dir = bench.place.fresh()?;
            // Another program that takes the port before the server does makes the server end, which is reported.
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut command = Command::new(program);
            command.current_dir(dir.path());
            match self.brand {
                Brand::Quipu => quipu(&mut command, dir.path(), port, durability),
                Brand::Redis => redis(&mut command, dir.path(), port, durability),
                Brand::Tarantool => tarantool(&mut command, dir.path(), port, durability, bench)?,
            }
            command.args(more);
            let mut process = Process::start(command, dir.path())?;
            let address = Address { socket: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), dialect: self.dialect() };
            await_port(&mut process, address)?;
            Ok(Running { name: self.name, address, process, settles: !bench.options.smoke, dir })
        };
        start().map_err(|error: Box<dyn std::error::Error + Send + Sync>| format!("{}: {error}", self.name).into())
    }
}

/// A server that listens. Dropped, it is stopped and its files are removed.
pub(crate) struct Running {
    pub(crate) name: &'static str,
    pub(crate) address: Address,
    process: Process,
    /// Whether [`Running::settle`] waits at all.
    settles: bool,
    dir: tempfile::TempDir,
}

impl Running {
    /// A connection of its own.
    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(self.address).map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// CPU time since its start, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.process.cpu_s()
    }

    /// Its memory that is in RAM, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }

    /// The memory it says it uses, in bytes, if it says so in the way of Redis.
    pub(crate) fn told_bytes(&self) -> Result<Option<u64>> {
        if self.address.dialect != Dialect::Resp {
            return Ok(None);
        }
        let mut request = Vec::new();
        resp::command(&mut request, &[b"INFO", b"memory"]);
        let answer = self.connect()?.ask(&request)?;
        let answer = String::from_utf8_lossy(&answer);
        let told = answer.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(told.and_then(|bytes| bytes.trim().parse().ok()))
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until it stands still, so that its work in the background is not paid by the one that is measured next.
    pub(crate) fn settle(&self) {
        if self.settles {
            settle(|| self.cpu_s());
        }
    }
}

/// Waits until less than a fifth of a core is used, five seconds at most.
pub(crate) fn settle(cpu_s: impl Fn() -> f64) {
    wait_for_idle(Duration::from_millis(100), 5.0, cpu_s);
}

/// Waits until all work in the background is done: until next to nothing is used for two seconds, ten minutes at most.
///
/// # Errors
/// It is still at work then.
pub(crate) fn rest(cpu_s: impl Fn() -> f64) -> Result<()> {
    if wait_for_idle(Duration::from_secs(2), 600.0, cpu_s) { Ok(()) } else { Err("does not come to rest".into()) }
}

/// Waits until less than 20 ms of CPU time were used in a `window`. Returns whether that was within `seconds_max`.
fn wait_for_idle(window: Duration, seconds_max: f64, cpu_s: impl Fn() -> f64) -> bool {
    let (mut before, limit) = (cpu_s(), Deadline::after(seconds_max));
    while !limit.passed() {
        pause(window);
        let now = cpu_s();
        if now - before < 0.02 {
            return true;
        }
        before = now;
    }
    false
}

fn quipu(command: &mut Command, dir: &Path, port: u16, durability: Durability) {
    let durability = if durability == Durability::Sync { "sync" } else { "os" };
    command.arg("serve").args(["--port", &port.to_string(), "--durability", durability]);
    command.arg("--data").arg(dir.join("data"));
}

fn redis(command: &mut Command, dir: &Path, port: u16, durability: Durability) {
    let append = if durability == Durability::Sync { "always" } else { "everysec" };
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", append, "--auto-aof-rewrite-percentage", "0"]).arg("--dir").arg(dir);
}

fn tarantool(command: &mut Command, dir: &Path, port: u16, durability: Durability, bench: &Bench<'_>) -> Result<()> {
    let wal_mode = if durability == Durability::Sync { "fsync" } else { "write" };
    let memory_mib = if bench.options.smoke { 256 } else { 4096 };
    // Twice a batch of the longest requests, for each connection.
    let readahead_bytes = (u64::from(bench.options.batch) * 128).max(1 << 14);
    let space = iproto::SPACE;
    let script = format!(
        "box.cfg{{wal_mode = '{wal_mode}', memtx_memory = {memory_mib} * 1024 * 1024, checkpoint_interval = 0,
                  net_msg_max = 1000000, readahead = {readahead_bytes}}}
         local space = box.schema.space.create('s', {{id = {space}}})
         space:create_index('pk', {{type = 'tree', parts = {{{{1, 'unsigned'}}}}}})
         box.schema.user.grant('guest', 'read,write', 'space', 's')
         box.cfg{{listen = '127.0.0.1:{port}'}}\n"
    );
    let path = dir.join("init.lua");
    {
        use std::io::Write;
        std::fs::OpenOptions::new().create_new(true).write(true).open(&path)?.write_all(script.as_bytes())?;
    }
    command.arg(path);
    Ok(())
}

fn await_port(process: &mut Process, address: Address) -> Result<()> {
    let limit = Deadline::after(START_SECONDS_MAX);
    while TcpStream::connect(address.socket).is_err() {
        process.expect_running()?;
        if limit.passed() {
            return Err(format!("does not listen after {START_SECONDS_MAX} s").into());
        }
        pause(Duration::from_millis(5));
    }
    let mut connection = Connection::open(address)?;
    if address.dialect == Dialect::Resp {
        let mut ping = Batch::default();
        ping.push(|out, answer| {
            resp::command(out, &[b"PING"]);
            resp::status(answer, "PONG");
        });
        connection.exchange(&ping)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "waits for another program, which tells nobody when it is ready")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The `quipu` asked for, else the running program, else the one beside it.
pub(crate) fn find_quipu(options: &Options) -> Result<(PathBuf, String), String> {
    let path = match options.quipu.clone().or_else(|| std::env::var_os("QUIPU_BIN").map(PathBuf::from)) {
        Some(path) => path,
        None => {
            let running = std::env::current_exe().map_err(|error| error.to_string())?;
            let beside = running.with_file_name(format!("quipu{}", std::env::consts::EXE_SUFFIX));
            if !beside.exists() {
                return Err("no `quipu` beside this program; name one with --quipu or QUIPU_BIN".to_owned());
            }
            beside
        }
    };
    if !run(&path, &["serve", "--help"]).is_ok_and(|output| output.status.success()) {
        return Err(format!("{} cannot `serve`", path.display()));
    }
    describe(path, "--version")
}

/// The program of that name on the search path.
pub(crate) fn find(name: &str) -> Result<(PathBuf, String), String> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file());
    describe(path.ok_or_else(|| format!("no `{name}` on the search path"))?, "--version")
}

/// The program, and the first line of what it says when asked for its version.
fn describe(path: PathBuf, question: &str) -> Result<(PathBuf, String), String> {
    let output = run(&path, &[question]).map_err(|error| format!("cannot run {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().next().unwrap_or("of an unknown version").trim().to_owned();
    Ok((path, version))
}

fn run(path: &Path, arguments: &[&str]) -> std::io::Result<std::process::Output> {
    Command::new(path).args(arguments).stdin(Stdio::null()).output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named() {
        let mut options = Options::smoke("offset-tree");
        options.quipu = Some(PathBuf::from("/nowhere/quipu"));
        options.stores = vec!["quipu".to_owned()];
        let servers = Server::all(&options);
        assert_eq!(servers.len(), 1);
        assert!(!servers[0].is_there());
        assert!(servers[0].note().contains("/nowhere/quipu"), "{}", servers[0].note());
        assert!(find("a-program-of-no-such-name").unwrap_err().contains("a-program-of-no-such-name"));
    }
}
