//! The background threads: waking and stopping them. `maintenance/background.rs` has their work.

use crate::tree::Arena;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};

/// The running threads. If it is dropped and they were not stopped, it leaves them alone: a process that was forked has
/// none, and their handles name nothing in it.
pub(crate) struct Threads {
    keeper: ManuallyDrop<JoinHandle<()>>,
    /// Merges runs, which takes too long for the keeper.
    compactor: ManuallyDrop<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    arena: Arc<Arena>,
}

impl Threads {
    /// Holds the threads that were started.
    pub(crate) fn new(
        keeper: JoinHandle<()>,
        compactor: Option<JoinHandle<()>>,
        stop: Arc<AtomicBool>,
        arena: Arc<Arena>,
    ) -> Threads {
        Threads { keeper: ManuallyDrop::new(keeper), compactor: ManuallyDrop::new(compactor), stop, arena }
    }

    pub(crate) fn wake(&self) {
        self.waker().unpark();
    }

    /// Wakes the compactor: there are more runs.
    pub(crate) fn wake_compactor(&self) {
        if let Some(compactor) = &*self.compactor {
            compactor.thread().unpark();
        }
    }

    fn waker(&self) -> &Thread {
        self.keeper.thread()
    }

    /// Stops the threads, and waits for them to end.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.arena.set_prefaulter(None);
        self.wake();
        self.wake_compactor();
        let (keeper, compactor) = (ManuallyDrop::into_inner(self.keeper), ManuallyDrop::into_inner(self.compactor));
        for thread in [Some(keeper), compactor].into_iter().flatten() {
            if std::thread::current().id() != thread.thread().id() {
                let _ = thread.join();
            }
        }
    }
}
