//! The next free numbers of tables and trees: numbers that no table or tree has, or ever had.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::catalogue::store::Root;
use crate::definition::document::{TableNumber, TreeNumber};

/// The numbers that are free.
pub(crate) struct Free {
    next_table: AtomicU32,
    next_tree: AtomicU32,
}

impl Free {
    /// Those after a root's.
    pub(crate) fn after(root: &Root) -> Free {
        Free { next_table: AtomicU32::new(root.next_table), next_tree: AtomicU32::new(root.next_tree) }
    }

    /// A number for a new table.
    pub(crate) fn take_table(&self) -> TableNumber {
        self.next_table.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a new tree.
    pub(crate) fn take_tree(&self) -> TreeNumber {
        self.next_tree.fetch_add(1, Ordering::Relaxed)
    }

    /// The root that says so; not how many tables there are.
    pub(crate) fn root(&self) -> Root {
        Root {
            next_table: self.next_table.load(Ordering::Relaxed),
            next_tree: self.next_tree.load(Ordering::Relaxed),
            ..Root::NEW
        }
    }
}
