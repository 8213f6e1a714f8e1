//! Which node has which data directory, and when a new node may begin.
//!
//! A node draws an id for its data directory, its *store*, once. Peers note it, durably, when they greet it: from then
//! on they know the node by this store only. So a node whose directory was erased is recognized, and does not answer
//! "absent" for what it has lost.
//!
//! Invariants:
//! 1. A new node begins when more than half of the list has noted its store, itself counted, and nobody knows another
//!    one for its id.
//! 2. A node whose id is known under another store, and whose own is new, *returns*: it begins when **all** other
//!    members have noted the new store and have forgotten what the old one had confirmed (the fence), and then has
//!    nothing: it answers no reads before it has copied from all of them.
//! 3. A store that belonged to a node before it returned under another is refused for good.
//! 4. What is noted is durable before the peer is told.
//!
//! Weakness: a claim that only nodes know which are down is not known. An erased node that meets only such peers as
//! have never heard of it begins as a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quipu::{Db, Durability, Error, ErrorKind, Result};
use quipu_cluster::admission::{Refused, admit};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::ids::NodeId;
use quipu_cluster::limits::Limits;
use quipu_cluster::node::{Identity, Node};
use quipu_cluster::protocol::VERSIONS;
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::random::mix;
use quipu_cluster::routing::Routing;
use quipu_cluster::tables::{Table, Tables};
use quipu_cluster::topology::{StoreId, Topology};
use xxhash_rust::xxh3::xxh3_64;

use super::address;
use super::host::ClusterOptions;

/// The name of the fact with the store that was drawn and not yet used.
const DRAWN: &[u8] = b"drawn store";
/// Before the node in the names of facts with the stores of peers.
const CLAIM: &[u8] = b"claim ";

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its store is new, and not yet noted by enough.
    New,
    /// Its id is known under another store: it has lost its directory.
    Returning,
    /// It has begun.
    Begun,
}

struct State {
    routing: Routing,
    store_id: StoreId,
    standing: Standing,
    /// The stores of others.
    claims: BTreeMap<NodeId, StoreId>,
    /// Who has noted this node's store.
    noted_by: BTreeSet<NodeId>,
}

/// What a node knows of who is who. Shared by the threads that greet and the one that drives the node.
pub(super) struct Register {
    store: EngineStore,
    limits: Limits,
    self_url: String,
    own: NodeId,
    list: String,
    secret: Option<Vec<u8>>,
    state: Mutex<State>,
}

/// A peer that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) node: NodeId,
    /// It came with a new store in the place of one that was known: what the old one confirmed must be forgotten.
    pub(super) is_replaced: bool,
    /// Its store is not noted yet.
    pub(super) store: Option<StoreId>,
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::Invalid, text)
}

