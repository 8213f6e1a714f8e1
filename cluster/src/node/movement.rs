//! Moves partitions between nodes: new replicas copy their rows, those that stay take over what leaves with others, and
//! former replicas drop theirs.
//!
//! The topology and the state of the replica ([`PartitionState::have`]) determine what has to be copied. So after a
//! restart a copy goes on where the rows differ.
//!
//! Invariants:
//! 1. Nothing is copied before each member that keeps rows has said, under the present epoch, which `from` are in use:
//!    a new node has not heard of them, and each has replicas of its own. What comes into use later comes here too.
//! 2. A partition is complete only after it was compared, in one epoch, with *every* former replica that is not
//!    declared dead. It then has each write that any of them has confirmed; a write that only dead ones had is lost. A
//!    copy that is under way when an epoch ends is given up: the next epoch may ask for more rows, or have a change of
//!    its own.
//! 3. A replica that is copied from knows the epoch of the copy, so every later write to it comes here as well.
//! 4. Where fewer nodes are left than replicas had a row, no node comes for the one that leaves, and a write may have
//!    been confirmed by that one alone. So all that stay compare with it, and take what they lack. They serve
//!    meanwhile.
//! 5. Rows of an earlier time are removed before a copy begins, and no writes are let in meanwhile: an old value must
//!    not come back as if it had been copied.
//! 6. Rows are dropped only when no replica set of the topology includes this node for them; but for writes that came
//!    before the copy knew the floor, and that are absent for good where it copies from: those who knew the floor have
//!    refused them, so they were never confirmed (`replica/compare.rs`).
//!
//! Copies share the rate of all sessions.

use std::collections::{BTreeMap, BTreeSet};

use quipu::Result;

use super::comparison::{Purpose, Sessions};
use super::context::Context;
use super::interface::Output;
use super::waiting::Timer;
use crate::ids::{Epoch, NodeId, Partition};
use crate::peers::Health;
use crate::record::{class_start, partition_end};
use crate::replica::PartitionState;
use crate::replica::rows::drop_classes;
use crate::tables::{Table, Tables};
use crate::topology::Entry;

/// Sessions of copying at once.
const AT_ONCE: usize = 4;
/// How often what stands still is looked at.
const EVERY_MS: u64 = 100;

/// A partition that has to be copied.
#[derive(Clone, Debug)]
struct PartitionCopy {
    /// Whether this node has and serves its rows, and lacks only what leaving nodes alone may have.
    is_served: bool,
    /// Replicas that it was compared with.
    done: BTreeSet<NodeId>,
}

impl PartitionCopy {
    fn new(is_served: bool) -> PartitionCopy {
        PartitionCopy { is_served, done: BTreeSet::new() }
    }
}

/// What is copied and dropped.
#[derive(Debug, Default)]
pub(super) struct Movement {
    /// Partitions that have to be copied.
    copies: BTreeMap<Partition, PartitionCopy>,
    /// Row classes that have to go: from, before.
    drops: BTreeMap<Partition, (u8, u8)>,
    /// Members that have said which `from` are in use, under this epoch.
    told: BTreeSet<NodeId>,
    /// When the others are asked for it next, in ticks.
    asks_at_ms: u64,
}

impl Movement {
    /// Partitions that cannot be served before they are copied.
    pub(super) fn copies_left(&self) -> usize {
        self.copies.values().filter(|copy| !copy.is_served).count()
    }

