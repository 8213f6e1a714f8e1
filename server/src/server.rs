//! What all connections share: the keys, the configuration, who is connected, what happened.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quipu::{Db, Durability, Error, ErrorKind, Measures, Options, Result};

use crate::clients::{Client, Clients};
use crate::clock;
use crate::command::snapshots::Snapshots;
use crate::command::sorted_set_scan::Walks;
use crate::command::{Flags, Refusal, Spec, refusal};
use crate::config::Config;
use crate::keyspace::Keyspace;
use crate::log::{Level, Log};
use crate::saves::Saves;
use crate::session::Session;
use crate::slow_log::SlowLog;
use crate::statistics::Statistics;
use crate::users::refusals::{self, Reason};
use crate::users::{DEFAULT, Denied, Users};

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
    /// Where `ZSCAN` is in which set.
    pub walks: Walks,
    /// Who may do what.
    pub users: Users,
    /// Who is connected.
    pub clients: Clients,
    /// A name of this run of the server, in hexadecimal digits.
    pub run_id: String,
    log: Log,
    /// Whether the data takes more memory than it may, as of the last round of housekeeping.
    /// Whether the stop is to leave out the checkpoint.
    pub stops_without_checkpoint: AtomicBool,
    /// Checkpoints that clients asked for.
    pub saves: Arc<Saves>,
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
        // Batches lend values from where they lie, so the keyspace stays in memory.
        let options = Options { durability: config.durability(), memtable_bytes: 0, ..Options::default() };
        let directory: PathBuf = config.directory();
        let db = Db::open_with(&directory, options, progress)?;
        Server::over(db, config)
    }

    /// Over a database that is open.
    pub fn over(db: Db, config: Config) -> Result<Server> {
        let measures = Measures { bytes: true, hash: true, sum: None };
        let keyspace = Keyspace::open(db, measures)?;
        let log = Log::open(config.log_file.as_deref()).map_err(|error| {
            let path = config.log_file.clone().unwrap_or_default();
            Error::new(ErrorKind::Io, format!("cannot write the log {}: {error}", path.display()))
        })?;
        let users = Users::default();
        let list = match keyspace.fact(USERS_FACT)? {
            Some(stored) if config.users.is_empty() => parse_users(&stored),
            _ => config.users.clone(),
        };
        let invalid = |error: String| Error::new(ErrorKind::Invalid, format!("the users that are kept: {error}"));
        users.replace(&list).map_err(invalid)?;
        if let Some(password) = config.parameters.get("requirepass").filter(|password| !password.is_empty()) {
            users.require_password(&password);
        }
        let run_id = (0..5).map(|_| format!("{:08x}", rand::random::<u32>())).collect();
        Ok(Server {
            keyspace,
            config,
            users,
            clients: Clients::default(),
            run_id,
            log,
            stops_without_checkpoint: AtomicBool::new(false),
            saves: Arc::new(Saves::new(clock::now_ms())),
            statistics: Statistics::default(),
            slow_log: SlowLog::default(),
            snapshots: Snapshots::default(),
            walks: Walks::default(),
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
        let client = Arc::new(Client::new(id, address, local_address, clock::now_ms()));
        client.names().user = DEFAULT.to_owned();
        if !self.clients.enter(&client, self.config.parameters.clients_max.load(Ordering::Relaxed)) {
            self.statistics.refused_connections.fetch_add(1, Ordering::Relaxed);
            return Err(refusal::text("ERR max number of clients reached"));
        }
        Ok(Session::new(client, self.users.default_user(), self.users.needs_no_password()))
    }

    /// A client has gone; why, if it was not its own wish.
    pub fn farewell(&self, session: &Session, why: &str) {
        self.clients.leave(session.id);
        if !why.is_empty() {
            self.log_client(session, format_args!("closed: {why}"));
        }
    }

    /// Writes a line into the server's log.
    pub fn log(&self, line: std::fmt::Arguments<'_>) {
        self.log_at(Level::Notice, line);
    }

    /// Writes a line that matters so much, unless `loglevel` says that it does not.
    pub fn log_at(&self, level: Level, line: std::fmt::Arguments<'_>) {
        if level >= Level::of(&self.config.parameters.get("loglevel").unwrap_or_default()) {
            self.log.write(level, line);
        }
    }

    /// Writes a line about a client into the server's log.
    pub fn log_client(&self, session: &Session, line: std::fmt::Arguments<'_>) {
        self.log(format_args!("client {} at {}: {line}", session.id, session.client.address));
    }

    /// Notes what is looked at ten times a second: rates, and how much memory is taken.
    pub fn note_round(&self) {
        self.statistics.sample(clock::now_ms());
        let bytes = self.keyspace.db().memory_bytes();
        self.statistics.memory_bytes.store(bytes, Ordering::Relaxed);
        self.statistics.memory_peak_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Whether rows take more memory than `maxmemory` grants.
    #[inline]
    pub fn is_full(&self) -> bool {
        let max = self.config.parameters.memory_bytes_max.load(Ordering::Relaxed);
        max > 0 && self.keyspace.db().memory_bytes() > max
    }

    /// Keeps all users with the data. To be called while no data is held.
    pub fn save_users(&self) -> Result<()> {
        let lines: Vec<String> = self.users.list().iter().map(|(name, rules)| format!("{name} {rules}")).collect();
        self.keyspace.set_fact(USERS_FACT, lines.join("\n").as_bytes())
    }

    /// Makes users again what they were when they were kept. `None`: they never were. To be called while no data is held.
    pub fn load_users(&self) -> Result<Option<std::result::Result<(), String>>> {
        let Some(stored) = self.keyspace.fact(USERS_FACT)? else { return Ok(None) };
        Ok(Some(self.users.replace(&parse_users(&stored)).map(|gone| {
            gone.iter().for_each(|user| self.end_sessions_of(&user.name));
        })))
    }

    /// Closes all connections of a user.
    pub fn end_sessions_of(&self, user: &str) {
        self.clients.all().iter().filter(|client| client.names().user == user).for_each(|client| client.kill());
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
        let slow_us = self.config.parameters.slow_us.load(Ordering::Relaxed);
        session.queue.is_none()
            && session.is_authenticated
            && session.user.may_do_everything()
            && slow_us != 0
            && !self.clients.has_monitors()
            && self.clients.paused_until_ms() == 0
            && !self.is_full()
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
        if !session.user.may_do_everything() {
            self.check_rules(session, spec, args)?;
        }
        if spec.flags.has(Flags::DENY_OOM) && self.is_full() {
            return Err(refusal::text("OOM command not allowed when used memory > 'maxmemory'."));
        }
        Ok(spec)
    }

    fn check_rules(&self, session: &Session, spec: &'static Spec, args: &[&[u8]]) -> std::result::Result<(), Refusal> {
        let Err(denied) = session.user.may(spec, args) else { return Ok(()) };
        Err(match denied {
            Denied::Command => {
                self.note_denied(session, Reason::Command, spec.name.as_bytes(), &session.user.name);
                Refusal::new(format!("NOPERM this user has no permissions to run the '{}' command", spec.name))
            }
            Denied::Key(key) => {
                self.note_denied(session, Reason::Key, &key, &session.user.name);
                refusal::text("NOPERM this user has no permissions to access one of the keys used as arguments")
            }
        })
    }

    /// Whether a command that was queued may still be given.
    pub fn admit_inside(
        &self,
        session: &Session,
        spec: &'static Spec,
        args: &[&[u8]],
    ) -> std::result::Result<(), Refusal> {
        let reason = match session.user.may(spec, args) {
            Ok(()) => return Ok(()),
            Err(Denied::Command) => "no permission to execute the command or subcommand",
            Err(Denied::Key(_)) => "no permission to touch the specified keys",
        };
        Err(Refusal::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {reason}"
        )))
    }

    /// Notes for `ACL LOG` what somebody was refused.
    pub fn note_denied(&self, session: &Session, reason: Reason, object: &[u8], user: &str) {
        let entry = refusals::Entry {
            count: 1,
            reason,
            in_transaction: session.queue.is_some(),
            object: object.to_vec(),
            user: user.to_owned(),
            last_ms: clock::now_ms(),
            client: session.client.line(),
        };
        self.users.refusals.note(entry, self.config.parameters.refusals_max.load(Ordering::Relaxed) as usize);
    }

    /// Whether a command may run inside a hold that is there already.
    pub fn prepare_inside(&self, spec: &'static Spec) -> std::result::Result<(), Refusal> {
        if spec.flags.has(Flags::ALONE) && !spec.flags.has(Flags::INSIDE_TOO) {
            return Err(refusal::text("ERR Command not allowed inside a transaction"));
        }
        Ok(())
    }

    /// Shows a command to those who asked for all.
    #[inline]
    pub fn tell_monitors(&self, session: &Session, spec: &'static Spec, args: &[&[u8]]) {
        if self.clients.has_monitors() && !spec.flags.has(Flags::SECRET) && !spec.flags.has(Flags::ADMIN) {
            self.clients.tell_monitors(session, args);
        }
    }

    /// How long the server has run.
    pub fn uptime(&self) -> Duration {
        Duration::from_millis(clock::now_ms().saturating_sub(self.started_ms))
    }
}

/// Where users are kept among the server's facts: a line each, a name and rules.
const USERS_FACT: &[u8] = b"users";

fn parse_users(stored: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(stored);
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rules)| (name.to_owned(), rules.to_owned()))
        .collect()
}

/// Bytes as text for an error, cut to a length, and at the first zero byte as in Redis.
pub fn printable(bytes: &[u8], max: usize) -> String {
    let end = bytes.iter().take(max).position(|byte| *byte == 0).unwrap_or(bytes.len().min(max));
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn unknown_command(args: &[&[u8]]) -> Refusal {
    // Bytes as they came, up to the first zero byte of each word: what Redis prints.
    let cut = |word: &[u8], max: usize| -> Vec<u8> {
        word.iter().take(max).take_while(|&&byte| byte != 0).copied().collect()
    };
    let mut words = Vec::new();
    for word in &args[1..] {
        if words.len() >= 128 {
            break;
        }
        let shown = cut(word, 128 - words.len());
        words.push(b'\'');
        words.extend_from_slice(&shown);
        words.extend_from_slice(b"' ");
    }
    let name = cut(args[0], 128);
    Refusal::Bytes([b"ERR unknown command '", &*name, b"', with args beginning with: ", &words].concat())
}
