//! Writes a manifest after ranges were removed, so that files of which nothing is left can go.
//!
//! A removal is one record of the log. The manifest learns of it when it is written for another reason: a flush, a
//! checkpoint, a merge, an ingest; or, where files have gone from runs, to have these removed, here.
//!
//! Invariants:
//! 1. Before a manifest names an excision, the log is synced up to the removal that made it. Else a power loss could
//!    leave rows missing of a commit that never happened.
//! 2. It says up to which commit it has all removals of ranges from a table, so that replay leaves its runs alone until
//!    then. Runs and that number are of one moment of the writer's turn.

use crate::cache::ReadPages;
use crate::catalog::declaration::TableId;
use crate::catalog::manifest::{LastIngest, Manifest, ManifestTable};
use crate::error::Result;
use crate::log::Log;
use crate::maintenance::checkpoint_and_flush::described;
use crate::maintenance::layers::LayerChanges;
use crate::read::table_stack::Stopped;
use crate::state::publish::table_of;
use crate::state::run_files::RunFiles;
use crate::state::shared::{Shared, writable};
use crate::state::versions::{Runs, total_of};
use crate::state::writer::TableTrees;

/// What naming the runs that are left needs.
#[derive(Clone, Copy)]
pub(crate) struct RemovalManifest<'s> {
    layers: LayerChanges<'s>,
    files: &'s RunFiles,
    log: Option<&'s Log>,
}

impl<'s> RemovalManifest<'s> {
    pub(crate) fn of(shared: &'s Shared) -> RemovalManifest<'s> {
        RemovalManifest { layers: LayerChanges::of(shared), files: &shared.files, log: shared.log.as_ref() }
    }

    /// The last manifest with the runs that `plan` makes of those that a table has now, and the log synced up to now.
    /// `None` if there are none, or no such table. In the turn to write runs.
    ///
    /// # Errors
    /// Those of `plan`, and of syncing the log.
    pub(super) fn manifest_with<T>(
        &self,
        id: TableId,
        plan: &impl Fn(&TableTrees, &ReadPages<'_>) -> std::result::Result<Option<(Runs, T)>, Stopped>,
    ) -> Result<Option<Manifest>> {
        // The manifest may be ahead of the tables.
        self.layers.health.check()?;
        let mut manifest = self.files.last().manifest.clone();
        let Some(entry) = manifest.tables.iter_mut().find(|entry| entry.id() == id) else { return Ok(None) };
        let pages = ReadPages::new(self.layers.cache);
        let end = loop {
            let mut turn = self.layers.turn()?;
            let sequence = turn.sequence;
            let Ok(trees) = table_of(&mut turn, id) else { return Ok(None) };
            match plan(trees, &pages) {
                Ok(None) => return Ok(None),
                Ok(Some((runs, _))) => {
                    entry.set_runs(&runs, sequence, trees.emptied_sequence);
                    break writable(self.log)?.end_lsn();
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Missing) => {
                    drop(turn);
                    pages.load()?;
                }
            }
        };
        writable(self.log)?.sync(end)?;
        manifest.checkpoint = self.files.last_number();
        Ok(Some(manifest))
    }

    /// Has the manifest name the runs that a table has, if it names files that are not among theirs any more; these are
    /// removed. Returns whether it did.
    ///
    /// # Errors
    /// Those of syncing the log, and of the disk.
    pub(crate) fn name(&self, id: TableId) -> Result<bool> {
        if !self.names_more_files(id) {
            return Ok(false);
        }
        let _turn = self.files.turn();
        // A flush that had written its manifest, and not put its run in place, has ended.
        if !self.names_more_files(id) {
            return Ok(false);
        }
        let Some(manifest) = self.manifest_with(id, &|trees, _| Ok(Some((trees.runs.clone(), ()))))? else {
            return Ok(false);
        };
        self.files.replace_manifest(manifest.clone(), &[]).map_err(|(error, _)| error)?;
        self.files.remove_replaced(&manifest, self.layers.versions).map(|()| true)
    }

    /// Whether the manifest names more files of a table on disk than its runs have. Between jobs it names all of those,
    /// but for one of which nothing is left ([`RunFiles::remove_replaced`]).
    fn names_more_files(&self, id: TableId) -> bool {
        let Ok(runs) = self.layers.versions.read().table(id).map(|table| table.runs.clone()) else { return false };
        let files: usize = runs.iter().map(|run| run.files().len()).sum();
        let last = self.files.last();
        let entry = last.manifest.tables.iter().find(|entry| entry.id() == id && entry.is_on_disk);
        entry.is_some_and(|entry| entry.files().count() > files)
    }
}

impl ManifestTable {
    /// Says that the table has these runs, from which all ranges are taken that were removed up to commit `sequence`.
    /// If there are none, it was empty after commit `emptied`.
    pub(crate) fn set_runs(&mut self, runs: &Runs, sequence: u64, emptied: u64) {
        self.runs = runs.iter().map(|run| described(run)).collect();
        self.total = total_of(runs);
        self.excised = sequence;
        if runs.is_empty() {
            // It is in memory again, and all that it had up to then has come to nothing.
            self.is_on_disk = false;
            self.sequence = self.sequence.max(emptied);
            self.excised = self.sequence;
            self.ingested = LastIngest::default();
        }
    }
}
