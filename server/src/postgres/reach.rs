//! The reach of other threads to a connection: they cancel what it runs, and end it.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use quipu_sql::Canceller;

use super::scram::is_equal;
use super::stream::Socket;

/// How a connection is reached.
#[derive(Debug)]
pub(super) struct Reach {
    socket: Socket,
    ends: AtomicBool,
    running: OnceLock<Running>,
}

/// What a connection has once its session has begun.
#[derive(Debug)]
struct Running {
    process: i32,
    secret: Vec<u8>,
    canceller: Canceller,
}

impl Reach {
    /// Its session has begun: `process` and `secret` are what cancels it.
    pub(super) fn note_session(&self, process: i32, secret: Vec<u8>, canceller: Canceller) {
        // A connection has one session.
        let _ = self.running.set(Running { process, secret, canceller });
    }

    /// Whether it is to end.
    pub(super) fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Has it end when its statement is done, or at once if there is none.
    pub(super) fn end_soon(&self) {
        self.ends.store(true, Ordering::Release);
        self.socket.shut_down(Shutdown::Read);
    }

    /// The same, and cancels its statement.
    pub(super) fn end(&self) {
        if let Some(running) = self.running.get() {
            running.canceller.end();
        }
        self.end_soon();
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    list: Mutex<BTreeMap<u64, Arc<Reach>>>,
    has_ended: Condvar,
    next: AtomicU64,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Reach>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in, if there are fewer than `count_max`. Returns its number here.
    pub(super) fn enter(&self, socket: Socket, count_max: usize) -> Option<(u64, Arc<Reach>)> {
        let mut list = self.lock();
        if list.len() >= count_max {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let reach = Arc::new(Reach { socket, ends: AtomicBool::new(false), running: OnceLock::new() });
        list.insert(number, reach.clone());
        Some((number, reach))
    }

    /// One has ended.
    pub(super) fn leave(&self, number: u64) {
        self.lock().remove(&number);
        self.has_ended.notify_all();
    }

    /// Cancels what the connection of this number runs, if the secret is its own. Says whether it was.
    pub(super) fn cancel(&self, process: i32, secret: &[u8]) -> bool {
        let list = self.lock();
        let running = list.values().filter_map(|reach| reach.running.get());
        let mut found = running.filter(|running| running.process == process && is_equal(&running.secret, secret));
        found.next().inspect(|running| running.canceller.cancel()).is_some()
    }

    /// Ends all: first those that are idle, and after a while all others. Waits for so long twice at most.
    pub(super) fn end_all(&self, patience: Duration) {
        self.lock().values().for_each(|reach| reach.end_soon());
        if self.wait_for_ends(patience) {
            return;
        }
        self.lock().values().for_each(|reach| reach.end());
        if self.wait_for_ends(patience) {
            return;
        }
        self.lock().values().for_each(|reach| reach.socket.shut_down(Shutdown::Both));
        self.wait_for_ends(patience);
    }

    fn wait_for_ends(&self, patience: Duration) -> bool {
        let waited = self.has_ended.wait_timeout_while(self.lock(), patience, |list| !list.is_empty());
        match waited {
            Ok((list, _)) => list.is_empty(),
            Err(poisoned) => poisoned.into_inner().0.is_empty(),
        }
    }
}
