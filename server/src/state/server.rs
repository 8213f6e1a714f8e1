//! [`Server`]: the state that all connections share: the keys, the configuration, the clients, statistics.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quipu::latched::Lack;
use quipu::{Db, Durability, Error, ErrorKind, Measures, Options, ReadableTable, Result};

use crate::cluster::{Cluster, ClusterOptions, Host, Running};
use crate::config::Config;
use crate::facts::{Flags, Spec};
use crate::keyspace::set_scan::Windows;
use crate::keyspace::{Cut, DATABASES, Keyspace};
use crate::state::clients::{Client, Clients};
use crate::state::postgres::PostgresStatistics;
use crate::state::protection;
use crate::state::redaction;
use crate::state::refusal::{self, Refusal};
use crate::state::saves::Saves;
use crate::state::session::Session;
use crate::state::slow_log::SlowLog;
use crate::state::snapshots::Snapshots;
use crate::state::statistics::Statistics;
use crate::system::clock;
use crate::system::log::{Level, Log};
use crate::system::waiting::Awake;
use crate::users::refusals::{self, Reason};
use crate::users::{DEFAULT, Users};

/// Why a client is refused when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// [`protection`] turns it away.
    Protected,
    /// There are as many clients as there may be.
    Full,
}

/// A running server, without its sockets.
pub struct Server {
    /// All keys.
    pub keyspace: Keyspace,
    /// What can be configured.
    pub config: Config,
    /// What happened since the start.
    pub statistics: Statistics,
    /// The same of the PostgreSQL face.
    pub postgres: PostgresStatistics,
    /// Commands that took long.
    pub slow_log: SlowLog,
    /// Moments that clients keep to read at.
    pub snapshots: Snapshots,
    /// What `ZSCAN` has read of large sets.
    pub windows: Windows,
    /// Who may do what.
    pub users: Users,
    /// Who is connected.
    pub clients: Clients,
    /// The cluster that this server is a node of, once it has joined it.
    pub cluster: OnceLock<Arc<Cluster>>,
    /// The threads that serve connections and do not sleep.
    pub(crate) awake: Awake,
    /// A name of this run of the server, in hexadecimal digits.
    pub run_id: String,
    log: Log,
    /// Whether the configuration file has the users: then they are taken from there at the start.
    file_has_users: AtomicBool,
    /// Whether a commit was found that will not be durable.
    log_has_failed: AtomicBool,
    /// Whether the stop is to leave out the checkpoint.
    pub stops_without_checkpoint: AtomicBool,
    /// Checkpoints that clients asked for.
    pub saves: Arc<Saves>,
    /// When it started, by a clock that is never set.
    started: Instant,
    /// Set when it is to stop.
    pub stopping: AtomicBool,
    next_client: AtomicU64,
    stop_signal: (Mutex<bool>, Condvar),
}

