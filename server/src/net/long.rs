//! The threads that make long answers, by turns.
//!
//! A connection has one long command at a time. The commands of all connections stand in one queue. A thread takes the
//! first, does a step of it, hands the new part of the answer to the thread that serves the connection, and takes the
//! next. A command comes back to the end of the queue when its client has taken nearly all that it was sent. While a
//! client takes nothing, its command stands in no queue and costs no thread.
//!
//! Invariants:
//! 1. There are as many threads as configured, whatever clients do.
//! 2. Of an answer that is made in pieces, the server holds [`BACKLOG_BYTES`] and a piece. Answers that are made whole
//!    are not begun while clients hold more memory than they may together
//!    ([`crate::state::clients::Clients::is_over`]).
//! 3. Nothing is done for a client that is known to have gone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::handle::{Handle, Message};
use crate::execution::long::{LongCommand, Step};
use crate::resp::reply::{Protocol, Reply};
use crate::state::server::Server;
use crate::state::session::Session;

/// Bytes that wait to be sent above which no further piece is put together.
pub(super) const BACKLOG_BYTES: usize = 128 << 10;

/// How long a thread waits for clients to take their answers before it looks again.
const OVER_WAIT: Duration = Duration::from_millis(10);

/// A long command, and where its answer goes.
pub(super) struct Job {
    pub(super) read: LongCommand,
    pub(super) session: Box<Session>,
    pub(super) protocol: Protocol,
    /// Where its connection is served, and in which slot.
    pub(super) handle: Handle,
    pub(super) slot: usize,
}

impl Job {
    fn has_client(&self) -> bool {
        !self.session.client.is_killed()
    }
}

/// The queue of long commands.
pub(super) struct Queue {
    server: Arc<Server>,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    stops: bool,
}

impl Queue {
    pub(super) fn new(server: Arc<Server>) -> Queue {
        Queue { server, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a command continue when it is its turn.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.state();
        if !state.stops {
            state.jobs.push_back(job);
            self.changed.notify_one();
        }
    }

    /// Ends the threads, each after the step that it is at.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stops = true;
        state.jobs.clear();
        self.changed.notify_all();
    }

    /// What each of the threads does.
    pub(super) fn run(&self) {
        while let Some(job) = self.take() {
            if job.has_client() {
                self.step(job);
            }
        }
    }

    /// The next command; `None` when the threads are to end.
    fn take(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.stops {
                return None;
            }
            let is_over = self.server.clients.is_over(&self.server.config.parameters);
            let next = state.jobs.iter().position(|job| !is_over || !job.read.is_new() || !job.has_client());
            if let Some(job) = next.and_then(|next| state.jobs.remove(next)) {
                return Some(job);
            }
            state = if is_over && !state.jobs.is_empty() {
                match self.changed.wait_timeout(state, OVER_WAIT) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                }
            } else {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    fn step(&self, mut job: Job) {
        let mut reply = Reply::new(job.protocol);
        // A panic is a defect: its client is closed, and all others go on.
        let step = catch_unwind(AssertUnwindSafe(|| job.read.step(&self.server, &mut job.session, &mut reply)))
            .unwrap_or_else(|_| Step::Broken("its command panicked".to_owned()));
        job.protocol = reply.protocol;
        if step == Step::More && reply.bytes.is_empty() {
            self.push(job);
            return;
        }
        let handle = job.handle.clone();
        handle.send(Message::Answered { job: Box::new(job), bytes: reply.bytes, step });
    }
}
