//! The connections to peers. Frames are sent over one to each; what still comes over another that was replaced or was
//! one too many is taken for a while.
//!
//! Two nodes that start together ask each other at the same time, and what one of them has sent over its connection
//! before it sees that the other's stays would be lost: the first requests after a start waited in vain.

use std::collections::BTreeMap;

use mio::{Interest, Registry, Token};
use quipu_cluster::ids::NodeId;

use super::greeting::Greeted;
use super::link::Link;

/// Connections that are made within so long of each other are made at the same time.
const TOGETHER_MS: u64 = 1000;
/// How long one that was replaced is listened to: longer than both sides need to see the one that stays.
const REPLACED_MS: u64 = 2000;

/// What has become of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    /// There was none to the peer.
    First,
    /// The one to the peer was made at the same time, and frames go over the other of the two from now on, or over the
    /// old one as before. What comes over either is taken.
    Both,
    /// The one to the peer was older: it is gone, and with it what was on its way.
    Instead,
    /// It is at its end already. All is as it was.
    Failed,
}

#[derive(Default)]
pub(super) struct Links {
    /// One to each peer.
    current: BTreeMap<NodeId, Link>,
    /// Others that are still listened to, one to a peer, and until when.
    replaced: Vec<(u64, NodeId, Link)>,
    last_token: usize,
}

impl Links {
    /// Takes a connection of the node `own`.
    pub(super) fn take(
        &mut self,
        greeted: Greeted,
        own: NodeId,
        (now_ms, frame_bytes_max): (u64, usize),
        registry: &Registry,
    ) -> Linked {
        let Greeted { node, stream, is_dialed } = greeted;
        let Ok(mut stream) = stream.into_nonblocking() else { return Linked::Failed };
        self.last_token += 1;
        let token = Token(self.last_token);
        if registry.register(stream.tcp(), token, Interest::READABLE | Interest::WRITABLE).is_err() {
            return Linked::Failed;
        }
        let new = Link::new(stream, token, (is_dialed, now_ms), frame_bytes_max);
        let Some(mut old) = self.current.remove(&node) else {
            self.current.insert(node, new);
            return Linked::First;
        };
        self.forget_replaced_of(node);
        // Of two made at the same time, the one that the lower id has asked for stays. Both sides see that.
        if now_ms < old.since_ms + TOGETHER_MS && old.is_dialed != is_dialed {
            let (stays, other) = if is_dialed == (own < node) { (new, old) } else { (old, new) };
            self.current.insert(node, stays);
            self.replaced.push((now_ms + REPLACED_MS, node, other));
            return Linked::Both;
        }
        // It is dropped anyway.
        let _ = registry.deregister(old.stream.tcp());
        self.current.insert(node, new);
        Linked::Instead
    }

    /// Drops the connection to a peer, and hears nothing more of another. Returns whether there was one.
    pub(super) fn cut(&mut self, node: NodeId, registry: &Registry) -> bool {
        self.forget_replaced_of(node);
        let Some(mut link) = self.current.remove(&node) else { return false };
        // It is dropped anyway.
        let _ = registry.deregister(link.stream.tcp());
        true
    }

    /// Drops the connection with a token, unless it is the one that frames are sent over: its peer is returned then, to
    /// be cut by the caller.
    pub(super) fn end(&mut self, token: Token, registry: &Registry) -> Option<NodeId> {
        if let Some(index) = self.replaced.iter().position(|(_, _, link)| link.token == token) {
            let (_, _, mut link) = self.replaced.swap_remove(index);
            // It is dropped anyway.
            let _ = registry.deregister(link.stream.tcp());
        }
        self.current.iter().find(|(_, link)| link.token == token).map(|(node, _)| *node)
    }

    /// Ends those that were replaced long enough ago.
    pub(super) fn end_replaced(&mut self, now_ms: u64) {
        self.replaced.retain(|(until_ms, _, _)| now_ms < *until_ms);
    }

    /// Listens no more to those that were replaced.
    pub(super) fn forget_replaced(&mut self) {
        self.replaced.clear();
    }

    fn forget_replaced_of(&mut self, node: NodeId) {
        self.replaced.retain(|(_, other, _)| *other != node);
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.current.contains_key(&node)
    }

