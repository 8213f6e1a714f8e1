//! The state of peers as this node sees it: which are asked, which are left alone, which are probed.
//!
//! Three signs, the fastest first: a connection that breaks (down now), an answer that does not come in
//! [`Limits::slow_after_ms`] or four times the peer's usual time (slow: not asked, but probed, with a delay that
//! doubles), and the verdict of the failure detector (down for hints, counting and readiness).
//!
//! Also what their clocks say: a node whose own is far ahead of most others finds that out by itself.
//!
//! Invariants:
//! 1. What waits for a peer is bounded: above [`Limits::peer_bytes_max`] the peer counts as slow.
//! 2. A peer that answers anything is up.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Now};
use crate::limits::Limits;

/// What is known of one peer.
#[derive(Clone, Debug)]
struct Peer {
    is_connected: bool,
    /// The failure detector says that it is down.
    is_faulty: bool,
    /// Since it has not answered in time: when it is probed next, and the delay after that.
    slow: Option<(u64, u64)>,
    /// Requests that it has not answered: when they were sent, and their bytes.
    waiting: BTreeMap<u64, (u64, usize)>,
    waiting_bytes: usize,
    /// When it answered last.
    heard_ms: u64,
    /// A high estimate of its time to answer, in sixteenths of a millisecond.
    usual_16ths: u64,
    /// Its wall clock less this node's ticks, and when it was heard: what this node's own wall clock does meanwhile
    /// changes nothing.
    wall: Option<(i64, u64)>,
}

impl Default for Peer {
    fn default() -> Self {
        Peer {
            is_connected: true,
            is_faulty: false,
            slow: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            heard_ms: 0,
            usual_16ths: 0,
            wall: None,
        }
    }
}

/// How old what a peer's clock said may be, to judge this node's own.
const CLOCK_MS: u64 = 60_000;

/// What is known of this node's clock and of others, for those who run the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockReport {
    /// Whether this node stamps writes: not while its clock is further ahead of most members' than versions may be.
    pub can_stamp: bool,
    /// How far the last stamp is ahead of the wall clock; more than a moment only after the wall clock went back.
    pub ahead_ms: u64,
    /// By how much the wall clocks of peers are ahead of this node's, as they said last: about a way of a frame late.
    pub skews_ms: Vec<(NodeId, i64)>,
    /// Times since the start that the clock of versions went back to the wall, after the wall had been far ahead.
    pub went_back: u64,
    /// Stamps since the start above a version that is further ahead than clocks may be.
    pub far_stamps: u64,
}

/// How a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It is asked.
    Up,
    /// It is asked only if the others are too few.
    Slow,
    /// It is not asked.
    Down,
}

/// All peers.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    peers: BTreeMap<NodeId, Peer>,
}

impl Peers {
    /// How a peer stands. One never heard of is up.
    pub fn health(&self, node: NodeId, limits: &Limits) -> Health {
        match self.peers.get(&node) {
            None => Health::Up,
            Some(peer) if !peer.is_connected => Health::Down,
            Some(peer) if peer.slow.is_some() || peer.waiting_bytes > limits.peer_bytes_max => Health::Slow,
            Some(peer) if peer.is_faulty => Health::Slow,
            Some(_) => Health::Up,
        }
    }

    /// How long a peer usually takes to answer, in milliseconds: near the slowest of its last hundred answers.
    pub fn usual_ms(&self, node: NodeId) -> f64 {
        self.peers.get(&node).map_or(0.0, |peer| peer.usual_16ths as f64 / 16.0)
    }

    /// Notes a request that was sent.
    pub fn sent(&mut self, node: NodeId, request: u64, now_ms: u64, bytes: usize) {
        let peer = self.peers.entry(node).or_default();
        peer.waiting.insert(request, (now_ms, bytes));
        peer.waiting_bytes += bytes;
    }

