//! Appends frames: puts them together and stores them into the segment being written.
//!
//! Invariants:
//! 1. `offset` is a multiple of 8, at most the segment's length; everything before it is stored.
//! 2. A frame is stored as a whole or, if the process dies, does not verify.
//!
//! Cost: a small frame is copied twice and checked once (the first copy stays in the processor's cache); the payload of
//! a large one is read for the checksum and copied once.
//!
//! Not here: what fits, where the rest goes, and locks (`writer`).

use super::format::{FRAME_HEADER_BYTES, FRAME_UNCHECKED_BYTES, Frame, HEADER_BYTES, Header, Lsn, frame_seed};
use crate::io::Mapping;

/// Frames up to this size are assembled in a buffer and stored with one copy; larger ones go straight into the mapping.
const ASSEMBLY_BYTES: usize = 8 << 10;

/// Stored bytes after which the mapping releases their pages, so that a log does not count as memory of the process. A
/// call costs some 30 us.
const RELEASE_BYTES: usize = 2 << 20;

/// Where the next frame goes.
#[derive(Debug)]
pub(super) struct Appender {
    pub(super) header: Header,
    seed: u32,
    pub(super) offset: usize,
    pub(super) next_sequence: u64,
    /// See [`Frame::opening`].
    pub(super) opening: u8,
    mapping: Box<dyn Mapping>,
    /// The pages of the mapping are released up to here.
    released: usize,
    assembly: Box<[u8]>,
}

impl Appender {
    /// At `offset` of a segment whose header is stored in `mapping`.
    pub(super) fn new(header: Header, mapping: Box<dyn Mapping>, offset: usize, next_sequence: u64) -> Appender {
        Appender {
            header,
            seed: frame_seed(header.database_id, header.segment_id),
            offset,
            next_sequence,
            opening: 0,
            mapping,
            released: 0,
            assembly: vec![0; ASSEMBLY_BYTES].into(),
        }
    }

    /// Leaves the segment for another one. Returns the mapping of the old one.
    pub(super) fn enter(&mut self, header: Header, mapping: Box<dyn Mapping>) -> Box<dyn Mapping> {
        self.header = header;
        self.seed = frame_seed(header.database_id, header.segment_id);
        self.offset = HEADER_BYTES;
        self.opening = 0;
        self.released = 0;
        std::mem::replace(&mut self.mapping, mapping)
    }

    #[inline]
    pub(super) fn rest(&self) -> usize {
        self.header.segment_bytes - self.offset
    }

    #[inline]
    pub(super) fn lsn(&self) -> Lsn {
        self.header.lsn_at(self.offset)
    }

    /// Stores a frame that fits, with the next `frame.length` bytes of `parts`.
    #[inline]
    pub(super) fn store(&mut self, frame: &Frame, parts: &mut Parts<'_>) {
        let bytes = frame.bytes();
        debug_assert!(bytes <= self.rest());
        if self.assemble(frame, parts) {
            self.store_assembled(bytes);
        } else {
            self.store_large(frame, parts);
            self.advance(bytes);
        }
    }

    /// Assembles a frame that may be stored next; until then nothing has happened. Returns false if it is too large for
    /// that.
    #[inline]
    pub(super) fn assemble(&mut self, frame: &Frame, parts: &mut Parts<'_>) -> bool {
        let bytes = frame.bytes();
        if let Some(assembly) = self.assembly.get_mut(..bytes) {
            assembly[..FRAME_HEADER_BYTES].copy_from_slice(&frame.encode());
            let payload_end = FRAME_HEADER_BYTES + frame.length;
            let mut at = FRAME_HEADER_BYTES;
            parts.take(frame.length, |part| {
                assembly[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            });
            assembly[payload_end..].fill(0);
            let checksum = crc32c::crc32c_append(self.seed, &assembly[FRAME_UNCHECKED_BYTES..]);
            assembly[..FRAME_UNCHECKED_BYTES].copy_from_slice(&checksum.to_le_bytes());
            return true;
        }
        false
    }

    /// Stores the frame of `bytes` that was assembled last. It fits.
    #[inline]
    pub(super) fn store_assembled(&mut self, bytes: usize) {
        self.mapping.write(self.offset, &self.assembly[..bytes]);
        self.advance(bytes);
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
        if self.offset - self.released >= RELEASE_BYTES {
            self.release();
        }
    }

    /// Releases the pages of the mapping that are full.
    #[cold]
    fn release(&mut self) {
        let end = self.offset - self.offset % 4096;
        self.mapping.release(self.released, end);
        self.released = end;
    }

    /// Stores a frame that would not fit the buffer: reads the payload twice instead of copying it twice.
    #[cold]
    fn store_large(&mut self, frame: &Frame, parts: &mut Parts<'_>) {
        let mut header = frame.encode();
        let padding = &[0; 8][..frame.bytes() - FRAME_HEADER_BYTES - frame.length];
        let mut checksum = crc32c::crc32c_append(self.seed, &header[FRAME_UNCHECKED_BYTES..]);
        parts.clone().take(frame.length, |part| {
            checksum = crc32c::crc32c_append(checksum, part);
        });
        checksum = crc32c::crc32c_append(checksum, padding);
        header[..FRAME_UNCHECKED_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let mut at = self.offset;
        let mut put = |bytes: &[u8]| {
            self.mapping.write(at, bytes);
            at += bytes.len();
        };
        put(&header);
        parts.take(frame.length, &mut put);
        put(padding);
    }
}

/// A payload in parts, read from front to back.
#[derive(Clone)]
pub(super) struct Parts<'a> {
    parts: &'a [&'a [u8]],
    /// How much of the first part was read.
    read: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(parts: &'a [&'a [u8]]) -> Self {
        Parts { parts, read: 0 }
    }

    /// Hands the next `length` bytes to `each`, piece by piece.
    #[inline]
    fn take(&mut self, mut length: usize, mut each: impl FnMut(&[u8])) {
        while let Some((first, others)) = self.parts.split_first()
            && length > 0
        {
            let piece = &first[self.read..];
            if piece.len() > length {
                each(&piece[..length]);
                self.read += length;
                return;
            }
            each(piece);
            length -= piece.len();
            self.parts = others;
            self.read = 0;
        }
    }
}
