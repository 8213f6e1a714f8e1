//! The register of nodes and their data directories, which also says when a new node may begin.
//!
//! A data directory has an id, its *store*, which its node draws once. Peers record the store durably when they greet
//! the node. From then on they know the node by this store only. So they recognize a node whose directory was erased,
//! and it does not answer "absent" for entities that it has lost.
//!
//! Invariants:
//! 1. A new node begins when more than half of the list, itself included, has recorded its store, and no node knows
//!    another store for its id.
//! 2. A node with a new store, whose id is known under another store, has lost its directory. The log declares the old
//!    id dead and gives the new store another id. The node takes that id (it *becomes* that node), is empty, and
//!    copies. An added node gets its id in the same way.
//! 3. If half of the stores are lost, the log cannot agree on anything. Then such a node *returns* under its id: it
//!    begins when **all** other members have recorded the new store and have forgotten what the old one had confirmed
//!    (the fence). It is empty then, and answers no reads before it has copied from all other members. It votes in the
//!    log only if a single store is left, which then has all that is known.
//! 4. When a node has come back under another store, its old store is refused for good. The log learns of the new one
//!    when the node runs ([`Register::returned`]), so that a node which is added later knows it.
//! 5. A record is durable before the peer is told of it.
//! 6. A store has a *mark*, a number that grows every few seconds while the store is written to. Peers learn of a mark
//!    when it is on stable storage, and remember the highest. A store that greets with a lower one was restored from a
//!    copy, and lacks what its node has confirmed since. It is refused, told so, and serves no more.
//!
//! Weakness: if every node that knows a claim is down, the claim is unknown. An erased node that meets only peers that
//! have never heard of it begins as a new one. But claims are agreed in the log too, so this happens only to a node
//! that was erased before a majority had its claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quipu::{Db, Error, ErrorKind, ReadableTable, Result};
use quipu_cluster::engine::{EngineStore, EngineTables};
use quipu_cluster::ids::NodeId;
use quipu_cluster::limits::Limits;
use quipu_cluster::node::Identity;
use quipu_cluster::protocol::VERSIONS;
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::random::mix;
use quipu_cluster::routing::Routing;
use quipu_cluster::tables::{Table, Tables};
use quipu_cluster::topology::{Entry, Member, StoreId, Topology};
use xxhash_rust::xxh3::xxh3_64;

use super::address;
use super::host::{ClusterOptions, Credentials};

mod admission;
mod store_marks;

pub(super) use admission::{Admitted, Decision, Newcomer};
pub(super) use store_marks::WENT_BACK_TEXT;
use store_marks::{Known, WENT_BACK};

/// The name of the fact with the store that was drawn and not yet used.
const DRAWN: &[u8] = b"drawn store";
/// Before the node in the names of facts with the stores of peers.
const CLAIM: &[u8] = b"claim ";
/// The name of the fact that this store was there when the cluster was formed, so that its node may begin the log.
const FOUNDER: &[u8] = b"founder";
/// The name of the fact that this node takes no part in the log: what it has lost may have decided something.
const LOG_LOST: &[u8] = b"log lost";

/// How far a node is on its way into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its store is new, and too few nodes have recorded it yet.
    New,
    /// Its id is known under another store: it has lost its directory.
    Returning,
    /// It has begun.
    Begun,
}

struct RegisterState {
    own: NodeId,
    routing: Routing,
    store_id: StoreId,
    standing: Standing,
    /// The stores of others.
    claims: BTreeMap<NodeId, StoreId>,
    /// The nodes that have recorded this node's store.
    noted_by: BTreeSet<NodeId>,
    /// Peers that have greeted with a new store since the start.
    fresh: BTreeSet<NodeId>,
    /// Those of them that had another store before, until they have begun.
    erased: BTreeSet<NodeId>,
    /// This store's mark, which is on stable storage.
    mark: u64,
    /// What is known of the marks of others.
    marks: BTreeMap<NodeId, Known>,
    /// Whether a peer knows a higher mark of this store.
    has_gone_back: bool,
}

