//! Quipu and PostgreSQL while they run.
//!
//! | | `os`: handed to the operating system | `sync`: on the disk before the answer |
//! |---|---|---|
//! | Quipu | `--durability os` | `--durability sync` |
//! | PostgreSQL | `synchronous_commit = off` | `synchronous_commit = on` |
//!
//! PostgreSQL gets as much memory as its tables need (`shared_buffers` of 2 GiB), a log large enough that no checkpoint
//! falls into a measurement (`max_wal_size` of 8 GiB), and no limit of 100 connections. The rest is as Debian ships it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Bench;
use crate::clock::Deadline;
use crate::socket::{Process, find_quipu, pause, settle};
use crate::store::{Durability, Result};

/// How long a server may take to listen, in seconds.
const START_SECONDS_MAX: f64 = 60.0;

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brand {
    Quipu,
    Postgres,
}

impl Brand {
    pub(crate) const ALL: [Brand; 2] = [Brand::Quipu, Brand::Postgres];

    /// As in tables and in `--stores`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Brand::Quipu => "quipu",
            Brand::Postgres => "postgres",
        }
    }
}

/// The programs, or why they are missing.
pub(crate) struct Installed {
    quipu: Result<(PathBuf, String), String>,
    /// The directory of PostgreSQL's programs, and its version.
    postgres: Result<(PathBuf, String), String>,
}

impl Installed {
    pub(crate) fn find(bench: &Bench<'_>) -> Self {
        Installed { quipu: find_quipu(bench.options), postgres: find_postgres() }
    }

    /// Whether the client, and at least Quipu, are there.
    pub(crate) fn is_there(&self, brand: Brand) -> bool {
        self.postgres.is_ok() && (brand == Brand::Postgres || self.quipu.is_ok())
    }

    /// One line for below a table.
    pub(crate) fn note(&self, brand: Brand) -> String {
        let program = if brand == Brand::Quipu { &self.quipu } else { &self.postgres };
        match program {
            Ok((_, version)) => format!("{}: {version}", brand.name()),
            Err(reason) => format!("{}: NOT MEASURED, {reason}", brand.name()),
        }
    }

    /// A program of PostgreSQL.
    pub(crate) fn client(&self, name: &str) -> Result<PathBuf> {
        let (programs, _) = self.postgres.as_ref().map_err(Clone::clone)?;
        Ok(programs.join(name))
    }

    /// Starts a server, empty, on a free port, and waits until it listens.
    pub(crate) fn start(&self, brand: Brand, bench: &Bench<'_>, durability: Durability) -> Result<Running> {
        let dir = bench.place.fresh()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let command = match brand {
            Brand::Quipu => self.quipu_command(dir.path(), port, durability)?,
            Brand::Postgres => self.postgres_command(dir.path(), port, durability)?,
        };
        let mut process = Process::start(command, dir.path())?;
        let limit = Deadline::after(START_SECONDS_MAX);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            process.expect_running()?;
            if limit.passed() {
                return Err(format!("{} does not listen after {START_SECONDS_MAX} s", brand.name()).into());
            }
            pause(Duration::from_millis(5));
        }
        let running =
            Running { brand, port, psql: self.client("psql")?, process, settles: !bench.options.smoke, _dir: dir };
        // It listens before it takes statements.
        while let Err(error) = running.ask("SELECT 1") {
            if limit.passed() {
                return Err(error);
            }
            pause(Duration::from_millis(50));
        }
        Ok(running)
    }

    fn quipu_command(&self, dir: &Path, port: u16, durability: Durability) -> Result<Command> {
        let (program, _) = self.quipu.as_ref().map_err(Clone::clone)?;
        let mut command = Command::new(program);
        let durability = if durability == Durability::Sync { "sync" } else { "os" };
        command.current_dir(dir).args(["serve", "--port", "0", "--durability", durability]);
        command.args(["--pg-port", &port.to_string()]).arg("--data").arg(dir.join("data"));
        Ok(command)
    }

    fn postgres_command(&self, dir: &Path, port: u16, durability: Durability) -> Result<Command> {
        let data = dir.join("data");
        let mut create = Command::new(self.client("initdb")?);
        create.args(["--auth", "trust", "--username", "postgres", "--locale", "C", "--encoding", "UTF8", "--no-sync"]);
        create.arg("--pgdata").arg(&data);
        let mut command = Command::new(self.client("postgres")?);
        // It refuses to run as root.
        if rustix::process::getuid().is_root() {
            let (user, group) = user_named("postgres")?;
            std::os::unix::fs::chown(dir, Some(user), Some(group))?;
            create.uid(user).gid(group);
            command.uid(user).gid(group);
        }
        let output = create.current_dir(dir).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        command.current_dir(dir).arg("-D").arg(&data);
        let commit = if durability == Durability::Sync { "on" } else { "off" };
        let settings = [
            ("port", port.to_string()),
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("unix_socket_directories", String::new()),
            ("synchronous_commit", commit.to_owned()),
            ("shared_buffers", "2GB".to_owned()),
            ("max_wal_size", "8GB".to_owned()),
            ("checkpoint_timeout", "1h".to_owned()),
            ("max_connections", "300".to_owned()),
        ];
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        Ok(command)
    }
}

/// A server that listens. Dropped, it is stopped and its files are removed.
pub(crate) struct Running {
    pub(crate) brand: Brand,
    port: u16,
    psql: PathBuf,
    process: Process,
    /// Whether [`Running::settle`] waits at all.
    settles: bool,
    _dir: tempfile::TempDir,
}

impl Running {
    /// Tells a program of PostgreSQL where the server is.
    pub(crate) fn address(&self, command: &mut Command) {
        let user = if self.brand == Brand::Quipu { "default" } else { "postgres" };
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", user]);
        command.env("PGDATABASE", "postgres").env("PGPASSWORD", "").stdin(Stdio::null());
    }

    /// Runs a script by `psql`. Returns what it prints, without heads.
    ///
    /// # Errors
    /// The first error of a statement.
    pub(crate) fn ask(&self, script: &str) -> Result<String> {
        let mut command = Command::new(&self.psql);
        self.address(&mut command);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", script]);
        let output = command.output()?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            let error = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", self.brand.name(), error.trim()).into())
        }
    }

    /// CPU time since its start, of all its processes, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.process.cpu_s()
    }

    /// Waits until it stands still.
    pub(crate) fn settle(&self) {
        if self.settles {
            settle(|| self.cpu_s());
        }
    }
}

/// The newest PostgreSQL that Debian's packages have installed.
fn find_postgres() -> Result<(PathBuf, String), String> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, programs)| {
            ["postgres", "initdb", "pgbench", "psql"].iter().all(|name| programs.join(name).exists())
        })
        .collect();
    versions.sort();
    let (_, programs) = versions.pop().ok_or("no package `postgresql`, whose `pgbench` is the client of both")?;
    let output =
        Command::new(programs.join("postgres")).arg("--version").output().map_err(|error| error.to_string())?;
    Ok((programs, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// The numbers of a user and its group.
fn user_named(name: &str) -> Result<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let numbers = line.and_then(|line| {
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    numbers.ok_or_else(|| format!("PostgreSQL does not run as root, and there is no user `{name}`").into())
}
