//! A frame: a header of 28 bytes, and the body of a message.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | bytes of the frame after this field |
//! | 4 | 4 | CRC-32C of all that follows |
//! | 8 | 1 | kind of the message |
//! | 9 | 3 | zero |
//! | 12 | 8 | the epoch that the sender knows |
//! | 20 | 8 | number of the request that this asks or answers; 0 for none |
//! | 28 | | body |

use std::fmt;

use super::message::{LOG, MARK, Message};
use crate::ids::Epoch;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 28;
const LENGTH_BYTES: usize = 4;
const CHECKSUM_END: usize = 8;

/// What all messages say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The epoch that the sender knew.
    pub epoch: Epoch,
    /// Which request this asks or answers.
    pub request: u64,
}

/// A message with its header.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The message.
    pub message: Message<'a>,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is longer than frames may be, or shorter than a header.
    Length(u64),
    /// Its checksum is another.
    Checksum,
    /// Its kind is not known, or its body is not of that kind.
    Body(u8),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Length(bytes) => write!(f, "a frame of {bytes} bytes"),
            Fault::Checksum => write!(f, "a frame whose checksum is wrong"),
            Fault::Body(kind) => write!(f, "a malformed frame of kind {kind}"),
        }
    }
}

/// The length of the frame that begins here, once its first bytes are there.
///
/// # Errors
/// A length that no frame has, so that no memory is reserved for it.
pub fn frame_length(bytes: &[u8], frame_bytes_max: usize) -> Result<Option<usize>, Fault> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    let length = u64::from(u32::from_le_bytes(*length)) + LENGTH_BYTES as u64;
    if length < HEADER_BYTES as u64 || length > frame_bytes_max as u64 {
        return Err(Fault::Length(length));
    }
    Ok(Some(length as usize))
}

/// A frame for the caller that drives a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside<'a> {
    /// A message of the topology's log.
    Log(&'a [u8]),
    /// What the sender's store has come to.
    Mark {
        /// The store.
        store: u64,
        /// The number in it.
        mark: u64,
    },
}

/// What a frame has that is not for the node, if it is a whole one of such a kind.
pub fn aside(frame: &[u8]) -> Option<Aside<'_>> {
    if !matches!(frame.get(CHECKSUM_END), Some(&LOG | &MARK)) {
        return None;
    }
    match Frame::decode(frame).ok()?.message {
        Message::Log { bytes } => Some(Aside::Log(bytes)),
        Message::Mark { store, mark } => Some(Aside::Mark { store, mark }),
        _ => None,
    }
}

impl<'a> Frame<'a> {
    /// Writes a frame at the end of a buffer.
    pub fn encode(header: Header, message: &Message<'_>, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; CHECKSUM_END]);
        bytes.extend_from_slice(&[message.kind(), 0, 0, 0]);
        bytes.extend_from_slice(&header.epoch.0.to_le_bytes());
        bytes.extend_from_slice(&header.request.to_le_bytes());
        message.encode(bytes);
        let length = bytes.len() - start - LENGTH_BYTES;
        bytes[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[start + CHECKSUM_END..]);
        bytes[start + LENGTH_BYTES..start + CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Decodes one whole frame.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Frame<'a>, Fault> {
        let Some((head, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(Fault::Length(bytes.len() as u64));
        };
        if frame_length(head, usize::MAX)? != Some(bytes.len()) {
            return Err(Fault::Length(bytes.len() as u64));
        }
        let u64_at = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(head[LENGTH_BYTES..CHECKSUM_END].try_into().expect("four bytes"));
        if crc32c::crc32c(&bytes[CHECKSUM_END..]) != checksum {
            return Err(Fault::Checksum);
        }
        let kind = head[CHECKSUM_END];
        if head[CHECKSUM_END + 1..12] != [0; 3] {
            return Err(Fault::Body(kind));
        }
        let message = Message::decode(kind, body).ok_or(Fault::Body(kind))?;
        Ok(Frame { header: Header { epoch: Epoch(u64_at(12)), request: u64_at(20) }, message })
    }
}
