//! The inbox of the thread of the node: events from other threads, and a waker that announces them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use mio::{Poll, Token, Waker};
use quipu_cluster::api::{Answer, Request};
use quipu_cluster::ids::NodeId;
use quipu_cluster::topology::{StoreId, Topology};
use tokio::sync::oneshot;

use super::change::{ChangeOrder, Changed};
use super::greeting::{Failure, Greeted};

/// The waker's token; those of connections come after it.
const WAKER: Token = Token(0);
/// How long a peer that comes with a new store is held up until requests under way are forgotten.
const FENCE_MAX: Duration = Duration::from_secs(2);

/// What is given to the thread.
pub(super) enum Event {
    Ask(Request, oneshot::Sender<Answer>),
    /// A connection that was asked for is there, or not.
    Dialed(NodeId, Result<Greeted, Failure>),
    /// The same for one that came.
    Accepted(Result<Greeted, Failure>),
    /// What the old store of a peer has confirmed must count no more.
    Fence(Arc<Fence>),
    Repair,
    /// A request for other members.
    Change(ChangeOrder, oneshot::Sender<Changed>),
    /// A message of the log to another node.
    Log(NodeId, Vec<u8>),
    /// The log has come to this topology.
    Agreed(Topology),
    /// The mark of this node's store was raised, or could not be.
    Marked(quipu::Result<(StoreId, u64)>),
    Stop,
}

/// Waits until the node has forgotten its requests.
#[derive(Default)]
pub(super) struct Fence(Mutex<bool>, Condvar);

impl Fence {
    /// Says that it has.
    pub(super) fn open(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }
}

/// Events on their way to the thread.
pub(super) struct Inbox {
    events: Mutex<Vec<Event>>,
    waker: Waker,
    /// Whether the thread was woken and has not looked yet.
    is_woken: AtomicBool,
}

impl Inbox {
    pub(super) fn new(poll: &Poll) -> std::io::Result<Inbox> {
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok(Inbox { events: Mutex::default(), waker, is_woken: AtomicBool::new(false) })
    }

    pub(super) fn post(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // The thread looks by itself ten times a second.
            let _ = self.waker.wake();
        }
    }

    /// Takes what has come.
    pub(super) fn take(&self, into: &mut Vec<Event>) {
        self.is_woken.store(false, Ordering::Release);
        std::mem::swap(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// Returns when the node has forgotten its requests under way.
    pub(super) fn fence(&self) {
        let fence = Arc::new(Fence::default());
        self.post(Event::Fence(fence.clone()));
        let done = fence.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If the thread is held up for longer, so are its requests, beyond their time limit.
        drop(fence.1.wait_timeout_while(done, FENCE_MAX, |done| !*done));
    }
}
