//! A file system in memory that knows what was synced, and can lose power or fail at any step.
//!
//! A test runs its work on a [`SimDisk`], cuts the power or kills the process, and opens what is left:
//!
//! ```
//! use quipu::io::{Disk, OpenMode, sim::{CrashMode, SimDisk}};
//! use std::path::Path;
//!
//! let disk = SimDisk::new();
//! disk.create_dir_all(Path::new("db"))?;
//! let file = disk.open(Path::new("db/a"), OpenMode::CreateNew)?;
//! file.write_all_at(b"kept", 0)?;
//! file.sync()?;
//! disk.sync_dir(Path::new("db"))?;
//! file.write_all_at(b"lost", 0)?;
//! let found = disk.crash_with(CrashMode::LoseAll, 0);
//! assert_eq!(found.read_file("db/a").unwrap(), b"kept");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Steps: each creation, link, write, store through a mapping, change of length, sync, rename, removal and sync of a
//! directory is one step, numbered from zero. A call that is refused before it does anything (no such file, misaligned)
//! is not a step.
//!
//! Invariants:
//! 1. A file's bytes and its directory entry become durable separately: the former by [`File::sync`], the latter by
//!    [`Disk::sync_dir`].
//! 2. After a crash a file has its durable bytes, with any part of the pending ones: each sector of 512 bytes arrives
//!    or not, and of several writes to one sector any selection may have arrived, in their order.
//! 3. After a crash a directory is as it was after some prefix of the operations on it since it was synced, so a rename
//!    onto a name leaves the old or the new file there.
//! 4. What a failed sync covered may survive a crash or not, until it is written and synced again.
//! 5. The step at which the power fails returns an error, but may have happened.
//! 6. The same calls and the same seed give the same bytes.
//!
//! Cost: that of memory; [`SimDisk::crash`] copies only files that have pending writes.
//!
//! Not here: directories that vanish (they are durable when made), renames between directories, tears inside a sector,
//! decay of untouched bytes (that is [`SimDisk::flip_bit`]).

use super::buffer::require_aligned;
use super::sim_content::{Content, SplitMix64};
use super::sim_state::{FileId, NameChange, SimState, Step, injected, invalid, missing, no_power, split, to_index};
use super::{Disk, File, Lock, Mapping, OpenMode};
use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a crash does with changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// None survives.
    LoseAll,
    /// All survive.
    KeepAll,
    /// Each survives or not, as drawn from the seed.
    Random,
}

/// A call of a disk that [`SimDisk::watch`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// [`Disk::list`].
    List,
    /// [`Disk::open`].
    Open,
    /// [`Disk::remove`].
    Remove,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`File::read_exact_at`].
    Read,
}

type Watcher = Arc<dyn Fn(DiskCall) + Send + Sync>;

/// A simulated disk. Clones are handles to the same one.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
    watcher: Arc<Mutex<Option<Watcher>>>,
}

impl SimDisk {
    /// An empty disk without limits, faults or a power cut.
    pub fn new() -> Self {
        Self::default()
    }

    fn from_state(state: SimState) -> Self {
        Self { state: Arc::new(Mutex::new(state)), watcher: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `watcher` called at the beginning of each call of a [`DiskCall`], in the thread of the caller: so a test can
    /// do something in the middle of a job. It may use the disk. The watcher before it is dropped, and what a crash or
    /// a kill leaves is not watched.
    pub fn watch(&self, watcher: impl Fn(DiskCall) + Send + Sync + 'static) {
        *self.watcher() = Some(Arc::new(watcher));
    }

    /// Drops the watcher.
    pub fn stop_watching(&self) {
        *self.watcher() = None;
    }

    fn watcher(&self) -> MutexGuard<'_, Option<Watcher>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, call: DiskCall) {
        let watcher = self.watcher().clone();
        if let Some(watcher) = watcher {
            watcher(call);
        }
    }

    /// The number of steps so far, which is the number of the next one.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Cuts the power at step `step`: it fails, though it may have happened, and so does every call after it, including
    /// reads. [`Mapping::write`] cannot fail and does nothing then.
    pub fn cut_at(&self, step: u64) {
        self.state().cut_at = Some(step);
    }

    /// Whether the step of [`SimDisk::cut_at`] was reached.
    pub fn power_is_off(&self) -> bool {
        self.state().power_is_off
    }

    /// Makes exactly step `step` fail. A failed write leaves its first half; a failed sync leaves what it covered in
    /// doubt; anything else has not happened. A store through a mapping cannot fail and is made.
    pub fn fail_at(&self, step: u64, kind: ErrorKind) {
        self.state().faults.insert(step, kind);
    }

    /// The total length of all files, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Limits the total length of all files; growth beyond it is `StorageFull`. `u64::MAX` lifts the limit.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.state().capacity_bytes = (capacity_bytes != u64::MAX).then_some(capacity_bytes);
    }

