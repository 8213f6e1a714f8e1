//! The savepoint of a latched write: what was changed since, so that it can be taken back.
//!
//! A latched write changes trees in place. Before each change the entry that the newest tree has at the key is noted
//! here, and before the removal of a range those of all trees, and the list of runs; taking back writes these entries
//! again, the last change first. The trees of a table that loses all rows are set aside, and come back as they were.
//!
//! Invariants:
//! 1. Taking back cannot fail for lack of space: the room for it is part of what each write checks.
//! 2. Afterwards every tree has the entries, with the weights, that it had at the savepoint, and the record of the
//!    commit is what it was. Pages may be split differently.
//!
//! Cost: a copy of the old entry for each change; of a range, of those in memory; none where all rows of a table go.
//! Nothing while no savepoint is set.

use std::ops::Range;

use crate::catalog::declaration::TableId;
use crate::error::{Error, Result};
use crate::state::layer_removal::Removal;
use crate::state::publish::dropped;
use crate::state::versions::Runs;
use crate::state::writer::{Epochs, TableTrees};
use crate::tally::Tally;
use crate::tree::{Side, Tree, Walk, When};
use crate::write::latched_write::LatchedWrite;

/// What was changed since a savepoint.
#[derive(Default)]
pub(super) struct Changes {
    is_set: bool,
    /// The length of the commit's record at the savepoint, the group that was open, and how many tables had changed.
    record_bytes: usize,
    group: Option<(TableId, usize, u64)>,
    changed_tables: usize,
    /// How many ranges had been removed.
    removed_ranges: usize,
    entries: Vec<Change>,
    /// Keys and values of the entries, one after the other.
    bytes: Vec<u8>,
}

/// A change of the entry that a tree has at a key.
struct Change {
    table: TableId,
    /// The index of the tree among the layers.
    layer: usize,
    key: Range<usize>,
    before: Before,
}

/// What was there before.
enum Before {
    /// No entry.
    Nothing,
    /// A value in a bottom tree.
    Row(Range<usize>),
    /// An entry over other layers, which contribute `below` at the key; `None` is a tombstone.
    Entry { value: Option<Range<usize>>, below: Tally },
    /// An entry of a weight that is not known.
    Unresolved(Option<Range<usize>>),
    /// Another list of runs; the key does not matter.
    Runs(Runs),
    /// The tree that stands at this index among those that only snapshots read; the key does not matter.
    Tree(usize),
    /// The same, of entries of weights that are not known.
    UnresolvedTree(usize),
}

impl Changes {
    /// Whether changes are to be noted.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    /// An upper estimate of the pages that taking back may need. What it changes is owned already, so nothing is
    /// copied for snapshots.
    pub(super) fn room_pages(&self, page_bytes: usize) -> u64 {
        self.room_pages_for(0, 0, page_bytes)
    }

    /// The same, once so many more entries with so many bytes are noted.
    pub(super) fn room_pages_for(&self, entries: usize, bytes: usize, page_bytes: usize) -> u64 {
        (3 * (self.bytes.len() + bytes + 24 * (self.entries.len() + entries)) / page_bytes) as u64
    }

    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Notes the entry of `key` before it changes.
    pub(super) fn note(&mut self, trees: &TableTrees, key: &[u8]) {
        let table = trees.declaration.id;
        let key_at = self.push(key);
        let unresolved = trees.unresolved.as_ref().and_then(|tree| tree.view().get(key));
        let before = match unresolved {
            Some(found) => Before::Unresolved(found.value().map(|value| self.push(value))),
            None => self.entry_of(&trees.layers[0], key),
        };
        self.entries.push(Change { table, layer: 0, key: key_at, before });
    }

    fn entry_of(&mut self, tree: &Tree, key: &[u8]) -> Before {
        let view = tree.view();
        let Some(found) = view.get(key) else { return Before::Nothing };
        let value = found.value();
        if tree.is_bottom() {
            return Before::Row(self.push(value.unwrap_or_default()));
        }
        let row = value.map_or(Tally::ZERO, |value| tree.measures().of_row(key, value));
        let below = row - view.weight_of(key, &found.record);
        Before::Entry { value: value.map(|value| self.push(value)), below }
    }

    /// Sets the trees of a table aside before all of its rows are removed, and notes where they are. Nothing that can
    /// fail may come between this and the removal.
    pub(super) fn note_all(&mut self, trees: &mut TableTrees, removal: &Removal, epochs: Epochs) {
        let table = trees.declaration.id;
        if removal.changes_runs() {
            self.entries.push(Change { table, layer: 0, key: 0..0, before: Before::Runs(trees.runs.clone()) });
        }
        let mut at = trees.merged.len();
        for (layer, _) in trees.layers.iter().enumerate().filter(|(_, tree)| tree.entries() > 0) {
            self.entries.push(Change { table, layer, key: 0..0, before: Before::Tree(at) });
            at += 1;
        }
        if trees.unresolved.is_some() {
            self.entries.push(Change { table, layer: 0, key: 0..0, before: Before::UnresolvedTree(at) });
        }
        trees.set_aside(epochs);
    }

