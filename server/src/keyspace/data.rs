//! The data as a batch of commands sees them: held for writing or reading, or at a snapshot.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use quipu::latched::{HeldPages, LatchedRead, LatchedWrite, LendingView, PageFaults, PendingCommit};
use quipu::stats::Stats;
use quipu::{Error, ErrorKind, ReadableTable, Result, Snapshot, Table};

use super::pending::Pending;

use super::databases::{DatabasesState, Keyspace, moment_of};
use super::tables::Tables;
use super::value::{CollectionId, Entry};

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing of the data, or it opens what it needs itself.
    Nothing,
    /// To read.
    Read,
    /// To write what frees space: on a full disk, too.
    Removal,
    /// To write.
    Write,
}

enum Hold<'k> {
    Nothing,
    LatchedRead(LatchedRead<'k>),
    /// With what it may write.
    LatchedWrite(Box<LatchedWrite<'k>>, MutexGuard<'k, DatabasesState>, Need),
    /// Asked where others wait: it waits for no file.
    Snapshot(&'k Snapshot, HeldPages<'k>),
    PatientSnapshot(&'k Snapshot, HeldPages<'k>),
    /// Nothing yet: a command that writes much prepares it.
    Beside,
}

/// Bytes of pages of runs that a hold keeps from one command to the next.
const HELD_BYTES_MAX: u64 = 1 << 20;

/// The data, held for a batch of commands. All others wait while it is held for writing, writers while it is held
/// for reading. So nothing waits for a file meanwhile: a command that lacks a page of a run is taken back
/// ([`Data::take_back`]), and done again when the page is there.
pub struct Data<'k> {
    keyspace: &'k Keyspace,
    hold: Hold<'k>,
    /// The time of the batch, in milliseconds since 1970.
    pub now_ms: u64,
    /// What the command under way has done beside the tables.
    pub(super) pending: Pending,
    /// Whether a command is under way that may have to be taken back.
    in_command: bool,
    /// Whether a page may be missing: whether a table has runs.
    pub(super) may_fault: bool,
    /// What earlier attempts of a command lacked that prepares what it writes.
    lent: PageFaults,
}

impl<'k> Data<'k> {
    /// Holds what is needed, and removes nothing that has expired: the caller does.
    pub fn hold(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        keyspace.waiting.counted(|| Data::take(keyspace, need, now_ms))
    }

    /// Holds the data for a step of work that has many: after those who wait for it now.
    pub fn hold_for_a_step(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        keyspace.wait_for_memory().or_else(|error| match need {
            Need::Removal if error.kind() == ErrorKind::Full => Ok(()),
            _ => Err(error),
        })?;
        keyspace.waiting.let_in();
        Data::take(keyspace, need, now_ms)
    }

    fn take(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let hold = match need {
            Need::Nothing => Hold::Nothing,
            Need::Read => Hold::LatchedRead(keyspace.db.latched().read()),
            Need::Removal | Need::Write => {
                if need == Need::Removal && keyspace.space.is_lacking() {
                    keyspace.space.note_freed();
                }
                // A caller that must not wait for memory has asked before.
                let (write, grant) = match keyspace.space.ask(|| keyspace.db.latched().write_at_once()) {
                    Err(error) if need == Need::Removal && error.kind() == ErrorKind::Full => {
                        keyspace.space.note_freed();
                        (keyspace.db.latched().write_to_free()?, Need::Removal)
                    }
                    write => (write?, Need::Write),
                };
                Hold::LatchedWrite(Box::new(write), keyspace.state(), grant)
            }
        };
        let may_fault = match &hold {
            Hold::LatchedWrite(write, ..) => write.may_fault(),
            _ => true,
        };
        Ok(Data { may_fault, ..Data::of(keyspace, hold, now_ms) })
    }

