//! Removes keys that have expired: all of them before keys are counted, and some whenever the data is held for writing.

use std::sync::atomic::Ordering;

use quipu::{ReadableTable, Result, Snapshot};

use super::tables::DATABASES;
use super::{Data, Keyspace, Need};

/// Keys that one batch removes because they have expired, before it does what it is there for: some 2 ms.
const EXPIRED_AT_ONCE_MAX: usize = 2000;

impl<'k> Data<'k> {
    /// Holds what is needed. To write, or where keys are due, everything that has expired by `now_ms` is removed first,
    /// up to a bound.
    pub fn open(keyspace: &'k Keyspace, need: Need, now_ms: u64) -> Result<Data<'k>> {
        let is_due = keyspace.removes_expired(now_ms);
        let mut data =
            Data::hold(keyspace, if is_due && need == Need::ReadableTable { Need::Write } else { need }, now_ms)?;
        if is_due && need != Need::Nothing {
            data.remove_expired(EXPIRED_AT_ONCE_MAX)?;
        }
        Ok(data)
    }

    /// Holds the data for writing, if it does not yet. What has expired meanwhile is gone.
    pub fn begin_writing(&mut self, now_ms: u64) -> Result<()> {
        if self.is_beside() {
            *self = Data::open(self.keyspace(), Need::Write, now_ms)?;
        }
        Ok(())
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
                self.keyspace().counters.expired.fetch_add(1, Ordering::Relaxed);
            }
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Holds what is needed to count what is live: to be followed by [`Data::make_exact`].
    pub fn open_exact(keyspace: &'k Keyspace, now_ms: u64) -> Result<Data<'k>> {
        Data::open(keyspace, keyspace.need_exact(Need::ReadableTable, now_ms), now_ms)
    }

    /// Makes sure that what is counted is live: removes every key that has expired. A snapshot is at its own time.
    pub fn make_exact(&mut self) -> Result<()> {
        if self.keyspace().due_ms() <= self.now_ms && self.covers(Need::Write) {
            while !self.remove_expired(EXPIRED_AT_ONCE_MAX)? {}
        }
        Ok(())
    }
}

impl Keyspace {
    /// What a command needs that counts live keys: keys that have expired can be removed only in a hold for writing.
    pub fn need_exact(&self, need: Need, now_ms: u64) -> Need {
        if need == Need::ReadableTable && self.due_ms() <= now_ms { Need::Write } else { need }
    }

    /// A snapshot of what is live: what has expired by `now_ms` goes first, so that it counts nothing else. To be
    /// called while nothing is held.
    pub fn live_snapshot(&self, now_ms: u64) -> Result<Snapshot> {
        let mut data = Data::open_exact(self, now_ms)?;
        data.make_exact()?;
        let _ = data.close()?;
        Ok(self.snapshot())
    }
}
