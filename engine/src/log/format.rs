//! The bytes of a segment: names, the header, frames. `docs/internals/format-log.md` describes them.
//!
//! Invariants:
//! 1. Frames begin at multiples of [`ALIGNMENT_BYTES`]; all integers are little-endian.
//! 2. `First` and `Middle` frames carry bytes and end exactly where their segment ends.
//! 3. Eight zero bytes are not the start of a frame: a zero length with the kind `First` is not valid.
//! 4. A `Middle` frame without bytes begins an opening: the frames after it were written later than all before it.
//!
//! Costs: decoding allocates nothing and never panics, whatever the bytes.
//!
//! Not here: files, positions across segments, policy.

use std::fmt;

/// The first bytes of every segment.
pub(super) const MAGIC: [u8; 8] = *b"QuipuLog";
/// The version written, and the newest that is read.
pub(super) const VERSION: u32 = 1;
/// Length of the header; the first frame begins here. Less than a disk sector, so it is never torn.
pub(super) const HEADER_BYTES: usize = 128;
/// Length of what stands before a frame's payload.
pub(super) const FRAME_HEADER_BYTES: usize = 24;
/// Where frames may begin.
pub(super) const ALIGNMENT_BYTES: usize = 8;
/// A rest of a segment smaller than this is left unused: a frame header and one aligned word of payload.
pub(super) const MIN_REST_BYTES: usize = FRAME_HEADER_BYTES + ALIGNMENT_BYTES;
/// Segments are whole memory pages and direct-write sectors.
pub(super) const SEGMENT_UNIT_BYTES: usize = 4096;
/// The largest segment: a payload length has 30 bits.
pub(super) const MAX_SEGMENT_BYTES: usize = 1 << 30;

const VERSION_AT: usize = 8;
const SEGMENT_BYTES_AT: usize = 12;
const SEGMENT_ID_AT: usize = 16;
const DATABASE_ID_AT: usize = 24;
const BASE_LSN_AT: usize = 32;
const FIRST_SEQUENCE_AT: usize = 40;
const PREVIOUS_ID_AT: usize = 48;
const PREVIOUS_END_AT: usize = 56;
const HEADER_DURABLE_AT: usize = 64;
const RESERVED_AT: usize = 72;
const HEADER_CHECKSUM_AT: usize = 124;

const FRAME_CHECKSUM_AT: usize = 0;
const LENGTH_AT: usize = 4;
const SEQUENCE_AT: usize = 8;
const DURABLE_AT: usize = 16;
const LENGTH_BITS: u32 = 30;
const SEQUENCE_BITS: u32 = 56;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;

const _: () = {
    assert!(VERSION_AT == MAGIC.len());
    assert!(SEGMENT_BYTES_AT == VERSION_AT + 4);
    assert!(SEGMENT_ID_AT == SEGMENT_BYTES_AT + 4);
    assert!(DATABASE_ID_AT == SEGMENT_ID_AT + 8);
    assert!(BASE_LSN_AT == DATABASE_ID_AT + 8);
    assert!(FIRST_SEQUENCE_AT == BASE_LSN_AT + 8);
    assert!(PREVIOUS_ID_AT == FIRST_SEQUENCE_AT + 8);
    assert!(PREVIOUS_END_AT == PREVIOUS_ID_AT + 8);
    assert!(HEADER_DURABLE_AT == PREVIOUS_END_AT + 8);
    assert!(RESERVED_AT == HEADER_DURABLE_AT + 8);
    assert!(HEADER_CHECKSUM_AT > RESERVED_AT);
    assert!(HEADER_CHECKSUM_AT + 4 == HEADER_BYTES);
    assert!(HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES) && HEADER_BYTES <= 512);
    assert!(LENGTH_AT == FRAME_CHECKSUM_AT + 4);
    assert!(SEQUENCE_AT == LENGTH_AT + 4);
    assert!(DURABLE_AT == SEQUENCE_AT + 8);
    assert!(FRAME_HEADER_BYTES == DURABLE_AT + 8);
    assert!(FRAME_HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES));
    assert!(SEGMENT_UNIT_BYTES.is_multiple_of(ALIGNMENT_BYTES));
    assert!(SEGMENT_UNIT_BYTES >= HEADER_BYTES + MIN_REST_BYTES);
    assert!(MAX_SEGMENT_BYTES - HEADER_BYTES - FRAME_HEADER_BYTES <= LENGTH_MASK as usize);
};

/// A position in the log: the number of bytes of frames before it, over all segments ever, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The file name of segment `id`.
pub(super) fn segment_name(id: u64) -> String {
    format!("log-{id:010}.quipu")
}

/// The file name of a former segment `id` that waits for reuse.
pub(super) fn spare_name(id: u64) -> String {
    format!("log-spare-{id:010}.quipu")
}