    /// Finds out what the topology wants here and what is there.
    pub(super) fn enter_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        self.copies.clear();
        self.drops.clear();
        self.told.clear();
        self.asks_at_ms = 0;
        let known: Vec<Partition> = cx.routing.partitions().collect();
        for partition in known {
            let state = cx.replica.state(partition);
            let least = cx.routing.least_from(partition, cx.own).unwrap_or(PartitionState::NONE);
            if state == PartitionState::default() && least == PartitionState::NONE {
                continue;
            }
            if least == PartitionState::NONE {
                cx.replica.change(cx.tables, partition, |state| {
                    *state = PartitionState { is_dirty: true, ..PartitionState::default() };
                })?;
                self.drops.insert(partition, (0, PartitionState::NONE));
                continue;
            }
            if state.have > least {
                // What is there of the missing classes: of this copy, or of an earlier time.
                let is_of_copy = |from: u8| state.copying != PartitionState::NONE && from >= state.copying;
                let end =
                    if state.copying == PartitionState::NONE { state.have } else { state.copying.min(state.have) };
                let is_dirty = state.is_dirty || !is_of_copy(least) && has_rows(cx, partition, (least, end))?;
                if is_dirty {
                    let end =
                        if state.is_dirty && state.have == PartitionState::NONE { PartitionState::NONE } else { end };
                    self.drops.insert(partition, (least.min(1), end));
                }
                cx.replica.change(cx.tables, partition, |state| {
                    state.is_dirty = is_dirty;
                    state.copying = if is_dirty { PartitionState::NONE } else { least };
                    if !cx.mutations.keeps_horizon() {
                        // Of a time when this node was a replica of these rows: others need not have come to it, and
                        // what is absent here is to come from them.
                        (state.horizon, state.horizon_from_max) = (0, 0);
                    }
                })?;
                self.copies.insert(partition, PartitionCopy::new(false));
            } else {
                if cx.routing.loses_replicas(partition) && !cx.mutations.leaves_with_rows() {
                    self.copies.insert(partition, PartitionCopy::new(true));
                }
                cx.replica.change(cx.tables, partition, |state| {
                    (state.have, state.copying, state.is_dirty) = (least, PartitionState::NONE, false);
                })?;
                if has_rows(cx, partition, (0, least))? {
                    self.drops.insert(partition, (0, least));
                }
            }
        }
        cx.set_timer(0, Timer::Movement);
        Ok(())
    }

    /// Drops and copies a little.
    pub(super) fn move_on<T: Tables>(&mut self, cx: &mut Context<'_, T>, sessions: &mut Sessions) -> Result<()> {
        cx.timers.drop_all(Timer::Movement);
        self.drop_some(cx)?;
        let all_have_told = self.ask_the_silent(cx);
        let copies = if all_have_told { self.copies.clone() } else { BTreeMap::new() };
        for (partition, PartitionCopy { is_served, done }) in copies {
            if sessions.count(|purpose| purpose == Purpose::Copy) >= AT_ONCE {
                break;
            }
            if cx.replica.state(partition).is_dirty {
                continue;
            }
            let mut is_complete = true;
            for (source, from) in copy_sources(cx, partition, is_served) {
                if done.contains(&source) {
                    continue;
                }
                is_complete = false;
                let is_free = sessions.count(|purpose| purpose == Purpose::Copy) < AT_ONCE
                    && !sessions.has(partition, source, Purpose::Copy);
                if is_free && cx.health(source) != Health::Down {
                    sessions.begin(cx, (source, partition), from, Purpose::Copy)?;
                }
            }
            if is_complete {
                self.complete_copy(cx, partition)?;
            }
        }
        if !self.copies.is_empty() || !self.drops.is_empty() {
            let soon = if self.drops.is_empty() { EVERY_MS } else { 10 };
            cx.set_timer(soon, Timer::Movement);
        }
        Ok(())
    }

    /// A member has said which `from` are in use, and knew this epoch then.
    pub(super) fn told<T>(&mut self, cx: &mut Context<'_, T>, node: NodeId, epoch: Epoch) {
        if epoch >= cx.routing.epoch() && self.told.insert(node) && !self.copies.is_empty() {
            cx.set_timer(0, Timer::Movement);
        }
    }

    /// Asks the members that keep rows and have not said which `from` are in use. Returns whether all have.
    fn ask_the_silent<T>(&mut self, cx: &mut Context<'_, T>) -> bool {
        let routing = cx.routing;
        let placed = routing.topology().placed.iter().filter(|node| routing.is_living(**node) && **node != cx.own);
        let silent: Vec<NodeId> = placed.filter(|node| !self.told.contains(node)).copied().collect();
        let all_have_told = silent.is_empty() || cx.mutations.copies_untold();
        if !all_have_told && !self.copies.is_empty() && cx.now.ticks_ms >= self.asks_at_ms {
            self.asks_at_ms = cx.now.ticks_ms + EVERY_MS;
            silent.into_iter().for_each(|node| cx.ping(node));
        }
        all_have_told
    }

    /// A session of copying has ended.
    pub(super) fn copied<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        partition: Partition,
        source: NodeId,
        is_done: bool,
    ) -> Result<()> {
        if is_done {
            if let Some(copy) = self.copies.get_mut(&partition) {
                copy.done.insert(source);
            }
            cx.set_timer(0, Timer::Movement);
        } else {
            cx.set_timer(EVERY_MS, Timer::Movement);
        }
        Ok(())
    }

    fn complete_copy<T: Tables>(&mut self, cx: &mut Context<'_, T>, partition: Partition) -> Result<()> {
        let least = cx.routing.least_from(partition, cx.own).unwrap_or(PartitionState::NONE);
        cx.replica.change(cx.tables, partition, |state| {
            (state.have, state.copying) = (least, PartitionState::NONE);
        })?;
        let copied = self.copies.remove(&partition);
        cx.metrics.partitions_copied += u64::from(copied.is_some_and(|copy| !copy.is_served));
        if self.copies.is_empty() {
            self.announce(cx);
        }
        Ok(())
    }

    fn drop_some<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        let Some((partition, classes)) = self.drops.first_key_value().map(|(p, c)| (*p, *c)) else {
            return Ok(());
        };
        let rows = cx.limits.housekeeping_rows;
        if !drop_classes(cx.tables, partition, classes, rows)? {
            return Ok(());
        }
        self.drops.remove(&partition);
        let least = cx.routing.least_from(partition, cx.own).unwrap_or(PartitionState::NONE);
        cx.replica.change(cx.tables, partition, |state| {
            if least == PartitionState::NONE {
                *state = PartitionState::default();
            } else if state.is_dirty {
                (state.is_dirty, state.copying) = (false, least);
            }
        })
    }
    /// Says in the log that this node knows the epoch, once it has copied what it must.
    pub(super) fn announce<T>(&self, cx: &mut Context<'_, T>) {
        let topology = cx.routing.topology();
        let is_known = !topology.members.contains_key(&cx.own) || topology.ready.contains(&cx.own);
        let has_copied = self.copies.is_empty() || cx.mutations.answers_while_copying();
        if !is_known && has_copied {
            cx.out.push(Output::Propose(Entry::Ready { node: cx.own, epoch: topology.epoch }));
        }
    }
}

