//! The background thread: memory and log files ready ahead of need, checkpoints when the log has grown, memory of ended snapshots freed.
//!
//! It is a convenience: everything works without it, only later or in the caller's time. It holds no lock while it waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use crate::db::Shared;
use crate::failures::{Task, unpanicked};
use crate::tree::Arena;

/// If nothing was committed for so long, or nothing written to runs for so many times as long, the runs that there are may as well be merged.
const REST: Duration = Duration::from_secs(1);
const RESTS_MAX: u32 = 30;

/// The running threads.
pub(crate) struct Keeper {
    thread: JoinHandle<()>,
    /// Merges runs, which takes longer than anything else may wait.
    compactor: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    arena: Arc<Arena>,
}

impl Keeper {
    /// Starts the thread. `None` if the system has no thread to give: then there is no keeper.
    pub(crate) fn start(shared: &Arc<Shared>) -> Option<Keeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped, arena) = (Arc::downgrade(shared), stop.clone(), shared.arena.clone());
        let thread =
            std::thread::Builder::new().name("quipu-keeper".into()).spawn(move || run(&weak, &stopped, &arena)).ok()?;
        shared.arena.set_prefaulter(Some(thread.thread().clone()));
        let (weak, stopped) = (Arc::downgrade(shared), stop.clone());
        let compactor =
            std::thread::Builder::new().name("quipu-compactor".into()).spawn(move || compact(&weak, &stopped));
        Some(Keeper { thread, compactor: compactor.ok(), stop, arena: shared.arena.clone() })
    }

    pub(crate) fn wake(&self) {
        self.waker().unpark();
    }

    /// There are more runs than before.
    pub(crate) fn wake_compactor(&self) {
        if let Some(compactor) = &self.compactor {
            compactor.thread().unpark();
        }
    }

    fn waker(&self) -> &Thread {
        self.thread.thread()
    }

    /// Ends the thread, and waits for what it is doing.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.arena.set_prefaulter(None);
        self.wake();
        self.wake_compactor();
        for thread in [Some(self.thread), self.compactor].into_iter().flatten() {
            if std::thread::current().id() != thread.thread().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// One turn of the keeper: what ended snapshots held back is freed, and what is due is done. What fails is noted, and tried again in a later turn.
    pub(crate) fn keep(self: &Arc<Self>) {
        self.reclaim_if_idle();
        self.resolve_due();
        // The error is noted where it happened.
        let _ = self.flush_due();
        if self.checkpoint_is_due() {
            let taken = unpanicked(|| self.checkpoint(&mut |_| ()).map(|_| ()));
            self.note_checkpoint(taken.is_ok());
            self.failures.note(Task::Checkpoint, None, taken.as_ref().copied());
        }
    }
}

#[cfg(feature = "shuttle")]
impl crate::db::Db {
    /// Does what the background threads do in a turn each, for tests that choose whose turn it is.
    #[doc(hidden)]
    pub fn do_due_work(&self, is_at_rest: bool) {
        self.shared.keep();
        self.shared.compact_if_due(is_at_rest);
    }
}

fn run(shared: &Weak<Shared>, stop: &AtomicBool, arena: &Arena) {
    loop {
        while !stop.load(Ordering::SeqCst) && arena.prefault() {
            prepare_log(shared);
        }
        prepare_log(shared);
        let Some(shared) = shared.upgrade() else { return };
        shared.keep();
        drop(shared);
        if stop.load(Ordering::SeqCst) {
            return;
        }
        std::thread::park();
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// The compactor's thread.
fn compact(shared: &Weak<Shared>, stop: &AtomicBool) {
    let merge = |is_at_rest| Some(shared.upgrade()?.compact_if_due(is_at_rest));
    // Runs written, and commits.
    let progress = || {
        let shared = shared.upgrade()?;
        let sequence = shared.versions.read().sequence;
        Some((shared.checkpoints.last_number(), sequence))
    };
    let mut rests = 0;
    let mut last = None;
    while !stop.load(Ordering::SeqCst) {
        let Some(has_merged) = merge(false) else { return };
        if has_merged {
            continue;
        }
        let Some(now) = progress() else { return };
        rests = if last.is_some_and(|(runs, _)| runs == now.0) { rests + 1 } else { 0 };
        let is_at_rest = last == Some(now) || rests >= RESTS_MAX;
        last = Some(now);
        if is_at_rest && merge(true) == Some(false) {
            last = None;
            std::thread::park();
        } else if !is_at_rest && !stop.load(Ordering::SeqCst) {
            std::thread::park_timeout(REST);
        }
    }
}

fn prepare_log(shared: &Weak<Shared>) {
    if let Some(shared) = shared.upgrade()
        && let Some(log) = &shared.log
    {
        // A failure shows again, with its reason, to the commit that needs the file.
        shared.failures.note(Task::PrepareLog, None, log.prepare_spare().as_ref().map(|_| ()));
    }
}
