//! One table in a transaction: its private layers, its reads, and the keys that it has not looked up.
//!
//! Not here: what the transaction as a whole does (`transaction`), validation and rebasing (`conflicts`).

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use elsa::FrozenVec;
use smallvec::SmallVec;

use crate::catalog::declaration::{Declaration, TableId};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::read::observation::{Observations, Question};
use crate::read::table_stack::Source;
use crate::state::shared::Shared;
use crate::state::table_handle::Table;
use crate::state::versions::{Runs, TableVersion, Versions};
use crate::tally::Tally;
use crate::transactions::conflicts::Moved;
use crate::transactions::patches::Patches;
use crate::transactions::unresolved_keys::UnresolvedKeys;
use crate::tree::{Tree, Walk, merge_layer};

/// What a transaction did, each table's writes in one layer. The common case of one table needs no allocation.
pub(crate) type Parts = SmallVec<[(PrivateTable, Option<Tree>); 1]>;

/// The layers of one table, oldest first, each with the savepoint depth it belongs to.
pub(crate) type Layers = SmallVec<[(u32, Tree); 1]>;

/// What a transaction did to one table.
pub(crate) struct PrivateTable {
    pub(crate) id: TableId,
    pub(crate) declaration: Arc<Declaration>,
    /// Borrowed while rows are visited; no write is possible then.
    pub(crate) layers: RefCell<Layers>,
    /// Created by the first read. Never borrowed during a caller's closure, so a closure that visits rows can read on.
    pub(crate) observations: RefCell<Option<Box<Observations>>>,
    pub(crate) unresolved_keys: RefCell<UnresolvedKeys>,
    /// The key that was read last, and what it adds to the tally: a write of it that follows need not look it up again.
    /// Forgotten by whatever may change that.
    pub(crate) known: RefCell<Option<(KeyBuffer, Tally)>>,
    /// Whether a scan has met many removed rows: then the next ones look for live rows by their ranks.
    pub(crate) dead_met: Cell<bool>,
    pub(crate) patches: RefCell<Patches>,
    /// The last key of the version below, asked for when writes ascend.
    pub(crate) last_below: OnceCell<Option<KeyBuffer>>,
    /// At which savepoint depth it was said that what is written to it serves to free space.
    pub(crate) frees_from: Cell<Option<u32>>,
    /// What the transaction sees of a table that was created after it began: no rows.
    pub(crate) born: Option<Born>,
}

/// An empty version of a table, and the tree that it is of.
pub(crate) struct Born {
    pub(crate) version: TableVersion,
    _tree: Tree,
}

impl Born {
    pub(crate) fn new(shared: &Arc<Shared>, declaration: &Arc<Declaration>) -> Born {
        let tree = Tree::new(shared.arena.clone(), declaration.options.measures, true);
        let version = TableVersion {
            declaration: declaration.clone(),
            layers: [tree.version()].into_iter().collect(),
            unresolved: None,
            runs: Runs::default(),
            sequence: 0,
        };
        Born { version, _tree: tree }
    }
}

impl PrivateTable {
    /// A table that nothing was done to. What is seen of one that is younger than the transaction is `born`.
    pub(crate) fn new(table: &Table, born: Option<Born>) -> PrivateTable {
        PrivateTable {
            id: table.id(),
            declaration: table.declaration.clone(),
            layers: RefCell::default(),
            observations: RefCell::default(),
            unresolved_keys: RefCell::default(),
            known: RefCell::default(),
            dead_met: Cell::default(),
            patches: RefCell::default(),
            last_below: OnceCell::new(),
            frees_from: Cell::default(),
            born,
        }
    }

    /// The version below the transaction's writes, which began with these versions.
    pub(crate) fn version_in<'v>(&'v self, versions: &'v Versions) -> Result<&'v TableVersion> {
        match &self.born {
            Some(born) => Ok(&born.version),
            None => versions.table(self.id),
        }
    }

    /// Takes on layers that were made relative to a newer version.
    pub(crate) fn move_layers(&mut self, moved: Moved) {
        self.known.take();
        for ((_, layer), moved) in self.layers.get_mut().iter_mut().zip(moved) {
            if let Some(moved) = moved {
                *layer = moved;
            }
        }
    }

