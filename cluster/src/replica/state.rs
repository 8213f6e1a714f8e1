//! The state of a partition in a replica, besides its rows.

use crate::codec::{Fields, Put};
use crate::ids::Partition;

/// The first byte of the keys of these facts.
pub(super) const FACT: u8 = b'p';

/// What a replica knows of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The least `from` of which all rows are here, and of all above; [`PartitionState::NONE`] if of none.
    pub have: u8,
    /// The least `from` of rows that are being copied; [`PartitionState::NONE`] if none are. What is there of
    /// them is of this copy.
    pub copying: u8,
    /// Rows are left of an earlier time that have to go before new ones come.
    pub is_dirty: bool,
    /// Writes up to this timestamp are not let in.
    pub floor: u64,
    /// All replicas have agreed on all versions up to this timestamp; tombstones up to it are gone or going.
    pub horizon: u64,
    /// The largest `from` for which the horizon is.
    pub horizon_from_max: u8,
}

impl Default for PartitionState {
    fn default() -> Self {
        PartitionState {
            have: PartitionState::NONE,
            copying: PartitionState::NONE,
            is_dirty: false,
            floor: 0,
            horizon: 0,
            horizon_from_max: 0,
        }
    }
}

impl PartitionState {
    /// Has no rows.
    pub const NONE: u8 = u8::MAX;

    /// Whether an entity that is absent here has been up to this timestamp for good.
    pub fn is_absent_for_good(&self, from: u8, time: u64) -> bool {
        time <= self.horizon && from <= self.horizon_from_max
    }

    pub(super) fn key(partition: Partition) -> Vec<u8> {
        let [high, low] = partition.0.to_be_bytes();
        vec![FACT, high, low]
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.have, self.copying, u8::from(self.is_dirty), self.horizon_from_max];
        bytes.put_u64(self.floor);
        bytes.put_u64(self.horizon);
        bytes
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<(Partition, PartitionState)> {
        let [FACT, high, low] = *key else { return None };
        let mut fields = Fields(value);
        let (have, copying, is_dirty) = (fields.u8()?, fields.u8()?, fields.bool()?);
        let horizon_from_max = fields.u8()?;
        let (floor, horizon) = (fields.u64()?, fields.u64()?);
        let state = PartitionState { have, copying, is_dirty, floor, horizon, horizon_from_max };
        fields.end()?;
        Some((Partition(u16::from_be_bytes([high, low])), state))
    }
}
