//! Checkpoints: an image of every table as of one snapshot, after which the log before it is recycled.
//!
//! Invariants:
//! 1. The manifest names only runs that are complete and synced, and a log position that is synced.
//! 2. Until the new manifest is in place, everything that the old one needs stays: a crash at any step leaves one of the two.
//! 3. A table that has not changed since the last checkpoint keeps its run.
//! 4. No number is used twice while the database is open: the runs of a checkpoint that failed at its very end may be named by the manifest on disk.
//!
//! Locks are taken in the order: the turn to write a checkpoint, the writer's turn, what is known of the last checkpoint; the last one never during I/O.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::db::{Progress, Shared};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::manifest::{Manifest, ManifestTable};
use crate::run::{RunOptions, RunWriter};
use crate::snapshot::{Snapshot, TableVersion};
use crate::stack::{Cut, resident};
use crate::sync::{Mutex, MutexGuard};

/// Checkpoints, one at a time.
pub(crate) struct Checkpoints {
    turn: Mutex<()>,
    last: Mutex<LastCheckpoint>,
}

/// What is known of the last checkpoint.
pub(crate) struct LastCheckpoint {
    pub(crate) manifest: Manifest,
    /// Why the last try failed, if it did.
    pub(crate) failure: Option<String>,
    /// The number of the last try.
    number: u64,
}

impl Checkpoints {
    pub(crate) fn new(manifest: Manifest) -> Self {
        let number = manifest.checkpoint;
        Checkpoints { turn: Mutex::default(), last: Mutex::new(LastCheckpoint { manifest, failure: None, number }) }
    }

    /// Does not wait for a checkpoint that is being written.
    pub(crate) fn last(&self) -> MutexGuard<'_, LastCheckpoint> {
        self.last.lock()
    }
}

/// What a checkpoint did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its number.
    pub number: u64,
    /// The last commit in it.
    pub sequence: u64,
    /// Tables written; those that had not changed kept their files.
    pub tables_written: usize,
    /// Rows written.
    pub rows_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// The name of the run of a table in a checkpoint.
pub(crate) fn run_name(checkpoint: u64, table: u32) -> String {
    format!("run-{checkpoint:010}-{table:06}.quipu")
}

/// Whether a file is a run, by its name.
pub(crate) fn is_run_name(name: &str) -> bool {
    name.starts_with("run-") && name.ends_with(".quipu")
}

