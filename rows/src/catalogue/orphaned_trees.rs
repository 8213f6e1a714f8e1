//! Trees that no definition names any more.

use quipu::Result;

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::definition::document::TreeNumber;

impl Shared {
    /// Drops trees that no definition names any more.
    ///
    /// # Errors
    /// Those of a commit. What is left then is dropped before the next change.
    pub(crate) fn drop_trees(&self, trees: impl IntoIterator<Item = TreeNumber>) -> Result<()> {
        let mut trees = trees.into_iter();
        while let Some(tree) = trees.next() {
            if let Err(error) = self.db.drop_table(&store::tree_name(tree)) {
                self.left.leave_trees([tree].into_iter().chain(trees));
                return Err(error);
            }
        }
        Ok(())
    }
}
