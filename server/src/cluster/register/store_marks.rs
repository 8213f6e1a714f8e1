//! Marks of stores: how far each had come when that was last heard, so that one that was put back from a copy is
//! noticed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quipu::{Db, Durability, Result};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::ids::NodeId;
use quipu_cluster::tables::{Table, Tables};
use quipu_cluster::topology::StoreId;

use super::Register;
use crate::system::clock;

/// The name of the fact with this store's mark.
const OWN_MARK: &[u8] = b"own mark";
/// Before the node in the names of facts with the marks of peers' stores: store, mark.
const MARK: &[u8] = b"mark ";
/// The name of the fact that a peer knows a higher mark of this store.
pub(super) const WENT_BACK: &[u8] = b"went back";
/// What is said of such a store.
pub(in crate::cluster) const WENT_BACK_TEXT: &str = "the data directory is older than what another node has heard of it: it was put back from a copy, and lacks what \
     this node has confirmed since. Start the node on an empty directory: it copies from the others";

/// A greeting is younger than that: it may have a mark that was raised and told meanwhile.
pub(super) const GREETING_AGE_MAX: Duration = Duration::from_secs(10);

/// The mark of a peer's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) store: StoreId,
    pub(super) mark: u64,
    /// When it was heard; none if it was before the start.
    pub(super) heard: Option<Instant>,
}

/// This store's mark, and those of others.
pub(super) fn read(tables: &impl Tables) -> Result<(u64, BTreeMap<NodeId, Known>)> {
    let own = tables.get(Table::Facts, OWN_MARK)?.and_then(|bytes| bytes.first_chunk().copied());
    let mut marks = BTreeMap::new();
    tables.scan(Table::Facts, MARK, b"mark!", usize::MAX, |key, value| {
        let node = key.get(MARK.len()..).and_then(|rest| rest.first_chunk().copied()).map(u16::from_be_bytes);
        let known = value.split_first_chunk().and_then(|(store, rest)| Some((store, rest.first_chunk()?)));
        if let (Some(node), Some((store, mark))) = (node, known) {
            let (store, mark) = (StoreId(u64::from_le_bytes(*store)), u64::from_le_bytes(*mark));
            marks.insert(NodeId(node), Known { store, mark, heard: None });
        }
        true
    })?;
    Ok((own.map_or(0, u64::from_le_bytes), marks))
}

impl Register {
    /// Raises this store's mark, on stable storage. Returns the store and the mark.
    pub(in crate::cluster) fn raise_mark(&self) -> Result<(StoreId, u64)> {
        let (store, mark) = {
            let state = self.state();
            (state.store_id, state.mark + 1)
        };
        self.store.turn_and_sync(|turn| turn.put(Table::Facts, OWN_MARK, &mark.to_le_bytes()))?;
        self.state().mark = mark;
        Ok((store, mark))
    }

    /// Notes the mark of a peer's store, unless a higher one is known. Returns whether it was noted. It is not waited
    /// for: what is lost of it with the power notices less.
    pub(in crate::cluster) fn note_mark(&self, node: NodeId, store: StoreId, mark: u64) -> Result<bool> {
        let known = self.state().marks.get(&node).copied();
        if mark == 0 || known.is_some_and(|known| known.store == store && known.mark >= mark) {
            return Ok(false);
        }
        let (key, value) = ([MARK, &node.0.to_be_bytes()].concat(), [store.0.to_le_bytes(), mark.to_le_bytes()]);
        let ((), commit) = self.store.turn(|turn| turn.put(Table::Facts, &key, &value.concat()))?;
        commit.wait(Durability::Os)?;
        self.state().marks.insert(node, Known { store, mark, heard: Some(clock::moment()) });
        Ok(true)
    }

    /// This store's mark.
    pub(in crate::cluster) fn mark(&self) -> u64 {
        self.state().mark
    }

    /// The mark of a peer's store, as far as it is known; 0 if it is not.
    pub(in crate::cluster) fn mark_of(&self, node: NodeId) -> u64 {
        self.state().marks.get(&node).map_or(0, |known| known.mark)
    }

    /// A peer knows a higher mark of this store: it is not to be served from any more.
    pub(in crate::cluster) fn has_gone_back(&self) -> Result<()> {
        self.state().has_gone_back = true;
        self.store.turn_and_sync(|turn| turn.put(Table::Facts, WENT_BACK, b""))
    }

    /// Whether that is so.
    pub(in crate::cluster) fn is_back(&self) -> bool {
        self.state().has_gone_back
    }

    /// Makes the database a new one for the cluster: the node that it was restored for copies from the others.
    pub(in crate::cluster) fn forget_all(db: &Db) -> Result<()> {
        EngineStore::tables_of(db)?.iter().try_for_each(|table| db.drop_table(table.name()).map(|_| ()))
    }

    /// Forgets how far the stores of others had come: all of them are put back from copies.
    pub(in crate::cluster) fn forget_marks(db: &Db) -> Result<()> {
        let Some(seed) = EngineStore::stored_seed(db)? else { return Ok(()) };
        EngineStore::open(db, seed)?.turn_and_sync(|turn| {
            let mut marks = vec![WENT_BACK.to_vec()];
            turn.scan(Table::Facts, MARK, b"mark!", usize::MAX, |key, _| {
                marks.push(key.to_vec());
                true
            })?;
            marks.iter().try_for_each(|key| turn.remove(Table::Facts, key))
        })
    }
}
