//! What all connections share: the keys, the configuration, who is connected, what happened.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use quipu::{Db, Durability, Measures, Options, Result};

use crate::clock;
use crate::command::snapshots::Snapshots;
use crate::command::{Flags, Refusal, Spec, refusal};
use crate::config::Config;
use crate::keyspace::Keyspace;
use crate::session::Session;
use crate::slow_log::SlowLog;
use crate::statistics::Statistics;

/// A running server, without its sockets.
pub struct Server {
    /// All keys.
    pub keyspace: Keyspace,
    /// What can be configured.
    pub config: Config,
    /// What happened since the start.
    pub statistics: Statistics,
    /// Commands that took long.
    pub slow_log: SlowLog,
    /// Moments that clients keep to read at.
    pub snapshots: Snapshots,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Set when it is to stop.
    pub stopping: AtomicBool,
    next_client: AtomicU64,
    stop_signal: (Mutex<bool>, Condvar),
}

impl Server {
    /// Opens the data directory that the configuration names.
    ///
    /// # Errors
    /// Those of opening a database; [`quipu::ErrorKind`] says what to do.
    pub fn open(config: Config, progress: &mut dyn FnMut(quipu::Progress)) -> Result<Server> {
        let options = Options { durability: config.durability(), ..Options::default() };
        let directory: PathBuf = config.directory();
        let db = Db::open_with(&directory, options, progress)?;
        Server::over(db, config)
    }

    /// Over a database that is open.
    pub fn over(db: Db, config: Config) -> Result<Server> {
        let measures = Measures { bytes: true, hash: true, sum: None };
        Ok(Server {
            keyspace: Keyspace::open(db, measures)?,
            config,
            statistics: Statistics::default(),
            slow_log: SlowLog::default(),
            snapshots: Snapshots::default(),
            started_ms: clock::now_ms(),
            stopping: AtomicBool::new(false),
            next_client: AtomicU64::new(1),
            stop_signal: Default::default(),
        })
    }

    /// The durability of commits.
    pub fn durability(&self) -> Durability {
        self.config.durability()
    }

    /// The session of a client that has just connected, or why it is refused.
    pub fn welcome(&self, address: String, local_address: String) -> std::result::Result<Session, Refusal> {
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        self.statistics.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Session::new(id, address, local_address, clock::now_ms(), self.config.needs_no_password()))
    }

    /// A client has gone.
    pub fn farewell(&self, _: &Session, _: &str) {}

    /// Writes a line into the server's log.
    pub fn log(&self, line: std::fmt::Arguments<'_>) {
        eprintln!("{line}");
    }

    /// Writes a line about a client into the server's log.
    pub fn log_client(&self, session: &Session, line: std::fmt::Arguments<'_>) {
        self.log(format_args!("client {} at {}: {line}", session.id, session.address));
    }

    /// Says that the server is to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let (lock, signal) = &self.stop_signal;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        signal.notify_all();
    }

    /// Waits for a while; says whether the server is to stop.
    pub fn wait_for_stop_until(&self, round: Duration) -> bool {
        let (lock, signal) = &self.stop_signal;
        let stops = lock.lock().unwrap_or_else(PoisonError::into_inner);
        match signal.wait_timeout_while(stops, round, |stops| !*stops) {
            Ok((stops, _)) => *stops,
            Err(poisoned) => *poisoned.into_inner().0,
        }
    }

    /// Returns when the server is to stop.
    pub fn wait_for_stop(&self) {
        let (lock, signal) = &self.stop_signal;
        let mut stops = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stops {
            stops = signal.wait(stops).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the commands of a client may be run many at once: it wants all answers, is inside no transaction, and nobody looks on.
    pub fn takes_runs(&self, session: &Session) -> bool {
        session.queue.is_none()
            && session.is_authenticated
            && session.reply_mode == crate::session::ReplyMode::On
            && !session.is_monitor
    }

    /// Whether a client may give this command with these words. Returns the line of the subcommand where there is one.
    pub fn admit(
        &self,
        session: &Session,
        spec: Option<&'static Spec>,
        args: &[&[u8]],
    ) -> std::result::Result<&'static Spec, Refusal> {
        let Some(mut spec) = spec else { return Err(unknown_command(args)) };
        if !spec.subcommands.is_empty() && args.len() > 1 {
            let name = args[1];
            let wanted = |sub: &&Spec| {
                sub.name.rsplit('|').next().is_some_and(|part| part.as_bytes().eq_ignore_ascii_case(name))
            };
            spec = spec.subcommands.iter().find(wanted).ok_or_else(|| {
                Refusal::new(format!(
                    "ERR unknown subcommand '{}'. Try {} HELP.",
                    printable(name, 128),
                    spec.name.to_uppercase()
                ))
            })?;
        }
        if !spec.takes(args.len()) {
            return Err(Refusal::new(format!("ERR wrong number of arguments for '{}' command", spec.name)));
        }
        if !session.is_authenticated && !spec.flags.has(Flags::NO_AUTH) {
            return Err(refusal::text("NOAUTH Authentication required."));
        }
        Ok(spec)
    }

    /// What has to be done before the data is held.
    pub fn prepare(&self, _: &mut Session, _: &'static Spec, _: &[&[u8]]) -> std::result::Result<(), Refusal> {
        Ok(())
    }

    /// Whether a command may run inside a hold that is there already.
    pub fn prepare_inside(&self, spec: &'static Spec) -> std::result::Result<(), Refusal> {
        if spec.flags.has(Flags::ALONE) {
            return Err(refusal::text("ERR Command not allowed inside a transaction"));
        }
        Ok(())
    }

    /// Shows a command to those who asked for all.
    pub fn tell_monitors(&self, _: &Session, _: &'static Spec, _: &[&[u8]]) {}

    /// How long the server has run.
    pub fn uptime(&self) -> Duration {
        Duration::from_millis(clock::now_ms().saturating_sub(self.started_ms))
    }
}

/// Bytes as text for an error, cut to a length.
pub fn printable(bytes: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(max)]).into_owned()
}

fn unknown_command(args: &[&[u8]]) -> Refusal {
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", printable(args[0], 128));
    for word in &args[1..] {
        if text.len() >= 128 {
            break;
        }
        text.push_str(&format!("'{}' ", printable(word, 128 - text.len().min(127))));
    }
    Refusal::new(text)
}
