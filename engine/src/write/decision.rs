//! Decides what the write of one row changes: nothing, or an entry with its weight.

use crate::cache::Missing;
use crate::catalog::declaration::TableId;
use crate::catalog::record::{self, EntryState};
use crate::error::Result;
use crate::read::table_stack::TableStack;
use crate::tally::{Measures, Tally};
use crate::tree::{Place, Tree, When, Written};

/// The effect of the write of one row, decided before anything is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    state: EntryState,
    /// How the tally of the table changes.
    weight: Tally,
}

impl Decision {
    /// The change from `old` to `value` at `key`; `None` if there is nothing to change.
    #[inline(always)]
    pub(crate) fn of(measures: &Measures, key: &[u8], old: Option<&[u8]>, value: Option<&[u8]>) -> Option<Decision> {
        let state = EntryState::of(old.is_some(), value)?;
        let weight = if measures.only_rows() {
            Tally { rows: i64::from(value.is_some()) - i64::from(old.is_some()), ..Tally::ZERO }
        } else {
            let weigh = |row: Option<&[u8]>| row.map_or(Tally::ZERO, |row| measures.of_row(key, row));
            weigh(value) - weigh(old)
        };
        Some(Decision { state, weight })
    }

    /// Appends the entry to a log record.
    #[inline(always)]
    pub(crate) fn record(&self, out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>, measures: &Measures) {
        record::put_entry(out, self.state, key, value, &self.weight, measures);
    }

    /// Makes `out` a log record of this entry alone.
    #[inline(always)]
    pub(crate) fn record_alone(
        &self,
        out: &mut Vec<u8>,
        id: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        measures: &Measures,
    ) {
        out.clear();
        record::put_entries_header(out, id, 1);
        self.record(out, key, value, measures);
    }

    /// Makes the change in the newest layer, at `place` if it was located there. Room for it has been reserved.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        top: &mut Tree,
        place: Option<&mut Place>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        if top.is_bottom() {
            return match (value, place) {
                (Some(value), Some(place)) => top.put_at(place, key, value),
                (Some(value), None) => top.put(key, value, When::Always),
                (None, Some(place)) => top.remove_at(place, key).map(|change| (Written::Removed, change)),
                (None, None) => top.remove(key),
            }
            .map(|_| ());
        }
        let measures = *top.measures();
        let row = value.map_or(Tally::ZERO, |value| measures.of_row(key, value));
        let lower = self.weight;
        top.write_over(key, value, |existing| Some(existing.map_or(row - lower, |existing| existing.below))).map(|_| ())
    }

    /// The same, for the caller.
    pub(crate) fn written(&self) -> Written {
        match self.state {
            EntryState::Fresh => Written::Inserted,
            EntryState::Over => Written::Replaced,
            EntryState::Tombstone => Written::Removed,
        }
    }
}

/// What a write must know of the row at `key`: its value, or only whether it exists if only rows are measured.
pub(crate) fn old_of<'a>(stack: &TableStack<'a>, key: &[u8]) -> std::result::Result<Option<&'a [u8]>, Missing> {
    if stack.measures().only_rows() { Ok(stack.is_live(key)?.then_some(&[])) } else { stack.get(key) }
}
