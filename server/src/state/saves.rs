//! Checkpoints that clients ask for, and what is known of the last one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quipu::{Db, Result};

use crate::system::clock;

/// What is known of checkpoints that were asked for.
#[derive(Debug)]
pub struct Saves {
    /// When the last one ended, or the server started, in milliseconds since 1970.
    pub last_ms: AtomicU64,
    /// Changes of keys until then.
    pub changes: AtomicU64,
    /// How many there were.
    pub count: AtomicU64,
    /// How long the last one took, in milliseconds; `u64::MAX` if there was none.
    pub took_ms: AtomicU64,
    /// When the one under way began, in milliseconds since 1970; 0 if none is.
    pub since_ms: AtomicU64,
    is_running: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Saves {
    /// None yet.
    pub fn new(now_ms: u64) -> Saves {
        Saves {
            last_ms: AtomicU64::new(now_ms),
            changes: AtomicU64::new(0),
            count: AtomicU64::new(0),
            took_ms: AtomicU64::new(u64::MAX),
            since_ms: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Why the last one failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether one is under way.
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    /// Notes that after so many changes nothing is left that could be saved.
    pub fn note_empty(&self, changes: u64) {
        self.changes.fetch_max(changes, Ordering::Relaxed);
    }

    /// Makes a checkpoint. `changes` is how many changes there were so far. `None`: one is under way already.
    pub fn run(&self, db: &Db, changes: u64) -> Option<Result<()>> {
        self.begin().then(|| self.finish(db, changes))
    }

    /// Makes one on a thread of its own. `false`: one is under way already.
    pub fn start(self: &Arc<Saves>, db: &Db, changes: u64) -> bool {
        if !self.begin() {
            return false;
        }
        let (saves, db) = (self.clone(), db.clone());
        let work = move || {
            // What failed is kept, for `INFO`.
            let _ = saves.finish(&db, changes);
        };
        if std::thread::Builder::new().name("checkpoint".to_owned()).spawn(work).is_err() {
            self.is_running.store(false, Ordering::Release);
            return false;
        }
        true
    }

    fn begin(&self) -> bool {
        let began = !self.is_running.swap(true, Ordering::AcqRel);
        if began {
            self.since_ms.store(clock::now_ms(), Ordering::Relaxed);
        }
        began
    }

    fn finish(&self, db: &Db, changes: u64) -> Result<()> {
        let result = db.checkpoint().map(|_| ());
        let now_ms = clock::now_ms();
        let since_ms = self.since_ms.swap(0, Ordering::Relaxed);
        self.took_ms.store(now_ms.saturating_sub(since_ms), Ordering::Relaxed);
        if result.is_ok() {
            self.last_ms.store(now_ms, Ordering::Relaxed);
            self.changes.store(changes, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        let failure = result.as_ref().err().map(ToString::to_string);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        self.is_running.store(false, Ordering::Release);
        result
    }
}
