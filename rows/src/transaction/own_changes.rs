//! Changes of definitions that a transaction has made, and the part of them that is done when it ends.
//!
//! Trees are created when a change needs them, and those that a definition no longer names are dropped when the
//! transaction has ended, whichever way: what the catalogue names then stays, the rest goes. A crash in between leaves
//! trees without a name, which the next opening removes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu::{ReadableTable, Result, TableOptions, Transaction};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::definition::document::{TableNumber, TreeNumber};

/// What a transaction has changed of definitions. Dropped, it removes the trees that are not needed any more: after the
/// commit, or when there is none.
pub(crate) struct OwnChanges {
    shared: Arc<Shared>,
    /// Another number after each change; 0 if there was none.
    version: Cell<u64>,
    /// The tables whose definitions were changed, or were about to be.
    touched: RefCell<BTreeSet<TableNumber>>,
    /// Trees that were created, and those that definitions no longer name.
    trees: RefCell<Vec<TreeNumber>>,
    /// Those that were created, ready for use.
    created: RefCell<Vec<quipu::Table>>,
}

/// How a tree is created: as one that may grow, or in the place of one whose space becomes free.
pub(crate) type CreateTable = fn(&Transaction, &str, TableOptions) -> Result<quipu::Table>;

impl OwnChanges {
    pub(crate) fn new(shared: Arc<Shared>) -> OwnChanges {
        let (version, touched, trees, created) = Default::default();
        OwnChanges { shared, version, touched, trees, created }
    }

    /// Another number after each change, and after each that is undone; 0 if there was none.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Notes that definitions are other ones than before.
    pub(crate) fn note(&self) {
        if self.version.get() == 0 {
            self.shared.changes.unnamed().fetch_add(1, Ordering::Relaxed);
        }
        self.version.set(self.shared.changes.next_own());
    }

    /// Notes that the definition of a table changes.
    pub(crate) fn note_table(&self, table: TableNumber) {
        self.note();
        self.touched.borrow_mut().insert(table);
    }

    /// Notes that changes were undone. Returns whether there can have been any.
    pub(crate) fn note_undone(&self) -> bool {
        let is_any = self.version.get() != 0;
        if is_any {
            self.note();
        }
        is_any
    }

    /// Whether the definition of a table may be one that no other transaction sees.
    pub(crate) fn has_touched(&self, table: TableNumber) -> bool {
        self.version.get() != 0 && self.touched.borrow().contains(&table)
    }

    /// Creates a tree in this way.
    ///
    /// # Errors
    /// Those of [`Transaction::create_table`].
    pub(crate) fn create_tree(
        &self,
        transaction: &Transaction,
        create: CreateTable,
        options: TableOptions,
    ) -> Result<TreeNumber> {
        self.note();
        let tree = self.shared.free.take_tree();
        self.trees.borrow_mut().push(tree);
        let created = create(transaction, &store::tree_name(tree), options)?;
        self.created.borrow_mut().push(created);
        Ok(tree)
    }

    /// Notes trees that the definition of a table is not to name any more. They stay if it names them in the end: the
    /// change may fail before it is written.
    pub(crate) fn leave_trees(&self, table: TableNumber, trees: impl IntoIterator<Item = TreeNumber>) {
        self.touched.borrow_mut().insert(table);
        self.trees.borrow_mut().extend(trees);
    }

    /// The tree of this name, if the transaction has created it.
    pub(crate) fn created_tree(&self, name: &str) -> Option<quipu::Table> {
        self.created.borrow().iter().find(|created| created.name() == name).cloned()
    }

    /// The trees that no definition names now.
    fn trees_without_name(&self, catalogue: &impl ReadableTable) -> Result<Vec<TreeNumber>> {
        let mut named = HashSet::new();
        for &table in &*self.touched.borrow() {
            match store::document_if_there(catalogue, table)? {
                Some(document) => named.extend(document.trees()),
                None => self.shared.known.forget(table),
            }
        }
        let mut trees = self.trees.take();
        trees.retain(|tree| !named.contains(tree));
        trees.sort_unstable();
        trees.dedup();
        Ok(trees)
    }
}

impl Drop for OwnChanges {
    fn drop(&mut self) {
        if self.version.get() == 0 {
            return;
        }
        let shared = &self.shared;
        // Also after an error: the commit may be visible though the disk failed.
        shared.changes.note();
        if let Some(catalogue) = shared.catalogue()
            && let Ok(trees) = self.trees_without_name(catalogue)
        {
            // What cannot be dropped now is dropped before the next change.
            let _ = shared.drop_trees(trees);
        }
        shared.changes.unnamed().fetch_sub(1, Ordering::Relaxed);
    }
}
