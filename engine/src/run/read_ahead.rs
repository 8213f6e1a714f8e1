//! Reads a file ahead of a walk over all of it: a few chunks, by two threads. What readers of a table request ahead is
//! in `probe/charge.rs`.
//!
//! A single reader waits for the disk while it works and works while the disk waits, and the kernel reads too little
//! ahead. Two requests at once keep the disk busy: a cold file of 500 MB came at 1,680 MB/s instead of 240 MB/s.
//!
//! Invariants:
//! 1. The chunks in memory are consecutive, at most [`DEPTH`]; the first moves forward only, when a later one is
//!    requested.
//! 2. The scan itself rereads a chunk that could not be read, so errors appear in their place and by the ordinary path.
//! 3. The scan never waits for a chunk that no thread reads or will read.
//!
//! Cost: [`DEPTH`] MiB, two threads while the walk lasts, one more copy of the bytes.
//! Not here: checksums; which chunks are worth it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::file::RunFile;
use crate::error::Result;
use crate::io::AlignedBuffer;

const CHUNK_BYTES: usize = 1 << 20;
const DEPTH: usize = 6;
/// Threads that read.
pub(super) const READERS: usize = 2;
/// Shorter files are read without these threads.
pub(super) const FILE_BYTES_MIN: u64 = 4 << 20;

/// The chunks of one file that are in memory or being read.
pub(super) struct ReadAhead<'r> {
    run: &'r RunFile,
    ahead: Mutex<Ahead>,
    changed: Condvar,
}

struct Ahead {
    /// The number of the first chunk, whose bytes begin at this many times [`CHUNK_BYTES`].
    first: u64,
    chunks: VecDeque<Chunk>,
    spare: Vec<AlignedBuffer>,
    is_over: bool,
}

enum Chunk {
    Coming,
    Here(AlignedBuffer),
    /// The thread could not read it, or the copier has the bytes at the moment.
    Absent,
}

impl<'r> ReadAhead<'r> {
    pub(crate) fn new(run: &'r RunFile) -> ReadAhead<'r> {
        let ahead = Ahead { first: 0, chunks: VecDeque::new(), spare: Vec::new(), is_over: false };
        ReadAhead { run, ahead: Mutex::new(ahead), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the readers' work when the result is dropped.
    pub(super) fn end_at_drop(&self) -> EndAtDrop<'_, 'r> {
        EndAtDrop(self)
    }

    /// The work of a reader thread.
    pub(crate) fn work(&self) {
        // A thread that has no more chunks, or panics, ends the work: the scan reads the rest.
        let _end = self.end_at_drop();
        while let Some(mut turn) = self.take_turn() {
            let mut buffer = turn.buffer.take().unwrap_or_else(|| AlignedBuffer::new(CHUNK_BYTES));
            let offset = turn.number * CHUNK_BYTES as u64;
            let len = (self.run.info().bytes - offset).min(CHUNK_BYTES as u64) as usize;
            buffer.resize(len);
            if self.run.read(&mut buffer, offset).is_ok() {
                turn.buffer = Some(buffer);
            }
        }
    }

    /// The next chunk to read, once there is room for one; `None` when there are no more.
    fn take_turn(&self) -> Option<ChunkRead<'_, 'r>> {
        let mut ahead = self.lock();
        loop {
            let number = ahead.first + ahead.chunks.len() as u64;
            if ahead.is_over || number * CHUNK_BYTES as u64 >= self.run.info().bytes {
                return None;
            }
            if ahead.chunks.len() < DEPTH {
                ahead.chunks.push_back(Chunk::Coming);
                let buffer = ahead.spare.pop();
                return Some(ChunkRead { ahead: self, number, buffer });
            }
            ahead = self.changed.wait(ahead).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fills `target` from `offset` of the file.
    pub(crate) fn copy(&self, mut target: &mut [u8], mut offset: u64) -> Result<()> {
        while !target.is_empty() {
            let number = offset / CHUNK_BYTES as u64;
            let at = (offset % CHUNK_BYTES as u64) as usize;
            let (part, rest) = target.split_at_mut(target.len().min(CHUNK_BYTES - at));
            match self.take(number) {
                Some(buffer) => {
                    part.copy_from_slice(&buffer[at..at + part.len()]);
                    self.put(number, Chunk::Here(buffer));
                }
                None => self.run.read(part, offset)?,
            }
            offset += part.len() as u64;
            target = rest;
        }
        Ok(())
    }

    /// Waits for the chunk and takes it out; `None` if it was given up or could not be read. Gives up the chunks before
    /// it.
    fn take(&self, number: u64) -> Option<AlignedBuffer> {
        let mut ahead = self.lock();
        while ahead.first < number {
            // A chunk still being read will find its place gone.
            match ahead.chunks.pop_front() {
                Some(Chunk::Here(buffer)) => ahead.spare.push(buffer),
                Some(Chunk::Coming | Chunk::Absent) => {}
                None => {
                    ahead.first = number;
                    break;
                }
            }
            ahead.first += 1;
        }
        self.changed.notify_all();
        loop {
            let position = usize::try_from(number.checked_sub(ahead.first)?).ok()?;
            let is_over = ahead.is_over;
            match ahead.chunks.get_mut(position) {
                Some(chunk @ Chunk::Here(_)) => {
                    let Chunk::Here(buffer) = std::mem::replace(chunk, Chunk::Absent) else {
                        return None;
                    };
                    return Some(buffer);
                }
                Some(Chunk::Absent) => return None,
                None if is_over => return None,
                Some(Chunk::Coming) | None => {
                    ahead = self.changed.wait(ahead).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Puts the chunk into its place, if that still exists.
    fn put(&self, number: u64, chunk: Chunk) {
        let mut ahead = self.lock();
        let position = number.checked_sub(ahead.first).map(|position| position as usize);
        match (position.and_then(|position| ahead.chunks.get_mut(position)), chunk) {
            (Some(place), chunk) => *place = chunk,
            (None, Chunk::Here(buffer)) => ahead.spare.push(buffer),
            (None, _) => {}
        }
        drop(ahead);
        self.changed.notify_all();
    }
}

/// A chunk that a thread is reading. Its place is filled even if the thread panics.
struct ChunkRead<'a, 'r> {
    ahead: &'a ReadAhead<'r>,
    number: u64,
    buffer: Option<AlignedBuffer>,
}

impl Drop for ChunkRead<'_, '_> {
    fn drop(&mut self) {
        let chunk = self.buffer.take().map_or(Chunk::Absent, Chunk::Here);
        self.ahead.put(self.number, chunk);
    }
}

/// See [`ReadAhead::end_at_drop`].
pub(super) struct EndAtDrop<'a, 'r>(&'a ReadAhead<'r>);

impl Drop for EndAtDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}
