//! Segment files: made of real zeros or of released files, and kept ready ahead of need.
//!
//! Invariants:
//! 1. A file carries a segment's name only after all of its bytes were allocated and synced, so a store into its
//!    mapping never needs space that is not there.
//! 2. A [`Blank`] has its final name, and the name is durable.
//! 3. An id is given to one blank only; ids ascend.
//! 4. Files become longer as the log grows, up to a limit: a small database has small ones. One for a record that
//!    would take several is made as long as the record asks for. Where the disk has no space for it, one of the least
//!    length is made.
//!
//! Cost: a new file is written once with zeros and synced (11 ms for 16 MiB); a recycled one costs a rename. Both cost
//! a sync of the directory. The zeros go through the page cache: past it (`O_DIRECT`) they take as long, and then the
//! first store into each page has to read it back, which made an average append of 40 bytes 90 ns instead of 36.
//!
//! Not here: what is stored in a segment (`format`), when one is needed, and when no longer (`writer`).

use super::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, Lsn, SEGMENT_UNIT_BYTES, UNFINISHED_NAME, is_segment_size, segment_name,
    spare_name,
};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, File, Mapping, OpenMode};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many files are kept for reuse, including ready ones.
const MAX_SPARES: usize = 3;
/// The number of blanks that are kept for a full disk.
pub(super) const KEPT_BLANKS: usize = 2;
/// The number of those that records which free space leave alone: a checkpoint gets their space, and gives back what it
/// makes of the log.
pub(super) const CHECKPOINT_BLANKS: usize = 1;
/// Zeros are written in pieces of this size. It decides how large the folios of the page cache are, and a store into a
/// mapping dirties a whole folio: after pieces of 1 MiB a mapped store with its `fdatasync` took 275 to 318 us, after
/// 16 KiB 89 to 92 us, as a `pwrite` does.
const ZEROS_BYTES: usize = 16 << 10;

/// A segment that holds records.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) base_lsn: Lsn,
    pub(super) segment_bytes: u64,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn File>,
}

impl Segment {
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| Error::io("cannot sync", &self.path, error))
    }
}

/// A file ready to become segment `id`: named, allocated, mapped; its bytes mean nothing.
#[derive(Debug)]
pub(super) struct Blank {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: usize,
    pub(super) file: Box<dyn File>,
    pub(super) mapping: Box<dyn Mapping>,
}

impl Blank {
    /// The longest part of a record that it can hold.
    pub(super) fn room_bytes(&self) -> usize {
        self.bytes - HEADER_BYTES - FRAME_HEADER_BYTES
    }
}

/// The factor by which a segment is longer than the one before, up to the limit.
const GROWTH: usize = 4;

/// Why no blank could be made.
#[derive(Debug)]
pub(super) enum Unprepared {
    /// There is no space. Nothing is lost, and it may be tried again.
    Full(Error),
    /// Anything else.
    Failed(Error),
}

impl Unprepared {
    pub(super) fn into_error(self) -> Error {
        match self {
            Unprepared::Full(error) | Unprepared::Failed(error) => error,
        }
    }
}

/// Blanks, and files from which blanks can be made.
#[derive(Debug)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The length of the next file.
    segment_bytes: usize,
    segment_bytes_min: usize,
    segment_bytes_max: usize,
    /// There was no space for a longer file than the shortest.
    is_tight: bool,
    next_id: u64,
    ready: VecDeque<Blank>,
    /// The files from which blanks can be made, and their lengths.
    spares: Vec<(PathBuf, usize)>,
}

