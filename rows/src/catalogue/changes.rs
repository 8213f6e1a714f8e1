//! Changes of definitions: one at a time, and how many there were.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The changes of definitions since a database was opened.
#[derive(Default)]
pub(crate) struct Changes {
    /// One change of a definition at a time.
    turn: Mutex<()>,
    count: AtomicU64,
    unnamed: AtomicU32,
    own: AtomicU64,
}

impl Changes {
    /// The turn to change definitions.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often definitions have changed so far.
    #[inline]
    pub(crate) fn made(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Notes that a definition has changed.
    pub(crate) fn note(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// A number for what an open transaction has made of the definitions. No commit of the engine has it, and none was
    /// told before.
    pub(crate) fn next_own(&self) -> u64 {
        1 << 63 | self.own.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts changes whose trees no definition names yet.
    pub(crate) fn unnamed(&self) -> &AtomicU32 {
        &self.unnamed
    }

    /// Whether a definition is being changed now, or rows are loaded into trees that no definition names yet.
    pub(crate) fn go_on(&self) -> bool {
        self.turn.try_lock().is_err() || self.unnamed.load(Ordering::Relaxed) > 0
    }
}
