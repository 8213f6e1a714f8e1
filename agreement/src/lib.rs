//! The log of the topology: Raft (openraft) among the nodes of the cluster. It is a crate of its own because openraft
//! is half a minute of compiling that only nodes of a cluster need; the server alone uses it.
//!
//! One thread with a runtime of its own. It needs little: an entry is a change of members or a node's word that it is
//! ready, and a heartbeat goes out four times a second. Requests for entities never wait for it.
//!
//! | module | |
//! |---|---|
//! | `types` | what Raft is used with, and bytes of it |
//! | `storage` | its log, in the node's tables |
//! | `machine` | what the log says: the topology |
//! | `wire` | its messages, over the connections of nodes |
//!
//! Invariants:
//! 1. Raft's members follow the topology's: its leader makes learners of members that have come, voters of up to
//!    [`VOTERS_MAX`] living ones that stay and have caught up, and drops who is gone or dead. A change of members is
//!    told as done only when that is ([`LogReport::is_agreed`]): then who has left may be stopped.
//! 2. The id of a node belongs to one store: a store that was lost never votes again (the server's register of stores).
//!
//! Not here: what an entry means ([`quipu_cluster::topology`]), who proposes which.

#![forbid(unsafe_code)]

mod machine;
mod storage;
mod types;
mod wire;

/// Messages of other nodes, for a fuzz target and tests. It is not a stable interface.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    pub use crate::wire::{examine_message, sample_messages};
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openraft::{ChangeMembers, Config, EmptyNode, RaftMetrics, SnapshotPolicy};
use quipu::{Error, ErrorKind, Result};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::ids::NodeId;
use quipu_cluster::topology::{Entry, Topology};
use tokio::sync::mpsc;

use machine::Machine;
use storage::LogStore;
use types::{Raft, node_of, raft_id};
use wire::Wire;

/// How many nodes vote at most.
pub const VOTERS_MAX: usize = 7;
/// Entries that a node may lack and still become a voter.
const LAG_MAX: u64 = 50;
/// How often the leader compares Raft's members with the topology's.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How long a change of Raft's members may take before it is tried again.
const CHANGE_MAX: Duration = Duration::from_secs(3);
const HEARTBEAT_MS: u64 = 250;
const ELECTION_MS: (u64, u64) = (1000, 2000);
/// Entries after which the log is shortened, and how many stay.
const SNAPSHOT_AFTER: u64 = 500;
const KEPT_ENTRIES: u64 = 100;

/// How the log stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Who leads it, as far as this node knows.
    pub leader: Option<NodeId>,
    /// The term of the leader.
    pub term: u64,
    /// Who votes.
    pub voters: Vec<NodeId>,
    /// Whether those are who should.
    pub is_agreed: bool,
    /// Why the log has ended, if it has.
    pub trouble: Option<String>,
}

/// What the log needs of the rest of the node.
pub struct Outlets {
    /// Hands a message to the connection to a node.
    pub send: Arc<dyn Fn(NodeId, Vec<u8>) + Send + Sync>,
    /// Gets each topology that was agreed.
    pub tell: Box<dyn Fn(Topology) + Send + Sync>,
}

enum Order {
    Propose(Vec<u8>),
    Receive(NodeId, Vec<u8>),
}

/// The log of a running node. Ends when it is dropped.
pub struct Agreement {
    orders: Option<mpsc::UnboundedSender<Order>>,
    report: Arc<Mutex<LogReport>>,
    thread: Option<JoinHandle<()>>,
}

impl Agreement {
    /// Starts the log of a node. `founders` are those who vote at first, if this node is one of them.
    ///
    /// # Errors
    /// Those of the database; [`ErrorKind::Io`] if there can be no thread.
    pub fn start(
        store: &EngineStore,
        own: NodeId,
        known: Topology,
        founders: Option<BTreeSet<NodeId>>,
        outlets: Outlets,
    ) -> Result<Agreement> {
        let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot start the log: {error}"));
        let log = LogStore::new(store.clone());
        let machine = Machine::new(log.clone(), known, outlets.tell)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(io)?;
        let (sender, orders) = mpsc::unbounded_channel();
        let report = Arc::new(Mutex::new(LogReport::default()));
        let reporter = report.clone();
        let wire = Wire::new(outlets.send);
        let work = move || {
            if let Err(error) = runtime.block_on(run(own, (log, machine, wire), founders, orders, &reporter)) {
                reporter.lock().unwrap_or_else(PoisonError::into_inner).trouble = Some(error);
            }
        };
        let thread = std::thread::Builder::new().name("topology-log".to_owned()).spawn(work).map_err(io)?;
        Ok(Agreement { orders: Some(sender), report, thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // If the log has failed, its report says so.
            let _ = orders.send(order);
        }
    }

    /// Asks for an entry to be appended. It may be lost, and may be appended twice.
    pub fn propose(&self, entry: &Entry) {
        self.order(Order::Propose(entry.encode()));
    }

    /// Takes a message of a peer.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) {
        self.order(Order::Receive(from, bytes.to_vec()));
    }

