//! A machine of a simulation: its process, its disk and its clock.

use std::collections::BTreeMap;

use super::plan::Plan;
use super::store::Store;
use crate::ids::{NodeId, Now, Version};
use crate::node::Node;

/// Milliseconds since 1970 when a simulation begins.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No node was ever here, or it has left.
    Empty,
    Up,
    Down,
    /// The directory is gone; it waits for a new id.
    Erased,
}

/// A machine.
#[derive(Debug)]
pub struct Slot {
    pub(super) place: Place,
    /// The node that runs, or is stored, here.
    pub id: NodeId,
    /// The process, while it runs.
    pub node: Option<Node>,
    /// Its disk.
    pub store: Store,
    /// Counts processes, so that what an earlier one left does nothing.
    pub(super) life: u64,
    pub(super) store_id: u64,
    pub(super) skew_ms: i64,
    /// On top of the skew, for a while.
    pub(super) wrong_ms: i64,
    /// By how much the wall clock was wrong, from which moments on.
    walls: Vec<(u64, i64)>,
    pub(super) paused_until_us: u64,
    pub(super) slow_us: u64,
    pub(super) is_deaf: bool,
    pub(super) wakes_at_us: u64,
    /// Commits that are on their way to the disk end in order.
    pub(super) synced_at_us: u64,
    pub(super) last_seen: BTreeMap<u8, Option<Version>>,
}

impl Slot {
    /// Machine number `number` of a plan, before anything runs.
    pub(super) fn new(plan: &Plan, number: usize) -> Slot {
        let skew_ms = plan.skews_ms.get(number).copied().unwrap_or(0);
        Slot {
            place: if number < plan.nodes { Place::Down } else { Place::Empty },
            id: NodeId(number as u16),
            node: None,
            store: Store::new(plan.seed, plan.has_engine),
            life: 0,
            store_id: number as u64 + 1,
            skew_ms,
            wrong_ms: 0,
            walls: vec![(0, skew_ms)],
            paused_until_us: 0,
            slow_us: 0,
            is_deaf: false,
            wakes_at_us: u64::MAX,
            synced_at_us: 0,
            last_seen: BTreeMap::new(),
        }
    }

    /// Whether this process of it still runs.
    pub(super) fn runs(&self, life: u64) -> bool {
        self.life == life && self.node.is_some()
    }

    /// What its clocks show.
    pub(super) fn now(&self, now_us: u64) -> Now {
        let ms = now_us / 1000;
        let wall = (BEGIN_MS + ms) as i64 + self.skew_ms + self.wrong_ms;
        Now { ticks_ms: ms, wall_ms: wall.max(0) as u64 }
    }

    /// Notes that its wall clock was set.
    pub(super) fn note_wall(&mut self, now_us: u64) {
        self.walls.push((now_us, self.skew_ms + self.wrong_ms));
    }

    /// What its wall clock showed between two moments: the least and the most.
    pub(super) fn walls(&self, from_us: u64, to_us: u64) -> (u64, u64) {
        let mut range = (u64::MAX, 0);
        for (place, (begin_us, wrong_ms)) in self.walls.iter().enumerate() {
            let end_us = self.walls.get(place + 1).map_or(u64::MAX, |(next_us, _)| *next_us);
            let (first_us, last_us) = (from_us.max(*begin_us), to_us.min(end_us));
            if first_us <= last_us {
                let wall_ms = |us: u64| ((BEGIN_MS + us / 1000) as i64 + wrong_ms).max(0) as u64;
                range = (range.0.min(wall_ms(first_us)), range.1.max(wall_ms(last_us)));
            }
        }
        range
    }
}
