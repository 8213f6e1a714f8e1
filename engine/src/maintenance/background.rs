//! The background threads: they prepare memory and log files, and do flushes, checkpoints and merges.
//!
//! They also free the memory of ended snapshots. Everything works without them, only later or in the caller's time.
//! They hold no lock while they wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::state::failures::{Task, unpanicked};
use crate::state::shared::Shared;
use crate::state::threads::Threads;
use crate::sync::sleep;
use crate::tree::Arena;

/// Runs may be merged at rest: after no commit for this long, or nothing written to runs for `RESTS_MAX` times as long.
const REST: Duration = Duration::from_secs(1);
const RESTS_MAX: u32 = 30;

/// Starts the threads. `None` if the system cannot start a thread: then there are none.
pub(crate) fn start(shared: &Arc<Shared>) -> Option<Threads> {
    let stop = Arc::new(AtomicBool::new(false));
    let (weak, stopped, arena) = (Arc::downgrade(shared), stop.clone(), shared.arena.clone());
    let thread =
        std::thread::Builder::new().name("quipu-keeper".into()).spawn(move || run(&weak, &stopped, &arena)).ok()?;
    shared.arena.set_prefaulter(Some(thread.thread().clone()));
    let (weak, stopped) = (Arc::downgrade(shared), stop.clone());
    let compactor = std::thread::Builder::new().name("quipu-compactor".into()).spawn(move || compact(&weak, &stopped));
    Some(Threads::new(thread, compactor.ok(), stop, shared.arena.clone()))
}

impl Shared {
    /// One round of the keeper: frees what ended snapshots held back, and does what is due. Failures are recorded, and
    /// tried again in a later round. Returns whether rows could be written that were to be.
    pub(crate) fn keep(self: &Arc<Self>) -> bool {
        self.reclaim_if_idle();
        self.resolve_due();
        // The error was recorded where it happened.
        let is_flushed = self.flush_due().is_ok();
        if self.checkpoint_is_due() {
            let taken = unpanicked(|| self.checkpoint(&mut |_| ()).map(|_| ()));
            self.note_checkpoint(taken.is_ok());
            self.failures.note(Task::Checkpoint, None, taken.as_ref().copied());
        }
        is_flushed
    }
}

/// How long the keeper rests after rows could not be written to disk: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Rests for so long, unless it is to stop.
fn rest(pause: Duration, stop: &AtomicBool) {
    let mut rested = Duration::ZERO;
    while rested < pause && !stop.load(Ordering::SeqCst) {
        sleep(PAUSE_MIN);
        rested += PAUSE_MIN;
    }
}

fn run(shared: &Weak<Shared>, stop: &AtomicBool, arena: &Arena) {
    let mut pause = Duration::ZERO;
    loop {
        while !stop.load(Ordering::SeqCst) && arena.prefault() {
            prepare_log(shared);
        }
        prepare_log(shared);
        let Some(shared) = shared.upgrade() else { return };
        let is_done = shared.keep();
        drop(shared);
        // Each writer that waits wakes it: a disk that is full would be written to again and again.
        pause = if is_done { Duration::ZERO } else { (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX) };
        rest(pause, stop);
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
    // Counts of written runs and commits.
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
        // A failure shows again, with its reason, in the commit that needs the file.
        shared.failures.note(Task::PrepareLog, None, log.prepare_spare().as_ref().map(|_| ()));
    }
}
