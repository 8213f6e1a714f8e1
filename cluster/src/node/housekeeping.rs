//! Removes expired values, and tombstones below the horizon, some in each tick.
//!
//! Not here: how far the horizon is raised (`repair`), and the removal of rows (`replica/store`).

use std::collections::BTreeMap;

use quipu::Result;

use super::context::Context;
use super::waiting::Timer;
use crate::clock::time_of_ms;
use crate::ids::Partition;
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

    /// Removes a little of what is due.
    pub(super) fn remove_some<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        let rows = cx.limits.housekeeping_rows;
        let has_more = cx.replica.expire(cx.tables, cx.due_ms(), rows)?;
        if cx.mutations.drops_graves_early() {
            for partition in cx.routing.partitions().collect::<Vec<_>>() {
                let time = time_of_ms(cx.now.wall_ms);
                cx.replica.change(cx.tables, partition, |state| {
                    (state.horizon, state.horizon_from_max) = (time, u8::MAX);
                })?;
                self.bury(partition);
            }
        }
        if let Some((partition, after)) = self.burials.pop_first()
            && let Some(next) = cx.replica.bury(cx.tables, partition, &after, (rows, cx.now.wall_ms))?
        {
            self.burials.insert(partition, next);
        }
        let is_busy = has_more || !self.burials.is_empty();
        cx.set_timer(if is_busy { 1 } else { EVERY_MS }, Timer::Housekeeping);
        Ok(())
    }
}