    /// The disk as found after power loss; `seed` decides what of the unsynced changes survives. This one stays as it
    /// is, so it can crash many times.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.crash_with(CrashMode::Random, seed)
    }

    /// The disk as found after power loss. It has no locks, no faults and no power cut, and counts steps from zero;
    /// `seed` matters for [`CrashMode::Random`] only.
    #[must_use]
    pub fn crash_with(&self, mode: CrashMode, seed: u64) -> Self {
        Self::from_state(self.state().crash(mode, &mut SplitMix64::new(seed)))
    }

    /// The disk after the process was killed and the operating system lived on: everything survives, synced or not (a
    /// crash can still lose it), and locks are released. Steps count from zero, without faults or a power cut.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state().clone();
        for inode in state.files.values_mut() {
            inode.open_count = 0;
        }
        state.locked.clear();
        state.steps = 0;
        state.cut_at = None;
        state.power_is_off = false;
        state.faults.clear();
        state.failing_reads.clear();
        state.forget_unreachable();
        Self::from_state(state)
    }

    /// What a reader would see in a file, or `None` if there is none. Works without power.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut state = self.state();
        let file = state.find(path.as_ref()).ok()??;
        Some(state.content(file).bytes().to_vec())
    }

    /// Creates or overwrites a file, durably and without a step; its directory is synced with it.
    ///
    /// # Panics
    ///
    /// If the path has no file name.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        let (dir, name) = split(path.as_ref()).expect("a path with a file name");
        let content = Content::all_durable(bytes.into());
        let mut state = self.state();
        state.add_directories(dir);
        if let Ok(Some(file)) = state.find(path.as_ref()) {
            *state.content(file) = content;
        } else {
            let (name, file) = (name.to_owned(), state.add_file(content));
            let directory = state.directory(dir).expect("added above");
            directory.current.insert(name.clone(), file);
            directory.pending.push(NameChange::Create { name, file });
            state.files.get_mut(&file).expect("added above").names = 1;
        }
        state.directory(dir).expect("added above").make_durable();
    }

    /// Inverts a bit of a file, durably and without a step; bit 0 is the lowest of the first byte. Meant for a disk at
    /// rest: pending writes still have the old bit.
    ///
    /// # Panics
    ///
    /// If there is no such file or bit.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit_index: u64) {
        let mut state = self.state();
        let file = state.require(path.as_ref()).expect("a file to damage");
        state.content(file).flip_bit(bit_index);
    }

    /// Makes every read of a file fail that includes any of these bytes, as with bad sectors, until a crash.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn make_unreadable(&self, path: impl AsRef<Path>, bytes: Range<u64>) {
        let mut state = self.state();
        let file = state.require(path.as_ref()).expect("a file to damage");
        state.files.get_mut(&file).expect("required above").unreadable.push(bytes);
    }

    /// The byte ranges of a file that [`File::read_soon`] was called with, in order.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn read_soon(&self, path: impl AsRef<Path>) -> Vec<Range<u64>> {
        let state = self.state();
        let file = state.require(path.as_ref()).expect("a file");
        state.files[&file].read_soon.clone()
    }

    /// The number of reads of files, including failed ones.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Makes exactly read `read` fail, as numbered by [`SimDisk::reads`]; the next one of the same place does not.
    pub fn fail_read_at(&self, read: u64) {
        self.state().failing_reads.insert(read);
    }

    /// The paths of all files, sorted.
    pub fn file_names(&self) -> Vec<PathBuf> {
        let state = self.state();
        let names = state
            .directories
            .iter()
            .flat_map(|(dir, directory)| directory.current.keys().map(move |name| dir.join(name)));
        let mut names: Vec<PathBuf> = names.collect();
        names.sort_unstable();
        names
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SimDisk")
            .field("files", &state.files.len())
            .field("steps", &state.steps)
            .field("power_is_off", &state.power_is_off)
            .finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        state.require_power()?;
        state.add_directories(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.tell(DiskCall::List);
        let mut state = self.state();
        state.require_power()?;
        Ok(state.directory(dir)?.current.keys().cloned().collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        self.tell(DiskCall::Open);
        let mut state = self.state();
        state.require_power()?;
        let file = match (mode, state.find(path)?) {
            (OpenMode::Read | OpenMode::ReadWrite, Some(file)) => file,
            (OpenMode::Read | OpenMode::ReadWrite, None) => return Err(missing(path)),
            (OpenMode::CreateNew | OpenMode::CreateDirect, None) => state.create(path)?,
            (OpenMode::CreateNew | OpenMode::CreateDirect, Some(_)) => {
                return Err(ErrorKind::AlreadyExists.into());
            }
        };
        let inode = state.files.get_mut(&file).expect("found or created above");
        inode.open_count += 1;
        let disk = self.clone();
        let opened = Arc::new(Opened { disk, file });
        Ok(Box::new(SimFile { opened, mode }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.tell(DiskCall::Remove);
        let mut state = self.state();
        state.require_power()?;
        state.require(path)?;
        let (dir, name) = split(path)?;
        let name = name.to_owned();
        state.change_directory(dir, NameChange::Remove { name })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.tell(DiskCall::Rename);
        let mut state = self.state();
        state.require_power()?;
        state.require(from)?;
        let ((dir, from), (to_dir, to)) = (split(from)?, split(to)?);
        if dir != to_dir {
            return Err(invalid("a rename between directories is not simulated"));
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        if from == to {
            return Ok(());
        }
        state.change_directory(dir, NameChange::Rename { from, to })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        state.require_power()?;
        let file = state.require(from)?;
        if state.find(to)?.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = split(to)?;
        let name = name.to_owned();
        state.change_directory(dir, NameChange::Create { name, file })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.tell(DiskCall::SyncDir);
        let mut state = self.state();
        state.require_power()?;
        state.directory(dir)?;
        match state.step() {
            Step::Done => {}
            Step::Cut => return Err(no_power()),
            Step::Failed(kind) => return Err(injected(kind)),
        }
        state.directory(dir)?.make_durable();
        state.forget_unreachable();
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.require_power()?;
        if state.find(path)?.is_none() {
            state.create(path)?;
        }
        if !state.locked.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let (disk, path) = (self.clone(), path.to_owned());
        Ok(Box::new(SimLock { disk, path }))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

/// One opening of a file, shared by the handle and its mappings.
#[derive(Debug)]
struct Opened {
    disk: SimDisk,
    file: FileId,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        let inode = state.files.get_mut(&self.file).expect("an open file");
        inode.open_count -= 1;
        if inode.open_count == 0 && inode.names == 0 {
            state.forget_unreachable();
        }
    }
}

#[derive(Debug)]
struct SimFile {
    opened: Arc<Opened>,
    mode: OpenMode,
}

impl SimFile {
    fn state(&self) -> Result<MutexGuard<'_, SimState>> {
        let state = self.opened.disk.state();
        state.require_power()?;
        Ok(state)
    }

    fn state_to_write(&self) -> Result<MutexGuard<'_, SimState>> {
        let state = self.state()?;
        if self.mode == OpenMode::Read {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(state)
    }
}

impl File for SimFile {
    fn len(&self) -> Result<u64> {
        Ok(self.state()?.content(self.opened.file).bytes().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.opened.disk.tell(DiskCall::Read);
        let mut state = self.state()?;
        let number = state.reads;
        state.reads += 1;
        if state.failing_reads.contains(&number) {
            return Err(injected(ErrorKind::Other));
        }
        let end = offset.saturating_add(buffer.len() as u64);
        let unreadable = &state.files[&self.opened.file].unreadable;
        if unreadable.iter().any(|bytes| bytes.start < end && offset < bytes.end) {
            return Err(Error::other("an unreadable place"));
        }
        let rest =
            usize::try_from(offset).ok().and_then(|offset| state.content(self.opened.file).bytes().get(offset..));
        match rest.and_then(|rest| rest.get(..buffer.len())) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None if buffer.is_empty() => {}
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state_to_write()?;
        if self.mode == OpenMode::CreateDirect {
            require_aligned(bytes, offset)?;
        }
        state.write(self.opened.file, bytes, to_index(offset)?)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state_to_write()?;
        state.set_len(self.opened.file, to_index(len)?)
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state()?;
        let step = state.step();
        let content = state.content(self.opened.file);
        match step {
            Step::Done => {
                content.sync();
                Ok(())
            }
            Step::Cut => Err(no_power()),
            Step::Failed(kind) => {
                content.fail_sync();
                Err(injected(kind))
            }
        }
    }

    fn read_soon(&self, offset: u64, len: u64) {
        if let Ok(mut state) = self.state()
            && let Some(inode) = state.files.get_mut(&self.opened.file)
        {
            inode.read_soon.push(offset..offset + len);
        }
    }

    fn map(&self, len: usize) -> Result<Box<dyn Mapping>> {
        let mut state = self.state_to_write()?;
        if len == 0 || len > state.content(self.opened.file).bytes().len() {
            return Err(invalid("a mapping of no bytes, or past the file's end"));
        }
        let opened = Arc::clone(&self.opened);
        Ok(Box::new(SimMapping { opened, len }))
    }
}

#[derive(Debug)]
struct SimMapping {
    opened: Arc<Opened>,
    len: usize,
}

impl Mapping for SimMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{} bytes at {offset} are outside of a mapping of {}",
            bytes.len(),
            self.len
        );
        let mut state = self.opened.disk.state();
        if state.power_is_off {
            return;
        }
        // A fault cannot show itself here, and at a power cut the store may have happened: it is made in any case.
        let _: Step = state.step();
        let content = state.content(self.opened.file);
        assert!(
            offset + bytes.len() <= content.bytes().len(),
            "a store past the end of a file that was cut under its mapping (SIGBUS on a real disk)"
        );
        content.write(offset, bytes);
    }
}
