//! Decodes a single segment in memory. For fuzz targets, and as an oracle for tests of file readers.

use super::format::{ALIGNMENT_BYTES, Frame, HEADER_BYTES, Header, Lsn, frame_claim, frame_seed};

/// What [`decode_segment`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The segment's number.
    pub segment_id: u64,
    /// Frames that verify, from the first one on.
    pub frame_count: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Where the first frame that does not verify would begin.
    pub end_offset: usize,
    /// The position that a frame after `end_offset` claims to be durable, if any does.
    pub later_claim: Option<Lsn>,
}

/// Decodes a single segment; `None` if there is no sound header. Never panics on any bytes.
pub fn decode_segment(bytes: &[u8]) -> Option<SegmentSummary> {
    let header = Header::decode(bytes).ok()?;
    let bytes = &bytes[..bytes.len().min(header.segment_bytes)];
    let seed = frame_seed(header.database_id, header.segment_id);
    let mut summary =
        SegmentSummary { segment_id: header.segment_id, end_offset: HEADER_BYTES, ..SegmentSummary::default() };
    while let Some(frame) = Frame::decode(bytes, summary.end_offset, seed) {
        summary.frame_count += 1;
        summary.payload_bytes += frame.length as u64;
        summary.end_offset += frame.bytes();
    }
    let end = header.lsn_at(summary.end_offset);
    let ceiling = Lsn(end.0.saturating_add(bytes.len() as u64));
    summary.later_claim = find_claim(bytes, summary.end_offset, seed, end, ceiling);
    Some(summary)
}

/// Like [`Frames::find_claim`](super::frames::Frames::find_claim), for a segment in memory.
pub(super) fn find_claim(bytes: &[u8], from: usize, seed: u32, end: Lsn, ceiling: Lsn) -> Option<Lsn> {
    (from.next_multiple_of(ALIGNMENT_BYTES)..bytes.len()).step_by(ALIGNMENT_BYTES).find_map(|offset| {
        let claim = frame_claim(bytes, offset)?;
        let plausible = claim > end && claim <= ceiling;
        (plausible && Frame::decode(bytes, offset, seed).is_some()).then_some(claim)
    })
}

impl Frame {
    /// Decodes the frame at `offset` of a whole segment; `None` if none verifies there.
    pub(super) fn decode(segment: &[u8], offset: usize, seed: u32) -> Option<Frame> {
        let rest = segment.get(offset..)?;
        Frame::decode_first(rest, rest.len(), seed)
    }
}
