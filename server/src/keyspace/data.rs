//! The data as a batch of commands sees them: held for writing or reading, or at a snapshot.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use quipu::{
    Error, ErrorKind, LatchedRead, LatchedWrite, PendingCommit, ReadableTable, Result, Snapshot, Stats, Table,
    TableView,
};

use super::databases::{Keyspace, State, moment_of};
use super::tables::Tables;
use super::value::{CollectionId, Entry};

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing of the data, or it opens what it needs itself.
    Nothing,
    /// To read.
    ReadableTable,
    /// To write.
    Write,
}

enum Hold<'k> {
    Nothing,
    LatchedRead(LatchedRead<'k>),
    LatchedWrite(Box<LatchedWrite<'k>>, MutexGuard<'k, State>),
    Snapshot(&'k Snapshot),
    PatientSnapshot(&'k Snapshot),
    /// Nothing yet: a command that writes much prepares it.
    Beside,
}

/// The data, held for a batch of commands. Everyone else waits while it is held for writing, writers while it is held
/// for reading.
pub struct Data<'k> {
    keyspace: &'k Keyspace,
    hold: Hold<'k>,
    /// The time of the batch, in milliseconds since 1970.
    pub now_ms: u64,
    /// Whether what expires next may have changed.
    pub(super) deadlines_changed: bool,
}

impl<'k> Data<'k> {
    /// Holds what is needed, and removes nothing that has expired: the caller does.
    pub fn hold(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        keyspace.waiting.counted(|| Data::take(keyspace, need, now_ms))
    }

    /// Holds the data for a step of work that has many: after those who wait for it now.
    pub fn hold_for_a_step(keyspace: &'k Keyspace, now_ms: u64) -> Result<Data<'k>> {
        keyspace.waiting.let_in();
        Data::take(keyspace, Need::Write, now_ms)
    }

    fn take(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let hold = match need {
            Need::Nothing => Hold::Nothing,
            Need::ReadableTable => Hold::LatchedRead(keyspace.db.latched_read()),
            Need::Write => {
                let edit = keyspace.db.latched_write()?;
                Hold::LatchedWrite(Box::new(edit), keyspace.state())
            }
        };
        Ok(Data { keyspace, hold, now_ms, deadlines_changed: false })
    }

    /// The data of a snapshot that was taken at `now_ms`.
    pub fn at(keyspace: &'k Keyspace, snapshot: &'k Snapshot, now_ms: u64) -> Data<'k> {
        Data { keyspace, hold: Hold::Snapshot(snapshot), now_ms, deadlines_changed: false }
    }

    /// The data for a command that prepares what it writes while nothing is held, and holds it by
    /// [`Data::begin_writing`].
    pub fn beside(keyspace: &'k Keyspace, now_ms: u64) -> Data<'k> {
        Data { keyspace, hold: Hold::Beside, now_ms, deadlines_changed: false }
    }

    /// Whether a command prepares what it writes: nothing is held yet.
    pub fn is_beside(&self) -> bool {
        matches!(self.hold, Hold::Beside)
    }

    /// Commits what was written since [`Data::begin_writing`], and holds nothing any more.
    pub fn stop_writing(&mut self) -> Result<()> {
        let beside = Data::beside(self.keyspace, self.now_ms);
        std::mem::replace(self, beside).close().map(|_| ())
    }

    /// The same, asked where nobody waits for what is asked.
    pub fn patiently_at(keyspace: &'k Keyspace, snapshot: &'k Snapshot, now_ms: u64) -> Data<'k> {
        Data { keyspace, hold: Hold::PatientSnapshot(snapshot), now_ms, deadlines_changed: false }
    }

    /// Whether this much is held.
    pub fn covers(&self, need: Need) -> bool {
        match self.hold {
            Hold::Nothing | Hold::Beside => need == Need::Nothing,
            Hold::LatchedRead(_) | Hold::Snapshot(_) | Hold::PatientSnapshot(_) => need <= Need::ReadableTable,
            Hold::LatchedWrite(..) => true,
        }
    }

    /// Whether a long answer may be given here: nobody waits for it.
    pub fn is_patient(&self) -> bool {
        matches!(self.hold, Hold::PatientSnapshot(_) | Hold::Beside)
    }

    /// The snapshot that is asked, where a long answer may be given.
    pub fn patient_snapshot(&self) -> Option<Snapshot> {
        match self.hold {
            Hold::PatientSnapshot(snapshot) => Some(snapshot.clone()),
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
    pub fn view(&self, table: &Table) -> Result<TableView<'_>> {
        match &self.hold {
            Hold::Nothing | Hold::Beside => Err(Error::new(ErrorKind::Invalid, "the command was not given the data")),
            Hold::LatchedRead(look) => look.table(table),
            Hold::LatchedWrite(edit, _) => edit.table(table),
            Hold::Snapshot(snapshot) | Hold::PatientSnapshot(snapshot) => snapshot.table(table),
        }
    }

    /// What the database is made of, with what was written under this hold.
    pub fn stats(&self) -> Stats {
        match &self.hold {
            Hold::Nothing | Hold::Beside | Hold::Snapshot(_) | Hold::PatientSnapshot(_) => self.keyspace.db.stats(),
            Hold::LatchedRead(look) => look.stats(),
            Hold::LatchedWrite(edit, _) => edit.stats(),
        }
    }

    /// The writing side.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if the batch only reads.
    pub fn edit(&mut self) -> Result<&mut LatchedWrite<'k>> {
        match &mut self.hold {
            Hold::LatchedWrite(edit, _) => Ok(edit),
            _ => Err(Error::new(ErrorKind::ReadOnly, "a snapshot cannot be written to")),
        }
    }

    pub(super) fn state(&mut self) -> Option<&mut State> {
        match &mut self.hold {
            Hold::LatchedWrite(_, state) => Some(state),
            _ => None,
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
        self.keyspace.counters.note_lookups(hits, keys.len() as u64 - hits);
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

    /// Ends the batch: what was written is committed. What was written and what was read is durable when that is waited
    /// for.
    pub fn close(self) -> Result<PendingCommit<'k>> {
        if self.deadlines_changed {
            self.note_due()?;
        }
        match self.hold {
            // Whatever was read meanwhile was committed by now.
            Hold::Nothing | Hold::Beside | Hold::Snapshot(_) | Hold::PatientSnapshot(_) => {
                Ok(self.keyspace.db.pending_commits())
            }
            Hold::LatchedRead(look) => Ok(look.pending_commits()),
            Hold::LatchedWrite(edit, state) => {
                drop(state);
                edit.commit()
            }
        }
    }
}

impl Data<'_> {
    /// Notes when the next key expires.
    fn note_due(&self) -> Result<()> {
        let mut due_ms = u64::MAX;
        for tables in self.keyspace.tables.iter().filter_map(|tables| tables.get()) {
            self.view(&tables.expires)?.for_each(.., |key, _| {
                due_ms = due_ms.min(moment_of(key));
                false
            })?;
        }
        self.keyspace.due_ms.store(due_ms, Ordering::Release);
        Ok(())
    }
}

#[cold]
pub(super) fn malformed() -> Error {
    Error::new(ErrorKind::Corrupt, "a value in a table of keys has an unknown form; run `quipu check`")
}
