//! Recovery: finds the files that form the log, and what the writer needs to go on at its end.
//!
//! Invariants:
//! 1. Recovery changes no file; only [`Log::resume`](super::Log::resume) discards what lies after the end of the log.
//! 2. Of all branches that crashes left, recovery chooses the one that the last complete recovery went on with.
//!
//! Cost: the headers of all files, and the cost of `replay.rs`; securing what was not known to be durable reads and
//! writes that much again.
//!
//! Not here: reading frames (`replay.rs`), judging what ends them (`torn_tail.rs`), the meaning of records.

use super::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, Header, HeaderFault, Lsn, MIN_REST_BYTES, Name, frame_seed, parse_name,
};
use super::frames::Frames;
use super::replay::{Replay, Stop};
use super::segment::Segment;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, OpenMode};
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The [source](std::error::Error::source) of an error that found a file of another database in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherDatabase;

impl fmt::Display for OtherDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file of another database")
    }
}

impl std::error::Error for OtherDatabase {}

/// What [`recover`] found: the end of the log, and what [`Log::resume`](super::Log::resume) needs to go on there.
#[derive(Debug)]
pub struct Recovered {
    /// The position after the last whole record.
    pub end_lsn: Lsn,
    /// The sequence number of the next record.
    pub next_sequence: u64,
    /// Everything below was certainly durable; records from here to the end may only have reached the operating system.
    pub durable_lsn: Lsn,
    /// How many records were visited.
    pub record_count: u64,
    /// What is wrong with the log after its end, if anything is: something that was durable does not verify.
    pub damage: Option<Error>,
    pub(super) highest_id: u64,
    pub(super) end_segment_id: u64,
    pub(super) end_offset: u64,
    pub(super) leftovers: Vec<LogFile>,
    /// Where reading began: at or before the end.
    from_lsn: Lsn,
    /// The opening of the last segment in which that was written; `None` if it is not known.
    opening: Option<u8>,
    /// Whether the frames before the position from which the log was read lead up to it. If not, they are damaged,
    /// which harms nothing unless the log ends at that position: then the segment might be another one.
    pub(crate) leads_up: bool,
    /// Whether the log was damaged, and is to go on where the damage begins.
    is_cut: bool,
    segments: Vec<LogFile>,
}

impl Recovered {
    /// The same, for callers that need all of the log.
    ///
    /// # Errors
    ///
    /// The damage, if there is any.
    pub fn undamaged(mut self) -> Result<Recovered> {
        match self.damage.take() {
            None => Ok(self),
            Some(damage) => Err(damage),
        }
    }
}

/// A file of the log's directory.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Whether its name says that its bytes are allocated.
    pub(super) is_allocated: bool,
    /// `None` if it does not verify, or is of the file's former use.
    pub(super) header: Option<Header>,
}

impl LogFile {
    /// The part of the file that belongs to the segment, to find frames of `database_id` in.
    pub(super) fn frames(&self, disk: &dyn Disk, database_id: u64) -> Result<Frames<'_>> {
        let limit = match self.header {
            Some(header) => self.bytes.min(header.segment_bytes as u64),
            None => self.bytes,
        };
        Frames::open(disk, &self.path, limit, frame_seed(database_id, self.id))
    }
}

