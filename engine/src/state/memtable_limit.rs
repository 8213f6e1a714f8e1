//! The limit of the memory that rows take before they are written to runs, and whether writers have to make room.
//!
//! Not here: what makes room (`maintenance/memory`).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::tree::Arena;

/// The limit, and whether it is near, as writers see it.
pub(crate) struct MemtableLimit {
    /// [`Options::memtable_bytes`](crate::Options::memtable_bytes), which can be changed.
    bytes_max: AtomicU64,
    is_short: AtomicBool,
}

impl MemtableLimit {
    pub(crate) fn new(bytes_max: u64) -> MemtableLimit {
        MemtableLimit { bytes_max: AtomicU64::new(bytes_max), is_short: AtomicBool::new(false) }
    }

    /// Bytes that rows may take before they are written to runs; 0 if all stay in memory.
    #[inline]
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Changes [`MemtableLimit::bytes_max`].
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Whether writers make room before they write.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Sets [`MemtableLimit::is_short`].
    pub(crate) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Checks how much memory is in use, and has writers make room if it is much. Called in the writer's turn, now and
    /// then.
    pub(crate) fn note(&self, arena: &Arena) {
        if arena.bytes_used() > self.bytes_max() / 4 * 3 {
            self.set_short(true);
        }
    }
}