/// Whether there is anything of these classes of a partition.
fn has_rows<T: Tables>(cx: &Context<'_, T>, partition: Partition, (from, before): (u8, u8)) -> Result<bool> {
    let start = class_start(partition, from);
    let end = if before == PartitionState::NONE { partition_end(partition) } else { class_start(partition, before) };
    for table in [Table::Entities, Table::Graves] {
        if cx.tables.tally(table, &start, &end)?.rows > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The earlier replicas that a partition has to be compared with: each with the least shared class. For a partition
/// that is served they are those that leave, and their classes those that have more replicas than nodes are left.
fn copy_sources<T>(cx: &Context<'_, T>, partition: Partition, is_served: bool) -> Vec<(NodeId, u8)> {
    let Some(own) = cx.routing.least_from(partition, cx.own) else { return Vec::new() };
    let depth = usize::from(cx.largest_class());
    let (current, next) = cx.routing.orders(partition);
    let next = next.unwrap_or(current);
    let least = if is_served { own.max(next.len() as u8 + 1) } else { own };
    let sources = current.iter().take(depth).enumerate();
    let sources = sources.filter(|(_, node)| **node != cx.own && cx.routing.is_living(**node));
    let sources = sources.filter(|(_, node)| !is_served || !next.contains(node));
    let sources = sources.map(|(place, node)| (*node, least.max(place as u8 + 1)));
    sources.filter(|(_, from)| usize::from(*from) <= depth).collect()
}
