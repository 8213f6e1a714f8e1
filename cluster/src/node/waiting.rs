//! Questions to peers that are not answered yet, and timers, each with the operation that waits for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Epoch, NodeId};
use crate::protocol::Message;

/// Who waits for an answer of a peer. Operations are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Write(u64),
    Read(u64),
    Conditional(u64),
    Hint,
    Session(u64),
    Round(u64),
    Query(u64),
}

/// An answer of a peer, or that none will come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply<'r, 'm> {
    Message(Epoch, &'r Message<'m>),
    Lost,
}

/// Questions to peers that are not answered yet.
#[derive(Debug)]
pub(super) struct Calls {
    last_number: u64,
    waiters: BTreeMap<u64, (NodeId, Waiter)>,
}

impl Calls {
    /// For a node's start number `start`. The upper half of a number is that of the start, so each is used once.
    pub(super) fn new(start: u64) -> Calls {
        Calls { last_number: (start << 32) + 1, waiters: BTreeMap::new() }
    }

    /// The next number of a question or an operation.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Notes who waits for the answer to a question.
    pub(super) fn wait(&mut self, request: u64, node: NodeId, waiter: Waiter) {
        self.waiters.insert(request, (node, waiter));
    }

    /// Who waits for the answer of a node to a question, if that is the node that was asked.
    pub(super) fn waiter(&self, node: NodeId, request: u64) -> Option<Waiter> {
        self.waiters.get(&request).filter(|(asked, _)| *asked == node).map(|(_, waiter)| *waiter)
    }

    /// [`Calls::waiter`], which waits no longer.
    pub(super) fn take(&mut self, node: NodeId, request: u64) -> Option<Waiter> {
        let waiter = self.waiter(node, request)?;
        self.waiters.remove(&request);
        Some(waiter)
    }

    /// Waits no longer for an answer. Returns which node was asked.
    pub(super) fn forget(&mut self, request: u64) -> Option<NodeId> {
        self.waiters.remove(&request).map(|(node, _)| node)
    }

    /// All questions that are not answered yet.
    #[cfg(feature = "simulation")]
    pub(super) fn all(&self) -> impl Iterator<Item = u64> {
        self.waiters.keys().copied()
    }

    /// The questions that this waiter waits for.
    pub(super) fn of(&self, waiter: Waiter) -> Vec<u64> {
        self.waiters.iter().filter(|(_, (_, other))| *other == waiter).map(|(request, _)| *request).collect()
    }
}

/// What a node waits for until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Write(u64),
    Read(u64),
    Conditional(u64),
    Query(u64),
    Session(u64),
    Round(u64),
    Peers,
    Hints,
    Repair,
    Movement,
    Housekeeping,
    Membership,
    Announce,
}

/// Moments to come, in ticks.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, Timer)>);

impl Timers {
    pub(super) fn set(&mut self, at_ms: u64, timer: Timer) {
        self.0.insert((at_ms, timer));
    }

    /// Sets a timer, and drops those of its kind that are earlier.
    pub(super) fn postpone(&mut self, at_ms: u64, timer: Timer) {
        self.0.retain(|(other_ms, other)| *other != timer || *other_ms >= at_ms);
        self.set(at_ms, timer);
    }

    /// Drops all timers of a kind.
    pub(super) fn drop_all(&mut self, timer: Timer) {
        self.0.retain(|(_, other)| *other != timer);
    }

    /// When the first is due.
    pub(super) fn first_ms(&self) -> u64 {
        self.0.first().map_or(u64::MAX, |(at_ms, _)| *at_ms)
    }

    /// The first, if it is due.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<Timer> {
        if self.first_ms() > now_ms {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
