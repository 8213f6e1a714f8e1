//! Goal: the voters of Raft become those that the topology asks for, whatever stops a change of them half way, while a
//! majority lives. Method: a small Raft without clocks (logs, elections, joint configurations) whose leaders take the
//! steps of [`next_step`]; members come, leave, die and are mistyped, leaders change, and calls are given up anywhere.
//! Checked: no agreed entry is lost, and when the faults end the voters are those that the topology has.
//!
//! Not as in openraft 0.9: there a node is not elected once it has the entry that takes its vote, agreed on or not. If
//! it alone has that entry, and the others need its vote, none is elected (two nodes, of which the leader leaves and is
//! killed before it has sent the entry). Here it is elected, as Raft's own rules have it.

use openraft::{LogId, Membership, StoredMembership};
use quipu_cluster::random::SplitMix;
use quipu_cluster::topology::{Member, StoreId};
use quipu_testing::seeds::seeds;

use super::*;

type Members = Membership<u64, EmptyNode>;
type Metrics = RaftMetrics<u64, EmptyNode>;
type Step = fn(&Metrics, u64, &Topology) -> Option<(ChangeMembers<u64, EmptyNode>, bool)>;

/// Nothing ever starts here.
const MISTYPED: &str = "http://hsot:80";

#[derive(Clone)]
enum Item {
    Blank,
    Members(Members),
    Topology(Entry),
}

struct Machine {
    /// Entries with their terms.
    log: Vec<(u64, Item)>,
    agreed: usize,
    topology: Topology,
    is_up: bool,
    /// Its store is gone, it has left, or it was never there.
    is_lost: bool,
}

impl Machine {
    fn new(topology: Topology, is_there: bool) -> Machine {
        Machine { log: Vec::new(), agreed: 0, topology, is_up: is_there, is_lost: !is_there }
    }

    /// The members that are in force here, and the number of their entry.
    fn members(&self) -> Option<(usize, &Members)> {
        self.members_up_to(self.log.len())
    }

    fn members_up_to(&self, end: usize) -> Option<(usize, &Members)> {
        let of = |(place, (_, item)): (usize, &'_ (u64, Item))| matches!(item, Item::Members(_)).then_some(place);
        let place = self.log[..end].iter().enumerate().rev().find_map(of)?;
        let Item::Members(members) = &self.log[place].1 else { return None };
        Some((place + 1, members))
    }

    fn agree(&mut self, end: usize) {
        for place in self.agreed..end {
            if let Item::Topology(entry) = &self.log[place].1 {
                self.topology.apply(place as u64 + 1, entry);
            }
        }
        self.agreed = self.agreed.max(end);
    }

    fn newest(&self) -> (u64, usize) {
        (self.log.last().map_or(0, |(term, _)| *term), self.log.len())
    }
}

fn has_quorum(members: &Members, is_in: impl Fn(u64) -> bool) -> bool {
    members
        .get_joint_config()
        .iter()
        .all(|voters| voters.iter().filter(|node| is_in(**node)).count() * 2 > voters.len())
}

/// Members after a change, as openraft makes them.
fn changed(members: &Members, change: &ChangeMembers<u64, EmptyNode>) -> Members {
    let mut configurations = members.get_joint_config().clone();
    let mut nodes: BTreeMap<u64, EmptyNode> = members.nodes().map(|(node, _)| (*node, EmptyNode::new())).collect();
    match change {
        ChangeMembers::AddNodes(come) => nodes.extend(come.clone()),
        ChangeMembers::RemoveNodes(gone) => nodes.retain(|node, _| !gone.contains(node)),
        ChangeMembers::ReplaceAllVoters(goal) if configurations.contains(goal) => configurations = vec![goal.clone()],
        ChangeMembers::ReplaceAllVoters(goal) => {
            configurations = configurations.last().into_iter().chain([goal]).cloned().collect();
        }
        other => panic!("no step asks for {other:?}"),
    }
    Membership::new(configurations, nodes)
}

struct World {
    random: SplitMix,
    step: Step,
    machines: BTreeMap<u64, Machine>,
    founded: Topology,
    term: u64,
    leader: Option<u64>,
    /// How far each log is like the leader's, as far as the leader has heard.
    matched: BTreeMap<u64, usize>,
    /// The change that the leader has asked Raft for, the entry that it waits for, and whether that is its second half.
    call: Option<(ChangeMembers<u64, EmptyNode>, usize, bool)>,
}

impl World {
    fn new(seed: u64, step: Step) -> World {
        let mut random = SplitMix::new(seed);
        let count = 2 + random.below(7) as u16;
        let list: Vec<_> = (0..count).map(|node| (format!("http://host-{node}:80"), String::new())).collect();
        let founded = Topology::founded(&list, 7, 1, 1);
        let nodes: BTreeMap<u64, EmptyNode> =
            (0..u64::from(count)).take(VOTERS_MAX).map(|node| (node, EmptyNode::new())).collect();
        let first = Item::Members(Membership::new(vec![nodes.keys().copied().collect()], nodes));
        let machine = |node: u64| {
            let mut machine = Machine::new(founded.clone(), true);
            machine.log.push((0, first.clone()));
            machine.agreed = 1;
            (node, machine)
        };
        let machines = (0..u64::from(count)).map(machine).collect();
        World { random, step, machines, founded, term: 0, leader: None, matched: BTreeMap::new(), call: None }
    }

