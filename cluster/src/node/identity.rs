//! The owner of a store: what a store records about the node that it belongs to.

use quipu::Result;

use crate::codec::{Fields, Put};
use crate::ids::{Epoch, NodeId};
use crate::limits::Limits;
use crate::replica::Replica;
use crate::routing::Routing;
use crate::tables::{Table, Tables};
use crate::topology::{StoreId, Topology};

/// Where the topology is stored that the node knows.
pub(super) const TOPOLOGY: &[u8] = b"topology";
const STORE: &[u8] = b"store";

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The store's own id.
    pub store: StoreId,
    /// The topology that it knows.
    pub topology: Topology,
}

impl Identity {
    /// Gives a new store to a node. At epoch 0 it has all that the node keeps, since nothing was written yet; later it
    /// has nothing, and copies.
    pub fn found<T: Tables>(&self, tables: &mut T, limits: &Limits) -> Result<()> {
        self.found_without_rows(tables)?;
        if self.topology.epoch == Epoch(0) {
            let routing = Routing::new(self.topology.clone());
            Replica::open(self.node, limits.clone(), tables)?.found(&routing, tables)?;
        }
        Ok(())
    }

    /// Gives a new store to a node that has lost its own: it has nothing of what it keeps, and copies.
    ///
    /// What the lost store has confirmed may not be counted any more: before this one is opened, all others must have
    /// forgotten their requests under way.
    pub fn found_without_rows<T: Tables>(&self, tables: &mut T) -> Result<()> {
        let mut bytes = Vec::new();
        bytes.put_u16(self.node.0);
        bytes.put_u64(self.store.0);
        tables.put(Table::Facts, STORE, &bytes)?;
        tables.put(Table::Facts, TOPOLOGY, &self.topology.encode())
    }

    /// What a store says; none if it is new, or damaged.
    pub fn read<T: Tables>(tables: &T) -> Result<Option<Identity>> {
        let stored = tables.get(Table::Facts, STORE)?.zip(tables.get(Table::Facts, TOPOLOGY)?);
        Ok(stored.and_then(|(bytes, topology)| {
            let mut fields = Fields(&bytes);
            Some(Identity {
                node: fields.node()?,
                store: StoreId(fields.u64()?),
                topology: Topology::decode(&topology)?,
            })
        }))
    }
}
