//! The [`Disk`] trait, through which the engine does all I/O: a real and a simulated implementation.
//!
//! What is assumed of a disk (also in `docs/guarantees.md`):
//! 1. After [`File::sync`] returns without error, all bytes written to the file before survive a crash.
//! 2. After [`Disk::sync_dir`] returns, all earlier creations, links, renames and removals in that directory survive.
//! 3. Bytes that are not synced may survive a crash or not, in any order, torn at 512-byte sectors; other bytes are not
//!    touched.
//! 4. [`Disk::rename`] onto an existing name is atomic: a crash leaves the old or the new file under the name.
//! 5. A failed sync may have lost anything written since the last good one, and a later good one says nothing about it.
//!
//! Not here: formats, retries, policy.

mod buffer;
pub(crate) mod process;
mod real;
pub mod sim;
mod sim_content;
mod sim_state;

#[cfg(test)]
mod sim_tests;
#[cfg(test)]
mod tests;

pub use buffer::AlignedBuffer;
pub use process::Process;
pub use real::RealDisk;

use std::fmt::Debug;
use std::io;
use std::path::Path;

/// How [`Disk::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    ReadWrite,
    /// A new file, to read and write; an error if the name is taken.
    CreateNew,
    /// Like `CreateNew`, past the operating system's page cache where the file system allows (`O_DIRECT`): every write
    /// must come from an [`AlignedBuffer`] at an offset and with a length that are multiples of [`SECTOR_BYTES`].
    CreateDirect,
}

/// Alignment of direct writes, in bytes.
pub const SECTOR_BYTES: usize = 4096;

/// A file system, narrowed to what a database needs.
pub trait Disk: Send + Sync + Debug {
    /// Creates a directory and its parents, durably; no error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens or creates a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>>;
    /// Removes a file. Its bytes stay readable through open handles.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing an existing one atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file one more name, possibly in another directory. Both names have the same bytes, until both are
    /// removed. `AlreadyExists` if the new name is taken; `Unsupported`, `CrossesDevices`, `TooManyLinks` or
    /// `PermissionDenied` where the file system cannot: then the caller may copy the bytes.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes creations, links, renames and removals in the directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the exclusive lock of the file `path`, which is created if need be, until the value is dropped.
    /// `WouldBlock` if another process, or another handle in this one, has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Takes the lock of the file `path` together with others that share it. `WouldBlock` if another process, or
    /// another handle in this one, has it alone. A disk that knows no shared locks takes it alone.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.lock(path)
    }
}

/// A lock held until it is dropped.
pub trait Lock: Send + Sync + Debug {}

/// An open file. All methods may be called from several threads.
#[expect(clippy::len_without_is_empty, reason = "a file's length is a fallible question; emptiness is never asked")]
pub trait File: Send + Sync + Debug {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, extending the file if need be.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything written so far durable (`fdatasync`), including writes through a [`Mapping`].
    fn sync(&self) -> io::Result<()>;
    /// Hints that these bytes are about to be read: an operating system that caches files may fetch them meanwhile.
    /// Does not wait, and nothing depends on it.
    fn read_soon(&self, _offset: u64, _len: u64) {}
    /// Maps the first `len` bytes, which must exist, for writing.
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>>;
}

/// Bytes of a file mapped into memory: a store reaches the operating system at once, with no system call (20 ns instead
/// of 700 to 1,500 ns for a small `pwrite`), and survives a killed process.
pub trait Mapping: Send + Sync + Debug {
    /// Stores `bytes` at `offset`. Panics if they do not fit the mapping.
    fn write(&mut self, offset: usize, bytes: &[u8]);

    /// Hints that the bytes from `start` to `end`, multiples of 4096, will not be stored to again: they stay in the
    /// file, and need not count as memory of this process any more.
    fn release(&mut self, start: usize, end: usize) {
        let _ = (start, end);
    }
}
