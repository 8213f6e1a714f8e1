//! Index pages of runs brought into memory before anybody asks: when the database opens, when a run is written, and on request.
//!
//! What cannot be read then is not an error of opening or of the job: whoever needs that page is told, and nobody else.
//!
//! Not here: which pages, and where they are kept (`run`).

use std::sync::Arc;

use crate::db::Shared;
use crate::error::Result;
use crate::index_pages::IndexPages;
use crate::run::{Preloaded, Run, RunFile};
use crate::snapshot::Declaration;
use crate::table::Table;

impl Shared {
    /// Brings in what tables are declared to want, the newest run of each first.
    pub(crate) fn preload_tables(&self) {
        let versions = Arc::clone(&self.versions.read());
        for table in versions.tables.iter().flatten() {
            self.preload_runs(&table.declaration, &table.runs, &[]);
        }
    }

    /// Brings in what a table is declared to want of runs, after those that they have replaced have been let go of.
    pub(crate) fn preload_runs(&self, declaration: &Declaration, runs: &[Arc<Run>], replaced: &[Arc<Run>]) {
        let stays = |file: &RunFile| runs.iter().flat_map(|run| run.files()).any(|other| other.is_same(file));
        replaced.iter().flat_map(|run| run.files()).filter(|file| !stays(file)).for_each(|file| file.release());
        let wanted = declaration.options.index_pages;
        if wanted == IndexPages::AsNeeded {
            return self.cache.fit();
        }
        for run in runs {
            let _ = self.cache.preload(run, wanted == IndexPages::Resident);
        }
    }
}

impl Table {
    /// Brings inner pages and filters of all its runs into memory, as far as there is room, whatever the table is declared to want. With [`IndexPages::Resident`] they stay as long
    /// as those runs do. Reads a hundredth or two of the files; what is in memory already is not read again.
    ///
    /// # Errors
    /// What the disk says, and a damaged page.
    pub fn preload(&self, index_pages: IndexPages) -> Result<Preloaded> {
        let runs = self.shared.versions.read().table(self.id())?.runs.clone();
        let mut sum = Preloaded::default();
        if index_pages != IndexPages::AsNeeded {
            for run in runs.iter() {
                let Preloaded { pages, bytes, is_cut } =
                    self.shared.cache.preload(run, index_pages == IndexPages::Resident)?;
                sum = Preloaded { pages: sum.pages + pages, bytes: sum.bytes + bytes, is_cut: sum.is_cut | is_cut };
            }
        }
        Ok(sum)
    }
}
