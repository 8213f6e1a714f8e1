//! The state that the log builds: the topology. Each entry that is agreed is applied to it, in order; a snapshot is an
//! encoded topology.
//!
//! Kept in memory: after a start it is what the node's tables or the snapshot say, whichever is newer, and agreed
//! entries are applied again. Those that the topology has already seen change nothing.

use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::RaftStateMachine;
use openraft::{
    EmptyNode, EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StoredMembership,
};
use quipu::Result;
use quipu_cluster::topology::{Entry, Topology};

use super::storage::LogStore;
use super::types::{LogId, Stored, Types, damaged, failed};

type Meta = SnapshotMeta<u64, EmptyNode>;

struct State {
    topology: Topology,
    applied: Option<LogId>,
    membership: StoredMembership<u64, EmptyNode>,
}

/// The topology as the log has it.
#[derive(Clone)]
pub(super) struct Machine {
    state: Arc<Mutex<State>>,
    store: LogStore,
    tell: Arc<dyn Fn(Topology) + Send + Sync>,
}

impl Machine {
    /// `known` is what the node's tables say; `tell` gets each topology that follows.
    pub(super) fn new(
        store: LogStore,
        known: Topology,
        tell: impl Fn(Topology) + Send + Sync + 'static,
    ) -> Result<Machine> {
        let mut state = State { topology: known, applied: None, membership: StoredMembership::default() };
        if let Some((meta, bytes)) = store.snapshot()? {
            let topology = Topology::decode(&bytes).ok_or_else(|| damaged("the topology of the snapshot"))?;
            if topology.applied > state.topology.applied {
                state.topology = topology;
            }
            (state.applied, state.membership) = (meta.last_log_id, meta.last_membership);
        }
        Ok(Machine { state: Arc::new(Mutex::new(state)), store, tell: Arc::new(tell) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topology so far.
    pub(super) fn topology(&self) -> Topology {
        self.state().topology.clone()
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Types>> {
        let (meta, bytes) = {
            let state = self.state();
            let snapshot_id = format!("{}-{}", state.topology.epoch.0, state.topology.applied);
            let meta = Meta { last_log_id: state.applied, last_membership: state.membership.clone(), snapshot_id };
            (meta, state.topology.encode())
        };
        let snapshot = (meta, bytes);
        let saved = self.store.save_snapshot(&snapshot);
        saved.map_err(|error| failed(&error, ErrorSubject::Snapshot(None), ErrorVerb::Write))?;
        Ok(Snapshot { meta: snapshot.0, snapshot: Box::new(Cursor::new(snapshot.1)) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Stored<(Option<LogId>, StoredMembership<u64, EmptyNode>)> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<()>>
    where
        I: IntoIterator<Item = openraft::Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state();
        let (before, mut answers) = (state.topology.applied, Vec::new());
        for entry in entries {
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(bytes) => {
                    // An entry of a later version: no node proposes one before all nodes know it.
                    if let Some(change) = Entry::decode(&bytes) {
                        state.topology.apply(entry.log_id.index, &change);
                    }
                }
                EntryPayload::Membership(membership) => {
                    state.membership = StoredMembership::new(Some(entry.log_id), membership);
                }
            }
            answers.push(());
        }
        if state.topology.applied != before {
            (self.tell)(state.topology.clone());
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(&mut self, meta: &Meta, snapshot: Box<Cursor<Vec<u8>>>) -> Stored<()> {
        let failed = |error| failed(&error, ErrorSubject::Snapshot(None), ErrorVerb::Write);
        let bytes = snapshot.into_inner();
        let topology = Topology::decode(&bytes).ok_or_else(|| failed(damaged("a snapshot that was sent")))?;
        self.store.save_snapshot(&(meta.clone(), bytes)).map_err(failed)?;
        let mut state = self.state();
        (state.applied, state.membership) = (meta.last_log_id, meta.last_membership.clone());
        if topology.applied > state.topology.applied {
            state.topology = topology;
            (self.tell)(state.topology.clone());
        }
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Types>>> {
        let read = self.store.snapshot();
        let read = read.map_err(|error| failed(&error, ErrorSubject::Snapshot(None), ErrorVerb::Read))?;
        Ok(read.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

#[cfg(test)]
mod tests {
    use openraft::testing::{StoreBuilder, Suite};
    use quipu::{Db, Options};
    use quipu_cluster::engine::EngineStore;

    use super::*;

    struct Builder;

    impl StoreBuilder<Types, LogStore, Machine, Db> for Builder {
        async fn build(&self) -> Stored<(Db, LogStore, Machine)> {
            let db = Db::open("/log", Options::without_files()).unwrap();
            let log = LogStore::new(EngineStore::open(&db, 7).unwrap());
            let known = Topology::founded(&[("http://a:1".to_owned(), String::new())], 7, 4, 1);
            let machine = Machine::new(log.clone(), known, |_| {}).unwrap();
            Ok((db, log, machine))
        }
    }

    /// The library's own tests of what it needs of a store.
    #[test]
    fn the_store_is_as_raft_needs_it() {
        Suite::test_all(Builder).unwrap();
    }
}
