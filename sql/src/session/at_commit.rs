//! Temporary tables of a session that a commit empties or drops.

use std::cell::{Cell, RefCell};

/// The temporary tables of a session.
#[derive(Default)]
pub(super) struct Temporary {
    /// Whether it may have some.
    pub(super) has_some: Cell<bool>,
    /// Those that are emptied, or dropped, at each commit.
    pub(super) at_commit: RefCell<Vec<(u32, AtCommit)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtCommit {
    DeleteRows,
    Drop,
}

impl Temporary {
    /// Whether commits have nothing to do with them.
    pub(super) fn is_quiet(&self) -> bool {
        self.at_commit.borrow().is_empty()
    }
}
