//! The writer: what only it touches, and whose turn it is.
//!
//! Invariants:
//! 1. One thread at a time has the turn. It may ask for it once: asking again would wait for itself, and is refused.
//! 2. The epoch of a group of writes is above that of every snapshot, so that what a snapshot sees is copied before it changes.
//!
//! Not here: what a writer does with its turn (`commit`, `edit`, `checkpoint`).

use std::cell::Cell;
use std::sync::Arc;

use crate::latch::{Latch, Latched};
use crate::run::{PageCache, ReadPages};
use crate::snapshot::{Declaration, Registry, Runs, TableId, total_of};
use crate::source::{Source, TableStack, Unresolved, stack_over};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{MutexGuard, thread_local};
use crate::tally::Tally;
use crate::tree::{Tree, View};

/// What only the writer touches.
#[derive(Default)]
pub(crate) struct Writer {
    /// By table id.
    pub(crate) tables: Vec<Option<TableTrees>>,
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    /// Working space for log records.
    pub(crate) record: Vec<u8>,
    /// Trees of dropped tables that snapshots may still read, each with the epoch of its end.
    pub(crate) dropped: Vec<(u64, TableTrees)>,
}

/// The layers of a table.
pub(crate) struct TableTrees {
    pub(crate) declaration: Arc<Declaration>,
    /// Newest first; the last is a bottom tree, unless there are runs.
    pub(crate) layers: Vec<Tree>,
    /// Over the trees, entries of a blind table whose weights are not known; `None` if there are none.
    pub(crate) unresolved: Option<Box<Tree>>,
    /// Whether no more such entries are taken: those that there are are being resolved, for a run.
    pub(crate) is_settling: bool,
    /// What lies below the trees.
    pub(crate) runs: Runs,
    pub(crate) sequence: u64,
    /// The last commit whose writes to the table are all in its runs: replay passes over those.
    pub(crate) flushed_sequence: u64,
    /// Retired pages after the last pass over them, so that passes stay rare while a long snapshot lives.
    retired_kept: usize,
    /// Merged layers that snapshots may still read.
    pub(crate) merged: Vec<(u64, Tree)>,
}

impl TableTrees {
    /// The only tree, if there is nothing below it: then the short ways apply.
    #[inline(always)]
    pub(crate) fn single(&mut self) -> Option<&mut Tree> {
        match &mut self.layers[..] {
            [tree] if tree.is_bottom() => Some(tree),
            _ => None,
        }
    }

    /// The trees that count.
    #[inline]
    pub(crate) fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.layers.iter().map(Tree::view)
    }

    /// The current version, to the writer.
    #[inline]
    pub(crate) fn source<'a>(&'a self, cache: &'a PageCache) -> Source<'a> {
        let unresolved = self.unresolved.as_ref().map(|tree| Unresolved { place: 0, arena: tree.arena() });
        let measures = self.declaration.options.measures;
        Source::new(self.views_to_read(), &self.runs, cache, measures).with_unresolved(unresolved)
    }

    /// All trees, to read keys and values.
    #[inline]
    pub(crate) fn views_to_read(&self) -> impl Iterator<Item = View<'_>> {
        self.unresolved.iter().map(|tree| tree.view()).chain(self.views())
    }

    /// What all layers weigh that count.
    pub(crate) fn total(&self) -> Tally {
        self.views().map(|view| view.total()).sum::<Tally>() + total_of(&self.runs)
    }

    /// The current version, read through `pages`.
    pub(crate) fn stack<'a>(&'a self, pages: &'a ReadPages<'a>) -> TableStack<'a> {
        stack_over(self.views_to_read(), &self.runs, pages, self.declaration.options.measures)
    }

    pub(crate) fn new(declaration: Arc<Declaration>, bottom: Tree, sequence: u64) -> Self {
        TableTrees {
            declaration,
            layers: vec![bottom],
            unresolved: None,
            is_settling: false,
            runs: Runs::default(),
            sequence,
            flushed_sequence: 0,
            retired_kept: 0,
            merged: Vec::new(),
        }
    }
}

impl Writer {
    pub(crate) fn new(tables: Vec<Option<TableTrees>>, sequence: u64) -> Self {
        Writer { tables, sequence, epoch: 1, ..Writer::default() }
    }

