//! Faults as they begin and end, and changes of the topology.

use super::plan::{Fault, FaultKind};
use super::slot::{Place, Slot};
use super::store::Store;
use super::world::{Happening, NEWCOMER, SKEW_MS_MAX, World, url};
use crate::ids::NodeId;
use crate::node::{Identity, Input};
use crate::placement::{FROM_MAX, WEIGHT};
use crate::random::mix;
use crate::topology::{Entry, Member, StoreId};

/// Where nothing ever starts.
const MISTYPED: &str = "http://hsot-1:80";

/// Whether an entry adds a member that never starts: the operator does that no more when faults are over.
pub(super) fn is_mistyped(entry: &Entry) -> bool {
    matches!(entry, Entry::Change { add, .. } if add.iter().any(|member| member.url == MISTYPED))
}

impl World {
    pub(super) fn begin_fault(&mut self, place: usize) {
        if self.is_healed {
            return;
        }
        let fault = self.plan.faults[place].clone();
        self.note(6, place as u64);
        self.inflict(&fault);
    }

    /// Has a fault begin now. Those that the plan has end by themselves; others when they are mended.
    pub fn inflict(&mut self, fault: &Fault) {
        let until_us = self.now_us + fault.for_ms * 1000;
        match fault.kind.clone() {
            FaultKind::Cut { from, to } => *self.cuts.entry((from, to)).or_default() += 1,
            FaultKind::Isolate { slot } => {
                for other in 0..self.slots.len() {
                    *self.cuts.entry((slot, other)).or_default() += 1;
                    *self.cuts.entry((other, slot)).or_default() += 1;
                }
            }
            FaultKind::Crash { slot, loses_power } => {
                if self.slots[slot].place == Place::Up {
                    self.stop(slot, loses_power);
                    let life = self.slots[slot].life;
                    self.at(until_us, Happening::Start { slot, life });
                }
            }
            FaultKind::Pause { slot } => self.slots[slot].paused_until_us = until_us,
            FaultKind::Slow { slot, by_ms } => self.slots[slot].slow_us += by_ms * 1000,
            FaultKind::Erase { slot } => self.erase(slot),
            FaultKind::Jump { slot, by_ms } => {
                let skew = self.slots[slot].skew_ms + by_ms;
                self.slots[slot].skew_ms = skew.clamp(-SKEW_MS_MAX, SKEW_MS_MAX);
                self.slots[slot].note_wall(self.now_us);
            }
            FaultKind::WrongClock { slot, by_ms } => {
                self.slots[slot].wrong_ms += by_ms;
                self.slots[slot].note_wall(self.now_us);
            }
            FaultKind::Mistype => self.mistype(),
            FaultKind::StallLog => self.stalled_until_us = self.stalled_until_us.max(until_us),
            FaultKind::DeafLog { slot } => self.slots[slot].is_deaf = true,
            FaultKind::Join => self.begin_join(),
            FaultKind::Leave { slot } => self.leave(slot),
            FaultKind::Abort => self.abort(),
            FaultKind::FullDisk { slot } => self.slots[slot].store.set_full(true),
            FaultKind::Repair { slot } => {
                if self.slots[slot].place == Place::Up {
                    self.turn(slot, Input::Repair);
                }
            }
        }
    }

    pub(super) fn end_fault(&mut self, place: usize) {
        if self.is_healed {
            return;
        }
        let fault = self.plan.faults[place].clone();
        match fault.kind {
            FaultKind::Cut { from, to } => self.mend((from, to)),
            FaultKind::Isolate { slot } => {
                for other in 0..self.slots.len() {
                    self.mend((slot, other));
                    self.mend((other, slot));
                }
                self.soon(5000, Happening::Learn { slot });
            }
            FaultKind::Slow { slot, by_ms } => {
                self.slots[slot].slow_us = self.slots[slot].slow_us.saturating_sub(by_ms * 1000);
            }
            FaultKind::WrongClock { slot, by_ms } => {
                self.slots[slot].wrong_ms -= by_ms;
                self.slots[slot].note_wall(self.now_us);
            }
            FaultKind::FullDisk { slot } => self.slots[slot].store.set_full(false),
            FaultKind::DeafLog { slot } => {
                self.slots[slot].is_deaf = false;
                self.soon(5000, Happening::Learn { slot });
            }
            _ => {}
        }
    }

    fn mend(&mut self, link: (usize, usize)) {
        if let Some(cuts) = self.cuts.get_mut(&link) {
            *cuts = cuts.saturating_sub(1);
        }
    }

