//! Draws the next thread from a seed. How readily the running thread is interrupted is drawn too: from at every step to
//! at hardly any.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

pub(crate) struct Sticky {
    seed: u64,
    has_run: bool,
    stays_percent: u32,
    random: StdRng,
}

impl Sticky {
    pub(crate) fn new(seed: u64) -> Sticky {
        let mut random = StdRng::seed_from_u64(seed);
        let stays_percent = [0, 50, 80, 95, 99][random.random_range(0..5)];
        Sticky { seed, has_run: false, stays_percent, random }
    }
}

impl Scheduler for Sticky {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.has_run, true)).then(|| Schedule::new(self.seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let current = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
        if let Some(current) = current {
            if !is_yielding && self.random.random_range(0..100) < self.stays_percent {
                return Some(current);
            }
            if is_yielding && runnable.len() > 1 {
                let others: Vec<TaskId> = runnable.iter().map(|task| task.id()).filter(|id| *id != current).collect();
                return Some(others[self.random.random_range(0..others.len())]);
            }
        }
        Some(runnable[self.random.random_range(0..runnable.len())].id())
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}
