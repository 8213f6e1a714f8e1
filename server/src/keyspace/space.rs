//! Space on the disk for what is written.
//!
//! A full disk is a state that ends. While it lasts, writes are refused with the reason and reads go on. What frees
//! space is done, with space in the log that the engine keeps for that ([`Need::Removal`](super::Need)).
//!
//! Invariant: a disk that was found full is not asked again for [`PAUSE`], however many writes come: to ask costs up to
//! a segment of zeros each time.
//!
//! Not here: taking a checkpoint after removals, which gives the space back (`execution/housekeeping.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quipu::{Error, ErrorKind, Result};

use super::Keyspace;
use crate::system::clock;

/// How long writes are refused without asking the disk again.
const PAUSE: Duration = Duration::from_millis(100);

/// What is known of the space on the disk.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Whether `lack` has something.
    is_lacking: AtomicBool,
    lack: Mutex<Option<Lack>>,
    /// Whether something was removed since the last checkpoint that was to give its space back.
    has_freed: AtomicBool,
}

#[derive(Debug)]
struct Lack {
    reason: String,
    asked: Instant,
}

impl Space {
    fn lack(&self) -> MutexGuard<'_, Option<Lack>> {
        self.lack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for space by `ask`, unless that was done a moment ago and there was none.
    pub(super) fn ask<T>(&self, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_lacking.load(Ordering::Relaxed)
            && let Some(lack) = self.lack().as_ref().filter(|lack| clock::since(lack.asked) < PAUSE)
        {
            return Err(full(&lack.reason));
        }
        let asked = ask();
        self.note(asked.as_ref().err());
        asked
    }

    /// Notes how a request for space has ended.
    fn note(&self, failure: Option<&Error>) {
        match failure.filter(|error| error.is_full_disk()) {
            Some(error) => {
                *self.lack() = Some(Lack { reason: error.to_string(), asked: clock::moment() });
                self.is_lacking.store(true, Ordering::Relaxed);
            }
            None if self.is_lacking.load(Ordering::Relaxed) => {
                *self.lack() = None;
                self.is_lacking.store(false, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// The error of a write that grows, where only what frees space may be written.
    #[cold]
    pub(super) fn refusal(&self) -> Error {
        let lack = self.lack();
        full(lack.as_ref().map_or("there was no space a moment ago; try again", |lack| &lack.reason))
    }

    /// Notes that something is removed.
    pub(super) fn note_freed(&self) {
        self.has_freed.store(true, Ordering::Relaxed);
    }
}

#[cold]
fn full(reason: &str) -> Error {
    Error::caused_by(ErrorKind::Full, reason.to_owned(), reason.to_owned())
}

impl Keyspace {
    /// Why nothing can be written but what frees space, if that is so.
    pub fn lack_of_space(&self) -> Option<String> {
        if !self.space.is_lacking.load(Ordering::Relaxed) {
            return None;
        }
        self.space.lack().as_ref().map(|lack| lack.reason.clone())
    }

    /// Waits as a writer does while memory is short, and notes if rows cannot be written to disk. Nothing may be held.
    ///
    /// # Errors
    /// Those of [`Latched::wait_for_memory`](quipu::latched::Latched::wait_for_memory).
    pub fn wait_for_memory(&self) -> Result<()> {
        let waited = self.db.latched().wait_for_memory();
        if let Err(error) = &waited {
            self.space.note(Some(error));
        }
        waited
    }

    /// Asks whether there is space again, if there was none. Nothing may be held.
    pub fn ask_for_space(&self) {
        if self.space.is_lacking.load(Ordering::Relaxed) && self.db.latched().wait_for_memory().is_ok() {
            // What it says is noted.
            let _ = self.space.ask(|| self.db.latched().write_at_once().map(|_| ()));
        }
    }

    /// Whether something was removed on a full disk since this was asked last: a checkpoint gives its space back.
    pub fn has_freed(&self) -> bool {
        self.space.has_freed.swap(false, Ordering::Relaxed)
    }
}