    /// Whether the transaction has written nothing to it and relies on nothing that it has read.
    pub(crate) fn is_untouched(&self) -> bool {
        self.observations.borrow().is_none()
            && self.layers.borrow().iter().all(|(_, layer)| layer.entries() == 0)
            && self.unresolved_keys.borrow().is_empty()
            && self.patches.borrow().is_empty()
    }

    /// Whether rows were counted.
    pub(crate) fn has_counted(&self) -> bool {
        self.observations.borrow().as_ref().is_some_and(|observations| observations.relies_on_weights().0)
    }

    /// Whether keys that were not looked up need not be for the commit: all that depends on their weights is what the
    /// table will count.
    pub(crate) fn may_stay_blind(&self) -> bool {
        self.declaration.options.blind_writes
            && self.layers.borrow().len() == 1
            && self.patches.borrow().is_empty()
            && !self.has_counted()
    }

    /// Notes the keys of writes that are about to be undone as read, if earlier counts relied on the weights of these
    /// writes.
    pub(crate) fn note_weights<'s>(&self, depth: u32, base: impl Fn() -> Result<Source<'s>>) -> Result<()> {
        let mut observations = self.observations.borrow_mut();
        let Some(observations) = &mut *observations else { return Ok(()) };
        let (relies_on_rows, relies_on_all) = observations.relies_on_weights();
        if !relies_on_rows {
            return Ok(());
        }
        for (_, layer) in self.layers.borrow().iter().filter(|(layer_depth, _)| *layer_depth >= depth) {
            let mut walk = Walk::first(layer.view());
            while walk.valid() {
                let key = walk.key().as_slice().into();
                let question = if relies_on_all { Question::Value(key) } else { Question::Live(key) };
                observations.note(&base, question)?;
                walk.next();
            }
        }
        Ok(())
    }

    /// Merges the layers deeper than `depth` into one of that depth.
    pub(crate) fn merge_down_to(&self, depth: u32) -> Result<()> {
        self.frees_from.set(self.frees_from.get().map(|said| said.min(depth)));
        self.patches.borrow_mut().merge_down_to(depth);
        let layers = &mut *self.layers.borrow_mut();
        while let [.., (lower_depth, _), (upper_depth, _)] = layers[..] {
            if upper_depth <= depth {
                break;
            }
            if lower_depth < depth {
                break;
            }
            let Some((_, upper)) = layers.pop() else { break };
            let Some((_, lower)) = layers.last_mut() else { break };
            merge_layer(lower, &upper)?;
        }
        if let Some((last_depth, _)) = layers.last_mut()
            && *last_depth > depth
        {
            *last_depth = depth;
        }
        Ok(())
    }
}

/// The tables of a transaction. A table never moves, so others can be added while it is read. The first takes no
/// allocation.
#[derive(Default)]
pub(crate) struct PrivateTables {
    first: OnceCell<PrivateTable>,
    others: FrozenVec<Box<PrivateTable>>,
}

impl PrivateTables {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PrivateTable> {
        self.first.get().into_iter().chain(self.others.iter())
    }

    /// Adds a table that is not in it yet.
    pub(crate) fn add(&self, table: PrivateTable) -> &PrivateTable {
        match self.first.set(table) {
            Ok(()) => self.first.get().expect("set above"),
            Err(table) => self.others.push_get(Box::new(table)),
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PrivateTable> {
        self.first.get_mut().into_iter().chain(self.others.as_mut().iter_mut().map(|table| &mut **table))
    }

    /// Forgets the tables that are not kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&PrivateTable) -> bool) {
        if self.first.get().is_some_and(|first| !is_kept(first)) {
            self.first = OnceCell::new();
        }
        self.others.as_mut().retain(|table| is_kept(table));
    }

    pub(crate) fn into_tables(self) -> impl Iterator<Item = PrivateTable> {
        let others = self.others.into_vec().into_iter().map(|table| *table);
        self.first.into_inner().into_iter().chain(others)
    }
}
