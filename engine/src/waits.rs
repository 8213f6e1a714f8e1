//! Reports where threads wait, for each other or for the disk, to a watcher such as a profiler.
//!
//! Cost without a watcher: nothing where a lock is free, one relaxed load where a thread has to wait anyway.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Another thread, which holds a lock.
    Lock,
    /// Bytes of the log on their way to stable storage.
    Disk,
}

/// A function that must call `wait` once, on the same thread, and that may read the clock before and after. It must not
/// use a database.
pub type Watcher = fn(what: Wait, wait: &mut dyn FnMut());

static WATCHER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Reports all waits of all databases to `watcher` from now on; `None` stops it.
pub fn watch(watcher: Option<Watcher>) {
    WATCHER.store(watcher.map_or(std::ptr::null_mut(), |watcher| watcher as *mut ()), Ordering::Release);
}

/// Takes a lock: the result of `attempt` or, if the lock is held, that of `wait`, which is reported. Ignores poisoning:
/// see [`crate::sync`].
#[inline]
pub(crate) fn take<G>(attempt: Result<G, TryLockError<G>>, wait: impl FnOnce() -> LockResult<G>) -> G {
    match attempt {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => shown(Wait::Lock, wait).unwrap_or_else(PoisonError::into_inner),
    }
}

/// Waits, and reports it to the watcher.
#[cold]
pub(crate) fn shown<R>(what: Wait, wait: impl FnOnce() -> R) -> R {
    let watcher = WATCHER.load(Ordering::Acquire);
    if watcher.is_null() {
        return wait();
    }
    // SAFETY: only `watch` stores here, and it stores a `Watcher` or null.
    let watcher: Watcher = unsafe { std::mem::transmute(watcher) };
    let (mut wait, mut result) = (Some(wait), None);
    watcher(what, &mut || {
        if let Some(wait) = wait.take() {
            result = Some(wait());
        }
    });
    result.or_else(|| wait.map(|wait| wait())).expect("waited, by the watcher or without it")
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::waits::{Wait, shown, watch};

    static LOCKS: AtomicU64 = AtomicU64::new(0);
    static DISKS: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn waits_are_shown_once_and_only_while_watched() {
        let count = || (LOCKS.load(Ordering::Relaxed), DISKS.load(Ordering::Relaxed));
        assert_eq!(shown(Wait::Lock, || 1), 1);
        assert_eq!(count(), (0, 0));
        watch(Some(|what, wait| {
            wait();
            wait();
            if what == Wait::Lock { &LOCKS } else { &DISKS }.fetch_add(1, Ordering::Relaxed);
        }));
        assert_eq!((shown(Wait::Lock, || "a"), shown(Wait::Disk, || "b")), ("a", "b"));
        watch(Some(|_, _| {}));
        assert_eq!(shown(Wait::Disk, || 7), 7, "a watcher that forgets to wait does no harm");
        watch(None);
        // Tests of other modules may have waited meanwhile.
        let (locks, disks) = count();
        assert!(locks >= 1 && disks >= 1);
    }
}
