//! Brings what commands lack: pages of runs, and memory.
//!
//! A command that lacks a page was taken back, and its connection is parked: it does nothing until the page is there,
//! and holds up no other connection. The pages of all connections that are parked by then are loaded together, in the
//! order of the files, by one of the threads here. A connection whose command waits for memory is parked in the same
//! way.
//!
//! Invariants:
//! 1. Pages of parked connections take about a quarter of the cache's bytes at most, beside it, or those of one
//!    connection. What is over waits, in the order in which it came; connections that have pages come first, so that
//!    one of them gets to its end, and gives them back.
//! 2. A page that cannot be read fails the commands that need it, and no others.
//!
//! Not here: what is missing, and taking commands back (`execution/batch.rs`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::handle::{Handle, Message};
use crate::state::attempt::{Attempt, Holding};
use crate::state::clients::Client;
use crate::state::server::Server;
use crate::system::scheduling;

/// Threads that load pages.
pub(super) const THREADS: usize = 2;

/// They let threads go first that serve what needs no page: on two cores, beside 50 clients that read cold keys, a
/// client of a cached key was answered three to four times as often, and those of cold keys as often as before.
const NICE: i32 = 15;

/// Pages that are loaded together: a few milliseconds of reading.
const TOGETHER_MAX: usize = 4096;

/// The least that pages of parked connections may take, in bytes.
const HELD_BYTES_MIN: u64 = 4 << 20;

/// How long a thread waits for connections to use their pages before it looks again.
const OVER_WAIT: Duration = Duration::from_millis(2);

/// A parked connection: what its command lacks, and where it is served.
pub(super) struct Parked {
    pub(super) attempt: Box<Attempt>,
    pub(super) client: Arc<Client>,
    pub(super) handle: Handle,
    pub(super) slot: usize,
}

impl Parked {
    /// Lets the connection go on.
    fn resume(mut self, holding: &Arc<Holding>) {
        self.attempt.set_out(holding);
        let Parked { attempt, client, handle, slot } = self;
        handle.send(Message::Loaded { slot, id: client.id, attempt });
    }
}

/// The queues of parked connections.
pub(super) struct Loading {
    server: Arc<Server>,
    state: Mutex<LoadingState>,
    changed: Condvar,
    /// What connections hold that are parked or on their way.
    holding: Arc<Holding>,
}

#[derive(Default)]
struct LoadingState {
    /// Those that lack pages.
    pages: VecDeque<Parked>,
    /// Those that wait for memory.
    memory: VecDeque<Parked>,
    stops: bool,
}

impl Loading {
    pub(super) fn new(server: Arc<Server>) -> Loading {
        Loading { server, state: Mutex::default(), changed: Condvar::new(), holding: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, LoadingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in.
    pub(super) fn push(&self, mut parked: Parked) {
        let mut state = self.state();
        if state.stops {
            return;
        }
        self.server.statistics.parked.fetch_add(1, Ordering::Relaxed);
        parked.attempt.park();
        match parked.attempt.waits {
            true => state.memory.push_back(parked),
            false if parked.attempt.faults.bytes() > 0 => state.pages.push_front(parked),
            false => state.pages.push_back(parked),
        }
        // The threads wait for different things.
        self.changed.notify_all();
    }

    /// Ends the threads.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        (state.stops, state.pages, state.memory) = (true, VecDeque::new(), VecDeque::new());
        self.changed.notify_all();
    }

    /// What each of the threads that load pages does.
    pub(super) fn run(&self) {
        scheduling::be_nice(NICE);
        while let Some(parked) = self.take_pages() {
            self.load(parked);
        }
    }

    /// What the thread does that waits for memory.
    pub(super) fn run_memory(&self) {
        while let Some(parked) = self.take_memory() {
            for mut parked in parked {
                // The first waits for all; the others find that there is memory, or wait a little more.
                if !parked.client.is_killed() {
                    parked.attempt.bring(&self.server.keyspace);
                }
                self.resume(parked);
            }
        }
    }

    fn resume(&self, parked: Parked) {
        self.server.statistics.parked.fetch_sub(1, Ordering::Relaxed);
        parked.resume(&self.holding);
    }

    /// Whether connections hold so much that others wait until one of those that are on their way gives it back.
    fn is_over(&self) -> bool {
        let max = self.server.keyspace.db().cache_bytes_max() / 4;
        self.holding.bytes() > max.max(HELD_BYTES_MIN)
    }

    /// The connections whose pages are loaded next; `None` when the threads are to end.
    fn take_pages(&self) -> Option<Vec<Parked>> {
        let mut state = self.state();
        loop {
            if state.stops {
                return None;
            }
            state = if state.pages.is_empty() {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else if self.is_over() && self.holding.out() > 0 {
                match self.changed.wait_timeout(state, OVER_WAIT) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                }
            } else {
                let (mut taken, mut pages) = (Vec::new(), 0);
                let pages_max = if self.is_over() { 0 } else { TOGETHER_MAX };
                while let Some(next) = state.pages.front()
                    && (taken.is_empty() || pages + next.attempt.faults.len() <= pages_max)
                {
                    pages += next.attempt.faults.len();
                    taken.extend(state.pages.pop_front());
                }
                return Some(taken);
            };
        }
    }

    fn take_memory(&self) -> Option<Vec<Parked>> {
        let mut state = self.state();
        loop {
            if state.stops {
                return None;
            }
            if !state.memory.is_empty() {
                return Some(std::mem::take(&mut state.memory).into());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn load(&self, mut parked: Vec<Parked>) {
        let db = self.server.keyspace.db();
        let (gone, mut here): (Vec<Parked>, Vec<Parked>) =
            parked.drain(..).partition(|parked| parked.client.is_killed());
        let mut faults: Vec<_> = here.iter_mut().map(|parked| &mut parked.attempt.faults).collect();
        match db.latched().load_together(&mut faults) {
            Ok(pages_read) => here.iter_mut().for_each(|parked| parked.attempt.note_brought(Ok(pages_read))),
            Err(_) => here.iter_mut().for_each(|parked| parked.attempt.bring(&self.server.keyspace)),
        }
        gone.into_iter().chain(here).for_each(|parked| self.resume(parked));
    }
}