    /// Whether the log has stopped by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How the log stands.
    pub fn report(&self) -> LogReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}

async fn run(
    own: NodeId,
    (log, machine, wire): (LogStore, Machine, Wire),
    founders: Option<BTreeSet<NodeId>>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    report: &Mutex<LogReport>,
) -> std::result::Result<(), String> {
    let config = Config {
        cluster_name: "quipu".to_owned(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS.0,
        election_timeout_max: ELECTION_MS.1,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_AFTER),
        max_in_snapshot_log_to_keep: KEPT_ENTRIES,
        ..Config::default()
    };
    let config = Arc::new(config.validate().map_err(|error| error.to_string())?);
    let raft = Raft::new(raft_id(own), config, wire.clone(), log, machine.clone());
    let raft = raft.await.map_err(|error| error.to_string())?;
    if let Some(founders) = founders {
        let voters: BTreeMap<u64, EmptyNode> =
            founders.into_iter().take(VOTERS_MAX).map(|node| (raft_id(node), EmptyNode::new())).collect();
        if voters.contains_key(&raft_id(own)) {
            // Each founder says the same; who has a log already refuses.
            let _ = raft.initialize(voters).await;
        }
    }
    let mut metrics = raft.metrics();
    let mut often = tokio::time::interval(FOLLOW_EVERY);
    often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut following = None;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Propose(entry)) => {
                    let leader = metrics.borrow().current_leader.map(node_of);
                    match leader {
                        Some(leader) if leader == own => append(&raft, entry),
                        Some(leader) => wire.propose(leader, &entry),
                        None => {}
                    }
                }
                Some(Order::Receive(from, bytes)) => wire.receive(&raft, from, &bytes),
                None => {
                    // It ends anyway.
                    let _ = raft.shutdown().await;
                    return Ok(());
                }
            },
            changed = metrics.changed() => {
                if changed.is_err() {
                    return Err("the log of the topology has ended".to_owned());
                }
                let now = metrics.borrow_and_update().clone();
                now.running_state.as_ref().map_err(|error| format!("the log of the topology has failed: {error}"))?;
                *report.lock().unwrap_or_else(PoisonError::into_inner) = describe(&now, &machine.topology());
            },
            _ = often.tick() => {
                let is_free = following.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
                let (now, topology) = (metrics.borrow().clone(), machine.topology());
                *report.lock().unwrap_or_else(PoisonError::into_inner) = describe(&now, &topology);
                if is_free && now.current_leader == Some(raft_id(own)) {
                    let step = next_step(&now, raft_id(own), &topology);
                    following = step.map(|(change, retain)| {
                        let raft = raft.clone();
                        // If it fails or takes too long, it is tried again.
                        tokio::spawn(async move {
                            drop(tokio::time::timeout(CHANGE_MAX, raft.change_membership(change, retain)).await);
                        })
                    });
                }
            },
        }
    }
}

/// Has the leader append an entry, if it is heard by more than half of the voters: else the entry would be agreed on
/// long after it was meant. It is proposed again until it has an effect.
fn append(raft: &Raft, entry: Vec<u8>) {
    let metrics = raft.metrics();
    let is_heard = {
        let metrics = metrics.borrow();
        let is_alone = metrics.membership_config.membership().voter_ids().count() == 1;
        is_alone || metrics.millis_since_quorum_ack.is_some_and(|ms| ms < ELECTION_MS.0)
    };
    if is_heard {
        let raft = raft.clone();
        tokio::spawn(async move { drop(raft.client_write(entry).await) });
    }
}