impl Host for Server {
    fn durability(&self) -> Durability {
        self.config.durability()
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn lacks_space(&self) -> bool {
        self.keyspace.space().is_lacking()
    }

    fn note_lack(&self, lack: &Lack) {
        self.keyspace.space().note(lack.clone());
    }

    fn note_freed(&self) {
        self.keyspace.space().note_freed();
    }

    fn note(&self, level: Level, line: std::fmt::Arguments<'_>) {
        self.log_at(level, line);
    }
}

impl Server {
    /// Starts the node of a cluster on the server's data.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the data are those of a node alone, and those of [`Cluster::start`].
    pub fn join(self: &Arc<Self>, options: ClusterOptions) -> Result<(Arc<Cluster>, Running)> {
        let db = self.keyspace.db();
        let mut keys = 0;
        for tables in (0..DATABASES).filter_map(|database| self.keyspace.tables(database)) {
            keys += tables.keys.len()?;
        }
        if keys > 0 {
            let text = "the data directory has keys of a node alone, which a cluster would not show: read them out and \
                        write them to the cluster, which needs another directory";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let (cluster, running) = Cluster::start(db, self.clone(), options)?;
        // There is one listener for HTTP, which calls this once.
        let _ = self.cluster.set(cluster.clone());
        Ok((cluster, running))
    }

    /// Opens the data directory that the configuration names.
    ///
    /// # Errors
    /// Those of opening a database; [`quipu::ErrorKind`] says what to do.
    pub fn open(config: Config, progress: &mut dyn FnMut(quipu::Progress)) -> Result<Server> {
        let options = Options {
            durability: config.durability(),
            memtable_bytes: config.parameters.memtable_bytes(),
            cache_bytes: config.parameters.cache_bytes.load(Ordering::Relaxed),
            ..Options::default()
        };
        let directory: PathBuf = config.directory();
        let db = Db::open_with(&directory, options, progress)?;
        if config.cluster.len() < 2 && config.join.is_empty() && Cluster::is_of(&db)? {
            let text = format!(
                "the data in {} are of a node of a cluster: start it with `--cluster` or `--join`, `--self-url` and \
                 `--http-port`",
                directory.display()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Server::over(db, config)
    }

    /// Over a database that is open.
    pub fn over(db: Db, config: Config) -> Result<Server> {
        Server::over_cut(db, config, Cut::default())
    }

    /// The same, with long strings cut otherwise, if the database is new: for tests.
    pub fn over_cut(db: Db, config: Config, cut: Cut) -> Result<Server> {
        let measures = Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS };
        db.set_durability(config.durability());
        let keyspace = Keyspace::open_cut(db, measures, cut)?;
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
        let statistics = Statistics::default();
        statistics.track_latencies(config.parameters.get("latency-tracking").is_none_or(|value| value == "yes"));
        let run_id = (0..5).map(|_| format!("{:08x}", rand::random::<u32>())).collect();
        Ok(Server {
            keyspace,
            file_has_users: AtomicBool::new(!config.users.is_empty()),
            config,
            users,
            clients: Clients::default(),
            cluster: OnceLock::new(),
            awake: Awake::new(),
            run_id,
            log,
            log_has_failed: AtomicBool::new(false),
            stops_without_checkpoint: AtomicBool::new(false),
            saves: Arc::new(Saves::new(clock::now_ms())),
            statistics,
            postgres: PostgresStatistics::default(),
            slow_log: SlowLog::default(),
            snapshots: Snapshots::default(),
            windows: Windows::default(),
            started: clock::moment(),
            stopping: AtomicBool::new(false),
            next_client: AtomicU64::new(1),
            stop_signal: Default::default(),
        })
    }

    /// Has the engine keep to the durability and the limits of memory that are configured.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if one is too small.
    pub fn apply_to_engine(&self) -> Result<()> {
        let db = self.keyspace.db();
        db.set_durability(self.durability());
        db.set_cache_bytes(self.config.parameters.cache_bytes.load(Ordering::Relaxed));
        db.set_memtable_bytes(self.config.parameters.memtable_bytes())
    }

    /// The durability of commits.
    pub fn durability(&self) -> Durability {
        self.config.durability()
    }

    /// Notes that a commit is not as durable as it should be, and may never be.
    pub fn note_failed_log(&self) {
        self.log_has_failed.store(true, Ordering::Release);
    }

    /// Whether a commit was found that will not be durable.
    #[inline]
    pub fn has_failed_log(&self) -> bool {
        self.log_has_failed.load(Ordering::Relaxed)
    }

    /// Fails if there are commits that will never be durable: no client is told of them.
    #[inline]
    pub fn check_log(&self) -> std::result::Result<(), Refusal> {
        if self.log_has_failed.load(Ordering::Acquire)
            && !self.keyspace.db().pending_commits().is_durable(self.durability())
        {
            return Err(refusal::LOG_FAILED);
        }
        Ok(())
    }

    /// Takes in a client that has just connected, or says why it is refused. [`Server::farewell`] lets it go.
    pub fn admit(&self, address: String, local_address: String) -> std::result::Result<Arc<Client>, NotAdmitted> {
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        self.statistics.connections.fetch_add(1, Ordering::Relaxed);
        let refused = |why| {
            self.statistics.refused_connections.fetch_add(1, Ordering::Relaxed);
            Err(why)
        };
        if self.turns_away(protection::ip_of(&address)) {
            return refused(NotAdmitted::Protected);
        }
        let client = Arc::new(Client::new(id, address, local_address, clock::now_ms()));
        client.names().user = DEFAULT.to_owned();
        if !self.clients.enter(&client, self.config.parameters.clients_max.load(Ordering::Relaxed)) {
            return refused(NotAdmitted::Full);
        }
        Ok(client)
    }

    /// The session of a client that has just connected, or why it is refused.
    pub fn welcome(&self, address: String, local_address: String) -> std::result::Result<Session, Refusal> {
        let client = self.admit(address, local_address).map_err(|why| match why {
            NotAdmitted::Protected => Refusal::new(format!("DENIED {}", protection::EXPLANATION)),
            NotAdmitted::Full => refusal::text("ERR max number of clients reached"),
        })?;
        Ok(Session::new(client, self.users.default_user(), self.users.needs_no_password()))
    }

    /// Whether a client that has come from there is turned away.
    pub fn turns_away(&self, address: Option<IpAddr>) -> bool {
        // Nearly all clients are decided on by their address.
        address.is_some_and(|address| !protection::is_loopback(address))
            && protection::turns_away(self.config.parameters.is_protected(), self.has_no_password(), address)
    }

    fn has_no_password(&self) -> bool {
        self.users.default_user().rules().needs_no_password
    }

    /// Warns in the log if strangers may reach these addresses.
    pub(crate) fn warn_of_strangers(&self, addresses: &[SocketAddr]) {
        let is_on = self.config.parameters.is_protected();
        if let Some(text) = protection::warning(is_on, self.has_no_password(), addresses) {
            self.log_at(Level::Warning, format_args!("{text}"));
        }
    }

    /// A client has gone; why, if it was not its own wish, and how much that matters.
    pub fn farewell(&self, client: &Client, why: &str, level: Level) {
        self.clients.leave(client);
        if !why.is_empty() {
            self.log_at(level, format_args!("client {} at {}: closed: {why}", client.id, client.address));
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

    /// Notes that the configuration file has the users from now on.
    pub fn note_users_in_file(&self) {
        self.file_has_users.store(true, Ordering::Relaxed);
    }

    /// Fails if the configuration file has the users: what is kept with the data would count for nothing at the next
    /// start.
    pub fn check_users_are_kept(&self) -> std::result::Result<(), Refusal> {
        match self.file_has_users.load(Ordering::Relaxed) {
            true => Err(refusal::text(
                "ERR the users stand in the configuration file, under [users], and are taken from there at every \
                 start; CONFIG REWRITE writes them there",
            )),
            false => Ok(()),
        }
    }

    /// Keeps all users with the data. To be called while no data is held.
    pub fn save_users(&self) -> Result<()> {
        let lines: Vec<String> =
            self.users.list_to_keep().iter().map(|(name, rules)| format!("{name} {rules}")).collect();
        self.keyspace.set_fact(USERS_FACT, lines.join("\n").as_bytes())
    }

    /// Makes users again what they were when they were kept. `None`: they never were. To be called while no data is
    /// held.
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

    /// Notes for `ACL LOG` what a user was refused.
    pub fn note_denied(&self, session: &Session, reason: Reason, object: &[u8], user: &str) {
        self.note_refusal(refusals::RefusedClient {
            count: 1,
            reason,
            in_transaction: session.queue.is_some(),
            object: object.to_vec(),
            user: user.to_owned(),
            last_ms: clock::now_ms(),
            client: session.client.line(),
        });
    }

    /// Notes a refusal for `ACL LOG`.
    pub fn note_refusal(&self, entry: refusals::RefusedClient) {
        self.users.refusals.note(entry, self.config.parameters.refusals_max.load(Ordering::Relaxed) as usize);
    }

    /// Shows a command to the clients that asked for all.
    #[inline]
    pub fn tell_monitors(&self, session: &Session, spec: &'static Spec, args: &[&[u8]]) {
        if self.clients.has_monitors() && !spec.flags.has(Flags::SECRET) && !spec.flags.has(Flags::ADMIN) {
            self.clients.tell_monitors(&session.client, session.database, &redaction::redact(spec, args));
        }
    }

    /// Bytes that are free for the data, and the size of its file system; none if the system does not tell.
    pub fn disk_space(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::statvfs(&self.config.data).ok()?;
        Some((found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize))
    }

    /// How long the server has run.
    pub fn uptime(&self) -> Duration {
        clock::since(self.started)
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
