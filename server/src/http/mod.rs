//! The HTTP face: entities with `ack` and `from`, ranges, positions, and the requests of operators. Its page for users
//! is `docs/http.md`.
//!
//! Hyper speaks HTTP/1.1 on a few threads of tokio. Reads are answered where they arrive, from memory; where pages of
//! runs are missing, on a thread that may wait. `writer` makes the writes; ranges are streams over a snapshot.
//!
//! | module | |
//! |---|---|
//! | `route` | which request goes where |
//! | `entity`, `entities`, `positions`, `monitoring`, `profile` | the requests |
//! | `access` | users and their rights |
//! | `head`, `query`, `condition_headers`, `body` | checks of requests, their parameters, entity tags and bodies |
//! | `answer` | answers and their bodies |
//! | `quorum`, [`version_clock`] | how many replicas are asked and waited for; the clock of versions of a node alone |
//! | `members`, `waiting` | changes of who is a member of the cluster; nodes that wait to become one |
//! | `batch`, `peers` | many entities in a request to a node of a cluster; where its nodes meet |
//! | `writer` | how the entities of a node alone are written |
//! | `node`, `streams` | what requests share; ranges and long values on their way |
//! | `retry` | requests that may wait for pages of runs, and those that may not |
//! | `limits`, `socket` | bounds, quiet clients |
//! | `metrics`, `prometheus` | counters of requests; the text of metrics |
//!
//! Invariants:
//! 1. A write is answered when it is as durable as configured.
//! 2. No task holds the data while it waits.
//! 3. What clients can make the server hold is bounded by [`HttpLimits`].
//!
//! Not here: how a cluster replicates ([`crate::cluster`]), HTTP/2, TLS.

mod access;
mod answer;
mod batch;
mod body;
mod condition_headers;
mod entities;
mod entity;
mod head;
mod limits;
mod members;
mod metrics;
mod monitoring;
mod node;
mod peers;
mod positions;
mod profile;
mod prometheus;
mod query;
mod quorum;
mod retry;
mod route;
mod socket;
mod streams;
pub mod version_clock;
mod waiting;
mod writer;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use quipu::{Error, ErrorKind, Result};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use self::waiting::until_stop;
use crate::cluster::{self, Cluster, ClusterOptions, Credentials};
use crate::state::server::Server;
use crate::system::scheduling::schedule_as_batch;
pub use limits::HttpLimits;
use limits::{Places, Pulse, Taken};
use metrics::Metrics;
use node::{Face, Node};
use writer::Writer;

/// Bytes that hyper buffers of one connection, each way: a request's head must fit.
const CONNECTION_BUFFER_BYTES: usize = 128 << 10;
/// Connections that the system keeps for us until we take them.
const BACKLOG: u32 = 1024;
/// How long a stop waits for requests under way.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// What is listened at, and as whom.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Addresses to listen at.
    pub bind: Vec<String>,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The address under which the nodes of the cluster know this one.
    pub self_url: Option<String>,
    /// The addresses of all nodes; none for this one alone.
    pub cluster: Vec<String>,
    /// Addresses of members of the cluster that this node joins; none if it does not.
    pub join: Vec<String>,
    /// The port at which nodes meet; none if that is `port`. 0 for any that is free.
    pub peer_port: Option<u16>,
    /// How nodes of the cluster tell each other from others.
    pub credentials: Credentials,
    /// Replicas of an entity where a request says nothing; 0: all nodes.
    pub replicas: u8,
    /// The bounds and times of a node of a cluster. Those of requests are those of `limits`.
    pub cluster_limits: quipu_cluster::limits::Limits,
    /// How long a node that leaves its cluster serves on after `/readyz` has said so, in milliseconds.
    pub drain_ms: u64,
    /// Threads that answer requests.
    pub threads: usize,
    /// What bounds them.
    pub limits: HttpLimits,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            bind: vec!["127.0.0.1".to_owned()],
            port: 0,
            self_url: None,
            cluster: Vec::new(),
            join: Vec::new(),
            peer_port: None,
            credentials: Credentials::default(),
            replicas: 0,
            cluster_limits: quipu_cluster::limits::Limits::default(),
            drain_ms: 0,
            threads: 2,
            limits: HttpLimits::default(),
        }
    }
}

/// The running HTTP face.
pub struct HttpListening {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Where it listens for nodes of the cluster alone.
    pub peer_addresses: Vec<SocketAddr>,
    runtime: Runtime,
    node: Arc<Node>,
    cluster: Option<cluster::Running>,
    commit_thread: JoinHandle<()>,
    stop: watch::Sender<bool>,
    /// Ends when the last connection does.
    connections: mpsc::Receiver<Infallible>,
}

