//! What a node removes by itself: values that have expired, tombstones below the horizon.

use std::collections::BTreeMap;

use quipu::Result;

use super::{Node, Timer, Turn};
use crate::clock::time_of_ms;
use crate::ids::{Now, Partition};
use crate::tables::Tables;

/// How often it is looked for what is due.
const EVERY_MS: u64 = 100;

/// What is to be removed.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    /// Partitions whose tombstones are looked through, and where to go on.
    burials: BTreeMap<Partition, Vec<u8>>,
}

impl Housekeeping {
    /// The horizon of a partition was raised.
    pub(super) fn bury(&mut self, partition: Partition) {
        self.burials.insert(partition, Vec::new());
    }
}

impl Node {
    /// Up to which deadline values have expired: none, while this node's clock is known to be far ahead.
    pub(super) fn due_ms(&self, now: Now) -> u64 {
        if self.can_stamp(now) { now.wall_ms } else { 0 }
    }

    pub(super) fn keep_house<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        let rows = self.limits.housekeeping_rows;
        let has_more = self.replica.expire(turn.tables, self.due_ms(turn.now), rows)?;
        if self.mutations.drops_graves_early() {
            for partition in self.routing.partitions().collect::<Vec<_>>() {
                let time = time_of_ms(turn.now.wall_ms);
                self.replica.change(turn.tables, partition, |state| {
                    (state.horizon, state.horizon_from_max) = (time, u8::MAX);
                })?;
                self.housekeeping.bury(partition);
            }
        }
        if let Some((partition, after)) = self.housekeeping.burials.pop_first()
            && let Some(next) = self.replica.bury(turn.tables, partition, &after, (rows, turn.now.wall_ms))?
        {
            self.housekeeping.burials.insert(partition, next);
        }
        let is_busy = has_more || !self.housekeeping.burials.is_empty();
        self.set_timer(turn.now.ticks_ms + if is_busy { 1 } else { EVERY_MS }, Timer::Housekeeping);
        Ok(())
    }
}
