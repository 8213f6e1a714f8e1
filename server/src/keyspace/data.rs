//! The data as a batch of commands sees them: for writing, for reading, or at a snapshot.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use quipu::{Committed, Edit, Error, ErrorKind, Look, Read, Result, Snapshot, Stats, Table, TableView};

use super::value::{CollectionId, Entry};
use super::{DATABASES, Keyspace, State, Tables};

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing of the data, or it opens what it needs itself.
    Nothing,
    /// To read.
    Read,
    /// To write.
    Write,
}

enum Hold<'k> {
    Nothing,
    Look(Look<'k>),
    Edit(Box<Edit<'k>>, MutexGuard<'k, State>),
    Snapshot(&'k Snapshot),
}

/// The data, held for a batch of commands. Everyone else waits while it is held for writing, writers while it is held for reading.
pub struct Data<'k> {
    keyspace: &'k Keyspace,
    hold: Hold<'k>,
    /// The time of the batch, in milliseconds since 1970.
    pub now_ms: u64,
    /// Whether what expires next may have changed.
    pub(super) deadlines_changed: bool,
}

impl<'k> Data<'k> {
    /// Holds what is needed. To write, or where keys are due, everything that has expired by `now_ms` is removed first, up to a bound.
    pub fn open(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let is_due = keyspace.due_ms() <= now_ms;
        let mut data = Data::hold(keyspace, if is_due && need == Need::Read { Need::Write } else { need }, now_ms)?;
        if is_due && need != Need::Nothing {
            data.remove_expired(EXPIRED_AT_ONCE_MAX)?;
        }
        Ok(data)
    }

    /// Holds what is needed, and removes nothing that has expired: the caller does.
    pub fn hold(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let hold = match need {
            Need::Nothing => Hold::Nothing,
            Need::Read => Hold::Look(keyspace.db.look()),
            Need::Write => {
                let edit = keyspace.db.edit()?;
                Hold::Edit(Box::new(edit), keyspace.state())
            }
        };
        Ok(Data { keyspace, hold, now_ms, deadlines_changed: false })
    }

    /// The data of a snapshot that was taken at `now_ms`.
    pub fn at(keyspace: &'k Keyspace, snapshot: &'k Snapshot, now_ms: u64) -> Data<'k> {
        Data { keyspace, hold: Hold::Snapshot(snapshot), now_ms, deadlines_changed: false }
    }

    /// Whether this much is held.
    pub fn covers(&self, need: Need) -> bool {
        match self.hold {
            Hold::Nothing => need == Need::Nothing,
            Hold::Look(_) | Hold::Snapshot(_) => need <= Need::Read,
            Hold::Edit(..) => true,
        }
    }

    /// Whether a long answer may be given here: nobody waits for it.
    pub fn is_patient(&self) -> bool {
        matches!(self.hold, Hold::Snapshot(_))
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
            Hold::Nothing => Err(Error::new(ErrorKind::Invalid, "the command was not given the data")),
            Hold::Look(look) => look.table(table),
            Hold::Edit(edit, _) => edit.table(table),
            Hold::Snapshot(snapshot) => snapshot.table(table),
        }
    }

    /// What the database is made of, with what was written under this hold.
    pub fn stats(&self) -> Stats {
        match &self.hold {
            Hold::Nothing | Hold::Snapshot(_) => self.keyspace.db.stats(),
            Hold::Look(look) => look.stats(),
            Hold::Edit(edit, _) => edit.stats(),
        }
    }

    /// The writing side.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if the batch only reads.
    pub fn edit(&mut self) -> Result<&mut Edit<'k>> {
        match &mut self.hold {
            Hold::Edit(edit, _) => Ok(edit),
            _ => Err(Error::new(ErrorKind::ReadOnly, "a snapshot cannot be written to")),
        }
    }

    pub(super) fn state(&mut self) -> Option<&mut State> {
        match &mut self.hold {
            Hold::Edit(_, state) => Some(state),
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

    /// Calls `visit` with the number of each key and what stands there, in order; descents are interleaved. Counted as hits and misses. An entry that cannot be read counts as none.
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

    /// Removes keys that have expired, `max` at most. Returns whether none is left.
    pub fn remove_expired(&mut self, max: usize) -> Result<bool> {
        let mut left = max;
        for database in 0..DATABASES {
            let Some(tables) = self.tables(database) else { continue };
            let mut due = Vec::new();
            let end = self.now_ms.saturating_add(1).to_be_bytes();
            self.view(&tables.expires)?.for_each(..&end[..], |key, _| {
                due.push(key[8..].to_vec());
                due.len() < left
            })?;
            left -= due.len().min(left);
            for key in due {
                self.remove_due(database, &key)?;
                self.keyspace.counters.expired.fetch_add(1, Ordering::Relaxed);
            }
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes sure that what is counted is live: removes every key that has expired. A snapshot is at its own time.
    pub fn make_exact(&mut self) -> Result<()> {
        if self.keyspace.due_ms() <= self.now_ms && matches!(self.hold, Hold::Edit(..)) {
            while !self.remove_expired(EXPIRED_AT_ONCE_MAX)? {}
        }
        Ok(())
    }

    /// Ends the batch: what was written is committed. What was written and what was read is durable when that is waited for.
    pub fn close(self) -> Result<Committed<'k>> {
        if self.deadlines_changed {
            self.note_due()?;
        }
        match self.hold {
            // Whatever was read meanwhile was committed by now.
            Hold::Nothing | Hold::Snapshot(_) => Ok(self.keyspace.db.commits()),
            Hold::Look(look) => Ok(look.commits()),
            Hold::Edit(edit, state) => {
                drop(state);
                edit.commit()
            }
        }
    }
}

/// Keys that one batch removes because they have expired, before it does what it is there for: some 2 ms.
const EXPIRED_AT_ONCE_MAX: usize = 2000;

impl Keyspace {
    /// Notes when the next key expires, after opening.
    pub(super) fn find_due(&self) -> Result<()> {
        Data::open(self, Need::Read, 0)?.note_due()
    }

    /// A snapshot of what is live: what has expired by `now_ms` goes first, so that it counts nothing else. To be called while nothing is held.
    pub fn live_snapshot(&self, now_ms: u64) -> Result<Snapshot> {
        let mut data = Data::open(self, Need::Read, now_ms)?;
        data.make_exact()?;
        let _ = data.close()?;
        Ok(self.snapshot())
    }
}

impl Data<'_> {
    /// Notes when the next key expires.
    fn note_due(&self) -> Result<()> {
        let mut due_ms = u64::MAX;
        for tables in self.keyspace.tables.iter().filter_map(|tables| tables.get()) {
            self.view(&tables.expires)?.for_each(.., |key, _| {
                let moment = key.first_chunk::<8>().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
                due_ms = due_ms.min(moment);
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