/// Listens, and starts to serve.
///
/// # Errors
/// [`ErrorKind::Io`] if an address cannot be listened at; [`ErrorKind::Invalid`] if the cluster cannot be served.
pub fn listen(server: &Arc<Server>, options: HttpOptions) -> Result<HttpListening> {
    let own_url = options.self_url.clone().unwrap_or_else(|| format!("http://localhost:{}", options.port));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.max(1))
        .thread_name("http")
        .on_thread_start(schedule_as_batch)
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start to serve: {error}")))?;
    let (mut listeners, peer_listeners) = runtime.block_on(async {
        let peers = options.peer_port.map(|port| bind(&options.bind, port, "the nodes of the cluster"));
        Ok::<_, Error>((bind(&options.bind, options.port, "HTTP")?, peers.transpose()?.unwrap_or_default()))
    })?;
    let addresses_of = |listeners: &[TcpListener]| -> Vec<SocketAddr> {
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    };
    let (addresses, peer_addresses) = (addresses_of(&listeners), addresses_of(&peer_listeners));
    server.warn_of_strangers(&addresses);
    let metrics = Arc::new(Metrics::default());
    let mut limits = options.limits.clone();
    limits.key_bytes_max = limits.key_bytes_max.min(crate::keyspace::KEY_BYTES_MAX);
    let (writer, commit_thread) = Writer::start(server.clone(), metrics.clone(), limits.requests_max)?;
    // A node that joins may wait for long, and says so to each client.
    let waiting = (!options.join.is_empty()).then(|| {
        let _runtime = runtime.enter();
        waiting::Waiting::begin(std::mem::take(&mut listeners), &own_url)
    });
    let joined = join(server, &own_url, &options);
    if let Some(waiting) = waiting {
        listeners = runtime.block_on(waiting.end());
    }
    let (cluster, running) = joined?.unzip();
    let (stop, stopping) = watch::channel(false);
    let (open, connections) = mpsc::channel(1);
    let node = Arc::new(Node {
        server: server.clone(),
        cluster,
        peer_port: peer_addresses.first().map(SocketAddr::port),
        writer,
        requests: Places::new(limits.requests_max),
        streams: Places::new(limits.streams_max),
        connections: Places::new(limits.connections_max),
        peer_connections: Places::new(limits.peer_connections_max),
        flight_bytes: Places::new(limits.flight_bytes_max),
        limits,
        metrics,
        stopping,
        stops: AtomicBool::new(false),
    });
    if let Some(cluster) = &node.cluster {
        runtime.spawn(look_after(cluster.clone(), node.stopping.clone()));
    }
    let faces = listeners.into_iter().map(|listener| (listener, Face::Clients));
    for (listener, face) in faces.chain(peer_listeners.into_iter().map(|listener| (listener, Face::Peers))) {
        runtime.spawn(accept(listener, face, node.clone(), open.clone()));
    }
    Ok(HttpListening { addresses, peer_addresses, runtime, node, cluster: running, commit_thread, stop, connections })
}

/// Looks once a second whether the thread of the node is stuck.
async fn look_after(cluster: Arc<Cluster>, mut stopping: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => cluster.give_up_if_stuck(),
            () = until_stop(&mut stopping) => return,
        }
    }
}

