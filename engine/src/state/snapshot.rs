//! Snapshots, and views of tables in them.
//!
//! A snapshot is an epoch and an `Arc` of versions. Taking one costs two short locks. Pages that it can see are copied
//! before they change, and kept until it ends.

use std::ops::Deref;
use std::sync::Arc;

use crate::cache::{PageFaults, ReadPages};
use crate::catalog::declaration::Declaration;
use crate::error::Result;
use crate::io::process::Process;
use crate::read::reader::{Fill, Reader};
use crate::read::table_stack::Source;
use crate::stack::infallible;
use crate::state::latch::Latch;
use crate::state::pending_commit::PendingCommit;
use crate::state::registry::Registry;
use crate::state::shared::Shared;
use crate::state::table_handle::Table;
use crate::state::versions::Versions;
use crate::sync::RwLockReadGuard;

/// All tables at one moment. Cheap to take, blocks no thread. While it lives, pages that change are kept twice.
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) versions: Arc<Versions>,
    /// Whether it is so short-lived that the next write frees what it held back, with no wake-up.
    is_brief: bool,
}

impl Snapshot {
    pub(crate) fn take(shared: &Arc<Shared>) -> Snapshot {
        let mut snapshot = Snapshot::take_briefly(shared);
        snapshot.is_brief = false;
        snapshot
    }

    /// Takes a snapshot for a single answer.
    pub(crate) fn take_briefly(shared: &Arc<Shared>) -> Snapshot {
        let versions = shared.versions.read();
        // Under the latch: no commit can change a page between the copy of the roots and the registration.
        if shared.process.is_current() {
            shared.registry.enter(versions.epoch);
        }
        Snapshot { shared: shared.clone(), versions: Arc::clone(&versions), is_brief: true }
    }

    /// The table as of the snapshot.
    ///
    /// # Errors
    /// [`Missing`](crate::ErrorKind::Missing) if it did not exist then, [`Invalid`](crate::ErrorKind::Invalid) if it
    /// belongs to another database or this process was forked from that which opened the database.
    pub fn table(&self, table: &Table) -> Result<TableView<'_>> {
        table.check_owner(&self.shared)?;
        self.shared.process.check()?;
        let version = self.versions.table(table.id())?;
        Ok(TableView { source: self.shared.source(version), declaration: &version.declaration })
    }

    /// The table as of the snapshot, which lends values ([`LendingView::get_ref`]) from pages that `held` holds. If
    /// these were made [without waiting](Snapshot::held_pages_without_waiting), no question waits for a file either.
    ///
    /// # Errors
    /// Those of [`Snapshot::table`].
    pub fn table_through<'s>(&'s self, table: &Table, held: &'s HeldPages<'_>) -> Result<LendingView<'s>> {
        let TableView { source, declaration } = self.table(table)?;
        let pages = &held.pages;
        let source = if held.waits { source } else { source.latched(pages) };
        Ok(LendingView { view: TableView { source, declaration }, pages })
    }

    /// A place to hold pages of runs that values are lent from.
    pub fn held_pages(&self) -> HeldPages<'_> {
        HeldPages { pages: ReadPages::new(&self.shared.cache), waits: true }
    }

    /// Like [`Snapshot::held_pages`], for a thread that must not wait for files: a question that lacks a page fails
    /// with [`PageFault`](crate::ErrorKind::PageFault), as under the latch.
    pub fn held_pages_without_waiting(&self) -> HeldPages<'_> {
        HeldPages { pages: ReadPages::without_waiting(&self.shared.cache), waits: false }
    }

    /// The table that had this name, also if it was dropped since; `None` if there was none.
    pub fn open_table(&self, name: &str) -> Option<Table> {
        let version = self.versions.by_name(name)?;
        Some(Table { shared: self.shared.clone(), declaration: version.declaration.clone() })
    }

    /// Sequence number of the last commit that changed the table, as of the snapshot: a number that is another one
    /// after each commit that writes to the table.
    ///
    /// # Errors
    /// Those of [`Snapshot::table`].
    pub fn changed_at(&self, table: &Table) -> Result<u64> {
        table.check_owner(&self.shared)?;
        Ok(self.versions.table(table.id())?.sequence)
    }

    /// Names of the tables in the snapshot.
    pub fn tables(&self) -> Vec<String> {
        self.versions.tables.iter().flatten().map(|table| table.declaration.name.clone()).collect()
    }

    /// Sequence number of the last commit it contains.
    pub fn sequence(&self) -> u64 {
        self.versions.sequence
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        if self.shared.process.is_current() {
            self.shared.registry.enter(self.versions.epoch);
        }
        Snapshot { shared: self.shared.clone(), versions: self.versions.clone(), is_brief: self.is_brief }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        self.shared.registry.leave(self.versions.epoch);
        if !self.is_brief {
            self.shared.background.wake_to_reclaim(&self.shared.registry);
        }
    }
}

/// All tables at one moment, for work that borrows the database: pages that change are kept twice until this is
/// dropped.
pub(crate) struct BorrowedSnapshot<'s> {
    pub(crate) versions: Arc<Versions>,
    registry: &'s Registry,
    process: Process,
}

impl<'s> BorrowedSnapshot<'s> {
    /// The tables as of now, in a database that `process` has opened.
    pub(crate) fn take(versions: &Latch, registry: &'s Registry, process: Process) -> BorrowedSnapshot<'s> {
        let versions = versions.read();
        // Under the latch, as for a snapshot.
        if process.is_current() {
            registry.enter(versions.epoch);
        }
        BorrowedSnapshot { versions: Arc::clone(&versions), registry, process }
    }
}

impl Drop for BorrowedSnapshot<'_> {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.registry.leave(self.versions.epoch);
        }
    }
}

