//! The PostgreSQL face: its protocol 3.0 (and 3.2) over the sessions of `quipu-sql`. `docs/postgres.md` is what users
//! read.
//!
//! Each connection has a thread and a socket that blocks: a statement may wait for locks, and a result goes out as fast
//! as its client takes it. One more thread takes connections.
//!
//! | file | |
//! |---|---|
//! | `messages`, `answers` | what clients send and are sent, as bytes |
//! | `scram`, `parameters` | proving a password; the startup packet, and what a client is told of its session |
//! | `stream`, `buffers` | sockets with TLS or without; what has come, and what is to go |
//! | `login`, `rights` | from a socket to a user; what that user may do |
//! | `connection` | a connection from its beginning to its end |
//! | `conversation`, `extended` | messages in their order: simple queries, COPY, and the extended protocol |
//! | `sink` | rows, in the client's encoding |
//! | `bell` | waiting for the client and for notifications at once |
//! | `reach` | how other threads cancel and end a connection |
//!
//! Invariants:
//! 1. Answers are sent when no whole message is left to read, when 64 KiB wait, and after each Sync, Flush and simple
//!    query: messages up to there that came together cost one write, and what a client waits for does not wait for what
//!    it has sent after it.
//! 2. No bytes from a socket make a thread panic.
//! 3. A client that is idle costs its thread: its stack, and 32 KiB of buffers.
//!
//! Not here: what statements do (`quipu-sql`), local sockets, replication, channel binding.

pub mod answers;
mod bell;
mod buffers;
mod connection;
mod conversation;
mod extended;
mod login;
pub mod messages;
mod parameters;
mod reach;
mod rights;
pub mod scram;
mod sink;
mod stream;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use quipu::{Error, ErrorKind, Result};
use quipu_sql::SqlDatabase;
use quipu_sql::catalogue::roles::Users;
use rustls::ServerConfig;

use crate::state::server::Server;
use crate::system::listening::bind_all;
use crate::system::log::Level;
use crate::system::process::{spawn_vital, spawn_vital_with};
use crate::tls;
use reach::Connections;
use rights::TableRights;
use stream::Socket;

/// Connections beyond those that may have a session: they cancel others, or are told that there is no place.
const SPARE_CONNECTIONS: usize = 32;
/// How long after its time a snapshot may stay.
const ROUND: Duration = Duration::from_secs(1);
/// How long a stop waits for statements under way, before and after it cancels them.
const PATIENCE: Duration = Duration::from_secs(2);
/// The token of the waker; those of listeners count from 0.
const WAKER: Token = Token(usize::MAX);

/// What all connections share.
pub(crate) struct Face {
    server: Arc<Server>,
    database: SqlDatabase,
    tls: Option<Arc<ServerConfig>>,
    needs_tls: bool,
    /// The databases that clients may name; all if empty.
    databases: Vec<String>,
    sessions_max: usize,
    message_bytes_max: usize,
    connections: Connections,
}