/// The stores and marks of all nodes, as far as this node knows them. Shared by the threads that greet and the thread
/// that drives the node.
pub(super) struct Register {
    store: EngineStore,
    limits: Limits,
    self_url: String,
    list: String,
    /// The nodes of the list that the cluster was formed with.
    founders: BTreeSet<NodeId>,
    credentials: Credentials,
    state: Mutex<RegisterState>,
    /// Held while this node gets its place in the cluster.
    beginning: Mutex<()>,
}

/// How a node takes part in the log of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogRole {
    /// It may begin the log, with these.
    Founder(BTreeSet<NodeId>),
    /// It takes part once other members tell it to.
    Member,
    /// It takes no part.
    None,
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::Invalid, text)
}

/// The nodes of the list in their order, and the own address.
fn checked_urls(options: &ClusterOptions) -> Result<(Vec<String>, String)> {
    let mut urls: Vec<String> =
        options.urls.iter().map(|url| address::normal(url)).collect::<std::result::Result<_, _>>().map_err(invalid)?;
    urls.sort_unstable();
    let given = urls.len();
    urls.dedup();
    let self_url = address::normal(&options.self_url).map_err(invalid)?;
    let list = urls.join(",");
    if given == 0 || urls.len() < given {
        return Err(invalid("a cluster needs a node, and each of its nodes named once".to_owned()));
    }
    if !options.joins && !urls.contains(&self_url) {
        return Err(invalid(format!("`--self-url` {self_url} is not in the list of the cluster: {list}")));
    }
    if !options.joins && usize::from(options.replicas) > urls.len() {
        let text = format!("`--replicas` is {}, and the list has {} nodes", options.replicas, urls.len());
        return Err(invalid(text));
    }
    Ok((urls, self_url))
}

/// The name of the fact with the store of a peer.
fn claim_key(node: NodeId) -> Vec<u8> {
    [CLAIM, &node.0.to_be_bytes()].concat()
}

/// The stores of others that the database has recorded.
fn stored_claims(turn: &EngineTables<'_>) -> Result<BTreeMap<NodeId, StoreId>> {
    let mut claims = BTreeMap::new();
    turn.scan(Table::Facts, CLAIM, b"claim!", usize::MAX, |key, value| {
        let node = key.get(CLAIM.len()..).and_then(|rest| rest.first_chunk().copied()).map(u16::from_be_bytes);
        let store = value.first_chunk().copied().map(u64::from_le_bytes);
        if let (Some(node), Some(store)) = (node, store) {
            claims.insert(NodeId(node), StoreId(store));
        }
        true
    })?;
    Ok(claims)
}

impl Register {
    /// Reads what the database says, and compares it with what the node was told.
    pub(super) fn open(db: &Db, options: &ClusterOptions) -> Result<Register> {
        let (urls, self_url) = checked_urls(options)?;
        let list = urls.join(",");
        let members: Vec<(String, String)> = urls.iter().map(|url| (url.clone(), String::new())).collect();
        let mut founded = Topology::founded(&members, 0, 0, options.replicas.min(members.len() as u8));
        founded.seed = mix(founded.cluster ^ options.credentials.secret.as_deref().map_or(0, xxh3_64));
        let seed = EngineStore::stored_seed(db)?.unwrap_or(founded.seed);
        let store = EngineStore::open(db, seed)?;
        founded.seed = seed;
        let founders: BTreeSet<NodeId> = founded.members.keys().copied().collect();
        let mut claims = BTreeMap::new();
        let (mut marks, mut mark) = (BTreeMap::new(), 0);
        let (own, topology, store_id, standing) = store.turn_and_sync(|turn| {
            (mark, marks) = store_marks::read(turn)?;
            claims = stored_claims(turn)?;
            if let Some(identity) = Identity::read(turn)? {
                check_identity(&identity, &founded, &self_url, (&list, options.joins), options.replicas)?;
                if turn.get(Table::Facts, WENT_BACK)?.is_some() {
                    return Err(invalid(WENT_BACK_TEXT.to_owned()));
                }
                return Ok((identity.node, identity.topology, identity.store, Standing::Begun));
            }
            let own = founded.members.iter().find(|(_, member)| member.url == self_url).map(|(node, _)| *node);
            let own = own.ok_or_else(|| invalid(format!("{self_url} has no place in {list}")))?;
            let drawn = turn.get(Table::Facts, DRAWN)?.and_then(|bytes| bytes.first_chunk().copied());
            let store_id = drawn.map_or_else(new_store, |drawn| StoreId(u64::from_le_bytes(drawn)));
            turn.put(Table::Facts, DRAWN, &store_id.0.to_le_bytes())?;
            Ok((own, founded, store_id, Standing::New))
        })?;
        let routing = Routing::new(topology);
        let (noted_by, fresh, erased) = Default::default();
        let has_gone_back = false;
        let state = Mutex::new(RegisterState {
            own,
            routing,
            store_id,
            standing,
            claims,
            noted_by,
            fresh,
            erased,
            mark,
            marks,
            has_gone_back,
        });
        let (credentials, limits) = (options.credentials.clone(), options.limits.clone());
        Ok(Register { store, limits, self_url, list, founders, credentials, state, beginning: Mutex::new(()) })
    }

