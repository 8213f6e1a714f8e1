//! Snapshots that statements of any session read by name: those that a transaction exports, which end with it, and
//! those that are kept for a time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quipu_rows::RowSnapshot;

use crate::clock;
use crate::error::{Result, SqlError, SqlState};
use crate::locks::table::Owner;

/// Snapshots at a time.
const SNAPSHOTS_MAX: usize = 1_024;
/// The longest time that one is kept.
const KEPT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The snapshots of a database that have names.
pub(crate) struct Snapshots {
    /// Begins the names, so that none of them names a snapshot of the next process.
    first: i64,
    named: Mutex<Named>,
}

#[derive(Default)]
struct Named {
    last: u64,
    by_name: HashMap<String, Held>,
}

struct Held {
    snapshot: RowSnapshot,
    end: End,
}

/// When a snapshot ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// With the transaction of this session.
    With(Owner),
    /// At this moment.
    At(Instant),
}

impl End {
    /// In so many seconds.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if they are negative or too many.
    pub(crate) fn after(seconds: f64) -> Result<End> {
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= KEPT_MAX);
        let time = time.ok_or_else(|| {
            let what = format!("a snapshot is kept for 0 to {} seconds", KEPT_MAX.as_secs());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
        })?;
        Ok(End::At(clock::moment() + time))
    }
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots { first: clock::now_us(), named: Mutex::default() }
    }
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a snapshot. Returns its name.
    ///
    /// # Errors
    /// [`CONFIGURATION_LIMIT_EXCEEDED`](SqlState::CONFIGURATION_LIMIT_EXCEEDED) if there are too many.
    pub(crate) fn keep(&self, snapshot: RowSnapshot, end: End) -> Result<String> {
        self.end_due();
        let mut named = self.lock();
        if named.by_name.len() >= SNAPSHOTS_MAX {
            let what = format!("there are {SNAPSHOTS_MAX} snapshots already");
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, what)
                .with_hint("Release some by quipu_release, or end the transactions that have exported them."));
        }
        named.last += 1;
        let name = format!("{:X}-{}", self.first, named.last);
        named.by_name.insert(name.clone(), Held { snapshot, end });
        Ok(name)
    }

    /// The snapshot of a name.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if no snapshot has the name, or its time is over.
    pub(crate) fn find(&self, name: &str) -> Result<RowSnapshot> {
        self.end_due();
        self.lock().by_name.get(name).map(|held| held.snapshot.clone()).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid snapshot identifier: \"{name}\""))
                .with_hint("It was released, its time is over, or the transaction that exported it has ended.")
        })
    }

    /// Ends a snapshot that is kept for a time. Returns whether there was one.
    pub(crate) fn release(&self, name: &str) -> bool {
        let mut named = self.lock();
        let is_there = named.by_name.get(name).is_some_and(|held| matches!(held.end, End::At(_)));
        is_there && named.by_name.remove(name).is_some()
    }

    /// Ends those that the transaction of a session has exported.
    pub(crate) fn end_with(&self, owner: Owner) {
        self.lock().by_name.retain(|_, held| !matches!(held.end, End::With(of) if of == owner));
    }

    /// Ends those whose time is over.
    pub(crate) fn end_due(&self) {
        let mut named = self.lock();
        if !named.by_name.is_empty() {
            let now = clock::moment();
            named.by_name.retain(|_, held| !matches!(held.end, End::At(end) if end <= now));
        }
    }
}