/// Starts the node of a cluster, if the list names others than this one, or it joins some.
fn join(
    server: &Arc<Server>,
    own_url: &str,
    options: &HttpOptions,
) -> Result<Option<(Arc<Cluster>, cluster::Running)>> {
    let is_alone = |url: &String| cluster::normal_address(url) == cluster::normal_address(own_url);
    match (&options.cluster[..], &options.join[..]) {
        ([], []) => return Ok(None),
        ([only], []) if is_alone(only) => return Ok(None),
        ([_, ..], [_, ..]) => {
            let text = "`--cluster` forms a cluster, and `--join` joins one that is there: give one of them";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        _ => {}
    }
    let joins = !options.join.is_empty();
    let told = ClusterOptions {
        urls: if joins { options.join.clone() } else { options.cluster.clone() },
        joins,
        self_url: own_url.to_owned(),
        credentials: options.credentials.clone(),
        replicas: options.replicas,
        limits: quipu_cluster::limits::Limits {
            key_bytes_max: options.limits.key_bytes_max.min(crate::keyspace::KEY_BYTES_MAX),
            value_bytes_max: options.limits.value_bytes_max,
            requests_max: options.limits.requests_max,
            request_bytes_max: options.limits.flight_bytes_max,
            ..options.cluster_limits.clone()
        },
        drain_ms: options.drain_ms,
    };
    if told.limits.hint_age_ms_max >= told.limits.grace_ms {
        let text = "`cluster-hint-age-s` must be below `cluster-grace-s`: a hint that is older than the grace period is \
                    of no use";
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    server.join(told).map(Some)
}

impl HttpListening {
    /// Takes no more connections, answers what is under way, and ends: within five seconds, whatever clients do. Not to
    /// be called from a task.
    pub fn stop(mut self) {
        self.node.stops.store(true, Ordering::Release);
        // If all have ended, there is no receiver.
        let _ = self.stop.send(true);
        self.runtime.block_on(async {
            // If time runs out, connections end as they are.
            let _ = tokio::time::timeout(DRAIN_MAX, self.connections.recv()).await;
        });
        if let Some(cluster) = self.cluster {
            cluster.stop();
        }
        self.node.writer.stop();
        if self.commit_thread.join().is_err() {
            self.node.server.log(format_args!("the thread that commits writes over HTTP had failed"));
        }
        self.runtime.shutdown_timeout(Duration::from_millis(500));
    }
}

fn bind(binds: &[String], port: u16, whom: &str) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for bind in binds {
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen at {bind}:{port} for {whom}: {error}; choose another port or address");
            Error::new(ErrorKind::Io, message)
        };
        for address in (bind.as_str(), port).to_socket_addrs().map_err(failed)? {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
            // So that the port can be bound while connections of an earlier process linger.
            socket.set_reuseaddr(true).map_err(failed)?;
            socket.bind(address).map_err(failed)?;
            listeners.push(socket.listen(BACKLOG).map_err(failed)?);
        }
    }
    Ok(listeners)
}

/// Takes connections until the node stops. Each holds `open` while it lives.
async fn accept(listener: TcpListener, face: Face, node: Arc<Node>, open: mpsc::Sender<Infallible>) {
    let mut stopping = node.stopping.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until_stop(&mut stopping) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                node.metrics.connections_accepted.fetch_add(1, Ordering::Relaxed);
                let places = match face {
                    Face::Clients => &node.connections,
                    Face::Peers => &node.peer_connections,
                };
                let Some(place) = places.take(1) else {
                    refuse(&node, &stream);
                    continue;
                };
                node.metrics.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, (address.ip(), face), node.clone(), (open.clone(), place)));
            }
            Err(error) => {
                node.server.log(format_args!("cannot accept a connection for HTTP: {error}"));
                // The cause, such as too many open files, does not go away by asking again at once.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Turns a connection away.
fn refuse(node: &Node, stream: &TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    node.metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
    // A fresh socket takes so much at once; if it does not, the client sees the end.
    let _ = stream.try_write(ANSWER);
}

/// Serves one connection, which holds what `held` is while it lives.
async fn serve(stream: TcpStream, from: (IpAddr, Face), node: Arc<Node>, held: (mpsc::Sender<Infallible>, Taken)) {
    // A request and its answer are small, and neither should wait for the other's acknowledgement.
    let _ = stream.set_nodelay(true);
    let pulse = Arc::new(Pulse::default());
    let socket = socket::Socket::new(stream, pulse.clone(), node.limits.quiet_max);
    let of_connection = pulse.clone();
    let mut stopping = node.stopping.clone();
    let of_service = node.clone();
    let service = service_fn(move |request| route::serve(&of_service, &pulse, from, request));
    let connection = http1::Builder::new()
        // `socket` looks after quiet clients; hyper's way is a timer for each request.
        .header_read_timeout(None)
        .half_close(true)
        // One buffer a write: the chunks of a range would be three pieces each.
        .writev(false)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut stop = std::pin::pin!(until_stop(&mut stopping));
    // The task is told of a stop once, and then looks at the flag: asking the channel takes a lock, for each request.
    let (mut is_told, mut is_closing) = (false, false);
    // A connection that fails is the client's affair: it has gone, was quiet, or speaks no HTTP, which it is told.
    let served = std::future::poll_fn(|cx| {
        if !is_closing && (!is_told || node.stops.load(Ordering::Acquire)) {
            is_told = true;
            if stop.as_mut().poll(cx).is_ready() {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
        connection.as_mut().poll(cx)
    })
    .await;
    if let Err(error) = served
        && error.is_parse()
    {
        of_connection.note_unreadable(error.to_string());
    }
    node.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    drop(held);
}
