//! A whole cluster in one thread: virtual time, a network that loses, repeats, reorders and cuts, disks that lose what
//! was not synced, clocks that are wrong, and a log of the topology that stalls.
//!
//! All chances of a frame come from hashing the seed, its link and its number on that link, so taking a fault out of a
//! plan does not shift the rest.

use std::collections::BTreeMap;

use super::faults::is_mistyped;
use super::plan::{Fault, Plan, SLOTS_MAX};
use super::slot::{Place, Slot};
use super::store::Store;
use crate::api::{Answer, Request};
use crate::ids::{Epoch, NodeId};
use crate::limits::Limits;
use crate::node::{Identity, Input, Output};
use crate::protocol::{Frame, Message};
use crate::random::{SplitMix, mix};
use crate::routing::Routing;
use crate::topology::{Entry, StoreId, Topology};

/// When operations and faults of plans begin to count: until then the nodes meet.
pub(super) const PLAN_BEGINS_US: u64 = 50_000;
/// By how much clocks are wrong that are kept right.
pub(super) const SKEW_MS_MAX: i64 = 3000;
/// Stands in a slot whose node has no id yet.
pub(super) const NEWCOMER: NodeId = NodeId(u16::MAX);
/// How long the cluster may take to heal.
pub const HEAL_MS: u64 = 60_000;

/// What a client asked, and was answered.
#[derive(Clone, Debug)]
pub struct Event {
    /// The operation's place in the plan; after the plan's, what the end asks.
    pub operation: usize,
    /// When, in microseconds.
    pub invoked_us: u64,
    /// When it was answered.
    pub ended_us: Option<u64>,
    /// What.
    pub answer: Option<Answer>,
}

#[derive(Debug)]
pub(super) enum Happening {
    Frame { from: NodeId, to: NodeId, bytes: Vec<u8> },
    Wake { slot: usize, life: u64 },
    Release { slot: usize, life: u64, commits: u64, outputs: Vec<Output> },
    Operation(usize),
    Begin(usize),
    End(usize),
    Start { slot: usize, life: u64 },
    Append(Entry),
    Learn { slot: usize },
    Link { slot: usize, life: u64, peer: NodeId, is_there: bool },
    Rejoin { slot: usize },
    HealCheck,
}

/// A simulation under way.
#[derive(Debug)]
pub struct World {
    /// The plan.
    pub plan: Plan,
    /// Limits of all nodes.
    pub limits: Limits,
    /// Virtual time, in microseconds.
    pub now_us: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    pub(super) next: u64,
    /// Machines.
    pub slots: Vec<Slot>,
    slot_of: BTreeMap<NodeId, usize>,
    /// How many cuts there are from one slot to another.
    pub cuts: BTreeMap<(usize, usize), u32>,
    frames: BTreeMap<(NodeId, NodeId), u64>,
    /// The topology as the log has it.
    pub agreed: Routing,
    pub(super) stalled_until_us: u64,
    pub(super) is_healed: bool,
    /// What clients saw.
    pub history: Vec<Event>,
    waiting: BTreeMap<(usize, u64, u64), usize>,
    /// A hash of everything that happened, in order.
    pub trace: u64,
    /// Stores that were erased.
    pub erased: u64,
    /// Frames delivered, and their bytes.
    pub delivered: (u64, u64),
    /// Why the run must stop.
    pub failure: Option<String>,
    healed_at_us: Option<u64>,
}

pub(super) fn url(slot: usize) -> String {
    format!("http://host-{slot}:80")
}

