//! Preloading: reads inner pages of runs into memory before they are needed.
//!
//! It happens when the database opens, when a run is written, and on request. A page that cannot be read then is not an
//! error of opening or of the job: only reads that need this page fail.
//!
//! Not here: which pages, and where they are kept (`cache/preload_run`).

use std::sync::Arc;

use crate::cache::{PageCache, Preloaded};
use crate::catalog::declaration::Declaration;
use crate::error::Result;
use crate::inner_pages::InnerPages;
use crate::run::{Run, RunFile};
use crate::state::latch::Latch;
use crate::state::table_handle::Table;

/// Preloads what the tables' declarations ask for, the newest run of each first.
pub(crate) fn preload_tables(versions: &Latch, cache: &PageCache) {
    let versions = Arc::clone(&versions.read());
    for table in versions.tables.iter().flatten() {
        preload_runs(cache, &table.declaration, &table.runs, &[]);
    }
}

/// Preloads what a table's declaration asks for of `runs`, after releasing the runs that they replace.
pub(crate) fn preload_runs(cache: &PageCache, declaration: &Declaration, runs: &[Arc<Run>], replaced: &[Arc<Run>]) {
    let stays = |file: &RunFile| runs.iter().flat_map(|run| run.files()).any(|other| other.is_same(file));
    replaced.iter().flat_map(|run| run.files()).filter(|file| !stays(file)).for_each(|file| file.release());
    let wanted = declaration.options.inner_pages;
    if wanted == InnerPages::AsNeeded {
        return cache.fit();
    }
    for run in runs {
        let _ = cache.preload(run, wanted == InnerPages::Pinned);
    }
}

impl Table {
    /// Reads the inner pages and filters of all its runs into memory, as far as there is room, whatever the table's
    /// declaration asks for. With [`InnerPages::Pinned`] they stay as long as those runs do. Reads one or two percent
    /// of the files; what is in memory already is not read again.
    ///
    /// # Errors
    /// Errors of the disk, and a damaged page.
    pub fn preload(&self, inner_pages: InnerPages) -> Result<Preloaded> {
        let runs = self.shared.versions.read().table(self.id())?.runs.clone();
        let mut sum = Preloaded::default();
        if inner_pages != InnerPages::AsNeeded {
            for run in runs.iter() {
                let Preloaded { pages, bytes, is_cut } =
                    self.shared.cache.preload(run, inner_pages == InnerPages::Pinned)?;
                sum = Preloaded { pages: sum.pages + pages, bytes: sum.bytes + bytes, is_cut: sum.is_cut | is_cut };
            }
        }
        Ok(sum)
    }
}