impl Shared {
    /// Whether the log has grown by more than the options allow.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let (Some(log), bytes) = (&self.log, self.options.checkpoint_log_bytes) else { return false };
        let since = self.checkpoints.last().manifest.log_position;
        bytes > 0 && log.end_lsn().0 - since > bytes
    }

    /// Writes a checkpoint. One at a time; commits go on meanwhile.
    pub(crate) fn checkpoint(self: &Arc<Self>, progress: &mut dyn FnMut(Progress)) -> Result<CheckpointInfo> {
        // Whoever has the writer's turn would wait here for a checkpoint that waits for that turn.
        self.refuse_in_own_turn()?;
        let _turn = self.checkpoints.turn.lock();
        let (last, number) = {
            let mut last = self.checkpoints.last();
            last.number += 1;
            (last.manifest.clone(), last.number)
        };
        let result = self.checkpoint_after(&last, number, progress);
        self.checkpoints.last().failure = result.as_ref().err().map(ToString::to_string);
        result
    }

    fn checkpoint_after(
        self: &Arc<Self>,
        last: &Manifest,
        number: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<CheckpointInfo> {
        let log = self.log()?;
        let disk = &*self.options.disk;
        // In the writer's turn the snapshot, the sequence and the end of the log belong together.
        let (snapshot, lsn) = {
            let _turn = self.writer()?;
            // A record that could not be applied is in the log and not in the trees.
            self.check_failed()?;
            (Snapshot::take(self), log.end_lsn())
        };
        log.sync(lsn)?;
        let mut info = CheckpointInfo { number, sequence: snapshot.versions.sequence, ..Default::default() };
        let mut manifest = Manifest {
            database_id: self.database_id,
            checkpoint: number,
            sequence: snapshot.versions.sequence,
            log_position: lsn.0,
            next_table_id: snapshot.versions.tables.len() as u32,
            tables: Vec::new(),
        };
        let mut written = Vec::new();
        let result = (|| {
            let total: u64 = snapshot.versions.tables.iter().flatten().map(|table| rows_of(table, self)).sum();
            let mut done = 0;
            for table in snapshot.versions.tables.iter().flatten() {
                let id = table.declaration.id;
                let kept = last.tables.iter().find(|entry| entry.id == id && table.sequence <= last.sequence);
                if let Some(kept) = kept {
                    manifest.tables.push(kept.clone());
                    continue;
                }
                let name = run_name(number, id);
                let run = (rows_of(table, self) > 0).then_some(name);
                let stack = table.stack(&self.arena);
                if let Some(name) = &run {
                    let path = self.dir.join(name);
                    written.push(path.clone());
                    let bytes = self.write_run(disk, &path, table, number, &mut |rows| {
                        progress(Progress { stage: "writing the checkpoint", done: done + rows, total });
                    })?;
                    info.bytes_written += bytes;
                    info.tables_written += 1;
                    info.rows_written += stack.total().rows as u64;
                }
                done += stack.total().rows as u64;
                manifest.tables.push(ManifestTable {
                    id,
                    name: table.declaration.name.clone(),
                    measures: table.declaration.options.measures,
                    annotation: table.declaration.options.annotation.clone(),
                    run,
                    total: stack.total(),
                });
            }
            disk.sync_dir(&self.dir).map_err(|error| Error::io("cannot sync directory", &self.dir, error))
        })();
        drop(snapshot);
        if let Err(error) = result.and_then(|()| manifest.write(disk, &self.dir)) {
            // The manifest in place may be the new one, if it was the sync behind the renaming that failed: then both sets of runs stay until the next checkpoint.
            if Manifest::read(disk, &self.dir).is_ok_and(|found| found.as_ref() == Some(last)) {
                for path in written {
                    let _ = disk.remove(&path);
                }
            }
            return Err(error);
        }
        // From here on the new manifest counts, also if what the old one needed cannot be removed.
        self.checkpoints.last().manifest = manifest.clone();
        let taken =
            |error: Error| error.context(format!("checkpoint {number} is taken, but what it replaces is still there"));
        remove_orphans(disk, &self.dir, &manifest).map_err(taken)?;
        log.release_before(lsn).map_err(taken)?;
        Ok(info)
    }

    fn write_run(
        &self,
        disk: &dyn Disk,
        path: &Path,
        table: &TableVersion,
        run_id: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let options = RunOptions {
            page_bytes: self.options.run_page_bytes,
            measures: table.declaration.options.measures,
            table_id: table.declaration.id,
            run_id,
            // An image is read whole.
            has_filters: false,
            ..RunOptions::default()
        };
        let stack = table.stack(&self.arena);
        let mut writer = RunWriter::create(disk, path, options)?;
        let (mut rows, mut result) = (0u64, Ok(()));
        resident(stack.scan(Cut::Start, Cut::End, false, |key, value| {
            result = writer.push(key, value);
            rows += 1;
            if rows % 4096 == 0 {
                progress(rows);
            }
            result.is_ok()
        }));
        result?;
        let info = writer.finish()?;
        if info.total.tally != stack.total() {
            // The law, checked on every checkpoint.
            return Err(Error::new(
                crate::ErrorKind::Corrupt,
                format!(
                    "table {:?} tallies {:?} in memory and {:?} in its checkpoint, which was not taken; run `quipu check`",
                    table.declaration.name,
                    stack.total(),
                    info.total.tally
                ),
            ));
        }
        Ok(info.bytes)
    }
}

fn rows_of(table: &TableVersion, shared: &Shared) -> u64 {
    table.stack(&shared.arena).total().rows as u64
}

/// Removes the runs that the manifest does not name.
pub(crate) fn remove_orphans(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let named: BTreeSet<&str> = manifest.tables.iter().filter_map(|table| table.run.as_deref()).collect();
    let names = disk.list(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    for name in names {
        if (is_run_name(&name) && !named.contains(&*name)) || name == "MANIFEST.new" {
            let path = dir.join(&name);
            disk.remove(&path).map_err(|error| Error::io("cannot remove", &path, error))?;
        }
    }
    Ok(())
}
