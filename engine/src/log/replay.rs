//! Reading the frames of a chain of segments, and judging what ends it.
//!
//! Invariants:
//! 1. Records are visited in order, each once, each with a checksum that holds; nothing behind the first gap is visited.
//! 2. The log ends without complaint only if nothing that verifies claims that a byte behind that end was durable.
//!
//! Costs: a window of one segment in memory at a time (`frames.rs`), and one record if it spans segments. The files behind the end are read
//! once too, for their claims.
//!
//! Not here: which segments form the chain (`recovery.rs`), repair.

use super::format::{ALIGNMENT_BYTES, Frame, HEADER_BYTES, Header, Kind, Lsn, frame_claim, frame_seed};
use super::frames::Frames;
use super::recovery::LogFile;
use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;

/// Progress is told each time this many bytes were visited.
const PROGRESS_BYTES: usize = 1 << 20;

/// Why reading ends early.
pub(super) enum Stop {
    /// What is on disk is not what was once durable there.
    Damage(Error),
    /// Reading or visiting failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// One pass over a chain.
pub(super) struct Replay<'a> {
    disk: &'a dyn Disk,
    database_id: u64,
    files: &'a [LogFile],
    chain: &'a [usize],
    /// Behind the last whole record: the place in `chain`, the offset in that segment, the position.
    pub(super) end_at: usize,
    pub(super) end_offset: usize,
    pub(super) end_lsn: Lsn,
    pub(super) next_sequence: u64,
    /// The highest position that anything read so far claims to be durable.
    pub(super) claimed: Lsn,
    pub(super) record_count: u64,
    /// What was read of a record that spans segments.
    partial: Option<Vec<u8>>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        database_id: u64,
        files: &'a [LogFile],
        chain: &'a [usize],
        from: Lsn,
        from_sequence: u64,
    ) -> Replay<'a> {
        Replay {
            disk,
            database_id,
            files,
            chain,
            end_at: 0,
            end_offset: 0,
            end_lsn: from,
            next_sequence: from_sequence,
            claimed: from,
            record_count: 0,
            partial: None,
        }
    }

    pub(super) fn run(
        &mut self,
        progress: &mut dyn FnMut(u64, u64),
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<(), Stop> {
        let from = self.end_lsn;
        let Some(&start) = self.chain.first() else {
            let path = self.files.last().map(|file| file.path.clone());
            return Err(Stop::Damage(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "no segment of the log holds position {from}, where the checkpoint ends (the newest is {}); \
                     restore the missing log files or a backup, or open it read-only",
                    path.map_or("none".to_string(), |path| path.display().to_string())
                ),
            )));
        };
        let holder = &self.files[start];
        self.end_offset = holder.header.and_then(|header| header.offset_of(from)).unwrap_or(HEADER_BYTES);
        let first_offset = self.end_offset;
        let total: u64 =
            self.chain.iter().map(|&index| self.files[index].bytes).sum::<u64>().saturating_sub(first_offset as u64);
        let mut done = 0;
        progress(done, total);
        for at in 0..self.chain.len() {
            let file = &self.files[self.chain[at]];
            let Some(header) = file.header else { break };
            let first = if at == 0 { first_offset } else { HEADER_BYTES };
            self.check_link(at, &header)?;
            let mut frames = file.frames(self.disk, self.database_id)?;
            let mut told = first;
            let mut tell = |offset: usize, last: bool| {
                if last || offset - told >= PROGRESS_BYTES {
                    done += (offset - told) as u64;
                    told = offset;
                    progress(done, total);
                }
            };
            let stop = self.read_segment(at, &header, &mut frames, first, &mut tell, visit)?;
            let left_at = self.successor(at).map(|next| next.previous_end);
            tell(frames.len().max(first), true);
            if left_at != Some(stop as u64) {
                if at == 0 && stop == first && left_at.is_none() {
                    check_reaches(file, &mut frames, first)?;
                }
                return self.judge(at, stop, &mut frames);
            }
        }
        Ok(())
    }

    fn successor(&self, at: usize) -> Option<Header> {
        let index = *self.chain.get(at + 1)?;
        self.files[index].header
    }

    /// A segment that is not the first must go on exactly where the one before it was left, which was read up to there.
    fn check_link(&mut self, at: usize, header: &Header) -> Result<(), Stop> {
        self.claimed = self.claimed.max(header.durable_lsn);
        if at == 0 {
            return Ok(());
        }
        let file = &self.files[self.chain[at]];
        let before = &self.files[self.chain[at - 1]];
        let reached = before.header.map(|before| before.lsn_at((header.previous_end as usize).max(HEADER_BYTES)));
        if reached != Some(header.base_lsn) {
            return Err(damage(file, 0, "its position is not where its predecessor was left"));
        }
        if header.first_sequence != self.next_sequence {
            return Err(damage(file, 0, "its first record is not the one that comes next"));
        }
        Ok(())
    }

    /// Visits the records of one segment from offset `first` on, and returns the offset at which reading ended.
    fn read_segment(
        &mut self,
        at: usize,
        header: &Header,
        frames: &mut Frames<'_>,
        first: usize,
        tell: &mut dyn FnMut(usize, bool),
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<usize, Stop> {
        let file = &self.files[self.chain[at]];
        let limit = self.successor(at).map_or(frames.len() as u64, |next| next.previous_end);
        let mut offset = first;
        while (offset as u64) < limit {
            let Some((frame, payload)) = frames.at(offset)? else {
                break;
            };
            let next = offset + frame.bytes();
            if next as u64 > limit {
                break;
            }
            if frame.sequence != self.next_sequence {
                return Err(damage(file, offset, "a record's number is not the one that comes next"));
            }
            self.claimed = self.claimed.max(frame.durable_lsn);
            match (frame.kind, &mut self.partial) {
                (Kind::Full, None) => visit(frame.sequence, payload)?,
                (Kind::First, None) => self.partial = Some(payload.to_vec()),
                (Kind::Middle, Some(partial)) => partial.extend_from_slice(payload),
                (Kind::Last, Some(partial)) => {
                    partial.extend_from_slice(payload);
                    visit(frame.sequence, partial)?;
                    self.partial = None;
                }
                _ => return Err(damage(file, offset, "parts of records are out of order")),
            }
            offset = next;
            if self.partial.is_none() {
                self.next_sequence = frame.sequence.wrapping_add(1);
                self.record_count += 1;
                self.end_at = at;
                self.end_offset = offset;
                self.end_lsn = header.lsn_at(offset);
            }
            tell(offset, false);
        }
        Ok(offset)
    }

    /// Reading ended at offset `stop` of segment `at`: the end of the log, or damage?
    fn judge(&mut self, at: usize, stop: usize, frames: &mut Frames<'_>) -> Result<(), Stop> {
        let file = &self.files[self.chain[at]];
        let end = self.end_lsn;
        let spoiled = |witness: &LogFile, claim: Lsn| {
            let what = format!(
                "no frame verifies here, but {} says that the log was durable up to position {claim}, {} bytes further",
                witness.path.display(),
                claim.0 - end.0
            );
            damage(file, stop, &what)
        };
        for witness in self.files {
            if let Some(header) = witness.header.filter(|header| header.durable_lsn > end) {
                return Err(spoiled(witness, header.durable_lsn));
            }
        }
        // No claim can be above what all files together have room for.
        let room: u64 = self.files.iter().map(|file| file.bytes).sum();
        let ceiling = Lsn(end.0.saturating_add(room));
        if let Some(claim) = frames.find_claim(stop, end, ceiling)? {
            return Err(spoiled(file, claim));
        }
        for witness in self.files.iter().filter(|witness| witness.id > file.id) {
            let mut frames = witness.frames(self.disk, self.database_id)?;
            if let Some(claim) = frames.find_claim(HEADER_BYTES, end, ceiling)? {
                return Err(spoiled(witness, claim));
            }
        }
        Ok(())
    }
}