/// Reads the log of `database_id` in `dir` from position `from`, whose record has number `from_sequence`, to its end,
/// or to where it is damaged: then [`Recovered::damage`] says how.
///
/// `from` is the start of the log, or a position that [`Log::sync`](super::Log::sync) has returned for and that was
/// then recorded. `visit` gets every record's number and payload; `progress` gets bytes done and in total.
///
/// # Errors
///
/// `Version` if a segment is of a newer version; what `visit` returns.
pub fn recover(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    database_id: u64,
    from: Lsn,
    from_sequence: u64,
    progress: &mut dyn FnMut(u64, u64),
    visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Recovered> {
    let files = survey(&**disk, dir)?;
    for file in &files {
        if let Some(header) = file.header.filter(|header| header.database_id != database_id) {
            let message = format!(
                "{} belongs to database {:016x}, not {database_id:016x}; move it out of the directory",
                file.path.display(),
                header.database_id
            );
            return Err(Error::caused_by(ErrorKind::Invalid, message, OtherDatabase));
        }
    }
    let chain = choose_chain(&files, from);
    let mut replay = Replay::new(&**disk, database_id, &files, &chain, from, from_sequence);
    let damage = match replay.run(progress, visit) {
        Ok(()) => None,
        Err(Stop::Damage(error)) => Some(error),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let segments: Vec<LogFile> = chain.iter().take(replay.end_at + 1).map(|&index| files[index].clone()).collect();
    Ok(Recovered {
        end_lsn: replay.end_lsn,
        next_sequence: replay.next_sequence,
        durable_lsn: replay.claimed.min(replay.end_lsn),
        record_count: replay.record_count,
        damage,
        highest_id: files.iter().map(|file| file.id).max().unwrap_or(0),
        end_segment_id: segments.last().map_or(0, |file| file.id),
        end_offset: replay.end_offset as u64,
        opening: replay.opening,
        from_lsn: from,
        leads_up: replay.leads_up,
        is_cut: false,
        leftovers: files
            .iter()
            .filter(|file| !segments.iter().any(|segment| segment.path == file.path))
            .cloned()
            .collect(),
        segments,
    })
}

/// All files of the log, by ascending id, each with its header if that is sound and its own.
fn survey(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>> {
    let names = disk.list(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    let mut files = Vec::new();
    for name in names {
        let path = dir.join(&name);
        let (id, is_allocated, is_segment) = match parse_name(&name) {
            None => continue,
            Some(Name::Segment(id)) => (id, true, true),
            Some(Name::Spare(id)) => (id, true, false),
            Some(Name::Unfinished) => (0, false, false),
        };
        let file = disk.open(&path, OpenMode::Read).map_err(|error| Error::io("cannot open", &path, error))?;
        let bytes = file.len().map_err(|error| Error::io("cannot measure", &path, error))?;
        let mut header = None;
        if is_segment && bytes >= HEADER_BYTES as u64 {
            let mut start = [0; HEADER_BYTES];
            file.read_exact_at(&mut start, 0).map_err(|error| Error::io("cannot read", &path, error))?;
            header = match Header::decode(&start) {
                Ok(header) => Some(header).filter(|header| header.segment_id == id),
                Err(HeaderFault::Invalid) => None,
                Err(HeaderFault::Newer(version)) => {
                    return Err(Error::new(
                        ErrorKind::Version,
                        format!(
                            "{} has log format version {version}, newer than this program; upgrade it",
                            path.display()
                        ),
                    ));
                }
            };
        }
        files.push(LogFile { id, path, bytes, is_allocated, header });
    }
    files.sort_by_key(|file| file.id);
    Ok(files)
}

/// The files of a log without records; `Exists` if it has records.
pub(super) fn survey_unused(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>> {
    let files = survey(disk, dir)?;
    for file in &files {
        let Some(header) = file.header else { continue };
        let mut frames = file.frames(disk, header.database_id)?;
        if header.base_lsn > Lsn(0) || frames.at(HEADER_BYTES)?.is_some() {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("{} has a log already; open that database, or use another directory", dir.display()),
            ));
        }
    }
    Ok(files)
}

/// The segments from the one that holds `from` to the newest that is linked to it by headers; empty if none holds
/// `from`.
///
/// The newest sound header decides: a segment that recovery once discarded is older than its replacement, which was
/// made durable before anything was stored after it. A chain with a gap is skipped: below the gap everything may be
/// whole, and claims decide whether the gap is allowed.
fn choose_chain(files: &[LogFile], from: Lsn) -> Vec<usize> {
    let sound = |index: usize| files[index].header.map(|header| (index, header));
    let find = |id: u64| {
        let after = files.partition_point(|file| file.id <= id);
        (0..after).rev().take_while(|&index| files[index].id == id).find_map(sound)
    };
    for newest in (0..files.len()).rev() {
        let mut chain = Vec::new();
        let mut next = sound(newest);
        while let Some((index, header)) = next {
            chain.push(index);
            if header.base_lsn <= from {
                if header.offset_of(from).is_some() {
                    chain.reverse();
                    return chain;
                }
                break;
            }
            // This ends: a header's previous id is below its own.
            next = find(header.previous_id);
        }
    }
    Vec::new()
}

impl Recovered {
    /// Removes the damage, so that the log can go on where it begins. What lies after it is then no part of the log.
    pub(crate) fn cut_at_damage(&mut self) -> Option<Error> {
        let damage = self.damage.take()?;
        self.is_cut = true;
        if self.record_count == 0 {
            // The segment that holds the position may be too short to reach it. Nothing of it is needed: the log begins
            // anew there.
            self.leftovers.append(&mut self.segments);
            (self.end_segment_id, self.end_offset) = (0, 0);
            (self.end_lsn, self.durable_lsn) = (self.from_lsn, self.from_lsn);
        }
        Some(damage)
    }

    /// The header of the last segment and the number of its next opening, if the log can go on in it: it was not
    /// damaged, has all its bytes and room for more, and no later segment was begun.
    pub(super) fn tail(&self) -> Option<(Header, u8)> {
        let file = self.segments.last().filter(|_| self.leads_up && !self.is_cut)?;
        let header = file.header?;
        let has_room = self.end_offset as usize + FRAME_HEADER_BYTES + MIN_REST_BYTES <= header.segment_bytes;
        let is_later = |other: &LogFile| other.id > file.id && other.header.is_some();
        if !has_room || file.bytes != header.segment_bytes as u64 || self.leftovers.iter().any(is_later) {
            return None;
        }
        Some((header, self.opening?.checked_add(1)?))
    }

    /// Makes what was recovered durable. Returns the segments that are still needed.
    ///
    /// Writes again what is not known to be durable: after a failed sync the system may hold bytes in memory that it no
    /// longer intends to write.
    pub(super) fn secure(&self, disk: &dyn Disk) -> Result<VecDeque<Arc<Segment>>> {
        let mut segments = VecDeque::new();
        for (index, log_file) in self.segments.iter().enumerate() {
            let Some(header) = log_file.header else {
                continue;
            };
            let path = &log_file.path;
            let file = disk.open(path, OpenMode::ReadWrite).map_err(|error| Error::io("cannot open", path, error))?;
            let next = self.segments.get(index + 1).and_then(|next| next.header);
            let end = next.map_or(self.end_offset, |next| next.previous_end);
            let segment = Segment {
                id: log_file.id,
                base_lsn: header.base_lsn,
                segment_bytes: log_file.bytes,
                path: path.clone(),
                file,
            };
            // From the start of a sector, the unit in which the disk writes; from the header if nothing after it is
            // durable.
            let start = match self.durable_lsn.0.checked_sub(header.base_lsn.0) {
                None | Some(0) => 0,
                Some(durable) => (HEADER_BYTES as u64 + durable) / 512 * 512,
            };
            if start < end {
                let mut bytes = vec![0; (end - start) as usize];
                // A file that was cut may lack the zeros at the end of a record.
                let here = (log_file.bytes.min(end) - start.min(log_file.bytes)) as usize;
                let read = segment.file.read_exact_at(&mut bytes[..here], start);
                read.map_err(|error| Error::io("cannot read", path, error))?;
                segment.file.write_all_at(&bytes, start).map_err(|error| Error::io("cannot write", path, error))?;
                segment.sync()?;
            }
            segments.push_back(Arc::new(segment));
        }
        Ok(segments)
    }
}
