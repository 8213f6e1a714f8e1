//! Trees of the engine that changes of definitions create and drop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu::Result;

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::definition::document::TreeNumber;
use crate::definition::table::tree_options;
use crate::schema::table::TableSchema;

/// Trees that were created for a change; dropped with it unless it is kept.
pub(crate) struct NewTrees {
    shared: Arc<Shared>,
    trees: Vec<TreeNumber>,
}

impl NewTrees {
    pub(crate) fn new(shared: Arc<Shared>) -> NewTrees {
        shared.changes.unnamed().fetch_add(1, Ordering::Relaxed);
        NewTrees { shared, trees: Vec::new() }
    }

    /// Creates a tree.
    pub(crate) fn create(&mut self, schema: &TableSchema, has_sum: bool, comment: String) -> Result<TreeNumber> {
        let tree = self.shared.free.take_tree();
        self.trees.push(tree);
        self.shared.db.create_table(&store::tree_name(tree), tree_options(schema, has_sum, comment))?;
        Ok(tree)
    }

    /// The change has happened: the trees stay.
    pub(crate) fn keep(mut self) {
        self.trees.clear();
    }
}

impl Drop for NewTrees {
    fn drop(&mut self) {
        for &tree in &self.trees {
            if self.shared.db.drop_table(&store::tree_name(tree)).is_err() {
                self.shared.left.leave_trees([tree]);
            }
        }
        self.shared.changes.unnamed().fetch_sub(1, Ordering::Relaxed);
    }
}
