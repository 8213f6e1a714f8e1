//! Frees pages, layers and trees that no snapshot can see any more.
//!
//! What a writer replaces is retired with the epochs in which it lived. The writer frees it in its turn, once no
//! registered epoch lies between them. Passes stay rare while a long snapshot lives.

use crate::catalog::declaration::TableId;
use crate::state::registry::Registry;
use crate::state::writer::{TableTrees, Writer};
use crate::tree::Tree;

impl Writer {
    /// Frees retired pages of a table that no snapshot can see.
    #[inline]
    pub(crate) fn reclaim(&mut self, registry: &Registry, id: TableId) {
        let Some(Some(trees)) = self.tables.get_mut(id as usize) else { return };
        let of_unresolved = trees.unresolved.as_ref().map_or(0, |tree| tree.retired());
        let retired = trees.layers.iter().map(Tree::retired).sum::<usize>() + trees.merged.len() + of_unresolved;
        if retired == 0 {
            return;
        }
        if retired >= 2 * trees.retired_kept || registry.newest() == 0 {
            trees.reclaim(&registry.live());
        }
        registry.note_held_back();
    }

    /// Frees everything that no snapshot can see.
    pub(crate) fn reclaim_all(&mut self, registry: &Registry) {
        let live = registry.live();
        for trees in self.tables.iter_mut().flatten() {
            trees.reclaim(&live);
        }
        self.dropped.retain(|(epoch, _)| live.first().is_some_and(|first| first < epoch));
    }
}

impl TableTrees {
    pub(crate) fn reclaim(&mut self, live: &[u64]) {
        for tree in self.layers.iter_mut().chain(self.unresolved.as_deref_mut()) {
            tree.reclaim(live);
        }
        self.merged.retain(|(epoch, _)| live.first().is_some_and(|first| first < epoch));
        let trees = self.layers.iter().chain(self.unresolved.as_deref());
        self.retired_kept = trees.map(Tree::retired).sum::<usize>() + self.merged.len();
        self.retired_kept = self.retired_kept.max(32);
    }
}
