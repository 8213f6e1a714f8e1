//! The database under its latch: reads of what is now, and writes in place, for a server that handles requests in
//! batches. [`Db::latched`](crate::Db::latched) leads here.
//!
//! Nothing is copied and no snapshot is taken, but all others wait meanwhile: use it for what takes well under a
//! millisecond. Under the latch no file is read. What needs a page that is not in memory fails with
//! [`ErrorKind::PageFault`], the page is loaded with [`Latched::load`], and the work is done again;
//! [`Latched::read_with`] and [`Latched::write_with`] do so by themselves.

use crate::db::Db;
use crate::error::{ErrorKind, Result};
use crate::log::Room;
use crate::maintenance::memory::make_room;
use crate::write::latched_write::LOG_STEP_BYTES;

pub use crate::cache::PageFaults;
pub use crate::state::pending_commit::{CommitPosition, PendingCommit};
pub use crate::state::snapshot::{HeldPages, LatchedRead, LendingView};
pub use crate::write::latched_write::{Action, Lack, LatchedWrite};

/// Made by [`Db::latched`].
#[derive(Clone, Copy)]
pub struct Latched<'d> {
    pub(crate) db: &'d Db,
}

impl<'d> Latched<'d> {
    /// Reads all tables as of now, without a snapshot: writers wait while the value lives. For reads that take well
    /// under a millisecond.
    pub fn read(self) -> LatchedRead<'d> {
        LatchedRead::take(&self.db.shared)
    }

    /// Runs `work` under a latched read, again until all pages of runs that it needs are in memory. They are loaded
    /// while nothing is latched.
    ///
    /// # Errors
    /// Those of `work` but [`ErrorKind::PageFault`], and those of reading a page of a run.
    pub fn read_with<T>(self, mut work: impl FnMut(&LatchedRead<'d>) -> Result<T>) -> Result<T> {
        let mut faults = PageFaults::default();
        loop {
            let latched = self.read();
            latched.lend(&faults);
            match work(&latched) {
                Err(error) if error.kind() == ErrorKind::PageFault => latched.take_faults(&mut faults),
                result => return result,
            }
            drop(latched);
            self.load(&mut faults)?;
        }
    }

    /// Begins a latched write: writes in place, as the single writer. Other writers and all readers wait until it is
    /// committed or dropped (which commits too), so use it for batches that take well under a millisecond, such as
    /// those of a server. Its reads see its writes. The thread that holds it must use the database only through it:
    /// anything else would wait for itself.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// use quipu::{Db, Durability, Options, ReadableTable};
    /// # let db = Db::open("/data/shop", Options::without_files())?;
    /// let stock = db.ensure_table("stock")?;
    /// let mut latched = db.latched().write()?;
    /// latched.put(&stock, b"apples", b"3")?;
    /// latched.insert(&stock, b"pears", b"5")?;
    /// assert_eq!(latched.table(&stock)?.count(..)?, 2);
    /// latched.commit()?.wait(Durability::Sync)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`], [`ErrorKind::Poisoned`], and
    /// [`ErrorKind::Full`] if the log has no space.
    pub fn write(self) -> Result<LatchedWrite<'d>> {
        self.wait_for_memory()?;
        LatchedWrite::begin(&self.db.shared, Room::Common)
    }

    /// Like [`Latched::write`], but not held back while memory is short: for a caller that waits for itself, by
    /// [`Latched::is_short_of_memory`] and [`Latched::wait_for_memory`].
    ///
    /// # Errors
    /// Those of [`Latched::write`].
    pub fn write_at_once(self) -> Result<LatchedWrite<'d>> {
        LatchedWrite::begin(&self.db.shared, Room::Common)
    }

    /// Like [`Latched::write_at_once`], and begins on a full disk too, without asking it for space: there it can read,
    /// remove rows and ranges, and [put rows that serve to free space](LatchedWrite::put_to_free); what makes the
    /// database grow fails with [`ErrorKind::Full`]. Take a checkpoint afterwards, which gives the space back.
    ///
    /// # Errors
    /// Those of [`Latched::write`] but for lack of space.
    pub fn write_to_free(self) -> Result<LatchedWrite<'d>> {
        LatchedWrite::begin(&self.db.shared, Room::Kept)
    }

    /// Looks whether the log or the disk has space for a write of `bytes` bytes. Readers do not wait meanwhile; writers
    /// do.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if there is none; those of [`Latched::write_at_once`].
    pub fn check_space(self, bytes: usize) -> Result<()> {
        let shared = &self.db.shared;
        let _turn = shared.writer()?;
        let log = shared.log()?;
        log.check_kept()?;
        log.reserve(bytes + LOG_STEP_BYTES, Room::Common).map(|_| ())
    }

    /// Runs `work` under a latched write and commits what it wrote, again from the start until all pages of runs that
    /// it needs are in memory. They are loaded while nothing is latched. Returns what `work` returned, and the commit
    /// to wait for. If `work` fails, nothing that it wrote is left.
    ///
    /// # Errors
    /// Those of `work` but [`ErrorKind::PageFault`], those of a commit, and those of reading a page of a run.
    pub fn write_with<T>(
        self,
        mut work: impl FnMut(&mut LatchedWrite<'d>) -> Result<T>,
    ) -> Result<(T, PendingCommit<'d>)> {
        let mut faults = PageFaults::default();
        loop {
            let mut latched = self.write()?;
            latched.lend(&faults);
            latched.set_savepoint();
            match work(&mut latched) {
                Ok(answer) => return Ok((answer, latched.commit()?)),
                Err(error) => {
                    latched.rollback_to_savepoint()?;
                    if error.kind() != ErrorKind::PageFault {
                        return Err(error);
                    }
                    latched.take_faults(&mut faults);
                }
            }
            drop(latched);
            self.load(&mut faults)?;
        }
    }

    /// Reads the pages that latched reads or writes lacked. Returns how many pages were read from files: none if the
    /// cache had all of them.
    ///
    /// # Errors
    /// Those of reading a page of a run. Then nothing is left to load.
    pub fn load(self, faults: &mut PageFaults) -> Result<u64> {
        self.db.shared.load_faults(&mut [faults]).inspect_err(|_| faults.clear())
    }

    /// Like [`Latched::load`], for the faults of several requests, all in the order of the files.
    ///
    /// # Errors
    /// Those of reading a page of a run. Then nothing is loaded; load them one by one to learn whose page it is.
    pub fn load_together(self, faults: &mut [&mut PageFaults]) -> Result<u64> {
        self.db.shared.load_faults(faults)
    }

    /// Whether writers are slowed, or wait, until rows are on disk or runs are merged.
    #[inline]
    pub fn is_short_of_memory(self) -> bool {
        self.db.shared.memory.is_short()
    }

    /// Waits as a writer does while memory is short: for as long as it is full, and else for at most some
    /// milliseconds.
    ///
    /// # Errors
    /// The failure of the flush if rows cannot be written to disk, and [`ErrorKind::Invalid`] inside the closure of
    /// [`Db::write`](crate::Db::write).
    pub fn wait_for_memory(self) -> Result<()> {
        make_room(&self.db.shared)
    }
}
