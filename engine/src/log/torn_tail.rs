//! Judges whether reading stopped at the end of the log, which a crash may have torn, or at damage.
//!
//! The log ends without an error only if nothing that verifies claims that a byte after that end was durable: headers
//! of segments and frames record up to where the log was durable when they were written.

use super::format::{HEADER_BYTES, Lsn};
use super::frames::Frames;
use super::recovery::LogFile;
use super::replay::{Replay, Stop};
use crate::error::{Error, Result};

impl Replay<'_> {
    /// Judges where reading ended, at offset `stop` of segment `at`: the end of the log, or damage.
    pub(super) fn judge(&mut self, at: usize, stop: usize, frames: &mut Frames<'_>) -> Result<(), Stop> {
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
        // A claim cannot exceed the room of all files together.
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

pub(super) fn damage(file: &LogFile, offset: usize, what: &str) -> Stop {
    Stop::Damage(Error::corrupt(&file.path, offset as u64, what))
}

/// The place up to which frames lead from the start of a segment, at offset `target` or where they end, and the opening
/// in which the log came to it.
pub(super) fn reached(frames: &mut Frames<'_>, target: usize) -> Result<(usize, u8)> {
    let (mut offset, mut opening) = (HEADER_BYTES, 0);
    while offset < target {
        let Some((frame, _)) = frames.at(offset)? else { break };
        offset += frame.bytes();
        opening = frame.opening;
    }
    Ok((offset, opening))
}

/// Checks a log that is empty from the checkpoint on. The segment before need not be the one that the checkpoint meant:
/// its records must lead up to that position, at offset `target`, exactly. They lead up to `place`.
pub(super) fn check_reaches(file: &LogFile, place: usize, target: usize) -> Result<(), Stop> {
    if place == target {
        return Ok(());
    }
    let what = format!("the log ends before offset {target}, up to which a checkpoint covers it");
    Err(damage(file, place, &what))
}
