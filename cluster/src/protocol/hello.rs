//! The greeting of two nodes that connect.

use crate::codec::{Fields, Put};
use crate::ids::NodeId;
use crate::topology::Settings;

/// The members of a cluster greet each other with this when they connect. It is not a frame: it comes before the
/// version of frames is known, and its own format never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Versions of the protocol that the sender speaks.
    pub versions: (u16, u16),
    /// The cluster's id.
    pub cluster: u64,
    /// The sender.
    pub node: NodeId,
    /// Its store.
    pub store: u64,
    /// What its store has come to: a number that grows while the store is written to. Others remember it, and notice a
    /// store that has gone back in time.
    pub mark: u64,
    /// The last entry of the log that it has applied.
    pub applied: u64,
    /// What it was told, or its store knows.
    pub settings: Settings,
    /// Its addresses as it was given them, so that different lists can be shown.
    pub list: &'a str,
}

impl<'a> Hello<'a> {
    const MAGIC: [u8; 8] = *b"quipu-p\0";

    /// Magic, versions, cluster, node, store, mark, applied, settings, list.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Hello::MAGIC.to_vec();
        out.put_u16(self.versions.0);
        out.put_u16(self.versions.1);
        out.put_u64(self.cluster);
        out.put_u16(self.node.0);
        out.put_u64(self.store);
        out.put_u64(self.mark);
        out.put_u64(self.applied);
        out.put_u8(self.settings.replicas);
        out.put_u32(self.settings.partitions);
        out.put_u64(self.settings.seed);
        out.put_short(self.list.as_bytes());
        out
    }

    /// Decodes the result of [`Hello::encode`]; `None` for any other bytes.
    pub fn decode(bytes: &'a [u8]) -> Option<Hello<'a>> {
        let mut f = Fields(bytes.strip_prefix(&Hello::MAGIC)?);
        let hello = Hello {
            versions: (f.u16()?, f.u16()?),
            cluster: f.u64()?,
            node: f.node()?,
            store: f.u64()?,
            mark: f.u64()?,
            applied: f.u64()?,
            settings: Settings { replicas: f.u8()?, partitions: f.u32()?, seed: f.u64()? },
            list: f.text()?,
        };
        f.end()?;
        Some(hello)
    }
}