impl World {
    /// A world at the beginning of a plan.
    pub fn new(plan: Plan, limits: Limits) -> World {
        let members: Vec<(String, String)> = (0..plan.nodes).map(|slot| (url(slot), String::new())).collect();
        let mut topology = Topology::founded(&members, mix(plan.seed), plan.partitions, plan.replicas);
        for (node, member) in &mut topology.members {
            member.store = StoreId(u64::from(node.0) + 1);
        }
        let agreed = Routing::new(topology);
        let slots_max = SLOTS_MAX.max(plan.nodes + 2);
        let mut world = World {
            slots: (0..slots_max).map(|number| Slot::new(&plan, number)).collect(),
            limits,
            now_us: 0,
            queue: BTreeMap::new(),
            next: 0,
            slot_of: (0..plan.nodes).map(|slot| (NodeId(slot as u16), slot)).collect(),
            cuts: BTreeMap::new(),
            frames: BTreeMap::new(),
            agreed,
            stalled_until_us: 0,
            is_healed: false,
            history: Vec::new(),
            waiting: BTreeMap::new(),
            trace: 0,
            erased: 0,
            delivered: (0, 0),
            failure: None,
            healed_at_us: None,
            plan,
        };
        for slot in 0..world.plan.nodes {
            let identity = Identity {
                node: world.slots[slot].id,
                store: StoreId(world.slots[slot].store_id),
                topology: world.agreed.topology().clone(),
            };
            world.slots[slot].store.found(&identity, &world.limits).expect("a disk without faults");
            world.at(slot as u64 * 100, Happening::Start { slot, life: 0 });
        }
        for place in 0..world.plan.operations.len() {
            let at_ms = world.plan.operations[place].at_ms;
            world.at(at_ms * 1000 + PLAN_BEGINS_US, Happening::Operation(place));
        }
        for place in 0..world.plan.faults.len() {
            let Fault { at_ms, for_ms, .. } = world.plan.faults[place];
            world.at(at_ms * 1000 + PLAN_BEGINS_US, Happening::Begin(place));
            world.at((at_ms + for_ms) * 1000 + PLAN_BEGINS_US, Happening::End(place));
        }
        world
    }

    pub(super) fn at(&mut self, at_us: u64, happening: Happening) {
        self.next += 1;
        self.queue.insert((at_us, self.next), happening);
    }

    pub(super) fn soon(&mut self, after_us: u64, happening: Happening) {
        self.at(self.now_us + after_us, happening);
    }

    /// Notes something that happened.
    pub(super) fn note(&mut self, what: u64, detail: u64) {
        self.trace = mix(self.trace ^ mix(self.now_us ^ (what << 48) ^ mix(detail)));
    }

    /// A chance that depends on nothing but the seed and these numbers.
    pub(super) fn chance(&self, a: u64, b: u64, c: u64) -> SplitMix {
        SplitMix::new(mix(self.plan.seed ^ mix(a ^ mix(b ^ mix(c)))))
    }

    /// Runs the plan, heals the cluster, and waits until it has converged.
    pub fn run(&mut self) {
        self.run_until(self.plan.chaos_ms * 1000 + PLAN_BEGINS_US);
        self.heal();
        let until_us = self.now_us + HEAL_MS * 1000;
        self.soon(500_000, Happening::HealCheck);
        while self.healed_at_us.is_none() && self.now_us < until_us && self.failure.is_none() {
            self.run_until((self.now_us + 100_000).min(until_us));
        }
        if self.healed_at_us.is_none() && self.failure.is_none() {
            let why = super::checker::not_healed(self);
            self.failure = Some(format!("it did not converge within {HEAL_MS} ms: {why}"));
        }
    }