    /// The peers that there are connections to.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.current.keys().copied()
    }

    /// The connection that frames to a peer are sent over.
    pub(super) fn to(&mut self, node: NodeId) -> Option<&mut Link> {
        self.current.get_mut(&node)
    }

    /// The connections that frames are sent over.
    pub(super) fn current(&mut self) -> impl Iterator<Item = &mut Link> {
        self.current.values_mut()
    }

    /// All that frames come over.
    pub(super) fn all(&self) -> impl Iterator<Item = &Link> {
        self.current.values().chain(self.replaced.iter().map(|(_, _, link)| link))
    }

    /// All that frames come over, and from whom.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut Link)> {
        let replaced = self.replaced.iter_mut().map(|(_, node, link)| (*node, link));
        self.current.iter_mut().map(|(node, link)| (*node, link)).chain(replaced)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use mio::Poll;
    use quipu_cluster::ids::Epoch;
    use quipu_cluster::protocol::{Frame, Header, Message};

    use super::*;
    use crate::cluster::socket::{PeerSocket, Timed};

    const NODES: [NodeId; 2] = [NodeId(3), NodeId(5)];

    /// The two ends of a connection that `NODES[from]` has asked for, as that node and as the other greets it.
    fn connection(from: usize) -> [Greeted; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends = [TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0];
        let mut is_dialed = true;
        let mut greeted = ends.map(|stream| {
            let stream = PeerSocket::Plain(Timed::new(stream, Duration::from_secs(9)).unwrap());
            let node = NODES[if is_dialed { 1 - from } else { from }];
            Greeted { node, stream, is_dialed: std::mem::take(&mut is_dialed) }
        });
        if from == 1 {
            greeted.reverse();
        }
        greeted
    }

    fn frame(request: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        Frame::encode(Header { epoch: Epoch(1), request }, &Message::Topology { bytes: b"abc" }, &mut frame);
        frame
    }

    /// The numbers of the requests that have come.
    fn requests(links: &mut Links) -> Vec<u64> {
        let mut requests = Vec::new();
        for (_, link) in links.all_mut() {
            link.read();
            while let Ok(Some(frame)) = link.next_frame() {
                requests.push(Frame::decode(frame).unwrap().header.request);
            }
        }
        requests
    }

    /// Each order in which the two sides may see two connections that are made at the same time: what was sent over
    /// either comes, and both sides send over the same one afterwards.
    #[test]
    fn what_is_sent_over_two_connections_made_at_the_same_time_comes() {
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        for orders in [[[0, 1], [0, 1]], [[0, 1], [1, 0]], [[1, 0], [0, 1]], [[1, 0], [1, 0]]] {
            let mut connections = [connection(0), connection(1)].map(|ends| ends.map(Some));
            let mut sides = [Links::default(), Links::default()];
            for (step, expected) in [Linked::First, Linked::Both].into_iter().enumerate() {
                for (side, links) in sides.iter_mut().enumerate() {
                    let greeted = connections[orders[side][step]][side].take().unwrap();
                    let linked = links.take(greeted, NODES[side], (100, 1 << 20), polls[side].registry());
                    assert_eq!(linked, expected, "{orders:?}");
                    let link = links.to(NODES[1 - side]).unwrap();
                    assert!(link.push(&frame(step as u64 + 1)) && link.flush(100));
                }
            }
            let stays = sides[0].to(NODES[1]).unwrap().is_dialed;
            assert!(stays && !sides[1].to(NODES[0]).unwrap().is_dialed, "the one that the lower id has asked for");
            for links in &mut sides {
                let mut come = requests(links);
                for _ in 0..1_000_000 {
                    if come.len() == 2 {
                        break;
                    }
                    std::thread::yield_now();
                    come.extend(requests(links));
                }
                come.sort_unstable();
                assert_eq!(come, [1, 2], "{orders:?}");
                links.end_replaced(99 + REPLACED_MS);
                assert_eq!(links.all().count(), 2);
                links.end_replaced(100 + REPLACED_MS);
                assert_eq!(links.all().count(), 1);
            }
        }
    }

    /// A member that was removed was heard over the connection that had been replaced; and each more of them was kept.
    #[test]
    fn a_peer_has_one_connection_that_was_replaced_and_none_once_it_is_cut() {
        let poll = Poll::new().unwrap();
        let mut links = Links::default();
        let mut peer = Vec::new();
        for (from, expected) in [(0, Linked::First), (1, Linked::Both), (1, Linked::Both), (1, Linked::Both)] {
            let [greeted, other] = connection(from);
            peer.push(other);
            assert_eq!(links.take(greeted, NODES[0], (100, 1 << 20), poll.registry()), expected);
        }
        assert_eq!(links.all().count(), 2);
        assert!(links.cut(NODES[1], poll.registry()));
        assert_eq!(links.all().count(), 0);
    }

    /// A node that was started again within a second is connected to anew by the same side, and long after by either:
    /// nothing more comes over the old connection.
    #[test]
    fn a_connection_that_comes_later_takes_the_place_of_the_old_one() {
        let poll = Poll::new().unwrap();
        let mut links = Links::default();
        for (now_ms, from, expected) in
            [(0, 0, Linked::First), (10, 0, Linked::Instead), (10 + TOGETHER_MS, 1, Linked::Instead)]
        {
            let [greeted, _other] = connection(from);
            assert_eq!(links.take(greeted, NODES[0], (now_ms, 1 << 20), poll.registry()), expected);
            assert_eq!(links.all().count(), 1);
        }
        let token = links.to(NODES[1]).unwrap().token;
        assert_eq!(links.end(token, poll.registry()), Some(NODES[1]), "the caller cuts it");
        assert!(links.cut(NODES[1], poll.registry()) && !links.cut(NODES[1], poll.registry()));
        assert!(!links.contains(NODES[1]) && links.nodes().len() == 0);
    }
}
