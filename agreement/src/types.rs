//! The types that Raft is used with, and how its messages and entries are written as bytes.

use std::io::Cursor;

use openraft::{AnyError, EmptyNode, ErrorSubject, ErrorVerb, StorageError, StorageIOError};
use quipu::{Error, ErrorKind};
use quipu_cluster::ids::NodeId;
use serde::Serialize;
use serde::de::DeserializeOwned;

openraft::declare_raft_types!(
    /// An entry of the log is an encoded [`Entry`](quipu_cluster::topology::Entry) of the topology.
    pub(super) Types:
        D = Vec<u8>,
        R = (),
        NodeId = u64,
        Node = EmptyNode,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub(super) type Raft = openraft::Raft<Types>;
pub(super) type LogId = openraft::LogId<u64>;
pub(super) type Stored<T> = Result<T, StorageError<u64>>;

/// The id of a node in Raft.
pub(super) fn raft_id(node: NodeId) -> u64 {
    u64::from(node.0)
}

/// The node of an id in Raft.
pub(super) fn node_of(id: u64) -> NodeId {
    NodeId(u16::try_from(id).unwrap_or(u16::MAX))
}

/// Bytes of something that Raft sends or keeps.
pub(super) fn encode<T: Serialize>(what: &T) -> Vec<u8> {
    postcard::to_stdvec(what).expect("numbers and lists can be written to memory")
}

/// What [`encode`] has made bytes of; `None` for any other bytes.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// The error of a malformed stored row.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the log of the topology: {what} is damaged"))
}

/// An error of the database, as Raft wants it.
pub(super) fn failed(error: &Error, subject: ErrorSubject<u64>, verb: ErrorVerb) -> StorageError<u64> {
    StorageError::IO { source: StorageIOError::new(subject, verb, AnyError::error(error.to_string())) }
}
