//! Leftovers of schema changes that failed and could not be rolled back either. They are removed before the next
//! change, or when the database is next opened.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::definition::document::{TableNumber, TreeNumber, Unvalidated};

/// A part of a definition that is not complete, and that no change works on any more.
#[derive(Clone, Debug)]
pub(crate) enum Half {
    /// A constraint, or an index made for one, that bears this mark.
    Marked(Unvalidated),
    /// The index that is built in this tree.
    Build(TreeNumber),
}

/// What is left.
#[derive(Default)]
pub(crate) struct Leftovers(Mutex<Parts>);

/// Parts that are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) halves: Vec<(TableNumber, Half)>,
    /// Trees that no definition names.
    pub(crate) trees: Vec<TreeNumber>,
}

impl Parts {
    pub(crate) fn is_empty(&self) -> bool {
        self.halves.is_empty() && self.trees.is_empty()
    }
}

impl Leftovers {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a part of a table's definition could not be taken back.
    pub(crate) fn leave(&self, table: TableNumber, half: Half) {
        self.parts().halves.push((table, half));
    }

    /// Notes that trees which no definition names could not be dropped.
    pub(crate) fn leave_trees(&self, trees: impl IntoIterator<Item = TreeNumber>) {
        self.parts().trees.extend(trees);
    }

    /// Whether a tree is noted as one that could not be dropped.
    pub(crate) fn has_tree(&self, tree: TreeNumber) -> bool {
        self.parts().trees.contains(&tree)
    }

    /// What is left, which is no longer noted then.
    pub(crate) fn take_all(&self) -> Parts {
        std::mem::take(&mut *self.parts())
    }
}