/// The name of a file being filled with zeros; its allocation is certain only once it is renamed.
pub(super) const UNFINISHED_NAME: &str = "log-new.quipu";

/// What a file of the log is, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Segment(u64),
    Spare(u64),
    Unfinished,
}

/// Reads a file name; `None` if the file is not the log's.
pub(super) fn parse_name(name: &str) -> Option<Name> {
    if name == UNFINISHED_NAME {
        return Some(Name::Unfinished);
    }
    let stem = name.strip_prefix("log-")?.strip_suffix(".quipu")?;
    let (digits, spare) = match stem.strip_prefix("spare-") {
        Some(digits) => (digits, true),
        None => (stem, false),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let id = digits.parse().ok()?;
    let (canonical, parsed) =
        if spare { (spare_name(id), Name::Spare(id)) } else { (segment_name(id), Name::Segment(id)) };
    (canonical == name).then_some(parsed)
}

/// Whether a file belongs to the log, judged by its name.
pub(crate) fn is_log_name(name: &str) -> bool {
    parse_name(name).is_some()
}

/// The initial value of the checksums of a segment's frames.
///
/// A CRC of 32 bits distinguishes any two numbers that differ in their low 32 bits only, so two ids less than 2^32
/// apart never share a seed within a database, and equal bytes under different seeds never share a checksum.
pub(super) fn frame_seed(database_id: u64, segment_id: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&database_id.to_le_bytes()), &segment_id.to_le_bytes())
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// The start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) segment_bytes: usize,
    pub(super) segment_id: u64,
    pub(super) database_id: u64,
    /// The position of the first byte after the header.
    pub(super) base_lsn: Lsn,
    /// The sequence number of the first frame.
    pub(super) first_sequence: u64,
    /// The segment before this one in the log, or 0.
    pub(super) previous_id: u64,
    /// The offset in it at which the log left it.
    pub(super) previous_end: u64,
    /// Everything below was durable when the segment was begun.
    pub(super) durable_lsn: Lsn,
}

/// Why a header is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Not a header, or a damaged one.
    Invalid,
    /// A sound header of this newer version.
    Newer(u32),
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |offset: usize, field: &[u8]| {
            bytes[offset..offset + field.len()].copy_from_slice(field);
        };
        put(0, &MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(SEGMENT_BYTES_AT, &(self.segment_bytes as u32).to_le_bytes());
        put(SEGMENT_ID_AT, &self.segment_id.to_le_bytes());
        put(DATABASE_ID_AT, &self.database_id.to_le_bytes());
        put(BASE_LSN_AT, &self.base_lsn.0.to_le_bytes());
        put(FIRST_SEQUENCE_AT, &self.first_sequence.to_le_bytes());
        put(PREVIOUS_ID_AT, &self.previous_id.to_le_bytes());
        put(PREVIOUS_END_AT, &self.previous_end.to_le_bytes());
        put(HEADER_DURABLE_AT, &self.durable_lsn.0.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]);
        bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header, HeaderFault> {
        let invalid = HeaderFault::Invalid;
        let bytes = bytes.get(..HEADER_BYTES).ok_or(invalid)?;
        if !bytes.starts_with(&MAGIC)
            || u32_at(bytes, HEADER_CHECKSUM_AT) != Some(crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]))
        {
            return Err(invalid);
        }
        let version = u32_at(bytes, VERSION_AT).ok_or(invalid)?;
        if version > VERSION {
            return Err(HeaderFault::Newer(version));
        }
        let field = |offset| u64_at(bytes, offset).ok_or(invalid);
        let header = Header {
            segment_bytes: u32_at(bytes, SEGMENT_BYTES_AT).ok_or(invalid)? as usize,
            segment_id: field(SEGMENT_ID_AT)?,
            database_id: field(DATABASE_ID_AT)?,
            base_lsn: Lsn(field(BASE_LSN_AT)?),
            first_sequence: field(FIRST_SEQUENCE_AT)?,
            previous_id: field(PREVIOUS_ID_AT)?,
            previous_end: field(PREVIOUS_END_AT)?,
            durable_lsn: Lsn(field(HEADER_DURABLE_AT)?),
        };
        // Positions are 63-bit numbers, so that adding a segment's length to one never overflows.
        let sound = version == VERSION
            && is_segment_size(header.segment_bytes)
            && header.base_lsn.0 < 1 << 63
            && header.base_lsn.0.is_multiple_of(ALIGNMENT_BYTES as u64)
            && header.durable_lsn <= header.base_lsn
            && header.previous_id < header.segment_id
            && header.previous_end <= MAX_SEGMENT_BYTES as u64;
        sound.then_some(header).ok_or(invalid)
    }

    /// The position of the byte at `offset`, which is not inside the header.
    pub(super) fn lsn_at(&self, offset: usize) -> Lsn {
        Lsn(self.base_lsn.0 + (offset - HEADER_BYTES) as u64)
    }

    /// The offset of position `lsn`, if the segment has room for it.
    pub(super) fn offset_of(&self, lsn: Lsn) -> Option<usize> {
        let offset = lsn.0.checked_sub(self.base_lsn.0)? + HEADER_BYTES as u64;
        (offset <= self.segment_bytes as u64).then_some(offset as usize)
    }
}