/// Members that may vote, in Raft's ids: the living that stay.
fn electorate(topology: &Topology) -> BTreeSet<u64> {
    let stay = topology.change.as_ref().map_or(&topology.placed, |change| &change.goal);
    topology.living().filter(|node| stay.contains(node)).map(raft_id).collect()
}

fn describe(metrics: &RaftMetrics<u64, EmptyNode>, topology: &Topology) -> LogReport {
    let membership = metrics.membership_config.membership();
    let (voters, electorate): (BTreeSet<u64>, _) = (membership.voter_ids().collect(), electorate(topology));
    LogReport {
        leader: metrics.current_leader.map(node_of),
        term: metrics.current_term,
        // What is not agreed on may be lost with its leader, and those who leave voted before it.
        is_agreed: metrics.membership_config.log_id() <= &metrics.last_applied
            && membership.get_joint_config().len() == 1
            && voters.is_subset(&electorate)
            && voters.len() == electorate.len().min(VOTERS_MAX),
        voters: voters.into_iter().map(node_of).collect(),
        trouble: None,
    }
}

/// The next change that makes Raft's members those of the topology; whether who no longer votes stays a learner.
fn next_step(
    metrics: &RaftMetrics<u64, EmptyNode>,
    own: u64,
    topology: &Topology,
) -> Option<(ChangeMembers<u64, EmptyNode>, bool)> {
    let membership = metrics.membership_config.membership();
    let living: BTreeSet<u64> = topology.living().map(raft_id).collect();
    let nodes: BTreeSet<u64> = membership.nodes().map(|(node, _)| *node).collect();
    let all_voters: BTreeSet<u64> = membership.voter_ids().collect();
    // While one configuration passes into the next both vote: what is to come is the last of them.
    let configurations = membership.get_joint_config();
    let is_joint = configurations.len() > 1;
    let voters = configurations.last().unwrap_or(&all_voters);
    let come: BTreeMap<u64, EmptyNode> = living.difference(&nodes).map(|node| (*node, EmptyNode::new())).collect();
    if !come.is_empty() {
        return Some((ChangeMembers::AddNodes(come), true));
    }
    let last = metrics.last_log_index.unwrap_or(0);
    let has_caught_up = |node: &u64| {
        let matched = metrics.replication.as_ref().and_then(|peers| peers.get(node).copied().flatten());
        *node == own || matched.is_some_and(|matched| matched.index + LAG_MAX >= last)
    };
    let electorate = electorate(topology);
    let mut wanted: BTreeSet<u64> = voters.intersection(&electorate).copied().take(VOTERS_MAX).collect();
    for node in electorate.iter().filter(|node| has_caught_up(node)) {
        if wanted.len() >= VOTERS_MAX {
            break;
        }
        wanted.insert(*node);
    }
    // If most of those who are to vote were down, nothing could be agreed on any more, not even that they are dead. So
    // most of them must have what asks for them: the last entry of the topology, and the last change of members.
    let asked = topology.applied.max(metrics.membership_config.log_id().map_or(0, |id| id.index));
    let has_heard = |node: &&u64| {
        let matched = metrics.replication.as_ref().and_then(|peers| peers.get(*node).copied().flatten());
        **node == own || matched.is_some_and(|matched| matched.index >= asked)
    };
    let is_heard = wanted.iter().filter(has_heard).count() * 2 > wanted.len();
    // A change whose second half was given up leaves both configurations in force: it is asked for again.
    if (is_joint || wanted != *voters) && is_heard {
        return Some((ChangeMembers::ReplaceAllVoters(wanted), true));
    }
    let gone: BTreeSet<u64> = nodes.difference(&living).copied().filter(|node| !all_voters.contains(node)).collect();
    (!gone.is_empty()).then_some((ChangeMembers::RemoveNodes(gone), false))
}

#[cfg(test)]
mod voters_tests;

#[cfg(test)]
mod tests {
    use openraft::{LogId, Membership, StoredMembership};
    use quipu_cluster::topology::{Member, StoreId};

    use super::*;

    fn log_id(index: u64) -> LogId<u64> {
        LogId { index, ..LogId::default() }
    }

