//! The directory of a database: which files of runs are in it, named by the last manifest, being written, or being
//! copied; and whose turn it is to write them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalog::declaration::TableId;
use crate::catalog::manifest::Manifest;
use crate::error::{Error, Result};
use crate::io::{Disk, File, OpenMode};
use crate::log::Lsn;
use crate::sync::{FairGuard, FairMutex, Mutex, MutexGuard};

/// The beginning of the names that [`Db::temporary_file`](crate::Db::temporary_file) gives for a moment.
const TEMPORARY: &str = "temporary-";

/// Whether it is such a name, which a crash may have left.
pub(crate) fn is_temporary_name(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}

/// The files of runs. Orders the jobs that write the manifest, one at a time.
pub(crate) struct RunFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    turn: FairMutex<()>,
    last: Mutex<LastManifest>,
}

/// The state after the last manifest.
pub(crate) struct LastManifest {
    pub(crate) manifest: Manifest,
    /// Why the last job failed, if it did.
    pub(crate) failure: Option<String>,
    /// Where the log ended when a due checkpoint failed; 0 if the last one succeeded.
    pub(crate) tried_at: Lsn,
    /// The number of the last job.
    pub(crate) number: u64,
    /// Runs being written, which no manifest names yet.
    pub(crate) writing: BTreeSet<String>,
    /// Files being copied or merged, and how many times.
    pub(crate) kept: BTreeMap<String, usize>,
}

/// The runs of a manifest, kept until this is dropped.
pub(crate) struct KeptRuns<'f> {
    pub(crate) manifest: Manifest,
    _files: KeptFiles<'f>,
}

/// Files that are kept until this is dropped, whatever replaces them. The next job then removes those that were
/// replaced.
pub(crate) struct KeptFiles<'f> {
    files: &'f RunFiles,
    names: Vec<String>,
}

impl Drop for KeptFiles<'_> {
    fn drop(&mut self) {
        let mut last = self.files.last();
        for name in &self.names {
            if let Some(times) = last.kept.get_mut(name) {
                *times -= 1;
            }
        }
        last.kept.retain(|_, times| *times > 0);
    }
}

impl LastManifest {
    pub(crate) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl RunFiles {
    /// The files in a directory that the manifest names.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, manifest: Manifest) -> RunFiles {
        let number = manifest.checkpoint;
        let (failure, tried_at) = (None, Lsn(0));
        let last =
            LastManifest { manifest, failure, tried_at, number, writing: BTreeSet::new(), kept: BTreeMap::new() };
        RunFiles { disk, dir: dir.to_path_buf(), turn: FairMutex::default(), last: Mutex::new(last) }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The directory of the database.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Syncs the directory, in which files were made.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|error| Error::io("cannot sync directory", &self.dir, error))
    }

    /// A new file in the directory that has no name.
    pub(crate) fn temporary(&self) -> Result<Box<dyn File>> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        loop {
            let path = self.dir.join(format!("{TEMPORARY}{}", MADE.fetch_add(1, Ordering::Relaxed)));
            let file = match self.disk.open(&path, OpenMode::CreateNew) {
                // A crash has left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file.map_err(|error| Error::io("cannot create", &path, error))?,
            };
            return match self.disk.remove(&path) {
                // What removes leftovers has seen it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("cannot remove", &path, error)),
                _ => Ok(file),
            };
        }
    }

    /// Waits for the turn to write runs.
    pub(crate) fn turn(&self) -> FairGuard<'_, ()> {
        self.turn.lock()
    }

    /// Whether a thread has that turn.
    pub(crate) fn is_turn_taken(&self) -> bool {
        self.turn.is_taken()
    }

    /// The last manifest. Does not wait for a running job.
    pub(crate) fn last(&self) -> MutexGuard<'_, LastManifest> {
        self.last.lock()
    }

    /// Names a run to be written; no job removes its file meanwhile.
    pub(crate) fn begin_run(&self, table: TableId) -> (String, u64) {
        let mut last = self.last();
        let number = last.next_number();
        let name = run_name(number, table);
        last.writing.insert(name.clone());
        (name, number)
    }

    /// Keeps the runs that the last manifest names. Call it in the turn to write runs, in which all of them exist.
    pub(crate) fn keep(&self) -> KeptRuns<'_> {
        let manifest = self.last().manifest.clone();
        let _files = self.keep_files(manifest.files().cloned().collect());
        KeptRuns { manifest, _files }
    }

    /// Keeps files. Call it in the turn to write runs, or in the writer's turn while a table has them.
    pub(crate) fn keep_files(&self, names: Vec<String>) -> KeptFiles<'_> {
        let mut last = self.last();
        for name in &names {
            *last.kept.entry(name.clone()).or_default() += 1;
        }
        drop(last);
        KeptFiles { files: self, names }
    }

    /// The number of the last job.
    pub(crate) fn last_number(&self) -> u64 {
        self.last().number
    }

    /// Ends the protection of a run's file: the manifest names it, or it was given up.
    pub(crate) fn end_run(&self, name: &str) {
        self.last().writing.remove(name);
    }
}

/// The file name of a table's run.
pub(crate) fn run_name(number: u64, table: TableId) -> String {
    format!("run-{number:010}-{table:06}.quipu")
}

/// Whether a file is a run, judged by its name.
pub(crate) fn is_run_name(name: &str) -> bool {
    name.starts_with("run-") && name.ends_with(".quipu")
}
