//! Blind tables: writes that do not look up whether their key is live.
//!
//! A put or a removal whose key has no entry in memory, in a table that has runs, is logged with an unknown weight and
//! laid over the table (`read/unresolved.rs`). Resolving moves such entries, in order and many at a time, into the
//! newest tree, with the weights that follow from what lies below. No answer changes, so it is no commit: the log stays
//! as it is, and replay lays the entries over the table again.
//!
//! Invariants:
//! 1. Entries are unresolved only over runs. All entries that a run is written from are resolved: meanwhile writes look
//!    up their keys, as in any other table.
//! 2. Look-ups are made outside the writer's turn. Their results count in it only if the runs are still the same, and
//!    only for keys that are still unresolved.
//!
//! Cost: a blind write searches the trees and makes one descent. Resolving costs a look-up for each key, whose pages
//! are read together and in order, and two descents.
//!
//! Not here: the tree of these entries and the exact answers in spite of it (`unresolved`, `table_stack`), and
//! resolving them (`maintenance/resolve.rs`).

use std::sync::Arc;

use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::Result;
use crate::maintenance::resolve::DUE_ENTRIES;
use crate::options::Durability;
use crate::read::unresolved;
use crate::state::ending::Readers;
use crate::state::publish::{dropped, table_of};
use crate::state::shared::Shared;
use crate::state::writer::{Epochs, TableTrees, Turn};
use crate::tree::{When, Written};
impl TableTrees {
    /// The result of a write that need not look below memory, because its key is unresolved or may become so; `None` if
    /// it has to look, or finds its key in memory.
    // Out of line, like the next: every write calls them, and its path is short.
    #[inline(never)]
    pub(crate) fn unasked(&self, key: &[u8], value: Option<&[u8]>, when: When) -> Option<Written> {
        if let Some(is_live) = self.unresolved_at(key) {
            return Some(match (when.allows(is_live), is_live, value) {
                (false, _, _) | (true, false, None) => Written::Nothing,
                (true, false, Some(_)) => Written::Inserted,
                (true, true, Some(_)) => Written::Replaced,
                (true, true, None) => Written::Removed,
            });
        }
        let is_taken = self.declaration.options.blind_writes && !self.is_settling && !self.runs.is_empty();
        let has_to_know = value.is_some() && when != When::Always;
        if !is_taken || has_to_know || self.views().any(|view| view.get(key).is_some()) {
            return None;
        }
        Some(if value.is_some() { Written::Replaced } else { Written::Removed })
    }

    /// Whether a key with an unresolved entry is live; `None` if there is no such entry.
    #[inline]
    pub(crate) fn unresolved_at(&self, key: &[u8]) -> Option<bool> {
        let found = self.unresolved.as_ref()?.view().get(key)?;
        Some(found.value().is_some())
    }

    /// Lays an entry over the table. Room for it has been reserved.
    pub(crate) fn write_unresolved(&mut self, key: &[u8], value: Option<&[u8]>, epochs: Epochs) -> Result<()> {
        let arena = self.layers[0].arena();
        let tree = self.unresolved.get_or_insert_with(|| Box::new(unresolved::new_tree(arena)));
        epochs.open(tree);
        unresolved::write(tree, key, value)
    }
}

impl Shared {
    /// Commits a write of unknown weight.
    #[inline(never)]
    pub(crate) fn write_unasked(
        self: &Arc<Self>,
        mut turn: Turn<'_>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let writer = &mut *turn;
        let trees = writer.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let tree = trees.unresolved.as_deref().unwrap_or(&trees.layers[0]);
        let pages = tree.room_for(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.check_room(writer, pages, value.is_some())?;
        writer.record.clear();
        record::put_entries_header(&mut writer.record, id, 1);
        record::put_blind_entry(&mut writer.record, key, value);
        let mut entries = 0;
        self.commit(
            turn,
            (&[id], Readers::Wait, durability),
            |writer| self.append_record(writer),
            |writer, epochs| {
                let trees = table_of(writer, id)?;
                trees.write_unresolved(key, value, epochs)?;
                entries = trees.unresolved.as_ref().map_or(0, |tree| tree.entries());
                Ok(())
            },
        )?;
        if entries > 0 && entries.is_multiple_of(DUE_ENTRIES) {
            self.has_woken_keeper();
        }
        Ok(())
    }
}
