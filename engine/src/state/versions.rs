//! Versions of all tables: what is published, and what snapshots hold.

use std::path::Path;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::{Declaration, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::io::process::Process;
use crate::read::table_stack::{Source, TableStack, stack_over};
use crate::run::Run;
use crate::tally::Tally;
use crate::tree::{Arena, Version, View};

/// Runs of a table, newest first.
#[derive(Clone, Default, Debug)]
pub(crate) struct Runs(Option<Arc<[Arc<Run>]>>);

impl Runs {
    pub(crate) fn new(runs: Vec<Arc<Run>>) -> Runs {
        Runs((!runs.is_empty()).then(|| runs.into()))
    }

    /// The list of what is left of `runs`, of which the last has nothing below it.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if that one has entries that weigh as if it had: those below were not lawful.
    pub(crate) fn stacked(mut runs: Vec<Arc<Run>>) -> Result<Runs> {
        if let Some(lowest) = runs.last_mut().filter(|lowest| !lowest.info().is_bottom) {
            if !lowest.info().has_live_rows_only() {
                let file = lowest.files()[0].name();
                let what = format!("{file} has entries over rows that are not there; run `quipu check`");
                return Err(Error::new(ErrorKind::Corrupt, what).about(Path::new(&file)));
            }
            *lowest = Arc::new(lowest.as_bottom());
        }
        Ok(Runs::new(runs))
    }

    /// Whether both are the same list.
    #[inline]
    pub(crate) fn are(&self, other: &Runs) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(runs), Some(other)) => Arc::ptr_eq(runs, other),
            _ => false,
        }
    }
}

/// The total weight of the entries of some runs.
pub(crate) fn total_of(runs: &[Arc<Run>]) -> Tally {
    runs.iter().map(|run| run.info().total.tally).sum()
}

impl std::ops::Deref for Runs {
    type Target = [Arc<Run>];
    #[inline]
    fn deref(&self) -> &[Arc<Run>] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// One version of one table.
#[derive(Clone)]
pub(crate) struct TableVersion {
    pub(crate) declaration: Arc<Declaration>,
    /// Trees in memory, newest first. The last one is a bottom tree unless there are runs.
    pub(crate) layers: SmallVec<[Version; 2]>,
    /// Above the trees: entries of a blind table whose weights are unknown.
    pub(crate) unresolved: Option<Version>,
    /// The runs below the trees.
    pub(crate) runs: Runs,
    /// The last commit that changed the table.
    pub(crate) sequence: u64,
}

impl TableVersion {
    /// The trees whose tallies count.
    #[inline]
    pub(crate) fn views<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = View<'a>> {
        self.layers.iter().map(|layer| layer.view(arena))
    }

    /// All trees, for reading keys and values.
    #[inline]
    pub(crate) fn views_to_read<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = View<'a>> {
        self.unresolved.iter().chain(&self.layers).map(|layer| layer.view(arena))
    }

    #[inline]
    pub(crate) fn source<'a>(&'a self, arena: &'a Arc<Arena>, cache: &'a PageCache) -> Source<'a> {
        self.source_under([], arena, cache)
    }

    /// The version under the layers of a transaction, newest first.
    #[inline]
    pub(crate) fn source_under<'a>(
        &'a self,
        upper: impl IntoIterator<Item = View<'a>>,
        arena: &'a Arc<Arena>,
        cache: &'a PageCache,
    ) -> Source<'a> {
        let measures = self.declaration.options.measures;
        if self.unresolved.is_none() {
            return Source::new(upper.into_iter().chain(self.views(arena)), &self.runs, cache, measures);
        }
        let mut trees: SmallVec<[View<'a>; 4]> = upper.into_iter().collect();
        let place = trees.len();
        trees.extend(self.views_to_read(arena));
        Source::new(trees, &self.runs, cache, measures).with_unresolved(Some(place))
    }

    /// Like [`TableVersion::source`], read through `pages`.
    #[inline]
    pub(crate) fn stack<'a>(&'a self, arena: &'a Arena, pages: &'a ReadPages<'a>) -> TableStack<'a> {
        stack_over(self.views_to_read(arena), &self.runs, pages, self.declaration.options.measures)
    }

    /// An estimate of the bytes of its trees.
    pub(crate) fn bytes_estimate(&self, arena: &Arena) -> u64 {
        self.views_to_read(arena).map(|view| view.bytes_estimate()).sum()
    }

    /// The total weight of all layers that count.
    pub(crate) fn total(&self, arena: &Arena) -> Tally {
        self.views(arena).map(|view| view.total()).sum::<Tally>() + total_of(&self.runs)
    }
}

/// One version of all tables.
#[derive(Clone, Default)]
pub(crate) struct Versions {
    /// By table id; `None` where the table was dropped.
    pub(crate) tables: Vec<Option<TableVersion>>,
    /// Snapshots of this version register with this epoch.
    pub(crate) epoch: u64,
    /// The last commit.
    pub(crate) sequence: u64,
    /// Why it was withdrawn, if it was. Then it has no tables.
    pub(crate) withdrawn: Option<Withdrawn>,
}

/// Why no table of a version is there to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Withdrawn {
    /// A change of its pages has failed half way.
    Torn,
    /// It is that of a database of another process, from which this one was forked.
    Elsewhere(Process),
}

impl Versions {
    /// The version to publish in place of this one.
    pub(crate) fn withdrawn(&self, why: Withdrawn) -> Versions {
        Versions { tables: Vec::new(), withdrawn: Some(why), ..*self }
    }

    /// Fails if it was withdrawn.
    pub(crate) fn check(&self) -> Result<()> {
        match self.withdrawn {
            None => Ok(()),
            Some(Withdrawn::Torn) => Err(failed_half_way()),
            Some(Withdrawn::Elsewhere(process)) => Err(process.is_another()),
        }
    }

    #[inline]
    pub(crate) fn table(&self, id: TableId) -> Result<&TableVersion> {
        match self.tables.get(id as usize) {
            Some(Some(table)) => Ok(table),
            _ => Err(self.check().err().unwrap_or_else(not_in_this_version)),
        }
    }

    /// Whether no table of this version or before had that id.
    pub(crate) fn is_younger(&self, id: TableId) -> bool {
        self.withdrawn.is_none() && id as usize >= self.tables.len()
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&TableVersion> {
        self.tables.iter().flatten().find(|table| table.declaration.name == name)
    }
}

#[cold]
pub(crate) fn failed_half_way() -> Error {
    Error::new(ErrorKind::Poisoned, "an earlier commit or checkpoint failed half way; reopen the database")
}

#[cold]
fn not_in_this_version() -> Error {
    Error::new(ErrorKind::Missing, "the table does not exist in this version: it was dropped, or created later")
}
