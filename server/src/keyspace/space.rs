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

use quipu::latched::Lack;
use quipu::{Error, ErrorKind, Result};

use super::Keyspace;
use crate::system::clock;

/// How long writes are refused without asking the disk again.
const PAUSE: Duration = Duration::from_millis(100);

/// The disk counts as full until it has space for the write that lacked it, or for so many bytes: a longer one alone is
/// refused.
const ASKED_BYTES_MAX: usize = 1 << 20;

/// What is known of the space on the disk.
#[derive(Debug, Default)]
pub struct Space {
    /// Whether `lack` has something.
    is_lacking: AtomicBool,
    lack: Mutex<Option<Noted>>,
    /// Whether something was removed since the last checkpoint that was to give its space back.
    has_freed: AtomicBool,
}

#[derive(Debug)]
struct Noted {
    lack: Lack,
    asked: Instant,
}

impl Noted {
    /// Whether no write could begin a moment ago.
    fn is_of_now(&self) -> bool {
        self.lack.bytes == 0 && clock::since(self.asked) < PAUSE
    }
}

impl Space {
    fn lack(&self) -> MutexGuard<'_, Option<Noted>> {
        self.lack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for space by `ask`, unless that was done a moment ago and there was none.
    pub(super) fn ask<T>(&self, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_lacking()
            && let Some(noted) = self.lack().as_ref().filter(|noted| noted.is_of_now())
        {
            return Err(full(&noted.lack.reason));
        }
        let asked = ask();
        match asked.as_ref().err().and_then(|error| Lack::of(error, 0)) {
            Some(lack) => self.note(lack),
            None if asked.is_ok() && self.is_lacking() => self.note_some(),
            None => {}
        }
        asked
    }

    /// Whether there was none when it was asked for last. Costs a look.
    pub fn is_lacking(&self) -> bool {
        self.is_lacking.load(Ordering::Relaxed)
    }

    /// Notes that there was none for a write.
    pub fn note(&self, mut lack: Lack) {
        lack.bytes = lack.bytes.min(ASKED_BYTES_MAX);
        *self.lack() = Some(Noted { lack, asked: clock::moment() });
        self.is_lacking.store(true, Ordering::Relaxed);
    }

    /// Notes that there is space for a small write. That a longer one lacked some stays noted.
    fn note_some(&self) {
        let mut noted = self.lack();
        if noted.as_ref().is_none_or(|noted| noted.lack.bytes == 0) {
            *noted = None;
            self.is_lacking.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that there is space again.
    fn end(&self) {
        *self.lack() = None;
        self.is_lacking.store(false, Ordering::Relaxed);
    }

    /// The error of a write that grows, where only what frees space may be written.
    #[cold]
    pub(super) fn refusal(&self) -> Error {
        let lack = self.lack();
        full(lack.as_ref().map_or("there was no space a moment ago; try again", |noted| &noted.lack.reason))
    }

    /// Notes that something is removed.
    pub fn note_freed(&self) {
        self.has_freed.store(true, Ordering::Relaxed);
    }

    /// Whether something was removed on a full disk since this was asked last: a checkpoint gives its space back.
    pub fn has_freed(&self) -> bool {
        self.has_freed.swap(false, Ordering::Relaxed)
    }
}

#[cold]
fn full(reason: &str) -> Error {
    Error::caused_by(ErrorKind::Full, reason.to_owned(), reason.to_owned())
}

impl Keyspace {
    /// What is known of the space on the disk.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Why nothing can be written but what frees space, if that is so.
    pub fn lack_of_space(&self) -> Option<String> {
        if !self.space.is_lacking() {
            return None;
        }
        self.space.lack().as_ref().map(|noted| noted.lack.reason.clone())
    }

    /// Waits as a writer does while memory is short, and notes if rows cannot be written to disk. Nothing may be held.
    ///
    /// # Errors
    /// Those of [`Latched::wait_for_memory`](quipu::latched::Latched::wait_for_memory).
    pub fn wait_for_memory(&self) -> Result<()> {
        let waited = self.db.latched().wait_for_memory();
        if let Some(lack) = waited.as_ref().err().and_then(|error| Lack::of(error, 0)) {
            self.space.note(lack);
        }
        waited
    }

    /// Asks whether there is space again, if there was none: for as much as was lacking. Nothing may be held.
    pub fn ask_for_space(&self) {
        if !self.space.is_lacking() || self.db.latched().wait_for_memory().is_err() {
            return;
        }
        let bytes = self.space.lack().as_ref().map_or(0, |noted| noted.lack.bytes);
        match self.db.latched().check_space(bytes) {
            Ok(()) => self.space.end(),
            Err(error) => Lack::of(&error, bytes).into_iter().for_each(|lack| self.space.note(lack)),
        }
    }
}
