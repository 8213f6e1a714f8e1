//! Ctrl-C: it stops the statement or the command that runs; between them it ends the program.
//!
//! A statement of SQL has a way of its own to be stopped. A command of the shell looks at a flag of its thread: by
//! [`check`] between two rows.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Result};

/// Stops what runs, from another thread.
pub(crate) type Stop = Box<dyn Fn() + Send>;

/// The exit code of a program that Ctrl-C ends.
const INTERRUPTED: i32 = 130;

thread_local! {
    /// Whether the command of this thread is to end, while one runs that Ctrl-C may stop.
    static IS_STOPPED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Whether Ctrl-C has stopped the command that this thread runs.
pub(crate) fn is_stopped() -> bool {
    IS_STOPPED.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

/// An error if Ctrl-C has stopped the command that this thread runs. Work that may take long calls it once a row.
///
/// # Errors
/// [`Failure::Stopped`].
pub(crate) fn check() -> Result<()> {
    if is_stopped() { Err(Failure::Stopped) } else { Ok(()) }
}

/// Runs `work`, which looks at `flag` by [`check`].
pub(crate) fn obeying<T>(flag: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let before = IS_STOPPED.replace(Some(Arc::clone(flag)));
    let result = work();
    IS_STOPPED.set(before);
    result
}

/// An output that refuses to begin another line once the command is stopped. A line that was begun is written to its
/// end.
pub(crate) struct WholeLines<'a> {
    out: &'a mut dyn Write,
    is_within_line: bool,
}

impl<'a> WholeLines<'a> {
    pub(crate) fn to(out: &'a mut dyn Write) -> WholeLines<'a> {
        WholeLines { out, is_within_line: false }
    }
}

impl Write for WholeLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_within_line && is_stopped() {
            return Err(io::Error::other(Failure::Stopped.to_string()));
        }
        let written = self.out.write(bytes)?;
        if let Some(last) = bytes[..written].last() {
            self.is_within_line = *last != b'\n';
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What Ctrl-C does now.
#[derive(Default)]
enum Now {
    /// It ends the program.
    #[default]
    Ends,
    /// It stops this.
    Stops(Stop),
    /// It is meant for another program, which shows pages.
    #[cfg(feature = "server")]
    Nothing,
}

#[derive(Default)]
struct Shared {
    now: Now,
    has_stopped: bool,
}

/// Takes Ctrl-C.
#[derive(Clone)]
pub(crate) struct Interrupts(Arc<Mutex<Shared>>);

impl Interrupts {
    /// Takes it from now on.
    pub(crate) fn take() -> Result<Interrupts> {
        let interrupts = Interrupts(Arc::default());
        let mut signals =
            Signals::new([SIGINT]).map_err(|error| Failure::new(format!("cannot take Ctrl-C: {error}")))?;
        let taken = interrupts.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                let mut shared = taken.lock();
                match &shared.now {
                    Now::Ends => std::process::exit(INTERRUPTED),
                    Now::Stops(stop) => stop(),
                    #[cfg(feature = "server")]
                    Now::Nothing => continue,
                }
                shared.has_stopped = true;
            }
        });
        Ok(interrupts)
    }

    /// Runs `work`, which Ctrl-C stops by `stop`. Also says whether it came to that.
    pub(crate) fn while_running<T>(&self, stop: Stop, work: impl FnOnce() -> T) -> (T, bool) {
        *self.lock() = Shared { now: Now::Stops(stop), has_stopped: false };
        let result = work();
        let has_stopped = std::mem::take(&mut *self.lock()).has_stopped;
        (result, has_stopped)
    }

    /// Runs `work`, which ends by [`check`] after Ctrl-C.
    pub(crate) fn while_checking<T>(&self, work: impl FnOnce() -> T) -> T {
        let flag = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&flag);
        self.while_running(Box::new(move || stopped.store(true, Ordering::Relaxed)), || obeying(&flag, work)).0
    }

    /// Leaves Ctrl-C to another program until the statement is over.
    #[cfg(feature = "server")]
    pub(crate) fn leave(&self) {
        self.lock().now = Now::Nothing;
    }

    /// Runs `work` while Ctrl-C is left to another program.
    #[cfg(feature = "server")]
    pub(crate) fn while_left<T>(&self, work: impl FnOnce() -> T) -> T {
        self.leave();
        let result = work();
        *self.lock() = Shared::default();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_begun_is_written_to_its_end() {
        let flag = Arc::new(AtomicBool::new(false));
        let mut out = Vec::new();
        obeying(&flag, || {
            let mut lines = WholeLines::to(&mut out);
            lines.write_all(b"one\ntw").unwrap();
            flag.store(true, Ordering::Relaxed);
            assert!(matches!(check(), Err(Failure::Stopped)));
            lines.write_all(b"o\n").unwrap();
            assert_eq!(lines.write_all(b"three\n").unwrap_err().kind(), io::ErrorKind::Other);
        });
        assert_eq!(out, b"one\ntwo\n");
        // Nothing stops what does not run within it.
        assert!(!is_stopped());
    }
}
