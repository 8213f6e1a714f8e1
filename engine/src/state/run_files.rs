//! Which run files exist: named by the last manifest, being written, or being copied.

use crate::catalog::declaration::TableId;
use crate::catalog::manifest::Manifest;
use crate::log::Lsn;
use crate::sync::{FairGuard, FairMutex, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};

/// Orders the jobs that write the manifest, one at a time.
pub(crate) struct Checkpoints {
    pub(crate) turn: FairMutex<()>,
    pub(crate) last: Mutex<LastManifest>,
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
    /// Runs being copied, and by how many copies.
    pub(crate) kept: BTreeMap<String, usize>,
}

/// The runs of a manifest, kept until this is dropped, whatever replaces them. The next job then removes those that
/// were replaced.
pub(crate) struct KeptRuns<'c> {
    pub(crate) checkpoints: &'c Checkpoints,
    pub(crate) manifest: Manifest,
}

impl Drop for KeptRuns<'_> {
    fn drop(&mut self) {
        let mut last = self.checkpoints.last();
        for name in self.manifest.files() {
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

impl Checkpoints {
    pub(crate) fn new(manifest: Manifest) -> Self {
        let number = manifest.checkpoint;
        let (failure, tried_at) = (None, Lsn(0));
        let last =
            LastManifest { manifest, failure, tried_at, number, writing: BTreeSet::new(), kept: BTreeMap::new() };
        Checkpoints { turn: FairMutex::default(), last: Mutex::new(last) }
    }

    /// Waits for the turn to write runs.
    pub(crate) fn turn(&self) -> FairGuard<'_, ()> {
        self.turn.lock()
    }

    /// Whether a thread has that turn.
    pub(crate) fn is_taken(&self) -> bool {
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
        let mut last = self.last();
        let manifest = last.manifest.clone();
        for name in manifest.files() {
            *last.kept.entry(name.clone()).or_default() += 1;
        }
        drop(last);
        KeptRuns { checkpoints: self, manifest }
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
