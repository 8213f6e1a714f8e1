//! Messages of Raft between nodes: bodies of [`Message::Log`](quipu_cluster::protocol::Message::Log), over the
//! connections that nodes have anyway.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | 1 entries, 2 vote, 3 part of a snapshot, 4 answer, 5 refusal, 6 proposal |
//! | 1 | 8 | number of the question, which its answer repeats; 0 of a proposal |
//! | 9 | | Raft's message by postcard, why not as a text, or an encoded entry of the topology |
//!
//! What is lost is sent again: by Raft, and by the node that proposes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{AnyError, EmptyNode};
use quipu_cluster::ids::NodeId;
use quipu_cluster::topology::Entry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::types::{Raft, Types, decode, encode, node_of};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Append = 1,
    Vote = 2,
    Snapshot = 3,
    Answer = 4,
    Refusal = 5,
    Proposal = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Answer, Append, Proposal, Refusal, Snapshot, Vote};
        [Append, Vote, Snapshot, Answer, Refusal, Proposal].into_iter().find(|kind| *kind as u8 == byte)
    }
}

fn message(kind: Kind, number: u64, body: &[u8]) -> Vec<u8> {
    [&[kind as u8][..], &number.to_le_bytes(), body].concat()
}

fn parse(bytes: &[u8]) -> Option<(Kind, u64, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (number, body) = rest.split_first_chunk()?;
    Some((Kind::of(*kind)?, u64::from_le_bytes(*number), body))
}

type Send = dyn Fn(NodeId, Vec<u8>) + std::marker::Send + Sync;

/// The questions of this node that wait for an answer, and the way to others.
#[derive(Clone)]
pub(super) struct Wire {
    send: Arc<Send>,
    asked: Arc<Mutex<HashMap<u64, Question>>>,
    next: Arc<AtomicU64>,
}

struct Question {
    to: NodeId,
    answer: oneshot::Sender<Option<Vec<u8>>>,
}

/// Removes a question that is no longer waited for.
struct Asked<'w>(&'w Wire, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked().remove(&self.1);
    }
}

impl Wire {
    /// `send` hands bytes to the connection to a node, if there is one.
    pub(super) fn new(send: Arc<Send>) -> Wire {
        Wire { send, asked: Arc::default(), next: Arc::default() }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, Question>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the leader to append an entry. There is no answer.
    pub(super) fn propose(&self, leader: NodeId, entry: &[u8]) {
        (self.send)(leader, message(Kind::Proposal, 0, entry));
    }

    async fn ask<Q: Serialize, A: DeserializeOwned, E: std::error::Error>(
        &self,
        to: NodeId,
        (kind, question): (Kind, &Q),
        patience: Duration,
    ) -> Result<A, RPCError<u64, EmptyNode, RaftError<u64, E>>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.asked().insert(number, Question { to, answer: sender });
        let _asked = Asked(self, number);
        (self.send)(to, message(kind, number, &encode(question)));
        let unreachable =
            |what: &str| RPCError::Unreachable(Unreachable::new(&AnyError::error(format!("node {to}: {what}"))));
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(Some(bytes))) => decode(&bytes).ok_or_else(|| {
                RPCError::Network(NetworkError::new(&AnyError::error(format!("node {to}: malformed answer"))))
            }),
            Ok(_) => Err(unreachable("it does not take part")),
            Err(_) => Err(unreachable("no answer")),
        }
    }

    /// Takes a message of a peer. Questions are answered by tasks of their own.
    pub(super) fn receive(&self, raft: &Raft, from: NodeId, bytes: &[u8]) {
        let Some((kind, number, body)) = parse(bytes) else { return };
        match kind {
            Kind::Answer => _ = self.take_answer(from, number, Some(body)),
            Kind::Refusal => _ = self.take_answer(from, number, None),
            Kind::Append => {
                let raft = raft.clone();
                self.answer((from, number, body), |asked| async move { raft.append_entries(asked).await });
            }
            Kind::Vote => {
                let raft = raft.clone();
                self.answer((from, number, body), |asked| async move { raft.vote(asked).await });
            }
            Kind::Snapshot => {
                let raft = raft.clone();
                self.answer((from, number, body), |asked| async move { raft.install_snapshot(asked).await });
            }
            Kind::Proposal if Entry::decode(body).is_none() => {}
            Kind::Proposal => super::append(raft, body.to_vec()),
        }
    }

    /// Gives an answer, or that there is none, to the caller that waits for it. Returns whether there is such a caller.
    fn take_answer(&self, from: NodeId, number: u64, body: Option<&[u8]>) -> bool {
        let mut asked = self.asked();
        if asked.get(&number).is_none_or(|question| question.to != from) {
            return false;
        }
        // Raft may have given up.
        asked.remove(&number).is_some_and(|question| question.answer.send(body.map(<[u8]>::to_vec)).is_ok())
    }

    /// Has a task answer question `number` of a peer.
    fn answer<Q, A, E, F>(
        &self,
        (to, number, body): (NodeId, u64, &[u8]),
        question: impl FnOnce(Q) -> F + std::marker::Send + 'static,
    ) where
        Q: DeserializeOwned + std::marker::Send + 'static,
        A: Serialize,
        E: std::fmt::Display,
        F: Future<Output = Result<A, E>> + std::marker::Send,
    {
        let send = self.send.clone();
        let Some(asked) = decode::<Q>(body) else {
            return send(to, message(Kind::Refusal, number, b"malformed request"));
        };
        tokio::spawn(async move {
            let answer = match question(asked).await {
                Ok(answer) => message(Kind::Answer, number, &encode(&answer)),
                Err(error) => message(Kind::Refusal, number, error.to_string().as_bytes()),
            };
            send(to, answer);
        });
    }
}

