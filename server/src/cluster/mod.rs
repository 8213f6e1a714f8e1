//! A node of a cluster as part of a server: the state machine of `quipu-cluster` with sockets, a clock and the engine.
//! `docs/internals/cluster.md` has the plan; its part *The shell* is about this folder.
//!
//! | module | |
//! |---|---|
//! | `address` | addresses of nodes: parsed, shown and compared |
//! | `change` | requested changes of members |
//! | `register` | which node has which data directory; when a new node may begin |
//! | `greeting` | how two nodes get to know each other, before frames flow |
//! | `fuzz` | arbitrary bytes for `greeting` and the messages of `quipu-agreement`, with a feature |
//! | `host` | what a node needs, and is told at its start |
//! | `inbox` | what others give to the node's thread |
//! | `socket` | the socket between two nodes, with TLS or without |
//! | `link` | a connection to a peer: frames in, frames out |
//! | `links` | the connections to all peers, and those that were replaced |
//! | `driver` | the thread that runs the node |
//! | `report` | what the node says of itself |
//! | `local` | this node's own entities, in order |
//!
//! Invariants:
//! 1. The node runs in one thread, in turns: what has come is taken in, committed as one record, and answered when that
//!    is durable.
//! 2. Others wait for that thread only by a channel, and the callers bound what waits there.
//! 3. A peer that does not greet rightly is never heard.
//!
//! Not here: what a request means (`quipu-cluster`), HTTP and RESP.

mod address;
mod change;
mod driver;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod greeting;
mod host;
mod inbox;
mod link;
mod links;
mod local;
mod register;
mod report;
mod socket;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quipu::{Db, Error, ErrorKind, ReadableTable, Result};
use quipu_cluster::api::{Answer, Request};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::node::Identity;
use quipu_cluster::routing::Routing;
use quipu_cluster::tables::Table;
use tokio::sync::{oneshot, watch};

use crate::system::log::Level;
use crate::system::process::spawn_vital;

pub use address::normal as normal_address;
pub use change::{ChangeOrder, ChangeRefused, Changed, NewMember};
use driver::Driver;
use greeting::Failure;
pub use greeting::PEER_PORT;
pub use host::{ClusterOptions, Credentials, Host};
use inbox::{Event, Inbox};
pub use local::LocalRange;
pub use quipu_agreement::LogReport;
use register::Register;
pub use report::{ChangePhase, ChangeReport, PeerReport, Report};

/// A running node: what requests are given to.
pub struct Cluster {
    register: Arc<Register>,
    inbox: Arc<Inbox>,
    report: watch::Receiver<Arc<Report>>,
    /// Which `from` have rows here, a bit each.
    classes: Arc<AtomicU32>,
    /// Above the time limit of the longest values.
    patience: Duration,
}

/// How long an answer may come after the time limit of its request: a disk that hangs may hold it up.
const PATIENCE_EXTRA: Duration = Duration::from_secs(3);

/// The thread of a node.
pub struct Running {
    inbox: Arc<Inbox>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Ends the thread. Requests under way are not answered.
    pub fn stop(self) {
        self.inbox.post(Event::Stop);
        // If it panicked it has said so.
        let _ = self.thread.join();
    }
}

impl Cluster {
    /// Opens the node's tables in `db` and starts its thread.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the list or this node's address makes no sense, or if the data are of another node or
    /// another cluster; those of the database.
    pub fn start(db: &Db, host: Arc<dyn Host>, options: ClusterOptions) -> Result<(Arc<Cluster>, Running)> {
        if options.joins && !Register::has_place(db)? {
            join(db, &*host, &options)?;
        }
        let register = Arc::new(Register::open(db, &options)?);
        let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot start the cluster: {error}"));
        let poll = mio::Poll::new().map_err(io)?;
        let inbox = Arc::new(Inbox::new(&poll).map_err(io)?);
        let classes = Arc::new(AtomicU32::new(u32::MAX));
        let (reporter, report) = watch::channel(Arc::new(Report::new(&register)));
        let limits = options.limits;
        let long_ms = limits.value_bytes_max as u64 / limits.bytes_a_ms.max(1);
        // A read has as much time again once its value has begun to come.
        let patience = 2 * Duration::from_millis(limits.request_timeout_ms + long_ms) + PATIENCE_EXTRA;
        let cluster =
            Cluster { register: register.clone(), inbox: inbox.clone(), report, classes: classes.clone(), patience };
        let sockets = (poll, inbox.clone());
        let driver = Driver::new(host, register, (limits, options.drain_ms), sockets, (reporter, classes));
        let of_thread = inbox.clone();
        let work = move || {
            driver.run();
            of_thread.close();
        };
        let thread = spawn_vital("cluster".to_owned(), work).map_err(io)?;
        Ok((Arc::new(cluster), Running { inbox, thread }))
    }

    /// Whether a database is that of a node of a cluster.
    ///
    /// # Errors
    /// Those of the database.
    pub fn is_of(db: &Db) -> Result<bool> {
        Ok(EngineStore::stored_seed(db)?.is_some())
    }

    /// Makes a database that was restored for one node of a cluster that of a new node: it has none of the cluster's
    /// rows, and copies from the others. To keep them would be to answer from what was true once.
    ///
    /// # Errors
    /// Those of the database.
    pub fn restore_one(db: &Db) -> Result<()> {
        Register::forget_all(db)
    }

    /// Has a database that was restored stay that of its node. To be called only where all nodes of the cluster are
    /// restored: none of them may remember what another has confirmed since.
    ///
    /// # Errors
    /// Those of the database.
    pub fn restore_all(db: &Db) -> Result<()> {
        Register::forget_marks(db)
    }

