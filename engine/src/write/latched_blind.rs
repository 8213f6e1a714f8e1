//! Blind writes in place: entries of unknown weight, laid over a table by a latched write.

use crate::catalog::declaration::TableId;
use crate::catalog::record;
use crate::error::Result;
use crate::state::publish::dropped;
use crate::tree::{When, Written};
use crate::write::blind::is_due;
use crate::write::latched_write::LatchedWrite;

impl LatchedWrite<'_> {
    /// Writes to a blind table without a look below memory; `None` if it has to look.
    pub(super) fn write_blind(
        &mut self,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        when: When,
    ) -> Result<Option<Written>> {
        let trees = self.turn.tables.get(id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
        if !trees.declaration.options.blind_writes || trees.is_single() {
            return Ok(None);
        }
        self.db.check_row(key, value)?;
        let Some(written) = trees.blind_outcome(key, value, when) else { return Ok(None) };
        if written == Written::Nothing {
            return Ok(Some(written));
        }
        let pages = trees.room_for_unresolved(1, (key.len() + value.map_or(0, <[u8]>::len)) as u64);
        self.begin_entry(id, key, value, pages)?;
        self.lay_over(id, key, value)?;
        Ok(Some(written))
    }

    /// Records an entry of unknown weight and lays it over the table. Room for it has been reserved.
    pub(super) fn lay_over(&mut self, id: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (db, epochs) = (self.db, self.epochs);
        let writer = &mut *self.turn;
        let trees = writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)?;
        record::put_blind_entry(&mut writer.record, key, value);
        self.versions.set_changing(true);
        let before = trees.unresolved_entries();
        trees.write_unresolved(key, value, epochs).map_err(|error| db.health.broken(error))?;
        self.is_resolving_due |= is_due(&(before..trees.unresolved_entries()));
        self.versions.set_changing(false);
        Ok(())
    }
}