    /// Frees retired pages of a table that nobody can see any more.
    #[inline]
    pub(crate) fn reclaim(&mut self, registry: &Registry, id: TableId) {
        let Some(Some(trees)) = self.tables.get_mut(id as usize) else { return };
        let retired: usize = trees.layers.iter().map(Tree::retired).sum::<usize>() + trees.merged.len();
        if retired == 0 {
            return;
        }
        if retired >= 2 * trees.retired_kept || registry.newest() == 0 {
            trees.reclaim(&registry.live());
        }
        registry.note_held_back();
    }

    /// As [`Writer::reclaim`], of the unresolved entries, which that leaves out: it is on the way of every write.
    pub(crate) fn reclaim_unresolved(&mut self, registry: &Registry, id: TableId) {
        let Some(Some(trees)) = self.tables.get_mut(id as usize) else { return };
        let retired = trees.unresolved.as_ref().map_or(0, |tree| tree.retired());
        if retired == 0 {
            return;
        }
        if retired >= 2 * trees.retired_kept || registry.newest() == 0 {
            trees.reclaim(&registry.live());
        }
        registry.note_held_back();
    }

    /// Frees everything that nobody can see any more.
    pub(crate) fn reclaim_all(&mut self, registry: &Registry) {
        let live = registry.live();
        for trees in self.tables.iter_mut().flatten() {
            trees.reclaim(&live);
        }
        self.dropped.retain(|(epoch, _)| live.first().is_some_and(|first| first < epoch));
    }
}

/// Shows that no reader is between the published version and its registration: nobody reads the version under the latch, or it is registered already. An epoch
/// chosen without that could be the one that a reader is about to enter, and what this reader sees would be freed.
pub(crate) trait Fence {}

impl Fence for Latched<'_> {}

impl Fence for Protection<'_> {}

/// The published version, registered as a snapshot would be: its pages are copied before they change, and stay until this is dropped.
pub(crate) struct Protection<'s> {
    registry: &'s Registry,
    epoch: u64,
}

impl<'s> Protection<'s> {
    /// Protects the version under the latch.
    pub(crate) fn of(versions: &Latch, registry: &'s Registry) -> Protection<'s> {
        let versions = versions.read();
        registry.enter(versions.epoch);
        Protection { registry, epoch: versions.epoch }
    }
}

impl Drop for Protection<'_> {
    fn drop(&mut self) {
        self.registry.leave(self.epoch);
    }
}

/// The epoch of the next group of writes, above that of every snapshot, and the newest of those.
#[inline]
pub(crate) fn next_epoch(epoch: &mut u64, registry: &Registry, _fence: &impl Fence) -> (u64, u64) {
    let newest = registry.newest();
    if newest >= *epoch {
        *epoch = newest + 1;
    }
    (*epoch, newest)
}

impl TableTrees {
    pub(crate) fn reclaim(&mut self, live: &[u64]) {
        for tree in self.layers.iter_mut().chain(self.unresolved.as_deref_mut()) {
            tree.reclaim(live);
        }
        self.merged.retain(|(epoch, _)| live.first().is_some_and(|first| first < epoch));
        let trees = self.layers.iter().chain(self.unresolved.as_deref());
        self.retired_kept = trees.map(Tree::retired).sum::<usize>() + self.merged.len();
        self.retired_kept = self.retired_kept.max(32);
    }
}

/// The writer's turn. Ends when dropped.
pub(crate) struct Turn<'s> {
    guard: MutexGuard<'s, Writer>,
    thread: &'s AtomicU64,
}

impl<'s> Turn<'s> {
    /// The turn of the thread with this number, which holds the lock.
    pub(crate) fn new(guard: MutexGuard<'s, Writer>, thread: &'s AtomicU64, number: u64) -> Turn<'s> {
        thread.store(number, Ordering::Relaxed);
        Turn { guard, thread }
    }
}

impl std::ops::Deref for Turn<'_> {
    type Target = Writer;
    #[inline]
    fn deref(&self) -> &Writer {
        &self.guard
    }
}

impl std::ops::DerefMut for Turn<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.guard
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.thread.store(0, Ordering::Relaxed);
    }
}

/// A number that names this thread while it lives.
pub(crate) fn thread_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