    /// Notes an answer. Returns whether it was waited for.
    pub fn answered(&mut self, node: NodeId, request: u64, now_ms: u64) -> bool {
        self.heard(node, now_ms);
        let peer = self.peers.entry(node).or_default();
        let Some((sent_ms, bytes)) = peer.waiting.remove(&request) else { return false };
        peer.waiting_bytes -= bytes;
        // Rises at once and falls by a 32nd: near the slowest of the last hundred.
        let took = now_ms.saturating_sub(sent_ms) * 16;
        peer.usual_16ths = took.max(peer.usual_16ths - peer.usual_16ths / 32);
        true
    }

    /// Notes a message that is no answer.
    pub fn heard(&mut self, node: NodeId, now_ms: u64) {
        let peer = self.peers.entry(node).or_default();
        peer.slow = None;
        peer.is_connected = true;
        peer.heard_ms = now_ms;
    }

    /// Notes that the connection is there.
    pub fn connected(&mut self, node: NodeId) {
        let peer = self.peers.entry(node).or_default();
        peer.is_connected = true;
        peer.slow = None;
    }

    /// Notes that the connection broke. Returns the requests that will not be answered.
    pub fn disconnected(&mut self, node: NodeId) -> Vec<u64> {
        let peer = self.peers.entry(node).or_default();
        peer.is_connected = false;
        peer.waiting_bytes = 0;
        std::mem::take(&mut peer.waiting).into_keys().collect()
    }

    /// Notes the verdict of the failure detector.
    pub fn judged(&mut self, node: NodeId, is_faulty: bool) {
        self.peers.entry(node).or_default().is_faulty = is_faulty;
    }

    /// All requests that are not answered yet.
    #[cfg(feature = "simulation")]
    pub fn requests(&self) -> impl Iterator<Item = u64> {
        self.peers.values().flat_map(|peer| peer.waiting.keys().copied())
    }

    /// Stops waiting for an answer.
    pub fn forget_request(&mut self, node: NodeId, request: u64) {
        if let Some(peer) = self.peers.get_mut(&node)
            && let Some((_, bytes)) = peer.waiting.remove(&request)
        {
            peer.waiting_bytes -= bytes;
        }
    }

    /// Forgets all but these.
    pub fn retain(&mut self, is_member: impl Fn(NodeId) -> bool) {
        self.peers.retain(|node, _| is_member(*node));
    }

    /// Looks for peers that have become slow, and returns those that are to be probed now.
    pub fn check(&mut self, now_ms: u64, limits: &Limits) -> Vec<NodeId> {
        let mut probed = Vec::new();
        for (node, peer) in &mut self.peers {
            let patience_ms = limits.slow_after_ms.max(peer.usual_16ths / 4).min(limits.request_timeout_ms);
            let oldest = peer.waiting.values().map(|(sent_ms, _)| *sent_ms).next();
            let is_late = |sent_ms: u64| now_ms >= sent_ms.max(peer.heard_ms) + patience_ms;
            if peer.slow.is_none() && oldest.is_some_and(is_late) {
                peer.slow = Some((now_ms, limits.probe_after_ms));
            }
            if let Some((at_ms, delay_ms)) = peer.slow
                && now_ms >= at_ms
            {
                probed.push(*node);
                peer.slow = Some((now_ms + delay_ms, (delay_ms * 2).min(limits.probe_after_ms * 32)));
            }
        }
        probed
    }

    /// Notes what a peer's wall clock says.
    pub fn heard_clock(&mut self, node: NodeId, now: Now, wall_ms: u64) {
        let offset_ms = wall_ms.cast_signed().wrapping_sub(now.ticks_ms.cast_signed());
        self.peers.entry(node).or_default().wall = Some((offset_ms, now.ticks_ms));
    }