    /// What the leader, node 0, knows: the voters, the learners, and how far each has come of 100 entries.
    fn metrics(voters: &[u64], learners: &[u64], matched: &[(u64, u64)]) -> RaftMetrics<u64, EmptyNode> {
        let nodes: BTreeMap<u64, EmptyNode> =
            voters.iter().chain(learners).map(|node| (*node, EmptyNode::new())).collect();
        let membership = Membership::new(vec![voters.iter().copied().collect()], nodes);
        let mut metrics = RaftMetrics::new_initial(0);
        metrics.last_log_index = Some(100);
        metrics.last_applied = Some(log_id(100));
        metrics.membership_config = Arc::new(StoredMembership::new(Some(log_id(1)), membership));
        metrics.replication = Some(matched.iter().map(|(node, index)| (*node, Some(log_id(*index)))).collect());
        metrics
    }

    fn founded(count: u16) -> Topology {
        let members: Vec<_> = (0..count).map(|number| (format!("http://host-{number}:80"), String::new())).collect();
        Topology::founded(&members, 7, 0, 3)
    }

    fn changed(topology: &Topology, add: usize, remove: &[u16], dead: &[u16]) -> Topology {
        let mut changed = topology.clone();
        let member = |number: usize| Member {
            url: format!("http://new-{number}:80"),
            zone: String::new(),
            weight: 100,
            store: StoreId(0),
            is_dead: false,
        };
        let nodes = |numbers: &[u16]| numbers.iter().map(|number| NodeId(*number)).collect();
        let entry = Entry::Change {
            expected: topology.epoch,
            add: (0..add).map(member).collect(),
            remove: nodes(remove),
            dead: nodes(dead),
        };
        assert!(changed.apply(topology.applied + 1, &entry));
        changed
    }

    /// The same while one configuration of voters passes into another.
    fn joint(from: &[u64], to: &[u64], matched: &[(u64, u64)]) -> RaftMetrics<u64, EmptyNode> {
        let nodes: BTreeMap<u64, EmptyNode> = from.iter().chain(to).map(|node| (*node, EmptyNode::new())).collect();
        let configurations = [from, to].map(|voters| voters.iter().copied().collect());
        let mut metrics = metrics(from, to, matched);
        let membership = Membership::new(configurations.into(), nodes);
        metrics.membership_config = Arc::new(StoredMembership::new(Some(log_id(1)), membership));
        metrics
    }

    /// The change of voters was begun, and given up (its time was over, its leader had gone) before its second half:
    /// the voters of both halves together were those wanted, so no node asked for the second one, and the change of
    /// members was told as "voting" for good.
    #[test]
    fn a_change_of_voters_that_stopped_half_way_is_ended() {
        let all = [0, 1, 2, 3].map(|node| (node, 100));
        let set = |nodes: &[u64]| nodes.iter().copied().collect::<BTreeSet<u64>>();
        let ended = |voters: &[u64]| Some((ChangeMembers::ReplaceAllVoters(set(voters)), true));
        let joined = changed(&founded(3), 1, &[], &[]);
        let half = joint(&[0, 1, 2], &[0, 1, 2, 3], &all);
        assert!(!describe(&half, &joined).is_agreed);
        assert_eq!(next_step(&half, 0, &joined), ended(&[0, 1, 2, 3]));
        let left = changed(&founded(4), 0, &[3], &[]);
        assert_eq!(next_step(&joint(&[0, 1, 2, 3], &[0, 1, 2], &all), 0, &left), ended(&[0, 1, 2]));
        // It is meant no longer: all vote again.
        assert_eq!(next_step(&joint(&[0, 1, 2, 3], &[0, 1, 2], &all), 0, &founded(4)), ended(&[0, 1, 2, 3]));
        // Of more than seven that vote in one half or the other, seven go on.
        let nodes: Vec<u64> = (0..8).collect();
        let seven = joint(&nodes[..7], &nodes[1..], &nodes.iter().map(|node| (*node, 100)).collect::<Vec<_>>());
        assert_eq!(next_step(&seven, 0, &founded(8)), ended(&nodes[1..]));
    }

