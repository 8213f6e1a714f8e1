//! Reads the frames of a chain of segments, and judges what ends it.
//!
//! Invariants:
//! 1. Records are visited in order, each once, each with a valid checksum; nothing after the first gap is visited.
//! 2. The log ends without an error only if nothing that verifies claims that a byte after that end was durable.
//!
//! Cost: a window of one segment in memory at a time (`frames.rs`), and one record if it spans segments. The files
//! after the end are read once too, for their claims.
//!
//! Not here: which segments form the chain (`recovery.rs`), repair.

use super::format::{HEADER_BYTES, Header, Kind, Lsn};
use super::frames::Frames;
use super::recovery::LogFile;
use super::torn_tail::{check_reaches, damage, reached};
use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;

/// Progress is reported each time this many bytes were visited.
const PROGRESS_BYTES: usize = 1 << 20;

/// Why reading ends early.
pub(super) enum Stop {
    /// The bytes on disk are not those that were once durable there.
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
    pub(super) disk: &'a dyn Disk,
    pub(super) database_id: u64,
    pub(super) files: &'a [LogFile],
    pub(super) chain: &'a [usize],
    /// After the last whole record: the index in `chain`, the offset in that segment, the position.
    pub(super) end_at: usize,
    pub(super) end_offset: usize,
    pub(super) end_lsn: Lsn,
    pub(super) next_sequence: u64,
    /// The highest position that anything read so far claims to be durable.
    pub(super) claimed: Lsn,
    pub(super) record_count: u64,
    /// The opening of the segment that is read, from which frames count; `None` if that is not known yet.
    pub(super) opening: Option<u8>,
    /// Whether the frames of the first segment lead up to where reading began.
    pub(super) leads_up: bool,
    /// What was read so far of a record that spans segments.
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
            opening: Some(0),
            leads_up: true,
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
                     restore the missing log files or a backup",
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
            let (place, opening) = reached(&mut frames, first)?;
            self.leads_up &= place == first;
            self.opening = (place == first).then_some(opening);
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
                    check_reaches(file, place, first)?;
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

    /// Checks that a segment, not the first, goes on exactly where the one before it was left, which was read up to
    /// there.
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

    /// Visits the records of one segment from offset `first` on. Returns the offset at which reading ended.
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
            let opening = self.opening.unwrap_or(frame.opening);
            if frame.opening < opening {
                // It lay after the end when the log was opened: a frame of that opening stands before it.
                break;
            }
            if frame.sequence != self.next_sequence {
                return Err(damage(file, offset, "a record's number is not the one that comes next"));
            }
            if frame.opening > opening && !frame.is_opening() || frame.is_opening() && self.partial.is_some() {
                return Err(damage(
                    file,
                    offset,
                    "a record of a later opening of the log has no such opening before it",
                ));
            }
            self.opening = Some(frame.opening);
            self.claimed = self.claimed.max(frame.durable_lsn);
            match (frame.kind, &mut self.partial) {
                _ if frame.is_opening() => {
                    (self.end_at, self.end_offset, self.end_lsn) = (at, next, header.lsn_at(next));
                    offset = next;
                    continue;
                }
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
}
