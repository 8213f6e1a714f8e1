//! Locks, atomics and thread-locals of everything that threads share in memory: those of the standard library, or those of `shuttle`, which runs threads in
//! chosen interleavings (feature `shuttle`, for `tests/shuttle.rs` only: outside of its runs these locks panic).
//!
//! Waiting for one is shown to who watches [`waits`].
//!
//! No poisoning: a panic while a lock is held is a defect of this crate, and what it guards is checked by other means.
//!
//! Not here: the log and the arena, which keep the standard library's. They are used from under these locks and never wait for one.

#[cfg(feature = "shuttle")]
use shuttle as platform;
#[cfg(not(feature = "shuttle"))]
use std as platform;

use std::sync::{PoisonError, TryLockError};

use crate::waits::{self, Wait};

pub(crate) use platform::sync::atomic;
pub(crate) use platform::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use platform::thread_local;

/// What an attempt at a lock has got; `None` if somebody holds it.
#[inline]
fn unless_held<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Default)]
pub(crate) struct Mutex<T>(platform::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(platform::sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        unless_held(self.0.try_lock())
            .unwrap_or_else(|| waits::shown(Wait::Lock, || self.0.lock().unwrap_or_else(PoisonError::into_inner)))
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
        unless_held(self.0.try_read())
            .unwrap_or_else(|| waits::shown(Wait::Lock, || self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        unless_held(self.0.try_write())
            .unwrap_or_else(|| waits::shown(Wait::Lock, || self.0.write().unwrap_or_else(PoisonError::into_inner)))
    }
}
