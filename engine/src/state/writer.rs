//! The writer: the state only it touches, and the turn to write.
//!
//! Invariants:
//! 1. One thread at a time has the turn. A second request by the same thread is refused, since it would wait for
//!    itself.
//! 2. The epoch of a group of writes is above that of every snapshot, so what a snapshot sees is copied before it
//!    changes.
//!
//! Not here: what a writer does in its turn (`write`, `maintenance`), freeing what no snapshot sees (`reclaim`).

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::Declaration;
use crate::catalog::manifest::LastIngest;
use crate::error::{Error, ErrorKind, Result};
use crate::io::process::Process;
use crate::read::table_stack::{Source, TableStack, stack_over};
use crate::state::health::Health;
use crate::state::latch::{Latch, Latched};
use crate::state::layer_removal::Jobs;
use crate::state::registry::Registry;
use crate::state::versions::{Runs, total_of};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{FairGuard, FairMutex, thread_local};
use crate::tally::Tally;
use crate::tree::{Tree, View};

/// State that only the writer touches.
#[derive(Default)]
pub(crate) struct Writer {
    /// By table id.
    pub(crate) tables: Vec<Option<TableTrees>>,
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    /// Buffer for log records.
    pub(crate) record: Vec<u8>,
    /// Trees of dropped tables that snapshots may still read, each with the epoch of its end.
    pub(crate) dropped: Vec<(u64, TableTrees)>,
}

/// The layers of a table.
pub(crate) struct TableTrees {
    pub(crate) declaration: Arc<Declaration>,
    /// Newest first; the last is a bottom tree unless there are runs.
    pub(crate) layers: Vec<Tree>,
    /// Above the trees: entries of a blind table whose weights are unknown; `None` if there are none.
    pub(crate) unresolved: Option<Box<Tree>>,
    /// Whether new such entries are refused, because the existing ones are being resolved for a run.
    pub(crate) is_resolving: bool,
    /// The runs below the trees.
    pub(crate) runs: Runs,
    pub(crate) sequence: u64,
    /// The last commit whose writes to the table are all in its runs. Replay skips those writes.
    pub(crate) flushed_sequence: u64,
    /// The last ingest whose rows are in its runs, for replay.
    pub(crate) ingested: LastIngest,
    /// The last commit whose removals of ranges are all in its runs, for replay.
    pub(crate) excised_sequence: u64,
    /// The commit after which the table was empty and its runs went; 0 if it has runs, or never had any.
    pub(crate) emptied_sequence: u64,
    /// The jobs that write runs of it.
    pub(crate) jobs: Jobs,
    /// Retired pages after the last pass, so that passes stay rare while a long snapshot lives.
    pub(super) retired_kept: usize,
    /// Merged layers that snapshots may still read.
    pub(crate) merged: Vec<(u64, Tree)>,
}

impl TableTrees {
    /// The only tree, if nothing lies below it. Then the short paths apply.
    #[inline(always)]
    pub(crate) fn single(&mut self) -> Option<&mut Tree> {
        match &mut self.layers[..] {
            [tree] if tree.is_bottom() => Some(tree),
            _ => None,
        }
    }

    /// Whether it has one tree and nothing below.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        matches!(&self.layers[..], [tree] if tree.is_bottom())
    }

    /// The trees that writes go to, newest first.
    #[inline]
    pub(crate) fn newest_views(&self) -> impl Iterator<Item = View<'_>> {
        self.unresolved.iter().map(|tree| tree.view()).chain([self.layers[0].view()])
    }

    /// The newest entry of a key, if it is in the trees that writes go to: its value, or `None` for a tombstone.
    #[inline]
    pub(crate) fn newest_in_memory(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.newest_views().find_map(|view| view.get(key)).map(|found| found.value())
    }

    /// Puts the tree of unresolved entries back, unless it has none left.
    pub(crate) fn keep_unresolved(&mut self, tree: Box<Tree>, epochs: Epochs) {
        if tree.entries() > 0 {
            self.unresolved = Some(tree);
        } else {
            // Snapshots may still read it.
            self.merged.push((epochs.epoch, *tree));
        }
    }

    /// All layers below those that writes go to, read through `pages`.
    pub(crate) fn stack_below_newest<'a>(&'a self, pages: &'a ReadPages<'a>) -> TableStack<'a> {
        let frozen = self.layers[1..].iter().map(Tree::view);
        stack_over(frozen, &self.runs, pages, self.declaration.options.measures)
    }

    /// The trees whose tallies count.
    #[inline]
    pub(crate) fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.layers.iter().map(Tree::view)
    }

    /// The current version, as the writer sees it.
    #[inline]
    pub(crate) fn source<'a>(&'a self, cache: &'a PageCache) -> Source<'a> {
        let unresolved = self.unresolved.as_ref().map(|_| 0);
        let measures = self.declaration.options.measures;
        Source::new(self.views_to_read(), &self.runs, cache, measures).with_unresolved(unresolved)
    }

    /// All trees, for reading keys and values.
    #[inline]
    pub(crate) fn views_to_read(&self) -> impl Iterator<Item = View<'_>> {
        self.unresolved.iter().map(|tree| tree.view()).chain(self.views())
    }

    /// The total weight of all layers that count.
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
            is_resolving: false,
            runs: Runs::default(),
            sequence,
            flushed_sequence: 0,
            ingested: LastIngest::default(),
            excised_sequence: 0,
            emptied_sequence: 0,
            jobs: Jobs::default(),
            retired_kept: 0,
            merged: Vec::new(),
        }
    }
}