    fn of(keyspace: &'k Keyspace, hold: Hold<'k>, now_ms: u64) -> Data<'k> {
        Data {
            keyspace,
            hold,
            now_ms,
            pending: Pending::default(),
            in_command: false,
            may_fault: false,
            lent: PageFaults::default(),
        }
    }

    /// The data of a snapshot that was taken at `now_ms`.
    pub fn at(keyspace: &'k Keyspace, snapshot: &'k Snapshot, now_ms: u64) -> Data<'k> {
        Data::of(keyspace, Hold::Snapshot(snapshot, snapshot.held_pages_without_waiting()), now_ms)
    }

    /// The data for a command that prepares what it writes while nothing is held, and holds it by
    /// [`Data::begin_writing`]. `lent` has what earlier attempts lacked.
    pub fn beside(keyspace: &'k Keyspace, now_ms: u64, lent: PageFaults) -> Data<'k> {
        Data { lent, ..Data::of(keyspace, Hold::Beside, now_ms) }
    }

    /// Ends a command that was begun beside. What it lacked, with what earlier attempts lacked, if it has to be tried
    /// again; else the commit to wait for.
    pub fn end_beside(mut self) -> Result<std::result::Result<PendingCommit<'k>, PageFaults>> {
        let mut lent = std::mem::take(&mut self.lent);
        if !self.has_faults() {
            return self.close().map(Ok);
        }
        self.take_back(&mut lent)?;
        let _ = self.close()?;
        Ok(Err(lent))
    }

    /// Whether a command prepares what it writes: nothing is held yet.
    pub fn is_beside(&self) -> bool {
        matches!(self.hold, Hold::Beside)
    }

    /// Begins the command of `before`, which had nothing held, with the pages that it has.
    pub(super) fn begin_again(&mut self, before: &mut Data<'_>) {
        let lent = std::mem::take(&mut before.lent);
        self.lend(&lent);
        self.lent = lent;
        self.begin_command();
    }

    /// Commits what was written since [`Data::begin_writing`], and holds nothing any more.
    pub fn stop_writing(&mut self) -> Result<()> {
        let lent = std::mem::take(&mut self.lent);
        let beside = Data::beside(self.keyspace, self.now_ms, lent);
        std::mem::replace(self, beside).close().map(|_| ())
    }

    /// The same, asked where no other client waits for it.
    pub fn patiently_at(keyspace: &'k Keyspace, snapshot: &'k Snapshot, now_ms: u64) -> Data<'k> {
        Data::of(keyspace, Hold::PatientSnapshot(snapshot, snapshot.held_pages()), now_ms)
    }

    /// Whether this much is held.
    pub fn covers(&self, need: Need) -> bool {
        match &self.hold {
            Hold::Nothing | Hold::Beside => need == Need::Nothing,
            Hold::LatchedRead(_) | Hold::Snapshot(..) | Hold::PatientSnapshot(..) => need <= Need::Read,
            Hold::LatchedWrite(_, _, grant) => need <= *grant,
        }
    }

    /// Whether a long answer may be given here: no other client waits for it.
    pub fn is_patient(&self) -> bool {
        matches!(self.hold, Hold::PatientSnapshot(..) | Hold::Beside)
    }

    /// The snapshot that is asked, where a long answer may be given.
    pub fn patient_snapshot(&self) -> Option<Snapshot> {
        match self.hold {
            Hold::PatientSnapshot(snapshot, _) => Some(snapshot.clone()),
            _ => None,
        }
    }

    /// The keys of all databases.
    pub fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    /// The tables of a database; `None` if nothing was ever written there.
    pub fn tables(&self, database: usize) -> Option<&'k Tables> {
        self.keyspace.tables(database)
    }

    /// The tables of a database to write to.
    pub fn tables_to_write(&self, database: usize) -> Result<&'k Tables> {
        self.tables(database)
            .ok_or_else(|| Error::new(ErrorKind::Missing, format!("database {database} was not prepared")))
    }

    /// A table as it is for this batch.
    pub fn view(&self, table: &Table) -> Result<LendingView<'_>> {
        match &self.hold {
            Hold::Nothing | Hold::Beside => Err(Error::new(ErrorKind::Invalid, "the command was not given the data")),
            Hold::LatchedRead(read) => read.table(table),
            Hold::LatchedWrite(write, ..) => write.table(table),
            Hold::Snapshot(snapshot, pages) | Hold::PatientSnapshot(snapshot, pages) => {
                snapshot.table_through(table, pages)
            }
        }
    }

    /// What the database is made of, with what was written under this hold.
    pub fn stats(&self) -> Stats {
        match &self.hold {
            Hold::Nothing | Hold::Beside | Hold::Snapshot(..) | Hold::PatientSnapshot(..) => self.keyspace.db.stats(),
            Hold::LatchedRead(read) => read.stats(),
            Hold::LatchedWrite(write, ..) => write.stats(),
        }
    }

    /// The writing side.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if the batch only reads.
    pub fn latched_write(&mut self) -> Result<&mut LatchedWrite<'k>> {
        match &mut self.hold {
            Hold::LatchedWrite(write, ..) => Ok(write),
            _ => Err(Error::new(ErrorKind::ReadOnly, "a snapshot cannot be written to")),
        }
    }

    pub(super) fn state(&mut self) -> Option<&mut DatabasesState> {
        match &mut self.hold {
            Hold::LatchedWrite(_, state, _) => Some(state),
            _ => None,
        }
    }

    /// Works on who watches what. Without a hold for writing, there is none elsewhere meanwhile.
    pub(super) fn with_state<T>(&mut self, work: impl FnOnce(&mut DatabasesState) -> T) -> T {
        match &mut self.hold {
            Hold::LatchedWrite(_, state, _) => work(state),
            _ => work(&mut self.keyspace.state()),
        }
    }

    /// What stands at a key, if it is live.
    #[inline]
    pub fn entry(&self, database: usize, key: &[u8]) -> Result<Option<Entry<'_>>> {
        let Some(tables) = self.tables(database) else { return Ok(None) };
        match self.view(&tables.keys)?.get_ref(key)? {
            None => Ok(None),
            Some(value) => {
                let entry = Entry::decode(value).ok_or_else(malformed)?;
                Ok((!entry.header.is_expired(self.now_ms)).then_some(entry))
            }
        }
    }

    /// Calls `visit` with the number of each key and what stands there, in order; descents are interleaved. Counted as
    /// hits and misses. An entry that cannot be read counts as none.
    pub fn entries(
        &self,
        database: usize,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<Entry<'_>>),
    ) -> Result<()> {
        let Some(tables) = self.tables(database) else {
            (0..keys.len()).for_each(|number| visit(number, None));
            return Ok(());
        };
        let mut hits = 0;
        self.view(&tables.keys)?.get_many_with(keys, |number, value| {
            let entry = value.and_then(Entry::decode).filter(|entry| !entry.header.is_expired(self.now_ms));
            hits += u64::from(entry.is_some());
            visit(number, entry);
        })?;
        self.note_lookups(hits, keys.len() as u64 - hits);
        Ok(())
    }

    /// How many live keys a database has.
    pub fn len(&self, database: usize) -> Result<u64> {
        match self.tables(database) {
            None => Ok(0),
            Some(tables) => self.view(&tables.keys)?.len(),
        }
    }

    /// Whether a database has no live key.
    pub fn is_empty(&self, database: usize) -> Result<bool> {
        Ok(self.len(database)? == 0)
    }

    /// A fresh id for a collection.
    pub fn new_id(&self) -> CollectionId {
        self.keyspace.new_id()
    }

    /// Begins a command that [`Data::keep`] or [`Data::take_back`] ends. Within it nothing is waited for.
    #[inline]
    pub fn begin_command(&mut self) {
        self.in_command = true;
        if self.may_fault
            && let Hold::LatchedWrite(write, ..) = &mut self.hold
        {
            write.set_savepoint();
        }
    }

    /// Whether a command is under way.
    pub(super) fn is_in_command(&self) -> bool {
        self.in_command
    }

    /// Whether the command under way has lacked a page: then it has to be taken back, whatever it has answered.
    #[inline]
    pub fn has_faults(&self) -> bool {
        match &self.hold {
            Hold::LatchedRead(read) => read.has_faults(),
            Hold::LatchedWrite(write, ..) => write.has_faults(),
            Hold::Snapshot(_, pages) => pages.has_faults(),
            Hold::Nothing | Hold::Beside | Hold::PatientSnapshot(..) => false,
        }
    }

    /// Ends the command under way: what follows from it beside the tables is done.
    #[inline]
    pub fn keep(&mut self) {
        self.in_command = false;
        if !self.pending.is_empty() {
            self.finish_pending();
        }
        match &mut self.hold {
            Hold::LatchedRead(read) if read.held_bytes() > HELD_BYTES_MAX => read.release(),
            Hold::LatchedWrite(write, ..) if self.may_fault => {
                write.release_savepoint();
                if write.held_bytes() > HELD_BYTES_MAX {
                    write.release();
                }
            }
            _ => {}
        }
    }

    /// Takes the command under way back, and notes in `faults` what it lacked.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`] if that stopped half way.
    pub fn take_back(&mut self, faults: &mut PageFaults) -> Result<()> {
        self.take_back_quietly()?;
        match &mut self.hold {
            Hold::LatchedRead(read) => read.take_faults(faults),
            Hold::LatchedWrite(write, ..) => {
                write.take_faults(faults);
                write.release_savepoint();
            }
            Hold::Snapshot(_, pages) => pages.take_faults(faults),
            Hold::Nothing | Hold::Beside | Hold::PatientSnapshot(..) => {}
        }
        Ok(())
    }

    /// Takes what was written since [`Data::begin_command`] back; what it lacked stays noted.
    pub(super) fn take_back_quietly(&mut self) -> Result<()> {
        self.in_command = false;
        self.forget_pending();
        match &mut self.hold {
            Hold::LatchedWrite(write, ..) => write.rollback_to_savepoint(),
            _ => Ok(()),
        }
    }

    /// Lends pages that were loaded to what is asked and written from here on.
    pub fn lend(&mut self, faults: &PageFaults) {
        match &self.hold {
            Hold::LatchedRead(read) => read.lend(faults),
            Hold::LatchedWrite(write, ..) => write.lend(faults),
            Hold::Snapshot(_, pages) => pages.lend(faults),
            Hold::Nothing | Hold::Beside | Hold::PatientSnapshot(..) => {}
        }
    }

    /// Ends the batch: what was written is committed. What was written and what was read is durable when that is waited
    /// for.
    pub fn close(mut self) -> Result<PendingCommit<'k>> {
        self.keep();
        self.note_due();
        match self.hold {
            // Whatever was read meanwhile was committed by now.
            Hold::Nothing | Hold::Beside | Hold::Snapshot(..) | Hold::PatientSnapshot(..) => {
                Ok(self.keyspace.db.pending_commits())
            }
            Hold::LatchedRead(read) => Ok(read.pending_commits()),
            Hold::LatchedWrite(write, state, _) => {
                drop(state);
                write.lack().into_iter().for_each(|lack| self.keyspace.space.note(lack.clone()));
                write.commit()
            }
        }
    }

    /// Notes when the next key expires, if deadlines have changed.
    fn note_due(&self) {
        if !self.pending.deadlines_changed {
            return;
        }
        let mut due_ms = u64::MAX;
        for tables in self.keyspace.tables.iter().filter_map(|tables| tables.get()) {
            let first = self
                .view(&tables.expires)
                .and_then(|expires| expires.for_each_limited(.., 1, |key, _| due_ms = due_ms.min(moment_of(key))));
            if first.is_err() {
                // Its page is not in memory. What is known is early enough: the next look comes in time.
                self.keyspace.due_ms.fetch_min(self.pending.earliest_deadline_ms, Ordering::AcqRel);
                return;
            }
        }
        self.keyspace.due_ms.store(due_ms, Ordering::Release);
    }
}

#[cold]
pub(super) fn malformed() -> Error {
    Error::new(ErrorKind::Corrupt, "a value in a table of keys has an unknown form; run `quipu check`")
}