impl Register {
    /// Reads what the database says, and compares it with what the node was told.
    pub(super) fn open(db: &Db, options: &ClusterOptions) -> Result<Register> {
        let mut urls: Vec<String> = options
            .urls
            .iter()
            .map(|url| address::normal(url))
            .collect::<std::result::Result<_, _>>()
            .map_err(invalid)?;
        urls.sort_unstable();
        let given = urls.len();
        urls.dedup();
        let self_url = address::normal(&options.self_url).map_err(invalid)?;
        let list = urls.join(",");
        if given == 0 || urls.len() < given {
            return Err(invalid("a cluster needs a node, and each of its nodes named once".to_owned()));
        }
        if !urls.contains(&self_url) {
            return Err(invalid(format!("`--self-url` {self_url} is not in the list of the cluster: {list}")));
        }
        let members: Vec<(String, String)> = urls.iter().map(|url| (url.clone(), String::new())).collect();
        if usize::from(options.replicas) > members.len() {
            let text = format!("`--replicas` is {}, and the list has {} nodes", options.replicas, members.len());
            return Err(invalid(text));
        }
        let mut founded = Topology::founded(&members, 0, 0, options.replicas);
        founded.seed = mix(founded.cluster ^ options.secret.as_deref().map_or(0, xxh3_64));
        let seed = EngineStore::stored_seed(db)?.unwrap_or(founded.seed);
        let store = EngineStore::open(db, seed)?;
        founded.seed = seed;
        let own = founded.members.iter().find(|(_, member)| member.url == self_url).map(|(node, _)| *node);
        let own = own.ok_or_else(|| invalid(format!("{self_url} has no place in {list}")))?;
        let mut turn = store.turn()?;
        let identity = Node::identity(&turn)?;
        let (topology, store_id, standing) = match identity {
            Some(identity) => {
                check_identity(&identity, &founded, &self_url, &list)?;
                (identity.topology, identity.store, Standing::Begun)
            }
            None => {
                let drawn = turn.get(Table::Facts, DRAWN)?.and_then(|bytes| bytes.first_chunk().copied());
                let store_id = drawn.map_or_else(|| rand::random::<u64>() | 1, u64::from_le_bytes);
                turn.put(Table::Facts, DRAWN, &store_id.to_le_bytes())?;
                (founded, StoreId(store_id), Standing::New)
            }
        };
        let mut claims = BTreeMap::new();
        turn.scan(Table::Facts, CLAIM, b"claim!", usize::MAX, |key, value| {
            let node = key.get(CLAIM.len()..).and_then(|rest| rest.first_chunk().copied()).map(u16::from_be_bytes);
            let store = value.first_chunk().copied().map(u64::from_le_bytes);
            if let (Some(node), Some(store)) = (node, store) {
                claims.insert(NodeId(node), StoreId(store));
            }
            true
        })?;
        turn.commit()?.wait(Durability::Sync)?;
        let routing = Routing::new(topology);
        let state = State { routing, store_id, standing, claims, noted_by: BTreeSet::new() };
        let (secret, limits) = (options.secret.clone(), options.limits.clone());
        Ok(Register { store, limits, self_url, own, list, secret, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &EngineStore {
        &self.store
    }

    pub(super) fn self_url(&self) -> &str {
        &self.self_url
    }

    pub(super) fn own(&self) -> NodeId {
        self.own
    }

    pub(super) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    pub(super) fn secret(&self) -> Option<&[u8]> {
        self.secret.as_deref()
    }

    pub(super) fn routing(&self) -> Routing {
        self.state().routing.clone()
    }

    pub(super) fn standing(&self) -> Standing {
        self.state().standing
    }

    /// How many members there are.
    pub(super) fn members(&self) -> usize {
        self.state().routing.topology().members.len()
    }

    /// The other members and their addresses.
    pub(super) fn peers(&self) -> Vec<(NodeId, String)> {
        let routing = self.routing();
        let members = routing.topology().members.iter();
        members.filter(|(node, _)| **node != self.own).map(|(node, member)| (*node, member.url.clone())).collect()
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
            node: self.own,
            store: state.store_id.0,
            applied: topology.applied,
            list: &self.list,
        };
        (state.standing != Standing::Begun, hello.encode())
    }

    /// Decides about a peer.
    ///
    /// # Errors
    /// Why it is refused, to be told to it and to whoever runs this node.
    pub(super) fn admit(&self, hello: &Hello<'_>, is_new: bool) -> std::result::Result<Admitted, String> {
        if hello.node == self.own && hello.cluster == self.routing().topology().cluster {
            return Err(format!("it says that it is {} too, as this node is", self.self_url));
        }
        let state = self.state();
        let mut topology = state.routing.topology().clone();
        for (node, store) in &state.claims {
            if let Some(member) = topology.members.get_mut(node) {
                member.store = *store;
            }
        }
        let store = Some(StoreId(hello.store));
        let admitted = |store, is_replaced| Admitted { node: hello.node, is_replaced, store };
        match admit(&topology, hello) {
            Ok((_, true)) => Ok(admitted(store, false)),
            Ok((_, false)) => Ok(admitted(None, false)),
            Err(Refused::OtherStore) if is_new => Ok(admitted(store, true)),
            Err(refused) => Err(refused.to_string()),
        }
    }

    /// Notes the store of a peer, durably.
    pub(super) fn note(&self, node: NodeId, store: StoreId) -> Result<()> {
        // Not under the lock of the state: the turn waits for that of the node.
        let mut turn = self.store.turn()?;
        turn.put(Table::Facts, &[CLAIM, &node.0.to_be_bytes()].concat(), &store.0.to_le_bytes())?;
        turn.commit()?.wait(Durability::Sync)?;
        self.state().claims.insert(node, store);
        Ok(())
    }

    /// The stores of all members that are known here, to be told to a peer.
    pub(super) fn claims(&self) -> Vec<(NodeId, StoreId)> {
        self.state().claims.iter().map(|(node, store)| (*node, *store)).collect()
    }

    /// A peer has admitted this node, and says which stores it knows.
    pub(super) fn admitted_by(&self, node: NodeId, was_known: bool, claims: &[(NodeId, StoreId)]) -> Result<()> {
        let news: Vec<(NodeId, StoreId)> = {
            let mut state = self.state();
            state.noted_by.insert(node);
            let own = claims.iter().find(|(node, _)| *node == self.own).map(|(_, store)| *store);
            let is_other = own.is_some_and(|store| store != state.store_id);
            if state.standing == Standing::New && (was_known || is_other) {
                state.standing = Standing::Returning;
            }
            let is_news = |(node, _): &&(NodeId, StoreId)| *node != self.own && !state.claims.contains_key(node);
            claims.iter().filter(is_news).copied().collect()
        };
        news.into_iter().try_for_each(|(node, store)| self.note(node, store))
    }

    /// Begins, if it is time to. Returns what the node waits for, if not.
    pub(super) fn begin(&self) -> Result<Option<String>> {
        let (identity, standing) = {
            let state = self.state();
            let members = state.routing.topology().members.len();
            let noted = state.noted_by.len() + 1;
            let missing = || {
                let peers = state.routing.topology().members.iter();
                let missing = peers.filter(|(node, _)| **node != self.own && !state.noted_by.contains(node));
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
                        "the data directory of this node was lost or replaced: it copies everything again when it has \
                         met all others; missing are {}",
                        missing()
                    );
                    return Ok(Some(text));
                }
                Standing::New | Standing::Returning => {}
            }
            let (topology, store) = (state.routing.topology().clone(), state.store_id);
            (Identity { node: self.own, store, topology }, state.standing)
        };
        let mut turn = self.store.turn()?;
        match standing {
            Standing::Returning => Node::found_without_rows(&mut turn, &identity)?,
            _ => Node::found(&mut turn, &identity, &self.limits)?,
        }
        turn.remove(Table::Facts, DRAWN)?;
        turn.commit()?.wait(Durability::Sync)?;
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

fn check_identity(identity: &Identity, founded: &Topology, self_url: &str, list: &str) -> Result<()> {
    let topology = &identity.topology;
    let stored: Vec<&str> = topology.members.values().map(|member| member.url.as_str()).collect();
    if topology.cluster != founded.cluster {
        let text = format!(
            "the data directory is of a cluster of {}, and this node was told {list}: give it the list that it was \
             founded with, or another directory",
            stored.join(",")
        );
        return Err(invalid(text));
    }
    match topology.members.get(&identity.node) {
        Some(member) if member.url == self_url => Ok(()),
        Some(member) => Err(invalid(format!(
            "the data directory belongs to the node {}, and this one is {self_url}: give each node its own directory",
            member.url
        ))),
        None => Err(invalid("the node of this data directory is no member any more; give a new directory".to_owned())),
    }
}
