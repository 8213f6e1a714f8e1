//! Removes files of runs: replaced ones, those of a failed job, and those that a crash has left.
//!
//! A file is removed only when no manifest on disk names it, no table has it, and no thread writes, merges or copies
//! it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::manifest::{self, Manifest};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::state::latch::Latch;
use crate::state::run_files::{RunFiles, is_run_name, is_temporary_name};

impl RunFiles {
    /// Makes `next` the last manifest, after a change of a table's runs. In the turn to write runs.
    ///
    /// # Errors
    /// Those of [`Manifest::write`], after removing the files `written`; with them, whether the next opening is certain
    /// to find the previous manifest.
    pub(crate) fn replace_manifest(
        &self,
        next: Manifest,
        written: &[String],
    ) -> std::result::Result<(), (Error, bool)> {
        let last = self.last().manifest.clone();
        if let Err(error) = next.write(self.disk(), self.dir()) {
            let written: Vec<PathBuf> = written.iter().map(|name| self.dir().join(name)).collect();
            let is_last = self.give_up(&last, written.iter().map(|path| &**path));
            return Err((error, is_last));
        }
        self.last().manifest = next;
        Ok(())
    }

    /// Removes what a failed job has written. Returns whether the next opening is certain to find the previous
    /// manifest.
    pub(crate) fn give_up<'p>(&self, last: &Manifest, written: impl Iterator<Item = &'p Path>) -> bool {
        let disk = self.disk();
        // The manifest in place may be the new one, if the sync after the renaming failed. If the old one cannot be put
        // back, both sets of runs stay until the next job.
        let is_last = Manifest::read(disk, self.dir()).is_ok_and(|found| found.as_ref() == Some(last))
            || last.write(disk, self.dir()).is_ok();
        if is_last {
            written.for_each(|path| drop(disk.remove(path)));
        }
        is_last
    }

    /// Removes runs that the manifest does not name, no table has, and that are not being written, merged or copied.
    /// Readers of such a run still have it open.
    ///
    /// A table may have a run that the manifest does not name: where all rows of a merged run are removed between the
    /// manifest and the table's turn, one of its files stands for the run, and may be one of which nothing was left
    /// when the manifest was written. The next manifest names it.
    pub(crate) fn remove_replaced(&self, manifest: &Manifest, versions: &Latch) -> Result<()> {
        let in_use = || {
            let versions = Arc::clone(&versions.read());
            let runs = versions.tables.iter().flatten().flat_map(|table| table.runs.iter());
            let of_tables = runs.flat_map(|run| run.files()).map(|file| file.name());
            let last = self.last();
            of_tables.chain(last.writing.iter().chain(last.kept.keys()).cloned()).collect()
        };
        remove_orphans(self.disk(), self.dir(), manifest, in_use)
    }
}

/// Removes the runs that the manifest does not name, except those `in_use`. It is called after the directory has been
/// listed: a run is in use before its file is created, so a listed file that is not in use is a leftover.
pub(crate) fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    in_use: impl FnOnce() -> BTreeSet<String>,
) -> Result<()> {
    let named: BTreeSet<&str> = manifest.files().map(|name| &**name).collect();
    let names = disk.list(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    let in_use = in_use();
    for name in names {
        let is_orphan = is_run_name(&name) && !named.contains(&*name) && !in_use.contains(&name);
        if is_orphan || name == manifest::UNFINISHED_NAME || is_temporary_name(&name) {
            let path = dir.join(&name);
            match disk.remove(&path) {
                // A failed merge has meanwhile removed its files, and a temporary one loses its name at once.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io("cannot remove", &path, error))?,
            }
        }
    }
    Ok(())
}
