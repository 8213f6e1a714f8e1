//! Versions of all tables, who looks at them, and snapshots.
//!
//! A snapshot is an epoch and an `Arc` of versions. Taking one costs two short locks. Pages that it can see are copied before they change,
//! and kept until it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::bounds::Bounds;
use crate::committed::Committed;
use crate::db::Shared;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TableOptions;
use crate::range::{Fill, fill_from};
use crate::read::Read;
use crate::run::{PageCache, ReadPages, Run};
use crate::source::{Source, TableStack, Unresolved, stack_over};
use crate::stack::resident;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLockReadGuard};
use crate::table::Table;
use crate::tally::Tally;
use crate::tree::{Arena, Version, View};

/// Names a table for as long as the database lives; never given twice.
pub(crate) type TableId = u32;

/// What does not change about a table.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
}

/// Runs of a table, newest first.
#[derive(Clone, Default, Debug)]
pub(crate) struct Runs(Option<Arc<[Arc<Run>]>>);

impl Runs {
    pub(crate) fn new(runs: Vec<Arc<Run>>) -> Runs {
        Runs((!runs.is_empty()).then(|| runs.into()))
    }

    /// Whether these are the very same.
    pub(crate) fn are(&self, other: &Runs) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(runs), Some(other)) => Arc::ptr_eq(runs, other),
            _ => false,
        }
    }
}

/// What the entries of some runs weigh together.
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
    /// Trees in memory, newest first. The last one is a bottom tree, unless there are runs.
    pub(crate) layers: SmallVec<[Version; 2]>,
    /// Over the trees, entries of a blind table whose weights are not known.
    pub(crate) unresolved: Option<Version>,
    /// What lies below the trees.
    pub(crate) runs: Runs,
    /// The last commit that changed the table.
    pub(crate) sequence: u64,
}

impl TableVersion {
    /// The trees that count.
    #[inline]
    pub(crate) fn views<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = View<'a>> {
        self.layers.iter().map(|layer| layer.view(arena))
    }

    /// All trees, to read keys and values.
    #[inline]
    pub(crate) fn views_to_read<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = View<'a>> {
        self.unresolved.iter().chain(&self.layers).map(|layer| layer.view(arena))
    }

    #[inline]
    pub(crate) fn source<'a>(&'a self, arena: &'a Arc<Arena>, cache: &'a PageCache) -> Source<'a> {
        self.source_under([], arena, cache)
    }

    /// The version with the layers of a transaction over it, newest first.
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
        Source::new(trees, &self.runs, cache, measures).with_unresolved(Some(Unresolved { place, arena }))
    }

    /// As [`TableVersion::source`], read through `pages`.
    #[inline]
    pub(crate) fn stack<'a>(&'a self, arena: &'a Arena, pages: &'a ReadPages<'a>) -> TableStack<'a> {
        stack_over(self.views_to_read(arena), &self.runs, pages, self.declaration.options.measures)
    }

    /// What all layers weigh that count.
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
    /// Whether it was taken back, because a change of its pages has failed half way. Then it has no tables.
    pub(crate) is_torn: bool,
}

impl Versions {
    /// What takes the place of this one when a change of its pages has failed half way.
    pub(crate) fn torn(&self) -> Versions {
        Versions { tables: Vec::new(), is_torn: true, ..*self }
    }

    #[inline]
    pub(crate) fn table(&self, id: TableId) -> Result<&TableVersion> {
        match self.tables.get(id as usize) {
            Some(Some(table)) => Ok(table),
            _ if self.is_torn => Err(failed_half_way()),
            _ => Err(dropped()),
        }
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&TableVersion> {
        self.tables.iter().flatten().find(|table| table.declaration.name == name)
    }
}

#[cold]
pub(crate) fn failed_half_way() -> Error {
    Error::new(ErrorKind::Poisoned, "an earlier commit failed half way; reopen the database")
}

#[cold]
fn dropped() -> Error {
    Error::new(ErrorKind::Missing, "the table does not exist in this version: it was dropped, or created later")
}

/// Which epochs are looked at.
#[derive(Default)]
pub(crate) struct Registry {
    live: Mutex<BTreeMap<u64, usize>>,
    /// The newest of them; 0 if none. Changed under the lock.
    newest: AtomicU64,
    /// Whether writers could not free something because of them.
    holds_back: AtomicBool,
}

impl Registry {
    pub(crate) fn enter(&self, epoch: u64) {
        let mut live = self.live.lock();
        *live.entry(epoch).or_default() += 1;
        self.newest.fetch_max(epoch, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, epoch: u64) {
        let mut live = self.live.lock();
        if let Some(count) = live.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                live.remove(&epoch);
            }
        }
        self.newest.store(live.last_key_value().map_or(0, |(&epoch, _)| epoch), Ordering::SeqCst);
    }

    /// The newest epoch that is looked at; 0 if none.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Something could not be freed.
    pub(crate) fn note_held_back(&self) {
        self.holds_back.store(true, Ordering::Relaxed);
    }

