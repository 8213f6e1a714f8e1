//! The clock of versions of a node alone: they order the writes of its entities.
//!
//! A version is a hybrid logical timestamp (Kulkarni et al., 2014): milliseconds since 1970 times 65,536, plus a
//! counter. The clock gives each version once, above every version it has given or seen, so that a later write outranks
//! an earlier one whatever the wall clock says.
//!
//! Invariants:
//! 1. Versions of one clock grow, over restarts too: no version given is as high as the limit that is stored, and the
//!    limit is stored in the commit of the first write above the last one. A restart goes on from the limit, `LEAD_MS`
//!    ahead of the last write at most.
//! 2. A version is given while the data is held for writing, so versions grow in the order of commits.
//!
//! Not here: the clock of a node of a cluster (`cluster/src/clock.rs`), and which of two nodes' versions wins
//! (`cluster/src/record.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use quipu::{Db, ReadableTable, Result, Table};

use crate::keyspace::{Data, table_in_memory};

/// What orders the writes of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// How far the stored limit is ahead of the version that moves it: writes store it four times a second at most.
const LEAD_MS: u64 = 250;
const COUNTER_BITS: u32 = 16;
const LIMIT_FACT: &[u8] = b"versions are below";

/// Gives versions.
#[derive(Debug)]
pub struct VersionClock {
    last: AtomicU64,
    /// What is stored.
    limit: AtomicU64,
    facts: Table,
}

impl VersionClock {
    /// Goes on from what is stored in `db`.
    pub fn open(db: &Db) -> Result<VersionClock> {
        let facts = table_in_memory(db, "http")?;
        let stored = facts.get(LIMIT_FACT)?.and_then(|bytes| bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b)));
        let limit = stored.unwrap_or(0);
        Ok(VersionClock { last: AtomicU64::new(limit), limit: AtomicU64::new(limit), facts })
    }

    /// A version for a write of this batch.
    pub fn stamp(&self, data: &mut Data<'_>) -> Result<Version> {
        let version = self.next(data.now_ms);
        if version.0 >= self.limit.load(Ordering::Relaxed) {
            let limit = version.0.saturating_add(LEAD_MS << COUNTER_BITS);
            data.latched_write()?.put(&self.facts, LIMIT_FACT, &limit.to_le_bytes())?;
            self.limit.store(limit, Ordering::Relaxed);
        }
        Ok(version)
    }

    /// Has the limit stored again with the next version: the write that stored it was taken back.
    pub fn forget_limit(&self) {
        self.limit.store(0, Ordering::Relaxed);
    }

    /// The next version by a wall clock that says `now_ms`.
    fn next(&self, now_ms: u64) -> Version {
        let wall = now_ms << COUNTER_BITS;
        let mut given = 0;
        // The closure always gives a value.
        let _ = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            given = last.saturating_add(1).max(wall);
            Some(given)
        });
        Version(given)
    }

    /// Notes a version that was met: those given from now on are above it.
    pub fn observe(&self, version: Version) {
        self.last.fetch_max(version.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use quipu::Options;

    use super::*;
    use crate::keyspace::{Keyspace, Need};

    fn stamp(keyspace: &Keyspace, clock: &VersionClock, now_ms: u64) -> Version {
        let mut data = Data::open(keyspace, Need::Write, now_ms).unwrap();
        let version = clock.stamp(&mut data).unwrap();
        let _ = data.close().unwrap();
        version
    }

    #[test]
    fn versions_grow_whatever_the_wall_clock_does() {
        let db = Db::open("/versions", Options::without_files()).unwrap();
        let keyspace = Keyspace::open(db.clone(), Default::default()).unwrap();
        let clock = VersionClock::open(&db).unwrap();
        let mut last = Version(0);
        for now_ms in [1000, 1000, 1001, 5, 5, 2000, 1999, 1_000_000, 3] {
            let version = stamp(&keyspace, &clock, now_ms);
            assert!(version > last, "{version:?} after {last:?}");
            last = version;
        }
        clock.observe(Version(last.0 + (1 << 40)));
        let after = stamp(&keyspace, &clock, 4);
        assert_eq!(after.0, last.0 + (1 << 40) + 1);
        // A restart with a wall clock that has lost a day.
        let again = VersionClock::open(&db).unwrap();
        let version = stamp(&keyspace, &again, 6);
        assert!(version > after && version.0 <= after.0 + (LEAD_MS << COUNTER_BITS) + 1);
    }

    #[test]
    fn the_counter_runs_over_into_the_next_millisecond() {
        let db = Db::open("/counter", Options::without_files()).unwrap();
        let clock = VersionClock::open(&db).unwrap();
        let first = clock.next(7);
        let last = (0..70_000).map(|_| clock.next(7)).last().unwrap();
        assert_eq!(last.0, first.0 + 70_000);
        assert_eq!(clock.next(9).0, 9 << COUNTER_BITS);
    }
}
