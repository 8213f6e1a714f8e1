//! Identifies a page among those of all open files.

/// A page, a filter or a value, by the number of the open run and the offset in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey {
    pub(crate) run: u64,
    pub(crate) offset: u64,
}

impl PageKey {
    pub(crate) fn new(run: u64, offset: u64) -> PageKey {
        PageKey { run, offset }
    }
}
