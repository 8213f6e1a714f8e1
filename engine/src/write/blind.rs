//! Blind tables: writes that do not look up whether their key is live.
//!
//! A put or a removal whose key has no entry in memory, in a table that has runs, is logged with an unknown weight and
//! laid over the table (`read/unresolved.rs`), be it alone or in a batch, a transaction or a latched write. Resolving
//! moves such entries, in order and many at a time, into the newest tree, with the weights that follow from what lies
//! below. No answer changes, so it is no commit: the log stays as it is, and replay lays the entries over the table
//! again.
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

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::Result;
use crate::log::Room;
use crate::maintenance::resolve::DUE_ENTRIES;
use crate::options::Durability;
use crate::read::unresolved;
use crate::state::ending::Readers;
use crate::state::publish::{dropped, table_of};
use crate::state::shared::Shared;
use crate::state::writer::{Epochs, TableTrees, Turn};
use crate::tally::Tally;
use crate::transactions::unresolved_keys::UnresolvedKeys;
use crate::tree::{Tree, When, Written};

impl TableTrees {
    /// Whether writes need not look below memory.
    #[inline]
    pub(crate) fn is_taking_blind(&self) -> bool {
        self.declaration.options.blind_writes && !self.is_resolving && !self.runs.is_empty()
    }

    /// The result of a write that need not look below memory, because its key is unresolved or may become so; `None` if
    /// it has to look, or finds its key in memory.
    // Out of line, like the next: every write calls them, and its path is short.
    #[inline(never)]
    pub(crate) fn blind_outcome(&self, key: &[u8], value: Option<&[u8]>, when: When) -> Option<Written> {
        if let Some(is_live) = self.unresolved_at(key) {
            return Some(match (when.allows(is_live), is_live, value) {
                (false, _, _) | (true, false, None) => Written::Nothing,
                (true, false, Some(_)) => Written::Inserted,
                (true, true, Some(_)) => Written::Replaced,
                (true, true, None) => Written::Removed,
            });
        }
        let has_to_know = value.is_some() && when != When::Always;
        if !self.is_taking_blind() || has_to_know || self.views().any(|view| view.get(key).is_some()) {
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

    /// Of the keys of a layer that were not looked up, those that have to be laid over the table, since memory does not
    /// know them, in order. The others get their weights.
    pub(crate) fn weigh_known(&self, layer: &mut Tree, unresolved_keys: &UnresolvedKeys) -> Result<UnresolvedKeys> {
        debug_assert!(self.is_taking_blind() || unresolved_keys.is_empty());
        let mut unknown = UnresolvedKeys::default();
        for key in unresolved_keys.sorted() {
            let found = self.views().find_map(|view| Some(view.get(key)?.value()));
            match found.filter(|_| self.unresolved_at(key).is_none()) {
                Some(old) => {
                    let of_row = |old| self.declaration.options.measures.of_row(key, old);
                    layer.reweigh(key, old.map_or(Tally::ZERO, of_row))?;
                }
                None => unknown.add(0, key),
            }
        }
        Ok(unknown)
    }

    /// The pages that laying so many entries over the table may need.
    pub(crate) fn room_for_unresolved(&self, entries: u64, bytes: u64) -> u64 {
        self.unresolved.as_deref().unwrap_or(&self.layers[0]).room_for(entries, bytes)
    }

    /// The number of unresolved entries.
    pub(crate) fn unresolved_entries(&self) -> u64 {
        self.unresolved.as_ref().map_or(0, |tree| tree.entries())
    }

    /// Takes an entry back that was laid over the table.
    pub(crate) fn take_out_unresolved(&mut self, key: &[u8], epochs: Epochs) -> Result<()> {
        let Some(mut tree) = self.unresolved.take() else { return Ok(()) };
        epochs.open(&mut tree);
        let taken = unresolved::take_out(&mut tree, key);
        self.keep_unresolved(tree, epochs);
        taken
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
    pub(crate) fn write_blind(
        self: &Arc<Self>,
        mut turn: Turn<'_>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let writer = &mut *turn;
        let trees = writer.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        let pages = trees.room_for_unresolved(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.check_room(writer, pages, value.is_some())?;
        writer.record.clear();
        record::put_entries_header(&mut writer.record, id, 1);
        record::put_blind_entry(&mut writer.record, key, value);
        let room = if value.is_some() { Room::Common } else { Room::Rows };
        let mut more = 0..0;
        self.commit(
            turn,
            (&[id], Readers::Wait, durability),
            |writer| self.append_record(writer, room),
            |writer, epochs| {
                let trees = table_of(writer, id)?;
                more.start = trees.unresolved_entries();
                trees.write_unresolved(key, value, epochs)?;
                more.end = trees.unresolved_entries();
                Ok(())
            },
        )?;
        self.note_unresolved(&more);
        Ok(())
    }

    /// Wakes the background thread if a table that has come to so many unresolved entries is due to be resolved.
    #[inline]
    pub(crate) fn note_unresolved(&self, more: &Range<u64>) {
        if is_due(more) {
            self.background.wake();
        }
    }
}

/// Whether a table is due to be resolved, now that it has `more.end` unresolved entries and not `more.start`.
#[inline]
pub(crate) fn is_due(more: &Range<u64>) -> bool {
    more.end / DUE_ENTRIES > more.start / DUE_ENTRIES
}