fn damage(file: &LogFile, offset: usize, what: &str) -> Stop {
    Stop::Damage(Error::corrupt(&file.path, offset as u64, what))
}

/// The log is empty from the checkpoint on, and the segment before it need not be the one that the checkpoint meant: its
/// records must lead up to that position, at offset `target`, exactly.
fn check_reaches(file: &LogFile, frames: &mut Frames<'_>, target: usize) -> Result<(), Stop> {
    let mut offset = HEADER_BYTES;
    while offset < target {
        match frames.at(offset)? {
            Some((frame, _)) => offset += frame.bytes(),
            None => break,
        }
    }
    if offset == target {
        return Ok(());
    }
    let what = format!("the log ends before offset {target}, up to which a checkpoint covers it");
    Err(damage(file, offset, &what))
}

/// As [`Frames::find_claim`], of a segment in memory.
pub(super) fn find_claim(bytes: &[u8], from: usize, seed: u32, end: Lsn, ceiling: Lsn) -> Option<Lsn> {
    (from.next_multiple_of(ALIGNMENT_BYTES)..bytes.len()).step_by(ALIGNMENT_BYTES).find_map(|offset| {
        let claim = frame_claim(bytes, offset)?;
        let plausible = claim > end && claim <= ceiling;
        (plausible && Frame::decode(bytes, offset, seed).is_some()).then_some(claim)
    })
}

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
    /// The position that a frame behind `end_offset` claims to be durable, if any does.
    pub later_claim: Option<Lsn>,
}

/// Decodes one segment by itself: `None` if there is no sound header. Never panics, whatever the bytes.
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
