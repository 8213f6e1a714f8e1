//! Server processes: started on a free port of the loopback interface, waited for, stopped politely, killed. A process
//! that is dropped is killed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::time::Duration;

use crate::client::Client;
use crate::clock::{self, Deadline};
use crate::command::Command;

/// How long a server may take until it answers PING: recovery of a directory that was killed included.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// How to start a server.
#[derive(Clone, Debug)]
pub enum Launch {
    /// `redis-server`, with all defaults but for persistence.
    Redis {
        /// The program.
        program: PathBuf,
        /// Whether it writes an append-only file before it answers; otherwise it writes nothing.
        append_only: bool,
    },
    /// `quipu serve`.
    Quipu {
        /// The program.
        program: PathBuf,
        /// What to give it beside port and directory.
        arguments: Vec<String>,
    },
}

impl Launch {
    /// A word for the server, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Launch::Redis { .. } => "redis",
            Launch::Quipu { .. } => "quipu",
        }
    }

    /// With more arguments for `quipu serve`.
    pub fn with_arguments(&self, more: &[&str]) -> Launch {
        let mut launch = self.clone();
        if let Launch::Quipu { arguments, .. } = &mut launch {
            arguments.extend(more.iter().map(|word| (*word).to_owned()));
        }
        launch
    }

    fn program(&self, dir: &Path, port: u16) -> Program {
        let port = port.to_string();
        match self {
            Launch::Redis { program, append_only } => {
                let mut program = Program::new(program);
                program.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(dir);
                program.args(["--appendonly", if *append_only { "yes" } else { "no" }]);
                program
            }
            Launch::Quipu { program, arguments } => {
                let mut program = Program::new(program);
                program.args(["serve", "--port", &port, "--data"]).arg(dir).args(arguments);
                program
            }
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts a server on a directory, without waiting for it. What it prints is appended to `server.log` in `log_dir`.
    ///
    /// # Errors
    ///
    /// If the program cannot be run.
    pub fn spawn(launch: &Launch, dir: &Path, log_dir: &Path) -> io::Result<ServerProcess> {
        let port = free_port()?;
        std::fs::create_dir_all(dir)?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log_dir.join("server.log"))?;
        let mut program = launch.program(dir, port);
        program.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        let child = program
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run {program:?}: {error}")))?;
        Ok(ServerProcess { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    }

    /// Starts a server and waits until it answers PING.
    ///
    /// # Errors
    ///
    /// If it cannot be run, ends, or does not answer within a minute.
    pub fn start(launch: &Launch, dir: &Path, log_dir: &Path) -> io::Result<ServerProcess> {
        let mut server = ServerProcess::spawn(launch, dir, log_dir)?;
        server.wait_ready()?;
        Ok(server)
    }

    /// Waits until it answers PING.
    ///
    /// # Errors
    ///
    /// If it ends, or does not answer within a minute.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        let deadline = Deadline::after(START_TIMEOUT);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended before it was ready: {status}")));
            }
            let pong = Client::connect(self.address).and_then(|mut client| client.ask(&Command::new("PING")));
            if pong.is_ok_and(|reply| reply.is_simple("PONG")) {
                return Ok(());
            }
            if deadline.passed() {
                return Err(io::Error::other(format!("the server did not answer PING within {START_TIMEOUT:?}")));
            }
            clock::pause(Duration::from_millis(10));
        }
    }

    /// The status with which it ended by itself, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks it to end with SIGTERM and waits for its end.
    ///
    /// # Errors
    ///
    /// If it has not ended half a minute later, or not with success.
    pub fn stop(&mut self) -> io::Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        let deadline = Deadline::after(STOP_TIMEOUT);
        while !deadline.passed() {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(io::Error::other(format!("the server was asked to end, and ended with {status}")));
                }
                None => clock::pause(Duration::from_millis(5)),
            }
        }
        Err(io::Error::other(format!("the server did not end within {STOP_TIMEOUT:?} of SIGTERM")))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already; no other failure can be reported from here.
        let _ = self.kill();
    }
}

/// A port that was free a moment ago. Another process may take it in between: the server then ends with an error that
/// says so.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The program `quipu` to test: as given, or from the variable `QUIPU_BIN`, or beside this program.
pub fn quipu_program(given: Option<&Path>) -> PathBuf {
    if let Some(path) = given {
        return path.to_path_buf();
    }
    if let Some(path) = std::env::var_os("QUIPU_BIN") {
        return PathBuf::from(path);
    }
    std::env::current_exe().map(|program| program.with_file_name("quipu")).unwrap_or_else(|_| PathBuf::from("quipu"))
}
