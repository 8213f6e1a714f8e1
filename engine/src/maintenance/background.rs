//! The background threads: they prepare memory and log files, and do flushes, checkpoints and merges.
//!
//! They also free the memory of ended snapshots. Everything works without them, only later or in the caller's time.
//! They hold no lock while they wait.
//!
//! Not here: when a merge that failed is tried again (`state/failures`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::maintenance::compaction::Merger;
use crate::maintenance::layers::LayerChanges;
use crate::maintenance::memory::MemoryRelief;
use crate::maintenance::resolve::Resolver;
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
        std::thread::Builder::new().name("quipu-background".into()).spawn(move || run(&weak, &stopped, &arena)).ok()?;
    shared.arena.set_prefaulter(Some(thread.thread().clone()));
    let (weak, stopped) = (Arc::downgrade(shared), stop.clone());
    let compactor = std::thread::Builder::new().name("quipu-compactor".into()).spawn(move || compact(&weak, &stopped));
    Some(Threads::new(thread, compactor.ok(), stop, shared.arena.clone()))
}

/// One round of the background thread: frees what ended snapshots held back, and does what is due.
#[cfg(feature = "shuttle")]
pub(crate) fn do_round(shared: &Shared) {
    LayerChanges::of(shared).reclaim_soon();
    do_due_work(shared);
}

/// Does what is due. Failures are recorded, and tried again in a later round. Returns whether what was due was written.
fn do_due_work(shared: &Shared) -> bool {
    Resolver::of(shared).resolve_due();
    // The error was recorded where it happened.
    let has_flushed = MemoryRelief::of(shared).flush_due().is_ok();
    let flusher = Flusher::of(shared);
    if !flusher.checkpoint_is_due() {
        return has_flushed;
    }
    let taken = unpanicked(|| flusher.checkpoint(&mut |_| ()).map(|_| ()));
    flusher.note_checkpoint(taken.is_ok());
    shared.health.failures.note(Task::Checkpoint, None, taken.as_ref().copied());
    has_flushed && taken.is_ok()
}

/// How long the background thread pauses after work that failed, such as a flush to a full disk: writers wake it all
/// the time.
#[derive(Default)]
struct Pause {
    steps: u32,
}

impl Pause {
    /// The least pause, and how often it is checked whether to stop.
    const STEP: Duration = Duration::from_millis(50);
    /// The longest pause, in steps.
    const STEPS_MAX: u32 = 20;

    /// Pauses twice as long as the last time, unless the work was done.
    fn after(&mut self, is_done: bool, stop: &AtomicBool) {
        self.steps = if is_done { 0 } else { (2 * self.steps).clamp(1, Pause::STEPS_MAX) };
        for _ in 0..self.steps {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            sleep(Pause::STEP);
        }
    }

    fn is_due(&self) -> bool {
        self.steps > 0
    }
}

fn run(shared: &Weak<Shared>, stop: &AtomicBool, arena: &Arena) {
    let mut pause = Pause::default();
    loop {
        let mut is_log_prepared = true;
        while !stop.load(Ordering::SeqCst) && arena.prefault() {
            is_log_prepared = is_log_prepared && prepare_log(shared);
        }
        is_log_prepared = is_log_prepared && prepare_log(shared);
        let Some(shared) = shared.upgrade() else { return };
        let layers = LayerChanges::of(&shared);
        // Before, so that nothing is flushed for memory that is free; after, since a flush leaves trees.
        layers.reclaim_soon();
        let is_done = do_due_work(&shared) && is_log_prepared;
        let reclaims_later = layers.reclaim_soon();
        drop(shared);
        pause.after(is_done, stop);
        if stop.load(Ordering::SeqCst) {
            return;
        }
        // What failed is tried again, whether or not there are writes.
        match (pause.is_due(), reclaims_later) {
            (true, _) => {}
            (false, true) => std::thread::park_timeout(Pause::STEP),
            (false, false) => std::thread::park(),
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// The compactor's thread.
fn compact(shared: &Weak<Shared>, stop: &AtomicBool) {
    let merge = |is_at_rest| Some(Merger::of(&*shared.upgrade()?).merge_if_due(is_at_rest));
    // Counts of written runs and commits.
    let progress = || {
        let shared = shared.upgrade()?;
        let sequence = shared.versions.read().sequence;
        Some((shared.files.last_number(), sequence))
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

/// Prepares the log's next file. Returns whether it is there, or none is needed.
fn prepare_log(shared: &Weak<Shared>) -> bool {
    let Some(shared) = shared.upgrade() else { return true };
    let Some(log) = &shared.log else { return true };
    let prepared = log.prepare_spare();
    // A failure shows again, with its reason, in the commit that needs the file.
    shared.health.failures.note(Task::PrepareLog, None, prepared.as_ref().map(|_| ()));
    prepared.is_ok()
}