/// Whether a segment may have this length.
pub(super) fn is_segment_size(bytes: usize) -> bool {
    bytes.is_multiple_of(SEGMENT_UNIT_BYTES) && (SEGMENT_UNIT_BYTES..=MAX_SEGMENT_BYTES).contains(&bytes)
}

/// Which part of a record a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    First = 0,
    Middle = 1,
    Last = 2,
    Full = 3,
}

/// The fields before a payload, except the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// Bytes of payload.
    pub(super) length: usize,
    /// The number of the record; less than 2^56.
    pub(super) sequence: u64,
    /// How many times the log had gone on in this segment after a recovery when the frame was written.
    pub(super) opening: u8,
    /// Everything below was durable when the frame was written.
    pub(super) durable_lsn: Lsn,
}

/// The space that a frame with `length` bytes of payload takes.
pub(super) const fn frame_bytes(length: usize) -> usize {
    FRAME_HEADER_BYTES + length.next_multiple_of(ALIGNMENT_BYTES)
}

impl Frame {
    /// The header with a checksum of zero; see [`FRAME_UNCHECKED_BYTES`].
    #[inline]
    pub(super) fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let word = self.length as u32 | (self.kind as u32) << LENGTH_BITS;
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[LENGTH_AT..SEQUENCE_AT].copy_from_slice(&word.to_le_bytes());
        let sequence = self.sequence | (self.opening as u64) << SEQUENCE_BITS;
        bytes[SEQUENCE_AT..DURABLE_AT].copy_from_slice(&sequence.to_le_bytes());
        bytes[DURABLE_AT..].copy_from_slice(&self.durable_lsn.0.to_le_bytes());
        bytes
    }

    /// The space that the frame at the start of these bytes claims to take, unverified.
    pub(super) fn told_bytes(bytes: &[u8]) -> Option<usize> {
        Some(frame_bytes((u32_at(bytes, LENGTH_AT)? & LENGTH_MASK) as usize))
    }

    /// Decodes the frame at the start of `bytes`, which contain all of it; the segment has `room` bytes from there on.
    pub(super) fn decode_first(bytes: &[u8], room: usize, seed: u32) -> Option<Frame> {
        let word = u32_at(bytes, LENGTH_AT)?;
        let length = (word & LENGTH_MASK) as usize;
        let sequence = u64_at(bytes, SEQUENCE_AT)?;
        let frame = Frame {
            kind: match word >> LENGTH_BITS {
                0 => Kind::First,
                1 => Kind::Middle,
                2 => Kind::Last,
                _ => Kind::Full,
            },
            length,
            sequence: sequence & SEQUENCE_MASK,
            opening: (sequence >> SEQUENCE_BITS) as u8,
            durable_lsn: frame_claim(bytes, 0)?,
        };
        let bytes = bytes.get(..frame.bytes())?;
        let runs_on = matches!(frame.kind, Kind::First | Kind::Middle);
        if runs_on && !frame.is_opening() && (length == 0 || bytes.len() != room) {
            return None;
        }
        let checksum = crc32c::crc32c_append(seed, &bytes[FRAME_UNCHECKED_BYTES..]);
        (u32_at(bytes, FRAME_CHECKSUM_AT)? == checksum).then_some(frame)
    }

    /// The space it takes.
    pub(super) fn bytes(&self) -> usize {
        frame_bytes(self.length)
    }

    /// The frame that begins an opening, before record `sequence`.
    pub(super) fn of_opening(opening: u8, sequence: u64, durable_lsn: Lsn) -> Frame {
        Frame { kind: Kind::Middle, length: 0, sequence, opening, durable_lsn }
    }

    /// Whether it begins an opening.
    pub(super) fn is_opening(&self) -> bool {
        self.kind == Kind::Middle && self.length == 0
    }
}

/// The checksum itself. Everything of a frame after it is checked, including padding.
pub(super) const FRAME_UNCHECKED_BYTES: usize = LENGTH_AT;

/// The position that a frame at `offset` would claim to be durable, unverified.
#[inline]
pub(super) fn frame_claim(segment: &[u8], offset: usize) -> Option<Lsn> {
    u64_at(segment, offset.checked_add(DURABLE_AT)?).map(Lsn)
}
