//! What waits for the disk before it is sent: the node goes on with its next turns meanwhile.
//!
//! A thread of its own waits until the log is durable, for all turns committed by then together. What the node has put
//! out since is kept in the order of turns: later turns build on earlier ones, and the log becomes durable in order.
//!
//! Invariants:
//! 1. What a turn has put out is released once its commit is durable, and after that of all turns before.
//! 2. A frame goes out over the connection that was there when it was made, or not at all: another one may lead to
//!    another process, whose requests have other numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mio::Token;
use quipu::{Db, Durability, Result};
use quipu_cluster::node::Output;

use super::super::inbox::{Event, Inbox};

/// Something to send or to answer, and over which connection.
pub(super) type Parcel = (Output, Option<Token>);

/// Asks the thread to wait, and keeps what waits.
pub(super) struct DurableQueue {
    shared: Arc<Shared>,
    /// What the turns of these numbers have put out.
    waiting: VecDeque<(u64, Vec<Parcel>)>,
    last: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    /// The number of the last turn that is to be durable.
    turn: u64,
    stops: bool,
}

impl Shared {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DurableQueue {
    /// A queue whose thread begins with the first turn that waits.
    pub(super) fn new() -> DurableQueue {
        DurableQueue { shared: Arc::default(), waiting: VecDeque::new(), last: 0, thread: None }
    }

    /// Whether nothing waits, so that nothing would be overtaken.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps what a turn has put out, whose commit is the last of `db`, until it is durable.
    ///
    /// # Errors
    /// If the thread cannot begin.
    pub(super) fn push(&mut self, db: &Db, inbox: &Arc<Inbox>, out: Vec<Parcel>) -> std::io::Result<()> {
        if self.thread.is_none() {
            let (db, inbox, shared) = (db.clone(), inbox.clone(), self.shared.clone());
            let work = move || wait_for_disk(&db, &inbox, &shared);
            self.thread = Some(std::thread::Builder::new().name("cluster-disk".to_owned()).spawn(work)?);
        }
        self.last += 1;
        self.waiting.push_back((self.last, out));
        self.shared.wanted().turn = self.last;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Moves what turns up to this one have put out to `due`.
    pub(super) fn release(&mut self, turn: u64, due: &mut Vec<Parcel>) {
        while let Some((_, out)) = self.waiting.pop_front_if(|(number, _)| *number <= turn) {
            due.extend(out);
        }
    }

    /// Drops all that waits.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Drop for DurableQueue {
    fn drop(&mut self) {
        self.shared.wanted().stops = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}

/// The thread: waits for all turns that are wanted by then together, and says how far the log is durable.
fn wait_for_disk(db: &Db, inbox: &Inbox, shared: &Shared) {
    let mut done = 0;
    loop {
        let turn = {
            let is_idle = |wanted: &mut Wanted| wanted.turn == done && !wanted.stops;
            let wanted = shared.changed.wait_while(shared.wanted(), is_idle).unwrap_or_else(PoisonError::into_inner);
            if wanted.stops {
                return;
            }
            wanted.turn
        };
        let synced: Result<()> = db.pending_commits().wait(Durability::Sync);
        done = turn;
        inbox.post(Event::Durable(synced.map(|()| turn)));
    }
}
