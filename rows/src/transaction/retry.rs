//! Work that is done again after a conflict.

use std::sync::Arc;
use std::time::Duration;

use quipu::{ErrorKind, Result};
use rand_core::Rng;

use crate::catalogue::shared::Shared;
use crate::transaction::RowTransaction;
use crate::transaction::isolation::Isolation;

/// How often, and after what waits, work is done again that has met a conflict.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// How far the transactions are kept apart. Default: serializable.
    pub isolation: Isolation,
    /// Optimistic attempts at most. Default: 10.
    pub attempts: u32,
    /// The longest wait before the second attempt; before each further one it doubles. Default: 100 us.
    pub first_wait: Duration,
    /// The longest wait of all. Default: 20 ms.
    pub wait_max: Duration,
    /// Whether the work is done as the single writer, which meets no conflict, when the attempts are used up. Default:
    /// true.
    pub ends_alone: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            isolation: Isolation::Serializable,
            attempts: 10,
            first_wait: Duration::from_micros(100),
            wait_max: Duration::from_millis(20),
            ends_alone: true,
        }
    }
}

impl Retry {
    /// The wait before an attempt, counted from 1: a random part of a span that doubles each time, so that those who
    /// met each other do not meet again.
    pub(crate) fn wait_before(&self, attempt: u32, random: &mut impl Rng) -> Duration {
        let doubled = 1u32.checked_shl(attempt.saturating_sub(2)).unwrap_or(u32::MAX);
        let longest = self.first_wait.saturating_mul(doubled).min(self.wait_max);
        longest.mul_f64(random.next_u32() as f64 / f64::from(u32::MAX))
    }

    /// Runs `work` in an optimistic transaction and commits it, again after a conflict; `before` is told of each
    /// attempt after the first.
    pub(crate) fn run_telling<T>(
        &self,
        shared: &Arc<Shared>,
        before: &mut dyn FnMut(u32),
        mut work: impl FnMut(&RowTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        for attempt in 1..=self.attempts {
            if attempt > 1 {
                before(attempt);
            }
            let transaction = RowTransaction::optimistic(Arc::clone(shared), self.isolation);
            let result = work(&transaction).and_then(|result| transaction.commit().map(|()| result));
            match result {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    if attempt == self.attempts && !self.ends_alone {
                        return Err(error.context(format_args!("after {attempt} attempts")));
                    }
                }
                result => return result,
            }
        }
        shared.write(None, work)
    }
}
