//! Locks, atomics and thread-locals of everything that threads share in memory: those of the standard library, or those of `shuttle`, which runs threads in
//! chosen interleavings (feature `shuttle`, for `tests/shuttle.rs` only: outside of its runs these locks panic).
//!
//! Waiting for one is shown to who watches [`waits`].
//!
//! No poisoning: a panic while a lock is held is a defect of this crate, and what it guards is checked by other means.
//!
//! Not here: the arena, the cache and run files, which keep the standard library's. They are used from under these locks and never wait for one.

#[cfg(feature = "shuttle")]
use shuttle as platform;
#[cfg(not(feature = "shuttle"))]
use std as platform;
use std::sync::PoisonError;

use crate::waits;

pub(crate) use platform::sync::atomic;
pub(crate) use platform::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use platform::thread_local;

/// Lets some time pass, in which others may get on.
#[expect(
    clippy::disallowed_methods,
    reason = "writes are slowed by a time, and memory that a flush has freed may be taken again before a waiter is awake"
)]
pub(crate) fn sleep(time: std::time::Duration) {
    platform::thread::sleep(time);
}

/// Waits for what another thread does under a lock.
#[derive(Debug, Default)]
pub(crate) struct Condvar(platform::sync::Condvar);

impl Condvar {
    /// Gives the lock back, waits to be told, and takes it again. May return untold.
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

    /// Whether somebody has it now.
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
