//! Checks, NOT NULL and foreign keys of tables that have rows.
//!
//! ```text
//!  1  the constraint is added, marked as not validated: from now on writers must satisfy it
//!  2  all rows of a snapshot from after 1 are checked, while others write
//!  3  the mark is removed; or, if a row violates the constraint, the constraint is
//! ```
//!
//! If the disk refuses step 3, the constraint is removed before the next change, or when the database is next opened.

use std::sync::Arc;

use quipu::{Progress, ReadableTable, Result, Snapshot};

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::failed_changes::Half;
use crate::catalogue::shared::Shared;
use crate::change::definitions::{Definitions, Draft, not_there};
use crate::change::existing_rows::index_for;
use crate::change::indexes::BuildOptions;
use crate::change::take_back::{same_mark, take_back, take_back_half, take_back_marked};
use crate::definition::document::{TableNumber, Unvalidated};
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::read::ordered::Ordered;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::constraint::{Check, Constraint, ForeignKey};
use crate::schema::invalid;
use crate::schema::table::key_name;
use crate::value::Values;
use crate::write::complete;
use crate::write::references::{self, prefix_access};
use crate::write::violations::broken_in_column;

/// Rows between two reports of progress.
const REPORTED_ROWS: u64 = 10_000;

impl Shared {
    /// Adds a check.
    pub(crate) fn add_check(
        self: &Arc<Self>,
        table: &str,
        check: Check,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let mark = Unvalidated::Check(check.name.clone());
        self.add_validated(table, &mark, None, progress, |_, draft| {
            draft.document.schema.checks.push(check);
            Ok(())
        })
    }

    /// Makes a column NOT NULL.
    pub(crate) fn set_not_null(
        self: &Arc<Self>,
        table: &str,
        column: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        // What a failed change has left must not be taken for what this one finds done.
        drop(self.begin_change()?);
        let ready = self.definition(&self.db, table)?.ok_or_else(|| crate::transaction::missing(table))?;
        let is_done = ready.columns[ready.place(column)?].declared.not_null;
        let mark = Unvalidated::NotNull(column.to_owned());
        // One that is so already must not be marked: a crash would take back what rows have always kept.
        if is_done && !ready.document.unvalidated.contains(&mark) {
            return Ok(());
        }
        self.add_validated(table, &mark, None, progress, |definitions, draft| {
            let place = definitions.ready(draft)?.place(column)?;
            draft.document.schema.columns[place].not_null = true;
            Ok(())
        })
    }

    /// Adds a foreign key, and an index for it if there is none.
    pub(crate) fn add_foreign_key(
        self: &Arc<Self>,
        table: &str,
        foreign_key: ForeignKey,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        // What a failed change has left must not be taken for what this one needs.
        drop(self.begin_change()?);
        let ready = self.definition(&self.db, table)?.ok_or_else(|| crate::transaction::missing(table))?;
        let places = foreign_key.columns.iter().map(|column| ready.place(column)).collect::<Result<Vec<_>>>()?;
        let mut index = None;
        if prefix_access(&ready, &places).is_none() {
            let declared = index_for(&foreign_key);
            let mark = Unvalidated::Index(declared.name.clone());
            let created = self.create_index_for(table, declared, &BuildOptions::default(), Some(&mark), progress);
            if let Err(error) = created {
                // It may be there all the same, if what failed came after the commit that made it ready.
                self.take_back_now_or_later(ready.number, &mark);
                return Err(error);
            }
            index = Some(mark);
        }
        let mark = Unvalidated::ForeignKey(foreign_key.name.clone());
        self.add_validated(
            table,
            &mark,
            index.as_ref().map(|index| (ready.number, index)),
            progress,
            |definitions, draft| definitions.link_foreign_key(draft, foreign_key),
        )
    }

    /// Takes back what bears a mark, if it is still there, or notes that it is to be taken back.
    fn take_back_now_or_later(self: &Arc<Self>, table: TableNumber, mark: &Unvalidated) {
        let half = (table, Half::Marked(mark.clone()));
        let _changing = self.changes.turn();
        match self.change(|definitions| take_back_half(definitions, &half)) {
            // What cannot be dropped now is dropped later.
            Ok(trees) => drop(self.drop_trees(trees)),
            Err(_) => self.left.leave(half.0, half.1),
        }
    }