    /// Whether something could not be freed since this was asked last.
    pub(crate) fn take_held_back(&self) -> bool {
        self.holds_back.load(Ordering::Relaxed) && self.holds_back.swap(false, Ordering::Relaxed)
    }

    /// All epochs that are looked at, ascending.
    pub(crate) fn live(&self) -> Vec<u64> {
        self.live.lock().keys().copied().collect()
    }
}

/// All tables at one moment. Cheap to take, and it holds up nobody; while it lives, pages that change are kept twice.
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) versions: Arc<Versions>,
    /// Whether it lasts so short that nobody need be woken to free what it held back: the next write does.
    is_brief: bool,
}

impl Snapshot {
    pub(crate) fn take(shared: &Arc<Shared>) -> Snapshot {
        let mut snapshot = Snapshot::take_briefly(shared);
        snapshot.is_brief = false;
        snapshot
    }

    /// For one answer.
    pub(crate) fn take_briefly(shared: &Arc<Shared>) -> Snapshot {
        let versions = shared.versions.read();
        // Under the latch: no commit can change a page between the copy of the roots and the registration.
        shared.registry.enter(versions.epoch);
        Snapshot { shared: shared.clone(), versions: Arc::clone(&versions), is_brief: true }
    }

    /// The table as it was.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if it did not exist then, [`ErrorKind::Invalid`] if it belongs to another database.
    pub fn table(&self, table: &Table) -> Result<TableView<'_>> {
        self.shared.check_owner(table)?;
        let version = self.versions.table(table.id())?;
        Ok(TableView::new(self.shared.source(version), &version.declaration))
    }

    /// Names of the tables there were.
    pub fn tables(&self) -> Vec<String> {
        self.versions.tables.iter().flatten().map(|table| table.declaration.name.clone()).collect()
    }

    /// Number of the last commit in it.
    pub fn sequence(&self) -> u64 {
        self.versions.sequence
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.shared.registry.enter(self.versions.epoch);
        Snapshot { shared: self.shared.clone(), versions: self.versions.clone(), is_brief: self.is_brief }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.shared.registry.leave(self.versions.epoch);
        if !self.is_brief {
            self.shared.wake_keeper();
        }
    }
}

/// All tables as they are now, under the latch: made by [`Db::look`](crate::Db::look).
pub struct Look<'db> {
    pub(crate) shared: &'db Shared,
    pub(crate) versions: RwLockReadGuard<'db, Arc<Versions>>,
}

impl<'db> Look<'db> {
    pub(crate) fn take(shared: &'db Shared) -> Look<'db> {
        Look { shared, versions: shared.versions.read() }
    }

    /// A table as it is now.
    ///
    /// # Errors
    /// As [`Snapshot::table`].
    pub fn table(&self, table: &Table) -> Result<TableView<'_>> {
        self.shared.check_owner(table)?;
        let version = self.versions.table(table.id())?;
        Ok(TableView::new(self.shared.source(version), &version.declaration))
    }

    /// Number of the last commit.
    pub fn sequence(&self) -> u64 {
        self.versions.sequence
    }

    /// All commits that it sees: whoever tells others what it has seen can wait until that is durable.
    pub fn commits(&self) -> Committed<'db> {
        // A commit is in the log before it is visible, and none becomes visible under the latch.
        Committed::all(self.shared)
    }
}

/// One table in a snapshot, an edit or a look.
pub struct TableView<'s> {
    source: Source<'s>,
    declaration: &'s Declaration,
}

impl<'s> TableView<'s> {
    pub(crate) fn new(source: Source<'s>, declaration: &'s Declaration) -> TableView<'s> {
        TableView { source, declaration }
    }

    /// Whether it is one tree.
    pub(crate) fn is_single(&self) -> bool {
        self.source.trees().is_some_and(|trees| trees.single().is_some())
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// The value of `key` where it lies, with no copy: of a table that is in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table has runs, which it has not if it is declared [`resident`](crate::TableOptions::resident): use
    /// [`get`](Read::get), or [`get_many_with`](Read::get_many_with).
    pub fn get_ref(&self, key: impl AsRef<[u8]>) -> Result<Option<&'s [u8]>> {
        match self.source.trees() {
            Some(trees) => Ok(resident(trees.get(key.as_ref()))),
            None => Err(Error::new(
                ErrorKind::Invalid,
                "values of a table on disk cannot be lent; use `get` or `get_many_with`, or declare the table `resident`",
            )),
        }
    }
}

impl Read for TableView<'_> {
    #[inline]
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        work(&self.source)
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}

/// A table of a snapshot that the value owns: what a range over a live table reads from.
pub(crate) struct HeldTable {
    pub(crate) snapshot: Snapshot,
    pub(crate) table: Table,
}

impl Fill for HeldTable {
    fn fill(
        &self,
        bounds: &Bounds<'_>,
        reverse: bool,
        max: usize,
        rows: &mut std::collections::VecDeque<Entry>,
    ) -> Result<()> {
        fill_from(&self.snapshot.table(&self.table)?, bounds, reverse, max, rows)
    }
}
