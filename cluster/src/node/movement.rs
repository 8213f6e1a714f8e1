//! Movement: a replica that is to keep rows it does not have copies them, and one that keeps them no longer drops them.
//!
//! What has to be copied is told by the topology and by what the replica has ([`State::have`]), so a copy goes on after
//! a restart where the rows differ.
//!
//! Invariants:
//! 1. A partition is complete only after it was compared, under the present change, with *every* replica of before that
//!    is not declared dead. A write that was confirmed by any of them is then here; one that only the dead had is lost.
//! 2. Whoever is copied from knows the epoch of the copy, so nothing is written to it any more that does not come here
//!    as well.
//! 3. What is left of an earlier time goes before a copy begins, and nothing is let in meanwhile: an old value must not
//!    come back as if it had been copied.
//! 4. What is kept no longer is dropped only when no replica set of the topology wants it here.
//!
//! Copies share the rate of all sessions.

use std::collections::{BTreeMap, BTreeSet};

use quipu::Result;

use super::sessions::Purpose;
use super::{Node, Timer, Turn};
use crate::ids::{NodeId, Partition};
use crate::peers::Health;
use crate::record::{class_start, partition_end};
use crate::replica::State;
use crate::tables::{Table, Tables};

/// Sessions of copying at once.
const AT_ONCE: usize = 4;
/// How often what stands still is looked at.
const EVERY_MS: u64 = 100;

/// What is copied and dropped.
#[derive(Debug, Default)]
pub(super) struct Movement {
    /// Partitions that have to be copied, and whom they were compared with.
    copies: BTreeMap<Partition, BTreeSet<NodeId>>,
    /// Row classes that have to go: from, before.
    drops: BTreeMap<Partition, (u8, u8)>,
}

impl Node {
    /// Whether everything that this node keeps is here.
    pub(super) fn has_copied(&self) -> bool {
        self.movement.copies.is_empty() || self.mutations.answers_while_copying()
    }

    /// Partitions that are still to be copied.
    pub fn copies_left(&self) -> usize {
        self.movement.copies.len()
    }