impl RaftNetworkFactory<Types> for Wire {
    type Network = Line;

    async fn new_client(&mut self, target: u64, _: &EmptyNode) -> Line {
        Line { wire: self.clone(), to: node_of(target) }
    }
}

/// The way to one node.
pub(super) struct Line {
    wire: Wire,
    to: NodeId,
}

type Reply<T, E = openraft::error::Infallible> = Result<T, RPCError<u64, EmptyNode, RaftError<u64, E>>>;

impl RaftNetwork<Types> for Line {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Reply<AppendEntriesResponse<u64>> {
        self.wire.ask(self.to, (Kind::Append, &rpc), option.hard_ttl()).await
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Reply<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        self.wire.ask(self.to, (Kind::Snapshot, &rpc), option.hard_ttl()).await
    }

    async fn vote(&mut self, rpc: VoteRequest<u64>, option: RPCOption) -> Reply<VoteResponse<u64>> {
        self.wire.ask(self.to, (Kind::Vote, &rpc), option.hard_ttl()).await
    }
}

/// Decodes bytes as a message and its body as all that Raft sends: nothing may panic, and what
/// decodes comes back from its own bytes.
#[cfg(feature = "fuzz")]
pub fn examine_message(bytes: &[u8]) {
    /// What decodes must come back from its own bytes.
    fn examine<T: Serialize + DeserializeOwned + std::fmt::Debug>(body: &[u8]) {
        if let Some(decoded) = decode::<T>(body) {
            let again = decode::<T>(&encode(&decoded)).map(|again| format!("{again:?}"));
            assert_eq!(again, Some(format!("{decoded:?}")));
        }
    }
    let Some((kind, number, body)) = parse(bytes) else { return };
    assert_eq!(message(kind, number, body), bytes);
    match kind {
        Kind::Append => examine::<AppendEntriesRequest<Types>>(body),
        Kind::Vote => examine::<VoteRequest<u64>>(body),
        Kind::Snapshot => examine::<InstallSnapshotRequest<Types>>(body),
        Kind::Answer => {
            examine::<AppendEntriesResponse<u64>>(body);
            examine::<VoteResponse<u64>>(body);
            examine::<InstallSnapshotResponse<u64>>(body);
        }
        Kind::Refusal => {}
        Kind::Proposal => drop(Entry::decode(body)),
    }
}