    /// Notes what all layers have in a range before it is removed.
    pub(super) fn note_range(&mut self, trees: &TableTrees, removal: &Removal) {
        let table = trees.declaration.id;
        if removal.changes_runs() {
            self.entries.push(Change { table, layer: 0, key: 0..0, before: Before::Runs(trees.runs.clone()) });
        }
        let numbered = trees.layers.iter().enumerate().map(|(layer, tree)| (Some(layer), tree));
        for (layer, tree) in numbered.chain(trees.unresolved.as_deref().map(|tree| (None, tree))) {
            let low = removal.low.as_deref().unwrap_or_default();
            let mut walk = Walk::seek(tree.view(), low, Side::Below);
            while walk.valid() && removal.high.as_ref().is_none_or(|high| walk.key() < *high) {
                let key = walk.key();
                let before = match layer {
                    Some(_) => self.entry_of(tree, &key),
                    None => Before::Unresolved(walk.value().map(|value| self.push(value))),
                };
                let key = self.push(&key);
                self.entries.push(Change { table, layer: layer.unwrap_or(0), key, before });
                walk.next();
            }
        }
    }
}

impl LatchedWrite<'_> {
    /// Sets a savepoint: [`LatchedWrite::rollback_to_savepoint`] takes back what is written from here on. An earlier
    /// savepoint is forgotten. Each write then costs a copy of what it replaces.
    pub fn set_savepoint(&mut self) {
        self.forget_changes();
        let (record_bytes, changed_tables) = (self.turn.record.len(), self.changed.len());
        let changes = &mut self.changes;
        (changes.is_set, changes.group) = (true, self.group);
        (changes.record_bytes, changes.changed_tables) = (record_bytes, changed_tables);
        changes.removed_ranges = self.removed.len();
    }

    /// Forgets the savepoint: later writes cost nothing for it.
    pub fn release_savepoint(&mut self) {
        self.forget_changes();
        self.changes.is_set = false;
    }

    /// Forgets what was noted, and frees the trees that were set aside.
    pub(super) fn forget_changes(&mut self) {
        let (epochs, writer) = (self.epochs, &mut *self.turn);
        // The last first: so the places of the others stay what they are.
        for change in self.changes.entries.drain(..).rev() {
            if let Before::Tree(at) | Before::UnresolvedTree(at) = change.before
                && let Some(Some(trees)) = writer.tables.get_mut(change.table as usize)
            {
                trees.give_up_aside(at, epochs);
            }
        }
        self.changes.bytes.clear();
    }

    /// Takes back all that was written since the savepoint, which stays. Does nothing if none is set.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned) if that stopped half way; then reopen the database.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        if !self.changes.is_set {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        self.versions.set_changing(true);
        for change in changes.entries.iter().rev() {
            self.take_back(change, &changes.bytes).map_err(|error| self.db.health.broken(error))?;
        }
        self.versions.set_changing(false);
        for change in &changes.entries {
            if !self.taken_back.contains(&change.table) {
                self.taken_back.push(change.table);
            }
        }
        self.changed.truncate(changes.changed_tables);
        self.removed.truncate(changes.removed_ranges);
        self.turn.record.truncate(changes.record_bytes);
        self.group = changes.group;
        self.changes = changes;
        self.changes.entries.clear();
        self.changes.bytes.clear();
        Ok(())
    }

    fn take_back(&mut self, change: &Change, bytes: &[u8]) -> Result<(), Error> {
        let epochs = self.epochs;
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(change.table as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        let key = &bytes[change.key.clone()];
        let at = |value: &Option<Range<usize>>| value.clone().map(|value| &bytes[value]);
        epochs.open(&mut trees.layers[change.layer]);
        if matches!(change.before, Before::Nothing) && trees.unresolved_at(key).is_some() {
            return trees.take_out_unresolved(key, epochs);
        }
        let tree = &mut trees.layers[change.layer];
        match &change.before {
            Before::Row(value) => tree.put(key, &bytes[value.clone()], When::Always).map(|_| ()),
            Before::Nothing if tree.is_bottom() => tree.remove(key).map(|_| ()),
            // A tombstone over nothing is no entry.
            Before::Nothing => tree.write_over(key, None, |_| Some(Tally::ZERO)).map(|_| ()),
            Before::Entry { value, below } => tree.write_over(key, at(value), |_| Some(*below)).map(|_| ()),
            Before::Unresolved(value) => trees.write_unresolved(key, at(value), epochs),
            Before::Runs(runs) => {
                trees.runs = runs.clone();
                Ok(())
            }
            Before::Tree(at) => {
                *tree = trees.merged.remove(*at).1;
                Ok(())
            }
            Before::UnresolvedTree(at) => {
                trees.unresolved = Some(Box::new(trees.merged.remove(*at).1));
                Ok(())
            }
        }
    }
}