    fn is_up(&self, node: u64) -> bool {
        self.machines.get(&node).is_some_and(|machine| machine.is_up)
    }

    fn elect(&mut self, node: u64) {
        let candidate = &self.machines[&node];
        let votes = |other: u64| self.is_up(other) && self.machines[&other].newest() <= candidate.newest();
        let may_vote = |end: usize| {
            candidate.members_up_to(end).is_some_and(|(_, members)| members.voter_ids().any(|voter| voter == node))
        };
        // As Raft has it: who votes until the entry is agreed on that takes its vote.
        let is_elected = candidate.is_up
            && (may_vote(candidate.log.len()) || may_vote(candidate.agreed))
            && candidate.members().is_some_and(|(_, members)| has_quorum(members, votes));
        if is_elected {
            self.term += 1;
            (self.leader, self.call) = (Some(node), None);
            self.matched.clear();
            self.append(node, Item::Blank);
        }
    }

    fn append(&mut self, leader: u64, item: Item) -> usize {
        let term = self.term;
        let log = &mut self.machines.get_mut(&leader).expect("it leads").log;
        log.push((term, item));
        log.len()
    }

    /// Sends entries to a node, and agrees on what enough have.
    fn replicate(&mut self, leader: u64, node: u64) {
        let (term, from) = (self.term, &self.machines[&leader]);
        let (place, members) = from.members().expect("a leader has members");
        let is_member = members.nodes().any(|(member, _)| *member == node);
        if is_member && node != leader && self.is_up(node) {
            let to = &self.machines[&node];
            let alike = from.log.iter().zip(&to.log).take_while(|(one, other)| one.0 == other.0).count();
            assert!(alike >= to.agreed.min(from.log.len()), "node {node} loses an entry that was agreed on");
            let end = from.log.len().min(alike + 1 + self.random.below(60) as usize);
            let (entries, agreed) = (from.log[alike..end].to_vec(), from.agreed.min(end));
            let to = self.machines.get_mut(&node).expect("it is up");
            if !entries.is_empty() {
                to.log.truncate(alike);
                to.log.extend(entries);
            }
            to.agree(agreed);
            self.matched.insert(node, end);
        }
        let from = &self.machines[&leader];
        let (_, members) = from.members().expect("a leader has members");
        let has = |node: u64, end: usize| node == leader || self.matched.get(&node).is_some_and(|place| *place >= end);
        let is_agreed = |end: &usize| from.log[*end - 1].0 == term && has_quorum(members, |node| has(node, *end));
        if let Some(end) = (from.agreed + 1..=from.log.len()).rev().find(is_agreed) {
            let leaves = end >= place && !members.voter_ids().any(|voter| voter == leader);
            self.machines.get_mut(&leader).expect("it leads").agree(end);
            let topology = &self.machines[&leader].topology;
            let come = topology.members.iter().filter(|(node, _)| !self.machines.contains_key(&raft_id(**node)));
            let come = come.map(|(node, member)| (raft_id(*node), member.url != MISTYPED)).collect::<Vec<_>>();
            for (node, is_there) in come {
                self.machines.insert(node, Machine::new(self.founded.clone(), is_there));
            }
            if leaves {
                self.leader = None;
            }
        }
    }