    /// Adds a constraint that all rows must keep, and for which an index may have been made.
    fn add_validated(
        self: &Arc<Self>,
        table: &str,
        mark: &Unvalidated,
        index: Option<(TableNumber, &Unvalidated)>,
        progress: &mut dyn FnMut(Progress),
        add: impl FnOnce(&Definitions<'_>, &mut Draft) -> Result<()>,
    ) -> Result<()> {
        let begun = self.change_table(table, |definitions, draft| {
            if draft.document.unvalidated.iter().any(|other| same_mark(other, mark)) {
                return Err(invalid(format!("table {table}: such a constraint is being added already")));
            }
            add(definitions, draft)?;
            draft.document.unvalidated.push(mark.clone());
            Ok(draft.number)
        });
        let number = match begun {
            Ok(number) => number,
            Err(error) => {
                if let Some((number, index)) = index {
                    self.take_back_now_or_later(number, index);
                }
                return Err(error);
            }
        };
        let index = index.map(|(_, index)| index);
        let validated = self.validate(table, mark, progress);
        let ended = {
            let _changing = self.changes.turn();
            self.change(|definitions| {
                let mut draft = definitions.draft_of(number)?;
                let mut trees = Vec::new();
                for mark in [Some(mark), index].into_iter().flatten() {
                    if validated.is_err() {
                        trees.extend(take_back_marked(definitions, &mut draft, mark)?);
                    } else {
                        draft.document.unvalidated.retain(|other| !same_mark(other, mark));
                    }
                }
                definitions.put(&mut draft)?;
                Ok(trees)
            })
        };
        if ended.is_err() {
            for mark in [Some(mark), index].into_iter().flatten() {
                self.left.leave(number, Half::Marked(mark.clone()));
            }
        }
        validated.and(ended.and_then(|trees| self.drop_trees(trees)))
    }

    /// Looks whether all rows keep a constraint.
    fn validate(&self, table: &str, mark: &Unvalidated, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let snapshot = self.db.snapshot();
        let definition = self.definition(&snapshot, table)?.ok_or_else(|| crate::transaction::missing(table))?;
        if is_not_valid(&definition, mark) {
            return Ok(());
        }
        let in_snapshot = TableIn::new(&snapshot, Arc::clone(&definition))?;
        let total = in_snapshot.len()?;
        let mut done = 0;
        in_snapshot.for_each(Span::all(), |row| {
            done += 1;
            if done % REPORTED_ROWS == 0 || done == total {
                progress(Progress { stage: "validating rows", done, total });
            }
            validate_row(&snapshot, self, &definition, mark, &row).map(|()| true)
        })
    }
}

impl Definitions<'_> {
    /// Adds a foreign key to a definition, and has the table that it refers to know it.
    pub(crate) fn link_foreign_key(&self, draft: &mut Draft, foreign_key: ForeignKey) -> Result<()> {
        let mut added = [foreign_key];
        let name = draft.document.schema.table.clone();
        let own = (draft.number, &*name, &draft.document.schema.key[..]);
        let tables = self.complete_foreign_keys(own, &mut added)?;
        let before = draft.document.foreign_tables.clone();
        draft.document.schema.foreign_keys.extend(added);
        draft.document.foreign_tables.extend(&tables);
        if tables.contains(&draft.number) && !draft.document.referenced_by.contains(&draft.number) {
            draft.document.referenced_by.push(draft.number);
        }
        let ready = self.ready(draft)?;
        for foreign_key in &ready.foreign_keys {
            self.check_foreign_key(&ready, foreign_key)?;
        }
        self.link(draft.number, &before, &draft.document.foreign_tables)
    }

    /// Drops a check, a foreign key, or an index that no foreign key needs.
    pub(crate) fn drop_constraint(&self, table: &str, name: &str) -> Result<()> {
        self.change_table(table, |draft| {
            let schema = &draft.document.schema;
            let mark = if schema.checks.iter().any(|check| check.name == name) {
                Unvalidated::Check(name.to_owned())
            } else if schema.foreign_keys.iter().any(|foreign_key| foreign_key.name == name) {
                Unvalidated::ForeignKey(name.to_owned())
            } else {
                return Err(not_there(table, "check or foreign key", name));
            };
            draft.document.unvalidated.retain(|other| !same_mark(other, &mark));
            take_back(self, draft, &mark)
        })
    }

    /// Lets a column be NULL.
    pub(crate) fn drop_not_null(&self, table: &str, column: &str) -> Result<()> {
        self.change_table(table, |draft| {
            let place = self.ready(draft)?.place(column)?;
            let schema = &draft.document.schema;
            if schema.columns[place].identity.is_some() || schema.key.iter().any(|key| key_name(key) == column) {
                let what = "it is of the primary key, or has numbers of the table";
                return Err(invalid(format!("column {column} of table {table} must be NOT NULL: {what}")));
            }
            take_back(self, draft, &Unvalidated::NotNull(column.to_owned()))
        })
    }
}

/// Whether a constraint says that rows of before it may break it.
fn is_not_valid(definition: &TableDefinition, mark: &Unvalidated) -> bool {
    let schema = &definition.document.schema;
    match mark {
        Unvalidated::Check(name) => schema.checks.iter().any(|check| check.name == *name && check.not_valid),
        Unvalidated::ForeignKey(name) => {
            schema.foreign_keys.iter().any(|foreign_key| foreign_key.name == *name && foreign_key.not_valid)
        }
        Unvalidated::NotNull(_) | Unvalidated::Index(_) => false,
    }
}

/// Fails if a row breaks a constraint.
fn validate_row(
    snapshot: &Snapshot,
    shared: &Shared,
    definition: &TableDefinition,
    mark: &Unvalidated,
    row: &RowView<'_>,
) -> Result<()> {
    let values = || (0..definition.columns.len()).map(|place| row.value(place)).collect::<Result<Values<'_>>>();
    match mark {
        Unvalidated::Check(name) => {
            let checked = definition.checks.iter().filter(|check| check.declared.name == *name);
            for check in checked {
                complete::check_one(definition, &values()?, check)?;
            }
            Ok(())
        }
        Unvalidated::NotNull(name) => {
            let place = definition.place(name)?;
            if !row.value(place)?.is_null() {
                return Ok(());
            }
            let what = "NULL in a column that is NOT NULL";
            Err(broken_in_column(definition, &values()?, place, Constraint::NotNull, what))
        }
        Unvalidated::ForeignKey(name) => {
            let Some(foreign_key) = definition.foreign_keys.iter().find(|known| known.declared.name == *name) else {
                return Ok(());
            };
            let row = values()?;
            let parent = shared.parent_in(snapshot, definition, foreign_key.table)?;
            let parent = parent.as_deref().unwrap_or(definition);
            let Some((tree, key)) = references::referred_key(foreign_key, parent, &row)? else { return Ok(()) };
            if snapshot.tree(tree)?.contains(key)? {
                return Ok(());
            }
            Err(references::without_row(definition, foreign_key, parent, &row))
        }
        Unvalidated::Index(_) => Ok(()),
    }
}
