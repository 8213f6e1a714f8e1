//! Inputs and outputs of a node.

use crate::api::{Answer, Request};
use crate::ids::NodeId;
use crate::routing::Routing;
use crate::topology::Entry;

/// What a node takes in.
#[derive(Debug)]
pub enum Input<'i> {
    /// A frame of a peer, whole.
    Frame {
        /// Who sent it.
        from: NodeId,
        /// Its bytes.
        bytes: &'i [u8],
    },
    /// The connection to a peer is there.
    Connected(NodeId),
    /// The connection to a peer broke: what was sent and not answered may be lost.
    Disconnected(NodeId),
    /// An answer of so many bytes has begun to come, and takes its time.
    Coming {
        /// From whom.
        from: NodeId,
        /// To which request.
        request: u64,
        /// The bytes of its frame.
        bytes: usize,
    },
    /// The log of the topology has come so far.
    Topology(Routing),
    /// A client asks something.
    Request {
        /// Names the request to the program that drives the node.
        client: u64,
        /// What is asked.
        request: Request,
    },
    /// Compare all partitions now.
    Repair,
    /// Time has passed.
    Tick,
}

/// What a node puts out.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A frame for a peer. Those of one turn to one peer may go out as one write.
    Send {
        /// To whom.
        to: NodeId,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// The answer to a request.
    Answer {
        /// Which.
        client: u64,
        /// The answer.
        answer: Answer,
    },
    /// An entry for the log of the topology. It is proposed again until it has an effect.
    Propose(Entry),
}