impl Writer {
    pub(crate) fn new(tables: Vec<Option<TableTrees>>, sequence: u64) -> Self {
        Writer { tables, sequence, epoch: 1, ..Writer::default() }
    }

    /// Frees the record buffer if it grew beyond what most records need.
    pub(crate) fn shrink_record(&mut self) {
        if self.record.capacity() > 1 << 20 {
            self.record = Vec::new();
        }
    }
}

/// Proof that no reader is between the published version and its registration: readers are kept out by the latch, or
/// registered. Otherwise a new epoch could be the one that a reader is about to enter, and what this reader sees would
/// be freed.
pub(crate) trait Fence {}

impl Fence for Latched<'_> {}

impl Fence for Protection<'_> {}

/// The published version, registered like a snapshot: its pages are copied before they change, and kept until this is
/// dropped.
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

/// The epoch of a group of writes, above that of every snapshot, and the newest of those. Pages that it may see are
/// copied before they change.
#[derive(Clone, Copy)]
pub(crate) struct Epochs {
    pub(crate) epoch: u64,
    pub(crate) protected: u64,
}

impl Epochs {
    /// The epochs of the next group of writes.
    #[inline]
    pub(crate) fn next(epoch: &mut u64, registry: &Registry, _fence: &impl Fence) -> Epochs {
        let newest = registry.newest();
        if newest >= *epoch {
            *epoch = newest + 1;
        }
        Epochs { epoch: *epoch, protected: newest }
    }

    /// Prepares a tree for these writes. Room for them has been reserved.
    #[inline]
    pub(crate) fn open(self, tree: &mut Tree) {
        tree.set_epochs(self.epoch, self.protected);
        tree.set_room_reserved(true);
    }
}

/// The lock of the writer's turn, and who may take it.
pub(crate) struct WriterLock {
    lock: FairMutex<Writer>,
    /// The number of the thread that has the turn; 0 if none.
    thread: AtomicU64,
    /// That has opened the database: no other one uses it.
    process: Process,
    is_read_only: bool,
}

impl WriterLock {
    pub(crate) fn new(writer: Writer, process: Process, is_read_only: bool) -> WriterLock {
        WriterLock { lock: FairMutex::new(writer), thread: AtomicU64::new(0), process, is_read_only }
    }

    /// Waits for the writer's turn.
    ///
    /// # Errors
    /// Those of [`WriterLock::refuse_in_own_turn`]; [`ErrorKind::ReadOnly`]; [`ErrorKind::Poisoned`] if memory does not
    /// match the log.
    #[inline]
    pub(crate) fn turn(&self, health: &Health) -> Result<Turn<'_>> {
        let number = self.refuse()?;
        let turn = Turn::new(self.lock.lock(), &self.thread, number);
        health.check()?;
        Ok(turn)
    }

    /// The writer's turn, if it comes within this time. A transaction that writes may have it for seconds.
    ///
    /// # Errors
    /// Those of [`WriterLock::turn`].
    pub(crate) fn turn_within(&self, wait: Duration, health: &Health) -> Result<Option<Turn<'_>>> {
        let number = self.refuse()?;
        let turn = self.lock.lock_within(wait).map(|guard| Turn::new(guard, &self.thread, number));
        health.check()?;
        Ok(turn)
    }

    /// Fails if this thread can never have the turn. Returns the thread's number.
    #[inline]
    fn refuse(&self) -> Result<u64> {
        if self.is_read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the database is open read-only; open it for writing"));
        }
        self.refuse_in_own_turn()
    }

    /// Fails where a wait for other threads would be for ever: if this thread has the writer's turn, and in another
    /// process. Returns the thread's number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    #[inline]
    pub(crate) fn refuse_in_own_turn(&self) -> Result<u64> {
        self.process.check()?;
        let number = thread_number();
        if self.thread.load(Ordering::Relaxed) == number {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a write inside the closure of `Db::write` must go through its transaction: this one would wait for itself",
            ));
        }
        Ok(number)
    }

    /// The process that has opened the database.
    pub(crate) fn process(&self) -> Process {
        self.process
    }
}

/// The writer's turn. Ends when dropped.
pub(crate) struct Turn<'s> {
    guard: FairGuard<'s, Writer>,
    thread: &'s AtomicU64,
}

impl<'s> Turn<'s> {
    /// The turn of the thread with this number. `guard` is the lock it holds.
    fn new(guard: FairGuard<'s, Writer>, thread: &'s AtomicU64, number: u64) -> Turn<'s> {
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
fn thread_number() -> u64 {
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
