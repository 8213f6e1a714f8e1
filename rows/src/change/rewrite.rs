//! Writing all rows of a table anew, in new trees, within one transaction: what others write to the table meanwhile is
//! a conflict.

use std::sync::Arc;

use quipu::{Result, Transaction};

use crate::change::definitions::Draft;
use crate::change::existing_rows::WithRows;
use crate::definition::table::TableDefinition;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::value::Values;
use crate::write::complete;

impl WithRows<'_> {
    /// Writes all rows of a table anew, in new trees: each as `make` has it, in the order of the columns of the draft.
    pub(crate) fn rewrite(
        &self,
        draft: &mut Draft,
        old: &Arc<TableDefinition>,
        make: &mut dyn FnMut(&RowView<'_>) -> Result<Values<'static>>,
    ) -> Result<Arc<TableDefinition>> {
        self.transaction.own.leave_trees(draft.number, old.document.trees());
        draft.document.layouts.clear();
        draft.document.missing.clear();
        draft.document.update_layout();
        self.look_at(draft.number, &draft.document)?;
        self.create_trees(Transaction::create_table, &mut draft.document)?;
        let ready = self.put(draft)?;
        let table = TableIn::new(self.transaction, Arc::clone(&ready))?;
        self.each_row(old, |row| {
            let mut values = make(&row.view()?)?;
            let mut given = (0..values.len()).filter(|&place| !complete::is_generated(&ready, place));
            given.try_for_each(|place| complete::accept(&ready, &mut values, place))?;
            complete::generate(&ready, &mut values, |_| false)?;
            complete::check(&ready, &values, None)?;
            table.write_new(&values).map(drop)
        })?;
        Ok(ready)
    }
}