    fn metrics(&self, leader: u64) -> Metrics {
        let machine = &self.machines[&leader];
        let log_id = |end: usize| LogId { index: end as u64, ..LogId::default() };
        let (place, members) = machine.members().expect("a leader has members");
        let mut metrics = Metrics::new_initial(leader);
        metrics.last_log_index = Some(machine.log.len() as u64);
        metrics.last_applied = Some(log_id(machine.agreed));
        metrics.membership_config = Arc::new(StoredMembership::new(Some(log_id(place)), members.clone()));
        let matched = self.matched.iter().map(|(node, end)| (*node, Some(log_id(*end))));
        metrics.replication = Some(matched.chain([(leader, Some(log_id(machine.log.len())))]).collect());
        metrics
    }

    /// The leader looks whether Raft's members are the topology's, and goes on with the change that it has asked for.
    fn follow(&mut self, leader: u64) {
        let machine = &self.machines[&leader];
        let (place, members) = machine.members().expect("a leader has members");
        let is_agreed = place <= machine.agreed;
        match self.call.take() {
            Some(call) if machine.agreed < call.1 => self.call = Some(call),
            Some((change, _, false)) if members.get_joint_config().len() > 1 => {
                self.ask(leader, is_agreed, change, true);
            }
            Some(_) => {}
            None => {
                let step = (self.step)(&self.metrics(leader), leader, &machine.topology);
                if let Some((change, _)) = step {
                    self.ask(leader, is_agreed, change, false);
                }
            }
        }
    }

    fn ask(&mut self, leader: u64, is_agreed: bool, change: ChangeMembers<u64, EmptyNode>, is_second: bool) {
        // Raft refuses another change before the last one is agreed on.
        if is_agreed {
            let members = changed(self.machines[&leader].members().expect("a leader has members").1, &change);
            let end = self.append(leader, Item::Members(members));
            self.call = Some((change, end, is_second));
        }
    }

    /// Proposes an entry of the topology, if the leader hears enough voters.
    fn propose(&mut self, leader: u64, entry: Entry) {
        let (_, members) = self.machines[&leader].members().expect("a leader has members");
        if has_quorum(members, |node| self.is_up(node)) {
            self.append(leader, Item::Topology(entry));
        }
    }

    /// Nodes say that they know the epoch. Those that have left are stopped when the change is told as done.
    fn say_ready(&mut self, leader: u64) -> bool {
        let topology = self.machines[&leader].topology.clone();
        let knows = |node: &NodeId| {
            let machine = self.machines.get(&raft_id(*node));
            machine.is_some_and(|machine| machine.is_up && machine.topology.epoch == topology.epoch)
        };
        for node in topology.living().filter(|node| !topology.ready.contains(node) && knows(node)).collect::<Vec<_>>() {
            self.propose(leader, Entry::Ready { node, epoch: topology.epoch });
        }
        let is_done = topology.change.is_none() && describe(&self.metrics(leader), &topology).is_agreed;
        if is_done {
            let has_left = |node: u64| !topology.members.contains_key(&node_of(node));
            for (_, machine) in self.machines.iter_mut().filter(|(node, _)| has_left(**node)) {
                (machine.is_up, machine.is_lost) = (false, true);
            }
        }
        is_done
    }

