//! The background threads: waking and stopping them. `maintenance/background.rs` has their work.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::log::Lsn;
use crate::state::registry::Registry;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::tree::Arena;

/// The background threads of an open database, as writers see them.
#[derive(Default)]
pub(crate) struct Background {
    /// `None` if there are none.
    threads: Mutex<Option<Threads>>,
    /// The position in the log from which the next commit wakes the background thread.
    wakes_at: AtomicU64,
    /// The database is closing: long background work must stop.
    is_stopping: AtomicBool,
}

impl Background {
    /// Puts the threads in place that were started.
    pub(crate) fn set(&self, threads: Option<Threads>) {
        *self.threads.lock() = threads;
    }

    /// Wakes the background thread. Returns whether there is one.
    pub(crate) fn wake(&self) -> bool {
        self.threads.lock().as_ref().map(Threads::wake).is_some()
    }

    /// Wakes the compactor, if there is one: there are more runs.
    pub(crate) fn wake_compactor(&self) {
        if let Some(threads) = &*self.threads.lock() {
            threads.wake_compactor();
        }
    }

    /// Wakes the background thread if snapshots, all of which have ended, have held something back. Only that is worth
    /// a wake-up: commits wake it as log and memory grow.
    pub(crate) fn wake_to_reclaim(&self, registry: &Registry) {
        if registry.newest() == 0 && registry.take_held_back() {
            self.wake();
        }
    }

    /// Whether a commit that ends here in the log is to wake the background thread.
    #[inline]
    pub(crate) fn is_due_at(&self, lsn: Lsn) -> bool {
        lsn.0 >= self.wakes_at.load(Ordering::Relaxed)
    }

    /// Sets from where in the log a commit wakes the background thread.
    pub(crate) fn wake_at(&self, lsn: Lsn) {
        self.wakes_at.store(lsn.0, Ordering::Relaxed);
    }

    /// Whether long background work must stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Stops the threads, and waits for them to end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let threads = self.threads.lock().take();
        if let Some(threads) = threads {
            threads.stop();
        }
        // Tables may outlive the threads, and be merged on request.
        self.is_stopping.store(false, Ordering::SeqCst);
    }
}

/// The running threads. If it is dropped and they were not stopped, it leaves them alone: a process that was forked has
/// none, and their handles name nothing in it.
pub(crate) struct Threads {
    background: ManuallyDrop<JoinHandle<()>>,
    /// Merges runs, which takes too long for the other.
    compactor: ManuallyDrop<Option<JoinHandle<()>>>,
    stop: Arc<std::sync::atomic::AtomicBool>,
    arena: Arc<Arena>,
}

impl Threads {
    /// Holds the threads that were started.
    pub(crate) fn new(
        background: JoinHandle<()>,
        compactor: Option<JoinHandle<()>>,
        stop: Arc<std::sync::atomic::AtomicBool>,
        arena: Arc<Arena>,
    ) -> Threads {
        Threads { background: ManuallyDrop::new(background), compactor: ManuallyDrop::new(compactor), stop, arena }
    }

    fn wake(&self) {
        self.background.thread().unpark();
    }

    fn wake_compactor(&self) {
        if let Some(compactor) = &*self.compactor {
            compactor.thread().unpark();
        }
    }

    /// Stops the threads, and waits for them to end.
    fn stop(self) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        self.arena.set_prefaulter(None);
        self.wake();
        self.wake_compactor();
        let (background, compactor) =
            (ManuallyDrop::into_inner(self.background), ManuallyDrop::into_inner(self.compactor));
        for thread in [Some(background), compactor].into_iter().flatten() {
            if std::thread::current().id() != thread.thread().id() {
                let _ = thread.join();
            }
        }
    }
}