    /// Erases a store, unless another that was erased has not been replaced yet.
    fn erase(&mut self, slot: usize) {
        let is_whole = self.agreed.topology().members.values().all(|member| !member.is_dead)
            && self.slots.iter().all(|slot| slot.place != Place::Erased)
            && self.agreed.topology().change.is_none();
        if !is_whole || !matches!(self.slots[slot].place, Place::Up | Place::Down) {
            return;
        }
        if self.slots[slot].place == Place::Up {
            self.stop(slot, true);
        }
        // A node that is the only one left has the only replica of everything, however many were asked for.
        let is_last = self.agreed.topology().members.len() == 1;
        self.erased += if is_last { u64::from(FROM_MAX) } else { 1 };
        let (seed, has_engine) = (self.plan.seed, self.plan.has_engine);
        let machine = &mut self.slots[slot];
        machine.place = Place::Erased;
        machine.life += 1;
        machine.store = Store::new(seed, has_engine);
        machine.store_id = mix(machine.store_id ^ machine.life << 8) | 1;
        self.soon(50_000, Happening::Rejoin { slot });
    }

    /// A node whose store is gone asks to be replaced by itself, until it is.
    pub(super) fn rejoin(&mut self, slot: usize) {
        if self.slots[slot].place != Place::Erased {
            return;
        }
        let old = self.slots[slot].id;
        let store = StoreId(self.slots[slot].store_id);
        let topology = self.agreed.topology();
        let found = topology.members.iter().find(|(_, member)| member.store == store).map(|(node, _)| *node);
        if let Some(node) = found {
            let identity = Identity { node, store, topology: topology.clone() };
            self.slots[slot].store.found(&identity, &self.limits).expect("a disk without faults");
            self.slots[slot].place = Place::Down;
            self.start(slot);
            return;
        }
        let is_new = old == NEWCOMER;
        if !is_new && !topology.members.contains_key(&old) {
            // It had been leaving when its store went.
            self.slots[slot].place = Place::Empty;
            return;
        }
        let entry = if topology.change.is_some() {
            Entry::Dead { node: old }
        } else {
            let member = Member { url: url(slot), zone: String::new(), weight: WEIGHT, store, is_dead: false };
            let dead = if is_new { vec![] } else { vec![old] };
            Entry::Change { expected: topology.epoch, add: vec![member], remove: vec![], dead }
        };
        self.soon(1000, Happening::Append(entry));
        self.soon(200_000, Happening::Rejoin { slot });
    }

    fn begin_join(&mut self) {
        let topology = self.agreed.topology();
        let is_free = |slot: &Slot| slot.place == Place::Empty && slot.node.is_none();
        let Some(slot) = self.slots.iter().position(is_free) else { return };
        if topology.change.is_some() {
            return;
        }
        self.slots[slot].store_id = mix(self.plan.seed ^ self.next ^ 0xABCD) | 1;
        self.slots[slot].place = Place::Erased;
        self.slots[slot].id = NEWCOMER;
        self.rejoin(slot);
    }

    fn mistype(&mut self) {
        let topology = self.agreed.topology();
        if topology.change.is_none() && topology.living().count() == topology.members.len() {
            let (url, store) = (MISTYPED.to_owned(), StoreId(0));
            let member = Member { url, zone: String::new(), weight: WEIGHT, store, is_dead: false };
            let entry = Entry::Change { expected: topology.epoch, add: vec![member], remove: vec![], dead: vec![] };
            self.soon(1000, Happening::Append(entry));
        }
    }

    /// The operator gives up a member that was mistyped: aborts the change, or declares the member dead and takes out
    /// what is left of it.
    pub(super) fn give_up_mistyped(&mut self) {
        let topology = self.agreed.topology();
        let Some((node, member)) = topology.members.iter().find(|(_, member)| member.url == MISTYPED) else { return };
        let (node, expected) = (*node, topology.epoch);
        let aborts = mix(self.plan.seed ^ 0xAB07).is_multiple_of(2);
        if aborts && topology.change.is_some() {
            self.append(&Entry::Abort { expected });
        } else if !member.is_dead {
            self.append(&Entry::Dead { node });
        } else if topology.change.is_none() {
            self.append(&Entry::Change { expected, add: vec![], remove: vec![], dead: vec![node] });
        }
    }

    fn abort(&mut self) {
        let topology = self.agreed.topology();
        // A store that was erased comes back by its change: nothing else would add it again.
        if topology.members.values().all(|member| !member.is_dead) {
            self.soon(1000, Happening::Append(Entry::Abort { expected: topology.epoch }));
        }
    }

    fn leave(&mut self, slot: usize) {
        let topology = self.agreed.topology();
        let id = self.slots[slot].id;
        // A change takes out those that are dead, too.
        let is_living = |node: &&NodeId| topology.members.get(node).is_some_and(|member| !member.is_dead);
        let enough = topology.placed.iter().filter(is_living).count() > usize::from(topology.replicas);
        if topology.change.is_none() && topology.placed.contains(&id) && enough {
            let entry = Entry::Change { expected: topology.epoch, add: vec![], remove: vec![id], dead: vec![] };
            self.soon(1000, Happening::Append(entry));
        }
    }
}