/// Pages of runs that values of a snapshot are lent from ([`LendingView::get_ref`]): they stay in memory, beyond the
/// cache, until it is dropped. Made by [`Snapshot::held_pages`].
pub struct HeldPages<'s> {
    pages: ReadPages<'s>,
    waits: bool,
}

impl HeldPages<'_> {
    /// Whether a question that did not wait lacked a page.
    pub fn has_faults(&self) -> bool {
        self.pages.is_missing_any()
    }

    /// Moves the pages that questions lacked to `faults`.
    pub fn take_faults(&self, faults: &mut PageFaults) {
        faults.take_from(&self.pages);
    }

    /// Lends pages that were loaded to the questions from here on.
    pub fn lend(&self, faults: &PageFaults) {
        faults.lend_to(&self.pages);
    }
}

/// All tables as of now, under the latch. Made by [`Latched::read`](crate::latched::Latched::read).
///
/// What it asks never waits for a file: where a page of a run is not in memory, the answer is an error of kind
/// [`PageFault`](crate::ErrorKind::PageFault). Take the faults, end the latched read, load them
/// ([`Latched::load`](crate::latched::Latched::load)), lend them to the next one, and ask again.
/// [`Latched::read_with`](crate::latched::Latched::read_with) does all of this.
pub struct LatchedRead<'db> {
    pub(crate) shared: &'db Shared,
    pub(crate) versions: RwLockReadGuard<'db, Arc<Versions>>,
    /// What its questions have seen and what they lack.
    pages: ReadPages<'db>,
}

impl<'db> LatchedRead<'db> {
    pub(crate) fn take(shared: &'db Shared) -> LatchedRead<'db> {
        LatchedRead { shared, versions: shared.versions.read(), pages: ReadPages::without_waiting(&shared.cache) }
    }

    /// The table as of now.
    ///
    /// # Errors
    /// Those of [`Snapshot::table`].
    pub fn table(&self, table: &Table) -> Result<LendingView<'_>> {
        table.check_owner(self.shared)?;
        let version = self.versions.table(table.id())?;
        Ok(LendingView::latched(self.shared.source(version), &version.declaration, &self.pages))
    }

    /// Whether a question lacked a page, of those that [`LatchedRead::take_faults`] has not taken.
    #[inline]
    pub fn has_faults(&self) -> bool {
        self.pages.is_missing_any()
    }

    /// Moves the pages that its questions lacked to `faults`.
    pub fn take_faults(&self, faults: &mut PageFaults) {
        faults.take_from(&self.pages);
    }

    /// Lends pages that were loaded to the questions from here on.
    pub fn lend(&self, faults: &PageFaults) {
        faults.lend_to(&self.pages);
    }

    /// Bytes of the pages of runs that it holds: all that its questions have seen.
    pub fn held_bytes(&self) -> u64 {
        self.pages.bytes()
    }

    /// Lets go of the pages that its questions have seen.
    pub fn release(&mut self) {
        self.pages = ReadPages::without_waiting(&self.shared.cache);
    }

    /// Sequence number of the last commit.
    pub fn sequence(&self) -> u64 {
        self.versions.sequence
    }

    /// All commits it sees. Wait for them before you pass on what it has read, if that must be durable.
    pub fn pending_commits(&self) -> PendingCommit<'db> {
        // A commit is in the log before it is visible, and none becomes visible under the latch.
        PendingCommit::all(self.shared)
    }
}

/// One table in a snapshot.
pub struct TableView<'s> {
    source: Source<'s>,
    declaration: &'s Declaration,
}

impl TableView<'_> {
    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }
}

impl Reader for TableView<'_> {
    #[inline]
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        work(&self.source)
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}

/// One table in a latched read, in a latched write, or in a snapshot through [`HeldPages`]: a view that lends values
/// from the pages that it reads, which stay in memory.
pub struct LendingView<'s> {
    view: TableView<'s>,
    /// The pages that values are lent from.
    pages: &'s ReadPages<'s>,
}

impl<'s> LendingView<'s> {
    /// A view under the latch, which reads no page that is not in memory.
    pub(crate) fn latched(
        source: Source<'s>,
        declaration: &'s Declaration,
        pages: &'s ReadPages<'s>,
    ) -> LendingView<'s> {
        LendingView { view: TableView { source: source.latched(pages), declaration }, pages }
    }

    /// Borrows the value of `key`, with no copy.
    ///
    /// # Errors
    /// Those of reading a page of a run; [`PageFault`](crate::ErrorKind::PageFault) where a question that lacks a page
    /// does not wait.
    pub fn get_ref(&self, key: impl AsRef<[u8]>) -> Result<Option<&'s [u8]>> {
        match self.view.source.trees() {
            Some(trees) => Ok(infallible(trees.get(key.as_ref()))),
            None => self.view.source.get_through(self.pages, key.as_ref()),
        }
    }

    /// The view without the pages that values are lent from.
    pub fn into_view(self) -> TableView<'s> {
        self.view
    }
}

impl<'s> Deref for LendingView<'s> {
    type Target = TableView<'s>;

    fn deref(&self) -> &TableView<'s> {
        &self.view
    }
}

impl Reader for LendingView<'_> {
    #[inline]
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        work(&self.view.source)
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}
