//! Identifies a page among those of all open files.

/// A page, a filter or a value, by the number of the open run and the offset in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PageKey {
    pub(super) run: u64,
    pub(super) offset: u64,
}

impl PageKey {
    pub(super) fn new(run: u64, offset: u64) -> PageKey {
        PageKey { run, offset }
    }
}
