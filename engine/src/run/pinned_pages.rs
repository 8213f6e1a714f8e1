//! Pages that a file holds on request, and the total bytes that all files hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::FixedState;

use super::loaded::Loaded;

/// Bytes of pages that runs hold.
#[derive(Default)]
pub(crate) struct Tier {
    bytes: AtomicU64,
}

impl Tier {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` more if the tier then has no more than `most`. Returns whether it did.
    pub(crate) fn take(&self, bytes: u64, most: u64) -> bool {
        let taken = |now: u64| now.checked_add(bytes).filter(|&then| then <= most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Gives back `bytes` that were taken.
    pub(crate) fn give(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Pages of one file by their offsets.
pub(crate) struct Held {
    pub(crate) pages: HashMap<u64, Arc<Loaded>, FixedState>,
    pub(crate) bytes: u64,
    pub(crate) tier: Arc<Tier>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tier.give(self.bytes);
    }
}

/// The pages that a file of a run holds.
#[derive(Default)]
pub(crate) struct PinnedPages {
    /// Spares most runs, which hold none, the lock.
    has_any: AtomicBool,
    held: RwLock<Option<Held>>,
}

impl PinnedPages {
    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<Arc<Loaded>> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref()?.pages.get(&offset).cloned()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.held.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |held| held.bytes)
    }

    pub(crate) fn set(&self, held: Option<Held>) {
        self.has_any.store(held.is_some(), Ordering::Relaxed);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
    }
}
