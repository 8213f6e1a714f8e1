//! Sockets of the Redis protocol: threads with a loop each, and connections.
//!
//! Each thread waits for its sockets, reads what has come, runs the commands of all of them in one
//! [`crate::execution::batch::Turn`], waits until that is durable, and sends the answers: commands that come together
//! are committed together.
//!
//! | file | what it is |
//! |---|---|
//! | `worker`, `handle` | a thread that serves connections, and how others reach it |
//! | `listener`, `stream` | addresses to connect to; a socket of any kind |
//! | `connection` | one client: what has come and what waits to be sent |
//! | `input` | its commands: read, parsed, run |
//! | `loading`, `long` | what commands lack; threads for long answers |
//!
//! Not here: HTTP.

mod connection;
mod handle;
mod input;
mod listener;
mod loading;
mod long;
mod stream;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use quipu::{Error, ErrorKind, Result};

use crate::state::server::Server;
use crate::system::process::spawn_vital;
use handle::Handle;
use listener::Listener;
use loading::Loading;
use long::Queue;
use worker::Worker;

/// Threads that wait for answers of a cluster, at least.
const CLUSTER_THREADS: usize = 16;

/// The threads that serve the Redis protocol.
pub struct Listening {
    server: Arc<Server>,
    long: Arc<Queue>,
    loading: Arc<Loading>,
    handles: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

/// Listens at all addresses of the configuration, and starts to serve.
///
/// # Errors
/// [`ErrorKind::Io`] if an address cannot be listened at, [`ErrorKind::Invalid`] if certificates cannot be used.
pub fn listen(server: &Arc<Server>) -> Result<Listening> {
    let (mut listeners, addresses) = Listener::open_all(&server.config)?;
    server.warn_of_strangers(&addresses);
    let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot start to serve: {error}"));
    let long = Arc::new(Queue::new(server.clone()));
    let loading = Arc::new(Loading::new(server.clone()));
    let mut workers = Vec::new();
    for _ in 0..server.config.threads.max(1) {
        workers.push(Worker::new(server.clone(), long.clone(), loading.clone()).map_err(io)?);
    }
    let handles: Vec<Handle> = workers.iter().map(Worker::handle).collect();
    let mut threads = Vec::new();
    for (number, mut worker) in workers.into_iter().enumerate() {
        if number == 0 {
            worker.accept(std::mem::take(&mut listeners), handles.clone()).map_err(io)?;
        }
        threads.push(spawn_vital(format!("resp-{number}"), move || worker.run()).map_err(io)?);
    }
    // In a cluster they wait for replicas, most of the time.
    let waiting = if server.cluster.get().is_some() { CLUSTER_THREADS } else { 0 };
    for number in 0..server.config.long_threads.max(waiting) {
        let queue = long.clone();
        spawn_vital(format!("long-{number}"), move || queue.run()).map_err(io)?;
    }
    for number in 0..=loading::THREADS {
        let loading = loading.clone();
        let run = move || if number < loading::THREADS { loading.run() } else { loading.run_memory() };
        spawn_vital(format!("pages-{number}"), run).map_err(io)?;
    }
    let shared = server.clone();
    let run = move || crate::execution::housekeeping::run(&shared);
    threads.push(spawn_vital("housekeeping".to_owned(), run).map_err(io)?);
    Ok(Listening { server: server.clone(), long, loading, handles, threads, addresses })
}

impl Listening {
    /// Stops listening, sends what is to be sent, and ends the threads.
    pub fn stop(self) {
        self.server.stop();
        self.handles.iter().for_each(Handle::wake);
        for thread in self.threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        // Its threads are not waited for: a step may take long, and only reads.
        self.long.stop();
        self.loading.stop();
    }

    /// Returns when the server is to stop.
    pub fn wait(&self) {
        self.server.wait_for_stop();
    }
}
