//! Writes a file from front to back in aligned pieces, past the operating system's page cache.
//!
//! A file that will be read soon is fetched into that cache piece by piece, right after each write: reads of single
//! places would cost a wait each, and the whole file at once would hold up all other readers of the disk.
//!
//! Cost: one buffer of 256 KiB, one write for each filling, one sync at the end.
//! Not here: what the bytes mean; removing the file after an error (the caller's task).

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::io::{AlignedBuffer, Disk, File, OpenMode};

/// Other readers of the disk wait for such a piece to be written. Four times as many bytes are written no faster.
const BUFFER_BYTES: usize = 256 << 10;
/// The most of a file that is fetched: more would evict more from the operating system's cache than it brings.
const READ_SOON_BYTES_MAX: u64 = 2 << 30;

/// A file under construction.
pub(crate) struct Output {
    file: Box<dyn File>,
    path: PathBuf,
    buffer: AlignedBuffer,
    /// Bytes of the file before the buffer.
    written: u64,
    is_read_soon: bool,
}

impl Output {
    pub(crate) fn create(disk: &dyn Disk, path: &Path, is_read_soon: bool) -> Result<Output> {
        let file = disk.open(path, OpenMode::CreateDirect).map_err(|error| Error::io("cannot create", path, error))?;
        Ok(Output { file, path: path.to_owned(), buffer: AlignedBuffer::new(BUFFER_BYTES), written: 0, is_read_soon })
    }

    /// Where the next byte goes.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends `bytes` and returns the checksum that continues `checksum` over them.
    pub(crate) fn write(&mut self, mut bytes: &[u8], checksum: u32) -> Result<u32> {
        let checksum = crc32c::crc32c_append(checksum, bytes);
        loop {
            let taken = self.buffer.extend_from_slice(bytes);
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return Ok(checksum);
            }
            self.flush()?;
        }
    }

    /// Appends zeros up to a multiple of eight, included in the checksum.
    pub(crate) fn align(&mut self, checksum: u32) -> Result<u32> {
        let position = self.position();
        let missing = position.next_multiple_of(8) - position;
        self.write(&[0; 8][..missing as usize], checksum)
    }

    /// Writes out the buffer, padded to whole sectors.
    fn flush(&mut self) -> Result<()> {
        let len = self.buffer.len() as u64;
        self.buffer.pad_to_sector();
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(|error| Error::io("cannot write", &self.path, error))?;
        if self.is_read_soon && self.written < READ_SOON_BYTES_MAX {
            self.file.read_soon(self.written, len);
        }
        self.buffer.clear();
        self.written += len;
        Ok(())
    }

    /// Writes out the rest, cuts the padding off and makes the file durable. The caller syncs its directory.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.file.set_len(self.written).map_err(|error| Error::io("cannot cut", &self.path, error))?;
        self.file.sync().map_err(|error| Error::io("cannot sync", &self.path, error))?;
        Ok(self.written)
    }
}
