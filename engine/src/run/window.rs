//! A window over a file, moved from front to back.
//!
//! Cost: one read for each move, of 1 MiB or what is requested; an allocation only when more is requested than ever
//! before. Not here: checksums; what to read.

use super::file::RunFile;
use super::read_ahead::ReadAhead;
use crate::error::Result;
use crate::io::AlignedBuffer;

/// Bytes that a move reads if the file has them.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;

/// The piece from `start` on.
pub(super) struct FileWindow<'r> {
    run: &'r RunFile,
    ahead: Option<&'r ReadAhead<'r>>,
    buffer: AlignedBuffer,
    start: u64,
    len: usize,
}

impl<'r> FileWindow<'r> {
    pub(crate) fn new(run: &'r RunFile, ahead: Option<&'r ReadAhead<'r>>) -> FileWindow<'r> {
        FileWindow { run, ahead, buffer: AlignedBuffer::new(1), start: 0, len: 0 }
    }

    /// The `len` bytes at `offset`, if they are here.
    pub(crate) fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.buffer[..self.len].get(at..at.checked_add(len)?)
    }

    /// Moves to `offset` and reads `len` bytes there, which the file has, and more up to [`WINDOW_BYTES`].
    pub(crate) fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let rest = self.run.info().bytes - offset;
        let len = len.max(rest.min(WINDOW_BYTES as u64) as usize);
        self.make_room(len);
        match self.ahead {
            Some(ahead) => ahead.copy(&mut self.buffer[..len], offset)?,
            None => self.run.read(&mut self.buffer[..len], offset)?,
        }
        (self.start, self.len) = (offset, len);
        Ok(())
    }

    /// Like [`FileWindow::fill`], but reads no more than `len` bytes, and not in sequence.
    pub(super) fn fill_exactly(&mut self, offset: u64, len: usize) -> Result<()> {
        self.make_room(len);
        self.run.read(&mut self.buffer[..len], offset)?;
        (self.start, self.len) = (offset, len);
        Ok(())
    }

    fn make_room(&mut self, len: usize) {
        self.len = 0;
        if self.buffer.capacity() < len {
            self.buffer = AlignedBuffer::new(len);
        }
        if self.buffer.len() < len {
            self.buffer.resize(len);
        }
    }
}
