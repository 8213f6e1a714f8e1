//! Ctrl-C: it stops the statement that runs; between statements it ends the program.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::backend::Stop;
use crate::failure::{Failure, Result};

/// The exit code of a program that Ctrl-C ends.
const INTERRUPTED: i32 = 130;

/// What Ctrl-C does now.
#[derive(Default)]
enum Now {
    /// It ends the program.
    #[default]
    Ends,
    /// It stops this.
    Stops(Stop),
    /// It is meant for another program, which shows pages.
    Nothing,
}

#[derive(Default)]
struct Shared {
    now: Now,
    has_stopped: bool,
}

/// Takes Ctrl-C.
#[derive(Clone)]
pub(super) struct Interrupts(Arc<Mutex<Shared>>);

impl Interrupts {
    /// Takes it from now on.
    pub(super) fn take() -> Result<Interrupts> {
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
                    Now::Nothing => continue,
                }
                shared.has_stopped = true;
            }
        });
        Ok(interrupts)
    }

    /// Runs `work`, which Ctrl-C stops by `stop`. Also says whether it came to that.
    pub(super) fn while_running<T>(&self, stop: Stop, work: impl FnOnce() -> T) -> (T, bool) {
        *self.lock() = Shared { now: Now::Stops(stop), has_stopped: false };
        let result = work();
        let has_stopped = std::mem::take(&mut *self.lock()).has_stopped;
        (result, has_stopped)
    }

    /// Leaves Ctrl-C to another program until the statement is over.
    pub(super) fn leave(&self) {
        self.lock().now = Now::Nothing;
    }

    /// Runs `work` while Ctrl-C is left to another program.
    pub(super) fn while_left<T>(&self, work: impl FnOnce() -> T) -> T {
        self.leave();
        let result = work();
        *self.lock() = Shared::default();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
