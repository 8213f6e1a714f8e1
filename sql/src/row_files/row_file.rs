//! Rows that are appended to a temporary file, and read again in that order.
//!
//! The file has chunks of whole rows, written as they fill. Where each begins and what its bytes hash to stays in
//! memory, so that bytes which come back otherwise are an error.
//!
//! Cost: a system call a chunk; 24 bytes of memory a chunk, which has at least 4 and at most 64 KB, or one row.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::FixedState;
use quipu::Db;
use quipu::io::File;

use super::row_bytes::Shapes;
use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::Datum;

/// Where the temporary files of a session come from, and how many bytes all of them have.
#[derive(Clone)]
pub struct TemporaryFiles(Arc<OfSession>);

/// How many temporary files all sessions have made, and how many bytes they have written to them.
#[derive(Default)]
pub struct FileCounts {
    /// Files.
    pub files: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
}

/// The temporary files of a session. A statement counts a reference to this alone, which no other session has.
struct OfSession {
    db: Db,
    /// Bytes that there are.
    now: AtomicU64,
    /// All that were ever written.
    written: AtomicU64,
    of_all: Arc<FileCounts>,
}

impl fmt::Debug for TemporaryFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporaryFiles").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl TemporaryFiles {
    /// Files beside those of a database, which are counted for all sessions.
    pub fn of(db: &Db, of_all: &Arc<FileCounts>) -> TemporaryFiles {
        let (now, written) = (AtomicU64::new(0), AtomicU64::new(0));
        TemporaryFiles(Arc::new(OfSession { db: db.clone(), now, written, of_all: Arc::clone(of_all) }))
    }

    /// Bytes that the files have now.
    pub fn bytes(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Bytes that were ever written to files of the session.
    pub fn written_bytes(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }
}

/// A part of a row file: chunks that follow each other.
pub(crate) type Part = Range<usize>;

/// Rows in a temporary file, which is gone when this is dropped.
pub(crate) struct RowFile {
    files: TemporaryFiles,
    /// How many bytes the files of the session may have.
    bytes_max: Option<u64>,
    file: Box<dyn File>,
    shapes: Shapes,
    chunks: Vec<Chunk>,
    /// Rows that are not in the file yet.
    buffer: Vec<u8>,
    chunk_bytes: usize,
    end: u64,
}

struct Chunk {
    at: u64,
    length: usize,
    hash: u64,
}

impl RowFile {
    /// A new file, whose chunks take `chunk_bytes` when they are read. All files of the session may have `bytes_max`.
    ///
    /// # Errors
    /// [`READ_ONLY_SQL_TRANSACTION`](SqlState::READ_ONLY_SQL_TRANSACTION) if the database is read only; those of the
    /// disk.
    pub(crate) fn create(files: &TemporaryFiles, bytes_max: Option<u64>, chunk_bytes: usize) -> Result<RowFile> {
        let file = files.0.db.temporary_file()?;
        files.0.of_all.files.fetch_add(1, Ordering::Relaxed);
        Ok(RowFile {
            files: files.clone(),
            bytes_max,
            file,
            shapes: Shapes::default(),
            chunks: Vec::new(),
            buffer: Vec::new(),
            chunk_bytes,
            end: 0,
        })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`DISK_FULL`](SqlState::DISK_FULL), [`CONFIGURATION_LIMIT_EXCEEDED`](SqlState::CONFIGURATION_LIMIT_EXCEEDED),
    /// [`IO_ERROR`](SqlState::IO_ERROR).
    pub(crate) fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.shapes.append_row(row, &mut self.buffer);
        if self.buffer.len() >= self.chunk_bytes { self.write_chunk() } else { Ok(()) }
    }

    /// Ends a part, and returns the number of its last chunk and one.
    ///
    /// # Errors
    /// Those of [`RowFile::push`].
    pub(crate) fn end_part(&mut self) -> Result<usize> {
        if !self.buffer.is_empty() {
            self.write_chunk()?;
        }
        Ok(self.chunks.len())
    }

    fn write_chunk(&mut self) -> Result<()> {
        let length = self.buffer.len() as u64;
        let all = self.files.bytes() + length;
        if let Some(most) = self.bytes_max.filter(|most| all > *most) {
            let what = format!("temporary file size exceeds \"temp_file_limit\" ({}kB)", most >> 10);
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, what));
        }
        let written = self.file.write_all_at(&self.buffer, self.end);
        written.map_err(|error| failed("could not write to a temporary file", &error))?;
        self.chunks.push(Chunk { at: self.end, length: self.buffer.len(), hash: hash(&self.buffer) });
        self.files.0.now.fetch_add(length, Ordering::Relaxed);
        self.files.0.written.fetch_add(length, Ordering::Relaxed);
        self.files.0.of_all.bytes.fetch_add(length, Ordering::Relaxed);
        self.end += length;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for RowFile {
    fn drop(&mut self) {
        self.files.0.now.fetch_sub(self.end, Ordering::Relaxed);
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[cold]
fn failed(what: &str, error: &io::Error) -> SqlError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            SqlError::new(SqlState::DISK_FULL, format!("{what}: {error}"))
                .with_hint("Free some space on the disk, or read fewer rows.")
        }
        _ => SqlError::new(SqlState::IO_ERROR, format!("{what}: {error}")),
    }
}

/// Reads the rows of a part.
pub(crate) struct RowReader {
    left: Part,
    chunk: Vec<u8>,
    place: usize,
}

impl RowReader {
    /// All rows of a part.
    pub(crate) fn of(part: Part) -> RowReader {
        RowReader { left: part, chunk: Vec::new(), place: 0 }
    }

    /// The next row; none after the last.
    ///
    /// # Errors
    /// [`IO_ERROR`](SqlState::IO_ERROR), and [`DATA_CORRUPTED`](SqlState::DATA_CORRUPTED) if the bytes are not those
    /// that were written.
    pub(crate) fn next(&mut self, of: &RowFile) -> Result<Option<Vec<Datum>>> {
        if self.place == self.chunk.len() {
            let Some(chunk) = self.left.next().and_then(|number| of.chunks.get(number)) else { return Ok(None) };
            self.chunk.resize(chunk.length, 0);
            self.place = 0;
            let read = of.file.read_exact_at(&mut self.chunk, chunk.at);
            read.map_err(|error| failed("could not read from a temporary file", &error))?;
            if hash(&self.chunk) != chunk.hash {
                return Err(damaged());
            }
        }
        let mut bytes = &self.chunk[self.place..];
        let row = of.shapes.read_row(&mut bytes).ok_or_else(damaged)?;
        self.place = self.chunk.len() - bytes.len();
        Ok(Some(row))
    }
}

#[cold]
fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a temporary file has other bytes than were written")
}
