//! Modes of locks, and which of them two transactions can have at once: those of PostgreSQL.
//!
//! Rows and advisory locks know two of them, [`Share`] and [`Exclusive`].

/// How much a lock keeps from others, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Nothing but [`AccessExclusive`].
    AccessShare,
    /// A table whose rows are locked: SELECT FOR UPDATE, and rows that foreign keys refer to.
    RowShare,
    /// A table whose rows are changed.
    RowExclusive,
    /// A table that is changed beside writers: CREATE INDEX CONCURRENTLY.
    ShareUpdateExclusive,
    /// No writers.
    Share,
    /// No writers, and no other that keeps them out: CREATE INDEX.
    ShareRowExclusive,
    /// None but readers.
    Exclusive,
    /// A table whose definition changes.
    AccessExclusive,
}

use LockMode::{
    AccessExclusive, AccessShare, Exclusive, RowExclusive, RowShare, Share, ShareRowExclusive, ShareUpdateExclusive,
};

/// All modes, in their order.
pub const MODES: [LockMode; 8] =
    [AccessShare, RowShare, RowExclusive, ShareUpdateExclusive, Share, ShareRowExclusive, Exclusive, AccessExclusive];

impl LockMode {
    /// The mode of a row or an advisory lock.
    pub fn of_row(is_shared: bool) -> LockMode {
        if is_shared { Share } else { Exclusive }
    }

    /// Whether it keeps out what only reads or writes rows.
    pub fn is_strong(self) -> bool {
        self >= ShareUpdateExclusive
    }

    /// Its name in `pg_locks`.
    pub fn name(self) -> &'static str {
        match self {
            AccessShare => "AccessShareLock",
            RowShare => "RowShareLock",
            RowExclusive => "RowExclusiveLock",
            ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Share => "ShareLock",
            ShareRowExclusive => "ShareRowExclusiveLock",
            Exclusive => "ExclusiveLock",
            AccessExclusive => "AccessExclusiveLock",
        }
    }

    /// The modes that others cannot have beside it.
    fn conflicts(self) -> Modes {
        let modes: &[LockMode] = match self {
            AccessShare => &[AccessExclusive],
            RowShare => &[Exclusive, AccessExclusive],
            RowExclusive => &[Share, ShareRowExclusive, Exclusive, AccessExclusive],
            ShareUpdateExclusive => &MODES[3..],
            Share => &[RowExclusive, ShareUpdateExclusive, ShareRowExclusive, Exclusive, AccessExclusive],
            ShareRowExclusive => &MODES[2..],
            Exclusive => &MODES[1..],
            AccessExclusive => &MODES,
        };
        modes.iter().fold(Modes::default(), |all, &mode| all.with(mode))
    }

    /// Whether two transactions cannot have these at once.
    pub fn conflicts_with(self, other: LockMode) -> bool {
        self.conflicts().has(other)
    }

    /// Whether it keeps out all that the other one does.
    pub fn covers(self, other: LockMode) -> bool {
        other.conflicts().0 & !self.conflicts().0 == 0
    }
}

/// A set of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes(u8);

impl Modes {
    /// These and one more.
    #[must_use]
    pub fn with(self, mode: LockMode) -> Modes {
        Modes(self.0 | 1 << mode as u8)
    }

    /// Whether it is one of them.
    pub fn has(self, mode: LockMode) -> bool {
        self.0 & (1 << mode as u8) != 0
    }

    /// Whether one of them keeps out all that a mode does.
    pub fn cover(self, mode: LockMode) -> bool {
        self.iter().any(|own| own.covers(mode))
    }

    /// Whether one of them conflicts with a mode.
    pub fn conflict_with(self, mode: LockMode) -> bool {
        self.0 & mode.conflicts().0 != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = LockMode> {
        MODES.into_iter().filter(move |mode| self.has(*mode))
    }
}
