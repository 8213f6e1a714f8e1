//! Sockets of the Redis protocol: threads with a loop each, and connections.
//!
//! Each thread waits for its sockets, reads what has come, runs the commands of all of them in one [`crate::execute::Turn`], waits until that is durable, and
//! sends the answers: commands that come together are committed together.
//!
//! Not here: HTTP.

mod connection;
mod listener;
mod stream;
mod tls;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use quipu::{Error, ErrorKind, Result};

use crate::server::Server;
use listener::Listener;
use worker::{Handle, Worker};

/// The threads that serve the Redis protocol.
pub struct Listening {
    server: Arc<Server>,
    handles: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

/// Listens at all addresses of the configuration, and starts to serve.
///
/// # Errors
/// [`ErrorKind::Io`] if an address cannot be listened at, [`ErrorKind::Invalid`] if certificates are of no use.
pub fn listen(server: &Arc<Server>) -> Result<Listening> {
    let (mut listeners, addresses) = Listener::open_all(&server.config)?;
    let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot start to serve: {error}"));
    let mut workers = Vec::new();
    for number in 0..server.config.threads.max(1) {
        workers.push(Worker::new(server.clone(), number).map_err(io)?);
    }
    let handles: Vec<Handle> = workers.iter().map(Worker::handle).collect();
    let mut threads = Vec::new();
    for (number, mut worker) in workers.into_iter().enumerate() {
        if number == 0 {
            worker.accept(std::mem::take(&mut listeners), handles.clone()).map_err(io)?;
        }
        let thread = std::thread::Builder::new().name(format!("resp-{number}")).spawn(move || worker.run());
        threads.push(thread.map_err(io)?);
    }
    let keeper = server.clone();
    let thread = std::thread::Builder::new().name("housekeeping".to_owned());
    threads.push(thread.spawn(move || crate::housekeeping::run(&keeper)).map_err(io)?);
    Ok(Listening { server: server.clone(), handles, threads, addresses })
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
    }

    /// Returns when the server is to stop.
    pub fn wait(&self) {
        self.server.wait_for_stop();
    }
}