    /// By how much the wall clocks of peers are ahead of this node's, and when that was heard.
    fn skews(&self, now: Now) -> impl Iterator<Item = (NodeId, i64, u64)> + '_ {
        self.peers.iter().filter_map(move |(node, peer)| {
            let (offset_ms, at_ms) = peer.wall?;
            let wall_ms = offset_ms.wrapping_add(now.ticks_ms.cast_signed());
            Some((*node, wall_ms.saturating_sub(now.wall_ms.cast_signed()), at_ms))
        })
    }

    /// By how much the wall clocks of peers are ahead of this node's.
    pub fn skews_ms(&self, now: Now) -> Vec<(NodeId, i64)> {
        self.skews(now).map(|(node, skew_ms, _)| (node, skew_ms)).collect()
    }

    /// Whether this node's wall clock is far ahead of those of most of so many members: it is the one that is wrong.
    pub fn is_clock_far_ahead(&self, now: Now, members: usize, limits: &Limits) -> bool {
        let most_ms = limits.ahead_ms_max.min(i64::MAX as u64).cast_signed();
        let is_behind =
            |(_, skew_ms, at_ms): &(NodeId, i64, u64)| *skew_ms < -most_ms && now.ticks_ms <= at_ms + CLOCK_MS;
        self.skews(now).filter(is_behind).count() > members / 2
    }

    /// Whether [`Peers::check`] has something to look at.
    pub fn is_quiet(&self) -> bool {
        self.peers.values().all(|peer| peer.slow.is_none() && peer.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_does_not_answer_is_slow_and_probed_more_and_more_rarely() {
        let limits = Limits::default();
        let mut peers = Peers::default();
        let node = NodeId(1);
        peers.sent(node, 1, 0, 10);
        assert_eq!(peers.check(19, &limits), []);
        assert_eq!((peers.check(20, &limits), peers.health(node, &limits)), (vec![node], Health::Slow));
        let probed: Vec<u64> = (21..2000).filter(|now| !peers.check(*now, &limits).is_empty()).collect();
        assert_eq!(probed, [70, 170, 370, 770, 1570]);
        assert!(peers.answered(node, 1, 2000) && !peers.answered(node, 1, 2000));
        assert_eq!(peers.health(node, &limits), Health::Up);
        // It took two seconds: it is given more time from now on.
        peers.sent(node, 2, 3000, 10);
        assert_eq!(peers.check(3900, &limits), []);
    }

    #[test]
    fn a_clock_far_ahead_of_most_others_is_found_at_once_and_one_of_two_never() {
        let limits = Limits::default();
        let mut peers = Peers::default();
        let at = |ticks_ms, wall_ms| Now { ticks_ms, wall_ms };
        peers.heard_clock(NodeId(1), at(100, 1_000_000), 1_000_050);
        assert!(!peers.is_clock_far_ahead(at(200, 4_600_000), 2, &limits), "who of two is wrong?");
        peers.heard_clock(NodeId(2), at(110, 1_000_010), 999_000);
        assert!(!peers.is_clock_far_ahead(at(200, 1_000_100), 3, &limits));
        assert_eq!(peers.skews_ms(at(200, 1_000_100)), [(NodeId(1), 50), (NodeId(2), -1010)]);
        // The own wall clock jumps by an hour, and nothing was heard since.
        assert!(peers.is_clock_far_ahead(at(200, 4_600_100), 3, &limits));
        assert!(!peers.is_clock_far_ahead(at(200, 4_600_100), 5, &limits), "two of five are not most");
        assert!(!peers.is_clock_far_ahead(at(100_000, 4_700_000), 3, &limits), "what was heard long ago");
    }

    #[test]
    fn a_broken_connection_is_down_at_once_and_full_queues_are_slow() {
        let limits = Limits { peer_bytes_max: 100, ..Limits::default() };
        let mut peers = Peers::default();
        let node = NodeId(1);
        (1..=3).for_each(|request| peers.sent(node, request, 0, 40));
        assert_eq!(peers.health(node, &limits), Health::Slow);
        peers.forget_request(node, 3);
        assert_eq!(peers.health(node, &limits), Health::Up);
        assert_eq!(peers.disconnected(node), [1, 2]);
        assert_eq!(peers.health(node, &limits), Health::Down);
        peers.connected(node);
        assert_eq!(peers.health(node, &limits), Health::Up);
        peers.judged(node, true);
        assert_eq!(peers.health(node, &limits), Health::Slow);
    }
}