    /// Finds out what the topology wants here and what is there.
    pub(super) fn enter_epoch<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        self.movement.copies.clear();
        self.movement.drops.clear();
        let known: Vec<Partition> = self.routing.partitions().collect();
        for partition in known {
            let state = self.replica.state(partition);
            let least = self.routing.least_from(partition, self.own).unwrap_or(State::NONE);
            if state == State::default() && least == State::NONE {
                continue;
            }
            if least == State::NONE {
                self.replica.change(turn.tables, partition, |state| {
                    *state = State { is_dirty: true, ..State::default() };
                })?;
                self.movement.drops.insert(partition, (0, State::NONE));
                continue;
            }
            if state.have > least {
                // What is there of the missing classes: of this copy, or of an earlier time.
                let is_of_copy = |from: u8| state.copying != State::NONE && from >= state.copying;
                let end = if state.copying == State::NONE { state.have } else { state.copying.min(state.have) };
                let is_dirty = state.is_dirty || !is_of_copy(least) && self.has_rows(turn, partition, (least, end))?;
                if is_dirty {
                    let end = if state.is_dirty && state.have == State::NONE { State::NONE } else { end };
                    self.movement.drops.insert(partition, (least.min(1), end));
                }
                self.replica.change(turn.tables, partition, |state| {
                    state.is_dirty = is_dirty;
                    state.copying = if is_dirty { State::NONE } else { least };
                })?;
                self.movement.copies.insert(partition, BTreeSet::new());
            } else {
                self.replica.change(turn.tables, partition, |state| {
                    (state.have, state.copying, state.is_dirty) = (least, State::NONE, false);
                })?;
                if self.has_rows(turn, partition, (0, least))? {
                    self.movement.drops.insert(partition, (0, least));
                }
            }
        }
        self.set_timer(turn.now.ticks_ms, Timer::Movement);
        self.membership.set_members(turn.now.ticks_ms, self.routing.topology().members.keys().copied());
        Ok(())
    }

    fn has_rows<T: Tables>(&self, turn: &Turn<'_, T>, partition: Partition, (from, before): (u8, u8)) -> Result<bool> {
        let start = class_start(partition, from);
        let end = if before == State::NONE { partition_end(partition) } else { class_start(partition, before) };
        for table in [Table::Entities, Table::Graves] {
            if turn.tables.tally(table, &start, &end)?.rows > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops and copies a little.
    pub(super) fn move_on<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        self.timers.retain(|(_, timer)| *timer != Timer::Movement);
        self.drop_some(turn)?;
        for (partition, done) in self.movement.copies.clone() {
            if self.sessions.count(|purpose| purpose == Purpose::Copy) >= AT_ONCE {
                break;
            }
            if self.replica.state(partition).is_dirty {
                continue;
            }
            let mut is_complete = true;
            for (source, from) in self.copy_sources(partition) {
                if done.contains(&source) {
                    continue;
                }
                is_complete = false;
                let is_free = self.sessions.count(|purpose| purpose == Purpose::Copy) < AT_ONCE
                    && !self.sessions.has(partition, source, Purpose::Copy);
                if is_free && self.health(source) != Health::Down {
                    self.begin_session(turn, (source, partition), from, Purpose::Copy)?;
                }
            }
            if is_complete {
                self.complete_copy(turn, partition)?;
            }
        }
        if !self.movement.copies.is_empty() || !self.movement.drops.is_empty() {
            let soon = if self.movement.drops.is_empty() { EVERY_MS } else { 10 };
            self.set_timer(turn.now.ticks_ms + soon, Timer::Movement);
        }
        Ok(())
    }

    /// The replicas of before, that a partition has to be compared with: each with the least shared class.
    fn copy_sources(&self, partition: Partition) -> Vec<(NodeId, u8)> {
        let Some(own) = self.routing.least_from(partition, self.own) else { return Vec::new() };
        let depth = usize::from(self.largest_class());
        let (current, _) = self.routing.orders(partition);
        let sources = current.iter().take(depth).enumerate();
        let sources = sources.filter(|(_, node)| **node != self.own && self.routing.is_living(**node));
        sources.map(|(place, node)| (*node, own.max(place as u8 + 1))).collect()
    }

    /// A session of copying has ended.
    pub(super) fn copied<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        partition: Partition,
        source: NodeId,
        is_done: bool,
    ) -> Result<()> {
        if is_done {
            if let Some(done) = self.movement.copies.get_mut(&partition) {
                done.insert(source);
            }
            self.set_timer(turn.now.ticks_ms, Timer::Movement);
        } else {
            self.set_timer(turn.now.ticks_ms + EVERY_MS, Timer::Movement);
        }
        Ok(())
    }

    fn complete_copy<T: Tables>(&mut self, turn: &mut Turn<'_, T>, partition: Partition) -> Result<()> {
        let least = self.routing.least_from(partition, self.own).unwrap_or(State::NONE);
        self.replica.change(turn.tables, partition, |state| {
            (state.have, state.copying) = (least, State::NONE);
        })?;
        self.movement.copies.remove(&partition);
        self.metrics.partitions_copied += 1;
        if self.movement.copies.is_empty() {
            self.announce(turn);
        }
        Ok(())
    }

    fn drop_some<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        let Some((partition, classes)) = self.movement.drops.first_key_value().map(|(p, c)| (*p, *c)) else {
            return Ok(());
        };
        let rows = self.limits.housekeeping_rows;
        if !self.replica.drop_rows(turn.tables, partition, classes, rows)? {
            return Ok(());
        }
        self.movement.drops.remove(&partition);
        let least = self.routing.least_from(partition, self.own).unwrap_or(State::NONE);
        self.replica.change(turn.tables, partition, |state| {
            if least == State::NONE {
                *state = State::default();
            } else if state.is_dirty {
                (state.is_dirty, state.copying) = (false, least);
            }
        })
    }
}