    /// Makes an empty database that of a node that has joined.
    pub(super) fn found(db: &Db, identity: &Identity) -> Result<()> {
        let store = EngineStore::open(db, identity.topology.seed)?;
        store.turn_and_sync(|turn| identity.found_without_rows(turn))
    }

    /// Whether a database is that of a node which has its place.
    pub(super) fn has_place(db: &Db) -> Result<bool> {
        let Some(seed) = EngineStore::stored_seed(db)? else { return Ok(false) };
        let (identity, _) = EngineStore::open(db, seed)?.turn(|turn| Identity::read(turn))?;
        Ok(identity.is_some())
    }

    fn state(&self) -> MutexGuard<'_, RegisterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &EngineStore {
        &self.store
    }

    pub(super) fn self_url(&self) -> &str {
        &self.self_url
    }

    pub(super) fn own(&self) -> NodeId {
        self.state().own
    }

    pub(super) fn store_id(&self) -> StoreId {
        self.state().store_id
    }

    /// How this node takes part in the log.
    pub(super) fn log_role(&self) -> Result<LogRole> {
        let has = |name: &[u8]| self.store.table(Table::Facts).contains(name);
        Ok(match (has(LOG_LOST)?, has(FOUNDER)?) {
            (true, _) => LogRole::None,
            (false, true) => LogRole::Founder(self.founders.clone()),
            (false, false) => LogRole::Member,
        })
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    pub(super) fn secret(&self) -> Option<&[u8]> {
        self.credentials.secret.as_deref()
    }

    pub(super) fn routing(&self) -> Routing {
        self.state().routing.clone()
    }

    pub(super) fn standing(&self) -> Standing {
        self.state().standing
    }

    /// The other members and their addresses. A node that was declared dead is not among them.
    pub(super) fn peers(&self) -> Vec<(NodeId, String)> {
        let (routing, own) = {
            let state = self.state();
            (state.routing.clone(), state.own)
        };
        let members = routing.topology().members.iter();
        members
            .filter(|(node, member)| **node != own && !member.is_dead)
            .map(|(node, member)| (*node, member.url.clone()))
            .collect()
    }

    /// How many those are.
    pub(super) fn peer_count(&self) -> usize {
        let state = self.state();
        let members = &state.routing.topology().members;
        members.iter().filter(|(node, member)| **node != state.own && !member.is_dead).count()
    }

    /// The address of a member.
    pub(super) fn url_of(&self, node: NodeId) -> String {
        let routing = self.routing();
        routing.topology().members.get(&node).map_or_else(|| node.to_string(), |member| member.url.clone())
    }

    /// How this node greets: whether its store is new, and the greeting.
    pub(super) fn hello(&self) -> (bool, Vec<u8>) {
        let state = self.state();
        let topology = state.routing.topology();
        let hello = Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: topology.cluster,
            node: state.own,
            store: state.store_id.0,
            mark: state.mark,
            applied: topology.applied,
            settings: topology.settings(),
            list: &self.list,
        };
        (state.standing != Standing::Begun, hello.encode())
    }

    /// A peer knows this node's id under another store, or in a later epoch: it must not begin as a new one.
    pub(super) fn is_not_new(&self) {
        let mut state = self.state();
        if state.standing == Standing::New {
            state.standing = Standing::Returning;
        }
    }

    /// Takes the place in the cluster that the log has given to this store. It has no rows yet. Returns `false` if it
    /// has its place already.
    pub(super) fn become_member(&self, node: NodeId, topology: Topology) -> Result<bool> {
        let _beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match self.state() {
            state if state.standing == Standing::Begun => return Ok(false),
            state => state.store_id,
        };
        let identity = Identity { node, store, topology };
        self.store.turn_and_sync(|turn| {
            identity.found_without_rows(turn)?;
            turn.remove(Table::Facts, DRAWN)
        })?;
        let mut state = self.state();
        (state.own, state.standing) = (node, Standing::Begun);
        state.routing = Routing::new(identity.topology);
        Ok(true)
    }

    /// Notes the store with which a peer has greeted, durably.
    pub(super) fn note(&self, node: NodeId, store: StoreId) -> Result<()> {
        // Not under the lock of the state: the turn waits for that of the node.
        self.store.turn_and_sync(|turn| turn.put(Table::Facts, &claim_key(node), &store.0.to_le_bytes()))?;
        self.state().claims.insert(node, store);
        Ok(())
    }

    /// Notes what a peer says of the store of another, if nothing is known of it here: neither from that node nor from
    /// the log. What the peer says may be older.
    fn note_hearsay(&self, node: NodeId, store: StoreId) -> Result<()> {
        let is_known = |state: &RegisterState| {
            let member = state.routing.topology().members.get(&node);
            state.claims.contains_key(&node) || member.is_some_and(|member| member.store != StoreId(0))
        };
        if is_known(&self.state()) {
            return Ok(());
        }
        let key = claim_key(node);
        // The node may greet meanwhile: then its own word is in the table, or comes there after this.
        let noted = self.store.turn_and_sync(|turn| match turn.get(Table::Facts, &key)? {
            Some(_) => Ok(false),
            None => turn.put(Table::Facts, &key, &store.0.to_le_bytes()).map(|()| true),
        })?;
        if noted {
            self.state().claims.entry(node).or_insert(store);
        }
        Ok(())
    }

    /// What is to be proposed so that the log knows the stores of peers that have returned under their ids: those that
    /// run with another store than it says.
    pub(super) fn returned(&self) -> Vec<Entry> {
        let state = self.state();
        let members = state.routing.topology().members.iter().filter(|(_, member)| !member.is_dead);
        let claim = |(node, member): (&NodeId, &Member)| {
            let (claimed, known) = (*state.claims.get(node)?, state.marks.get(node)?);
            let (store, instead_of) = (claimed, member.store);
            // Only a node that runs tells its mark. One that still waits for its place may get another id.
            let has_returned = instead_of != StoreId(0) && claimed != instead_of && known.store == claimed;
            has_returned.then_some(Entry::Claim { node: *node, store, instead_of })
        };
        members.filter_map(claim).collect()
    }

    /// The limits that the node was started with.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The stores of all members that are known here, for a peer.
    pub(super) fn claims(&self) -> Vec<(NodeId, StoreId)> {
        self.state().claims.iter().map(|(node, store)| (*node, *store)).collect()
    }

    /// A peer has admitted this node, and says which stores it knows.
    pub(super) fn admitted_by(&self, node: NodeId, was_known: bool, claims: &[(NodeId, StoreId)]) -> Result<()> {
        let own = {
            let mut state = self.state();
            state.noted_by.insert(node);
            let claimed = claims.iter().find(|(node, _)| *node == state.own).map(|(_, store)| *store);
            let is_other = claimed.is_some_and(|store| store != state.store_id);
            if state.standing == Standing::New && (was_known || is_other) {
                state.standing = Standing::Returning;
            }
            state.own
        };
        let mut of_others = claims.iter().filter(|(node, _)| *node != own);
        of_others.try_for_each(|(node, store)| self.note_hearsay(*node, *store))
    }

    /// Begins, if it is time to. Returns what the node waits for, if not.
    pub(super) fn begin(&self) -> Result<Option<String>> {
        let _beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, standing, survivors) = {
            let state = self.state();
            let members = state.routing.topology().members.len();
            let noted = state.noted_by.len() + 1;
            let missing = || {
                let peers = state.routing.topology().members.iter();
                let missing = peers.filter(|(node, _)| **node != state.own && !state.noted_by.contains(node));
                missing.map(|(_, member)| member.url.as_str()).collect::<Vec<_>>().join(", ")
            };
            match state.standing {
                Standing::Begun => return Ok(None),
                Standing::New if noted <= members / 2 => {
                    let text = format!(
                        "this node is new, and {noted} of {members} nodes know it: it begins when more than half do; \
                         missing are {}",
                        missing()
                    );
                    return Ok(Some(text));
                }
                Standing::Returning if noted < members => {
                    let text = format!(
                        "the data directory of this node was lost or replaced: it gets a new id when more than half of \
                         the nodes agree, or copies everything when it has met all others; missing are {}",
                        missing()
                    );
                    return Ok(Some(text));
                }
                Standing::New | Standing::Returning => {}
            }
            let (topology, store) = (state.routing.topology().clone(), state.store_id);
            let survivors = members - 1 - state.fresh.len().min(members - 1);
            (Identity { node: state.own, store, topology }, state.standing, survivors)
        };
        self.store.turn_and_sync(|turn| {
            match standing {
                Standing::Returning => {
                    identity.found_without_rows(turn)?;
                    if survivors > 1 {
                        turn.put(Table::Facts, LOG_LOST, b"")?;
                    }
                }
                _ => {
                    identity.found(turn, &self.limits)?;
                    turn.put(Table::Facts, FOUNDER, b"")?;
                }
            }
            turn.remove(Table::Facts, DRAWN)
        })?;
        self.state().standing = Standing::Begun;
        Ok(None)
    }

    /// The topology that the node has come to.
    pub(super) fn follow(&self, routing: &Routing) {
        let mut state = self.state();
        if state.routing.topology().applied < routing.topology().applied {
            state.routing = routing.clone();
        }
    }
}

