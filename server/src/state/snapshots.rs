//! The snapshots that clients keep, so that many commands can read at the same moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu::Snapshot;

/// Snapshots at a time.
pub const SNAPSHOTS_MAX: usize = 1024;

/// A snapshot that a client keeps.
pub struct Held {
    /// The data as they were.
    pub snapshot: Snapshot,
    /// When it was taken, in milliseconds since 1970.
    pub now_ms: u64,
    /// When it ends, likewise.
    pub ends_ms: u64,
}

/// The snapshots that clients have taken, by number.
#[derive(Default)]
pub struct Snapshots {
    held: Mutex<Numbered>,
}

struct Numbered {
    /// Begins anywhere, so that the number of a snapshot names none of the next process.
    last: u64,
    by_number: HashMap<u64, Arc<Held>>,
}

impl Default for Numbered {
    fn default() -> Self {
        // Small enough for a client whose numbers are floating.
        Numbered { last: rand::random::<u64>() >> 12, by_number: HashMap::new() }
    }
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the next snapshot the number after `last`, for streams of commands that name it.
    pub fn number_from(&self, last: u64) {
        self.lock().last = last;
    }

    /// Keeps a snapshot until a moment. Returns its number; `None` if there are too many.
    pub fn keep(&self, snapshot: Snapshot, now_ms: u64, ends_ms: u64) -> Option<u64> {
        let mut held = self.lock();
        held.by_number.retain(|_, held| held.ends_ms > now_ms);
        if held.by_number.len() >= SNAPSHOTS_MAX {
            return None;
        }
        held.last += 1;
        let number = held.last;
        held.by_number.insert(number, Arc::new(Held { snapshot, now_ms, ends_ms }));
        Some(number)
    }

    /// The snapshot of a number, if its time is not over.
    pub fn get(&self, number: u64, now_ms: u64) -> Option<Arc<Held>> {
        self.lock().by_number.get(&number).filter(|held| held.ends_ms > now_ms).cloned()
    }

    /// Ends a snapshot; says whether there was one.
    pub fn release(&self, number: u64) -> bool {
        self.lock().by_number.remove(&number).is_some()
    }

    /// Ends those whose time is over.
    pub fn end_due(&self, now_ms: u64) {
        self.lock().by_number.retain(|_, held| held.ends_ms > now_ms);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
