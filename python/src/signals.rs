//! Signals of Python, such as that of Ctrl-C, while calls wait or take long.
//!
//! Invariants:
//! 1. Handlers run in Python's main thread alone. What another thread does for it looks at a [`Stop`], which the main
//!    thread sets while it waits.
//! 2. Whatever takes long calls [`check_signals`]: once in [`ROWS_BETWEEN_SIGNALS`] rows, or each [`STEP`] of a wait.
//! 3. It takes the GIL for that once in a [`STEP`] at most, since another thread may keep it for milliseconds.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pyo3::Python;
use quipu::{Error, ErrorKind, Result};

use crate::error::invalid;

/// How often a thread that waits looks for signals.
pub(crate) const STEP: Duration = Duration::from_millis(50);
/// After how many rows long work looks for signals.
pub(crate) const ROWS_BETWEEN_SIGNALS: usize = 1024;

thread_local! {
    /// What the work of this thread looks at, if it is not a thread of Python.
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
    /// When this thread has looked for signals last.
    static LOOKED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Whether the work of another thread is to end.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    is_set: Arc<AtomicBool>,
}

impl Stop {
    pub(crate) fn set(&self, is_set: bool) {
        self.is_set.store(is_set, Ordering::Relaxed);
    }

    /// Has [`check_signals`] look at it in this thread.
    pub(crate) fn obey(self) {
        STOP.set(Some(self));
    }
}

/// Runs Python's handlers of signals that have come, where this is its main thread, and it has not done so just now.
///
/// # Errors
/// What a handler raises, such as `KeyboardInterrupt`, as the source of an error; `Invalid` if the [`Stop`] of this
/// thread is set.
pub(crate) fn check_signals() -> Result<()> {
    let is_stopped = STOP.with_borrow(|stop| stop.as_ref().map(|stop| stop.is_set.load(Ordering::Relaxed)));
    match is_stopped {
        Some(false) => Ok(()),
        Some(true) => Err(invalid("a signal came")),
        None if !is_time() => Ok(()),
        None => {
            let checked = Python::attach(|py| py.check_signals());
            checked.map_err(|raised| Error::caused_by(ErrorKind::Invalid, "a signal came", raised))
        }
    }
}

/// Whether a [`STEP`] has gone by since this thread has looked for signals, which it does then.
#[expect(clippy::disallowed_methods, reason = "how long a thread works between two looks is measured")]
fn is_time() -> bool {
    let now = Instant::now();
    let is_time = LOOKED_AT.get().is_none_or(|last| now.duration_since(last) >= STEP);
    if is_time {
        LOOKED_AT.set(Some(now));
    }
    is_time
}

/// Waits for the answer of another thread; none if that has ended without one. After a signal it is waited for once
/// more, while `stop` is called again and again: nothing of the work goes on.
///
/// # Errors
/// That of [`check_signals`].
pub(crate) fn answer_of<T>(answers: &Receiver<T>, stop: impl Fn()) -> Result<Option<T>> {
    let mut interrupted = None;
    let answer = loop {
        match answers.recv_timeout(STEP) {
            Ok(answer) => break Some(answer),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none() {
                    interrupted = check_signals().err();
                }
                if interrupted.is_some() {
                    stop();
                }
            }
        }
    };
    interrupted.map_or(Ok(answer), Err)
}