    /// Whether enough would be left, in all configurations that may be in force, without a node.
    /// (Not one that has just confirmed what asks for other voters: no leader can know that it is gone.)
    fn may_lose(&self, lost: u64) -> bool {
        if let Some(leader) = self.leader {
            let machine = &self.machines[&leader];
            let heard = self.matched.get(&lost).copied().unwrap_or(0);
            let is_agreed = describe(&self.metrics(leader), &machine.topology).is_agreed;
            if heard > machine.agreed || heard as u64 >= machine.topology.applied && !is_agreed {
                return false;
            }
        }
        let agreed = self.machines.values().max_by_key(|machine| machine.agreed).expect("there are nodes");
        let least = agreed.members_up_to(agreed.agreed).map_or(0, |(place, _)| place);
        let lives = |node: u64| node != lost && self.machines.get(&node).is_some_and(|machine| !machine.is_lost);
        self.machines.values().filter(|machine| !machine.is_lost).all(|machine| {
            let since = (least..=machine.log.len()).filter_map(|end| machine.members_up_to(end));
            since.filter(|(place, _)| *place >= least).all(|(_, members)| has_quorum(members, lives))
        })
    }

    /// What operators ask for.
    fn operate(&mut self, leader: u64) {
        let topology = self.machines[&leader].topology.clone();
        let expected = topology.epoch;
        let living: Vec<NodeId> = topology.living().collect();
        if living.is_empty() {
            return;
        }
        let any = living[self.random.below(living.len() as u64) as usize];
        let is_lost = |node: &NodeId| self.machines.get(&raft_id(*node)).is_some_and(|machine| machine.is_lost);
        let url =
            if self.random.happens(200) { MISTYPED.to_owned() } else { format!("http://new-{}:80", topology.next_id) };
        let member = Member { url, zone: String::new(), weight: 100, store: StoreId(0), is_dead: false };
        let entry = match self.random.below(6) {
            0 | 1 => Entry::Change { expected, add: vec![member], remove: vec![], dead: vec![] },
            2 if !is_lost(&any) => Entry::Change { expected, add: vec![], remove: vec![any], dead: vec![] },
            3 if !is_lost(&any) => Entry::Change { expected, add: vec![member], remove: vec![any], dead: vec![] },
            4 => Entry::Abort { expected },
            _ => match self.declared_dead(&topology) {
                Some(entry) => entry,
                None => return,
            },
        };
        self.propose(leader, entry);
    }

    fn declared_dead(&self, topology: &Topology) -> Option<Entry> {
        let is_lost = |node: &NodeId| self.machines.get(&raft_id(*node)).is_some_and(|machine| machine.is_lost);
        if topology.change.is_some() {
            return topology.living().find(is_lost).map(|node| Entry::Dead { node });
        }
        let dead: Vec<NodeId> = topology.members.keys().copied().filter(is_lost).collect();
        (!dead.is_empty()).then(|| Entry::Change { expected: topology.epoch, add: vec![], remove: vec![], dead })
    }

    /// Anything.
    fn happen(&mut self) {
        let nodes: Vec<u64> = self.machines.keys().copied().collect();
        let node = nodes[self.random.below(nodes.len() as u64) as usize];
        let what = self.random.below(100);
        let leader = self.leader.filter(|leader| self.is_up(*leader));
        match (what, leader) {
            (0..3, _) => self.machines.get_mut(&node).expect("a node").is_up = false,
            (3..12, _) => {
                let machine = self.machines.get_mut(&node).expect("a node");
                machine.is_up = !machine.is_lost;
            }
            (12, _) if self.may_lose(node) => {
                let machine = self.machines.get_mut(&node).expect("a node");
                (machine.is_up, machine.is_lost) = (false, true);
            }
            (13..15, _) => self.elect(node),
            (15..25, None) => self.elect(node),
            // The time of the call is over: what it has appended goes on, its second half is not asked for.
            (25..28, _) => self.call = None,
            (28..70, Some(leader)) => self.replicate(leader, node),
            (70..85, Some(leader)) => self.follow(leader),
            (85..90, Some(leader)) => self.operate(leader),
            (90.., Some(leader)) => {
                self.say_ready(leader);
            }
            _ => {}
        }
        if self.leader.is_some_and(|leader| !self.is_up(leader)) {
            (self.leader, self.call) = (None, None);
        }
    }

