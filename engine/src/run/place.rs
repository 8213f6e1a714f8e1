//! The place of a unit in a run, and what its parent says of it before it is read.

use super::format::{Pointer, Sums};

/// What is known of a unit before it is read.
#[derive(Clone, Copy)]
pub(crate) struct UnitPlace {
    pub(crate) pointer: Pointer,
    /// Where the subtree begins: the unit and everything under it fill the file from here to the unit's end.
    pub(crate) floor: u64,
    /// The part of the run that contains it; [`TOP`] for the level above all parts.
    pub(crate) part: u32,
    /// Bytes that are left of the parts before that one.
    pub(crate) shift: u64,
    /// Levels above the leaves.
    pub(crate) level: usize,
    /// The sums of what is left of the parts before that one, with all entries of its own file before the subtree; and
    /// with those of the subtree.
    pub(crate) before: Sums,
    pub(crate) until: Sums,
}

impl UnitPlace {
    /// The sums of the subtree, erased entries too.
    pub(crate) fn sums(&self) -> Sums {
        self.until - self.before
    }

    /// Where the subtree begins, in the concatenated files of the run.
    pub(crate) fn start(&self) -> u64 {
        self.shift + self.floor
    }

    /// Where the unit, and with it the subtree, ends in the concatenated files of the run.
    pub(crate) fn end(&self) -> u64 {
        self.shift + self.pointer.offset + u64::from(self.pointer.length)
    }

    /// Whether this is the level above all parts.
    pub(crate) fn is_top(&self) -> bool {
        self.part == TOP
    }
}

/// Where the rest of a subtree lies in its run, which is what excisions have left of both: all of it, if there are
/// none.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// The sums of all entries of the run before it, and of these and its own.
    pub(crate) before: Sums,
    pub(crate) until: Sums,
    /// Where it begins and ends in the concatenated files of the run.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Extent {
    /// Its sums.
    pub(crate) fn sums(&self) -> Sums {
        self.until - self.before
    }
}

/// The part number of the level above all parts.
pub(super) const TOP: u32 = u32::MAX;
