//! Calls to peers without a connection: when each is called, and what the log says of calls that fail.
//!
//! Not here: the connections themselves (`links`), and what a refusal tells this node of itself (`driver`).

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu_cluster::ids::NodeId;

use crate::cluster::greeting::{self, Failure};
use crate::cluster::inbox::{Event, Inbox};
use crate::cluster::links::Links;
use crate::cluster::register::Register;

/// A peer that cannot be reached is called again after so long, then twice as long, up to so long.
const UNREACHED_MS: (u64, u64) = (20, 500);
/// The same for one that refuses: its operator has to do something first.
const REFUSED_MS: (u64, u64) = (500, 5000);
/// How often the log says that the same node was refused for the same reason, and how many such lines it has at once.
const REFUSALS_EVERY_MS: u64 = 60_000;
const REFUSALS_MAX: usize = 64;

/// What a node says of itself whose peers know that it was removed.
pub(super) const REMOVED: &str = "this node was removed from the cluster";
/// What is said of a peer whose directory was put back.
pub(super) const PEER_WENT_BACK: &str = "its data directory was put back from a copy: start it on an empty one";

/// The calls to one peer.
#[derive(Default)]
struct Dial {
    is_under_way: bool,
    at_ms: u64,
    after_ms: u64,
    has_ended_once: bool,
    trouble: String,
}

/// The calls to all peers. Times are milliseconds since the beginning.
#[derive(Default)]
pub(super) struct Dials {
    peers: BTreeMap<NodeId, Dial>,
    /// Refusals that stand in the log, and since when.
    refusals: BTreeMap<String, u64>,
}

impl Dials {
    /// When the next peer without a connection is to be called.
    pub(super) fn next_ms(&self, links: &Links) -> Option<u64> {
        let idle = self.peers.iter().filter(|(node, dial)| !dial.is_under_way && !links.contains(**node));
        idle.map(|(_, dial)| dial.at_ms).min()
    }

    /// Has threads call the peers that it is time for. Fails if there is no thread for one, which is called later.
    pub(super) fn call(
        &mut self,
        register: &Arc<Register>,
        inbox: &Arc<Inbox>,
        links: &Links,
        now_ms: u64,
    ) -> std::io::Result<()> {
        let mut called = Ok(());
        for (node, _) in register.peers() {
            let dial = self.peers.entry(node).or_default();
            if links.contains(node) || dial.is_under_way || now_ms < dial.at_ms {
                continue;
            }
            let (register, inbox) = (register.clone(), inbox.clone());
            let work = move || {
                let fence = || inbox.fence();
                let greeted = greeting::dial(&register, node, &fence);
                inbox.post(Event::Dialed(node, greeted));
            };
            let thread = std::thread::Builder::new().name(format!("dial-{node}")).spawn(work);
            dial.is_under_way = thread.is_ok();
            if let Err(error) = thread {
                dial.at_ms = now_ms + UNREACHED_MS.1;
                called = Err(error);
            }
        }
        called
    }

    /// A call has ended, in whatever way.
    pub(super) fn ended(&mut self, node: NodeId) {
        let dial = self.peers.entry(node).or_default();
        (dial.is_under_way, dial.has_ended_once) = (false, true);
    }

    /// A peer is connected.
    pub(super) fn connected(&mut self, node: NodeId) {
        let dial = self.peers.entry(node).or_default();
        (dial.after_ms, dial.has_ended_once) = (0, true);
        dial.trouble.clear();
    }

    /// A connection is gone: its peer is called soon.
    pub(super) fn disconnected(&mut self, node: NodeId, now_ms: u64) {
        self.peers.entry(node).or_default().at_ms = now_ms + UNREACHED_MS.0;
    }

    /// A call has failed: the peer is called again after a pause. Returns the reason, unless it is that of the last
    /// time.
    pub(super) fn failed(&mut self, node: NodeId, failure: &Failure, now_ms: u64) -> Option<&str> {
        let ((least, most), why) = match failure {
            Failure::Unreachable(why) => (UNREACHED_MS, why.as_str()),
            Failure::Refused(why) => (REFUSED_MS, why.as_str()),
            Failure::Newcomer(_) => (UNREACHED_MS, "its data directory is new"),
            Failure::Removed(_) => (REFUSED_MS, REMOVED),
            Failure::Left => (REFUSED_MS, "it has left the cluster"),
            Failure::PeerWentBack(_, _, true) => (REFUSED_MS, PEER_WENT_BACK),
            Failure::PeerWentBack(_, _, false) => (UNREACHED_MS, greeting::AGAIN),
            // These are about this node, which begins anew or ends.
            Failure::Placed | Failure::WentBack => return None,
        };
        let dial = self.peers.entry(node).or_default();
        dial.after_ms = (dial.after_ms * 2).clamp(least, most);
        dial.at_ms = now_ms + dial.after_ms;
        if dial.trouble == why {
            return None;
        }
        why.clone_into(&mut dial.trouble);
        Some(&dial.trouble)
    }

    /// Why the last call to a peer failed; empty if it did not.
    pub(super) fn trouble(&self, node: NodeId) -> &str {
        self.peers.get(&node).map_or("", |dial| &dial.trouble)
    }

    /// Whether a call to the peer has ended, in whatever way.
    pub(super) fn has_ended(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|dial| dial.has_ended_once)
    }

    /// Notes that a node was refused. Returns whether the log is to say it: the node comes again every few seconds,
    /// which is not said again.
    pub(super) fn note_refusal(&mut self, why: &str, now_ms: u64) -> bool {
        self.refusals.retain(|_, said_ms| now_ms < *said_ms + REFUSALS_EVERY_MS);
        let is_new = self.refusals.len() < REFUSALS_MAX && !self.refusals.contains_key(why);
        if is_new {
            self.refusals.insert(why.to_owned(), now_ms);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_a_reason_is_told_once() {
        let (mut dials, node, links) = (Dials::default(), NodeId(2), Links::default());
        let failure = Failure::Unreachable("no route".to_owned());
        dials.ended(node);
        assert_eq!(dials.failed(node, &failure, 100), Some("no route"));
        assert_eq!(dials.next_ms(&links), Some(120));
        assert_eq!(dials.failed(node, &failure, 200), None);
        assert_eq!(dials.next_ms(&links), Some(240));
        (0..10).for_each(|_| assert_eq!(dials.failed(node, &failure, 1000), None));
        assert_eq!((dials.next_ms(&links), dials.trouble(node)), (Some(1500), "no route"));
        assert_eq!(dials.failed(node, &Failure::Left, 2000), Some("it has left the cluster"));
        dials.connected(node);
        assert_eq!((dials.trouble(node), dials.has_ended(node), dials.has_ended(NodeId(3))), ("", true, false));
    }

    #[test]
    fn a_refusal_is_told_once_a_minute() {
        let mut dials = Dials::default();
        assert!(dials.note_refusal("its list is another", 0));
        assert!(!dials.note_refusal("its list is another", 59_999));
        assert!(dials.note_refusal("its list is another", 60_000));
    }
}
