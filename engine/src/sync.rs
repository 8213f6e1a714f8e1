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

use crate::waits::{self, Wait};

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

/// A lock for turns that follow each other closely: a thread that has waited for a while goes before those that come.
///
/// A plain lock is free for whoever asks first, and a thread that has just released it asks before one that has yet to
/// wake up. A loop of writes would keep out flushes and other writers for ever. To hand each turn to the next in line
/// would cost a switch of threads a turn, so that is done for waits of [`LONG_WAIT_NANOS`] only. Idea: the eventual
/// fairness of the locks of `parking_lot`, and of WebKit's before it.
///
/// Cost: one relaxed load more than a [`Mutex`] while it is free.
#[derive(Debug, Default)]
pub(crate) struct FairMutex<T> {
    guarded: platform::sync::Mutex<T>,
    /// Held while its thread waits for `guarded`. Those that wait for a place in line do not race for `guarded`.
    front: platform::sync::Mutex<()>,
    /// When the thread in front began to wait, by [`monotonic_nanos`]; 0: nobody waits.
    waits_since: atomic::AtomicU64,
}

/// How long others may pass a thread that waits for a [`FairMutex`].
const LONG_WAIT_NANOS: u64 = 1_000_000;

impl<T> FairMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        FairMutex {
            guarded: platform::sync::Mutex::new(value),
            front: platform::sync::Mutex::new(()),
            waits_since: atomic::AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let since = self.waits_since.load(atomic::Ordering::Relaxed);
        if (since == 0 || !is_long(since))
            && let Some(guard) = waits::attempt(self.guarded.try_lock())
        {
            return guard;
        }
        waits::shown(Wait::Lock, || self.wait_in_line())
    }

    #[cold]
    fn wait_in_line(&self) -> MutexGuard<'_, T> {
        let since = monotonic_nanos();
        let front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        self.waits_since.store(since, atomic::Ordering::Relaxed);
        let guard = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        self.waits_since.store(0, atomic::Ordering::Relaxed);
        drop(front);
        guard
    }

    /// Whether a thread holds the lock now.
    pub(crate) fn is_taken(&self) -> bool {
        self.guarded.try_lock().is_err()
    }
}

/// Whether a wait since that time is to end before others begin.
#[cold]
fn is_long(since: u64) -> bool {
    cfg!(feature = "shuttle") || monotonic_nanos().saturating_sub(since) >= LONG_WAIT_NANOS
}

/// Nanoseconds since the first call, and one.
#[expect(clippy::disallowed_methods, reason = "decides who goes first, never what a turn does")]
fn monotonic_nanos() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1
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
