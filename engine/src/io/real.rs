//! The operating system's file system as a [`Disk`].
//!
//! Invariants:
//! 1. A direct file has an ordinary handle too: reads, syncs and mappings go there, so only writes need alignment.
//! 2. The bytes under a mapping are allocated before they are mapped, where the file system can: a full disk is an
//!    error of [`File::map`], not a `SIGBUS` in the middle of a store.
//! 3. No Rust reference points into a mapping; stores are raw copies, one at a time.
//!
//! Costs: a system call per method, except [`Mapping::write`], which is an uncontended mutex and a copy.
//!
//! Not here: retries. Cutting a file below a live mapping of it is the caller's error; a later store there ends the
//! process.

use super::buffer::require_aligned;
use super::process::Process;
use super::{Disk, File, Lock, Mapping, OpenMode};
#[cfg(target_os = "linux")]
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs;
use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let made: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
        fs::create_dir_all(dir)?;
        // A new directory is an entry in its parent.
        for dir in made {
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    /// Leaves out names that are not UTF-8: the engine never creates one.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read);
        options.create_new(matches!(mode, OpenMode::CreateNew | OpenMode::CreateDirect));
        let ordinary = options.open(path)?;
        let is_direct = mode == OpenMode::CreateDirect;
        let direct = if is_direct { open_direct(path)? } else { None };
        Ok(Box::new(RealFile { ordinary, direct, is_direct }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::OpenOptions::new().read(true).open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        locked(file.try_lock(), file)
    }

    /// A lock file that is there is only read, so that the directory may be one of others.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = match fs::OpenOptions::new().read(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?
            }
            file => file?,
        };
        locked(file.try_lock_shared(), file)
    }
}

/// The lock of a file, if it was taken.
fn locked(taken: Result<(), fs::TryLockError>, file: fs::File) -> io::Result<Box<dyn Lock>> {
    match taken {
        Ok(()) => Ok(Box::new(RealLock { file, process: Process::current() })),
        Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// A handle to an existing file past the page cache, or `None` where the file system refuses.
///
/// The file is created by an ordinary open first, because `O_CREAT | O_DIRECT` may fail and leave the new file behind.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> io::Result<Option<fs::File>> {
    use std::os::unix::fs::OpenOptionsExt;
    let opened =
        fs::OpenOptions::new().write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed()).open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> io::Result<Option<fs::File>> {
    Ok(None)
}

/// The operating system's lock (`flock`) belongs to the open file, which processes that are forked share. So it is
/// given up when this is dropped, and ends by itself when all of them have ended.
///
/// The lock of a process (`fcntl`) would end with it, whatever was forked from it. But it ends too as soon as the
/// process closes any handle of the file, and lets a process open a database twice.
#[derive(Debug)]
struct RealLock {
    file: fs::File,
    process: Process,
}

impl Lock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        if self.process.is_current() {
            // If it fails, closing the file ends the lock, unless a forked process has it open.
            let _ = self.file.unlock();
        }
    }
}

#[derive(Debug)]
struct RealFile {
    ordinary: fs::File,
    /// Present only for a file opened with `CreateDirect`, and only where the file system allows it.
    direct: Option<fs::File>,
    is_direct: bool,
}

/// Bytes of one read hint: no more than the usual read-ahead of a device.
#[cfg(target_os = "linux")]
const READ_SOON_BYTES: u64 = 128 << 10;

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.ordinary.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.ordinary.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.is_direct {
            require_aligned(bytes, offset)?;
        }
        let file = self.direct.as_ref().unwrap_or(&self.ordinary);
        file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.ordinary.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // A sync applies to the file, not to the handle, so it covers the direct handle's writes and the mappings'
        // stores.
        self.ordinary.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn read_soon(&self, offset: u64, len: u64) {
        // The system heeds at most a device's read-ahead at once, and silently ignores the rest.
        for start in (offset..offset + len).step_by(READ_SOON_BYTES as usize) {
            let len = READ_SOON_BYTES.min(offset + len - start);
            // A hint: a system that refuses it reads on request.
            let _ = fadvise(&self.ordinary, start, NonZeroU64::new(len), Advice::WillNeed);
        }
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        let file_len = self.len()?;
        if len == 0 || len as u64 > file_len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("cannot map {len} bytes of a file of {file_len}"),
            ));
        }
        allocate(&self.ordinary, len as u64)?;
        // SAFETY: the operating system chooses an address range that nothing else uses.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &self.ordinary, 0)
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Box::new(RealMapping { region: Region { start }, len }))
    }
}

/// Allocates blocks for the holes in the first `len` bytes, if the file system can.
#[cfg(target_os = "linux")]
fn allocate(file: &fs::File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::{Errno, retry_on_intr};
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        // The handle was opened for reading only; the mapping would report that under another name.
        Err(Errno::BADF) => Err(io::ErrorKind::PermissionDenied.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &fs::File, _len: u64) -> io::Result<()> {
    Ok(())
}

/// Where a mapping starts.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
}

// SAFETY: the mapped range belongs to the process, not to a thread, and only its `RealMapping` uses the address.
unsafe impl Send for Region {}
// SAFETY: nothing can be done to the range through a shared reference.
unsafe impl Sync for Region {}

#[derive(Debug)]
struct RealMapping {
    region: Region,
    len: usize,
}

impl Mapping for RealMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len);
        assert!(fits, "{} bytes at {offset} are outside of a mapping of {}", bytes.len(), self.len);
        // SAFETY: `offset + bytes.len() <= len`, checked above, and `len` bytes from `start` are mapped for writing
        // until drop. `bytes` cannot overlap them, as no reference into the mapping exists, and `&mut` keeps other
        // stores out.
        unsafe {
            let target = self.region.start.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    #[cfg(target_os = "linux")]
    fn release(&mut self, start: usize, end: usize) {
        assert!(start <= end && end <= self.len, "{start} to {end} is outside of a mapping of {}", self.len);
        // SAFETY: the range lies in the mapping, checked above. It is shared with the file, where the bytes stay: a
        // later access would find them there.
        let released = unsafe {
            let target = self.region.start.as_ptr().add(start).cast();
            rustix::mm::madvise(target, end - start, rustix::mm::Advice::LinuxDontNeed)
        };
        // This is about accounting only.
        debug_assert!(released.is_ok(), "madvise: {released:?}");
    }
}

impl Drop for RealMapping {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `map`, and nothing can use it any more. Failure would leave it
        // mapped, which is a leak and no more.
        let unmapped = unsafe { munmap(self.region.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmap: {unmapped:?}");
    }
}