    /// The faults are over: who is not lost is up, and who is lost or was mistyped is declared dead.
    fn heal(&mut self) -> std::result::Result<(), String> {
        self.machines.values_mut().for_each(|machine| machine.is_up = !machine.is_lost);
        for _ in 0..200 {
            let nodes: Vec<u64> = self.machines.keys().copied().collect();
            for node in &nodes {
                if self.leader.is_none() {
                    self.elect(*node);
                }
            }
            for node in nodes {
                if let Some(leader) = self.leader {
                    self.replicate(leader, node);
                }
            }
            let Some(leader) = self.leader else { continue };
            self.follow(leader);
            let topology = self.machines[&leader].topology.clone();
            let dead = self.declared_dead(&topology);
            if topology.placed.iter().all(|node| !self.is_up(raft_id(*node))) {
                // All who keep data are lost.
                return Ok(());
            }
            let is_known = topology.living().all(|node| topology.ready.contains(&node));
            let is_done = self.say_ready(leader);
            match dead {
                Some(dead) => self.propose(leader, dead),
                None if is_done && is_known => return Ok(()),
                None => {}
            }
        }
        let (leader, machines) = (self.leader, self.machines.iter());
        let lost: Vec<&u64> = machines.filter(|(_, machine)| machine.is_lost).map(|(node, _)| node).collect();
        let best = self.machines.values().max_by_key(|machine| machine.newest()).expect("there are nodes");
        let voters = best.members().map(|(_, members)| members.get_joint_config().clone());
        let (change, wanted) = (&best.topology.change, electorate(&best.topology));
        Err(format!("{leader:?} leads; voters {voters:?} of {wanted:?}, lost {lost:?}, change {change:?}"))
    }
}

fn run(seed: u64, step: Step) -> std::result::Result<(), String> {
    let mut world = World::new(seed, step);
    for _ in 0..400 {
        world.happen();
    }
    world.heal()
}

#[test]
fn voters_become_those_of_the_topology_whatever_stops_a_change_of_them() {
    for seed in seeds(1000) {
        run(seed, next_step).unwrap_or_else(|why| panic!("SEED={seed}: {why}"));
    }
}

/// All that vote in either half of a change are taken for the voters, so one that stopped half way has its voters.
fn takes_both_halves_for_voters(
    metrics: &Metrics,
    own: u64,
    topology: &Topology,
) -> Option<(ChangeMembers<u64, EmptyNode>, bool)> {
    let members = metrics.membership_config.membership();
    let nodes: BTreeMap<u64, EmptyNode> = members.nodes().map(|(node, _)| (*node, EmptyNode::new())).collect();
    let all = Membership::new(vec![members.voter_ids().collect()], nodes);
    let mut metrics = metrics.clone();
    metrics.membership_config = Arc::new(StoredMembership::new(*metrics.membership_config.log_id(), all));
    next_step(&metrics, own, topology)
}

/// Voters are chosen though most of them may be down: as if all had heard of what asks for them.
fn asks_who_is_down(metrics: &Metrics, own: u64, topology: &Topology) -> Option<(ChangeMembers<u64, EmptyNode>, bool)> {
    let (mut metrics, mut topology) = (metrics.clone(), topology.clone());
    topology.applied = 0;
    let members = metrics.membership_config.membership().clone();
    metrics.membership_config = Arc::new(StoredMembership::new(None, members));
    next_step(&metrics, own, &topology)
}

/// A step that is wrong must be found: each is a mend taken out.
#[test]
fn the_model_finds_steps_that_are_wrong() {
    let wrong: [(&str, Step); 2] = [
        ("a change that stopped half way is not ended", takes_both_halves_for_voters),
        ("most of those who are to vote are down", asks_who_is_down),
    ];
    for (name, step) in wrong {
        let found = (0..2000).find_map(|seed| Some((seed, run(seed, step).err()?)));
        let (seed, why) = found.unwrap_or_else(|| panic!("not found: {name}"));
        println!("{name}: seed {seed}: {why}");
    }
}