impl Reserve {
    /// Files have a length of the first to the second of `lengths`. That of the next one follows from that of the last
    /// one, if there is one.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        lengths: (usize, usize),
        last_bytes: usize,
        next_id: u64,
    ) -> Reserve {
        let (segment_bytes_min, segment_bytes_max) = (lengths.0.min(lengths.1), lengths.1);
        Reserve {
            disk,
            dir: dir.to_path_buf(),
            // A file that something else has cut may have any length.
            segment_bytes: last_bytes.next_multiple_of(SEGMENT_UNIT_BYTES).clamp(segment_bytes_min, segment_bytes_max),
            segment_bytes_min,
            segment_bytes_max,
            is_tight: false,
            next_id,
            ready: VecDeque::new(),
            spares: Vec::new(),
        }
    }

    /// The least length of a file.
    pub(super) fn shortest_bytes(&self) -> usize {
        self.segment_bytes_min
    }

    /// The greatest length of a file.
    pub(super) fn longest_bytes(&self) -> usize {
        self.segment_bytes_max
    }

    /// Whether there was no space for a longer file than the shortest.
    pub(super) fn is_tight(&self) -> bool {
        self.is_tight
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// The number of files that hold no part of the log.
    pub(super) fn spare_count(&self) -> usize {
        self.ready.len() + self.spares.len()
    }

    /// The length of these files.
    pub(super) fn spare_bytes(&self) -> u64 {
        let ready = self.ready.iter().map(|blank| blank.bytes);
        ready.chain(self.spares.iter().map(|(_, bytes)| *bytes)).map(|bytes| bytes as u64).sum()
    }

    /// How many of the oldest blanks hold so many bytes of a record; as an error, the bytes for which all have no room.
    pub(super) fn blanks_for(&self, bytes: usize) -> Result<usize, usize> {
        let (mut left, mut count) = (bytes, 0);
        for blank in &self.ready {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(blank.room_bytes());
            count += 1;
        }
        if left == 0 { Ok(count) } else { Err(left) }
    }

    /// The length of a file that is to hold so many bytes of a record: more than is due where these would take several.
    fn bytes_for(&self, record_bytes: usize) -> usize {
        let fitting = (HEADER_BYTES + FRAME_HEADER_BYTES + record_bytes).next_multiple_of(self.segment_bytes_min);
        if self.is_tight { self.segment_bytes } else { fitting.clamp(self.segment_bytes, self.segment_bytes_max) }
    }

    /// Long files are tried again, though there was no space for one.
    pub(super) fn retry_long_files(&mut self) {
        self.is_tight = false;
    }

    /// The oldest blank.
    pub(super) fn take(&mut self) -> Option<Blank> {
        self.ready.pop_front()
    }

    /// The oldest `count` blanks, for a log that has filled its segment: the next file is longer.
    pub(super) fn take_many(&mut self, count: usize) -> Vec<Blank> {
        let taken: Vec<Blank> = self.ready.drain(..count).collect();
        let longest = taken.iter().map(|blank| blank.bytes).max().unwrap_or(0);
        self.segment_bytes = self.segment_bytes.max(GROWTH * longest).min(self.segment_bytes_max);
        taken
    }

    /// Makes one more blank, if it can be long enough for so many bytes of a record.
    pub(super) fn prepare(&mut self, record_bytes: usize) -> Result<(), Unprepared> {
        let path = self.dir.join(segment_name(self.next_id));
        let bytes = self.make(&path, self.bytes_for(record_bytes)).map_err(|error| match error.kind() {
            ErrorKind::Full => Unprepared::Full(error),
            _ => Unprepared::Failed(error),
        })?;
        // From here on no failure means "no space": a directory that could not be synced may have lost a name.
        let blank = self.open(path, bytes).map_err(Unprepared::Failed)?;
        self.ready.push_back(blank);
        self.next_id += 1;
        Ok(())
    }

    /// Makes the file of a blank, of so many bytes if none is there and the disk has space. Returns its length.
    fn make(&mut self, path: &Path, bytes: usize) -> Result<usize> {
        if let Some((spare, bytes)) = self.spares.last() {
            let bytes = *bytes;
            self.disk.rename(spare, path).map_err(|error| Error::io("cannot rename", spare, error))?;
            self.spares.pop();
            return Ok(bytes);
        }
        match self.make_of_zeros(path, bytes) {
            Err(error) if error.kind() == ErrorKind::Full && bytes > self.segment_bytes_min => {
                self.segment_bytes = self.segment_bytes_min;
                self.is_tight = true;
                self.make_of_zeros(path, self.segment_bytes)
            }
            made => made,
        }
    }

    fn make_of_zeros(&self, path: &Path, bytes: usize) -> Result<usize> {
        let unfinished = self.dir.join(UNFINISHED_NAME);
        let made = self.write_zeros(&unfinished, bytes).and_then(|()| {
            self.disk.rename(&unfinished, path).map_err(|error| Error::io("cannot rename", &unfinished, error))
        });
        if made.is_err() {
            // Frees the space; if the file stays, the next attempt removes it.
            let _ = self.disk.remove(&unfinished);
        }
        made.map(|()| bytes)
    }

    fn write_zeros(&self, path: &Path, bytes: usize) -> Result<()> {
        let file = match self.disk.open(path, OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(path).map_err(|error| Error::io("cannot remove", path, error))?;
                self.disk.open(path, OpenMode::CreateNew)
            }
            opened => opened,
        }
        .map_err(|error| Error::io("cannot create", path, error))?;
        let zeros = vec![0; bytes.min(ZEROS_BYTES)];
        let mut offset = 0;
        while offset < bytes {
            let length = zeros.len().min(bytes - offset);
            file.write_all_at(&zeros[..length], offset as u64)
                .map_err(|error| Error::io("cannot allocate", path, error))?;
            offset += length;
        }
        file.sync().map_err(|error| Error::io("cannot sync", path, error))
    }

    fn open(&self, path: PathBuf, bytes: usize) -> Result<Blank> {
        self.disk.sync_dir(&self.dir).map_err(|error| Error::io("cannot sync", &self.dir, error))?;
        let file =
            self.disk.open(&path, OpenMode::ReadWrite).map_err(|error| Error::io("cannot open", &path, error))?;
        let mapping = file.map(bytes).map_err(|error| Error::io("cannot map", &path, error))?;
        Ok(Blank { id: self.next_id, path, bytes, file, mapping })
    }

    /// Takes in the file of segment `id`, which is no longer needed: keeps it for reuse, or removes it.
    pub(super) fn recycle(&mut self, id: u64, path: &Path, bytes: u64) -> Result<()> {
        let fits = is_segment_size(bytes as usize)
            && (self.segment_bytes as u64..=self.segment_bytes_max as u64).contains(&bytes);
        if self.spare_count() >= MAX_SPARES || !fits {
            return self.discard(path);
        }
        let spare = self.dir.join(spare_name(id));
        if path != spare {
            self.disk.rename(path, &spare).map_err(|error| Error::io("cannot rename", path, error))?;
        }
        self.spares.push((spare, bytes as usize));
        Ok(())
    }

    /// Removes all files that hold no part of the log. Returns their number.
    pub(super) fn discard_all(&mut self) -> Result<usize> {
        let mut count = 0;
        while let Some(path) =
            self.ready.pop_back().map(|blank| blank.path).or_else(|| self.spares.pop().map(|(path, _)| path))
        {
            self.discard(&path)?;
            count += 1;
        }
        Ok(count)
    }

    pub(super) fn discard(&self, path: &Path) -> Result<()> {
        self.disk.remove(path).map_err(|error| Error::io("cannot remove", path, error))
    }
}
