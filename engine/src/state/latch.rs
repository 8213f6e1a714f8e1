//! The latch: the lock over the published version.
//!
//! Invariants:
//! 1. Snapshots register under the latch, so a writer that holds it sees every reader of the version.
//! 2. No reader sees pages that a panic has left half changed: the guard withdraws the version when it unwinds.
//! 3. A process that was forked from that of the database sees a version without tables, and does not wait for this
//!    lock, which may be held in it for ever.
//!
//! Not here: what a version is (`versions`), who may change it (`writer`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::io::process::Process;
use crate::state::versions::{Versions, Withdrawn};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The published version under its lock.
pub(crate) struct Latch {
    published: RwLock<Arc<Versions>>,
    process: Process,
    /// What other processes see.
    elsewhere: RwLock<Arc<Versions>>,
}

impl Latch {
    /// The latch of a database that this process has opened.
    pub(crate) fn new(versions: Versions, process: Process) -> Latch {
        let elsewhere = RwLock::new(Arc::new(versions.withdrawn(Withdrawn::Elsewhere(process))));
        Latch { published: RwLock::new(Arc::new(versions)), process, elsewhere }
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Arc<Versions>> {
        if self.process.is_current() { self.published.read() } else { self.elsewhere.read() }
    }

    /// Takes the latch to change pages in place or to publish.
    #[inline]
    pub(crate) fn write(&self) -> Latched<'_> {
        Latched { versions: self.published.write(), is_changing: true }
    }
}

/// The latch, taken by the writer.
pub(crate) struct Latched<'s> {
    versions: RwLockWriteGuard<'s, Arc<Versions>>,
    is_changing: bool,
}

impl Latched<'_> {
    /// Sets whether pages are being changed, so that a panic leaves them half changed. True at first.
    #[inline]
    pub(crate) fn set_changing(&mut self, is_changing: bool) {
        self.is_changing = is_changing;
    }

    #[inline]
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Withdraws the published version: a change of its pages has failed half way.
    #[cold]
    pub(crate) fn tear(&mut self) {
        *self.versions = Arc::new(self.versions.withdrawn(Withdrawn::Torn));
    }
}

impl Deref for Latched<'_> {
    type Target = Arc<Versions>;
    #[inline]
    fn deref(&self) -> &Arc<Versions> {
        &self.versions
    }
}

impl DerefMut for Latched<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Arc<Versions> {
        &mut self.versions
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        if self.is_changing && std::thread::panicking() {
            self.tear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use crate::db::Db;
    use crate::error::ErrorKind;
    use crate::io::sim::SimDisk;
    use crate::log::Room;
    use crate::options::Options;
    use crate::read::readable::ReadableTable;
    use crate::write::writable::WritableTable;

    fn open(disk: &SimDisk) -> Db {
        Db::open("/db", Options { disk: Arc::new(disk.clone()), ..Options::without_files() }).unwrap()
    }

    #[test]
    fn after_a_panic_between_a_record_and_its_application_nothing_is_written_until_it_is_reopened() {
        let disk = SimDisk::new();
        let db = open(&disk);
        let table = db.ensure_table("t").unwrap();
        table.put("key", "value").unwrap();
        let snapshot = db.snapshot();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut turn = db.shared.writer().unwrap();
            turn.record.clear();
            crate::catalog::record::put_drop_table(&mut turn.record, table.id());
            let _logged =
                db.shared.log_commit(&mut turn, |writer| db.shared.append_record(writer, Room::Common)).unwrap();
            panic!("before the record is applied");
        }));
        assert!(panicked.is_err());
        let refused = [
            table.put("other", "value").unwrap_err(),
            db.write(|transaction| transaction.table(&table)?.put("other", "value")).unwrap_err(),
            db.latched().write().err().unwrap(),
            db.checkpoint().unwrap_err(),
            table.flush().unwrap_err(),
            db.drop_table("t").unwrap_err(),
        ];
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::Poisoned), "{refused:?}");
        assert!(db.stats().poisoned);
        // What was published is whole.
        assert_eq!((table.len().unwrap(), snapshot.table(&table).unwrap().len().unwrap()), (1, 1));
        drop((snapshot, table, db));
        assert!(open(&disk).open_table("t").unwrap().is_none(), "the record counts");
    }

    #[test]
    fn after_a_panic_in_the_midst_of_a_change_nobody_reads_the_pages() {
        let disk = SimDisk::new();
        let db = open(&disk);
        let table = db.ensure_table("t").unwrap();
        table.put("key", "value").unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _turn = db.shared.writer().unwrap();
            let _latched = db.shared.versions.write();
            panic!("pages are half changed");
        }));
        assert!(panicked.is_err());
        assert_eq!(table.len().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(db.snapshot().table(&table).err().unwrap().kind(), ErrorKind::Poisoned);
        drop((table, db));
        assert_eq!(open(&disk).ensure_table("t").unwrap().len().unwrap(), 1);
    }
}
