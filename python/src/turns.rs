//! A queue in which threads of Python wait for the writer's turn: not in the engine, since here a signal ends the wait.
//!
//! Invariants:
//! 1. A transaction of the single writer has entered alone from before it asks the engine for the turn until it has
//!    told it to commit or to roll back. So a thread that has entered does not wait long in the engine.
//! 2. They enter in the order in which they came, so none is passed by for long.
//! 3. The GIL is not taken under the lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use quipu::Result;

use crate::signals::{STEP, check_signals};

/// Who waits, and who has entered.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    waiting: VecDeque<u64>,
    is_alone: bool,
    /// Those who have entered together with others.
    together: usize,
}

/// That a thread has entered, until it is dropped.
pub(crate) struct Pass {
    turns: Arc<Turns>,
    is_alone: bool,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other has entered alone, and to enter alone until no other has entered at all.
    ///
    /// # Errors
    /// That of [`check_signals`]: then it has not entered.
    pub(crate) fn enter(self: &Arc<Self>, is_alone: bool) -> Result<Pass> {
        self.enter_unless(is_alone, check_signals)
    }

    /// Like [`Turns::enter`], for a thread that Python does not know: `check` says whether it gives up.
    ///
    /// # Errors
    /// That of `check`: then it has not entered.
    pub(crate) fn enter_unless(self: &Arc<Self>, is_alone: bool, check: impl Fn() -> Result<()>) -> Result<Pass> {
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        while state.waiting.front() != Some(&ticket) || state.is_alone || is_alone && state.together > 0 {
            let (again, timed_out) = self.changed.wait_timeout(state, STEP).unwrap_or_else(PoisonError::into_inner);
            state = again;
            if timed_out.timed_out() {
                drop(state);
                let checked = check();
                state = self.state();
                if let Err(error) = checked {
                    state.waiting.retain(|waiting| *waiting != ticket);
                    self.changed.notify_all();
                    return Err(error);
                }
            }
        }
        state.waiting.pop_front();
        if is_alone {
            state.is_alone = true;
        } else {
            state.together += 1;
        }
        self.changed.notify_all();
        Ok(Pass { turns: Arc::clone(self), is_alone })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        if self.is_alone {
            state.is_alone = false;
        } else {
            state.together -= 1;
        }
        self.turns.changed.notify_all();
    }
}