/// An id for a data directory. 0 means none.
pub(super) fn new_store() -> StoreId {
    StoreId(rand::random::<u64>() | 1)
}

fn check_identity(
    identity: &Identity,
    founded: &Topology,
    self_url: &str,
    (list, joins): (&str, bool),
    replicas: u8,
) -> Result<()> {
    let topology = &identity.topology;
    if replicas != 0 && replicas != topology.replicas {
        return Err(other_replicas(replicas, topology));
    }
    let mut stored: Vec<&str> = topology.members.values().map(|member| member.url.as_str()).collect();
    stored.sort_unstable();
    stored.dedup();
    let stored = stored.join(",");
    // The list of today is as good as the first one.
    if topology.cluster != founded.cluster && !joins && stored != list {
        let text = format!(
            "the data directory is of a cluster of {stored}, and this node was told {list}: give it the list that it was \
             founded with, or another directory",
        );
        return Err(invalid(text));
    }
    match topology.members.get(&identity.node) {
        Some(member) if member.url == self_url => Ok(()),
        Some(member) => Err(invalid(format!(
            "the data directory belongs to the node {}, and this one is {self_url}: give each node its own directory",
            member.url
        ))),
        None => {
            Err(invalid("the node of this data directory is not a member any more; give a new directory".to_owned()))
        }
    }
}

/// What is said where a node was told another number of replicas than its cluster has.
pub(super) fn other_replicas(told: u8, topology: &Topology) -> Error {
    invalid(format!(
        "`--replicas` is {told}, and the cluster was formed with {}, for good: give that number, or none",
        topology.replicas
    ))
}

#[cfg(test)]
mod tests;
