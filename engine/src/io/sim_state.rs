//! The state of a simulated disk: directories, files, and the steps that will fail.
//!
//! Invariants:
//! 1. A directory's `durable` names with all of `pending` applied in order are its `current` ones.
//! 2. Every name, durable or not, and every handle has its file in `files`; an unreachable file is dropped.
//! 3. A call checks for power first, then for what it needs, and only then takes its step.
//!
//! Not here: paths as the callers give them to [`super::sim::SimDisk`], locks around this state, a file's bytes
//! ([`super::sim_content`]).

use super::sim::CrashMode;
use super::sim_content::{Content, SplitMix64};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) type FileId = u64;

#[derive(Clone, Default)]
pub(super) struct SimState {
    pub(super) directories: BTreeMap<PathBuf, Directory>,
    pub(super) files: BTreeMap<FileId, Inode>,
    next_file: FileId,
    pub(super) locked: BTreeSet<PathBuf>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) steps: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) power_is_off: bool,
    pub(super) faults: BTreeMap<u64, ErrorKind>,
    pub(super) reads: u64,
    /// Numbers of reads that fail.
    pub(super) failing_reads: BTreeSet<u64>,
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    pub(super) open_count: usize,
    /// The number of its current names; the disk after a crash may have others.
    pub(super) names: usize,
    /// Byte ranges whose reads fail.
    pub(super) unreadable: Vec<Range<u64>>,
    /// Byte ranges that were announced as read soon.
    pub(super) read_soon: Vec<Range<u64>>,
}

#[derive(Clone, Default)]
pub(super) struct Directory {
    pub(super) durable: BTreeMap<String, FileId>,
    pub(super) current: BTreeMap<String, FileId>,
    pub(super) pending: Vec<NameChange>,
}

impl Directory {
    pub(super) fn make_durable(&mut self) {
        for entry in self.pending.drain(..) {
            entry.apply(&mut self.durable);
        }
    }
}

/// A change of a directory.
#[derive(Clone)]
pub(super) enum NameChange {
    /// A name for a new file, or a further name for an existing one.
    Create {
        name: String,
        file: FileId,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
}

impl NameChange {
    /// Returns the file that lost its name.
    pub(super) fn apply(&self, names: &mut BTreeMap<String, FileId>) -> Option<FileId> {
        match self {
            Self::Create { name, file } => names.insert(name.clone(), *file),
            Self::Rename { from, to } => {
                let file = names.remove(from)?;
                names.insert(to.clone(), file)
            }
            Self::Remove { name } => names.remove(name),
        }
    }
}

/// The outcome of a step.
pub(super) enum Step {
    Done,
    /// The power fails during it: it may have happened, and the caller gets an error.
    Cut,
    Failed(ErrorKind),
}

pub(super) fn no_power() -> Error {
    Error::other("the simulated power is off")
}

pub(super) fn injected(kind: ErrorKind) -> Error {
    Error::new(kind, "an injected fault")
}

pub(super) fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

pub(super) fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// The longest file. Everything lies in memory, so a wrong offset must not make a file huge.
const FILE_BYTES_MAX: u64 = 1 << 40;

pub(super) fn to_index(offset: u64) -> Result<usize> {
    match usize::try_from(offset) {
        Ok(index) if offset <= FILE_BYTES_MAX => Ok(index),
        _ => Err(ErrorKind::FileTooLarge.into()),
    }
}

/// Splits a path into the directory and the name in it.
pub(super) fn split(path: &Path) -> Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(dir), Some(name)) => Ok((dir, name)),
        _ => Err(invalid("a path without a file name in UTF-8")),
    }
}

impl SimState {
    pub(super) fn require_power(&self) -> Result<()> {
        if self.power_is_off {
            return Err(no_power());
        }
        Ok(())
    }

    pub(super) fn step(&mut self) -> Step {
        if self.cut_at.is_some_and(|cut_at| cut_at <= self.steps) {
            self.power_is_off = true;
            return Step::Cut;
        }
        let step = self.steps;
        self.steps += 1;
        self.faults.remove(&step).map_or(Step::Done, Step::Failed)
    }

    pub(super) fn directory(&mut self, dir: &Path) -> Result<&mut Directory> {
        self.directories.get_mut(dir).ok_or_else(|| missing(dir))
    }

    pub(super) fn find(&self, path: &Path) -> Result<Option<FileId>> {
        let (dir, name) = split(path)?;
        let directory = self.directories.get(dir).ok_or_else(|| missing(dir))?;
        Ok(directory.current.get(name).copied())
    }

    pub(super) fn require(&self, path: &Path) -> Result<FileId> {
        self.find(path)?.ok_or_else(|| missing(path))
    }

    pub(super) fn content(&mut self, file: FileId) -> &mut Content {
        &mut self.files.get_mut(&file).expect("an open file").content
    }