impl Face {
    /// Cancels what a connection runs.
    fn cancel(&self, process: i32, secret: &[u8]) {
        if self.connections.cancel(process, secret) {
            self.server.postgres.cancels.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The threads that serve the PostgreSQL protocol.
pub struct PostgresListening {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    face: Arc<Face>,
    waker: Waker,
    thread: JoinHandle<()>,
}

/// Listens at a port of all addresses of the configuration, and starts to serve; 0 for any port that is free.
///
/// # Errors
/// [`ErrorKind::Io`] if an address cannot be listened at; [`ErrorKind::Invalid`] if certificates cannot be used, and
/// those of reading the catalogue.
pub fn listen(server: &Arc<Server>, port: u16) -> Result<PostgresListening> {
    let config = &server.config;
    let has_certificate = config.tls.certificate.is_some() || config.tls.key.is_some();
    if config.pg_needs_tls && !has_certificate {
        let text = "`--pg-require-tls yes` needs a certificate: name `--tls-cert-file` and `--tls-key-file`";
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let tls = has_certificate.then(|| tls::for_clients(&config.tls)).transpose()?;
    let database = SqlDatabase::open(server.keyspace.db())
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the tables cannot be served: {error}")))?;
    let of_server = Arc::clone(server);
    database.ask_users(move || {
        let users = of_server.users.all();
        let known = users.iter().filter(|user| user.rules().is_on);
        let known = known.map(|user| (user.name.to_string(), TableRights::of(user))).collect();
        let default = of_server.users.default_user();
        Users { known, takes_any: of_server.users.needs_no_password() && default.may_do_everything() }
    });
    let mut listeners = bind_all(&config.bind, port).map_err(|(place, error)| {
        let text = format!("cannot listen at {place}: {error}; choose another `--pg-port` or `--bind`");
        Error::new(ErrorKind::Io, text)
    })?;
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    server.warn_of_strangers(&addresses);
    let io = |error: io::Error| Error::new(ErrorKind::Io, format!("cannot start to serve PostgreSQL: {error}"));
    let poll = Poll::new().map_err(io)?;
    for (number, listener) in listeners.iter_mut().enumerate() {
        poll.registry().register(listener, Token(number), Interest::READABLE).map_err(io)?;
    }
    let waker = Waker::new(poll.registry(), WAKER).map_err(io)?;
    let face = Arc::new(Face {
        server: server.clone(),
        database,
        tls,
        needs_tls: config.pg_needs_tls,
        databases: config.pg_databases.clone(),
        sessions_max: config.pg_connections_max,
        message_bytes_max: config.pg_message_bytes_max,
        connections: Connections::default(),
    });
    let of_thread = face.clone();
    let thread = spawn_vital("postgres".to_owned(), move || accept_all(poll, &listeners, &of_thread)).map_err(io)?;
    Ok(PostgresListening { addresses, face, waker, thread })
}

impl PostgresListening {
    /// Takes no more connections, lets statements under way end for a while, and ends all sessions.
    pub fn stop(self) {
        self.face.server.stop();
        // If it cannot be woken, its loop has ended.
        let _ = self.waker.wake();
        // A thread that panicked has ended the process.
        let _ = self.thread.join();
        self.face.connections.end_all(PATIENCE);
    }
}

/// Takes connections until the server stops.
fn accept_all(mut poll: Poll, listeners: &[TcpListener], face: &Arc<Face>) {
    let mut events = Events::with_capacity(16);
    while !face.server.stopping.load(Ordering::Acquire) {
        face.database.end_due_snapshots();
        if let Err(error) = poll.poll(&mut events, Some(ROUND))
            && error.kind() != io::ErrorKind::Interrupted
        {
            face.server.log(format_args!("cannot wait for clients of PostgreSQL: {error}"));
            face.server.wait_for_stop_until(Duration::from_millis(20));
        }
        for event in &events {
            if let Some(listener) = listeners.get(event.token().0) {
                accept_ready(listener, face);
            }
        }
    }
}

/// Takes all that have connected.
fn accept_ready(listener: &TcpListener, face: &Arc<Face>) {
    loop {
        match listener.accept() {
            Ok((stream, address)) => {
                let stream = TcpStream::from(OwnedFd::from(stream));
                if let Err(error) = begin(stream, address, face) {
                    face.server.log_at(Level::Verbose, format_args!("client at {address}: not served: {error}"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                face.server.log(format_args!("cannot accept a client of PostgreSQL: {error}"));
                // The cause, such as too many open files, does not go away by asking again at once.
                if face.server.wait_for_stop_until(Duration::from_millis(20)) {
                    return;
                }
            }
        }
    }
}

/// Gives a connection its thread.
fn begin(stream: TcpStream, address: SocketAddr, face: &Arc<Face>) -> io::Result<()> {
    let local_address = stream.local_addr().map(|local| local.to_string()).unwrap_or_default();
    let socket = Socket::new(stream)?;
    let Some((number, reach)) = face.connections.enter(socket.clone(), face.sessions_max + SPARE_CONNECTIONS) else {
        face.server.postgres.refused.fetch_add(1, Ordering::Relaxed);
        return Err(io::Error::other("there are too many connections"));
    };
    let of_thread = face.clone();
    let run = move || {
        connection::serve(&of_thread, &reach, socket, (&address.to_string(), &local_address));
        of_thread.connections.leave(number);
    };
    let builder = Builder::new().name(format!("pg-{number}")).stack_size(quipu_sql::STACK_BYTES);
    spawn_vital_with(builder, run).map(drop).inspect_err(|_| face.connections.leave(number))
}
