//! The epochs that open snapshots read. A page that a snapshot sees is copied before it changes, and freed when that
//! snapshot ends.

use std::collections::BTreeMap;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The epochs that snapshots read.
#[derive(Default)]
pub(crate) struct Registry {
    live: Mutex<BTreeMap<u64, usize>>,
    /// The newest of them; 0 if there are none. Changed under the lock.
    newest: AtomicU64,
    /// Whether they have kept writers from freeing something.
    holds_back: AtomicBool,
}

impl Registry {
    pub(crate) fn enter(&self, epoch: u64) {
        let mut live = self.live.lock();
        *live.entry(epoch).or_default() += 1;
        self.newest.fetch_max(epoch, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, epoch: u64) {
        let mut live = self.live.lock();
        if let Some(count) = live.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                live.remove(&epoch);
            }
        }
        self.newest.store(live.last_key_value().map_or(0, |(&epoch, _)| epoch), Ordering::SeqCst);
    }

    /// The newest registered epoch; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Notes that something could not be freed.
    pub(crate) fn note_held_back(&self) {
        self.holds_back.store(true, Ordering::Relaxed);
    }

    /// Whether something could not be freed since the last call.
    pub(crate) fn take_held_back(&self) -> bool {
        self.holds_back.load(Ordering::Relaxed) && self.holds_back.swap(false, Ordering::Relaxed)
    }

    /// All registered epochs, ascending.
    pub(crate) fn live(&self) -> Vec<u64> {
        self.live.lock().keys().copied().collect()
    }
}
