//! Reads the frames of a segment's file, a window at a time.
//!
//! Most of a segment may lie after the log's end, or before where reading starts. Cost: [`WINDOW_BYTES`] of memory, or
//! a segment's length if a frame is longer than that; each byte is read about once. Memory for a whole segment would
//! cost more than the reading: the system clears each of its pages on first use.
//!
//! Not here: what follows from the frames (`replay.rs`).

use std::path::Path;

use super::format::{ALIGNMENT_BYTES, FRAME_HEADER_BYTES, Frame, Lsn, frame_claim};
use crate::error::{Error, Result};
use crate::io::{Disk, File, OpenMode};

/// Bytes read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// A segment's file, to find frames in.
pub(super) struct Frames<'p> {
    path: &'p Path,
    file: Box<dyn File>,
    /// Bytes that belong to the segment.
    len: usize,
    seed: u32,
    /// The bytes from `start` on.
    window: Vec<u8>,
    start: usize,
}

impl<'p> Frames<'p> {
    /// The frames in the first `limit` bytes of the file at `path`, whose checksums start from `seed`.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn open(disk: &dyn Disk, path: &'p Path, limit: u64, seed: u32) -> Result<Frames<'p>> {
        let file = disk.open(path, OpenMode::Read).map_err(|error| Error::io("cannot open", path, error))?;
        let len = limit.min(file.len().map_err(|error| Error::io("cannot measure", path, error))?) as usize;
        Ok(Frames { path, file, len, seed, window: Vec::new(), start: 0 })
    }

    /// Bytes that belong to the segment.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All bytes from `offset` on that are in memory, at least `count`; `None` if the segment has fewer.
    fn bytes_at(&mut self, offset: usize, count: usize) -> Result<Option<&[u8]>> {
        let Some(room) = self.len.checked_sub(offset).filter(|room| *room >= count) else { return Ok(None) };
        let is_here = offset >= self.start && offset + count <= self.start + self.window.len();
        if !is_here {
            // A reader that needs more than a window may need it repeatedly, at places that only look like frames: so
            // read all.
            let size = if count > WINDOW_BYTES { room } else { room.min(WINDOW_BYTES) };
            self.window.resize(size, 0);
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.window, offset as u64);
            read.map_err(|error| {
                self.window.clear();
                Error::io("cannot read", self.path, error)
            })?;
        }
        Ok(Some(&self.window[offset - self.start..]))
    }

    /// The frame at `offset` and its payload; `None` if none verifies there.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn at(&mut self, offset: usize) -> Result<Option<(Frame, &[u8])>> {
        let (room, seed) = (self.len.saturating_sub(offset), self.seed);
        let Some(header) = self.bytes_at(offset, FRAME_HEADER_BYTES)? else { return Ok(None) };
        let Some(count) = Frame::told_bytes(header) else { return Ok(None) };
        let Some(bytes) = self.bytes_at(offset, count)? else { return Ok(None) };
        let frame = Frame::decode_first(bytes, room, seed);
        Ok(frame.map(|frame| (frame, &bytes[FRAME_HEADER_BYTES..][..frame.length])))
    }

    /// Searches every place from `from` on where a frame could begin for a frame that verifies and claims that more
    /// than `end`, and at most `ceiling`, was durable.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn find_claim(&mut self, from: usize, end: Lsn, ceiling: Lsn) -> Result<Option<Lsn>> {
        let mut offset = from.next_multiple_of(ALIGNMENT_BYTES);
        while let Some(bytes) = self.bytes_at(offset, FRAME_HEADER_BYTES)? {
            let places = (0..bytes.len() - FRAME_HEADER_BYTES + 1).step_by(ALIGNMENT_BYTES);
            let after = offset + places.len() * ALIGNMENT_BYTES;
            let mut claims = places.filter_map(|at| frame_claim(bytes, at).map(|claim| (offset + at, claim)));
            let Some((at, claim)) = claims.find(|&(_, claim)| claim > end && claim <= ceiling) else {
                offset = after;
                continue;
            };
            if self.at(at)?.is_some() {
                return Ok(Some(claim));
            }
            offset = at + ALIGNMENT_BYTES;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{HEADER_BYTES, Kind};
    use super::super::segment_bytes::find_claim;
    use super::*;
    use crate::io::RealDisk;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    const SEED: u32 = 77;

    /// Goal: what a window shows is what a segment in memory has. Method: segments of frames of all sizes, longer than
    /// a window among them, some of them damaged, with noise after their end; asked at each frame, and for claims from
    /// many places on.
    #[test]
    fn a_window_shows_what_the_segment_has() {
        let mut rng = StdRng::seed_from_u64(1);
        let dir = tempfile::tempdir().unwrap();
        for turn in 0..24 {
            let path = dir.path().join(format!("segment-{turn}"));
            let mut bytes = vec![0; HEADER_BYTES];
            let mut offsets = Vec::new();
            for number in 0..rng.random_range(0..30_u64) {
                let most = [40, 4000, 100_000, WINDOW_BYTES + 100][rng.random_range(0..4)];
                let payload = vec![number as u8; rng.random_range(1..most)];
                let frame = Frame {
                    kind: Kind::Full,
                    length: payload.len(),
                    sequence: number,
                    opening: rng.random_range(0..3),
                    durable_lsn: Lsn(rng.random_range(0..2000)),
                };
                let mut whole = vec![0; 4];
                whole.extend_from_slice(&frame.encode()[4..]);
                whole.extend_from_slice(&payload);
                whole.resize(frame.bytes(), 0);
                let checksum = crc32c::crc32c_append(SEED, &whole[4..]);
                whole[..4].copy_from_slice(&checksum.to_le_bytes());
                if rng.random_range(0..5) == 0 {
                    let at = rng.random_range(0..whole.len());
                    whole[at] ^= 1;
                }
                offsets.push(bytes.len());
                bytes.extend_from_slice(&whole);
            }
            offsets.push(bytes.len());
            let noise = rng.random_range(0..3 * WINDOW_BYTES) / 8 * 8;
            // Words among which there are claims, of frames that do not verify.
            bytes.extend((0..noise / 8).flat_map(|_| rng.random_range(0..1_u64 << 20).to_le_bytes()));
            RealDisk.open(&path, OpenMode::CreateNew).unwrap().write_all_at(&bytes, 0).unwrap();
            let mut frames = Frames::open(&RealDisk, &path, u64::MAX, SEED).unwrap();
            assert_eq!(frames.len(), bytes.len());
            for &offset in offsets.iter().chain([&0, &(bytes.len() - 8), &(bytes.len() + 8)]) {
                let expected = Frame::decode(&bytes, offset, SEED);
                let found = frames.at(offset).unwrap();
                assert_eq!(found.map(|(frame, _)| frame), expected, "turn {turn}, at {offset}");
                if let (Some((frame, payload)), Some(at)) = (found, expected.map(|_| offset + FRAME_HEADER_BYTES)) {
                    assert!(payload == &bytes[at..][..frame.length]);
                }
            }
            for (from, end) in offsets.iter().flat_map(|from| [(*from, 500), (from + 8, 1500), (from + 3, 1990)]) {
                let (end, ceiling) = (Lsn(end), Lsn(2100));
                let expected = find_claim(&bytes, from, SEED, end, ceiling);
                assert_eq!(frames.find_claim(from, end, ceiling).unwrap(), expected, "turn {turn}, from {from}");
            }
            let short = Frames::open(&RealDisk, &path, HEADER_BYTES as u64, SEED).unwrap();
            assert_eq!(short.len(), HEADER_BYTES);
        }
    }
}