    /// Gives a request to the node. Nothing comes if the node has failed or stops: then it is not known what became of
    /// the request.
    pub fn ask(&self, request: Request) -> oneshot::Receiver<Answer> {
        let (sender, answer) = oneshot::channel();
        self.inbox.post(Event::Ask(request, sender));
        answer
    }

    /// Tells those who wait for an answer that none comes, if the node's thread is stuck for longer than any request
    /// may take. To be called about once a second.
    pub fn give_up_if_stuck(&self) {
        self.inbox.give_up_if_stuck(self.patience);
    }

    /// Compares all partitions with their replicas now.
    pub fn repair(&self) {
        self.inbox.post(Event::Repair);
    }

    /// Changes who is a member. The answer comes when the change has begun, or cannot; nothing comes if the node has
    /// failed or stops.
    pub fn change(&self, order: ChangeOrder) -> oneshot::Receiver<Changed> {
        let (sender, answer) = oneshot::channel();
        self.inbox.post(Event::Change(order, sender));
        answer
    }

    /// What the node said of itself last: some 100 ms ago at most, while it lives.
    pub fn report(&self) -> Arc<Report> {
        self.report.borrow().clone()
    }

    /// Returns when the node has greeted every peer that is up, or it is clear that it will not for now.
    pub async fn peers_met(&self) {
        let mut report = self.report.clone();
        // The thread has ended: there is nothing to wait for.
        let _ = report.wait_for(|report| report.has_met_peers).await;
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.register.routing().topology().placed.len()
    }

    /// Replicas of an entity where a request says nothing.
    pub fn replicas(&self) -> usize {
        usize::from(self.register.routing().topology().replicas)
    }

    /// The address under which the others know this node.
    pub fn self_url(&self) -> String {
        self.register.self_url().to_owned()
    }

    /// Whether a member that was not declared dead has this normal address.
    pub fn is_member(&self, url: &str) -> bool {
        let routing = self.routing();
        routing.topology().members.values().any(|member| member.url == url && !member.is_dead)
    }

    /// Whether this node still waits for its place in the cluster.
    pub fn is_waiting(&self) -> bool {
        self.register.standing() != register::Standing::Begun
    }

    /// Whether peers have to prove that they are.
    pub fn proves_peers(&self) -> bool {
        self.register.credentials().is_some()
    }

    /// The protocol that peers are to ask for.
    pub fn protocol(&self) -> &'static str {
        greeting::protocol(self.register.credentials())
    }

    /// Says that a peer asks for the other protocol.
    pub fn refuse_protocol(&self) {
        let why = greeting::other_protocol(self.register.credentials());
        self.inbox.post(Event::Accepted(Err(Failure::Refused(why.to_owned()))));
    }

    /// Takes a connection whose peer has asked for the node protocol. To be called where it may wait for seconds.
    pub fn accept(&self, stream: TcpStream) {
        let inbox = &self.inbox;
        let fence = || inbox.fence();
        let greeted = greeting::accept(&self.register, stream, &fence);
        inbox.post(Event::Accepted(greeted));
    }

    /// How many entities this node has now, those included that have expired and are not removed yet. Costs a look at a
    /// root.
    pub fn entities(&self) -> u64 {
        self.register.store().table(Table::Entities).len().unwrap_or(0)
    }

    /// This node's entities with `start <= key < end`, as they are now.
    pub fn local(&self, range: (Vec<u8>, Option<Vec<u8>>), now_ms: u64) -> LocalRange {
        let classes = self.classes.load(Ordering::Acquire);
        LocalRange::new(self.register.store(), &self.routing(), classes, range, now_ms)
    }

    fn routing(&self) -> Routing {
        self.register.routing()
    }
}

/// How often a node that joins asks whether it was added.
const JOIN_EVERY: Duration = Duration::from_millis(300);

/// Waits until the log of a cluster has given this node an id, and notes that in its database.
#[expect(clippy::disallowed_methods, reason = "nothing runs here before")]
fn join(db: &Db, host: &dyn Host, options: &ClusterOptions) -> Result<()> {
    let invalid = |text: String| Error::new(ErrorKind::Invalid, text);
    let self_url = normal_address(&options.self_url).map_err(invalid)?;
    let urls: Vec<String> =
        options.urls.iter().map(|url| normal_address(url)).collect::<std::result::Result<_, _>>().map_err(invalid)?;
    if urls.contains(&self_url) {
        return Err(invalid(format!("`--join` names members of the cluster, and {self_url} is this node")));
    }
    let store = register::new_store();
    let mut told = BTreeMap::new();
    while !host.is_stopping() {
        for url in &urls {
            match greeting::ask_for_place(url, &options.credentials, &self_url, store) {
                Ok((_, topology)) if options.replicas != 0 && options.replicas != topology.replicas => {
                    return Err(register::other_replicas(options.replicas, &topology));
                }
                Ok((node, topology)) => {
                    host.note(Level::Notice, format_args!("{self_url} is node {node} of the cluster"));
                    return Register::found(db, &Identity { node, store, topology });
                }
                Err(failure) => {
                    let why = match failure {
                        Failure::Refused(why) | Failure::Unreachable(why) => why,
                        _ => continue,
                    };
                    if told.get(url) != Some(&why) {
                        host.note(Level::Notice, format_args!("waiting to join: {why}"));
                        told.insert(url.clone(), why);
                    }
                }
            }
        }
        std::thread::sleep(JOIN_EVERY);
    }
    Err(Error::new(ErrorKind::Poisoned, "the node was stopped before it had joined the cluster"))
}
