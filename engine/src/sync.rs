//! Locks, atomics and thread-locals for state that threads share in memory.
//!
//! They are those of the standard library or those of `shuttle`, which runs threads in chosen interleavings (feature
//! `shuttle`, for `tests/shuttle.rs` only: outside of its runs these locks panic). Waits for them are reported to the
//! watcher of [`waits`].
//!
//! No poisoning: a panic while a lock is held is a defect of this crate, and what it guards is checked by other means.
//!
//! Not here: the arena, the cache and run files, which keep the standard library's. They are used from under these
//! locks and never wait for one.

#[cfg(feature = "shuttle")]
use shuttle as platform;
#[cfg(not(feature = "shuttle"))]
use std as platform;
use std::sync::PoisonError;

use crate::waits;

pub(crate) use platform::sync::atomic;
pub(crate) use platform::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use platform::thread_local;

/// Sleeps, so that other threads may make progress.
#[expect(
    clippy::disallowed_methods,
    reason = "writes are slowed by a time, and memory that a flush has freed may be taken again before a waiter is awake"
)]
pub(crate) fn sleep(time: std::time::Duration) {
    platform::thread::sleep(time);
}

/// Waits for another thread's work under a lock.
#[derive(Debug, Default)]
pub(crate) struct Condvar(platform::sync::Condvar);

impl Condvar {
    /// Releases the lock, waits for a notification, and takes the lock again. May return without a notification.
    pub(crate) fn wait<'g, T>(&self, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(platform::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(platform::sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        waits::take(self.0.try_lock(), || self.0.lock())
    }

    /// Whether a thread holds the lock now.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.try_lock().is_err()
    }
}

#[derive(Default)]
pub(crate) struct RwLock<T>(platform::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        RwLock(platform::sync::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        waits::take(self.0.try_read(), || self.0.read())
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        waits::take(self.0.try_write(), || self.0.write())
    }
}