    /// One of three was down, and another one was removed: the two that were left were to vote, of whom one answered.
    /// Nothing could be agreed on any more, not even that the first one was dead, though two of three lived.
    #[test]
    fn voters_do_not_change_while_most_of_the_next_ones_are_down() {
        let set = |nodes: &[u64]| nodes.iter().copied().collect::<BTreeSet<u64>>();
        let mut left = changed(&founded(3), 0, &[1], &[]);
        left.applied = 100;
        let one_is_down = metrics(&[0, 1, 2], &[], &[(1, 100), (2, 99)]);
        assert_eq!(next_step(&one_is_down, 0, &left), None);
        let all_have_it = metrics(&[0, 1, 2], &[], &[(1, 100), (2, 100)]);
        let rest = ChangeMembers::ReplaceAllVoters(set(&[0, 2]));
        assert_eq!(next_step(&all_have_it, 0, &left), Some((rest, true)));
        // The one that stays is dead: the removal is given up, and the two that live vote.
        left.apply(101, &Entry::Dead { node: NodeId(2) });
        assert_eq!(next_step(&one_is_down, 0, &left), None, "one has not heard of it");
        let one_is_dead = metrics(&[0, 1, 2], &[], &[(1, 101), (2, 99)]);
        let two = ChangeMembers::ReplaceAllVoters(set(&[0, 1]));
        assert_eq!(next_step(&one_is_dead, 0, &left), Some((two, true)));
    }

    #[test]
    fn voters_are_those_of_the_topology_once_they_are_agreed_on() {
        let mut told = metrics(&[0, 1, 2], &[], &[]);
        assert!(describe(&told, &founded(3)).is_agreed);
        told.last_applied = Some(log_id(0));
        assert!(!describe(&told, &founded(3)).is_agreed);
    }

    #[test]
    fn raft_follows_the_topology_a_step_at_a_time() {
        let all = |nodes: &[u64]| nodes.iter().map(|node| (*node, 100)).collect::<Vec<_>>();
        let set = |nodes: &[u64]| nodes.iter().copied().collect::<BTreeSet<u64>>();
        let step = |metrics: &RaftMetrics<u64, EmptyNode>, topology: &Topology| next_step(metrics, 0, topology);
        let three = founded(3);
        assert_eq!(step(&metrics(&[0, 1, 2], &[], &all(&[1, 2])), &three), None);
        // One comes: a learner first, a voter when it has caught up.
        let joined = changed(&three, 1, &[], &[]);
        let learner = ChangeMembers::AddNodes([(3, EmptyNode::new())].into());
        assert_eq!(step(&metrics(&[0, 1, 2], &[], &all(&[1, 2])), &joined), Some((learner, true)));
        let behind = [(1, 100), (2, 100), (3, 10)];
        assert_eq!(step(&metrics(&[0, 1, 2], &[3], &behind), &joined), None);
        let voter = ChangeMembers::ReplaceAllVoters(set(&[0, 1, 2, 3]));
        assert_eq!(step(&metrics(&[0, 1, 2], &[3], &all(&[1, 2, 3])), &joined), Some((voter, true)));
        assert!(!describe(&metrics(&[0, 1, 2], &[3], &[]), &joined).is_agreed);
        assert!(describe(&metrics(&[0, 1, 2, 3], &[], &[]), &joined).is_agreed);
        // One leaves: it votes no longer, and learns until it has left.
        let four = founded(4);
        let left = changed(&four, 0, &[3], &[]);
        let rest = ChangeMembers::ReplaceAllVoters(set(&[0, 1, 2]));
        assert_eq!(step(&metrics(&[0, 1, 2, 3], &[], &all(&[1, 2, 3])), &left), Some((rest, true)));
        assert_eq!(step(&metrics(&[0, 1, 2], &[3], &all(&[1, 2, 3])), &left), None);
        // One is dead: it is dropped.
        let dead = changed(&four, 0, &[], &[3]);
        assert_eq!(
            step(&metrics(&[0, 1, 2], &[3], &all(&[1, 2])), &dead),
            Some((ChangeMembers::RemoveNodes(set(&[3])), false))
        );
        // Seven vote, however many there are.
        let many = founded(20);
        let nodes: Vec<u64> = (0..20).collect();
        assert_eq!(step(&metrics(&nodes[..7], &nodes[7..], &all(&nodes)), &many), None);
        assert!(describe(&metrics(&nodes[..7], &nodes[7..], &[]), &many).is_agreed);
        let one_died = metrics(&nodes[..6], &nodes[6..], &all(&nodes[..19]));
        assert_eq!(step(&one_died, &many), Some((ChangeMembers::ReplaceAllVoters(set(&nodes[..7])), true)));
    }
}
