//! The inbox of the thread of the node: events from other threads, a waker that announces them, and those who wait for
//! answers of the thread.
//!
//! A request has no timer of its own: the node ends each in time. If the thread hangs, as it does with its disk, those
//! who wait are told by a look that is taken once a second ([`Inbox::give_up_if_stuck`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::{Poll, Token, Waker};
use quipu_cluster::api::{Answer, Request};
use quipu_cluster::ids::NodeId;
use quipu_cluster::topology::{StoreId, Topology};
use tokio::sync::oneshot;

use super::change::{ChangeOrder, Changed};
use super::greeting::{Failure, Greeted};
use crate::system::clock;

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

/// Those who wait for answers, by the number of their request.
pub(super) type Awaited = BTreeMap<u64, oneshot::Sender<Answer>>;

/// Events on their way to the thread, and answers on their way back.
pub(super) struct Inbox {
    /// None once the thread has ended.
    events: Mutex<Option<Vec<Event>>>,
    awaited: Mutex<Awaited>,
    begun: Instant,
    /// When the thread woke, in milliseconds since `begun` and one more; 0 while it waits for events.
    woken_ms: AtomicU64,
    waker: Waker,
    /// Whether the thread was woken and has not looked yet.
    is_woken: AtomicBool,
}

impl Inbox {
    pub(super) fn new(poll: &Poll) -> std::io::Result<Inbox> {
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok(Inbox {
            events: Mutex::new(Some(Vec::new())),
            awaited: Mutex::default(),
            begun: clock::moment(),
            woken_ms: AtomicU64::new(0),
            waker,
            is_woken: AtomicBool::new(false),
        })
    }

    /// Milliseconds since the inbox was made.
    pub(super) fn ticks_ms(&self) -> u64 {
        clock::since(self.begun).as_millis() as u64
    }

    /// The thread has woken, at the moment that is returned.
    pub(super) fn begin_round(&self) -> u64 {
        let now_ms = self.ticks_ms();
        self.woken_ms.store(now_ms + 1, Ordering::Relaxed);
        now_ms
    }

    /// The thread waits for events again.
    pub(super) fn end_round(&self) {
        self.woken_ms.store(0, Ordering::Relaxed);
    }

    /// Those who wait for answers.
    pub(super) fn awaited(&self) -> MutexGuard<'_, Awaited> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who waits for the answer to a request.
    pub(super) fn await_answer(&self, client: u64, sender: oneshot::Sender<Answer>) {
        self.awaited().insert(client, sender);
    }

    /// If the thread has done the same round for longer than `patience`, no answer comes to those who wait for it, nor
    /// to what it has not taken yet: what becomes of these requests is not known.
    pub(super) fn give_up_if_stuck(&self, patience: Duration) {
        let woken_ms = self.woken_ms.load(Ordering::Relaxed);
        if woken_ms != 0 && self.ticks_ms() > woken_ms + patience.as_millis() as u64 {
            self.awaited().clear();
            self.events().iter_mut().for_each(|events| events.retain(|event| !matches!(event, Event::Ask(..))));
        }
    }

    /// The thread has ended: no answer comes to those who wait, nor to what is posted from now on. The end of their
    /// channels tells them.
    pub(super) fn close(&self) {
        *self.events() = None;
        self.awaited().clear();
    }

    fn events(&self) -> MutexGuard<'_, Option<Vec<Event>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn post(&self, event: Event) {
        match &mut *self.events() {
            Some(events) => events.push(event),
            None => return,
        }
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // The thread looks by itself ten times a second.
            let _ = self.waker.wake();
        }
    }

    /// Takes what has come.
    pub(super) fn take(&self, into: &mut Vec<Event>) {
        self.is_woken.store(false, Ordering::Release);
        self.events().iter_mut().for_each(|events| std::mem::swap(events, into));
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn those_who_wait_for_a_thread_that_is_stuck_are_told_that_no_answer_comes() {
        let poll = Poll::new().unwrap();
        let inbox = Inbox::new(&poll).unwrap();
        let ask = || {
            let (sender, answer) = oneshot::channel();
            let request = Request::Get { key: b"k".to_vec(), quorum: None, is_blocking: false };
            (Event::Ask(request, sender), answer)
        };
        let (sender, mut awaited) = oneshot::channel::<Answer>();
        inbox.await_answer(1, sender);
        let (event, mut asked) = ask();
        inbox.post(event);
        inbox.post(Event::Repair);
        // A thread that waits for events is not stuck, and one that has just woken is not yet.
        inbox.give_up_if_stuck(Duration::ZERO);
        inbox.begin_round();
        inbox.give_up_if_stuck(Duration::from_secs(3600));
        assert_eq!(awaited.try_recv().unwrap_err(), TryRecvError::Empty);
        assert_eq!(asked.try_recv().unwrap_err(), TryRecvError::Empty);
        while awaited.try_recv() == Err(TryRecvError::Empty) {
            inbox.give_up_if_stuck(Duration::ZERO);
        }
        assert_eq!(asked.try_recv().unwrap_err(), TryRecvError::Closed);
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert!(matches!(taken[..], [Event::Repair]), "what no client waits for stays");
        // The thread goes on: what is asked then is answered.
        inbox.end_round();
        let (event, mut asked) = ask();
        inbox.post(event);
        inbox.give_up_if_stuck(Duration::ZERO);
        assert_eq!(asked.try_recv().unwrap_err(), TryRecvError::Empty);
    }

    #[test]
    fn those_who_wait_when_the_thread_ends_or_ask_afterwards_are_told_that_no_answer_comes() {
        let poll = Poll::new().unwrap();
        let inbox = Inbox::new(&poll).unwrap();
        let (sender, mut awaited) = oneshot::channel::<Answer>();
        inbox.await_answer(1, sender);
        let ask = || {
            let (sender, answer) = oneshot::channel();
            inbox.post(Event::Ask(Request::Get { key: b"k".to_vec(), quorum: None, is_blocking: false }, sender));
            answer
        };
        let mut before = ask();
        inbox.close();
        let mut after = ask();
        for answer in [&mut awaited, &mut before, &mut after] {
            assert_eq!(answer.try_recv().unwrap_err(), TryRecvError::Closed);
        }
    }
}
