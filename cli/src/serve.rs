//! `quipu serve`: the server as a process: its configuration, its banner, its signals, its end.

mod arguments;
mod banner;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu_server::Server;
use quipu_server::cluster::Credentials;
use quipu_server::config::Config;
use quipu_server::http::{self, HttpListening, HttpOptions};
use quipu_server::net::{self, Listening};
use quipu_server::postgres::{self, PostgresListening};
use quipu_server::tls::PeerTls;

pub(crate) use arguments::{Args, take_redis_style};

use crate::clock::timed;
use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::progress::Follower;

/// File numbers that the process needs beside those of its clients.
const OWN_FILES: u64 = 64;

pub(crate) fn run(args: &Args) -> Result<()> {
    let (config, without_effect) = arguments::configure(args)?;
    let files = raise_file_limit(&config);
    let (server, recovery) = timed(|| {
        let mut follower = Follower::default();
        Server::open(config, &mut |progress| follower.show(progress))
    });
    let server = Arc::new(server?);
    if let Some(clients) = files {
        server.log(format_args!(
            "the system allows so few open files that only {} can connect; `ulimit -n` raises that",
            counted(clients, "client")
        ));
    }
    if !without_effect.is_empty() {
        server.log(format_args!("accepted, and without effect here: {}", without_effect.join(", ")));
    }
    // Signals are taken from here on, so that one which comes while faces are opened is not lost.
    watch_signals(&server)?;
    // Redis clients come last: a client that waits for their port finds the other one open.
    let http = serve_http(&server)?;
    let others = server.config.pg_port.map(|port| postgres::listen(&server, port)).transpose();
    let others = others.and_then(|postgres| match net::listen(&server) {
        Ok(listening) => Ok((postgres, listening)),
        Err(error) => {
            postgres.into_iter().for_each(PostgresListening::stop);
            Err(error)
        }
    });
    let (postgres, listening) = match others {
        Ok(others) => others,
        Err(error) => {
            http.into_iter().for_each(HttpListening::stop);
            return Err(error.into());
        }
    };
    banner::print(&server, &listening, http.as_ref(), postgres.as_ref(), recovery)?;
    listening.wait();
    stop(&server, listening, http, postgres)
}

fn serve_http(server: &Arc<Server>) -> quipu::Result<Option<HttpListening>> {
    let config = &server.config;
    let Some(port) = config.http_port else {
        if config.cluster.len() > 1 || !config.join.is_empty() {
            let text = "nodes of a cluster speak HTTP with each other: name `--http-port`, the port of `--self-url`";
            return Err(quipu::Error::new(quipu::ErrorKind::Invalid, text));
        }
        return Ok(None);
    };
    let secret = config.cluster_secret_file.as_deref().map(read_secret).transpose()?;
    let tls = PeerTls::read(&config.cluster_tls)?;
    let options = HttpOptions {
        bind: config.bind.clone(),
        port,
        self_url: config.self_url.clone(),
        cluster: config.cluster.clone(),
        join: config.join.clone(),
        peer_port: config.peer_port,
        credentials: Credentials { secret, tls },
        replicas: config.replicas,
        cluster_limits: config.cluster_limits.clone(),
        drain_ms: config.cluster_drain_ms,
        ..HttpOptions::default()
    };
    http::listen(server, options).map(Some)
}

/// The secret of a cluster: all that stands in a file, without white space around it.
#[expect(clippy::disallowed_methods, reason = "a file of the user who runs the program, not of the database")]
fn read_secret(path: &std::path::Path) -> quipu::Result<Vec<u8>> {
    let wrong = |what: String| {
        let text = format!("the cluster's secret in {}: {what}", path.display());
        quipu::Error::new(quipu::ErrorKind::Invalid, text)
    };
    let secret = std::fs::read(path).map_err(|error| wrong(error.to_string()))?.trim_ascii().to_vec();
    match secret.len() {
        0 => Err(wrong("the file is empty".to_owned())),
        _ => Ok(secret),
    }
}

/// Lets clients take their answers, and makes a checkpoint, so that the next start is short.
fn stop(
    server: &Arc<Server>,
    listening: Listening,
    http: Option<HttpListening>,
    postgres: Option<PostgresListening>,
) -> Result<()> {
    server.log(format_args!("stopping: no more connections, answers under way are sent"));
    postgres.into_iter().for_each(PostgresListening::stop);
    if let Some(http) = http {
        http.stop();
    }
    listening.stop();
    if server.stops_without_checkpoint.load(Ordering::Acquire) {
        server.keyspace.db().sync()?;
        server.log(format_args!("stopped without a checkpoint: the next start reads the log"));
        return Ok(());
    }
    let (result, took) = timed(|| server.keyspace.db().checkpoint());
    let info = result?;
    server.log(format_args!(
        "stopped: checkpoint {} with {} in {}",
        info.number,
        counted(info.rows_written, "row"),
        crate::clock::show(took)
    ));
    Ok(())
}

/// The first signal stops in order, the second at once.
fn watch_signals(server: &Arc<Server>) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT]).map_err(failed)?;
    let server = server.clone();
    std::thread::spawn(move || {
        for (number, signal) in signals.forever().enumerate() {
            if number > 0 {
                eprintln!("quipu: a second signal: ended at once; the next start reads the log");
                std::process::exit(128 + signal);
            }
            server.stop();
        }
    });
    Ok(())
}

/// Asks the system for as many open files as there may be clients. Returns how many clients there can be if those are
/// fewer.
fn raise_file_limit(config: &Config) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = config.parameters.clients_max.load(Ordering::Relaxed);
    let limit = getrlimit(Resource::Nofile);
    let needed = wanted.saturating_add(OWN_FILES);
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < needed {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok() {
            current = raised;
        }
    }
    let possible = current.saturating_sub(OWN_FILES).max(1);
    (possible < wanted).then(|| {
        config.parameters.set("maxclients", possible.to_string());
        possible
    })
}