    pub(super) fn add_directories(&mut self, dir: &Path) {
        for ancestor in dir.ancestors() {
            self.directories.entry(ancestor.to_owned()).or_default();
        }
    }

    pub(super) fn add_file(&mut self, content: Content) -> FileId {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, Inode { content, ..Inode::default() });
        file
    }

    /// One step that changes a directory.
    pub(super) fn change_directory(&mut self, dir: &Path, entry: NameChange) -> Result<()> {
        let outcome = match self.step() {
            Step::Done => Ok(()),
            Step::Cut => Err(no_power()),
            Step::Failed(kind) => return Err(injected(kind)),
        };
        let linked = if let NameChange::Create { file, .. } = entry { Some(file) } else { None };
        let directory = self.directory(dir)?;
        let unlinked = entry.apply(&mut directory.current);
        directory.pending.push(entry);
        if let Some(inode) = linked.and_then(|file| self.files.get_mut(&file)) {
            inode.names += 1;
        }
        if let Some(inode) = unlinked.and_then(|file| self.files.get_mut(&file)) {
            inode.names -= 1;
        }
        outcome
    }

    pub(super) fn create(&mut self, path: &Path) -> Result<FileId> {
        let (dir, name) = split(path)?;
        let name = name.to_owned();
        let file = self.add_file(Content::default());
        let created = self.change_directory(dir, NameChange::Create { name, file });
        if created.is_err() {
            self.forget_unreachable();
        }
        created.map(|()| file)
    }

    /// The total length of all files. Those that have neither a name nor a handle take no space.
    pub(super) fn used_bytes(&self) -> u64 {
        let used = self.files.values().filter(|inode| inode.names > 0 || inode.open_count > 0);
        used.map(|inode| inode.content.bytes().len() as u64).sum()
    }

    /// Bytes that can still be added.
    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(u64::MAX, |capacity_bytes| capacity_bytes.saturating_sub(self.used_bytes()))
    }

    pub(super) fn write(&mut self, file: FileId, bytes: &[u8], offset: usize) -> Result<()> {
        // A failed write leaves its first half; a real one may stop anywhere.
        let (mut taken, mut outcome) = match self.step() {
            Step::Done => (bytes.len(), Ok(())),
            Step::Cut => (bytes.len(), Err(no_power())),
            Step::Failed(kind) => (bytes.len() / 2, Err(injected(kind))),
        };
        let len = self.content(file).bytes().len();
        let growth = (offset + taken).saturating_sub(len) as u64;
        let free_bytes = self.free_bytes();
        if taken > 0 && growth > free_bytes {
            // As much as fits is written, as on a real disk.
            taken = (len + free_bytes as usize).saturating_sub(offset);
            outcome = outcome.and(Err(ErrorKind::StorageFull.into()));
        }
        self.content(file).write(offset, &bytes[..taken]);
        outcome
    }

    pub(super) fn set_len(&mut self, file: FileId, len: usize) -> Result<()> {
        let outcome = match self.step() {
            Step::Done => Ok(()),
            Step::Cut => Err(no_power()),
            Step::Failed(kind) => return Err(injected(kind)),
        };
        let growth = len.saturating_sub(self.content(file).bytes().len()) as u64;
        if growth > self.free_bytes() {
            return Err(ErrorKind::StorageFull.into());
        }
        self.content(file).set_len(len);
        outcome
    }

    /// Drops files that have no handle and no name, and that no crash can bring back.
    pub(super) fn forget_unreachable(&mut self) {
        let mut reachable: BTreeSet<&FileId> = BTreeSet::new();
        for directory in self.directories.values() {
            reachable.extend(directory.current.values());
            reachable.extend(directory.durable.values());
            reachable.extend(directory.pending.iter().filter_map(|entry| match entry {
                NameChange::Create { file, .. } => Some(file),
                NameChange::Rename { .. } | NameChange::Remove { .. } => None,
            }));
        }
        self.files.retain(|file, inode| inode.open_count > 0 || reachable.contains(file));
    }

    pub(super) fn crash(&self, mode: CrashMode, rng: &mut SplitMix64) -> Self {
        let mut found = Self { next_file: self.next_file, capacity_bytes: self.capacity_bytes, ..Self::default() };
        for (path, directory) in &self.directories {
            let survivors = match mode {
                CrashMode::LoseAll => 0,
                CrashMode::KeepAll => directory.pending.len(),
                CrashMode::Random => rng.below(directory.pending.len() + 1),
            };
            let mut names = directory.durable.clone();
            for entry in &directory.pending[..survivors] {
                entry.apply(&mut names);
            }
            for &file in names.values() {
                // A file with several names crashes once.
                let inode = found.files.entry(file).or_insert_with(|| Inode {
                    content: self.files[&file].content.crash(mode, rng),
                    ..Inode::default()
                });
                inode.names += 1;
            }
            let directory = Directory { durable: names.clone(), current: names, pending: Vec::new() };
            found.directories.insert(path.clone(), directory);
        }
        found
    }
}