/// A message of each kind.
#[cfg(feature = "fuzz")]
pub fn sample_messages() -> Vec<(String, Vec<u8>)> {
    use openraft::{EntryPayload, LogId, SnapshotMeta, StoredMembership, Vote};

    let vote = Vote::new_committed(3, 1);
    let log_id = LogId { index: 5, ..LogId::default() };
    let entry = Entry::Ready { node: NodeId(2), epoch: quipu_cluster::ids::Epoch(4) };
    let entries = vec![openraft::Entry { log_id, payload: EntryPayload::Normal(entry.encode()) }];
    let append = AppendEntriesRequest::<Types> { vote, prev_log_id: Some(log_id), entries, leader_commit: None };
    let meta = SnapshotMeta {
        last_log_id: Some(log_id),
        last_membership: StoredMembership::default(),
        snapshot_id: "4".to_owned(),
    };
    let snapshot = InstallSnapshotRequest::<Types> { vote, meta, offset: 7, data: vec![1, 2, 3], done: true };
    let samples = [
        ("append", Kind::Append, encode(&append)),
        ("vote", Kind::Vote, encode(&VoteRequest::new(vote, Some(log_id)))),
        ("snapshot", Kind::Snapshot, encode(&snapshot)),
        ("appended", Kind::Answer, encode(&AppendEntriesResponse::<u64>::Success)),
        ("voted", Kind::Answer, encode(&VoteResponse::new(vote, None, true))),
        ("refused", Kind::Refusal, b"why".to_vec()),
        ("proposal", Kind::Proposal, entry.encode()),
    ];
    samples.into_iter().map(|(name, kind, body)| (name.to_owned(), message(kind, 9, &body))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_they_were_made_and_others_are_none() {
        let bytes = message(Kind::Vote, 7, b"body");
        assert_eq!(bytes, [&[2][..], &7_u64.to_le_bytes(), b"body"].concat());
        assert_eq!(parse(&bytes), Some((Kind::Vote, 7, &b"body"[..])));
        assert!((0..9).all(|length| parse(&bytes[..length]).is_none()));
        for kind in [0, 7, 255] {
            assert_eq!(parse(&[&[kind][..], &bytes[1..]].concat()), None);
        }
    }

    /// Only the node that was asked answers. Answers without a waiting caller, and malformed ones, are dropped.
    #[test]
    fn an_answer_goes_to_who_asked_and_comes_from_who_was_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let outlet = sent.clone();
        let wire = Wire::new(Arc::new(move |to, bytes| outlet.lock().unwrap().push((to, bytes))));
        let vote = |patience| {
            let asked = VoteRequest::new(openraft::Vote::new(1, 0), None);
            let wire = wire.clone();
            async move {
                let asked = (Kind::Vote, &asked);
                wire.ask::<_, VoteResponse<u64>, openraft::error::Infallible>(NodeId(2), asked, patience).await
            }
        };
        runtime.block_on(async {
            let (answered, ()) = tokio::join!(vote(Duration::from_secs(60)), async {
                let (to, bytes) = sent.lock().unwrap().remove(0);
                let (kind, number, _) = parse(&bytes).unwrap();
                assert_eq!((to, kind), (NodeId(2), Kind::Vote));
                let answer = encode(&VoteResponse::new(openraft::Vote::new(1, 0), None, true));
                // Not by another node.
                assert!(!wire.take_answer(NodeId(1), number, None));
                assert!(wire.take_answer(NodeId(2), number, Some(&answer)));
                assert!(!wire.take_answer(NodeId(2), number, Some(&answer)), "once");
            });
            assert!(answered.unwrap().vote_granted);
            assert!(vote(Duration::from_millis(1)).await.is_err(), "no node answers");
            assert!(wire.asked().is_empty());
        });
    }
}
