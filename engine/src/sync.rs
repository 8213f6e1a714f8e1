//! Locks, atomics and thread-locals for state that threads share in memory.
//!
//! They are those of the standard library, and one of `parking_lot`; or those of `shuttle`, which runs threads in
//! chosen interleavings (feature `shuttle`, for `tests/shuttle.rs` only: outside of its runs these locks panic). Waits
//! for them are reported to the watcher of [`waits`].
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
}

/// A lock for turns that follow each other closely: no thread is overtaken for much longer than a millisecond.
///
/// A plain lock is free for the thread that asks first, and a thread that has just released it asks before one that has
/// yet to wake up: a loop of writes would keep out flushes and other writers for seconds. This one is `parking_lot`'s,
/// which hands itself to the thread that has waited longest, if it has not done so for a while.
#[derive(Debug, Default)]
pub(crate) struct FairMutex<T>(fair::Mutex<T>);

#[cfg(not(feature = "shuttle"))]
use parking_lot as fair;
#[cfg(feature = "shuttle")]
use shuttle::sync as fair;

pub(crate) use fair::MutexGuard as FairGuard;

/// How often a thread asks again for a lock, after others have run, before it sleeps.
#[cfg(not(feature = "shuttle"))]
const YIELDS: usize = 4;

impl<T> FairMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        FairMutex(fair::Mutex::new(value))
    }

    #[cfg(not(feature = "shuttle"))]
    #[inline]
    pub(crate) fn lock(&self) -> FairGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| waits::shown(waits::Wait::Lock, || self.lock_in_turn()))
    }

    /// Lets other threads run a few times before it sleeps: a thread that sleeps has to be woken by a system call.
    ///
    /// The lock does that by itself only until one thread sleeps; from then on all would, though a turn takes less time
    /// than to wake one of them.
    #[cfg(not(feature = "shuttle"))]
    fn lock_in_turn(&self) -> FairGuard<'_, T> {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
        }
        self.0.lock()
    }

    #[cfg(feature = "shuttle")]
    pub(crate) fn lock(&self) -> FairGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits no longer than this; under a scheduler of tests, not at all.
    pub(crate) fn lock_within(&self, wait: std::time::Duration) -> Option<FairGuard<'_, T>> {
        #[cfg(feature = "shuttle")]
        return self.0.try_lock().ok().filter(|_| !wait.is_zero());
        #[cfg(not(feature = "shuttle"))]
        self.0.try_lock_for(wait)
    }

    /// Whether a thread holds the lock now.
    pub(crate) fn is_taken(&self) -> bool {
        #[cfg(feature = "shuttle")]
        return self.0.try_lock().is_err();
        #[cfg(not(feature = "shuttle"))]
        self.0.is_locked()
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::FairMutex;

    /// With a plain mutex the loop goes on for minutes.
    #[test]
    fn a_loop_of_turns_lets_others_have_theirs() {
        let (lock, done, turns) = (FairMutex::new(0u64), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut guard = lock.lock();
                    for _ in 0..20_000 {
                        *guard = std::hint::black_box(*guard) + 1;
                    }
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            let others = [(); 3].map(|()| {
                scope.spawn(|| {
                    for _ in 0..50 {
                        *lock.lock() += 1;
                        std::thread::yield_now();
                    }
                })
            });
            for other in others {
                other.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.lock(), turns.load(Ordering::Relaxed) * 20_000 + 150);
        assert!(!lock.is_taken());
    }
}
