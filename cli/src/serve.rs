//! `quipu serve`: the server.

use std::path::PathBuf;
use std::sync::Arc;

use quipu_server::config::Config;
use quipu_server::net;
use quipu_server::server::Server;

use crate::failure::{Failure, Result};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu serve                                   Redis clients at port 6379, the data in ./quipu-data
  quipu serve --port 7000 --data air --durability os";

/// Serves a database to Redis clients and over HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The port for Redis clients
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// The addresses to listen at
    #[arg(long, default_value = "127.0.0.1", num_args = 1..)]
    bind: Vec<String>,
    /// Where the data is
    #[arg(long, default_value = "quipu-data")]
    data: PathBuf,
    /// When a write is answered: once it is on stable storage (sync), once the system has it (os), at once (none)
    #[arg(long, default_value = "sync", value_parser = ["sync", "os", "none"])]
    durability: String,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let durability = match args.durability.as_str() {
        "os" => quipu::Durability::Os,
        "none" => quipu::Durability::None,
        _ => quipu::Durability::Sync,
    };
    let config = Config {
        data: args.data.clone(),
        durability,
        bind: args.bind.clone(),
        port: Some(args.port),
        threads: args.threads,
    };
    let mut follower = Follower::default();
    let server = Arc::new(Server::open(config, &mut |progress| follower.show(progress))?);
    let listening = net::listen(&server)?;
    println!("ready at {:?}", listening.addresses);
    let stopper = server.clone();
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
        .map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    listening.wait();
    listening.stop();
    server.keyspace.db().checkpoint()?;
    Ok(())
}
