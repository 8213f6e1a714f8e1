//! The node protocol: frames and messages, encoded to bytes and decoded in place. `docs/internals/cluster.md` has the
//! tables.
//!
//! Invariants:
//! 1. No bytes make decoding panic or allocate more than they are long (times a small constant).
//! 2. What decodes encodes to the same bytes.
//! 3. A frame of another protocol version, or damaged, is an error of the connection: it is closed.
//!
//! Not here: connections, and what is done with messages.

mod body;
pub mod frame;
pub mod hello;
pub mod message;

pub use frame::{Aside, Fault, Frame, HEADER_BYTES, Header, aside, frame_length};
pub use message::{Cut, Message, Refusal, Row, Span, Summary};

/// The version of the protocol that this program speaks, and the oldest that it can.
///
/// Two nodes speak the highest version that both know, so a rolling upgrade works if neighbouring versions overlap.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;