    /// Lets time pass.
    pub fn run_until(&mut self, until_us: u64) {
        while let Some(((at_us, _), _)) = self.queue.first_key_value()
            && *at_us <= until_us
            && self.failure.is_none()
        {
            let ((at_us, _), happening) = self.queue.pop_first().expect("looked at above");
            self.now_us = self.now_us.max(at_us);
            self.happen(happening);
        }
        self.now_us = self.now_us.max(until_us);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Frame { from, to, bytes } => {
                let Some(slot) = self.slot_of.get(&to).copied() else { return };
                if self.slots[slot].id != to || self.slots[slot].node.is_none() {
                    return;
                }
                // It lies in the socket until the process goes on.
                if let Some(at_us) = self.paused_until(slot) {
                    self.at(at_us, Happening::Frame { from, to, bytes });
                    return;
                }
                self.note(1, u64::from(crc32c::crc32c(&bytes)));
                self.delivered = (self.delivered.0 + 1, self.delivered.1 + bytes.len() as u64);
                self.turn(slot, Input::Frame { from, bytes: &bytes });
            }
            Happening::Wake { slot, life } if self.slots[slot].runs(life) => {
                self.slots[slot].wakes_at_us = u64::MAX;
                match self.paused_until(slot) {
                    Some(at_us) => self.at(at_us, Happening::Wake { slot, life }),
                    None => self.turn(slot, Input::Tick),
                }
            }
            Happening::Release { slot, life, commits, outputs } if self.slots[slot].runs(life) => {
                if let Some(at_us) = self.paused_until(slot) {
                    self.at(at_us, Happening::Release { slot, life, commits, outputs });
                    return;
                }
                self.slots[slot].store.sync(commits).expect("a disk without faults");
                self.release(slot, outputs);
            }
            Happening::Wake { .. } | Happening::Release { .. } => {}
            Happening::Operation(place) => self.operate(place),
            Happening::Begin(place) => self.begin_fault(place),
            Happening::End(place) => self.end_fault(place),
            Happening::Start { slot, life } => {
                if self.slots[slot].life == life && self.slots[slot].place == Place::Down {
                    self.start(slot);
                }
            }
            Happening::Append(entry) => {
                if self.now_us < self.stalled_until_us {
                    let at_us = self.stalled_until_us;
                    self.at(at_us, Happening::Append(entry));
                } else if !self.is_healed || !is_mistyped(&entry) {
                    self.append(&entry);
                }
            }
            Happening::Learn { slot } => self.learn(slot),
            Happening::Link { slot, life, peer, is_there } => {
                if self.slots[slot].runs(life) {
                    let input = if is_there { Input::Connected(peer) } else { Input::Disconnected(peer) };
                    self.turn(slot, input);
                }
            }
            Happening::Rejoin { slot } => self.rejoin(slot),
            Happening::HealCheck => self.heal_check(),
        }
    }

    /// Until when a slot is paused, if it is.
    fn paused_until(&self, slot: usize) -> Option<u64> {
        Some(self.slots[slot].paused_until_us).filter(|until_us| *until_us > self.now_us)
    }

    pub(super) fn turn(&mut self, slot: usize, input: Input<'_>) {
        let now = self.slots[slot].now(self.now_us);
        let machine = &mut self.slots[slot];
        let Some(node) = &mut machine.node else { return };
        let mut outputs = Vec::new();
        let commits = match machine.store.turn(node, now, input, &mut outputs) {
            Ok(commits) => commits,
            Err(error) => {
                self.failure = Some(format!("the node in slot {slot} failed: {error}"));
                return;
            }
        };
        let wake_us = node.wake_at_ms().saturating_mul(1000).max(self.now_us + 100);
        let life = machine.life;
        if wake_us < machine.wakes_at_us && wake_us < u64::MAX / 2 {
            machine.wakes_at_us = wake_us;
            self.at(wake_us, Happening::Wake { slot, life });
        }
        if outputs.is_empty() {
            return;
        }
        let sync_us = match self.plan.sync_ms_max {
            0 => 0,
            max => self.chance(7, slot as u64, self.next).below(max * 1000),
        };
        let machine = &mut self.slots[slot];
        machine.synced_at_us = machine.synced_at_us.max(self.now_us + sync_us);
        let at_us = machine.synced_at_us;
        self.at(at_us, Happening::Release { slot, life, commits, outputs });
    }

    fn release(&mut self, slot: usize, outputs: Vec<Output>) {
        let from = self.slots[slot].id;
        for output in outputs {
            match output {
                Output::Send { to, bytes } => self.transmit(slot, from, to, bytes),
                Output::Answer { client, answer } => self.answered(slot, client, answer),
                Output::Propose(entry) => {
                    let delay_us = 1000 + self.chance(3, slot as u64, self.next).below(30_000);
                    if !self.is_cut_off(slot) {
                        self.soon(delay_us, Happening::Append(entry));
                    }
                }
            }
        }
    }

    fn transmit(&mut self, slot: usize, from: NodeId, to: NodeId, bytes: Vec<u8>) {
        let number = self.frames.entry((from, to)).or_default();
        *number += 1;
        let number = *number;
        let Some(target) = self.slot_of.get(&to).copied() else { return };
        if self.cuts.get(&(slot, target)).is_some_and(|cuts| *cuts > 0) {
            return;
        }
        let mut random = self.chance(u64::from(from.0) << 16 | u64::from(to.0), number, 1);
        let (loss, duplication, delay_ms) = match self.is_healed {
            true => (0, 0, 1),
            false => (self.plan.loss, self.plan.duplication, self.plan.delay_ms_max),
        };
        let slow_us = self.slots[slot].slow_us + self.slots[target].slow_us;
        let mut delay = || slow_us + 100 + random.below(delay_ms * 1000);
        let (first, second) = (delay(), delay() * 3);
        if !random.happens(loss) {
            // A connection delivers what it is given once at most, and the rule that a write is not stamped twice
            // relies on it. What else peers say may come twice, since they may say it twice.
            let is_write = || matches!(Frame::decode(&bytes), Ok(Frame { message: Message::Write { .. }, .. }));
            if random.happens(duplication) && !is_write() {
                self.soon(second, Happening::Frame { from, to, bytes: bytes.clone() });
            }
            self.soon(first, Happening::Frame { from, to, bytes });
        }
    }

    /// Whether a slot reaches no other slot.
    fn is_cut_off(&self, slot: usize) -> bool {
        let others = (0..self.slots.len()).filter(|other| *other != slot && self.slots[*other].place == Place::Up);
        let others: Vec<usize> = others.collect();
        !others.is_empty() && others.iter().all(|other| self.cuts.get(&(slot, *other)).is_some_and(|cuts| *cuts > 0))
    }

    pub(super) fn start(&mut self, slot: usize) {
        let now = self.slots[slot].now(self.now_us);
        let machine = &mut self.slots[slot];
        let identity = machine.store.identity().expect("a disk without faults");
        let Some(identity) = identity else { return };
        machine.life += 1;
        machine.place = Place::Up;
        machine.wakes_at_us = u64::MAX;
        machine.synced_at_us = self.now_us;
        let agreed = self.agreed.topology();
        let routing = if identity.topology == *agreed {
            self.agreed.clone()
        } else {
            self.agreed.follow(identity.topology.clone())
        };
        let seed = mix(self.plan.seed ^ machine.life ^ (slot as u64) << 32);
        let node = machine.store.start(now, &identity, &self.limits, routing, seed);
        let mut node = node.expect("a disk without faults");
        node.mutate(self.plan.mutations);
        machine.id = identity.node;
        machine.node = Some(node);
        self.slot_of.insert(identity.node, slot);
        self.note(2, slot as u64);
        self.links(slot, true);
        self.soon(5000, Happening::Learn { slot });
        self.turn(slot, Input::Tick);
    }

    /// Others find that the connection to a slot is there, or gone; and it that theirs is.
    fn links(&mut self, slot: usize, is_there: bool) {
        let own = self.slots[slot].id;
        for other in 0..self.slots.len() {
            let is_open = |from, to| self.cuts.get(&(from, to)).is_none_or(|cuts| *cuts == 0);
            if other == slot || self.slots[other].place != Place::Up || !is_open(slot, other) || !is_open(other, slot) {
                continue;
            }
            let (life, peer) = (self.slots[other].life, self.slots[other].id);
            self.soon(1000, Happening::Link { slot: other, life, peer: own, is_there });
            if is_there {
                let life = self.slots[slot].life;
                self.soon(1000, Happening::Link { slot, life, peer, is_there });
            }
        }
    }

    pub(super) fn stop(&mut self, slot: usize, loses_power: bool) {
        self.note(4, slot as u64);
        let random = self.chance(9, slot as u64, self.next).draw();
        let machine = &mut self.slots[slot];
        machine.place = Place::Down;
        machine.node = None;
        machine.life += 1;
        machine.store.crash(loses_power, random);
        self.waiting.retain(|(other, ..), _| *other != slot);
        self.links(slot, false);
    }

    pub(super) fn append(&mut self, entry: &Entry) {
        let mut topology = self.agreed.topology().clone();
        let number = topology.applied + 1;
        topology.apply_with(number, entry, self.plan.mutations);
        self.note(5, number);
        self.agreed = self.agreed.follow(topology);
        for slot in 0..self.slots.len() {
            if self.slots[slot].place == Place::Up {
                let delay_us = 500 + self.chance(11, slot as u64, number).below(40_000);
                self.soon(delay_us, Happening::Learn { slot });
            }
        }
    }

    /// A slot hears of the log.
    fn learn(&mut self, slot: usize) {
        if self.slots[slot].place != Place::Up || self.slots[slot].is_deaf || self.is_cut_off(slot) {
            return;
        }
        let agreed = self.agreed.clone();
        self.turn(slot, Input::Topology(agreed));
        let id = self.slots[slot].id;
        if !self.agreed.topology().members.contains_key(&id) {
            // It has left.
            self.stop(slot, false);
            self.slots[slot].place = Place::Empty;
            self.slots[slot].store = Store::new(self.plan.seed, self.plan.has_engine);
        }
    }

    /// The request of an operation; none if the slot cannot take it.
    fn operate(&mut self, place: usize) {
        let operation = self.plan.operations[place].clone();
        let slot = operation.slot;
        if self.slots[slot].place != Place::Up || self.slots[slot].paused_until_us > self.now_us {
            return;
        }
        let seen = self.slots[slot].last_seen.get(&operation.key).copied().flatten();
        let request = operation.request(place, seen);
        self.request(slot, place, request);
    }

    /// Gives a request to a slot. Its outcome goes into the history.
    pub fn request(&mut self, slot: usize, operation: usize, request: Request) {
        self.note(8, operation as u64);
        let client = self.history.len() as u64;
        let event = Event { operation, invoked_us: self.now_us, ended_us: None, answer: None };
        self.history.push(event);
        self.waiting.insert((slot, self.slots[slot].life, client), self.history.len() - 1);
        self.turn(slot, Input::Request { client, request });
    }

    fn answered(&mut self, slot: usize, client: u64, answer: Answer) {
        let Some(place) = self.waiting.remove(&(slot, self.slots[slot].life, client)) else {
            self.failure =
                Some(format!("slot {slot} answered request {client} twice, or one that is not there: {answer:?}"));
            return;
        };
        self.note(10, place as u64);
        if let Some(operation) = self.plan.operations.get(self.history[place].operation) {
            let seen = match &answer {
                Answer::Value { version, .. } | Answer::Written { version } => Some(Some(*version)),
                Answer::Absent { .. } => Some(None),
                Answer::ConditionFailed { found } => Some(*found),
                _ => None,
            };
            if let Some(seen) = seen {
                self.slots[slot].last_seen.insert(operation.key, seen);
            }
        }
        let event = &mut self.history[place];
        event.ended_us = Some(self.now_us);
        event.answer = Some(answer);
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.is_healed = true;
        self.cuts.clear();
        self.stalled_until_us = 0;
        for slot in 0..self.slots.len() {
            let machine = &mut self.slots[slot];
            (machine.paused_until_us, machine.slow_us, machine.is_deaf) = (0, 0, false);
            machine.wrong_ms = 0;
            machine.store.set_full(false);
            if machine.skew_ms.abs() > SKEW_MS_MAX {
                machine.skew_ms = 0;
            }
            machine.note_wall(self.now_us);
            let life = machine.life;
            match machine.place {
                Place::Down => self.soon(1000, Happening::Start { slot, life }),
                Place::Up => {
                    machine.wakes_at_us = u64::MAX;
                    self.soon(1000, Happening::Wake { slot, life });
                    self.soon(2000, Happening::Learn { slot });
                    self.links(slot, true);
                }
                _ => {}
            }
        }
    }

    fn heal_check(&mut self) {
        if super::checker::not_healed(self).is_empty() {
            self.healed_at_us = Some(self.now_us);
            return;
        }
        self.give_up_mistyped();
        for slot in 0..self.slots.len() {
            if self.slots[slot].place == Place::Up {
                self.turn(slot, Input::Repair);
            }
        }
        self.soon(1_000_000, Happening::HealCheck);
    }

    /// Sums a counter over all nodes that run.
    pub fn sum(&self, of: impl Fn(&crate::metrics::Metrics) -> u64) -> u64 {
        self.slots.iter().filter_map(|slot| slot.node.as_ref()).map(|node| of(&node.metrics)).sum()
    }

    /// Has a slot compare everything.
    pub fn repair(&mut self, slot: usize) {
        self.turn(slot, Input::Repair);
    }

    /// Slots that are up.
    pub fn up(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.place == Place::Up)
    }

    /// The epoch that the log has come to.
    pub fn epoch(&self) -> Epoch {
        self.agreed.epoch()
    }
}
