//! Removes keys that have expired: all of them before keys are counted, and some whenever the data is held for writing.
//!
//! Not here: whether a key has expired, for a reader that finds it (`value`, `is_expired`).

use quipu::latched::PageFaults;
use quipu::{ErrorKind, ReadableTable, Result, Snapshot};

use super::consequences::key_of_deadline;
use super::tables::DATABASES;
use super::{Data, Keyspace, Need};

/// Keys that one batch removes because they have expired, before it does what it is there for: some 2 ms.
const EXPIRED_AT_ONCE_MAX: usize = 2000;

impl<'k> Data<'k> {
    /// Holds what is needed. To write, or where keys are due, what has expired by `now_ms` is removed first, up to a
    /// bound, as far as its pages are in memory.
    pub fn open(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let is_due = keyspace.removes_expired(now_ms);
        let only_reads = need == Need::Read;
        let mut data = match Data::hold(keyspace, if is_due && only_reads { Need::Removal } else { need }, now_ms) {
            // Nothing can be written, not even that. Who reads does not see the keys anyway.
            Err(error) if error.kind() == ErrorKind::Full && only_reads => return Data::hold(keyspace, need, now_ms),
            data => data?,
        };
        if is_due && data.covers(Need::Removal) {
            match data.remove_expired(EXPIRED_AT_ONCE_MAX) {
                // Housekeeping loads the pages, or tells what else fails; until then the keys are invisible.
                Err(error) if matches!(error.kind(), ErrorKind::PageFault | ErrorKind::Full) => {
                    data.take_back(&mut PageFaults::default())?;
                }
                removed => drop(removed?),
            }
        }
        Ok(data)
    }

    /// Holds the data for writing, if it does not yet. What has expired meanwhile is gone.
    pub fn begin_writing(&mut self, now_ms: u64) -> Result<()> {
        if self.is_beside() {
            let mut data = Data::open(self.keyspace(), Need::Write, now_ms)?;
            data.begin_again(self);
            *self = data;
        }
        Ok(())
    }

    /// Removes keys that have expired, `max` at most. Returns whether none is left. Keys whose pages are missing are
    /// left where they are.
    ///
    /// # Errors
    /// [`ErrorKind::PageFault`] if there are such keys, after all others were removed; all that they lack is noted.
    pub fn remove_expired(&mut self, max: usize) -> Result<bool> {
        let mut left = max;
        let mut outcome = Ok(());
        for database in 0..DATABASES {
            let Some(tables) = self.tables(database) else { continue };
            let mut due = Vec::new();
            let end = self.now_ms.saturating_add(1).to_be_bytes();
            let listed = self.view(&tables.expires)?.for_each(..&end[..], |key, _| {
                due.extend(key_of_deadline(key).map(<[u8]>::to_vec));
                due.len() < left
            });
            left -= due.len().min(left);
            outcome = outcome.and(note_fault(listed)?);
            for key in due {
                outcome = outcome.and(note_fault(self.remove_expired_key(database, &key))?);
            }
            if left == 0 {
                return outcome.map(|()| false);
            }
        }
        outcome.map(|()| true)
    }

    /// Removes a key that has expired: all of it or nothing, unless a command is under way that is taken back as a
    /// whole.
    fn remove_expired_key(&mut self, database: usize, key: &[u8]) -> Result<()> {
        if self.is_in_command() {
            self.pending.note_expired();
            return self.remove_due(database, key);
        }
        self.begin_command();
        let removed = self.remove_due(database, key);
        match removed {
            Ok(()) => {
                self.pending.note_expired();
                self.keep();
            }
            Err(_) => self.take_back_quietly()?,
        }
        removed
    }

    /// Holds what is needed to count what is live: to be followed by [`Data::make_exact`].
    pub fn open_exact(keyspace: &'k Keyspace, now_ms: u64) -> Result<Data<'k>> {
        Data::open(keyspace, keyspace.need_exact(Need::Read, now_ms), now_ms)
    }

    /// Makes sure that what is counted is live: removes every key that has expired, but while writes are paused. A
    /// snapshot is at its own time.
    ///
    /// # Errors
    /// Those of [`Data::remove_expired`].
    pub fn make_exact(&mut self) -> Result<()> {
        if self.keyspace().removes_expired(self.now_ms) && self.covers(Need::Removal) {
            while !self.remove_expired(EXPIRED_AT_ONCE_MAX)? {}
        }
        Ok(())
    }
}

impl Keyspace {
    /// What a command needs that counts live keys: keys that have expired can be removed only in a hold for writing.
    pub fn need_exact(&self, need: Need, now_ms: u64) -> Need {
        if need == Need::Read && self.removes_expired(now_ms) { Need::Removal } else { need }
    }

    /// Removes keys that have expired, `max` at most, between the work of others. Loads the pages that it needs. To be
    /// called while nothing is held.
    pub fn remove_expired_step(&self, max: usize, now_ms: u64) -> Result<()> {
        self.patiently(|faults| {
            let mut data = Data::hold_for_a_step(self, Need::Removal, now_ms)?;
            data.lend(faults);
            let removed = data.remove_expired(max);
            if data.has_faults() {
                data.take_back(faults)?;
            }
            let _ = data.close()?;
            removed.map(|_| ())
        })
    }

    /// A snapshot of what is live: what has expired by `now_ms` goes first, so that it counts nothing else. To be
    /// called while nothing is held.
    pub fn live_snapshot(&self, now_ms: u64) -> Result<Snapshot> {
        let _ = self.patiently(|faults| self.attempt_exactly(now_ms, faults, |_| Ok(())))?;
        Ok(self.snapshot())
    }
}

/// A page fault on its own; other errors end the work.
fn note_fault(done: Result<()>) -> Result<Result<()>> {
    match done {
        Err(error) if error.kind() != ErrorKind::PageFault => Err(error),
        done => Ok(done),
    }
}
